//! What is kept apart though it looks alike, and large values.

use buffer::Piece;
use types::{GHObject, HObject, Name, PgId, PoolId, ShardId, SpgId};

use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::history::reopened;
use super::super::reads::{object, omap_request, version};
use super::{empty, one_pg, pairs, pattern};
use crate::{
    CollectionId, LogRecordKind, ObjectChange, ObjectStore, OmapPage, ReadOutcome, ReadRequest, Transaction,
};

/// Gives an object data, an attribute and an omap that no other has.
fn mark(txn: &mut Transaction, c: CollectionId, object: &GHObject, mark: u32) {
    let value = Piece::copy_from(&mark.to_le_bytes());
    txn.write(c, object, 0, pattern(100, mark)).set_attr(c, object, "mark", value.clone());
    txn.omap_set(c, object, vec![("mark".into(), value)]);
}

fn check_mark<S: ObjectStore>(h: &mut Harness<S>, c: CollectionId, object: &GHObject, mark: u32) {
    let value = Piece::copy_from(&mark.to_le_bytes());
    assert!(h.data(c, object) == pattern(100, mark).to_vec(), "{object} of {c} has another's data");
    let attr = ReadRequest::Attr { collection: c, object: object.clone(), name: "mark".into() };
    assert_eq!(h.get(attr), Ok(ReadOutcome::Attr(value.clone())), "{object} of {c} has another's attributes");
    let entries = vec![("mark".into(), value)];
    let omap = Ok(ReadOutcome::Omap(OmapPage { entries, more: false }));
    assert_eq!(h.get(omap_request(c, object)), omap, "{object} of {c} has another's omap");
}

pub fn names_that_run_together_are_kept_apart<F: Factory>(factory: &mut F) {
    const NAMES: [(&str, &str, &str); 9] = [
        ("", "", "abc"),
        ("", "a", "bc"),
        ("", "ab", "c"),
        ("a", "", "bc"),
        ("ab", "", "c"),
        ("a", "b", "c"),
        ("abc", "", "d"),
        ("", "abc", "d"),
        ("", "", "abcd"),
    ];
    let (mut h, c) = one_pg(factory);
    let of = |(nspace, key, name): (&str, &str, &str)| {
        GHObject::from(HObject::head(PoolId(1), nspace.into(), key.into(), name.into(), 5))
    };
    let mut all: Vec<GHObject> = NAMES.into_iter().map(of).collect();
    all.sort();
    for (i, object) in all.iter().enumerate() {
        h.commit(|t| {
            mark(t, c, object, i as u32);
            t
        });
    }
    for removed in 0..all.len() {
        for (i, object) in all.iter().enumerate().skip(removed) {
            check_mark(&mut h, c, object, i as u32);
        }
        assert_eq!(h.list(c), all[removed..]);
        h.commit(|t| t.remove(c, &all[removed]));
    }
    // An object's name with the key of an omap behind it.
    let keys = [("x", "yz"), ("xy", "z"), ("xyz", "")];
    for (name, key) in keys {
        h.commit(|t| t.omap_set(c, &object(name, 5), pairs(&[(key, name)])));
    }
    for (name, key) in keys {
        assert_eq!(h.omap(c, &object(name, 5)), pairs(&[(key, name)]));
    }
    h.commit(|t| t.change(c, &object("xy", 5), ObjectChange::OmapClear));
    for (name, key) in [keys[0], keys[2]] {
        assert_eq!(h.omap(c, &object(name, 5)), pairs(&[(key, name)]));
    }
}

pub fn collections_of_several_pools_share_nothing<F: Factory>(factory: &mut F) {
    let of = |pool, seed, shard| {
        CollectionId::Pg(SpgId { shard: ShardId(shard), ..PgId { pool: PoolId(pool), seed }.into() })
    };
    let none = ShardId::NONE.0;
    let mut all = vec![
        of(1, 2, none),
        of(1, 2, 0),
        of(1, 2, 1),
        of(2, 1, none),
        of(2, 2, none),
        of(1 + (1 << 32), 2, none),
        of(1, 2 + (1 << 16), none),
        of(258, 2, none),
    ];
    let mut h = empty(factory);
    let a = object("a", 2);
    for (i, &c) in all.iter().enumerate() {
        let mark_of = Piece::copy_from(&i.to_le_bytes());
        h.commit(|t| t.create_collection(c, 0));
        h.commit(|t| {
            mark(t, c, &a, i as u32);
            t.set_info(c, mark_of.clone()).log_append(c, version(1), LogRecordKind::Entry, mark_of)
        });
    }
    let mut first = 0;
    while !all.is_empty() {
        for (i, &c) in all.iter().enumerate().map(|(i, c)| (i + first, c)) {
            check_mark(&mut h, c, &a, i as u32);
            assert_eq!(h.log(c).records[0].bytes, Piece::copy_from(&i.to_le_bytes()), "the log of {c}");
            match h.get(ReadRequest::Collection { collection: c }) {
                Ok(ReadOutcome::Collection(Some(stat))) => assert_eq!(*stat.info, i.to_le_bytes(), "{c}"),
                other => panic!("{c}: {other:?}"),
            }
        }
        let gone = all.remove(0);
        first += 1;
        h.commit(|t| t.remove(gone, &a).remove_collection(gone));
    }
}

pub fn large_values_headers_and_records_are_kept<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let large = |salt| pattern(300_000, salt).to_piece();
    h.commit(|t| {
        t.omap_set(c, &a, vec![("k".into(), large(1)), ("l".into(), large(2))]);
        t.change(c, &a, ObjectChange::OmapSetHeader(large(3))).set_attr(c, &a, "x", large(4));
        t.log_append(c, version(1), LogRecordKind::Entry, large(5));
        t.log_append(c, version(2), LogRecordKind::Entry, large(6))
    });
    let check = |h: &mut Harness<F::Store>| {
        let want: Vec<(Name, Piece)> = vec![("k".into(), large(1)), ("l".into(), large(2))];
        assert!(h.omap(c, &a) == want, "values of an omap");
        let header = h.get(ReadRequest::OmapHeader { collection: c, object: a.clone() });
        assert!(header == Ok(ReadOutcome::OmapHeader(large(3))), "a header of an omap");
        let attr = h.get(ReadRequest::Attr { collection: c, object: a.clone(), name: "x".into() });
        assert!(attr == Ok(ReadOutcome::Attr(large(4))), "an attribute");
        let records: Vec<Piece> = h.log(c).records.into_iter().map(|r| r.bytes).collect();
        assert!(records == [large(5), large(6)], "log records");
    };
    check(&mut h);
    if factory.properties().reopens {
        check(&mut reopened(factory, h, None).expect("the properties say so"));
    }
}

pub fn what_was_missing_is_found_when_something_brings_it<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (x, y, z) = (object("x", 1), object("y", 1), object("z", 1));
    let child = super::pg(1);
    h.commit(|t| t.write(c, &x, 0, pattern(100, 1)).create_collection(child, 0));
    let is_there = |h: &mut Harness<F::Store>, c, object: &GHObject| match h
        .get(super::super::reads::object_request(c, object))
    {
        Ok(ReadOutcome::Object(head)) => head.is_some(),
        other => panic!("{other:?}"),
    };
    assert_eq!((is_there(&mut h, c, &x), is_there(&mut h, child, &x)), (true, false));
    h.commit(|t| t.split(c, 1, 1, child));
    assert_eq!((is_there(&mut h, c, &x), is_there(&mut h, child, &x)), (false, true), "after a split");
    assert_eq!((is_there(&mut h, c, &y), is_there(&mut h, c, &z)), (false, false));
    h.commit(|t| t.rename((child, &x), (child, &y)).clone_object(child, &y, &z));
    h.commit(|t| t.merge(child, c, 0));
    for (object, there) in [(&x, false), (&y, true), (&z, true)] {
        assert_eq!(is_there(&mut h, c, object), there, "{object} after a merge");
    }
    h.commit(|t| t.rename((c, &y), (c, &x)).remove(c, &z).clone_range(c, (&x, 0), (&z, 0), 10));
    for (object, there) in [(&x, true), (&y, false), (&z, true)] {
        assert_eq!(is_there(&mut h, c, object), there, "{object} after a rename");
    }
}
