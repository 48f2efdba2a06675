//! Sets of blocks and their contents, neighbours together: a write of megabytes is a few runs of blocks, not a thousand blocks.

use std::collections::BTreeMap;
use std::ops::Range;

use buffer::{Piece, Rope};

use crate::bitmap::Run;
use crate::layout::BLOCK;

/// Pieces of memory that the contents of a run are in, at most: [`BlockMap::get`] looks at each of them. Neighbours in memory are one piece.
const PIECES_MAX: usize = 64;

/// A set of blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockSet {
    /// By their first block: how many there are. No run ends where the next one begins, unless they are too long for one.
    runs: BTreeMap<u64, u32>,
    blocks: u64,
}

impl BlockSet {
    /// The run that has a block.
    fn run_of(&self, block: u64) -> Option<Run> {
        let (start, count) = self.runs.range(..=block).next_back()?;
        Some(Run { start: *start, count: *count }).filter(|run| run.blocks().contains(&block))
    }

    /// Adds blocks, none of which is there.
    pub fn insert(&mut self, mut run: Run) {
        debug_assert!(self.is_apart(run), "{run:?} is there in part");
        self.blocks += u64::from(run.count);
        if let Some((start, count)) = self.runs.range(..run.start).next_back()
            && start + u64::from(*count) == run.start
            && let Some(sum) = count.checked_add(run.count)
        {
            run = Run { start: *start, count: sum };
        }
        if let Some(count) = self.runs.get(&run.blocks().end)
            && let Some(sum) = count.checked_add(run.count)
        {
            self.runs.remove(&run.blocks().end);
            run.count = sum;
        }
        self.runs.insert(run.start, run.count);
    }

    fn is_apart(&self, run: Run) -> bool {
        self.run_of(run.start).is_none() && self.runs.range(run.blocks()).next().is_none()
    }

    pub fn contains(&self, block: u64) -> bool {
        !self.runs.is_empty() && self.run_of(block).is_some()
    }

    /// Returns whether it was there.
    pub fn remove(&mut self, block: u64) -> bool {
        let Some(Run { start, count }) = self.run_of(block) else { return false };
        let before = (block - start) as u32;
        self.runs.remove(&start);
        let parts = [Run { start, count: before }, Run { start: block + 1, count: count - before - 1 }];
        self.runs
            .extend(parts.into_iter().filter(|part| part.count > 0).map(|part| (part.start, part.count)));
        self.blocks -= 1;
        true
    }

    /// How many blocks it has.
    pub fn len(&self) -> u64 {
        self.blocks
    }

    /// Ascending.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().map(|(start, count)| Run { start: *start, count: *count })
    }

    /// All blocks, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.runs().flat_map(Run::blocks)
    }
}

/// Contents of blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockMap {
    /// By their first block. Each piece of a rope is whole blocks; no rope is empty, and no two have a block in common.
    runs: BTreeMap<u64, Rope>,
    blocks: u64,
}

/// How many blocks a run's contents are.
fn count_of(contents: &Rope) -> u64 {
    contents.len() as u64 / BLOCK
}

/// A range of blocks in a run's contents.
fn bytes_of(blocks: Range<u64>) -> Range<usize> {
    (blocks.start * BLOCK) as usize..(blocks.end * BLOCK) as usize
}

impl BlockMap {
    /// The first block of the run that has a block, and the run's contents.
    fn run_of(&self, block: u64) -> Option<(u64, &Rope)> {
        let (start, contents) = self.runs.range(..=block).next_back()?;
        (block < start + count_of(contents)).then_some((*start, contents))
    }

    /// Sets the contents of a block.
    pub fn insert(&mut self, block: u64, bytes: Piece) {
        assert_eq!(bytes.len() as u64, BLOCK, "contents of block {block}");
        // Most blocks come ascending: the last run is tried before one is searched.
        let run = match self.runs.last_entry() {
            Some(last) if *last.key() <= block => Some((*last.key(), last.into_mut())),
            _ => self.runs.range_mut(..=block).next_back().map(|(start, contents)| (*start, contents)),
        };
        if let Some((start, contents)) = run {
            let end = start + count_of(contents);
            if block == end && contents.pieces().len() < PIECES_MAX {
                contents.push(bytes);
                self.blocks += 1;
                return;
            }
            if block < end {
                self.remove(Run { start: block, count: 1 });
            }
        }
        self.runs.insert(block, bytes.into());
        self.blocks += 1;
    }

    /// Adds blocks, none of which is there.
    pub fn append(&mut self, other: Self) {
        for (start, contents) in other.runs {
            debug_assert!(
                (start..start + count_of(&contents)).all(|block| self.run_of(block).is_none()),
                "none of {} blocks from {start} on is there",
                count_of(&contents)
            );
            self.blocks += count_of(&contents);
            self.runs.insert(start, contents);
        }
    }

    pub fn get(&self, block: u64) -> Option<Piece> {
        if self.runs.is_empty() {
            return None;
        }
        let (start, contents) = self.run_of(block)?;
        Some(contents.piece(bytes_of(block - start..block - start + 1)))
    }

    /// The first of these blocks that is there.
    pub fn first_of(&self, blocks: Range<u64>) -> Option<u64> {
        if self.runs.is_empty() {
            return None;
        }
        if self.run_of(blocks.start).is_some() {
            return Some(blocks.start);
        }
        self.runs.range(blocks).next().map(|(start, _)| *start)
    }

    /// Removes those of the blocks that are there.
    pub fn remove(&mut self, run: Run) {
        let Range { start, end } = run.blocks();
        while let Some((first, contents)) = self.runs.range(..end).next_back() {
            let (first, count) = (*first, count_of(contents));
            if first + count <= start {
                return;
            }
            let before = contents.slice(bytes_of(0..start.saturating_sub(first)));
            let behind = contents.slice(bytes_of((end - first).min(count)..count));
            self.runs.remove(&first);
            let parts = [(first, before), (end, behind)];
            self.runs.extend(parts.into_iter().filter(|(_, contents)| !contents.is_empty()));
            self.blocks -= (first + count).min(end) - first.max(start);
        }
    }

    /// How many blocks it has.
    pub fn len(&self) -> u64 {
        self.blocks
    }

    /// Ascending; one may begin where another ends.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        // No memory holds contents of more than `u32::MAX` blocks.
        self.runs.iter().map(|(start, contents)| Run { start: *start, count: count_of(contents) as u32 })
    }

    /// The runs and their contents, ascending; one may begin where another ends.
    pub fn into_runs(self) -> impl Iterator<Item = (u64, Rope)> {
        self.runs.into_iter()
    }

    /// All blocks and their contents, ascending.
    pub fn blocks(&self) -> Vec<(u64, Piece)> {
        let mut all = Vec::with_capacity(self.blocks as usize);
        for (start, contents) in &self.runs {
            let pieces = contents.pieces().iter();
            let blocks = pieces.flat_map(|piece| {
                let places = (0..piece.len()).step_by(BLOCK as usize);
                places.map(|at| piece.slice(at..at + BLOCK as usize))
            });
            all.extend((*start..).zip(blocks));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use types::SplitMix64;

    use super::*;
    use crate::bitmap::runs_of;

    #[test]
    fn a_set_of_blocks_is_as_one_without_runs() {
        let (mut random, mut set, mut model) = (SplitMix64::new(1), BlockSet::default(), BTreeSet::new());
        for _ in 0..5000 {
            let block = random.below(60);
            let count = 1 + random.below(4);
            if (block..block + count).all(|block| !model.contains(&block)) {
                set.insert(Run { start: block, count: count as u32 });
                model.extend(block..block + count);
            }
            let block = random.below(64);
            assert_eq!(set.contains(block), model.contains(&block));
            assert_eq!(set.remove(block), model.remove(&block));
            assert_eq!(set.len(), model.len() as u64);
            assert!(set.blocks().eq(model.iter().copied()));
            assert!(set.runs().eq(runs_of(model.iter().copied())), "runs are as long as they can be");
        }
    }

    #[test]
    fn contents_of_blocks_are_as_without_runs() {
        let (mut random, mut map, mut model) = (SplitMix64::new(2), BlockMap::default(), BTreeMap::new());
        // Neighbours in memory, of which some follow one another.
        let memory = Piece::from((0..256 * BLOCK).map(|at| (at / BLOCK) as u8).collect::<Vec<u8>>());
        let contents = |at: u64| memory.slice((at * BLOCK) as usize..((at + 1) * BLOCK) as usize);
        for _ in 0..3000 {
            let (first, at, count) = (random.below(300), random.below(200), 1 + random.below(20));
            for number in 0..count {
                map.insert(first + number, contents(at + number));
                model.insert(first + number, contents(at + number));
            }
            if random.one_in(3) {
                let run = Run { start: random.below(300), count: 1 + random.below(90) as u32 };
                map.remove(run);
                run.blocks().for_each(|block| drop(model.remove(&block)));
            }
            let block = random.below(320);
            assert_eq!(map.get(block), model.get(&block).cloned());
            let behind = model.range(block..block + count).next().map(|(block, _)| *block);
            assert_eq!(map.first_of(block..block + count), behind);
            map.remove(Run { start: block, count: 1 });
            model.remove(&block);
            assert_eq!(map.len(), model.len() as u64);
            assert!(map.runs().flat_map(Run::blocks).eq(model.keys().copied()));
            assert!(map.blocks().into_iter().eq(model.clone()));
        }
        let mut both = BlockMap::default();
        let (low, high): (Vec<_>, Vec<_>) = model.clone().into_iter().partition(|(block, _)| block % 7 < 4);
        for part in [high, low] {
            let mut map = BlockMap::default();
            part.into_iter().for_each(|(block, bytes)| map.insert(block, bytes));
            both.append(map);
        }
        assert_eq!(both.len(), model.len() as u64);
        assert!(both.blocks().into_iter().eq(model));
    }

    #[test]
    fn what_lies_together_in_memory_is_one_run_and_scattered_pieces_are_several() {
        let memory = Piece::from(vec![1; 1000 * BLOCK as usize]);
        let (mut together, mut scattered) = (BlockMap::default(), BlockMap::default());
        for block in 0..1000 {
            together.insert(7 + block, memory.slice(bytes_of(block..block + 1)));
            scattered.insert(7 + block, Piece::from(vec![1; BLOCK as usize]));
        }
        assert!(together.runs().eq([Run { start: 7, count: 1000 }]));
        assert!(scattered.runs().all(|run| run.count as usize <= PIECES_MAX));
        assert_eq!(scattered.blocks(), together.blocks());
        assert_eq!(scattered.get(500), together.get(500));
        together.remove(Run { start: 7, count: 1000 });
        assert_eq!(together, BlockMap::default());
    }
}
