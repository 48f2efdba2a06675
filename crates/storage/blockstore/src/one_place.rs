//! Pages of the tree that can be read in one of their two places alone: all that hangs on them is there. The next checkpoint writes
//! them anew, so that each lies in two places again.

use std::collections::BTreeMap;

use blockdev::DeviceQueue;

use crate::layer::Layer;
use crate::page::{Key, PagePtr};
use crate::stop::Stop;
use crate::store::BlockStore;
use crate::stranded::NOTES;

/// Those of the tree as it is: the lowest key of each.
#[derive(Debug, Default)]
pub struct OnePlace {
    pages: BTreeMap<PagePtr, Key>,
    /// How often a checkpoint has asked for what it needs to write them anew.
    tries: u32,
}

/// A checkpoint asks so often, and then begins without: they may be more than memory holds at once.
const TRIES_MAX: u32 = 8;

impl OnePlace {
    pub fn note(&mut self, ptr: PagePtr, low: Key) {
        self.pages.insert(ptr, low);
    }

    /// The tree has the page no more.
    pub fn forget(&mut self, ptr: &PagePtr) {
        self.pages.remove(ptr);
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Pages of the tree that were found, since the opening, to be readable in one of their two places alone, and that no checkpoint
    /// has written anew.
    pub fn pages_in_one_place(&self) -> usize {
        self.one_place.pages.len()
    }

    /// Has a checkpoint that is about to begin write such pages anew: a key below each is set to the value that it has. Returns whether
    /// it has to wait for pages.
    pub(crate) fn renew_pages(&mut self) -> bool {
        let mut missing = Vec::new();
        let lows: Vec<Key> = self.one_place.pages.values().cloned().collect();
        for low in lows {
            match self.tables.next(&Layer::new(), &low, None) {
                // Checkpoints write all notes of stranded changes.
                Ok(Some((key, _))) if key.as_slice() >= &NOTES[..] => {}
                Ok(Some((key, value))) => self.tables.add(key.into(), Some(value)),
                Err(Stop::Pages(pages)) => missing.extend(pages),
                // Nothing is left below it, or what is can't be read: a checkpoint that changes it says so.
                Ok(None) | Err(_) => {}
            }
        }
        if missing.iter().any(|ptr| self.page_reads.contains_key(ptr)) {
            return true;
        }
        let waits = !missing.is_empty() && self.one_place.tries < TRIES_MAX;
        self.one_place.tries = if waits { self.one_place.tries + 1 } else { 0 };
        if waits {
            self.read_pages(missing);
        }
        waits
    }
}

/// Copies that a check reads at once.
const COPIES_AT_ONCE: usize = 32;

/// A check of all copies: those of pages that can be read are read by no one else.
#[derive(Debug, Default)]
pub struct Copies {
    begun: bool,
    /// Pages above the leaves that are still to be looked through.
    inner: Vec<PagePtr>,
    /// Pages whose copies are still to be read, with the lowest key of each.
    found: Vec<(PagePtr, Key)>,
}

impl Copies {
    /// Returns whether it waits for the device: turn the store and ask again.
    pub fn advance<Q: DeviceQueue>(&mut self, store: &mut BlockStore<Q>, began: u64) -> bool {
        if let Some((levels, root)) = store.tables.tree.root.clone().filter(|_| !self.begun) {
            self.add(root, Key::new(), levels > 1);
        }
        self.begun = true;
        while let Some(ptr) = self.inner.pop() {
            match store.tables.pages.get(&ptr).cloned() {
                Ok(page) => {
                    for (low, child) in page.entries() {
                        if let Ok(child) = PagePtr::decode(child) {
                            self.add(child, Key::from_slice(low), page.level > 1);
                        }
                    }
                }
                Err(Stop::Pages(missing)) => {
                    self.inner.push(ptr);
                    store.read_for_check(missing, began);
                    return true;
                }
                // The check says what is below it.
                Err(_) => {}
            }
        }
        // Each page is read for one purpose at a time.
        if store.page_reads.is_empty() && !self.found.is_empty() {
            let rest = self.found.len().saturating_sub(COPIES_AT_ONCE);
            store.check_copies(self.found.drain(rest..));
            store.read_for_check(Vec::new(), began);
        }
        !self.found.is_empty() || store.checks_copies()
    }

    fn add(&mut self, ptr: PagePtr, low: Key, is_inner: bool) {
        if !ptr.copy.is_empty() {
            self.found.push((ptr.clone(), low));
        }
        if is_inner {
            self.inner.push(ptr);
        }
    }
}
