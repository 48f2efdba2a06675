//! The suite of every store, on files: past the page cache, and with a volatile cache whose blocks leak.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PROPERTIES, owner};
use blockfile::{BlockFileStore, LogPlace, NewStore, Options, mkfs, open, path_in};
use device::{DeviceOptions, Power};
use store::conformance::{Contents, Factory, OF_SEVERAL_SHARDS, Properties};
use store::{CollectionId, ObjectStore};
use tempfile::TempDir;
use types::{GHObject, UTime};

/// A crash comes after fewer writing operations than this.
const CRASH_OPERATIONS: u64 = 480;

/// Bytes of a store that are not for its users: the log and what is never given out.
const OVERHEAD: u64 = 9 << 20;

struct Files {
    options: Options,
    crashes: bool,
    /// The logs lie in a file of their own.
    log_apart: bool,
    /// Where the stores are made.
    below: PathBuf,
    /// The directory of each store made, and the switch it was last opened with.
    made: Vec<(TempDir, Arc<Power>)>,
}

struct Made {
    store: BlockFileStore,
    number: usize,
}

impl Files {
    fn new(options: Options, below: &Path) -> Self {
        Self { options, crashes: false, log_apart: false, below: below.to_owned(), made: Vec::new() }
    }

    /// In memory, so that what a crash loses is the device's cache to say, and with a switch.
    fn hooked(device: DeviceOptions) -> Self {
        let options = Options { device, ..Options::default() };
        Self { crashes: true, ..Self::new(options, Path::new("/dev/shm")) }
    }

    fn dir(&self, number: usize) -> PathBuf {
        self.made[number].0.path().join("osd")
    }

    fn open(&mut self, number: usize) -> Made {
        let mut options = self.options.clone();
        if self.crashes {
            let power = Arc::new(Power::default());
            self.made[number].1 = power.clone();
            options.device.power = Some(power);
        }
        Made { store: open(&self.dir(number), &owner(number as i32), &options).unwrap(), number }
    }
}

impl Factory for Files {
    type Store = Made;

    fn properties(&self) -> Properties {
        Properties { crashes: self.crashes, fails_commits: self.crashes, ..PROPERTIES }
    }

    fn fresh(&mut self, bytes_total: u64) -> Made {
        let number = self.made.len();
        self.made.push((TempDir::new_in(&self.below).unwrap(), Arc::default()));
        let size = (bytes_total + bytes_total / 256 + OVERHEAD).max(32 << 20);
        let path = self.made[number].0.path().join("log");
        let log = self.log_apart.then_some(LogPlace { path, overwrite: false });
        let new = NewStore { log, ..NewStore::file(size) };
        mkfs(&self.dir(number), &owner(number as i32), &new, &self.options).unwrap();
        self.open(number)
    }

    /// The bound that docs/formats/block.md gives.
    fn metadata_bytes_max(&self, c: &Contents) -> u64 {
        // Splits and merges leave a collection some ranges of hashes, 12 bytes each.
        let collections = 400 * c.collections + c.info_bytes;
        let objects = 140 * c.objects + 6 * c.name_bytes;
        let data = 80 * c.data_blocks;
        let attrs = 32 * c.attrs + c.attr_bytes;
        let omap = 32 * (c.omap_keys + c.objects) + c.omap_bytes;
        4 * (collections + objects + data + attrs + omap + 64 * c.log_records + c.log_bytes)
    }

    fn reopen(&mut self, made: Made) -> Option<Made> {
        let number = made.number;
        drop(made);
        Some(self.open(number))
    }

    fn crash(&mut self, made: Made, seed: u64) -> Option<Made> {
        self.made[made.number].1.cut_after(seed % CRASH_OPERATIONS, Some(seed));
        self.reopen(made)
    }

    fn damage(
        &mut self,
        mut made: Made,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
    ) -> Option<Made> {
        let store = made.store.handles()[0].inner();
        store.request_checkpoint();
        let mut now = UTime { sec: u32::MAX - 1, nsec: 0 };
        for _ in 0..10_000 {
            if store.is_clean() {
                break;
            }
            now = now.after(Duration::from_nanos(1));
            store.turn(now);
            std::thread::sleep(Duration::from_micros(100));
        }
        let at = store.locate(collection, object, offset)?;
        let number = made.number;
        drop(made);
        let file = File::options().read(true).write(true).open(path_in(&self.dir(number))).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
        file.sync_all().unwrap();
        Some(self.open(number))
    }

    fn fail_commits(&mut self, made: &mut Made) -> bool {
        self.made[made.number].1.fail_writes();
        self.crashes
    }
}

/// Passes everything on to the store.
impl ObjectStore for Made {
    store::pass_on!(self => self.store);
}

/// Where there is no switch, nothing can be cut or made to fail.
const NO_SWITCH: [&str; 15] = [
    "collections_of_two_shards_share_no_transaction",
    "a_collection_moves_in_bounded_steps_and_is_read_meanwhile",
    "a_collection_on_its_way_can_turn_back",
    "rehoming_with_requests_in_flight_keeps_their_order",
    "what_was_acknowledged_survives_power_losses",
    "what_a_crash_replays_is_done_once",
    "what_replaces_old_data_does_not_touch_it_before_it_is_durable",
    "rehoming_goes_on_after_power_losses",
    "a_failed_commit_stops_the_store_and_loses_nothing_acknowledged",
    "a_removed_collection_is_made_where_shard_of_shows",
    "what_followed_a_refusal_is_not_there_after_a_power_loss",
    "a_large_transaction_is_there_whole_or_not_at_all",
    "a_power_loss_after_a_restart_loses_nothing_acknowledged",
    "a_damaged_block_is_not_washed_clean_by_rehoming",
    "a_failed_commit_ends_everything_in_flight",
];

mod ring {
    use super::*;
    store::conformance_tests!(Files::new(Options::default(), &std::env::temp_dir()), skipped: NO_SWITCH);
}

mod leaking {
    use super::*;
    store::conformance_tests!(
        Files::hooked(DeviceOptions { volatile_cache: true, leak_seed: Some(5), power: None }), skipped: OF_SEVERAL_SHARDS
    );
}

/// Each of both files loses, or leaks, what was not flushed by itself.
mod log_apart {
    use super::*;
    store::conformance_tests!(
        Files { log_apart: true, ..Files::hooked(DeviceOptions { volatile_cache: true, leak_seed: Some(7), power: None }) },
        skipped: OF_SEVERAL_SHARDS
    );
}
