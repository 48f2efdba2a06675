//! The store that keeps nothing: ordered maps, no thread, no clock. Deterministic, so pure tests run on it; quick, so
//! it shows what everything above a store costs.
//!
//! What is queued takes effect at once and is shown as complete by the next turn. Its store shards are a note at each
//! collection: they hold the caller to the contract, and share one set of maps.

mod apply;
mod extents;
mod object;
mod read;
mod rehome;
mod table;
mod undo;

use std::collections::{BTreeMap, VecDeque};

use buffer::Piece;
use types::{EVersion, GHObject, UTime};

use crate::{
    CollectionId, Completion, LogRecord, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreShard,
    Token, Transaction, Waker,
};
use object::{OVERHEAD_BYTES, Object};
use table::ObjectTable;

/// A collection's log. Every record is after `tail` and none after `head`.
#[derive(Clone, Default)]
struct Log {
    tail: EVersion,
    head: EVersion,
    records: VecDeque<LogRecord>,
}

/// The part of a collection that has reached another shard: the first objects in order.
#[derive(Clone)]
struct Moved {
    to: StoreShard,
    objects: ObjectTable,
}

/// Invariant: every object of `moved` comes before every one of `objects`.
#[derive(Clone)]
struct Collection {
    shard: StoreShard,
    bits: u32,
    info: Piece,
    objects: ObjectTable,
    log: Log,
    moved: Option<Moved>,
}

/// Bytes allocated.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Usage {
    data: u64,
    metadata: u64,
}

impl Usage {
    /// What an object of this name counts for.
    fn of(name: &GHObject, object: &Object) -> Self {
        let h = &name.hobj;
        let names = OVERHEAD_BYTES + (h.name.len() + h.key.len() + h.nspace.len()) as u64;
        Self { data: object.data.bytes_used(), metadata: names + object.metadata_bytes() }
    }

    fn of_record(record: &LogRecord) -> u64 {
        OVERHEAD_BYTES + record.bytes.len() as u64
    }

    fn replace(&mut self, before: Self, after: Self) {
        debug_assert!(self.data >= before.data && self.metadata >= before.metadata, "{self:?} {before:?}");
        self.data = (self.data + after.data).saturating_sub(before.data);
        self.metadata = (self.metadata + after.metadata).saturating_sub(before.metadata);
    }
}

/// A store in memory; its contents are lost with the value.
#[derive(Clone)]
pub struct MemStore {
    collections: BTreeMap<CollectionId, Collection>,
    shards: u32,
    /// Collections closed by a refusal, with the transaction that closed them.
    closed: BTreeMap<CollectionId, Token>,
    /// Done, shown after the next turn.
    done: Vec<Completion>,
    ready: Vec<Completion>,
    bytes_total: u64,
    usage: Usage,
}

impl MemStore {
    /// An empty store of one shard that refuses transactions once `bytes_total` bytes are used.
    pub fn new(bytes_total: u64) -> Self {
        Self::with_shards(bytes_total, 1)
    }

    /// The same with some shards (at least one is made).
    pub fn with_shards(bytes_total: u64, shards: u32) -> Self {
        Self {
            collections: BTreeMap::new(),
            shards: shards.max(1),
            closed: BTreeMap::new(),
            done: Vec::new(),
            ready: Vec::new(),
            bytes_total,
            usage: Usage::default(),
        }
    }

    /// The handles of an empty store, one for each shard (at least one), which may be on different threads. A handle is
    /// a store of one shard with an equal share of the bytes; a collection is in the shard whose handle made it.
    pub fn handles(bytes_total: u64, shards: u32) -> Vec<Self> {
        let shards = u64::from(shards.max(1));
        // The first ones have what does not divide.
        let share = |shard: u64| bytes_total / shards + u64::from(shard < bytes_total % shards);
        (0..shards).map(|shard| Self::new(share(shard))).collect()
    }

    /// A copy with room for another number of bytes.
    #[cfg(feature = "sim")]
    pub(crate) fn with_bytes_total(&self, bytes_total: u64) -> Self {
        Self { bytes_total, ..self.clone() }
    }

    fn collection(&self, id: CollectionId) -> Result<&Collection, StoreError> {
        self.collections.get(&id).ok_or(StoreError::NoSuchCollection(id))
    }

    /// Where a collection is made that nothing else says a place for.
    fn default_shard(&self, id: CollectionId) -> StoreShard {
        StoreShard::of_new(id, self.shards)
    }
}

impl ObjectStore for MemStore {
    fn queue(&mut self, txn: Transaction, token: Token) {
        let completion = match self.apply_or_close(txn, token) {
            Ok(()) => Completion::Committed { token },
            Err(error) => Completion::Refused { token, error },
        };
        self.done.push(completion);
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        let result = self.perform(&request);
        self.done.push(Completion::Read { token, result });
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        Some(self.perform(request))
    }

    fn acknowledge(&mut self, refused: Token) {
        self.closed.retain(|_, by| *by != refused);
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        let result = self.rehome_step(collection, to, objects_max);
        self.done.push(Completion::Rehomed { token, result });
    }

    fn turn(&mut self, _now: UTime) {
        self.ready.append(&mut self.done);
    }

    fn deadline(&self) -> Option<UTime> {
        None
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.ready);
    }

    fn set_waker(&mut self, _waker: Waker) {
        // Everything becomes ready within `turn`: the waker is never needed.
    }

    fn shards(&self) -> u32 {
        self.shards
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.collections.get(&collection).map_or_else(|| self.default_shard(collection), |c| c.shard)
    }
}
