//! The tree as of the last checkpoint, and the layers of changes above it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use buffer::Piece;
use store::StoreError;

use crate::filter::{Filter, KeyHash};
use crate::layer::{CHANGE_BYTES, CHANGE_MEMORY, Changes, Layer, LayerKey};
use crate::page::{Key, Page, PagePtr};
use crate::pages::Pages;
use crate::recent::Recent;
use crate::stop::{Attempt, Stop, damaged};

/// Leaves that a scan reads at once.
const PAGES_AHEAD: usize = 32;

/// The tree on the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// How many levels it has, and the root's pointer.
    pub root: Option<(u8, PagePtr)>,
}

/// A page that was found on the way down. Where it stands for a leaf of the tree, `above` is that leaf's, and `high` its own.
pub struct Found {
    pub page: Arc<Page>,
    /// The entry of the page above that leads to it, unless it is the root.
    above: Option<(Arc<Page>, usize)>,
    high: Option<High>,
}

/// The first key that is another page's.
enum High {
    /// Of an entry of a page above.
    Entry(Arc<Page>, usize),
    /// Of another one that stands for the same leaf.
    Successor(Key),
}

impl Found {
    /// The key that leads to it in the page above; the lowest key at the root.
    pub fn low(&self) -> &[u8] {
        self.above.as_ref().map_or(&[], |(page, entry)| page.key(*entry))
    }

    /// The first key that is another page's.
    pub fn high(&self) -> Option<&[u8]> {
        self.high.as_ref().map(|high| match high {
            High::Entry(page, entry) => page.key(*entry),
            High::Successor(key) => key,
        })
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

/// Keys whose page can't be read: from `low` on, before `high` if others follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    pub low: Key,
    pub high: Option<Key>,
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
        let mut found = Found { page: pages.get(root)?.clone(), above: None, high: None };
        while found.page.level != level {
            let Some(place) = found.page.place(key) else {
                return Err(damaged("a page of the tree does not begin with the lowest key"));
            };
            let (page, successor) = pages.find(found.page.value_bytes(place), key)?;
            let page = page.clone();
            if page.level + 1 != found.page.level {
                return Err(damaged("a page of the tree is on the wrong level"));
            }
            let entry = || (place + 1 < found.page.len()).then(|| High::Entry(found.page.clone(), place + 1));
            let next = successor.cloned().map(High::Successor).or_else(entry);
            found = Found { page, high: next.or(found.high), above: Some((found.page, place)) };
        }
        Ok(Some(found))
    }

    /// The leaf of a key, as [`Tree::descend`]: most requests want nothing else.
    fn leaf<'a>(&self, pages: &'a Pages, key: &[u8]) -> Attempt<Option<&'a Page>> {
        let Some((levels, root)) = &self.root else { return Ok(None) };
        let mut page = pages.get(root)?;
        for level in (1..*levels).rev() {
            let place = page.place(key).filter(|_| page.level == level);
            let Some(place) = place else {
                return Err(damaged("a page of the tree is on the wrong level, or begins with a higher key"));
            };
            (page, _) = pages.find(page.value_bytes(place), key)?;
        }
        match page.level {
            0 => Ok(Some(page)),
            _ => Err(damaged("a page of the tree is on the wrong level")),
        }
    }

    /// The keys of the first page that can't be read or is in the wrong place, among those that have the keys from one on.
    ///
    /// # Errors
    /// Pages have to be read first.
    pub fn gap(&self, pages: &Pages, from: &[u8]) -> Result<Option<Gap>, Vec<PagePtr>> {
        let Some((levels, root)) = &self.root else { return Ok(None) };
        // What lies before `behind` can be read, or was not asked for.
        let (mut from, mut behind) = (Some(Key::from_slice(from)), Key::default());
        while let Some(key) = from {
            let (mut low, mut high) = (Key::default(), None);
            let (mut found, mut level) = (pages.get(root), *levels);
            loop {
                let page = match found {
                    Ok(page) if page.level + 1 == level => page,
                    Err(Stop::Pages(missing)) => return Err(missing),
                    _ => return Ok(Some(Gap { low: low.max(behind), high })),
                };
                level = page.level;
                if level == 0 {
                    break;
                }
                let Some(place) = page.place(&key) else {
                    return Ok(Some(Gap { low: low.max(behind), high }));
                };
                low = Key::from_slice(page.key(place));
                high = if place + 1 < page.len() { Some(Key::from_slice(page.key(place + 1))) } else { high };
                found = pages.find(page.value_bytes(place), &key).map(|(page, next)| {
                    high = next.cloned().or_else(|| high.take());
                    page
                });
            }
            behind = high.clone().unwrap_or_default();
            from = high;
        }
        Ok(None)
    }

    /// The values of keys, which ascend.
    fn get_all(&self, pages: &Pages, keys: &[&[u8]], mut found: impl FnMut(usize, Piece)) -> Attempt<()> {
        let mut leaf: Option<&Page> = None;
        for (number, key) in keys.iter().enumerate() {
            // Up to its last key a leaf has all that there are behind those that it was found for.
            let is_same = leaf.is_some_and(|leaf| leaf.len() > 0 && *key <= leaf.key(leaf.len() - 1));
            let Some(page) =
                leaf.filter(|_| is_same).map_or_else(|| self.leaf(pages, key), |leaf| Ok(Some(leaf)))?
            else {
                return Ok(());
            };
            leaf = Some(page);
            if let Some(place) = page.place(key).filter(|place| page.key(*place) == *key) {
                found(number, page.value(place));
            }
        }
        Ok(())
    }

    /// Stands before the first entry from a key on.
    fn cursor<'a>(&'a self, pages: &'a Pages, from: &[u8], end: Option<&'a [u8]>) -> Attempt<Cursor<'a>> {
        let leaf = self.descend(pages, 0, from)?;
        let at = leaf.as_ref().map_or(0, |leaf| leaf.page.before(from));
        Ok(Cursor { tree: self, pages, end, leaf, at })
    }

    /// What a search for a key has to read that found these missing, and that will want the leaves behind, too, before `end`. It is
    /// never empty: a search that waits for no page would wait for ever.
    fn missing_ahead(
        &self,
        pages: &Pages,
        key: &[u8],
        end: Option<&[u8]>,
        missing: Vec<PagePtr>,
    ) -> Vec<PagePtr> {
        let ahead = self.ahead(pages, key, end).unwrap_or_default();
        if ahead.is_empty() { missing } else { ahead }
    }

    /// The leaf of a key and some behind it, before `end`, as far as one page above them has them: those that are not in
    /// memory, but for those that are known to be bad. An error if that page is not there, either.
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
            if let Err(Stop::Pages(more)) = pages.find(ptr, low.max(key)) {
                missing.extend(more);
            }
        }
        Ok(missing)
    }
}

/// A place among the entries of the leaves. Entries from `end` on may be missed.
struct Cursor<'a> {
    tree: &'a Tree,
    pages: &'a Pages,
    end: Option<&'a [u8]>,
    leaf: Option<Found>,
    /// The next entry of the leaf.
    at: usize,
}

impl Cursor<'_> {
    fn next(&mut self) -> Attempt<Option<(Key, Piece)>> {
        let entry = self.step()?;
        Ok(entry.map(|(page, at)| (Key::from_slice(page.key(at)), page.value(at))))
    }

    /// The next entry's page, and where it is there.
    fn step(&mut self) -> Attempt<Option<(&Page, usize)>> {
        loop {
            let Some(leaf) = &self.leaf else { return Ok(None) };
            if self.at < leaf.page.len() {
                break;
            }
            let high = leaf.high().filter(|high| self.end.is_none_or(|end| *high < end)).map(Key::from_slice);
            self.leaf = match high {
                Some(high) => self.leaf_behind(&high)?,
                None => None,
            };
            self.at = 0;
        }
        self.at += 1;
        Ok(self.leaf.as_ref().map(|leaf| (&*leaf.page, self.at - 1)))
    }

    /// The leaf that begins with a key. A scan that has left one leaf wants those behind the next one, too.
    fn leaf_behind(&self, key: &[u8]) -> Attempt<Option<Found>> {
        match self.tree.descend(self.pages, 0, key) {
            Err(Stop::Pages(missing)) => {
                Err(Stop::Pages(self.tree.missing_ahead(self.pages, key, self.end, missing)))
            }
            other => other,
        }
    }
}

/// All keys of the tables from one on that have a value, in order.
pub struct Merged<'a> {
    /// Upper layers first: they win where a key is the same.
    layers: [Option<Peekable<Changes<'a>>>; 3],
    tree: Cursor<'a>,
    /// What the tree has next, once that was looked for: the page that has it may not be needed.
    below: Option<Option<(Key, Piece)>>,
    end: Option<&'a [u8]>,
}

impl Merged<'_> {
    /// The next key and its value.
    ///
    /// # Errors
    /// A page has to be read first, or could not be read. The caller reads it and searches again.
    pub fn next(&mut self) -> Attempt<Option<(Key, Piece)>> {
        loop {
            if self.below.is_none() {
                self.below = Some(self.tree.next()?);
            }
            let tree_key = self
                .below
                .iter()
                .flatten()
                .map(|(key, _)| key)
                .filter(|key| self.end.is_none_or(|end| key.as_slice() < end));
            let keys =
                self.layers.iter_mut().flatten().filter_map(|layer| layer.peek().map(|(key, _)| key.key()));
            let Some(key) = keys.chain(tree_key).min().cloned() else { return Ok(None) };
            let mut value: Option<Option<Piece>> = None;
            for layer in self.layers.iter_mut().flatten() {
                if let Some((_, change)) = layer.next_if(|(other, _)| *other.key() == key) {
                    value = value.or_else(|| Some(change.clone()));
                }
            }
            let is_it =
                |below: &mut Option<(Key, Piece)>| below.as_ref().is_some_and(|(other, _)| *other == key);
            if let Some((_, old)) = self.below.take_if(is_it).flatten() {
                value = value.or(Some(Some(old)));
            }
            if let Some(value) = value.flatten() {
                return Ok(Some((key, value)));
            }
        }
    }
}

/// The metadata: the tree, the changes that a checkpoint is writing into it, and those since that one began.
#[derive(Debug, Default)]
pub struct Tables {
    active: Layer,
    in_active: Filter,
    /// Memory of `active`, bytes.
    pub active_bytes: u64,
    pub frozen: Option<Layer>,
    in_frozen: Filter,
    /// Keys that a layer's filter is made for; with 0 they have none.
    filtered_keys: usize,
    /// Memory of `frozen`, bytes.
    pub frozen_bytes: u64,
    /// The keys of stranded changes, as the tree notes them.
    pub stranded: BTreeSet<Key>,
    /// Memory of these notes, bytes.
    pub stranded_bytes: u64,
    pub tree: Tree,
    pub pages: Pages,
    /// What was found lately.
    pub recent: RefCell<Recent>,
}

impl Tables {
    /// A key's value. `top` has changes that nothing else sees.
    pub fn get(&self, top: &Layer, key: &[u8]) -> Attempt<Option<Piece>> {
        if let Some(change) = self.change(top, key) {
            return Ok(change.clone());
        }
        let mut value = None;
        self.tree.get_all(&self.pages, &[key], |_, found| value = Some(found))?;
        Ok(value)
    }

    /// The values of keys, which ascend.
    pub fn get_all(&self, top: &Layer, keys: &[Key]) -> Attempt<Vec<Option<Piece>>> {
        let mut values = Vec::with_capacity(keys.len());
        let (mut below, mut places) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for key in keys {
            let change = self.change(top, key);
            if change.is_none() {
                below.push(key.as_slice());
                places.push(values.len());
            }
            values.push(change.cloned().flatten());
        }
        self.tree.get_all(&self.pages, &below, |number, value| values[places[number]] = Some(value))?;
        Ok(values)
    }

    /// What the layers have of a key.
    fn change<'a>(&'a self, top: &'a Layer, key: &[u8]) -> Option<&'a Option<Piece>> {
        if let Some(change) = top.get(key) {
            return Some(change);
        }
        let hash = KeyHash::of(key);
        let active = self.in_active.may_have(hash).then(|| self.active.get(key)).flatten();
        let frozen = || self.frozen.as_ref().filter(|_| self.in_frozen.may_have(hash))?.get(key);
        active.or_else(frozen)
    }

    /// The first key from `from` on that has a value, before `end`.
    pub fn next(&self, top: &Layer, from: &[u8], end: Option<&[u8]>) -> Attempt<Option<(Key, Piece)>> {
        self.merged(top, from, end)?.next()
    }

    /// All keys from `start` on that have a value, before `end`, with their values.
    pub fn range(&self, top: &Layer, start: &[u8], end: Option<&[u8]>) -> Attempt<Vec<(Key, Piece)>> {
        let (mut merged, mut all) = (self.merged(top, start, end)?, Vec::new());
        while let Some(entry) = merged.next()? {
            all.push(entry);
        }
        Ok(all)
    }

    /// The same one by one.
    pub fn merged<'a>(
        &'a self,
        top: &'a Layer,
        start: &'a [u8],
        end: Option<&'a [u8]>,
    ) -> Attempt<Merged<'a>> {
        let layers = [Some(top), Some(&self.active), self.frozen.as_ref()];
        if end.is_some_and(|end| end <= start) {
            let tree = Cursor { tree: &self.tree, pages: &self.pages, end, leaf: None, at: 0 };
            return Ok(Merged { layers: [None, None, None], tree, below: None, end });
        }
        let bounds = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
        let layers = layers.map(|layer| layer.map(|layer| layer.range::<[u8], _>(bounds).peekable()));
        let tree = self.tree.cursor(&self.pages, start, end)?;
        Ok(Merged { layers, tree, below: None, end })
    }

    /// Keys from `start` on and before `end`: all that have a value, and some that had one. One may come again. Goes on while `next` says so.
    pub fn each_key(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        mut next: impl FnMut(&[u8]) -> bool,
    ) -> Attempt<()> {
        let bounds = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
        for layer in [Some(&self.active), self.frozen.as_ref()].into_iter().flatten() {
            let set = layer.range::<[u8], _>(bounds).filter(|(_, value)| value.is_some());
            for (key, _) in set {
                if !next(key) {
                    return Ok(());
                }
            }
        }
        let mut cursor = self.tree.cursor(&self.pages, start, end)?;
        while let Some((page, place)) = cursor.step()? {
            let key = page.key(place);
            if end.is_some_and(|end| key >= end) || !next(key) {
                break;
            }
        }
        Ok(())
    }

    /// [`Tables::next`], also behind pages that can't be read. What it passes by is added to `passed`, with why: changes above
    /// the tree, too, since none of these may be all that there is of its key.
    ///
    /// # Errors
    /// As [`Tables::next`]; but one that no page is the reason of, or that leads nowhere, comes after what was passed by. Also
    /// pages that have to be read may come after it: then a search from behind the last gap on need not pass these again.
    pub fn next_readable(
        &self,
        top: &Layer,
        from: &[u8],
        end: Option<&[u8]>,
        passed: &mut Vec<(Gap, StoreError)>,
    ) -> Attempt<Option<(Key, Piece)>> {
        let (mut from, mut is_behind) = (Key::from_slice(from), false);
        let is_before_end = |key: &Key| end.is_none_or(|end| key.as_slice() < end);
        loop {
            let error = match self.next(top, &from, end) {
                Err(Stop::Error(error)) => error,
                // One leaf at a time would be one wait for each gap.
                Err(Stop::Pages(missing)) if is_behind => {
                    return Err(Stop::Pages(self.tree.missing_ahead(&self.pages, &from, end, missing)));
                }
                found => return found,
            };
            let leads_on =
                |gap: &Gap| is_before_end(&gap.low) && gap.high.as_ref().is_none_or(|high| *high > from);
            let gap = self.tree.gap(&self.pages, &from).map_err(Stop::Pages)?.filter(leads_on);
            let Some(gap) = gap else { return Err(Stop::Error(error)) };
            if let Some(found) = self.next(top, &from, Some(&gap.low))? {
                return Ok(Some(found));
            }
            let high = gap.high.clone().filter(is_before_end);
            passed.push((gap, error));
            match high {
                Some(high) => (from, is_behind) = (high, true),
                None => return Ok(None),
            }
        }
    }

    /// Puts changes on top of everything.
    pub fn apply(&mut self, changes: Layer) {
        for (key, value) in changes {
            self.recent.get_mut().on_change(&key, value.as_ref());
            self.add(key, value);
        }
    }

    /// Puts a change on top that nothing is to be told of.
    pub fn add(&mut self, key: LayerKey, value: Option<Piece>) {
        let key_bytes = key.len();
        let bytes = |value: &Option<Piece>| {
            CHANGE_MEMORY + (key_bytes + value.as_ref().map_or(0, |v| v.len())) as u64
        };
        self.active_bytes += bytes(&value);
        if let Some(old) = self.insert(key, value) {
            self.active_bytes -= bytes(&old);
        }
    }

    /// Adds a change that is not counted. Returns what there was of its key.
    fn insert(&mut self, key: LayerKey, value: Option<Piece>) -> Option<Option<Piece>> {
        self.in_active.note(KeyHash::of(&key));
        self.active.insert(key, value)
    }

    /// The changes so far.
    pub fn active(&self) -> &Layer {
        &self.active
    }

    /// Layers are to be searched by way of a filter, which is made for changes of so many bytes.
    pub fn filter(&mut self, changes_bytes: u64) {
        self.filtered_keys = (changes_bytes / CHANGE_BYTES).max(1) as usize;
        if self.active.is_empty() {
            self.in_active = Filter::for_keys(self.filtered_keys);
        }
    }

    /// Makes the changes so far those of a checkpoint.
    pub fn freeze(&mut self) {
        let filter = match self.filtered_keys {
            0 => Filter::default(),
            keys => Filter::for_keys(keys),
        };
        self.in_frozen = std::mem::replace(&mut self.in_active, filter);
        self.frozen = Some(std::mem::take(&mut self.active));
        self.frozen_bytes = std::mem::take(&mut self.active_bytes);
    }

    /// The frozen changes are in the tree: nothing needs them here. Returns them with their bytes of memory.
    pub fn thaw(&mut self) -> (Layer, u64) {
        (self.frozen.take().unwrap_or_default(), std::mem::take(&mut self.frozen_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::layer_of;

    #[test]
    fn a_range_has_what_is_found_key_by_key() {
        let layer = |step: usize, gone: usize, value: u8| -> Layer {
            let change = |n: usize| (n % gone != 0).then(|| Piece::copy_from(&[value]));
            layer_of((0..60).step_by(step).map(|n| (Key::from_slice(&[1, n as u8]), change(n))))
        };
        let mut tables = Tables::default();
        tables.filter(1 << 20);
        tables.apply(layer(2, 6, 3));
        tables.freeze();
        tables.apply(layer(3, 4, 2));
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
        let asked: Vec<Key> = (0..70).map(|n| Key::from_slice(&[1, n])).collect();
        let each: Vec<_> = asked.iter().filter_map(|key| tables.get(&top, key).ok()).collect();
        assert_eq!(tables.get_all(&top, &asked).ok(), Some(each));
        let all = tables.range(&top, &[], None).ok().map(|all| all.len());
        let keys = (0..60).filter(|n| match n {
            n if n % 5 == 0 => n % 3 != 0,
            n if n % 3 == 0 => n % 4 != 0,
            n => n % 2 == 0 && n % 6 != 0,
        });
        assert_eq!(all, Some(keys.count()));
    }
}
