//! A small store of each format that was ever landed is opened, and everything in it is read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::common::shards::{Shards, Whole};
use crate::common::{Sim, Simulated, check, forced, perform, write};
use blockdev::sim::SimDisks;
use blockdev::{DeviceId, Durability, Op};
use blockstore::{FORMAT, Label, OpenError, Options, Part};
use buffer::Piece;
use store::conformance::{Factory, Harness};
use store::{
    AllocHint, CollectionId, CompressionAlgorithm, LogRecordKind, ObjectChange, ObjectStore, ReadOutcome,
    ReadRequest, StoreError, Transaction,
};
use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId, SplitMix64};

const SIZE_BYTES: u64 = 2 << 20;
const LOG_BYTES: u64 = 128 << 10;

fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn object(name: &str, hash: u32) -> GHObject {
    HObject::head(PoolId(1), "a namespace".into(), Name::new(), name.into(), hash).into()
}

/// Stores whose superblocks are written once each.
fn factory() -> Sim {
    Sim { clean: false, copies: false, ..Sim::new(Options::default(), LOG_BYTES) }
}

/// Stores whose superblocks have copies.
fn with_copies() -> Sim {
    Sim { copies: true, ..factory() }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/formats/{name}.blocks"))
}

/// Disks of this size with these bytes at these places, and zeros elsewhere.
fn disks_with(size_bytes: u64, blocks: &[(u64, Piece)]) -> SimDisks {
    let disks = factory().disks(size_bytes);
    let write = |offset, data: Piece| {
        perform(
            &disks,
            DeviceId::Data,
            Op::Write { offset, data: data.into(), durability: Durability::Durable },
        );
    };
    (0..size_bytes).step_by(1 << 20).for_each(|at| write(at, vec![0; 1 << 20].into()));
    blocks.iter().for_each(|(at, bytes)| write(*at, bytes.clone()));
    disks
}

fn keys(n: u32) -> Vec<(Name, Piece)> {
    (0..n).map(|n| (format!("key {n:05}").as_str().into(), vec![n as u8; 10].into())).collect()
}

fn version(n: u64) -> EVersion {
    EVersion::new(Epoch(3), n)
}

const HINT: AllocHint = AllocHint { object_size: 4 << 20, write_size: 8192, flags: 5 };

/// A store with something of everything that the format has, part of it only in the log.
fn write_store(factory: &Sim, size_bytes: u64) -> SimDisks {
    let disks = disks_with(size_bytes, &[]);
    factory.make(&disks, factory.label(size_bytes));
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let (a, b, large) = (object("a", 0), object("b", 2), object("large", 1));
    h.commit(|t| {
        t.create_collection(CollectionId::Meta, 0).create_collection(pg(0), 0).create_collection(pg(1), 1)
    });
    h.commit(|t| t.write(pg(0), &a, 0, vec![1; 70_000].into()).set_attr(pg(0), &a, "_", vec![2; 50]));
    h.commit(|t| t.clone_object(pg(0), &a, &b).change(pg(0), &b, ObjectChange::SetAllocHint(HINT)));
    h.commit(|t| t.omap_set(pg(0), &a, keys(400)));
    h.commit(|t| t.omap_set(pg(0), &large, keys(600)).split(pg(0), 1, 1, pg(1)));
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    h.commit(|t| t.write(pg(0), &a, 100, vec![3; 5000].into()));
    h.commit(|t| {
        t.set_info(pg(0), b"info".to_vec()).log_append(pg(0), version(7), LogRecordKind::Entry, vec![4; 90])
    });
    h.commit(|t| t.log_append(pg(0), version(8), LogRecordKind::Duplicate, vec![5; 60]));
    // Longer than a record may be: it lies beside the log.
    h.commit(|t| t.omap_set(pg(1), &large, keys(600)));
    // The last record removes more than one record should: some is left to be done.
    h.commit(|t| t.change(pg(0), &a, ObjectChange::OmapClear).omap_set(pg(0), &a, keys(1)));
    let simulated = h.abandon();
    drop(simulated);
    disks.power_loss();
    disks
}

fn read_store(disks: &SimDisks, format: u32) {
    let factory = factory();
    let mut simulated = factory.open(disks);
    check(&mut simulated, &format!("format {format}"));
    let mut h = Harness::new(simulated, factory.properties());
    let (a, b, large) = (object("a", 0), object("b", 2), object("large", 1));
    assert_eq!(
        h.get(ReadRequest::Collections),
        Ok(ReadOutcome::Collections(vec![CollectionId::Meta, pg(0), pg(1)]))
    );
    assert_eq!((h.list(pg(0)), h.list(pg(1))), (vec![a.clone(), b.clone()], vec![large.clone()]));
    let mut data = vec![1; 70_000];
    assert_eq!(h.data(pg(0), &b), data);
    data[100..5100].fill(3);
    assert_eq!(h.data(pg(0), &a), data);
    assert_eq!((h.omap(pg(0), &a), h.omap(pg(1), &large)), (keys(1), keys(600)));
    let attr = ReadRequest::Attr { collection: pg(0), object: b.clone(), name: "_".into() };
    assert_eq!(h.get(attr), Ok(ReadOutcome::Attr(vec![2; 50].into())));
    let Ok(ReadOutcome::Stat(stat)) = h.get(ReadRequest::Stat { collection: pg(0), object: b }) else {
        panic!("format {format}: the clone is there")
    };
    assert_eq!(stat.hint, Some(HINT));
    let Ok(ReadOutcome::Collection(Some(found))) = h.get(ReadRequest::Collection { collection: pg(0) })
    else {
        panic!("format {format}: the collection is there")
    };
    assert_eq!((found.bits, &found.info[..]), (1, &b"info"[..]));
    let log = h.log(pg(0));
    let records: Vec<_> = log.records.iter().map(|r| (r.version, r.kind, r.bytes.len())).collect();
    assert_eq!(records, [(version(7), LogRecordKind::Entry, 90), (version(8), LogRecordKind::Duplicate, 60)]);
    let mut simulated = h.take();
    factory.drain(&mut simulated);
    check(&mut simulated, &format!("format {format}, at rest"));
}

/// Blocks that are not zeros: for each its offset (u64, little-endian) and its bytes.
fn dumped(disks: &SimDisks, size_bytes: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for at in (0..size_bytes).step_by(4096) {
        let bytes = disks.durable(DeviceId::Data, at, 4096);
        if bytes.iter().any(|byte| *byte != 0) {
            out.extend(at.to_le_bytes());
            out.extend(bytes);
        }
    }
    out
}

/// The disks that a kept file describes.
fn kept(name: &str, size_bytes: u64) -> SimDisks {
    let bytes = std::fs::read(path(name)).expect("a store of each format is kept: see formats/README.md");
    let bytes = Piece::from(bytes);
    let blocks: Vec<(u64, Piece)> = (0..bytes.len())
        .step_by(8 + 4096)
        .map(|at| {
            let offset = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            (offset, bytes.slice(at + 8..at + 8 + 4096))
        })
        .collect();
    disks_with(size_bytes, &blocks)
}

/// Writes a file of the format in force, if the environment asks for it.
fn keep(name: &str, disks: &SimDisks, size_bytes: u64) {
    if std::env::var_os("LOLIGO_WRITE_FORMAT").is_some() {
        std::fs::write(path(name), dumped(disks, size_bytes))
            .expect("the file of this format can be written");
    }
}

#[test]
fn stores_of_every_format_are_opened_and_hold_what_was_written() {
    keep(&FORMAT.to_string(), &write_store(&factory(), SIZE_BYTES), SIZE_BYTES);
    for format in 1..=FORMAT {
        read_store(&kept(&format.to_string(), SIZE_BYTES), format);
    }
    read_store(&write_store(&factory(), SIZE_BYTES), FORMAT);
}

/// Where a store has its two pairs of superblocks.
const PAIRS: [u64; 2] = [4096, 4096 + 2 * 4096 + LOG_BYTES];

#[test]
fn stores_with_copies_of_their_superblocks_are_opened_and_hold_what_was_written() {
    let written = || write_store(&with_copies(), SIZE_BYTES);
    keep("1-copies", &written(), SIZE_BYTES);
    for disks in [|| kept("1-copies", SIZE_BYTES), written] {
        read_store(&disks(), FORMAT);
        for pair in PAIRS {
            let disks = disks();
            write(&disks, pair, vec![0; 2 * 4096]);
            read_store(&disks, FORMAT);
        }
        let disks = disks();
        PAIRS.into_iter().for_each(|pair| write(&disks, pair, vec![0; 2 * 4096]));
        assert!(matches!(factory().try_open(&disks).err(), Some(OpenError::NoSuperblock { shard: 0, .. })));
    }
}

/// With more room pages of its tree have copies, too.
#[test]
fn stores_with_copies_of_pages_are_opened_and_hold_what_was_written() {
    const SIZE_BYTES: u64 = 8 << 20;
    let written = || write_store(&with_copies(), SIZE_BYTES);
    keep("1-page-copies", &written(), SIZE_BYTES);
    for disks in [kept("1-page-copies", SIZE_BYTES), written()] {
        // Of the superblocks: behind checksum, length and magic.
        let features = |at: u64| disks.visible(DeviceId::Data, at + 12, 8)[0];
        assert!([4096, 8192].into_iter().any(|at| features(at) & 64 != 0), "pages have copies");
        read_store(&disks, FORMAT);
    }
}

/// Ends a store by a power loss when a checkpoint has brought everything into its tree.
fn checkpoint(mut h: Harness<Simulated>, disks: &SimDisks) {
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    drop(h.abandon());
    disks.power_loss();
}

/// What pools take, in the tree and in the log. A store of an earlier build says nothing of it, or nothing of omaps, and goes on so.
#[test]
fn stores_that_count_what_pools_take_are_opened_and_others_go_on_without() {
    let written = || write_store(&with_copies(), SIZE_BYTES);
    keep("1-pool-omaps", &written(), SIZE_BYTES);
    let of_build = |name, counts| (kept(name, SIZE_BYTES), counts);
    // Whether blocks are counted, and omaps.
    let stores = [
        of_build("1-pool-omaps", (true, true)),
        (written(), (true, true)),
        of_build("1-pool-blocks", (true, false)),
        of_build("1-copies", (false, false)),
    ];
    for (disks, (blocks, omaps)) in stores {
        read_store(&disks, FORMAT);
        let factory = with_copies();
        let mut h = Harness::new(factory.open(&disks), factory.properties());
        let found = h.statfs();
        let pools_if = |counts| if counts { vec![PoolId(1)] } else { vec![] };
        let pools = |by_pool: &BTreeMap<PoolId, u64>| by_pool.keys().copied().collect::<Vec<_>>();
        assert_eq!((found.is_by_pool(), pools(&found.by_pool)), (blocks, pools_if(blocks)));
        assert_eq!((!found.has_uncounted_omaps, pools(&found.omaps_by_pool)), (omaps, pools_if(omaps)));
        h.commit(|t| {
            t.write(pg(0), &object("more", 7), 0, vec![1; 9000].into()).omap_set(
                pg(0),
                &object("a", 0),
                keys(2),
            )
        });
        let now = h.statfs();
        let of = |by_pool: &BTreeMap<PoolId, u64>| by_pool.values().sum::<u64>();
        let more = of(&now.by_pool) - of(&found.by_pool);
        assert_eq!((now.data_bytes - found.data_bytes, more), (12288, if blocks { 12288 } else { 0 }));
        checkpoint(h, &disks);
        let mut simulated = factory.open(&disks);
        check(&mut simulated, "after a checkpoint");
        let last = Harness::new(simulated, factory.properties()).statfs();
        assert_eq!(last.by_pool, now.by_pool);
        // The opening may have gone on with what is dead.
        let left = if omaps { 2 * 19 + 600 * 19 } else { 0 };
        assert!(
            of(&last.omaps_by_pool) >= left && of(&last.omaps_by_pool) <= of(&now.omaps_by_pool),
            "{last:?}"
        );
    }
}

/// The attributes that a PG sets, of so many bytes, and one of a client.
fn set_attrs(t: &mut Transaction, object: &GHObject, [info, snapset]: [usize; 2], mark: u8) {
    t.set_attr(pg(0), object, "_", vec![mark; info])
        .set_attr(pg(0), object, "snapset", vec![mark; snapset])
        .set_attr(pg(0), object, "_client", vec![mark; 20]);
}

/// A store whose onodes have parts of their objects: all, some, none, and some that left.
fn write_inline() -> SimDisks {
    let factory = with_copies();
    let disks = disks_with(SIZE_BYTES, &[]);
    factory.make(&disks, factory.label(SIZE_BYTES));
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    h.commit(|t| t.create_collection(pg(0), 0));
    for (name, hash, bytes, attrs) in INLINE {
        let object = object(name, hash);
        h.commit(|t| {
            t.write(pg(0), &object, 0, vec![hash as u8; bytes].into());
            set_attrs(t, &object, attrs, hash as u8);
            t
        });
        h.commit(|t| t.clone_object(pg(0), &object, &GHObject { generation: 7, ..object.clone() }));
    }
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    // Two more, which the log alone has.
    h.commit(|t| t.write(pg(0), &object("bare", 9), 0, vec![9; 100].into()));
    let small = object(INLINE[0].0, INLINE[0].1);
    h.commit(|t| {
        t.write(pg(0), &small, 5000, vec![8; 100_000].into()).set_attr(pg(0), &small, "_", vec![8; 600])
    });
    drop(h.abandon());
    disks.power_loss();
    disks
}

const RECORDS: u64 = 120;

fn record(seed: u32, n: u64) -> Vec<u8> {
    format!("record {n:03} of {seed} {:0100}", 0).into_bytes()
}

/// The block of a leaf that has the last record of a log which was written before the leaf went bad.
fn last_leaf(disks: &SimDisks) -> u64 {
    let bytes = record(0, RECORDS);
    let blocks = (PAIRS[1] + 2 * 4096..SIZE_BYTES).step_by(4096);
    let has_it = |at: &u64| {
        let block = disks.visible(DeviceId::Data, *at, 4096);
        block.windows(bytes.len()).any(|some| some == bytes)
    };
    let found: Vec<u64> = blocks.filter(has_it).collect();
    assert_eq!(found.len(), 1, "it has no copy");
    found[0]
}

/// A store of which a leaf can't be read, and whose tree notes changes that belong to it.
fn write_stranded() -> SimDisks {
    let factory = with_copies();
    let disks = disks_with(SIZE_BYTES, &[]);
    factory.make(&disks, factory.label(SIZE_BYTES));
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    h.commit(|t| t.create_collection(pg(0), 1).create_collection(pg(1), 1));
    let append = |h: &mut Harness<Simulated>, seed, n| {
        h.commit(|t| t.log_append(pg(seed), version(n), LogRecordKind::Entry, record(seed, n)));
    };
    for n in 1..=RECORDS {
        append(&mut h, 0, n);
        append(&mut h, 1, n);
    }
    checkpoint(h, &disks);
    disks.flip_bit(DeviceId::Data, last_leaf(&disks) + 9, 1);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    (1..=3).for_each(|n| append(&mut h, 0, RECORDS + n));
    checkpoint(h, &disks);
    disks
}

#[test]
fn stores_with_changes_of_leaves_that_can_not_be_read_are_opened_and_hold_them() {
    keep("1-stranded", &write_stranded(), SIZE_BYTES);
    for disks in [kept("1-stranded", SIZE_BYTES), write_stranded()] {
        let factory = with_copies();
        let mut h = Harness::new(factory.open(&disks), factory.properties());
        assert_eq!(h.store().store.stranded_changes(), 3);
        drop(h.abandon());
        disks.power_loss();
        disks.flip_bit(DeviceId::Data, last_leaf(&disks) + 9, 1);
        let mut simulated = factory.open(&disks);
        check(&mut simulated, "with the leaf back");
        let mut h = Harness::new(simulated, factory.properties());
        let found: Vec<_> = h.log(pg(0)).records.into_iter().map(|r| (r.version, r.bytes.to_vec())).collect();
        assert_eq!(found, (1..=RECORDS + 3).map(|n| (version(n), record(0, n))).collect::<Vec<_>>());
    }
}

#[test]
fn stores_with_parts_in_onodes_are_opened_and_hold_what_was_written() {
    keep("1-inline-parts", &write_inline(), SIZE_BYTES);
    for disks in [kept("1-inline-parts", SIZE_BYTES), write_inline()] {
        let factory = factory();
        let mut simulated = factory.open(&disks);
        check(&mut simulated, "with parts in onodes");
        let mut h = Harness::new(simulated, factory.properties());
        for (name, hash, bytes, [info, snapset]) in INLINE {
            let head = object(name, hash);
            for object in [GHObject { generation: 7, ..head.clone() }, head] {
                let (mut data, mut info) = (vec![hash as u8; bytes], vec![hash as u8; info]);
                if (name, object.generation) == (INLINE[0].0, GHObject::NO_GEN) {
                    data.resize(105_000, 0);
                    data[5000..].fill(8);
                    info = vec![8; 600];
                }
                let attrs =
                    [("_", info), ("_client", vec![hash as u8; 20]), ("snapset", vec![hash as u8; snapset])];
                let attrs = attrs.map(|(name, value)| (Name::from(name), Piece::from(value)));
                assert!(h.data(pg(0), &object) == data, "{object}");
                let all = h.get(ReadRequest::Attrs { collection: pg(0), object: object.clone() });
                assert_eq!(all, Ok(ReadOutcome::Attrs(attrs.into())), "{object}");
            }
        }
        assert_eq!(h.data(pg(0), &object("bare", 9)), [9; 100]);
        let mut simulated = h.take();
        factory.drain(&mut simulated);
        check(&mut simulated, "with parts in onodes, at rest");
    }
}

/// Name, hash, bytes, and bytes of the attributes of objects.
const INLINE: [(&str, u32, usize, [usize; 2]); 3] =
    [("small", 1, 5000, [280, 31]), ("large", 2, 400_000, [280, 31]), ("clones", 3, 5000, [513, 129])];

/// What an earlier build has under keys moves into onodes when it is set, and is found and removed in either place.
#[test]
fn parts_of_an_earlier_build_are_found_set_cloned_and_removed() {
    let (a, b) = (object("a", 0), object("b", 2));
    let factory = factory();
    let mut h = Harness::new(factory.open(&kept(&FORMAT.to_string(), SIZE_BYTES)), factory.properties());
    let attr = |h: &mut Harness<Simulated>, object: &GHObject| {
        h.get(ReadRequest::Attr { collection: pg(0), object: object.clone(), name: "_".into() })
    };
    h.commit(|t| t.truncate(pg(0), &b, 8192).set_attr(pg(0), &b, "_", vec![4; 280]));
    h.commit(|t| t.clone_object(pg(0), &b, &object("c", 4)).clone_object(pg(0), &a, &object("d", 6)));
    h.commit(|t| {
        t.change(pg(0), &a, ObjectChange::RemoveAttr("_".into())).write(pg(0), &a, 0, vec![7; 100].into())
    });
    for object in [&b, &object("c", 4)] {
        assert_eq!(h.data(pg(0), object), [1; 8192]);
        assert_eq!(attr(&mut h, object), Ok(ReadOutcome::Attr(vec![4; 280].into())));
    }
    assert_eq!(attr(&mut h, &a), Err(StoreError::NoSuchAttr));
    assert_eq!(attr(&mut h, &object("d", 6)), Ok(ReadOutcome::Attr(vec![2; 50].into())));
    let mut simulated = h.take();
    check(&mut simulated, "with parts in both places");
    let mut h = Harness::new(simulated, factory.properties());
    h.commit(|t| t.remove(pg(0), &a).remove(pg(0), &b).remove(pg(0), &object("d", 6)));
    let mut simulated = h.take();
    factory.drain(&mut simulated);
    check(&mut simulated, "with some removed");
    let mut h = Harness::new(simulated, factory.properties());
    assert_eq!(h.data(pg(0), &object("c", 4)), [1; 8192]);
}

/// A store that was written once is written once ever after, by this build too.
#[test]
fn a_store_without_copies_goes_on_without_them() {
    let disks = kept(&FORMAT.to_string(), SIZE_BYTES);
    let label = disks.visible(DeviceId::Data, 0, 4096);
    for _ in 0..3 {
        read_store(&disks, FORMAT);
        disks.close();
    }
    assert!(disks.visible(DeviceId::Data, 0, 4096) == label);
    for at in [4096, 8192] {
        // Behind checksum, length and magic: its features, of which onodes with parts of objects are this build's.
        assert_eq!(disks.visible(DeviceId::Data, at + 12, 8), [128, 0, 0, 0, 0, 0, 0, 0]);
    }
}

/// Objects compressed by each algorithm, and the seed of what they hold.
const COMPRESSED: [(&str, CompressionAlgorithm, u64); 2] =
    [("lz4", CompressionAlgorithm::Lz4, 1), ("zstd", CompressionAlgorithm::Zstd, 2)];

/// Bytes that come to less than half.
fn text(seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..100_000).map(|n| if n / 16 % 3 == 0 { random.below(256) as u8 } else { b'a' }).collect()
}

/// A store with compressed data: some in the tree, written over in its middle by a record that is only in the log.
fn write_compressed() -> SimDisks {
    let (factory, disks) = (factory(), disks_with(SIZE_BYTES, &[]));
    factory.make(&disks, factory.label(SIZE_BYTES));
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    h.commit(|t| t.create_collection(pg(0), 0));
    for (name, algorithm, seed) in COMPRESSED {
        h.store().set_compression(None, Some(forced(algorithm, 64 << 10)));
        h.commit(|t| t.write(pg(0), &object(name, 0), 0, text(seed).into()));
    }
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    for (name, ..) in COMPRESSED {
        h.commit(|t| t.write(pg(0), &object(name, 0), 50_000, vec![3; 20_000].into()));
    }
    drop(h.abandon());
    disks.power_loss();
    disks
}

fn read_compressed(disks: &SimDisks) {
    let factory = factory();
    let mut simulated = factory.open(disks);
    check(&mut simulated, "compressed");
    let mut h = Harness::new(simulated, factory.properties());
    for (name, _, seed) in COMPRESSED {
        let mut data = text(seed);
        data[50_000..70_000].fill(3);
        assert!(h.data(pg(0), &object(name, 0)) == data, "{name}");
    }
    let found = h.statfs().compressed.get(&PoolId(1)).copied().unwrap_or_default();
    assert!(found.stored > 0 && found.stored * 2 < found.original, "{found:?}");
}

#[test]
fn stores_with_compressed_data_are_opened_and_hold_what_was_written() {
    keep("1-compressed", &write_compressed(), SIZE_BYTES);
    read_compressed(&kept("1-compressed", SIZE_BYTES));
    read_compressed(&write_compressed());
}

const GROWN_BYTES: u64 = 12 << 20;

fn of_grown() -> Shards {
    Shards { sim: factory(), shards: 2, grown: true }
}

/// What an object of a store that has grown holds: the first one is of zeros, which a kept file leaves out.
fn in_range(n: u8) -> Vec<u8> {
    vec![n; if n == 0 { 900 << 10 } else { 30_000 }]
}

/// A store of two shards that has grown twice, with data in the first two ranges of each.
fn write_grown() -> SimDisks {
    let (of, disks) = (of_grown(), disks_with(GROWN_BYTES, &[]));
    of.make_grown(&disks, GROWN_BYTES);
    let mut h = Harness::new(of.open(&disks, "new"), of.properties());
    for seed in 0..2 {
        h.commit(|t| t.create_collection(pg(seed), 1));
        for n in 0..3 {
            h.commit(|t| t.write(pg(seed), &object(&format!("{n}"), seed), 0, in_range(n).into()));
        }
    }
    let store = h.take();
    let whole: Whole = of_grown().reopen(store).expect("it opens");
    let mut h = Harness::new(whole, of.properties());
    // What is only in the log lies in a further range, too.
    (0..2).for_each(|seed| h.commit(|t| t.write(pg(seed), &object("last", seed), 0, in_range(9).into())));
    drop(h.abandon());
    disks.power_loss();
    disks
}

fn read_grown(disks: &SimDisks) {
    let of = of_grown();
    let mut h = Harness::new(of.open(disks, "grown"), of.properties());
    for handle in h.store().store.handles() {
        let ends = handle.ends();
        assert!(
            ends.len() == 2 && ends[1] == GROWN_BYTES && handle.device_bytes() == GROWN_BYTES,
            "{ends:?}"
        );
    }
    let mut beyond = 0;
    for seed in 0..2u32 {
        for n in 0..3 {
            assert!(h.data(pg(seed), &object(&format!("{n}"), seed)) == in_range(n), "{n} of {seed}");
        }
        assert!(h.data(pg(seed), &object("last", seed)) == in_range(9), "the last one of {seed}");
        for handle in h.store().store.handles() {
            let at = handle.locate(pg(seed), &object("last", seed), 0);
            beyond += u64::from(at.is_some_and(|at| at >= of.least_bytes()));
        }
    }
    assert_eq!(beyond, 2, "both have data in what they have grown by");
}

#[test]
fn stores_of_several_shards_that_have_grown_are_opened_and_hold_what_was_written() {
    keep("1-grown", &write_grown(), GROWN_BYTES);
    for disks in [kept("1-grown", GROWN_BYTES), write_grown()] {
        read_grown(&disks);
        // What this build writes into any of them, no earlier one may read.
        let label = Label::decode(&disks.visible(DeviceId::Data, 0, 4096), Part::Data).expect("it has one");
        for shard in 0..label.shards {
            let first = label.shard(shard).expect("it has so many").superblocks;
            // Behind checksum, length and magic.
            let features = [first, first + 4096].map(|at| disks.visible(DeviceId::Data, at + 12, 8)[0]);
            assert!(features.iter().any(|features| features & 128 != 0), "shard {shard} has parts in onodes");
        }
    }
}
