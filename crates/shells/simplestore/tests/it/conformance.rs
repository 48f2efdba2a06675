//! SimpleStore is held against the suite: as it is, with a volatile cache, with one whose blocks leak, and on a modelled
//! disk.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PROPERTIES, label, mkfs, open, read};
use device::{DeviceOptions, Power};
use simplestore::{Label, Options, SimpleStore};
use store::conformance::{Contents, Factory, OF_SEVERAL_SHARDS, Properties};
use store::{CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, Token};
use tempfile::TempDir;
use types::{GHObject, OsdId, UTime};

/// A crash comes after fewer writing operations than this.
const CRASH_OPERATIONS: u64 = 480;

struct Simple {
    options: Options,
    /// The directory of each store made, and the switch it was last opened with. A store's place is its OSD's number.
    made: Vec<(TempDir, Arc<Power>)>,
}

impl Simple {
    fn new(options: Options) -> Self {
        Self { options, made: Vec::new() }
    }

    fn on(device: DeviceOptions) -> Self {
        Self::new(Options { device, ..Options::default() })
    }

    fn dir(&self, store: usize) -> PathBuf {
        self.made[store].0.path().join("osd")
    }

    fn open(&mut self, store: usize) -> SimpleStore {
        let power = Arc::new(Power::default());
        self.made[store].1 = power.clone();
        let mut options = self.options.clone();
        options.device.power = Some(power);
        open(&self.dir(store), &options).unwrap()
    }

    fn power(&self, store: &SimpleStore) -> &Power {
        &self.made[number(store)].1
    }
}

/// In memory where the system has that: what a crash loses is the device's cache to say, not the system's.
fn temporary_directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn number(store: &SimpleStore) -> usize {
    store.label().osd.0 as usize
}

/// Reads from a store that nothing else drives.
fn read_now(store: &mut SimpleStore, request: ReadRequest) -> Result<ReadOutcome, StoreError> {
    store.read(request, Token(u64::MAX));
    store.turn(UTime::default());
    let mut done = Vec::new();
    while done.is_empty() {
        std::thread::sleep(Duration::from_micros(50));
        store.completions(&mut done);
    }
    match done.remove(0) {
        Completion::Read { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

impl Factory for Simple {
    type Store = SimpleStore;

    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn fresh(&mut self, bytes_total: u64) -> SimpleStore {
        let store = self.made.len();
        self.made.push((temporary_directory(), Arc::default()));
        let label = Label { osd: OsdId(store as i32), ..label(bytes_total) };
        mkfs(&self.dir(store), &label, &self.options).unwrap();
        self.open(store)
    }

    /// The bound that docs/formats/simple.md gives.
    fn metadata_bytes_max(&self, c: &Contents) -> u64 {
        let records =
            82 * c.collections + 128 * c.objects + 12 * c.attrs + 12 * c.omap_keys + 32 * c.log_records;
        let bytes = c.info_bytes + 4 * c.name_bytes + c.attr_bytes + c.omap_bytes + c.log_bytes;
        records + bytes + 33 * c.data_blocks
    }

    fn reopen(&mut self, store: SimpleStore) -> Option<SimpleStore> {
        let number = number(&store);
        drop(store);
        Some(self.open(number))
    }

    fn crash(&mut self, store: SimpleStore, seed: u64) -> Option<SimpleStore> {
        self.power(&store).cut_after(seed % CRASH_OPERATIONS, Some(seed));
        self.reopen(store)
    }

    /// The block is found by its content, and by whether flipping it makes the object's checksum wrong.
    fn damage(
        &mut self,
        mut store: SimpleStore,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
    ) -> Option<SimpleStore> {
        let request = read(collection, object, offset / 4096 * 4096, 4096);
        let Ok(ReadOutcome::Data(content)) = read_now(&mut store, request.clone()) else { panic!("no data") };
        let (number, content) = (number(&store), content.to_vec());
        drop(store);
        let path = self.dir(number).join("block");
        let image = std::fs::read(&path).unwrap();
        for (at, block) in image.chunks(4096).enumerate().filter(|(_, block)| block.starts_with(&content)) {
            let flip = |value: u8| {
                let file = File::options().write(true).open(&path).unwrap();
                file.write_all_at(&[value], at as u64 * 4096 + offset % 4096).unwrap();
            };
            flip(block[(offset % 4096) as usize] ^ 0x40);
            let mut store = self.open(number);
            if read_now(&mut store, request.clone()).is_err() {
                return Some(store);
            }
            drop(store);
            flip(block[(offset % 4096) as usize]);
        }
        None
    }

    fn fail_commits(&mut self, store: &mut SimpleStore) -> bool {
        self.power(store).fail_writes();
        true
    }
}

mod plain {
    use super::*;
    store::conformance_tests!(Simple::on(DeviceOptions::default()), skipped: OF_SEVERAL_SHARDS);
}

mod volatile {
    use super::*;
    store::conformance_tests!(
        Simple::on(DeviceOptions { volatile_cache: true, ..DeviceOptions::default() }), skipped: OF_SEVERAL_SHARDS
    );
}

mod leaking {
    use super::*;
    store::conformance_tests!(
        Simple::on(DeviceOptions { volatile_cache: true, leak_seed: Some(5), power: None }), skipped: OF_SEVERAL_SHARDS
    );
}

mod modelled {
    use super::*;
    use simplestore::ModelledOn;

    /// Quick, so that the suite is.
    fn fast() -> Simple {
        let parameters = "read_us=1,write_us=1,flush_us=1,read_iops=1000000,write_iops=1000000";
        let on = ModelledOn { name: "ssd-write-back".into(), parameters: parameters.into() };
        Simple::new(Options { model: Some(on), ..Options::default() })
    }

    store::conformance_tests!(fast(), skipped: OF_SEVERAL_SHARDS);
}
