//! Pages of the tree that could not be read, while their copies could: all that hangs on them is there. The next checkpoint writes
//! them anew, so that each lies in two places again.

use std::collections::BTreeMap;

use blockdev::DeviceQueue;

use crate::page::{Key, Page, PagePtr};
use crate::stop::Stop;
use crate::store::BlockStore;
use crate::tree::Layer;

/// Those of the tree as it is: the lowest key of each.
#[derive(Debug, Default)]
pub struct ByCopy(BTreeMap<PagePtr, Key>);

impl ByCopy {
    pub fn note(&mut self, ptr: &PagePtr, page: &Page) {
        let low = if page.len() > 0 { Key::from_slice(page.key(0)) } else { Key::new() };
        self.0.insert(ptr.clone(), low);
    }

    /// The tree has the page no more.
    pub fn forget(&mut self, ptr: &PagePtr) {
        self.0.remove(ptr);
    }

    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Has a checkpoint that is about to begin write such pages anew: a key below each is set to the value that it has. Where that is
    /// not in memory the checkpoint after it does.
    pub(crate) fn renew_pages(&mut self) {
        let lows: Vec<Key> = self.by_copy.0.values().cloned().collect();
        for low in lows {
            match self.tables.next(&Layer::new(), &low, None) {
                Ok(Some((key, value))) => drop(self.tables.insert(key, Some(value))),
                Err(Stop::Pages(missing)) => self.read_pages(missing),
                // Nothing is left below it, or what is can't be read: a checkpoint that changes it says so.
                Ok(None) | Err(_) => {}
            }
        }
    }
}
