//! Why work in memory can't go on.

use store::StoreError;

use crate::page::PagePtr;

/// Why a request or a step of a checkpoint stops. After what it waits for, it begins again.
#[derive(Clone, PartialEq, Debug)]
pub enum Stop {
    /// Pages of the tree are not in memory: at least one that is needed, maybe others that will be.
    Pages(Vec<PagePtr>),
    /// The contents of these data blocks are not in memory.
    Blocks(Vec<u64>),
    /// The log has no room before a checkpoint.
    LogRoom,
    /// The record that is being gathered has no room for it: the next one has.
    NextRecord,
    /// Blocks are free only after a checkpoint, or when a record is durable.
    Space,
    /// The superblock has to say first that there are compressed blocks.
    Announcement,
    /// It fails.
    Error(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Error(error)
    }
}

pub type Attempt<T> = Result<T, Stop>;

/// A record of the store's own that can't be read.
pub fn damaged(what: impl std::fmt::Display) -> Stop {
    Stop::Error(StoreError::Damaged(what.to_string()))
}
