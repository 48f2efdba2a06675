//! The suite of every store over one that becomes the other kind whenever it is opened again: what a random history has
//! made is the same after each copy.

use std::time::Duration;

use crate::common::{make_block, make_simple, open_block, open_simple};
use blockfile::Blocking;
use store::ObjectStore;
use store::conformance::{Contents, Factory, Properties, run};
use storetool::{Ended, copy};
use tempfile::TempDir;

struct Alternating {
    dir: TempDir,
    made: u32,
    /// The kind of the next new store: what stores count is only compared within a kind.
    is_block: bool,
}

struct Made {
    store: Box<dyn ObjectStore>,
    number: u32,
    is_block: bool,
}

impl Alternating {
    fn make(&mut self, is_block: bool) -> u32 {
        self.made += 1;
        let dir = self.dir.path().join(self.made.to_string());
        match is_block {
            true => drop(make_block(&dir, 0)),
            false => drop(make_simple(&dir, 0)),
        }
        self.made
    }

    fn open(&self, number: u32, is_block: bool) -> Made {
        let dir = self.dir.path().join(number.to_string());
        let store: Box<dyn ObjectStore> = match is_block {
            true => Box::new(blockfile::open_any(&dir, &blockfile::Options::default()).unwrap().0),
            false => Box::new(simplestore::open(&dir, &simplestore::Options::default()).unwrap()),
        };
        Made { store, number, is_block }
    }
}

fn copy_all<A: ObjectStore, B: ObjectStore>(mut from: Blocking<A>, mut to: Blocking<B>) {
    for collection in from.collections().unwrap() {
        copy(&mut from, &mut to, collection, |_| Ok::<(), Ended>(())).unwrap();
    }
}

impl Factory for Alternating {
    type Store = Made;

    fn properties(&self) -> Properties {
        Properties {
            reopens: true,
            threaded: true,
            shares_blocks: true,
            patience: Duration::from_secs(60),
            ..Properties::VOLATILE
        }
    }

    fn fresh(&mut self, _: u64) -> Made {
        let number = self.make(self.is_block);
        self.open(number, self.is_block)
    }

    fn metadata_bytes_max(&self, _: &Contents) -> u64 {
        1 << 40
    }

    fn reopen(&mut self, made: Made) -> Option<Made> {
        let Made { store, number, is_block } = made;
        drop(store);
        self.is_block = !is_block;
        let new = self.make(!is_block);
        let (old_dir, new_dir) =
            (self.dir.path().join(number.to_string()), self.dir.path().join(new.to_string()));
        match is_block {
            true => copy_all(open_block(&old_dir), open_simple(&new_dir)),
            false => copy_all(open_simple(&old_dir), open_block(&new_dir)),
        }
        std::fs::remove_dir_all(&old_dir).unwrap();
        Some(self.open(new, !is_block))
    }
}

impl ObjectStore for Made {
    store::pass_on!(self => self.store);
}

fn hold(case: &str) {
    run(case, &mut Alternating { dir: TempDir::new_in("/dev/shm").unwrap(), made: 0, is_block: false });
}

#[test]
fn random_histories() {
    hold("random_histories_equal_the_model");
    hold("everything_is_there_after_reopening");
}

#[test]
fn histories_that_split_and_merge() {
    hold("random_histories_that_split_merge_and_rehome_equal_the_model");
}

#[test]
fn histories_of_large_objects() {
    hold("random_histories_with_large_objects_equal_the_model");
}

#[test]
fn histories_of_many_keys_and_log_records() {
    hold("random_histories_with_thousands_of_keys_equal_the_model");
    hold("random_histories_with_thousands_of_log_records_equal_the_model");
}
