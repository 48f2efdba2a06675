//! Which blocks of a shard are taken: a bit for each.

use std::ops::Range;

/// Blocks that one stored record of the bitmap covers.
pub const REGION_BLOCKS: u64 = 8192;

/// Bytes of such a record.
pub const REGION_BYTES: usize = REGION_BLOCKS as usize / 8;

/// Neighbouring blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Run {
    pub start: u64,
    /// Blocks, at least 1.
    pub count: u32,
}

impl Run {
    pub fn blocks(self) -> std::ops::Range<u64> {
        self.start..self.start + u64::from(self.count)
    }
}

/// Joins ascending blocks to runs.
pub fn runs_of(blocks: impl IntoIterator<Item = u64>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.start + u64::from(run.count) == block && run.count < u32::MAX => run.count += 1,
            _ => runs.push(Run { start: block, count: 1 }),
        }
    }
    runs
}

/// A set of block numbers below `len`.
#[derive(Clone, Debug)]
pub struct Bitmap {
    words: Vec<u64>,
    len: u64,
    set: u64,
}

impl Bitmap {
    pub fn new(len: u64) -> Self {
        let regions = len.div_ceil(REGION_BLOCKS);
        Self { words: vec![0; (regions * REGION_BLOCKS / 64) as usize], len, set: 0 }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// How many blocks are in the set.
    pub fn count(&self) -> u64 {
        self.set
    }

    pub fn contains(&self, block: u64) -> bool {
        self.words.get((block / 64) as usize).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Returns whether it was missing. A block out of range never is.
    pub fn insert(&mut self, block: u64) -> bool {
        if block >= self.len || self.contains(block) {
            return false;
        }
        self.words[(block / 64) as usize] |= 1 << (block % 64);
        self.set += 1;
        true
    }

    /// Returns whether it was there.
    pub fn remove(&mut self, block: u64) -> bool {
        if !self.contains(block) {
            return false;
        }
        self.words[(block / 64) as usize] &= !(1 << (block % 64));
        self.set -= 1;
        true
    }

    /// Adds another set of as many blocks. `false`: they have a block in common.
    pub fn insert_all(&mut self, other: &Self) -> bool {
        let mut apart = self.len == other.len;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            apart &= *word & more == 0;
            *word |= more;
        }
        self.set = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        apart
    }

    /// The blocks that are missing.
    pub fn missing(&self) -> Self {
        let mut words: Vec<u64> = self.words.iter().map(|word| !word).collect();
        // No bit may be set behind the end.
        for (at, word) in (0..).step_by(64).zip(&mut words) {
            let inside = self.len.saturating_sub(at).min(64);
            *word &= u64::MAX.checked_shr(64 - inside as u32).unwrap_or(0);
        }
        Self { words, len: self.len, set: self.len - self.set }
    }

    /// The first block from `from` on that is missing.
    pub fn next_missing(&self, from: u64) -> Option<u64> {
        let mut at = from;
        while at < self.len {
            let free = !self.words[(at / 64) as usize] >> (at % 64);
            if free != 0 {
                let block = at + u64::from(free.trailing_zeros());
                return (block < self.len).then_some(block);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The first block from `from` on that is there; the end if none is.
    pub fn next_present(&self, from: u64) -> u64 {
        self.next_present_before(from, self.len)
    }

    /// The first block from `from` on that is there; `stop`, or the end, if none is before it.
    fn next_present_before(&self, from: u64, stop: u64) -> u64 {
        let stop = stop.min(self.len);
        let mut at = from;
        while at < stop {
            let there = self.words[(at / 64) as usize] >> (at % 64);
            if there != 0 {
                return (at + u64::from(there.trailing_zeros())).min(stop);
            }
            at = (at / 64 + 1) * 64;
        }
        stop
    }

    /// The first run of `count` missing neighbours from `from` on, which begins within `searched` blocks. A run counts as
    /// `most` blocks long at most: the search looks no further, so that it costs little where all is free.
    pub fn next_run(&self, from: u64, count: u64, most: u64, searched: u64) -> Option<Range<u64>> {
        let stop = from.saturating_add(searched).min(self.len);
        let mut at = from;
        while at < stop {
            let start = self.next_missing(at)?;
            let end = self.next_present_before(start, start.saturating_add(most.max(count)));
            if end - start >= count {
                return Some(start..end);
            }
            at = end;
        }
        None
    }

    pub fn regions(&self) -> u64 {
        self.len.div_ceil(REGION_BLOCKS)
    }

    /// A region's bits as bytes; `None` if none is set.
    pub fn region(&self, region: u64) -> Option<Vec<u8>> {
        let words = &self.words[(region * REGION_BLOCKS / 64) as usize..][..REGION_BYTES / 8];
        let any = words.iter().any(|w| *w != 0);
        any.then(|| words.iter().flat_map(|w| w.to_le_bytes()).collect())
    }

    /// Sets the bits of an empty region from its bytes. `false`: they are not a region's.
    pub fn load_region(&mut self, region: u64, bytes: &[u8]) -> bool {
        if region >= self.regions() || bytes.len() != REGION_BYTES {
            return false;
        }
        let first = (region * REGION_BLOCKS / 64) as usize;
        let words = self.words[first..].iter_mut().zip(bytes.chunks_exact(8));
        for (word, bytes) in words {
            *word = bytes.try_into().map_or(0, u64::from_le_bytes);
            self.set += u64::from(word.count_ones());
        }
        // No bit may be set behind the end.
        let last = (region + 1) * REGION_BLOCKS;
        (self.len..last).all(|block| !self.contains(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use types::SplitMix64;

    #[test]
    fn a_bitmap_is_a_set_and_comes_back_by_regions() {
        let mut random = SplitMix64::new(1);
        let len = REGION_BLOCKS + 1000;
        let (mut bitmap, mut model) = (Bitmap::new(len), BTreeSet::new());
        for _ in 0..20_000 {
            let block = random.below(len + 10);
            match random.one_in(3) {
                true => assert_eq!(bitmap.remove(block), model.remove(&block)),
                false => assert_eq!(bitmap.insert(block), block < len && model.insert(block)),
            }
            assert_eq!(bitmap.count(), model.len() as u64);
            if random.one_in(50) {
                let from = random.below(len);
                let missing = (from..len).find(|b| !model.contains(b));
                assert_eq!(bitmap.next_missing(from), missing);
                let there = (from..len).find(|b| model.contains(b)).unwrap_or(len);
                assert_eq!(bitmap.next_present(from), there);
                let count = 1 + random.below(4);
                let fits = |start: &u64| (*start..*start + count).all(|b| b < len && !model.contains(&b));
                let most = count + random.below(100);
                let run = bitmap.next_run(from, count, most, u64::MAX);
                assert_eq!(run.as_ref().map(|run| run.start), (from..len).find(fits));
                let whole = |run: &Range<u64>| (run.start..len).find(|b| model.contains(b)).unwrap_or(len);
                assert_eq!(
                    run.as_ref().map(|run| run.end),
                    run.as_ref().map(|r| whole(r).min(r.start + most))
                );
            }
        }
        let mut again = Bitmap::new(len);
        for region in 0..bitmap.regions() {
            assert!(bitmap.region(region).is_none_or(|bytes| again.load_region(region, &bytes)));
        }
        assert!((0..len).all(|b| again.contains(b) == model.contains(&b)));
        assert!(!again.load_region(0, &[0; 5]) && !again.load_region(9, &[0; REGION_BYTES]));
        let mut sum = Bitmap::new(len);
        assert!(sum.insert_all(&again) && sum.count() == model.len() as u64);
        assert!(!sum.insert_all(&again), "blocks in common");
        let missing = bitmap.missing();
        assert!((0..len + 64).all(|b| missing.contains(b) == (b < len && !model.contains(&b))));
        assert_eq!((missing.count(), missing.missing().count()), (len - bitmap.count(), bitmap.count()));
        let all = vec![0xff; REGION_BYTES];
        assert!(!Bitmap::new(len).load_region(1, &all), "bits behind the end");
    }

    #[test]
    fn neighbours_become_runs() {
        let run = |start, count| Run { start, count };
        assert_eq!(runs_of([1, 2, 3, 7, 9, 10]), [run(1, 3), run(7, 1), run(9, 2)]);
    }
}
