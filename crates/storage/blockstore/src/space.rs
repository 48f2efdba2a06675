//! The blocks of a shard: which are taken, which hold data, and which come back later.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use store::FreeSpace;

use crate::bitmap::{Bitmap, REGION_BLOCKS, Run, runs_of};
use crate::ranges::Ranges;

/// From so many on, blocks are looked for that are neighbours.
const WHOLE_BLOCKS_MIN: u64 = 16;

/// How far a search goes before shorter runs are taken: 16 GiB.
const SEARCHED_BLOCKS_MAX: u64 = 4 << 20;

/// A search for long runs ends after so many that are too short.
const SHORT_RUNS_MAX: u32 = 1 << 16;

const UNRECORDED: u64 = u64::MAX;

/// Blocks that a change gave up, which are free for others once nothing can need them.
#[derive(Debug)]
struct Leaving {
    /// The log record that gave them up: [`UNRECORDED`] before it begins.
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
    /// Free blocks that the device may not have bytes for: they are not given out, and are in `taken`, too.
    unbacked: Bitmap,
    /// Runs of unbacked blocks, ascending, where the device's owner is at work: it may make holes there, so that nothing may be written.
    lent: Vec<Range<u64>>,
    /// How many numbers no block has: they are in `taken`, too, and nothing ever gives them back.
    left_out: u64,
}

impl Space {
    pub fn new(ranges: &Ranges) -> Self {
        let blocks = ranges.numbers();
        let mut taken = Bitmap::new(blocks);
        for number in ranges.left_out() {
            taken.insert(number);
        }
        Self {
            left_out: taken.count(),
            taken,
            data: Bitmap::new(blocks),
            dirty: BTreeSet::new(),
            leaving: VecDeque::new(),
            leaving_blocks: 0,
            cursor: 0,
            unbacked: Bitmap::new(blocks),
            lent: Vec::new(),
        }
    }

    /// Gives out no free block until it is backed.
    pub fn unback_all(&mut self) {
        let missing = self.taken.missing();
        self.taken.insert_all(&missing);
        self.unbacked.insert_all(&missing);
    }

    fn unback(&mut self, blocks: Range<u64>) -> u64 {
        let before = self.unbacked.count();
        let mut at = blocks.start;
        while let Some(block) = self.taken.next_missing(at).filter(|block| *block < blocks.end) {
            self.taken.insert(block);
            self.unbacked.insert(block);
            at = block + 1;
        }
        self.unbacked.count() - before
    }

    /// Takes back free blocks, about `count` where there are so many, in runs of at least `run_min`: the last ones of the
    /// device, so that the first ones stay for those who need some.
    pub fn unback_last(&mut self, count: u64, run_min: u64) -> Vec<Range<u64>> {
        let (mut left, mut short, mut all) = (count, 0, Vec::new());
        let mut region = self.taken.regions();
        // A file of which little is in use has millions of regions without a free block.
        while let Some(last) = self.taken.last_with_missing(region) {
            region = last;
            let end = ((region + 1) * REGION_BLOCKS).min(self.numbers());
            let mut at = region * REGION_BLOCKS;
            while let Some(start) = self.taken.next_missing(at).filter(|start| *start < end) {
                if left == 0 || short == SHORT_RUNS_MAX {
                    return all;
                }
                at = self.taken.next_present(start).min(end);
                if at - start < run_min {
                    short += 1;
                    continue;
                }
                left = left.saturating_sub(self.unback(start..at));
                all.push(start..at);
            }
        }
        all
    }

    /// Unbacked blocks are the device's owner's until [`Space::return_lent`].
    pub fn lend(&mut self, runs: &[Range<u64>]) {
        debug_assert!(self.lent.is_empty(), "the owner is at work in one place at a time");
        self.lent = runs.to_vec();
    }

    pub fn return_lent(&mut self) {
        self.lent.clear();
    }

    /// Runs of unbacked blocks from `from` on: up to `count` blocks in up to `runs_max` runs.
    pub fn unbacked_runs(&self, from: u64, count: u64, runs_max: u64) -> Vec<Range<u64>> {
        let (mut runs, mut left, mut at) = (Vec::new(), count, from);
        while left > 0 && (runs.len() as u64) < runs_max {
            let start = self.unbacked.next_present(at);
            if start >= self.numbers() {
                break;
            }
            at = self.unbacked.next_missing(start).unwrap_or(self.numbers()).min(start.saturating_add(left));
            left -= at - start;
            runs.push(start..at);
        }
        runs
    }

    /// The device has bytes for these blocks.
    pub fn back(&mut self, blocks: Range<u64>) {
        let mut at = self.unbacked.next_present(blocks.start);
        while at < blocks.end.min(self.numbers()) {
            self.unbacked.remove(at);
            self.taken.remove(at);
            at = self.unbacked.next_present(at + 1);
        }
    }

    /// Free blocks that are not backed.
    pub fn unbacked_blocks(&self) -> u64 {
        self.unbacked.count()
    }

    /// Blocks that are in use: with data, by pages of the tree, or still leaving.
    pub fn taken_blocks(&self) -> u64 {
        self.taken.count() - self.unbacked.count() - self.left_out
    }

    pub fn blocks(&self) -> u64 {
        self.taken.len() - self.left_out
    }

    /// One more than the highest number of a block.
    pub fn numbers(&self) -> u64 {
        self.taken.len()
    }

    /// Blocks that can be given out.
    pub fn free_blocks(&self) -> u64 {
        self.numbers() - self.taken.count()
    }

    pub fn leaving_blocks(&self) -> u64 {
        self.leaving_blocks
    }

    /// The newest record that gave up blocks which are not free yet; 0 if there are none.
    pub fn newest_leaving(&self) -> u64 {
        self.leaving.back().map_or(0, |leaving| leaving.sequence)
    }

    pub fn data_blocks(&self) -> u64 {
        self.data.count()
    }

    /// What is kept in memory of which blocks are free: parts of the sets and blocks that wait, and bytes.
    pub fn memory(&self) -> (u64, u64) {
        let waiting = self.leaving_blocks;
        let sets = [&self.taken, &self.data, &self.unbacked].map(Bitmap::memory);
        let (parts, bytes) =
            sets.iter().fold((0, 0), |(parts, sum), (more, bytes)| (parts + more, sum + bytes));
        (parts + waiting, bytes + waiting * size_of::<u64>() as u64)
    }

    /// How many records of the bitmap the next checkpoint has to write or remove.
    pub fn dirty_regions(&self) -> u64 {
        self.dirty.len() as u64
    }

    /// How the free blocks lie, backed or not. It looks at every block's bit.
    pub fn free_space(&self) -> FreeSpace {
        let mut all_free = self.taken.missing();
        all_free.insert_all(&self.unbacked);
        let (in_use, mut at) = (all_free.missing(), 0);
        FreeSpace::of_shard(std::iter::from_fn(|| {
            let run = in_use.next_run(at, 1, u64::MAX, u64::MAX)?;
            at = run.end;
            Some(run.end - run.start)
        }))
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

    /// The same as runs, for pages of the tree. They may be unbacked ones that are not lent: changes leave blocks for pages, so that
    /// is rare, and a checkpoint without them would end the store.
    pub fn allocate_runs(&mut self, count: u64) -> Option<Vec<Run>> {
        let (mut lacking, mut at) = (count.saturating_sub(self.free_blocks()), 0);
        while lacking > 0 {
            let run = self.unbacked_runs(at, lacking, 1).pop()?;
            let lent = self.lent.iter().find(|lent| lent.end > run.start && lent.start < run.end);
            if let Some(lent) = lent.filter(|lent| lent.start <= run.start) {
                at = lent.end;
                continue;
            }
            let end = lent.map_or(run.end, |lent| lent.start);
            (lacking, at) = (lacking - (end - run.start), end);
            self.back(run.start..end);
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
    pub fn mark_data(&mut self, runs: &[Run]) {
        for run in runs {
            for block in run.blocks() {
                self.data.insert(block);
            }
            let (first, last) = (run.start / REGION_BLOCKS, (run.blocks().end - 1) / REGION_BLOCKS);
            self.dirty.extend(first..=last);
        }
    }

    /// A change gives up data blocks; [`Space::recorded`] says in which record.
    pub fn leave(&mut self, reads_below: u64, blocks: Vec<u64>) {
        if blocks.is_empty() {
            return;
        }
        for block in &blocks {
            self.data.remove(*block);
            self.dirty.insert(block / REGION_BLOCKS);
        }
        self.leaving_blocks += blocks.len() as u64;
        self.leaving.push_back(Leaving { sequence: UNRECORDED, reads_below, blocks });
    }

    /// The next so many changes that gave up blocks are in record `sequence`.
    pub fn recorded(&mut self, sequence: u64, changes: usize) {
        let first = self.leaving.partition_point(|leaving| leaving.sequence != UNRECORDED);
        self.leaving.range_mut(first..first + changes).for_each(|leaving| leaving.sequence = sequence);
    }

    /// Takes out what nothing needs any more, for the caller to give back: records up to `marked` are known durable to a
    /// replay, and every read below `reads_from` has ended.
    pub fn release(&mut self, marked: u64, reads_from: u64) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(first) = self.leaving.front() {
            if first.sequence == UNRECORDED || first.sequence > marked || first.reads_below > reads_from {
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

    /// Takes blocks that hold something: of pages of the tree while the store is opened, or found by a check. `false`: one
    /// is in use already, or out of range.
    pub fn take(&mut self, blocks: impl IntoIterator<Item = u64>) -> bool {
        blocks.into_iter().all(|block| self.unbacked.remove(block) || self.taken.insert(block))
    }

    /// A replayed change. `false`: it takes what holds data, or gives up what doesn't.
    pub fn replay(&mut self, allocated: &[Run], freed: &[Run]) -> bool {
        for run in allocated.iter().chain(freed) {
            if run.blocks().end > self.numbers() {
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
    fn only_backed_blocks_are_given_out_but_to_pages() {
        let mut space = Space::new(&Ranges::one(0, 100));
        space.unback_all();
        assert_eq!((space.free_blocks(), space.allocate(1)), (0, None));
        assert!(space.unbacked_runs(0, 10, 9).into_iter().eq(std::iter::once(0..10)));
        space.back(0..10);
        assert_eq!(space.allocate(8), Some((0..8).collect()));
        assert_eq!((space.free_blocks(), space.allocate(3)), (2, None));
        // A page finds two backed blocks, and one more behind them.
        assert_eq!(space.allocate_runs(3), Some(vec![Run { start: 8, count: 3 }]));
        assert_eq!((space.taken_blocks(), space.free_blocks(), space.unbacked_blocks()), (11, 0, 89));
        space.give_back([3]);
        assert_eq!(space.allocate(1), Some(vec![3]));
        space.back(50..200);
        assert!(
            space.free_blocks() == 50
                && space.unbacked_runs(0, 60, 9).into_iter().eq(std::iter::once(11..50))
        );
        assert!(space.take([20]) && !space.take([20]), "a check finds data in it");
        assert_eq!((space.taken_blocks(), space.unbacked_blocks()), (12, 38));
    }

    #[test]
    fn blocks_are_taken_back_in_long_runs_from_the_end() {
        let mut space = Space::new(&Ranges::one(0, 3 * REGION_BLOCKS));
        assert_eq!(space.allocate(2 * REGION_BLOCKS + 100).map(|all| all.len()), Some(16484));
        space.give_back((0..64).chain([200, 202, 204]));
        let end = 3 * REGION_BLOCKS;
        let mut last = || space.unback_last(50, 16).first().map(|run| (run.start, run.end));
        assert_eq!((last(), last()), (Some((end - REGION_BLOCKS + 100, end)), Some((0, 64))));
        assert_eq!((space.unback_last(50, 16), space.free_blocks()), (vec![], 3));
        assert_eq!(
            space.unbacked_runs(0, 70, 9),
            [0..64, end - REGION_BLOCKS + 100..end - REGION_BLOCKS + 106]
        );
        assert_eq!(space.unbacked_runs(64, 70, 1).len(), 1);
    }

    #[test]
    fn blocks_of_a_large_file_are_taken_back_at_once() {
        // 64 TiB, of which the file has some at the start.
        let mut space = Space::new(&Ranges::one(0, 1 << 34));
        space.unback_all();
        space.back(0..100);
        assert_eq!(space.unback_last(50, 16), std::iter::once(0..100).collect::<Vec<_>>());
    }

    #[test]
    fn pages_pass_by_what_is_lent() {
        let mut space = Space::new(&Ranges::one(0, 100));
        space.unback_all();
        space.back(0..10);
        space.lend(&[10..20, 25..30, 32..100]);
        // Two blocks are backed; five and two lie between what is lent.
        assert_eq!(space.allocate(8), Some((0..8).collect()));
        assert_eq!(
            space.allocate_runs(8),
            Some(vec![Run { start: 8, count: 2 }, Run { start: 20, count: 5 }, Run { start: 30, count: 1 }])
        );
        assert_eq!(space.allocate_runs(2), None);
        space.return_lent();
        assert_eq!(
            space.allocate_runs(2),
            Some(vec![Run { start: 31, count: 1 }, Run { start: 10, count: 1 }])
        );
    }

    #[test]
    fn many_blocks_are_neighbours_where_there_are_some() {
        let mut space = Space::new(&Ranges::one(0, 1000));
        assert_eq!(space.allocate(400), Some((0..400).collect()));
        // Every second one of the first 200 comes back: the longest run is behind them.
        space.give_back((0..200).step_by(2));
        assert_eq!(space.free_space().fragmentation(), 100.0 / 699.0);
        space.cursor = 0;
        assert_eq!(space.allocate(100), Some((400..500).collect()));
        assert_eq!(space.allocate(500), Some((500..1000).collect()));
        let rest: Vec<u64> = (0..200).step_by(2).collect();
        assert_eq!((space.allocate(100), space.allocate(1)), (Some(rest), None));
    }
}
