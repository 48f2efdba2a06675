//! Writing changes into the tree: level by level from the leaves up, a page at a time, each to new blocks.
//!
//! A pass over a level takes changes of keys and yields the changes of the level above: the keys of pages that are gone,
//! and the keys and pointers of new ones. What the pass does not touch stays as it is.

use std::ops::Bound;
use std::sync::Arc;

use buffer::{Piece, crc32c};
use store::StoreError;

use crate::layout::BLOCK;
use crate::page::{Key, PAGE_BYTES_MAX, PAGE_BYTES_MIN, Page, PagePtr, encode_page, entry_bytes};
use crate::space::Space;
use crate::stop::{Attempt, Stop, damaged};
use crate::tree::{Found, Layer, Pages, Tree};

/// Entries that a page above the leaves has at least, but for the last.
const INNER_ENTRIES_MIN: usize = 4;

/// Entries that are to become pages.
#[derive(Debug)]
struct Gathered {
    /// The lowest key that the first of them may hold.
    low: Key,
    entries: Vec<(Key, Piece)>,
    bytes: usize,
}

/// A page that was made.
#[derive(Debug)]
pub struct Made {
    pub ptr: PagePtr,
    /// Whole blocks.
    pub bytes: Piece,
}

/// Writing a layer of changes into a tree.
#[derive(Debug)]
pub struct Pass {
    level: u8,
    /// The changes of this level, if it isn't the lowest (those are given).
    changes: Layer,
    /// The changes of the level above.
    above: Layer,
    /// Where the pass goes on in this level: the first change from here, or (when entries are gathered) this page.
    at: Key,
    gathered: Option<Gathered>,
    /// The last page that was made: the whole level if it is the only one.
    last: Option<Arc<Page>>,
    /// Pages that the new tree doesn't have.
    pub old: Vec<PagePtr>,
    /// Pages made since the last look.
    pub made: Vec<Made>,
}

impl Pass {
    pub fn new() -> Self {
        Self {
            level: 0,
            changes: Layer::new(),
            above: Layer::new(),
            at: Key::new(),
            gathered: None,
            last: None,
            old: Vec::new(),
            made: Vec::new(),
        }
    }

    /// Rewrites one page and what it becomes. Returns the new tree when everything is written. `lowest` are the changes of
    /// the leaves, the same in every step.
    ///
    /// # Errors
    /// A page has to be read, is damaged, or there is no space.
    pub fn step(
        &mut self,
        lowest: &Layer,
        tree: &Tree,
        pages: &mut Pages,
        space: &mut Space,
    ) -> Attempt<Option<Tree>> {
        let changes = if self.level == 0 { lowest } else { &self.changes };
        let low = match &self.gathered {
            Some(_) => self.at.clone(),
            None => {
                let range = (Bound::Included(self.at.as_slice()), Bound::Unbounded);
                match changes.range::<[u8], _>(range).next() {
                    Some((key, _)) => key.clone(),
                    None => return self.end_level(tree),
                }
            }
        };
        let found = tree.descend(pages, self.level, &low)?;
        let high = found.as_ref().and_then(Found::high).map(Key::from_slice);
        let from = found.as_ref().map_or(Key::new(), |found| Key::from_slice(found.low()));
        let entries = merged(found.as_ref().map(|found| &*found.page), changes, &from, high.as_ref());
        if let Some(found) = &found {
            self.old.push(found.ptr(tree)?);
            self.above.insert(from.clone(), None);
        }
        let gathered =
            self.gathered.get_or_insert_with(|| Gathered { low: from, entries: Vec::new(), bytes: 0 });
        gathered.bytes += entries.iter().map(|(k, v)| entry_bytes(k, v)).sum::<usize>();
        gathered.entries.extend(entries);
        match high {
            // Too little for a page: with the neighbour's entries it is enough.
            Some(high) if gathered.bytes < PAGE_BYTES_MIN => self.at = high,
            high => {
                self.write_gathered(pages, space)?;
                match high {
                    Some(high) => self.at = high,
                    None => return self.end_level(tree),
                }
            }
        }
        Ok(None)
    }

    fn write_gathered(&mut self, pages: &mut Pages, space: &mut Space) -> Attempt<()> {
        let Some(Gathered { mut low, entries, bytes }) = self.gathered.take() else { return Ok(()) };
        if entries.is_empty() {
            return Ok(());
        }
        // Above the leaves the lowest key is the first: what lay before it is in the page to the left now. And there each
        // page leads to several, however long their keys are, so that every level has fewer pages than the one below.
        let entries_min = if self.level > 0 { INNER_ENTRIES_MIN } else { 1 };
        if let Some((first, _)) = entries.first().filter(|_| self.level > 0) {
            low.clone_from(first);
        }
        let share = bytes / bytes.div_ceil(PAGE_BYTES_MAX).max(1);
        let mut rest = entries.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut page, mut size) = (Vec::new(), 0);
            while let Some(entry) = rest.next_if(|(k, v)| {
                let more = entry_bytes(k, v);
                page.len() < entries_min || size + more / 2 <= share && size + more <= PAGE_BYTES_MAX
            }) {
                size += entry_bytes(&entry.0, &entry.1);
                page.push(entry);
            }
            let next_low = rest.peek().map(|(key, _)| key.clone());
            let ptr = self.write_page(page, pages, space)?;
            self.above.insert(std::mem::take(&mut low), Some(ptr.encode().into()));
            low = next_low.unwrap_or_default();
        }
        Ok(())
    }

    fn write_page(
        &mut self,
        entries: Vec<(Key, Piece)>,
        pages: &mut Pages,
        space: &mut Space,
    ) -> Attempt<PagePtr> {
        let (bytes, used) = encode_page(self.level, &entries);
        let count = bytes.len() as u64 / BLOCK;
        let full = StoreError::NoSpace { needed: bytes.len() as u64, available: space.free_blocks() * BLOCK };
        let runs = space.allocate_runs(count).ok_or(Stop::Error(full))?;
        let crc = crc32c(!0, &bytes[..used as usize]);
        let ptr = PagePtr { runs, bytes: used, crc };
        let page = Arc::new(Page::decode(&bytes.slice(0..used as usize)).map_err(damaged)?);
        self.last = Some(page.clone());
        pages.insert(ptr.clone(), page);
        self.made.push(Made { ptr: ptr.clone(), bytes });
        Ok(ptr)
    }

    /// Goes on with the level above, or returns the new tree.
    fn end_level(&mut self, tree: &Tree) -> Attempt<Option<Tree>> {
        let changes = std::mem::take(&mut self.above);
        if self.level == 0 && changes.is_empty() {
            return Ok(Some(tree.clone()));
        }
        if self.level + 1 >= tree.levels() {
            let mut there = changes.values().flatten();
            match (there.next(), there.next()) {
                (None, _) => return Ok(Some(Tree { root: None })),
                (Some(only), None) => return self.root(only).map(Some),
                (Some(_), Some(_)) => {}
            }
        }
        (self.level, self.changes, self.at) = (self.level + 1, changes, Key::new());
        Ok(None)
    }

    /// The tree whose highest level is one page.
    fn root(&mut self, ptr: &Piece) -> Attempt<Tree> {
        let ptr = PagePtr::decode(ptr).map_err(damaged)?;
        match self.last.as_ref().filter(|only| self.level > 0 && only.len() == 1) {
            // A root that leads to one page alone is not needed.
            Some(only) => {
                let child = PagePtr::decode(only.value_bytes(0)).map_err(damaged)?;
                self.old.push(ptr);
                Ok(Tree { root: Some((self.level, child)) })
            }
            None => Ok(Tree { root: Some((self.level + 1, ptr)) }),
        }
    }
}

/// A page's entries with the changes from `from` to `high`.
fn merged(old: Option<&Page>, changes: &Layer, from: &Key, high: Option<&Key>) -> Vec<(Key, Piece)> {
    let end = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.as_slice()));
    let mut changes = changes.range::<[u8], _>((Bound::Included(from.as_slice()), end)).peekable();
    let mut out = Vec::with_capacity(old.map_or(0, Page::len));
    for (page, entry) in old.into_iter().flat_map(|page| (0..page.len()).map(move |entry| (page, entry))) {
        let key = page.key(entry);
        while let Some((new, value)) = changes.next_if(|(new, _)| new.as_slice() < key) {
            out.extend(value.clone().map(|value| (new.clone(), value)));
        }
        match changes.next_if(|(new, _)| new.as_slice() == key) {
            Some((_, value)) => out.extend(value.clone().map(|value| (Key::from_slice(key), value))),
            None => out.push((Key::from_slice(key), page.value(entry))),
        }
    }
    out.extend(changes.filter_map(|(key, value)| Some((key.clone(), value.clone()?))));
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use types::SplitMix64;

    use super::*;
    use crate::ranges::Ranges;
    use crate::tree::Tables;

    /// Writes the changes into the tables' tree; `forget` drops every page from memory first.
    fn write(tables: &mut Tables, disk: &mut BTreeMap<PagePtr, Piece>, space: &mut Space, forget: bool) {
        tables.freeze();
        if forget {
            tables.pages = Pages::default();
        }
        let mut pass = Pass::new();
        let lowest = tables.frozen.take().expect("just frozen");
        let tree = loop {
            match pass.step(&lowest, &tables.tree, &mut tables.pages, space) {
                Ok(Some(tree)) => break tree,
                Ok(None) => {}
                Err(Stop::Pages(all)) => read(tables, disk, all),
                Err(other) => panic!("{other:?}"),
            }
        };
        disk.extend(pass.made.drain(..).map(|made| (made.ptr, made.bytes)));
        for ptr in pass.old.drain(..) {
            space.give_back(ptr.blocks());
            disk.remove(&ptr);
        }
        tables.tree = tree;
    }

    fn read(tables: &mut Tables, disk: &BTreeMap<PagePtr, Piece>, pages: Vec<PagePtr>) {
        pages.into_iter().for_each(|ptr| tables.pages.on_read(ptr.clone(), &disk[&ptr]));
    }

    fn next(tables: &mut Tables, disk: &BTreeMap<PagePtr, Piece>, from: &[u8]) -> Option<(Key, Piece)> {
        loop {
            match tables.next(&Layer::new(), from, None) {
                Ok(next) => return next,
                Err(Stop::Pages(all)) => read(tables, disk, all),
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_tree_is_an_ordered_map_whose_pages_come_back_when_it_is_emptied() {
        for seed in 0..6 {
            let mut random = SplitMix64::new(seed);
            let (mut tables, mut disk, mut space) =
                (Tables::default(), BTreeMap::new(), Space::new(&Ranges::one(0, 50_000)));
            let mut model: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
            for round in 0..40u64 {
                let grows = round % 20 < 12;
                for _ in 0..random.below(if round % 7 == 0 { 2000 } else { 60 }) {
                    let mut key = Key::from_slice(&random.below(3000).to_be_bytes()[5..]);
                    // Some are long, always the same ones.
                    key.resize(3 + if key[2] % 16 == 7 { 4000 } else { usize::from(key[2] % 5) }, 9);
                    let large = random.one_in(100);
                    let value = vec![round as u8; random.below(if large { 30_000 } else { 200 }) as usize];
                    let value = (grows || random.one_in(6)).then_some(value);
                    tables.apply([(key.clone(), value.clone().map(Piece::from))].into());
                    match value {
                        Some(value) => drop(model.insert(key, value)),
                        None => drop(model.remove(&key)),
                    }
                }
                if !random.one_in(3) {
                    write(&mut tables, &mut disk, &mut space, random.one_in(2));
                }
                if round == 39 {
                    let all: Layer = model.keys().map(|key| (key.clone(), None)).collect();
                    tables.apply(all);
                    write(&mut tables, &mut disk, &mut space, true);
                    model.clear();
                }
                let mut from = Key::new();
                for (key, value) in &model {
                    let found = next(&mut tables, &disk, &from).expect("the model has more");
                    assert_eq!((&found.0, found.1.as_slice()), (key, value.as_slice()), "seed {seed}");
                    from = store::keys::joined(key, &[0]);
                }
                assert_eq!(next(&mut tables, &disk, &from), None);
                let blocks: u64 = disk.keys().map(PagePtr::block_count).sum();
                assert_eq!(space.taken_blocks(), blocks, "seed {seed}: pages lost or leaked");
                let bytes: usize = model.iter().map(|(k, v)| entry_bytes(k, v)).sum();
                assert!(
                    blocks * BLOCK <= 3 * bytes as u64 + (128 << 10),
                    "{blocks} blocks for {bytes} bytes"
                );
            }
            assert_eq!((tables.tree, disk.len()), (Tree::default(), 0), "seed {seed}");
        }
    }
}
