//! Records: what the metadata holds of the store, a collection, an object, where an object's blocks lie, and a log's
//! records.

use std::collections::BTreeMap;

use buffer::Piece;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use store::{AllocHint, Attrs, LogRecordKind, ObjectStat};
use types::{EVersion, Name};

/// Unit of allocation and of checksums, bytes.
pub const BLOCK: u64 = 4096;

/// Blocks in one record of the block map.
pub const CHUNK_BLOCKS: u64 = 64;

/// What the store counts, written with every commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    /// The first object number that was never given.
    pub next_nid: u64,
    /// Bytes of keys and stored values of all tables but `meta`.
    pub metadata_bytes: u64,
}

impl Encode for Counters {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.next_nid).put(&self.metadata_bytes);
        });
    }
}
impl Decode for Counters {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "counters", |d, _| Ok(Self { next_nid: d.get()?, metadata_bytes: d.get()? }))
    }
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CollectionRecord {
    pub bits: u32,
    pub log_tail: EVersion,
    pub log_head: EVersion,
}

impl Encode for CollectionRecord {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.bits).put(&self.log_tail).put(&self.log_head);
        });
    }
}
impl Decode for CollectionRecord {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "collection", |d, _| {
            Ok(Self { bits: d.get()?, log_tail: d.get()?, log_head: d.get()? })
        })
    }
}

/// An object. Its blocks, its omap and the attributes apart are found by its number, which stays when it is renamed.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Onode {
    pub nid: u64,
    pub size: u64,
    pub hint: Option<AllocHint>,
    /// Those that the record holds itself.
    pub attrs: Attrs,
    /// How many attributes have keys of their own.
    pub attrs_apart: u32,
    pub omap_header: Piece,
}

impl Onode {
    pub fn stat(&self) -> ObjectStat {
        ObjectStat { size: self.size, hint: self.hint }
    }
}

impl Encode for Onode {
    fn encode(&self, e: &mut Encoder) {
        // A record without attributes apart is one of format 2.
        let version = if self.attrs_apart == 0 { 1 } else { 2 };
        e.versioned(version, version, |e| {
            e.put(&self.nid).put(&self.size);
            e.put(&self.hint.map(|h| (h.object_size, (h.write_size, h.flags))));
            e.put(&(self.attrs.len() as u32));
            for (name, value) in &self.attrs {
                e.put(name).blob(value);
            }
            e.blob(&self.omap_header);
            if version > 1 {
                e.put(&self.attrs_apart);
            }
        });
    }
}
impl Decode for Onode {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "onode", |d, version| {
            let (nid, size) = (d.get()?, d.get()?);
            let hint: Option<(u64, (u64, u32))> = d.get()?;
            let hint =
                hint.map(|(object_size, (write_size, flags))| AllocHint { object_size, write_size, flags });
            let mut attrs = Attrs::new();
            for _ in 0..d.count(8, "attributes")? {
                let name: Name = d.get()?;
                attrs.insert(name, Piece::copy_from(d.blob("attribute")?));
            }
            let omap_header = Piece::copy_from(d.blob("omap header")?);
            let attrs_apart = if version > 1 { d.get()? } else { 0 };
            Ok(Self { nid, size, hint, attrs, attrs_apart, omap_header })
        })
    }
}

/// Where a block of an object lies, and the crc32c of its 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    pub at: u64,
    pub crc: u32,
}

/// [`CHUNK_BLOCKS`] successive blocks of an object by their place among them; what is missing is zero.
pub type Chunk = BTreeMap<u8, Block>;

const CHUNK_ENTRY: usize = 13;

pub fn encode_chunk(chunk: &Chunk) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(chunk.len() * CHUNK_ENTRY);
    for (place, block) in chunk {
        bytes.push(*place);
        bytes.extend(block.at.to_le_bytes());
        bytes.extend(block.crc.to_le_bytes());
    }
    bytes
}

pub fn decode_chunk(bytes: &[u8]) -> Result<Chunk, DecodeError> {
    let mut d = Decoder::new(bytes);
    let mut chunk = Chunk::new();
    while d.remaining() > 0 {
        let place: u8 = d.get()?;
        if u64::from(place) >= CHUNK_BLOCKS {
            return Err(DecodeError::BadValue { what: "block's place", value: place.into() });
        }
        chunk.insert(place, Block { at: d.get()?, crc: d.get()? });
    }
    Ok(chunk)
}

/// A log record without its version, which is in its key.
pub fn encode_log_record(kind: LogRecordKind, bytes: &[u8]) -> Vec<u8> {
    [&[kind.code()], bytes].concat()
}

pub fn decode_log_record(record: &[u8]) -> Result<(LogRecordKind, Piece), DecodeError> {
    let mut d = Decoder::new(record);
    let kind = LogRecordKind::of_code(d.get()?)?;
    Ok((kind, Piece::copy_from(d.take_rest())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let onode = Onode {
            nid: 7,
            size: 9,
            hint: Some(AllocHint { object_size: 1, write_size: 2, flags: 3 }),
            attrs: [("a".into(), Piece::copy_from(b"b"))].into(),
            attrs_apart: 0,
            omap_header: Piece::copy_from(&[1]),
        };
        let apart = Onode { attrs_apart: 3, ..onode.clone() };
        for onode in [onode, apart] {
            assert_eq!(Onode::from_bytes_exact(&onode.to_bytes(0)), Ok(onode));
        }
        let chunk: Chunk = [(0, Block { at: 5, crc: 6 }), (63, Block { at: 1 << 40, crc: !0 })].into();
        assert_eq!(decode_chunk(&encode_chunk(&chunk)), Ok(chunk));
        assert!(decode_chunk(&[64; 13]).is_err() && decode_chunk(&[1; 12]).is_err());
        for kind in [LogRecordKind::Entry, LogRecordKind::Duplicate] {
            let record = encode_log_record(kind, b"bytes");
            assert_eq!(decode_log_record(&record), Ok((kind, Piece::copy_from(b"bytes"))));
        }
        assert!(decode_log_record(&[]).is_err() && decode_log_record(&[9, 1]).is_err());
    }
}
