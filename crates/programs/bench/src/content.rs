//! What an object's bytes are: a function of the object and the place in it alone, so that whatever is read can be checked.

use buffer::{Piece, PieceMut, Rope};
use types::SplitMix64;

/// What all the different blocks take, about.
const BYTES: u64 = 16 << 20;
const BLOCKS_MAX: u64 = 64;

/// Random bytes, the same in every process. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    blocks: Vec<Piece>,
    block_size: u64,
    object_size: u64,
}

impl Content {
    /// Of objects of blocks. Of a hundred bytes of a block, so many are zeros, at its end.
    pub(crate) fn new(block_size: u64, object_size: u64, compressible_percent: u32) -> Self {
        let count = (BYTES / block_size.max(1)).clamp(2, BLOCKS_MAX);
        let blocks = (0..count).map(|seed| random_block(seed, block_size as usize, compressible_percent));
        Self { blocks: blocks.collect(), block_size, object_size }
    }

    /// The block that has this byte of an object.
    fn block(&self, object: u64, offset: u64) -> &Piece {
        let number = object * self.object_size.div_ceil(self.block_size) + offset / self.block_size;
        let at = SplitMix64::at(1, number) % self.blocks.len() as u64;
        &self.blocks[at as usize]
    }

    /// A range of an object, block by block.
    fn pieces(&self, object: u64, offset: u64, length: u64) -> impl Iterator<Item = Piece> + '_ {
        let end = offset + length;
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let begin = at - at % self.block_size;
            let until = (begin + self.block_size).min(end);
            let range = (at - begin) as usize..(until - begin) as usize;
            let block = self.block(object, at);
            at = until;
            // A whole block keeps the checksum that was taken of it before.
            Some(if range.len() == block.len() { block.clone() } else { block.slice(range) })
        })
    }

    /// The bytes of a range of an object. Nothing is copied.
    pub(crate) fn range(&self, object: u64, offset: u64, length: u64) -> Rope {
        let mut rope = Rope::new();
        self.pieces(object, offset, length).for_each(|piece| rope.push(piece));
        rope
    }

    /// Whether these are the bytes of an object from `offset` on.
    pub(crate) fn matches(&self, object: u64, offset: u64, data: &Rope) -> bool {
        let mut at = offset;
        data.pieces().iter().all(|piece| {
            let expected = self.pieces(object, at, piece.len() as u64);
            at += piece.len() as u64;
            let mut rest = piece.as_slice();
            expected.into_iter().all(|part| {
                let (head, tail) = rest.split_at(part.len());
                rest = tail;
                head == part.as_slice()
            })
        })
    }
}

fn random_block(seed: u64, len: usize, compressible_percent: u32) -> Piece {
    let mut block = PieceMut::zeroed(len);
    let random = (len as u64 * u64::from(100 - compressible_percent.min(100))).div_ceil(100) as usize;
    let mut numbers = SplitMix64::new(SplitMix64::at(0x6c6f_6c69_676f, seed));
    for part in block.as_mut_slice()[..random].chunks_mut(8) {
        let bytes = numbers.next_u64().to_le_bytes();
        part.copy_from_slice(&bytes[..part.len()]);
    }
    block.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_the_same_however_it_is_cut() {
        for (block, object) in [(4096, 65536), (4096, 4096), (1000, 5000), (65536, 65536)] {
            let content = Content::new(block, object, 0);
            let whole = content.range(7, 0, object).to_vec();
            assert_eq!(whole.len() as u64, object);
            for (offset, length) in [(0, 1), (999, 2), (object / 2, object / 2), (object - 5, 5), (0, object)]
            {
                let range = content.range(7, offset, length);
                assert_eq!(range.to_vec(), whole[offset as usize..(offset + length) as usize]);
                assert!(content.matches(7, offset, &range));
            }
            assert!(content.matches(7, 0, &Rope::copy_from(&whole)));
        }
    }

    #[test]
    fn other_bytes_are_noticed() {
        let content = Content::new(4096, 65536, 0);
        let mut bytes = content.range(3, 4096, 8192).to_vec();
        bytes[5000] ^= 1;
        assert!(!content.matches(3, 4096, &Rope::copy_from(&bytes)));
        let other = (0..100).filter(|object| content.matches(*object, 0, &content.range(3, 0, 4096))).count();
        assert!(other < 10, "{other} of 100 objects begin alike");
    }

    #[test]
    fn as_many_bytes_are_zeros_as_were_asked_for() {
        for percent in [0, 25, 100] {
            let bytes = Content::new(4096, 4096, percent).range(1, 0, 4096).to_vec();
            let zeros = bytes.iter().filter(|byte| **byte == 0).count() as u32;
            let wanted = 4096 * percent / 100;
            assert!((wanted..wanted + 60).contains(&zeros), "{zeros} zeros of {percent}%");
        }
    }
}
