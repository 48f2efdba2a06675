//! Collections and what is in them.

use types::{GHObject, HObject, PoolId, ShardId};

use super::super::harness::{Factory, Harness, object, pg, version};
use super::{bytes, log, many_objects, map, omap, one_pg, pattern};
use crate::{CollectionId, CollectionStat, LogPage, ObjectPage, ReadOutcome, ReadRequest, StoreError, TxOp};

pub fn rename_moves_within_and_between_collections(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let temp: GHObject = HObject { pool: PoolId(-3), ..object("t", 1).hobj }.into();
    let (a, b) = (object("a", 1), object("b", 2));
    h.commit(|t| {
        t.create_collection(pg(1), 0).write(c, temp.clone(), 0, pattern(9000, 1));
        t.omap_set(c, temp.clone(), map(&[("k", "v")])).set_attr(c, temp.clone(), "x", bytes("y"));
    });
    let rename = |collection, from: &GHObject, to_collection, to: &GHObject| {
        let (from, to) = (from.clone(), to.clone());
        TxOp::Rename { collection, from, to_collection, to }
    };
    h.commit(|t| {
        t.push(rename(c, &temp, c, &a));
    });
    h.commit(|t| {
        t.push(rename(c, &a, pg(1), &b)).write(pg(1), b.clone(), 0, pattern(1, 200));
    });
    assert_eq!((h.size(c, &temp), h.size(c, &a), h.size(pg(1), &b)), (None, None, Some(9000)));
    assert_eq!(h.data(pg(1), &b)[1..], pattern(9000, 1).to_vec()[1..]);
    assert_eq!(omap(&mut h, pg(1), &b), vec![("k".into(), bytes("v"))]);
    h.commit(|t| {
        t.touch(c, a.clone());
    });
    assert!(matches!(
        h.refused(|t| {
            t.push(rename(c, &a, pg(1), &b));
        }),
        StoreError::ObjectExists(..)
    ));
    assert!(matches!(
        h.refused(|t| {
            t.push(rename(c, &temp, c, &b));
        }),
        StoreError::NoSuchObject(..)
    ));
    assert!(matches!(
        h.refused(|t| {
            t.push(rename(c, &a, pg(9), &b));
        }),
        StoreError::NoSuchCollection(..)
    ));
}

pub fn collections_are_made_listed_and_removed(factory: &mut dyn Factory) {
    let mut h = Harness::new(factory.fresh());
    let collections = |h: &mut Harness| match h.get(ReadRequest::Collections) {
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
    h.commit(|t| {
        want.iter().for_each(|c| {
            t.create_collection(*c, 3);
        })
    });
    want.sort();
    assert_eq!(want.first(), Some(&CollectionId::Meta));
    assert_eq!(collections(&mut h), want);
    let stat = |collection| ReadRequest::Collection { collection };
    assert_eq!(h.get(stat(pg(2))), Ok(ReadOutcome::Collection(Some(CollectionStat { bits: 3 }))));
    assert_eq!(h.get(stat(pg(3))), Ok(ReadOutcome::Collection(None)));
    let exists = h.refused(|t| {
        t.create_collection(pg(2), 1);
    });
    assert_eq!(exists, StoreError::CollectionExists(pg(2)));
    let remove = |collection| TxOp::RemoveCollection { collection };
    h.commit(|t| {
        t.touch(pg(2), object("a", 1)).log_append(pg(2), version(4), bytes("entry"));
    });
    let full = h.refused(|t| {
        t.push(remove(pg(2)));
    });
    assert_eq!(full, StoreError::CollectionNotEmpty(pg(2)));
    h.commit(|t| {
        t.remove(pg(2), object("a", 1)).push(remove(pg(2)));
    });
    want.retain(|c| *c != pg(2));
    assert_eq!(collections(&mut h), want);
    h.commit(|t| {
        t.create_collection(pg(2), 0);
    });
    assert_eq!(log(&mut h, pg(2)), LogPage::default(), "the removed collection's log went with it");
    assert_eq!(h.list(pg(2)), vec![]);
}

pub fn a_list_has_cephs_order_and_goes_on(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let mut all = many_objects();
    h.commit(|t| {
        all.iter().rev().for_each(|o| {
            t.touch(c, o.clone());
        })
    });
    h.commit(|t| {
        t.create_collection(pg(1), 0).touch(pg(1), object("elsewhere", 0));
    });
    all.sort();
    all.dedup();
    assert_eq!(h.list(c), all);
    let (mut start, mut got) = (GHObject::min(), Vec::new());
    while start < GHObject::max() {
        let end = GHObject::max();
        let read = ReadRequest::List { collection: c, start, end, objects_max: 7 };
        let Ok(ReadOutcome::Objects(page)) = h.get(read) else { panic!("a page of objects") };
        assert!(page.objects.len() <= 7);
        got.extend(page.objects);
        start = page.next;
    }
    assert_eq!(got, all);
    let (from, to) = (all.len() / 3, all.len() / 2);
    let (start, end) = (all[from].clone(), all[to].clone());
    let read = ReadRequest::List { collection: c, start, end: end.clone(), objects_max: 1000 };
    let want = ObjectPage { objects: all[from..to].to_vec(), next: end.clone() };
    assert_eq!(h.get(read), Ok(ReadOutcome::Objects(want)), "the end is not in the range");
    let start = GHObject::from(HObject { hash: 1, pool: PoolId(1), ..HObject::min() });
    let read =
        ReadRequest::List { collection: c, start: start.clone(), end: GHObject::max(), objects_max: 1 };
    let next: Vec<&GHObject> = all.iter().filter(|o| **o >= start).collect();
    let want = ObjectPage { objects: vec![next[0].clone()], next: next[1].clone() };
    assert_eq!(h.get(read), Ok(ReadOutcome::Objects(want)), "the start need not exist");
    let read = ReadRequest::List { collection: c, start: end.clone(), end: GHObject::min(), objects_max: 9 };
    let none = ObjectPage { objects: vec![], next: GHObject::min() };
    assert_eq!(h.get(read), Ok(ReadOutcome::Objects(none)));
}

pub fn sentinels_are_no_objects(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    for bad in [GHObject::min(), GHObject::max(), HObject::max().into()] {
        let want = StoreError::NotAnObject(Box::new(bad.clone()));
        assert_eq!(
            h.refused(|t| {
                t.touch(c, a.clone()).touch(c, bad.clone());
            }),
            want
        );
        let clone = TxOp::Clone { collection: c, from: a.clone(), to: bad.clone() };
        assert_eq!(
            h.refused(|t| {
                t.touch(c, a.clone()).push(clone);
            }),
            want
        );
        let read = ReadRequest::Stat { collection: c, object: bad };
        assert!(matches!(h.get(read), Err(StoreError::NoSuchObject(..))));
    }
    assert_eq!(h.list(c), vec![]);
}

pub fn split_moves_by_hash_and_merge_brings_back(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let all = many_objects();
    h.commit(|t| {
        t.create_collection(pg(1), 1).log_append(c, version(1), bytes("one"));
        for (i, o) in all.iter().enumerate() {
            t.write(c, o.clone(), 0, pattern(100, i as u32)).omap_set(c, o.clone(), map(&[("k", "v")]));
        }
    });
    let before = h.list(c);
    let split = TxOp::SplitCollection { collection: c, bits: 1, rem: 1, into: pg(1) };
    h.commit(|t| {
        t.push(split);
    });
    let (moved, kept): (Vec<_>, Vec<_>) = before.iter().cloned().partition(|o| o.hobj.hash & 1 == 1);
    assert_eq!((h.list(c), h.list(pg(1))), (kept, moved.clone()));
    for collection in [c, pg(1)] {
        let want = Ok(ReadOutcome::Collection(Some(CollectionStat { bits: 1 })));
        assert_eq!(h.get(ReadRequest::Collection { collection }), want);
    }
    assert_eq!((log(&mut h, c).entries.len(), log(&mut h, pg(1)).entries.len()), (1, 0));
    assert_eq!(omap(&mut h, pg(1), &moved[0]), vec![("k".into(), bytes("v"))], "omaps move along");
    let bad = |into, bits| TxOp::SplitCollection { collection: c, bits, rem: 0, into };
    for (into, bits) in [(c, 2), (CollectionId::Meta, 2), (pg(1), 33)] {
        let got = h.refused(|t| {
            t.push(bad(into, bits));
        });
        assert_eq!(got, StoreError::BadSplit { from: c, into, bits });
    }
    assert!(matches!(
        h.refused(|t| {
            t.push(bad(pg(7), 2));
        }),
        StoreError::NoSuchCollection(..)
    ));
    let merge = || TxOp::MergeCollection { collection: pg(1), into: c, bits: 0 };
    let twice = h.refused(|t| {
        t.touch(c, moved[3].clone()).push(merge());
    });
    assert_eq!(twice, StoreError::ObjectExists(c, Box::new(moved[3].clone())));
    h.commit(|t| {
        t.push(merge());
    });
    assert_eq!(h.list(c), before);
    assert_eq!(h.get(ReadRequest::Collection { collection: pg(1) }), Ok(ReadOutcome::Collection(None)));
    for (i, o) in all.iter().enumerate() {
        assert!(h.data(c, o) == pattern(100, i as u32).to_vec());
    }
}

pub fn a_transaction_spans_collections(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let (a, m) = (object("a", 1), object("superblock", 0));
    h.commit(|t| {
        t.create_collection(CollectionId::Meta, 0).write(CollectionId::Meta, m.clone(), 0, pattern(10, 1));
        t.create_collection(pg(5), 0).write(pg(5), a.clone(), 0, pattern(10, 2)).touch(c, a.clone());
    });
    assert_eq!(h.data(CollectionId::Meta, &m), pattern(10, 1).to_vec());
    assert_eq!(
        (h.data(pg(5), &a), h.data(c, &a)),
        (pattern(10, 2).to_vec(), vec![]),
        "names are a collection's"
    );
    h.commit(|_| {});
}

pub fn statfs_counts(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let statfs = |h: &mut Harness| match h.get(ReadRequest::StatFs) {
        Ok(ReadOutcome::StatFs(s)) => s,
        other => panic!("statfs: {other:?}"),
    };
    let before = statfs(&mut h);
    assert!(
        before.bytes_used + before.bytes_available <= before.bytes_total && before.bytes_available > 2 << 20
    );
    let (a, b) = (object("a", 1), object("b", 2));
    h.commit(|t| {
        t.write(c, a.clone(), 0, pattern(1 << 20, 1)).touch(c, b.clone());
    });
    let after = statfs(&mut h);
    assert_eq!(after.objects, 2);
    assert_eq!(after.bytes_total, before.bytes_total);
    assert!(after.bytes_used >= before.bytes_used + (1 << 20));
    assert!(after.bytes_available <= before.bytes_available - (1 << 20));
    h.commit(|t| {
        t.remove(c, a).remove(c, b);
    });
    let empty = statfs(&mut h);
    assert_eq!((empty.objects, empty.bytes_used), (0, before.bytes_used), "space comes back");
}
