//! Stores of several shards on simulated disks, each shard opened over a queue of its own.

use blockdev::DeviceId;
use blockdev::sim::{SimDisks, SimQueue};
use blockstore::{BlockStore, Label, OpenError, Opener};
use store::conformance::{Contents, Factory, Properties};
use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Sharded, StoreError, StoreShard, Token,
    Transaction, Waker,
};
use types::{GHObject, UTime};

use super::{Sim, check_shard, drive};

/// A store of several shards with the disks that it lies on.
pub struct Whole {
    pub store: Sharded<BlockStore<SimQueue>>,
    disks: SimDisks,
}

/// How they are made.
pub struct Shards {
    pub sim: Sim,
    pub shards: u32,
    /// They are made as small as can be, and grow twice to their size.
    pub grown: bool,
}

const OPENED: UTime = UTime { sec: 3, nsec: 0 };
const CLOSED: UTime = UTime { sec: 1_000_000_000, nsec: 0 };

impl Shards {
    pub fn label(&self, size_bytes: u64) -> Label {
        Label { shards: self.shards, ..self.sim.label(size_bytes) }
    }

    /// Brings openings that grow the shards, one after the other, as far as so many turns; returns whether all came to their
    /// end.
    pub fn grow(&self, disks: &SimDisks, ends: &[u64], turns: usize) -> Result<bool, OpenError> {
        self.change(disks, turns, |opener| opener.growing_to(ends.to_vec()))
    }

    /// The same of other openings that change something.
    pub fn change(
        &self,
        disks: &SimDisks,
        mut turns: usize,
        how: impl Fn(Opener<SimQueue>) -> Opener<SimQueue>,
    ) -> Result<bool, OpenError> {
        for shard in 0..self.shards {
            let mut opener = how(Opener::new(disks.open(), shard, self.sim.options)?);
            let mut now = OPENED;
            loop {
                if turns == 0 {
                    return Ok(false);
                }
                turns -= 1;
                match opener.turn(now) {
                    Some(opened) => break drop(opened?),
                    None => now = opener.deadline().expect("it waits for the device"),
                }
            }
        }
        Ok(true)
    }

    /// 1 MiB is the least that a shard has for blocks, and by which it grows.
    pub fn least_bytes(&self) -> u64 {
        let log_bytes = if self.sim.log_apart { 0 } else { self.sim.log_bytes };
        4096 + u64::from(self.shards) * (8192 + log_bytes + self.sim.copies_bytes() + (1 << 20))
    }

    /// Makes a store that grows twice to this size.
    pub fn make_grown(&self, disks: &SimDisks, size_bytes: u64) {
        let least = self.least_bytes();
        let label = self.label(least);
        let first = label.ends_with(&[], least + (size_bytes - least) / 3).unwrap().unwrap();
        let second = label.ends_with(&first, size_bytes).unwrap().unwrap();
        self.sim.make(disks, label);
        for ends in [first, second] {
            assert_eq!(self.grow(disks, &ends, usize::MAX), Ok(true));
        }
    }

    pub fn open(&self, disks: &SimDisks, when: &str) -> Whole {
        let shard = |number| {
            let mut handle =
                self.sim.try_open_shard(disks, number).expect("a store that was closed is opened");
            check_shard(&mut handle, when);
            handle.read(ReadRequest::Collections, Token(0));
            let answer = drive(&mut handle, OPENED, |_, completed| completed.pop());
            let Completion::Read { result: Ok(ReadOutcome::Collections(all)), .. } = answer else {
                panic!("{answer:?}")
            };
            (handle, all)
        };
        let mut store = Sharded::new((0..self.shards).map(shard).collect());
        drive(&mut store, OPENED, |store, _| store.is_settled().then_some(()));
        Whole { store, disks: disks.clone() }
    }

    /// Closes a store as soon as nothing is in its logs.
    pub fn close_clean(&self, mut whole: Whole) {
        drive(&mut whole.store, CLOSED, |store, _| {
            // A record may follow a checkpoint: that what it gave up is given up.
            let left = store.handles().iter_mut().filter(|handle| !handle.is_clean());
            let left = left.map(BlockStore::request_checkpoint).count();
            (left == 0).then_some(())
        });
        let Whole { store, disks } = whole;
        drop(store);
        disks.close();
    }

    /// Has every shard do all that it can.
    fn drain(&self, whole: &mut Whole, checkpoint: bool) {
        let ask = |handle: &mut BlockStore<SimQueue>| handle.request_checkpoint();
        whole.store.handles().iter_mut().filter(|_| checkpoint).for_each(ask);
        drive(&mut whole.store, CLOSED, |store, _| store.deadline().is_none().then_some(()));
    }
}

impl Factory for Shards {
    type Store = Whole;

    fn properties(&self) -> Properties {
        Properties { shards: self.shards, shares_space: false, ..self.sim.properties() }
    }

    fn fresh(&mut self, bytes_total: u64) -> Whole {
        self.sim.seed += 1;
        let blocks = bytes_total / 4096;
        let of_shard =
            bytes_total + (blocks / 256 + 128) * 4096 + self.sim.log_bytes + self.sim.copies_bytes();
        let size_bytes = 4096 + of_shard * u64::from(self.shards);
        let label = self.label(size_bytes);
        let disks = self.sim.disks_for(&label);
        match self.grown {
            true => self.make_grown(&disks, size_bytes),
            false => self.sim.make(&disks, label),
        }
        self.open(&disks, "when it is new")
    }

    fn metadata_bytes_max(&self, contents: &Contents) -> u64 {
        // A collection on its way is in two shards, and has a mark.
        self.sim.metadata_bytes_max(contents) + 4 * 400 * contents.collections
    }

    fn reopen(&mut self, mut whole: Whole) -> Option<Whole> {
        self.drain(&mut whole, self.sim.clean);
        let Whole { mut store, disks } = whole;
        for handle in store.handles() {
            assert!(handle.has_failed() || self.sim.seal(handle, u64::MAX));
        }
        drop(store);
        self.sim.devices().for_each(|device| disks.heal(device));
        disks.close();
        Some(self.open(&disks, "after reopening"))
    }

    fn crash(&mut self, whole: Whole, seed: u64) -> Option<Whole> {
        let Whole { store, disks } = whole;
        drop(store);
        disks.reseed(seed);
        self.sim.devices().for_each(|device| disks.heal(device));
        disks.power_loss();
        Some(self.open(&disks, &format!("after power loss {seed}")))
    }

    fn damage(&mut self, mut whole: Whole, c: CollectionId, object: &GHObject, offset: u64) -> Option<Whole> {
        self.drain(&mut whole, true);
        let shard = whole.store.shard_of(c).0 as usize;
        let at = whole.store.handles()[shard].locate(c, object, offset)?;
        whole.disks.flip_bit(DeviceId::Data, at, 3);
        Some(whole)
    }

    fn fail_commits(&mut self, whole: &mut Whole) -> bool {
        self.sim.devices().for_each(|device| whole.disks.fail_flushes(device));
        true
    }
}

impl ObjectStore for Whole {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.store.queue(txn, token);
    }
    fn read(&mut self, request: ReadRequest, token: Token) {
        self.store.read(request, token);
    }
    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.store.peek(request)
    }
    fn acknowledge(&mut self, refused: Token) {
        self.store.acknowledge(refused);
    }
    fn rehome(&mut self, c: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        self.store.rehome(c, to, objects_max, token);
    }
    fn turn(&mut self, now: UTime) {
        self.store.turn(now);
    }
    fn deadline(&self) -> Option<UTime> {
        self.store.deadline()
    }
    fn completions(&mut self, out: &mut Vec<Completion>) {
        self.store.completions(out);
    }
    fn set_waker(&mut self, waker: Waker) {
        self.store.set_waker(waker);
    }
    fn shards(&self) -> u32 {
        self.store.shards()
    }
    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.store.shard_of(collection)
    }
}
