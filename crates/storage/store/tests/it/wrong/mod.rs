//! A simulated store with a flaw: what it is asked passes through the flaw, which changes some of it.

pub mod completions;
pub mod contents;
pub mod crashes;
pub mod driving;
pub mod handles;
pub mod requests;
pub mod restarts;
pub mod spaces;
pub mod threaded;

use std::ops::Range;

use buffer::Rope;
use store::conformance::{Contents, Factory, Properties};
use store::sim::SimStore;
use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreShard, Token,
    Transaction, Waker,
};
use types::{GHObject, UTime};

use crate::common::Sim;

/// The flaws' own requests have these tokens; their completions are not shown.
const OWN_TOKENS: Range<u64> = 1 << 62..3 << 61;

/// What is wrong with a store. Every method passes its request on, unless a flaw does something else with it.
pub trait Flaw {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        inner.queue(txn, token);
    }

    fn read(&mut self, inner: &mut SimStore, request: ReadRequest, token: Token) {
        inner.read(request, token);
    }

    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        inner.peek(request)
    }

    fn acknowledge(&mut self, inner: &mut SimStore, refused: Token) {
        inner.acknowledge(refused);
    }

    fn rehome(
        &mut self,
        inner: &mut SimStore,
        (id, to, max): (CollectionId, StoreShard, usize),
        token: Token,
    ) {
        inner.rehome(id, to, max, token);
    }

    /// Whether a turn at this time reaches the store.
    fn takes_turn(&mut self, now: UTime) -> bool {
        let _ = now;
        true
    }

    fn deadline(&self, inner: &SimStore) -> Option<UTime> {
        inner.deadline()
    }

    /// Before each turn.
    fn turn(&mut self, inner: &mut SimStore) {
        let _ = inner;
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
    }

    fn shard_of(&self, inner: &SimStore, collection: CollectionId) -> StoreShard {
        inner.shard_of(collection)
    }

    /// After a power loss that lost these requests.
    fn crashed(&mut self, inner: &mut SimStore, lost: &[Token]) {
        let _ = (inner, lost);
    }

    /// After the store was closed in order and opened again.
    fn reopened(&mut self, inner: &mut SimStore) {
        let _ = inner;
    }

    fn damage(&mut self, inner: &mut SimStore, collection: CollectionId, object: &GHObject, offset: u64) {
        inner.damage(collection, object, offset);
    }

    fn fail_commits(&mut self, inner: &mut SimStore) {
        inner.fail_commits();
    }
}

/// No flaw: the wrapper alone is a right store.
pub struct NoFlaw;
impl Flaw for NoFlaw {}

pub struct Flawed {
    inner: SimStore,
    flaw: Box<dyn Flaw>,
}

impl ObjectStore for Flawed {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.flaw.queue(&mut self.inner, txn, token);
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.flaw.read(&mut self.inner, request, token);
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.flaw.peek(&mut self.inner, request)
    }

    fn acknowledge(&mut self, refused: Token) {
        self.flaw.acknowledge(&mut self.inner, refused);
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        self.flaw.rehome(&mut self.inner, (collection, to, objects_max), token);
    }

    fn turn(&mut self, now: UTime) {
        if self.flaw.takes_turn(now) {
            self.flaw.turn(&mut self.inner);
            self.inner.turn(now);
        }
    }

    fn deadline(&self) -> Option<UTime> {
        self.flaw.deadline(&self.inner)
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        let mut all = Vec::new();
        self.flaw.completions(&mut self.inner, &mut all);
        out.extend(all.into_iter().filter(|c| !OWN_TOKENS.contains(&c.token().0)));
    }

    fn set_waker(&mut self, waker: Waker) {
        self.inner.set_waker(waker);
    }

    fn shards(&self) -> u32 {
        self.inner.shards()
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.flaw.shard_of(&self.inner, collection)
    }
}

/// Makes stores with a flaw.
pub struct FlawedFactory {
    pub sim: Sim,
    pub flaw: fn() -> Box<dyn Flaw>,
}

impl Factory for FlawedFactory {
    type Store = Flawed;

    fn properties(&self) -> Properties {
        self.sim.properties()
    }

    fn fresh(&mut self, bytes_total: u64) -> Flawed {
        Flawed { inner: self.sim.fresh(bytes_total), flaw: (self.flaw)() }
    }

    fn metadata_bytes_max(&self, contents: &Contents) -> u64 {
        self.sim.metadata_bytes_max(contents)
    }

    fn reopen(&mut self, store: Flawed) -> Option<Flawed> {
        let Flawed { inner, mut flaw } = store;
        let mut inner = inner.close();
        flaw.reopened(&mut inner);
        Some(Flawed { inner, flaw })
    }

    fn crash(&mut self, mut store: Flawed, seed: u64) -> Option<Flawed> {
        store.inner.reseed(seed);
        let (mut inner, lost) = store.inner.power_loss();
        store.flaw.crashed(&mut inner, &lost);
        Some(Flawed { inner, ..store })
    }

    fn damage(
        &mut self,
        mut store: Flawed,
        c: CollectionId,
        object: &GHObject,
        offset: u64,
    ) -> Option<Flawed> {
        store.flaw.damage(&mut store.inner, c, object, offset);
        Some(store)
    }

    fn fail_commits(&mut self, store: &mut Flawed) -> bool {
        store.flaw.fail_commits(&mut store.inner);
        true
    }
}

/// Applies a transaction of a flaw's own at once, with nothing else under way; whether it commits is all the same.
pub fn apply_now(inner: &mut SimStore, txn: Transaction) {
    let token = Token(OWN_TOKENS.start);
    inner.queue(txn, token);
    settle(inner);
    inner.acknowledge(token);
}

/// Lets everything under way complete, and forgets it.
pub fn settle(inner: &mut SimStore) {
    inner.turn(UTime::default());
    while let Some(deadline) = inner.deadline() {
        inner.turn(deadline);
    }
    inner.completions(&mut Vec::new());
}

/// A read at once. The simulated cache misses some.
pub fn look(inner: &mut SimStore, request: &ReadRequest) -> Result<ReadOutcome, StoreError> {
    (0..200).find_map(|_| inner.peek(request)).unwrap_or(Err(StoreError::Stopped))
}

pub fn data_of(inner: &mut SimStore, collection: CollectionId, object: &GHObject) -> Option<Rope> {
    let (advice, verify) = Default::default();
    let object = object.clone();
    match look(inner, &ReadRequest::Data { collection, object, offset: 0, len: u64::MAX, advice, verify }) {
        Ok(ReadOutcome::Data(data)) => Some(data),
        _ => None,
    }
}
