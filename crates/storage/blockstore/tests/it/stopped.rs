//! A store that stopped while a checkpoint was under way: it reads what it has, and begins no other checkpoint.

use blockdev::DeviceId;
use blockstore::{Checker, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, StoreError, Transaction};
use types::{GHObject, HObject, Name, PgId, PoolId, UTime};

use crate::common::{Sim, Simulated, drive};

const LOG_BYTES: u64 = 256 << 10;
/// Where data and pages begin: behind the label, the superblocks and the log.
const BLOCKS: u64 = 4096 + 2 * 4096 + LOG_BYTES + 2 * 4096;
const OBJECTS: u32 = 12;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {n}").as_str().into(), n << 20).into()
}

fn check(h: &mut Harness<Simulated>, when: &str) {
    for n in 0..OBJECTS {
        assert!(h.data(pg(), &object(n)) == [n as u8 + 1; 5_000], "{when}: object {n}");
    }
}

fn takes_changes(h: &mut Harness<Simulated>) -> bool {
    let mut txn = Transaction::new();
    txn.set_info(pg(), vec![1; 8]);
    h.apply(txn).is_ok()
}

#[test]
fn what_was_frozen_for_a_checkpoint_that_failed_stays() {
    let mut factory = Sim::new(Options { cache_bytes: 8 << 10, ..Options::default() }, LOG_BYTES);
    let mut h = Harness::new(factory.fresh(4 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    for n in 0..OBJECTS {
        h.commit(|t| t.write(pg(), &object(n), 0, vec![n as u8 + 1; 5_000].into()));
    }
    let disks = h.store().disks.clone();
    // The log goes on: only what a checkpoint writes fails.
    disks.fail_writes(DeviceId::Data, BLOCKS..u64::MAX);
    h.store().store.request_checkpoint();
    let stops = (0..1_000).any(|_| !takes_changes(&mut h));
    assert!(stops, "the checkpoint can't write what it has to");
    disks.heal(DeviceId::Data);
    h.store().store.request_checkpoint();
    (0..100_000).for_each(|_| h.turn());
    check(&mut h, "stopped");
    drop(h.abandon());
    disks.close();
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    check(&mut h, "opened again");
    assert!(takes_changes(&mut h));
}

#[test]
fn mending_ends_where_the_store_fails() {
    let mut factory = Sim::new(Options::default(), LOG_BYTES);
    let mut h = Harness::new(factory.fresh(4 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    let Simulated { mut store, disks } = h.take();
    let now = UTime { sec: 2_000_000_000, nsec: 0 };
    let mut checker = Checker::new();
    assert_eq!(drive(&mut store, now, |store, _| checker.advance(store)), [""; 0]);
    // The record is in the log, and the checkpoint fails.
    disks.fail_writes(DeviceId::Data, BLOCKS..u64::MAX);
    assert_eq!(drive(&mut store, now, |store, _| checker.repair(store)), Ok(()));
    store.request_checkpoint();
    let ended = drive(&mut store, now, |store, _| store.emptied());
    assert!(matches!(ended, Err(StoreError::Io { .. })), "{ended:?}");
    let ended = drive(&mut store, now, |store, _| checker.repair(store));
    assert_eq!(ended, Err(StoreError::Stopped), "a store that has stopped takes no change");
    drop(store);
    disks.heal(DeviceId::Data);
    disks.close();
    let Simulated { mut store, .. } = factory.open(&disks);
    store.request_checkpoint();
    assert_eq!(drive(&mut store, now, |store, _| store.emptied()), Ok(()));
}
