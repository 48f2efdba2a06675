//! A small store for tests of parts that are inside of it.

use blockdev::sim::{SimDevice, SimDisks, SimOptions, SimQueue};
use blockdev::{DeviceId, Geometry};
use devmodel::Model;
use store::ObjectStore;
use types::UTime;

use crate::{BlockStore, Checker, Label, Making, Opener, Options};

/// A new small store on a simulated device.
pub fn store() -> BlockStore<SimQueue> {
    store_of(4 << 20)
}

/// A new store of so many bytes.
pub fn store_of(size_bytes: u64) -> BlockStore<SimQueue> {
    let geometry = Geometry {
        size_bytes,
        block_bytes: 512,
        request_bytes_max: 1 << 20,
        queue_depth: 32,
        discards: true,
        rotational: false,
        durable_flushes: false,
    };
    let model = Model::named("ssd", &[], size_bytes).expect("a model");
    let devices = vec![SimDevice { id: DeviceId::Data, geometry, model }];
    let disks = SimDisks::new(SimOptions { seed: 1, jitter_ns: 0..1000, devices });
    let label = Label {
        id: 1,
        shards: 1,
        size_bytes,
        log_bytes: 256 << 10,
        log_unit_bytes: 512,
        log_apart: false,
        copies: true,
        owner: Vec::new(),
    };
    let mut making = Making::new(disks.open(), label).expect("it has room");
    let mut now = UTime { sec: 1, nsec: 0 };
    while making.turn(now).is_none() {
        now = making.deadline().expect("it waits for the device");
    }
    let mut opener = Opener::new(disks.open(), 0, Options::default()).expect("a device");
    loop {
        match opener.turn(now) {
            Some(opened) => return opened.expect("it opens"),
            None => now = opener.deadline().expect("it waits for the device"),
        }
    }
}

/// Lets a store do all it can.
pub fn rest(store: &mut BlockStore<SimQueue>) {
    rests(store, usize::MAX);
}

/// Whether a store has done all it can after so many turns.
pub fn rests(store: &mut BlockStore<SimQueue>, turns: usize) -> bool {
    let mut now = UTime { sec: 1_000_000, nsec: 0 };
    store.turn(now);
    for _ in 0..turns {
        let Some(deadline) = store.deadline() else { return true };
        now = now.max(deadline).after(std::time::Duration::from_nanos(1));
        store.turn(now);
    }
    false
}

/// What a check finds.
pub fn checked(store: &mut BlockStore<SimQueue>) -> (Checker, Vec<String>) {
    let mut checker = Checker::new();
    loop {
        if let Some(problems) = checker.advance(store) {
            return (checker, problems);
        }
        rest(store);
    }
}
