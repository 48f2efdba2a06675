//! What lies where on the device: the label, and for each shard its superblocks, its log and its blocks.

use blockdev::DeviceId;
use encoding::{DecodeError, Decoder, Encoder};

use buffer::{Piece, PieceMut, crc32c};
use wal::{Opening, Position};

use crate::page::PagePtr;
use crate::ranges::{Grown, Ranges};

/// Bytes of a block: the unit of allocation and of checksums.
pub const BLOCK: u64 = 4096;

/// The format that this crate writes. Every format but 0 is read by later builds.
pub const FORMAT: u32 = 1;

/// What a reader of a superblock has to know, a bit each. A build that lacks one opens nothing.
pub mod features {
    /// The store has several shards. Builds without it serve the first alone, so that the collections of the others would
    /// be lost to their OSD.
    pub const SEVERAL_SHARDS: u64 = 1;

    /// The shard has more blocks than the label gives it: it goes on where builds without it see no store.
    pub const GROWN: u64 = 2;

    /// Objects may have compressed blocks, which builds without it can't read.
    pub const COMPRESSED: u64 = 4;

    /// The shard is one of several of a store that has grown: it has further ranges of blocks.
    pub const RANGES: u64 = 8;

    /// The shard's log is on the device of logs, though the label has it beside the data: it was moved.
    pub const LOG_MOVED: u64 = 16;

    /// Each superblock is written twice, and the blocks begin behind the second places: builds without it would take these for
    /// blocks.
    pub const SUPERBLOCK_COPIES: u64 = 32;

    /// Pages of the tree may have copies, whose place builds without it find no sense in.
    pub const PAGE_COPIES: u64 = 64;

    /// Onodes may have parts of their objects, which builds without it look for under keys. Every shard that this build has opened.
    pub const INLINE_PARTS: u64 = 128;

    /// The tree may note changes that belong to pages which can't be read; builds without it would miss them.
    pub const STRANDED: u64 = 256;

    /// Batches, the tree and what is dead say how many blocks of data pools have, which builds without it would not keep true.
    pub const POOL_BLOCKS: u64 = 512;

    /// They say how many bytes the omaps of pools have, too; only with [`POOL_BLOCKS`].
    pub const POOL_OMAPS: u64 = 1024;

    /// All that this build knows.
    pub const KNOWN: u64 = SEVERAL_SHARDS
        | GROWN
        | COMPRESSED
        | RANGES
        | LOG_MOVED
        | SUPERBLOCK_COPIES
        | PAGE_COPIES
        | INLINE_PARTS
        | STRANDED
        | POOL_BLOCKS
        | POOL_OMAPS;
}

/// "LoligoBS", little-endian.
const LABEL_MAGIC: u64 = 0x5342_6f67_696c_6f4c;

/// "LoligoBL", little-endian: the label of a device that has the logs alone.
const LOG_LABEL_MAGIC: u64 = 0x4c42_6f67_696c_6f4c;

/// "LgSb", little-endian.
const SUPERBLOCK_MAGIC: u32 = 0x6253_674c;

/// No store has more bytes of its device.
pub const SIZE_BYTES_MAX: u64 = 1 << 56;

/// Bytes of the label on the device.
pub const LABEL_BYTES: u64 = 4096;

/// Bytes of a superblock on the device: two equal halves, so that a flipped bit takes none.
pub const SUPERBLOCK_BYTES: u64 = 4096;

/// Bytes of one half.
const HALF_BYTES: usize = 2048;

/// The places of superblocks that follow one another: for even generations, and for odd ones.
pub const PLACES: u64 = 2;

/// Bytes between a shard's two pairs of places, at least: what takes the one is to leave the other.
const BETWEEN_PAIRS_MIN: u64 = LOG_BYTES_MIN;

/// The longest label of the caller's, bytes.
pub const OWNER_BYTES_MAX: usize = 2048;

/// What of a store a device has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Everything, but for the logs where they are apart.
    Data,
    /// The logs alone.
    Log,
}

impl Part {
    fn magic(self) -> u64 {
        match self {
            Self::Data => LABEL_MAGIC,
            Self::Log => LOG_LABEL_MAGIC,
        }
    }
}

/// What a device says of the store on it. Written once, when the store is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// A random number that no other store has.
    pub id: u64,
    pub shards: u32,
    /// Bytes of the device that the store uses.
    pub size_bytes: u64,
    /// Bytes of each shard's log.
    pub log_bytes: u64,
    /// Records of the log begin at multiples of it.
    pub log_unit_bytes: u32,
    /// Whether the logs are on a device of their own (with this label in front), and not on that of the data.
    pub log_apart: bool,
    /// Whether each superblock is written a second time, apart from the first. Stores of earlier builds have each once.
    pub copies: bool,
    /// What the caller keeps there (whose store it is); at most [`OWNER_BYTES_MAX`].
    pub owner: Vec<u8>,
}

/// Bytes up to a checksum of them, as one block.
fn sealed(e: Encoder, bytes: usize) -> Piece {
    let body = e.into_bytes();
    let mut piece = PieceMut::zeroed(bytes);
    let out = piece.as_mut_slice();
    out[..4].copy_from_slice(&crc32c(!0, &body).to_le_bytes());
    out[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    out[8..8 + body.len()].copy_from_slice(&body);
    piece.freeze()
}

/// The bytes under a checksum.
fn unsealed<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a [u8], DecodeError> {
    let mut d = Decoder::new(bytes);
    let expected: u32 = d.get()?;
    let body = d.blob(what)?;
    let actual = crc32c(!0, body);
    if actual == expected { Ok(body) } else { Err(DecodeError::Checksum { what, expected, actual }) }
}

impl Label {
    /// As the device with this part of the store has it.
    pub fn encode(&self, part: Part) -> Piece {
        let mut e = Encoder::new(0);
        e.put(&part.magic()).put(&FORMAT).put(&self.id).put(&self.shards).put(&self.size_bytes);
        e.put(&self.log_bytes).put(&self.log_unit_bytes).put(&self.log_apart).blob(&self.owner);
        if self.copies {
            e.put(&features::SUPERBLOCK_COPIES);
        }
        sealed(e, LABEL_BYTES as usize)
    }

    /// # Errors
    /// The bytes are no label, or that of another part or format, or its sizes leave no room for the shards.
    pub fn decode(bytes: &[u8], part: Part) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(unsealed(bytes, "label of a block store")?);
        let magic: u64 = d.get()?;
        if magic != part.magic() {
            let what = match part {
                Part::Data => "magic of a block store",
                Part::Log => "magic of a block store's log",
            };
            return Err(DecodeError::BadValue { what, value: magic });
        }
        let format: u32 = d.get()?;
        if format != FORMAT {
            return Err(DecodeError::BadValue { what: "format of a block store", value: format.into() });
        }
        let (id, shards, size_bytes) = (d.get()?, d.get()?, d.get()?);
        let (log_bytes, log_unit_bytes, log_apart) = (d.get()?, d.get()?, d.get()?);
        let owner = d.blob("owner of a block store")?.to_vec();
        let copies = match d.remaining() {
            0 => false,
            _ => d.get::<u64>().and_then(|features| match features {
                features::SUPERBLOCK_COPIES => Ok(true),
                value => Err(DecodeError::BadValue { what: "features of a block store's label", value }),
            })?,
        };
        let label = Self { id, shards, size_bytes, log_bytes, log_unit_bytes, log_apart, copies, owner };
        match label.is_sound() {
            true => Ok(label),
            false => Err(DecodeError::BadValue { what: "sizes of a block store", value: size_bytes }),
        }
    }

    /// What a reader of its superblocks has to know.
    pub fn features(&self) -> u64 {
        let several = if self.shards > 1 { features::SEVERAL_SHARDS } else { 0 };
        several | if self.copies { features::SUPERBLOCK_COPIES } else { 0 }
    }

    /// Whether each shard has a log and some blocks.
    pub fn is_sound(&self) -> bool {
        let unit = u64::from(self.log_unit_bytes);
        self.shards > 0
            && self.size_bytes <= SIZE_BYTES_MAX
            && (512..=BLOCK).contains(&unit)
            && unit.is_power_of_two()
            && self.log_bytes >= LOG_BYTES_MIN
            && self.log_bytes % BLOCK == 0
            && self.owner.len() <= OWNER_BYTES_MAX
            && self.log_device_bytes() <= SIZE_BYTES_MAX
            && self.shard_bytes() >= self.bytes_before_blocks() + BLOCKS_MIN * BLOCK
    }

    /// Bytes of each shard's log that are on the data device.
    fn log_bytes_here(&self) -> u64 {
        if self.log_apart { 0 } else { self.log_bytes }
    }

    /// Bytes from a shard's superblocks to the copies of them, if it has any.
    fn bytes_before_copies(&self) -> u64 {
        PLACES * SUPERBLOCK_BYTES + self.log_bytes_here().max(BETWEEN_PAIRS_MIN)
    }

    /// Bytes of a shard's part that come before its blocks.
    fn bytes_before_blocks(&self) -> u64 {
        match self.copies {
            true => self.bytes_before_copies() + PLACES * SUPERBLOCK_BYTES,
            false => PLACES * SUPERBLOCK_BYTES + self.log_bytes_here(),
        }
    }

    pub fn log_device(&self) -> DeviceId {
        if self.log_apart { DeviceId::Wal } else { DeviceId::Data }
    }

    /// Bytes that the log's device must have, if it is one of its own.
    pub fn log_device_bytes(&self) -> u64 {
        self.log_bytes.saturating_mul(self.shards.into()).saturating_add(LABEL_BYTES)
    }

    /// Bytes of each shard's part of the device.
    fn shard_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(LABEL_BYTES) / u64::from(self.shards.max(1)) / BLOCK * BLOCK
    }

    /// The first byte of a shard's log on the device of logs.
    fn log_apart_at(&self, shard: u32) -> u64 {
        LABEL_BYTES + u64::from(shard) * self.log_bytes
    }

    /// Where a shard's parts are if its superblock has these features: its log may have been moved. What it had beside the data
    /// stays as it was, for its return.
    pub fn with_log_of(&self, shard: u32, mut layout: ShardLayout, features: u64) -> ShardLayout {
        if features & features::LOG_MOVED != 0 {
            layout.log_device = DeviceId::Wal;
            layout.log.offset = self.log_apart_at(shard);
        }
        layout
    }

    /// Where a shard's parts are. `None`: there is no such shard.
    pub fn shard(&self, shard: u32) -> Option<ShardLayout> {
        if shard >= self.shards {
            return None;
        }
        let superblocks = LABEL_BYTES + u64::from(shard) * self.shard_bytes();
        let blocks = superblocks + self.bytes_before_blocks();
        let beside = superblocks + PLACES * SUPERBLOCK_BYTES;
        let log = if self.log_apart { self.log_apart_at(shard) } else { beside };
        let (offset, bytes, unit_bytes) = (log, self.log_bytes, self.log_unit_bytes);
        // Logs of two shards differ by their place and by their number.
        let id = self.id.wrapping_add(u64::from(shard));
        Some(ShardLayout {
            superblocks,
            copies: self.copies.then_some(superblocks + self.bytes_before_copies()),
            log_device: self.log_device(),
            log: wal::Layout { offset, bytes, unit_bytes, id },
            ranges: Ranges::one(blocks, (superblocks + self.shard_bytes() - blocks) / BLOCK),
            end: self.end(&Grown::No),
            grown: Grown::No,
        })
    }
}

/// The smallest log, bytes.
pub const LOG_BYTES_MIN: u64 = 64 << 10;

/// The fewest blocks of a shard.
pub(crate) const BLOCKS_MIN: u64 = 256;

/// Where a shard's parts are on the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardLayout {
    /// First byte of the two superblocks.
    pub superblocks: u64,
    /// First byte of the two copies, if there are any.
    pub copies: Option<u64>,
    pub log_device: DeviceId,
    pub log: wal::Layout,
    /// Where the blocks are.
    pub ranges: Ranges,
    /// Bytes of the device, from its beginning, that the store may use, all its shards.
    pub end: u64,
    /// What of this the superblock says, and not the label.
    pub grown: Grown,
}

impl ShardLayout {
    pub fn block_offset(&self, block: u64) -> u64 {
        self.ranges.offset(block)
    }

    /// Where the superblock of a generation is written, and where it is a second time.
    pub fn superblock_offsets(&self, generation: u64) -> impl Iterator<Item = u64> + use<> {
        let pairs = [Some(self.superblocks), self.copies].into_iter().flatten();
        pairs.map(move |first| first + generation % PLACES * SUPERBLOCK_BYTES)
    }

    /// All places of superblocks, each with the lowest generation that is written there.
    pub fn superblock_places(&self) -> impl Iterator<Item = (u64, u64)> + use<'_> {
        let pairs = [Some(self.superblocks), self.copies].into_iter().flatten();
        pairs.flat_map(|first| (0..PLACES).map(move |n| (n, first + n * SUPERBLOCK_BYTES)))
    }
}

/// Numbers that every change carries along.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The number that the next object gets; none is given twice.
    pub next_number: u64,
    pub objects: u64,
    /// Bytes of all keys and values, with [`crate::ENTRY_BYTES`] for each.
    pub metadata_bytes: u64,
}

impl Counters {
    /// Of its encoding.
    pub const BYTES: usize = 24;

    pub fn put(&self, e: &mut Encoder) {
        e.put(&self.next_number).put(&self.objects).put(&self.metadata_bytes);
    }

    pub fn get(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { next_number: d.get()?, objects: d.get()?, metadata_bytes: d.get()? })
    }
}

/// A shard as of a point of its log. The one with the higher generation counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// See [`features`]; but what `grown` says.
    pub features: u64,
    /// [`Label::id`].
    pub store: u64,
    pub shard: u32,
    pub generation: u64,
    /// The tree's root and how many levels it has; `None` for an empty one.
    pub root: Option<(u8, PagePtr)>,
    pub counters: Counters,
    pub log: Opening,
    pub grown: Grown,
}

impl Superblock {
    /// The two halves. `None`: the root is in too many pieces to be written down.
    pub fn encode(&self) -> Option<Piece> {
        let mut e = Encoder::new(0);
        e.put(&SUPERBLOCK_MAGIC).put(&(self.features | self.grown.features()));
        e.put(&self.store).put(&self.shard).put(&self.generation);
        e.put(&self.log.kept.at).put(&self.log.kept.sequence);
        e.put(&self.log.sealed.at).put(&self.log.sealed.sequence).put(&self.log.salt);
        self.counters.put(&mut e);
        match &self.root {
            None => e.put(&0u8),
            Some((levels, ptr)) => e.put(levels).blob(&ptr.encode()),
        };
        self.grown.put(&mut e);
        e.put(&self.log.flushed);
        if e.len() + 8 > HALF_BYTES {
            return None;
        }
        let one = sealed(e, HALF_BYTES);
        let mut both = PieceMut::zeroed(SUPERBLOCK_BYTES as usize);
        both.as_mut_slice().chunks_mut(HALF_BYTES).for_each(|half| half.copy_from_slice(&one));
        Some(both.freeze())
    }

    /// # Errors
    /// Neither half is a superblock.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut last = DecodeError::Truncated { what: "superblock", needed: HALF_BYTES, left: bytes.len() };
        for half in bytes.chunks_exact(HALF_BYTES) {
            match Self::decode_half(half) {
                Ok(superblock) => return Ok(superblock),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn decode_half(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(unsealed(bytes, "superblock")?);
        let magic: u32 = d.get()?;
        if magic != SUPERBLOCK_MAGIC {
            return Err(DecodeError::BadValue { what: "magic of a superblock", value: magic.into() });
        }
        let features: u64 = d.get()?;
        if features & !features::KNOWN != 0 {
            let what = "features of a block store, which a newer build has written";
            return Err(DecodeError::BadValue { what, value: features });
        }
        let (store, shard, generation) = (d.get()?, d.get()?, d.get()?);
        let kept = Position { at: d.get()?, sequence: d.get()? };
        let sealed = Position { at: d.get()?, sequence: d.get()? };
        let salt = d.get()?;
        let counters = Counters::get(&mut d)?;
        let levels: u8 = d.get()?;
        let root = match levels {
            0 => None,
            levels => Some((levels, PagePtr::decode(d.blob("root of the tree")?)?)),
        };
        let grown = Grown::get(&mut d, features)?;
        // Earlier builds end here, and read no further.
        let flushed = if d.remaining() > 0 { d.get()? } else { 0 };
        let log = Opening { kept, sealed, salt, flushed };
        let features = features & !grown.features();
        Ok(Self { features, store, shard, generation, root, counters, log, grown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::Run;
    use crate::ranges::GROWTHS_MAX;

    pub fn label() -> Label {
        Label {
            id: 7,
            shards: 3,
            size_bytes: 64 << 20,
            log_bytes: 1 << 20,
            log_unit_bytes: 512,
            log_apart: false,
            copies: false,
            owner: b"osd.3".to_vec(),
        }
    }

    #[test]
    fn a_label_comes_back_and_its_shards_share_no_byte() {
        let label = label();
        assert_eq!(Label::decode(&label.encode(Part::Data), Part::Data), Ok(label.clone()));
        let mut end = LABEL_BYTES;
        for shard in 0..3 {
            let layout = label.shard(shard).expect("it has three");
            assert_eq!(layout.superblocks, end);
            assert_eq!(layout.log.offset, end + 2 * SUPERBLOCK_BYTES);
            assert_eq!(layout.block_offset(0), layout.log.offset + (1 << 20));
            end = layout.ranges.end();
        }
        assert!(end <= 64 << 20 && label.shard(3).is_none());
        let apart = Label { log_apart: true, ..label.clone() };
        for (part, other) in [(Part::Data, Part::Log), (Part::Log, Part::Data)] {
            assert_eq!(Label::decode(&apart.encode(part), part), Ok(apart.clone()));
            assert!(Label::decode(&apart.encode(part), other).is_err(), "{part:?} is not {other:?}");
        }
        let layout = apart.shard(2).expect("it has three");
        assert_eq!((layout.log_device, layout.log.offset), (DeviceId::Wal, LABEL_BYTES + (2 << 20)));
        assert_eq!(layout.block_offset(0), layout.superblocks + 2 * SUPERBLOCK_BYTES);
        assert_eq!(apart.log_device_bytes(), layout.log.offset + (1 << 20));
        for bad in [
            Label { shards: 0, ..label.clone() },
            Label { log_unit_bytes: 3, ..label.clone() },
            Label { log_bytes: u64::MAX / BLOCK * BLOCK, ..label.clone() },
            Label { size_bytes: 1 << 20, ..label.clone() },
            Label { shards: 1 << 30, size_bytes: 1 << 56, log_bytes: 1 << 56, ..apart.clone() },
        ] {
            assert!(Label::decode(&bad.encode(Part::Data), Part::Data).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn copies_of_superblocks_are_apart_from_them_and_from_everything_else() {
        for (shards, log_apart) in [(1, false), (1, true), (3, false), (3, true)] {
            let label = Label { shards, log_apart, copies: true, ..label() };
            for part in [Part::Data, Part::Log] {
                assert_eq!(Label::decode(&label.encode(part), part), Ok(label.clone()));
            }
            assert_eq!(label.features() & features::SUPERBLOCK_COPIES, features::SUPERBLOCK_COPIES);
            let mut end = LABEL_BYTES;
            for shard in 0..shards {
                let layout = label.shard(shard).expect("it is there");
                let copies = layout.copies.expect("it has them");
                let log = layout.log.offset..layout.log.offset + (1 << 20);
                assert!(layout.superblocks == end && (log_apart || log.start == end + 2 * SUPERBLOCK_BYTES));
                assert!(
                    copies >= end + 2 * SUPERBLOCK_BYTES + (64 << 10) && (log_apart || copies == log.end)
                );
                assert_eq!(layout.block_offset(0), copies + 2 * SUPERBLOCK_BYTES);
                let places = [0, 1].map(|n| layout.superblock_offsets(n).collect::<Vec<_>>());
                assert_eq!(places, [[end, copies], [end + SUPERBLOCK_BYTES, copies + SUPERBLOCK_BYTES]]);
                // Its place when it has moved is not theirs either.
                let moved = label.with_log_of(shard, layout.clone(), features::LOG_MOVED);
                assert_eq!((moved.superblocks, moved.copies), (layout.superblocks, layout.copies));
                end = layout.ranges.end();
            }
            assert!(end <= label.size_bytes);
        }
        // A build to come.
        let mut bytes = Label { copies: true, ..label() }.encode(Part::Data).to_vec();
        let len = u32::from_le_bytes(bytes[4..8].try_into().expect("four")) as usize;
        bytes[len] |= 64;
        let sum = crc32c(!0, &bytes[8..8 + len]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        let value = features::SUPERBLOCK_COPIES | 64;
        let refused = Label::decode(&bytes, Part::Data);
        assert!(matches!(refused, Err(DecodeError::BadValue { value: v, .. }) if v == value), "{refused:?}");
    }

    #[test]
    fn a_superblock_survives_one_bad_half() {
        let at = |n| Position { at: n * 512, sequence: n };
        let superblock = Superblock {
            features: features::SEVERAL_SHARDS,
            store: 7,
            shard: 1,
            generation: 5,
            root: Some((
                2,
                PagePtr { runs: vec![Run { start: 9, count: 2 }], copy: vec![], bytes: 8000, crc: 4 },
            )),
            counters: Counters { next_number: 3, objects: 2, metadata_bytes: 1000 },
            log: Opening { kept: at(4), sealed: at(3), salt: 2, flushed: 9 },
            grown: Grown::No,
        };
        let ends = (0..GROWTHS_MAX as u64).map(|n| n << 30).collect();
        for grown in [Grown::Blocks(1 << 20), Grown::Ends(vec![1 << 30]), Grown::Ends(ends)] {
            let grown = Superblock { grown, ..superblock.clone() };
            assert_eq!(Superblock::decode(&grown.encode().expect("it fits")), Ok(grown));
        }
        for bad in [Grown::Ends(vec![]), Grown::Ends(vec![1 << 30; GROWTHS_MAX + 1])] {
            let bad = Superblock { grown: bad, ..superblock.clone() };
            assert!(Superblock::decode(&bad.encode().expect("it fits")).is_err(), "{bad:?}");
        }
        let both =
            Superblock { features: features::GROWN, grown: Grown::Ends(vec![1 << 30]), ..superblock.clone() };
        assert!(Superblock::decode(&both.encode().expect("it fits")).is_err(), "two ways to have grown");
        let bytes = superblock.encode().expect("it fits").to_vec();
        assert_eq!(Superblock::decode(&bytes), Ok(superblock.clone()));
        for at in [0, 20, HALF_BYTES + 20] {
            let mut bad = bytes.clone();
            bad[at] ^= 8;
            assert_eq!(Superblock::decode(&bad), Ok(superblock.clone()));
            bad[20] ^= 1;
            bad[HALF_BYTES + 30] ^= 1;
            assert!(Superblock::decode(&bad).is_err());
        }
        // A feature of a build to come.
        let (mut e, next) = (Encoder::new(0), features::KNOWN + 1);
        e.raw(&bytes[8..12]).put(&next).raw(&bytes[20..HALF_BYTES - 8]);
        let newer = sealed(e, HALF_BYTES).to_vec();
        let refused = Superblock::decode(&newer);
        assert!(matches!(refused, Err(DecodeError::BadValue { value, .. }) if value == next), "{refused:?}");
    }
}
