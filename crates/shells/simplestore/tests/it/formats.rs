//! Every format that was ever released opens. `tests/formats/N` is a directory written by a build of format N: its two
//! files, of which only the blocks that are not zero are kept.
//!
//! For a new format: `cargo test -p simplestore --test it formats -- --ignored` writes the directory of the format that the
//! build has, unless it is there already. A directory is never written again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::{Look, META, Simple, harness, label, mkfs, object, pg, reopened, version};
use buffer::Piece;
use simplestore::{FORMAT, Options};
use store::{
    AllocHint, AttrChoice, CollectionStat, LogRecord, LogRecordKind, ObjectChange, ReadOutcome, ReadRequest,
};
use types::{GHObject, Name};

const FILES: [&str; 2] = ["meta.redb", "block"];
const IMAGE_BYTES: u64 = 256 << 10;
const BLOCK: usize = 4096;

fn kept(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(format.to_string())
}

/// A file, whose length is a multiple of the block's, as its length and the blocks that are not zero, each behind its number (all u64, little-endian).
fn pack(file: &[u8]) -> Vec<u8> {
    assert_eq!(file.len() % BLOCK, 0);
    let mut packed = (file.len() as u64).to_le_bytes().to_vec();
    for (number, block) in file.chunks(BLOCK).enumerate().filter(|(_, block)| block.iter().any(|&b| b != 0)) {
        packed.extend((number as u64).to_le_bytes());
        packed.extend(block);
    }
    packed
}

fn unpack(packed: &[u8], path: &Path) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let file = File::create_new(path).unwrap();
    file.set_len(number(&packed[..8])).unwrap();
    for part in packed[8..].chunks(BLOCK + 8) {
        file.write_all_at(&part[8..], number(&part[..8]) * BLOCK as u64).unwrap();
    }
}

/// A copy of what is kept of a format.
fn unpacked(format: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in FILES {
        unpack(&std::fs::read(kept(format).join(name)).unwrap(), &dir.path().join(name));
    }
    dir
}

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| seed.wrapping_add((i / 7) as u8) | 1).collect()
}

const HINT: AllocHint = AllocHint { object_size: 1 << 22, write_size: 1 << 16, flags: 5 };

fn pairs(n: u8) -> Vec<(Name, Piece)> {
    (0..n).map(|i| (Name::from(&[b'k', i, 0, 255 - i][..]), bytes(i, 10 * usize::from(i)).into())).collect()
}

/// An object whose name has every part.
fn odd() -> GHObject {
    let mut o = object("odd");
    o.hobj.name = b"a\0b\xff/".as_slice().into();
    o.hobj.key = b"key\0".as_slice().into();
    o.hobj.nspace = b"space".as_slice().into();
    o.hobj.snap = types::SnapId(7);
    o.generation = 9;
    o
}

/// Makes what is kept. Everything that a record can have is used.
fn fill(h: &mut Simple) {
    let (a, b) = (object("a"), object("b"));
    h.commit(|t| t.create_collection(META, 0).create_collection(pg(1), 3).create_collection(pg(5), 3));
    h.commit(|t| {
        t.write(pg(1), &a, 0, bytes(1, 20_000).into()).write(pg(1), &a, 50_000, bytes(2, 5000).into());
        t.set_attrs(pg(1), &a, pairs(4).into_iter().collect()).omap_set(pg(1), &a, pairs(20));
        t.change(pg(1), &a, ObjectChange::OmapSetHeader(bytes(3, 40).into()));
        t.change(pg(1), &a, ObjectChange::SetAllocHint(HINT))
    });
    h.commit(|t| t.clone_object(pg(1), &a, &b).write(pg(1), &b, 4096, bytes(4, 4096).into()));
    h.commit(|t| {
        t.touch(META, &odd()).set_attr(META, &odd(), "x", bytes(5, 3)).write(
            META,
            &b,
            0,
            bytes(6, 9000).into(),
        )
    });
    h.commit(|t| t.remove(META, &b).set_info(pg(1), bytes(7, 600)).set_info(pg(5), vec![]));
    for i in 1..=9u8 {
        let kind = if i % 3 == 0 { LogRecordKind::Duplicate } else { LogRecordKind::Entry };
        h.commit(|t| t.log_append(pg(1), version(i.into()), kind, bytes(i, 70)));
    }
    h.commit(|t| t.log_trim(pg(1), version(3)).log_rewind(pg(1), version(8)).log_trim(pg(5), version(4)));
}

/// What a store can have since format 3: attributes apart from the onode, beside one that stays there, and a clone of
/// them.
fn fill_3(h: &mut Simple) {
    let (many, clone) = (object("many"), object("clone"));
    h.commit(|t| t.touch(META, &many).set_attrs(META, &many, large().into_iter().collect()));
    h.commit(|t| t.clone_object(META, &many, &clone));
}

fn large() -> Vec<(Name, Piece)> {
    [("small", 30), ("middle", 3000), ("large", 5000)].map(|(n, len)| (n.into(), bytes(8, len).into())).into()
}

fn check_3(h: &mut Simple) {
    for name in ["many", "clone"] {
        let head = h.try_head(META, &object(name)).unwrap().unwrap();
        assert_eq!(head.attrs, large().into_iter().collect());
    }
}

/// Everything that [`fill`] left.
fn check(h: &mut Simple) {
    let (a, b) = (object("a"), object("b"));
    assert_eq!(h.get(ReadRequest::Collections), Ok(ReadOutcome::Collections(vec![META, pg(1), pg(5)])));
    let mut stat = |collection| match h.get(ReadRequest::Collection { collection }) {
        Ok(ReadOutcome::Collection(Some(stat))) => stat,
        other => panic!("{other:?}"),
    };
    assert_eq!(stat(META), CollectionStat::default());
    assert_eq!(stat(pg(1)), CollectionStat { bits: 3, info: bytes(7, 600).into(), rehoming: None });
    assert_eq!(stat(pg(5)), CollectionStat { bits: 3, ..CollectionStat::default() });
    assert!(h.try_list(META, AttrChoice::All).unwrap().contains(&odd()));
    assert_eq!(h.try_list(pg(1), AttrChoice::All).map(|l| l.len()), Ok(2));
    let mut data = bytes(1, 20_000);
    data.resize(50_000, 0);
    data.extend(bytes(2, 5000));
    assert_eq!(h.try_data(pg(1), &a), Ok(data.clone()));
    data[4096..8192].copy_from_slice(&bytes(4, 4096));
    assert_eq!(h.try_data(pg(1), &b), Ok(data));
    assert_eq!(h.extents(pg(1), &b), [(0, 20_480), (49_152, 5848)]);
    for o in [&a, &b] {
        let head = h.try_head(pg(1), o).unwrap().unwrap();
        assert_eq!((head.stat.size, head.stat.hint), (55_000, Some(HINT)));
        assert_eq!(head.attrs, pairs(4).into_iter().collect());
        assert_eq!(h.try_omap(pg(1), o).unwrap().entries, pairs(20));
        let header = ReadRequest::OmapHeader { collection: pg(1), object: o.clone() };
        assert_eq!(h.get(header), Ok(ReadOutcome::OmapHeader(bytes(3, 40).into())));
    }
    let head = h.try_head(META, &odd()).unwrap().unwrap();
    assert_eq!((head.stat.size, head.attrs.get(b"x").map(Piece::as_slice)), (0, Some(&bytes(5, 3)[..])));
    let log = h.try_log(pg(1)).unwrap();
    let record = |i: u8| {
        let kind = if i % 3 == 0 { LogRecordKind::Duplicate } else { LogRecordKind::Entry };
        LogRecord { version: version(i.into()), kind, bytes: bytes(i, 70).into() }
    };
    assert_eq!((log.tail, log.head, log.records), (version(3), version(8), (4..=8).map(record).collect()));
    let log = h.try_log(pg(5)).unwrap();
    assert_eq!((log.tail, log.head, log.records.len()), (version(4), version(4), 0));
    let statfs = h.statfs();
    assert_eq!(statfs.bytes_total, IMAGE_BYTES);
    // Five blocks and two of each.
    assert_eq!(statfs.data_bytes, 2 * 7 * BLOCK as u64);
}

#[test]
fn what_is_kept_is_all_that_the_test_makes() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(IMAGE_BYTES), &Options::default()).unwrap();
    let mut h = harness(dir.path(), &Options::default());
    fill(&mut h);
    fill_3(&mut h);
    check(&mut h);
    check_3(&mut h);
    assert_eq!(h.statfs().objects, 5);
}

#[test]
fn a_store_of_format_2_opens_becomes_one_of_format_3_and_is_written() {
    let dir = unpacked(2);
    let mut h = reopened(dir.path());
    assert_eq!(h.statfs().objects, 3);
    let store = h.store();
    assert_eq!(store.label(), &label(IMAGE_BYTES));
    check(&mut h);
    let metadata = h.statfs().metadata_bytes;
    h.commit(|t| t.create_collection(pg(9), 1).write(pg(9), &object("new"), 0, bytes(9, 30_000).into()));
    h.commit(|t| t.remove(pg(9), &object("new")).remove_collection(pg(9)));
    assert_eq!(h.statfs().metadata_bytes, metadata);
    fill_3(&mut h);
    drop(h);
    let mut h = reopened(dir.path());
    check(&mut h);
    check_3(&mut h);
}

#[test]
fn attributes_that_format_2_kept_together_come_apart_when_one_is_set() {
    let dir = unpacked(2);
    let mut h = reopened(dir.path());
    let a = object("a");
    let mut attrs: Vec<_> = pairs(4);
    attrs.extend(large());
    h.commit(|t| t.set_attrs(pg(1), &a, large().into_iter().collect()));
    assert_eq!(h.try_head(pg(1), &a).unwrap().unwrap().attrs, attrs.into_iter().collect());
    h.commit(|t| t.change(pg(1), &a, ObjectChange::RemoveAttrs));
    assert!(h.try_head(pg(1), &a).unwrap().unwrap().attrs.is_empty());
}

#[test]
fn a_store_of_format_3_opens_and_is_written() {
    let dir = unpacked(3);
    let mut h = reopened(dir.path());
    check(&mut h);
    check_3(&mut h);
    let metadata = h.statfs().metadata_bytes;
    h.commit(|t| t.clone_object(META, &object("many"), &object("again")));
    h.commit(|t| t.remove(META, &object("again")));
    assert_eq!(h.statfs().metadata_bytes, metadata);
}

#[test]
#[ignore = "writes the directory of the build's format, once for each format"]
fn write_the_directory_of_this_format() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(IMAGE_BYTES), &Options::default()).unwrap();
    let mut h = harness(dir.path(), &Options::default());
    fill(&mut h);
    fill_3(&mut h);
    drop(h);
    std::fs::create_dir(kept(FORMAT)).expect("a format's directory is written once");
    for name in FILES {
        std::fs::write(kept(FORMAT).join(name), pack(&std::fs::read(dir.path().join(name)).unwrap()))
            .unwrap();
    }
}
