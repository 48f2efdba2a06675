//! Compressed blocks: what they take, what is left of them when they are written over, and what a damaged one does.

use crate::common::{Sim, Simulated, check, forced};
use blockdev::DeviceId;
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{
    AllocHint, CollectionId, Compressed, Compression, CompressionAlgorithm, CompressionMode, ObjectChange,
    ObjectStore, ReadOutcome, ReadRequest, StoreError,
};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64};

const BOTH: [CompressionAlgorithm; 2] = [CompressionAlgorithm::Lz4, CompressionAlgorithm::Zstd];
const KIB: u64 = 1 << 10;
const POOL: PoolId = PoolId(1);

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: POOL, seed: 0 }.into())
}

fn object(name: &str) -> GHObject {
    HObject::head(POOL, Name::new(), Name::new(), name.into(), 1).into()
}

fn sim(how: Option<Compression>) -> Sim {
    Sim { compression: how, ..Sim::new(Options::default(), 4 << 20) }
}

fn opened(factory: &mut Sim) -> Harness<Simulated> {
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    h
}

/// Bytes of which one in three is random, sixteen at a time: they come to less than half.
fn text(random: &mut SplitMix64, len: u64) -> Vec<u8> {
    (0..len).map(|n| if n / 16 % 3 == 0 { random.below(256) as u8 } else { b'a' }).collect()
}

fn counted(h: &mut Harness<Simulated>) -> Compressed {
    h.statfs().compressed.get(&POOL).copied().unwrap_or_default()
}

fn reopened(factory: &mut Sim, h: Harness<Simulated>) -> Harness<Simulated> {
    Harness::new(factory.reopen(h.take()).expect("it opens"), factory.properties())
}

fn checked(h: &mut Harness<Simulated>, when: &str) {
    h.settle();
    check(h.store(), when);
}

#[test]
fn large_data_take_less_and_come_back_after_an_opening_and_a_crash() {
    for algorithm in BOTH {
        let mut factory = sim(Some(forced(algorithm, 64 * KIB)));
        let mut h = opened(&mut factory);
        let data = text(&mut SplitMix64::new(1), 1 << 20);
        h.commit(|t| t.write(pg(), &object("a"), 0, data.clone().into()));
        let statfs = h.statfs();
        assert!(statfs.data_bytes < 700 * KIB, "{algorithm:?}: {statfs:?}");
        let found = counted(&mut h);
        assert_eq!((found.original, found.allocated), (1 << 20, statfs.data_bytes), "{algorithm:?}");
        assert!(
            found.stored <= found.allocated && found.stored > found.allocated - 16 * 4 * KIB,
            "{found:?}"
        );
        for clean in [true, false] {
            factory.clean = clean;
            h = reopened(&mut factory, h);
            assert!(h.data(pg(), &object("a")) == data, "{algorithm:?}, clean {clean}");
            assert_eq!((h.statfs().data_bytes, counted(&mut h)), (statfs.data_bytes, found));
            h.commit(|t| t.write(pg(), &object("b"), 0, data.clone().into()));
            h.commit(|t| t.remove(pg(), &object("b")));
        }
        h = Harness::new(factory.crash(h.abandon(), 7).expect("power can be lost"), factory.properties());
        assert!(h.data(pg(), &object("a")) == data && counted(&mut h) == found, "{algorithm:?}");
        // Parts of it, at the edges of blocks, of blobs, and within.
        for (offset, len) in [(0, 1), (4095, 2), (65_535, 4098), (200_000, 300_000), ((1 << 20) - 1, 9)] {
            let want = &data[offset as usize..data.len().min((offset + len) as usize)];
            assert!(h.data_range(pg(), &object("a"), offset, len) == want, "{offset} for {len}");
        }
        h.commit(|t| t.remove(pg(), &object("a")));
        assert_eq!((h.statfs().data_bytes, counted(&mut h)), (0, Compressed::default()));
        checked(&mut h, "emptied");
    }
}

/// The superblock's feature.
const COMPRESSED: u64 = 4;

#[test]
fn without_compression_a_store_is_as_before_and_with_it_the_superblock_says_so() {
    let features = |h: &mut Harness<Simulated>| {
        // A checkpoint that waits for a mark leaves that in the log.
        while !h.store().store.is_clean() {
            h.store().store.request_checkpoint();
            h.turn();
        }
        // Of the newer superblock: behind its checksum, its length and its magic.
        let superblock = |at: u64| h_bytes(h, at);
        let newest = [4096, 8192].map(superblock).into_iter().max_by_key(|bytes| number(bytes, 32));
        number(&newest.expect("there are two"), 12) & COMPRESSED
    };
    let data = vec![7; 256 << 10];
    let mut h = opened(&mut Sim { copies: false, ..sim(None) });
    h.commit(|t| t.write(pg(), &object("a"), 0, data.clone().into()));
    assert_eq!((features(&mut h), h.statfs().data_bytes), (0, 256 * KIB));
    // Switched on while it is open: what is written from then on is compressed, at once.
    let how = forced(CompressionAlgorithm::Lz4, 64 * KIB);
    h.store().set_compression(Some(POOL), Some(how));
    h.commit(|t| t.write(pg(), &object("b"), 0, data.clone().into()));
    assert_eq!((features(&mut h), h.statfs().data_bytes), (COMPRESSED, (256 + 4 * 4) * KIB));
    h.store().set_compression(Some(POOL), None);
    h.commit(|t| t.write(pg(), &object("c"), 0, data.clone().into()));
    assert_eq!(h.statfs().data_bytes, (512 + 4 * 4) * KIB);
    for name in ["a", "b", "c"] {
        assert!(h.data(pg(), &object(name)) == data, "{name}");
    }
}

fn h_bytes(h: &mut Harness<Simulated>, at: u64) -> Vec<u8> {
    h.store().disks.visible(DeviceId::Data, at, 64)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn hints_are_heeded() {
    let data = vec![7; 64 << 10];
    for (mode, flags, small) in [
        (CompressionMode::Passive, 0, false),
        (CompressionMode::Passive, AllocHint::COMPRESSIBLE, true),
        (CompressionMode::Aggressive, 0, true),
        (CompressionMode::Aggressive, AllocHint::INCOMPRESSIBLE, false),
        (CompressionMode::Force, AllocHint::INCOMPRESSIBLE, true),
    ] {
        let mut h = opened(&mut sim(Some(Compression { mode, ..Compression::default() })));
        let hint = AllocHint { flags, ..AllocHint::default() };
        h.commit(|t| {
            t.change(pg(), &object("a"), ObjectChange::SetAllocHint(hint));
            t.write(pg(), &object("a"), 0, data.clone().into())
        });
        let want = if small { 4 * KIB } else { 64 * KIB };
        assert_eq!(h.statfs().data_bytes, want, "{mode:?}, hint {flags}");
    }
}

/// Blocks that an object's extents span.
fn blocks(h: &mut Harness<Simulated>, name: &str) -> u64 {
    h.extents(pg(), &object(name)).iter().map(|(at, len)| (at + len).div_ceil(4096) - at / 4096).sum()
}

#[test]
fn however_an_object_is_written_over_it_takes_no_more_than_without_compression() {
    for (algorithm, seed) in BOTH.into_iter().zip([11, 12]) {
        let mut factory = sim(Some(forced(algorithm, 64 * KIB)));
        let mut h = opened(&mut factory);
        let (mut random, mut want) = (SplitMix64::new(seed), vec![0; 512 << 10]);
        let a = object("a");
        h.commit(|t| t.write(pg(), &a, 0, vec![0; 512 << 10].into()));
        for round in 0..300 {
            let offset = random.below(500 * KIB);
            let len = [1, 4 * KIB, 20 * KIB, 150 * KIB][random.below(4) as usize].min(512 * KIB - offset);
            // Blocks of a few kinds, so that some blobs get very small and some hardly smaller.
            let bytes = match random.below(4) {
                0 => (0..len).map(|_| random.below(256) as u8).collect(),
                1 => vec![random.below(256) as u8; len as usize],
                _ => text(&mut random, len),
            };
            let range = offset as usize..(offset + len) as usize;
            match random.below(8) {
                0 => {
                    want[range].fill(0);
                    h.commit(|t| t.zero(pg(), &a, offset, len));
                }
                1 => {
                    want[offset as usize..].fill(0);
                    h.commit(|t| t.truncate(pg(), &a, offset).truncate(pg(), &a, 512 * KIB));
                }
                _ => {
                    want[range].copy_from_slice(&bytes);
                    h.commit(|t| t.write(pg(), &a, offset, bytes.into()));
                }
            }
            let (allocated, spanned) = (h.statfs().data_bytes / 4096, blocks(&mut h, "a"));
            assert!(allocated <= spanned, "round {round}: {allocated} blocks for {spanned}");
            if round % 20 == 0 {
                assert!(h.data(pg(), &a) == want, "round {round}");
                checked(&mut h, &format!("{algorithm:?}, round {round}"));
            }
        }
        h = reopened(&mut factory, h);
        assert!(h.data(pg(), &a) == want, "{algorithm:?}");
        h.commit(|t| t.remove(pg(), &a));
        assert_eq!((h.statfs().data_bytes, counted(&mut h)), (0, Compressed::default()));
    }
}

#[test]
fn a_clone_shares_what_is_compressed_and_keeps_it() {
    let mut factory = sim(Some(forced(CompressionAlgorithm::Zstd, 64 * KIB)));
    let mut h = opened(&mut factory);
    let data = text(&mut SplitMix64::new(2), 256 * KIB);
    let (a, b, c) = (object("a"), object("b"), object("c"));
    h.commit(|t| t.write(pg(), &a, 0, data.clone().into()));
    let (one, before) = (h.statfs().data_bytes, counted(&mut h));
    h.commit(|t| t.clone_object(pg(), &a, &b));
    assert_eq!(h.statfs().data_bytes, one, "nothing more is allocated");
    let both = counted(&mut h);
    assert_eq!(
        (both.allocated, both.stored, both.original),
        (before.allocated, before.stored, 2 * before.original)
    );
    // The clone keeps what its source loses.
    let mut changed = data.clone();
    for offset in [0, 70_000, 140_000] {
        changed[offset..offset + 50_000].fill(9);
        h.commit(|t| t.write(pg(), &a, offset as u64, vec![9; 50_000].into()));
    }
    assert!(h.data(pg(), &a) == changed && h.data(pg(), &b) == data);
    checked(&mut h, "written over");
    // Parts go to other objects: at the same place of a chunk, and at another one.
    for (to_offset, name) in [(256 * KIB + 20_480, "c"), (4096, "d"), (300, "e")] {
        h.commit(|t| t.clone_range(pg(), (&b, 20_480), (&object(name), to_offset), 200_000));
        let found = h.data_range(pg(), &object(name), to_offset, 200_000);
        assert!(found == data[20_480..220_480], "{name}");
        checked(&mut h, name);
    }
    h = reopened(&mut factory, h);
    h.commit(|t| t.remove(pg(), &b).remove(pg(), &a));
    assert!(h.data_range(pg(), &c, 256 * KIB + 20_480, 200_000) == data[20_480..220_480]);
    checked(&mut h, "removed");
    h.commit(|t| t.remove(pg(), &c).remove(pg(), &object("d")).remove(pg(), &object("e")));
    assert_eq!((h.statfs().data_bytes, counted(&mut h)), (0, Compressed::default()));
    checked(&mut h, "emptied");
}

#[test]
fn a_damaged_blob_fails_its_reads_and_is_not_washed_clean() {
    let mut factory = sim(Some(forced(CompressionAlgorithm::Lz4, 64 * KIB)));
    let mut h = opened(&mut factory);
    let data = text(&mut SplitMix64::new(4), 128 * KIB);
    let a = object("a");
    h.commit(|t| t.write(pg(), &a, 0, data.clone().into()));
    let damaged = factory.damage(h.take(), pg(), &a, 100).expect("it is there");
    let mut h = Harness::new(factory.reopen(damaged).expect("it opens"), factory.properties());
    let read = |offset, len| {
        let (object, advice) = (a.clone(), Default::default());
        ReadRequest::Data { collection: pg(), object, offset, len, advice, verify: false }
    };
    assert!(matches!(h.get(read(60_000, 10)), Err(StoreError::Checksum { .. })));
    let Ok(ReadOutcome::Data(rest)) = h.get(read(64 * KIB, 64 * KIB)) else {
        panic!("the other blob is whole")
    };
    assert!(rest.to_vec() == data[64 << 10..]);
    // A part of a block needs what the blob has; the blob whole needs nothing of it.
    let mut part = store::Transaction::new();
    part.write(pg(), &a, 100, vec![1; 100].into());
    assert!(matches!(h.apply(part), Err(StoreError::Checksum { .. })));
    h.commit(|t| t.write(pg(), &a, 0, vec![8; 64 << 10].into()));
    assert!(h.data_range(pg(), &a, 0, 64 * KIB) == vec![8; 64 << 10]);
    checked(&mut h, "written over");
}

/// As found by a seed of power losses.
#[test]
fn a_blob_of_which_an_object_has_two_parts_is_counted_once() {
    const HALF: u64 = 64 * KIB;
    let mut factory = sim(Some(forced(CompressionAlgorithm::Lz4, 2 * HALF)));
    let mut h = opened(&mut factory);
    let data = vec![b'a'; 2 * HALF as usize];
    h.commit(|t| t.write(pg(), &object("a"), 0, data.into()));
    let once = counted(&mut h);
    for at in [0, HALF] {
        h.commit(|t| t.clone_range(pg(), (&object("a"), at), (&object("b"), at), HALF));
    }
    h.commit(|t| t.remove(pg(), &object("a")));
    assert_eq!(counted(&mut h), once);
    checked(&mut h, "in two parts");
    h.commit(|t| t.write(pg(), &object("b"), 0, vec![0; HALF as usize].into()));
    checked(&mut h, "in one part");
    assert!(h.data(pg(), &object("b"))[HALF as usize..] == [b'a'; HALF as usize]);
}
