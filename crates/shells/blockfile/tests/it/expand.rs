//! Stores of several shards whose file has grown.

use std::fs::File;
use std::path::Path;

use crate::common::{PROPERTIES, given, object, owner, shrinks_below};
use blockfile::{
    BlockFileStore, Blocking, Expanded, FileSpace, NewStore, OpenError, Options, expand, fsck, mkfs, open,
    path_in,
};
use store::conformance::{Harness, Properties};
use store::{CollectionId, ObjectStore};
use tempfile::TempDir;
use types::{PgId, PoolId};

const SHARDS: u32 = 2;
const SIZE: u64 = 512 << 20;
const LARGER: u64 = 768 << 20;
const LARGEST: u64 = 1 << 30;

/// Objects of 4 MiB in each shard: more than it had room for at first.
const OBJECTS: u8 = 90;

fn made() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let new = NewStore { shards: SHARDS, ..NewStore::file(SIZE) };
    mkfs(dir.path(), &owner(3), &new, &Options::default()).unwrap();
    dir
}

fn opened(dir: &Path, file_space: FileSpace) -> Harness<BlockFileStore> {
    let options = Options { file_space, ..Options::default() };
    let store = open(dir, &owner(3), &options).unwrap();
    assert_eq!(store.shards(), SHARDS);
    Harness::new(store, Properties { shards: SHARDS, ..PROPERTIES })
}

/// One of each shard.
fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn write(h: &mut Harness<BlockFileStore>, objects: std::ops::Range<u8>) {
    for seed in 0..SHARDS {
        for n in objects.clone() {
            h.commit(|t| t.write(pg(seed), &object(&n.to_string()), 0, vec![n + seed as u8; 4 << 20].into()));
        }
    }
}

fn expect(h: &mut Harness<BlockFileStore>, objects: impl Iterator<Item = u8>) {
    for n in objects {
        for seed in 0..SHARDS {
            let data = h.data(pg(seed), &object(&n.to_string()));
            assert!(data == vec![n + seed as u8; 4 << 20], "object {n} of shard {seed}");
        }
    }
}

fn ends(h: &mut Harness<BlockFileStore>) -> Vec<Vec<u64>> {
    h.store().handles().iter_mut().map(|handle| handle.inner().ends()).collect()
}

#[test]
fn every_shard_has_its_part_of_a_file_that_grows_twice_and_gives_it_back_as_before() {
    let dir = made();
    let mut h = opened(dir.path(), FileSpace::Grows);
    (0..SHARDS).for_each(|seed| h.commit(|t| t.create_collection(pg(seed), 1)));
    write(&mut h, 0..50);
    let before = h.statfs();
    drop(h.take());
    let expanded = |bytes| expand(dir.path(), bytes, &Options::default()).unwrap();
    assert_eq!(expanded(Some(LARGER)), Expanded { before: SIZE, after: LARGER });
    // As by `truncate`, and found as it is.
    File::options().write(true).open(path_in(dir.path())).unwrap().set_len(LARGEST).unwrap();
    assert_eq!(expanded(None), Expanded { before: LARGER, after: LARGEST });
    assert_eq!(expanded(None), Expanded { before: LARGEST, after: LARGEST });
    assert!(given(dir.path()) < SIZE + (SIZE >> 2), "nothing was taken of the disk for that");

    let mut h = opened(dir.path(), FileSpace::Follows);
    assert_eq!(ends(&mut h), [[LARGER, LARGEST], [LARGER, LARGEST]]);
    let more = h.statfs().bytes_total - before.bytes_total;
    assert!((LARGEST - SIZE) / 256 * 255 - more < 1 << 20, "{more} bytes more");
    write(&mut h, 50..OBJECTS);
    expect(&mut h, 0..OBJECTS);
    assert_eq!(h.statfs().data_bytes, u64::from(OBJECTS) * 2 * (4 << 20));
    assert!(given(dir.path()) > u64::from(OBJECTS) * 2 * (4 << 20));
    for n in (0..OBJECTS).filter(|n| n % 10 != 0) {
        (0..SHARDS).for_each(|seed| h.commit(|t| t.remove(pg(seed), &object(&n.to_string()))));
    }
    assert!(shrinks_below(&mut h, dir.path(), 480 << 20), "what was deleted is still taken");
    let kept = (0..OBJECTS).step_by(10);
    expect(&mut h, kept.clone());
    write(&mut h, 100..150);
    expect(&mut h, kept.clone().chain(100..150));
    drop(h.take());
    let mut store = Blocking::new(open(dir.path(), &owner(3), &Options::default()).unwrap());
    assert_eq!(fsck(&mut store, true, &mut |_| ()).problems, [""; 0]);
    drop(store);
    let mut h = opened(dir.path(), FileSpace::Grows);
    expect(&mut h, kept.chain(100..150));
    drop(h.take());
    drop(opened(dir.path(), FileSpace::Whole).take());
    assert!(given(dir.path()) >= LARGEST - (1 << 20), "all of it, in each range");
}

#[test]
fn a_file_that_is_too_little_longer_is_left_as_it_is() {
    let dir = made();
    let length = || path_in(dir.path()).metadata().unwrap().len();
    let refused = expand(dir.path(), Some(SIZE + (1 << 20)), &Options::default()).unwrap_err();
    assert!(
        matches!(refused, OpenError::CanNotGrow { .. }) && refused.to_string().contains("2 MiB"),
        "{refused}"
    );
    assert_eq!(length(), SIZE);
    let refused = expand(dir.path(), Some(SIZE - 4096), &Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Shrinks { .. }), "{refused}");
    assert_eq!(length(), SIZE);
    for bytes in [1 << 62, 1 << 63, u64::MAX] {
        let refused = expand(dir.path(), Some(bytes), &Options::default()).unwrap_err();
        assert!(matches!(refused, OpenError::TooLarge { .. }), "{refused}");
        let file = NewStore::file(bytes);
        let refused = mkfs(&dir.path().join("new"), &owner(3), &file, &Options::default()).unwrap_err();
        assert!(matches!(refused, OpenError::TooLarge { .. }), "{refused}");
        assert!(refused.to_string().contains("a block store has 64 PiB at most"), "{refused}");
    }
    assert_eq!(length(), SIZE);
    assert_eq!(ends(&mut opened(dir.path(), FileSpace::Grows)), [[0; 0]; 2]);
}

#[test]
fn a_file_that_was_cut_after_it_had_grown_is_refused() {
    let dir = made();
    expand(dir.path(), Some(LARGER), &Options::default()).unwrap();
    File::options().write(true).open(path_in(dir.path())).unwrap().set_len(SIZE).unwrap();
    let refused = crate::common::error(dir.path(), &owner(3));
    assert!(
        matches!(refused, OpenError::Cut { bytes: SIZE, needed: LARGER, is_file: true, .. }),
        "{refused}"
    );
    let text = refused.to_string();
    for says in ["512 MiB", "768 MiB", "the file was made shorter", "truncate -s 805306368", "--replace"] {
        assert!(text.contains(says), "{text}");
    }
    // What is left is read as the message says.
    File::options().write(true).open(path_in(dir.path())).unwrap().set_len(LARGER).unwrap();
    opened(dir.path(), FileSpace::Grows);
    // The same where it is shorter than it was at first.
    File::options().write(true).open(path_in(dir.path())).unwrap().set_len(SIZE / 2).unwrap();
    let refused = crate::common::error(dir.path(), &owner(3));
    assert!(matches!(refused, OpenError::Cut { needed: LARGER, .. }), "{refused}");
}
