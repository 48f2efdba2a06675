//! Flaws in when and how requests complete, and in what order they take effect.

use std::collections::{BTreeMap, BTreeSet};

use store::sim::SimStore;
use store::{
    CollectionId, Completion, MemStore, ObjectStore, ReadOutcome, ReadRequest, Step, StoreError, StoreShard,
    Token, Transaction,
};
use types::{GHObject, UTime};

use super::Flaw;

/// Shows one of some completions again.
#[derive(Default)]
pub struct CompletesTwice {
    seen: u64,
    again: Vec<Completion>,
}

impl Flaw for CompletesTwice {
    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        out.append(&mut self.again);
        let mut new = Vec::new();
        inner.completions(&mut new);
        for completion in &new {
            self.seen += 1;
            if self.seen % 50 == 0 {
                self.again.push(completion.clone());
            }
        }
        out.append(&mut new);
    }
}

/// Never completes one of some reads.
#[derive(Default)]
pub struct ForgetsACompletion {
    seen: u64,
}

impl Flaw for ForgetsACompletion {
    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        let mut new = Vec::new();
        inner.completions(&mut new);
        for completion in new {
            self.seen += 1;
            if self.seen % 70 != 0 || !matches!(completion, Completion::Read { .. }) {
                out.push(completion);
            }
        }
    }
}

/// Shows what became durable together the newest first.
pub struct CompletesBackwards;

impl Flaw for CompletesBackwards {
    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        let mut new = Vec::new();
        inner.completions(&mut new);
        out.extend(new.into_iter().rev());
    }
}

/// Completes what it refuses before the turn.
#[derive(Default)]
pub struct CompletesBeforeTheTurn {
    early: Vec<Completion>,
}

impl Flaw for CompletesBeforeTheTurn {
    fn read(&mut self, inner: &mut SimStore, request: ReadRequest, token: Token) {
        match inner.peek(&request) {
            Some(result) => self.early.push(Completion::Read { token, result }),
            None => inner.read(request, token),
        }
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        out.append(&mut self.early);
        inner.completions(out);
    }
}

/// Applies what was built on a refused transaction.
pub struct AppliesWhatFollowsARefusal;

impl Flaw for AppliesWhatFollowsARefusal {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        inner.queue(txn, token);
        inner.acknowledge(token);
    }
}

/// Opens everything by any acknowledgement.
#[derive(Default)]
pub struct AcknowledgesEverything {
    queued: Vec<Token>,
}

impl Flaw for AcknowledgesEverything {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.queued.push(token);
        inner.queue(txn, token);
    }

    fn acknowledge(&mut self, inner: &mut SimStore, _: Token) {
        self.queued.iter().for_each(|token| inner.acknowledge(*token));
    }
}

/// Opens only the first of the collections that a refusal closed.
#[derive(Default)]
pub struct ForgetsToOpenOthers {
    queued: BTreeMap<Token, BTreeSet<CollectionId>>,
}

impl Flaw for ForgetsToOpenOthers {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.queued.insert(token, txn.collections().into_iter().collect());
        inner.queue(txn, token);
    }

    fn acknowledge(&mut self, inner: &mut SimStore, refused: Token) {
        inner.acknowledge(refused);
        let mut named = self.queued.get(&refused).into_iter().flatten();
        if let Some(second) = named.nth(1) {
            // Closed again, by a refusal that is never acknowledged.
            let mut bad = Transaction::new();
            bad.touch(*second, &GHObject::max());
            inner.queue(bad, Token(super::OWN_TOKENS.start + refused.0));
        }
    }
}

/// What is refused because of another refusal does not close its own collections.
#[derive(Default)]
pub struct ClosesTooFew {
    shadow: Option<MemStore>,
}

impl Flaw for ClosesTooFew {
    fn queue(&mut self, inner: &mut SimStore, mut txn: Transaction, token: Token) {
        let shadow = self.shadow.get_or_insert_with(|| MemStore::with_shards(1 << 30, inner.shards()));
        shadow.queue(txn.clone(), token);
        shadow.turn(UTime::default());
        let mut out = Vec::new();
        shadow.completions(&mut out);
        if let Some(Completion::Refused { error: StoreError::AfterRefused(closed), .. }) = out.pop() {
            txn = Transaction::new();
            txn.log_trim(closed, Default::default());
        }
        inner.queue(txn, token);
    }

    fn acknowledge(&mut self, inner: &mut SimStore, refused: Token) {
        self.shadow.iter_mut().for_each(|s| s.acknowledge(refused));
        inner.acknowledge(refused);
    }
}

enum Held {
    Queue(Transaction, Token),
    Acknowledge(Token),
    Rehome(CollectionId, StoreShard, usize, Token),
}

/// Reads what is begun, not what is queued.
#[derive(Default)]
pub struct ReadsMissWhatIsQueued {
    held: Vec<Held>,
}

impl Flaw for ReadsMissWhatIsQueued {
    fn queue(&mut self, _: &mut SimStore, txn: Transaction, token: Token) {
        self.held.push(Held::Queue(txn, token));
    }

    fn acknowledge(&mut self, _: &mut SimStore, refused: Token) {
        self.held.push(Held::Acknowledge(refused));
    }

    fn rehome(&mut self, _: &mut SimStore, (id, to, max): (CollectionId, StoreShard, usize), token: Token) {
        self.held.push(Held::Rehome(id, to, max, token));
    }

    fn turn(&mut self, inner: &mut SimStore) {
        for held in self.held.drain(..) {
            match held {
                Held::Queue(txn, token) => inner.queue(txn, token),
                Held::Acknowledge(token) => inner.acknowledge(token),
                Held::Rehome(id, to, max, token) => inner.rehome(id, to, max, token),
            }
        }
    }
}

/// Reads what is there when the read is begun, not when it was queued.
#[derive(Default)]
pub struct ReadsSeeWhatIsQueuedLater {
    held: Vec<(ReadRequest, Token)>,
}

impl Flaw for ReadsSeeWhatIsQueuedLater {
    fn read(&mut self, _: &mut SimStore, request: ReadRequest, token: Token) {
        self.held.push((request, token));
    }

    fn peek(&mut self, _: &mut SimStore, _: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        None
    }

    fn turn(&mut self, inner: &mut SimStore) {
        self.held.drain(..).for_each(|(request, token)| inner.read(request, token));
    }
}

/// Answers from a cache that writes don't reach.
#[derive(Default)]
pub struct PeeksStaleData {
    seen: Vec<(ReadRequest, Result<ReadOutcome, StoreError>)>,
}

impl Flaw for PeeksStaleData {
    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        if let Some((_, result)) = self.seen.iter().find(|(seen, _)| seen == request) {
            return Some(result.clone());
        }
        let result = inner.peek(request)?;
        if matches!(request, ReadRequest::Object { .. } | ReadRequest::Data { .. }) {
            self.seen.push((request.clone(), result.clone()));
        }
        Some(result)
    }
}

/// Shows what is ready only in the next turn, and asks for none.
#[derive(Default)]
pub struct NeedsAnotherTurn {
    held: Vec<Completion>,
    shown: Vec<Completion>,
}

impl Flaw for NeedsAnotherTurn {
    fn turn(&mut self, _: &mut SimStore) {
        self.shown.append(&mut self.held);
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(&mut self.held);
        out.append(&mut self.shown);
    }
}

/// Takes acknowledgements with the next turn, behind what was queued after them.
#[derive(Default)]
pub struct AcknowledgesLate {
    held: Vec<Token>,
}

impl Flaw for AcknowledgesLate {
    fn acknowledge(&mut self, _: &mut SimStore, refused: Token) {
        self.held.push(refused);
    }

    fn turn(&mut self, inner: &mut SimStore) {
        self.held.drain(..).for_each(|token| inner.acknowledge(token));
    }
}

/// Takes acknowledgements at once, before what was queued before them. Everything else keeps its order.
#[derive(Default)]
pub struct AcknowledgementsOvertake {
    held: ReadsMissWhatIsQueued,
}

impl Flaw for AcknowledgementsOvertake {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.held.queue(inner, txn, token);
    }

    fn read(&mut self, inner: &mut SimStore, request: ReadRequest, token: Token) {
        self.held.turn(inner);
        inner.read(request, token);
    }

    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        self.held.turn(inner);
        inner.peek(request)
    }

    fn rehome(
        &mut self,
        inner: &mut SimStore,
        (id, to, max): (CollectionId, StoreShard, usize),
        token: Token,
    ) {
        self.held.turn(inner);
        inner.rehome(id, to, max, token);
    }

    fn turn(&mut self, inner: &mut SimStore) {
        self.held.turn(inner);
    }
}

/// Does a transaction's steps object by object, taking each place of the table for another object.
pub struct GroupsByTablePlace;

impl Flaw for GroupsByTablePlace {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let place = |step: &Step| match step {
            Step::Object { object, .. } => {
                txn.objects().iter().position(|(_, name)| std::ptr::eq(name, txn.object(*object).1))
            }
            _ => None,
        };
        let mut steps: Vec<(usize, Step)> =
            txn.steps().iter().filter_map(|step| Some((place(step)?, step.clone()))).collect();
        if steps.len() < txn.steps().len() {
            return inner.queue(txn, token);
        }
        steps.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let mut grouped = Transaction::new();
        for (collection, object) in txn.objects() {
            grouped.name(*collection, object);
        }
        for (_, step) in steps {
            grouped.push(step);
        }
        inner.queue(grouped, token);
    }
}
