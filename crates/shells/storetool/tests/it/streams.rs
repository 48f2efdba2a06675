//! A PG goes through a file unchanged, and no damaged file is taken for one.

use crate::common::{expect_equal, fill, make_block, make_simple, owner, pg};
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
