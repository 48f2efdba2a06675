//! What a shard says of itself as a whole, for tools.

use blockdev::{DeviceId, DeviceQueue};

use crate::layout::BLOCK;
use crate::store::BlockStore;

/// A shard as of its last turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Of the superblock written last.
    pub generation: u64,
    /// Levels of the tree on the device.
    pub tree_levels: u8,
    /// Bytes of its pages.
    pub tree_bytes: u64,
    /// Bytes of keys and values that no checkpoint has brought into the tree.
    pub changes_bytes: u64,
    pub log_bytes: u64,
    /// Whether the log lies on a device of its own.
    pub log_apart: bool,
    /// Bytes of records that no checkpoint has made superfluous.
    pub log_used_bytes: u64,
    /// The sequence that the next record gets.
    pub log_next: u64,
    /// Blocks of 4 KiB.
    pub blocks: u64,
    pub data_blocks: u64,
    /// Blocks that were given up and wait until nothing can need them.
    pub leaving_blocks: u64,
    /// The number that the next object gets.
    pub next_number: u64,
}

impl State {
    /// Bytes of a block.
    pub const BLOCK_BYTES: u64 = BLOCK;
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// The bytes of the device with superblocks that the opening could not read: a power loss while one was written leaves that, and
    /// so does damage. Another one counted.
    pub fn unread_superblocks(&self) -> &[u64] {
        &self.unread_superblocks
    }

    pub fn state(&self) -> State {
        State {
            generation: self.generation,
            tree_levels: self.tables.tree.levels(),
            tree_bytes: self.tree_blocks * BLOCK,
            changes_bytes: self.tables.active_bytes,
            log_bytes: self.log.layout().bytes,
            log_apart: self.layout.log_device == DeviceId::Wal,
            log_used_bytes: self.log.used_bytes(),
            log_next: self.log.end().sequence,
            blocks: self.space.blocks(),
            data_blocks: self.space.data_blocks(),
            leaving_blocks: self.space.leaving_blocks(),
            next_number: self.counters.next_number,
        }
    }
}
