//! Every decoder of what is on the device, for tests that give them any bytes.

use buffer::Piece;
use encoding::{DecodeError, Decoder};
use store::{AllocHint, Compressed, CompressionAlgorithm};
use types::PoolId;

use crate::batch::Batch;
use crate::bitmap::{Bitmap, REGION_BYTES, Run};
use crate::chunk::{Blob, CHUNK_BLOCKS, Chunk, Slot, places};
use crate::codec::Codec;
use crate::layer::layer_of;
use crate::layout::{BLOCK, Counters, Label, Part, Superblock};
use crate::onode::{Home, Inline, Onode};
use crate::packer::{decode_counted, encode_counted};
use crate::page::{Entries, Key, Page, PagePtr, encode_page};
use crate::pool_use::{Change, PoolChanges};
use crate::ranges::Grown;
use crate::records::{Collection, Counts, Dead};
use crate::shape::{Shape, hash_range};

/// How many decoders there are.
const DECODERS: u8 = 14;

/// Gives the bytes to the decoder that the number chooses, and encodes what it returns again.
///
/// # Errors
/// Those of the decoder.
pub fn decode_any(which: u8, bytes: &[u8]) -> Result<(), DecodeError> {
    let piece = Piece::copy_from(bytes);
    match which % DECODERS {
        0 => Label::decode(bytes, Part::Data).map(|label| drop((label.encode(Part::Log), label.shard(0)))),
        1 => Superblock::decode(bytes).map(|superblock| place_any(&superblock)),
        2 => PagePtr::decode(bytes).map(|ptr| drop((ptr.encode(), ptr.block_count()))),
        3 => Page::decode(&piece).map(|page| look_through(&page, bytes)),
        4 => Batch::decode_all(&piece).map(|all| all.iter().for_each(|batch| drop(batch.encode()))),
        5 => Chunk::decode(bytes).map(|chunk| drop(chunk.encode())),
        6 => Counts::decode(bytes).map(|counts| drop(counts.encode())),
        7 => Onode::decode(&piece).map(|onode| drop(onode.encode())),
        8 => Collection::decode(bytes).map(|collection| drop(collection.encode())),
        9 => Shape::decode(bytes).map(|shape| drop((shape.encode(), shape.space_of(7)))),
        10 => Dead::decode(bytes).map(|dead| drop(dead.encode())),
        12 => decode_counted(bytes).map(|counted| drop(encode_counted(&counted))),
        13 => unpack_any(&piece),
        _ => {
            Bitmap::new(10_000).load_region(u64::from(which) % 3, bytes);
            Ok(())
        }
    }
}

/// Where a superblock says that the shard's blocks are, and the superblock again.
fn place_any(superblock: &Superblock) {
    let label = label_sample();
    let (shard, grown) = (superblock.shard, superblock.grown.clone());
    let placed = label.shard(shard).map(|layout| label.with_grown(shard, layout, grown));
    drop((superblock.encode(), placed));
}

/// Finds each entry of a page, and encodes them again.
fn look_through(page: &Page, key: &[u8]) {
    let mut entries = Entries::default();
    (0..page.len()).for_each(|entry| entries.push_of(page, entry));
    drop((encode_page(page.level, &entries, entries.len()), page.place(key), page.before(key)));
    (0..page.len()).for_each(|entry| drop(page.value(entry)));
}

/// The algorithm (u8), how many blocks (u8), and what they are compressed to.
fn unpack_any(bytes: &Piece) -> Result<(), DecodeError> {
    let mut d = Decoder::new(bytes);
    let (code, blocks): (u8, u8) = (d.get()?, d.get()?);
    let bad = DecodeError::BadValue { what: "compressed blocks", value: code.into() };
    let algorithm = CompressionAlgorithm::of_code(code).ok_or(bad.clone())?;
    let packed = bytes.slice(d.position()..bytes.len());
    let blocks = blocks % (CHUNK_BLOCKS as u8 + 1);
    let found = Codec::default().unpack(algorithm, std::iter::once(&packed), packed.len() as u32, blocks);
    found.map(drop).ok_or(bad)
}

/// Compressed blocks as [`unpack_any`] takes them.
fn packed_sample(algorithm: CompressionAlgorithm) -> Vec<u8> {
    let block = Piece::from(vec![5; BLOCK as usize]);
    let packed = Codec::default().pack(algorithm, 1, &[&block, &block], BLOCK as usize);
    let (data, bytes) = packed.unwrap_or_default();
    [&[algorithm.code(), 2][..], &data[..bytes as usize]].concat()
}

fn label_sample() -> Label {
    let (shards, log_unit_bytes, owner) = (2, 512, b"owner".to_vec());
    let (size_bytes, log_bytes, log_apart, copies) = (64 << 20, 1 << 20, false, false);
    Label { id: 7, shards, size_bytes, log_bytes, log_unit_bytes, log_apart, copies, owner }
}

/// Something for each decoder that it takes, by its number.
pub fn samples() -> Vec<(u8, Vec<u8>)> {
    let runs = vec![Run { start: 5, count: 2 }];
    let ptr = PagePtr { runs: runs.clone(), copy: vec![], bytes: 5000, crc: 7 };
    let copied = PagePtr { copy: vec![Run { start: 8, count: 2 }], ..ptr.clone() };
    let label = label_sample();
    let counters = Counters { next_number: 3, objects: 2, metadata_bytes: 100 };
    let (root, log) = (Some((2, ptr.clone())), wal::Opening::FIRST);
    let (features, grown) = (0, Grown::Blocks(1000));
    let superblock = Superblock { features, store: 7, shard: 1, generation: 4, root, counters, log, grown };
    let ranges = Superblock { grown: Grown::Ends(vec![80 << 20, 96 << 20]), ..superblock.clone() };
    let keys = [1, 2].map(|key| Key::from_slice(&[key]));
    let entries = keys.iter().zip([b"one".to_vec(), ptr.encode()]).collect();
    let mut pools = PoolChanges::default();
    pools.add(PoolId(3), Change { blocks: -4, omap_bytes: 0 });
    let batch = Batch {
        counters,
        allocated: runs.clone(),
        freed: runs,
        pools,
        deferred: vec![(5, Piece::from(vec![1; BLOCK as usize]))],
        changes: layer_of(keys.into_iter().zip([Some(Piece::copy_from(b"v")), None])),
    };
    let mut with_omaps = batch.clone();
    with_omaps.pools.add(PoolId(5), Change { blocks: 0, omap_bytes: 7 });
    let slot = |block| Slot { block, crc: 9, shared: block > 6 };
    let slots = [(0, slot(5)), (1, slot(6)), (9, slot(7))].into_iter().collect();
    let (algorithm, pool, live) = (CompressionAlgorithm::Lz4, PoolId(3), places(16, 20));
    let stored = vec![slot(20), slot(30)];
    let blob = Blob { place: 16, blocks: 4, algorithm, pool, bytes: 5000, live, stored };
    let chunk = Chunk { slots, blobs: vec![blob] };
    let counted = Compressed { stored: 5000, allocated: 8192, original: 16384 };
    let mut shape = Shape::whole(3);
    shape.set(&hash_range(2, 1), 9);
    let (page, used) = encode_page(1, &entries, entries.len());
    let mut plain = Onode::new(1);
    (plain.omap, plain.size, plain.hint) = (3, 2, Some(AllocHint::default()));
    let mut onode = plain.clone();
    onode.set_home(Inline::Info, Home::Here(Piece::copy_from(b"info")));
    onode.set_home(Inline::SnapSet, Home::Apart);
    vec![
        (0, label.encode(Part::Data).to_vec()),
        (0, Label { copies: true, ..label }.encode(Part::Data).to_vec()),
        (1, superblock.encode().map_or(Vec::new(), |bytes| bytes.to_vec())),
        (1, ranges.encode().map_or(Vec::new(), |bytes| bytes.to_vec())),
        (2, ptr.encode()),
        (2, copied.encode()),
        (3, page[..used as usize].to_vec()),
        (4, batch.encode().to_vec()),
        (4, with_omaps.encode().to_vec()),
        (5, chunk.encode().to_vec()),
        (6, Counts([(1, 2), (9, 3)].into()).encode().to_vec()),
        (7, plain.encode().to_vec()),
        (7, onode.encode().to_vec()),
        (8, Collection { bits: 3, space: 4, divided: true, ..Collection::default() }.encode().to_vec()),
        (9, shape.encode().to_vec()),
        (10, Dead::Omap(None).encode().to_vec()),
        (10, Dead::Omap(Some(PoolId(3))).encode().to_vec()),
        (10, Dead::All(Some(PoolId(3))).encode().to_vec()),
        (11, vec![0x55; REGION_BYTES]),
        (12, encode_counted(&counted).to_vec()),
        (13, packed_sample(CompressionAlgorithm::Lz4)),
        (13, packed_sample(CompressionAlgorithm::Zstd)),
    ]
}
