//! The image's space and what transactions not yet durable do to it.

use crate::alloc::{Allocator, Run};
use crate::records::BLOCK;

/// Invariant: a block in `freed` or `freed_by_group` is marked used in the allocator, so nothing is written there before
/// the commit that frees it is durable: a crash brings back the object that had it.
pub struct Space {
    alloc: Allocator,
    /// Taken by the transaction being applied.
    taken: Vec<u64>,
    /// Given up by the transaction being applied.
    freed: Vec<u64>,
    /// Given up by earlier transactions of the same commit.
    freed_by_group: Vec<u64>,
    /// Stores on the file system, this one included.
    file_system_stores: u32,
}

/// The bytes that a store reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    pub total: u64,
    pub available: u64,
}

impl Space {
    pub fn new(alloc: Allocator, file_system_stores: u32) -> Self {
        let (taken, freed, freed_by_group) = Default::default();
        Self { alloc, taken, freed, freed_by_group, file_system_stores }
    }

    pub fn bytes_total(&self) -> u64 {
        self.alloc.blocks() * BLOCK
    }

    /// Bytes that only transactions which make room may use.
    pub fn reserve_bytes(&self) -> u64 {
        (self.bytes_total() / 64).min(4 << 20)
    }

    /// What the store reports when it uses `used` bytes and `left` more may come by its own size: `spare` bytes that its
    /// file has already, and its part of the `free` ones of the file system, may be less. The size reported shrinks
    /// with them, so that fullness is that of the space that is there.
    pub fn report(&self, used: u64, left: u64, spare: u64, free: u64) -> Report {
        let available = left.min(spare + free / u64::from(self.file_system_stores.max(1)));
        Report { total: self.bytes_total().min(used + self.reserve_bytes() + available), available }
    }

    /// Bytes of the blocks that objects have, as of the last transaction applied.
    pub fn data_bytes(&self) -> u64 {
        let freed = self.freed_by_group.len() + self.freed.len();
        (self.alloc.blocks() - self.alloc.free_blocks() - freed as u64) * BLOCK
    }

    /// Blocks that can be written before the next commit.
    pub fn free_blocks(&self) -> u64 {
        self.alloc.free_blocks()
    }

    /// Whether the next commit frees blocks.
    pub fn commit_frees(&self) -> bool {
        !self.freed_by_group.is_empty()
    }

    /// `count` blocks, or `None` if there are fewer that can be written now.
    pub fn allocate(&mut self, count: u64) -> Option<Vec<Run>> {
        let runs = self.alloc.allocate(count)?;
        self.taken.extend(runs.iter().flat_map(|r| r.start..r.start + r.len));
        Some(runs)
    }

    pub fn free(&mut self, blocks: impl IntoIterator<Item = u64>) {
        self.freed.extend(blocks);
    }

    /// The transaction's changes stay.
    pub fn commit(&mut self) {
        self.taken.clear();
        self.freed_by_group.append(&mut self.freed);
    }

    /// The transaction is refused.
    pub fn rollback(&mut self) {
        self.taken.drain(..).for_each(|block| self.alloc.release(block));
        self.freed.clear();
    }

    /// The group's commit is durable.
    pub fn durable(&mut self) {
        self.freed_by_group.drain(..).for_each(|block| self.alloc.release(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_given_up_counts_as_free_at_once_and_is_written_after_the_commit() {
        let mut space = Space::new(Allocator::new(4), 1);
        space.allocate(4).unwrap();
        space.commit();
        space.free([2]);
        assert_eq!((space.data_bytes(), space.free_blocks()), (3 * BLOCK, 0));
        space.commit();
        assert_eq!((space.data_bytes(), space.allocate(1)), (3 * BLOCK, None));
        assert!(space.commit_frees());
        space.durable();
        assert_eq!(space.allocate(1), Some(vec![Run { start: 2, len: 1 }]));
    }

    #[test]
    fn a_refused_transaction_gives_back_what_it_took_and_keeps_what_it_gave_up() {
        let mut space = Space::new(Allocator::new(4), 1);
        space.allocate(2).unwrap();
        space.commit();
        space.allocate(1).unwrap();
        space.free([0, 1]);
        space.rollback();
        assert_eq!((space.data_bytes(), space.free_blocks()), (2 * BLOCK, 2));
    }

    #[test]
    fn stores_of_one_file_system_report_what_is_free_there_once() {
        const GIB: u64 = 1 << 30;
        let space = |stores| Space::new(Allocator::new(10 * GIB / BLOCK), stores);
        let left = 9 * GIB - space(1).reserve_bytes();
        let roomy = space(3).report(GIB, left, 0, 60 * GIB);
        assert_eq!(roomy, Report { total: 10 * GIB, available: left }, "its own size is the limit");
        let tight = space(3).report(GIB, left, 0, 6 * GIB);
        let total = GIB + 2 * GIB + space(3).reserve_bytes();
        assert_eq!(tight, Report { total, available: 2 * GIB }, "a third of what is free");
        let spare = space(3).report(GIB, left, GIB, 0);
        assert_eq!(spare.available, GIB, "what the file has already is this store's alone");
    }
}
