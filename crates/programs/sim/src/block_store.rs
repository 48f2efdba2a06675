//! A block store on simulated disks that survives the OSD that has it open: how it is made, opened, closed and broken.

use std::time::Duration;

use blockdev::sim::{SimDevice, SimDisks, SimOptions, SimQueue};
use blockdev::{DeviceId, Geometry};
use blockstore::{BlockStore, Bug, Label, Making, Opener, Options};
use devmodel::Model;
use store::{ByMedium, CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, Token};
use types::{GHObject, SplitMix64, UTime};

use crate::plan::Disks;

/// What the simulator's own reads are numbered by: no OSD numbers its own so high.
const OWN_READ: Token = Token(u64::MAX);

/// No smaller device is modelled.
const MODEL_BYTES_MIN: u64 = 16 << 20;

/// Turns of an opening, or of a read of the simulator's, after which it counts as hanging.
const TURNS_MAX: u32 = 1_000_000;

/// How a read of a damaged block goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The disk returns other bytes.
    Flipped,
    /// The disk reports an error until it is closed.
    Unreadable,
}

/// See the module's documentation.
pub struct BlockStoreOnDisks {
    disks: SimDisks,
    devices: Vec<DeviceId>,
    options: Options,
    /// The end of the disk for data, and whether the store is to reach it from its next opening on.
    device_bytes: u64,
    grows: bool,
    rng: SplitMix64,
    /// `None` while no OSD has it open.
    store: Option<BlockStore<SimQueue>>,
    /// What completed for the OSD while the simulator read.
    kept: Vec<Completion>,
}

impl BlockStoreOnDisks {
    /// Makes a store with room for so many bytes.
    pub fn new(plan: &Disks, bytes: u64, seed: u64, now: UTime) -> Self {
        let label = Label {
            id: seed,
            shards: 1,
            size_bytes: bytes + plan.log_bytes,
            log_bytes: plan.log_bytes,
            log_unit_bytes: plan.block_bytes,
            log_apart: plan.log_apart,
            copies: true,
            owner: b"the simulator".to_vec(),
        };
        let device = |id, size_bytes| SimDevice {
            id,
            geometry: Geometry {
                size_bytes,
                block_bytes: plan.block_bytes,
                request_bytes_max: 256 << 10,
                queue_depth: 8,
                discards: true,
                rotational: false,
                durable_flushes: seed % 2 == 0,
            },
            model: Model::named(plan.model, &[], size_bytes.max(MODEL_BYTES_MIN)).unwrap(),
        };
        let device_bytes = label.size_bytes + plan.spare_bytes;
        let mut devices = vec![device(DeviceId::Data, device_bytes)];
        if plan.log_apart {
            devices.push(device(DeviceId::Wal, label.log_device_bytes()));
        }
        let ids = devices.iter().map(|device| device.id).collect();
        // Requests overtake each other.
        let disks = SimDisks::new(SimOptions { seed, jitter_ns: 0..200_000, devices });
        let mut making = Making::new(disks.open(), label).unwrap();
        let mut at = now;
        while making.turn(at).map(Result::unwrap).is_none() {
            at = making.deadline().unwrap();
        }
        drop(making);
        let options = Options {
            prefer_deferred_bytes: plan.deferred_bytes,
            new_deferred_bytes: ByMedium { hdd: 0, ssd: if seed % 3 == 0 { plan.deferred_bytes } else { 0 } },
            cache_bytes: plan.cache_bytes,
            changes_bytes_max: plan.changes_bytes_max,
            pages_per_turn: 4,
            discard: plan.discards,
        };
        let rng = SplitMix64::new(seed);
        Self { disks, devices: ids, options, device_bytes, grows: false, rng, store: None, kept: Vec::new() }
    }

    /// The store while an OSD has it open.
    pub fn open_store(&mut self) -> &mut BlockStore<SimQueue> {
        self.store.as_mut().unwrap()
    }

    /// Opens the store, with a defect in it if there is one. The disks' clock runs ahead while it is opened.
    ///
    /// # Errors
    /// It can't be opened: never the fault of a power loss.
    pub fn open(&mut self, now: UTime, bug: Option<Bug>) -> Result<(), String> {
        let mut opener =
            Opener::new(self.disks.open(), 0, self.options).map_err(|error| error.to_string())?;
        if self.grows {
            opener = opener.growing_to(vec![self.device_bytes]);
        }
        let mut at = now;
        for _ in 0..TURNS_MAX {
            if let Some(opened) = opener.turn(at) {
                let mut store = opened.map_err(|error| format!("a block store does not open: {error}"))?;
                if let Some(bug) = bug {
                    store.plant(bug);
                }
                self.store = Some(store);
                return Ok(());
            }
            at = opener.deadline().ok_or("the opening of a block store waits for nothing")?;
        }
        Err("the opening of a block store does not end".into())
    }

    /// From its next opening on the store has all of its disk.
    pub fn grow(&mut self) {
        self.grows = true;
    }

    /// The process ends: what the disks have is still there, flushed or not.
    pub fn close(&mut self) {
        self.shut();
        self.disks.close();
    }

    /// The power is lost, sometimes again while the store is opened.
    pub fn power_loss(&mut self, now: UTime) {
        self.shut();
        self.disks.power_loss();
        while self.rng.one_in(3) {
            self.open_in_part(now);
            self.disks.power_loss();
        }
    }

    fn shut(&mut self) {
        self.store = None;
        self.kept.clear();
        self.devices.iter().for_each(|device| self.disks.heal(*device));
    }

    /// Does a first part of an opening.
    fn open_in_part(&mut self, now: UTime) {
        let Ok(mut opener) = Opener::new(self.disks.open(), 0, self.options) else { return };
        let mut at = now;
        for _ in 0..self.rng.below(40) {
            let done = opener.turn(at).is_some();
            match opener.deadline().filter(|_| !done) {
                Some(deadline) => at = deadline,
                None => return,
            }
        }
    }

    /// From now on the disks fail to make durable what is written to them: flushes, or writes anywhere.
    pub fn fail_commits(&mut self) {
        let which = self.rng.below(self.devices.len() as u64) as usize;
        match self.rng.one_in(2) {
            true => self.disks.fail_flushes(self.devices[which]),
            false => self.disks.fail_writes(self.devices[which], 0..u64::MAX),
        }
    }

    /// Damages the block with a byte of an object where it lies on the disk, if it does.
    pub fn damage(&mut self, collection: CollectionId, object: &GHObject, offset: u64) -> Option<Damage> {
        let store = self.store.as_mut()?;
        let at = store.locate(collection, object, offset).filter(|at| store.is_proven(*at))?;
        if self.rng.one_in(3) {
            let block = at - at % blockstore::BLOCK;
            self.disks.fail_reads(DeviceId::Data, block..block + blockstore::BLOCK);
            return Some(Damage::Unreadable);
        }
        self.disks.flip_bit(DeviceId::Data, at, self.rng.below(8) as u32);
        Some(Damage::Flipped)
    }

    /// What a read sees now; `None` while the store is not open. The disks' clock may run ahead for it.
    pub fn look(&mut self, now: UTime, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        let store = self.store.as_mut()?;
        if let Some(result) = store.peek(request) {
            return Some(result);
        }
        store.read(request.clone(), OWN_READ);
        let mut at = now;
        for _ in 0..TURNS_MAX {
            store.turn(at);
            store.completions(&mut self.kept);
            let own = self.kept.iter().position(|completion| completion.token() == OWN_READ);
            if let Some(Completion::Read { result, .. }) = own.map(|own| self.kept.remove(own)) {
                return Some(result);
            }
            at = at.max(store.deadline()?).after(Duration::from_nanos(1));
        }
        None
    }

    /// When the OSD has to look: what completed while the simulator read is due at once.
    pub fn deadline(&self) -> Option<UTime> {
        match self.kept.is_empty() {
            true => self.store.as_ref()?.deadline(),
            false => Some(UTime::default()),
        }
    }

    /// What completed for the OSD.
    pub fn completions(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.kept);
        self.open_store().completions(out);
    }
}
