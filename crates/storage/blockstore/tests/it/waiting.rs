//! Requests that wait for room: whatever they wait for comes, or they are refused.

use crate::common::{Sim, Simulated};
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

/// Sets an attribute of 10,000 objects and brings them into the tree. Returns the most bytes of pages that one turn made.
fn checkpointed(h: &mut Harness<Simulated>, value: u8) -> u64 {
    for first in (0..10_000).step_by(100) {
        let mut many = Transaction::new();
        for n in first..first + 100 {
            many.set_attr(CollectionId::Meta, &object(&n.to_string()), "a", vec![value; 100]);
        }
        let token = h.queue(many);
        assert_eq!(h.outcome(token), Ok(()));
    }
    h.store().store.request_checkpoint();
    let (mut pages, mut most) = (h.store().store.memory().pages, 0);
    while !h.store().store.is_clean() {
        h.turn();
        let now = h.store().store.memory().pages;
        most = most.max(now.saturating_sub(pages));
        pages = now;
    }
    most
}

#[test]
fn a_checkpoint_that_no_one_waits_for_leaves_turns_to_clients() {
    let options = Options { pages_per_turn: 32, ..Options::default() };
    let mut factory = Sim::new(options, 64 << 20);
    let store = factory.fresh(256 << 20);
    let mut h = Harness::new(store, factory.properties());
    h.commit(|t| t.create_collection(CollectionId::Meta, 0));
    // Pages have some 8 KiB. An eighth of 32 are written in a turn, and what the last of them is divided into: also of a tree
    // that is new, of which one page that is not there gets all changes.
    for value in [1, 2] {
        let most = checkpointed(&mut h, value);
        assert!((1..100_000).contains(&most), "{most} bytes of pages in a turn");
    }
}
