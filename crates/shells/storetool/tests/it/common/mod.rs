//! Stores with something of everything.

use std::path::Path;

use blockfile::{BlockFileStore, Blocking, NewStore, Owner};
use buffer::{Piece, Rope};
use simplestore::{Label, SimpleStore};
use store::{AllocHint, CollectionId, LogRecordKind, ObjectChange, ObjectStore, Transaction};
use types::{EVersion, Epoch, Fsid, GHObject, HObject, Name, OsdId, PgId, PoolId, SnapId};

pub const SIZE_BYTES: u64 = 64 << 20;

pub fn owner(osd: u32) -> Owner {
    Owner { cluster: Fsid([1; 16]), osd: OsdId(osd as i32), osd_uuid: Fsid([2; 16]) }
}

pub fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

pub fn object(name: &str) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 8 * name.len() as u32).into()
}

pub fn snapshot(name: &str, snap: u64) -> GHObject {
    let mut object = object(name);
    object.hobj.snap = SnapId(snap);
    object
}

pub fn version(n: u64) -> EVersion {
    EVersion::new(Epoch(3), n)
}

/// Bytes that differ from block to block.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = types::SplitMix64::new(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(len).collect()
}

/// What a test stores: clones that share most of their data, holes, attributes, omaps, hints, logs.
pub fn fill<S: ObjectStore>(store: &mut Blocking<S>) {
    let mut txn = Transaction::new();
    txn.create_collection(CollectionId::Meta, 0);
    txn.write(CollectionId::Meta, &object("superblock"), 0, Rope::from(bytes(1, 300)));
    store.commit(txn).unwrap();
    for seed in 0..3 {
        let c = pg(seed);
        let mut txn = Transaction::new();
        txn.create_collection(c, 3).touch(c, &object("empty")).truncate(c, &object("hole"), 3 << 20);
        let head = bytes(u64::from(seed), 600_000);
        txn.write(c, &object("image"), 0, Rope::from(head));
        txn.clone_object(c, &object("image"), &snapshot("image", 4));
        txn.write(c, &object("image"), 300_001, Rope::from(bytes(9, 5000)));
        txn.clone_object(c, &object("image"), &snapshot("image", 7));
        txn.truncate(c, &object("image"), 450_000);
        txn.write(c, &object("far"), (9 << 20) + 17, Rope::from(bytes(5, 10_000)));
        txn.set_attr(c, &object("far"), "_", Piece::copy_from(b"info"));
        txn.set_attr(c, &object("far"), "empty", Piece::empty());
        let hint = AllocHint { object_size: 4 << 20, write_size: 4096, flags: 1 };
        txn.change(c, &object("far"), ObjectChange::SetAllocHint(hint));
        let keys = (0..700).map(|n| (format!("key{n:04}").into(), bytes(n, n as usize % 90).into()));
        txn.omap_set(c, &object("index"), keys.collect());
        txn.change(c, &object("index"), ObjectChange::OmapSetHeader(Piece::copy_from(b"header")));
        for n in 1..600 {
            let kind = if n < 50 { LogRecordKind::Duplicate } else { LogRecordKind::Entry };
            txn.log_append(c, version(n), kind, bytes(n, 100));
        }
        txn.log_trim(c, version(30)).log_rewind(c, version(590)).set_info(c, bytes(3, 70));
        store.commit(txn).unwrap();
    }
    // Logs that have no record, trimmed and rewound to where none is, and a PG with nothing.
    for (seed, trimmed, rewound) in [(4, 7, 7), (5, 3, 8), (6, 0, 0)] {
        let c = pg(seed);
        let mut txn = Transaction::new();
        txn.create_collection(c, 3);
        if trimmed > 0 {
            txn.log_trim(c, version(trimmed)).log_append(c, version(99), LogRecordKind::Entry, b"x".to_vec());
            txn.log_rewind(c, version(rewound));
        }
        store.commit(txn).unwrap();
    }
}

pub fn make_simple(dir: &Path, osd: u32) -> Blocking<SimpleStore> {
    let Owner { cluster, osd, osd_uuid } = owner(osd);
    let label = Label { cluster, osd, osd_uuid, size_bytes: SIZE_BYTES };
    simplestore::mkfs(dir, &label, &simplestore::Options::default()).unwrap();
    open_simple(dir)
}

pub fn open_simple(dir: &Path) -> Blocking<SimpleStore> {
    Blocking::new(simplestore::open(dir, &simplestore::Options::default()).unwrap())
}

pub fn make_block(dir: &Path, osd: u32) -> Blocking<BlockFileStore> {
    let options = blockfile::Options::default();
    blockfile::mkfs(dir, &owner(osd), &NewStore::file(SIZE_BYTES), &options).unwrap();
    open_block(dir)
}

pub fn open_block(dir: &Path) -> Blocking<BlockFileStore> {
    Blocking::new(blockfile::open_any(dir, &blockfile::Options::default()).unwrap().0)
}

/// Compares all collections of two stores.
///
/// # Panics
/// Where they differ.
pub fn expect_equal<A: ObjectStore, B: ObjectStore>(a: &mut Blocking<A>, b: &mut Blocking<B>, when: &str) {
    let collections = a.collections().unwrap();
    assert_eq!(b.collections().unwrap(), collections, "{when}");
    for collection in collections {
        let difference = storetool::compare(a, b, collection, |_| Ok::<(), storetool::Ended>(())).unwrap();
        assert!(difference.is_none(), "{when}, {collection}: {}", difference.unwrap());
    }
}
