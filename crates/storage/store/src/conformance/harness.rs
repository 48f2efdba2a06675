//! Driving a store request by request.

use std::time::Duration;

use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId};

use crate::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, Token, Transaction,
};

/// Makes the stores that the suite runs on.
pub trait Factory {
    /// An empty store.
    fn fresh(&mut self) -> Box<dyn ObjectStore>;

    /// Closes a store and opens it again with what it has, or `None` for one that keeps nothing.
    fn reopen(&mut self, store: Box<dyn ObjectStore>) -> Option<Box<dyn ObjectStore>>;
}

/// A store, and completions that came before they were asked for.
pub struct Harness {
    pub store: Box<dyn ObjectStore>,
    ready: Vec<Completion>,
    next_token: u64,
}

/// How long a completion may take before the suite gives up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Harness {
    /// Around a store.
    pub fn new(store: Box<dyn ObjectStore>) -> Self {
        Self { store, ready: Vec::new(), next_token: 1 }
    }

    /// Queues without waiting.
    pub fn queue(&mut self, txn: Transaction) -> Token {
        let token = self.token();
        self.store.queue(txn, token);
        token
    }

    /// Reads without waiting.
    pub fn ask(&mut self, request: ReadRequest) -> Token {
        let token = self.token();
        self.store.read(request, token);
        token
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    /// The completions that are there now, in order.
    pub fn poll(&mut self) -> Vec<Completion> {
        let mut out = std::mem::take(&mut self.ready);
        self.store.completions(&mut out);
        out
    }

    /// Waits for one request.
    pub fn wait(&mut self, token: Token) -> Completion {
        let step = Duration::from_micros(50);
        for _ in 0..(PATIENCE.as_micros() / step.as_micros()) {
            self.store.completions(&mut self.ready);
            if let Some(at) = self.ready.iter().position(|c| c.token() == token) {
                return self.ready.remove(at);
            }
            std::thread::sleep(step);
        }
        panic!("{token:?} was not completed");
    }

    /// The outcome of a transaction.
    pub fn outcome(&mut self, token: Token) -> Result<(), StoreError> {
        match self.wait(token) {
            Completion::Committed { .. } => Ok(()),
            Completion::Refused { error, .. } => Err(error),
            Completion::Read { .. } => panic!("{token:?} is a transaction's, completed as a read"),
        }
    }

    /// The outcome of a read.
    pub fn result(&mut self, token: Token) -> Result<ReadOutcome, StoreError> {
        match self.wait(token) {
            Completion::Read { result, .. } => result,
            other => panic!("{token:?} is a read's, completed as {other:?}"),
        }
    }

    /// Queues and waits.
    pub fn apply(&mut self, txn: Transaction) -> Result<(), StoreError> {
        let token = self.queue(txn);
        self.outcome(token)
    }

    /// Queues and waits for a transaction that must commit.
    pub fn commit(&mut self, build: impl FnOnce(&mut Transaction)) {
        let mut txn = Transaction::new();
        build(&mut txn);
        self.apply(txn).expect("the transaction commits");
    }

    /// Queues and waits for a transaction that must be refused.
    pub fn refused(&mut self, build: impl FnOnce(&mut Transaction)) -> StoreError {
        let mut txn = Transaction::new();
        build(&mut txn);
        self.apply(txn).expect_err("the transaction is refused")
    }

    /// Reads and waits.
    pub fn get(&mut self, request: ReadRequest) -> Result<ReadOutcome, StoreError> {
        let token = self.ask(request);
        self.result(token)
    }

    /// All bytes of an object.
    pub fn data(&mut self, collection: CollectionId, object: &GHObject) -> Vec<u8> {
        self.data_range(collection, object, 0, u64::MAX)
    }

    /// Bytes of an object.
    pub fn data_range(
        &mut self,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
        len: u64,
    ) -> Vec<u8> {
        let object = object.clone();
        match self.get(ReadRequest::Data { collection, object, offset, len }) {
            Ok(ReadOutcome::Data(data)) => data.to_vec(),
            other => panic!("data: {other:?}"),
        }
    }

    /// An object's size, or `None` if it doesn't exist.
    pub fn size(&mut self, collection: CollectionId, object: &GHObject) -> Option<u64> {
        match self.get(ReadRequest::Stat { collection, object: object.clone() }) {
            Ok(ReadOutcome::Stat(stat)) => Some(stat.size),
            Err(StoreError::NoSuchObject(..)) => None,
            other => panic!("stat: {other:?}"),
        }
    }

    /// All objects of a collection.
    pub fn list(&mut self, collection: CollectionId) -> Vec<GHObject> {
        let (start, end) = (GHObject::min(), GHObject::max());
        match self.get(ReadRequest::List { collection, start, end, objects_max: usize::MAX }) {
            Ok(ReadOutcome::Objects(page)) => page.objects,
            other => panic!("list: {other:?}"),
        }
    }
}

/// The collection of PG `seed` in pool 1.
pub(super) fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

/// A head object of pool 1.
pub(super) fn object(name: &str, hash: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), hash).into()
}

/// A version of epoch 1.
pub(super) fn version(n: u64) -> EVersion {
    EVersion::new(Epoch(1), n)
}
