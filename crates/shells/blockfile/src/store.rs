//! The handles of a store's shards: the pure store on its devices.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blockstore::{BlockStore, Sealing};
use device::{DirLock, RingEvent};
use store::{
    CollectionId, Completion, Compression, FreeSpace, ObjectStore, ReadOutcome, ReadRequest, Sharded,
    StoreError, StoreMemory, StoreShard, Token, Transaction, Tuning, Waker,
};
use types::{PoolId, UTime};

use crate::devices::Devices;
use crate::fsck::{in_one_place, stranded};
use crate::growing::Growing;
use crate::medium::Medium;
use crate::open::Queue;
use crate::room::Room;

/// An open store, whole. [`Sharded::into_handles`] gives the handles of its shards, for a core each.
pub type BlockFileStore = Sharded<BlockFileShard>;

/// What an open store keeps from others, as long as any of its shards is open.
pub type Held = Arc<(DirLock, Vec<File>)>;

/// How long a close waits for the device to write where the log ends. The log itself is durable before.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// How often a close asks the device.
const CLOSE_POLL: Duration = Duration::from_micros(200);

/// A shard of an open store: a store of one shard to its user. Dropping it closes it in order ([`Sealing`]) and waits for the
/// requests that the device has; what was not completed is there or not, as after a power loss.
pub struct BlockFileShard {
    store: BlockStore<Queue>,
    medium: Medium,
    room: Option<Room>,
    /// What allocates the file ahead and gives back of it; a block device has all of its bytes.
    growing: Option<Growing>,
    event: Option<RingEvent>,
    /// What logs call it.
    name: String,
    devices: Arc<Devices>,
    /// The latest time that the store knows.
    now: UTime,
    /// Pages that can be read in one place alone, as far as the log was told.
    in_one_place: usize,
    /// Stranded changes, likewise.
    stranded: usize,
    /// Dropped last, when the file is closed: the directory's lock, and devices that no one else may take.
    _held: Held,
}

impl BlockFileShard {
    pub(crate) fn new(
        store: BlockStore<Queue>,
        event: Option<RingEvent>,
        (name, devices): (String, Arc<Devices>),
        now: UTime,
        (medium, held): (Medium, Held),
    ) -> Self {
        Self {
            store,
            medium,
            room: None,
            growing: None,
            event,
            name,
            devices,
            now,
            in_one_place: 0,
            stranded: 0,
            _held: held,
        }
    }

    /// Has the shard know what its file may get. `growing`: its part of the file grows, and shrinks, in steps.
    pub(crate) fn has_room(&mut self, room: Room, growing: Option<Growing>) {
        (self.room, self.growing) = (Some(room), growing);
    }

    fn grow(&mut self) {
        if let Some(growing) = &mut self.growing {
            growing.turn(self.now, &mut self.store);
        }
    }

    /// A descriptor that becomes readable when the device has done something, for an owner whose loop watches it: it is to
    /// be read (8 bytes), and a turn to follow. The waker is called for other things alone from then on. `None`: there is
    /// no such descriptor, and the waker is called for everything.
    pub fn take_event(&mut self) -> Option<OwnedFd> {
        self.event.take()?.take().ok()
    }

    /// Logs that more pages can be read in one place alone, and that the first changes are stranded.
    fn tell_of_pages(&mut self) {
        let (pages, changes) = (self.store.pages_in_one_place(), self.store.stranded_changes());
        let news = [
            in_one_place(&self.store).filter(|_| pages > self.in_one_place),
            stranded(&self.store).filter(|_| self.stranded == 0),
        ];
        news.into_iter().flatten().for_each(|note| tracing::warn!("{}: {note}", self.name));
        (self.in_one_place, self.stranded) = (pages, changes);
    }

    /// The pure store, for what its tools ask of it beside the contract.
    pub fn inner(&mut self) -> &mut BlockStore<Queue> {
        &mut self.store
    }
}

impl Drop for BlockFileShard {
    fn drop(&mut self) {
        // After a panic nothing is certain that a seal would say; and a store that failed has told why.
        if std::thread::panicking() || self.store.has_failed() {
            return;
        }
        let since = Instant::now();
        let mut sealing = Sealing::new(&mut self.store);
        let why = loop {
            match sealing.turn(self.now.after(since.elapsed())) {
                Some(Ok(())) => return,
                Some(Err(error)) => break error.to_string(),
                None if since.elapsed() > CLOSE_MAX => {
                    break format!("the device has not answered for {} s", CLOSE_MAX.as_secs());
                }
                None => std::thread::sleep(CLOSE_POLL),
            }
        };
        tracing::warn!("{} was not closed in order, as if killed: {why}", self.name);
    }
}

/// Takes from an answer what the file system lacks.
fn limited(room: &mut Option<Room>, now: UTime, outcome: &mut ReadOutcome) {
    if let (Some(room), ReadOutcome::StatFs(statfs)) = (room, outcome) {
        room.limit(now, statfs);
    }
}

impl ObjectStore for BlockFileShard {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.store.queue(txn, token);
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.store.read(request, token);
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        let mut result = self.store.peek(request);
        match &mut result {
            Some(Ok(outcome)) => limited(&mut self.room, self.now, outcome),
            Some(Err(error)) => self.devices.name(error),
            None => {}
        }
        result
    }

    fn touch(&mut self, hash: u32) {
        self.store.touch(hash);
    }

    fn acknowledge(&mut self, refused: Token) {
        self.store.acknowledge(refused);
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        self.store.rehome(collection, to, objects_max, token);
    }

    fn turn(&mut self, now: UTime) {
        self.now = self.now.max(now);
        self.grow();
        self.store.turn(self.now);
        self.grow();
        self.tell_of_pages();
    }

    fn deadline(&self) -> Option<UTime> {
        let of_file = self.growing.as_ref().and_then(|growing| growing.deadline(&self.store));
        [self.store.deadline(), of_file].into_iter().flatten().min()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        let before = out.len();
        // What waits for the file to grow is ready with the bytes, and may want more of them.
        self.grow();
        self.store.completions(out);
        self.grow();
        for completion in &mut out[before..] {
            self.devices.name_in(completion);
            if let Completion::Read { result: Ok(outcome), .. } = completion {
                limited(&mut self.room, self.now, outcome);
            }
        }
    }

    fn set_waker(&mut self, waker: Waker) {
        if let Some(growing) = &mut self.growing {
            growing.set_waker(waker.clone());
        }
        self.store.set_waker(waker);
    }

    fn set_memory(&mut self, bytes: u64) {
        self.store.limit_memory(bytes);
    }

    fn memory_pools(&self) -> StoreMemory {
        self.store.memory_pools()
    }

    fn set_compression(&mut self, pool: Option<PoolId>, how: Option<Compression>) {
        self.store.set_compression(pool, how);
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.store.set_tuning(self.medium.tuning(tuning));
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.store.free_space()
    }

    fn drop_caches(&mut self) -> bool {
        self.store.drop_caches()
    }

    fn shards(&self) -> u32 {
        self.store.shards()
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.store.shard_of(collection)
    }
}
