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

/// Pages that searches for several keys have to read first, which are asked for together: one at a time, a request of thousands of keys
/// would begin again for each.
#[derive(Debug, Default)]
pub struct Missing(Vec<PagePtr>);

impl Missing {
    /// So many are asked for at most: a request that needs more begins again for the others.
    const PAGES_MAX: usize = 64;

    /// What a search has found; `None` if it has to read pages first.
    ///
    /// # Errors
    /// It fails, or enough pages are to be read.
    pub fn note<T>(&mut self, found: Attempt<T>) -> Attempt<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Pages(pages)) => {
                for page in pages {
                    if !self.0.contains(&page) {
                        self.0.push(page);
                    }
                }
                if self.0.len() >= Self::PAGES_MAX {
                    Err(Stop::Pages(std::mem::take(&mut self.0)))
                } else {
                    Ok(None)
                }
            }
            Err(other) => Err(other),
        }
    }

    /// # Errors
    /// Pages have to be read first.
    pub fn none(self) -> Attempt<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Stop::Pages(self.0)) }
    }
}
