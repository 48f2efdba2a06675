//! What is to be compressed, and what it comes to: the pools' wishes, and the counts of what is compressed.

use std::collections::BTreeMap;

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};
use store::{Compressed, Compression, CompressionAlgorithm, CompressionMode};
use types::PoolId;

use crate::chunk::{CHUNK_BLOCKS, Places, places};
use crate::codec::Codec;
use crate::find::Found;
use crate::layout::BLOCK;
use crate::page::Key;
use crate::records::{key, table};
use crate::stop::{Attempt, Stop};

/// What a shard compresses, and what is compressed in it.
#[derive(Default)]
pub struct Packer {
    pub codec: Codec,
    default: Option<Compression>,
    pools: BTreeMap<PoolId, Compression>,
    /// Whether the device has to seek.
    rotational: bool,
    /// Whether the superblock says that there may be compressed blocks: before that there are none.
    pub is_announced: bool,
    /// As the tables have it; no pool without any.
    pub counted: BTreeMap<PoolId, Compressed>,
}

/// How a write is compressed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    algorithm: CompressionAlgorithm,
    zstd_level: i32,
    required_ratio: f64,
    /// Blocks of a blob: a power of two, at least 2 and at most those of a chunk.
    blob_blocks: u64,
    pub pool: PoolId,
}

/// New contents of a block.
#[derive(Clone, Debug)]
pub struct NewBlock {
    /// In the chunk.
    pub place: u8,
    pub bytes: Piece,
    /// Its checksum, where the caller has given one.
    pub crc: Option<u32>,
}

/// New contents of several blocks, compressed.
pub struct NewBlob {
    pub place: u8,
    pub blocks: u8,
    pub algorithm: CompressionAlgorithm,
    pub pool: PoolId,
    pub bytes: u32,
    /// Whole blocks.
    pub data: Piece,
}

impl NewBlob {
    /// Those of the chunk that it has.
    pub fn places(&self) -> Places {
        places(self.place.into(), u64::from(self.place) + u64::from(self.blocks))
    }
}

impl Packer {
    /// `rotational`: the device has to seek.
    pub fn new(rotational: bool) -> Self {
        Self { rotational, ..Self::default() }
    }

    /// See [`store::ObjectStore::set_compression`].
    pub fn set(&mut self, pool: Option<PoolId>, how: Option<Compression>) {
        match (pool, how) {
            (None, how) => self.default = how.filter(|how| how.mode != CompressionMode::None),
            (Some(pool), Some(how)) => drop(self.pools.insert(pool, how)),
            (Some(pool), None) => drop(self.pools.remove(&pool)),
        }
    }

    /// Takes over what a change has come to.
    pub fn note(&mut self, counted: impl IntoIterator<Item = (PoolId, Compressed)>) {
        for (pool, counted) in counted {
            match counted == Compressed::default() {
                true => drop(self.counted.remove(&pool)),
                false => drop(self.counted.insert(pool, counted)),
            }
        }
    }

    /// How data of an object are compressed that are written to it now.
    ///
    /// # Errors
    /// They are to be, and the superblock does not say yet that there may be such.
    pub fn plan(&self, found: &Found) -> Attempt<Option<Plan>> {
        if self.default.is_none() && self.pools.is_empty() {
            return Ok(None);
        }
        let (pool, hint) = (found.collection.pool(), found.onode.hint);
        let how = self.pools.get(&pool).or(self.default.as_ref()).filter(|how| how.concerns(hint));
        let Some(how) = how else { return Ok(None) };
        if !self.is_announced {
            return Err(Stop::Announcement);
        }
        let blocks = (how.blob_bytes(self.rotational, hint) / BLOCK).clamp(2, CHUNK_BLOCKS);
        Ok(Some(Plan {
            algorithm: how.algorithm,
            zstd_level: how.zstd_level,
            required_ratio: how.required_ratio,
            blob_blocks: 1 << blocks.ilog2(),
            pool,
        }))
    }

    /// Compresses what it pays for; the rest stays in `blocks`, which are neighbours.
    pub fn pack(&self, plan: Plan, blocks: &mut Vec<NewBlock>) -> Vec<NewBlob> {
        let (mut blobs, mut kept) = (Vec::new(), Vec::new());
        let blob_of = |block: &NewBlock| u64::from(block.place) / plan.blob_blocks;
        for window in blocks.chunk_by(|a, b| blob_of(a) == blob_of(b)) {
            match self.pack_window(plan, window) {
                Some(blob) => blobs.push(blob),
                None => kept.extend_from_slice(window),
            }
        }
        *blocks = kept;
        blobs
    }

    fn pack_window(&self, plan: Plan, window: &[NewBlock]) -> Option<NewBlob> {
        let place = window.first().filter(|_| window.len() > 1)?.place;
        // A checksum that is wrong is kept with its block, where a read finds it.
        if window.iter().any(|block| block.crc.is_some_and(|crc| crc != block.bytes.crc32c(!0))) {
            return None;
        }
        let unit = BLOCK as usize;
        let raw = window.len() * unit;
        let wanted = ((raw as f64 * plan.required_ratio) as usize).next_multiple_of(unit);
        let bytes_max = wanted.min(raw - unit);
        let pieces: Vec<&Piece> = window.iter().map(|block| &block.bytes).collect();
        let (data, bytes) = self.codec.pack(plan.algorithm, plan.zstd_level, &pieces, bytes_max)?;
        let (algorithm, pool) = (plan.algorithm, plan.pool);
        Some(NewBlob { place, blocks: window.len() as u8, algorithm, pool, bytes, data })
    }
}

/// A change of what is compressed, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    pub stored: i64,
    pub allocated: i64,
    pub original: i64,
}

impl Change {
    /// What there is after it.
    pub fn of(self, before: Compressed) -> Compressed {
        Compressed {
            stored: before.stored.saturating_add_signed(self.stored),
            allocated: before.allocated.saturating_add_signed(self.allocated),
            original: before.original.saturating_add_signed(self.original),
        }
    }

    /// The change that leads from one to the other.
    pub fn between(before: Compressed, after: Compressed) -> Self {
        Self {
            stored: after.stored.wrapping_sub(before.stored) as i64,
            allocated: after.allocated.wrapping_sub(before.allocated) as i64,
            original: after.original.wrapping_sub(before.original) as i64,
        }
    }
}

/// Bytes of a value of the table.
pub const COUNTED_BYTES: usize = 24;

pub fn counted_key(pool: PoolId) -> Key {
    key(table::COMPRESSED, &pool.0.to_be_bytes())
}

pub fn pool_of(key: &[u8]) -> Option<PoolId> {
    Some(PoolId(i64::from_be_bytes(key.get(1..)?.try_into().ok()?)))
}

pub fn encode_counted(counted: &Compressed) -> Piece {
    let mut e = Encoder::with_capacity(0, COUNTED_BYTES);
    e.put(&counted.stored).put(&counted.allocated).put(&counted.original);
    e.into_bytes().into()
}

/// # Errors
/// The value does not decode to the three counts.
pub fn decode_counted(value: &[u8]) -> Result<Compressed, DecodeError> {
    let mut d = Decoder::new(value);
    let counted = Compressed { stored: d.get()?, allocated: d.get()?, original: d.get()? };
    d.finish()?;
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use store::{AllocHint, ByMedium, CollectionId};
    use types::{GHObject, PgId};

    use super::*;
    use crate::find::Place;
    use crate::onode::Onode;

    fn found(pool: i64, flags: u32) -> Found {
        let hint = Some(AllocHint { flags, ..AllocHint::default() });
        let collection = CollectionId::Pg(PgId { pool: PoolId(pool), seed: 0 }.into());
        let mut onode = Onode::new(1);
        onode.hint = hint;
        Found { collection, object: GHObject::min(), place: Place::new(1), onode, stored: None }
    }

    fn how(mode: CompressionMode, blob: u64) -> Option<Compression> {
        let bytes = ByMedium { hdd: 2 * blob, ssd: blob };
        Some(Compression { mode, blob_bytes_min: bytes, ..Compression::default() })
    }

    #[test]
    fn a_pool_goes_before_the_default_and_nothing_is_packed_unannounced() {
        use CompressionMode::{Aggressive, Force, None as Never};
        let mut packer = Packer::default();
        assert_eq!(packer.plan(&found(1, 0)), Ok(None));
        packer.set(None, how(Aggressive, 64 << 10));
        packer.set(Some(PoolId(2)), how(Never, 64 << 10));
        packer.set(Some(PoolId(3)), how(Force, 100_000));
        assert_eq!(packer.plan(&found(1, 0)), Err(Stop::Announcement));
        assert_eq!(packer.plan(&found(2, 0)), Ok(None));
        packer.is_announced = true;
        let blocks = |packer: &Packer, pool, flags| {
            packer.plan(&found(pool, flags)).expect("it is announced").map(|plan| plan.blob_blocks)
        };
        let bad = AllocHint::INCOMPRESSIBLE;
        let all = [(1, 0), (1, bad), (2, 0), (3, bad)].map(|(pool, flags)| blocks(&packer, pool, flags));
        assert_eq!(all, [Some(16), None, None, Some(16)]);
        packer.rotational = true;
        assert_eq!(blocks(&packer, 3, 0), Some(32));
        packer.set(Some(PoolId(3)), how(Force, 1));
        packer.set(None, how(Never, 1));
        assert_eq!((blocks(&packer, 3, 0), blocks(&packer, 1, 0)), (Some(2), None));
        packer.set(Some(PoolId(3)), None);
        assert_eq!(blocks(&packer, 3, 0), None);
    }

    #[test]
    fn blobs_are_cut_at_their_multiples_and_must_save_what_is_required() {
        let plan = Plan {
            algorithm: CompressionAlgorithm::Lz4,
            zstd_level: 1,
            required_ratio: 0.875,
            blob_blocks: 4,
            pool: PoolId(1),
        };
        let packer = Packer::default();
        let mut random = types::SplitMix64::new(1);
        let mut block = |place: u8, noise: bool| {
            let mut bytes = vec![7; BLOCK as usize];
            if noise {
                bytes.fill_with(|| random.below(256) as u8);
            }
            NewBlock { place, bytes: bytes.into(), crc: None }
        };
        // One block alone, four that shrink, four that don't, two of which one has a wrong checksum.
        let mut blocks: Vec<NewBlock> = (3..14).map(|place| block(place, (8..12).contains(&place))).collect();
        blocks[9].crc = Some(1);
        blocks[1].crc = Some(blocks[1].bytes.crc32c(!0));
        let blobs = packer.pack(plan, &mut blocks);
        let packed: Vec<(u8, u8, usize)> = blobs.iter().map(|b| (b.place, b.blocks, b.data.len())).collect();
        assert_eq!(packed, [(4, 4, 4096)]);
        assert_eq!(blocks.iter().map(|b| b.place).collect::<Vec<_>>(), [3, 8, 9, 10, 11, 12, 13]);
        // Two of four blocks are noise: three blocks are not at most half of four.
        let mut blocks: Vec<NewBlock> = (0..4).map(|place| block(place, place < 2)).collect();
        let half = Plan { required_ratio: 0.5, ..plan };
        assert_eq!(
            (packer.pack(half, &mut blocks.clone()).len(), packer.pack(plan, &mut blocks).len()),
            (0, 1)
        );
    }

    #[test]
    fn counts_come_back() {
        let counted = Compressed { stored: 5, allocated: 4096, original: 8192 };
        assert_eq!(decode_counted(&encode_counted(&counted)), Ok(counted));
        assert_eq!(encode_counted(&counted).len(), COUNTED_BYTES);
        assert_eq!(pool_of(&counted_key(PoolId(-1))), Some(PoolId(-1)));
        let change = Change::between(counted, Compressed::default());
        assert_eq!((change.of(counted), change.original), (Compressed::default(), -8192));
        assert_eq!(change.of(Compressed::default()), Compressed::default(), "never less than nothing");
    }
}
