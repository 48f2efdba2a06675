//! Where things are kept that begin with a block.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::filter::spread;

/// Numbers of places by blocks, hashed: a search in a tree of blocks would miss the processor's caches several times. An entry
/// is small and has its block, so that a table that grows is copied soon, and looks for nothing elsewhere.
#[derive(Debug, Default)]
pub struct BlockIndex(HashTable<(u64, usize)>);

fn hash((block, _): &(u64, usize)) -> u64 {
    spread(*block)
}

impl BlockIndex {
    /// Blocks that have a place.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, block: u64) -> Option<usize> {
        self.0.find(spread(block), |entry| entry.0 == block).map(|entry| entry.1)
    }

    /// Gives a block a place. Returns the one that it had.
    pub fn set(&mut self, block: u64, place: usize) -> Option<usize> {
        match self.0.entry(spread(block), |entry| entry.0 == block, hash) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(&mut entry.get_mut().1, place)),
            Entry::Vacant(entry) => {
                entry.insert((block, place));
                None
            }
        }
    }

    /// Takes a block's place from it.
    pub fn remove(&mut self, block: u64) -> Option<usize> {
        let entry = self.0.find_entry(spread(block), |entry| entry.0 == block).ok()?;
        Some(entry.remove().0.1)
    }

    /// All places, in no order.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|entry| entry.1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use types::SplitMix64;

    use super::*;

    #[test]
    fn a_block_has_the_place_that_it_was_given_last() {
        let (mut index, mut model, mut random) = (BlockIndex::default(), BTreeMap::new(), SplitMix64::new(1));
        for place in 0..20_000 {
            let block = random.below(3000) << random.below(3);
            match random.below(3) {
                0 => assert_eq!(index.remove(block), model.remove(&block)),
                _ => assert_eq!(index.set(block, place), model.insert(block, place)),
            }
            let asked = random.below(3000);
            assert_eq!((index.get(asked), index.len()), (model.get(&asked).copied(), model.len()));
        }
        let mut places: Vec<usize> = index.places().collect();
        places.sort_unstable();
        let mut expected: Vec<usize> = model.into_values().collect();
        expected.sort_unstable();
        assert_eq!(places, expected);
    }
}
