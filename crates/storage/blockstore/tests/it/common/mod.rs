//! Block stores on simulated disks.

pub mod shards;

use std::time::Duration;

use blockdev::sim::{SimDevice, SimDisks, SimOptions, SimQueue};
use blockdev::{DeviceId, DeviceQueue, Done, Durability, Geometry, Op, Request, Token};
use blockstore::{Barrier, BlockStore, Checker, Label, Making, OpenError, Opener, Options, Sealing};
use devmodel::Model;
use store::conformance::{Contents, Factory, Properties};
use store::{ByMedium, CollectionId, Compression, CompressionAlgorithm, CompressionMode, ObjectStore};
use types::{GHObject, UTime};

/// A store with the disks that it lies on.
pub struct Simulated {
    pub store: BlockStore<SimQueue>,
    pub disks: SimDisks,
}

impl ObjectStore for Simulated {
    store::pass_on!(self => self.store);
}

/// Compression of all that gets smaller, in blobs of so many bytes.
pub fn forced(algorithm: CompressionAlgorithm, blob_bytes: u64) -> Compression {
    let (mode, bytes) = (CompressionMode::Force, ByMedium { hdd: blob_bytes, ssd: blob_bytes });
    Compression { mode, algorithm, blob_bytes_min: bytes, blob_bytes_max: bytes, ..Compression::default() }
}

/// How the stores of a suite are made.
#[derive(Clone)]
pub struct Sim {
    pub options: Options,
    pub log_bytes: u64,
    pub block_bytes: u32,
    /// The longest request that the devices take.
    pub request_bytes_max: u64,
    /// The devices say that they have to seek.
    pub rotational: bool,
    /// A store that is closed in order first writes everything to its place.
    pub clean: bool,
    /// Of the devices: see [`Geometry::durable_flushes`].
    pub durable_flushes: bool,
    /// The log has a device of its own.
    pub log_apart: bool,
    /// Each superblock is written twice.
    pub copies: bool,
    /// The compression that is set in every store that is opened, for all pools; `None`: as the store has it.
    pub compression: Option<Compression>,
    /// Some crashes come while the store is closed in order, or right after that.
    pub seals: bool,
    /// What no store makes durable.
    pub left_out: Option<Barrier>,
    pub seed: u64,
}

impl Sim {
    pub fn new(options: Options, log_bytes: u64) -> Self {
        Self {
            options,
            log_bytes,
            block_bytes: 512,
            request_bytes_max: 1 << 20,
            rotational: false,
            clean: true,
            durable_flushes: false,
            log_apart: false,
            copies: true,
            compression: None,
            seals: true,
            left_out: None,
            seed: 1,
        }
    }

    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + use<> {
        [DeviceId::Data].into_iter().chain(self.log_apart.then_some(DeviceId::Wal))
    }

    pub fn disks(&self, size_bytes: u64) -> SimDisks {
        self.disks_for(&self.label(size_bytes))
    }

    /// Disks that are as large as a store's label says.
    pub fn disks_for(&self, label: &Label) -> SimDisks {
        let size_bytes = label.size_bytes;
        let geometry = Geometry {
            size_bytes,
            block_bytes: self.block_bytes,
            request_bytes_max: self.request_bytes_max,
            queue_depth: 32,
            discards: true,
            rotational: self.rotational,
            durable_flushes: self.durable_flushes,
        };
        let model = Model::named("ssd", &[], size_bytes).unwrap();
        let mut devices = vec![SimDevice { id: DeviceId::Data, geometry, model }];
        if self.log_apart {
            let size_bytes = label.log_device_bytes();
            let geometry = Geometry { size_bytes, ..geometry };
            let model = Model::named("ssd", &[], size_bytes).unwrap();
            devices.push(SimDevice { id: DeviceId::Wal, geometry, model });
        }
        SimDisks::new(SimOptions { seed: self.seed, jitter_ns: 0..200_000, devices })
    }

    pub fn label(&self, size_bytes: u64) -> Label {
        Label {
            id: self.seed,
            shards: 1,
            size_bytes,
            log_bytes: self.log_bytes,
            log_unit_bytes: self.block_bytes,
            log_apart: self.log_apart,
            copies: self.copies,
            owner: b"a test".to_vec(),
        }
    }

    /// Bytes for copies of a shard's superblocks.
    pub fn copies_bytes(&self) -> u64 {
        let between = if self.log_apart { 64 << 10 } else { 0 };
        if self.copies { between + 2 * 4096 } else { 0 }
    }

    /// One of the two pairs of superblocks of the store that was made last, always the same.
    fn bad_pair(&self) -> u64 {
        let between = if self.log_apart { 64 << 10 } else { self.log_bytes };
        4096 + if self.seed % 2 == 0 { 0 } else { 2 * 4096 + between }
    }

    pub fn make(&self, disks: &SimDisks, label: Label) {
        let mut making = Making::new(disks.open(), label).unwrap();
        self.left_out.into_iter().for_each(|barrier| making.leave_out(barrier));
        let mut now = UTime { sec: 1, nsec: 0 };
        loop {
            match making.turn(now) {
                Some(result) => return drop(result.unwrap()),
                None => now = making.deadline().unwrap(),
            }
        }
    }

    pub fn try_open(&self, disks: &SimDisks) -> Result<Simulated, OpenError> {
        let store = self.try_open_shard(disks, 0)?;
        Ok(Simulated { store, disks: disks.clone() })
    }

    pub fn try_open_shard(&self, disks: &SimDisks, shard: u32) -> Result<BlockStore<SimQueue>, OpenError> {
        self.open_with(Opener::new(disks.open(), shard, self.options)?)
    }

    /// Opens what can be read of a store that is damaged.
    pub fn open_damaged(&self, disks: &SimDisks) -> Result<Simulated, OpenError> {
        let opener = Opener::new(disks.open(), 0, self.options)?.in_spite_of_damage();
        let store = self.open_with(opener)?;
        Ok(Simulated { store, disks: disks.clone() })
    }

    /// Opens a store that is not to be written.
    pub fn open_to_read(&self, disks: &SimDisks) -> Simulated {
        let opener = Opener::new(disks.open(), 0, self.options).map(Opener::to_read);
        let store = opener.and_then(|opener| self.open_with(opener)).unwrap();
        Simulated { store, disks: disks.clone() }
    }

    fn open_with(&self, mut opener: Opener<SimQueue>) -> Result<BlockStore<SimQueue>, OpenError> {
        self.left_out.into_iter().for_each(|barrier| opener.leave_out(barrier));
        let mut now = UTime { sec: 2, nsec: 0 };
        loop {
            match opener.turn(now) {
                Some(result) => {
                    return result.map(|mut store| {
                        store.set_compression(None, self.compression);
                        store
                    });
                }
                None => now = opener.deadline().expect("an opening waits for the device"),
            }
        }
    }

    pub fn open(&self, disks: &SimDisks) -> Simulated {
        self.try_open(disks).unwrap_or_else(|e| panic!("a store that was closed is opened: {e}"))
    }

    /// Closes a store in order, as far as so many turns; returns whether it came to its end.
    pub fn seal(&self, store: &mut BlockStore<SimQueue>, turns: u64) -> bool {
        let mut sealing = Sealing::new(store);
        let mut now = UTime { sec: 1_500_000_000, nsec: 0 };
        for _ in 0..turns {
            match sealing.turn(now) {
                Some(Err(error)) if self.left_out.is_none() => panic!("a store is not closed: {error}"),
                Some(_) => return true,
                None => now = sealing.deadline().expect("it waits for the device"),
            }
        }
        false
    }

    /// Lets a store do all it can.
    pub fn drain(&self, simulated: &mut Simulated) {
        let mut now = UTime { sec: 1_000_000_000, nsec: 0 };
        simulated.store.turn(now);
        for _ in 0..1_000_000 {
            let Some(deadline) = simulated.store.deadline() else { return };
            now = now.max(deadline).after(Duration::from_nanos(1));
            simulated.store.turn(now);
        }
        panic!("the store does not come to rest");
    }
}

/// Has a device do something, and waits for it.
pub fn perform(disks: &SimDisks, device: DeviceId, op: Op) {
    let mut queue = disks.open();
    let mut now = UTime { sec: 1, nsec: 0 };
    queue.submit(now, &mut vec![Request::new(Token(1), device, op)]);
    let mut done = Vec::new();
    while done.is_empty() {
        now = queue.deadline().expect("it is under way");
        queue.turn(now);
        queue.completions(&mut done);
    }
    assert!(matches!(done[0].result, Ok(Done::Written)), "{done:?}");
}

/// Writes over a part of the data device.
pub fn write(disks: &SimDisks, offset: u64, bytes: Vec<u8>) {
    perform(disks, DeviceId::Data, Op::Write { offset, data: bytes.into(), durability: Durability::Durable });
}

/// Fails if a store's metadata contradicts itself.
pub fn check(simulated: &mut Simulated, when: &str) {
    check_shard(&mut simulated.store, when);
}

/// The same of one shard.
pub fn check_shard(store: &mut BlockStore<SimQueue>, when: &str) {
    let mut checker = Checker::new();
    let mut now = UTime { sec: 2_000_000_000, nsec: 0 };
    loop {
        match checker.advance(store) {
            Some(problems) => return assert_eq!(problems, [""; 0], "{when}"),
            None => {
                store.turn(now);
                now = now.max(store.deadline().unwrap_or(now)).after(Duration::from_nanos(1));
                store.turn(now);
            }
        }
    }
}

/// Gives a store turns as its time comes until there is what is wanted.
pub fn drive<S: ObjectStore, T>(
    store: &mut S,
    from: UTime,
    mut wanted: impl FnMut(&mut S, &mut Vec<store::Completion>) -> Option<T>,
) -> T {
    let (mut now, mut completed) = (from, Vec::new());
    for _ in 0..1_000_000 {
        store.turn(now);
        store.completions(&mut completed);
        if let Some(found) = wanted(store, &mut completed) {
            return found;
        }
        now = now.max(store.deadline().unwrap_or(now)).after(Duration::from_nanos(1));
    }
    panic!("the store does not come to it");
}

impl Factory for Sim {
    type Store = Simulated;

    fn properties(&self) -> Properties {
        Properties {
            reopens: true,
            crashes: true,
            checks_data: true,
            fails_commits: true,
            shares_blocks: true,
            ..Properties::VOLATILE
        }
    }

    fn fresh(&mut self, bytes_total: u64) -> Simulated {
        self.seed += 1;
        let blocks = bytes_total / 4096;
        let size_bytes = bytes_total + (blocks / 256 + 128) * 4096 + self.log_bytes + self.copies_bytes();
        let disks = self.disks(size_bytes);
        self.make(&disks, self.label(size_bytes));
        self.open(&disks)
    }

    fn metadata_bytes_max(&self, c: &Contents) -> u64 {
        // Splits and merges leave a collection some ranges of hashes, 12 bytes each.
        let collections = 400 * c.collections + c.info_bytes;
        // Keys double bytes of zero, and have the name twice where it is the key.
        let objects = 140 * c.objects + 6 * c.name_bytes;
        let data = 80 * c.data_blocks;
        let attrs = 32 * c.attrs + c.attr_bytes;
        let omap = 32 * (c.omap_keys + c.objects) + c.omap_bytes;
        4 * (collections + objects + data + attrs + omap + 64 * c.log_records + c.log_bytes)
    }

    fn reopen(&mut self, mut simulated: Simulated) -> Option<Simulated> {
        if self.clean {
            simulated.store.request_checkpoint();
        }
        self.drain(&mut simulated);
        let Simulated { mut store, disks } = simulated;
        if !store.has_failed() {
            assert!(self.seal(&mut store, u64::MAX));
        }
        drop(store);
        self.devices().for_each(|device| disks.heal(device));
        disks.close();
        let mut opened = self.open(&disks);
        check(&mut opened, "after reopening");
        Some(opened)
    }

    fn crash(&mut self, simulated: Simulated, seed: u64) -> Option<Simulated> {
        let Simulated { mut store, disks } = simulated;
        // The store may have been about to be closed in order, or closed.
        if self.seals && (seed >> 8) % 3 == 0 && !store.has_failed() {
            self.seal(&mut store, (seed >> 16) % 12);
        }
        drop(store);
        disks.reseed(seed);
        self.devices().for_each(|device| disks.heal(device));
        disks.power_loss();
        if self.copies && (seed >> 10) % 4 == 0 {
            write(&disks, self.bad_pair(), vec![0; 2 * 4096]);
        }
        // A second power loss while the store is opened: any part of the opening was done.
        let mut opener = Opener::new(disks.open(), 0, self.options).unwrap();
        let mut now = UTime { sec: 2, nsec: 0 };
        for _ in 0..seed % 64 {
            if opener.turn(now).is_some() {
                break;
            }
            now = opener.deadline().unwrap();
        }
        drop(opener);
        disks.power_loss();
        let mut opened = self.open(&disks);
        check(&mut opened, &format!("after power loss {seed}"));
        Some(opened)
    }

    fn damage(
        &mut self,
        mut simulated: Simulated,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
    ) -> Option<Simulated> {
        simulated.store.request_checkpoint();
        self.drain(&mut simulated);
        let at = simulated.store.locate(collection, object, offset)?;
        simulated.disks.flip_bit(DeviceId::Data, at, 3);
        Some(simulated)
    }

    fn fail_commits(&mut self, simulated: &mut Simulated) -> bool {
        self.devices().for_each(|device| simulated.disks.fail_flushes(device));
        true
    }
}
