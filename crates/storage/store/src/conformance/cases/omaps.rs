//! Attributes and omaps.

use std::collections::BTreeSet;

use buffer::Piece;
use types::Name;

use super::super::factory::Factory;
use super::super::reads::{object, object_request, omap_request};
use super::{bytes, map, one_pg, pairs, pattern};
use crate::{
    AttrChoice, Attrs, ObjectChange, ObjectHead, ObjectStat, OmapPage, ReadOutcome, ReadRequest, StoreError,
};

pub fn attributes_are_set_and_removed<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let attrs = || ReadRequest::Attrs { collection: c, object: a.clone() };
    let attr = |name: &str| ReadRequest::Attr { collection: c, object: a.clone(), name: name.into() };
    h.commit(|t| t.set_attrs(c, &a, map(&[("x", "1"), ("y", ""), ("z", "3")])));
    h.commit(|t| t.set_attr(c, &a, "x", bytes("other")));
    let want = map(&[("x", "other"), ("y", ""), ("z", "3")]);
    assert_eq!(h.get(attrs()), Ok(ReadOutcome::Attrs(want.clone())));
    let head = |attrs| Ok(ReadOutcome::Object(Some(ObjectHead { stat: ObjectStat::default(), attrs })));
    assert_eq!(h.get(object_request(c, &a)), head(want));
    let these = AttrChoice::These(vec!["none".into(), "z".into(), "x".into()]);
    for (attrs, want) in [(these, map(&[("x", "other"), ("z", "3")])), (AttrChoice::None, Attrs::new())] {
        assert_eq!(h.get(ReadRequest::Object { collection: c, object: a.clone(), attrs }), head(want));
    }
    assert_eq!(h.get(attr("y")), Ok(ReadOutcome::Attr(Piece::empty())));
    assert_eq!(h.get(attr("none")), Err(StoreError::NoSuchAttr));
    let remove = |name: &str| ObjectChange::RemoveAttr(name.into());
    h.commit(|t| t.change(c, &a, remove("x")).change(c, &a, remove("none")));
    assert_eq!(h.get(attrs()), Ok(ReadOutcome::Attrs(map(&[("y", ""), ("z", "3")]))));
    h.commit(|t| t.change(c, &a, ObjectChange::RemoveAttrs));
    assert_eq!(h.get(attrs()), Ok(ReadOutcome::Attrs(Attrs::new())));
    let big = pattern(70_000, 5).to_piece();
    h.commit(|t| t.set_attr(c, &a, "big", big.clone()));
    assert_eq!(h.get(attr("big")), Ok(ReadOutcome::Attr(big)));
}

pub fn omap_is_set_removed_and_ranged<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let all = pairs(&[("", "empty key"), ("a", "1"), ("ab", "2"), ("b", ""), ("c", "4"), ("\u{ff}", "5")]);
    h.commit(|t| t.omap_set(c, &a, all.clone()));
    assert_eq!(h.omap(c, &a), all);
    h.commit(|t| t.omap_set(c, &a, pairs(&[("b", "not the last"), ("b", "new")])));
    let keys: BTreeSet<Name> = ["b", "none", "a"].map(Name::from).into();
    let some = ReadRequest::OmapKeys { collection: c, object: a.clone(), keys: keys.clone() };
    let page = OmapPage { entries: pairs(&[("a", "1"), ("b", "new")]), more: false };
    assert_eq!(h.get(some), Ok(ReadOutcome::Omap(page)));
    h.commit(|t| t.change(c, &a, ObjectChange::OmapRemove(keys.into_iter().collect())));
    assert_eq!(h.omap(c, &a), pairs(&[("", "empty key"), ("ab", "2"), ("c", "4"), ("\u{ff}", "5")]));
    let range =
        |first: &str, last: &str| ObjectChange::OmapRemoveRange { first: first.into(), last: last.into() };
    h.commit(|t| t.change(c, &a, range("ab", "c")).change(c, &a, range("z", "a")));
    assert_eq!(h.omap(c, &a), pairs(&[("", "empty key"), ("c", "4"), ("\u{ff}", "5")]));
    let header = || ReadRequest::OmapHeader { collection: c, object: a.clone() };
    assert_eq!(h.get(header()), Ok(ReadOutcome::OmapHeader(Piece::empty())));
    h.commit(|t| t.change(c, &a, ObjectChange::OmapSetHeader(bytes("head"))));
    assert_eq!(h.get(header()), Ok(ReadOutcome::OmapHeader(bytes("head"))));
    h.commit(|t| t.change(c, &a, ObjectChange::OmapClear));
    assert_eq!(h.get(header()), Ok(ReadOutcome::OmapHeader(Piece::empty())), "clear takes the header too");
    assert_eq!(h.omap(c, &a), vec![]);
    let none = object("none", 9);
    for change in [
        ObjectChange::OmapClear,
        ObjectChange::OmapRemove(vec!["k".into()]),
        range("a", "b"),
        ObjectChange::RemoveAttrs,
        ObjectChange::RemoveAttr("x".into()),
        ObjectChange::Remove,
    ] {
        h.commit(|t| t.change(c, &none, change.clone()));
        assert_eq!(h.size(c, &none), None, "{change:?} only takes away, and makes no object");
    }
}

pub fn omap_pages_go_on_where_they_ended<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (a, neighbour) = (object("a", 1), object("b", 1));
    let entries: Vec<(Name, Piece)> =
        (0..100).map(|i| (Name::from(format!("k{i:03}")), bytes("0123456789"))).collect();
    h.commit(|t| t.omap_set(c, &a, entries.clone()).omap_set(c, &a, pairs(&[("j", ""), ("l", "")])));
    h.commit(|t| t.omap_set(c, &neighbour, pairs(&[("k", "not a's")])));
    let page = |after, entries_max, bytes_max, values| {
        let (object, prefix) = (a.clone(), Name::from("k"));
        let before = None;
        ReadRequest::OmapRange {
            collection: c,
            object,
            after,
            before,
            prefix,
            entries_max,
            bytes_max,
            values,
        }
    };
    for (entries_max, bytes_max, values) in [(7, usize::MAX, true), (usize::MAX, 50, true), (9, 1, false)] {
        let (mut after, mut got, mut pages) = (None, Vec::new(), 0);
        loop {
            let read = page(after, entries_max, bytes_max, values);
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
    let none = OmapPage { entries: vec![], more: true };
    assert_eq!(h.get(page(None, 0, 100, true)), Ok(ReadOutcome::Omap(none)));
    assert_eq!(h.omap(c, &neighbour).len(), 1);
    assert!(matches!(h.get(omap_request(c, &object("c", 1))), Err(StoreError::NoSuchObject(..))));
}
