//! Long names, odd bytes, many keys, records and extents, large objects.

use buffer::{Piece, crc32c};
use types::{GHObject, HObject, Name, PoolId};

use super::super::factory::Factory;
use super::super::model::overlay;
use super::super::reads::{object, version};
use super::{bytes, one_pg, pattern};
use crate::{
    AttrChoice, CHECKSUM_BLOCK, LogRecordKind, ObjectChange, ObjectPage, OmapPage, ReadOutcome, ReadRequest,
    Transaction,
};

fn numbered(n: u32) -> (Name, Piece) {
    (Name::from(format!("k{n:05}")), Piece::copy_from(&n.to_le_bytes()))
}

pub fn prefixes_and_keys_may_end_in_the_highest_byte<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let long = vec![0xff; 2048];
    let keys: [&[u8]; 14] = [
        b"",
        b"\0",
        b"\0\0",
        b"a",
        b"a\0",
        b"a\xfe",
        b"a\xff",
        b"a\xff\0",
        b"a\xff\xff",
        b"b",
        b"\xfe\xff",
        b"\xff",
        b"\xff\xff",
        &long,
    ];
    let entries: Vec<_> = keys.iter().map(|k| (Name::from(*k), Piece::copy_from(k))).collect();
    h.commit(|t| t.omap_set(c, &a, entries.iter().rev().cloned().collect()));
    for prefix in keys {
        for (after, before) in
            [(None, None), (Some(keys[6]), None), (None, Some(keys[8])), (Some(keys[2]), Some(keys[12]))]
        {
            let want = entries.iter().filter(|(k, _)| {
                k.starts_with(prefix) && after.is_none_or(|a| &**k > a) && before.is_none_or(|b| &**k < b)
            });
            let read = ReadRequest::OmapRange {
                collection: c,
                object: a.clone(),
                after: after.map(Name::from),
                before: before.map(Name::from),
                prefix: prefix.into(),
                entries_max: usize::MAX,
                bytes_max: usize::MAX,
                values: true,
            };
            let want = OmapPage { entries: want.cloned().collect(), more: false };
            assert_eq!(h.get(read.clone()), Ok(ReadOutcome::Omap(want)), "{read:?}");
        }
    }
    let (first, last) = (Name::from(b"a\xff".as_slice()), Name::from(b"\xff".as_slice()));
    h.commit(|t| t.change(c, &a, ObjectChange::OmapRemoveRange { first, last }));
    let left: Vec<_> = [&entries[..6], &entries[11..]].concat();
    assert_eq!(h.omap(c, &a), left);
}

pub fn a_page_that_ends_with_the_last_key_has_no_more<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    h.commit(|t| t.omap_set(c, &a, (0..10).map(numbered).collect()));
    for (prefix, before, entries_max, keys, more) in [
        ("k", None, 10, 10, false),
        ("k", None, 9, 9, true),
        ("k0000", None, 10, 10, false),
        ("k", Some("k00005"), 5, 5, false),
        ("k", Some("k00005"), 4, 4, true),
        ("k00003", None, 1, 1, false),
        ("l", None, 0, 0, false),
        ("k", Some("k"), 0, 0, false),
    ] {
        let read = ReadRequest::OmapRange {
            collection: c,
            object: a.clone(),
            after: None,
            before: before.map(Name::from),
            prefix: prefix.into(),
            entries_max,
            bytes_max: usize::MAX,
            values: false,
        };
        match h.get(read.clone()) {
            Ok(ReadOutcome::Omap(page)) => {
                assert_eq!((page.entries.len(), page.more), (keys, more), "{read:?}")
            }
            other => panic!("{read:?}: {other:?}"),
        }
    }
}

pub fn names_of_any_bytes_and_two_kilobytes_are_kept<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let name = |bytes: &[u8], hash| {
        GHObject::from(HObject {
            nspace: Name::from([bytes, &[0]].concat()),
            ..HObject::head(PoolId(1), Name::new(), bytes.into(), bytes.into(), hash)
        })
    };
    let mut all: Vec<GHObject> = (0..8u32)
        .flat_map(|hash| {
            let long = |byte: u8| name(&[byte; 2048], hash << 29);
            [long(0xff), long(0), long(b'%'), name(&[0xff, 0, 0xff], hash << 29), name(b"!_.~", hash << 29)]
        })
        .collect();
    all.sort();
    for (i, object) in all.iter().enumerate() {
        let value = Piece::copy_from(&i.to_le_bytes());
        let key = Name::from(vec![i as u8; 2048]);
        h.commit(|t| {
            t.set_attr(c, object, key.clone(), value.clone()).omap_set(c, object, vec![(key, value)])
        });
    }
    let (start, end, attrs) = (GHObject::min(), GHObject::max(), AttrChoice::All);
    let listed =
        h.get(ReadRequest::List { collection: c, start, end: end.clone(), objects_max: 1000, attrs });
    let with_attrs = |(i, object): (usize, &GHObject)| {
        (object.clone(), [(Name::from(vec![i as u8; 2048]), Piece::copy_from(&i.to_le_bytes()))].into())
    };
    let objects = all.iter().enumerate().map(with_attrs).collect();
    assert_eq!(listed, Ok(ReadOutcome::Objects(ObjectPage { objects, next: end, gaps: Vec::new() })));
    for (i, object) in all.iter().enumerate() {
        assert_eq!(
            h.omap(c, object),
            vec![(Name::from(vec![i as u8; 2048]), Piece::copy_from(&i.to_le_bytes()))]
        );
    }
}

pub fn listing_gives_the_attributes_that_are_chosen<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    for i in 0..5u32 {
        h.commit(|t| {
            t.set_attr(c, &object("o", i), "_", bytes("info")).set_attr(c, &object("o", i), "x", bytes("y"))
        });
    }
    h.commit(|t| t.touch(c, &object("bare", 9)));
    let mut list = |attrs| match h.get(ReadRequest::List {
        collection: c,
        start: GHObject::min(),
        end: GHObject::max(),
        objects_max: 100,
        attrs,
    }) {
        Ok(ReadOutcome::Objects(page)) => page.objects.iter().map(|o| o.1.len()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let mut sizes = |attrs| {
        let mut sizes = list(attrs);
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(AttrChoice::None), vec![0; 6]);
    assert_eq!(sizes(AttrChoice::All), vec![0, 2, 2, 2, 2, 2]);
    assert_eq!(sizes(AttrChoice::These(vec!["_".into(), "z".into()])), vec![0, 1, 1, 1, 1, 1]);
}

pub fn omaps_of_thousands_of_keys_page_and_lose_ranges<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (a, copy) = (object("a", 1), object("copy", 1));
    let mut want: Vec<_> = (0..4000).map(numbered).collect();
    for part in want.chunks(500) {
        h.commit(|t| t.omap_set(c, &a, part.to_vec()));
    }
    h.commit(|t| t.clone_object(c, &a, &copy));
    assert_eq!(h.omap(c, &a), want);
    let remove = |from: u32, to: u32| {
        let (first, last) = (numbered(from).0, numbered(to).0);
        ObjectChange::OmapRemoveRange { first, last }
    };
    h.commit(|t| t.change(c, &a, remove(100, 3100)).change(c, &a, remove(3500, 3501)));
    let whole = want.clone();
    want.drain(3500..3501);
    want.drain(100..3100);
    assert_eq!(h.omap(c, &a), want);
    assert_eq!(h.omap(c, &copy), whole, "the copy has them all");
    h.commit(|t| t.change(c, &copy, ObjectChange::OmapClear));
    assert_eq!((h.omap(c, &copy), h.omap(c, &a)), (vec![], want));
}

pub fn logs_of_thousands_of_records_page_trim_and_rewind<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    for start in (1..5000u64).step_by(250) {
        let mut txn = Transaction::new();
        for n in start..start + 250 {
            txn.log_append(c, version(n), LogRecordKind::Entry, Piece::copy_from(&n.to_le_bytes()));
        }
        assert_eq!(h.apply(txn), Ok(()));
    }
    h.commit(|t| t.log_trim(c, version(3000)));
    h.commit(|t| t.log_rewind(c, version(4500)));
    let (mut after, mut got) = (version(0), Vec::new());
    loop {
        let read = ReadRequest::Log { collection: c, after, records_max: 100, bytes_max: usize::MAX };
        let Ok(ReadOutcome::Log(page)) = h.get(read) else { panic!("a page of a log") };
        assert_eq!((page.tail, page.head), (version(3000), version(4500)));
        assert!(page.records.len() <= 100);
        after = page.records.last().map_or(after, |r| r.version);
        got.extend(page.records.iter().map(|r| r.version.version));
        if !page.more {
            break;
        }
    }
    assert_eq!(got, (3001..=4500).collect::<Vec<_>>());
}

pub fn an_object_of_hundreds_of_extents_is_cloned_and_overwritten<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (a, b) = (object("a", 1), object("b", 2));
    let mut want = Vec::new();
    for part in 0..10u64 {
        let mut txn = Transaction::new();
        for i in 0..40u64 {
            let (offset, data) = ((part * 40 + i) * 8192 + i % 3 * 100, pattern(4096 - 200, i as u32));
            overlay(&mut want, offset, &data.to_vec());
            txn.write(c, &a, offset, data);
        }
        assert_eq!(h.apply(txn), Ok(()));
    }
    assert!(h.data(c, &a) == want);
    h.commit(|t| t.clone_object(c, &a, &b).clone_range(c, (&b, 5000), (&a, 1_000_001), 500_000));
    let copy = want[5000..505_000].to_vec();
    let whole = want.clone();
    overlay(&mut want, 1_000_001, &copy);
    assert!(h.data(c, &a) == want, "a range of hundreds of extents, not aligned with its source");
    assert!(h.data(c, &b) == whole);
    h.commit(|t| t.zero(c, &a, 10_000, 2_000_000));
    want[10_000..2_010_000].fill(0);
    assert!(h.data(c, &a) == want);
}

pub fn clones_of_clones_of_large_objects_are_independent<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let head = object("head", 1);
    let clone = |i: usize| object(&format!("clone{i}"), 1);
    let mut want = vec![pattern(3 << 20, 0).to_vec()];
    h.commit(|t| t.write(c, &head, 0, pattern(3 << 20, 0)));
    for i in 0..6usize {
        let source = if i < 3 { head.clone() } else { clone(i - 1) };
        h.commit(|t| t.clone_object(c, &source, &clone(i)));
        let mut data = want.last().expect("one is there").clone();
        let (offset, change) = (i as u64 * 400_000 + 77, pattern(150_000, i as u32 + 5));
        overlay(&mut data, offset, &change.to_vec());
        let changed = if i < 2 { head.clone() } else { clone(i) };
        h.commit(|t| t.write(c, &changed, offset, change));
        want.push(data);
    }
    // Clones 0 and 1 were left behind by the head, clone 2 and those after it were written themselves.
    for (i, at) in [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5), (5, 6)] {
        assert!(h.data(c, &clone(i)) == want[at], "clone {i}");
    }
    assert!(h.data(c, &head) == want[2]);
    h.commit(|t| t.remove(c, &head).remove(c, &clone(0)).remove(c, &clone(4)));
    for (i, at) in [(1, 1), (2, 3), (3, 4), (5, 6)] {
        assert!(h.data(c, &clone(i)) == want[at], "clone {i}, others removed");
    }
}

pub fn checksums_that_are_given_come_back_as_the_same_bytes<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut want = Vec::new();
    for (i, (offset, blocks)) in [(0u64, 4usize), (8192, 1), (65536, 300), (4096, 2)].into_iter().enumerate()
    {
        let data = pattern(blocks * CHECKSUM_BLOCK, i as u32);
        let whole = data.to_vec();
        let checksums = Some(whole.chunks(CHECKSUM_BLOCK).map(|b| crc32c(u32::MAX, b)).collect());
        h.commit(|t| {
            t.change(c, &a, ObjectChange::Write { offset, data, advice: Default::default(), checksums })
        });
        overlay(&mut want, offset, &whole);
        let read = |verify| ReadRequest::Data {
            collection: c,
            object: a.clone(),
            offset: 0,
            len: u64::MAX,
            advice: Default::default(),
            verify,
        };
        for verify in [false, true] {
            assert_eq!(
                h.get(read(verify)).map(|o| matches!(o, ReadOutcome::Data(d) if d.to_vec() == want)),
                Ok(true)
            );
        }
    }
    h.commit(|t| t.write(c, &a, 70_000, pattern(10, 3)));
    overlay(&mut want, 70_000, &pattern(10, 3).to_vec());
    assert!(h.data(c, &a) == want, "a part of a block whose checksum was given is overwritten");
}
