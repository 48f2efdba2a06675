//! What nothing needs any more, and what takes long to give back to the allocator: some of it each turn.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::vec;

use buffer::Piece;

use crate::layer::{Layer, LayerKey};
use crate::page::PagePtr;
use crate::pages::Pages;

/// Entries of each kind that a turn gives back at least: about as long as a few operations take.
const ENTRIES_PER_TURN: usize = 512;

/// The same of pages, of which each has more parts.
const PAGES_PER_TURN: usize = 128;

/// A turn gives back this part of what is left where that is more, so that whatever comes goes.
const PART_PER_TURN: usize = 64;

#[derive(Debug, Default)]
pub struct Leftovers {
    changes: VecDeque<btree_map::IntoIter<LayerKey, Option<Piece>>>,
    /// Memory of the layers in `changes`, bytes, until each has gone.
    bytes: VecDeque<u64>,
    blocks: VecDeque<btree_map::IntoIter<u64, Piece>>,
    /// Pages that the tree had before a checkpoint. They may be in memory.
    pages: VecDeque<vec::IntoIter<PagePtr>>,
}

impl Leftovers {
    /// A layer with so many bytes of memory.
    pub fn add_changes(&mut self, changes: Layer, bytes: u64) {
        self.changes.push_back(changes.into_iter());
        self.bytes.push_back(bytes);
    }

    /// How many changes there are.
    pub fn changes_count(&self) -> usize {
        self.changes.iter().map(ExactSizeIterator::len).sum()
    }

    /// Bytes of memory of changes.
    pub fn changes_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    pub fn add_blocks(&mut self, blocks: BTreeMap<u64, Piece>) {
        self.blocks.push_back(blocks.into_iter());
    }

    pub fn add_pages(&mut self, pages: Vec<PagePtr>) {
        self.pages.push_back(pages.into_iter());
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.blocks.is_empty() && self.pages.is_empty()
    }

    /// Gives a turn's part back; of `pages` those that are in memory.
    pub fn drop_some(&mut self, pages: &mut Pages) {
        take_first(&mut self.changes, ENTRIES_PER_TURN, drop);
        self.bytes.drain(..self.bytes.len() - self.changes.len());
        take_first(&mut self.blocks, ENTRIES_PER_TURN, drop);
        take_first(&mut self.pages, PAGES_PER_TURN, |page| pages.remove(&page));
    }
}

fn take_first<I: ExactSizeIterator>(all: &mut VecDeque<I>, least: usize, take: impl FnMut(I::Item)) {
    let left: usize = all.iter().map(|some| some.len()).sum();
    let Some(first) = all.front_mut() else { return };
    first.take(least.max(left / PART_PER_TURN)).for_each(take);
    if first.len() == 0 {
        all.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_goes_after_some_turns_and_not_in_one() {
        let mut leftovers = Leftovers::default();
        let piece = Piece::copy_from(&[1; 8]);
        for _ in 0..2 {
            leftovers.add_blocks((0..1000).map(|block| (block, piece.clone())).collect());
        }
        leftovers.add_changes(Layer::new(), 7);
        assert_eq!(leftovers.changes_bytes(), 7);
        let turns = (0..100).take_while(|_| {
            let there = !leftovers.is_empty();
            leftovers.drop_some(&mut Pages::default());
            there
        });
        assert_eq!(turns.count(), 4);
        assert_eq!(leftovers.changes_bytes(), 0);
    }
}
