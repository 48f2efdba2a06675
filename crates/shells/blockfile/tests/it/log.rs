//! Logs that lie apart from the data: where they lie, whose they are, and what is wrong with them.

use std::fs::File;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{PROPERTIES, error, make_with_object, object, owner, read};
use blockfile::{
    LogPlace, NewStore, OpenError, Options, Owner, check_links, check_places, expand, log_device, logs_bytes,
    mkfs, open, open_any, path_in, unmake,
};
use encoding::Encode as _;
use store::ReadOutcome;
use store::conformance::{Harness, Properties};
use tempfile::TempDir;
use types::{Fsid, OsdId};

const SIZE: u64 = 64 << 20;

fn with_log(size_bytes: u64, path: &Path) -> NewStore {
    NewStore { log: Some(LogPlace { path: path.to_owned(), overwrite: false }), ..NewStore::file(size_bytes) }
}

fn link_in(dir: &Path) -> PathBuf {
    dir.join("block.wal")
}

/// Directories of stores, each with an object `a` of its number, with their logs beside them: `log.N`.
fn stores(owners: &[Owner]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (n, owner) in owners.iter().enumerate() {
        let (at, log) = (dir.path().join(n.to_string()), dir.path().join(format!("log.{n}")));
        make_with_object(&at, owner, &with_log(SIZE, &log), &[n as u8; 9000]);
    }
    dir
}

fn has(dir: &Path, owner: &Owner, n: u8) {
    let mut h = Harness::new(open(dir, owner, &Options::default()).unwrap(), PROPERTIES);
    let Ok(ReadOutcome::Data(data)) = h.get(read(&object("a"), u64::MAX)) else { panic!("no data") };
    assert_eq!(data.to_vec(), vec![n; 9000]);
}

#[test]
fn a_log_in_a_file_of_its_own_is_as_large_as_need_be_and_found_from_the_directory() {
    let dir = stores(&[owner(3)]);
    let (at, log) = (dir.path().join("0"), dir.path().join("log.0"));
    has(&at, &owner(3), 0);
    assert_eq!(log.metadata().unwrap().len(), logs_bytes(SIZE, 1, false) + 4096);
    let found = log_device(&at).unwrap().unwrap();
    assert_eq!(
        (&found.path, found.bytes, found.is_block_device),
        (&log, logs_bytes(SIZE, 1, false) + 4096, false)
    );
    let grown = expand(&at, Some(2 * SIZE), &Options::default()).unwrap();
    assert_eq!((grown.before, grown.after), (SIZE, 2 * SIZE));
    has(&at, &owner(3), 0);
    let (_, label, _) = open_any(&at, &Options::default()).unwrap();
    assert!(label.log_apart);
    // A store whose log lies beside its data has none.
    let plain = tempfile::tempdir().unwrap();
    mkfs(plain.path(), &owner(3), &NewStore::file(SIZE), &Options::default()).unwrap();
    assert!(log_device(plain.path()).unwrap().is_none());
}

#[test]
fn each_shard_has_its_part_of_the_log_device() {
    let dir = tempfile::tempdir().unwrap();
    let (at, log) = (dir.path().join("osd"), dir.path().join("log"));
    let new = NewStore { shards: 3, ..with_log(1 << 30, &log) };
    mkfs(&at, &owner(3), &new, &Options::default()).unwrap();
    assert_eq!(log.metadata().unwrap().len(), logs_bytes(1 << 30, 3, false) + 4096);
    let pg = |seed| store::CollectionId::Pg(types::PgId { pool: types::PoolId(1), seed }.into());
    let properties = Properties { shards: 3, ..PROPERTIES };
    let mut h = Harness::new(open(&at, &owner(3), &Options::default()).unwrap(), properties);
    for seed in 0..9u32 {
        h.commit(|t| t.create_collection(pg(seed), 1));
        h.commit(|t| t.write(pg(seed), &object("a"), 0, vec![seed as u8; 20_000].into()));
        h.commit(|t| t.write(pg(seed), &object("b"), 0, vec![seed as u8; 2 << 20].into()));
    }
    drop(h.take());
    let mut h = Harness::new(open(&at, &owner(3), &Options::default()).unwrap(), properties);
    for seed in 0..9u32 {
        assert_eq!(h.data(pg(seed), &object("a")), vec![seed as u8; 20_000]);
        assert!(h.data(pg(seed), &object("b")) == vec![seed as u8; 2 << 20]);
    }
}

#[test]
fn a_log_that_is_missing_cut_or_anothers_is_named_with_the_link_to_it() {
    let others = [
        Owner { osd: OsdId(4), ..owner(3) },
        Owner { cluster: Fsid([9; 16]), ..owner(3) },
        Owner { osd_uuid: Fsid([9; 16]), ..owner(3) },
        // An earlier store of the same OSD.
        owner(3),
    ];
    let dir = stores(&[&[owner(3)][..], &others].concat());
    let (at, log) = (dir.path().join("0"), dir.path().join("log.0"));
    let refused = |with: &Path| {
        std::fs::remove_file(link_in(&at)).unwrap();
        symlink(with, link_in(&at)).unwrap();
        let text = error(&at, &owner(3)).to_string();
        for named in [with, &link_in(&at)] {
            assert!(text.contains(&named.display().to_string()), "{text}");
        }
        text
    };
    for (n, other) in others.iter().enumerate() {
        let text = refused(&dir.path().join(format!("log.{}", n + 1)));
        let says =
            if *other == owner(3) { "another store of the same OSD".to_owned() } else { other.to_string() };
        assert!(text.contains(&says), "{text}");
    }
    let text = refused(&path_in(&dir.path().join("1")));
    assert!(text.contains("it has the data of osd.4"), "{text}");
    let text = refused(&dir.path().join("none"));
    assert!(text.contains("is not there"), "{text}");
    std::fs::remove_file(link_in(&at)).unwrap();
    assert!(matches!(error(&at, &owner(3)), OpenError::NoLog { .. }));
    symlink(&log, link_in(&at)).unwrap();
    let file = File::options().read(true).write(true).open(&log).unwrap();
    let bytes = file.metadata().unwrap().len();
    file.set_len(bytes - 4096).unwrap();
    let text = error(&at, &owner(3)).to_string();
    assert!(text.contains(&log.display().to_string()) && text.contains("made shorter"), "{text}");
    file.set_len(bytes).unwrap();
    // Nothing was written by all that.
    has(&at, &owner(3), 0);
    file.write_all_at(&[0x55; 100], 0).unwrap();
    assert!(matches!(error(&at, &owner(3)), OpenError::OtherLog { .. }));
    file.set_len(100).unwrap();
    let text = error(&at, &owner(3)).to_string();
    assert!(text.contains("too few for a store's label"), "{text}");
    // The file of a log in the place of the data is refused as what it is.
    std::fs::copy(dir.path().join("log.1"), path_in(&at)).unwrap();
    let text = error(&at, &owner(3)).to_string();
    assert!(text.contains("the log alone of osd.4"), "{text}");
}

#[test]
fn what_holds_data_becomes_a_log_only_if_it_may_be_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (at, log) = (dir.path().join("osd"), dir.path().join("log"));
    std::fs::write(&log, "years of work").unwrap();
    let made = |overwrite| {
        let place = LogPlace { path: log.clone(), overwrite };
        let new = NewStore { log: Some(place), ..NewStore::file(SIZE) };
        mkfs(&at, &owner(3), &new, &Options::default())
    };
    assert!(matches!(made(false), Err(OpenError::HoldsData(path)) if path == log));
    assert_eq!(std::fs::read(&log).unwrap(), b"years of work");
    assert!(!path_in(&at).exists() && !link_in(&at).exists(), "a refused store is there in part");
    made(true).unwrap();
    open(&at, &owner(3), &Options::default()).unwrap();
    // That of another OSD is data, too; that of this one is not.
    let other = dir.path().join("other");
    let refused = mkfs(&other, &owner(4), &with_log(SIZE, &log), &Options::default());
    assert!(matches!(refused, Err(OpenError::HoldsData(_))), "{refused:?}");
    std::fs::remove_file(path_in(&at)).unwrap();
    made(false).unwrap();
    let refused = mkfs(&other, &owner(4), &with_log(SIZE, dir.path()), &Options::default());
    assert!(matches!(refused, Err(OpenError::NoPlaceForALog(_))), "{refused:?}");
}

#[test]
fn a_device_that_is_not_there_does_not_become_a_file_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let none = Path::new("/dev/loligo-none");
    let refused = mkfs(&dir.path().join("osd"), &owner(3), &with_log(SIZE, none), &Options::default());
    assert!(matches!(refused, Err(OpenError::NoDevice(_))), "{refused:?}");
    assert!(!none.exists());
}

#[test]
fn a_file_that_holds_data_anywhere_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (at, log) = (dir.path().join("osd"), dir.path().join("log"));
    let file = File::create(&log).unwrap();
    file.set_len(200 << 20).unwrap();
    file.write_all_at(b"data", 100 << 20).unwrap();
    let refused = mkfs(&at, &owner(3), &with_log(SIZE, &log), &Options::default());
    assert!(matches!(refused, Err(OpenError::HoldsData(_))), "{refused:?}");
    file.write_all_at(&[0; 4], 100 << 20).unwrap();
    mkfs(&at, &owner(3), &with_log(SIZE, &log), &Options::default()).unwrap();
}

#[test]
fn a_link_to_a_log_may_be_relative_and_lead_to_another_link() {
    let dir = stores(&[owner(3)]);
    let (at, log) = (dir.path().join("0"), dir.path().join("log.0"));
    std::fs::remove_file(link_in(&at)).unwrap();
    symlink("../other", link_in(&at)).unwrap();
    symlink("log.0", dir.path().join("other")).unwrap();
    let found = blockfile::log_device(&at).unwrap().unwrap();
    assert_eq!(found.bytes, log.metadata().unwrap().len());
    unmake(&at, owner(3).cluster, OsdId(3)).unwrap();
    assert!(!log.exists() && dir.path().join("other").is_symlink(), "the user's link is theirs");
}

#[test]
fn a_log_serves_one_store_at_a_time_and_goes_with_it() {
    let dir = stores(&[owner(3)]);
    let (at, log) = (dir.path().join("0"), dir.path().join("log.0"));
    let held = open(&at, &owner(3), &Options::default()).unwrap();
    let copy = dir.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(path_in(&at), path_in(&copy)).unwrap();
    symlink(&log, link_in(&copy)).unwrap();
    assert!(matches!(error(&copy, &owner(3)), OpenError::InUse(_)));
    let place = LogPlace { path: log.clone(), overwrite: true };
    let new = NewStore { log: Some(place), ..NewStore::file(SIZE) };
    let refused = mkfs(&dir.path().join("new"), &owner(3), &new, &Options::default());
    assert!(matches!(refused, Err(OpenError::InUse(_))), "{refused:?}");
    drop(held);
    unmake(&at, Fsid([9; 16]), OsdId(3)).unwrap();
    unmake(&at, owner(3).cluster, OsdId(4)).unwrap();
    assert!(log.exists(), "the log of another cluster, or of another OSD, is gone");
    unmake(&at, owner(3).cluster, OsdId(3)).unwrap();
    assert!(!log.exists(), "the log of a store that was taken back is there");
    unmake(&at, owner(3).cluster, OsdId(3)).unwrap();
}

/// The first block of what a store is being made on (`docs/formats/block.md`).
fn being_made_for(owner: &Owner) -> Vec<u8> {
    [&b"loligo is making a store here\n"[..], &owner.to_bytes(0), &[0; 3000]].concat()
}

#[test]
fn a_log_whose_making_was_interrupted_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let (at, log) = (dir.path().join("osd"), dir.path().join("log"));
    std::fs::create_dir(&at).unwrap();
    symlink(&log, link_in(&at)).unwrap();
    // The file holds data, and its first block is empty: that does not show that the OSD's making gave the data up.
    let file = File::options().write(true).create_new(true).open(&log).unwrap();
    file.write_all_at(&[1; 8192], 1 << 20).unwrap();
    let refused = mkfs(&at, &owner(3), &with_log(SIZE, &log), &Options::default());
    assert!(matches!(refused, Err(OpenError::HoldsData(_))), "{refused:?}");
    unmake(&at, owner(3).cluster, OsdId(3)).unwrap();
    file.write_all_at(&being_made_for(&owner(4)), 0).unwrap();
    let others = mkfs(&at, &owner(3), &with_log(SIZE, &log), &Options::default());
    assert!(matches!(others, Err(OpenError::HoldsData(_))), "another OSD's: {others:?}");
    unmake(&at, owner(3).cluster, OsdId(3)).unwrap();
    assert!(log.exists(), "what was not this OSD's is gone");
    file.write_all_at(&being_made_for(&owner(3)), 0).unwrap();
    mkfs(&at, &owner(3), &with_log(SIZE, &log), &Options::default()).unwrap();
    open(&at, &owner(3), &Options::default()).unwrap();
}

#[test]
fn a_store_made_in_place_of_another_has_its_log_where_it_is_wanted() {
    let other = Owner { osd_uuid: Fsid([8; 16]), ..owner(3) };
    let dir = stores(&[owner(3)]);
    let (at, log) = (dir.path().join("0"), dir.path().join("log.0"));
    let new = [NewStore::file(SIZE), with_log(SIZE, &dir.path().join("second")), with_log(SIZE, &log)];
    for (n, new) in (1..).zip(&new) {
        // A device is written over where it is; here the file goes. The link is that of the store before.
        std::fs::remove_file(path_in(&at)).unwrap();
        make_with_object(&at, &other, new, &[n; 9000]);
        has(&at, &other, n);
        let wanted = new.log.as_ref().map(|log| log.path.clone());
        assert_eq!(log_device(&at).unwrap().map(|log| log.path), wanted);
        assert_eq!(log.exists(), n == 3, "a log that nothing uses");
    }
}

#[test]
fn a_making_that_was_interrupted_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (at, log) = (dir.path().join("osd"), dir.path().join("log"));
    std::fs::create_dir(&at).unwrap();
    symlink(&log, link_in(&at)).unwrap();
    std::fs::write(&log, being_made_for(&owner(3))).unwrap();
    unmake(&at, owner(3).cluster, OsdId(3)).unwrap();
    assert!(log.exists(), "it is too short to say anything");
    File::options().write(true).open(&log).unwrap().set_len(SIZE).unwrap();
    unmake(&at, owner(3).cluster, OsdId(3)).unwrap();
    assert!(!log.exists());
}

#[test]
fn what_can_not_be_made_is_told_beforehand_and_nothing_is_made() {
    let tmp = tempfile::tempdir().unwrap();
    let [log, other, dangling] = ["log", "other", "dangling"].map(|name| tmp.path().join(name));
    let (at, missing) = (tmp.path().join("osd"), tmp.path().join("missing/log"));
    std::os::unix::fs::symlink(tmp.path().join("gone"), &dangling).unwrap();
    for path in [&missing, &dangling] {
        let why = check_places(&owner(3), &with_log(SIZE, path)).unwrap_err();
        let is_link = *path == dangling;
        assert!(
            matches!((&why, is_link), (OpenError::Io { .. }, true) | (OpenError::NoDirectory(_), false)),
            "{why}"
        );
        mkfs(&at, &owner(3), &with_log(SIZE, path), &Options::default()).unwrap_err();
    }
    check_places(&owner(3), &with_log(SIZE, &log)).unwrap();
    assert!(!log.exists());

    check_links(&at, &with_log(SIZE, &log)).unwrap();
    mkfs(&at, &owner(3), &with_log(SIZE, &log), &Options::default()).unwrap();
    // The same owner may write over its former store.
    check_places(&owner(3), &with_log(SIZE, &log)).unwrap();
    check_links(&at, &with_log(SIZE, &log)).unwrap();
    // The making gives up the log of the store before, wherever the link to it leads.
    check_links(&at, &with_log(SIZE, &other)).unwrap();
    std::fs::remove_file(path_in(&at)).unwrap();
    mkfs(&at, &owner(3), &with_log(SIZE, &other), &Options::default()).unwrap();
    assert_eq!((log.exists(), std::fs::read_link(link_in(&at)).unwrap()), (false, other.clone()));
}

#[test]
fn what_lies_where_a_link_is_to_be_is_told_beforehand_and_stays() {
    let tmp = tempfile::tempdir().unwrap();
    let [at, log, disk, other] = ["osd", "log", "disk", "other"].map(|name| tmp.path().join(name));
    let on_device = NewStore { device: Some(disk.clone()), ..with_log(SIZE, &log) };
    std::fs::create_dir(&at).unwrap();
    check_links(&at, &on_device).unwrap();
    symlink(&other, path_in(&at)).unwrap();
    let why = check_links(&at, &on_device).unwrap_err();
    let OpenError::LeadsElsewhere { link, there, to } = &why else { panic!("{why}") };
    assert_eq!((link, there, to), (&path_in(&at), &other, &disk), "data are never given up so");
    std::fs::remove_file(path_in(&at)).unwrap();
    symlink(&disk, path_in(&at)).unwrap();
    symlink(&other, link_in(&at)).unwrap();
    check_links(&at, &on_device).unwrap();
    // What is not a link may be the log itself, or a file of someone: the check refuses it.
    std::fs::remove_file(link_in(&at)).unwrap();
    std::fs::write(link_in(&at), "years of work").unwrap();
    std::fs::remove_file(path_in(&at)).unwrap();
    for new in [&on_device, &with_log(SIZE, &log)] {
        let why = check_links(&at, new).unwrap_err();
        assert!(matches!(&why, OpenError::Exists(path) if *path == link_in(&at)), "{why}");
    }
    let why = mkfs(&at, &owner(3), &with_log(SIZE, &log), &Options::default()).unwrap_err();
    assert!(matches!(why, OpenError::Exists(_)), "{why}");
    assert_eq!(std::fs::read(link_in(&at)).unwrap(), b"years of work");
    assert!(!path_in(&at).exists() && !log.exists(), "nothing is made");
}
