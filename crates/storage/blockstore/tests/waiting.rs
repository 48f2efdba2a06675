//! Requests that wait for room: whatever they wait for comes, or they are refused.

mod common;

use blockstore::Options;
use common::Sim;
use store::conformance::{Factory, Harness};
use store::{CollectionId, StoreError, Transaction};
use types::{GHObject, HObject, Name, PoolId};

fn object(name: &str) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 1).into()
}

#[test]
fn a_record_too_large_for_the_log_is_refused_also_beside_another_refusal() {
    let mut factory = Sim::new(Options::default(), 1 << 20);
    let store = factory.fresh(64 << 20);
    let mut h = Harness::new(store, factory.properties());
    let c = CollectionId::Meta;
    h.commit(|t| t.create_collection(c, 0));
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    // The log is empty: no checkpoint makes more room.
    let mut absent = Transaction::new();
    absent.remove(CollectionId::Pg(types::PgId { pool: PoolId(1), seed: 0 }.into()), &object("absent"));
    let mut large = Transaction::new();
    let keys = (0..2000u32).map(|n| (Name::from(format!("{n:05}")), vec![7; 1000].into()));
    large.omap_set(c, &object("a"), keys.collect());
    let (absent, large) = (h.queue(absent), h.queue(large));
    assert!(h.outcome(absent).is_err());
    assert!(matches!(h.outcome(large), Err(StoreError::NoSpace { .. })));
}
