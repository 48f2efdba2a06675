//! The tree as of the last checkpoint, its pages in memory, and the layers of changes above it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use buffer::Piece;
use encoding::DecodeError;
use store::StoreError;

use crate::ages::{Ages, Used};
use crate::layout::BLOCK;
use crate::page::{Key, Page, PagePtr};
use crate::recent::Recent;
use crate::stop::{Attempt, Stop, damaged};

/// Leaves that a scan reads at once.
const PAGES_AHEAD: usize = 32;

/// Changes of keys: `None` removes.
pub type Layer = BTreeMap<Key, Option<Piece>>;

#[derive(Debug)]
struct Cached {
    ptr: PagePtr,
    /// The same as pages above have it.
    encoded: Vec<u8>,
    page: Arc<Page>,
    used: Used,
    /// Of memory: the page's blocks, where its entries are, and what leads to it.
    bytes: u64,
}

/// Bytes of memory that a page takes beside its own bytes and its entries' places.
const PAGE_MEMORY: u64 = 256;

/// Bytes of memory of an entry's place in a page in memory: where it begins, and its key's head.
const ENTRY_PLACE_MEMORY: u64 = 12;

/// Bytes of memory that a change takes beside its key and value.
const CHANGE_MEMORY: u64 = 160;

/// Pages in memory, by their first block.
#[derive(Debug, Default)]
pub struct Pages {
    cached: BTreeMap<u64, Cached>,
    bytes: u64,
    /// Pages that could not be read.
    bad: Vec<(PagePtr, StoreError)>,
    ages: Ages,
}

fn first_block(ptr: &PagePtr) -> u64 {
    ptr.runs.first().map_or(0, |run| run.start)
}

/// Of an encoded pointer: behind bytes, checksum and the number of runs.
fn first_block_encoded(ptr: &[u8]) -> u64 {
    ptr.get(12..20).and_then(|block| block.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Pages {
    /// # Errors
    /// The page has to be read first, or could not be read.
    pub fn get(&self, ptr: &PagePtr) -> Attempt<Arc<Page>> {
        match self.cached.get(&first_block(ptr)) {
            Some(cached) if cached.ptr == *ptr => Ok(self.used(cached)),
            _ => Err(self.missing(ptr)),
        }
    }

    /// The same by an encoded pointer, which is decoded only if the page is not there.
    ///
    /// # Errors
    /// As [`Pages::get`], and the pointer is none.
    fn find(&self, encoded: &[u8]) -> Attempt<Arc<Page>> {
        match self.cached.get(&first_block_encoded(encoded)) {
            Some(cached) if cached.encoded == encoded => Ok(self.used(cached)),
            _ => Err(self.missing(&PagePtr::decode(encoded).map_err(damaged)?)),
        }
    }

    fn used(&self, cached: &Cached) -> Arc<Page> {
        self.ages.touch(&cached.used);
        cached.page.clone()
    }

    fn missing(&self, ptr: &PagePtr) -> Stop {
        match self.bad.iter().find(|(bad, _)| bad == ptr) {
            Some((_, error)) => Stop::Error(error.clone()),
            None => Stop::Pages(vec![ptr.clone()]),
        }
    }

    pub fn insert(&mut self, ptr: PagePtr, page: Arc<Page>) {
        let block = first_block(&ptr);
        let used = self.ages.add(block);
        let bytes = ptr.block_count() * BLOCK + page.len() as u64 * ENTRY_PLACE_MEMORY + PAGE_MEMORY;
        self.bytes += bytes;
        if let Some(old) = self.cached.insert(block, Cached { encoded: ptr.encode(), ptr, page, used, bytes })
        {
            self.bytes -= old.bytes;
        }
    }

    /// Takes a page that was read.
    pub fn on_read(&mut self, ptr: PagePtr, bytes: &Piece) {
        match Page::read(&ptr, bytes) {
            Ok(page) => self.insert(ptr, Arc::new(page)),
            Err(error) => self.on_bad(ptr, unreadable(&error)),
        }
    }

    pub fn on_bad(&mut self, ptr: PagePtr, error: StoreError) {
        self.bad.push((ptr, error));
    }

    /// Forgets what could not be read: the next request that needs it reads it again.
    pub fn forget_bad(&mut self) {
        self.bad.clear();
    }

    /// Counts uses: what is used from now on has this number or a higher one.
    pub fn clock(&self) -> u64 {
        self.ages.clock()
    }

    /// Bytes of memory of all pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Drops the pages that were used longest ago until at most so many bytes are left. Pages that were used since the
    /// clock was `keep_from` stay: a request that waits for another page needs them together.
    pub fn shrink(&mut self, bytes_max: u64, keep_from: u64) {
        while self.bytes > bytes_max {
            let oldest = self.ages.oldest(keep_from, |block| Some(&self.cached.get(&block)?.used));
            let Some(block) = oldest else { return };
            if let Some(old) = self.cached.remove(&block) {
                self.bytes -= old.bytes;
            }
        }
    }
}

fn unreadable(error: &DecodeError) -> StoreError {
    StoreError::Damaged(format!("a page of the tree: {error}"))
}

/// The tree on the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// How many levels it has, and the root's pointer.
    pub root: Option<(u8, PagePtr)>,
}

/// A page that was found on the way down.
pub struct Found {
    pub page: Arc<Page>,
    /// The entry of the page above that leads to it, unless it is the root.
    above: Option<(Arc<Page>, usize)>,
    /// The entry of a page above it with the first key that is another page's.
    high: Option<(Arc<Page>, usize)>,
}

impl Found {
    /// The key that leads to it in the page above; the lowest key at the root.
    pub fn low(&self) -> &[u8] {
        self.above.as_ref().map_or(&[], |(page, entry)| page.key(*entry))
    }

    /// The first key that is another page's.
    pub fn high(&self) -> Option<&[u8]> {
        self.high.as_ref().map(|(page, entry)| page.key(*entry))
    }

    /// Its pointer, in the tree in which it was found.
    ///
    /// # Errors
    /// The pointer is none.
    pub fn ptr(&self, tree: &Tree) -> Attempt<PagePtr> {
        match (&self.above, &tree.root) {
            (Some((page, entry)), _) => PagePtr::decode(page.value_bytes(*entry)).map_err(damaged),
            (None, Some((_, root))) => Ok(root.clone()),
            (None, None) => Err(damaged("a page of an empty tree")),
        }
    }
}

impl Tree {
    pub fn levels(&self) -> u8 {
        self.root.as_ref().map_or(0, |(levels, _)| *levels)
    }

    /// The page of a level that a key belongs to; `None` if the tree is empty or has no such level.
    pub fn descend(&self, pages: &Pages, level: u8, key: &[u8]) -> Attempt<Option<Found>> {
        let Some((levels, root)) = &self.root else { return Ok(None) };
        if level >= *levels {
            return Ok(None);
        }
        let mut found = Found { page: pages.get(root)?, above: None, high: None };
        while found.page.level != level {
            let Some(place) = found.page.place(key) else {
                return Err(damaged("a page of the tree does not begin with the lowest key"));
            };
            let page = pages.find(found.page.value_bytes(place))?;
            if page.level + 1 != found.page.level {
                return Err(damaged("a page of the tree is on the wrong level"));
            }
            let next = (place + 1 < found.page.len()).then(|| (found.page.clone(), place + 1));
            found = Found { page, high: next.or(found.high), above: Some((found.page, place)) };
        }
        Ok(Some(found))
    }

    fn get(&self, pages: &Pages, key: &[u8]) -> Attempt<Option<Piece>> {
        let Some(Found { page, .. }) = self.descend(pages, 0, key)? else { return Ok(None) };
        Ok(page.place(key).filter(|place| page.key(*place) == key).map(|place| page.value(place)))
    }

    /// The first entry from a key on. Entries from `end` on may be missed.
    fn next(&self, pages: &Pages, from: &[u8], end: Option<&[u8]>) -> Attempt<Option<(Key, Piece)>> {
        let mut at = Key::from_slice(from);
        let mut scans = false;
        loop {
            let leaf = match self.descend(pages, 0, &at) {
                // A scan that has left one leaf wants those behind the next one, too.
                Err(Stop::Pages(missing)) if scans => {
                    return Err(Stop::Pages(self.ahead(pages, &at, end).unwrap_or(missing)));
                }
                other => other?,
            };
            let Some(leaf) = leaf else { return Ok(None) };
            let first = leaf.page.before(&at);
            if first < leaf.page.len() {
                return Ok(Some((Key::from_slice(leaf.page.key(first)), leaf.page.value(first))));
            }
            match leaf.high() {
                Some(high) if end.is_none_or(|end| high < end) => (at, scans) = (Key::from_slice(high), true),
                _ => return Ok(None),
            }
        }
    }

    /// The leaf of a key and some behind it, before `end`, as far as one page above them has them: those that are not in
    /// memory. An error if that page is not there, either.
    fn ahead(&self, pages: &Pages, key: &[u8], end: Option<&[u8]>) -> Attempt<Vec<PagePtr>> {
        let Some(Found { page: above, .. }) = self.descend(pages, 1, key)? else {
            return Err(damaged("a tree of one level"));
        };
        let first = above.place(key).unwrap_or(0);
        let mut missing = Vec::new();
        for (low, ptr) in above.entries().skip(first).take(PAGES_AHEAD) {
            if end.is_some_and(|end| low >= end) {
                break;
            }
            if pages.find(ptr).is_err() {
                missing.push(PagePtr::decode(ptr).map_err(damaged)?);
            }
        }
        Ok(missing)
    }
}

/// The metadata: the tree, the changes that a checkpoint is writing into it, and those since that one began.
#[derive(Debug, Default)]
pub struct Tables {
    pub active: Layer,
    /// Memory of `active`, bytes.
    pub active_bytes: u64,
    pub frozen: Option<Layer>,
    /// Memory of `frozen`, bytes.
    pub frozen_bytes: u64,
    pub tree: Tree,
    pub pages: Pages,
    /// What was found lately.
    pub recent: RefCell<Recent>,
}

impl Tables {
    /// A key's value. `top` has changes that nothing else sees.
    pub fn get(&self, top: &Layer, key: &[u8]) -> Attempt<Option<Piece>> {
        for layer in [Some(top), Some(&self.active), self.frozen.as_ref()].into_iter().flatten() {
            if let Some(value) = layer.get(key) {
                return Ok(value.clone());
            }
        }
        self.tree.get(&self.pages, key)
    }

    /// The first key from `from` on that has a value, before `end`.
    pub fn next(&self, top: &Layer, from: &[u8], end: Option<&[u8]>) -> Attempt<Option<(Key, Piece)>> {
        let mut from = Key::from_slice(from);
        // What the tree has next stays so while removed keys above it are passed.
        let mut below: Option<Option<(Key, Piece)>> = None;
        loop {
            let stale = below.as_ref().is_none_or(|b| b.as_ref().is_some_and(|(key, _)| *key < from));
            if stale {
                below = Some(self.tree.next(&self.pages, &from, end)?);
            }
            let mut best = below.clone().flatten().map(|(key, value)| (key, Some(value)));
            // Upper layers last: they win where a key is the same.
            for layer in [self.frozen.as_ref(), Some(&self.active), Some(top)].into_iter().flatten() {
                let range = (Bound::Included(from.as_slice()), Bound::Unbounded);
                let Some((key, value)) = layer.range::<[u8], _>(range).next() else { continue };
                if best.as_ref().is_none_or(|(other, _)| key <= other) {
                    best = Some((key.clone(), value.clone()));
                }
            }
            let Some((key, value)) = best else { return Ok(None) };
            if end.is_some_and(|end| key.as_slice() >= end) {
                return Ok(None);
            }
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
            from = key;
            from.push(0);
        }
    }

    /// All keys from `start` on that have a value, before `end`, with their values.
    pub fn range(&self, top: &Layer, start: &[u8], end: Option<&[u8]>) -> Attempt<Vec<(Key, Piece)>> {
        let mut all = Vec::new();
        if end.is_some_and(|end| end <= start) {
            return Ok(all);
        }
        let bounds = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
        // Upper layers first: they win where a key is the same.
        let layers = [Some(top), Some(&self.active), self.frozen.as_ref()];
        let mut layers = layers.map(|layer| layer.map(|layer| layer.range::<[u8], _>(bounds).peekable()));
        let mut below = self.tree.next(&self.pages, start, end)?;
        loop {
            let tree_key =
                below.as_ref().map(|(key, _)| key).filter(|key| end.is_none_or(|end| key.as_slice() < end));
            let keys = layers.iter_mut().flatten().filter_map(|layer| layer.peek().map(|(key, _)| *key));
            let Some(key) = keys.chain(tree_key).min().cloned() else { return Ok(all) };
            let mut value: Option<Option<Piece>> = None;
            for layer in layers.iter_mut().flatten() {
                if let Some((_, change)) = layer.next_if(|(other, _)| **other == key) {
                    value = value.or_else(|| Some(change.clone()));
                }
            }
            if let Some((_, old)) = below.take_if(|(other, _)| *other == key) {
                value = value.or(Some(Some(old)));
                let mut behind = key.clone();
                behind.push(0);
                below = self.tree.next(&self.pages, &behind, end)?;
            }
            all.extend(value.flatten().map(|value| (key, value)));
        }
    }

    /// Puts changes on top of everything.
    pub fn apply(&mut self, changes: Layer) {
        for (key, value) in changes {
            self.recent.get_mut().on_change(&key, value.as_ref());
            let key_bytes = key.len();
            let bytes = |value: &Option<Piece>| {
                CHANGE_MEMORY + (key_bytes + value.as_ref().map_or(0, |v| v.len())) as u64
            };
            self.active_bytes += bytes(&value);
            if let Some(old) = self.active.insert(key, value) {
                self.active_bytes -= bytes(&old);
            }
        }
    }

    /// Makes the changes so far those of a checkpoint.
    pub fn freeze(&mut self) {
        self.frozen = Some(std::mem::take(&mut self.active));
        self.frozen_bytes = std::mem::take(&mut self.active_bytes);
    }

    /// The frozen changes are in the tree: nothing needs them here.
    pub fn thaw(&mut self) -> Layer {
        self.frozen_bytes = 0;
        self.frozen.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_what_is_found_key_by_key() {
        let layer = |step: usize, gone: usize, value: u8| -> Layer {
            let change = |n: usize| (n % gone != 0).then(|| Piece::copy_from(&[value]));
            (0..60).step_by(step).map(|n| (Key::from_slice(&[1, n as u8]), change(n))).collect()
        };
        let tables = Tables { active: layer(3, 4, 2), frozen: Some(layer(2, 6, 3)), ..Tables::default() };
        let top = layer(5, 3, 1);
        for (start, end) in [(0, 60), (7, 31), (10, 10), (31, 7), (59, 61)] {
            let (start, end) = ([1, start], [1, end]);
            let (mut from, mut expected) = (start.to_vec(), Vec::new());
            while let Ok(Some((key, value))) = tables.next(&top, &from, Some(&end)) {
                from = [&key[..], &[0]].concat();
                expected.push((key, value));
            }
            assert_eq!(tables.range(&top, &start, Some(&end)).ok(), Some(expected), "{start:?}..{end:?}");
        }
        let all = tables.range(&top, &[], None).ok().map(|all| all.len());
        let keys = (0..60).filter(|n| match n {
            n if n % 5 == 0 => n % 3 != 0,
            n if n % 3 == 0 => n % 4 != 0,
            n => n % 2 == 0 && n % 6 != 0,
        });
        assert_eq!(all, Some(keys.count()));
    }
}
