//! Numbers that never go back, also across a kill: they are used out of blocks that were made durable before.

use crate::state::{Batch, State, StateKey};

/// Adds to a batch that the numbers up to this one are reserved.
pub(crate) fn put(key: StateKey, up_to: u64, batch: &mut Batch) {
    batch.put(key, up_to.to_le_bytes());
}

/// How far the numbers of a key are reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    key: StateKey,
    /// Numbers that one durable write reserves.
    block: u64,
    durable: u64,
    asked_for: u64,
}

impl Reserved {
    pub fn open(key: StateKey, block: u64, state: &State) -> Self {
        let mut new = Self { key, block, durable: 0, asked_for: 0 };
        new.committed(state);
        new.asked_for = new.durable;
        new
    }

    /// The last number that may be used; 0 before the first block.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Adds the next block to the batch where less than half a block is left from `next` on.
    pub fn reserve(&mut self, next: u64, batch: &mut Batch) {
        if self.asked_for.saturating_sub(next) < self.block / 2 {
            self.asked_for = self.asked_for.max(next - 1) + self.block;
            put(self.key.clone(), self.asked_for, batch);
        }
    }

    /// A batch is durable: its reservation may be used.
    pub fn committed(&mut self, state: &State) {
        let bytes = state.get(&self.key).and_then(|v| v.as_slice().try_into().ok());
        self.durable = bytes.map_or(0, u64::from_le_bytes);
    }
}
