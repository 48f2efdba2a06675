//! Requests that wait for room: whatever they wait for comes, or they are refused.

use crate::common::Sim;
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{CollectionId, StoreError, Transaction};
use types::{GHObject, HObject, Name, PoolId};

fn object(name: &str) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 1).into()
}

#[test]
fn a_change_that_never_fits_is_refused_also_beside_another_refusal() {
    let mut factory = Sim::new(Options::default(), 1 << 20);
    let store = factory.fresh(256 << 20);
    let mut h = Harness::new(store, factory.properties());
    let c = CollectionId::Meta;
    h.commit(|t| t.create_collection(c, 0));
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    // The log is empty: no checkpoint makes more room. A record names each block beside it, and has a quarter of the log.
    let mut absent = Transaction::new();
    absent.remove(CollectionId::Pg(types::PgId { pool: PoolId(1), seed: 0 }.into()), &object("absent"));
    let mut large = Transaction::new();
    large.write(c, &object("a"), 0, vec![7; 80 << 20].into());
    let (absent, large) = (h.queue(absent), h.queue(large));
    assert!(h.outcome(absent).is_err());
    assert!(matches!(h.outcome(large), Err(StoreError::NoSpace { .. })));
}
