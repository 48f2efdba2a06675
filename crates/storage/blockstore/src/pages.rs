//! Pages of the tree in memory, found by their pointers. Those that were used longest ago leave first.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;
use store::StoreError;
use types::Slab;

use crate::ages::{Ages, Used};
use crate::block_index::BlockIndex;
use crate::layout::BLOCK;
use crate::page::{Key, Page, PagePtr};
use crate::stop::{Attempt, Stop, damaged};

#[derive(Debug)]
struct Cached {
    ptr: PagePtr,
    /// Its pointer as pages above have it: with one run it has 24 bytes.
    encoded: SmallVec<[u8; 24]>,
    held: Held,
    used: Used,
    /// Of memory: the page's blocks, where its entries are, and what leads to it.
    bytes: u64,
}

/// What memory has of a page.
#[derive(Debug)]
enum Held {
    Page(Arc<Page>),
    /// Those that replace it ([`Pages::replace`]), at least one, with the lowest key that each may hold.
    Successors(Box<[(Key, PagePtr)]>),
}

/// Bytes of memory that a page takes beside its own bytes and its entries' places.
const PAGE_MEMORY: u64 = 256;

/// Bytes of memory of an entry's place in a page in memory: where it begins, and its key's head.
const ENTRY_PLACE_MEMORY: u64 = 12;

/// Pages in memory.
#[derive(Debug, Default)]
pub struct Pages {
    cached: Slab<Cached>,
    /// Where each is, by its first block.
    places: BlockIndex,
    bytes: u64,
    /// Pages that could not be read, by their first blocks.
    bad: BTreeMap<u64, (PagePtr, StoreError)>,
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
    pub fn get(&self, ptr: &PagePtr) -> Attempt<&Arc<Page>> {
        self.cached(ptr).and_then(|cached| self.page(cached)).ok_or_else(|| self.missing(ptr))
    }

    /// The page with a key by an encoded pointer, which is decoded only if the page is not there. Where several stand for a leaf, also
    /// the first key that the next of them has.
    ///
    /// # Errors
    /// As [`Pages::get`], and the pointer is none.
    pub fn find(&self, encoded: &[u8], key: &[u8]) -> Attempt<(&Arc<Page>, Option<&Key>)> {
        match self.cached_as(encoded).and_then(|cached| self.part(cached, key)) {
            Some(found) => Ok(found),
            None => Err(self.missing(&PagePtr::decode(encoded).map_err(damaged)?)),
        }
    }

    /// What memory has of a page, where a key belongs. Nothing if what stands for it there is gone: that may be on its way to the
    /// device, and what it replaces is there.
    fn part<'a>(&'a self, cached: &'a Cached, key: &[u8]) -> Option<(&'a Arc<Page>, Option<&'a Key>)> {
        self.ages.touch(&cached.used);
        match &cached.held {
            Held::Page(page) => Some((page, None)),
            Held::Successors(all) => {
                // The first has all from the leaf's lowest key on.
                let next = all.partition_point(|(low, _)| low.as_slice() <= key).max(1);
                let page = self.get(&all[next - 1].1).ok()?;
                Some((page, all.get(next).map(|(low, _)| low)))
            }
        }
    }

    fn cached(&self, ptr: &PagePtr) -> Option<&Cached> {
        self.at(first_block(ptr)).filter(|cached| cached.ptr == *ptr)
    }

    fn cached_as(&self, encoded: &[u8]) -> Option<&Cached> {
        self.at(first_block_encoded(encoded)).filter(|cached| cached.encoded[..] == *encoded)
    }

    fn at(&self, block: u64) -> Option<&Cached> {
        self.cached.get(self.places.get(block)?)
    }

    /// A page is used, if it is there itself.
    fn page<'a>(&self, cached: &'a Cached) -> Option<&'a Arc<Page>> {
        let Held::Page(page) = &cached.held else { return None };
        self.ages.touch(&cached.used);
        Some(page)
    }

    fn missing(&self, ptr: &PagePtr) -> Stop {
        match self.bad.get(&first_block(ptr)) {
            Some((bad, error)) if bad == ptr => Stop::Error(error.clone()),
            _ => Stop::Pages(vec![ptr.clone()]),
        }
    }

    pub fn insert(&mut self, ptr: PagePtr, page: Arc<Page>) {
        let block = first_block(&ptr);
        let used = self.ages.add(block);
        let own = u64::from(ptr.bytes).next_multiple_of(BLOCK);
        let bytes = own + page.len() as u64 * ENTRY_PLACE_MEMORY + PAGE_MEMORY;
        self.bytes += bytes;
        let encoded = SmallVec::from_slice(&ptr.encode());
        let place = self.cached.insert(Cached { ptr, encoded, held: Held::Page(page), used, bytes });
        if let Some(old) = self.places.set(block, place) {
            self.forget(old);
        }
    }

    /// Has others stand for a leaf that they replace in the tree which a checkpoint writes: its own memory is free long before that tree
    /// counts. They hold what it holds and the checkpoint's changes, which a search finds before it comes to leaves: so it finds the
    /// same. `by`: all of them in order, with the lowest key that each may hold, and nothing of other leaves.
    pub fn replace(&mut self, leaf: &PagePtr, by: Vec<(Key, PagePtr)>) {
        // Nothing is left of it.
        if by.is_empty() {
            return;
        }
        let cached = self.places.get(first_block(leaf)).and_then(|place| self.cached.get_mut(place));
        // What is not in memory is read where it is needed.
        let Some(cached) = cached.filter(|cached| cached.ptr == *leaf) else { return };
        let before = std::mem::replace(&mut cached.bytes, (1 + by.len() as u64) * PAGE_MEMORY);
        self.bytes = self.bytes - before + cached.bytes;
        cached.held = Held::Successors(by.into());
    }

    /// A page that no tree has any more leaves; what another page has put in its place stays.
    pub fn remove(&mut self, ptr: &PagePtr) {
        let block = first_block(ptr);
        let cached = self.places.get(block).and_then(|place| self.cached.get(place));
        let Some(cached) = cached.filter(|cached| cached.ptr == *ptr) else { return };
        self.ages.remove(&cached.used);
        if let Some(place) = self.places.remove(block) {
            self.forget(place);
        }
    }

    fn forget(&mut self, place: usize) {
        self.bytes -= self.cached.remove(place).map_or(0, |old| old.bytes);
    }

    pub fn on_bad(&mut self, ptr: PagePtr, error: StoreError) {
        self.bad.insert(first_block(&ptr), (ptr, error));
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

    /// How many there are.
    pub fn count(&self) -> usize {
        self.cached.len()
    }

    /// Drops the pages that were used longest ago until at most so many bytes are left. Pages that were used since the
    /// clock was `keep_from` stay: a request that waits for another page needs them together.
    pub fn shrink(&mut self, bytes_max: u64, keep_from: u64) {
        while self.bytes > bytes_max {
            let Self { cached, places, .. } = self;
            let find = |block| cached.get(places.get(block)?);
            let oldest = self.ages.oldest(keep_from, |block| Some(&find(block)?.used));
            // The others are needed, or are looked at the next time.
            let Some(place) = oldest.and_then(|block| self.places.remove(block)) else { return };
            self.forget(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use buffer::Piece;
    use types::SplitMix64;

    use super::*;
    use crate::bitmap::Run;
    use crate::layer::{Layer, layer_of};
    use crate::page::{Entries, encode_page};
    use crate::pass::Pass;
    use crate::ranges::Ranges;
    use crate::records::table;
    use crate::space::Space;
    use crate::stranded::{NOTES, Rest};
    use crate::tree::{Tables, Tree};

    const KEYS: u64 = 3000;

    /// Of a table that an opening does without.
    fn key(n: u64) -> Key {
        store::keys::joined(&[table::LOG], &n.to_be_bytes()[5..])
    }

    /// A search, by its first key.
    #[derive(Clone, Copy, Debug)]
    enum Search {
        One(u64),
        Some(u64),
        Range(u64, u64),
        Readable(u64),
    }

    /// What a search finds, or why it can't.
    type Found = Result<Vec<(Key, Piece)>, StoreError>;

    /// Tables, and the pages that the device has.
    struct Store {
        tables: Tables,
        disk: BTreeMap<PagePtr, Piece>,
        space: Space,
    }

    impl Store {
        fn new() -> Self {
            let space = Space::new(&Ranges::one(0, 50_000));
            Self { tables: Tables::default(), disk: BTreeMap::new(), space }
        }

        fn read(&mut self, missing: Vec<PagePtr>) {
            assert!(!missing.is_empty(), "who waits for nothing waits for ever");
            for ptr in missing {
                let page = Page::read(&ptr, &self.disk[&ptr]).expect("only what the device has is asked for");
                self.tables.pages.insert(ptr, Arc::new(page));
            }
        }

        fn find(&mut self, search: Search) -> Found {
            let (none, mut passed) = (Layer::new(), Vec::new());
            for _ in 0..1000 {
                let tables = &self.tables;
                let found = match search {
                    Search::One(n) => {
                        let found = tables.get(&none, &key(n));
                        found.map(|value| value.map(|value| (key(n), value)).into_iter().collect())
                    }
                    Search::Some(n) => {
                        let keys: Vec<Key> = (n..n + 40).map(key).collect();
                        let all = tables.get_all(&none, &keys);
                        all.map(|all| keys.into_iter().zip(all).filter_map(|(k, v)| Some((k, v?))).collect())
                    }
                    Search::Range(n, end) => tables.range(&none, &key(n), Some(&key(end))),
                    Search::Readable(n) => {
                        passed.clear();
                        tables.next_readable(&none, &key(n), None, &mut passed).map(Vec::from_iter)
                    }
                };
                match found {
                    Ok(found) => return Ok(found),
                    Err(Stop::Pages(missing)) => self.read(missing),
                    Err(Stop::Error(error)) => return Err(error),
                    Err(other) => panic!("{other:?}"),
                }
            }
            panic!("{search:?} wants pages without end");
        }

        /// One step of a pass that merges the frozen changes. Returns the new tree behind the last.
        fn step(&mut self, pass: &mut Pass, rest: &mut Option<Rest>) -> Option<Tree> {
            if let Some(at) = pass.wants_notes() {
                *rest =
                    Some(self.tables.strand(&pass.stranded, at, u64::MAX).expect("there may be any number"));
                pass.give_notes();
            }
            let Self { tables, space, .. } = self;
            let Tables { frozen, tree, pages, .. } = tables;
            let frozen = frozen.as_ref().expect("changes are frozen");
            match pass.step(rest.as_ref().map_or(frozen, |rest| &rest.changes), tree, pages, space) {
                Ok(made) => made,
                Err(Stop::Pages(missing)) => {
                    self.read(missing);
                    None
                }
                Err(other) => panic!("{other:?}"),
            }
        }

        /// A leaf below another page that has no notes of stranded changes: a pass that can't read those fails.
        fn some_leaf(&mut self, random: &mut SplitMix64) -> Option<PagePtr> {
            (self.tables.tree.levels() > 1).then_some(())?;
            drop(self.find(Search::One(0)));
            let above = self.tables.tree.descend(&self.tables.pages, 1, &key(0)).ok()??.page;
            let leaves = (1..above.len()).take_while(|next| above.key(*next) < &NOTES[..]).count() as u64;
            let leaf = (leaves > 0).then(|| above.value(random.below(leaves) as usize))?;
            Some(PagePtr::decode(&leaf).expect("a pointer"))
        }
    }

    fn some_search(random: &mut SplitMix64) -> Search {
        let n = random.below(KEYS);
        match random.below(4) {
            0 => Search::One(n),
            1 => Search::Some(n),
            2 => Search::Range(n, n + random.below(KEYS)),
            _ => Search::Readable(n),
        }
    }

    #[test]
    fn a_replaced_leaf_that_can_t_be_read_is_a_gap_behind_those_that_stand_for_it() {
        let mut store = Store::new();
        store.tables.apply(layer_of((0..KEYS).map(|n| (key(n), Some(Piece::copy_from(&[1; 100]))))));
        store.tables.freeze();
        let (mut pass, mut rest) = (Pass::new(false), None);
        store.tables.tree = loop {
            if let Some(tree) = store.step(&mut pass, &mut rest) {
                break tree;
            }
        };
        store.tables.thaw();
        let leaf = store.some_leaf(&mut SplitMix64::new(1)).expect("there are several");
        let page = store.tables.pages.get(&leaf).expect("all are in memory").clone();
        let (low, middle) = (Key::from_slice(page.key(0)), Key::from_slice(page.key(page.len() / 2)));
        let last = Key::from_slice(page.key(page.len() - 1));
        // The first half stands for it, and the second is not in memory.
        let half: Entries = page.entries().take(page.len() / 2).collect();
        let (bytes, used) = encode_page(0, &half, half.len());
        let crc = buffer::crc32c(!0, &bytes[..used as usize]);
        let ptr = |start| PagePtr { runs: vec![Run { start, count: 1 }], copy: vec![], bytes: used, crc };
        let (first, second) = (ptr(40_000), ptr(40_001));
        let stands = Page::decode(&bytes.slice(0..used as usize)).expect("a page");
        store.tables.pages.insert(first.clone(), Arc::new(stands));
        store.tables.pages.replace(&leaf, vec![(low.clone(), first), (middle.clone(), second)]);
        store.tables.pages.on_bad(leaf, StoreError::Damaged("a page".to_owned()));
        let mut from = low.clone();
        let (none, mut passed, mut found) = (Layer::new(), Vec::new(), Vec::new());
        while let Ok(Some((key, _))) = store.tables.next_readable(&none, &from, None, &mut passed) {
            from = store::keys::joined(&key, &[0]);
            found.push(key);
        }
        let expected = (0..KEYS).map(key).filter(|key| *key >= low && (*key < middle || *key > last));
        assert!(found.into_iter().eq(expected));
        assert_eq!(passed.len(), 1);
        assert!(passed[0].0.low == middle && passed[0].0.high.as_ref().is_some_and(|high| *high > last));
    }

    #[test]
    fn what_stands_for_a_replaced_leaf_has_what_the_leaf_had_with_the_changes() {
        let (mut most, mut stranded) = (0, 0);
        for seed in 0..40 {
            let (mut random, mut store) = (SplitMix64::new(seed), Store::new());
            let mut model: BTreeMap<Key, Piece> = BTreeMap::new();
            for round in 0..6 {
                // Pages grow, are split, emptied, and joined with others.
                let (grows, near) = (round % 3 < 2, random.below(KEYS - 500));
                for _ in 0..random.below(1500) {
                    let n = if random.one_in(2) { random.below(KEYS) } else { near + random.below(500) };
                    let bytes = vec![round as u8; random.below(300) as usize];
                    let value = (grows || random.one_in(5)).then(|| Piece::from(bytes));
                    match &value {
                        Some(value) => drop(model.insert(key(n), value.clone())),
                        None => drop(model.remove(&key(n))),
                    }
                    store.tables.apply(layer_of([(key(n), value)]));
                }
                store.tables.freeze();
                let bad = random.one_in(3).then(|| store.some_leaf(&mut random)).flatten();
                if let Some(bad) = &bad {
                    store.tables.pages.remove(bad);
                    store.tables.pages.on_bad(bad.clone(), StoreError::Damaged("a page".to_owned()));
                }
                // What it is before the pass it is to be throughout.
                let asked: Vec<Search> = (0..60).map(|_| some_search(&mut random)).collect();
                let expected: Vec<Found> = asked.iter().map(|search| store.find(*search)).collect();
                let mut pass = Pass::new(!store.tables.stranded.is_empty());
                let (mut rest, mut made) = (None, Vec::new());
                let tree = loop {
                    let tree = store.step(&mut pass, &mut rest);
                    made.append(&mut pass.made);
                    let stands = |c: &&Cached| matches!(c.held, Held::Successors(_));
                    most = most.max(store.tables.pages.cached.iter().map(|(_, c)| c).filter(stands).count());
                    for _ in 0..4 {
                        let n = random.below(asked.len() as u64) as usize;
                        let found = store.find(asked[n]);
                        assert_eq!(found, expected[n], "seed {seed}, round {round}: {:?}", asked[n]);
                        if random.one_in(2) {
                            let bytes = store.tables.pages.bytes();
                            let part = if random.one_in(8) { bytes + 1 } else { 20_000 };
                            let clock = store.tables.pages.clock();
                            store.tables.pages.shrink(bytes.saturating_sub(random.below(part)), clock);
                        }
                    }
                    if let Some(tree) = tree {
                        break tree;
                    }
                };
                // They are on the device from now on.
                store.disk.extend(made.into_iter().map(|made| (made.ptr, made.bytes)));
                store.tables.tree = tree;
                for ptr in pass.old {
                    store.tables.pages.remove(&ptr);
                    store.space.give_back(ptr.blocks());
                    store.disk.remove(&ptr);
                }
                let (keys, bytes) = rest.map(|rest| (rest.keys, rest.bytes)).unwrap_or_default();
                stranded += keys.len();
                store.tables.keep_stranded(keys, bytes);
                store.tables.thaw();
                store.tables.pages.forget_bad();
                let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_eq!(store.find(Search::Range(0, KEYS)), Ok(all), "seed {seed}, round {round}");
                let bytes: u64 = store.tables.pages.cached.iter().map(|(_, cached)| cached.bytes).sum();
                assert_eq!(store.tables.pages.bytes(), bytes);
            }
        }
        assert!(most > 10, "others stood for {most} leaves at most");
        assert!(stranded > 100, "{stranded} changes were stranded");
    }
}
