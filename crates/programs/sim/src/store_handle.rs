//! A simulated store that outlives the OSD that has it open.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use store::sim::{SimOptions, SimStore};
use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreShard, Token,
    Transaction, Waker,
};
use types::UTime;

/// One of the handles of a store.
#[derive(Clone)]
pub struct StoreHandle(Rc<RefCell<Option<SimStore>>>);

impl StoreHandle {
    pub fn new(options: SimOptions) -> Self {
        Self(Rc::new(RefCell::new(Some(SimStore::new(options)))))
    }

    pub fn get(&self) -> RefMut<'_, SimStore> {
        RefMut::map(self.0.borrow_mut(), |store| store.as_mut().unwrap())
    }

    /// Replaces the store by what is made of it.
    pub fn become_of(&self, make: impl FnOnce(SimStore) -> SimStore) {
        let mut place = self.0.borrow_mut();
        *place = place.take().map(make);
    }
}

impl ObjectStore for StoreHandle {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.get().queue(txn, token);
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.get().read(request, token);
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.get().peek(request)
    }

    fn acknowledge(&mut self, refused: Token) {
        self.get().acknowledge(refused);
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        self.get().rehome(collection, to, objects_max, token);
    }

    fn turn(&mut self, now: UTime) {
        self.get().turn(now);
    }

    fn deadline(&self) -> Option<UTime> {
        self.get().deadline()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        self.get().completions(out);
    }

    fn set_waker(&mut self, waker: Waker) {
        self.get().set_waker(waker);
    }

    fn shards(&self) -> u32 {
        self.get().shards()
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.get().shard_of(collection)
    }
}
