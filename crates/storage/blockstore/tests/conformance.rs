//! The suite of every store, on simulated disks.

mod common;

use blockstore::Options;
use common::Sim;

const SKIPPED: [&str; 7] = [
    "collections_of_two_shards_share_no_transaction",
    "a_collection_moves_in_bounded_steps_and_is_read_meanwhile",
    "a_collection_on_its_way_can_turn_back",
    "rehoming_with_requests_in_flight_keeps_their_order",
    "rehoming_goes_on_after_power_losses",
    "a_removed_collection_is_made_where_shard_of_shows",
    "a_damaged_block_is_not_washed_clean_by_rehoming",
];

mod defaults {
    use super::*;
    store::conformance_tests!(Sim::new(Options::default(), 12 << 20), skipped: SKIPPED);
}

/// A small log and little memory: checkpoints all the time, and pages that are read again and again.
mod cramped {
    use super::*;
    const OPTIONS: Options = Options {
        prefer_deferred_bytes: 32 << 10,
        cache_bytes: 64 << 10,
        changes_bytes_max: 256 << 10,
        pages_per_turn: 2,
        discard: false,
    };
    store::conformance_tests!(Sim { clean: false, ..Sim::new(OPTIONS, 4 << 20) }, skipped: SKIPPED);
}

/// Nothing is deferred: every write goes to new blocks. The log has a device of its own.
mod direct {
    use super::*;
    const OPTIONS: Options = Options {
        prefer_deferred_bytes: 0,
        cache_bytes: 64 << 20,
        changes_bytes_max: 1 << 20,
        pages_per_turn: 32,
        discard: true,
    };
    store::conformance_tests!(Sim { block_bytes: 4096, log_apart: true, ..Sim::new(OPTIONS, 4 << 20) }, skipped: SKIPPED);
}
