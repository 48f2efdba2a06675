//! What a store says when it can't.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::path::Path;
use std::sync::Arc;

use buffer::Rope;
use simplestore::{Label, ModelledOn, OpenError, Options, SimpleStore, mkfs, open};
use store::conformance::Harness;
use store::{CollectionId, Fault, ReadOutcome, ReadRequest, StatFs, StoreError};
use types::{Fsid, GHObject, HObject, Name, OsdId, PoolId};

fn label(size_bytes: u64) -> Label {
    Label { cluster: Fsid([1; 16]), osd: OsdId(7), osd_uuid: Fsid([2; 16]), size_bytes }
}

fn open_now(dir: &Path) -> Result<SimpleStore, OpenError> {
    open(dir, &Options::default(), Arc::new(|| ()))
}

fn fresh(dir: &Path, size_bytes: u64) -> Harness {
    mkfs(dir, &label(size_bytes), &Options::default()).unwrap();
    let mut h = Harness::new(Box::new(open_now(dir).unwrap()));
    h.commit(|t| {
        t.create_collection(CollectionId::Meta, 0);
    });
    h
}

fn object(name: &str) -> GHObject {
    HObject::head(PoolId(-1), Name::new(), Name::new(), name.into(), 0).into()
}

#[test]
fn a_directory_is_made_once_opened_once_and_remembers_whose_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("osd");
    assert!(matches!(open_now(&dir), Err(OpenError::NotAStore(_))));
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
fn a_newer_format_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    let file = dir.path().join("meta.redb");
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("meta");
    let db = redb::Database::open(&file).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(table).unwrap().insert(&b"format"[..], &2u32.to_le_bytes()[..]).unwrap();
    txn.commit().unwrap();
    drop(db);
    let Err(error) = open_now(dir.path()) else { panic!("opened") };
    let want = "was written by a newer version (store format 2, this one knows 1)";
    assert!(error.to_string().ends_with(want), "{error}");
    assert!(matches!(mkfs(dir.path(), &label(1 << 20), &Options::default()), Err(OpenError::Newer { .. })));
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
    let (c, a, b) = (CollectionId::Meta, object("a"), object("b"));
    h.commit(|t| {
        t.write(c, a.clone(), 0, vec![0xab; 20_000].into()).write(c, b.clone(), 0, vec![0xcd; 5000].into());
    });
    drop(h);
    let image = dir.path().join("block");
    let mut bytes = std::fs::read(&image).unwrap();
    let at = bytes.chunks(4096).rposition(|b| b.iter().all(|&x| x == 0xab)).unwrap() * 4096 + 77;
    bytes[at] ^= 4;
    std::fs::write(&image, bytes).unwrap();
    let mut h = Harness::new(Box::new(open_now(dir.path()).unwrap()));
    let read = |offset, len| ReadRequest::Data { collection: c, object: a.clone(), offset, len };
    let Err(error @ StoreError::Checksum { .. }) = h.get(read(0, u64::MAX)) else { panic!("returned") };
    assert_eq!((error.fault(), error.errno()), (Fault::Disk, types::Errno::EIO));
    assert!(h.get(read(0, 4096)).is_ok(), "its neighbours are fine");
    assert_eq!(h.data(c, &b), vec![0xcd; 5000]);
    let partly = h.refused(|t| {
        t.touch(c, object("new")).write(c, a.clone(), 12_300, Rope::copy_from(b"x"));
    });
    assert!(matches!(partly, StoreError::Checksum { .. }), "nor merged into what is written: {partly}");
    assert_eq!(h.size(c, &object("new")), None);
    h.commit(|t| {
        t.write(c, a.clone(), 0, vec![0xef; 20_000].into());
    });
    assert_eq!(h.data(c, &a), vec![0xef; 20_000], "overwritten whole it is fine again");
}

#[test]
fn a_full_store_refuses_whole_transactions_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = fresh(dir.path(), 4 << 20);
    let c = CollectionId::Meta;
    let statfs = |h: &mut Harness| match h.get(ReadRequest::StatFs) {
        Ok(ReadOutcome::StatFs(s)) => s,
        other => panic!("{other:?}"),
    };
    let empty: StatFs = statfs(&mut h);
    let name = |i: u32| object(&format!("o{i}"));
    let fill = |h: &mut Harness, i: u32| {
        let mut txn = store::Transaction::new();
        txn.touch(c, object(&format!("extra{i}"))).write(c, name(i), 0, vec![i as u8 + 1; 300_000].into());
        h.apply(txn)
    };
    let n = (0..100).find(|&i| fill(&mut h, i).is_err()).unwrap();
    assert!((10..15).contains(&n), "{n}");
    let error = fill(&mut h, n).unwrap_err();
    assert!(matches!(error, StoreError::NoSpace { .. }) && error.fault() == Fault::Disk);
    assert_eq!(
        (h.size(c, &object(&format!("extra{n}"))), h.size(c, &name(n))),
        (None, None),
        "refused whole"
    );
    let mut i = 0;
    while statfs(&mut h).bytes_available > 0 {
        h.commit(|t| {
            t.write(c, object(&format!("small{i}")), 0, Rope::copy_from(b"x"));
        });
        i += 1;
    }
    h.commit(|t| {
        t.truncate(c, name(0), 100_001);
    });
    assert_eq!(h.data(c, &name(0)), vec![1; 100_001], "a full store can be made emptier");
    drop(h);
    let mut h = Harness::new(Box::new(open_now(dir.path()).unwrap()));
    assert_eq!(h.data(c, &name(1)), vec![2; 300_000]);
    let all = h.list(c);
    h.commit(|t| {
        for o in all {
            t.remove(c, o);
        }
    });
    assert_eq!(statfs(&mut h), empty);
    assert_eq!(fill(&mut h, 0), Ok(()));
}

#[test]
fn a_model_that_there_is_not_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(1 << 20), &Options::default()).unwrap();
    let on = ModelledOn { name: "disk-7200".into(), parameters: "rmp=5400".into() };
    let options = Options { model: Some(on), ..Options::default() };
    let error = simplestore::open(dir.path(), &options, Arc::new(|| ())).err().unwrap().to_string();
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
    drop(simplestore::open(dir.path(), &options, Arc::new(|| ())).unwrap());
    assert!(
        start.elapsed().as_millis() > 250,
        "reading the metadata alone takes a rotation: {:?}",
        start.elapsed()
    );
}
