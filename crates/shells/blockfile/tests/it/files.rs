//! What is particular to stores on files: whose they are, what is wrong with them, and how they are driven.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{META, PROPERTIES, error, make_with_object, object, owner, read, shrinks_below};
use blockfile::{
    BLOCK_BYTES, BlockFileStore, Blocking, FileSpace, LogPlace, NewStore, OpenError, Options, Owner, expand,
    fsck, handles, logs_bytes, mkfs, move_log, open, open_any, open_to_read, path_in, shards_in, shards_of,
};
use store::conformance::{Harness, Properties};
use store::{Completion, ObjectStore, ReadOutcome, ReadRequest, Token, Transaction};
use tempfile::TempDir;
use types::{Fsid, OsdId, UTime};

const SIZE: u64 = 64 << 20;

/// A directory whose store has one collection and an object with these bytes.
fn with_object(bytes: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    make_with_object(dir.path(), &owner(3), &NewStore::file(SIZE), bytes);
    dir
}

#[test]
fn what_was_committed_is_read_after_opening_again() {
    let dir = with_object(&[7; 10_000]);
    let mut h = Harness::new(open(dir.path(), &owner(3), &Options::default()).unwrap(), PROPERTIES);
    let Ok(ReadOutcome::Data(data)) = h.get(read(&object("a"), u64::MAX)) else { panic!("no data") };
    assert_eq!(data.to_vec(), vec![7; 10_000]);
}

#[test]
fn a_store_is_opened_for_its_owner_alone_and_once_at_a_time() {
    let dir = with_object(b"x");
    let others = [
        Owner { osd: OsdId(4), ..owner(3) },
        Owner { cluster: Fsid([9; 16]), ..owner(3) },
        Owner { osd_uuid: Fsid([9; 16]), ..owner(3) },
    ];
    for other in others {
        let text = error(dir.path(), &other).to_string();
        assert!(text.contains("is the store of osd.3") && text.contains(&other.to_string()), "{text}");
    }
    let held = open(dir.path(), &owner(3), &Options::default()).unwrap();
    assert!(matches!(error(dir.path(), &owner(3)), OpenError::InUse(_)));
    drop(held);
    open(dir.path(), &owner(3), &Options::default()).unwrap();
}

/// A copy of a directory has its links, and no lock on what they lead to.
#[test]
fn an_image_file_is_one_stores_at_a_time_by_whatever_name() {
    let dir = with_object(b"x");
    let image = path_in(dir.path());
    let (linked, hard, other) = (
        tempfile::tempdir_in(dir.path()).unwrap(),
        tempfile::tempdir_in(dir.path()).unwrap(),
        tempfile::tempdir_in(dir.path()).unwrap(),
    );
    symlink(&image, path_in(linked.path())).unwrap();
    std::fs::hard_link(&image, path_in(hard.path())).unwrap();
    let held = open(dir.path(), &owner(3), &Options::default()).unwrap();
    for copy in [linked.path(), hard.path()] {
        let is_refused = |refused: Option<OpenError>| {
            let text = refused.as_ref().map(ToString::to_string);
            assert!(matches!(refused, Some(OpenError::InUse(path)) if path == path_in(copy)), "{text:?}");
        };
        let (options, new) = (Options::default(), NewStore::file(SIZE));
        is_refused(open(copy, &owner(3), &options).err());
        is_refused(open_any(copy, &options).err());
        is_refused(open_to_read(copy, &options).err());
        is_refused(expand(copy, Some(2 * SIZE), &options).err());
        is_refused(mkfs(copy, &owner(3), &new, &options).err());
        let log = LogPlace { path: other.path().join("log"), overwrite: false };
        is_refused(move_log(copy, None, Some(&log), &options).err());
        assert!(!log.path.exists());
    }
    drop(held);
    for dir in [linked.path(), hard.path(), dir.path()] {
        open(dir, &owner(3), &Options::default()).unwrap();
    }
}

/// Where a store of one shard has its two pairs of superblocks.
fn superblocks() -> [u64; 2] {
    [BLOCK_BYTES, 3 * BLOCK_BYTES + logs_bytes(SIZE, 1, false)]
}

/// A check names them, and the next openings write them anew.
#[test]
fn a_store_that_lost_its_superblocks_in_one_place_has_everything() {
    for pair in superblocks() {
        let dir = with_object(&[7; 10_000]);
        let opened = || Blocking::new(open(dir.path(), &owner(3), &Options::default()).unwrap());
        drop(opened());
        let file = File::options().read(true).write(true).open(path_in(dir.path())).unwrap();
        file.write_all_at(&[0; 8192], pair).unwrap();
        let mut store = opened();
        let found = fsck(&mut store, true, &mut |_| ());
        assert_eq!((found.problems.len(), found.objects, found.bytes), (0, 1, 10_000), "{found:?}");
        let names = |note: &String| [pair, pair + BLOCK_BYTES].map(|at| note.contains(&at.to_string()));
        let named: Vec<_> = found.notes.iter().map(names).collect();
        assert_eq!(named, [[true, false], [false, true]], "{:?}", found.notes);
        drop(store);
        drop(opened());
        let found = fsck(&mut opened(), true, &mut |_| ());
        assert_eq!((found.notes, found.problems), (vec![], vec![]));
    }
}

#[test]
fn what_is_missing_cut_or_damaged_is_named_with_its_file() {
    let dir = with_object(b"x");
    let (path, name) = (path_in(dir.path()), path_in(dir.path()).display().to_string());
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.set_len(SIZE / 2).unwrap();
    let text = error(dir.path(), &owner(3)).to_string();
    assert!(text.contains(&name) && text.contains("32 MiB") && text.contains("64 MiB"), "{text}");
    file.set_len(SIZE).unwrap();
    // All superblocks.
    for pair in superblocks() {
        file.write_all_at(&[0x55; 8192], pair).unwrap();
    }
    let text = error(dir.path(), &owner(3)).to_string();
    assert!(text.contains(&name) && text.contains("superblock"), "{text}");
    file.write_all_at(&[0x55; 100], 0).unwrap();
    let text = error(dir.path(), &owner(3)).to_string();
    assert!(text.contains(&name) && text.contains("no block store"), "{text}");
    // Nothing is made over it.
    let again = mkfs(dir.path(), &owner(3), &NewStore::file(SIZE), &Options::default());
    assert!(matches!(again, Err(OpenError::Exists(_))), "{again:?}");
    file.set_len(100).unwrap();
    let text = error(dir.path(), &owner(3)).to_string();
    assert!(
        text.contains("it has 100 bytes, too few for a store's label: the file was made shorter"),
        "{text}"
    );
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(error(dir.path(), &owner(3)), OpenError::NoFile(named) if named == path));
    symlink("gone", &path).unwrap();
    let there = dir.path().join("gone");
    assert!(
        matches!(error(dir.path(), &owner(3)), OpenError::NoData { link, path: at } if link == path && at == there)
    );
}

#[test]
fn a_device_or_a_directory_that_is_not_there_is_named_where_a_store_is_to_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let (store, gone) = (dir.path().join("store"), dir.path().join("gone"));
    let on = NewStore { device: Some(gone.clone()), ..NewStore::file(SIZE) };
    let refused = mkfs(&store, &owner(3), &on, &Options::default());
    assert!(matches!(refused, Err(OpenError::MissingDevice(path)) if path == gone));
    let log = LogPlace { path: gone.join("log"), overwrite: false };
    let refused =
        mkfs(&store, &owner(3), &NewStore { log: Some(log), ..NewStore::file(SIZE) }, &Options::default());
    assert!(matches!(refused, Err(OpenError::NoDirectory(path)) if path == gone.join("log")));
}

/// A store that is dropped is closed in order: that its log was damaged since does not go unnoticed.
#[test]
fn a_log_that_was_lost_since_the_store_was_closed_is_missed() {
    let dir = with_object(&[7; 10_000]);
    let log = 3 * BLOCK_BYTES..3 * BLOCK_BYTES + logs_bytes(SIZE, 1, false);
    let file = File::options().read(true).write(true).open(path_in(dir.path())).unwrap();
    file.write_all_at(&vec![0; (log.end - log.start) as usize], log.start).unwrap();
    let text = error(dir.path(), &owner(3)).to_string();
    assert!(text.contains("the log is corrupt"), "{text}");
}

/// All shards are loaded before the first one is written to.
#[test]
fn a_store_with_a_shard_that_is_refused_is_left_as_it_is() {
    const BYTES: u64 = 512 << 20;
    let dir = with_shards(BYTES, 2);
    let pg = |seed| store::CollectionId::Pg(types::PgId { pool: types::PoolId(1), seed }.into());
    let properties = Properties { shards: 2, ..PROPERTIES };
    let mut h = Harness::new(open(dir.path(), &owner(3), &Options::default()).unwrap(), properties);
    (0..2).for_each(|seed| h.commit(|t| t.create_collection(pg(seed), 1)));
    drop(h.take());
    let file = File::options().read(true).write(true).open(path_in(dir.path())).unwrap();
    let log = BLOCK_BYTES + (BYTES - BLOCK_BYTES) / 2 / BLOCK_BYTES * BLOCK_BYTES + 2 * BLOCK_BYTES;
    let mut records = vec![0; 1 << 20];
    file.read_exact_at(&mut records, log).unwrap();
    file.write_all_at(&vec![0; 1 << 20], log).unwrap();
    let sum = || {
        let mut bytes = vec![0; 1 << 20];
        (0..BYTES).step_by(1 << 20).fold(!0, |sum, at| {
            file.read_exact_at(&mut bytes, at).unwrap();
            buffer::crc32c(sum, &bytes)
        })
    };
    let before = sum();
    let text = error(dir.path(), &owner(3)).to_string();
    assert!(text.contains("shard 1: the log is corrupt"), "{text}");
    assert_eq!(sum(), before, "nothing is written");
    file.write_all_at(&records, log).unwrap();
    open(dir.path(), &owner(3), &Options::default()).unwrap();
}

#[test]
fn a_making_that_was_interrupted_is_done_again() {
    let dir = tempfile::tempdir().unwrap();
    // As long as it is to be, with parts of a log, and without a label.
    let file = File::create(path_in(dir.path())).unwrap();
    file.set_len(SIZE).unwrap();
    file.write_all_at(&[1; 4096], 1 << 20).unwrap();
    mkfs(dir.path(), &owner(3), &NewStore::file(SIZE), &Options::default()).unwrap();
    open(dir.path(), &owner(3), &Options::default()).unwrap();
}

/// A transaction's outcome without another turn.
fn completes(store: &mut BlockFileStore, token: Token) -> bool {
    let (end, mut out) = (Instant::now() + Duration::from_secs(20), Vec::new());
    while Instant::now() < end {
        store.completions(&mut out);
        if out.contains(&Completion::Committed { token }) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn an_acknowledgement_holds_no_completion_back() {
    let dir = with_object(b"x");
    let mut store = open(dir.path(), &owner(3), &Options::default()).unwrap();
    let mut txn = Transaction::new();
    txn.write(META, &object("b"), 0, vec![1; 1 << 20].into());
    store.queue(txn, Token(1));
    store.turn(UTime::default());
    store.acknowledge(Token(77));
    assert!(completes(&mut store, Token(1)));
}

#[test]
fn a_file_takes_the_disk_in_steps() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &owner(3), &NewStore::file(1 << 30), &Options::default()).unwrap();
    let given = || crate::common::given(dir.path());
    let mut h = Harness::new(open(dir.path(), &owner(3), &Options::default()).unwrap(), PROPERTIES);
    h.commit(|t| t.create_collection(META, 0));
    assert!(given() < 200 << 20, "{} bytes for an empty store", given());
    for n in 0..60u8 {
        h.commit(|t| t.write(META, &object(&format!("{n}")), 0, vec![n; 4 << 20].into()));
    }
    assert!((240 << 20..480 << 20).contains(&given()), "{} bytes for 240 MiB", given());
    drop(h.take());
    let before = given();
    let mut h = Harness::new(open(dir.path(), &owner(3), &Options::default()).unwrap(), PROPERTIES);
    assert!(given() <= before.next_multiple_of(64 << 20) + (64 << 20));
    for n in [0, 30, 59u8] {
        let data = h.get(read(&object(&format!("{n}")), u64::MAX));
        let Ok(ReadOutcome::Data(data)) = data else { panic!("no data") };
        assert!(data.to_vec() == vec![n; 4 << 20]);
    }
}

/// A store of some shards.
fn with_shards(size: u64, shards: u32) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let new = NewStore { shards, ..NewStore::file(size) };
    mkfs(dir.path(), &owner(3), &new, &Options::default()).unwrap();
    dir
}

#[test]
fn a_store_has_as_many_shards_as_it_is_large_enough_for() {
    for (size, wanted, shards) in [(SIZE, 2, 1), (1 << 30, 2, 2), (1 << 30, 9, 4), (40 << 30, 1000, 64)] {
        assert_eq!(shards_of(size, wanted), shards, "{wanted} shards of {size} bytes");
        // The logs are written whole.
        for (takes_all, most) in [(false, 64 << 20), (true, 128 << 20)] {
            let bytes = logs_bytes(size, wanted, takes_all);
            assert!(bytes <= most || shards > 16, "{wanted} shards of {size} bytes");
        }
    }
    // A 64th of the store, between bounds that are higher where the store takes all of it at once.
    let of = |size, shards| [false, true].map(|takes_all| logs_bytes(size, shards, takes_all) >> 20);
    assert_eq!([of(1 << 30, 1), of(4 << 30, 1), of(8 << 30, 2)], [[16, 16], [32, 64], [64, 128]]);
    assert_eq!(of(40 << 30, 64), [512, 512], "8 MiB each at least");
    let dir = with_shards(1 << 30, 2);
    assert_eq!(shards_in(dir.path()).unwrap(), 2);
    assert_eq!(open(dir.path(), &owner(3), &Options::default()).unwrap().shards(), 2);
}

#[test]
fn the_handles_of_a_store_share_nothing() {
    let dir = with_shards(2 << 30, 3);
    let store = open(dir.path(), &owner(3), &Options::default()).unwrap();
    let handles = store.into_handles();
    // The directory is in use as long as one of them is.
    assert!(matches!(error(dir.path(), &owner(3)), OpenError::InUse(_)));
    store::conformance::handles_share_nothing(handles, PROPERTIES);
    open(dir.path(), &owner(3), &Options::default()).unwrap();
}

#[test]
fn each_shard_grows_in_its_part_of_the_file_and_counts_what_it_holds() {
    const PART: u64 = 512 << 20;
    let dir = with_shards(2 * PART, 2);
    let pg = |seed| store::CollectionId::Pg(types::PgId { pool: types::PoolId(1), seed }.into());
    let properties = Properties { shards: 2, ..PROPERTIES };
    let options = Options::default();
    let mut h = Harness::new(open(dir.path(), &owner(3), &options).unwrap(), properties);
    let space = |h: &mut Harness<BlockFileStore>| match h.get(ReadRequest::StatFs) {
        Ok(ReadOutcome::StatFs(space)) => space,
        other => panic!("{other:?}"),
    };
    let empty = space(&mut h);
    assert!((PART..2 * PART).contains(&empty.bytes_total), "{empty:?}");
    for seed in 0..2u32 {
        assert_eq!(h.shard_of(pg(seed)), store::StoreShard((seed + 1) % 2));
        h.commit(|t| t.create_collection(pg(seed), 1));
        for n in 0..40u8 {
            h.commit(|t| t.write(pg(seed), &object(&n.to_string()), 0, vec![n; 4 << 20].into()));
        }
    }
    let full = space(&mut h);
    assert_eq!((full.data_bytes, full.objects), (320 << 20, 80));
    let given = std::fs::metadata(path_in(dir.path())).unwrap().blocks() * 512;
    assert!((320 << 20..640 << 20).contains(&given), "{given} bytes for 320 MiB");
    drop(h.take());
    let mut h = Harness::new(open(dir.path(), &owner(3), &options).unwrap(), properties);
    assert_eq!(h.get(ReadRequest::Collections), Ok(ReadOutcome::Collections(vec![pg(0), pg(1)])));
    for seed in 0..2 {
        for n in [0, 17, 39u8] {
            let read = ReadRequest::Data {
                collection: pg(seed),
                object: object(&n.to_string()),
                offset: 0,
                len: u64::MAX,
                advice: store::Advice::default(),
                verify: true,
            };
            let Ok(ReadOutcome::Data(data)) = h.get(read) else { panic!("no data") };
            assert!(data.to_vec() == vec![n; 4 << 20]);
        }
    }
    assert_eq!(space(&mut h).data_bytes, 320 << 20);
}

#[test]
fn what_waits_for_the_file_to_grow_completes_for_a_caller_that_only_collects_when_it_is_woken() {
    let dir = with_shards(1 << 30, 1);
    let mut h = Harness::new(open(dir.path(), &owner(3), &Options::default()).unwrap(), PROPERTIES);
    h.commit(|t| t.create_collection(META, 0));
    // Three steps of growth, none of which any turn follows.
    let tokens: Vec<_> = (0..50u8)
        .map(|n| {
            let mut txn = store::Transaction::new();
            txn.write(META, &object(&n.to_string()), 0, vec![n; 4 << 20].into());
            h.queue(txn)
        })
        .collect();
    tokens.into_iter().for_each(|token| drop(h.wait(token)));
    drop(h.take());
}

#[test]
fn a_collection_that_was_on_its_way_arrives_before_a_core_has_its_shard() {
    let dir = with_shards(1 << 30, 2);
    let (options, properties) = (Options::default(), Properties { shards: 2, ..PROPERTIES });
    let mut h = Harness::new(open(dir.path(), &owner(3), &options).unwrap(), properties);
    let (from, to) = (h.shard_of(META), store::StoreShard(1));
    assert_eq!(from, store::StoreShard(0));
    h.commit(|t| t.create_collection(META, 0));
    for n in 0..5u8 {
        h.commit(|t| t.write(META, &object(&n.to_string()), 0, vec![n; 9000].into()));
    }
    assert_eq!(h.rehome(META, to, 2), Ok(store::Rehoming::Continues));
    drop(h.take());
    let store = open(dir.path(), &owner(3), &options).unwrap();
    assert_eq!((store.on_their_way(), store.shard_of(META)), (vec![(META, to)], from));
    let mut all = handles(store).unwrap();
    for (shard, collections) in [(1, vec![META]), (0, vec![])] {
        let mut h = Harness::new(all.remove(shard), PROPERTIES);
        assert_eq!(h.get(ReadRequest::Collections), Ok(ReadOutcome::Collections(collections)));
        if shard == 1 {
            let Ok(ReadOutcome::Data(data)) = h.get(read(&object("4"), u64::MAX)) else { panic!("no data") };
            assert_eq!(data.to_vec(), vec![4; 9000]);
            assert!(
                matches!(h.get(ReadRequest::StatFs), Ok(ReadOutcome::StatFs(space)) if space.objects == 5)
            );
        }
    }
}

/// An open store of 1 GiB whose file follows what the store holds, and what its file has been given.
fn following(dir: &Path) -> Harness<BlockFileStore> {
    let options = Options { file_space: FileSpace::Follows, ..Options::default() };
    Harness::new(open(dir, &owner(3), &options).unwrap(), PROPERTIES)
}

#[test]
fn a_file_gives_back_what_is_deleted_and_takes_it_again() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &owner(3), &NewStore::file(1 << 30), &Options::default()).unwrap();
    let mut h = following(dir.path());
    h.commit(|t| t.create_collection(META, 0));
    let fill = |h: &mut Harness<BlockFileStore>, add: u8| {
        for n in 0..120u8 {
            h.commit(|t| t.write(META, &object(&format!("{n}")), 0, vec![n + add; 4 << 20].into()));
        }
    };
    let remove = |h: &mut Harness<BlockFileStore>| {
        for n in (0..120u8).filter(|n| n % 10 != 0) {
            h.commit(|t| t.remove(META, &object(&format!("{n}"))));
        }
    };
    fill(&mut h, 0);
    remove(&mut h);
    assert!(shrinks_below(&mut h, dir.path(), 300 << 20), "what was deleted is still taken");
    for n in (0..120u8).step_by(10) {
        let Ok(ReadOutcome::Data(data)) = h.get(read(&object(&format!("{n}")), u64::MAX)) else {
            panic!("no data")
        };
        assert!(data.to_vec() == vec![n; 4 << 20], "object {n} after holes were made");
    }
    fill(&mut h, 100);
    // A process that ends before holes are made leaves that to the next.
    remove(&mut h);
    drop(h.take());
    let mut h = following(dir.path());
    assert!(shrinks_below(&mut h, dir.path(), 300 << 20), "what an earlier process deleted is still taken");
    for n in (0..120u8).step_by(10) {
        let Ok(ReadOutcome::Data(data)) = h.get(read(&object(&format!("{n}")), u64::MAX)) else {
            panic!("no data")
        };
        assert!(data.to_vec() == vec![n + 100; 4 << 20], "object {n}");
    }
}

#[test]
fn a_file_that_was_written_whole_stays_whole() {
    let dir = tempfile::tempdir().unwrap();
    let new = NewStore { preallocate: true, ..NewStore::file(SIZE * 3) };
    mkfs(dir.path(), &owner(3), &new, &Options::default()).unwrap();
    let options = Options { file_space: FileSpace::Whole, ..Options::default() };
    let mut h = Harness::new(open(dir.path(), &owner(3), &options).unwrap(), PROPERTIES);
    assert!(h.store().handles()[0].inner().spare_bytes() > SIZE * 2);
    for second in 0..30 {
        h.store().turn(UTime::from_nanos(u64::MAX / 2).after(Duration::from_secs(second)));
    }
    drop(h.take());
    assert!(std::fs::metadata(path_in(dir.path())).unwrap().blocks() * 512 >= SIZE * 3);
}
