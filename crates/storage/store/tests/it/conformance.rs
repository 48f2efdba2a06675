//! MemStore and SimStore are held against the suite, with one shard and with several.

use crate::common::{Sim, mem_metadata_bytes_max};
use store::conformance::{Contents, Factory, OF_SEVERAL_SHARDS, Properties};
use store::{MemStore, Sharded};

struct Mem {
    shards: u32,
}

impl Factory for Mem {
    type Store = MemStore;

    fn properties(&self) -> Properties {
        Properties { shards: self.shards, ..Properties::VOLATILE }
    }

    fn fresh(&mut self, bytes_total: u64) -> MemStore {
        MemStore::with_shards(bytes_total, self.shards)
    }

    fn metadata_bytes_max(&self, contents: &Contents) -> u64 {
        mem_metadata_bytes_max(contents)
    }
}

/// The last handle of a store of three shards.
struct Handle;

impl Factory for Handle {
    type Store = MemStore;

    fn properties(&self) -> Properties {
        Properties::VOLATILE
    }

    fn fresh(&mut self, bytes_total: u64) -> MemStore {
        MemStore::handles(bytes_total * 3, 3).pop().expect("three handles")
    }

    fn metadata_bytes_max(&self, contents: &Contents) -> u64 {
        mem_metadata_bytes_max(contents)
    }
}

/// Of what keeps nothing, checks nothing, never fails and has one shard.
const OF_MEM: [&str; 23] = [
    "collections_of_two_shards_share_no_transaction",
    "a_collection_moves_in_bounded_steps_and_is_read_meanwhile",
    "a_collection_on_its_way_can_turn_back",
    "rehoming_with_requests_in_flight_keeps_their_order",
    "everything_is_there_after_reopening",
    "opening_a_store_again_acknowledges_everything",
    "what_was_acknowledged_survives_power_losses",
    "what_a_crash_replays_is_done_once",
    "what_replaces_old_data_does_not_touch_it_before_it_is_durable",
    "rehoming_goes_on_after_power_losses",
    "a_damaged_block_is_named_and_its_neighbours_are_read",
    "a_partial_overwrite_of_a_damaged_block_is_refused",
    "a_damaged_block_that_is_overwritten_whole_is_good_again",
    "a_damaged_block_is_not_washed_clean_by_a_clone",
    "a_failed_commit_stops_the_store_and_loses_nothing_acknowledged",
    "a_removed_collection_is_made_where_shard_of_shows",
    "what_followed_a_refusal_is_not_there_after_a_power_loss",
    "a_large_transaction_is_there_whole_or_not_at_all",
    "a_power_loss_after_a_restart_loses_nothing_acknowledged",
    "a_full_store_opened_again_takes_what_makes_room",
    "a_damaged_block_is_not_washed_clean_by_changes_of_its_object",
    "a_damaged_block_is_not_washed_clean_by_rehoming",
    "a_failed_commit_ends_everything_in_flight",
];

/// The same with several shards.
const OF_MEM_WITH_SHARDS: [&str; 18] = [
    "everything_is_there_after_reopening",
    "opening_a_store_again_acknowledges_everything",
    "what_was_acknowledged_survives_power_losses",
    "what_a_crash_replays_is_done_once",
    "what_replaces_old_data_does_not_touch_it_before_it_is_durable",
    "rehoming_goes_on_after_power_losses",
    "a_damaged_block_is_named_and_its_neighbours_are_read",
    "a_partial_overwrite_of_a_damaged_block_is_refused",
    "a_damaged_block_that_is_overwritten_whole_is_good_again",
    "a_damaged_block_is_not_washed_clean_by_a_clone",
    "a_failed_commit_stops_the_store_and_loses_nothing_acknowledged",
    "what_followed_a_refusal_is_not_there_after_a_power_loss",
    "a_large_transaction_is_there_whole_or_not_at_all",
    "a_power_loss_after_a_restart_loses_nothing_acknowledged",
    "a_full_store_opened_again_takes_what_makes_room",
    "a_damaged_block_is_not_washed_clean_by_changes_of_its_object",
    "a_damaged_block_is_not_washed_clean_by_rehoming",
    "a_failed_commit_ends_everything_in_flight",
];

/// The same where each shard has a part of the space.
const OF_WHOLE_WITH_SHARDS: [&str; 19] = [
    "a_full_store_refuses_whole_and_takes_what_makes_room",
    "everything_is_there_after_reopening",
    "opening_a_store_again_acknowledges_everything",
    "what_was_acknowledged_survives_power_losses",
    "what_a_crash_replays_is_done_once",
    "what_replaces_old_data_does_not_touch_it_before_it_is_durable",
    "rehoming_goes_on_after_power_losses",
    "a_damaged_block_is_named_and_its_neighbours_are_read",
    "a_partial_overwrite_of_a_damaged_block_is_refused",
    "a_damaged_block_that_is_overwritten_whole_is_good_again",
    "a_damaged_block_is_not_washed_clean_by_a_clone",
    "a_failed_commit_stops_the_store_and_loses_nothing_acknowledged",
    "what_followed_a_refusal_is_not_there_after_a_power_loss",
    "a_large_transaction_is_there_whole_or_not_at_all",
    "a_power_loss_after_a_restart_loses_nothing_acknowledged",
    "a_full_store_opened_again_takes_what_makes_room",
    "a_damaged_block_is_not_washed_clean_by_changes_of_its_object",
    "a_damaged_block_is_not_washed_clean_by_rehoming",
    "a_failed_commit_ends_everything_in_flight",
];

mod one_shard {
    use super::*;
    store::conformance_tests!(Mem { shards: 1 }, skipped: OF_MEM);
}

mod several_shards {
    use super::*;
    store::conformance_tests!(Mem { shards: 3 }, skipped: OF_MEM_WITH_SHARDS);
}

mod a_handle_of_three {
    use super::*;
    store::conformance_tests!(Handle, skipped: OF_MEM);
}

#[test]
fn the_handles_of_a_store_share_nothing() {
    for shards in [2, 5] {
        let handles = MemStore::handles(64 << 20, shards);
        store::conformance::handles_share_nothing(handles, store::conformance::Properties::VOLATILE);
    }
}

#[test]
fn handles_on_threads_of_their_own_share_nothing() {
    use store::{CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Token, Transaction};
    let pg = |seed| CollectionId::Pg(types::PgId { pool: types::PoolId(1), seed }.into());
    let handles = MemStore::handles(1001, 3);
    let threads = (0..).zip(handles).map(|(seed, mut store)| {
        std::thread::spawn(move || {
            let mut txn = Transaction::new();
            txn.create_collection(pg(seed), 0);
            store.queue(txn, Token(1));
            store.read(ReadRequest::Collections, Token(2));
            store.read(ReadRequest::StatFs, Token(3));
            store.turn(types::UTime::default());
            let mut done = Vec::new();
            store.completions(&mut done);
            match &done[..] {
                [
                    Completion::Committed { .. },
                    Completion::Read { result: Ok(ReadOutcome::Collections(of)), .. },
                    Completion::Read { result: Ok(ReadOutcome::StatFs(space)), .. },
                ] => {
                    assert_eq!(of[..], [pg(seed)]);
                    space.bytes_total
                }
                other => panic!("{other:?}"),
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    let sizes: Vec<u64> =
        threads.into_iter().map(|thread| thread.join().expect("a thread ends well")).collect();
    assert_eq!(sizes, [334, 334, 333]);
}

/// Handles of a store of one shard and of three, as one store.
struct Whole {
    shards: u32,
}

impl Factory for Whole {
    type Store = Sharded<MemStore>;

    fn properties(&self) -> Properties {
        Properties { shards: self.shards, shares_space: self.shards == 1, ..Properties::VOLATILE }
    }

    fn fresh(&mut self, bytes_total: u64) -> Sharded<MemStore> {
        let handles = MemStore::handles(bytes_total * u64::from(self.shards), self.shards);
        Sharded::new(handles.into_iter().map(|handle| (handle, Vec::new())).collect())
    }

    fn metadata_bytes_max(&self, contents: &Contents) -> u64 {
        // A collection on its way is in two shards, and has a mark.
        mem_metadata_bytes_max(contents) + 500 * contents.collections
    }
}

mod whole_of_one_shard {
    use super::*;
    store::conformance_tests!(Whole { shards: 1 }, skipped: OF_MEM);
}

mod whole_of_several_shards {
    use super::*;
    store::conformance_tests!(Whole { shards: 3 }, skipped: OF_WHOLE_WITH_SHARDS);
}

mod sim_one_shard {
    use super::*;
    store::conformance_tests!(Sim { shards: 1, seed: 7 }, skipped: OF_SEVERAL_SHARDS);
}

mod sim_several_shards {
    use super::*;
    store::conformance_tests!(Sim { shards: 3, seed: 8 }, skipped: []);
}
