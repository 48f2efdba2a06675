//! What a transaction or a read sees and, for a transaction, what it has changed so far.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use buffer::Piece;
use store::{CollectionId, Compressed, ObjectGap, StoreError, keys};
use types::{GHObject, PoolId};

use crate::ENTRY_BYTES;
use crate::batch::Batch;
use crate::bitmap::runs_of;
use crate::block_runs::{BlockMap, BlockSet};
use crate::cache::DataCache;
use crate::find::Found;
use crate::layer::Layer;
use crate::layout::{BLOCK, Counters};
use crate::mapped::BadBlob;
use crate::packer::{COUNTED_BYTES, Change, Packer, counted_key, encode_counted};
use crate::page::Key;
use crate::pool_use::{Change as PoolChange, PoolChanges, PoolUse};
use crate::records::{Collection, SPACE_KEY_BYTES, number_of, object_of, omap_key_bytes, table};
use crate::space::Space;
use crate::stop::Attempt;
use crate::tree::{Gap, Merged, Tables};

/// Contents of blocks in memory.
#[derive(Debug, Default)]
pub struct Contents {
    /// In the log and not in their places, since the last checkpoint began.
    pub deferred: BTreeMap<u64, Piece>,
    /// The same, which a checkpoint is writing to their places. Also blocks that were given up since: a power loss may take back
    /// that they were, and none of them is used again before all are written.
    pub frozen: BTreeMap<u64, Piece>,
    /// Being written to their places beside the log.
    pub writing: BlockMap,
    /// In their places, too.
    pub cache: DataCache,
}

/// Contents of blocks that were read for a request, or why that failed.
pub type Fetched = BTreeMap<u64, Result<Piece, StoreError>>;

/// For a request that has read none.
pub static NOTHING_FETCHED: Fetched = BTreeMap::new();

impl Contents {
    /// The bytes of a block that is not in its place.
    pub fn deferred(&self, block: u64) -> Option<Piece> {
        let deferred = self.deferred.get(&block).or_else(|| self.frozen.get(&block));
        deferred.cloned().or_else(|| self.writing.get(block))
    }

    /// The first of these blocks that is not in its place.
    pub fn first_deferred(&self, blocks: Range<u64>) -> Option<u64> {
        let first =
            |deferred: &BTreeMap<u64, Piece>| deferred.range(blocks.clone()).next().map(|(block, _)| *block);
        [first(&self.deferred), first(&self.frozen), self.writing.first_of(blocks.clone())]
            .into_iter()
            .flatten()
            .min()
    }
}

/// The error of a blob of an object that has its checksums and can't be decompressed.
pub fn bad_blob(collection: CollectionId, object: &GHObject, BadBlob(number): BadBlob) -> StoreError {
    StoreError::Checksum { collection, object: Box::new(object.clone()), offset: number * BLOCK }
}

/// What a gap has of the objects of the space that was searched from a key on.
fn objects_of(gap: &Gap, searched: &[u8], why: StoreError) -> ObjectGap {
    let is_of_space = |key: &&Key| key.get(..SPACE_KEY_BYTES) == searched.get(..SPACE_KEY_BYTES);
    let object = |key: Option<&Key>| key.filter(is_of_space).and_then(|key| object_of(key));
    let from = object(Some(&gap.low)).unwrap_or(GHObject::min());
    ObjectGap { from, behind: object(gap.high.as_ref()), why }
}

/// A transaction under way. If it stops, nothing of it stays but the blocks that it took, which [`Context::take_back`]
/// gives back.
pub struct Context<'a> {
    pub tables: &'a Tables,
    pub contents: &'a Contents,
    pub fetched: &'a Fetched,
    pub space: &'a mut Space,
    pub packer: &'a Packer,
    pub counters: Counters,
    /// Whose blocks and omaps' entries it takes and gives up: that of the step's objects. `None` where the shard does not count.
    pub pool: Option<PoolId>,
    pub pool_use: &'a PoolUse,
    /// What it changes of what pools take.
    pub pools: PoolChanges,
    pub top: Layer,
    /// The collection that was looked at last: most steps of a transaction are about one.
    pub last_collection: Cell<Option<(CollectionId, Collection)>>,
    /// The object that was stored last: most steps of a transaction are about one. Its onode may not be set yet. A step that
    /// looks for objects or changes onodes otherwise sets it first, and forgets the object.
    pub last_object: Option<Found>,
    /// Where searches for objects go on behind what can't be read: what they have passed by.
    pub passed: RefCell<Option<Vec<ObjectGap>>>,
    /// What it changes of what is compressed.
    pub packed: BTreeMap<PoolId, Change>,
    /// Blocks that it took.
    pub fresh: BlockSet,
    /// Blocks of others that it gave up.
    pub freed: Vec<u64>,
    /// Contents of the fresh blocks.
    pub new_contents: BlockMap,
    /// New contents of other blocks, in place of what they hold.
    pub replaced: BTreeMap<u64, Piece>,
    /// Numbers from here on were never given before this transaction: what is stored under them is in `top` alone.
    pub new_numbers: u64,
    /// Whether blocks may be written in place, by the log.
    pub in_place: bool,
    /// Whether what was found lately counts. A request that has waited for pages searches for all that it needs: so it uses
    /// its pages together, and they stay until it has the last of them.
    pub asks_recent: bool,
    /// Blocks that must stay free for the next checkpoint.
    pub kept_blocks: u64,
    /// Of an object with more keys than this a removal only notes that they are dead.
    pub keys_at_once: usize,
    /// The same with keys of more bytes than this together.
    pub key_bytes_at_once: usize,
}

/// What a transaction that takes effect comes to.
pub struct Ended {
    /// For the log.
    pub batch: Batch,
    /// Contents of fresh blocks that are written to their places.
    pub placed: BlockMap,
    /// Blocks that are given up.
    pub freed: Vec<u64>,
    /// How much of pools' data is compressed after it, where that changes.
    pub packed: Vec<(PoolId, Compressed)>,
    /// The object that it stored last.
    pub last_object: Option<Found>,
}

impl<'a> Context<'a> {
    pub fn new(
        tables: &'a Tables,
        contents: &'a Contents,
        fetched: &'a Fetched,
        (space, packer, pool_use): (&'a mut Space, &'a Packer, &'a PoolUse),
        counters: Counters,
    ) -> Self {
        Self {
            tables,
            contents,
            fetched,
            space,
            packer,
            counters,
            pool: None,
            pool_use,
            pools: PoolChanges::default(),
            top: Layer::new(),
            last_collection: Cell::new(None),
            last_object: None,
            passed: RefCell::new(None),
            packed: BTreeMap::new(),
            fresh: BlockSet::default(),
            freed: Vec::new(),
            new_contents: BlockMap::default(),
            replaced: BTreeMap::new(),
            new_numbers: u64::MAX,
            in_place: false,
            asks_recent: false,
            kept_blocks: 0,
            keys_at_once: usize::MAX,
            key_bytes_at_once: usize::MAX,
        }
    }

    /// Ends a transaction without a trace.
    pub fn take_back(self) {
        self.space.give_back(self.fresh.blocks());
    }

    /// Ends a transaction that takes effect. Contents of fresh blocks go to their places where `direct`, otherwise all are
    /// in the batch.
    pub fn finish(mut self, direct: bool) -> Ended {
        let packed = self.note_packed();
        let Self { counters, pools, top, last_object, fresh, mut freed, new_contents, replaced, .. } = self;
        let mut deferred: Vec<(u64, Piece)> = replaced.into_iter().collect();
        let placed = match direct {
            true => new_contents,
            false => {
                deferred.extend(new_contents.blocks());
                deferred.sort_unstable_by_key(|(block, _)| *block);
                BlockMap::default()
            }
        };
        freed.sort_unstable();
        let (allocated, freed_runs) = (fresh.runs().collect(), runs_of(freed.iter().copied()));
        let batch = Batch { counters, allocated, freed: freed_runs, pools, deferred, changes: top };
        Ended { batch, placed, freed, packed, last_object }
    }

    /// Writes down how much of pools' data is compressed, where that changes.
    fn note_packed(&mut self) -> Vec<(PoolId, Compressed)> {
        let mut noted = Vec::new();
        for (pool, change) in std::mem::take(&mut self.packed) {
            let before = self.packer.counted.get(&pool).copied().unwrap_or_default();
            let after = change.of(before);
            let (key, value) = (counted_key(pool), encode_counted(&after));
            debug_assert_eq!(value.len(), COUNTED_BYTES);
            match (before == Compressed::default(), after == Compressed::default()) {
                (true, true) => continue,
                (true, false) => self.put_new(key, value),
                (false, false) => drop(self.top.insert(key.into(), Some(value))),
                (false, true) => self.delete_known(key, &value),
            }
            noted.push((pool, after));
        }
        noted
    }

    pub fn get(&self, key: &[u8]) -> Attempt<Option<Piece>> {
        if key.first() == Some(&table::NUMBERED) && number_of(key) >= Some(self.new_numbers) {
            return Ok(self.top.get(key).cloned().flatten());
        }
        self.tables.get(&self.top, key)
    }

    pub fn next(&self, from: &[u8], end: Option<&[u8]>) -> Attempt<Option<(Key, Piece)>> {
        match &mut *self.passed.borrow_mut() {
            None => self.tables.next(&self.top, from, end),
            Some(gaps) => {
                let mut passed = Vec::new();
                let found = self.tables.next_readable(&self.top, from, end, &mut passed);
                ObjectGap::add(gaps, passed.into_iter().map(|(gap, why)| objects_of(&gap, from, why)));
                found
            }
        }
    }

    /// All keys from `from` on before `end`.
    pub fn merged<'b>(&'b self, from: &'b [u8], end: Option<&'b [u8]>) -> Attempt<Merged<'b>> {
        self.tables.merged(&self.top, from, end)
    }

    /// Sets a key.
    pub fn put(&mut self, key: Key, value: Piece) -> Attempt<()> {
        let old_bytes = self.get(&key)?.map(|old| old.len());
        self.put_over(key, old_bytes, value);
        Ok(())
    }

    /// Sets a key whose value has so many bytes so far, if it is there.
    pub fn put_over(&mut self, key: Key, old_bytes: Option<usize>, value: Piece) {
        let Some(old_bytes) = old_bytes else { return self.put_new(key, value) };
        if omap_key_bytes(&key).is_some() {
            self.count_omap(value.len() as i64 - old_bytes as i64);
        }
        self.counters.metadata_bytes =
            (self.counters.metadata_bytes + value.len() as u64).saturating_sub(old_bytes as u64);
        self.top.insert(key.into(), Some(value));
    }

    /// Sets a key that is not there.
    pub fn put_new(&mut self, key: Key, value: Piece) {
        if let Some(key_bytes) = omap_key_bytes(&key) {
            self.count_omap((key_bytes + value.len()) as i64);
        }
        self.counters.metadata_bytes += ENTRY_BYTES + (key.len() + value.len()) as u64;
        self.top.insert(key.into(), Some(value));
    }

    /// Removes a key whose value is known.
    pub fn delete_known(&mut self, key: Key, value: &Piece) {
        if let Some(key_bytes) = omap_key_bytes(&key) {
            self.count_omap(-((key_bytes + value.len()) as i64));
        }
        let bytes = ENTRY_BYTES + (key.len() + value.len()) as u64;
        self.counters.metadata_bytes = self.counters.metadata_bytes.saturating_sub(bytes);
        self.top.insert(key.into(), None);
    }

    fn count_omap(&mut self, more: i64) {
        if let Some(pool) = self.pool_of_omaps() {
            self.pools.add(pool, PoolChange { omap_bytes: more, ..PoolChange::default() });
        }
    }

    /// For which an omap of the step's object counts.
    pub fn pool_of_omaps(&self) -> Option<PoolId> {
        self.pool.filter(|_| self.pool_use.counted.omaps())
    }

    pub fn delete(&mut self, key: Key) -> Attempt<()> {
        if let Some(value) = self.get(&key)? {
            self.delete_known(key, &value);
        }
        Ok(())
    }

    /// All keys and values from `start` on before `end`.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>) -> Attempt<Vec<(Key, Piece)>> {
        self.tables.range(&self.top, start, end)
    }

    /// All keys and values that begin with `prefix`.
    pub fn with_prefix(&self, prefix: &[u8]) -> Attempt<Vec<(Key, Piece)>> {
        self.range(prefix, keys::after_prefix(prefix).as_deref())
    }

    pub fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) -> Attempt<()> {
        for (key, value) in self.range(start, end)? {
            self.delete_known(key, &value);
        }
        Ok(())
    }
}
