//! The suite is held against stores that are wrong: each must fail the cases that are about its flaw.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::common::Sim;
use crate::wrong::completions::*;
use crate::wrong::contents::*;
use crate::wrong::crashes::*;
use crate::wrong::driving::*;
use crate::wrong::handles::{HandleFlaw, flawed_handles};
use crate::wrong::requests::*;
use crate::wrong::restarts::*;
use crate::wrong::spaces::*;
use crate::wrong::threaded::{ThreadedFactory, WakeFlaw};
use crate::wrong::{Flaw, FlawedFactory, NoFlaw};
use store::conformance::{CASES, Factory, run};

thread_local! {
    /// Panics of this thread are expected, and not shown.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics that are expected out of the tests' output.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                shown(info);
            }
        }));
    });
    QUIET.set(true);
}

/// Why a store fails a case, if it does.
fn failure<F: Factory>(case: &str, factory: &mut F) -> Option<String> {
    silence();
    let outcome = catch_unwind(AssertUnwindSafe(|| run(case, factory)));
    QUIET.set(false);
    let panic = outcome.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default())
}

fn flawed(flaw: fn() -> Box<dyn Flaw>) -> FlawedFactory {
    FlawedFactory { sim: Sim { shards: 3, seed: 70 }, flaw }
}

/// Each of the cases must fail, for the reason that the text gives a part of.
fn is_caught<F: Factory>(factory: &mut F, cases: &[(&str, &str)]) {
    for (case, reason) in cases {
        assert!(CASES.iter().any(|(name, _)| name == case), "the suite has no case {case}");
        match failure(case, factory) {
            Some(why) => assert!(why.contains(reason), "{case} fails for another reason: {why}"),
            None => panic!("{case} lets the store pass"),
        }
    }
}

macro_rules! wrong_stores {
    ($($test:ident: $flaw:expr => [$($case:ident $reason:literal),* $(,)?];)*) => {
        $(
            #[test]
            fn $test() {
                is_caught(&mut flawed(|| Box::new($flaw)), &[$((stringify!($case), $reason)),*]);
            }
        )*
    };
}

wrong_stores! {
    one_that_acknowledges_before_durable: AcknowledgesBeforeDurable::new() =>
        [what_was_acknowledged_survives_power_losses "was acknowledged"];
    one_that_replays_twice: ReplaysTwice::default() => [what_a_crash_replays_is_done_once "crashed after"];
    one_that_tears: Tears::default() => [what_was_acknowledged_survives_power_losses ""];
    one_that_tears_between_collections: TearsBetweenCollections::default() =>
        [what_was_acknowledged_survives_power_losses "torn"];
    one_that_leaks_a_shared_extent: LeaksASharedExtent::default() => [
        space_comes_back_from_clones_overwrites_truncates_and_refusals "",
        random_histories_equal_the_model "data bytes",
    ];
    one_that_never_checks_a_checksum: NeverChecks => [
        a_damaged_block_is_named_and_its_neighbours_are_read "bad bytes are never returned",
        a_partial_overwrite_of_a_damaged_block_is_refused "",
        a_damaged_block_is_not_washed_clean_by_a_clone "",
    ];
    one_that_frees_blocks_before_commit: FreesBeforeCommit::default() => [
        what_replaces_old_data_does_not_touch_it_before_it_is_durable "neither what it was nor what it became",
        what_was_acknowledged_survives_power_losses "",
    ];
    one_with_a_wrong_prefix_successor: WrongPrefixSuccessor => [
        prefixes_and_keys_may_end_in_the_highest_byte "",
        random_histories_equal_the_model "OmapRange",
    ];
    one_that_completes_twice: CompletesTwice::default() => [
        writes_overlay_one_another "completed twice",
        transactions_complete_in_order "completed twice",
    ];
    one_that_applies_what_follows_a_refusal: AppliesWhatFollowsARefusal => [
        a_refusal_closes_its_collections_until_it_is_acknowledged "AfterRefused",
        a_refusal_for_space_closes_its_collection_only "AfterRefused",
        random_histories_with_many_refusals_equal_the_model "AfterRefused",
    ];
    one_whose_reads_miss_what_is_queued: ReadsMissWhatIsQueued::default() => [
        every_read_sees_what_was_queued_in_the_same_burst "",
        reads_see_what_was_queued_before "",
        random_histories_equal_the_model "",
    ];
    one_that_loses_omaps_in_a_split: Appends(lost_omaps_in_splits) => [
        split_moves_by_hash_and_merge_brings_back "omaps move along",
        random_histories_that_split_merge_and_rehome_equal_the_model "",
    ];
    one_that_loses_the_log_in_a_split: Appends(lost_logs_in_splits) => [
        split_moves_by_hash_and_merge_brings_back "the log stays",
        random_histories_that_split_merge_and_rehome_equal_the_model "",
    ];
}

// Further flaws that look right to most tests.
wrong_stores! {
    one_that_needs_another_turn: NeedsAnotherTurn::default() => [objects_come_and_go "no wake-up"];
    one_that_acknowledges_late: AcknowledgesLate::default() => [
        an_acknowledgement_opens_for_what_is_queued_after_it "",
        random_histories_with_many_refusals_equal_the_model "AfterRefused",
    ];
    one_whose_acknowledgements_overtake: AcknowledgementsOvertake::default() => [
        an_acknowledgement_opens_for_what_is_queued_after_it "it was queued before",
        random_histories_with_many_refusals_equal_the_model "AfterRefused",
    ];
    one_that_groups_steps_by_place_in_the_table: GroupsByTablePlace =>
        [steps_take_effect_in_order_however_often_an_object_is_named "object 0"];
    one_that_leaks_blocks_in_crashes: LeaksBlocksInCrashes::default() =>
        [what_was_acknowledged_survives_power_losses "bytes are available"];
    one_that_forgets_a_completion: ForgetsACompletion::default() => [random_histories_equal_the_model "no wake-up"];
    one_that_completes_backwards: CompletesBackwards => [transactions_complete_in_order "out of order"];
    one_that_completes_before_the_turn: CompletesBeforeTheTurn::default() => [objects_come_and_go "before the turn"];
    one_that_opens_everything_by_any_acknowledgement: AcknowledgesEverything::default() => [
        a_refusal_closes_its_collections_until_it_is_acknowledged "",
        each_refusal_is_acknowledged_by_itself "",
    ];
    one_that_forgets_to_open_other_collections: ForgetsToOpenOthers::default() =>
        [random_histories_with_many_refusals_equal_the_model "AfterRefused"];
    one_that_closes_too_few: ClosesTooFew::default() =>
        [a_refusal_closes_its_collections_until_it_is_acknowledged "closes all it names"];
    one_whose_reads_see_what_is_queued_later: ReadsSeeWhatIsQueuedLater::default() =>
        [reads_see_what_was_queued_before "neither older nor newer"];
    one_that_peeks_stale_data: PeeksStaleData::default() => [
        writes_overlay_one_another "peek gave",
        random_histories_equal_the_model "peek gave",
    ];
    one_with_too_many_log_pages: Answers::with(more_of_full_log_pages) =>
        [the_log_is_appended_trimmed_and_rewound "may be the last"];
    one_with_too_many_omap_pages: Answers::with(more_of_full_omap_pages) =>
        [a_page_that_ends_with_the_last_key_has_no_more ""];
    one_whose_lists_skip_an_object: Answers::with(lists_that_skip_an_object) =>
        [a_list_has_cephs_order_and_goes_on ""];
    one_whose_unaligned_reads_are_off_by_one: Answers::with(unaligned_reads_off_by_one) =>
        [reads_are_cut_at_the_end ""];
    one_that_loses_the_info_on_a_rewind: Appends(lost_infos_on_rewinds) =>
        [an_info_is_replaced_and_survives_changes_of_the_log "trimming and rewinding leave it"];
    one_that_loses_the_hint_on_a_rename: Appends(lost_hints_on_renames) => [hints_are_kept ""];
    one_that_loses_the_last_of_many_keys: Appends(lost_last_keys_of_many) => [
        omaps_of_thousands_of_keys_page_and_lose_ranges "",
        random_histories_with_thousands_of_keys_equal_the_model "",
    ];
    one_whose_truncate_leaves_bytes: TruncateLeavesBytes::default() => [
        truncate_cuts_and_lengthens "never come back",
        random_histories_equal_the_model "",
    ];
    one_whose_clones_share_writes: ClonesShareWrites::default() => [a_clone_is_independent "the clone keeps its bytes"];
    one_that_names_a_wrong_shard_after_a_split: WrongShardAfterASplit::default() =>
        [random_histories_that_split_merge_and_rehome_equal_the_model "shard"];
    one_that_rehomes_all_at_once: RehomesAllAtOnce =>
        [a_collection_moves_in_bounded_steps_and_is_read_meanwhile "moved more than it may"];
    one_whose_zero_skips_parts_of_pages: ZeroSkipsPartsOfPages => [zero_makes_zeros_and_lengthens "after zero"];
    one_that_leaks_the_reserve_of_refusals: LeaksTheReserveOfRefusals::default() => [
        a_refused_transaction_leaves_nothing "takes no space",
        space_comes_back_from_clones_overwrites_truncates_and_refusals "all is available",
    ];
    one_that_leaks_metadata: LeaksMetadata::default() => [random_histories_equal_the_model "metadata"];
    one_that_keeps_no_reserve: KeepsNoReserve =>
        [a_full_store_refuses_whole_and_takes_what_makes_room "what makes room is taken"];
    one_that_applies_what_fits: AppliesWhatFits =>
        [a_full_store_refuses_whole_and_takes_what_makes_room "refused whole"];
    one_that_forgets_rehoming_in_a_crash: ForgetsRehoming => [rehoming_goes_on_after_power_losses "may only be in"];
    one_that_blames_the_whole_object: BlamesTheWholeObject =>
        [a_damaged_block_is_named_and_its_neighbours_are_read ""];
    one_that_overwrites_bad_blocks: OverwritesBadBlocks::default() =>
        [a_partial_overwrite_of_a_damaged_block_is_refused "can't be known"];
    one_that_goes_on_after_a_failed_commit: GoesOnAfterAFailedCommit::default() =>
        [a_failed_commit_stops_the_store_and_loses_nothing_acknowledged "after the failure"];
}

// Flaws in what is rare: odd names and versions, large values, collections made again.
wrong_stores! {
    one_whose_names_run_together: NamesRunTogether::default() =>
        [names_that_run_together_are_kept_apart "another's data"];
    one_that_takes_pools_for_one: Appends(pools_share_objects) =>
        [collections_of_several_pools_share_nothing "another's data"];
    one_that_cuts_values: Rewrites(cut_omap_values) => [large_values_headers_and_records_are_kept "values of an omap"];
    one_that_cuts_headers: Rewrites(cut_omap_headers) =>
        [large_values_headers_and_records_are_kept "a header of an omap"];
    one_that_cuts_log_records: Rewrites(cut_log_records) =>
        [large_values_headers_and_records_are_kept "log records"];
    one_that_takes_all_bits_for_none: Rewrites(split_by_no_bits) =>
        [a_split_may_look_at_all_bits_of_the_hash "split by 32 bits"];
    one_that_ignores_epochs: IgnoresEpochs::default() => [log_records_are_ordered_by_epoch_first ""];
    one_whose_rewound_records_come_back: RewoundRecordsComeBack::default() =>
        [a_version_that_was_rewound_comes_with_other_bytes "rewound"];
    one_that_keeps_infos_of_collections_made_again: Appends(collections_made_again_keep_their_infos) =>
        [a_collection_made_again_by_one_transaction_is_new "removed and made"];
    one_that_remembers_shards: RemembersShards::default() =>
        [a_removed_collection_is_made_where_shard_of_shows "would be made in"];
    one_that_remembers_what_was_missing: RemembersWhatWasMissing::default() =>
        [what_was_missing_is_found_when_something_brings_it "after a split"];
}

// Flaws in how a store is driven.
wrong_stores! {
    one_that_cuts_tokens: CutsTokens => [tokens_may_have_any_value ""];
    one_that_loses_token_zero: LosesTokenZero => [tokens_may_have_any_value "no wake-up"];
    one_that_ignores_turns_of_one_time: IgnoresTurnsOfOneTime::default() =>
        [a_turn_at_the_time_of_the_last_begins_what_was_queued "no wake-up"];
    one_that_always_wants_a_turn: AlwaysWantsATurn::default() =>
        [a_store_with_nothing_to_do_asks_for_no_turn_now "asks for another at once"];
    one_that_remembers_acknowledgements: RemembersAcknowledgements::default() =>
        [an_acknowledgement_of_what_closes_nothing_is_forgotten "only earlier refusals"];
    one_that_closes_only_what_exists: ClosesOnlyWhatExists::default() =>
        [a_refusal_closes_collections_that_do_not_exist "what is made was to exist before"];
    one_that_lists_collections_late: ListsCollectionsLate::default() =>
        [the_list_of_collections_is_as_of_what_is_queued "it sees what was queued"];
}

// Flaws that show after a restart, a bad block or a failed commit.
wrong_stores! {
    one_that_replays_what_followed_a_refusal: ReplaysWhatFollowedARefusal::default() =>
        [what_followed_a_refusal_is_not_there_after_a_power_loss "has what was refused"];
    one_that_tears_long_transactions: TearsLongTransactions::default() =>
        [a_large_transaction_is_there_whole_or_not_at_all "torn"];
    one_that_keeps_the_last_of_the_lost: KeepsTheLastOfTheLost::default() =>
        [what_was_acknowledged_survives_power_losses ""];
    one_that_skips_the_replay_after_a_close: SkipsReplayAfterAClose::default() =>
        [a_power_loss_after_a_restart_loses_nothing_acknowledged "is lost"];
    one_that_forgets_sharing_in_restarts: ForgetsSharingInRestarts::default() =>
        [random_histories_equal_the_model ""];
    one_that_has_no_reserve_once_opened_again: HasNoReserveOnceOpenedAgain::default() =>
        [a_full_store_opened_again_takes_what_makes_room "what makes room is taken"];
    one_that_washes_clean_by_truncating: WashesClean::by(Washing::Truncate) =>
        [a_damaged_block_is_not_washed_clean_by_changes_of_its_object "truncate"];
    one_that_washes_clean_by_zeroing: WashesClean::by(Washing::Zero) =>
        [a_damaged_block_is_not_washed_clean_by_changes_of_its_object "zero"];
    one_that_washes_clean_by_renaming: WashesClean::by(Washing::Rename) =>
        [a_damaged_block_is_not_washed_clean_by_changes_of_its_object "rename"];
    one_that_washes_clean_by_splitting: WashesClean::by(Washing::Split) =>
        [a_damaged_block_is_not_washed_clean_by_changes_of_its_object "split"];
    one_that_washes_clean_by_rehoming: WashesClean::by(Washing::Rehoming) =>
        [a_damaged_block_is_not_washed_clean_by_rehoming "reads as good"];
    one_that_hangs_reads_after_a_failed_commit: HangsReadsAfterAFailedCommit::default() =>
        [a_failed_commit_ends_everything_in_flight "no wake-up"];
    one_that_commits_behind_a_failed_commit: CommitsBehindAFailedCommit =>
        [a_failed_commit_ends_everything_in_flight "is not durable"];
    one_that_rehomes_when_it_has_stopped: RehomesWhenStopped =>
        [a_failed_commit_ends_everything_in_flight "a step is durable"];
    one_that_finds_stale_copies: FindsStaleCopies::default() =>
        [rehoming_goes_on_after_power_losses "", random_histories_equal_the_model ""];
}

/// Why a store's handles fail the case about several of them, if they do.
fn handles_failure(flaw: HandleFlaw) -> Option<String> {
    silence();
    let properties = store::conformance::Properties::VOLATILE;
    let handles = || store::conformance::handles_share_nothing(flawed_handles(flaw, 3), properties);
    let outcome = catch_unwind(AssertUnwindSafe(handles));
    QUIET.set(false);
    let panic = outcome.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default())
}

#[test]
fn handles_that_share_something() {
    assert_eq!(handles_failure(HandleFlaw::None), None);
    for (flaw, reason) in [
        (HandleFlaw::OneCollectionsTable, "another's"),
        (HandleFlaw::OneCompletionQueue, ""),
        (HandleFlaw::AcknowledgesAtAll, "opened by another's acknowledgement"),
    ] {
        match handles_failure(flaw) {
            Some(why) => assert!(why.contains(reason), "{flaw:?} fails for another reason: {why}"),
            None => panic!("{flaw:?} passes"),
        }
    }
}

#[test]
fn one_that_drops_a_wake_up() {
    let mut factory = ThreadedFactory { sim: Sim { shards: 2, seed: 3 }, flaw: WakeFlaw::Drops };
    is_caught(
        &mut factory,
        &[
            ("a_burst_of_reads_wakes_the_caller_for_each", "no wake-up"),
            ("random_histories_equal_the_model", "no wake-up"),
        ],
    );
}

#[test]
fn one_that_wakes_before_completions_are_visible() {
    let mut factory = ThreadedFactory { sim: Sim { shards: 2, seed: 3 }, flaw: WakeFlaw::Early };
    is_caught(&mut factory, &[("objects_come_and_go", "no wake-up")]);
}

/// The wrappers themselves are right: without a flaw they pass everything.
#[test]
fn the_wrapper_without_a_flaw_passes() {
    for (case, _) in CASES {
        assert_eq!(failure(case, &mut flawed(|| Box::new(NoFlaw))), None, "{case}");
    }
}

/// A store that counts every block of a clone passes as one that shares them, too: the suite rewrites what it compares.
#[test]
fn a_store_that_shares_blocks_is_compared_after_rewriting() {
    struct Sharing(Sim);
    impl Factory for Sharing {
        type Store = store::sim::SimStore;

        fn properties(&self) -> store::conformance::Properties {
            store::conformance::Properties { shares_blocks: true, ..self.0.properties() }
        }

        fn fresh(&mut self, bytes_total: u64) -> Self::Store {
            self.0.fresh(bytes_total)
        }

        fn metadata_bytes_max(&self, contents: &store::conformance::Contents) -> u64 {
            self.0.metadata_bytes_max(contents)
        }

        fn reopen(&mut self, store: Self::Store) -> Option<Self::Store> {
            self.0.reopen(store)
        }

        fn crash(&mut self, store: Self::Store, seed: u64) -> Option<Self::Store> {
            self.0.crash(store, seed)
        }
    }
    for case in ["random_histories_equal_the_model", "what_was_acknowledged_survives_power_losses"] {
        assert_eq!(failure(case, &mut Sharing(Sim { shards: 3, seed: 70 })), None, "{case}");
    }
}

#[test]
fn the_thread_without_a_flaw_passes() {
    for (case, _) in CASES {
        let mut factory = ThreadedFactory { sim: Sim { shards: 2, seed: 3 }, flaw: WakeFlaw::None };
        assert_eq!(failure(case, &mut factory), None, "{case}");
    }
}
