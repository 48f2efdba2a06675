//! The store: requests in order, group commits, completions.

use std::collections::{BTreeMap, VecDeque};

use blockdev::{DeviceError, DeviceQueue, Done, Durability};
use buffer::{Piece, Rope};
use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Rehoming, StatFs, Step, StoreError,
    StoreShard, Token, Transaction, Waker,
};
use types::{GHObject, UTime};
use wal::{Beside, Log, Opening};

use crate::bitmap::runs_of;
use crate::checkpoint::Checkpoint;
use crate::context::{Contents, Context, check_block};
use crate::io::Io;
use crate::layout::{BLOCK, Counters, ShardLayout};
use crate::page::PagePtr;
use crate::read::{Answer, DataRead};
use crate::space::Space;
use crate::stop::Stop;
use crate::tree::Tables;

/// What a shard is tuned by.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A transaction with at most so many bytes of data writes them to the log, and blocks that it overwrites stay where
    /// they are. One with more writes to new blocks, beside the log.
    pub prefer_deferred_bytes: u64,
    /// Memory for pages of the tree, bytes.
    pub cache_bytes: u64,
    /// A checkpoint begins when so many bytes of changes are in memory (or the log is half full).
    pub changes_bytes_max: u64,
    /// Pages that a checkpoint writes in one turn.
    pub pages_per_turn: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefer_deferred_bytes: 32 << 10,
            cache_bytes: 64 << 20,
            changes_bytes_max: 32 << 20,
            pages_per_turn: 32,
        }
    }
}

/// What a request to the device is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// The log record in flight and what lies beside it.
    Group,
    Checkpoint,
    /// A run of a page of the tree, by its number.
    Page(PagePtr, usize),
    /// Blocks from this one on, for the request that waits.
    Fetch(u64),
    /// Blocks of a read from this one of them on.
    Read(u64, usize),
}

/// A request that was taken.
enum Taken {
    Transaction(Transaction, Token),
    Read(ReadRequest, Token),
    Acknowledge(Token),
    Rehome(CollectionId, StoreShard, Token),
}

/// What becomes one record of the log.
#[derive(Default)]
pub struct Group {
    payload: Rope,
    /// Blocks that are written beside the log.
    placed: BTreeMap<u64, Piece>,
    outcomes: Vec<Completion>,
}

impl Group {
    /// Whether it needs no record. It may have refusals, which wait for nothing.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }
}

/// The group whose record is in flight.
struct Flight {
    outcomes: Vec<Completion>,
    /// What it writes beside the log.
    placed: Vec<u64>,
    requests: usize,
    /// Whether a flush is to follow.
    flush: bool,
    error: Option<DeviceError>,
}

/// More of the device, for whoever waits for space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Growth {
    None,
    Wanted,
    Refused,
}

struct PageRead {
    runs: Vec<Option<Piece>>,
    error: Option<DeviceError>,
}

struct OpenRead {
    token: Token,
    read: DataRead,
    requests: usize,
    error: Option<DeviceError>,
}

/// A handle on one shard of a block store: a store of one shard to its user.
pub struct BlockStore<Q: DeviceQueue> {
    pub(crate) io: Io<Q, Purpose>,
    pub(crate) layout: ShardLayout,
    /// [`crate::Label::id`] and the shard's number.
    pub(crate) names: (u64, u32),
    pub(crate) options: Options,
    pub(crate) tables: Tables,
    pub(crate) contents: Contents,
    pub(crate) space: Space,
    growth: Growth,
    pub(crate) counters: Counters,
    /// Blocks of the tree's pages.
    pub(crate) tree_blocks: u64,
    pub(crate) log: Log,
    pub(crate) opening: Opening,
    pub(crate) generation: u64,
    pub(crate) group: Group,
    flight: Option<Flight>,
    /// An empty record is wanted, so that the log says that what came before it is durable.
    pub(crate) mark_wanted: bool,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) checkpoint_wanted: bool,
    inbox: VecDeque<Taken>,
    /// The first of the inbox waits, and nothing has changed since it was tried.
    head_waits: bool,
    /// Blocks that are being read for it.
    fetches: usize,
    /// Something was taken that no turn has begun.
    unbegun: bool,
    closed: BTreeMap<CollectionId, Token>,
    reads: BTreeMap<u64, OpenRead>,
    pub(crate) next_read: u64,
    page_reads: BTreeMap<PagePtr, PageRead>,
    done: Vec<Completion>,
    ready: Vec<Completion>,
    stopped: bool,
    /// A check needs the pages that were read for it.
    pub(crate) pages_held: bool,
    now: UTime,
}

/// Space.
impl<Q: DeviceQueue> BlockStore<Q> {
    /// Metadata counts so many times its bytes: pages that are partly empty, and the old ones while new ones are written.
    pub const METADATA_FACTOR: u64 = 4;

    fn bytes_total(&self) -> u64 {
        let hidden = 64 + self.space.blocks() / 256;
        self.space.blocks().saturating_sub(hidden) * BLOCK
    }

    fn bytes_used(data_blocks: u64, counters: &Counters) -> u64 {
        data_blocks * BLOCK + counters.metadata_bytes * Self::METADATA_FACTOR
    }

    /// What transactions may use in all.
    fn bytes_limit(&self, reserve: bool) -> u64 {
        let total = self.bytes_total();
        if reserve { total } else { total - (total / 64).min(4 << 20) }
    }

    fn statfs(&self) -> StatFs {
        let used = Self::bytes_used(self.space.data_blocks(), &self.counters);
        StatFs {
            bytes_total: self.bytes_total(),
            bytes_used: used,
            bytes_available: self.bytes_limit(false).saturating_sub(used),
            data_bytes: self.space.data_blocks() * BLOCK,
            metadata_bytes: self.counters.metadata_bytes * Self::METADATA_FACTOR,
            objects: self.counters.objects,
        }
    }

    /// Blocks that the next checkpoint may need.
    fn kept_blocks(&self) -> u64 {
        self.tree_blocks + 2 * self.tables.active_bytes.div_ceil(BLOCK) + 16
    }

    /// Has the store use the device up to this byte only, for now. What is in use behind it stays so.
    pub fn open_to(&mut self, device_bytes: u64) {
        let blocks = device_bytes.saturating_sub(self.layout.blocks) / BLOCK;
        self.space.open_to(blocks);
        self.growth = Growth::None;
        self.head_waits = false;
    }

    /// The device's bytes that the store uses are not to become more now: what needs more is refused. The next
    /// [`BlockStore::open_to`] says otherwise.
    pub fn stay_closed(&mut self) {
        self.growth = Growth::Refused;
        self.head_waits = false;
    }

    /// The bytes of the device that the store uses, from its beginning.
    pub fn open_bytes(&self) -> u64 {
        self.layout.block_offset(self.space.open_blocks())
    }

    /// The bytes of the device, from its beginning, behind which nothing is in use.
    pub fn used_bytes(&self) -> u64 {
        self.layout.block_offset(self.space.taken_end())
    }

    /// Whether the store wants more of the device: less than `ahead_bytes` are free, or something waits for them, and there
    /// is more.
    pub fn wants_to_grow(&self, ahead_bytes: u64) -> bool {
        let free = self.space.free_blocks().saturating_sub(self.kept_blocks());
        let wanted = self.growth == Growth::Wanted || free * BLOCK < ahead_bytes;
        wanted && self.space.open_blocks() < self.space.blocks()
    }

    /// Whether waiting may bring space.
    fn space_may_come(&mut self) -> bool {
        if self.growth != Growth::Refused && self.space.open_blocks() < self.space.blocks() {
            self.growth = Growth::Wanted;
            return true;
        }
        if self.checkpoint.is_some() || self.flight.is_some() || !self.group.is_empty() {
            return true;
        }
        if self.space.leaving_blocks() > 0 {
            self.mark_wanted = true;
            return true;
        }
        self.checkpoint_wanted = !self.tables.active.is_empty();
        self.checkpoint_wanted
    }
}

/// Requests.
impl<Q: DeviceQueue> BlockStore<Q> {
    pub(crate) fn new(
        io: Io<Q, Purpose>,
        layout: ShardLayout,
        names: (u64, u32),
        options: Options,
        log: Log,
        opening: Opening,
    ) -> Self {
        Self {
            io,
            layout,
            names,
            options,
            tables: Tables::default(),
            contents: Contents::default(),
            space: Space::new(layout.block_count),
            growth: Growth::None,
            counters: Counters::default(),
            tree_blocks: 0,
            log,
            opening,
            generation: 0,
            group: Group::default(),
            flight: None,
            mark_wanted: false,
            checkpoint: None,
            checkpoint_wanted: false,
            inbox: VecDeque::new(),
            head_waits: false,
            fetches: 0,
            unbegun: false,
            closed: BTreeMap::new(),
            reads: BTreeMap::new(),
            next_read: 0,
            page_reads: BTreeMap::new(),
            done: Vec::new(),
            ready: Vec::new(),
            stopped: false,
            pages_held: false,
            now: UTime::default(),
        }
    }

    /// Begins a checkpoint as soon as it can: what is in the log goes to its place. [`BlockStore::is_clean`] says when.
    pub fn request_checkpoint(&mut self) {
        self.checkpoint_wanted = true;
    }

    /// Whether the log is empty: an opening has nothing to replay.
    pub fn is_clean(&self) -> bool {
        self.log.used_bytes() == 0 && self.group.is_empty() && self.inbox.is_empty()
    }

    /// Where the device has a byte of an object, as far as memory knows.
    pub fn locate(&mut self, collection: CollectionId, object: &GHObject, offset: u64) -> Option<u64> {
        let layout = self.layout;
        let context = self.context();
        let found = context.find(collection, object).ok()??;
        let block = offset / BLOCK;
        let mapped = context.mapped(found.onode.number, block, block + 1).ok()?;
        mapped.first().map(|(_, slot)| layout.block_offset(slot.block) + offset % BLOCK)
    }

    fn context(&mut self) -> Context<'_> {
        let kept_blocks = self.kept_blocks();
        Context::new(&self.tables, &self.contents, &mut self.space, self.counters, kept_blocks)
    }

    fn take(&mut self, taken: Taken) {
        self.inbox.push_back(taken);
        self.unbegun = true;
        self.run_inbox();
    }

    /// Does the requests in order until one has to wait.
    fn run_inbox(&mut self) {
        while !self.head_waits {
            let Some(taken) = self.inbox.pop_front() else { return };
            let result = match &taken {
                Taken::Transaction(txn, token) => self.run_transaction(txn, *token),
                Taken::Read(request, token) => self.run_read(request, *token),
                Taken::Acknowledge(token) => {
                    self.closed.retain(|_, by| by != token);
                    Ok(())
                }
                Taken::Rehome(collection, to, token) => self.run_rehome(*collection, *to, *token),
            };
            match result {
                Ok(()) => {
                    self.contents.fetched.clear();
                    self.tables.pages.forget_bad();
                }
                Err(stop) => {
                    self.inbox.push_front(taken);
                    self.wait_for(stop);
                }
            }
        }
    }

    fn wait_for(&mut self, stop: Stop) {
        self.head_waits = true;
        match stop {
            Stop::Page(ptr) => self.read_page(ptr),
            Stop::Blocks(blocks) => self.fetch(blocks),
            Stop::LogRoom => self.checkpoint_wanted = true,
            // Whoever brings space wakes the head.
            Stop::Space => {}
            // Errors are answered where they come up.
            Stop::Error(_) => self.head_waits = false,
        }
    }

    /// A stop, or the answer to a request that fails.
    fn run_transaction(&mut self, txn: &Transaction, token: Token) -> Result<(), Stop> {
        let collections = txn.collections();
        let closed = collections.iter().find(|id| self.closed.contains_key(id));
        let (error, by) = match closed {
            _ if self.stopped => (StoreError::Stopped, token),
            // Collections that were still open are closed with the others, by the refusal that closed those.
            Some(id) => (StoreError::AfterRefused(*id), self.closed[id]),
            None => match self.try_transaction(txn, token) {
                Err(Stop::Space) if !self.space_may_come() => (self.no_space(txn), token),
                Err(Stop::Error(error)) => (error, token),
                other => return other,
            },
        };
        for id in collections {
            self.closed.entry(id).or_insert(by);
        }
        self.group.outcomes.push(Completion::Refused { token, error });
        Ok(())
    }

    fn no_space(&self, txn: &Transaction) -> StoreError {
        let free = self.space.free_blocks().saturating_sub(self.kept_blocks()) * BLOCK;
        StoreError::NoSpace { needed: txn.payload_bytes().max(free + BLOCK), available: free }
    }

    fn try_transaction(&mut self, txn: &Transaction, token: Token) -> Result<(), Stop> {
        txn.check()?;
        let limit = self.bytes_limit(txn.may_use_reserve());
        let before = Self::bytes_used(self.space.data_blocks(), &self.counters);
        let (needed, available) = (txn.payload_bytes(), limit.saturating_sub(before));
        if needed > available {
            return Err(StoreError::NoSpace { needed, available }.into());
        }
        let copied = txn.steps().iter().map(|step| match step {
            Step::CloneRange { len, .. } => *len,
            _ => 0,
        });
        let data_bytes = copied.fold(txn.data_bytes(), u64::saturating_add);
        let deferred_max = self.options.prefer_deferred_bytes;
        let mut context = self.context();
        context.in_place = data_bytes <= deferred_max;
        if let Err(stop) = context.apply(txn) {
            context.take_back();
            return Err(stop);
        }
        let after = Self::bytes_used(context.data_blocks(), &context.counters);
        if after > limit && after > before {
            context.take_back();
            return Err(StoreError::NoSpace { needed: after - before, available }.into());
        }
        let direct =
            data_bytes > deferred_max || context.blocks.len() as u64 * BLOCK > deferred_max.max(64 << 10);
        let (batch, placed, freed) = context.finish(direct);
        let payload = batch.encode();
        if let Err(stop) = self.check_log_room(payload.len(), placed.len()) {
            self.space.give_back(batch.allocated.iter().flat_map(|run| run.blocks()));
            return Err(stop);
        }
        let sequence = self.log.end().sequence;
        self.space.mark_data(batch.allocated.iter().flat_map(|run| run.blocks()));
        for block in &freed {
            self.contents.deferred.remove(block);
            self.contents.frozen.remove(block);
            self.contents.writing.remove(block);
        }
        self.space.leave(sequence, self.next_read, freed);
        self.contents.deferred.extend(batch.deferred);
        self.tables.apply(batch.changes);
        self.counters = batch.counters;
        self.group.payload.append(payload);
        self.contents.writing.extend(placed.iter().map(|(block, bytes)| (*block, bytes.clone())));
        self.group.placed.extend(placed);
        self.group.outcomes.push(Completion::Committed { token });
        Ok(())
    }

    /// Whether the group's record has room with one more batch.
    fn check_log_room(&self, payload: usize, placed: usize) -> Result<(), Stop> {
        // Each block beside the log may be a run.
        let blocks = (self.group.placed.len() + placed) as u64;
        let bytes = (self.group.payload.len() + payload) as u64 + blocks * 16;
        // So that marks always have some.
        let kept = 8 * u64::from(self.log.layout().unit_bytes);
        let record = self.log.record_bytes(bytes, &[]) + kept;
        if record <= self.log.room_bytes() {
            return Ok(());
        }
        let empty = self.log.used_bytes() == 0 && self.group.is_empty() && self.checkpoint.is_none();
        match empty || record > self.log.layout().bytes {
            true if self.group.is_empty() => {
                let available = self.log.layout().bytes.saturating_sub(kept).min(record - 1);
                Err(StoreError::NoSpace { needed: record, available }.into())
            }
            _ => Err(Stop::LogRoom),
        }
    }

    fn run_read(&mut self, request: &ReadRequest, token: Token) -> Result<(), Stop> {
        let result = match self.context().perform(request) {
            Ok(Answer::Done(outcome)) => Ok(outcome),
            Ok(Answer::StatFs) => Ok(ReadOutcome::StatFs(self.statfs())),
            Ok(Answer::Data(read)) => {
                self.read_data(read, token);
                return Ok(());
            }
            Err(Stop::Error(error)) => Err(error),
            Err(stop) => return Err(stop),
        };
        self.done.push(Completion::Read { token, result });
        Ok(())
    }

    fn run_rehome(&mut self, id: CollectionId, to: StoreShard, token: Token) -> Result<(), Stop> {
        let found = self.context().find_collection(id);
        let result = match found {
            _ if to.0 > 0 => Err(StoreError::NoSuchShard { shard: to, shards: 1 }),
            _ if self.closed.contains_key(&id) => Err(StoreError::AfterRefused(id)),
            Ok(Some(_)) => Ok(Rehoming::Done),
            Ok(None) => Err(StoreError::NoSuchCollection(id)),
            Err(Stop::Error(error)) => Err(error),
            Err(stop) => return Err(stop),
        };
        self.done.push(Completion::Rehomed { token, result });
        Ok(())
    }
}

/// Requests to the device.
impl<Q: DeviceQueue> BlockStore<Q> {
    pub(crate) fn read_page(&mut self, ptr: PagePtr) {
        if self.page_reads.contains_key(&ptr) {
            return;
        }
        for (number, run) in ptr.runs.iter().enumerate() {
            let (offset, bytes) = (self.layout.block_offset(run.start), u64::from(run.count) * BLOCK);
            self.io.read(Purpose::Page(ptr.clone(), number), offset, bytes as usize);
        }
        self.page_reads.insert(ptr.clone(), PageRead { runs: vec![None; ptr.runs.len()], error: None });
    }

    fn fetch(&mut self, mut blocks: Vec<u64>) {
        blocks.sort_unstable();
        blocks.dedup();
        let step = self.io.request_bytes_max() / BLOCK;
        for run in runs_of(blocks) {
            let end = run.blocks().end;
            for first in run.blocks().step_by(step as usize) {
                let bytes = (end - first).min(step) * BLOCK;
                self.fetches += 1;
                self.io.read(Purpose::Fetch(first), self.layout.block_offset(first), bytes as usize);
            }
        }
    }

    fn read_data(&mut self, read: DataRead, token: Token) {
        let id = self.next_read;
        self.next_read += 1;
        let step = (self.io.request_bytes_max() / BLOCK) as usize;
        let wanted: Vec<(usize, u64)> = read
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(at, (_, slot, piece))| piece.is_none().then_some((at, slot.block)))
            .collect();
        let mut requests = 0;
        let follows = |a: &(usize, u64), b: &(usize, u64)| a.0 + 1 == b.0 && a.1 + 1 == b.1;
        for part in wanted.chunk_by(follows).flat_map(|run| run.chunks(step)) {
            let (at, block) = part[0];
            let bytes = part.len() * BLOCK as usize;
            self.io.read(Purpose::Read(id, at), self.layout.block_offset(block), bytes);
            requests += 1;
        }
        self.reads.insert(id, OpenRead { token, read, requests, error: None });
    }

    /// Takes what the device has done.
    fn pump(&mut self) -> bool {
        let completions = self.io.completions();
        let any = !completions.is_empty();
        for (purpose, result) in completions {
            match purpose {
                Purpose::Group => self.on_group(result),
                Purpose::Checkpoint => self.on_checkpoint(result),
                Purpose::Page(ptr, run) => self.on_page(ptr, run, result),
                Purpose::Fetch(first) => self.on_fetched(first, result),
                Purpose::Read(id, at) => self.on_read(id, at, result),
            }
        }
        any
    }

    fn on_page(&mut self, ptr: PagePtr, run: usize, result: Result<Done, DeviceError>) {
        let Some(page) = self.page_reads.get_mut(&ptr) else { return };
        match result {
            Ok(Done::Read(buffer)) => page.runs[run] = Some(buffer.freeze()),
            Ok(_) => {}
            Err(error) => {
                page.runs[run] = Some(Piece::empty());
                page.error = Some(error);
            }
        }
        if page.runs.iter().any(Option::is_none) {
            return;
        }
        let Some(PageRead { runs, error }) = self.page_reads.remove(&ptr) else { return };
        let mut bytes = Rope::new();
        runs.into_iter().flatten().for_each(|run| bytes.push(run));
        match error {
            Some(error) => self.tables.pages.on_bad(ptr, io_error("read of a page", &error)),
            None => self.tables.pages.on_read(ptr, &bytes.to_piece()),
        }
        self.head_waits = false;
    }

    fn on_fetched(&mut self, first: u64, result: Result<Done, DeviceError>) {
        match result {
            Ok(Done::Read(buffer)) => {
                let bytes = buffer.freeze();
                for (block, at) in (first..).zip((0..bytes.len()).step_by(BLOCK as usize)) {
                    self.contents.fetched.insert(block, Ok(bytes.slice(at..at + BLOCK as usize)));
                }
            }
            Ok(_) => {}
            Err(error) => drop(self.contents.fetched.insert(first, Err(io_error("read", &error)))),
        }
        self.fetches -= 1;
        if self.fetches == 0 {
            self.head_waits = false;
        }
    }

    fn on_read(&mut self, id: u64, at: usize, result: Result<Done, DeviceError>) {
        let Some(open) = self.reads.get_mut(&id) else { return };
        match result {
            Ok(Done::Read(buffer)) => {
                let bytes = buffer.freeze();
                let parts = (0..bytes.len()).step_by(BLOCK as usize);
                for ((_, _, piece), from) in open.read.blocks[at..].iter_mut().zip(parts) {
                    *piece = Some(bytes.slice(from..from + BLOCK as usize));
                }
            }
            Ok(_) => {}
            Err(error) => open.error = Some(error),
        }
        open.requests -= 1;
        if open.requests > 0 {
            return;
        }
        let Some(OpenRead { token, read, error, .. }) = self.reads.remove(&id) else { return };
        let result = match error {
            Some(error) => Err(io_error("read", &error)),
            None => verified(read),
        };
        self.ready.push(Completion::Read { token, result });
    }
}

/// A read's bytes, if all of them are what was written.
fn verified(read: DataRead) -> Result<ReadOutcome, StoreError> {
    let found = &read.found;
    for (number, slot, piece) in &read.blocks {
        let bytes = piece.as_deref().unwrap_or_default();
        check_block(found.collection, &found.object, *number, slot, bytes)?;
    }
    Ok(read.finish())
}

/// A device's error as the store's.
pub fn io_error(what: &'static str, error: &DeviceError) -> StoreError {
    StoreError::Io { what, errno: error.errno() }
}

/// Group commits.
impl<Q: DeviceQueue> BlockStore<Q> {
    /// Begins the next record, if one is wanted and none is in flight.
    fn submit_group(&mut self) {
        if self.flight.is_some() || self.stopped {
            return;
        }
        if self.group.payload.is_empty() && !self.mark_wanted {
            // Nothing to make durable.
            self.ready.append(&mut self.group.outcomes);
            return;
        }
        let Group { payload, placed, outcomes } = std::mem::take(&mut self.group);
        let blocks = placed.keys().copied().collect();
        let (beside, data) = self.beside(placed);
        let alone = beside.is_empty();
        let Some(begun) = self.log.begin(payload, &beside) else {
            // A mark without room waits for the checkpoint; a group was admitted only with room. Refusals need none.
            debug_assert!(
                outcomes.iter().all(|o| matches!(o, Completion::Refused { .. })),
                "a group has room"
            );
            self.mark_wanted = false;
            self.ready.extend(outcomes);
            self.checkpoint_wanted = true;
            return;
        };
        self.mark_wanted = false;
        let one = begun.writes.len() == 1
            && begun.writes.iter().all(|w| w.data.len() as u64 <= self.io.request_bytes_max());
        let durability = if alone && one { Durability::Durable } else { Durability::Volatile };
        let mut requests = 0;
        for (offset, bytes) in &data {
            requests += self.io.write(Purpose::Group, *offset, bytes, Durability::Volatile);
        }
        for write in &begun.writes {
            requests += self.io.write(Purpose::Group, write.offset, &write.data, durability);
        }
        let flush = durability == Durability::Volatile;
        self.flight = Some(Flight { outcomes, placed: blocks, requests, flush, error: None });
    }

    /// What is written beside the log: for the record, and for the device.
    fn beside(&self, placed: BTreeMap<u64, Piece>) -> (Vec<Beside>, Vec<(u64, Rope)>) {
        let mut all: Vec<(Beside, Rope)> = Vec::new();
        let mut next = None;
        for (block, bytes) in placed {
            let offset = self.layout.block_offset(block);
            if next != Some(block) {
                all.push((Beside { offset, checksums: Vec::new() }, Rope::new()));
            }
            if let Some((beside, data)) = all.last_mut() {
                beside.checksums.push(buffer::crc32c(!0, &bytes));
                data.push(bytes);
            }
            next = Some(block + 1);
        }
        all.into_iter().map(|(beside, data)| (beside.clone(), (beside.offset, data))).unzip()
    }

    fn on_group(&mut self, result: Result<Done, DeviceError>) {
        let Some(flight) = &mut self.flight else { return };
        flight.requests -= 1;
        if let Err(error) = result {
            flight.error.get_or_insert(error);
        }
        if flight.requests > 0 {
            return;
        }
        if flight.error.is_none() && flight.flush {
            (flight.flush, flight.requests) = (false, 1);
            self.io.flush(Purpose::Group);
            return;
        }
        let Some(Flight { outcomes, placed, error, .. }) = self.flight.take() else { return };
        match error {
            None => {
                self.log.on_durable();
                for block in placed {
                    self.contents.writing.remove(&block);
                }
                self.ready.extend(outcomes);
                self.head_waits = false;
            }
            Some(error) => {
                self.refuse(outcomes, &io_error("write of the log", &error));
                self.stop();
            }
        }
    }

    fn refuse(&mut self, outcomes: Vec<Completion>, error: &StoreError) {
        self.ready.extend(outcomes.into_iter().map(|outcome| match outcome {
            Completion::Committed { token } => Completion::Refused { token, error: error.clone() },
            other => other,
        }));
    }

    /// Nothing becomes durable any more.
    pub(crate) fn fail(&mut self, error: &StoreError) {
        if let Some(flight) = self.flight.take() {
            self.refuse(flight.outcomes, error);
        }
        self.stop();
    }

    fn stop(&mut self) {
        self.stopped = true;
        let outcomes = std::mem::take(&mut self.group).outcomes;
        self.refuse(outcomes, &StoreError::Stopped);
        self.checkpoint = None;
        self.head_waits = false;
    }

    /// Whether nothing is being made durable.
    pub(crate) fn is_quiet(&self) -> bool {
        self.flight.is_none() && self.group.is_empty()
    }

    /// The number of the oldest read under way.
    pub(crate) fn reads_from(&self) -> u64 {
        self.reads.first_key_value().map_or(u64::MAX, |(id, _)| *id)
    }

    fn release(&mut self) {
        if self.checkpoint.as_ref().is_some_and(Checkpoint::holds_blocks) {
            return;
        }
        let before = self.space.leaving_blocks();
        self.space.release(self.log.marked(), self.reads_from());
        if self.space.leaving_blocks() < before {
            self.head_waits = false;
        }
    }

    /// Lets the device go on, and takes what it has done: for the opening.
    pub(crate) fn drive(&mut self, now: UTime) {
        self.now = self.now.max(now);
        self.io.queue().turn(now);
        self.pump();
    }

    pub(crate) fn wake_head(&mut self) {
        self.head_waits = false;
    }

    /// Does everything that can be done now.
    fn work(&mut self) {
        loop {
            let pumped = self.pump();
            self.release();
            self.run_inbox();
            if self.stopped {
                let outcomes = std::mem::take(&mut self.group).outcomes;
                self.ready.extend(outcomes);
            }
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
        if !self.head_waits && !self.pages_held && self.page_reads.is_empty() {
            self.tables.pages.shrink(self.options.cache_bytes);
        }
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
        if !self.inbox.is_empty() {
            return None;
        }
        match self.context().perform(request) {
            Ok(Answer::Done(outcome)) => Some(Ok(outcome)),
            Ok(Answer::StatFs) => Some(Ok(ReadOutcome::StatFs(self.statfs()))),
            Err(Stop::Error(error)) => Some(Err(error)),
            Ok(Answer::Data(_)) | Err(_) => None,
        }
    }

    fn acknowledge(&mut self, refused: Token) {
        // It completes nothing: what turns have begun goes on without another one.
        self.inbox.push_back(Taken::Acknowledge(refused));
        self.run_inbox();
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, _objects_max: usize, token: Token) {
        self.take(Taken::Rehome(collection, to, token));
    }

    fn turn(&mut self, now: UTime) {
        self.now = self.now.max(now);
        self.unbegun = false;
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
        !self.stopped && self.checkpoint_runs()
    }
}
