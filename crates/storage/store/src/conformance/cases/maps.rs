//! Attributes, omaps, logs.

use std::collections::BTreeSet;

use buffer::Piece;
use types::{EVersion, Name};

use super::super::harness::{Factory, object, version};
use super::{bytes, log, map, omap, one_pg, pattern};
use crate::{Attrs, LogPage, ObjectHead, ObjectStat, OmapPage, ReadOutcome, ReadRequest, StoreError, TxOp};

pub fn attributes_are_set_and_removed(factory: &mut dyn Factory) {
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

pub fn omap_is_set_removed_and_ranged(factory: &mut dyn Factory) {
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

pub fn omap_pages_go_on_where_they_ended(factory: &mut dyn Factory) {
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

pub fn the_log_is_appended_trimmed_and_rewound(factory: &mut dyn Factory) {
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
