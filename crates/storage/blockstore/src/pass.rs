//! Writing changes into the tree: level by level from the leaves up, to new blocks. A step merges about a page's worth of
//! entries, however many changes belong to one page.
//!
//! A pass over a level takes changes of keys and yields the changes of the level above: the keys of pages that are gone,
//! and the keys and pointers of new ones. What the pass does not touch stays as it is.
//!
//! A page that much hangs on is written twice: all above the leaves, and leaves with keys that are vital ([`is_vital`]).

use std::ops::Bound;
use std::sync::Arc;

use buffer::{Piece, crc32c};
use store::StoreError;

use crate::layer::Layer;
use crate::layout::BLOCK;
use crate::page::{Entries, Key, PAGE_BYTES_MAX, PAGE_BYTES_MIN, Page, PagePtr, encode_page};
use crate::pages::Pages;
use crate::records::{is_for_opening, is_vital};
use crate::space::Space;
use crate::stop::{Attempt, Stop, damaged};
use crate::stranded::NOTES;
use crate::tree::{Gap, Tree};

/// Entries that a page above the leaves has at least, but for the last.
const INNER_ENTRIES_MIN: usize = 4;

/// Bytes of entries that a step merges, and one entry more.
const STEP_BYTES_MAX: usize = 2 * PAGE_BYTES_MAX;

/// Changes that a step merges: those that remove a key yield no entry.
const STEP_CHANGES_MAX: usize = 512;

fn next_change<'a>(changes: &'a Layer, from: &[u8]) -> Option<&'a Key> {
    changes.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).next().map(|(key, _)| key.key())
}

/// Entries that are to become pages.
#[derive(Debug)]
struct Gathered {
    /// The lowest key that the first of them may hold.
    low: Key,
    entries: Entries,
    /// The pages that were made of those before, with the lowest key that each may hold.
    pages: Vec<(Key, PagePtr)>,
}

impl Gathered {
    /// Whether they make a page that the tree would be too deep with.
    fn is_small(&self, level: u8) -> bool {
        self.entries.bytes() < PAGE_BYTES_MIN || level > 0 && self.entries.len() < INNER_ENTRIES_MIN
    }

    /// How many of the first entries make a page of at most so many bytes, or as close to them as entries allow; and their bytes.
    fn page(&self, level: u8, bytes_max: usize) -> (usize, usize) {
        // Above the leaves each page leads to several, however long their keys are, so that every level has fewer pages than
        // the one below.
        let entries_min = if level > 0 { INNER_ENTRIES_MIN } else { 1 };
        let (mut count, mut size) = (0, 0);
        for more in self.entries.sizes() {
            let fits = size + more / 2 <= bytes_max && size + more <= PAGE_BYTES_MAX;
            if count >= entries_min && !fits {
                break;
            }
            (count, size) = (count + 1, size + more);
        }
        // The rest is a page, too.
        match self.entries.len() - count < entries_min {
            true => (self.entries.len(), self.entries.bytes()),
            false => (count, size),
        }
    }

    /// Drops the first entries, which a page has. Returns the lowest key that it may hold.
    fn drop_first(&mut self, level: u8, count: usize) -> Key {
        // Above the leaves the lowest key is the first: what lay before it is in the page to the left now.
        let first = self.entries.first_key().filter(|_| level > 0).map(Key::from_slice);
        self.entries.drop_first(count);
        let next_low = self.entries.first_key().map(Key::from_slice);
        let low = std::mem::replace(&mut self.low, next_low.unwrap_or_default());
        first.unwrap_or(low)
    }
}

/// A page of the tree, or the whole level if there is none, with the changes that belong to it, as far as they are merged.
#[derive(Debug)]
struct Merge {
    page: Option<Arc<Page>>,
    /// The next entry of the page.
    entry: usize,
    /// The lowest key of a change that is not merged.
    at: Key,
    /// The first key that is another page's.
    high: Option<Key>,
    /// Its pointer, if the pages that replace it can stand for it as soon as they are made.
    replaced: Option<PagePtr>,
}

impl Merge {
    /// Of changes alone.
    fn without_page(at: Key, high: Option<Key>) -> Self {
        Self { page: None, entry: 0, at, high, replaced: None }
    }

    /// Adds the next entries, up to a step's bound. Returns whether these were the last.
    fn step(&mut self, changes: &Layer, gathered: &mut Gathered) -> bool {
        let end = self.high.as_ref().map_or(Bound::Unbounded, |high| Bound::Excluded(high.as_slice()));
        let mut changes = changes.range::<[u8], _>((Bound::Included(self.at.as_slice()), end)).peekable();
        let page = self.page.as_deref();
        let mut last = None;
        let gathered = &mut gathered.entries;
        let (bytes_max, mut merged) = (gathered.bytes() + STEP_BYTES_MAX, 0);
        while gathered.bytes() < bytes_max && merged < STEP_CHANGES_MAX {
            let old = page.filter(|page| self.entry < page.len()).map(|page| (page, page.key(self.entry)));
            match (changes.next_if(|(new, _)| old.is_none_or(|(_, old)| new.as_slice() <= old)), old) {
                (Some((key, value)), _) => {
                    self.entry += usize::from(old.is_some_and(|(_, old)| old == key.as_slice()));
                    value.iter().for_each(|value| gathered.push(key, value));
                    (last, merged) = (Some(key), merged + 1);
                }
                (None, Some((page, _))) => {
                    gathered.push_of(page, self.entry);
                    self.entry += 1;
                }
                (None, None) => return true,
            }
        }
        if let Some(last) = last {
            self.at = store::keys::joined(last, &[0]);
        }
        false
    }
}

/// A page that was made.
#[derive(Debug)]
pub struct Made {
    pub ptr: PagePtr,
    /// Whole blocks.
    pub bytes: Piece,
}

/// How a pass stands with notes of stranded changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Notes {
    /// They are written with the leaf that the table of notes belongs to, if there are some, or were some.
    ToCome,
    /// The pass goes on when it has them.
    Wanted,
    Given,
}

/// What a pass finds where it goes on.
enum Next {
    Page(Merge),
    /// The leaf of the notes, or the end, before which these are wanted.
    Notes,
    /// The level's end.
    End,
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
    merge: Option<Merge>,
    gathered: Option<Gathered>,
    /// No entries, with the memory of those gathered before.
    spare: Entries,
    /// The last page that was made: the whole level if it is the only one.
    last: Option<Arc<Page>>,
    /// The keys of leaves that can't be read, and why, of which there are changes: these are not merged.
    pub stranded: Vec<(Gap, StoreError)>,
    notes: Notes,
    /// The tree has notes.
    has_notes: bool,
    /// Pages that the new tree doesn't have.
    pub old: Vec<PagePtr>,
    /// Pages made since the last look.
    pub made: Vec<Made>,
    /// Whether there is room for copies. A pass may do without.
    pub copies: bool,
}

impl Pass {
    /// `has_notes`: the tree has some, of changes that were stranded.
    pub fn new(has_notes: bool) -> Self {
        Self {
            stranded: Vec::new(),
            notes: Notes::ToCome,
            has_notes,
            level: 0,
            changes: Layer::new(),
            above: Layer::new(),
            at: Key::new(),
            merge: None,
            gathered: None,
            spare: Entries::default(),
            last: None,
            old: Vec::new(),
            made: Vec::new(),
            copies: false,
        }
    }

    /// Where the pass goes on, if it needs the notes of stranded changes for that. It has merged what comes before, but for the
    /// changes in [`Pass::stranded`].
    pub fn wants_notes(&self) -> Option<&Key> {
        (self.notes == Notes::Wanted).then_some(&self.at)
    }

    /// From the next step on the lowest changes have the notes.
    pub fn give_notes(&mut self) {
        self.notes = Notes::Given;
    }

    /// Merges a bounded number of entries, and writes the pages that they fill. Returns the new tree when everything is
    /// written. `lowest` are the changes of the leaves, the same in every step until the pass wants notes.
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
        let mut merge = match self.merge.take() {
            Some(merge) => merge,
            None => match self.begin_page(lowest, tree, pages) {
                Ok(Next::Page(merge)) => merge,
                Ok(Next::Notes) => {
                    self.notes = Notes::Wanted;
                    return Ok(None);
                }
                Ok(Next::End) => return self.end_level(tree),
                Err(Stop::Error(error)) if self.level == 0 && self.gathered.is_none() => {
                    return self.leave_out(error, lowest, tree, pages);
                }
                Err(Stop::Error(error)) => return self.leave_small(error, pages, space),
                Err(stop) => return Err(stop),
            },
        };
        let changes = if self.level == 0 { lowest } else { &self.changes };
        let mut gathered = self.gathered.take().unwrap_or_else(|| Gathered {
            low: merge.at.clone(),
            entries: std::mem::take(&mut self.spare),
            pages: Vec::new(),
        });
        let ended = merge.step(changes, &mut gathered);
        self.write_full(&mut gathered, pages, space)?;
        if !ended {
            (self.merge, self.gathered) = (Some(merge), Some(gathered));
            return Ok(None);
        }
        match merge.high {
            // Too little for a page: with the neighbour's entries it is enough.
            Some(high) if gathered.is_small(self.level) => (self.at, self.gathered) = (high, Some(gathered)),
            high => {
                let made = self.write_rest(gathered, pages, space)?;
                if let Some(leaf) = merge.replaced {
                    pages.replace(&leaf, made);
                }
                match high {
                    Some(high) => self.at = high,
                    None => return self.end_level(tree),
                }
            }
        }
        Ok(None)
    }

    /// Finds the next page that changes belong to.
    fn begin_page(&mut self, lowest: &Layer, tree: &Tree, pages: &Pages) -> Attempt<Next> {
        let changes = if self.level == 0 { lowest } else { &self.changes };
        let is_to_note =
            self.level == 0 && self.notes == Notes::ToCome && (self.has_notes || !self.stranded.is_empty());
        let low = match &self.gathered {
            Some(_) => &self.at,
            None => match next_change(changes, &self.at) {
                Some(key) => key,
                None if is_to_note => return Ok(Next::Notes),
                None => return Ok(Next::End),
            },
        };
        let Some(found) = tree.descend(pages, self.level, low)? else {
            return Ok(Next::Page(Merge::without_page(Key::new(), None)));
        };
        if is_to_note && found.high().is_none_or(|high| high > &NOTES[..]) {
            return Ok(Next::Notes);
        }
        let at = Key::from_slice(found.low());
        let high = found.high().map(Key::from_slice);
        let old = found.ptr(tree)?;
        // Not where new pages have entries of other leaves, too, nor for a root, which searches don't find by `Pages::find`. Nor beside
        // notes of stranded changes: these are none of the changes that a search finds before.
        let may_stand = self.gathered.is_none() && self.level == 0 && tree.levels() > 1;
        let replaced = (may_stand && !self.has_notes && self.stranded.is_empty()).then(|| old.clone());
        self.old.push(old);
        self.above.insert(at.clone().into(), None);
        Ok(Next::Page(Merge { page: Some(found.page), entry: 0, at, high, replaced }))
    }

    /// The leaf of the next change can't be read: its changes are stranded. Where it is the leaf that the first notes belong
    /// to, these get another one.
    fn leave_out(
        &mut self,
        error: StoreError,
        lowest: &Layer,
        tree: &Tree,
        pages: &Pages,
    ) -> Attempt<Option<Tree>> {
        // With nothing gathered it was a change that the leaf was looked for.
        let Some(key) = next_change(lowest, &self.at) else { return Err(Stop::Error(error)) };
        let leads_on = |gap: &Gap| gap.low <= *key && gap.high.as_ref().is_none_or(|high| high > key);
        let gap = tree.gap(pages, key).map_err(Stop::Pages)?.filter(leads_on);
        // Without a page above it the leaf is all that there is.
        let Some(gap) = gap.filter(|_| tree.levels() > 1) else { return Err(Stop::Error(error)) };
        if key.as_slice() >= &NOTES[..] {
            // Notes that can't be removed would count again once they can be read: they have copies, so that this takes two failures.
            if self.has_notes {
                return Err(Stop::Error(error));
            }
            let at = Key::from_slice(&NOTES);
            self.merge = Some(Merge::without_page(at, gap.high));
            return Ok(None);
        }
        let end = Key::from_slice(gap.high.as_deref().map_or(&NOTES[..], |high| high.min(&NOTES)));
        let mut changes =
            lowest.range::<[u8], _>((Bound::Included(key.as_slice()), Bound::Excluded(end.as_slice())));
        if changes.any(|(key, _)| is_for_opening(key)) {
            return Err(Stop::Error(error));
        }
        self.stranded.push((gap, error));
        // Also where they were given: this leaf could be read then.
        self.notes = Notes::ToCome;
        self.at = end;
        Ok(None)
    }

    /// Writes full pages while another one is left.
    fn write_full(&mut self, gathered: &mut Gathered, pages: &mut Pages, space: &mut Space) -> Attempt<()> {
        while gathered.entries.bytes() >= 2 * PAGE_BYTES_MAX {
            let (count, bytes) = gathered.page(self.level, PAGE_BYTES_MAX);
            if gathered.entries.bytes() - bytes < PAGE_BYTES_MAX {
                return Ok(());
            }
            self.write_first(gathered, count, pages, space)?;
        }
        Ok(())
    }

    /// Writes all that is gathered, to pages of about the same length. Returns these and those before, with their lowest keys.
    fn write_rest(
        &mut self,
        mut gathered: Gathered,
        pages: &mut Pages,
        space: &mut Space,
    ) -> Attempt<Vec<(Key, PagePtr)>> {
        let bytes = gathered.entries.bytes();
        let share = bytes / bytes.div_ceil(PAGE_BYTES_MAX).max(1);
        while gathered.entries.len() > 0 {
            let (count, _) = gathered.page(self.level, share);
            self.write_first(&mut gathered, count, pages, space)?;
        }
        self.spare = gathered.entries;
        Ok(gathered.pages)
    }

    /// The next page can't be read. If only a neighbour was looked for, what is gathered becomes a leaf without it: a small one, or
    /// an empty one, since the keys that it may hold belong to it until it is joined with another.
    fn leave_small(
        &mut self,
        error: StoreError,
        pages: &mut Pages,
        space: &mut Space,
    ) -> Attempt<Option<Tree>> {
        let Some(mut gathered) = self.gathered.take_if(|_| self.level == 0) else {
            return Err(Stop::Error(error));
        };
        match gathered.entries.len() {
            0 => self.write_first(&mut gathered, 0, pages, space)?,
            _ => drop(self.write_rest(gathered, pages, space)?),
        }
        Ok(None)
    }

    fn write_first(
        &mut self,
        gathered: &mut Gathered,
        count: usize,
        pages: &mut Pages,
        space: &mut Space,
    ) -> Attempt<()> {
        let ptr = self.write_page(&gathered.entries, count, pages, space)?;
        let low = gathered.drop_first(self.level, count);
        self.above.insert(low.clone().into(), Some(ptr.encode().into()));
        gathered.pages.push((low, ptr));
        Ok(())
    }

    /// Writes a page of the first entries.
    fn write_page(
        &mut self,
        entries: &Entries,
        count: usize,
        pages: &mut Pages,
        space: &mut Space,
    ) -> Attempt<PagePtr> {
        let (bytes, used) = encode_page(self.level, entries, count);
        let has_vital = || entries.keys().take(count).any(is_vital);
        let blocks = bytes.len() as u64 / BLOCK;
        let full = StoreError::NoSpace { needed: bytes.len() as u64, available: space.free_blocks() * BLOCK };
        let runs = space.allocate_runs(blocks).ok_or(Stop::Error(full))?;
        let is_copied = self.copies && (self.level > 0 || has_vital());
        let copy = if is_copied { space.allocate_runs(blocks).unwrap_or_default() } else { Vec::new() };
        let crc = crc32c(!0, &bytes[..used as usize]);
        let ptr = PagePtr { runs, copy, bytes: used, crc };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use types::SplitMix64;

    use super::*;
    use crate::layer::layer_of;
    use crate::page::entry_bytes;
    use crate::ranges::Ranges;
    use crate::tree::Tables;

    /// Writes the changes into the tables' tree; `forget` drops every page from memory before each step.
    fn write(tables: &mut Tables, disk: &mut BTreeMap<PagePtr, Piece>, space: &mut Space, forget: bool) {
        tables.freeze();
        let (mut pass, mut is_retry) = (Pass { copies: true, ..Pass::new(false) }, false);
        let lowest = tables.frozen.take().expect("just frozen");
        let tree = loop {
            if forget && !is_retry {
                tables.pages = Pages::default();
            }
            let step = pass.step(&lowest, &tables.tree, &mut tables.pages, space);
            disk.extend(pass.made.drain(..).map(|made| (made.ptr, made.bytes)));
            is_retry = matches!(step, Err(Stop::Pages(_)));
            match step {
                Ok(Some(tree)) => break tree,
                Ok(None) => {}
                Err(Stop::Pages(all)) => read(tables, disk, all),
                Err(other) => panic!("{other:?}"),
            }
        };
        for ptr in pass.old.drain(..) {
            space.give_back(ptr.blocks());
            disk.remove(&ptr);
        }
        tables.tree = tree;
    }

    fn read(tables: &mut Tables, disk: &BTreeMap<PagePtr, Piece>, pages: Vec<PagePtr>) {
        for ptr in pages {
            let page = Page::read(&ptr, &disk[&ptr]).expect("it was written");
            tables.pages.insert(ptr, Arc::new(page));
        }
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

    fn all_of(tables: &mut Tables, disk: &BTreeMap<PagePtr, Piece>, keys: &[Key]) -> Vec<Option<Piece>> {
        loop {
            match tables.get_all(&Layer::new(), keys) {
                Ok(all) => return all,
                Err(Stop::Pages(all)) => read(tables, disk, all),
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_step_is_bounded_however_many_changes_belong_to_one_page() {
        let mut tables = Tables::default();
        let mut space = Space::new(&Ranges::one(0, 50_000));
        let keys = (0..20_000_u64).map(|n| Key::from_slice(&n.to_be_bytes()));
        // All that belong to a tree's first page, and then removals of the keys between them, which yield nothing.
        let there = layer_of(keys.clone().map(|key| (key, Some(Piece::copy_from(&[1; 100])))));
        let absent = layer_of(keys.map(|key| (store::keys::joined(&key, &[0]), None)));
        for (changes, steps_min) in [(there, 100), (absent, 20_000 / STEP_CHANGES_MAX)] {
            tables.apply(changes);
            tables.freeze();
            let lowest = tables.frozen.take().expect("just frozen");
            let (mut pass, mut steps) = (Pass::new(false), 0);
            let tree = loop {
                let Ok(tree) = pass.step(&lowest, &tables.tree, &mut tables.pages, &mut space) else {
                    panic!("all pages are in memory, and there is space");
                };
                assert!(pass.made.len() <= 4, "{} pages made in a step", pass.made.len());
                pass.made.clear();
                steps += 1;
                if let Some(tree) = tree {
                    break tree;
                }
            };
            assert!(steps >= steps_min, "{steps} steps");
            tables.tree = tree;
        }
    }

    #[test]
    fn a_pass_makes_no_more_blocks_than_are_kept_for_it() {
        for (entries, value_bytes, step) in [(4_000, 100, 60), (2_000, 480, 14), (300, 9_000, 1), (100, 4, 1)]
        {
            let (mut tables, mut disk, mut space) =
                (Tables::default(), BTreeMap::new(), Space::new(&Ranges::one(0, 50_000)));
            let key = |n: u64, rest: &[u8]| store::keys::joined(&n.to_be_bytes(), rest);
            let value = |len: usize| Some(Piece::from(vec![1; len]));
            tables.apply(layer_of((0..entries).map(|n| (key(n, &[]), value(value_bytes)))));
            write(&mut tables, &mut disk, &mut space, false);
            let tree_blocks = space.taken_blocks();
            // One change in each page, which is full.
            tables.apply(layer_of((0..entries).step_by(step).map(|n| (key(n, &[1]), value(20)))));
            let most = tree_blocks
                + crate::capacity::change_blocks(tree_blocks, tables.active_bytes, tables.active().len());
            tables.freeze();
            let (mut pass, mut made) = (Pass::new(false), 0);
            let lowest = tables.frozen.take().expect("just frozen");
            loop {
                let step = pass.step(&lowest, &tables.tree, &mut tables.pages, &mut space);
                made += pass.made.drain(..).map(|made| made.ptr.block_count()).sum::<u64>();
                match step {
                    Ok(Some(_)) => break,
                    Ok(None) => {}
                    Err(Stop::Pages(all)) => read(&mut tables, &disk, all),
                    Err(other) => panic!("{other:?}"),
                }
            }
            assert!(made <= most, "{made} blocks made of {tree_blocks}, {most} are kept");
        }
    }

    #[test]
    fn pages_above_the_leaves_lead_to_several_also_after_removals_of_long_keys() {
        let (mut tables, mut disk, mut space) =
            (Tables::default(), BTreeMap::new(), Space::new(&Ranges::one(0, 50_000)));
        let mut random = SplitMix64::new(1);
        // Four of them are more than a page's bytes.
        let key = |n: u64| {
            let mut key = Key::from_slice(&n.to_be_bytes());
            key.resize(3_000, 9);
            key
        };
        let all = layer_of((0..400).map(|n| (key(n), Some(Piece::copy_from(&[1; 5_000])))));
        tables.apply(all);
        write(&mut tables, &mut disk, &mut space, false);
        for _ in 0..60 {
            for _ in 0..8 {
                let value = random.one_in(2).then(|| Piece::copy_from(&[2; 5_000]));
                tables.apply(layer_of([(key(random.below(400)), value)]));
            }
            write(&mut tables, &mut disk, &mut space, true);
            let mut level = tables.tree.levels();
            let mut ptrs: Vec<PagePtr> = tables.tree.root.iter().map(|(_, ptr)| ptr.clone()).collect();
            while level > 1 {
                let pages: Vec<Page> = ptrs
                    .iter()
                    .map(|ptr| Page::decode(&disk[ptr].slice(0..ptr.bytes as usize)).expect("a page"))
                    .collect();
                // The last page of a level may be small.
                let (_, others) = pages.split_last().expect("a level has a page");
                let fewest = others.iter().map(Page::len).min();
                assert!(fewest.is_none_or(|n| n >= INNER_ENTRIES_MIN), "{fewest:?} entries at level {level}");
                let entries = pages.iter().flat_map(|page| (0..page.len()).map(|n| page.value(n)));
                ptrs = entries.map(|value| PagePtr::decode(&value).expect("a pointer")).collect();
                level -= 1;
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
                    tables.apply(layer_of([(key.clone(), value.clone().map(Piece::from))]));
                    match value {
                        Some(value) => drop(model.insert(key, value)),
                        None => drop(model.remove(&key)),
                    }
                }
                if !random.one_in(3) {
                    write(&mut tables, &mut disk, &mut space, random.one_in(2));
                }
                if round == 39 {
                    let all = layer_of(model.keys().map(|key| (key.clone(), None)));
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
                let asked: Vec<Key> =
                    model.keys().flat_map(|key| [key.clone(), store::keys::joined(key, &[0])]).collect();
                let found = all_of(&mut tables, &disk, &asked);
                let expected = asked.iter().map(|key| model.get(key).cloned().map(Piece::from));
                assert!(found.into_iter().eq(expected), "seed {seed}: keys asked for together");
                let blocks: u64 = disk.keys().map(PagePtr::block_count).sum();
                assert_eq!(space.taken_blocks(), blocks, "seed {seed}: pages lost or leaked");
                let bytes: usize = model.iter().map(|(k, v)| entry_bytes(k, v)).sum();
                // Each page may have a copy.
                assert!(
                    blocks / 2 * BLOCK <= 3 * bytes as u64 + (128 << 10),
                    "{blocks} blocks for {bytes} bytes"
                );
            }
            assert_eq!((tables.tree, disk.len()), (Tree::default(), 0), "seed {seed}");
        }
    }
}
