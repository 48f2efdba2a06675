//! The conformance suite for implementors of [`DeviceQueue`](crate::DeviceQueue): data and its neighbours, order, limits,
//! completions and wake-ups, durability under power losses, failures, random histories beside a plain model.
//!
//! An implementor's tests implement [`Factory`] and expand
//! [`device_conformance_tests!`](crate::device_conformance_tests). Cases that its devices do not support are skipped, and
//! the expansion must name them. `tests/it/wrong_devices.rs` tests the suite with devices of one flaw each.

mod cases;
mod factory;
mod harness;
mod shadow;

pub use cases::{CASES, run, skipped};
pub use factory::{DEVICE_BYTES_MIN, Factory, Need, Properties};

/// One test a case of the suite, and one that checks which are skipped. Takes an expression that makes a [`Factory`],
/// and the names of the cases that its devices can't be put through (in the suite's order).
#[macro_export]
macro_rules! device_conformance_tests {
    ($factory:expr, skipped: $skipped:expr) => {
        $crate::device_conformance_tests! { @cases $factory, $skipped;
            a_geometry_is_consistent,
            what_was_written_is_read,
            a_rope_of_any_pieces_is_one_write,
            a_buffer_anywhere_in_memory_is_filled,
            a_write_changes_nothing_beside_it,
            the_first_and_the_last_block_are_written,
            the_longest_request_is_taken,
            devices_share_no_bytes,
            a_request_with_a_mistake_is_refused_and_names_it,
            a_refused_request_leaves_its_batch_alone,
            every_request_completes_once,
            more_requests_than_the_queue_is_deep_complete,
            a_caller_that_waits_to_be_woken_is_woken_for_each,
            an_idle_queue_asks_for_nothing,
            a_read_sees_what_completed_on_another_queue,
            overlapping_writes_leave_each_sector_to_one,
            a_read_beside_a_write_sees_whole_sectors,
            a_dropped_queue_leaves_the_others_working,
            a_discard_touches_its_range_only,
            what_is_written_after_a_discard_is_read,
            everything_is_there_after_reopening,
            random_histories_equal_the_model,
            a_flushed_write_survives_a_power_loss,
            a_durable_write_survives_a_power_loss,
            a_flush_covers_the_writes_of_other_queues,
            a_durable_write_that_flushes_covers_what_completed_before_it,
            an_older_volatile_write_never_replaces_a_durable_one,
            a_volatile_write_over_a_durable_one_leaves_either,
            a_flush_after_a_discard_keeps_what_was_written_since,
            what_a_power_loss_left_is_durable,
            random_histories_survive_power_losses,
            a_failed_flush_poisons_the_device_on_every_queue,
            a_failed_durable_write_poisons_the_device,
            a_poisoned_device_that_is_opened_again_has_what_was_durable,
            a_poisoned_device_leaves_the_others_working,
            a_failed_read_names_its_place_and_spares_its_neighbours,
            a_failed_volatile_write_concerns_its_range_only,
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
