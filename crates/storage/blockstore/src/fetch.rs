//! What is read from the device: pages of the tree, blocks for transactions, data for reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use blockdev::{DeviceError, DeviceQueue, Done};
use buffer::{Piece, PieceMut, Rope};
use store::{Completion, ReadOutcome, StoreError, Token};

use crate::bitmap::{Run, runs_of};
use crate::blocks::check_blocks;
use crate::codec::Codec;
use crate::extents::cut;
use crate::io::Io;
use crate::layout::{BLOCK, ShardLayout};
use crate::page::{Key, Page, PagePtr};
use crate::planted::Bug;
use crate::read::DataRead;
use crate::store::{BlockStore, Purpose, read_error};

/// Who waits for something from the device: a request by its number, or the work on what is dead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Waiter {
    Request(u64),
    Purge,
}

/// A page that is being read.
#[derive(Default)]
pub struct PageRead {
    parts: Vec<Option<Piece>>,
    error: Option<DeviceError>,
    waiters: Vec<Waiter>,
    what: PageOrCopy,
    /// [`BlockStore::generation`] when it was asked for: the tree of a later one may have the page no more.
    generation: u64,
}

/// What of a page is read.
#[derive(Default)]
enum PageOrCopy {
    #[default]
    Page,
    /// The page could not be read.
    CopyInstead,
    /// Only whether it can be read is asked: the lowest key that the page may have.
    CopyToCheck(Key),
}

/// A read of data under way.
pub struct OpenRead {
    token: Token,
    read: DataRead,
    requests: usize,
    /// The extents that came, and whether the cache keeps each.
    came: Vec<(usize, bool)>,
    error: Option<DeviceError>,
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Reads pages for work that tries again whenever something was read.
    pub(crate) fn read_pages(&mut self, pages: impl IntoIterator<Item = PagePtr>) {
        for ptr in pages {
            self.read_page(ptr);
        }
    }

    /// Reads pages for a waiter. Returns how many of them it waits for.
    pub(crate) fn read_pages_for(&mut self, pages: Vec<PagePtr>, waiter: Waiter) -> usize {
        let mut waits = 0;
        for ptr in pages {
            let page = self.read_page(ptr);
            if !page.waiters.contains(&waiter) {
                page.waiters.push(waiter);
                waits += 1;
            }
        }
        waits
    }

    fn read_page(&mut self, ptr: PagePtr) -> &mut PageRead {
        let io = &mut self.io;
        let (layout, generation) = (&self.layout, self.generation);
        self.page_reads.entry(ptr).or_insert_with_key(|ptr| {
            let parts = read_runs(io, layout, ptr, &ptr.runs);
            PageRead { parts, generation, ..PageRead::default() }
        })
    }

    /// Reads copies of pages, none of which is being read, and notes which can't be. [`BlockStore::checks_copies`] says when that is
    /// done.
    pub(crate) fn check_copies(&mut self, pages: impl IntoIterator<Item = (PagePtr, Key)>) {
        for (ptr, low) in pages {
            let parts = read_runs(&mut self.io, &self.layout, &ptr, &ptr.copy);
            let what = PageOrCopy::CopyToCheck(low);
            let old = self.page_reads.insert(ptr, PageRead { parts, what, ..PageRead::default() });
            debug_assert!(old.is_none(), "a page is read for one purpose at a time");
        }
    }

    pub(crate) fn checks_copies(&self) -> bool {
        self.page_reads.values().any(|read| matches!(read.what, PageOrCopy::CopyToCheck(_)))
    }

    /// Reads blocks for a request. Returns how many completions it waits for.
    pub(crate) fn fetch(&mut self, waiter: u64, mut blocks: Vec<u64>) -> usize {
        blocks.sort_unstable();
        blocks.dedup();
        let step = self.io.request_bytes_max() / BLOCK;
        let mut requests = 0;
        for run in runs_of(blocks) {
            let end = run.blocks().end;
            for first in run.blocks().step_by(step as usize) {
                let count = (end - first).min(step);
                let purpose = Purpose::Fetch { waiter, first, count };
                self.io.read(purpose, self.layout.block_offset(first), (count * BLOCK) as usize);
                requests += 1;
            }
        }
        requests
    }

    pub(crate) fn read_data(&mut self, mut read: DataRead, token: Token) {
        let id = self.next_read;
        self.next_read += 1;
        cut(&mut read.extents, (self.io.request_bytes_max() / BLOCK) as usize);
        let mut requests = 0;
        for (at, extent) in read.extents.iter().enumerate().filter(|(_, extent)| extent.bytes.is_none()) {
            let block = read.first_block(at);
            let bytes = extent.slots.len() * BLOCK as usize;
            let keeps = read.keep && self.contents.cache.keeps(block, bytes);
            let buffer = if keeps { PieceMut::to_fill(bytes) } else { PieceMut::to_receive(bytes) };
            self.io.read_into(Purpose::Read { id, at, keeps }, self.layout.block_offset(block), buffer);
            requests += 1;
        }
        self.reads.insert(id, OpenRead { token, read, requests, came: Vec::new(), error: None });
    }

    /// Takes what the device has done.
    pub(crate) fn pump(&mut self) -> bool {
        let completions = self.io.completions();
        let any = !completions.is_empty();
        for (purpose, result) in completions {
            match purpose {
                Purpose::Group => self.on_group(result),
                Purpose::Beside(number) => self.on_beside(number, result),
                Purpose::Checkpoint => self.on_checkpoint(result),
                Purpose::Page(ptr, part) => self.on_page(ptr, part, result),
                Purpose::Fetch { waiter, first, count } => self.on_fetched(waiter, first, count, result),
                Purpose::Read { id, at, keeps } => self.on_read(id, at, keeps, result),
                Purpose::Discard(run) => self.on_discarded(run),
                Purpose::Seal => self.on_seal(result),
            }
        }
        any
    }

    fn on_page(&mut self, ptr: PagePtr, part: usize, result: Result<Done, DeviceError>) {
        // It stays until the last of its requests is answered, and each is answered once.
        let Some(page) = self.page_reads.get_mut(&ptr) else { return };
        match result {
            Ok(Done::Read(buffer)) => page.parts[part] = Some(buffer.freeze()),
            Ok(_) => {}
            Err(error) => {
                page.parts[part] = Some(Piece::empty());
                page.error = Some(error);
            }
        }
        if page.parts.iter().any(Option::is_none) {
            return;
        }
        let Some(read) = self.page_reads.remove(&ptr) else { return };
        let PageRead { parts, error, waiters, what, generation } = read;
        match (page_of(&ptr, parts, error), what) {
            (Ok(_), PageOrCopy::CopyToCheck(_)) => {}
            (Err(_), PageOrCopy::CopyToCheck(low)) => self.one_place.note(ptr, low),
            (Err(_), PageOrCopy::Page) if !ptr.copy.is_empty() => {
                let parts = read_runs(&mut self.io, &self.layout, &ptr, &ptr.copy);
                let what = PageOrCopy::CopyInstead;
                self.page_reads.insert(ptr, PageRead { parts, error: None, waiters, what, generation });
                return;
            }
            (Ok(page), what) => {
                if matches!(what, PageOrCopy::CopyInstead) && generation == self.generation {
                    let low = if page.len() > 0 { Key::from_slice(page.key(0)) } else { Key::new() };
                    self.one_place.note(ptr.clone(), low);
                }
                self.tables.pages.insert(ptr, Arc::new(page));
            }
            (Err(error), _) => self.tables.pages.on_bad(ptr, error),
        }
        for waiter in waiters {
            match waiter {
                Waiter::Request(number) => self.inbox.on_device(number, BTreeMap::new()),
                Waiter::Purge => self.purge.on_page(),
            }
        }
    }

    fn on_fetched(&mut self, waiter: u64, first: u64, count: u64, result: Result<Done, DeviceError>) {
        let mut fetched = BTreeMap::new();
        match result {
            Ok(Done::Read(buffer)) => {
                let bytes = buffer.freeze();
                bytes.take_page_sums();
                for (block, at) in (first..).zip((0..bytes.len()).step_by(BLOCK as usize)) {
                    fetched.insert(block, Ok(bytes.slice(at..at + BLOCK as usize)));
                }
            }
            Ok(_) => {}
            Err(error) => {
                let error = read_error("read", &error);
                fetched.extend((first..first + count).map(|block| (block, Err(error.clone()))));
            }
        }
        self.inbox.on_device(waiter, fetched);
    }

    fn on_read(&mut self, id: u64, at: usize, keeps: bool, result: Result<Done, DeviceError>) {
        // It stays until the last of its requests is answered, and each is answered once.
        let Some(open) = self.reads.get_mut(&id) else { return };
        match result {
            Ok(Done::Read(buffer)) => {
                let bytes = buffer.freeze();
                bytes.take_page_sums();
                open.read.extents[at].bytes = Some(bytes);
                open.came.push((at, keeps));
            }
            Ok(_) => {}
            Err(error) => open.error = Some(error),
        }
        open.requests -= 1;
        if open.requests > 0 {
            return;
        }
        let Some(OpenRead { token, read, error, came, .. }) = self.reads.remove(&id) else { return };
        let result = match error {
            Some(error) => Err(read_error("read", &error)),
            None if self.io.planted.is(Bug::ReadsAreUnchecked) => read.finish(&self.packer.codec),
            None => verified(&read, &self.packer.codec),
        };
        if read.keep && result.is_ok() {
            self.cache_read(read, came);
        }
        self.ready.push(Completion::Read { token, result });
    }

    /// Gives the cache what came of a read, or tells it of what it does not keep.
    fn cache_read(&mut self, mut read: DataRead, came: Vec<(usize, bool)>) {
        for (at, keeps) in came {
            let first = read.first_block(at);
            let extent = &mut read.extents[at];
            match extent.bytes.take() {
                Some(bytes) if keeps => self.contents.cache.insert(first, bytes),
                _ => self.contents.cache.pass(first, extent.slots.len() * BLOCK as usize),
            }
        }
    }
}

/// Asks for a page, or for its copy, in parts that the device takes: a page with one long value, or with long keys, is longer than a
/// request may be. Returns a place for each part.
fn read_runs<Q: DeviceQueue>(
    io: &mut Io<Q, Purpose>,
    layout: &ShardLayout,
    ptr: &PagePtr,
    runs: &[Run],
) -> Vec<Option<Piece>> {
    let mut parts = Vec::with_capacity(runs.len());
    for run in runs {
        let offset = layout.block_offset(run.start);
        for (from, len) in io.parts(u64::from(run.count) * BLOCK) {
            io.read(Purpose::Page(ptr.clone(), parts.len()), offset + from, len);
            parts.push(None);
        }
    }
    parts
}

/// What was read of a page, in its parts.
fn page_of(ptr: &PagePtr, parts: Vec<Option<Piece>>, error: Option<DeviceError>) -> Result<Page, StoreError> {
    if let Some(error) = error {
        return Err(read_error("read of a page", &error));
    }
    let mut bytes = Rope::new();
    parts.into_iter().flatten().for_each(|part| bytes.push(part));
    Page::read(ptr, &bytes.to_piece())
        .map_err(|error| StoreError::Damaged(format!("a page of the tree: {error}")))
}

/// A read's bytes, if all of them are what was written.
fn verified(read: &DataRead, codec: &Codec) -> Result<ReadOutcome, StoreError> {
    for extent in &read.extents {
        let slots = &read.mapped.slots[extent.slots.clone()];
        let bytes = extent.bytes.as_ref().filter(|bytes| bytes.len() == slots.len() * BLOCK as usize);
        let bytes = bytes.ok_or_else(|| StoreError::Damaged("a block was not read".to_owned()))?;
        check_blocks(read.collection, &read.object, slots, bytes)?;
    }
    read.finish(codec)
}
