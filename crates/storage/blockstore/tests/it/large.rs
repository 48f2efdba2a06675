//! Changes that would not fit into one record of the log: they take effect at once, and the work follows.

use crate::common::{Sim, Simulated, check};
use crate::gaps::blocks_with;
use blockdev::DeviceId;
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{AttrChoice, CollectionId, ObjectChange, ReadOutcome, ReadRequest, Transaction};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64};

fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn object(name: &str, hash: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), hash).into()
}

/// A store whose log holds a fraction of what the tests change at once.
fn factory() -> Sim {
    let options = Options { changes_bytes_max: 1 << 20, cache_bytes: 256 << 10, ..Options::default() };
    Sim::new(options, 256 << 10)
}

fn add_keys(h: &mut Harness<Simulated>, c: CollectionId, object: &GHObject, keys: u32) {
    for first in (0..keys).step_by(400) {
        let keys = (first..first + 400).map(|n| (format!("key {n:08}").as_str().into(), vec![7; 20].into()));
        h.commit(|t| t.omap_set(c, object, keys.collect()));
    }
}

/// The store with all its work done, and checked.
pub fn rested(factory: &Sim, h: Harness<Simulated>) -> Harness<Simulated> {
    let mut store = h.take();
    factory.drain(&mut store);
    check(&mut store, "at rest");
    Harness::new(store, factory.properties())
}

#[test]
fn an_object_with_more_keys_than_the_log_holds_is_removed_and_its_space_comes_back() {
    let mut factory = factory();
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let (c, large, other) = (pg(0), object("large", 1), object("other", 2));
    h.commit(|t| t.create_collection(c, 0));
    add_keys(&mut h, c, &other, 400);
    let before = rested(&factory, h);
    h = before;
    let before = h.statfs();
    add_keys(&mut h, c, &large, 12_000);
    h.commit(|t| t.write(c, &large, 0, vec![3; 1 << 20].into()));
    h.commit(|t| t.remove(c, &large));
    assert_eq!((h.list(c), h.statfs().objects), (vec![other.clone()], 1));
    // The name is free at once.
    h.commit(|t| t.touch(c, &large));
    assert!(h.omap(c, &large).is_empty());
    h.commit(|t| t.remove(c, &large));
    h = rested(&factory, h);
    let after = h.statfs();
    assert_eq!((after.data_bytes, after.metadata_bytes), (before.data_bytes, before.metadata_bytes));
    assert_eq!(h.omap(c, &other).len(), 400);
}

/// The device takes 1 MiB a request.
#[test]
fn entries_longer_than_a_request_are_read_back() {
    let mut factory = factory();
    let mut h = Harness::new(factory.fresh(256 << 20), factory.properties());
    let (c, values, keys) = (pg(0), object("values", 1), object("keys", 2));
    let value: Vec<u8> = (0..5 << 20).map(|n: u32| (n >> 8) as u8).collect();
    let long = |n: u32| Name::from(format!("{n:02}{}", "k".repeat(300_000)).as_str());
    h.commit(|t| t.create_collection(c, 0));
    h.commit(|t| t.omap_set(c, &values, vec![("value".into(), value.clone().into())]));
    h.commit(|t| t.set_attr(c, &values, "attr", value[..3 << 20].to_vec()));
    // Pages above the leaves have four keys and more.
    for n in 0..40 {
        h.commit(|t| t.omap_set(c, &keys, vec![(long(n), vec![1].into())]));
    }
    let rested = rested(&factory, h);
    let store = factory.crash(rested.abandon(), 7).expect("power can be lost");
    let mut h = Harness::new(store, factory.properties());
    assert!(h.omap(c, &values) == [("value".into(), value.clone().into())]);
    let request = ReadRequest::Object { collection: c, object: values.clone(), attrs: AttrChoice::All };
    let read = h.ask(request);
    let Ok(ReadOutcome::Object(Some(head))) = h.result(read) else { panic!("the object can't be read") };
    assert!(head.attrs.get(b"attr").is_some_and(|attr| attr[..] == value[..3 << 20]));
    assert!(h.omap(c, &keys).iter().map(|(key, _)| key.clone()).eq((0..40).map(long)));
    h.commit(|t| t.remove(c, &values).remove(c, &keys));
    assert!(h.list(c).is_empty());
}

#[test]
fn an_omap_that_is_cleared_is_empty_at_once_and_takes_new_keys() {
    let mut factory = factory();
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let (c, a, b) = (pg(0), object("a", 1), object("b", 2));
    h.commit(|t| t.create_collection(c, 0));
    for round in 0..3 {
        add_keys(&mut h, c, &a, 4000);
        h.commit(|t| t.change(c, &a, ObjectChange::OmapClear).set_attr(c, &a, "round", vec![round]));
        assert!(h.omap(c, &a).is_empty());
        h.commit(|t| t.omap_set(c, &a, vec![("new".into(), vec![round].into())]));
        h.commit(|t| t.clone_object(c, &a, &b));
        assert_eq!(h.omap(c, &a), h.omap(c, &b));
        if round == 1 {
            h = Harness::new(factory.crash(h.abandon(), 5).expect("power can be lost"), factory.properties());
        }
        assert_eq!(h.omap(c, &a), [("new".into(), vec![round].into())]);
    }
    h.commit(|t| t.remove(c, &a).remove(c, &b));
    let mut h = rested(&factory, h);
    assert_eq!((h.list(c), h.statfs().data_bytes), (vec![], 0));
}

#[test]
fn a_removal_goes_on_after_power_losses() {
    let mut factory = factory();
    let mut random = SplitMix64::new(4);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let c = pg(0);
    h.commit(|t| t.create_collection(c, 0));
    for round in 0..8u32 {
        let (large, kept) = (object("large", 1), object("kept", 2));
        add_keys(&mut h, c, &large, 4000);
        let mut txn = Transaction::new();
        txn.write(c, &large, 0, vec![1; 300_000].into());
        txn.clone_object(c, &large, &kept);
        assert_eq!(h.apply(txn), Ok(()));
        let mut txn = Transaction::new();
        txn.remove(c, &large).change(c, &kept, ObjectChange::OmapClear);
        assert_eq!(h.apply(txn), Ok(()));
        for _ in 0..random.below(60) {
            h.turn();
        }
        let store = factory.crash(h.abandon(), u64::from(round)).expect("power can be lost");
        h = Harness::new(store, factory.properties());
        assert_eq!(h.list(c), std::slice::from_ref(&kept), "round {round}");
        assert_eq!((h.omap(c, &kept).len(), h.data(c, &kept)), (0, vec![1; 300_000]), "round {round}");
        h.commit(|t| t.remove(c, &kept));
    }
    let mut h = rested(&factory, h);
    assert_eq!(h.statfs().data_bytes, 0);
}

/// Objects of a parent and what their hashes are: of the PG's own, and of both of its halves.
fn objects(n: u32) -> Vec<GHObject> {
    let mut random = SplitMix64::new(8);
    (0..n).map(|i| object(&format!("object {i}"), random.next_u64() as u32)).collect()
}

#[test]
fn a_split_and_a_merge_of_many_objects_touch_none_of_them() {
    const BITS: u32 = 3;
    let mut factory = factory();
    let mut h = Harness::new(factory.fresh(128 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(0), 0));
    let mut all = objects(6000);
    for some in all.chunks(200) {
        h.commit(|t| some.iter().fold(t, |t, o| t.touch(pg(0), o)));
    }
    all.sort();
    // Each child has its own object before it gets those of its parent, as PGs have.
    for seed in 1..1 << BITS {
        let own = object("", seed);
        h.commit(|t| t.create_collection(pg(seed), BITS).touch(pg(seed), &own));
        h.commit(|t| t.split(pg(0), BITS, seed, pg(seed)));
    }
    let of = |seed: u32| all.iter().filter(move |o| o.hobj.hash % (1 << BITS) == seed).cloned();
    for seed in 0..1 << BITS {
        let mut want: Vec<GHObject> = of(seed).chain((seed > 0).then(|| object("", seed))).collect();
        want.sort();
        assert!(h.list(pg(seed)) == want, "PG {seed}");
        let changed = of(seed).next().expect("each has some");
        h.commit(|t| t.write(pg(seed), &changed, 0, vec![9; 100].into()));
        assert_eq!(h.data(pg(seed), &changed).len(), 100);
    }
    let store = factory.reopen(h.take()).expect("it can be opened again");
    let mut h = Harness::new(store, factory.properties());
    for seed in (1..1 << BITS).rev() {
        h.commit(|t| t.remove(pg(seed), &object("", seed)));
        h.commit(|t| t.merge(pg(seed), pg(0), 0));
    }
    assert!(h.list(pg(0)) == all, "all are back");
    let store = factory.crash(h.take(), 3).expect("power can be lost");
    let mut h = Harness::new(store, factory.properties());
    assert!(h.list(pg(0)) == all, "all are back");
}

#[test]
fn a_transaction_larger_than_the_log_is_taken_and_survives() {
    let mut factory = factory();
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let (c, a, b) = (pg(0), object("a", 1), object("b", 2));
    h.commit(|t| t.create_collection(c, 0));
    for round in 0..3u8 {
        let keys = (0..8000).map(|n| (format!("key {n:08}").as_str().into(), vec![round; 30].into()));
        let keys: Vec<(Name, buffer::Piece)> = keys.collect();
        h.commit(|t| t.omap_set(c, &a, keys.clone()).write(c, &a, 0, vec![round; 200_000].into()));
        h.commit(|t| t.clone_object(c, &a, &b));
        let store = match round % 2 {
            0 => factory.crash(h.abandon(), u64::from(round)),
            _ => factory.reopen(h.take()),
        };
        h = Harness::new(store.expect("it opens"), factory.properties());
        assert!(h.omap(c, &a) == keys && h.omap(c, &b) == keys, "round {round}");
        assert_eq!(h.data(c, &b), vec![round; 200_000]);
    }
    h.commit(|t| t.remove(c, &a).remove(c, &b));
    let mut h = rested(&factory, h);
    assert_eq!((h.list(c), h.statfs().data_bytes), (vec![], 0));
}

#[test]
fn what_lies_in_the_onode_of_an_object_with_many_keys_is_given_up_with_it() {
    let mut factory = factory();
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let (c, large) = (pg(0), object("large", 1));
    h.commit(|t| t.create_collection(c, 0));
    h = rested(&factory, h);
    let before = h.statfs();
    add_keys(&mut h, c, &large, 12_000);
    h.commit(|t| t.write(c, &large, 0, vec![3; 5000].into()).set_attr(c, &large, "_", vec![1; 280]));
    h.commit(|t| t.remove(c, &large));
    h = rested(&factory, h);
    let after = h.statfs();
    assert_eq!((after.data_bytes, after.metadata_bytes), (before.data_bytes, before.metadata_bytes));
}

#[test]
fn a_removal_that_meets_a_bad_leaf_keeps_no_other_from_its_end() {
    // Its logs and its size are those of `blocks_with`.
    let mut factory = factory();
    let mut h = Harness::new(factory.fresh(16 << 20), factory.properties());
    let c = pg(0);
    h.commit(|t| t.create_collection(c, 0));
    let add = |h: &mut Harness<Simulated>, name: &str| {
        for first in (0..3000).step_by(300) {
            let key = |n: u32| format!("{name} {n:08}").as_str().into();
            let keys = (first..first + 300).map(|n| (key(n), vec![7; 20].into()));
            h.commit(|t| t.omap_set(c, &object(name, 1), keys.collect()));
        }
    };
    let rest = |h: Harness<Simulated>| {
        let mut simulated = h.take();
        simulated.store.request_checkpoint();
        factory.drain(&mut simulated);
        assert!(!simulated.store.has_failed() && simulated.store.is_clean());
        simulated
    };
    add(&mut h, "first");
    add(&mut h, "second");
    let Simulated { mut store, disks } = rest(h);
    assert!(factory.seal(&mut store, u64::MAX));
    drop(store);
    disks.close();
    let leaf = blocks_with(&disks, b"first 00002500");
    assert!(!leaf.is_empty());
    leaf.iter().for_each(|(at, _)| disks.flip_bit(DeviceId::Data, at + 9, 1));

    let mut h = Harness::new(factory.open(&disks), factory.properties());
    h.commit(|t| t.remove(c, &object("first", 1)));
    h = Harness::new(rest(h), factory.properties());
    let before = h.statfs().metadata_bytes;
    h.commit(|t| t.remove(c, &object("second", 1)));
    h = Harness::new(rest(h), factory.properties());
    let after = h.statfs().metadata_bytes;
    assert!(after + 3000 * 30 < before, "{before} bytes before, {after} after");
    // The next opening with the leaf in order removes the rest.
    let Simulated { mut store, disks } = rest(h);
    assert!(factory.seal(&mut store, u64::MAX));
    drop(store);
    disks.close();
    leaf.iter().for_each(|(at, _)| disks.flip_bit(DeviceId::Data, at + 9, 1));
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    h.commit(|t| t.touch(c, &object("other", 2)));
    let mut simulated = rest(h);
    check(&mut simulated, "with the leaf back");
    let mut h = Harness::new(simulated, factory.properties());
    assert!(h.statfs().metadata_bytes < 4096, "{:?}", h.statfs());
}
