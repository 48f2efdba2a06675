//! A store on a device that has grown: it has the old end or the new one, whenever power is lost, and the new one for good.

use blockstore::{Label, OpenError, Opener, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, ObjectStore, ReadOutcome, ReadRequest, StatFs, StoreError, Transaction};
use types::{GHObject, HObject, Name, PoolId, UTime};

use crate::common::{Sim, Simulated, check};

const OLD_BYTES: u64 = 16 << 20;
const NEW_BYTES: u64 = 40 << 20;
const DEVICE_BYTES: u64 = 48 << 20;
const C: CollectionId = CollectionId::Meta;

fn object(n: u64) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {n}").into(), n as u32).into()
}

/// Brings an opening that grows the store as far as so many turns.
fn grow(
    sim: &Sim,
    disks: &blockdev::sim::SimDisks,
    to: u64,
    turns: usize,
) -> Option<Result<Simulated, OpenError>> {
    let mut opener = Opener::new(disks.open(), 0, sim.options).unwrap().growing_to(to);
    let mut now = UTime { sec: 2, nsec: 0 };
    for _ in 0..turns {
        match opener.turn(now) {
            Some(opened) => return Some(opened.map(|store| Simulated { store, disks: disks.clone() })),
            None => now = opener.deadline().expect("it waits for the device"),
        }
    }
    None
}

/// Writes objects of 256 KiB until the store is full; returns how many there are then.
fn fill<S: ObjectStore>(h: &mut Harness<S>, from: u64) -> u64 {
    for n in from.. {
        let mut txn = Transaction::new();
        txn.write(C, &object(n), 0, vec![n as u8 + 1; 256 << 10].into());
        let token = h.queue(txn);
        match h.outcome(token) {
            Ok(()) => {}
            Err(StoreError::NoSpace { .. }) => {
                h.acknowledge(token);
                return n;
            }
            Err(other) => panic!("{other}"),
        }
    }
    0
}

fn expect_objects<S: ObjectStore>(h: &mut Harness<S>, count: u64, when: &str) {
    for n in 0..count {
        let (object, advice) = (object(n), store::Advice::default());
        let read =
            ReadRequest::Data { collection: C, object, offset: 0, len: u64::MAX, advice, verify: true };
        let Ok(ReadOutcome::Data(data)) = h.get(read) else { panic!("{when}: object {n}") };
        assert!(data.to_vec() == vec![n as u8 + 1; 256 << 10], "{when}: object {n}");
    }
}

#[test]
fn a_store_on_a_device_that_has_grown_has_the_old_end_or_the_new_one_and_then_the_new_one() {
    let mut sim = Sim::new(Options::default(), 1 << 20);
    let disks = sim.disks(DEVICE_BYTES);
    sim.make(&disks, sim.label(OLD_BYTES));
    let mut h = Harness::new(sim.open(&disks), sim.properties());
    h.commit(|t| t.create_collection(C, 0));
    let full = fill(&mut h, 0);
    let before: StatFs = h.statfs();
    let mut seen = [0, 0];
    for turns in 0.. {
        drop(h.abandon());
        disks.reseed(turns as u64);
        disks.power_loss();
        let done = grow(&sim, &disks, NEW_BYTES, turns);
        let whole = done.is_some();
        drop(done);
        disks.power_loss();
        let mut opened = sim.open(&disks);
        check(&mut opened, &format!("after {turns} turns"));
        let grown = opened.store.device_bytes() == NEW_BYTES;
        assert!(grown || opened.store.device_bytes() == OLD_BYTES, "{}", opened.store.device_bytes());
        assert!(grown || !whole, "an opening that came to its end counts");
        seen[usize::from(grown)] += 1;
        h = Harness::new(opened, sim.properties());
        expect_objects(&mut h, full, &format!("after {turns} turns"));
        if whole {
            break;
        }
    }
    assert!(seen[0] > 0, "no power loss came before the store had grown");
    assert!(h.statfs().bytes_total >= before.bytes_total + (NEW_BYTES - OLD_BYTES) / 256 * 255);
    let more = fill(&mut h, full);
    assert!(more >= full + 80, "24 MiB more hold some 90 objects: {more} are there, {full} were");
    for seed in 0..4 {
        let store = sim.crash(h.abandon(), seed).expect("power can be lost");
        h = Harness::new(store, sim.properties());
        expect_objects(&mut h, more, "grown, and full again");
    }
    // Once more, and closed in order.
    drop(h.abandon());
    disks.close();
    let Some(Ok(store)) = grow(&sim, &disks, DEVICE_BYTES, usize::MAX) else {
        panic!("it does not grow again")
    };
    let store = sim.reopen(store).expect("it opens");
    assert_eq!(store.store.device_bytes(), DEVICE_BYTES);
}

#[test]
fn what_is_no_growth_is_refused_and_changes_nothing() {
    let sim = Sim::new(Options::default(), 1 << 20);
    let disks = sim.disks(DEVICE_BYTES);
    sim.make(&disks, sim.label(OLD_BYTES));
    let refused = |to| grow(&sim, &disks, to, usize::MAX).map(|opened| opened.err());
    assert!(matches!(refused(OLD_BYTES - 4096), Some(Some(OpenError::Shrinks { has: OLD_BYTES, .. }))));
    assert!(matches!(
        refused(DEVICE_BYTES + 4096),
        Some(Some(OpenError::Sizes { device_bytes: DEVICE_BYTES }))
    ));
    assert_eq!(sim.open(&disks).store.device_bytes(), OLD_BYTES);
    let disks = sim.disks(DEVICE_BYTES);
    sim.make(&disks, Label { shards: 2, ..sim.label(OLD_BYTES) });
    let refused = grow(&sim, &disks, NEW_BYTES, usize::MAX).map(|opened| opened.err());
    assert!(matches!(refused, Some(Some(OpenError::Between { shards: 2 }))));
}
