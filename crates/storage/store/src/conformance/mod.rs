//! The suite that every store is held against: each step and each read, order, atomicity, refusals, errors, sentinels,
//! listing order, logs, splits, re-homing, space to the byte, random histories beside a plain model, power losses,
//! damaged blocks and failing commits.
//!
//! A store's tests implement [`Factory`] and expand [`conformance_tests!`](crate::conformance_tests). What a store is not
//! capable of is skipped, and the expansion must name what is skipped.

mod cases;
mod compare;
mod crash;
mod factory;
mod generate;
mod handles;
mod harness;
mod history;
mod kept;
mod model;
mod reads;
mod recover;
mod space;

pub use cases::{CASES, run, skipped};
pub use crash::crash_history;
pub use factory::{Contents, Factory, Need, Properties};
pub use generate::Shape;
pub use handles::handles_share_nothing;
pub use harness::Harness;

/// The cases that need several shards: what a store of one can't be held to (in the suite's order).
pub const OF_SEVERAL_SHARDS: [&str; 7] = [
    "collections_of_two_shards_share_no_transaction",
    "a_collection_moves_in_bounded_steps_and_is_read_meanwhile",
    "a_collection_on_its_way_can_turn_back",
    "rehoming_with_requests_in_flight_keeps_their_order",
    "rehoming_goes_on_after_power_losses",
    "a_removed_collection_is_made_where_shard_of_shows",
    "a_damaged_block_is_not_washed_clean_by_rehoming",
];

/// One test a case of the suite, and one that checks which are skipped. Takes an expression that makes a [`Factory`],
/// and the names of the cases that its store can't be held to (in the suite's order).
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr, skipped: $skipped:expr) => {
        $crate::conformance_tests! { @cases $factory, $skipped;
            objects_come_and_go,
            writes_overlay_one_another,
            zero_makes_zeros_and_lengthens,
            truncate_cuts_and_lengthens,
            reads_are_cut_at_the_end,
            extents_cover_what_was_written,
            large_data_comes_back,
            an_object_reaches_to_the_limit,
            a_clone_is_independent,
            clone_range_copies_and_zero_fills,
            hints_are_kept,
            checksums_that_are_given_come_back_as_the_same_bytes,
            an_object_of_hundreds_of_extents_is_cloned_and_overwritten,
            clones_of_clones_of_large_objects_are_independent,
            attributes_are_set_and_removed,
            omap_is_set_removed_and_ranged,
            omap_pages_go_on_where_they_ended,
            a_page_that_ends_with_the_last_key_has_no_more,
            prefixes_and_keys_may_end_in_the_highest_byte,
            omaps_of_thousands_of_keys_page_and_lose_ranges,
            the_log_is_appended_trimmed_and_rewound,
            logs_of_thousands_of_records_page_trim_and_rewind,
            an_info_is_replaced_and_survives_changes_of_the_log,
            rename_moves_within_and_between_collections,
            objects_stay_in_their_pool,
            collections_are_made_listed_and_removed,
            a_list_has_cephs_order_and_goes_on,
            names_of_any_bytes_and_two_kilobytes_are_kept,
            listing_gives_the_attributes_that_are_chosen,
            sentinels_are_no_objects,
            split_moves_by_hash_and_merge_brings_back,
            a_split_and_a_merge_with_requests_in_flight,
            a_refused_merge_names_the_first_object_of_both,
            a_transaction_spans_collections,
            collections_of_two_shards_share_no_transaction,
            rehoming_to_where_it_is_or_nowhere,
            a_collection_moves_in_bounded_steps_and_is_read_meanwhile,
            a_collection_on_its_way_can_turn_back,
            rehoming_with_requests_in_flight_keeps_their_order,
            a_refused_transaction_leaves_nothing,
            a_refusal_closes_its_collections_until_it_is_acknowledged,
            each_refusal_is_acknowledged_by_itself,
            an_acknowledgement_opens_for_what_is_queued_after_it,
            limits_are_held_to_the_byte,
            errors_say_whose_fault,
            reads_see_what_was_queued_before,
            every_read_sees_what_was_queued_in_the_same_burst,
            transactions_complete_in_order,
            steps_take_effect_in_order_however_often_an_object_is_named,
            tokens_are_used_again,
            a_burst_of_reads_wakes_the_caller_for_each,
            what_a_read_returned_never_changes,
            statfs_counts,
            space_comes_back_from_clones_overwrites_truncates_and_refusals,
            a_full_store_refuses_whole_and_takes_what_makes_room,
            a_refusal_for_space_closes_its_collection_only,
            random_histories_equal_the_model,
            random_histories_with_many_refusals_equal_the_model,
            random_histories_that_split_merge_and_rehome_equal_the_model,
            random_histories_with_thousands_of_keys_equal_the_model,
            random_histories_with_large_objects_equal_the_model,
            random_histories_with_thousands_of_log_records_equal_the_model,
            everything_is_there_after_reopening,
            opening_a_store_again_acknowledges_everything,
            what_was_acknowledged_survives_power_losses,
            what_a_crash_replays_is_done_once,
            what_replaces_old_data_does_not_touch_it_before_it_is_durable,
            rehoming_goes_on_after_power_losses,
            a_damaged_block_is_named_and_its_neighbours_are_read,
            a_partial_overwrite_of_a_damaged_block_is_refused,
            a_damaged_block_that_is_overwritten_whole_is_good_again,
            a_damaged_block_is_not_washed_clean_by_a_clone,
            a_failed_commit_stops_the_store_and_loses_nothing_acknowledged,
            names_that_run_together_are_kept_apart,
            collections_of_several_pools_share_nothing,
            large_values_headers_and_records_are_kept,
            what_was_missing_is_found_when_something_brings_it,
            log_records_are_ordered_by_epoch_first,
            a_version_that_was_rewound_comes_with_other_bytes,
            a_collection_made_again_by_one_transaction_is_new,
            a_split_may_look_at_all_bits_of_the_hash,
            a_removed_collection_is_made_where_shard_of_shows,
            tokens_may_have_any_value,
            a_turn_at_the_time_of_the_last_begins_what_was_queued,
            a_store_with_nothing_to_do_asks_for_no_turn_now,
            an_acknowledgement_of_what_closes_nothing_is_forgotten,
            a_refusal_closes_collections_that_do_not_exist,
            the_list_of_collections_is_as_of_what_is_queued,
            what_followed_a_refusal_is_not_there_after_a_power_loss,
            a_large_transaction_is_there_whole_or_not_at_all,
            a_power_loss_after_a_restart_loses_nothing_acknowledged,
            a_full_store_opened_again_takes_what_makes_room,
            a_damaged_block_is_not_washed_clean_by_changes_of_its_object,
            a_damaged_block_is_not_washed_clean_by_rehoming,
            a_failed_commit_ends_everything_in_flight,
        }
    };
    (@cases $factory:expr, $skipped:expr; $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::run(stringify!($case), &mut $factory);
            }
        )*

        #[test]
        fn every_case_is_run_but_those_that_are_named_as_skipped() {
            let named = [$(stringify!($case)),*];
            let all: Vec<&str> = $crate::conformance::CASES.iter().map(|c| c.0).collect();
            assert_eq!(&named[..], &all[..]);
            let skipped: &[&str] = &$skipped;
            assert_eq!($crate::conformance::skipped(&$factory), skipped);
        }
    };
}
