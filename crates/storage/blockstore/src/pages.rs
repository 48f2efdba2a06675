//! Pages of the tree in memory, found by their pointers. Those that were used longest ago leave first.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;
use store::StoreError;
use types::Slab;

use crate::ages::{Ages, Used};
use crate::block_index::BlockIndex;
use crate::layout::BLOCK;
use crate::page::{Page, PagePtr};
use crate::stop::{Attempt, Stop, damaged};

#[derive(Debug)]
struct Cached {
    ptr: PagePtr,
    /// Its pointer as pages above have it: with one run it has 24 bytes.
    encoded: SmallVec<[u8; 24]>,
    page: Arc<Page>,
    used: Used,
    /// Of memory: the page's blocks, where its entries are, and what leads to it.
    bytes: u64,
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
        match self.at(first_block(ptr)) {
            Some(cached) if cached.ptr == *ptr => Ok(self.used(cached)),
            _ => Err(self.missing(ptr)),
        }
    }

    /// The same by an encoded pointer, which is decoded only if the page is not there.
    ///
    /// # Errors
    /// As [`Pages::get`], and the pointer is none.
    pub fn find(&self, encoded: &[u8]) -> Attempt<&Arc<Page>> {
        match self.at(first_block_encoded(encoded)) {
            Some(cached) if cached.encoded[..] == *encoded => Ok(self.used(cached)),
            _ => Err(self.missing(&PagePtr::decode(encoded).map_err(damaged)?)),
        }
    }

    fn at(&self, block: u64) -> Option<&Cached> {
        self.cached.get(self.places.get(block)?)
    }

    fn used<'a>(&self, cached: &'a Cached) -> &'a Arc<Page> {
        self.ages.touch(&cached.used);
        &cached.page
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
        let place = self.cached.insert(Cached { ptr, encoded, page, used, bytes });
        if let Some(old) = self.places.set(block, place) {
            self.forget(old);
        }
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

    /// Drops the pages that were used longest ago until at most so many bytes are left. Pages that were used since the
    /// clock was `keep_from` stay: a request that waits for another page needs them together.
    pub fn shrink(&mut self, bytes_max: u64, keep_from: u64) {
        while self.bytes > bytes_max {
            let Self { cached, places, .. } = self;
            let find = |block| cached.get(places.get(block)?);
            let oldest = self.ages.oldest(keep_from, |block| Some(&find(block)?.used));
            let Some(place) = oldest.and_then(|block| self.places.remove(block)) else { return };
            self.forget(place);
        }
    }
}
