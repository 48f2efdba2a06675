//! What the tree's keys and values are.

use std::collections::BTreeMap;

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};
use store::{CollectionId, LogRecord, LogRecordKind, keys};
use types::{EVersion, GHObject, Name, PoolId};

use crate::chunk::CHUNK_BLOCKS;
use crate::page::Key;

/// The tables, by the first byte of their keys.
pub mod table {
    /// Pool: what it takes ([`crate::pool_use`]); no key where that is nothing. Only in the tree, never in the log. Beside
    /// the bitmap, so that an opening needs no leaf for it that it does not need anyway.
    pub const POOL_USE: u8 = b'a';
    /// Collection: [`super::Collection`].
    pub const COLLECTION: u8 = b'c';
    /// Number of an object or of an omap that is being removed: which of its parts ([`super::Dead`]).
    pub const DEAD: u8 = b'd';
    /// Collection: [`crate::shape::Shape`], where its objects lie in more than one space.
    pub const SHAPE: u8 = b'h';
    /// Collection: its info as given; no key where none was set.
    pub const INFO: u8 = b'i';
    /// Collection, version: a log record.
    pub const LOG: u8 = b'l';
    /// Number of a space, object: [`crate::onode::Onode`].
    pub const ONODE: u8 = b'o';
    /// Number of an object, part, and what the part says.
    pub const NUMBERED: u8 = b'n';
    /// Number of a group of blocks: [`super::Counts`].
    pub const COUNTS: u8 = b'r';
    /// Pool: how much of its data is compressed ([`crate::packer`]); no key where none is.
    pub const COMPRESSED: u8 = b'z';
    /// Key of another table: a change of it that could not be brought into the tree ([`crate::stranded`]). The last table.
    pub const STRANDED: u8 = b'~';
    /// Number of a region: a part of the bitmap of blocks with data. Only in the tree, never in the log.
    pub const BITMAP: u8 = b'b';
}

/// The parts of an object that are found by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    OmapHeader = 1,
    /// By name.
    Attr = 2,
    /// By number: [`crate::chunk::Chunk`].
    Chunk = 3,
    /// By key.
    Omap = 4,
}

pub fn key(table: u8, rest: &[u8]) -> Key {
    keys::joined(&[table], rest)
}

pub fn collection_key(table: u8, id: CollectionId) -> Key {
    key(table, &keys::collection_key(id))
}

/// What the keys of a space's objects begin with.
pub fn space_key(space: u64) -> Key {
    key(table::ONODE, &space.to_be_bytes())
}

pub fn object_key(space: u64, object: &GHObject) -> Key {
    keys::object_key(&space_key(space), object)
}

/// Bytes of an object's key before the object itself.
pub const SPACE_KEY_BYTES: usize = 9;

/// The space of an onode's key.
pub fn space_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..SPACE_KEY_BYTES)?.try_into().ok()?))
}

/// Where an onode's key has the object's reversed hash, behind table, space, shard and pool.
pub const HASH_AT: usize = SPACE_KEY_BYTES + 11;

/// The reversed hash of an onode's key.
pub fn hash_of(key: &[u8]) -> Option<u32> {
    key.get(HASH_AT..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// The object of an onode's key.
pub fn object_of(key: &[u8]) -> Option<GHObject> {
    keys::object_of(key.get(SPACE_KEY_BYTES..)?)
}

pub fn dead_key(number: u64) -> Key {
    key(table::DEAD, &number.to_be_bytes())
}

/// The number of a key of the tables of dead objects or of parts of objects.
pub fn number_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?))
}

pub fn log_key(id: CollectionId, version: EVersion) -> Key {
    keys::log_key(&collection_key(table::LOG, id), version)
}

pub fn log_version(id: CollectionId, key: &[u8]) -> Option<EVersion> {
    keys::log_version(key.get(collection_key(table::LOG, id).len()..)?)
}

/// What all keys of an object's number begin with.
pub fn number_key(number: u64) -> Key {
    key(table::NUMBERED, &number.to_be_bytes())
}

/// The key of one part, or (with nothing in `rest`) what all keys of that part begin with.
pub fn part_key(number: u64, part: Part, rest: &[u8]) -> Key {
    let mut key = number_key(number);
    key.push(part as u8);
    key.extend_from_slice(rest);
    key
}

/// Bytes before what the part says.
pub const PART_KEY_BYTES: usize = 10;

/// How many bytes of an omap's entry are in its key; `None` if the key is none of an omap's entry.
pub fn omap_key_bytes(key: &[u8]) -> Option<usize> {
    let is_entry =
        key.first() == Some(&table::NUMBERED) && key.get(PART_KEY_BYTES - 1) == Some(&(Part::Omap as u8));
    is_entry.then(|| key.len() - PART_KEY_BYTES)
}

pub fn chunk_key(number: u64, chunk: u64) -> Key {
    part_key(number, Part::Chunk, &(chunk as u32).to_be_bytes())
}

/// The number of a chunk, from its key.
pub fn chunk_of(key: &[u8]) -> Option<u64> {
    let number: [u8; 4] = key.get(PART_KEY_BYTES..)?.try_into().ok()?;
    Some(u64::from(u32::from_be_bytes(number)))
}

pub fn counts_key(group: u64) -> Key {
    key(table::COUNTS, &group.to_be_bytes())
}

/// What is numbered below this is of the collections and objects that a store's owner makes first, such as an OSD's superblock.
const FIRST_NUMBERS: u64 = 32;

/// The space of the collection that a store's owner makes first.
const FIRST_SPACE: u64 = 0;

/// Whether more than one object hangs on a key: what an opening needs, and what the store's owner can't begin without, but for omaps,
/// which may be long.
pub fn is_vital(key: &[u8]) -> bool {
    match key.first() {
        Some(&table::ONODE) => space_of(key) == Some(FIRST_SPACE),
        Some(&table::NUMBERED) => {
            let is_first = number_of(key).is_some_and(|number| number < FIRST_NUMBERS);
            is_first && key.get(PART_KEY_BYTES - 1) != Some(&(Part::Omap as u8))
        }
        _ => is_for_opening(key),
    }
}

/// Whether an opening needs a key: collections and what is noted of them, the bitmap, what is counted by pool, what is dead, and notes
/// of stranded changes.
pub fn is_for_opening(key: &[u8]) -> bool {
    !matches!(key.first(), Some(&(table::ONODE | table::NUMBERED | table::LOG | table::COUNTS)))
}

pub fn bitmap_key(region: u64) -> Key {
    key(table::BITMAP, &region.to_be_bytes())
}

pub fn region_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..)?.try_into().ok()?))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Collection {
    pub bits: u32,
    pub log_tail: EVersion,
    pub log_head: EVersion,
    /// Where its objects lie, if it has no [`crate::shape::Shape`].
    pub space: u64,
    /// Whether it has one.
    pub divided: bool,
}

impl Collection {
    /// Of its encoding.
    pub const BYTES: usize = 37;

    pub fn encode(&self) -> Piece {
        let mut e = Encoder::with_capacity(0, Self::BYTES);
        e.put(&self.bits).put(&self.log_tail).put(&self.log_head).put(&self.space).put(&self.divided);
        e.into_bytes().into()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let (bits, log_tail, log_head) = (d.get()?, d.get()?, d.get()?);
        let collection = Self { bits, log_tail, log_head, space: d.get()?, divided: d.get()? };
        d.finish()?;
        Ok(collection)
    }
}

/// Which parts of a number are being removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dead {
    /// The omap and its header: the object lives on and has another omap. It counts for this pool, where the shard counts omaps.
    Omap(Option<PoolId>),
    /// Everything: it counts for this pool, where the shard counts blocks.
    All(Option<PoolId>),
}

impl Dead {
    pub fn encode(self) -> Piece {
        let mut e = Encoder::with_capacity(0, 9);
        match self {
            Self::Omap(_) => e.put(&1u8),
            Self::All(_) => e.put(&2u8),
        };
        if let Some(pool) = self.pool() {
            e.put(&pool.0);
        }
        e.into_bytes().into()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let code: u8 = d.get()?;
        let pool = if d.remaining() == 0 { None } else { Some(PoolId(d.get()?)) };
        d.finish()?;
        match code {
            1 => Ok(Self::Omap(pool)),
            2 => Ok(Self::All(pool)),
            _ => Err(DecodeError::BadValue { what: "parts that are being removed", value: code.into() }),
        }
    }

    /// For which it counts.
    pub fn pool(self) -> Option<PoolId> {
        match self {
            Self::Omap(pool) | Self::All(pool) => pool,
        }
    }

    pub fn parts(self) -> &'static [Part] {
        match self {
            Self::Omap(_) => &[Part::OmapHeader, Part::Omap],
            Self::All(_) => &[Part::OmapHeader, Part::Attr, Part::Chunk, Part::Omap],
        }
    }
}

pub fn encode_log_record(record: &LogRecord) -> Piece {
    let mut bytes = Vec::with_capacity(1 + record.bytes.len());
    bytes.push(record.kind.code());
    bytes.extend_from_slice(&record.bytes);
    bytes.into()
}

pub fn decode_log_record(version: EVersion, value: &Piece) -> Result<LogRecord, DecodeError> {
    let kind = LogRecordKind::of_code(Decoder::new(value).get()?)?;
    Ok(LogRecord { version, kind, bytes: value.slice(1..value.len()) })
}

/// How many objects map each of [`CHUNK_BLOCKS`] neighbouring blocks of the shard, where that is more than one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts(pub BTreeMap<u8, u32>);

impl Counts {
    pub fn encode(&self) -> Piece {
        let mut e = Encoder::new(0);
        for (place, count) in &self.0 {
            e.put(place).put(count);
        }
        e.into_bytes().into()
    }

    /// # Errors
    /// A place is out of range, or a count is less than 2.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let mut counts = BTreeMap::new();
        while d.remaining() > 0 {
            let (place, count): (u8, u32) = (d.get()?, d.get()?);
            if u64::from(place) >= CHUNK_BLOCKS || count < 2 {
                return Err(DecodeError::BadValue { what: "count of a shared block", value: count.into() });
            }
            counts.insert(place, count);
        }
        Ok(Self(counts))
    }
}

/// The name or key at the end of a key.
pub fn name_of(key: &[u8]) -> Name {
    key.get(PART_KEY_BYTES..).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        assert_eq!(Collection::default().encode().len(), Collection::BYTES);
        let counts = Counts([(3, 2), (9, 7)].into());
        assert_eq!(Counts::decode(&counts.encode()), Ok(counts));
        assert_eq!((chunk_of(&chunk_key(9, 77)), region_of(&bitmap_key(5))), (Some(77), Some(5)));
    }

    #[test]
    fn counts_that_make_no_sense_are_refused() {
        assert!(Counts::decode(&[0, 1, 0, 0, 0]).is_err() && Counts::decode(&[64, 2, 0, 0, 0]).is_err());
    }
}
