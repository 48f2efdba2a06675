//! Requests that wait for room: whatever they wait for comes, or they are refused.

use std::time::Duration;

use crate::common::{Sim, Simulated};
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{
    CollectionId, Completion, ObjectChange, ObjectStore, ReadOutcome, ReadRequest, StoreError, Token,
    Transaction,
};
use types::{GHObject, HObject, Name, PoolId, UTime};

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

/// Has a store that was just opened commit a transaction, and returns how long its disk took, milliseconds.
fn cold_ms(factory: &mut Sim, h: &mut Option<Harness<Simulated>>, txn: Transaction, sec: u32) -> u64 {
    let mut store = factory.reopen(h.take().unwrap().take()).unwrap();
    // The disk's clock has reached the last end.
    let start = UTime { sec, nsec: 0 };
    let (mut now, mut done) = (start, Vec::new());
    store.queue(txn, Token(1));
    while done.is_empty() {
        store.turn(now);
        store.completions(&mut done);
        now = now.max(store.deadline().unwrap_or(now)).after(Duration::from_nanos(1));
    }
    assert_eq!(done, [Completion::Committed { token: Token(1) }]);
    *h = Some(Harness::new(factory.reopen(store).unwrap(), factory.properties()));
    u64::from(now.sec - start.sec) * 1000 + u64::from(now.nsec / 1_000_000)
}

#[test]
fn what_a_transaction_lacks_it_asks_for_together() {
    const KEYS: u32 = 4000;
    let (c, a) = (CollectionId::Meta, object("a"));
    let key = |n: u32| Name::from(format!("{:08x}", n.wrapping_mul(0x9e37_79b1)));
    let entries = |keys: u32| (0..keys).map(|n| (key(n), vec![n as u8; 200].into())).collect();
    let mut factory = Sim::new(Options { cache_bytes: 64 << 10, ..Options::default() }, 4 << 20);
    let mut first = Harness::new(factory.fresh(64 << 20), factory.properties());
    first.commit(|t| t.create_collection(c, 0).omap_set(c, &a, entries(KEYS)));
    first.commit(|t| t.write(c, &a, 0, vec![1; 8 << 20].into()));
    let mut h = Some(first);
    // Each has some hundred pages or blocks to read, a tenth of a millisecond each.
    let mut set = Transaction::new();
    set.omap_set(c, &a, entries(KEYS / 4));
    let mut remove = Transaction::new();
    remove.change(c, &a, ObjectChange::OmapRemove((0..KEYS / 4).map(key).collect()));
    let mut write = Transaction::new();
    for n in 0..300 {
        write.write(c, &a, n * 5 * 4096 + 7, vec![2].into());
    }
    let all = [("sets", set, 16), ("removals", remove, 12), ("writes", write, 30)];
    for ((what, txn, ms_max), sec) in all.into_iter().zip((2_000_000_000..).step_by(1000)) {
        let ms = cold_ms(&mut factory, &mut h, txn, sec);
        assert!(ms < ms_max, "{what} took {ms} ms");
    }
    let h = h.as_mut().unwrap();
    let data = h.data(c, &a);
    assert!((0..8 << 20).all(|at| data[at] == 1 + u8::from(at % (5 * 4096) == 7 && at / (5 * 4096) < 300)));
    let keys = (0..KEYS).map(key).collect();
    let Ok(ReadOutcome::Omap(page)) = h.get(ReadRequest::OmapKeys { collection: c, object: a, keys }) else {
        panic!("the keys are there")
    };
    assert_eq!(page.entries.len() as u32, KEYS - KEYS / 4);
}
