//! The cases, by what they are about.

mod data;
mod driving;
mod failures;
mod histories;
mod limits;
mod order;
mod power;

use types::SplitMix64;

use super::factory::{Factory, Need};
use super::harness::Harness;
use crate::DeviceId;
use data::*;
use driving::*;
use failures::*;
use histories::*;
use limits::*;
use order::*;
use power::*;

macro_rules! cases {
    ($($case:ident $([$($need:ident),*])?,)*) => {
        /// Every case, and what it needs.
        pub const CASES: &[(&str, &[Need])] = &[$((stringify!($case), &[$($(Need::$need),*)?])),*];

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
    a_flushed_write_survives_a_power_loss [PowerLoss],
    a_durable_write_survives_a_power_loss [PowerLoss],
    a_flush_covers_the_writes_of_other_queues [PowerLoss],
    a_durable_write_that_flushes_covers_what_completed_before_it [PowerLoss],
    an_older_volatile_write_never_replaces_a_durable_one [PowerLoss],
    a_volatile_write_over_a_durable_one_leaves_either [PowerLoss],
    a_flush_after_a_discard_keeps_what_was_written_since [PowerLoss],
    what_a_power_loss_left_is_durable [PowerLoss],
    random_histories_survive_power_losses [PowerLoss],
    a_failed_flush_poisons_the_device_on_every_queue [FailingFlushes],
    a_failed_durable_write_poisons_the_device [FailingFlushes],
    a_poisoned_device_that_is_opened_again_has_what_was_durable [FailingFlushes],
    a_poisoned_device_leaves_the_others_working [FailingFlushes],
    a_failed_read_names_its_place_and_spares_its_neighbours [FailingRanges],
    a_failed_volatile_write_concerns_its_range_only [FailingRanges],
}

/// Runs the case `name`, unless the devices cannot be put through it.
///
/// # Panics
/// If the devices do not do what they should, or there is no such case.
pub fn run<F: Factory>(name: &str, factory: &mut F) {
    if !skipped(factory).contains(&name) {
        run_case(name, factory);
    }
}

/// The cases that are skipped.
pub fn skipped<F: Factory>(factory: &F) -> Vec<&'static str> {
    let properties = factory.properties();
    let skipped = CASES.iter().filter(|(_, needs)| !needs.iter().all(|n| n.is_met(&properties)));
    skipped.map(|(name, _)| *name).collect()
}

/// One more queue, under watch.
fn open<F: Factory>(factory: &mut F) -> Harness<F::Queue> {
    let properties = factory.properties();
    Harness::new(factory.open(), properties)
}

/// New devices with one queue, and the first device.
fn fresh<F: Factory>(factory: &mut F, seed: u64) -> (Harness<F::Queue>, DeviceId) {
    factory.make(seed);
    let device = factory.devices()[0];
    (open(factory), device)
}

/// The block size and the most bytes that one random request has.
fn blocks<F: Factory>(h: &Harness<F::Queue>, device: DeviceId) -> (u64, u64) {
    let geometry = h.geometry(device);
    (u64::from(geometry.block_bytes), (128 << 10).min(geometry.request_bytes_max))
}

/// Bytes that differ from those of other seeds in every sector.
fn noise(seed: u64, len: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed ^ 0x6e6f_6973);
    (0..len / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}
