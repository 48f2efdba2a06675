//! A simulated store that survives the OSD that has it open: one in memory, or a block store on simulated disks.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeSet;
use std::rc::Rc;

use encoding::Decode;
use pg::{EntryKind, LogEntry};
use store::sim::{SimOptions, SimStore};
use store::{
    AttrChoice, CollectionChange, CollectionId, Completion, Compression, FreeSpace, LogChange, ObjectStore,
    ReadOutcome, ReadRequest, Step, StoreError, StoreShard, Token, Transaction, Tuning, Waker,
};
use types::{Epoch, GHObject, PoolId, ReqId, UTime};

use crate::block_store::{BlockStoreOnDisks, Damage};
use crate::daemons::Ending;
use crate::plan::Defect;

/// A client's change in a log: its request, the map's epoch, the PG's version.
pub type Logged = (ReqId, Epoch, u64);

enum Kind {
    /// `None` only while it becomes another.
    Memory(Option<Box<SimStore>>),
    Disks(Box<BlockStoreOnDisks>),
}

/// One of the handles of a store.
#[derive(Clone)]
pub struct StoreHandle {
    store: Rc<RefCell<Kind>>,
    /// Clients' changes that the log got since they were last taken, each with its epoch and
    /// version.
    logged: Rc<RefCell<Vec<Logged>>>,
    loading: Rc<RefCell<Loading>>,
}

/// What goes wrong when PGs are loaded.
#[derive(Default)]
struct Loading {
    fails: bool,
    /// Reads that will fail.
    reads: BTreeSet<Token>,
    /// Whether a PG was made since: it has not failed.
    made: bool,
    /// Whether a PG has failed.
    failed: bool,
}

impl StoreHandle {
    pub fn in_memory(options: SimOptions) -> Self {
        Self::of(Kind::Memory(Some(Box::new(SimStore::new(options)))))
    }

    pub fn on_disks(store: BlockStoreOnDisks) -> Self {
        Self::of(Kind::Disks(Box::new(store)))
    }

    fn of(kind: Kind) -> Self {
        Self { store: Rc::new(RefCell::new(kind)), logged: Rc::default(), loading: Rc::default() }
    }

    fn get(&self) -> RefMut<'_, dyn ObjectStore> {
        RefMut::map(self.store.borrow_mut(), |kind| match kind {
            Kind::Memory(store) => store.as_deref_mut().unwrap() as &mut dyn ObjectStore,
            Kind::Disks(store) => store.open_store(),
        })
    }

    /// Opens it for an OSD, with a defect of stores if there is one.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open(&self, now: UTime, defect: Option<Defect>) -> Result<(), String> {
        match (&mut *self.store.borrow_mut(), defect) {
            (Kind::Memory(Some(store)), Some(Defect::StoreStaysOpen)) => store.stay_open_after_refusals(),
            (Kind::Memory(Some(store)), Some(Defect::StoreServesBadBytes)) => store.serve_damage(),
            (Kind::Memory(_), _) => {}
            (Kind::Disks(store), Some(Defect::BlockStore(bug))) => return store.open(now, Some(bug)),
            (Kind::Disks(store), _) => return store.open(now, None),
        }
        Ok(())
    }

    /// Its OSD's process ends.
    pub fn end(&self, now: UTime, ending: Ending) {
        let mut loading = self.loading.borrow_mut();
        *loading = Loading { fails: loading.fails, ..Loading::default() };
        match &mut *self.store.borrow_mut() {
            Kind::Memory(store) => {
                let ended = store.take().map(|store| match ending {
                    Ending::Killed => store.close(),
                    Ending::PowerLoss => store.power_loss().0,
                });
                *store = ended.map(Box::new);
            }
            Kind::Disks(store) => match ending {
                Ending::Killed => store.close(),
                Ending::PowerLoss => store.power_loss(now),
            },
        }
    }

    /// Gives it so many bytes, from the next opening on; a block store gets what its disk has.
    pub fn resize(&self, bytes: u64) {
        match &mut *self.store.borrow_mut() {
            Kind::Memory(store) => {
                let resized = store.take().map(|mut store| {
                    store.resize(bytes);
                    store.close()
                });
                *store = resized.map(Box::new);
            }
            Kind::Disks(store) => store.grow(),
        }
    }

    /// Whether transactions that carry data are refused, where the store can be made to.
    pub fn refuse_space(&self, refuse: bool) {
        if let Kind::Memory(Some(store)) = &mut *self.store.borrow_mut() {
            store.refuse_space(refuse);
        }
    }

    /// Makes what it is given from now on never durable: the first commit that fails stops it.
    pub fn fail_commits(&self) {
        match &mut *self.store.borrow_mut() {
            Kind::Memory(store) => store.as_mut().unwrap().fail_commits(),
            Kind::Disks(store) => store.fail_commits(),
        }
    }

    /// Whether the PGs that are loaded from now on fail: what they keep of themselves can't be read.
    pub fn fail_loads(&self, fails: bool) {
        *self.loading.borrow_mut() = Loading { fails, ..Loading::default() };
    }

    pub fn fails_loads(&self) -> bool {
        self.loading.borrow().fails
    }

    /// Whether a PG in the store has failed to load.
    pub fn has_failed(&self) -> bool {
        self.loading.borrow().failed
    }

    /// Whether every PG in the store has failed to load.
    pub fn all_have_failed(&self) -> bool {
        let loading = self.loading.borrow();
        loading.fails && !loading.made
    }

    /// A stored byte of an object goes bad, if there is one.
    pub fn damage(&self, collection: CollectionId, object: &GHObject, offset: u64) -> Option<Damage> {
        match &mut *self.store.borrow_mut() {
            Kind::Memory(store) => {
                store.as_mut()?.damage(collection, object, offset);
                Some(Damage::Flipped)
            }
            Kind::Disks(store) => store.damage(collection, object, offset),
        }
    }

    /// Takes the clients' changes that the log got.
    pub fn take_logged(&self) -> Vec<Logged> {
        std::mem::take(&mut *self.logged.borrow_mut())
    }

    /// What a read sees now.
    pub fn look(&self, now: UTime, request: &ReadRequest) -> Result<ReadOutcome, StoreError> {
        match &mut *self.store.borrow_mut() {
            // What is not in its cache now is there at another time.
            Kind::Memory(store) => loop {
                if let Some(result) = store.as_mut().and_then(|store| store.peek(request)) {
                    return result;
                }
            },
            Kind::Disks(store) => store.look(now, request).unwrap_or(Err(StoreError::Stopped)),
        }
    }

    /// The load's objects that have data, with their collection and size.
    pub fn objects(&self, now: UTime) -> Vec<(CollectionId, GHObject, u64)> {
        let Ok(ReadOutcome::Collections(collections)) = self.look(now, &ReadRequest::Collections) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for collection in collections.into_iter().filter(|c| matches!(c, CollectionId::Pg(_))) {
            let (start, end, objects_max) = (GHObject::min(), GHObject::max(), usize::MAX);
            let list = ReadRequest::List { collection, start, end, objects_max, attrs: AttrChoice::None };
            let Ok(ReadOutcome::Objects(page)) = self.look(now, &list) else { continue };
            let of_load = |object: &GHObject| object.hobj.name.as_bytes().starts_with(b"obj");
            for (object, _) in page.objects.into_iter().filter(|(object, _)| of_load(object)) {
                let stat = self.look(now, &ReadRequest::Stat { collection, object: object.clone() });
                if let Ok(ReadOutcome::Stat(stat)) = stat
                    && stat.size > 0
                {
                    all.push((collection, object, stat.size));
                }
            }
        }
        all
    }
}

/// Whether a read is a PG's of what it keeps of itself.
fn is_load(request: &ReadRequest) -> bool {
    matches!(request, ReadRequest::Attrs { object, .. } if object.is_pgmeta())
}

fn makes_pg(step: &Step) -> bool {
    let Step::Collection { collection: CollectionId::Pg(_), change } = step else { return false };
    matches!(change, CollectionChange::Create { .. })
}

/// The change that a step logs.
fn logged(step: &Step) -> Option<Logged> {
    let Step::Log { change: LogChange::Append(record), .. } = step else { return None };
    let entry = LogEntry::from_bytes(&record.bytes).ok()?;
    (entry.kind != EntryKind::Error).then_some((entry.reqid, entry.version.epoch, entry.version.version))
}

impl ObjectStore for StoreHandle {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.logged.borrow_mut().extend(txn.steps().iter().filter_map(logged));
        self.loading.borrow_mut().made |= txn.steps().iter().any(makes_pg);
        self.get().queue(txn, token);
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        let mut loading = self.loading.borrow_mut();
        if loading.fails && is_load(&request) {
            loading.reads.insert(token);
        }
        self.get().read(request, token);
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.get().peek(request)
    }

    fn touch(&mut self, hash: u32) {
        self.get().touch(hash);
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
        match &*self.store.borrow() {
            Kind::Memory(store) => store.as_deref().and_then(SimStore::deadline),
            Kind::Disks(store) => store.deadline(),
        }
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        match &mut *self.store.borrow_mut() {
            Kind::Memory(store) => store.as_mut().unwrap().completions(out),
            Kind::Disks(store) => store.completions(out),
        }
        let mut loading = self.loading.borrow_mut();
        for completion in out {
            if let Completion::Read { token, result } = completion
                && loading.reads.remove(token)
            {
                loading.failed = true;
                *result = Err(StoreError::Damaged("the simulator lets no PG be loaded".into()));
            }
        }
    }

    fn set_waker(&mut self, waker: Waker) {
        self.get().set_waker(waker);
    }

    fn set_compression(&mut self, pool: Option<PoolId>, how: Option<Compression>) {
        self.get().set_compression(pool, how);
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.get().set_tuning(tuning);
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.get().free_space()
    }

    fn drop_caches(&mut self) -> bool {
        self.get().drop_caches()
    }

    fn shards(&self) -> u32 {
        self.get().shards()
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.get().shard_of(collection)
    }
}
