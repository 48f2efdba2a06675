//! The suite is held against devices that are wrong: each must fail the cases that are about its flaw.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::common::Sim;
use crate::wrong::bytes::*;
use crate::wrong::driving::*;
use crate::wrong::failing::*;
use crate::wrong::power::*;
use crate::wrong::threaded::{ThreadedFactory, WakeFlaw};
use crate::wrong::{Flaw, FlawedFactory, NoFlaw};
use blockdev::DeviceId;
use blockdev::conformance::{CASES, Factory, run, skipped};

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

/// Why devices fail a case, if they do.
fn failure<F: Factory>(case: &str, factory: &mut F) -> Option<String> {
    silence();
    let outcome = catch_unwind(AssertUnwindSafe(|| run(case, factory)));
    QUIET.set(false);
    let panic = outcome.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default())
}

/// Each of the cases must fail, for the reason that the text gives a part of.
fn is_caught<F: Factory>(factory: &mut F, cases: &[(&str, &str)]) {
    for (case, reason) in cases {
        assert!(CASES.iter().any(|(name, _)| name == case), "the suite has no case {case}");
        assert!(!skipped(factory).contains(case), "{case} is skipped");
        match failure(case, factory) {
            Some(why) => assert!(why.contains(reason), "{case} fails for another reason: {why}"),
            None => panic!("{case} lets the device pass"),
        }
    }
}

fn sim(block_bytes: u32) -> Sim {
    Sim::new("ssd", block_bytes, &[DeviceId::Data, DeviceId::Db])
}

fn flawed(flaw: fn() -> Box<dyn Flaw>) -> FlawedFactory {
    FlawedFactory::new(sim(4096), flaw)
}

macro_rules! wrong_devices {
    ($($test:ident: $flaw:expr => [$($case:ident $reason:literal),* $(,)?];)*) => {
        $(
            #[test]
            fn $test() {
                is_caught(&mut flawed(|| Box::new($flaw)), &[$((stringify!($case), $reason)),*]);
            }
        )*
    };
}

wrong_devices! {
    one_that_drops_the_last_block: Changes(drops_the_last_block) => [
        what_was_written_is_read "bytes at",
        a_rope_of_any_pieces_is_one_write "pieces at",
        random_histories_equal_the_model "should be of write",
    ];
    one_that_writes_1024_pieces: Changes(writes_1024_pieces) =>
        [a_rope_of_any_pieces_is_one_write "4096 pieces"];
    one_that_writes_one_block_too_much: Changes(writes_one_block_too_much) => [
        a_write_changes_nothing_beside_it "block",
        random_histories_equal_the_model "should be of write",
    ];
    one_that_writes_again_later: WritesAgainLater::default() =>
        [random_histories_equal_the_model "should be of write"];
    one_that_rounds_offsets: Changes(rounds_offsets) =>
        [a_request_with_a_mistake_is_refused_and_names_it "Misaligned"];
    one_that_wraps_around_its_end: Changes(wraps_around_its_end) =>
        [a_request_with_a_mistake_is_refused_and_names_it "OutOfRange"];
    one_that_ignores_the_device: Changes(ignores_the_device) =>
        [devices_share_no_bytes "has what was written to it"];
    one_that_takes_an_unknown_device_for_its_first: Changes(takes_an_unknown_device_for_its_first) =>
        [a_request_with_a_mistake_is_refused_and_names_it "NoSuchDevice"];
    one_that_discards_too_much: Changes(discards_the_block_behind) =>
        [a_discard_touches_its_range_only "behind the discarded range"];
    one_that_discards_late: DiscardsLate::default() => [what_is_written_after_a_discard_is_read "round"];
    one_with_a_stale_cache: StaleCache::default() =>
        [a_read_sees_what_completed_on_another_queue "write"];
    one_that_hands_back_another_buffer: Answers(hands_back_another_buffer) =>
        [what_was_written_is_read "its own buffer"];
    one_that_answers_for_another_kind: Answers(says_written_for_a_discard) =>
        [every_request_completes_once "another kind of request"];
    one_that_tears_reads: TearsReads::default() => [a_read_beside_a_write_sees_whole_sectors "torn"];

    one_that_forgets_completions: Forgets(30) =>
        [every_request_completes_once "neither a wake-up nor a deadline"];
    one_that_completes_twice: CompletesTwice::default() => [every_request_completes_once "completed twice"];
    one_that_is_never_due: NeverDue => [what_was_written_is_read "neither a wake-up nor a deadline"];
    one_that_is_always_due: AlwaysDue => [what_was_written_is_read "after a turn"];
    one_that_is_restless: Restless::default() => [an_idle_queue_asks_for_nothing "100000 deadlines"];
    one_that_spoils_the_batch: SpoilsTheBatch::default() => [a_refused_request_leaves_its_batch_alone ""];
    one_that_takes_a_depth_only: TakesADepthOnly::default() =>
        [more_requests_than_the_queue_is_deep_complete "neither a wake-up nor a deadline"];
    one_that_ends_all_with_a_dropped_queue: DropsEverything =>
        [a_dropped_queue_leaves_the_others_working ""];

    one_that_flushes_nothing: FlushesNothing::default() => [
        a_flushed_write_survives_a_power_loss "after a power loss",
        random_histories_survive_power_losses "after a power loss",
    ];
    one_whose_durable_writes_are_volatile: Changes(writes_volatile) => [
        a_durable_write_survives_a_power_loss "after a power loss",
        random_histories_survive_power_losses "after a power loss",
    ];
    one_that_flushes_its_own_queue: FlushesItsQueue::default() =>
        [a_flush_covers_the_writes_of_other_queues "after a power loss"];
    one_whose_durable_writes_flush_nothing: ClaimsToFlush =>
        [a_durable_write_that_flushes_covers_what_completed_before_it "after a power loss"];
    one_that_brings_back_the_old: BringsBackTheOld::default() =>
        [an_older_volatile_write_never_replaces_a_durable_one "after a power loss"];
    one_that_tears_sectors: TearsSectors::default() => [a_flushed_write_survives_a_power_loss "is of None"];
    one_that_spoils_a_neighbour: SpoilsANeighbour => [a_flushed_write_survives_a_power_loss "is of None"];
    one_that_does_later_what_was_lost: DoesItLater::default() =>
        [what_a_power_loss_left_is_durable "and not after the next"];
    one_that_discards_after_what_followed: DiscardsAfterWrites::default() =>
        [a_flush_after_a_discard_keeps_what_was_written_since "after a power loss"];
    one_that_forgets_at_closing: ForgetsAtClosing => [everything_is_there_after_reopening "block 0"];

    one_that_flushes_again_after_a_failure: Results::new(flushes_again) =>
        [a_failed_flush_poisons_the_device_on_every_queue "a second flush proves nothing"];
    one_that_writes_on_after_a_failed_flush: Results::new(writes_on) =>
        [a_failed_flush_poisons_the_device_on_every_queue "a write after a failed flush"];
    one_that_poisons_one_queue: Results::new(poisons_one_queue) =>
        [a_failed_flush_poisons_the_device_on_every_queue "a write after a failed flush"];
    one_that_forgives_a_durable_write: Results::new(forgives_a_durable_write) =>
        [a_failed_durable_write_poisons_the_device "after a failed flush"];
    one_that_swallows_a_failed_flush: Results::new(swallows_the_failure) =>
        [a_failed_flush_poisons_the_device_on_every_queue "the flush fails"];
    one_that_stops_reading: Results::new(stops_reading) =>
        [a_failed_flush_poisons_the_device_on_every_queue "a read at 0"];
    one_that_poisons_every_device: Results::new(poisons_every_device) =>
        [a_poisoned_device_leaves_the_others_working "Poisoned"];
    one_that_a_volatile_write_poisons: Results::new(poisons_for_a_volatile_write) =>
        [a_failed_volatile_write_concerns_its_range_only "Poisoned"];
    one_that_fails_the_neighbours: Results::new(fails_all_reads_after_one) =>
        [a_failed_read_names_its_place_and_spares_its_neighbours "a read at"];
    one_that_names_the_wrong_place: Answers(names_the_first_byte_of_the_device) =>
        [a_failed_read_names_its_place_and_spares_its_neighbours "names 0"];
    one_that_forgets_what_was_flushed: ForgetsWhatWasFlushed::default() =>
        [a_poisoned_device_that_is_opened_again_has_what_was_durable "after a power loss"];
}

#[test]
fn one_that_does_not_fill_small_buffers() {
    let mut factory = FlawedFactory::new(sim(512), || Box::new(Answers(leaves_buffers_below_a_page_empty)));
    is_caught(&mut factory, &[("a_buffer_anywhere_in_memory_is_filled", "512 bytes")]);
}

#[test]
fn one_that_sometimes_forgets_to_wake_the_caller() {
    let mut factory = ThreadedFactory { sim: sim(4096), flaw: WakeFlaw::Sometimes(40) };
    is_caught(
        &mut factory,
        &[("a_caller_that_waits_to_be_woken_is_woken_for_each", "neither a wake-up nor a deadline")],
    );
}

#[test]
fn one_that_wakes_the_caller_too_early() {
    let mut factory = ThreadedFactory { sim: sim(4096), flaw: WakeFlaw::Early };
    is_caught(&mut factory, &[("what_was_written_is_read", "neither a wake-up nor a deadline")]);
}

/// What the flaws are added to has none.
#[test]
fn the_devices_are_right_without_a_flaw() {
    let mut factory = flawed(|| Box::new(NoFlaw));
    CASES.iter().for_each(|(case, _)| run(case, &mut factory));
    let mut factory = ThreadedFactory { sim: sim(4096), flaw: WakeFlaw::None };
    CASES.iter().for_each(|(case, _)| run(case, &mut factory));
}
