//! Objects' bytes.

use buffer::Rope;
use types::{GHObject, HObject, SnapId};

use super::super::factory::Factory;
use super::super::model::overlay;
use super::super::reads::{object, object_request};
use super::{bytes, map, one_pg, pairs, pattern};
use crate::{
    AllocHint, OBJECT_BYTES_MAX, ObjectChange, ObjectHead, ObjectStat, ReadOutcome, ReadRequest, StoreError,
};

pub fn objects_come_and_go<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (a, b) = (object("a", 1), object("b", 2));
    assert_eq!(h.size(c, &a), None);
    h.commit(|t| t.touch(c, &a).write(c, &b, 0, Rope::new()));
    assert_eq!((h.size(c, &a), h.size(c, &b)), (Some(0), Some(0)), "an empty write touches");
    h.commit(|t| t.write(c, &a, 0, Rope::copy_from(b"x")).touch(c, &a));
    assert_eq!(h.data(c, &a), b"x", "a touch changes nothing");
    h.commit(|t| t.set_attr(c, &a, "k", bytes("v")).omap_set(c, &a, pairs(&[("k", "v")])));
    h.commit(|t| t.remove(c, &a));
    assert_eq!(h.size(c, &a), None);
    h.commit(|t| t.remove(c, &a).touch(c, &a));
    let head = Some(ObjectHead::default());
    assert_eq!(
        h.get(object_request(c, &a)),
        Ok(ReadOutcome::Object(head.clone())),
        "nothing of the removed one is left"
    );
    h.commit(|t| t.write(c, &a, 0, pattern(10_000, 1)).remove(c, &a).touch(c, &a));
    assert_eq!(h.get(object_request(c, &a)), Ok(ReadOutcome::Object(head)), "nor within a transaction");
    assert_eq!(h.get(object_request(c, &object("c", 3))), Ok(ReadOutcome::Object(None)));
}

pub fn writes_overlay_one_another<F: Factory>(factory: &mut F) {
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
        overlay(&mut want, offset, &data.to_vec());
        h.commit(|t| t.write(c, &a, offset, data));
        assert!(h.data(c, &a) == want, "after write {i}");
    }
    for i in 0..600 {
        let (offset, data) = (50_001 + u64::from(i) * 7, pattern(7, i));
        overlay(&mut want, offset, &data.to_vec());
        h.commit(|t| t.write(c, &a, offset, data));
    }
    assert!(h.data(c, &a) == want, "after many small appends");
}

pub fn zero_makes_zeros_and_lengthens<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut want = pattern(30_000, 1).to_vec();
    h.commit(|t| t.write(c, &a, 0, pattern(30_000, 1)));
    for (offset, len) in [(10, 5), (4096, 4096), (9000, 9000), (29_990, 100), (40_000, 0), (36_000, 9000)] {
        overlay(&mut want, offset, &vec![0; len as usize]);
        h.commit(|t| t.zero(c, &a, offset, len));
        assert!(h.data(c, &a) == want, "after zero {offset}+{len}");
    }
    h.commit(|t| t.zero(c, &object("b", 2), 100, 50));
    assert_eq!(h.data(c, &object("b", 2)), vec![0; 150], "a zero makes the object");
    h.commit(|t| t.zero(c, &object("c", 3), 100, 0));
    assert_eq!(h.data(c, &object("c", 3)), vec![], "a zero of nothing too");
}

pub fn truncate_cuts_and_lengthens<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut want = pattern(20_000, 1).to_vec();
    h.commit(|t| t.write(c, &a, 0, pattern(20_000, 1)));
    for size in [19_999, 8192, 8191, 12_000, 5000, 4096, 100, 9000, 0, 10] {
        want.resize(size, 0);
        h.commit(|t| t.truncate(c, &a, size as u64));
        assert!(h.data(c, &a) == want, "after truncate {size}: cut bytes never come back");
    }
    h.commit(|t| t.truncate(c, &object("b", 2), 5000));
    assert_eq!(h.data(c, &object("b", 2)), vec![0; 5000], "a truncate makes the object");
}

pub fn reads_are_cut_at_the_end<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let data = pattern(10_000, 3).to_vec();
    h.commit(|t| t.write(c, &a, 0, pattern(10_000, 3)));
    for (offset, len) in
        [(0u64, 10), (4095, 2), (9999, 1), (9999, 100), (10_000, 5), (50_000, 5), (3, u64::MAX), (5, 0)]
    {
        let from = offset.min(10_000) as usize;
        let to = offset.saturating_add(len).min(10_000) as usize;
        assert_eq!(h.data_range(c, &a, offset, len), &data[from..to.max(from)], "{offset}+{len}");
    }
}

pub fn extents_cover_what_was_written<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    h.commit(|t| t.write(c, &a, 1 << 20, pattern(4096, 1)).truncate(c, &a, 2 << 20));
    let read = |offset, len| ReadRequest::Extents { collection: c, object: a.clone(), offset, len };
    assert_eq!(h.get(read(0, u64::MAX)), Ok(ReadOutcome::Extents(vec![(1 << 20, 4096)])));
    assert_eq!(h.get(read((1 << 20) + 100, 50)), Ok(ReadOutcome::Extents(vec![((1 << 20) + 100, 50)])));
    assert_eq!(h.get(read(0, 1 << 20)), Ok(ReadOutcome::Extents(vec![])));
}

pub fn large_data_comes_back<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let whole = pattern(4 << 20, 1);
    h.commit(|t| t.write(c, &a, 0, whole.clone()));
    let mut want = whole.to_vec();
    assert!(h.data(c, &a) == want);
    for i in 0..64u64 {
        let offset = (i * 37 % 1024) * 4096;
        let data = pattern(4096, i as u32 + 50);
        overlay(&mut want, offset, &data.to_vec());
        h.commit(|t| t.write(c, &a, offset, data));
    }
    assert!(h.data(c, &a) == want, "pages overwritten in place");
    assert_eq!(h.data_range(c, &a, 4095, 8194), &want[4095..4095 + 8194]);
}

pub fn a_clone_is_independent<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let snap: GHObject = HObject { snap: SnapId(7), ..a.hobj.clone() }.into();
    let data = pattern(10_000, 2).to_vec();
    h.commit(|t| {
        t.write(c, &snap, 0, pattern(50_000, 9)).set_attr(c, &snap, "old", bytes("gone"));
        t.write(c, &a, 0, pattern(10_000, 2)).set_attr(c, &a, "k", bytes("v"));
        t.omap_set(c, &a, pairs(&[("o", "1")]))
    });
    h.commit(|t| t.clone_object(c, &a, &snap));
    h.commit(|t| {
        t.write(c, &a, 0, pattern(10_000, 77)).set_attr(c, &a, "k", bytes("new"));
        t.omap_set(c, &a, pairs(&[("o", "2"), ("p", "3")]))
    });
    assert!(h.data(c, &snap) == data, "the clone keeps its bytes");
    let attrs = ReadRequest::Attrs { collection: c, object: snap.clone() };
    assert_eq!(h.get(attrs), Ok(ReadOutcome::Attrs(map(&[("k", "v")]))), "and replaces what was there");
    assert_eq!(h.omap(c, &snap), pairs(&[("o", "1")]));
    h.commit(|t| t.remove(c, &a).touch(c, &a));
    assert!(h.data(c, &snap) == data, "the clone outlives its source");
    h.commit(|t| t.write(c, &a, 0, pattern(20_000, 4)));
    assert!(h.data(c, &snap) == data, "space shared with the clone is not given to others");
    let nothing = h.refused(|t| t.clone_object(c, &object("none", 8), &a));
    assert!(matches!(nothing, StoreError::NoSuchObject(..)));
}

pub fn clone_range_copies_and_zero_fills<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (a, b) = (object("a", 1), object("b", 2));
    let data = pattern(20_000, 2).to_vec();
    h.commit(|t| t.write(c, &a, 0, pattern(20_000, 2)));
    let mut want = Vec::new();
    for (from, len, to) in [(4096, 8192, 0), (100, 50, 8190), (0, 10, 30_000), (4096, 4096, 4096)] {
        overlay(&mut want, to, &data[from as usize..(from + len) as usize]);
        h.commit(|t| t.clone_range(c, (&a, from), (&b, to), len));
        assert!(h.data(c, &b) == want, "{from}+{len} to {to}");
    }
    overlay(&mut want, 10, &[&data[19_990..], &[0; 90][..]].concat());
    h.commit(|t| t.clone_range(c, (&a, 19_990), (&b, 10), 100));
    assert!(h.data(c, &b) == want, "behind the end are zeros");
    let mut own = data.clone();
    own.copy_within(0..8192, 100);
    h.commit(|t| t.clone_range(c, (&a, 0), (&a, 100), 8192));
    assert!(h.data(c, &a) == own, "an object may be copied onto itself, overlapping");
    h.commit(|t| t.clone_range(c, (&a, 0), (&object("empty", 3), 50), 0));
    assert_eq!(h.size(c, &object("empty", 3)), Some(0), "a range of nothing makes the object");
    let nothing = h.refused(|t| t.clone_range(c, (&object("none", 4), 0), (&b, 0), 10));
    assert!(matches!(nothing, StoreError::NoSuchObject(..)));
}

pub fn hints_are_kept<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let hint = AllocHint { object_size: 4 << 20, write_size: 65536, flags: 5 };
    let (a, b, renamed) = (object("a", 1), object("b", 2), object("renamed", 3));
    h.commit(|t| t.change(c, &a, ObjectChange::SetAllocHint(hint)).clone_object(c, &a, &b));
    h.commit(|t| t.rename((c, &a), (c, &renamed)));
    for object in [renamed, b] {
        let want = ObjectStat { size: 0, hint: Some(hint) };
        assert_eq!(h.get(ReadRequest::Stat { collection: c, object }), Ok(ReadOutcome::Stat(want)));
    }
}

pub fn an_object_reaches_to_the_limit<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (a, b, end) = (object("a", 1), object("b", 2), OBJECT_BYTES_MAX);
    let before = h.statfs();
    h.commit(|t| t.write(c, &a, end - 100, pattern(100, 1)).write(c, &a, 5, pattern(10, 2)));
    assert_eq!(h.size(c, &a), Some(end));
    assert_eq!(h.data_range(c, &a, end - 200, 1000), [vec![0; 100], pattern(100, 1).to_vec()].concat());
    h.commit(|t| t.clone_object(c, &a, &b).truncate(c, &a, 20).truncate(c, &a, end));
    assert_eq!(h.data_range(c, &a, end - 200, 1000), vec![0; 200], "what was cut doesn't come back");
    assert_eq!(h.data_range(c, &b, end - 100, 100), pattern(100, 1).to_vec());
    h.commit(|t| t.zero(c, &b, 0, end));
    assert_eq!(
        (h.data_range(c, &b, 0, 20), h.data_range(c, &b, end - 100, 100)),
        (vec![0; 20], vec![0; 100])
    );
    assert_eq!(h.size(c, &b), Some(end));
    h.commit(|t| t.remove(c, &a).remove(c, &b));
    assert_eq!(h.statfs().data_bytes, before.data_bytes);
}
