//! Flaws that show after a restart, a bad block or a failed commit.

use std::collections::BTreeMap;

use buffer::Rope;
use store::sim::SimStore;
use store::{
    AttrChoice, CollectionId, Completion, ObjectChange, ObjectStore, ReadOutcome, ReadRequest, Rehoming,
    Step, StoreError, StoreShard, Token, Transaction,
};
use types::GHObject;

use super::{Flaw, apply_now, data_of, look};

/// Replays what had been refused because it followed a refusal: opening a store acknowledges everything.
#[derive(Default)]
pub struct ReplaysWhatFollowedARefusal {
    queued: BTreeMap<Token, Transaction>,
    after: Vec<Token>,
}

impl Flaw for ReplaysWhatFollowedARefusal {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.queued.insert(token, txn.clone());
        inner.queue(txn, token);
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        for completion in out {
            if let Completion::Refused { token, error: StoreError::AfterRefused(_) } = completion {
                self.after.push(*token);
            }
        }
    }

    fn crashed(&mut self, inner: &mut SimStore, _: &[Token]) {
        for token in std::mem::take(&mut self.after) {
            apply_now(inner, self.queued[&token].clone());
        }
    }

    fn reopened(&mut self, _: &mut SimStore) {
        self.after.clear();
    }
}

/// Writes long transactions in two records of its log, and replays the first without the second.
#[derive(Default)]
pub struct TearsLongTransactions {
    queued: BTreeMap<Token, Transaction>,
}

impl Flaw for TearsLongTransactions {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        if txn.steps().len() > 256 || txn.data_bytes() > 2 << 20 {
            self.queued.insert(token, txn.clone());
        }
        inner.queue(txn, token);
    }

    fn crashed(&mut self, inner: &mut SimStore, lost: &[Token]) {
        let queued = std::mem::take(&mut self.queued);
        for txn in lost.iter().filter_map(|token| queued.get(token)) {
            let half: Vec<Step> = txn.steps()[..txn.steps().len() / 2].to_vec();
            apply_now(inner, super::contents::with_steps(txn, half));
        }
    }
}

/// Takes the last of what a power loss interrupts, without what comes before it.
#[derive(Default)]
pub struct KeepsTheLastOfTheLost {
    queued: BTreeMap<Token, Transaction>,
}

impl Flaw for KeepsTheLastOfTheLost {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.queued.insert(token, txn.clone());
        inner.queue(txn, token);
    }

    fn crashed(&mut self, inner: &mut SimStore, lost: &[Token]) {
        let queued = std::mem::take(&mut self.queued);
        if let (Some(last), true) = (lost.last().and_then(|token| queued.get(token)), lost.len() > 1) {
            apply_now(inner, last.clone());
        }
    }
}

/// Takes a power loss for a close in order where the store was closed in order before: what came after the close is
/// not replayed.
#[derive(Default)]
pub struct SkipsReplayAfterAClose {
    closed: bool,
    written: BTreeMap<(CollectionId, GHObject), Rope>,
}

impl Flaw for SkipsReplayAfterAClose {
    fn reopened(&mut self, _: &mut SimStore) {
        self.closed = true;
        self.written.clear();
    }

    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        for (collection, object) in txn.objects() {
            let key = (*collection, object.clone());
            if self.closed && !self.written.contains_key(&key) {
                if let Some(data) = data_of(inner, *collection, object) {
                    self.written.insert(key, data);
                }
            }
        }
        inner.queue(txn, token);
    }

    fn crashed(&mut self, inner: &mut SimStore, _: &[Token]) {
        self.closed = false;
        for ((collection, object), data) in std::mem::take(&mut self.written) {
            let mut txn = Transaction::new();
            txn.remove(collection, &object).write(collection, &object, 0, data);
            apply_now(inner, txn);
        }
    }
}

/// Forgets in a restart which objects share blocks: what is written to the one shows in the other.
#[derive(Default)]
pub struct ForgetsSharingInRestarts {
    clones: BTreeMap<(CollectionId, GHObject), GHObject>,
    forgotten: BTreeMap<(CollectionId, GHObject), GHObject>,
}

impl Flaw for ForgetsSharingInRestarts {
    fn queue(&mut self, inner: &mut SimStore, mut txn: Transaction, token: Token) {
        let mut more = Transaction::new();
        for step in txn.steps() {
            match step {
                Step::Clone { from, to } if txn.object(*from).0 == txn.object(*to).0 => {
                    let (collection, from) = txn.object(*from);
                    self.clones.insert((collection, from.clone()), txn.object(*to).1.clone());
                }
                Step::Object { object, change: ObjectChange::Write { offset, data, .. } } => {
                    let (collection, object) = txn.object(*object);
                    if let Some(clone) = self.forgotten.get(&(collection, object.clone())) {
                        let size = data_of(inner, collection, clone).map_or(0, |d| d.len() as u64);
                        if offset + data.len() as u64 <= size {
                            more.write(collection, clone, *offset, data.clone());
                        }
                    }
                }
                _ => {}
            }
        }
        for (collection, object) in txn.objects() {
            self.forgotten.retain(|(id, _), clone| id != collection || clone != object);
        }
        txn.append(more);
        inner.queue(txn, token);
    }

    fn reopened(&mut self, _: &mut SimStore) {
        self.forgotten.append(&mut self.clones);
    }

    fn crashed(&mut self, inner: &mut SimStore, _: &[Token]) {
        self.reopened(inner);
    }
}

/// Has no reserve once it was opened again: a full store then takes nothing, not even what makes room.
#[derive(Default)]
pub struct HasNoReserveOnceOpenedAgain {
    reopened: bool,
}

impl Flaw for HasNoReserveOnceOpenedAgain {
    fn reopened(&mut self, _: &mut SimStore) {
        self.reopened = true;
    }

    fn crashed(&mut self, _: &mut SimStore, _: &[Token]) {
        self.reopened = true;
    }

    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        match self.reopened {
            true => super::spaces::KeepsNoReserve.queue(inner, txn, token),
            false => inner.queue(txn, token),
        }
    }
}

/// What makes a bad block look good, with what happens to be there.
#[derive(Clone, Copy)]
pub enum Washing {
    Truncate,
    Zero,
    Rename,
    Split,
    Rehoming,
}

/// Computes the checksum of a bad block again when something else is done with it.
pub struct WashesClean {
    by: Washing,
    bad: Option<(CollectionId, GHObject)>,
}

impl WashesClean {
    pub fn by(by: Washing) -> Self {
        Self { by, bad: None }
    }

    fn wash(&mut self, inner: &mut SimStore) {
        if let Some((collection, object)) = self.bad.take() {
            let mut txn = Transaction::new();
            txn.write(collection, &object, 0, vec![7; 256 << 10].into());
            apply_now(inner, txn);
        }
    }
}

impl Flaw for WashesClean {
    fn damage(&mut self, inner: &mut SimStore, collection: CollectionId, object: &GHObject, offset: u64) {
        self.bad = Some((collection, object.clone()));
        inner.damage(collection, object, offset);
    }

    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let washes = |step: &Step| {
            matches!(
                (self.by, step),
                (Washing::Truncate, Step::Object { change: ObjectChange::Truncate(_), .. })
                    | (Washing::Zero, Step::Object { change: ObjectChange::Zero { .. }, .. })
                    | (Washing::Rename, Step::Rename { .. })
                    | (Washing::Split, Step::Collection { .. })
            )
        };
        if txn.steps().iter().any(washes) {
            self.wash(inner);
        }
        inner.queue(txn, token);
    }

    fn rehome(
        &mut self,
        inner: &mut SimStore,
        (id, to, max): (CollectionId, StoreShard, usize),
        token: Token,
    ) {
        if matches!(self.by, Washing::Rehoming) {
            self.wash(inner);
        }
        inner.rehome(id, to, max, token);
    }
}

/// Completes no read once a commit has failed.
#[derive(Default)]
pub struct HangsReadsAfterAFailedCommit {
    failed: bool,
}

impl Flaw for HangsReadsAfterAFailedCommit {
    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        let io = |c: &Completion| matches!(c, Completion::Refused { error: StoreError::Io { .. }, .. });
        self.failed = self.failed || out.iter().any(io);
        out.retain(|c| !self.failed || !matches!(c, Completion::Read { .. }));
    }

    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        if self.failed { None } else { inner.peek(request) }
    }

    fn reopened(&mut self, _: &mut SimStore) {
        self.failed = false;
    }
}

/// Says that what is behind the failed commit, and had been begun, is durable.
pub struct CommitsBehindAFailedCommit;

impl Flaw for CommitsBehindAFailedCommit {
    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        let io = |c: &Completion| matches!(c, Completion::Refused { error: StoreError::Io { .. }, .. });
        if let Some(first) = out.iter().position(io) {
            for completion in &mut out[first + 1..] {
                if let Completion::Refused { token, error: StoreError::Io { .. } | StoreError::Stopped } =
                    completion
                {
                    *completion = Completion::Committed { token: *token };
                }
            }
        }
    }
}

/// Goes on re-homing when it has stopped.
pub struct RehomesWhenStopped;

impl Flaw for RehomesWhenStopped {
    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        for completion in out {
            if let Completion::Rehomed { result: result @ Err(StoreError::Stopped), .. } = completion {
                *result = Ok(Rehoming::Done);
            }
        }
    }
}

/// Leaves what it moved in the shard that it came from: when the collection was moved back there, a power loss shows the
/// copy that was left.
#[derive(Default)]
pub struct FindsStaleCopies {
    left: BTreeMap<(CollectionId, StoreShard), BTreeMap<GHObject, Rope>>,
}

impl Flaw for FindsStaleCopies {
    fn rehome(
        &mut self,
        inner: &mut SimStore,
        (id, to, max): (CollectionId, StoreShard, usize),
        token: Token,
    ) {
        let from = inner.shard_of(id);
        let (start, end, attrs) = (GHObject::min(), GHObject::max(), AttrChoice::None);
        let list = ReadRequest::List { collection: id, start, end, objects_max: usize::MAX, attrs };
        if let Ok(ReadOutcome::Objects(page)) = look(inner, &list) {
            let data = |(o, _): (GHObject, _)| Some((o.clone(), data_of(inner, id, &o)?));
            let copy = page.objects.into_iter().filter_map(data).collect();
            self.left.entry((id, from)).or_insert(copy);
        }
        inner.rehome(id, to, max, token);
    }

    fn crashed(&mut self, inner: &mut SimStore, _: &[Token]) {
        let back = |(id, shard): &(CollectionId, StoreShard)| inner.shard_of(*id) == *shard;
        let found: Vec<_> =
            self.left.iter().filter(|(k, _)| back(k)).map(|(k, v)| (k.0, v.clone())).collect();
        for (id, objects) in found {
            for (object, data) in objects {
                let mut txn = Transaction::new();
                txn.remove(id, &object).write(id, &object, 0, data);
                apply_now(inner, txn);
            }
        }
    }
}
