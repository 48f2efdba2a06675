//! The store: a shard's parts, and how it is driven.

use std::collections::{BTreeMap, VecDeque};

use blockdev::{DeviceError, DeviceId, DeviceQueue};
use store::{
    ByMedium, CollectionId, Completion, Compression, CompressionAlgorithm, FailedAt, FreeSpace, MemoryPool,
    ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreMemory, StoreShard, Token, Transaction, Tuning,
    Waker,
};
use types::{Errno, GHObject, PoolId, UTime};
use wal::{Log, Opening};

use crate::bitmap::{Run, runs_of};
use crate::cache::DataCache;
use crate::capacity::Growth;
use crate::checkpoint::Checkpoint;
use crate::commit::{Flight, Pending};
use crate::context::{Contents, NOTHING_FETCHED};
use crate::fetch::{OpenRead, PageRead};
use crate::inbox::{Inbox, Taken};
use crate::io::Io;
use crate::layout::{BLOCK, Counters, ShardLayout};
use crate::leftovers::Leftovers;
use crate::one_place::OnePlace;
use crate::packer::Packer;
use crate::page::PagePtr;
use crate::peeked::Peeked;
use crate::planted::Bug;
use crate::pool_use::PoolUse;
use crate::purge::Purge;
use crate::read::Answer;
use crate::seal::Seal;
use crate::space::Space;
use crate::stop::Stop;
use crate::tree::Tables;

/// What a shard is tuned by.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Blocks that a transaction with at most so many bytes of data overwrites stay where they are: their contents go to the log,
    /// and to their places later. One with more writes to new blocks, beside the log. With nothing else under way the log takes
    /// contents of new blocks up to this, too: that is one write.
    pub prefer_deferred_bytes: u64,
    /// The log takes contents of new blocks up to this in any case.
    pub new_deferred_bytes: ByMedium,
    /// Memory for data and for pages of the tree, bytes. Half of it is the pages', if they need it.
    pub cache_bytes: u64,
    /// A checkpoint begins when changes take so many bytes of memory (or the log is half full). While it is under way there
    /// may be twice as many new ones.
    pub changes_bytes_max: u64,
    /// Pages that a checkpoint writes in one turn, at most: it writes fewer while no one waits for it.
    pub pages_per_turn: usize,
    /// Tells the device which blocks are not needed any more, where at least [`DISCARDED_BLOCKS_MIN`] neighbours are not.
    pub discard: bool,
}

/// Fewer neighbours are not discarded: a device works by larger units.
pub const DISCARDED_BLOCKS_MIN: u32 = 16;

impl Options {
    /// Options for a shard that may take so much memory. Blocks whose contents are in the log alone are not counted: the log
    /// bounds them.
    pub fn of_memory(bytes: u64) -> Self {
        // Changes: those of a checkpoint, twice as many new ones.
        let changes_bytes_max = (bytes / 12).clamp(1 << 20, 64 << 20);
        let cache_bytes = bytes.saturating_sub(3 * changes_bytes_max).max(1 << 20);
        Self { cache_bytes, changes_bytes_max, ..Self::default() }
    }

    /// Options for each of so many shards, which share the memory of these.
    pub fn shared_by(self, shards: u32) -> Self {
        let shards = u64::from(shards.max(1));
        Self {
            cache_bytes: self.cache_bytes / shards,
            changes_bytes_max: self.changes_bytes_max / shards,
            ..self
        }
    }
}

/// What a shard has in memory, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    pub pages: u64,
    pub data: u64,
    /// Changes that are not in the tree.
    pub changes: u64,
    /// Blocks that are in the log and not in their places.
    pub deferred: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefer_deferred_bytes: 32 << 10,
            new_deferred_bytes: ByMedium { hdd: (64 << 10) - 1, ssd: 0 },
            cache_bytes: 64 << 20,
            changes_bytes_max: 32 << 20,
            pages_per_turn: 32,
            discard: false,
        }
    }
}

/// What a request to the device is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// The log record in flight.
    Group,
    /// What lies beside the log of the group with this number.
    Beside(u64),
    Checkpoint,
    /// A part of a page of the tree, by its number.
    Page(PagePtr, usize),
    /// Blocks for a request that waits.
    Fetch {
        waiter: u64,
        first: u64,
        count: u64,
    },
    /// This extent of a read, which the cache keeps or not.
    Read {
        id: u64,
        at: usize,
        keeps: bool,
    },
    /// Blocks that nothing needs.
    Discard(Run),
    /// The superblock of an opening, or of a store that is closed in order.
    Seal,
}

/// A device's error as the store's.
pub fn io_error(what: &'static str, error: &DeviceError) -> StoreError {
    StoreError::Io { what, errno: error.errno(), at: failed_at(error) }
}

fn failed_at(error: &DeviceError) -> Option<Box<FailedAt>> {
    let (device, byte) = match error {
        // A flush is of no byte.
        DeviceError::Io { device, offset, .. } => (*device, Some(*offset).filter(|offset| *offset > 0)),
        DeviceError::Poisoned { device } | DeviceError::Closed { device } => (*device, None),
        _ => return None,
    };
    Some(Box::new(FailedAt { is_log: device == DeviceId::Wal, byte, said: None }))
}

/// A device's error of a read as the store's: a sector that can't be read says nothing of the others, unlike a device that is gone.
pub fn read_error(what: &'static str, error: &DeviceError) -> StoreError {
    match error {
        // Linux gives ENODATA for a bad sector and EILSEQ for a bad checksum, and EIO for these where a driver does not say more.
        DeviceError::Io { errno: errno @ (Errno::EIO | Errno::ENODATA | Errno::EILSEQ), .. } => {
            StoreError::Unreadable { what, errno: *errno, at: failed_at(error) }
        }
        other => io_error(what, other),
    }
}

/// A handle on one shard of a block store: a store of one shard to its user.
pub struct BlockStore<Q: DeviceQueue> {
    pub(crate) io: Io<Q, Purpose>,
    pub(crate) layout: ShardLayout,
    /// [`crate::Label::id`] and the shard's number.
    pub(crate) names: (u64, u32),
    /// Those of the superblock: see [`crate::layout::features`].
    pub(crate) features: u64,
    pub(crate) options: Options,
    pub(crate) tables: Tables,
    /// Whether the request that is tried has waited for the device before.
    pub(crate) is_retry: bool,
    pub(crate) contents: Contents,
    pub(crate) space: Space,
    pub(crate) packer: Packer,
    pub(crate) pool_use: PoolUse,
    pub(crate) growth: Growth,
    pub(crate) counters: Counters,
    /// Those of the superblock: as of its tree.
    pub(crate) published: Counters,
    /// Blocks of the tree's pages.
    pub(crate) tree_blocks: u64,
    pub(crate) log: Log,
    pub(crate) opening: Opening,
    pub(crate) generation: u64,
    pub(crate) pending: Pending,
    /// Blocks that are free once the device has discarded them.
    pub(crate) discarding_blocks: u64,
    pub(crate) flight: Option<Flight>,
    /// Records whose payload lies beside the log, oldest first, and its blocks.
    pub(crate) payloads: VecDeque<(u64, Vec<u64>)>,
    /// An empty record is wanted, so that the log says that what came before it is durable.
    pub(crate) mark_wanted: bool,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) checkpoint_wanted: bool,
    /// Someone wants the log empty. A checkpoint may leave a mark there that it needed itself, and removals go on beside it.
    pub(crate) empties_log: bool,
    pub(crate) leftovers: Leftovers,
    pub(crate) inbox: Inbox,
    pub(crate) purge: Purge,
    /// Something was taken that no turn has begun.
    pub(crate) unbegun: bool,
    /// Pages that a checkpoint may still write in this turn.
    pub(crate) steps_left: usize,
    pub(crate) closed: BTreeMap<CollectionId, Token>,
    pub(crate) peeked: Peeked,
    pub(crate) reads: BTreeMap<u64, OpenRead>,
    pub(crate) next_read: u64,
    pub(crate) page_reads: BTreeMap<PagePtr, PageRead>,
    pub(crate) done: Vec<Completion>,
    pub(crate) ready: Vec<Completion>,
    pub(crate) stopped: bool,
    pub(crate) seal: Option<Seal>,
    /// What an opening passed over to read what can be read: see [`BlockStore::damage`].
    pub(crate) damage: Option<Vec<String>>,
    /// See [`BlockStore::unread_superblocks`].
    pub(crate) unread_superblocks: Vec<u64>,
    /// Pages of the tree that can be read in one of their two places alone.
    pub(crate) one_place: OnePlace,
    /// Why it stopped, while no refusal has said so: the next one does.
    pub(crate) untold: Option<StoreError>,
    /// Blocks that the newest durable record has beside it.
    #[cfg(feature = "planted")]
    pub(crate) newest: Vec<Run>,
    /// A check that waits for pages needs those that it has used since the clock of the pages was this.
    pub(crate) held_from: Option<u64>,
    /// Pages leave memory that nothing needs.
    drops_caches: bool,
    now: UTime,
}

impl<Q: DeviceQueue> BlockStore<Q> {
    pub(crate) fn new(
        io: Io<Q, Purpose>,
        layout: ShardLayout,
        names: (u64, u32),
        options: Options,
        log: Log,
        opening: Opening,
    ) -> Self {
        let packer = Packer::new(io.is_rotational());
        let contents = Contents { cache: DataCache::of(io.is_rotational()), ..Contents::default() };
        let mut tables = Tables::default();
        tables.filter(options.changes_bytes_max);
        tables.recent.get_mut().fit(options.cache_bytes);
        Self {
            io,
            space: Space::new(&layout.ranges),
            layout,
            names,
            features: 0,
            options,
            tables,
            is_retry: false,
            contents,
            packer,
            pool_use: PoolUse::default(),
            growth: Growth::None,
            counters: Counters::default(),
            published: Counters::default(),
            tree_blocks: 0,
            log,
            opening,
            generation: 0,
            pending: Pending::default(),
            discarding_blocks: 0,
            flight: None,
            payloads: VecDeque::new(),
            mark_wanted: false,
            checkpoint: None,
            checkpoint_wanted: false,
            empties_log: false,
            leftovers: Leftovers::default(),
            inbox: Inbox::default(),
            purge: Purge::default(),
            unbegun: false,
            steps_left: 0,
            closed: BTreeMap::new(),
            peeked: Peeked::default(),
            reads: BTreeMap::new(),
            next_read: 0,
            page_reads: BTreeMap::new(),
            done: Vec::new(),
            ready: Vec::new(),
            stopped: false,
            seal: None,
            damage: None,
            unread_superblocks: Vec::new(),
            one_place: OnePlace::default(),
            untold: None,
            #[cfg(feature = "planted")]
            newest: Vec::new(),
            held_from: None,
            drops_caches: false,
            now: UTime::default(),
        }
    }

    /// Switches a defect on.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, bug: Bug) {
        self.io.planted.bug = Some(bug);
    }

    /// Has the shard take at most so many bytes of memory from its next turn on, also for what is in the log alone: see
    /// [`Options::of_memory`].
    pub fn limit_memory(&mut self, bytes: u64) {
        let of = Options::of_memory(bytes.saturating_sub(self.log.layout().bytes));
        (self.options.cache_bytes, self.options.changes_bytes_max) = (of.cache_bytes, of.changes_bytes_max);
        self.tables.filter(of.changes_bytes_max);
        self.tables.recent.get_mut().fit(of.cache_bytes);
    }

    /// Begins a checkpoint as soon as it can: what is in the log goes to its place. [`BlockStore::is_clean`] says when.
    pub fn request_checkpoint(&mut self) {
        self.checkpoint_wanted = true;
        self.empties_log = true;
    }

    /// Whether the log is empty: an opening has nothing to replay.
    pub fn is_clean(&self) -> bool {
        self.log.used_bytes() == 0
            && self.pending.is_empty()
            && self.inbox.is_empty()
            && !self.purge.is_wanted()
    }

    /// Whether a checkpoint is under way, or begins soon.
    pub fn has_checkpoint(&self) -> bool {
        self.checkpoint.is_some() || self.checkpoint_wanted
    }

    /// Whether the device has failed, so that nothing comes to its end any more.
    pub fn has_failed(&self) -> bool {
        self.stopped
    }

    /// Why the store stopped, if it did and nothing has said so yet.
    pub(crate) fn failure(&mut self) -> Option<StoreError> {
        self.stopped.then(|| self.untold.take().unwrap_or(StoreError::Stopped))
    }

    /// Whether the log that was to be emptied ([`BlockStore::request_checkpoint`]) is, and no checkpoint follows; `None` while it is
    /// under way: turn the store and ask again.
    ///
    /// # Errors
    /// Why the store stopped before. What was acknowledged is in the log.
    pub fn emptied(&mut self) -> Option<Result<(), StoreError>> {
        if let Some(error) = self.failure() {
            return Some(Err(error));
        }
        (self.is_clean() && !self.has_checkpoint()).then_some(Ok(()))
    }

    /// What was found damaged by an opening that was to go on in spite of it ([`crate::Opener::in_spite_of_damage`]), a sentence
    /// each. `None`: no such opening. It counts no blocks, and takes no transactions.
    pub fn damage(&self) -> Option<&[String]> {
        self.damage.as_deref()
    }

    pub fn memory(&self) -> Memory {
        Memory {
            pages: self.tables.pages.bytes() + self.tables.recent.borrow().bytes(),
            data: self.contents.cache.bytes(),
            changes: self.tables.active_bytes + self.tables.frozen_bytes + self.leftovers.changes_bytes(),
            deferred: self.deferred_bytes(),
        }
    }

    /// Changes that are not in the tree, those of the last checkpoint included that have not gone yet.
    fn changes_count(&self) -> usize {
        let frozen = self.tables.frozen.as_ref().map_or(0, |frozen| frozen.len());
        self.tables.active().len() + frozen + self.leftovers.changes_count()
    }

    /// Bytes of contents that are in the log and not in their places.
    pub(crate) fn deferred_bytes(&self) -> u64 {
        (self.contents.deferred.len() + self.contents.frozen.len()) as u64 * BLOCK
    }

    /// Where the device has a byte of an object, as far as memory knows; of a compressed one a byte that it depends on.
    pub fn locate(&mut self, collection: CollectionId, object: &GHObject, offset: u64) -> Option<u64> {
        let layout = self.layout.clone();
        let context = self.context(&NOTHING_FETCHED);
        let found = context.find(collection, object).ok()??;
        let block = offset / BLOCK;
        let mapped = context.mapped(&found.onode, block, block + 1).ok()?;
        mapped.slots.first().map(|(_, slot)| layout.block_offset(slot.block) + offset % BLOCK)
    }

    /// Whether bytes that go bad at a place of the device are noticed there. What lies beside the last record of the log is
    /// not: a replay takes it for what a power loss left, and drops the record.
    #[cfg(feature = "planted")]
    pub fn is_proven(&self, offset: u64) -> bool {
        let is_at = |block: u64| self.layout.block_offset(block) == offset - offset % BLOCK;
        let at = |run: &Run| run.blocks().any(is_at);
        let in_flight = self.flight.iter().flat_map(|flight| flight.placed());
        !self.newest.iter().chain(in_flight).chain(self.pending.placed()).any(at)
    }

    /// How a byte of an object is compressed, and the bytes of the blob that it is in; `None` if it is not, as far as memory
    /// knows.
    pub fn compression_at(
        &mut self,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
    ) -> Option<(CompressionAlgorithm, u32)> {
        let context = self.context(&NOTHING_FETCHED);
        let found = context.find(collection, object).ok()??;
        let block = offset / BLOCK;
        let mapped = context.mapped(&found.onode, block, block + 1).ok()?;
        mapped.blobs.first().map(|blob| (blob.algorithm, blob.bytes))
    }

    /// The number of the oldest read under way.
    pub(crate) fn reads_from(&self) -> u64 {
        self.reads.first_key_value().map_or(u64::MAX, |(id, _)| *id)
    }

    fn release(&mut self) {
        if self.checkpoint.as_ref().is_some_and(Checkpoint::holds_blocks) {
            return;
        }
        let early = self.io.planted.is(Bug::BlocksComeBackEarly);
        let marked = if early { u64::MAX } else { self.log.marked() };
        let mut freed = self.space.release(marked, self.reads_from());
        if freed.is_empty() {
            return;
        }
        if self.options.discard && self.io.discards() {
            freed.sort_unstable();
            let (large, small): (Vec<Run>, Vec<Run>) =
                runs_of(freed).into_iter().partition(|run| run.count >= DISCARDED_BLOCKS_MIN);
            for run in large {
                self.discarding_blocks += u64::from(run.count);
                let offset = self.layout.block_offset(run.start);
                self.io.discard(Purpose::Discard(run), offset, u64::from(run.count) * BLOCK);
            }
            freed = small.into_iter().flat_map(Run::blocks).collect();
        }
        self.space.give_back(freed);
        self.wake_for_room();
    }

    /// Blocks are free when the device is done with them, also if it failed: a discard promises nothing.
    pub(crate) fn on_discarded(&mut self, run: Run) {
        self.discarding_blocks -= u64::from(run.count);
        self.space.give_back(run.blocks());
        self.wake_for_room();
    }

    /// Lets the device go on, and takes what it has done: for the opening.
    pub(crate) fn drive(&mut self, now: UTime) {
        self.now = self.now.max(now);
        self.io.queue().turn(now);
        self.pump();
    }

    /// A check begins, or goes on: it uses pages from now on, by the clock that is returned.
    pub(crate) fn begin_check(&mut self) -> u64 {
        self.held_from = None;
        self.tables.pages.clock()
    }

    /// Reads pages for a check, which goes on between two turns. Until then the store keeps what the check has used since it
    /// began or went on, what it reads now, and which pages it could not read. It submits the reads at once: its driver may sleep
    /// until the device calls.
    pub(crate) fn read_for_check(&mut self, pages: Vec<PagePtr>, began: u64) {
        self.read_pages(pages);
        self.held_from = Some(began);
        self.io.submit(self.now);
    }

    /// Does everything that can be done now.
    fn work(&mut self) {
        loop {
            let pumped = self.pump();
            self.release();
            self.run_inbox();
            if self.stopped {
                self.ready.append(&mut self.pending.open.outcomes);
            }
            self.purge_work();
            self.submit_group();
            self.checkpoint_work();
            // A checkpoint may want a mark.
            self.submit_group();
            self.io.submit(self.now);
            if !pumped {
                break;
            }
        }
        self.ready.append(&mut self.done);
        if self.page_reads.is_empty() && self.held_from.is_none() {
            self.tables.pages.forget_bad();
        }
        let checkpoint = self.checkpoint.as_ref().map_or(u64::MAX, Checkpoint::needs_pages_from);
        let needed = [
            self.inbox.needs_pages_from(),
            self.purge.needs_pages_from(),
            checkpoint,
            self.held_from.unwrap_or(u64::MAX),
        ];
        let keep_from = needed.into_iter().fold(u64::MAX, u64::min);
        let cache = match self.drops_caches {
            true => 0,
            false => self.options.cache_bytes.saturating_sub(self.tables.recent.get_mut().bytes()),
        };
        let pages = self.tables.pages.bytes().min(cache / 2);
        self.contents.cache.shrink(cache - pages);
        // Data that was just used stays for a turn or more, whatever the bound is.
        let before = self.tables.pages.bytes();
        self.tables.pages.shrink(cache.saturating_sub(self.contents.cache.bytes()).max(pages), keep_from);
        // What is left is needed, or goes in the next turn.
        self.drops_caches &= self.tables.pages.bytes() < before;
    }
}

impl<Q: DeviceQueue> ObjectStore for BlockStore<Q> {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.take(Taken::Transaction(txn, token));
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.take(Taken::Read(request, token));
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        if self.inbox.concerns(request) {
            return None;
        }
        match self.context(&NOTHING_FETCHED).perform(request) {
            Ok(Answer::Done(outcome)) => Some(Ok(outcome)),
            Ok(Answer::StatFs) => Some(Ok(ReadOutcome::StatFs(self.statfs()))),
            Err(Stop::Error(error)) => Some(Err(error)),
            Ok(Answer::Data(read)) => {
                self.peeked.keep(request, read);
                None
            }
            Err(_) => None,
        }
    }

    fn touch(&mut self, hash: u32) {
        self.tables.recent.get_mut().touch(hash);
    }

    fn acknowledge(&mut self, refused: Token) {
        // It completes nothing: what turns have begun goes on without another one.
        let unbegun = self.unbegun;
        self.take(Taken::Acknowledge(refused));
        self.unbegun = unbegun;
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, _objects_max: usize, token: Token) {
        self.take(Taken::Rehome(collection, to, token));
    }

    fn turn(&mut self, now: UTime) {
        self.now = self.now.max(now);
        self.unbegun = false;
        self.steps_left = self.steps_of_a_turn();
        // A read follows its peek before the next turn, or not at all.
        self.peeked.clear();
        self.leftovers.drop_some(&mut self.tables.pages);
        self.io.queue().turn(now);
        self.work();
    }

    fn deadline(&self) -> Option<UTime> {
        let own = self.has_work().then_some(self.now);
        [own, self.io.deadline()].into_iter().flatten().min()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        // What no turn has begun must not complete.
        if !self.unbegun {
            self.work();
        }
        out.append(&mut self.ready);
    }

    fn set_waker(&mut self, waker: Waker) {
        self.io.queue().set_waker(waker);
    }

    fn set_memory(&mut self, bytes: u64) {
        self.limit_memory(bytes);
    }

    fn memory_pools(&self) -> StoreMemory {
        let Memory { data, changes, deferred, .. } = self.memory();
        let recent = self.tables.recent.borrow();
        let (onodes, onode_bytes) = recent.onodes();
        let pages = &self.tables.pages;
        let (parts, allocation_bytes) = self.space.memory();
        let pool = |items: usize, bytes| MemoryPool::of(items as u64, bytes);
        StoreMemory {
            allocation: MemoryPool::of(parts, allocation_bytes),
            data: pool(self.contents.cache.count(), data),
            onodes: pool(onodes, onode_bytes),
            metadata: pool(pages.count() + recent.maps.count(), pages.bytes() + recent.maps.bytes()),
            other: pool(recent.vacancies.count(), recent.vacancies.bytes()),
            changes: pool(self.changes_count(), changes),
            deferred: MemoryPool::of(deferred / BLOCK, deferred),
        }
    }

    fn set_compression(&mut self, pool: Option<PoolId>, how: Option<Compression>) {
        self.packer.set(pool, how);
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        let Tuning { discard, new_deferred_bytes } = tuning;
        (self.options.discard, self.options.new_deferred_bytes) = (discard, new_deferred_bytes);
    }

    fn free_space(&self) -> Option<FreeSpace> {
        // Opened in spite of damage, it has counted no blocks.
        self.damage.is_none().then(|| self.space.free_space())
    }

    fn drop_caches(&mut self) -> bool {
        self.contents.cache = DataCache::of(self.io.is_rotational());
        self.tables.recent.get_mut().forget();
        self.drops_caches = true;
        true
    }

    fn shards(&self) -> u32 {
        1
    }

    fn shard_of(&self, _collection: CollectionId) -> StoreShard {
        StoreShard(0)
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Whether a turn would do something though nothing comes from outside.
    fn has_work(&self) -> bool {
        !self.leftovers.is_empty() || !self.stopped && (self.checkpoint_runs() || self.purge_runs())
    }
}
