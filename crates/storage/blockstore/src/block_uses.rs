//! Which blocks objects map, and how often: what a check holds against the counts of the store.

use std::collections::BTreeMap;

use crate::bitmap::Bitmap;
use crate::chunk::Slot;

/// How often a block is mapped, and how often as shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Uses {
    pub times: u32,
    pub shared: u32,
}

/// How often each block is mapped. Nearly all are mapped once: a bit is the memory of one of those.
#[derive(Debug)]
pub struct BlockUses {
    any: Bitmap,
    /// Those that are mapped as shared, or more than once, or that the store does not have.
    special: BTreeMap<u64, Uses>,
}

impl BlockUses {
    /// Of a store whose blocks have numbers below this.
    pub fn below(numbers: u64) -> Self {
        Self { any: Bitmap::new(numbers), special: BTreeMap::new() }
    }

    pub fn note(&mut self, slot: &Slot) {
        let before = self.get(slot.block);
        if before.is_none() && !slot.shared && self.any.insert(slot.block) {
            return;
        }
        let Uses { times, shared } = before.unwrap_or_default();
        let now = Uses { times: times + 1, shared: shared + u32::from(slot.shared) };
        self.any.insert(slot.block);
        self.special.insert(slot.block, now);
    }

    /// `None` if nothing maps it.
    pub fn get(&self, block: u64) -> Option<Uses> {
        let once = || self.any.contains(block).then_some(Uses { times: 1, shared: 0 });
        self.special.get(&block).copied().or_else(once)
    }

    /// All that are mapped, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        let next = |from: u64| Some(self.any.next_present(from)).filter(|block| *block < self.any.len());
        let there = std::iter::successors(next(0), move |block| next(block + 1));
        there.chain(self.special.range(self.any.len()..).map(|(block, _)| *block))
    }

    /// Those that are mapped more than once.
    pub fn repeated(&self) -> impl Iterator<Item = u64> {
        self.special.iter().filter(|(_, mapped)| mapped.times > 1).map(|(block, _)| *block)
    }
}

impl Default for BlockUses {
    /// Of a store without blocks.
    fn default() -> Self {
        Self::below(0)
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    #[test]
    fn a_block_is_mapped_as_often_as_was_noted() {
        let (mut uses, mut model, mut random) =
            (BlockUses::below(500), BTreeMap::<u64, Uses>::new(), SplitMix64::new(1));
        for _ in 0..900 {
            // Some are blocks that the store does not have.
            let (block, shared) = (random.below(520), random.below(4) == 0);
            let slot = Slot { block, crc: 0, shared };
            uses.note(&slot);
            let of = model.entry(block).or_default();
            *of = Uses { times: of.times + 1, shared: of.shared + u32::from(shared) };
        }
        assert!((0..530).all(|block| uses.get(block) == model.get(&block).copied()));
        assert_eq!(uses.blocks().collect::<Vec<_>>(), model.keys().copied().collect::<Vec<_>>());
        let repeated = model.iter().filter(|(_, of)| of.times > 1).map(|(block, _)| *block);
        assert_eq!(uses.repeated().collect::<Vec<_>>(), repeated.collect::<Vec<_>>());
        assert!(model.contains_key(&519) && model.len() < 520, "both kinds are there");
    }
}
