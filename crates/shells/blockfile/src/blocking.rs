//! A store driven request by request on its caller's thread, for tools.

use store::{
    AttrChoice, CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, Token,
    Transaction,
};
use types::GHObject;

use crate::drive::Driver;

/// Objects that are listed at once.
pub(crate) const LISTED: usize = 1000;

/// See the module's documentation. Every call waits for its outcome.
pub struct Blocking<S> {
    store: S,
    driver: Driver,
    next: u64,
    completed: Vec<Completion>,
}

impl<S: ObjectStore> Blocking<S> {
    pub fn new(mut store: S) -> Self {
        let driver = Driver::new();
        store.set_waker(driver.waker());
        Self { store, driver, next: 0, completed: Vec::new() }
    }

    /// The store between two requests.
    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    fn token(&mut self) -> Token {
        self.next += 1;
        Token(self.next)
    }

    /// Gives the store turns until `done` says so.
    pub fn drive<T>(&mut self, mut done: impl FnMut(&mut S, &mut Vec<Completion>) -> Option<T>) -> T {
        let completed = &mut self.completed;
        self.driver.run(
            &mut self.store,
            |store, now| {
                store.turn(now);
                store.completions(completed);
                done(store, completed)
            },
            |store| store.deadline(),
        )
    }

    fn outcome(&mut self, token: Token) -> Completion {
        self.drive(|_, completed| {
            let at = completed.iter().position(|c| c.token() == token)?;
            Some(completed.swap_remove(at))
        })
    }

    /// # Errors
    /// The store's.
    pub fn read(&mut self, request: ReadRequest) -> Result<ReadOutcome, StoreError> {
        let token = self.token();
        self.store.read(request, token);
        match self.outcome(token) {
            Completion::Read { result, .. } => result,
            // The token was that of a read alone.
            _ => Err(StoreError::Stopped),
        }
    }

    /// # Errors
    /// The transaction is refused, and that is acknowledged.
    pub fn commit(&mut self, txn: Transaction) -> Result<(), StoreError> {
        let token = self.token();
        self.store.queue(txn, token);
        match self.outcome(token) {
            Completion::Refused { error, .. } => {
                self.store.acknowledge(token);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// All collections.
    ///
    /// # Errors
    /// The store's.
    pub fn collections(&mut self) -> Result<Vec<CollectionId>, StoreError> {
        match self.read(ReadRequest::Collections)? {
            ReadOutcome::Collections(all) => Ok(all),
            other => Err(unexpected(&other)),
        }
    }

    /// Objects of a collection from `start` on, and where to begin the next time; `None` at the end.
    ///
    /// # Errors
    /// The store's.
    pub fn objects(
        &mut self,
        collection: CollectionId,
        start: GHObject,
    ) -> Result<(Vec<GHObject>, Option<GHObject>), StoreError> {
        let (attrs, end) = (AttrChoice::None, GHObject::max());
        let list = ReadRequest::List { collection, start, end: end.clone(), objects_max: LISTED, attrs };
        match self.read(list)? {
            ReadOutcome::Objects(page) => {
                let next = (page.next != end).then_some(page.next);
                Ok((page.objects.into_iter().map(|(object, _)| object).collect(), next))
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// An answer to another question is a defect of the store.
pub fn unexpected(outcome: &ReadOutcome) -> StoreError {
    StoreError::Damaged(format!("the store answers a request with {outcome:?}"))
}
