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
pub struct ByCopy {
    pages: BTreeMap<PagePtr, Key>,
    /// How often a checkpoint has asked for what it needs to write them anew.
    tries: u32,
}

/// A checkpoint asks so often, and then begins without: they may be more than memory holds at once.
const TRIES_MAX: u32 = 8;

impl ByCopy {
    pub fn note(&mut self, ptr: &PagePtr, page: &Page) {
        let low = if page.len() > 0 { Key::from_slice(page.key(0)) } else { Key::new() };
        self.pages.insert(ptr.clone(), low);
    }

    /// The tree has the page no more.
    pub fn forget(&mut self, ptr: &PagePtr) {
        self.pages.remove(ptr);
    }

    pub fn count(&self) -> u64 {
        self.pages.len() as u64
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Has a checkpoint that is about to begin write such pages anew: a key below each is set to the value that it has. Returns whether
    /// it has to wait for pages.
    pub(crate) fn renew_pages(&mut self) -> bool {
        let mut missing = Vec::new();
        let lows: Vec<Key> = self.by_copy.pages.values().cloned().collect();
        for low in lows {
            match self.tables.next(&Layer::new(), &low, None) {
                Ok(Some((key, value))) => drop(self.tables.insert(key, Some(value))),
                Err(Stop::Pages(pages)) => missing.extend(pages),
                // Nothing is left below it, or what is can't be read: a checkpoint that changes it says so.
                Ok(None) | Err(_) => {}
            }
        }
        if missing.iter().any(|ptr| self.page_reads.contains_key(ptr)) {
            return true;
        }
        let waits = !missing.is_empty() && self.by_copy.tries < TRIES_MAX;
        self.by_copy.tries = if waits { self.by_copy.tries + 1 } else { 0 };
        if waits {
            self.read_pages(missing);
        }
        waits
    }
}
