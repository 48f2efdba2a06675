//! A record of an object's map of data: where 64 neighbouring blocks of the object are, as they are or compressed.

use std::ops::Range;

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};
use store::CompressionAlgorithm;
use types::PoolId;

use crate::layout::BLOCK;

/// Blocks of an object that one record maps.
pub const CHUNK_BLOCKS: u64 = 64;

/// No block of a shard has a higher number.
const BLOCK_NUMBER_MAX: u64 = 1 << 48;

/// Bytes of a run's encoding before its checksums.
const RUN_BYTES: usize = 11;

/// Some of the places of a chunk, a bit each.
pub type Places = u64;

/// The places from `first` on and before `end`.
pub fn places(first: u64, end: u64) -> Places {
    let below = |n: u64| if n >= CHUNK_BLOCKS { Places::MAX } else { (1 << n) - 1 };
    below(end) & !below(first)
}

/// The places that blocks of an object have in the chunk whose first block is `base`.
pub fn places_from(base: u64, blocks: &Range<u64>) -> Places {
    places(blocks.start.saturating_sub(base), blocks.end.saturating_sub(base))
}

/// One place.
pub fn place_bit(place: u8) -> Places {
    1 << (u64::from(place) % CHUNK_BLOCKS)
}

/// A mapped block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Of the shard.
    pub block: u64,
    /// The crc32c (seed -1) of its bytes.
    pub crc: u32,
    /// Whether other objects may map it: then it is never written in place, and [`crate::records::Counts`] says how many.
    pub shared: bool,
}

/// Mapped blocks of a chunk by their places, ascending. One run of memory: many writes decode all of a chunk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Slots(Vec<(u8, Slot)>);

impl Slots {
    fn find(&self, place: u8) -> Result<usize, usize> {
        match self.0.last() {
            // Places are added ascending, as a rule.
            Some((last, _)) if *last < place => Err(self.0.len()),
            _ => self.0.binary_search_by_key(&place, |(at, _)| *at),
        }
    }

    /// Takes memory for so many more.
    pub fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }

    pub fn get(&self, place: u8) -> Option<&Slot> {
        self.find(place).ok().map(|at| &self.0[at].1)
    }

    pub fn insert(&mut self, place: u8, slot: Slot) {
        match self.find(place) {
            Ok(at) => self.0[at].1 = slot,
            Err(at) => self.0.insert(at, (place, slot)),
        }
    }

    pub fn remove(&mut self, place: u8) -> Option<Slot> {
        self.find(place).ok().map(|at| self.0.remove(at).1)
    }

    /// Takes out what is mapped at these places.
    pub fn take(&mut self, gone: Places) -> Self {
        let (gone, kept) =
            std::mem::take(&mut self.0).into_iter().partition(|(place, _)| gone & place_bit(*place) != 0);
        self.0 = kept;
        Self(gone)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u8, Slot)> {
        self.0.iter().copied()
    }

    pub fn values(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter().map(|(_, slot)| slot)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u8, &mut Slot)> {
        self.0.iter_mut().map(|(place, slot)| (*place, slot))
    }
}

impl FromIterator<(u8, Slot)> for Slots {
    fn from_iter<T: IntoIterator<Item = (u8, Slot)>>(slots: T) -> Self {
        let mut all = Self::default();
        slots.into_iter().for_each(|(place, slot)| all.insert(place, slot));
        all
    }
}

/// Blocks of an object that were compressed together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blob {
    /// The chunk's place of the first of them.
    pub place: u8,
    /// How many they were; more than what is stored takes.
    pub blocks: u8,
    pub algorithm: CompressionAlgorithm,
    /// The pool for whose object they were written.
    pub pool: PoolId,
    /// Bytes that compression made of them; zeros fill the last block.
    pub bytes: u32,
    /// The places that still have their contents from here; at least one.
    pub live: Places,
    /// Where it is stored. All of it is mapped, and shared, together.
    pub stored: Vec<Slot>,
}

impl Blob {
    /// Blocks that so many bytes take.
    pub fn stored_blocks(bytes: u32) -> u64 {
        u64::from(bytes).div_ceil(BLOCK)
    }

    /// Whether it takes more blocks than these places would by themselves.
    pub fn is_too_large_for(&self, live: Places) -> bool {
        self.stored.len() > live.count_ones() as usize
    }

    fn all_places(&self) -> Places {
        let first = u64::from(self.place);
        places(first, first + u64::from(self.blocks))
    }

    fn encode(&self, e: &mut Encoder) {
        let kind = Kind { shared: self.stored.first().is_some_and(|slot| slot.shared), compressed: true };
        e.put(&self.place).put(&self.blocks).put(&kind.code()).put(&self.algorithm.code());
        e.put(&self.pool.0).put(&self.bytes).put(&self.live);
        for run in self.stored.chunk_by(|a, b| a.block + 1 == b.block) {
            e.put(&run[0].block).put(&(run.len() as u8));
        }
        for slot in &self.stored {
            e.put(&slot.crc);
        }
    }

    /// What follows place, blocks and kind.
    fn decode(d: &mut Decoder<'_>, place: u8, blocks: u8, shared: bool) -> Result<Self, DecodeError> {
        let bad = |value: u64| DecodeError::BadValue { what: "compressed blocks of an object", value };
        let code: u8 = d.get()?;
        let algorithm = CompressionAlgorithm::of_code(code)
            .ok_or(DecodeError::BadValue { what: "algorithm of compressed blocks", value: code.into() })?;
        let (pool, bytes, live) = (PoolId(d.get()?), d.get()?, d.get()?);
        let mut blob = Self { place, blocks, algorithm, pool, bytes, live, stored: Vec::new() };
        let count = Self::stored_blocks(bytes);
        let reaches = u64::from(place) + u64::from(blocks);
        if reaches > CHUNK_BLOCKS || count == 0 || count >= u64::from(blocks) {
            return Err(bad(bytes.into()));
        }
        if live == 0 || live & !blob.all_places() != 0 {
            return Err(bad(live));
        }
        let mut numbers = Vec::with_capacity(count as usize);
        while (numbers.len() as u64) < count {
            let (first, len): (u64, u8) = (d.get()?, d.get()?);
            if len == 0 || numbers.len() as u64 + u64::from(len) > count || first > BLOCK_NUMBER_MAX {
                return Err(bad(first));
            }
            numbers.extend(first..first + u64::from(len));
        }
        for block in numbers {
            blob.stored.push(Slot { block, crc: d.get()?, shared });
        }
        Ok(blob)
    }
}

/// What a run of a chunk's encoding is.
#[derive(Clone, Copy)]
struct Kind {
    shared: bool,
    compressed: bool,
}

impl Kind {
    const SHARED: u8 = 1;
    const COMPRESSED: u8 = 2;

    fn code(self) -> u8 {
        u8::from(self.shared) * Self::SHARED + u8::from(self.compressed) * Self::COMPRESSED
    }

    fn of_code(code: u8) -> Result<Self, DecodeError> {
        if code > Self::SHARED + Self::COMPRESSED {
            return Err(DecodeError::BadValue { what: "kind of mapped blocks", value: code.into() });
        }
        Ok(Self { shared: code & Self::SHARED != 0, compressed: code & Self::COMPRESSED != 0 })
    }
}

/// The mapped blocks among [`CHUNK_BLOCKS`], by place. What is not mapped is zeros.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chunk {
    /// Blocks as they are.
    pub slots: Slots,
    /// Compressed blocks. No place is live in two, or in one and in `slots`.
    pub blobs: Vec<Blob>,
}

impl Chunk {
    /// What a record says; without one nothing is mapped.
    ///
    /// # Errors
    /// See [`Chunk::decode`].
    pub fn of_record(record: Option<&Piece>) -> Result<Self, DecodeError> {
        record.map_or(Ok(Self::default()), |record| Self::decode(record))
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.blobs.is_empty()
    }

    /// Every block of the shard that it maps, once.
    pub fn stored(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values().chain(self.blobs.iter().flat_map(|blob| &blob.stored))
    }

    /// The same to be changed.
    pub fn stored_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots
            .0
            .iter_mut()
            .map(|(_, slot)| slot)
            .chain(self.blobs.iter_mut().flat_map(|blob| &mut blob.stored))
    }

    /// Runs of neighbours: place, length, kind (u8 each), first block (u64), a checksum (u32) for each; then the blobs.
    pub fn encode(&self) -> Piece {
        let follows = |a: &(u8, Slot), b: &(u8, Slot)| {
            a.0 + 1 == b.0 && a.1.block + 1 == b.1.block && a.1.shared == b.1.shared
        };
        let runs = self.slots.0.chunk_by(follows).count();
        let mut e = Encoder::with_capacity(0, RUN_BYTES * runs + 4 * self.slots.0.len());
        for run in self.slots.0.chunk_by(follows) {
            let (place, first) = run[0];
            let kind = Kind { shared: first.shared, compressed: false };
            e.put(&place).put(&(run.len() as u8)).put(&kind.code()).put(&first.block);
            for (_, slot) in run {
                e.put(&slot.crc);
            }
        }
        self.blobs.iter().for_each(|blob| blob.encode(&mut e));
        e.into_bytes().into()
    }

    /// Sets, in an encoding, the checksum of a block that is mapped as it is; the others need not be decoded.
    ///
    /// # Errors
    /// The block is not mapped, or it is compressed; or the bytes before its checksum can't be decoded.
    pub fn set_checksum(encoded: &mut [u8], place: u8, crc: u32) -> Result<(), DecodeError> {
        let mut d = Decoder::new(encoded);
        let at = loop {
            let (first, len, kind): (u8, u8, u8) = (d.get()?, d.get()?, d.get()?);
            let kind = Kind::of_code(kind)?;
            if kind.compressed {
                Blob::decode(&mut d, first, len, kind.shared)?;
                continue;
            }
            let _: u64 = d.get()?;
            let checksums = d.position();
            d.take(4 * usize::from(len), "checksums of mapped blocks")?;
            if let Some(at) = place.checked_sub(first).filter(|at| *at < len) {
                break checksums + 4 * usize::from(at);
            }
        };
        encoded[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        Ok(())
    }

    /// # Errors
    /// A run is empty, overlaps the one before it or reaches past the chunk; or a place is mapped twice.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_within(bytes, Places::MAX)
    }

    /// The same without what is mapped elsewhere than at the places that are wanted: a small read needs few of 64.
    ///
    /// # Errors
    /// As [`Chunk::decode`], wherever it is.
    pub fn decode_within(bytes: &[u8], wanted: Places) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let (mut chunk, mut next) = (Self::default(), 0u64);
        chunk.slots.0.reserve((bytes.len() / 4).min(wanted.count_ones() as usize));
        let (mut plain, mut compressed): (Places, Places) = (0, 0);
        while d.remaining() > 0 {
            let (place, len, kind): (u8, u8, u8) = (d.get()?, d.get()?, d.get()?);
            let kind = Kind::of_code(kind)?;
            if kind.compressed {
                let blob = Blob::decode(&mut d, place, len, kind.shared)?;
                if blob.live & compressed != 0 {
                    return Err(DecodeError::BadValue { what: "blocks mapped twice", value: place.into() });
                }
                compressed |= blob.live;
                if blob.live & wanted != 0 {
                    chunk.blobs.push(blob);
                }
                continue;
            }
            let first: u64 = d.get()?;
            let end = u64::from(place) + u64::from(len);
            if len == 0 || u64::from(place) < next || end > CHUNK_BLOCKS || first > BLOCK_NUMBER_MAX {
                return Err(DecodeError::BadValue { what: "run of mapped blocks", value: place.into() });
            }
            plain |= places(place.into(), end);
            let crcs = d.take(4 * usize::from(len), "checksums of mapped blocks")?;
            // Places ascend, as was seen.
            let mut left = wanted & places(place.into(), end);
            while left != 0 {
                let at = left.trailing_zeros() as u8 - place;
                let crc = crcs[4 * usize::from(at)..].first_chunk().map_or(0, |crc| u32::from_le_bytes(*crc));
                let slot = Slot { block: first + u64::from(at), crc, shared: kind.shared };
                chunk.slots.0.push((place + at, slot));
                left &= left - 1;
            }
            next = end;
        }
        match compressed & plain {
            0 => Ok(chunk),
            twice => Err(DecodeError::BadValue {
                what: "blocks mapped twice",
                value: twice.trailing_zeros().into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(block: u64, shared: bool) -> Slot {
        Slot { block, crc: block as u32, shared }
    }

    fn blob(place: u8, live: Places, blocks: &[u64]) -> Blob {
        Blob {
            place,
            blocks: 16,
            algorithm: CompressionAlgorithm::Zstd,
            pool: PoolId(3),
            bytes: blocks.len() as u32 * 4096 - 7,
            live,
            stored: blocks.iter().map(|block| slot(*block, false)).collect(),
        }
    }

    #[test]
    fn chunks_come_back() {
        let mut chunk = Chunk::default();
        for (place, block, shared) in
            [(0, 5, false), (1, 6, false), (2, 7, true), (4, 8, true), (63, 1, false)]
        {
            chunk.slots.insert(place, slot(block, shared));
        }
        assert_eq!(chunk.encode().len(), 4 * 11 + 5 * 4);
        assert_eq!(Chunk::decode(&chunk.encode()), Ok(chunk.clone()));
        chunk.blobs = vec![blob(16, places(16, 32), &[20, 21, 22, 30]), blob(8, places(8, 16), &[40])];
        chunk.blobs[1].stored[0].shared = true;
        assert_eq!(chunk.encode().len(), 4 * 11 + 5 * 4 + (24 + 2 * 9 + 4 * 4) + (24 + 9 + 4));
        assert_eq!(Chunk::decode(&chunk.encode()), Ok(chunk.clone()));
        assert_eq!(chunk.stored().count(), 10);
        for (first, end) in [(0, 1), (1, 5), (3, 20), (12, 64), (40, 50)] {
            let mut part = chunk.clone();
            part.slots.take(!places(first, end));
            part.blobs.retain(|blob| blob.live & places(first, end) != 0);
            assert_eq!(Chunk::decode_within(&chunk.encode(), places(first, end)), Ok(part), "{first}..{end}");
        }
    }

    #[test]
    fn a_checksum_is_set_in_an_encoding() {
        let mut chunk = Chunk {
            slots: [(0, 5), (1, 6), (2, 7), (4, 9), (63, 1)]
                .map(|(at, b)| (at, slot(b, false)))
                .into_iter()
                .collect(),
            blobs: vec![blob(16, places(16, 32), &[20, 21])],
        };
        let mut encoded = chunk.encode().to_vec();
        for (place, block, crc) in [(2, 7, 70), (0, 5, 71), (63, 1, 72), (4, 9, 73)] {
            Chunk::set_checksum(&mut encoded, place, crc).expect("it is mapped");
            chunk.slots.insert(place, Slot { block, crc, shared: false });
            assert_eq!(Chunk::decode(&encoded), Ok(chunk.clone()), "{place}");
        }
        for place in [3, 5, 16, 62] {
            assert!(Chunk::set_checksum(&mut encoded, place, 1).is_err(), "{place}");
        }
        assert_eq!(Chunk::decode(&encoded), Ok(chunk));
    }

    #[test]
    fn what_is_read_of_a_chunk_is_checked_as_a_whole() {
        let twice = Chunk {
            slots: [(16, slot(99, false))].into_iter().collect(),
            blobs: vec![blob(16, places(16, 32), &[1, 2])],
        };
        assert!(Chunk::decode_within(&twice.encode(), place_bit(40)).is_err());
        let cut =
            Chunk { slots: [(0, slot(5, false)), (9, slot(7, false))].into_iter().collect(), blobs: vec![] }
                .encode();
        assert!(Chunk::decode_within(&cut[..cut.len() - 1], place_bit(0)).is_err());
    }

    #[test]
    fn slots_stay_in_order() {
        let mut slots: Slots =
            [(9, slot(1, false)), (2, slot(2, false)), (5, slot(3, false))].into_iter().collect();
        slots.insert(5, slot(4, true));
        slots.insert(63, slot(5, false));
        let seen = |slots: &Slots| slots.iter().map(|(place, slot)| (place, slot.block)).collect::<Vec<_>>();
        assert_eq!(seen(&slots), [(2, 2), (5, 4), (9, 1), (63, 5)]);
        assert_eq!((slots.get(9).map(|s| s.block), slots.get(8)), (Some(1), None));
        assert_eq!((slots.remove(2).map(|s| s.block), slots.remove(2)), (Some(2), None));
        assert_eq!((seen(&slots.take(places(6, 64))), seen(&slots)), (vec![(9, 1), (63, 5)], vec![(5, 4)]));
        assert!(!slots.is_empty() && slots.take(Places::MAX).get(5).is_some() && slots.is_empty());
    }

    #[test]
    fn runs_that_make_no_sense_are_refused() {
        let run = |place: u8, len: u8| {
            let mut e = Encoder::new(0);
            e.put(&place).put(&len).put(&false).put(&1u64);
            for _ in 0..len {
                e.put(&0u32);
            }
            e.into_bytes()
        };
        assert!(Chunk::decode(&run(0, 64)).is_ok());
        assert!(Chunk::decode(&run(0, 0)).is_err() && Chunk::decode(&run(63, 2)).is_err());
        assert!(Chunk::decode(&[run(5, 2), run(6, 1)].concat()).is_err());
    }

    #[test]
    fn blobs_that_make_no_sense_are_refused() {
        let decoded = |blobs: Vec<Blob>, slots: &[u8]| {
            let slots = slots.iter().map(|place| (*place, slot(99, false))).collect();
            Chunk::decode(&Chunk { slots, blobs }.encode())
        };
        let good = blob(16, places(16, 32), &[1, 2]);
        assert!(decoded(vec![good.clone()], &[15]).is_ok());
        assert!(decoded(vec![good.clone()], &[16]).is_err(), "a place in it and beside it");
        assert!(decoded(vec![good.clone(), blob(20, places(20, 21), &[5])], &[]).is_err(), "a place in two");
        for (what, bad) in [
            ("nothing is live", Blob { live: 0, ..good.clone() }),
            ("a place before it", Blob { live: places(15, 32), ..good.clone() }),
            ("a place behind it", Blob { live: places(16, 33), ..good.clone() }),
            ("it reaches past the chunk", Blob { place: 60, live: places(60, 64), ..good.clone() }),
            ("no bytes", Blob { bytes: 0, ..good.clone() }),
            ("as many bytes as blocks", Blob { bytes: 16 << 12, ..good.clone() }),
            ("more bytes than stored", Blob { bytes: 3 << 12, ..good.clone() }),
            ("bytes beyond any blob", Blob { bytes: u32::MAX, ..good.clone() }),
        ] {
            assert!(decoded(vec![bad], &[]).is_err(), "{what}");
        }
        let bytes = Chunk { blobs: vec![good], ..Chunk::default() }.encode().to_vec();
        for len in 1..bytes.len() {
            assert!(Chunk::decode(&bytes[..len]).is_err(), "cut at {len}");
        }
        let mut other = bytes;
        other[3] = 1;
        assert!(Chunk::decode(&other).is_err(), "Ceph's number of snappy");
    }

    #[test]
    fn places_are_counted_from_the_first() {
        assert_eq!((places(0, 64), places(3, 5), places(64, 64)), (u64::MAX, 0b11000, 0));
        assert_eq!((places(5, 3), place_bit(63)), (0, 1 << 63));
    }
}
