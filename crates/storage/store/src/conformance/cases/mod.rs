//! The suite's cases, by name. What a case is about is its name.

mod apart;
mod closing;
mod collections;
mod data;
mod driving;
mod faults;
mod logs;
mod omaps;
mod order;
mod random;
mod refusals;
mod rehoming;
mod remade;
mod restarts;
mod sizes;
mod space;

use buffer::{Piece, PieceMut, Rope};
use types::{GHObject, HObject, Name, PoolId, ShardId, SnapId, SplitMix64};

use super::factory::{Factory, Need};
use super::harness::Harness;
use super::reads::pg;
use super::space::ROOMY_BYTES;
use crate::{Attrs, CollectionId};
use apart::*;
use closing::*;
use collections::*;
use data::*;
use driving::*;
use faults::*;
use logs::*;
use omaps::*;
use order::*;
use random::*;
use refusals::*;
use rehoming::*;
use remade::*;
use restarts::*;
use sizes::*;
use space::*;

macro_rules! cases {
    ($($case:ident: [$($need:ident),*],)*) => {
        /// The name of every case, and what it needs of a store.
        pub const CASES: &[(&str, &[Need])] = &[$((stringify!($case), &[$(Need::$need),*])),*];

        fn run_case<F: Factory>(name: &str, factory: &mut F) {
            $(
                if name == stringify!($case) {
                    return $case(factory);
                }
            )*
            panic!("the suite has no case {name}");
        }
    };
}
cases! {
    objects_come_and_go: [],
    writes_overlay_one_another: [],
    zero_makes_zeros_and_lengthens: [],
    truncate_cuts_and_lengthens: [],
    reads_are_cut_at_the_end: [],
    extents_cover_what_was_written: [],
    large_data_comes_back: [],
    an_object_reaches_to_the_limit: [],
    a_clone_is_independent: [],
    clone_range_copies_and_zero_fills: [],
    hints_are_kept: [],
    checksums_that_are_given_come_back_as_the_same_bytes: [],
    an_object_of_hundreds_of_extents_is_cloned_and_overwritten: [],
    clones_of_clones_of_large_objects_are_independent: [],
    attributes_are_set_and_removed: [],
    omap_is_set_removed_and_ranged: [],
    omap_pages_go_on_where_they_ended: [],
    a_page_that_ends_with_the_last_key_has_no_more: [],
    prefixes_and_keys_may_end_in_the_highest_byte: [],
    omaps_of_thousands_of_keys_page_and_lose_ranges: [],
    the_log_is_appended_trimmed_and_rewound: [],
    logs_of_thousands_of_records_page_trim_and_rewind: [],
    an_info_is_replaced_and_survives_changes_of_the_log: [],
    rename_moves_within_and_between_collections: [],
    objects_stay_in_their_pool: [],
    collections_are_made_listed_and_removed: [],
    a_list_has_cephs_order_and_goes_on: [],
    names_of_any_bytes_and_two_kilobytes_are_kept: [],
    listing_gives_the_attributes_that_are_chosen: [],
    sentinels_are_no_objects: [],
    split_moves_by_hash_and_merge_brings_back: [],
    a_split_and_a_merge_with_requests_in_flight: [],
    a_refused_merge_names_the_first_object_of_both: [],
    a_transaction_spans_collections: [],
    collections_of_two_shards_share_no_transaction: [SeveralShards],
    rehoming_to_where_it_is_or_nowhere: [],
    a_collection_moves_in_bounded_steps_and_is_read_meanwhile: [SeveralShards],
    a_collection_on_its_way_can_turn_back: [SeveralShards],
    rehoming_with_requests_in_flight_keeps_their_order: [SeveralShards],
    a_refused_transaction_leaves_nothing: [],
    a_refusal_closes_its_collections_until_it_is_acknowledged: [],
    each_refusal_is_acknowledged_by_itself: [],
    an_acknowledgement_opens_for_what_is_queued_after_it: [],
    limits_are_held_to_the_byte: [],
    errors_say_whose_fault: [],
    reads_see_what_was_queued_before: [],
    every_read_sees_what_was_queued_in_the_same_burst: [],
    transactions_complete_in_order: [],
    steps_take_effect_in_order_however_often_an_object_is_named: [],
    tokens_are_used_again: [],
    a_burst_of_reads_wakes_the_caller_for_each: [],
    what_a_read_returned_never_changes: [],
    statfs_counts: [],
    space_comes_back_from_clones_overwrites_truncates_and_refusals: [],
    a_full_store_refuses_whole_and_takes_what_makes_room: [SharedSpace],
    a_refusal_for_space_closes_its_collection_only: [],
    random_histories_equal_the_model: [],
    random_histories_with_many_refusals_equal_the_model: [],
    random_histories_that_split_merge_and_rehome_equal_the_model: [],
    random_histories_with_thousands_of_keys_equal_the_model: [],
    random_histories_with_large_objects_equal_the_model: [],
    random_histories_with_thousands_of_log_records_equal_the_model: [],
    everything_is_there_after_reopening: [Reopen],
    opening_a_store_again_acknowledges_everything: [Reopen],
    what_was_acknowledged_survives_power_losses: [Crash],
    what_a_crash_replays_is_done_once: [Crash],
    what_replaces_old_data_does_not_touch_it_before_it_is_durable: [Crash],
    rehoming_goes_on_after_power_losses: [Crash, SeveralShards],
    a_damaged_block_is_named_and_its_neighbours_are_read: [Reopen, Damage],
    a_partial_overwrite_of_a_damaged_block_is_refused: [Reopen, Damage],
    a_damaged_block_that_is_overwritten_whole_is_good_again: [Reopen, Damage],
    a_damaged_block_is_not_washed_clean_by_a_clone: [Reopen, Damage],
    a_failed_commit_stops_the_store_and_loses_nothing_acknowledged: [Reopen, FailedCommits],
    names_that_run_together_are_kept_apart: [],
    collections_of_several_pools_share_nothing: [],
    large_values_headers_and_records_are_kept: [],
    what_was_missing_is_found_when_something_brings_it: [],
    log_records_are_ordered_by_epoch_first: [],
    a_version_that_was_rewound_comes_with_other_bytes: [],
    a_collection_made_again_by_one_transaction_is_new: [],
    a_split_may_look_at_all_bits_of_the_hash: [],
    a_removed_collection_is_made_where_shard_of_shows: [SeveralShards],
    tokens_may_have_any_value: [],
    a_turn_at_the_time_of_the_last_begins_what_was_queued: [],
    a_store_with_nothing_to_do_asks_for_no_turn_now: [],
    an_acknowledgement_of_what_closes_nothing_is_forgotten: [],
    a_refusal_closes_collections_that_do_not_exist: [],
    the_list_of_collections_is_as_of_what_is_queued: [],
    what_followed_a_refusal_is_not_there_after_a_power_loss: [Crash],
    a_large_transaction_is_there_whole_or_not_at_all: [Crash],
    a_power_loss_after_a_restart_loses_nothing_acknowledged: [Reopen, Crash],
    a_full_store_opened_again_takes_what_makes_room: [Reopen],
    a_damaged_block_is_not_washed_clean_by_changes_of_its_object: [Reopen, Damage],
    a_damaged_block_is_not_washed_clean_by_rehoming: [Reopen, Damage, SeveralShards],
    a_failed_commit_ends_everything_in_flight: [Reopen, FailedCommits],
}

/// Runs the case `name`, unless the store lacks what it needs.
///
/// # Panics
/// If the store does not do what it should, or there is no such case.
pub fn run<F: Factory>(name: &str, factory: &mut F) {
    if !skipped(factory).contains(&name) {
        run_case(name, factory);
    }
}

/// The cases that are skipped for a store.
pub fn skipped<F: Factory>(factory: &F) -> Vec<&'static str> {
    let properties = factory.properties();
    CASES
        .iter()
        .filter(|(_, needs)| !needs.iter().all(|n| n.is_met(&properties)))
        .map(|(name, _)| *name)
        .collect()
}

/// An empty store.
fn empty<F: Factory>(factory: &mut F) -> Harness<F::Store> {
    Harness::new(factory.fresh(ROOMY_BYTES), factory.properties())
}

/// A store with the collection of PG 0.
fn one_pg<F: Factory>(factory: &mut F) -> (Harness<F::Store>, CollectionId) {
    let mut h = empty(factory);
    h.commit(|t| t.create_collection(pg(0), 0));
    (h, pg(0))
}

fn bytes(text: &str) -> Piece {
    Piece::copy_from(text.as_bytes())
}

fn map(entries: &[(&str, &str)]) -> Attrs {
    entries.iter().map(|(k, v)| (Name::from(*k), bytes(v))).collect()
}

fn pairs(entries: &[(&str, &str)]) -> Vec<(Name, Piece)> {
    entries.iter().map(|(k, v)| (Name::from(*k), bytes(v))).collect()
}

/// Bytes that differ everywhere and are never 0.
fn pattern(len: usize, salt: u32) -> Rope {
    let mut piece = PieceMut::zeroed(len);
    let fill = |(i, b): (usize, &mut u8)| *b = (i as u32 / 7 * 13 + i as u32 + salt) as u8 | 1;
    piece.as_mut_slice().iter_mut().enumerate().for_each(fill);
    piece.freeze().into()
}

/// Bytes that no compression makes smaller, for cases that count what is allocated; none is 0.
fn noise(len: usize, salt: u32) -> Rope {
    let (mut piece, mut random) = (PieceMut::zeroed(len), SplitMix64::new(salt.into()));
    for bytes in piece.as_mut_slice().chunks_mut(8) {
        let word = random.next_u64() | 0x0101_0101_0101_0101;
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
    piece.freeze().into()
}

/// Objects that differ in every part that the order looks at.
fn many_objects() -> Vec<GHObject> {
    let mut all = vec![GHObject::pgmeta(PoolId(1), 0, ShardId::NONE)];
    const NAMES: [(&[u8], &[u8], &[u8]); 15] = [
        (b"", b"", b"a"),
        (b"", b"", b"b"),
        (b"", b"", b"a\0"),
        (b"", b"", b"a\0\0"),
        (b"", b"", b"a\x01"),
        (b"", b"", b"\xc3\xbf"),
        (b"", b"", b"\xff"),
        (b"", b"", b"\xff\xff"),
        (b"", b"", b"\xff\0"),
        (b"", b"a", b"b"),
        (b"", b"b", b"a"),
        (b"", b"a", b"a"),
        (b"", b"\xff", b"a"),
        (b"n", b"", b"a"),
        (b"n\0", b"", b"a"),
    ];
    for hash in [0, 1, 2, 3, 0x8000_0000, 0xffff_ffff, 0x1234_5678, 0x0100_0000] {
        for (nspace, key, name) in NAMES {
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
