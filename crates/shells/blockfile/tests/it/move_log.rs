//! Logs that move: to a file of their own, to another one, and back beside the data.

use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{PROPERTIES, object, owner};
use blockfile::{
    BlockFileStore, Blocking, LogPlace, Moved, NewStore, OpenError, Options, check_places, expand, fsck,
    is_same_place, log_device, log_path_in, mkfs, move_log, open, path_in, places_in, unmake,
};
use store::CollectionId;
use store::conformance::{Harness, Properties};
use types::{PgId, PoolId};

const SHARDS: u32 = 2;
const SIZE: u64 = 512 << 20;

fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn opened(dir: &Path) -> Harness<BlockFileStore> {
    let store = open(dir, &owner(3), &Options::default()).unwrap();
    Harness::new(store, Properties { shards: SHARDS, ..PROPERTIES })
}

/// What was written before is there, and new data is written, some of it beside the log.
fn goes_on(dir: &Path, round: u8) {
    let mut h = opened(dir);
    for seed in 0..SHARDS {
        for n in 0..round {
            assert!(
                h.data(pg(seed), &object(&n.to_string())) == vec![n; 100_000 * (usize::from(n) + 1)],
                "{n}"
            );
        }
        if round == 0 {
            h.commit(|t| t.create_collection(pg(seed), 1));
        }
        let bytes = vec![round; 100_000 * (usize::from(round) + 1)];
        h.commit(|t| t.write(pg(seed), &object(&round.to_string()), 0, bytes.into()));
        h.commit(|t| t.set_attr(pg(seed), &object(&round.to_string()), "a", vec![round; 50]));
    }
    drop(h.take());
}

fn place(path: &Path) -> LogPlace {
    LogPlace { path: path.to_owned(), overwrite: false }
}

#[test]
fn a_log_moves_to_files_and_back_and_everything_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (at, options) = (dir.path().join("osd"), Options::default());
    let new = NewStore { shards: SHARDS, ..NewStore::file(SIZE) };
    mkfs(&at, &owner(3), &new, &options).unwrap();
    goes_on(&at, 0);
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let moved = move_log(&at, None, Some(&place(&a)), &options).unwrap();
    assert_eq!(moved, Moved { before: None, after: Some(a.clone()) });
    assert_eq!(log_device(&at).unwrap().unwrap().path, a);
    goes_on(&at, 1);
    // Again: nothing is to be done, and nothing is lost.
    move_log(&at, None, Some(&place(&a)), &options).unwrap();
    goes_on(&at, 2);
    expand(&at, Some(SIZE * 2), &options).unwrap();
    move_log(&at, None, Some(&place(&b)), &options).unwrap();
    assert!(!a.exists() && log_device(&at).unwrap().unwrap().path == b);
    goes_on(&at, 3);
    assert_eq!(move_log(&at, None, None, &options).unwrap(), Moved { before: Some(b.clone()), after: None });
    assert!(!b.exists() && !log_path_in(&at).is_symlink() && log_device(&at).unwrap().is_none());
    goes_on(&at, 4);
    move_log(&at, None, None, &options).unwrap();
    move_log(&at, None, Some(&place(&a)), &options).unwrap();
    goes_on(&at, 5);
    let mut store = Blocking::new(open(&at, &owner(3), &options).unwrap());
    assert_eq!(fsck(&mut store, true, &mut |_| ()).problems, [""; 0]);
}

#[test]
fn a_move_that_ended_anywhere_opens_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (at, options, a) = (dir.path().join("osd"), Options::default(), dir.path().join("a"));
    let new = NewStore { shards: SHARDS, ..NewStore::file(SIZE) };
    mkfs(&at, &owner(3), &new, &options).unwrap();
    goes_on(&at, 0);
    move_log(&at, None, Some(&place(&a)), &options).unwrap();
    goes_on(&at, 1);
    // As before the superblocks of the way back, and behind them: the link is there, and leads to the log.
    std::fs::copy(&a, dir.path().join("kept")).unwrap();
    move_log(&at, None, None, &options).unwrap();
    std::fs::rename(dir.path().join("kept"), &a).unwrap();
    std::os::unix::fs::symlink(&a, log_path_in(&at)).unwrap();
    goes_on(&at, 2);
    move_log(&at, None, None, &options).unwrap();
    assert!(!a.exists() && places_in(&at).log.is_none());
    goes_on(&at, 3);
    // A first block that was emptied and no label yet: the log is no store's, and is made again.
    std::fs::write(&a, vec![0; 100_000]).unwrap();
    move_log(&at, None, Some(&place(&a)), &options).unwrap();
    goes_on(&at, 4);
}

/// What a move leaves that is ended before it gives up the place from before: that place as it was, and a link to it.
fn moved_but_not_given_up(at: &Path, from: &Path, to: &Path) {
    let kept = from.with_extension("kept");
    std::fs::copy(from, &kept).unwrap();
    move_log(at, None, Some(&place(to)), &Options::default()).unwrap();
    assert!(!from.exists());
    std::fs::rename(&kept, from).unwrap();
    std::os::unix::fs::symlink(from, at.join("block.wal.left")).unwrap();
}

#[test]
fn a_place_that_an_interrupted_move_left_is_given_up_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (at, options) = (dir.path().join("osd"), Options::default());
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
    let log = Some(place(&a));
    mkfs(&at, &owner(3), &NewStore { shards: SHARDS, log, ..NewStore::file(SIZE) }, &options).unwrap();
    goes_on(&at, 0);
    moved_but_not_given_up(&at, &a, &b);
    goes_on(&at, 1);
    // The same call again.
    move_log(&at, None, Some(&place(&b)), &options).unwrap();
    assert!(!a.exists() && b.exists());
    goes_on(&at, 2);
    // To a third place instead.
    moved_but_not_given_up(&at, &b, &a);
    move_log(&at, None, Some(&place(&c)), &options).unwrap();
    assert!(!a.exists() && !b.exists() && c.exists());
    goes_on(&at, 3);
    // Back to the place that was left.
    moved_but_not_given_up(&at, &c, &a);
    move_log(&at, None, Some(&place(&c)), &options).unwrap();
    assert!(!a.exists() && c.exists());
    goes_on(&at, 4);
    // Ended before the directory was linked to the new place: what would be left is where the log is.
    std::os::unix::fs::symlink(&c, at.join("block.wal.left")).unwrap();
    move_log(&at, None, Some(&place(&c)), &options).unwrap();
    goes_on(&at, 5);
    assert!(!at.join("block.wal.left").is_symlink());
    // Taking the store back clears both places.
    moved_but_not_given_up(&at, &c, &a);
    unmake(&at, owner(3).cluster, owner(3).osd).unwrap();
    assert!(!a.exists() && !c.exists());
}

#[test]
fn what_can_not_be_had_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (at, options) = (dir.path().join("osd"), Options::default());
    mkfs(&at, &owner(3), &NewStore { shards: SHARDS, ..NewStore::file(SIZE) }, &options).unwrap();
    goes_on(&at, 0);
    let (used, other) = (dir.path().join("used"), dir.path().join("other"));
    std::fs::write(&used, "years of work").unwrap();
    mkfs(&other, &owner(3), &NewStore::file(SIZE), &options).unwrap();
    let refused = |path: &Path| move_log(&at, None, Some(&place(path)), &options).unwrap_err();
    assert!(matches!(refused(&used), OpenError::HoldsData(_)));
    assert!(matches!(refused(&path_in(&at)), OpenError::HasTheData(_)));
    assert!(matches!(refused(&path_in(&other)), OpenError::HoldsData(_)), "another store of this OSD");
    assert!(matches!(refused(Path::new("/dev/loligo-none")), OpenError::NoDevice(_)));
    assert!(matches!(refused(dir.path()), OpenError::NoPlaceForALog(_)));
    assert_eq!(std::fs::read(&used).unwrap(), b"years of work");
    goes_on(&at, 1);
    let apart = dir.path().join("apart");
    let log = Some(place(&dir.path().join("log")));
    mkfs(&apart, &owner(4), &NewStore { log, ..NewStore::file(SIZE) }, &options).unwrap();
    let why = move_log(&apart, None, None, &options).unwrap_err();
    assert!(matches!(why, OpenError::NoPlaceBesideData(_)), "{why}");
    // To another device it may go.
    let new = dir.path().join("new");
    move_log(&apart, None, Some(&place(&new)), &options).unwrap();
    assert!(new.exists() && !dir.path().join("log").exists());
    open(&apart, &owner(4), &options).unwrap();
}

#[test]
fn a_refused_move_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let (at, options) = (dir.path().join("osd"), Options::default());
    mkfs(&at, &owner(3), &NewStore { shards: SHARDS, ..NewStore::file(SIZE) }, &options).unwrap();
    goes_on(&at, 0);
    // Its superblocks are gone: the store is not opened, and its log can't be emptied.
    let block = std::fs::OpenOptions::new().write(true).open(path_in(&at)).unwrap();
    block.write_all_at(&vec![0; 1 << 20], 4096).unwrap();
    let (none, short) = (dir.path().join("none"), dir.path().join("short"));
    std::fs::write(&short, [0; 10]).unwrap();
    for path in [&none, &short] {
        let why = move_log(&at, None, Some(&place(path)), &options).unwrap_err();
        assert!(matches!(why, OpenError::Damaged { .. }), "{why}");
    }
    assert!(!none.exists());
    assert_eq!(std::fs::read(&short).unwrap(), [0; 10]);
    assert_eq!(places_in(&at).log, None);
}

#[test]
fn no_other_part_of_the_cluster_is_overwritten_by_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let (cluster, options) = (dir.path().join("c"), Options::default());
    let (at, other) = (cluster.join("osd.3"), cluster.join("osd.4"));
    let [log, link, hard, file] = ["log", "link", "hard", "c/file"].map(|name| dir.path().join(name));
    let over = |path: &Path| LogPlace { overwrite: true, ..place(path) };
    let new = |log: &Path| NewStore {
        log: Some(over(log)),
        cluster_dir: Some(cluster.clone()),
        ..NewStore::file(SIZE)
    };
    mkfs(&at, &owner(3), &NewStore { shards: SHARDS, ..NewStore::file(SIZE) }, &options).unwrap();
    mkfs(&other, &owner(4), &new(&log), &options).unwrap();
    goes_on(&at, 0);
    std::os::unix::fs::symlink(&log, &link).unwrap();
    std::fs::hard_link(path_in(&other), &hard).unwrap();
    std::fs::write(&file, "").unwrap();
    for path in [&log, &link, &hard, &path_in(&other), &file] {
        let moved = move_log(&at, Some(&cluster), Some(&over(path)), &options).map(drop);
        let checked = check_places(&owner(3), &new(path));
        let made = mkfs(&cluster.join("osd.3/new"), &owner(3), &new(path), &options);
        for refused in [moved, checked, made] {
            let (is_file, why) = (path == &file, refused.unwrap_err());
            assert!(matches!(why, OpenError::OfAnotherOsd { .. }) || is_file, "{path:?}: {why}");
            assert!(matches!(why, OpenError::OfTheCluster { .. }) || !is_file, "{path:?}: {why}");
        }
    }
    open(&other, &owner(4), &options).unwrap();
    // An OSD that is gone has left its log to others, who say so.
    std::fs::remove_dir_all(&other).unwrap();
    let why = move_log(&at, Some(&cluster), Some(&place(&link)), &options).unwrap_err();
    assert!(matches!(why, OpenError::HoldsData(_)), "{why}");
    check_places(&owner(3), &new(&link)).unwrap();
    move_log(&at, Some(&cluster), Some(&over(&link)), &options).unwrap();
    goes_on(&at, 1);
}

#[test]
fn one_place_by_two_names_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let [a, link, hard, b] = ["a", "link", "hard", "b"].map(|name| dir.path().join(name));
    std::fs::write(&a, "").unwrap();
    std::os::unix::fs::symlink(&a, &link).unwrap();
    std::fs::hard_link(&a, &hard).unwrap();
    assert!([&a, &link, &hard].iter().all(|other| is_same_place(&a, other)));
    assert!(!is_same_place(&a, &b), "one is not there");
    assert!(is_same_place(&b, &dir.path().join("./b")) && !is_same_place(&b, &dir.path().join("c")));
}
