//! How much a shard holds, and how much it may.

use blockdev::DeviceQueue;
use store::StatFs;

use crate::layout::{BLOCK, Counters};
use crate::store::BlockStore;

/// More of the device, for whoever waits for space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    None,
    Wanted,
    Refused,
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Metadata counts so many times its bytes: pages that are partly empty, and the old ones while new ones are written.
    pub const METADATA_FACTOR: u64 = 4;

    fn bytes_total(&self) -> u64 {
        let hidden = 64 + self.space.blocks() / 256;
        self.space.blocks().saturating_sub(hidden) * BLOCK
    }

    pub(crate) fn bytes_used(data_blocks: u64, counters: &Counters) -> u64 {
        data_blocks * BLOCK + counters.metadata_bytes * Self::METADATA_FACTOR
    }

    /// What transactions may use in all.
    pub(crate) fn bytes_limit(&self, reserve: bool) -> u64 {
        let total = self.bytes_total();
        if reserve { total } else { total - (total / 64).min(4 << 20) }
    }

    pub(crate) fn statfs(&self) -> StatFs {
        let used = Self::bytes_used(self.space.data_blocks(), &self.counters);
        StatFs {
            bytes_total: self.bytes_total(),
            bytes_used: used,
            bytes_available: self.bytes_limit(false).saturating_sub(used),
            data_bytes: self.space.data_blocks() * BLOCK,
            metadata_bytes: self.counters.metadata_bytes * Self::METADATA_FACTOR,
            objects: self.counters.objects,
        }
    }

    /// Blocks that the next checkpoint may need.
    pub(crate) fn kept_blocks(&self) -> u64 {
        self.tree_blocks + 2 * self.tables.active_bytes.div_ceil(BLOCK) + 16
    }

    /// Has the store use the device up to this byte only, for now. What is in use behind it stays so.
    pub fn open_to(&mut self, device_bytes: u64) {
        let blocks = device_bytes.saturating_sub(self.layout.blocks) / BLOCK;
        self.space.open_to(blocks);
        self.growth = Growth::None;
        self.wake_for_room();
    }

    /// The device's bytes that the store uses are not to become more now: what needs more is refused. The next
    /// [`BlockStore::open_to`] says otherwise.
    pub fn stay_closed(&mut self) {
        self.growth = Growth::Refused;
        self.wake_for_room();
    }

    /// The bytes of the device that the store uses, from its beginning.
    pub fn open_bytes(&self) -> u64 {
        self.layout.block_offset(self.space.open_blocks())
    }

    /// The bytes of the device, from its beginning, behind which nothing is in use.
    pub fn used_bytes(&self) -> u64 {
        self.layout.block_offset(self.space.taken_end())
    }

    /// Whether the store wants more of the device: less than `ahead_bytes` are free, or something waits for them, and there
    /// is more.
    pub fn wants_to_grow(&self, ahead_bytes: u64) -> bool {
        let free = self.space.free_blocks().saturating_sub(self.kept_blocks());
        let wanted = self.growth == Growth::Wanted || free * BLOCK < ahead_bytes;
        wanted && self.space.open_blocks() < self.space.blocks()
    }

    /// What waits for room may find some.
    pub(crate) fn wake_for_room(&mut self) {
        self.inbox.wake();
        self.purge.wake();
    }

    /// Whether waiting may bring space.
    pub(crate) fn space_may_come(&mut self) -> bool {
        if self.growth != Growth::Refused && self.space.open_blocks() < self.space.blocks() {
            self.growth = Growth::Wanted;
            return true;
        }
        if self.checkpoint.is_some()
            || !self.is_quiet()
            || self.purge.is_wanted()
            || self.discarding_blocks > 0
        {
            return true;
        }
        if self.space.leaving_blocks() > 0 {
            self.mark_wanted = true;
            return true;
        }
        self.checkpoint_wanted = !self.tables.active.is_empty();
        self.checkpoint_wanted
    }
}
