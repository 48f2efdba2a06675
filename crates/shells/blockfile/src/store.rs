//! The handle: the pure store on its devices.

use std::fs::File;
use std::os::fd::OwnedFd;

use blockstore::BlockStore;
use device::{DirLock, RingEvent};
use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreShard, Token,
    Transaction, Waker,
};
use types::UTime;

use crate::growing::Growing;
use crate::open::Queue;
use crate::room::Room;

/// What an open store keeps from others.
pub type Held = (DirLock, Option<File>);

/// An open store. Dropping it waits for the requests that the device has, and closes the file; what was not completed
/// is there or not, as after a power loss.
pub struct BlockFileStore {
    store: BlockStore<Queue>,
    room: Option<Room>,
    /// What allocates the file ahead; a block device has all of its bytes.
    growing: Option<Growing>,
    event: Option<RingEvent>,
    /// The latest time that the store knows.
    now: UTime,
    /// Dropped last, when the file is closed: the directory's lock, and a device that no one else may take.
    _held: Held,
}

impl BlockFileStore {
    pub(crate) fn new(
        store: BlockStore<Queue>,
        room: Option<Room>,
        event: Option<RingEvent>,
        now: UTime,
        held: Held,
    ) -> Self {
        Self { store, room, growing: None, event, now, _held: held }
    }

    /// Has the file grow in steps, from the bytes that it has been given.
    pub(crate) fn grows(&mut self, growing: Growing) {
        self.store.open_to(growing.given());
        self.growing = Some(growing);
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

    /// The pure store, for what its tools ask of it beside the contract.
    pub fn inner(&mut self) -> &mut BlockStore<Queue> {
        &mut self.store
    }
}

/// Takes from an answer what the file system lacks.
fn limited(room: &mut Option<Room>, now: UTime, outcome: &mut ReadOutcome) {
    if let (Some(room), ReadOutcome::StatFs(statfs)) = (room, outcome) {
        room.limit(now, statfs);
    }
}

impl ObjectStore for BlockFileStore {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.store.queue(txn, token);
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.store.read(request, token);
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        let mut result = self.store.peek(request);
        if let Some(Ok(outcome)) = &mut result {
            limited(&mut self.room, self.now, outcome);
        }
        result
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
    }

    fn deadline(&self) -> Option<UTime> {
        self.store.deadline()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        let before = out.len();
        self.store.completions(out);
        for completion in &mut out[before..] {
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

    fn shards(&self) -> u32 {
        self.store.shards()
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.store.shard_of(collection)
    }
}
