//! A PG goes through a file unchanged, and no damaged file is taken for one.

use std::os::unix::fs::FileExt;

use crate::common::{
    SIZE_BYTES, expect_equal, fill, make_block, make_simple, object, open_block, owner, pg, version,
};
use buffer::{Piece, Rope};
use store::CollectionId;
use storetool::{Ended, Header, PgError, Reader, Record, StreamError, StreamReader, StreamWriter, Writer};
use tempfile::TempDir;
use types::{Epoch, Fsid, OsdId, PgId, PoolId};

fn header() -> Header {
    let pg = PgId { pool: PoolId(1), seed: 0 };
    let (cluster, osd, epoch) = (Fsid([1; 16]), OsdId(3), Epoch(17));
    Header { cluster, osd, epoch, pool: "p".to_owned(), pg_num: 8, pg }
}

/// Every PG of a filled store as a file, with its records.
fn files() -> Vec<(Vec<u8>, Vec<Record>)> {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let mut store = make_simple(dir.path(), 3);
    fill(&mut store);
    let mut files = Vec::new();
    for collection in store.collections().unwrap() {
        let (mut reader, mut bytes, mut records) = (Reader::new(collection), Vec::new(), Vec::new());
        let mut stream = StreamWriter::new(&mut bytes, &header()).unwrap();
        while let Some(record) = reader.next(&mut store).unwrap() {
            stream.put(&record).unwrap();
            records.push(record);
        }
        files.push((bytes, records));
    }
    files
}

fn read(bytes: &[u8]) -> Result<(Header, Vec<Record>), StreamError> {
    let (mut stream, header) = StreamReader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = stream.next_record()? {
        records.push(record);
    }
    Ok((header, records))
}

#[test]
fn records_come_back_and_make_the_same_store() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let (mut again, mut reference) =
        (make_block(&dir.path().join("a"), 3), make_simple(&dir.path().join("b"), 3));
    fill(&mut reference);
    for (bytes, records) in files() {
        let (found, back) = read(&bytes).unwrap();
        assert_eq!((found, &back), (header(), &records));
        let mut writer = Writer::new();
        back.into_iter().for_each(|record| writer.put(&mut again, record).unwrap());
    }
    expect_equal(&mut reference, &mut again, "through files");
}

#[test]
fn every_cut_and_every_flipped_byte_is_found() {
    let (bytes, records) = files().remove(0);
    assert!(bytes.len() < 2000, "a small one: {} bytes", bytes.len());
    for len in 0..bytes.len() {
        let error = read(&bytes[..len]).unwrap_err();
        assert!(matches!(error, StreamError::Cut(_) | StreamError::NoExport), "{len} bytes: {error}");
    }
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        assert!(read(&bad).is_err(), "byte {at}");
    }
    for more in [&bytes[..], b"L"] {
        let error = read(&[&bytes, more].concat()).unwrap_err();
        assert!(matches!(error, StreamError::GoesOn(at) if at == bytes.len() as u64), "{error}");
    }
    // Frames in another order, with checksums of their own that are right.
    let mut stream = Vec::new();
    let mut writer = StreamWriter::new(&mut stream, &header()).unwrap();
    let (end, others) = records.split_last().unwrap();
    others.iter().rev().chain([end]).for_each(|record| writer.put(record).unwrap());
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let (mut reader, _) = StreamReader::new(&stream[..]).unwrap();
    let refused = Writer::new().put(&mut make_block(dir.path(), 3), reader.next_record().unwrap().unwrap());
    assert!(refused.unwrap_err().to_string().contains("nothing like it belongs"));
}

#[test]
fn a_later_format_is_named() {
    let (bytes, _) = files().remove(0);
    // Behind the magic, a frame's length and checksum, and the kind; the checksum is that of the whole body.
    let (length, body) = (u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize, 16);
    let mut newer = bytes;
    newer[body + 1..body + 5].copy_from_slice(&7u32.to_le_bytes());
    let sum = buffer::crc32c(!0, &newer[body..body + length]);
    newer[12..16].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(read(&newer), Err(StreamError::Newer(7))));
}

#[test]
fn a_store_without_maps_and_a_pg_that_is_not_there_are_refused() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let mut store = make_block(dir.path(), 3);
    fill(&mut store);
    let absent = PgId { pool: PoolId(1), seed: 7 };
    let mut on = |_: &storetool::Progress| Ok::<(), Ended>(());
    let refused = storetool::export(&mut store, &owner(3), absent, Vec::new(), &mut on);
    assert!(matches!(refused, Err(PgError::NoPg(pg)) if pg == absent));
    let mut file = Vec::new();
    let there = PgId { pool: PoolId(1), seed: 0 };
    storetool::export(&mut store, &owner(3), there, &mut file, &mut on).unwrap();
    let other = blockfile::Owner { cluster: Fsid([9; 16]), ..owner(3) };
    let refused = storetool::import(&mut store, &other, &file[..], false, &mut on);
    assert!(matches!(refused, Err(PgError::OtherCluster { .. })));
    let refused = storetool::import(&mut store, &owner(3), &file[..], false, &mut on);
    assert!(matches!(refused, Err(PgError::Maps(_))), "{refused:?}");
    storetool::remove_collection(&mut store, pg(0)).unwrap();
    assert!(!store.collections().unwrap().contains(&pg(0)));
}

#[test]
fn a_removed_pg_leaves_nothing_and_others_alone_also_if_it_was_ended() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let mut store = make_block(&dir.path().join("a"), 3);
    fill(&mut store);
    let before = space(&mut store);
    let of = |seed| PgId { pool: PoolId(1), seed };
    let mut txn = store::Transaction::new();
    txn.touch(pg(2), &types::GHObject::pgmeta(PoolId(1), 2, types::ShardId::NONE));
    store.commit(txn).unwrap();
    let written = storetool::export(&mut store, &owner(3), of(2), Vec::new(), &mut |_| Ok(())).unwrap();
    assert_eq!((written.objects, written.of_clients()), (8, 7), "all, and without the PG's own records");
    let ended = storetool::remove(&mut store, of(1), &mut |_| Err(Ended));
    assert!(matches!(ended, Err(PgError::Ended(_))), "{ended:?}");
    assert_eq!(storetool::is_whole(&mut store, pg(1)).unwrap(), Some(false), "it is no PG any more");
    for seed in 0..3 {
        let removed = storetool::remove(&mut store, of(seed), &mut |_| Ok(())).unwrap();
        assert_eq!((removed.collections, removed.objects), (1, 7));
        assert!(removed.bytes > 1 << 20, "{removed:?}");
        assert!(!store.collections().unwrap().contains(&pg(seed)));
    }
    let refused = storetool::remove(&mut store, of(1), &mut |_| Ok(()));
    assert!(matches!(refused, Err(PgError::NoPg(_))), "{refused:?}");
    assert_eq!(store.collections().unwrap().len(), 4, "the others");
    let after = space(&mut store);
    assert!(after < before / 10, "{after} bytes of data of {before}");
    assert_eq!(blockfile::fsck(&mut store, true, &mut |_| ()).problems, [""; 0]);
}

#[test]
fn of_a_pg_with_damage_everything_else_is_removed() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let (at, log) = (dir.path().join("a"), dir.path().join("log"));
    let mut store = make_block(&at, 3);
    let mut txn = store::Transaction::new();
    txn.create_collection(pg(0), 3);
    for n in 0..600 {
        let mark = format!("the attribute of object {n:03}");
        txn.set_attr(pg(0), &object(&format!("{n:03}")), "of a client", Piece::copy_from(mark.as_bytes()));
    }
    store.commit(txn).unwrap();
    drop(store);
    // A log that moves is empty: everything is in the tree.
    let place = blockfile::LogPlace { path: log, overwrite: false };
    blockfile::move_log(&at, None, Some(&place), &blockfile::Options::default()).unwrap();
    let (block, mark) = (blockfile::path_in(&at), b"the attribute of object 300");
    let text = std::fs::read(&block).unwrap();
    let logs = blockfile::logs_bytes(SIZE_BYTES, 1, false) as usize;
    let found = text[logs..].windows(mark.len()).position(|bytes| bytes == mark).unwrap() + logs;
    let file = std::fs::File::options().write(true).open(&block).unwrap();
    file.write_all_at(b"T", found as u64).unwrap();

    let mut store = open_block(&at);
    let pg_id = PgId { pool: PoolId(1), seed: 0 };
    let Err(PgError::Remains { removed, left, .. }) = storetool::remove(&mut store, pg_id, &mut |_| Ok(()))
    else {
        panic!("it is removed in spite of the damage")
    };
    // Those of one page.
    assert!(left.objects < 300 && removed.objects + left.objects == 600, "{removed:?}, left: {left}");
    assert_eq!(left.gaps, 0);
    let (rest, _) = store.objects(pg(0), types::GHObject::min()).unwrap();
    assert_eq!((rest.len() as u64, rest.contains(&object("300"))), (left.objects, true));
    assert_eq!(storetool::is_whole(&mut store, pg(0)).unwrap(), Some(false));
}

#[test]
fn a_removal_goes_on_behind_what_can_not_be_listed() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let (at, log) = (dir.path().join("a"), dir.path().join("log"));
    let mut store = make_block(&at, 3);
    let mut txn = store::Transaction::new();
    // The pages of what is made first have copies.
    txn.create_collection(CollectionId::Meta, 0);
    for n in 0..60 {
        txn.touch(CollectionId::Meta, &object(&format!("first {n:03}")));
    }
    txn.create_collection(pg(0), 3);
    for n in 0..600 {
        txn.write(pg(0), &object(&format!("needle {n:03}")), 0, Rope::from(vec![n as u8; 4096]));
    }
    store.commit(txn).unwrap();
    let before = space(&mut store);
    drop(store);
    let place = blockfile::LogPlace { path: log, overwrite: false };
    blockfile::move_log(&at, None, Some(&place), &blockfile::Options::default()).unwrap();
    let block = blockfile::path_in(&at);
    let text = std::fs::read(&block).unwrap();
    let file = std::fs::File::options().write(true).open(&block).unwrap();
    for name in [b"needle 200", b"needle 400"] {
        let found = (0..text.len() - name.len()).filter(|at| text[*at..].starts_with(name));
        found.for_each(|at| file.write_all_at(b"N", at as u64).unwrap());
    }

    let pg_id = PgId { pool: PoolId(1), seed: 0 };
    for removes in [true, false] {
        let mut store = open_block(&at);
        let Err(error) = storetool::remove(&mut store, pg_id, &mut |_| Ok(())) else {
            panic!("it is removed in spite of the damage")
        };
        let text = error.to_string();
        assert!(text.contains("2 gaps in its list can't be read: damaged store: "), "{text}");
        let PgError::Remains { removed, left, .. } = error else { panic!("{error}") };
        assert_eq!((left.objects, left.gaps), (0, 2));
        if removes {
            // A page has some 80 of them.
            assert!((300..600).contains(&removed.objects), "{removed:?}");
            assert_eq!(removed.bytes, removed.objects * 4096);
            assert_eq!(before - space(&mut store), removed.bytes, "all that is free is of what was removed");
        } else {
            assert_eq!(removed.objects, 0, "nothing else can be removed");
        }
        assert_eq!(storetool::is_whole(&mut store, pg(0)).unwrap(), Some(false));
    }
}

/// A PG's log goes with its collection, at the end.
#[test]
fn a_removal_says_what_it_has_done_though_the_log_can_not_be_read() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let (at, log) = (dir.path().join("a"), dir.path().join("log"));
    let mut store = make_block(&at, 3);
    let mut txn = store::Transaction::new();
    txn.create_collection(pg(0), 3).write(pg(0), &object("a"), 0, Rope::from(vec![1; 5000]));
    for n in 1..600 {
        let record = format!("the record with number {n:03}").into_bytes();
        txn.log_append(pg(0), version(n), store::LogRecordKind::Entry, record);
    }
    store.commit(txn).unwrap();
    drop(store);
    let place = blockfile::LogPlace { path: log, overwrite: false };
    blockfile::move_log(&at, None, Some(&place), &blockfile::Options::default()).unwrap();
    let (block, mark) = (blockfile::path_in(&at), b"the record with number 300");
    let text = std::fs::read(&block).unwrap();
    let file = std::fs::File::options().write(true).open(&block).unwrap();
    let found = (0..text.len() - mark.len()).filter(|at| text[*at..].starts_with(mark));
    found.for_each(|at| file.write_all_at(b"T", at as u64).unwrap());

    let mut store = open_block(&at);
    let pg_id = PgId { pool: PoolId(1), seed: 0 };
    let Err(error) = storetool::remove(&mut store, pg_id, &mut |_| Ok(())) else {
        panic!("it is removed in spite of the damage")
    };
    let text = error.to_string();
    let told = "1 objects were removed; its own records can't be removed: damaged store: ";
    assert!(text.contains(told), "{text}");
    assert_eq!((space(&mut store), storetool::is_whole(&mut store, pg(0))), (0, Ok(Some(false))));
}

fn space(store: &mut blockfile::Blocking<blockfile::BlockFileStore>) -> u64 {
    match store.read(store::ReadRequest::StatFs) {
        Ok(store::ReadOutcome::StatFs(space)) => space.data_bytes,
        other => panic!("{other:?}"),
    }
}
