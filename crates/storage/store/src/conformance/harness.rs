//! Driving a store request by request, and watching what holds for every completion.

#![allow(clippy::disallowed_methods, reason = "it waits for queues and stores that have threads")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use types::UTime;

use super::factory::Properties;
use super::kept::Kept;
use crate::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Rehoming, StoreError, StoreShard, Token,
    Transaction,
};

type ReadResult = Result<ReadOutcome, StoreError>;

/// How many deadlines in a row may bring nothing.
const IDLE_DEADLINES_MAX: u32 = 100_000;

/// How many turns in a row a store with nothing to do may ask for without any time between them.
const RESTLESS_TURNS_MAX: u32 = 10_000;

/// How long a threaded store is given before the clock is advanced to its deadline.
const THREAD_MOMENT: Duration = Duration::from_millis(5);

/// What the waker sets.
#[derive(Default)]
struct Wake {
    woken: Mutex<bool>,
    called: Condvar,
}

impl Wake {
    fn call(&self) {
        *self.woken.lock().expect("no panic under this lock") = true;
        self.called.notify_all();
    }

    /// Whether the waker was called since the last time, waiting at most `patience` for it.
    fn take(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut woken = self.woken.lock().expect("no panic under this lock");
        while !*woken {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            woken = self.called.wait_timeout(woken, left).expect("no panic under this lock").0;
        }
        std::mem::take(&mut *woken)
    }
}

enum Kind {
    /// With the collections that it names.
    Transaction(Vec<CollectionId>),
    /// With what `peek` answered when it was queued, where that must be the same.
    Read(Option<ReadResult>),
    Rehome,
}

struct Open {
    /// Whether a turn has begun it.
    begun: bool,
    kind: Kind,
}

/// A store under watch. Every completion is checked: it belongs to a request that a turn has begun and that was not
/// completed before, transactions of a collection complete in order, a read answers what `peek` answered when it was
/// queued. When the harness is dropped every request must have been completed once, and everything that reads returned
/// must still be what it was.
pub struct Harness<S: ObjectStore> {
    store: Option<S>,
    properties: Properties,
    now: UTime,
    wake: Arc<Wake>,
    next_token: u64,
    open: BTreeMap<Token, Open>,
    /// Requests that no turn has begun.
    fresh: Vec<Token>,
    /// Transactions that are not completed, by collection, in order.
    queues: BTreeMap<CollectionId, VecDeque<Token>>,
    done: BTreeMap<Token, Completion>,
    kept: Kept,
}

impl<S: ObjectStore> Harness<S> {
    pub fn new(mut store: S, properties: Properties) -> Self {
        let wake = Arc::new(Wake::default());
        let called = Arc::clone(&wake);
        store.set_waker(Arc::new(move || called.call()));
        assert_eq!(store.shards(), properties.shards, "the properties say how many shards the store has");
        Self {
            store: Some(store),
            properties,
            now: UTime { sec: 1_000_000, nsec: 0 },
            wake,
            next_token: 1,
            open: BTreeMap::new(),
            fresh: Vec::new(),
            queues: BTreeMap::new(),
            done: BTreeMap::new(),
            kept: Kept::default(),
        }
    }

    /// The store itself, for what the trait doesn't offer.
    pub fn store(&mut self) -> &mut S {
        self.store.as_mut().expect("only `take` and `drop` take the store away")
    }

    /// Queues without waiting.
    pub fn queue(&mut self, txn: Transaction) -> Token {
        let collections: Vec<_> = txn.collections().into_iter().collect();
        let token = self.token(Kind::Transaction(collections.clone()));
        collections.into_iter().for_each(|c| self.queues.entry(c).or_default().push_back(token));
        self.store().queue(txn, token);
        token
    }

    /// Reads without waiting.
    pub fn ask(&mut self, request: ReadRequest) -> Token {
        let peeked = self.store().peek(&request);
        // A read without a collection has no order with what is under way; one that verifies may look elsewhere.
        let comparable = match &request {
            ReadRequest::StatFs | ReadRequest::Collections => self.open.is_empty(),
            ReadRequest::Data { verify, .. } => !verify,
            _ => true,
        };
        let token = self.token(Kind::Read(peeked.filter(|_| comparable)));
        self.store().read(request, token);
        token
    }

    /// Asks for a step of re-homing without waiting.
    pub fn ask_rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize) -> Token {
        let token = self.token(Kind::Rehome);
        self.store().rehome(collection, to, objects_max, token);
        token
    }

    pub fn acknowledge(&mut self, refused: Token) {
        self.store().acknowledge(refused);
    }

    pub fn shards(&mut self) -> u32 {
        self.store().shards()
    }

    pub fn shard_of(&mut self, collection: CollectionId) -> StoreShard {
        self.store().shard_of(collection)
    }

    fn token(&mut self, kind: Kind) -> Token {
        self.next_token = self.next_token.wrapping_add(1);
        let token = Token(self.next_token);
        self.open.insert(token, Open { begun: false, kind });
        self.fresh.push(token);
        token
    }

    /// Gives the tokens that were used to the requests to come: everything is completed and acknowledged.
    pub fn use_tokens_again(&mut self) {
        self.settle();
        self.turn();
        self.done.clear();
        self.next_token = 1;
    }

    /// Gives the requests to come tokens from this number on. None of those may be in use.
    pub fn number_tokens_from(&mut self, first: u64) {
        self.next_token = first.wrapping_sub(1);
    }

    /// Ends a burst: the store begins what was queued.
    pub fn turn(&mut self) {
        self.now = self.now.after(Duration::from_micros(10));
        self.turn_now();
    }

    /// The same at the time of the last turn.
    pub fn turn_now(&mut self) {
        // What is there before the turn can't be of requests that no turn has begun.
        self.collect();
        for token in std::mem::take(&mut self.fresh) {
            if let Some(open) = self.open.get_mut(&token) {
                open.begun = true;
            }
        }
        let now = self.now;
        self.store().turn(now);
        self.collect();
    }

    /// Takes the completions that are there, and checks them.
    fn collect(&mut self) {
        let mut out = Vec::new();
        self.store().completions(&mut out);
        out.into_iter().for_each(|completion| self.record(completion));
    }

    fn record(&mut self, completion: Completion) {
        let token = completion.token();
        let Some(Open { begun, kind }) = self.open.remove(&token) else {
            let made = token.0 > 1 && token.0 <= self.next_token;
            let what = if made { "was completed twice" } else { "was never given to the store" };
            panic!("{token:?} {what}: {completion:?}");
        };
        assert!(begun, "{token:?} was completed before the turn that begins it: {completion:?}");
        match (&kind, &completion) {
            (Kind::Transaction(collections), Completion::Committed { .. } | Completion::Refused { .. }) => {
                self.check_order(collections, token);
            }
            (Kind::Read(peeked), Completion::Read { result, .. }) => {
                if let Some(peeked) = peeked {
                    assert!(same_result(peeked, result), "peek gave {peeked:?}, the read then {result:?}");
                }
                self.kept.keep(token, result);
            }
            (Kind::Rehome, Completion::Rehomed { .. }) => {}
            (Kind::Transaction(_) | Kind::Read(_) | Kind::Rehome, other) => {
                panic!("{token:?} is of another kind than its completion: {other:?}")
            }
        }
        self.done.insert(token, completion);
    }

    fn check_order(&mut self, collections: &[CollectionId], token: Token) {
        for collection in collections {
            let first = self.queues.get_mut(collection).and_then(VecDeque::pop_front);
            assert_eq!(first, Some(token), "transactions of {collection} complete out of order");
        }
    }

    /// How many requests are not completed.
    pub fn in_flight(&self) -> usize {
        self.open.len()
    }

    /// Takes what is ready now, without waiting.
    pub fn poll(&mut self) {
        if self.wake.take(Duration::ZERO) {
            self.collect();
        }
    }

    /// A request's completion, if it is there already.
    pub fn ready(&mut self, token: Token) -> Option<Completion> {
        self.done.remove(&token)
    }

    /// Waits for one request.
    pub fn wait(&mut self, token: Token) -> Completion {
        let mut idle = 0;
        loop {
            if let Some(completion) = self.done.remove(&token) {
                return completion;
            }
            assert!(self.open.contains_key(&token), "{token:?} was waited for before");
            self.advance(&mut idle);
        }
    }

    /// Waits until every request is completed; the completions can be had with [`Harness::ready`].
    pub fn settle(&mut self) {
        let mut idle = 0;
        while !self.open.is_empty() {
            self.advance(&mut idle);
        }
    }

    /// Settles, and says whether the store stops asking for a turn at once.
    pub fn comes_to_rest(&mut self) -> bool {
        self.settle();
        for _ in 0..RESTLESS_TURNS_MAX {
            let now = self.now;
            if self.store().deadline().is_none_or(|deadline| deadline > now) {
                return true;
            }
            self.turn_now();
        }
        false
    }

    /// Does what brings the next completion nearer. `idle` counts the deadlines that have brought nothing.
    fn advance(&mut self, idle: &mut u32) {
        let open = self.open.len();
        if !self.fresh.is_empty() {
            self.turn();
        } else {
            let deadline = self.store().deadline();
            let patience = match (deadline, self.properties.threaded) {
                (None, _) => self.properties.patience,
                (Some(_), true) => THREAD_MOMENT,
                (Some(_), false) => Duration::ZERO,
            };
            if self.wake.take(patience) {
                self.collect();
            } else if let Some(deadline) = deadline {
                self.now = self.now.max(deadline);
                self.turn();
            } else {
                panic!("no wake-up for {} requests in {:?}", open, self.properties.patience);
            }
        }
        *idle = if self.open.len() < open { 0 } else { *idle + 1 };
        assert!(*idle < IDLE_DEADLINES_MAX, "{open} requests are not completed, whatever deadlines pass");
    }

    /// Ends the watch over the store's life: settles, checks, and gives the store away.
    pub fn take(mut self) -> S {
        self.finish();
        self.store.take().expect("`take` consumes the harness")
    }

    /// The same with requests under way, whose outcome is lost.
    pub fn abandon(mut self) -> S {
        self.kept.check();
        self.open.clear();
        self.fresh.clear();
        self.store.take().expect("`abandon` consumes the harness")
    }

    fn finish(&mut self) {
        self.settle();
        self.turn();
        assert!(self.open.is_empty(), "every request was completed");
        self.kept.check();
    }
}

impl<S: ObjectStore> Drop for Harness<S> {
    fn drop(&mut self) {
        if self.store.is_some() && !std::thread::panicking() {
            self.finish();
        }
    }
}

/// Waiting for outcomes.
impl<S: ObjectStore> Harness<S> {
    /// The outcome of a transaction.
    pub fn outcome(&mut self, token: Token) -> Result<(), StoreError> {
        outcome_of(self.wait(token))
    }

    /// The outcome of a read.
    pub fn result(&mut self, token: Token) -> ReadResult {
        match self.wait(token) {
            Completion::Read { result, .. } => result,
            other => panic!("{token:?} is a read's, completed as {other:?}"),
        }
    }

    /// Does a step of re-homing and waits for it.
    pub fn rehome(
        &mut self,
        collection: CollectionId,
        to: StoreShard,
        objects_max: usize,
    ) -> Result<Rehoming, StoreError> {
        let token = self.ask_rehome(collection, to, objects_max);
        match self.wait(token) {
            Completion::Rehomed { result, .. } => result,
            other => panic!("{token:?} is a step of re-homing, completed as {other:?}"),
        }
    }

    /// Queues and waits. A refusal is acknowledged.
    pub fn apply(&mut self, txn: Transaction) -> Result<(), StoreError> {
        let token = self.queue(txn);
        let outcome = self.outcome(token);
        if outcome.is_err() {
            self.acknowledge(token);
        }
        outcome
    }

    /// Queues and waits for a transaction that must commit.
    pub fn commit(&mut self, build: impl FnOnce(&mut Transaction) -> &mut Transaction) {
        let mut txn = Transaction::new();
        build(&mut txn);
        if let Err(error) = self.apply(txn) {
            panic!("a transaction that must commit was refused: {error}");
        }
    }

    /// Queues and waits for a transaction that must be refused, and acknowledges that.
    pub fn refused(&mut self, build: impl FnOnce(&mut Transaction) -> &mut Transaction) -> StoreError {
        let mut txn = Transaction::new();
        build(&mut txn);
        self.apply(txn).expect_err("the transaction is refused")
    }

    /// Reads and waits.
    pub fn get(&mut self, request: ReadRequest) -> ReadResult {
        let token = self.ask(request);
        self.result(token)
    }
}

/// The outcome in a transaction's completion.
pub fn outcome_of(completion: Completion) -> Result<(), StoreError> {
    match completion {
        Completion::Committed { .. } => Ok(()),
        Completion::Refused { error, .. } => Err(error),
        other => panic!("a transaction completed as {other:?}"),
    }
}

/// Equality that compares data as slices: ropes compare byte by byte, which takes long for large ones.
pub fn same_result(a: &ReadResult, b: &ReadResult) -> bool {
    match (a, b) {
        (Ok(ReadOutcome::Data(a)), Ok(ReadOutcome::Data(b))) => {
            a.len() == b.len() && a.to_piece().as_slice() == b.to_piece().as_slice()
        }
        (a, b) => a == b,
    }
}
