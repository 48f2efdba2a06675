//! The suite's cases, by name. What a case is about stands in its name.

use std::collections::BTreeSet;

use buffer::{Piece, PieceMut, Rope};
use types::{EVersion, GHObject, HObject, Name, PoolId, ShardId, SnapId};

use super::harness::{Factory, Harness, object, pg, version};
use super::{Generator, Model, compare_all, random_history};
use crate::{
    AllocHint, Attrs, CollectionId, CollectionStat, Completion, Fault, LogPage, OBJECT_BYTES_MAX, ObjectHead,
    ObjectPage, ObjectStat, OmapPage, ReadOutcome, ReadRequest, StoreError, Transaction, TxOp,
};

type Case = fn(&mut dyn Factory);

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        /// Every case and its name.
        pub const CASES: &[(&str, Case)] = &[$((stringify!($case), $case)),*];
    };
}
cases! {
    objects_come_and_go, writes_overlay_one_another, zero_makes_zeros_and_lengthens, truncate_cuts_and_lengthens,
    reads_are_cut_at_the_end, extents_cover_what_was_written, attributes_are_set_and_removed,
    omap_is_set_removed_and_ranged, omap_pages_go_on_where_they_ended, a_clone_is_independent,
    clone_range_copies_and_zero_fills, rename_moves_within_and_between_collections, hints_are_kept,
    collections_are_made_listed_and_removed, a_list_has_cephs_order_and_goes_on, sentinels_are_no_objects,
    split_moves_by_hash_and_merge_brings_back, the_log_is_appended_trimmed_and_rewound,
    a_refused_transaction_leaves_nothing, errors_say_whose_fault, reads_see_what_was_queued_before,
    transactions_complete_in_order, a_transaction_spans_collections, large_data_comes_back, statfs_counts,
    random_histories_equal_the_model, everything_is_there_after_reopening,
}

/// Runs the case `name`.
///
/// # Panics
/// If the store does not do what it should, or there is no such case.
pub fn run(name: &str, factory: &mut dyn Factory) {
    let case = CASES.iter().find(|c| c.0 == name).expect("a case of this name");
    (case.1)(factory);
}

/// A store with the collection of PG 0.
fn one_pg(factory: &mut dyn Factory) -> (Harness, CollectionId) {
    let mut h = Harness::new(factory.fresh());
    h.commit(|t| {
        t.create_collection(pg(0), 0);
    });
    (h, pg(0))
}

fn bytes(text: &str) -> Piece {
    Piece::copy_from(text.as_bytes())
}

fn map(entries: &[(&str, &str)]) -> Attrs {
    entries.iter().map(|(k, v)| (Name::from(*k), bytes(v))).collect()
}

/// Bytes that differ everywhere and are never 0.
fn pattern(len: usize, salt: u32) -> Rope {
    let mut piece = PieceMut::zeroed(len);
    let fill = |(i, b): (usize, &mut u8)| *b = (i as u32 / 7 * 13 + i as u32 + salt) as u8 | 1;
    piece.as_mut_slice().iter_mut().enumerate().for_each(fill);
    piece.freeze().into()
}

fn objects_come_and_go(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let (a, b) = (object("a", 1), object("b", 2));
    assert_eq!(h.size(c, &a), None);
    h.commit(|t| {
        t.touch(c, a.clone()).write(c, b.clone(), 0, Rope::new());
    });
    assert_eq!((h.size(c, &a), h.size(c, &b)), (Some(0), Some(0)), "an empty write touches");
    h.commit(|t| {
        t.write(c, a.clone(), 0, Rope::copy_from(b"x")).touch(c, a.clone());
    });
    assert_eq!(h.data(c, &a), b"x", "a touch changes nothing");
    h.commit(|t| {
        t.set_attr(c, a.clone(), "k", bytes("v")).omap_set(c, a.clone(), map(&[("k", "v")]));
    });
    h.commit(|t| {
        t.remove(c, a.clone());
    });
    assert_eq!(h.size(c, &a), None);
    h.commit(|t| {
        t.remove(c, a.clone()).touch(c, a.clone());
    });
    let head = Some(ObjectHead::default());
    let read = ReadRequest::Object { collection: c, object: a.clone() };
    assert_eq!(h.get(read), Ok(ReadOutcome::Object(head)), "nothing of the removed one is left");
    let missing = ReadRequest::Object { collection: c, object: object("c", 3) };
    assert_eq!(h.get(missing), Ok(ReadOutcome::Object(None)));
}

fn writes_overlay_one_another(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut want = Vec::new();
    let writes: [(u64, usize); 12] = [
        (0, 4096),
        (4096, 8192),
        (100, 5),
        (4090, 12),
        (0, 4096),
        (20_000, 10),
        (20_480, 4096),
        (8192, 12_288),
        (0, 3),
        (20_000, 30_000),
        (4096, 4096),
        (49_999, 2),
    ];
    for (i, (offset, len)) in writes.into_iter().enumerate() {
        let data = pattern(len, i as u32 * 31);
        super::model_write(&mut want, offset, &data.to_vec());
        h.commit(|t| {
            t.write(c, a.clone(), offset, data);
        });
        assert!(h.data(c, &a) == want, "after write {i}");
    }
    for i in 0..600 {
        let data = pattern(7, i);
        super::model_write(&mut want, 50_001 + u64::from(i) * 7, &data.to_vec());
        let token = h.queue({
            let mut t = Transaction::new();
            t.write(c, a.clone(), 50_001 + u64::from(i) * 7, data);
            t
        });
        assert_eq!(h.outcome(token), Ok(()));
    }
    assert!(h.data(c, &a) == want, "after many small appends");
}

fn zero_makes_zeros_and_lengthens(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut want = pattern(30_000, 1).to_vec();
    h.commit(|t| {
        t.write(c, a.clone(), 0, pattern(30_000, 1));
    });
    for (offset, len) in [(10, 5), (4096, 4096), (9000, 9000), (29_990, 100), (40_000, 0), (36_000, 9000)] {
        if len > 0 {
            super::model_write(&mut want, offset, &vec![0; len as usize]);
        }
        h.commit(|t| {
            t.zero(c, a.clone(), offset, len);
        });
        assert!(h.data(c, &a) == want, "after zero {offset}+{len}");
    }
    h.commit(|t| {
        t.zero(c, object("b", 2), 100, 50);
    });
    assert_eq!(h.data(c, &object("b", 2)), vec![0; 150], "a zero makes the object");
}

fn truncate_cuts_and_lengthens(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut want = pattern(20_000, 1).to_vec();
    h.commit(|t| {
        t.write(c, a.clone(), 0, pattern(20_000, 1));
    });
    for size in [19_999, 8192, 8191, 12_000, 5000, 4096, 100, 9000, 0, 10] {
        want.resize(size, 0);
        h.commit(|t| {
            t.truncate(c, a.clone(), size as u64);
        });
        assert!(h.data(c, &a) == want, "after truncate {size}: cut bytes never come back");
    }
    h.commit(|t| {
        t.truncate(c, object("b", 2), 5000);
    });
    assert_eq!(h.data(c, &object("b", 2)), vec![0; 5000], "a truncate makes the object");
}

fn reads_are_cut_at_the_end(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let data = pattern(10_000, 3).to_vec();
    h.commit(|t| {
        t.write(c, a.clone(), 0, pattern(10_000, 3));
    });
    for (offset, len) in
        [(0u64, 10), (4095, 2), (9999, 1), (9999, 100), (10_000, 5), (50_000, 5), (3, u64::MAX)]
    {
        let from = offset.min(10_000) as usize;
        let to = offset.saturating_add(len).min(10_000) as usize;
        assert_eq!(h.data_range(c, &a, offset, len), &data[from..to.max(from)], "{offset}+{len}");
    }
}

fn extents_cover_what_was_written(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    h.commit(|t| {
        t.write(c, a.clone(), 1 << 20, pattern(4096, 1)).truncate(c, a.clone(), 2 << 20);
    });
    let read = |offset, len| ReadRequest::Extents { collection: c, object: a.clone(), offset, len };
    assert_eq!(h.get(read(0, u64::MAX)), Ok(ReadOutcome::Extents(vec![(1 << 20, 4096)])));
    assert_eq!(h.get(read((1 << 20) + 100, 50)), Ok(ReadOutcome::Extents(vec![((1 << 20) + 100, 50)])));
    assert_eq!(h.get(read(0, 1 << 20)), Ok(ReadOutcome::Extents(vec![])));
}

fn attributes_are_set_and_removed(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let attrs = || ReadRequest::Attrs { collection: c, object: a.clone() };
    let attr = |name: &str| ReadRequest::Attr { collection: c, object: a.clone(), name: name.into() };
    h.commit(|t| {
        t.set_attrs(c, a.clone(), map(&[("x", "1"), ("y", ""), ("z", "3")]));
    });
    h.commit(|t| {
        t.set_attr(c, a.clone(), "x", bytes("other"));
    });
    let want = map(&[("x", "other"), ("y", ""), ("z", "3")]);
    assert_eq!(h.get(attrs()), Ok(ReadOutcome::Attrs(want.clone())));
    let stat = ObjectStat::default();
    let read = ReadRequest::Object { collection: c, object: a.clone() };
    assert_eq!(h.get(read), Ok(ReadOutcome::Object(Some(ObjectHead { stat, attrs: want }))));
    assert_eq!(h.get(attr("y")), Ok(ReadOutcome::Attr(Piece::empty())));
    assert_eq!(h.get(attr("none")), Err(StoreError::NoSuchAttr));
    let remove = |name: &str| TxOp::RemoveAttr { collection: c, object: a.clone(), name: name.into() };
    h.commit(|t| {
        t.push(remove("x")).push(remove("none"));
    });
    assert_eq!(h.get(attrs()), Ok(ReadOutcome::Attrs(map(&[("y", ""), ("z", "3")]))));
    h.commit(|t| {
        t.push(TxOp::RemoveAttrs { collection: c, object: a.clone() });
    });
    assert_eq!(h.get(attrs()), Ok(ReadOutcome::Attrs(Attrs::new())));
    let big = pattern(70_000, 5).to_piece();
    h.commit(|t| {
        t.set_attr(c, a.clone(), "big", big.clone());
    });
    assert_eq!(h.get(attr("big")), Ok(ReadOutcome::Attr(big)));
}

/// A whole omap.
fn omap(h: &mut Harness, collection: CollectionId, object: &GHObject) -> Vec<(Name, Piece)> {
    let (after, prefix, object) = (None, Name::new(), object.clone());
    let (entries_max, bytes_max, values) = (usize::MAX, usize::MAX, true);
    let all = ReadRequest::OmapRange { collection, object, after, prefix, entries_max, bytes_max, values };
    match h.get(all) {
        Ok(ReadOutcome::Omap(OmapPage { entries, more: false })) => entries,
        other => panic!("omap: {other:?}"),
    }
}

fn omap_is_set_removed_and_ranged(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let vec = |m: Attrs| m.into_iter().collect::<Vec<_>>();
    let all = map(&[("", "empty key"), ("a", "1"), ("ab", "2"), ("b", ""), ("c", "4"), ("\u{ff}", "5")]);
    h.commit(|t| {
        t.omap_set(c, a.clone(), all.clone());
    });
    assert_eq!(omap(&mut h, c, &a), vec(all));
    h.commit(|t| {
        t.omap_set(c, a.clone(), map(&[("b", "new")]));
    });
    let keys: BTreeSet<Name> = ["b", "none", "a"].map(Name::from).into();
    let some = ReadRequest::OmapKeys { collection: c, object: a.clone(), keys: keys.clone() };
    let page = OmapPage { entries: vec(map(&[("a", "1"), ("b", "new")])), more: false };
    assert_eq!(h.get(some), Ok(ReadOutcome::Omap(page)));
    h.commit(|t| {
        t.push(TxOp::OmapRemove { collection: c, object: a.clone(), keys });
    });
    assert_eq!(omap(&mut h, c, &a), vec(map(&[("", "empty key"), ("ab", "2"), ("c", "4"), ("\u{ff}", "5")])));
    let range = |first: &str, last: &str| TxOp::OmapRemoveRange {
        collection: c,
        object: a.clone(),
        first: first.into(),
        last: last.into(),
    };
    h.commit(|t| {
        t.push(range("ab", "c")).push(range("z", "a"));
    });
    assert_eq!(omap(&mut h, c, &a), vec(map(&[("", "empty key"), ("c", "4"), ("\u{ff}", "5")])));
    let header = || ReadRequest::OmapHeader { collection: c, object: a.clone() };
    assert_eq!(h.get(header()), Ok(ReadOutcome::OmapHeader(Piece::empty())));
    h.commit(|t| {
        t.push(TxOp::OmapSetHeader { collection: c, object: a.clone(), header: bytes("head") });
    });
    assert_eq!(h.get(header()), Ok(ReadOutcome::OmapHeader(bytes("head"))));
    h.commit(|t| {
        t.push(TxOp::OmapClear { collection: c, object: a.clone() });
    });
    assert_eq!(h.get(header()), Ok(ReadOutcome::OmapHeader(Piece::empty())), "clear takes the header too");
    assert_eq!(omap(&mut h, c, &a), vec![]);
    h.commit(|t| {
        t.push(TxOp::OmapClear { collection: c, object: object("none", 9) });
    });
    assert_eq!(h.size(c, &object("none", 9)), None, "what only takes away makes no object");
}

fn omap_pages_go_on_where_they_ended(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let (a, neighbour) = (object("a", 1), object("b", 1));
    let entries: Attrs = (0..100).map(|i| (Name::from(format!("k{i:03}")), bytes("0123456789"))).collect();
    h.commit(|t| {
        t.omap_set(c, a.clone(), entries.clone()).omap_set(c, a.clone(), map(&[("j", ""), ("l", "")]));
    });
    h.commit(|t| {
        t.omap_set(c, neighbour, map(&[("k", "not a's")]));
    });
    for (entries_max, bytes_max, values) in [(7, usize::MAX, true), (usize::MAX, 50, true), (9, 1, false)] {
        let (mut after, mut got, mut pages) = (None, Vec::new(), 0);
        loop {
            let (object, prefix) = (a.clone(), Name::from("k"));
            let read = ReadRequest::OmapRange {
                collection: c,
                object,
                after,
                prefix,
                entries_max,
                bytes_max,
                values,
            };
            let Ok(ReadOutcome::Omap(page)) = h.get(read) else { panic!("a page of an omap") };
            assert!(page.entries.len() <= entries_max);
            pages += 1;
            after = page.entries.last().map(|e| e.0.clone());
            got.extend(page.entries);
            if !page.more {
                break;
            }
        }
        assert!(pages > 5, "the limits were kept");
        let value = |v: &Piece| if values { v.clone() } else { Piece::empty() };
        assert_eq!(got, entries.iter().map(|(k, v)| (k.clone(), value(v))).collect::<Vec<_>>());
    }
    let read = ReadRequest::OmapRange {
        collection: c,
        object: a,
        after: None,
        prefix: Name::new(),
        entries_max: 0,
        bytes_max: 100,
        values: true,
    };
    assert_eq!(h.get(read), Ok(ReadOutcome::Omap(OmapPage { entries: vec![], more: true })));
}

fn a_clone_is_independent(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let snap: GHObject = HObject { snap: SnapId(7), ..a.hobj.clone() }.into();
    let data = pattern(10_000, 2).to_vec();
    h.commit(|t| {
        t.write(c, snap.clone(), 0, pattern(50_000, 9)).set_attr(c, snap.clone(), "old", bytes("gone"));
        t.write(c, a.clone(), 0, pattern(10_000, 2)).set_attr(c, a.clone(), "k", bytes("v"));
        t.omap_set(c, a.clone(), map(&[("o", "1")]));
    });
    h.commit(|t| {
        t.push(TxOp::Clone { collection: c, from: a.clone(), to: snap.clone() });
    });
    h.commit(|t| {
        t.write(c, a.clone(), 0, pattern(10_000, 77)).set_attr(c, a.clone(), "k", bytes("new"));
        t.omap_set(c, a.clone(), map(&[("o", "2"), ("p", "3")]));
    });
    assert!(h.data(c, &snap) == data, "the clone keeps its bytes");
    let attrs = ReadRequest::Attrs { collection: c, object: snap.clone() };
    assert_eq!(h.get(attrs), Ok(ReadOutcome::Attrs(map(&[("k", "v")]))), "and replaces what was there");
    assert_eq!(omap(&mut h, c, &snap), vec![("o".into(), bytes("1"))]);
    h.commit(|t| {
        t.remove(c, a.clone()).touch(c, a.clone());
    });
    assert!(h.data(c, &snap) == data, "the clone outlives its source");
    h.commit(|t| {
        t.write(c, a.clone(), 0, pattern(20_000, 4));
    });
    assert!(h.data(c, &snap) == data, "space shared with the clone is not given to others");
    let nothing = TxOp::Clone { collection: c, from: object("none", 8), to: a };
    assert!(matches!(
        h.refused(|t| {
            t.push(nothing);
        }),
        StoreError::NoSuchObject(..)
    ));
}

fn clone_range_copies_and_zero_fills(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let (a, b) = (object("a", 1), object("b", 2));
    let data = pattern(20_000, 2).to_vec();
    h.commit(|t| {
        t.write(c, a.clone(), 0, pattern(20_000, 2));
    });
    let range = |from_offset, len, to_offset| {
        let (from, to) = (a.clone(), b.clone());
        TxOp::CloneRange { collection: c, from, to, from_offset, len, to_offset }
    };
    let mut want = Vec::new();
    for (from, len, to) in [(4096, 8192, 0), (100, 50, 8190), (0, 10, 30_000), (4096, 4096, 4096)] {
        super::model_write(&mut want, to, &data[from as usize..(from + len) as usize]);
        h.commit(|t| {
            t.push(range(from, len, to));
        });
        assert!(h.data(c, &b) == want, "{from}+{len} to {to}");
    }
    super::model_write(&mut want, 10, &[&data[19_990..], &[0; 90][..]].concat());
    h.commit(|t| {
        t.push(range(19_990, 100, 10));
    });
    assert!(h.data(c, &b) == want, "behind the end are zeros");
    let mut own = data.clone();
    own.copy_within(0..8192, 100);
    let (from, to) = (a.clone(), a.clone());
    let itself = TxOp::CloneRange { collection: c, from, to, from_offset: 0, len: 8192, to_offset: 100 };
    h.commit(|t| {
        t.push(itself);
    });
    assert!(h.data(c, &a) == own, "an object may be copied onto itself, overlapping");
}

fn rename_moves_within_and_between_collections(factory: &mut dyn Factory) {
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

fn hints_are_kept(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let hint = AllocHint { object_size: 4 << 20, write_size: 65536, flags: 5 };
    let (a, b) = (object("a", 1), object("b", 2));
    h.commit(|t| {
        t.push(TxOp::SetAllocHint { collection: c, object: a.clone(), hint });
        t.push(TxOp::Clone { collection: c, from: a.clone(), to: b.clone() });
    });
    for object in [a, b] {
        let want = ObjectStat { size: 0, hint: Some(hint) };
        assert_eq!(h.get(ReadRequest::Stat { collection: c, object }), Ok(ReadOutcome::Stat(want)));
    }
}

fn collections_are_made_listed_and_removed(factory: &mut dyn Factory) {
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

/// Objects that differ in every part that the order looks at.
fn many_objects() -> Vec<GHObject> {
    let mut all = vec![GHObject::pgmeta(PoolId(1), 0, ShardId::NONE)];
    for hash in [0, 1, 2, 3, 0x8000_0000, 0xffff_ffff, 0x1234_5678, 0x0100_0000] {
        for (nspace, key, name) in [
            ("", "", "a"),
            ("", "", "b"),
            ("", "", "a\0"),
            ("", "", "a\0\0"),
            ("", "", "a\u{1}"),
            ("", "", "\u{ff}"),
            ("", "a", "b"),
            ("", "b", "a"),
            ("", "a", "a"),
            ("n", "", "a"),
            ("n\0", "", "a"),
        ] {
            let mut o = HObject::head(PoolId(1), nspace.into(), key.into(), name.into(), hash);
            all.push(o.clone().into());
            o.snap = SnapId(3);
            all.push(o.clone().into());
            o.pool = PoolId(-3);
            all.push(o.clone().into());
            o.pool = PoolId(1);
            all.push(GHObject { generation: 5, ..o.clone().into() });
            all.push(GHObject { shard: ShardId(1), generation: 5, ..o.into() });
        }
    }
    all
}

fn a_list_has_cephs_order_and_goes_on(factory: &mut dyn Factory) {
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

fn sentinels_are_no_objects(factory: &mut dyn Factory) {
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

fn split_moves_by_hash_and_merge_brings_back(factory: &mut dyn Factory) {
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

fn log(h: &mut Harness, collection: CollectionId) -> LogPage {
    let (entries_max, bytes_max) = (usize::MAX, usize::MAX);
    match h.get(ReadRequest::Log { collection, after: EVersion::default(), entries_max, bytes_max }) {
        Ok(ReadOutcome::Log(page)) => page,
        other => panic!("log: {other:?}"),
    }
}

fn the_log_is_appended_trimmed_and_rewound(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let entry = |n: u64| (version(n), Piece::copy_from(&vec![n as u8; n as usize * 10]));
    let page = |tail, head, list: &[u64]| LogPage {
        tail: if tail == 0 { EVersion::default() } else { version(tail) },
        head: version(head),
        entries: list.iter().map(|n| entry(*n)).collect(),
        more: false,
    };
    for n in [1, 2, 4, 7, 8, 9] {
        h.commit(|t| {
            t.touch(c, object("a", 1)).log_append(c, entry(n).0, entry(n).1);
        });
    }
    assert_eq!(log(&mut h, c), page(0, 9, &[1, 2, 4, 7, 8, 9]));
    assert_eq!(h.list(c), vec![object("a", 1)], "the log is no object");
    for n in [9, 3] {
        let got = h.refused(|t| {
            t.log_append(c, version(n), bytes("x"));
        });
        assert_eq!(got, StoreError::LogOrder { head: version(9), version: version(n) });
    }
    let read =
        |after, entries_max, bytes_max| ReadRequest::Log { collection: c, after, entries_max, bytes_max };
    let part = |list: &[u64], more| ReadOutcome::Log(LogPage { more, ..page(0, 9, list) });
    assert_eq!(h.get(read(version(2), 2, usize::MAX)), Ok(part(&[4, 7], true)));
    assert_eq!(h.get(read(version(3), 100, 120)), Ok(part(&[4, 7], true)));
    assert_eq!(h.get(read(version(3), 100, 0)), Ok(part(&[4], true)));
    assert_eq!(h.get(read(version(8), 100, 10_000)), Ok(part(&[9], false)));
    let (trim, rewind) = (
        |n| TxOp::LogTrim { collection: c, to: version(n) },
        |n| TxOp::LogRewind { collection: c, to: version(n) },
    );
    h.commit(|t| {
        t.push(trim(3));
    });
    assert_eq!(log(&mut h, c), page(3, 9, &[4, 7, 8, 9]));
    h.commit(|t| {
        t.push(trim(1));
    });
    assert_eq!(log(&mut h, c), page(3, 9, &[4, 7, 8, 9]), "trimming is not undone");
    h.commit(|t| {
        t.push(rewind(7)).log_append(c, entry(8).0, entry(8).1);
    });
    assert_eq!(log(&mut h, c), page(3, 8, &[4, 7, 8]));
    h.commit(|t| {
        t.push(rewind(5));
    });
    assert_eq!(log(&mut h, c), page(3, 5, &[4]), "the version rewound to is the head");
    h.commit(|t| {
        t.push(rewind(50));
    });
    assert_eq!(log(&mut h, c), page(3, 5, &[4]), "rewinding forward is nothing");
    h.commit(|t| {
        t.push(trim(20));
    });
    assert_eq!(log(&mut h, c), page(20, 20, &[]));
    let early = h.refused(|t| {
        t.log_append(c, version(15), bytes("x"));
    });
    assert_eq!(early, StoreError::LogOrder { head: version(20), version: version(15) });
    h.commit(|t| {
        t.push(rewind(10)).log_append(c, entry(11).0, entry(11).1);
    });
    assert_eq!(log(&mut h, c), page(10, 11, &[11]), "before its tail the log begins anew");
    h.commit(|t| {
        t.log_append(c, entry(12).0, entry(12).1).push(trim(12));
    });
    assert_eq!(log(&mut h, c), page(12, 12, &[]), "an entry may go in the transaction it came in");
}

fn a_refused_transaction_leaves_nothing(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let mut model = Model::new();
    let mut setup = Transaction::new();
    setup.create_collection(c, 0).create_collection(pg(1), 2).create_collection(pg(2), 0);
    for (i, o) in many_objects().into_iter().enumerate().step_by(9) {
        setup.write(c, o.clone(), 0, pattern(5000, i as u32)).omap_set(c, o, map(&[("k", "v"), ("l", "w")]));
    }
    (1..9).for_each(|n| {
        setup.log_append(c, version(n), bytes("entry"));
    });
    model.apply(&setup).expect("setup");
    setup.ops.remove(0);
    h.apply(setup).expect("setup");
    let (a, b) = (object("a", 1), object("b", 2));
    let fails: [TxOp; 3] = [
        TxOp::Touch { collection: pg(9), object: a.clone() },
        TxOp::Clone { collection: c, from: object("none", 4), to: a.clone() },
        TxOp::LogAppend { collection: c, version: version(1), entry: bytes("x") },
    ];
    for fail in fails {
        let mut txn = Transaction::new();
        let victim = model.objects(c)[2].clone();
        txn.write(c, victim.clone(), 100, pattern(9000, 4)).remove(c, model.objects(c)[3].clone());
        txn.push(TxOp::OmapClear { collection: c, object: victim.clone() }).touch(c, a.clone());
        txn.push(TxOp::Clone { collection: c, from: victim.clone(), to: b.clone() });
        txn.push(TxOp::Rename { collection: c, from: victim, to_collection: pg(2), to: a.clone() });
        txn.log_append(c, version(9), bytes("x")).log_trim(c, version(3));
        txn.push(TxOp::LogRewind { collection: c, to: version(6) }).create_collection(pg(5), 1);
        txn.push(TxOp::SplitCollection { collection: c, bits: 1, rem: 1, into: pg(1) });
        txn.push(TxOp::MergeCollection { collection: pg(2), into: pg(1), bits: 0 }).push(fail);
        let want = model.apply(&txn).expect_err("the last step fails");
        assert_eq!(h.apply(txn), Err(want));
        compare_all(&mut h, &model, "after a refused transaction");
    }
    h.commit(|t| {
        t.write(c, a.clone(), 0, Rope::copy_from(b"fine"));
    });
    assert_eq!(h.data(c, &a), b"fine", "a refused transaction stops nothing else");
}

fn errors_say_whose_fault(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let missing = StoreError::NoSuchCollection(pg(4));
    assert_eq!((missing.fault(), missing.errno()), (Fault::Caller, types::Errno::ENOENT));
    assert_eq!(
        h.refused(|t| {
            t.write(pg(4), a.clone(), 0, Rope::copy_from(b"x"));
        }),
        missing
    );
    assert_eq!(
        h.refused(|t| {
            t.remove(pg(4), a.clone());
        }),
        missing
    );
    assert_eq!(
        h.refused(|t| {
            t.log_trim(pg(4), version(1));
        }),
        missing
    );
    let (start, end) = (GHObject::min(), GHObject::max());
    assert_eq!(
        h.get(ReadRequest::List { collection: pg(4), start, end, objects_max: 1 }),
        Err(missing.clone())
    );
    assert_eq!(h.get(ReadRequest::Object { collection: pg(4), object: a.clone() }), Err(missing));
    let no_object = StoreError::NoSuchObject(c, Box::new(a.clone()));
    let object = || a.clone();
    for read in [
        ReadRequest::Data { collection: c, object: object(), offset: 0, len: 1 },
        ReadRequest::Stat { collection: c, object: object() },
        ReadRequest::Attrs { collection: c, object: object() },
        ReadRequest::Attr { collection: c, object: object(), name: "x".into() },
        ReadRequest::OmapHeader { collection: c, object: object() },
        ReadRequest::OmapKeys { collection: c, object: object(), keys: BTreeSet::new() },
        ReadRequest::Extents { collection: c, object: object(), offset: 0, len: 1 },
    ] {
        assert_eq!(h.get(read), Err(no_object.clone()));
    }
    let max = OBJECT_BYTES_MAX;
    for (offset, end) in [(max, max + 1), (u64::MAX, u64::MAX)] {
        let too_large = StoreError::ObjectTooLarge { end, max };
        let data = Rope::copy_from(b"x");
        assert_eq!(
            h.refused(|t| {
                t.write(c, a.clone(), offset, data);
            }),
            too_large
        );
        assert_eq!(
            h.refused(|t| {
                t.zero(c, a.clone(), offset, 1);
            }),
            too_large
        );
        assert_eq!(too_large.fault(), Fault::Caller);
    }
    h.commit(|t| {
        t.truncate(c, a.clone(), max);
    });
    assert_eq!(h.size(c, &a), Some(max), "a hole costs nothing");
}

fn reads_see_what_was_queued_before(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut asked = Vec::new();
    for i in 0..50u32 {
        let mut txn = Transaction::new();
        txn.write(c, a.clone(), 0, pattern(5000, i)).set_attr(
            c,
            a.clone(),
            "n",
            Piece::copy_from(&i.to_le_bytes()),
        );
        h.queue(txn);
        let data = ReadRequest::Data { collection: c, object: a.clone(), offset: 0, len: u64::MAX };
        let attr = ReadRequest::Attr { collection: c, object: a.clone(), name: "n".into() };
        asked.push((i, h.ask(data), h.ask(attr)));
    }
    for (i, data, attr) in asked {
        assert_eq!(h.result(data), Ok(ReadOutcome::Data(pattern(5000, i))), "neither older nor newer");
        assert_eq!(h.result(attr), Ok(ReadOutcome::Attr(Piece::copy_from(&i.to_le_bytes()))));
    }
}

fn transactions_complete_in_order(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let mut tokens = Vec::new();
    for i in 0..200u32 {
        let mut txn = Transaction::new();
        if i % 10 != 9 {
            txn.write(c, object("a", 1), u64::from(i) * 100, pattern(100, i));
        } else {
            txn.touch(pg(9), object("a", 1));
        }
        tokens.push(h.queue(txn));
    }
    let mut done = Vec::new();
    while done.len() < tokens.len() {
        done.extend(h.poll());
        std::thread::yield_now();
    }
    assert_eq!(done.iter().map(Completion::token).collect::<Vec<_>>(), tokens);
    for (i, completion) in done.iter().enumerate() {
        assert_eq!(matches!(completion, Completion::Refused { .. }), i % 10 == 9, "{i}: {completion:?}");
    }
}

fn a_transaction_spans_collections(factory: &mut dyn Factory) {
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

fn large_data_comes_back(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let whole = pattern(4 << 20, 1);
    h.commit(|t| {
        t.write(c, a.clone(), 0, whole.clone());
    });
    let mut want = whole.to_vec();
    assert!(h.data(c, &a) == want);
    for i in 0..64u64 {
        let offset = (i * 37 % 1024) * 4096;
        let data = pattern(4096, i as u32 + 50);
        super::model_write(&mut want, offset, &data.to_vec());
        h.commit(|t| {
            t.write(c, a.clone(), offset, data);
        });
    }
    assert!(h.data(c, &a) == want, "pages overwritten in place");
    assert_eq!(h.data_range(c, &a, 4095, 8194), &want[4095..4095 + 8194]);
}

fn statfs_counts(factory: &mut dyn Factory) {
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

fn random_histories_equal_the_model(factory: &mut dyn Factory) {
    for seed in 1..=4 {
        random_history(factory, seed, 400);
    }
}

fn everything_is_there_after_reopening(factory: &mut dyn Factory) {
    let mut h = Harness::new(factory.fresh());
    let mut model = Model::new();
    let mut generator = Generator::new(99);
    let mut txn = Generator::setup();
    for _ in 0..300 {
        assert_eq!(h.apply(txn.clone()), model.apply(&txn));
        txn = generator.transaction();
    }
    let Some(store) = factory.reopen(h.store) else { return };
    let mut h = Harness::new(store);
    compare_all(&mut h, &model, "reopened");
    h.commit(|t| {
        t.create_collection(pg(77), 0).touch(pg(77), object("a", 1));
    });
    let store = factory.reopen(h.store).expect("it kept everything before");
    assert_eq!(Harness::new(store).list(pg(77)), vec![object("a", 1)], "and goes on");
}
