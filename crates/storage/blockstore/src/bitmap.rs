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

const REGION_WORDS: usize = REGION_BYTES / 8;

const GROUP_REGIONS: usize = 256;
const GROUP_BLOCKS: u64 = GROUP_REGIONS as u64 * REGION_BLOCKS;

/// A number of bits: a word, or [`Parts`].
trait Bits: Clone {
    /// How many there are.
    const COUNT: u32;
    const EMPTY: Self;
    const FULL: Self;

    /// How many are set.
    fn set(&self) -> u32;

    /// Adds the bits of another one. `false`: they have one in common.
    fn insert_all(&mut self, more: &Self) -> bool;

    fn inverted(&self) -> Self;
}

impl Bits for u64 {
    const COUNT: u32 = u64::BITS;
    const EMPTY: Self = 0;
    const FULL: Self = u64::MAX;

    fn set(&self) -> u32 {
        self.count_ones()
    }

    fn insert_all(&mut self, more: &Self) -> bool {
        let apart = *self & more == 0;
        *self |= more;
        apart
    }

    fn inverted(&self) -> Self {
        !self
    }
}

/// Bits in `N` parts. Where none or all are set, as of most of a device, they take no memory of their own.
#[derive(Clone, Debug)]
enum Parts<T, const N: usize> {
    Empty,
    Full,
    /// Neither: how many are set, and the parts.
    Mixed(u32, Box<[T; N]>),
}

/// What one stored record of the bitmap covers.
type Region = Parts<u64, REGION_WORDS>;

/// Neighbouring regions. A large device has many more regions than words in them.
type Group = Parts<Region, GROUP_REGIONS>;

impl<T: Bits, const N: usize> Parts<T, N> {
    /// In the cheapest form.
    fn of(set: u32, parts: Box<[T; N]>) -> Self {
        match set {
            0 => Self::Empty,
            set if set == Self::COUNT => Self::Full,
            set => Self::Mixed(set, parts),
        }
    }

    fn parts(self) -> Box<[T; N]> {
        match self {
            Self::Empty => Box::new([const { T::EMPTY }; N]),
            Self::Full => Box::new([const { T::FULL }; N]),
            Self::Mixed(_, parts) => parts,
        }
    }

    /// Changes a part.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut T)) {
        let set = self.set();
        let mut parts = std::mem::replace(self, Self::Empty).parts();
        let others = set - parts[at].set();
        change(&mut parts[at]);
        *self = Self::of(others + parts[at].set(), parts);
    }
}

impl<T: Bits, const N: usize> Bits for Parts<T, N> {
    const COUNT: u32 = T::COUNT * N as u32;
    const EMPTY: Self = Self::Empty;
    const FULL: Self = Self::Full;

    fn set(&self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::Full => Self::COUNT,
            Self::Mixed(set, _) => *set,
        }
    }

    fn insert_all(&mut self, more: &Self) -> bool {
        match (std::mem::replace(self, Self::Empty), more) {
            (ours, Self::Empty) => *self = ours,
            (Self::Empty, more) => *self = more.clone(),
            (Self::Mixed(_, mut parts), Self::Mixed(_, theirs)) => {
                let add = |(part, more): (&mut T, &T)| part.insert_all(more);
                let apart = parts.iter_mut().zip(theirs.iter()).map(add).fold(true, |all, one| all & one);
                *self = Self::of(parts.iter().map(T::set).sum(), parts);
                return apart;
            }
            _ => {
                *self = Self::Full;
                return false;
            }
        }
        true
    }

    fn inverted(&self) -> Self {
        match self {
            Self::Empty => Self::Full,
            Self::Full => Self::Empty,
            Self::Mixed(set, parts) => {
                Self::Mixed(Self::COUNT - set, Box::new(parts.each_ref().map(T::inverted)))
            }
        }
    }
}

impl Region {
    fn of_words(words: Box<[u64; REGION_WORDS]>) -> Self {
        Self::of(words.iter().map(u64::set).sum(), words)
    }

    fn word(&self, at: usize) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Full => u64::MAX,
            Self::Mixed(_, words) => words[at],
        }
    }

    /// Without the bits from this one on.
    fn cut(&self, inside: u64) -> Self {
        if inside >= REGION_BLOCKS {
            return self.clone();
        }
        let mut words = self.clone().parts();
        for (at, word) in (0..).step_by(64).zip(words.iter_mut()) {
            let inside = inside.saturating_sub(at).min(64);
            *word &= u64::MAX.checked_shr(64 - inside as u32).unwrap_or(0);
        }
        Self::of_words(words)
    }
}

static EMPTY_REGION: Region = Region::Empty;
static FULL_REGION: Region = Region::Full;

impl Group {
    fn region(&self, at: usize) -> &Region {
        match self {
            Self::Empty => &EMPTY_REGION,
            Self::Full => &FULL_REGION,
            Self::Mixed(_, regions) => &regions[at],
        }
    }
}

/// A set of block numbers below `len`.
#[derive(Clone, Debug)]
pub struct Bitmap {
    groups: Vec<Group>,
    len: u64,
    set: u64,
}

impl Bitmap {
    pub fn new(len: u64) -> Self {
        Self { groups: vec![Group::Empty; len.div_ceil(GROUP_BLOCKS) as usize], len, set: 0 }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// How many blocks are in the set.
    pub fn count(&self) -> u64 {
        self.set
    }

    /// The region of a block that is in range.
    fn region_of(&self, block: u64) -> &Region {
        self.groups[(block / GROUP_BLOCKS) as usize].region((block % GROUP_BLOCKS / REGION_BLOCKS) as usize)
    }

    fn change(&mut self, region: u64, change: impl FnOnce(&mut Region)) {
        let (group, at) = (region / GROUP_REGIONS as u64, region % GROUP_REGIONS as u64);
        self.groups[group as usize].change(at as usize, change);
    }

    fn flip(&mut self, block: u64) {
        let word = (block % REGION_BLOCKS / 64) as usize;
        self.change(block / REGION_BLOCKS, |region| region.change(word, |word| *word ^= 1 << (block % 64)));
    }

    pub fn contains(&self, block: u64) -> bool {
        block < self.len && {
            let word = self.region_of(block).word((block % REGION_BLOCKS / 64) as usize);
            word >> (block % 64) & 1 == 1
        }
    }

    /// Returns whether it was missing. A block out of range never is.
    pub fn insert(&mut self, block: u64) -> bool {
        if block >= self.len || self.contains(block) {
            return false;
        }
        self.flip(block);
        self.set += 1;
        true
    }

    /// Returns whether it was there.
    pub fn remove(&mut self, block: u64) -> bool {
        if !self.contains(block) {
            return false;
        }
        self.flip(block);
        self.set -= 1;
        true
    }

    /// Adds another set of as many blocks. `false`: they have a block in common.
    pub fn insert_all(&mut self, other: &Self) -> bool {
        let add = |(group, more): (&mut Group, &Group)| group.insert_all(more);
        let apart = self.groups.iter_mut().zip(&other.groups).map(add).fold(true, |all, one| all & one);
        self.set = self.groups.iter().map(|group| u64::from(group.set())).sum();
        apart && self.len == other.len
    }

    /// The blocks that are missing.
    pub fn missing(&self) -> Self {
        let groups = self.groups.iter().map(Group::inverted).collect();
        let mut missing = Self { groups, len: self.len, set: self.len - self.set };
        // No bit may be set behind the end.
        let all = missing.groups.len() as u64 * GROUP_REGIONS as u64;
        for region in self.len / REGION_BLOCKS..all {
            let inside = self.len.saturating_sub(region * REGION_BLOCKS);
            missing.change(region, |region| *region = region.cut(inside));
        }
        missing
    }

    /// The first block from `from` on that is missing.
    pub fn next_missing(&self, from: u64) -> Option<u64> {
        let mut at = from;
        while at < self.len {
            if let Group::Full = &self.groups[(at / GROUP_BLOCKS) as usize] {
                at = (at / GROUP_BLOCKS + 1) * GROUP_BLOCKS;
                continue;
            }
            let region = self.region_of(at);
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

    /// The last region below this one in which a block may be missing.
    pub fn last_with_missing(&self, below: u64) -> Option<u64> {
        let mut at = below.min(self.regions());
        while let Some(region) = at.checked_sub(1) {
            let group = &self.groups[region as usize / GROUP_REGIONS];
            match (group, group.region(region as usize % GROUP_REGIONS)) {
                (Group::Full, _) => at = region - region % GROUP_REGIONS as u64,
                (_, Region::Full) => at = region,
                _ => return Some(region),
            }
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
            if let Group::Empty = &self.groups[(at / GROUP_BLOCKS) as usize] {
                at = (at / GROUP_BLOCKS + 1) * GROUP_BLOCKS;
                continue;
            }
            let region = self.region_of(at);
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
        self.len.div_ceil(REGION_BLOCKS)
    }

    /// A region's bits as bytes; `None` if none is set.
    pub fn region(&self, region: u64) -> Option<Vec<u8>> {
        match self.region_of(region * REGION_BLOCKS) {
            Region::Empty => None,
            region => Some(region.clone().parts().iter().flat_map(|w| w.to_le_bytes()).collect()),
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
        let read = Region::of_words(words);
        // No bit may be set behind the end.
        let inside = self.len - region * REGION_BLOCKS;
        let loaded = read.cut(inside);
        let fits = loaded.set() == read.set();
        self.set += u64::from(loaded.set());
        self.change(region, |region| *region = loaded);
        fits
    }

    /// Regions that have words, and bytes of memory of all.
    pub fn memory(&self) -> (u64, u64) {
        let groups = self.groups.iter().filter_map(|group| match group {
            Group::Mixed(_, regions) => Some(regions),
            Group::Empty | Group::Full => None,
        });
        let is_mixed = |region: &&Region| matches!(region, Region::Mixed(..));
        let (groups, mixed) = groups.fold((0, 0), |(groups, mixed), regions| {
            (groups + 1, mixed + regions.iter().filter(is_mixed).count())
        });
        let bytes =
            size_of_val(&*self.groups) + groups * size_of::<[Region; GROUP_REGIONS]>() + mixed * REGION_BYTES;
        (mixed as u64, bytes as u64)
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
        let mixed = |b: &Bitmap| b.memory().0;
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

    /// 1 PiB, in blocks.
    const PIB: u64 = (1 << 50) / 4096;

    #[test]
    fn what_is_empty_or_full_of_a_large_device_takes_little_memory_and_no_time() {
        let mut bitmap = Bitmap::new(PIB - 5);
        assert!(bitmap.memory().1 < 4 << 20, "{} bytes", bitmap.memory().1);
        assert!(bitmap.insert(PIB / 2) && bitmap.insert(PIB - 6) && !bitmap.insert(PIB - 5));
        let mut full = bitmap.missing();
        for (some, what) in [(&bitmap, "nearly empty"), (&full, "nearly full")] {
            let (regions, bytes) = some.memory();
            assert!(regions == 2 && bytes < 4 << 20, "{what}: {regions} regions, {bytes} bytes");
        }
        assert_eq!((bitmap.next_present(0), bitmap.next_present(PIB / 2 + 1)), (PIB / 2, PIB - 6));
        assert_eq!((full.next_missing(0), full.next_missing(PIB - 5)), (Some(PIB / 2), None));
        assert_eq!(full.last_with_missing(u64::MAX), Some((PIB - 6) / REGION_BLOCKS));
        assert_eq!(full.last_with_missing((PIB - 6) / REGION_BLOCKS), Some(PIB / 2 / REGION_BLOCKS));
        assert_eq!(full.last_with_missing(PIB / 2 / REGION_BLOCKS), None);
        assert!(full.insert_all(&bitmap) && full.count() == PIB - 5);
        assert_eq!((full.next_missing(0), full.missing().count()), (None, 0));
    }

    #[test]
    fn groups_hold_what_single_regions_would() {
        let (mut random, len) = (SplitMix64::new(2), 2 * GROUP_BLOCKS + 3 * REGION_BLOCKS + 77);
        let (mut bitmap, mut model) = (Bitmap::new(len), vec![false; len as usize]);
        let mut uniform = 0;
        for _ in 0..24 {
            // Half groups, of which two make a whole one, regions, and some blocks.
            let (start, count) = match random.below(4) {
                0 | 1 => (random.below(5) * GROUP_BLOCKS / 2, GROUP_BLOCKS / 2),
                2 => (random.below(bitmap.regions()) * REGION_BLOCKS, REGION_BLOCKS),
                _ => (random.below(len), random.below(1000)),
            };
            let insert = random.below(4) > 0;
            for block in start..(start + count).min(len) {
                let changed = if insert { bitmap.insert(block) } else { bitmap.remove(block) };
                assert_eq!(changed, std::mem::replace(&mut model[block as usize], insert) != insert);
            }
            uniform += bitmap.groups.iter().filter(|group| matches!(group, Group::Full)).count();
            let count = model.iter().filter(|there| **there).count() as u64;
            let missing = bitmap.missing();
            assert_eq!((bitmap.count(), missing.count()), (count, len - count));
            for _ in 0..10 {
                let from = random.below(len);
                let next = |there: bool| {
                    model[from as usize..].iter().position(|one| *one == there).map(|at| from + at as u64)
                };
                assert_eq!(
                    (bitmap.next_missing(from), missing.next_missing(from)),
                    (next(false), next(true))
                );
                assert_eq!(bitmap.next_present(from), next(true).unwrap_or(len));
                assert_eq!(missing.next_present(from), next(false).unwrap_or(len));
            }
            let mut again = Bitmap::new(len);
            for region in 0..bitmap.regions() {
                assert!(bitmap.region(region).is_none_or(|bytes| again.load_region(region, &bytes)));
            }
            assert_eq!((again.count(), again.memory()), (count, bitmap.memory()));
            assert!(again.insert_all(&missing) && again.count() == len && again.memory().0 <= 1);
            assert_eq!(again.insert_all(&bitmap), count == 0);
        }
        assert!(uniform > 5, "{uniform} full groups");
    }

    #[test]
    fn neighbours_become_runs() {
        let run = |start, count| Run { start, count };
        assert_eq!(runs_of([1, 2, 3, 7, 9, 10]), [run(1, 3), run(7, 1), run(9, 2)]);
    }
}
