//! The runs of blocks in the cache of data, by their blocks.

use std::collections::BTreeMap;
use std::ops::Range;

use buffer::Piece;
use smallvec::SmallVec;
use types::Slab;

use crate::ages::Used;
use crate::block_index::BlockIndex;
use crate::layout::BLOCK;

#[derive(Debug)]
pub struct Cached {
    /// The first block of the run.
    pub first: u64,
    pub bytes: Piece,
    pub used: Used,
    /// Whether it was read again.
    pub again: bool,
}

impl Cached {
    /// The block behind the run.
    pub fn end(&self) -> u64 {
        self.first + self.bytes.len() as u64 / BLOCK
    }
}

/// Where a run is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(usize);

/// Invariant: no two runs have a block in common.
#[derive(Debug, Default)]
pub struct CachedRuns {
    kept: Slab<Cached>,
    /// Runs of one block, which most are where requests are small.
    singles: BlockIndex,
    /// Longer ones, by their first blocks.
    longer: BTreeMap<u64, Place>,
    bytes: u64,
}

impl CachedRuns {
    pub fn count(&self) -> usize {
        self.kept.len()
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn get(&self, place: Place) -> Option<&Cached> {
        self.kept.get(place.0)
    }

    /// The run that has a block.
    pub fn find(&self, block: u64) -> Option<Place> {
        self.singles.get(block).map(Place).or_else(|| {
            let (_, place) = self.longer.range(..=block).next_back()?;
            self.get(*place).is_some_and(|cached| block < cached.end()).then_some(*place)
        })
    }

    /// The first of these blocks that a run has, and that run.
    pub fn first_of(&self, blocks: Range<u64>) -> Option<(u64, Place)> {
        if let Some(place) = self.find(blocks.start) {
            return Some((blocks.start, place));
        }
        if blocks.end - blocks.start == 1 {
            return None;
        }
        let longer = self.longer.range(blocks.clone()).next().map(|(first, place)| (*first, *place));
        let end = longer.map_or(blocks.end, |(first, _)| first);
        let single = |block| Some((block, Place(self.singles.get(block)?)));
        let no_singles = self.singles.len() == 0;
        (blocks.start + 1..if no_singles { 0 } else { end }).find_map(single).or(longer)
    }

    /// The runs that have a block from `first` on before `end`.
    pub fn within(&self, first: u64, end: u64) -> SmallVec<[Place; 2]> {
        let longer = self.longer.range(..end).rev().map(|(_, place)| *place);
        let reaches = |place: &Place| self.get(*place).is_some_and(|cached| cached.end() > first);
        let mut found: SmallVec<[Place; 2]> = longer.take_while(reaches).collect();
        if end - first <= self.singles.len() as u64 {
            found.extend((first..end).filter_map(|block| self.singles.get(block)).map(Place));
        } else {
            let is_within = |cached: &Cached| (first..end).contains(&cached.first);
            let singles = self.singles.places().map(Place);
            found.extend(singles.filter(|place| self.get(*place).is_some_and(is_within)));
        }
        found
    }

    /// Adds a run of whole blocks that no other has.
    pub fn insert(&mut self, cached: Cached) {
        debug_assert!(self.within(cached.first, cached.end()).is_empty(), "two runs have a block in common");
        let (first, len) = (cached.first, cached.bytes.len() as u64);
        self.bytes += len;
        let place = self.kept.insert(cached);
        if len == BLOCK {
            self.singles.set(first, place);
        } else {
            self.longer.insert(first, Place(place));
        }
    }

    pub fn remove(&mut self, place: Place) -> Option<Cached> {
        let cached = self.kept.remove(place.0)?;
        self.bytes -= cached.bytes.len() as u64;
        if cached.bytes.len() as u64 == BLOCK {
            self.singles.remove(cached.first);
        } else {
            self.longer.remove(&cached.first);
        }
        Some(cached)
    }

    /// The first blocks of all runs, in order.
    #[cfg(test)]
    pub fn firsts(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.kept.iter().map(|(_, cached)| cached.first).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;
    use crate::ages::Ages;

    /// Runs of all lengths against a list that is searched from end to end.
    #[test]
    fn blocks_are_found_as_in_a_list_of_all() {
        let (mut runs, mut ages, mut random) = (CachedRuns::default(), Ages::default(), SplitMix64::new(3));
        let mut list: Vec<(u64, u64)> = Vec::new();
        for _ in 0..4000 {
            let first = random.below(400);
            let count = if random.below(3) > 0 { 1 } else { 1 + random.below(40) };
            let overlaps = |&(a, b): &(u64, u64)| a < first + count && b > first;
            let mut expected: Vec<u64> =
                list.iter().filter(|run| overlaps(run)).map(|(first, _)| *first).collect();
            let there = (first..first + count)
                .find_map(|block| Some((block, list.iter().find(|(a, b)| (*a..*b).contains(&block))?.0)));
            let found = runs.first_of(first..first + count);
            assert_eq!(found.map(|(block, place)| (block, runs.get(place).unwrap().first)), there);
            let within = runs.within(first, first + count);
            let mut found: Vec<u64> = within.iter().map(|place| runs.get(*place).unwrap().first).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected);
            within.into_iter().for_each(|place| drop(runs.remove(place)));
            list.retain(|run| !overlaps(run));
            if random.below(4) > 0 {
                let bytes = Piece::from(vec![0; (count * BLOCK) as usize]);
                runs.insert(Cached { first, bytes, used: ages.add(first), again: false });
                list.push((first, first + count));
            }
            for block in 0..440 {
                let expected = list.iter().find(|(a, b)| (*a..*b).contains(&block)).map(|(first, _)| *first);
                let found = runs.find(block).and_then(|place| runs.get(place));
                assert_eq!(found.map(|cached| cached.first), expected);
            }
            let blocks: u64 = list.iter().map(|(a, b)| b - a).sum();
            assert_eq!(runs.bytes(), blocks * BLOCK);
        }
        assert!(list.len() > 20, "{} runs at the end", list.len());
    }
}
