//! What a check finds in a store's file is mended there.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{META, object, owner};
use blockfile::{BlockFileStore, Blocking, Mended, NewStore, Options, mkfs, open, path_in, repair};
use buffer::crc32c;
use store::Transaction;

/// Where docs/formats/block.md has the superblocks, and a copy's counter of objects.
const SUPERBLOCKS: u64 = 4096;
const COPY: usize = 2048;
const OBJECTS: usize = 88;

fn opened(dir: &Path) -> Blocking<BlockFileStore> {
    Blocking::new(open(dir, &owner(0), &Options::default()).unwrap())
}

/// As if so many objects more had been counted.
fn count_more(dir: &Path, more: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path_in(dir)).unwrap();
    for copy in 0..4 {
        let (at, mut bytes) = (SUPERBLOCKS + copy * COPY as u64, vec![0; COPY]);
        file.read_exact_at(&mut bytes, at).unwrap();
        let len = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let objects = u64::from_le_bytes(bytes[OBJECTS..OBJECTS + 8].try_into().unwrap());
        bytes[OBJECTS..OBJECTS + 8].copy_from_slice(&(objects + more).to_le_bytes());
        let sum = crc32c(!0, &bytes[8..8 + len]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&bytes, at).unwrap();
    }
}

#[test]
fn what_was_counted_wrong_is_mended_for_good() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &owner(0), &NewStore::file(64 << 20), &Options::default()).unwrap();
    let mut store = opened(dir.path());
    let mut txn = Transaction::new();
    txn.create_collection(META, 0).write(META, &object("a"), 0, vec![1; 100_000].into());
    txn.touch(META, &object("bb"));
    store.commit(txn).unwrap();
    assert_eq!(repair(&mut store), Ok(Mended::default()), "nothing is wrong");
    // All of it in the tree: the superblock has the last word.
    store.store().handles()[0].inner().request_checkpoint();
    store.drive(|store, _| store.handles()[0].inner().is_clean().then_some(()));
    drop(store);
    count_more(dir.path(), 3);

    let mended = Mended { mended: vec!["2 objects are there, 5 are counted".to_owned()], left: Vec::new() };
    assert_eq!(repair(&mut opened(dir.path())), Ok(mended));
    assert_eq!(repair(&mut opened(dir.path())), Ok(Mended::default()), "opened again");
}
