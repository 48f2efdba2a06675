//! The suite's cases, by name. What a case is about stands in its name.

mod collections;
mod contract;
mod data;
mod maps;

use buffer::{Piece, PieceMut, Rope};
use types::{EVersion, GHObject, HObject, Name, PoolId, ShardId, SnapId};

use super::harness::{Factory, Harness, pg};
use crate::{Attrs, CollectionId, LogPage, OmapPage, ReadOutcome, ReadRequest};
use collections::*;
use contract::*;
use data::*;
use maps::*;

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

fn log(h: &mut Harness, collection: CollectionId) -> LogPage {
    let (entries_max, bytes_max) = (usize::MAX, usize::MAX);
    match h.get(ReadRequest::Log { collection, after: EVersion::default(), entries_max, bytes_max }) {
        Ok(ReadOutcome::Log(page)) => page,
        other => panic!("log: {other:?}"),
    }
}
