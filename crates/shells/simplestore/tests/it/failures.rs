//! What a store answers when it can't do what it is asked.

use std::path::Path;

use crate::common::{
    Look, META, Simple, fresh, harness, label, mkfs, object, open, read, reopened, switchable, transaction,
};
use buffer::Rope;
use redb::TableDefinition;
use simplestore::{ModelledOn, OpenError, Options, SimpleStore};
use store::{Fault, ReadRequest, StoreError};
use types::Errno;

fn open_now(dir: &Path) -> Result<SimpleStore, OpenError> {
    open(dir, &Options::default())
}

#[test]
fn a_directory_is_made_once_opened_once_and_remembers_whose_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("osd");
    assert!(matches!(open_now(&dir), Err(OpenError::NotAStore { .. })));
    mkfs(&dir, &label(10 << 20), &Options::default()).unwrap();
    assert!(matches!(mkfs(&dir, &label(10 << 20), &Options::default()), Err(OpenError::Exists(_))));
    let store = open_now(&dir).unwrap();
    assert_eq!(store.label(), &label(10 << 20));
    assert!(matches!(open_now(&dir), Err(OpenError::InUse(_))));
    assert!(matches!(mkfs(&dir, &label(1 << 20), &Options::default()), Err(OpenError::InUse(_))));
    drop(store);
    assert!(open_now(&dir).is_ok());
}

#[test]
fn a_file_that_is_missing_is_named_and_so_is_where_a_link_to_it_leads() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    let image = dir.path().join("block");
    std::fs::rename(&image, dir.path().join("elsewhere")).unwrap();
    let said = || open_now(dir.path()).err().expect("refused").to_string();
    assert!(said().contains(&format!("{}: No such file", image.display())), "{}", said());
    std::os::unix::fs::symlink("/gone/block", &image).unwrap();
    assert!(said().contains("is a link to /gone/block: No such file"), "{}", said());
}

/// A copy of a directory has its links, and no lock on what they lead to.
#[test]
fn the_files_are_one_stores_at_a_time_by_whatever_name() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    let (image, metadata) = (dir.path().join("block"), dir.path().join("meta.redb"));
    let in_use = |copy: &Path, file: &str| {
        let refused = open_now(copy).err().map(|error| error.to_string());
        assert_eq!(refused, Some(format!("{} is in use by another process", copy.join(file).display())));
    };
    let (linked, hard, image_alone) = (
        tempfile::tempdir_in(dir.path()).unwrap(),
        tempfile::tempdir_in(dir.path()).unwrap(),
        tempfile::tempdir_in(dir.path()).unwrap(),
    );
    std::fs::copy(&metadata, image_alone.path().join("meta.redb")).unwrap();
    for file in [&image, &metadata] {
        let name = file.file_name().unwrap();
        std::os::unix::fs::symlink(file, linked.path().join(name)).unwrap();
        std::fs::hard_link(file, hard.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink(&image, image_alone.path().join("block")).unwrap();
    let held = open_now(dir.path()).unwrap();
    in_use(linked.path(), "meta.redb");
    in_use(hard.path(), "meta.redb");
    in_use(image_alone.path(), "block");
    std::fs::remove_file(image_alone.path().join("meta.redb")).unwrap();
    let again = mkfs(image_alone.path(), &label(10 << 20), &Options::default());
    assert!(matches!(again, Err(OpenError::InUse(_))), "{again:?}");
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 10 << 20);
    drop(held);
    // Now the links are ways to the same store, one at a time.
    let held = open_now(linked.path()).unwrap();
    in_use(hard.path(), "meta.redb");
    assert!(matches!(open_now(dir.path()), Err(OpenError::InUse(_))));
    drop(held);
    assert!(open_now(dir.path()).is_ok());
}

fn set_format(dir: &Path, format: u32) {
    let db = redb::Database::open(dir.join("meta.redb")).unwrap();
    let txn = db.begin_write().unwrap();
    let meta = TableDefinition::<&[u8], &[u8]>::new("meta");
    txn.open_table(meta).unwrap().insert(&b"format"[..], &format.to_le_bytes()[..]).unwrap();
    txn.commit().unwrap();
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    set_format(dir.path(), 4);
    let error = open_now(dir.path()).err().expect("refused");
    let want = "was written by a newer version (store format 4, this one knows 3)";
    assert!(error.to_string().ends_with(want), "{error}");
    assert!(matches!(mkfs(dir.path(), &label(1 << 20), &Options::default()), Err(OpenError::Newer { .. })));
    set_format(dir.path(), 3);
    assert!(open_now(dir.path()).is_ok(), "nothing was changed");
}

#[test]
fn the_format_from_before_formats_were_kept_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    set_format(dir.path(), 1);
    let error = open_now(dir.path()).err().expect("refused");
    let want = "has store format 1 of an earlier build, and this build reads none before 2: \
        copy the data out with the build that wrote it, then make a new store";
    assert!(error.to_string().ends_with(want), "{error}");
    assert!(matches!(mkfs(dir.path(), &label(1 << 20), &Options::default()), Err(OpenError::Older { .. })));
    set_format(dir.path(), 3);
    assert!(open_now(dir.path()).is_ok(), "nothing was changed");
}

#[test]
fn files_that_are_no_store_are_damage_not_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    std::fs::write(dir.path().join("block"), [0; 4096]).unwrap();
    assert!(matches!(open_now(dir.path()), Err(OpenError::Damaged { .. })), "the image is too short");
    std::fs::write(dir.path().join("meta.redb"), vec![0x5a; 100_000]).unwrap();
    assert!(open_now(dir.path()).is_err());
}

#[test]
fn a_bad_byte_on_disk_is_found_and_never_returned() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = fresh(dir.path(), 10 << 20);
    let (c, a, b) = (META, object("a"), object("b"));
    h.commit(|t| t.write(c, &a, 0, vec![0xab; 20_000].into()).write(c, &b, 0, vec![0xcd; 5000].into()));
    drop(h);
    let image = dir.path().join("block");
    let mut bytes = std::fs::read(&image).unwrap();
    let at = bytes.chunks(4096).rposition(|b| b.iter().all(|&x| x == 0xab)).unwrap() * 4096 + 77;
    bytes[at] ^= 4;
    std::fs::write(&image, bytes).unwrap();
    let mut h = reopened(dir.path());
    for verify in [false, true] {
        let mut request = read(c, &a, 0, u64::MAX);
        if let ReadRequest::Data { verify: v, .. } = &mut request {
            *v = verify;
        }
        let Err(error @ StoreError::Checksum { .. }) = h.get(request) else { panic!("returned") };
        assert_eq!((error.fault(), error.errno()), (Fault::Disk, Errno::EIO));
    }
    assert!(h.get(read(c, &a, 0, 4096)).is_ok(), "its neighbours are fine");
    assert_eq!(h.try_data(c, &b), Ok(vec![0xcd; 5000]));
    let partly = h.refused(|t| t.touch(c, &object("new")).write(c, &a, 12_300, Rope::copy_from(b"x")));
    assert!(matches!(partly, StoreError::Checksum { .. }), "nor merged into what is written: {partly}");
    assert_eq!(h.try_head(c, &object("new")), Ok(None));
    h.commit(|t| t.write(c, &a, 0, vec![0xef; 20_000].into()));
    assert_eq!(h.try_data(c, &a), Ok(vec![0xef; 20_000]), "overwritten whole it is fine again");
}

#[test]
fn a_full_store_refuses_whole_transactions_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = fresh(dir.path(), 4 << 20);
    let c = META;
    let empty = h.statfs();
    let name = |i: u32| object(&format!("o{i}"));
    let extra = |i: u32| object(&format!("extra{i}"));
    let fill = |h: &mut Simple, i: u32| {
        h.apply(transaction(|t| {
            t.touch(c, &extra(i)).write(c, &name(i), 0, vec![i as u8 + 1; 300_000].into())
        }))
    };
    let n = (0..100).find(|&i| fill(&mut h, i).is_err()).unwrap();
    assert!((10..15).contains(&n), "{n}");
    let error = fill(&mut h, n).unwrap_err();
    assert!(matches!(error, StoreError::NoSpace { .. }) && error.fault() == Fault::Disk);
    assert_eq!((h.try_head(c, &extra(n)), h.try_head(c, &name(n))), (Ok(None), Ok(None)), "refused whole");
    let mut i = 0;
    while h.statfs().bytes_available > 0 {
        h.commit(|t| t.write(c, &object(&format!("small{i}")), 0, Rope::copy_from(b"x")));
        i += 1;
    }
    h.commit(|t| t.truncate(c, &name(0), 100_001));
    assert_eq!(h.try_data(c, &name(0)), Ok(vec![1; 100_001]), "a full store can be made emptier");
    drop(h);
    let mut h = reopened(dir.path());
    assert_eq!(h.try_data(c, &name(1)), Ok(vec![2; 300_000]));
    let all = h.try_list(c, store::AttrChoice::None).unwrap();
    h.commit(|t| all.iter().fold(t, |t, o| t.remove(c, o)));
    assert_eq!(h.statfs(), empty);
    assert_eq!(fill(&mut h, 0), Ok(()));
}

#[test]
fn what_a_turn_frees_the_same_turn_can_use() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = fresh(dir.path(), 4 << 20);
    let large = vec![7; 3 << 20];
    h.commit(|t| t.write(META, &object("a"), 0, large.clone().into()));
    let tokens = [
        h.queue(transaction(|t| t.remove(META, &object("a")))),
        h.queue(transaction(|t| t.write(META, &object("b"), 0, large.clone().into()))),
        h.queue(transaction(|t| t.remove(META, &object("b")))),
        h.queue(transaction(|t| t.write(META, &object("c"), 0, large.clone().into()))),
    ];
    h.turn();
    for token in tokens {
        assert_eq!(h.outcome(token), Ok(()), "{token:?}");
    }
    assert_eq!(h.try_data(META, &object("c")), Ok(large.clone()));
    let twice =
        h.refused(|t| t.remove(META, &object("c")).write(META, &object("d"), 0, large.clone().into()));
    assert!(matches!(twice, StoreError::NoSpace { .. }), "a crash would need both: {twice}");
    assert_eq!(h.try_data(META, &object("c")), Ok(large));
}

#[test]
fn metadata_counts_against_the_size() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = fresh(dir.path(), 4 << 20);
    let value = || buffer::Piece::copy_from(&[1; 100_000]);
    let entry = |i: u32| vec![(format!("k{i}").as_str().into(), value())];
    let n = (0..100).find(|&i| h.apply(transaction(|t| t.omap_set(META, &object("o"), entry(i)))).is_err());
    assert!((35..42).contains(&n.unwrap()), "{n:?} values of 100 kB in 4 MiB");
    h.commit(|t| t.set_info(META, vec![1; 100]).remove(META, &object("o")));
    assert!(h.statfs().metadata_bytes < 1000);
}

#[test]
fn a_store_whose_device_fails_stops_and_keeps_what_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(10 << 20), &Options::default()).unwrap();
    let (options, power) = switchable();
    let mut h = harness(dir.path(), &options);
    h.commit(|t| t.create_collection(META, 0).write(META, &object("a"), 0, vec![3; 9000].into()));
    power.cut_after(0, None);
    let lost = h.apply(transaction(|t| t.touch(META, &object("b"))));
    assert!(matches!(lost, Err(StoreError::Io { errno: Errno::EIO, .. })), "{lost:?}");
    let (said, file) = (lost.unwrap_err().to_string(), dir.path().join("meta.redb"));
    assert!(said.contains(&format!("{} failed: Input/output error", file.display())), "{said}");
    assert!(said.contains("`dmesg`"), "{said}");
    assert_eq!(h.apply(transaction(|t| t.touch(META, &object("c")))), Err(StoreError::Stopped));
    assert_eq!(h.try_data(META, &object("a")), Err(StoreError::Stopped));
    drop(h);
    let mut h = reopened(dir.path());
    assert_eq!(h.try_data(META, &object("a")), Ok(vec![3; 9000]));
    assert_eq!(h.try_list(META, store::AttrChoice::None), Ok(vec![object("a")]));
    h.commit(|t| t.touch(META, &object("b")));
}

#[test]
fn an_error_of_the_image_names_it_with_the_byte_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(10 << 20), &Options::default()).unwrap();
    let (options, power) = switchable();
    let mut h = harness(dir.path(), &options);
    h.commit(|t| t.create_collection(META, 0).write(META, &object("a"), 0, vec![3; 9000].into()));
    let image = dir.path().join("block");
    power.fail_writes();
    let lost = h.apply(transaction(|t| t.write(META, &object("c"), 0, vec![5; 9000].into())));
    let Err(error @ StoreError::Io { .. }) = lost else { panic!("{lost:?}") };
    let said = error.to_string();
    let words = format!("write to the image: {} failed at byte ", image.display());
    assert!(
        said.starts_with(&words) && said.contains("Input/output error") && said.contains("`dmesg`"),
        "{said}"
    );
}

#[test]
fn damaged_metadata_is_an_error_that_names_the_store_wherever_it_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = fresh(dir.path(), 10 << 20);
    for i in 0..200 {
        h.commit(|t| t.write(META, &object(&format!("o{i}")), 0, Rope::from(vec![i as u8; 5000])));
    }
    drop(h);
    let path = dir.path().join("meta.redb");
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(8 << 10) {
        let mut damaged = whole.clone();
        let end = (at + 4096).min(damaged.len());
        damaged[at..end].iter_mut().enumerate().for_each(|(i, byte)| *byte ^= (i as u8).wrapping_mul(31) | 1);
        std::fs::write(&path, &damaged).unwrap();
        if let Err(error) = open_now(dir.path()) {
            refused += 1;
            let text = error.to_string();
            assert!(text.contains(&dir.path().display().to_string()) && text.lines().count() == 1, "{text}");
        }
    }
    assert!(refused > 3, "{refused} of the places that were damaged are looked at");
    std::fs::write(&path, &whole).unwrap();
    assert!(open_now(dir.path()).is_ok());
}

#[test]
fn a_model_that_there_is_not_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(1 << 20), &Options::default()).unwrap();
    let on = ModelledOn { name: "disk-7200".into(), parameters: "rmp=5400".into() };
    let options = Options { model: Some(on), ..Options::default() };
    let error = simplestore::open(dir.path(), &options).err().unwrap().to_string();
    assert_eq!(error, "the device model 'disk-7200' has no parameter 'rmp'; is 'rpm' meant?");
}

#[test]
fn a_store_on_a_modelled_disk_is_as_slow_as_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(64 << 20), &Options::default()).unwrap();
    // The arm stays, so that a rotation of 600 ms is all that a commit waits for, at least half of it on the mean.
    let parameters =
        "rpm=100,seek_track_ms=0,seek_read_ms=0,seek_write_ms=0,seek_full_ms=0,outer_mb_s=500,inner_mb_s=500";
    let on = ModelledOn { name: "disk-7200".into(), parameters: parameters.into() };
    let options = Options { model: Some(on), ..Options::default() };
    let start = std::time::Instant::now();
    drop(simplestore::open(dir.path(), &options).unwrap());
    assert!(
        start.elapsed().as_millis() > 250,
        "reading the metadata alone takes a rotation: {:?}",
        start.elapsed()
    );
}
