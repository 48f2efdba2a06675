//! A simulated store that survives the OSD that has it open.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use encoding::Decode;
use pg::{EntryKind, LogEntry};
use store::sim::{SimOptions, SimStore};
use store::{
    AttrChoice, CollectionId, Completion, LogChange, ObjectStore, ReadOutcome, ReadRequest, Step, StoreError,
    StoreShard, Token, Transaction, Waker,
};
use types::{Epoch, GHObject, ReqId, UTime};

/// A client's change in a log: its request, the map's epoch, the object's version.
pub type Logged = (ReqId, Epoch, u64);

/// One of the handles of a store.
#[derive(Clone)]
pub struct StoreHandle {
    store: Rc<RefCell<Option<SimStore>>>,
    /// Clients' changes that the log got since they were last taken, each with the epoch and the
    /// version that it gave the object.
    logged: Rc<RefCell<Vec<Logged>>>,
}

impl StoreHandle {
    pub fn new(options: SimOptions) -> Self {
        let store = Rc::new(RefCell::new(Some(SimStore::new(options))));
        Self { store, logged: Rc::default() }
    }

    pub fn get(&self) -> RefMut<'_, SimStore> {
        RefMut::map(self.store.borrow_mut(), |store| store.as_mut().unwrap())
    }

    /// Takes the clients' changes that the log got.
    pub fn take_logged(&self) -> Vec<Logged> {
        std::mem::take(&mut *self.logged.borrow_mut())
    }

    /// What a read sees now.
    pub fn look(&self, request: &ReadRequest) -> Result<ReadOutcome, StoreError> {
        // What is not in its cache now is there at another time.
        loop {
            if let Some(result) = self.get().peek(request) {
                return result;
            }
        }
    }

    /// The load's objects that have data, with their collection and size.
    pub fn objects(&self) -> Vec<(CollectionId, GHObject, u64)> {
        let Ok(ReadOutcome::Collections(collections)) = self.look(&ReadRequest::Collections) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for collection in collections.into_iter().filter(|c| matches!(c, CollectionId::Pg(_))) {
            let (start, end, objects_max) = (GHObject::min(), GHObject::max(), usize::MAX);
            let list = ReadRequest::List { collection, start, end, objects_max, attrs: AttrChoice::None };
            let Ok(ReadOutcome::Objects(page)) = self.look(&list) else { continue };
            let of_load = |object: &GHObject| object.hobj.name.as_bytes().starts_with(b"obj");
            for (object, _) in page.objects.into_iter().filter(|(object, _)| of_load(object)) {
                let stat = self.look(&ReadRequest::Stat { collection, object: object.clone() });
                if let Ok(ReadOutcome::Stat(stat)) = stat
                    && stat.size > 0
                {
                    all.push((collection, object, stat.size));
                }
            }
        }
        all
    }

    /// Replaces the store by what is made of it.
    pub fn become_of(&self, make: impl FnOnce(SimStore) -> SimStore) {
        let mut place = self.store.borrow_mut();
        *place = place.take().map(make);
    }
}

/// The change that a step logs.
fn logged(step: &Step) -> Option<Logged> {
    let Step::Log { change: LogChange::Append(record), .. } = step else { return None };
    let entry = LogEntry::from_bytes(&record.bytes).ok()?;
    (entry.kind != EntryKind::Error).then_some((entry.reqid, entry.version.epoch, entry.user_version))
}

impl ObjectStore for StoreHandle {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.logged.borrow_mut().extend(txn.steps().iter().filter_map(logged));
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
