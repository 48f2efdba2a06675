//! What a check finds in a store's file is mended there.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{META, object, owner};
use blockfile::{
    BlockFileStore, Blocking, FileSpace, Mended, NewStore, Options, fsck, logs_bytes, mkfs, open, path_in,
    repair,
};
use buffer::crc32c;
use store::Transaction;

/// Where docs/formats/block.md has the superblocks, and in each half of one the counter of objects.
const SUPERBLOCKS: u64 = 4096;
const HALF: usize = 2048;
const OBJECTS: usize = 88;
const SIZE: u64 = 64 << 20;

fn opened(dir: &Path) -> Blocking<BlockFileStore> {
    Blocking::new(open(dir, &owner(0), &Options::default()).unwrap())
}

fn made(dir: &Path) -> Blocking<BlockFileStore> {
    mkfs(dir, &owner(0), &NewStore::file(SIZE), &Options::default()).unwrap();
    opened(dir)
}

/// Closes a store that has all of its metadata in its tree: the superblock has the last word.
fn close(mut store: Blocking<BlockFileStore>) {
    store.store().handles()[0].inner().request_checkpoint();
    store.drive(|store, _| store.handles()[0].inner().is_clean().then_some(()));
}

/// As if so many objects more had been counted.
fn count_more(dir: &Path, more: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path_in(dir)).unwrap();
    let copies = SUPERBLOCKS + 2 * 4096 + logs_bytes(SIZE, 1, false);
    let halves = |pair| (0..4).map(move |half| pair + half * HALF as u64);
    for at in halves(SUPERBLOCKS).chain(halves(copies)) {
        let mut bytes = vec![0; HALF];
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
    let mut store = made(dir.path());
    let mut txn = Transaction::new();
    txn.create_collection(META, 0).write(META, &object("a"), 0, vec![1; 100_000].into());
    txn.touch(META, &object("bb"));
    store.commit(txn).unwrap();
    assert_eq!(repair(&mut store), Ok(Mended::default()), "nothing is wrong");
    close(store);
    count_more(dir.path(), 3);

    let mended = Mended { mended: vec!["2 objects are there, 5 are counted".to_owned()], left: Vec::new() };
    assert_eq!(repair(&mut opened(dir.path())), Ok(mended));
    assert_eq!(repair(&mut opened(dir.path())), Ok(Mended::default()), "opened again");
}

/// Flips a bit of each of these bytes of the store's file.
fn flip(dir: &Path, places: &[u64]) {
    let file = OpenOptions::new().read(true).write(true).open(path_in(dir)).unwrap();
    for at in places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], *at).unwrap();
    }
}

/// Flips these bytes wherever one block has them: the last one that does, or so many before it.
fn flip_in_block(dir: &Path, bytes: &[u8], before_last: usize) {
    let places = places_of(dir, bytes);
    let blocks: BTreeSet<u64> = places.iter().map(|at| at / 4096).collect();
    let block = *blocks.iter().rev().nth(before_last).unwrap();
    flip(dir, &places.into_iter().filter(|at| at / 4096 == block).collect::<Vec<_>>());
}

#[test]
fn a_page_or_its_copy_that_can_not_be_read_is_named_and_written_anew() {
    for lost in [1, 0] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = made(dir.path());
        let mut txn = Transaction::new();
        txn.create_collection(META, 0).touch(META, &object("a name of its own"));
        store.commit(txn).unwrap();
        close(store);
        // The log has it, too, before the blocks; the page's copy comes last.
        flip_in_block(dir.path(), b"a name of its own", lost);

        let mut store = opened(dir.path());
        let found = fsck(&mut store, true, &mut |_| ());
        assert_eq!((found.problems, found.objects), (Vec::new(), 1));
        let note = "shard 0: a page of the tree can be read in one of two places alone: the next checkpoint writes it anew";
        assert_eq!(found.notes, [note]);
        let mended = repair(&mut store).unwrap();
        assert_eq!((mended.mended.len(), mended.left), (1, Vec::new()));
        drop(store);
        let found = fsck(&mut opened(dir.path()), true, &mut |_| ());
        assert_eq!((found.problems, found.notes), (Vec::new(), Vec::new()), "opened again");
    }
}

/// Where these bytes lie in the store's file: in pages, and in records of the log that are needed no more.
fn places_of(dir: &Path, bytes: &[u8]) -> Vec<u64> {
    let all = std::fs::read(path_in(dir)).unwrap();
    let found = (0..all.len() - bytes.len()).filter(|at| all[*at..].starts_with(bytes));
    found.map(|at| at as u64).collect()
}

/// A store with 500 objects, whose onodes and attributes take some dozen pages.
fn make_needles(dir: &Path) {
    let mut store = made(dir);
    let mut first = Transaction::new();
    first.create_collection(META, 0);
    store.commit(first).unwrap();
    for n in 0..500u32 {
        let mut txn = Transaction::new();
        txn.write(META, &object(&format!("needle{n}")), 0, vec![n as u8; 4096].into());
        txn.set_attr(META, &object(&format!("needle{n}")), "a", vec![7; 300]);
        store.commit(txn).unwrap();
    }
    close(store);
}

#[test]
fn where_a_page_cant_be_read_a_check_says_so_and_nothing_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    make_needles(dir.path());
    let places = places_of(dir.path(), b"needle250");
    assert!(places.len() > 1, "the log has the object's name, and a page");

    flip(dir.path(), &places);
    let started = Instant::now();
    let mut store = opened(dir.path());
    let found = fsck(&mut store, false, &mut |_| {});
    assert_eq!(found.problems.len(), 2, "{found:?}");
    assert!(
        found.problems[0].contains("page") && found.problems[1].contains("nothing is mended"),
        "{found:?}"
    );
    assert_eq!(repair(&mut store), Ok(Mended { mended: Vec::new(), left: found.problems }));
    // Neither waits for a device that was not asked.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(store);
    flip(dir.path(), &places);
    let found = fsck(&mut opened(dir.path()), true, &mut |_| {});
    assert_eq!((found.problems, found.objects), (Vec::new(), 500), "nothing was given up");
}

#[test]
fn a_check_goes_on_behind_a_page_that_cant_be_read() {
    let dir = tempfile::tempdir().unwrap();
    make_needles(dir.path());
    let names: [&[u8]; 2] = [b"needle100", b"needle250"];
    let places: Vec<u64> = names.into_iter().flat_map(|name| places_of(dir.path(), name)).collect();
    flip(dir.path(), &places);
    let mut store = opened(dir.path());
    let found = fsck(&mut store, false, &mut |_| {});
    let (last, pages) = found.problems.split_last().expect("two pages can't be read");
    assert!(last.contains("nothing is mended"), "{found:?}");
    assert_eq!(pages.len(), 2, "each page is named, and nothing follows from what it had: {found:?}");
    assert!(pages.iter().all(|page| page.contains("could not be checked")), "{found:?}");
    // A page has a fifth of the objects; all others are read.
    let deep = fsck(&mut store, true, &mut |_| {});
    assert!((300..500).contains(&deep.objects), "{deep:?}");
    let unread = deep.problems.iter().filter(|problem| problem.contains("were not read")).count();
    assert_eq!((unread, deep.problems.len()), (2, 5), "{deep:?}");
}

#[test]
fn a_check_waits_only_for_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = made(dir.path());
    let mut txn = Transaction::new();
    txn.create_collection(META, 0);
    for n in 0..2000u32 {
        txn.set_attr(META, &object(&format!("o{n}")), "a", vec![7; 1000]);
    }
    store.commit(txn).unwrap();
    close(store);
    let mut store = opened(dir.path());
    let started = Instant::now();
    assert_eq!(fsck(&mut store, false, &mut |_| {}).problems, [""; 0]);
    // It reads some 500 pages, 32 at a time. A sleep for each of those took 1.6 s.
    assert!(started.elapsed() < Duration::from_millis(800), "{:?}", started.elapsed());
}

/// Bytes of the newest superblock's pointer to the root.
fn root_pointer_bytes(dir: &Path) -> u32 {
    let file = OpenOptions::new().read(true).open(path_in(dir)).unwrap();
    let read = |at: u64| {
        let mut bytes = vec![0; HALF];
        file.read_exact_at(&mut bytes, at).unwrap();
        (u64::from_le_bytes(bytes[32..40].try_into().unwrap()), bytes)
    };
    let (_, bytes) = [SUPERBLOCKS, SUPERBLOCKS + 4096].map(read).into_iter().max().unwrap();
    // Behind the counters: the levels, and the pointer's length.
    u32::from_le_bytes(bytes[105..109].try_into().unwrap())
}

fn omap(n: u32) -> Transaction {
    let mut txn = Transaction::new();
    let value = |k: u32| (format!("{n:04}{k:04}").into_bytes().into(), vec![n as u8; 1000].into());
    txn.omap_set(META, &object(&format!("object {n}")), (0..1000).map(value).collect());
    txn
}

/// What such a file has free at any time is little.
#[test]
fn pages_of_a_store_whose_file_grows_have_copies() {
    for file_space in [FileSpace::Grows, FileSpace::Follows] {
        let dir = tempfile::tempdir().unwrap();
        mkfs(dir.path(), &owner(0), &NewStore::file(8 << 30), &Options::default()).unwrap();
        let options = Options { file_space, ..Options::default() };
        let mut store = Blocking::new(open(dir.path(), &owner(0), &options).unwrap());
        let mut txn = Transaction::new();
        txn.create_collection(META, 0);
        store.commit(txn).unwrap();
        (0..60).for_each(|n| store.commit(omap(n)).unwrap());
        close(store);
        // A pointer without has 24 for one run of blocks, and 36 for two.
        assert!(root_pointer_bytes(dir.path()) >= 40, "{file_space:?}: the root has a copy");
    }
}

#[test]
fn a_page_is_written_anew_where_memory_does_not_hold_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    drop(made(dir.path()));
    let mut options = Options::default();
    options.store.cache_bytes = 256 << 10;
    let opened = || Blocking::new(open(dir.path(), &owner(0), &options).unwrap());
    let mut store = opened();
    let mut txn = Transaction::new();
    txn.create_collection(META, 0).set_attr(META, &object("first"), "a", b"a value of its own".to_vec());
    store.commit(txn).unwrap();
    (0..3).for_each(|n| store.commit(omap(n)).unwrap());
    close(store);
    flip_in_block(dir.path(), b"a value of its own", 1);
    let mended = repair(&mut opened()).unwrap();
    assert_eq!((mended.mended.len(), mended.left), (1, Vec::new()));
    let found = fsck(&mut opened(), true, &mut |_| ());
    assert_eq!((found.problems, found.notes), (Vec::new(), Vec::new()));
}
