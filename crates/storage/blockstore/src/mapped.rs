//! What is mapped of some blocks of an object, and their contents once it was read.

use std::ops::Range;

use buffer::Piece;
use store::CompressionAlgorithm;

use crate::chunk::{Blob, Chunk, Slot, place_bit};
use crate::codec::Codec;
use crate::layout::BLOCK;

/// What is mapped of a range of an object's blocks.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    /// Blocks of the shard that have it, each with a number of a block of the object that it is needed for. What `blobs`
    /// does not name is that block itself.
    pub slots: Vec<(u64, Slot)>,
    pub blobs: Vec<MappedBlob>,
}

/// Blocks that come out of a blob.
#[derive(Clone, Debug)]
pub struct MappedBlob {
    /// The places in [`Mapped::slots`] of what is stored.
    slots: Range<usize>,
    pub algorithm: CompressionAlgorithm,
    /// Of what is stored.
    pub bytes: u32,
    blocks: u8,
    /// Numbers of blocks of the object, ascending, with the blob's blocks that they are.
    wanted: Vec<(u64, u8)>,
}

/// A blob whose checksums are right and whose contents can't be decompressed to what the map says of it. The number is that
/// of the first block of the object that was wanted of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBlob(pub u64);

impl Mapped {
    /// Adds what a chunk has of a range of blocks; `base` is the number of the chunk's first.
    pub fn add_chunk(&mut self, base: u64, chunk: &Chunk, range: &Range<u64>) {
        let all = chunk.slots.iter().map(|(place, slot)| (base + u64::from(place), slot));
        self.slots.extend(all.filter(|(number, _)| range.contains(number)));
        chunk.blobs.iter().for_each(|blob| self.add_blob(base, blob, range));
    }

    /// Adds what a blob has of a range of blocks.
    pub fn add_blob(&mut self, base: u64, blob: &Blob, range: &Range<u64>) {
        let Blob { algorithm, bytes, blocks, live, place, .. } = *blob;
        let lives = |at: &u8| live & place_bit(place + at) != 0;
        let wanted = (0..blocks).filter(lives).map(|at| (base + u64::from(place + at), at));
        let wanted: Vec<(u64, u8)> = wanted.filter(|(number, _)| range.contains(number)).collect();
        // Of a blob that has no block in the range nothing is read.
        let Some((first, _)) = wanted.first().copied() else { return };
        let slots = self.slots.len()..self.slots.len() + blob.stored.len();
        self.slots.extend(blob.stored.iter().map(|slot| (first, *slot)));
        self.blobs.push(MappedBlob { slots, algorithm, bytes, blocks, wanted });
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The numbers of the mapped blocks, ascending.
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(self.slots.len());
        let mut at = 0;
        for blob in &self.blobs {
            numbers.extend(self.slots[at..blob.slots.start].iter().map(|(number, _)| *number));
            numbers.extend(blob.wanted.iter().map(|(number, _)| *number));
            at = blob.slots.end;
        }
        numbers.extend(self.slots[at..].iter().map(|(number, _)| *number));
        numbers.sort_unstable();
        numbers
    }
}

/// Makes of what was read (as in [`Mapped::slots`], checked) the contents of the mapped blocks, ascending.
///
/// # Errors
/// A blob can't be decompressed.
pub fn unpacked(
    blobs: &[MappedBlob],
    read: Vec<(u64, Piece)>,
    codec: &Codec,
) -> Result<Vec<(u64, Piece)>, BadBlob> {
    if blobs.is_empty() {
        return Ok(read);
    }
    let (mut out, mut at) = (Vec::with_capacity(read.len()), 0);
    for blob in blobs {
        out.extend_from_slice(read.get(at..blob.slots.start).unwrap_or_default());
        at = blob.slots.end;
        let stored = read.get(blob.slots.clone()).unwrap_or_default().iter().map(|(_, piece)| piece);
        let raw = codec.unpack(blob.algorithm, stored, blob.bytes, blob.blocks);
        let raw = raw.ok_or_else(|| BadBlob(blob.wanted.first().map_or(0, |(number, _)| *number)))?;
        let block = |at: u8| usize::from(at) * BLOCK as usize;
        let wanted = blob.wanted.iter().map(|(number, at)| (*number, raw.slice(block(*at)..block(*at + 1))));
        out.extend(wanted);
    }
    out.extend_from_slice(read.get(at..).unwrap_or_default());
    out.sort_by_key(|(number, _)| *number);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use types::PoolId;

    use super::*;
    use crate::chunk::places;

    #[test]
    fn blocks_come_out_of_blobs_in_their_order() {
        let codec = Codec::default();
        let block = |byte: u8| Piece::from(vec![byte; BLOCK as usize]);
        let raw: Vec<Piece> = (0..4).map(block).collect();
        let all: Vec<&Piece> = raw.iter().collect();
        let (packed, bytes) = codec.pack(CompressionAlgorithm::Lz4, 1, &all, 4096).expect("it gets smaller");
        let slot = |block| Slot { block, crc: 0, shared: false };
        let blob = Blob {
            place: 2,
            blocks: 4,
            algorithm: CompressionAlgorithm::Lz4,
            pool: PoolId(1),
            bytes,
            live: places(2, 6) & !place_bit(4),
            stored: vec![slot(50)],
        };
        let chunk = Chunk { slots: [(1, slot(7)), (4, slot(8))].into_iter().collect(), blobs: vec![blob] };
        let mut mapped = Mapped::default();
        mapped.add_chunk(64, &chunk, &(0..69));
        assert_eq!(mapped.numbers(), [65, 66, 67, 68]);
        let read: Vec<(u64, Piece)> = mapped
            .slots
            .iter()
            .map(|(number, slot)| {
                (*number, if slot.block == 50 { packed.clone() } else { block(slot.block as u8) })
            })
            .collect();
        let found = unpacked(&mapped.blobs, read, &codec).expect("it is whole");
        let found: Vec<(u64, u8)> = found.into_iter().map(|(number, piece)| (number, piece[0])).collect();
        assert_eq!(found, [(65, 7), (66, 0), (67, 1), (68, 8)]);
        let bad = vec![(65, block(1)), (68, block(1)), (66, block(1))];
        assert_eq!(unpacked(&mapped.blobs, bad, &codec), Err(BadBlob(66)));
    }
}
