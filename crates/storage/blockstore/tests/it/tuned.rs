//! What a store is told while it is used.

use blockdev::DeviceId;
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{ByMedium, CollectionId, ObjectStore, Tuning};
use types::{GHObject, HObject, Name, PgId, PoolId};

use crate::common::{Sim, Simulated};

const BYTES: usize = 256 << 10;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u32) -> GHObject {
    let name = format!("object {n}");
    HObject::head(PoolId(1), Name::new(), Name::new(), name.as_str().into(), n).into()
}

fn fresh(options: Options) -> (Sim, Harness<Simulated>) {
    let mut factory = Sim::new(options, 2 << 20);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    (factory, h)
}

/// Discards that an object's removal has come to, once the store is at rest.
fn discards_of(factory: &Sim, mut h: Harness<Simulated>, tuning: Tuning) -> (Harness<Simulated>, u64) {
    h.store().set_tuning(tuning);
    let discards = |h: &mut Harness<Simulated>| h.store().disks.counts(DeviceId::Data).discards;
    let before = discards(&mut h);
    h.commit(|t| t.write(pg(), &object(1), 0, vec![1; BYTES].into()));
    h.commit(|t| t.remove(pg(), &object(1)));
    let mut store = h.take();
    factory.drain(&mut store);
    let mut h = Harness::new(store, factory.properties());
    let after = discards(&mut h);
    (h, after - before)
}

#[test]
fn an_open_store_begins_and_ceases_to_discard_what_is_removed() {
    let off = Tuning::default();
    let on = Tuning { discard: true, ..off };
    let (factory, h) = fresh(Options::default());
    let (h, discards) = discards_of(&factory, h, off);
    assert_eq!(discards, 0);
    let (h, discards) = discards_of(&factory, h, on);
    assert!(discards > 0, "nothing was discarded");
    let (_, discards) = discards_of(&factory, h, off);
    assert_eq!(discards, 0);
}

#[test]
fn an_open_store_takes_new_data_to_the_log_as_it_is_told() {
    let (_, mut h) = fresh(Options::default());
    let mut deferred = |n, bytes| {
        let new_deferred_bytes = ByMedium { hdd: bytes, ssd: bytes };
        h.store().set_tuning(Tuning { new_deferred_bytes, ..Tuning::default() });
        let before = h.store().store.memory().deferred;
        h.commit(|t| t.write(pg(), &object(n), 0, vec![1; BYTES].into()));
        h.store().store.memory().deferred - before
    };
    assert_eq!(deferred(1, 0), 0);
    assert_eq!(deferred(2, BYTES as u64), BYTES as u64);
    assert_eq!(deferred(3, BYTES as u64 - 1), 0);
}
