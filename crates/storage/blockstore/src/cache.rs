//! Data that was read from the device and is kept in memory: what is read again, and for a while what was read once.
//!
//! Most of what a large working set reads is not read again before it would have to leave. So the first read of a run puts it
//! at the end of a small queue. A run that no read hits before it reaches the front is dropped, and the cache notes a mark
//! for it: when it is read from the device again, the mark tells that this is a second read. After "FIFO queues are all you
//! need for cache eviction" (SOSP 2023), whose main queue is ordered by last use here. One reading of
//! everything neither drives out what is in use nor fills memory, which is dear where the system has to clear it, or a
//! virtual machine to ask for it. A long run is not even queued: it leaves its mark at once, so that the memory it was read into is
//! soon free for the next one. And while the cache grows, it keeps few of the long runs that are read again, so that it takes new memory
//! slowly: to clear as much as a long run takes costs the processor more than to read that again, but from a disk that has to seek.

use buffer::Piece;

use crate::ages::Ages;
use crate::cached_runs::{Cached, CachedRuns, Place};
use crate::layout::BLOCK;

/// The part of the cache that what was read once may take.
const NEW_SHARE: u64 = 16;

/// A run of so many bytes is kept from its second reading on: few of them fill the share of what was read once.
const LONG_BYTES: usize = 256 << 10;

/// Until this part of the cache is in use, long runs that are read again are kept at once.
const PROMPT_SHARE: u64 = 16;

/// From then on, until the cache is full, so many times the bytes of a long run that was kept pass before another one is.
const PASS_PER_KEPT: u64 = 63;

/// Where a long run has its marks: at the blocks whose numbers divide by this, so that it is known again in part too. Every long run
/// has such a block.
const MARKED_BLOCKS: u64 = LONG_BYTES as u64 / BLOCK;

/// The places of the marks of a long run.
fn marks(first: u64, bytes: usize) -> impl Iterator<Item = u64> {
    let end = first + bytes as u64 / BLOCK;
    (first.next_multiple_of(MARKED_BLOCKS)..end).step_by(MARKED_BLOCKS as usize)
}

/// Runs of blocks as they were read. What a block holds now may differ: a block counts only if its checksum is the one that the
/// caller expects.
#[derive(Debug, Default)]
pub struct DataCache {
    runs: CachedRuns,
    /// Those that were read once, by their first blocks.
    new: Ages,
    new_bytes: u64,
    /// Those that were read again.
    again: Ages,
    /// What left after one reading.
    seen: Seen,
    /// Bytes that it may have, as of the last [`DataCache::shrink`].
    bytes_max: u64,
    /// The disk is so slow that all long runs that are read again are kept.
    disk_seeks: bool,
    /// Bytes of long runs that pass before the next one is kept, unless it is full.
    to_pass: u64,
}

impl DataCache {
    /// For data of a disk that has to seek, or of another one.
    pub fn of(disk_seeks: bool) -> Self {
        Self { disk_seeks, ..Self::default() }
    }

    /// A block's bytes, if they have this checksum.
    pub fn get(&self, block: u64, crc: u32) -> Option<Piece> {
        self.get_run(block, [crc].into_iter()).1
    }

    /// How many neighbours, from a block on, are kept together, and their bytes if they have these checksums. Without bytes: how many
    /// have to be read. `crcs` says how many are asked for, one at least.
    pub fn get_run(&self, first: u64, crcs: impl ExactSizeIterator<Item = u32>) -> (usize, Option<Piece>) {
        let asked = crcs.len();
        let end = first + asked as u64;
        let found = self.runs.first_of(first..end);
        let Some((start, cached)) = found.and_then(|(start, place)| Some((start, self.runs.get(place)?)))
        else {
            return (asked, None);
        };
        if start > first {
            return ((start - first) as usize, None);
        }
        let count = (cached.end().min(end) - first) as usize;
        let at = ((first - cached.first) * BLOCK) as usize;
        let piece = cached.bytes.slice(at..at + count * BLOCK as usize);
        if piece.first_wrong_page(crcs.take(count)).is_some() {
            return (count, None);
        }
        let ages = if cached.again { &self.again } else { &self.new };
        ages.touch(&cached.used);
        (count, Some(piece))
    }

    /// Keeps whole blocks in place of what was kept of any of them.
    pub fn insert(&mut self, first: u64, bytes: Piece) {
        let end = first + bytes.len() as u64 / BLOCK;
        let mut again = self.seen.take(first);
        if bytes.len() >= LONG_BYTES {
            again = marks(first, bytes.len()).fold(again, |again, mark| self.seen.take(mark) || again);
        }
        for place in self.runs.within(first, end) {
            again |= self.remove(place).is_some_and(|cached| cached.again);
        }
        if bytes.len() >= LONG_BYTES && self.grows_slowly() {
            self.to_pass += PASS_PER_KEPT * bytes.len() as u64;
        }
        self.add(first, bytes, again);
    }

    /// Whether a run that is about to be read is to be given to [`DataCache::insert`]; otherwise to [`DataCache::pass`].
    pub fn keeps(&self, first: u64, bytes: usize) -> bool {
        let waits = self.to_pass > 0 && self.grows_slowly();
        bytes < LONG_BYTES || !waits && marks(first, bytes).any(|mark| self.seen.has(mark))
    }

    /// Whether it has room, and is beyond the part that fills at once. When it is full, what is kept lies in the memory of what leaves.
    fn grows_slowly(&self) -> bool {
        let bytes = self.bytes();
        !self.disk_seeks
            && bytes >= self.bytes_max / PROMPT_SHARE
            && bytes + LONG_BYTES as u64 <= self.bytes_max
    }

    /// A long run was read that is not kept.
    pub fn pass(&mut self, first: u64, bytes: usize) {
        self.to_pass = self.to_pass.saturating_sub(bytes as u64);
        marks(first, bytes).for_each(|mark| self.seen.note(mark));
    }

    fn add(&mut self, first: u64, bytes: Piece, again: bool) {
        let used = match again {
            true => self.again.add(first),
            false => {
                self.new_bytes += bytes.len() as u64;
                self.new.add(first)
            }
        };
        self.runs.insert(Cached { first, bytes, used, again });
    }

    fn remove(&mut self, place: Place) -> Option<Cached> {
        let cached = self.runs.remove(place)?;
        match cached.again {
            true => self.again.remove(&cached.used),
            false => {
                self.new_bytes -= cached.bytes.len() as u64;
                self.new.remove(&cached.used);
            }
        }
        Some(cached)
    }

    /// A block has other contents now: the run that has it is not worth its memory.
    pub fn forget(&mut self, block: u64) {
        if let Some(place) = self.runs.find(block) {
            self.remove(place);
        }
    }

    /// Bytes of memory of the runs; the marks of what left take a thousandth of the most beside them.
    pub fn bytes(&self) -> u64 {
        self.runs.bytes()
    }

    /// How many runs it has.
    pub fn count(&self) -> usize {
        self.runs.count()
    }

    /// Drops runs until at most so many bytes are left: those that were read once, the oldest first, beyond their share; then
    /// those that were used longest ago.
    pub fn shrink(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
        self.seen.make_room(bytes_max / BLOCK);
        while self.new_bytes > bytes_max / NEW_SHARE {
            let oldest = self.new.first().and_then(|first| self.runs.find(first));
            let oldest = oldest.and_then(|place| self.remove(place));
            debug_assert!(oldest.is_some(), "every run that was read once is queued");
            let Some(cached) = oldest else { break };
            match cached.used.again() {
                true => self.add(cached.first, cached.bytes, true),
                false => self.seen.note(cached.first),
            }
        }
        while self.bytes() > bytes_max {
            let runs = &self.runs;
            let oldest = self.again.oldest(u64::MAX, |first| Some(&runs.get(runs.find(first)?)?.used));
            // It looks at a bounded number: the next turn goes on.
            let Some(place) = oldest.and_then(|first| self.runs.find(first)) else { return };
            self.remove(place);
        }
    }
}

/// Which runs were read and left: a mark for each, where a later one may take its place.
#[derive(Debug, Default)]
struct Seen(Vec<u32>);

/// Marks at most, 4 bytes each.
const MARKS_MAX: u64 = 1 << 20;

impl Seen {
    /// At least so many marks, as far as there may be; those made so far are lost when there were fewer.
    fn make_room(&mut self, marks: u64) {
        let marks = marks.min(MARKS_MAX) as usize;
        if self.0.len() < marks {
            self.0 = vec![0; marks.next_power_of_two()];
        }
    }

    /// Where a run's mark is, and what it is; never 0.
    fn place(&self, first: u64) -> Option<(usize, u32)> {
        // Fibonacci hashing: the place is made of the high half, the mark of the low one.
        let hash = first.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let at = (hash >> 32) as usize & self.0.len().checked_sub(1)?;
        Some((at, hash as u32 | 1))
    }

    fn note(&mut self, first: u64) {
        if let Some((at, mark)) = self.place(first) {
            self.0[at] = mark;
        }
    }

    fn has(&self, first: u64) -> bool {
        self.place(first).is_some_and(|(at, mark)| self.0[at] == mark)
    }

    /// Whether a run has a mark, which it has no more.
    fn take(&mut self, first: u64) -> bool {
        match self.place(first) {
            Some((at, mark)) if self.0[at] == mark => {
                self.0[at] = 0;
                true
            }
            _ => false,
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
    }

    /// A cache that was read in this order, one block at a time, and was held to so many blocks after each.
    fn after(reads: impl IntoIterator<Item = u8>, blocks_max: u64) -> DataCache {
        let mut cache = DataCache::default();
        reads.into_iter().for_each(|block| read(&mut cache, block, blocks_max));
        cache
    }

    fn read(cache: &mut DataCache, block: u8, blocks_max: u64) {
        if cache.get(block.into(), crc(block)).is_none() {
            cache.insert(block.into(), blocks(&[block]));
        }
        cache.shrink(blocks_max * BLOCK);
    }

    fn kept(cache: &DataCache) -> Vec<u64> {
        cache.runs.firsts()
    }

    #[test]
    fn what_is_read_once_takes_a_share_and_what_is_read_again_stays() {
        let mut cache = after(0..100, 32);
        assert_eq!((kept(&cache), cache.bytes()), (vec![98, 99], 2 * BLOCK), "a sixteenth");
        // Read again while it is there, and soon after it went.
        read(&mut cache, 98, 32);
        read(&mut cache, 97, 32);
        (100..200).for_each(|block| read(&mut cache, block, 32));
        assert_eq!(kept(&cache), [97, 98, 198, 199]);
        assert_eq!((cache.new_bytes, cache.bytes()), (2 * BLOCK, 4 * BLOCK));
    }

    #[test]
    fn a_long_run_is_kept_when_it_is_read_again() {
        const LONG: usize = LONG_BYTES / BLOCK as usize;
        let mut cache = DataCache::default();
        cache.shrink(1 << 20);
        assert!(cache.keeps(0, LONG_BYTES - 1) && !cache.keeps(0, LONG_BYTES));
        cache.pass(0, LONG_BYTES);
        assert_eq!((cache.keeps(0, LONG_BYTES), cache.bytes()), (true, 0));
        // A part of what was read is known again, and a run from any block on has a mark.
        cache.pass(1001, 2 * LONG_BYTES);
        assert!(cache.keeps(1017, LONG_BYTES + 5 * BLOCK as usize) && !cache.keeps(1200, LONG_BYTES));
        assert!((5000..5100).all(|first| marks(first, LONG_BYTES).count() == 1));
        cache.insert(0, blocks(&[1; LONG]));
        assert_eq!((cache.bytes(), cache.new_bytes), (LONG_BYTES as u64, 0), "it was read again");
        assert!(cache.get(0, crc(1)).is_some() && !cache.keeps(0, LONG_BYTES), "the mark is used up");
    }

    /// The long runs that rounds of 100 reads, each of another one, have added to a cache that has room for 64.
    fn kept_in_rounds(mut cache: DataCache, rounds: usize) -> (DataCache, Vec<u64>) {
        const LONG: usize = LONG_BYTES / BLOCK as usize;
        const BLOCKS: u64 = LONG as u64;
        let bytes_max = 64 * LONG_BYTES as u64;
        cache.shrink(bytes_max);
        let mut kept = Vec::new();
        for round in 0..rounds {
            let before = cache.bytes();
            for first in (0..100).map(|run| run * BLOCKS) {
                if cache.get(first, crc(1)).is_some() {
                    continue;
                }
                match cache.keeps(first, LONG_BYTES) {
                    true => cache.insert(first, blocks(&[1; LONG])),
                    false => cache.pass(first, LONG_BYTES),
                }
                cache.shrink(bytes_max);
            }
            kept.push((cache.bytes() - before) / LONG_BYTES as u64);
            assert!(round > 0 || kept == [0], "what is read once is not kept");
        }
        (cache, kept)
    }

    #[test]
    fn while_it_grows_it_keeps_few_long_runs() {
        let (cache, kept) = kept_in_rounds(DataCache::default(), 90);
        // The second round keeps 4 at once, the next one, and one of each 64 behind it; so do the others.
        assert_eq!(kept[1..6], [4 + 1 + 1, 1, 2, 1, 2], "{kept:?}");
        // When it is full it keeps what is marked.
        assert_eq!(cache.bytes(), 64 * LONG_BYTES as u64);
        let last = 99 * (LONG_BYTES as u64 / BLOCK);
        assert!(cache.keeps(last, LONG_BYTES) || cache.get(last, crc(1)).is_some());
    }

    #[test]
    fn a_disk_that_seeks_is_read_as_seldom_as_there_is_room() {
        let (_, kept) = kept_in_rounds(DataCache::of(true), 2);
        assert_eq!(kept, [0, 64]);
    }

    #[test]
    fn of_what_is_read_again_the_one_used_longest_ago_leaves() {
        let twice = |from: u8, to: u8| (from..to).chain(from..to);
        let mut cache = after(twice(0, 4).chain(twice(4, 8)), 6);
        assert_eq!((kept(&cache), cache.new_bytes), (vec![2, 3, 4, 5, 6, 7], 0));
        read(&mut cache, 2, 6);
        twice(8, 10).for_each(|block| read(&mut cache, block, 6));
        assert_eq!(kept(&cache), [2, 5, 6, 7, 8, 9]);
        cache.forget(5);
        (0..50).for_each(|_| {
            cache.insert(60, blocks(&[60]));
            cache.forget(60);
        });
        assert_eq!((cache.again.queued(), cache.new.queued()), (5, 0), "what is gone leaves nothing");
        cache.shrink(0);
        assert_eq!((kept(&cache), cache.bytes()), (vec![], 0));
    }

    #[test]
    fn marks_are_bounded_and_go_when_they_were_seen() {
        let mut seen = Seen::default();
        seen.note(5);
        assert!(!seen.take(5), "there is no room yet");
        seen.make_room(1000);
        (0..1000).for_each(|first| seen.note(first * 7));
        let found = (0..1000).filter(|first| seen.take(first * 7)).count();
        assert!(found > 600, "{found} of 1000 in 1024 places");
        assert!((0..7000).all(|first| !seen.take(first)));
        seen.make_room(u64::MAX);
        assert_eq!(seen.0.len() as u64, MARKS_MAX);
    }
}
