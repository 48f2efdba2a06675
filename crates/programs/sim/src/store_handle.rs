//! A simulated store that survives the OSD that has it open.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use store::sim::{SimOptions, SimStore};
use store::{
    CollectionId, Completion, ObjectChange, ObjectStore, ReadOutcome, ReadRequest, Step, StoreError,
    StoreShard, Token, Transaction, Waker,
};
use types::UTime;

use crate::history::{ATTRIBUTE, Mark};

/// One of the handles of a store.
#[derive(Clone)]
pub struct StoreHandle {
    store: Rc<RefCell<Option<SimStore>>>,
    /// The clients' changes that were queued since they were last taken.
    begun: Rc<RefCell<Vec<Mark>>>,
}

impl StoreHandle {
    pub fn new(options: SimOptions) -> Self {
        let store = Rc::new(RefCell::new(Some(SimStore::new(options))));
        Self { store, begun: Rc::default() }
    }

    pub fn get(&self) -> RefMut<'_, SimStore> {
        RefMut::map(self.store.borrow_mut(), |store| store.as_mut().unwrap())
    }

    /// Takes the clients' changes that were queued.
    pub fn take_begun(&self) -> Vec<Mark> {
        std::mem::take(&mut *self.begun.borrow_mut())
    }

    /// Replaces the store by what is made of it.
    pub fn become_of(&self, make: impl FnOnce(SimStore) -> SimStore) {
        let mut place = self.store.borrow_mut();
        *place = place.take().map(make);
    }
}

/// The change that a step writes down.
fn mark(step: &Step) -> Option<Mark> {
    let Step::Object { change: ObjectChange::SetAttrs(attrs), .. } = step else { return None };
    let of_client = |name: &[u8]| name.strip_prefix(b"_") == Some(ATTRIBUTE);
    let (_, value) = attrs.iter().find(|(name, _)| of_client(name))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl ObjectStore for StoreHandle {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.begun.borrow_mut().extend(txn.steps().iter().filter_map(mark));
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
