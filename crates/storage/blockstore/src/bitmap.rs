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

/// The bits of a region.
type Words = [u64; REGION_WORDS];

const REGION_WORDS: usize = REGION_BYTES / 8;

/// A region of the set. Most of a device's are empty or full, and take no memory of their own.
#[derive(Clone, Debug)]
enum Region {
    Empty,
    Full,
    /// Neither: how many bits are set, and which.
    Mixed(u32, Box<Words>),
}

impl Region {
    /// In its cheapest form.
    fn of(words: Box<Words>) -> Self {
        match words.iter().map(|word| word.count_ones()).sum() {
            0 => Self::Empty,
            FULL => Self::Full,
            set => Self::Mixed(set, words),
        }
    }

    fn word(&self, at: usize) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Full => u64::MAX,
            Self::Mixed(_, words) => words[at],
        }
    }

    fn words(&self) -> Box<Words> {
        match self {
            Self::Empty => Box::new([0; REGION_WORDS]),
            Self::Full => Box::new([u64::MAX; REGION_WORDS]),
            Self::Mixed(_, words) => words.clone(),
        }
    }

    fn set(&self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::Full => FULL,
            Self::Mixed(set, _) => *set,
        }
    }

    /// Changes a bit that is not `there` so far, or is, to the other.
    fn flip(&mut self, bit: u64, there: bool) {
        let (set, mut words) = match std::mem::replace(self, Self::Empty) {
            Self::Mixed(set, words) => (set, words),
            uniform => (uniform.set(), uniform.words()),
        };
        words[(bit / 64) as usize] ^= 1 << (bit % 64);
        *self = match if there { set + 1 } else { set - 1 } {
            0 => Self::Empty,
            FULL => Self::Full,
            set => Self::Mixed(set, words),
        };
    }
}

/// Bits that a full region has set.
const FULL: u32 = REGION_BLOCKS as u32;

/// A set of block numbers below `len`.
#[derive(Clone, Debug)]
pub struct Bitmap {
    regions: Vec<Region>,
    len: u64,
    set: u64,
}

impl Bitmap {
    pub fn new(len: u64) -> Self {
        let regions = vec![Region::Empty; len.div_ceil(REGION_BLOCKS) as usize];
        Self { regions, len, set: 0 }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// How many blocks are in the set.
    pub fn count(&self) -> u64 {
        self.set
    }

    pub fn contains(&self, block: u64) -> bool {
        let region = self.regions.get((block / REGION_BLOCKS) as usize);
        let word = |region: &Region| region.word((block % REGION_BLOCKS / 64) as usize);
        region.is_some_and(|region| word(region) >> (block % 64) & 1 == 1)
    }

    /// Returns whether it was missing. A block out of range never is.
    pub fn insert(&mut self, block: u64) -> bool {
        if block >= self.len || self.contains(block) {
            return false;
        }
        self.regions[(block / REGION_BLOCKS) as usize].flip(block % REGION_BLOCKS, true);
        self.set += 1;
        true
    }

    /// Returns whether it was there.
    pub fn remove(&mut self, block: u64) -> bool {
        if !self.contains(block) {
            return false;
        }
        self.regions[(block / REGION_BLOCKS) as usize].flip(block % REGION_BLOCKS, false);
        self.set -= 1;
        true
    }

    /// Adds another set of as many blocks. `false`: they have a block in common.
    pub fn insert_all(&mut self, other: &Self) -> bool {
        let mut apart = self.len == other.len;
        for (region, more) in self.regions.iter_mut().zip(&other.regions) {
            match (&*region, more) {
                (_, Region::Empty) => {}
                (Region::Empty, _) => *region = more.clone(),
                (Region::Full, _) | (_, Region::Full) => {
                    apart = false;
                    *region = Region::Full;
                }
                (Region::Mixed(_, ours), Region::Mixed(_, theirs)) => {
                    let mut words = ours.clone();
                    for (word, more) in words.iter_mut().zip(theirs.iter()) {
                        apart &= *word & more == 0;
                        *word |= more;
                    }
                    *region = Region::of(words);
                }
            }
        }
        self.count_again();
        apart
    }

    fn count_again(&mut self) {
        self.set = self.regions.iter().map(|region| u64::from(region.set())).sum();
    }

    /// The blocks that are missing.
    pub fn missing(&self) -> Self {
        let mut regions: Vec<Region> = self.regions.iter().map(inverted).collect();
        // No bit may be set behind the end.
        let inside = self.len % REGION_BLOCKS;
        if let Some(last) = regions.last_mut().filter(|_| inside > 0) {
            let mut words = last.words();
            for (at, word) in (0..).step_by(64).zip(words.iter_mut()) {
                let inside = inside.saturating_sub(at).min(64);
                *word &= u64::MAX.checked_shr(64 - inside as u32).unwrap_or(0);
            }
            *last = Region::of(words);
        }
        Self { regions, len: self.len, set: self.len - self.set }
    }

    /// The first block from `from` on that is missing.
    pub fn next_missing(&self, from: u64) -> Option<u64> {
        let mut at = from;
        while at < self.len {
            let region = &self.regions[(at / REGION_BLOCKS) as usize];
            if let Region::Full = region {
                at = (at / REGION_BLOCKS + 1) * REGION_BLOCKS;
                continue;
            }
            let free = !region.word((at % REGION_BLOCKS / 64) as usize) >> (at % 64);
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
            let region = &self.regions[(at / REGION_BLOCKS) as usize];
            if let Region::Empty = region {
                at = (at / REGION_BLOCKS + 1) * REGION_BLOCKS;
                continue;
            }
            let there = region.word((at % REGION_BLOCKS / 64) as usize) >> (at % 64);
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
        self.regions.len() as u64
    }

    /// A region's bits as bytes; `None` if none is set.
    pub fn region(&self, region: u64) -> Option<Vec<u8>> {
        match &self.regions[region as usize] {
            Region::Empty => None,
            region => Some(region.words().iter().flat_map(|w| w.to_le_bytes()).collect()),
        }
    }

    /// Sets the bits of an empty region from its bytes. `false`: they are not a region's.
    pub fn load_region(&mut self, region: u64, bytes: &[u8]) -> bool {
        if region >= self.regions() || bytes.len() != REGION_BYTES {
            return false;
        }
        let mut words = Box::new([0; REGION_WORDS]);
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map_or(0, u64::from_le_bytes);
        }
        let loaded = Region::of(words);
        self.set += u64::from(loaded.set());
        self.regions[region as usize] = loaded;
        // No bit may be set behind the end.
        let last = (region + 1) * REGION_BLOCKS;
        (self.len..last).all(|block| !self.contains(block))
    }
}

fn inverted(region: &Region) -> Region {
    match region {
        Region::Empty => Region::Full,
        Region::Full => Region::Empty,
        Region::Mixed(set, words) => Region::Mixed(FULL - set, Box::new(words.map(|word| !word))),
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
    fn regions_that_are_empty_or_full_take_no_memory() {
        let mut bitmap = Bitmap::new(3 * REGION_BLOCKS + 10);
        let mixed =
            |b: &Bitmap| b.regions.iter().filter(|region| matches!(region, Region::Mixed(..))).count();
        let missing = bitmap.missing();
        assert_eq!((mixed(&bitmap), mixed(&missing), missing.count()), (0, 1, 3 * REGION_BLOCKS + 10));
        let second = REGION_BLOCKS..2 * REGION_BLOCKS;
        assert!(second.clone().all(|block| bitmap.insert(block)));
        assert_eq!((mixed(&bitmap), bitmap.next_missing(REGION_BLOCKS)), (0, Some(2 * REGION_BLOCKS)));
        assert_eq!(bitmap.region(1), Some(vec![0xff; REGION_BYTES]));
        assert!(bitmap.remove(REGION_BLOCKS + 7) && !bitmap.remove(REGION_BLOCKS + 7));
        assert_eq!((mixed(&bitmap), bitmap.next_missing(REGION_BLOCKS)), (1, Some(REGION_BLOCKS + 7)));
        let mut one = Bitmap::new(bitmap.len());
        assert!(one.insert(REGION_BLOCKS + 7) && bitmap.insert_all(&one) && mixed(&bitmap) == 0);
        assert!(!bitmap.insert_all(&one), "a block in common with a full region");
        assert!(second.into_iter().all(|block| bitmap.remove(block)));
        assert_eq!((mixed(&bitmap), bitmap.count(), bitmap.next_present(0)), (0, 0, bitmap.len()));
        assert!(bitmap.insert_all(&missing) && !bitmap.insert_all(&missing));
        assert_eq!((bitmap.count(), bitmap.missing().count()), (bitmap.len(), 0));
    }

    #[test]
    fn neighbours_become_runs() {
        let run = |start, count| Run { start, count };
        assert_eq!(runs_of([1, 2, 3, 7, 9, 10]), [run(1, 3), run(7, 1), run(9, 2)]);
    }
}
