//! Collections and what is in them.

use types::{GHObject, HObject, PoolId, ShardId};

use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::reads::{list_request, object, pg, version};
use super::{bytes, empty, many_objects, noise, one_pg, pairs, pattern};
use crate::{
    AttrChoice, Attrs, CollectionId, CollectionStat, LogPage, LogRecordKind, ObjectPage, ObjectStore,
    ReadOutcome, ReadRequest, StoreError, Transaction,
};

/// Makes collections, each by itself: they may be in different shards.
fn create<S: ObjectStore>(h: &mut Harness<S>, collections: &[CollectionId], bits: u32) {
    for &collection in collections {
        h.commit(|t| t.create_collection(collection, bits));
    }
}

/// Makes a collection in the shard of another.
fn create_beside<S: ObjectStore>(
    h: &mut Harness<S>,
    beside: CollectionId,
    collection: CollectionId,
    bits: u32,
) {
    h.commit(|t| t.log_trim(beside, Default::default()).create_collection(collection, bits));
    assert_eq!(h.shard_of(collection), h.shard_of(beside), "{collection} is made beside {beside}");
}

pub fn rename_moves_within_and_between_collections<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let temp: GHObject = HObject { pool: PoolId(-3), ..object("t", 1).hobj }.into();
    let (a, b) = (object("a", 1), object("b", 2));
    create_beside(&mut h, c, pg(1), 0);
    h.commit(|t| {
        t.write(c, &temp, 0, pattern(9000, 1));
        t.omap_set(c, &temp, pairs(&[("k", "v")])).set_attr(c, &temp, "x", bytes("y"))
    });
    h.commit(|t| t.rename((c, &temp), (c, &a)));
    h.commit(|t| t.rename((c, &a), (pg(1), &b)).write(pg(1), &b, 0, pattern(1, 200)));
    assert_eq!((h.size(c, &temp), h.size(c, &a), h.size(pg(1), &b)), (None, None, Some(9000)));
    assert_eq!(h.data(pg(1), &b)[1..], pattern(9000, 1).to_vec()[1..]);
    assert_eq!(h.omap(pg(1), &b), pairs(&[("k", "v")]));
    h.commit(|t| t.touch(c, &a));
    let exists = h.refused(|t| t.rename((c, &a), (pg(1), &b)));
    assert_eq!(exists, StoreError::ObjectExists(pg(1), Box::new(b.clone())));
    let missing = h.refused(|t| t.rename((c, &temp), (c, &b)));
    assert_eq!(missing, StoreError::NoSuchObject(c, Box::new(temp)));
    assert_eq!(h.refused(|t| t.rename((c, &a), (pg(9), &b))), StoreError::NoSuchCollection(pg(9)));
}

pub fn objects_stay_in_their_pool<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let other = CollectionId::Pg(types::PgId { pool: PoolId(2), seed: 0 }.into());
    let (a, b) = (object("a", 1), object("b", 2));
    create_beside(&mut h, c, other, 0);
    h.commit(|t| t.write(c, &a, 0, pattern(9000, 1)));
    let refused = [
        h.refused(|t| t.rename((c, &a), (other, &a))),
        h.refused(|t| t.rename((c, &a), (CollectionId::Meta, &a))),
        h.refused(|t| t.clone_range(c, (&a, 0), (&b, 0), 10).rename((c, &b), (other, &b))),
    ];
    for (at, error) in refused.into_iter().enumerate() {
        let to = if at == 1 { CollectionId::Meta } else { other };
        assert_eq!(error, StoreError::AcrossPools { from: c, to });
    }
    for (from, into) in [(c, other), (other, c)] {
        assert_eq!(h.refused(|t| t.split(from, 1, 0, into)), StoreError::BadSplit { from, into, bits: 1 });
        assert_eq!(h.refused(|t| t.merge(from, into, 0)), StoreError::BadSplit { from, into, bits: 0 });
    }
    assert_eq!((h.list(c), h.list(other)), (vec![a], vec![]));
}

pub fn collections_are_made_listed_and_removed<F: Factory>(factory: &mut F) {
    let mut h = empty(factory);
    let collections = |h: &mut Harness<F::Store>| match h.get(ReadRequest::Collections) {
        Ok(ReadOutcome::Collections(list)) => list,
        other => panic!("collections: {other:?}"),
    };
    assert_eq!(collections(&mut h), vec![]);
    let negative = CollectionId::Pg(types::PgId { pool: PoolId(-1), seed: 0 }.into());
    let sharded = CollectionId::Pg(types::SpgId {
        shard: ShardId(2),
        ..types::PgId { pool: PoolId(1), seed: 1 }.into()
    });
    let mut want = vec![pg(300), pg(2), CollectionId::Meta, pg(1), sharded, negative];
    let homes: Vec<_> = want.iter().map(|c| h.shard_of(*c)).collect();
    create(&mut h, &want, 3);
    assert_eq!(
        want.iter().map(|c| h.shard_of(*c)).collect::<Vec<_>>(),
        homes,
        "made where `shard_of` showed"
    );
    want.sort();
    assert_eq!(want.first(), Some(&CollectionId::Meta));
    assert_eq!(collections(&mut h), want);
    let stat = |collection| ReadRequest::Collection { collection };
    let of_bits = |bits| CollectionStat { bits, ..CollectionStat::default() };
    assert_eq!(h.get(stat(pg(2))), Ok(ReadOutcome::Collection(Some(of_bits(3)))));
    assert_eq!(h.get(stat(pg(3))), Ok(ReadOutcome::Collection(None)));
    assert_eq!(h.refused(|t| t.create_collection(pg(2), 1)), StoreError::CollectionExists(pg(2)));
    h.commit(|t| {
        t.touch(pg(2), &object("a", 1)).set_info(pg(2), bytes("info"));
        t.log_append(pg(2), version(4), LogRecordKind::Entry, bytes("entry"))
    });
    assert_eq!(h.refused(|t| t.remove_collection(pg(2))), StoreError::CollectionNotEmpty(pg(2)));
    h.commit(|t| t.remove(pg(2), &object("a", 1)).remove_collection(pg(2)));
    want.retain(|c| *c != pg(2));
    assert_eq!(collections(&mut h), want);
    h.commit(|t| t.create_collection(pg(2), 0));
    assert_eq!(h.log(pg(2)), LogPage::default(), "the removed collection's log went with it");
    assert_eq!(h.get(stat(pg(2))), Ok(ReadOutcome::Collection(Some(of_bits(0)))), "and its info");
    assert_eq!(h.list(pg(2)), vec![]);
}

pub fn a_list_has_cephs_order_and_goes_on<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let mut all = many_objects();
    let mut txn = Transaction::new();
    for object in all.iter().rev() {
        txn.touch(c, object);
    }
    assert_eq!(h.apply(txn), Ok(()));
    create(&mut h, &[pg(1)], 0);
    h.commit(|t| t.touch(pg(1), &object("elsewhere", 0)));
    all.sort();
    all.dedup();
    assert_eq!(h.list(c), all);
    let read = |start: &GHObject, end: &GHObject, objects_max| {
        let (start, end, attrs) = (start.clone(), end.clone(), AttrChoice::None);
        ReadRequest::List { collection: c, start, end, objects_max, attrs }
    };
    let page = |objects: &[GHObject], next: &GHObject| {
        let objects = objects.iter().map(|o| (o.clone(), Attrs::new())).collect();
        Ok(ReadOutcome::Objects(ObjectPage { objects, next: next.clone(), gaps: Vec::new() }))
    };
    let (min, max) = (GHObject::min(), GHObject::max());
    let (mut start, mut got) = (min.clone(), Vec::new());
    while start < max {
        let Ok(ReadOutcome::Objects(page)) = h.get(read(&start, &max, 7)) else {
            panic!("a page of objects")
        };
        assert!(page.objects.len() <= 7);
        got.extend(page.objects.into_iter().map(|o| o.0));
        start = page.next;
    }
    assert_eq!(got, all);
    let (from, to) = (all.len() / 3, all.len() / 2);
    let want = page(&all[from..to], &all[to]);
    assert_eq!(h.get(read(&all[from], &all[to], 1000)), want, "the end is not in the range");
    assert_eq!(h.get(read(&all[from], &all[to], to - from)), want, "a full page may be the last");
    let start = GHObject::from(HObject { hash: 1, pool: PoolId(1), ..HObject::min() });
    let next: Vec<GHObject> = all.iter().filter(|o| **o >= start).cloned().collect();
    assert_eq!(h.get(read(&start, &max, 1)), page(&next[..1], &next[1]), "the start need not exist");
    assert_eq!(h.get(read(&max, &min, 9)), page(&[], &min));
}

pub fn sentinels_are_no_objects<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    for bad in [GHObject::min(), GHObject::max(), HObject::max().into()] {
        let want = StoreError::NotAnObject(Box::new(bad.clone()));
        assert_eq!(h.refused(|t| t.touch(c, &a).touch(c, &bad)), want);
        assert_eq!(h.refused(|t| t.touch(c, &a).clone_object(c, &a, &bad)), want);
        let read = ReadRequest::Stat { collection: c, object: bad };
        assert!(matches!(h.get(read), Err(StoreError::NoSuchObject(..))));
    }
    assert_eq!(h.list(c), vec![]);
}

pub fn split_moves_by_hash_and_merge_brings_back<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let all = many_objects();
    create_beside(&mut h, c, pg(1), 1);
    let mut txn = Transaction::new();
    txn.log_append(c, version(1), LogRecordKind::Entry, bytes("one")).set_info(c, bytes("info"));
    for (i, o) in all.iter().enumerate() {
        txn.write(c, o, 0, pattern(100, i as u32)).omap_set(c, o, pairs(&[("k", "v")]));
    }
    assert_eq!(h.apply(txn), Ok(()));
    let before = h.list(c);
    h.commit(|t| t.split(c, 1, 1, pg(1)));
    let (moved, kept): (Vec<_>, Vec<_>) = before.iter().cloned().partition(|o| o.hobj.hash & 1 == 1);
    assert_eq!((h.list(c), h.list(pg(1))), (kept, moved.clone()));
    for (collection, info) in [(c, "info"), (pg(1), "")] {
        let stat = CollectionStat { bits: 1, info: bytes(info), rehoming: None };
        let want = Ok(ReadOutcome::Collection(Some(stat)));
        assert_eq!(h.get(ReadRequest::Collection { collection }), want);
    }
    assert_eq!((h.log(c).records.len(), h.log(pg(1)).records.len()), (1, 0), "the log stays where it is");
    for object in &moved {
        assert_eq!(h.omap(pg(1), object), pairs(&[("k", "v")]), "omaps move along");
    }
    for (into, bits) in [(c, 2), (CollectionId::Meta, 2), (pg(1), 33)] {
        let got = h.refused(|t| t.split(c, bits, 0, into));
        assert_eq!(got, StoreError::BadSplit { from: c, into, bits });
    }
    assert_eq!(h.refused(|t| t.split(c, 2, 0, pg(7))), StoreError::NoSuchCollection(pg(7)));
    let twice = h.refused(|t| t.touch(c, &moved[3]).merge(pg(1), c, 0));
    assert_eq!(twice, StoreError::ObjectExists(c, Box::new(moved[3].clone())));
    h.commit(|t| t.merge(pg(1), c, 0));
    assert_eq!(h.list(c), before);
    assert_eq!(h.get(ReadRequest::Collection { collection: pg(1) }), Ok(ReadOutcome::Collection(None)));
    for (i, o) in all.iter().enumerate() {
        assert!(h.data(c, o) == pattern(100, i as u32).to_vec());
    }
}

pub fn a_refused_merge_names_the_first_object_of_both<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    create_beside(&mut h, c, pg(1), 1);
    // By their hashes they would come the other way round, and `pg(1)` has the one's part of the hashes for its own.
    let (first, mut second) = (object("a", 1), object("a", 0));
    let first = GHObject { hobj: HObject { pool: PoolId(-3), ..first.hobj }, ..first };
    assert!(first < second);
    for _ in 0..2 {
        h.commit(|t| t.touch(c, &first).touch(c, &second).touch(pg(1), &first).touch(pg(1), &second));
        let twice = h.refused(|t| t.merge(pg(1), c, 0));
        assert_eq!(twice, StoreError::ObjectExists(c, Box::new(first.clone())));
        h.commit(|t| t.remove(c, &second).remove(pg(1), &second));
        second = object("b", 2);
    }
    h.commit(|t| t.remove(c, &first).merge(pg(1), c, 0));
    assert_eq!(h.list(c), [first]);
}

pub fn a_transaction_spans_collections<F: Factory>(factory: &mut F) {
    let mut h = empty(factory);
    let (a, m, meta) = (object("a", 1), object("superblock", 0), CollectionId::Meta);
    h.commit(|t| t.create_collection(meta, 0).write(meta, &m, 0, pattern(10, 1)));
    create_beside(&mut h, meta, pg(5), 0);
    create_beside(&mut h, meta, pg(6), 0);
    h.commit(|t| t.write(pg(5), &a, 0, pattern(10, 2)).touch(pg(6), &a).write(meta, &m, 10, pattern(10, 3)));
    assert_eq!(h.data(meta, &m), [pattern(10, 1).to_vec(), pattern(10, 3).to_vec()].concat());
    assert_eq!(
        (h.data(pg(5), &a), h.data(pg(6), &a)),
        (pattern(10, 2).to_vec(), vec![]),
        "names are a collection's"
    );
    h.commit(|t| t);
    assert_eq!(h.get(list_request(pg(7))), Err(StoreError::NoSuchCollection(pg(7))));
}

pub fn statfs_counts<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let before = h.statfs();
    assert!(
        before.bytes_used + before.bytes_available <= before.bytes_total && before.bytes_available > 2 << 20
    );
    let (a, b) = (object("a", 1), object("b", 2));
    h.commit(|t| t.write(c, &a, 0, noise(1 << 20, 1)).touch(c, &b));
    let after = h.statfs();
    assert_eq!(after.objects, 2);
    assert_eq!(after.bytes_total, before.bytes_total);
    assert_eq!(after.data_bytes, before.data_bytes + (1 << 20), "allocated in whole units");
    assert!(after.bytes_used >= before.bytes_used + (1 << 20));
    assert!(after.bytes_available <= before.bytes_available - (1 << 20));
    h.commit(|t| t.remove(c, &a).remove(c, &b));
    let empty = h.statfs();
    assert_eq!((empty.objects, empty.bytes_used), (0, before.bytes_used), "space comes back");
    assert_eq!(empty.data_bytes, before.data_bytes);
}
