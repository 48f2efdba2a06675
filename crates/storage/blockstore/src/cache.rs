//! Data that was read from the device and is kept in memory.

use std::collections::BTreeMap;

use buffer::Piece;

use crate::ages::{Ages, Used};
use crate::layout::BLOCK;

#[derive(Debug)]
struct Kept {
    bytes: Piece,
    used: Used,
}

/// Runs of blocks as they were read, by their first block. What a block holds now may differ: a block counts only if its
/// checksum is the one that the caller expects.
#[derive(Debug, Default)]
pub struct DataCache {
    runs: BTreeMap<u64, Kept>,
    bytes: u64,
    ages: Ages,
}

impl DataCache {
    /// A block's bytes, if they have this checksum.
    pub fn get(&self, block: u64, crc: u32) -> Option<Piece> {
        let (first, kept) = self.runs.range(..=block).next_back()?;
        let at = ((block - first) * BLOCK) as usize;
        if at >= kept.bytes.len() {
            return None;
        }
        let piece = kept.bytes.slice(at..at + BLOCK as usize);
        if piece.crc32c(!0) != crc {
            return None;
        }
        self.ages.touch(&kept.used);
        Some(piece)
    }

    /// Keeps whole blocks in place of what was kept of any of them.
    pub fn insert(&mut self, first: u64, bytes: Piece) {
        let end = first + bytes.len() as u64 / BLOCK;
        while let Some((other, _)) = self
            .runs
            .range(..end)
            .next_back()
            .filter(|(at, kept)| *at + kept.bytes.len() as u64 / BLOCK > first)
        {
            let other = *other;
            self.remove(other);
        }
        self.bytes += bytes.len() as u64;
        let used = self.ages.add(first);
        self.runs.insert(first, Kept { bytes, used });
    }

    fn remove(&mut self, first: u64) {
        if let Some(kept) = self.runs.remove(&first) {
            self.bytes -= kept.bytes.len() as u64;
        }
    }

    /// A block has other contents now: the run that has it is not worth its memory.
    pub fn forget(&mut self, block: u64) {
        let found = self.runs.range(..=block).next_back();
        let found = found.filter(|(first, kept)| block < *first + kept.bytes.len() as u64 / BLOCK);
        if let Some(first) = found.map(|(first, _)| *first) {
            self.remove(first);
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Drops the runs that were used longest ago until at most so many bytes are left.
    pub fn shrink(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max {
            let Some(first) = self.ages.oldest(u64::MAX, |first| Some(&self.runs.get(&first)?.used)) else {
                return;
            };
            self.remove(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(bytes: &[u8]) -> Piece {
        bytes.iter().flat_map(|byte| [*byte; BLOCK as usize]).collect::<Vec<u8>>().into()
    }

    fn crc(byte: u8) -> u32 {
        buffer::crc32c(!0, &[byte; BLOCK as usize])
    }

    #[test]
    fn a_block_is_found_by_its_place_and_checksum_until_it_is_forgotten_or_dropped() {
        let mut cache = DataCache::default();
        cache.insert(10, blocks(&[1, 2, 3]));
        cache.insert(20, blocks(&[4]));
        let found = |cache: &DataCache, block, byte| cache.get(block, crc(byte)).map(|piece| piece[0]);
        assert_eq!([10, 11, 12, 20].map(|b| found(&cache, b, [1, 2, 3, 0, 4][(b as usize - 10).min(4)])), {
            [Some(1), Some(2), Some(3), Some(4)]
        });
        assert_eq!((found(&cache, 11, 9), found(&cache, 13, 3), found(&cache, 9, 1)), (None, None, None));
        cache.insert(12, blocks(&[7, 8]));
        assert_eq!((found(&cache, 11, 2), found(&cache, 12, 7), cache.bytes()), (None, Some(7), 3 * BLOCK));
        cache.forget(13);
        cache.forget(99);
        assert_eq!((found(&cache, 12, 7), cache.bytes()), (None, BLOCK));
        cache.insert(30, blocks(&[5]));
        assert_eq!(found(&cache, 20, 4), Some(4), "used after the other");
        cache.shrink(BLOCK + BLOCK / 2);
        assert_eq!((found(&cache, 20, 4), found(&cache, 30, 5), cache.bytes()), (Some(4), None, BLOCK));
    }
}
