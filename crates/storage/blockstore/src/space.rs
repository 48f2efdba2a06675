//! The blocks of a shard: which are taken, which hold data, and which come back later.

use std::collections::{BTreeSet, VecDeque};

use crate::bitmap::{Bitmap, REGION_BLOCKS, Run, runs_of};

/// From so many on, blocks are looked for that are neighbours.
const WHOLE_BLOCKS_MIN: u64 = 16;

/// How far a search goes before shorter runs are taken: 16 GiB.
const SEARCHED_BLOCKS_MAX: u64 = 4 << 20;

/// Blocks that a change gave up, which are free for others once nothing can need them.
#[derive(Debug)]
struct Leaving {
    /// The log record that gave them up.
    sequence: u64,
    /// Reads that began before this number may still want them.
    reads_below: u64,
    blocks: Vec<u64>,
}

/// A shard's blocks, by number.
#[derive(Debug)]
pub struct Space {
    /// Blocks that nothing may be written to: data, pages of the tree, and what is leaving.
    taken: Bitmap,
    /// Blocks that hold data as of the last change: what a checkpoint keeps.
    data: Bitmap,
    /// Regions of `data` that changed since the last checkpoint began.
    dirty: BTreeSet<u64>,
    leaving: VecDeque<Leaving>,
    leaving_blocks: u64,
    /// Where the next search begins.
    cursor: u64,
    /// Blocks below this one are given out. Those behind it the device may not have yet.
    open: u64,
}

impl Space {
    pub fn new(blocks: u64) -> Self {
        Self {
            taken: Bitmap::new(blocks),
            data: Bitmap::new(blocks),
            dirty: BTreeSet::new(),
            leaving: VecDeque::new(),
            leaving_blocks: 0,
            cursor: 0,
            open: blocks,
        }
    }

    /// Gives out blocks below `open` only, and those that are taken already.
    pub fn open_to(&mut self, open: u64) {
        self.open = open.max(self.taken.end()).min(self.taken.len());
    }

    /// Blocks below this one are given out.
    pub fn open_blocks(&self) -> u64 {
        self.open
    }

    /// The place behind the last block that is taken.
    pub fn taken_end(&self) -> u64 {
        self.taken.end()
    }

    /// Blocks that are taken: with data, by pages of the tree, or still leaving.
    pub fn taken_blocks(&self) -> u64 {
        self.taken.count()
    }

    pub fn blocks(&self) -> u64 {
        self.taken.len()
    }

    /// Blocks that can be given out.
    pub fn free_blocks(&self) -> u64 {
        self.open - self.taken.count()
    }

    pub fn leaving_blocks(&self) -> u64 {
        self.leaving_blocks
    }

    pub fn data_blocks(&self) -> u64 {
        self.data.count()
    }

    /// How scattered the free blocks are: 0 if all are neighbours, 1 if no two are.
    pub fn fragmentation(&self) -> f64 {
        let free = self.free_blocks();
        if free < 2 {
            return 0.0;
        }
        let (mut runs, mut at) = (0u64, 0);
        while let Some(run) = self.taken.next_run(at, 1, u64::MAX, u64::MAX) {
            runs += 1;
            at = run.end;
        }
        (runs - 1) as f64 / (free - 1) as f64
    }

    pub fn holds_data(&self, block: u64) -> bool {
        self.data.contains(block)
    }

    /// The first block from `from` on that holds data; the end if none does.
    pub fn next_data(&self, from: u64) -> u64 {
        self.data.next_present(from)
    }

    /// Takes `count` free blocks: neighbours, as far as there are some behind the last ones that were taken. `None` if there
    /// are fewer.
    pub fn allocate(&mut self, count: u64) -> Option<Vec<u64>> {
        if count > self.free_blocks() {
            return None;
        }
        let mut blocks = Vec::with_capacity(count as usize);
        let mut run_min = if count < WHOLE_BLOCKS_MIN { 1 } else { count };
        while (blocks.len() as u64) < count {
            let left = count - blocks.len() as u64;
            let searched = if run_min > 1 { SEARCHED_BLOCKS_MAX } else { u64::MAX };
            let run = self.taken.next_run(self.cursor, run_min.min(left), left, searched);
            let run = run.map(|run| run.start..run.end.min(self.open)).filter(|run| !run.is_empty());
            let Some(run) = run else {
                // Around once; then shorter runs.
                if self.cursor == 0 {
                    run_min = (run_min / 2).max(1);
                }
                self.cursor = 0;
                continue;
            };
            let taken = run.start..run.end.min(run.start + left);
            self.cursor = taken.end;
            for block in taken {
                self.taken.insert(block);
                blocks.push(block);
            }
        }
        Some(blocks)
    }

    /// The same as runs, for pages of the tree. They may lie behind what is open: no change waits for them there, and a
    /// checkpoint without them would end the store.
    pub fn allocate_runs(&mut self, count: u64) -> Option<Vec<Run>> {
        if count > self.free_blocks() {
            self.open_to(self.open + (count - self.free_blocks()));
        }
        self.allocate(count).map(runs_of)
    }

    /// Gives back blocks that nothing refers to and that no durable record referred to.
    pub fn give_back(&mut self, blocks: impl IntoIterator<Item = u64>) {
        for block in blocks {
            self.taken.remove(block);
        }
    }

    /// Blocks hold data now. They were allocated before.
    pub fn mark_data(&mut self, blocks: impl IntoIterator<Item = u64>) {
        for block in blocks {
            self.data.insert(block);
            self.dirty.insert(block / REGION_BLOCKS);
        }
    }

    /// The change in record `sequence` gives up data blocks.
    pub fn leave(&mut self, sequence: u64, reads_below: u64, blocks: Vec<u64>) {
        if blocks.is_empty() {
            return;
        }
        for block in &blocks {
            self.data.remove(*block);
            self.dirty.insert(block / REGION_BLOCKS);
        }
        self.leaving_blocks += blocks.len() as u64;
        self.leaving.push_back(Leaving { sequence, reads_below, blocks });
    }

    /// Takes out what nothing needs any more, for the caller to give back: records up to `marked` are known durable to a
    /// replay, and every read below `reads_from` has ended.
    pub fn release(&mut self, marked: u64, reads_from: u64) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(first) = self.leaving.front() {
            if first.sequence > marked || first.reads_below > reads_from {
                break;
            }
            if let Some(Leaving { blocks, .. }) = self.leaving.pop_front() {
                self.leaving_blocks -= blocks.len() as u64;
                all.extend(blocks);
            }
        }
        all
    }

    /// The records of the bitmap that changed since the last call: region and bytes, `None` where no bit is set.
    pub fn take_dirty(&mut self) -> Vec<(u64, Option<Vec<u8>>)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|region| (region, self.data.region(region))).collect()
    }

    /// Loads a record of the bitmap while the store is opened.
    pub fn load(&mut self, region: u64, bytes: &[u8]) -> bool {
        self.data.load_region(region, bytes)
    }

    /// Takes the blocks of a page of the tree while the store is opened. `false`: one is taken already, or out of range.
    pub fn take(&mut self, blocks: impl IntoIterator<Item = u64>) -> bool {
        blocks.into_iter().all(|block| self.taken.insert(block))
    }

    /// A replayed change. `false`: it takes what holds data, or gives up what doesn't.
    pub fn replay(&mut self, allocated: &[Run], freed: &[Run]) -> bool {
        for run in allocated.iter().chain(freed) {
            if run.blocks().end > self.blocks() {
                return false;
            }
            self.dirty.extend(run.blocks().map(|b| b / REGION_BLOCKS));
        }
        allocated.iter().flat_map(|r| r.blocks()).all(|b| self.data.insert(b))
            && freed.iter().flat_map(|r| r.blocks()).all(|b| self.data.remove(b))
    }

    /// Ends opening: what holds data is taken. `false`: a block is both data and a page of the tree.
    pub fn opened(&mut self) -> bool {
        self.taken.insert_all(&self.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_blocks_are_given_out_but_to_pages() {
        let mut space = Space::new(100);
        space.open_to(10);
        assert_eq!(space.allocate(8), Some((0..8).collect()));
        assert_eq!((space.free_blocks(), space.allocate(3)), (2, None));
        // A page finds two open blocks, and one more behind them.
        assert_eq!(space.allocate_runs(3), Some(vec![Run { start: 8, count: 3 }]));
        assert_eq!((space.open_blocks(), space.free_blocks()), (11, 0));
        space.give_back([3]);
        assert_eq!(space.allocate(1), Some(vec![3]));
        space.open_to(5);
        assert_eq!(space.open_blocks(), 11, "what is taken stays open");
        space.open_to(200);
        assert_eq!((space.open_blocks(), space.free_blocks()), (100, 89));
    }

    #[test]
    fn many_blocks_are_neighbours_where_there_are_some() {
        let mut space = Space::new(1000);
        assert_eq!(space.allocate(400), Some((0..400).collect()));
        // Every second one of the first 200 comes back: the longest run is behind them.
        space.give_back((0..200).step_by(2));
        assert_eq!(space.fragmentation(), 100.0 / 699.0);
        space.cursor = 0;
        assert_eq!(space.allocate(100), Some((400..500).collect()));
        assert_eq!(space.allocate(500), Some((500..1000).collect()));
        let rest: Vec<u64> = (0..200).step_by(2).collect();
        assert_eq!((space.allocate(100), space.allocate(1)), (Some(rest), None));
    }
}
