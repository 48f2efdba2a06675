//! What a transaction or a read sees and, for a transaction, what it has changed so far.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Piece;
use store::{CollectionId, StoreError, keys};
use types::GHObject;

use crate::ENTRY_BYTES;
use crate::batch::Batch;
use crate::bitmap::runs_of;
use crate::layout::{BLOCK, Counters};
use crate::page::Key;
use crate::records::{Chunk, Collection, Counts, Onode, Slot, collection_key, counts_key, object_key, table};
use crate::space::Space;
use crate::stop::{Attempt, Stop, damaged};
use crate::tree::{Layer, Tables};

/// Contents of blocks in memory.
#[derive(Debug, Default)]
pub struct Contents {
    /// In the log and not in their places, since the last checkpoint began.
    pub deferred: BTreeMap<u64, Piece>,
    /// The same, which a checkpoint is writing to their places.
    pub frozen: BTreeMap<u64, Piece>,
    /// Being written to their places beside the log.
    pub writing: BTreeMap<u64, Piece>,
    /// Read for the request that waits, or why that failed.
    pub fetched: BTreeMap<u64, Result<Piece, StoreError>>,
}

impl Contents {
    /// The bytes of a block that is not in its place.
    pub fn deferred(&self, block: u64) -> Option<&Piece> {
        let deferred = self.deferred.get(&block).or_else(|| self.frozen.get(&block));
        deferred.or_else(|| self.writing.get(&block))
    }
}

/// An object as it is found.
#[derive(Clone, Debug)]
pub struct Found {
    pub collection: CollectionId,
    pub object: GHObject,
    pub onode: Onode,
}

/// A transaction under way. If it stops, nothing of it stays but the blocks that it took, which [`Context::take_back`]
/// gives back.
pub struct Context<'a> {
    pub tables: &'a Tables,
    pub contents: &'a Contents,
    pub space: &'a mut Space,
    pub counters: Counters,
    pub top: Layer,
    /// Blocks that it took.
    pub fresh: BTreeSet<u64>,
    /// Blocks of others that it gave up.
    pub freed: Vec<u64>,
    /// New contents of blocks: fresh ones, and others that are written in place.
    pub blocks: BTreeMap<u64, Piece>,
    /// Whether blocks may be written in place, by the log.
    pub in_place: bool,
    /// Blocks that must stay free for the next checkpoint.
    pub kept_blocks: u64,
}

impl<'a> Context<'a> {
    pub fn new(
        tables: &'a Tables,
        contents: &'a Contents,
        space: &'a mut Space,
        counters: Counters,
        kept_blocks: u64,
    ) -> Self {
        Self {
            tables,
            contents,
            space,
            counters,
            top: Layer::new(),
            fresh: BTreeSet::new(),
            freed: Vec::new(),
            blocks: BTreeMap::new(),
            in_place: false,
            kept_blocks,
        }
    }

    /// Ends a transaction without a trace.
    pub fn take_back(self) {
        self.space.give_back(self.fresh);
    }

    /// Ends a transaction that takes effect: what the log gets, contents of fresh blocks that are written to their places
    /// (all of them where `direct`, none otherwise), and the blocks that are given up.
    pub fn finish(self, direct: bool) -> (Batch, BTreeMap<u64, Piece>, Vec<u64>) {
        let Self { counters, top, fresh, mut freed, blocks, .. } = self;
        let (placed, deferred): (BTreeMap<u64, Piece>, BTreeMap<u64, Piece>) =
            blocks.into_iter().partition(|(block, _)| direct && fresh.contains(block));
        freed.sort_unstable();
        let batch = Batch {
            counters,
            allocated: runs_of(fresh),
            freed: runs_of(freed.iter().copied()),
            deferred: deferred.into_iter().collect(),
            changes: top,
        };
        (batch, placed, freed)
    }

    pub fn get(&self, key: &[u8]) -> Attempt<Option<Piece>> {
        self.tables.get(&self.top, key)
    }

    pub fn next(&self, from: &[u8], end: Option<&[u8]>) -> Attempt<Option<(Key, Piece)>> {
        self.tables.next(&self.top, from, end)
    }

    /// Sets a key.
    pub fn put(&mut self, key: Key, value: Piece) -> Attempt<()> {
        match self.get(&key)? {
            Some(old) => {
                self.counters.metadata_bytes =
                    (self.counters.metadata_bytes + value.len() as u64).saturating_sub(old.len() as u64);
                self.top.insert(key, Some(value));
            }
            None => self.put_new(key, value),
        }
        Ok(())
    }

    /// Sets a key that is not there.
    pub fn put_new(&mut self, key: Key, value: Piece) {
        self.counters.metadata_bytes += ENTRY_BYTES + (key.len() + value.len()) as u64;
        self.top.insert(key, Some(value));
    }

    /// Removes a key whose value is known.
    pub fn delete_known(&mut self, key: Key, value: &Piece) {
        let bytes = ENTRY_BYTES + (key.len() + value.len()) as u64;
        self.counters.metadata_bytes = self.counters.metadata_bytes.saturating_sub(bytes);
        self.top.insert(key, None);
    }

    pub fn delete(&mut self, key: Key) -> Attempt<()> {
        if let Some(value) = self.get(&key)? {
            self.delete_known(key, &value);
        }
        Ok(())
    }

    /// All keys and values from `start` on before `end`.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>) -> Attempt<Vec<(Key, Piece)>> {
        let mut all = Vec::new();
        let mut from = start.to_vec();
        while let Some((key, value)) = self.next(&from, end)? {
            from.clone_from(&key);
            from.push(0);
            all.push((key, value));
        }
        Ok(all)
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

/// Collections and objects.
impl Context<'_> {
    pub fn find_collection(&self, id: CollectionId) -> Attempt<Option<Collection>> {
        let value = self.get(&collection_key(table::COLLECTION, id))?;
        value.map(|value| Collection::decode(&value).map_err(damaged)).transpose()
    }

    pub fn collection(&self, id: CollectionId) -> Attempt<Collection> {
        let found = self.find_collection(id)?;
        found.ok_or(Stop::Error(StoreError::NoSuchCollection(id)))
    }

    pub fn put_collection(&mut self, id: CollectionId, collection: &Collection) -> Attempt<()> {
        self.put(collection_key(table::COLLECTION, id), collection.encode())
    }

    /// An object of a collection that exists.
    pub fn find(&self, collection: CollectionId, object: &GHObject) -> Attempt<Option<Found>> {
        let value = self.get(&object_key(collection, object))?;
        let Some(value) = value else { return Ok(None) };
        let onode = Onode::decode(&value).map_err(damaged)?;
        Ok(Some(Found { collection, object: object.clone(), onode }))
    }

    /// The same where it must exist.
    pub fn existing(&self, collection: CollectionId, object: &GHObject) -> Attempt<Found> {
        let missing = || Stop::Error(StoreError::NoSuchObject(collection, Box::new(object.clone())));
        self.find(collection, object)?.ok_or_else(missing)
    }

    /// A new object, not yet stored.
    pub fn make(&mut self, collection: CollectionId, object: &GHObject) -> Found {
        let onode = Onode { number: self.counters.next_number, ..Onode::default() };
        self.counters.next_number += 1;
        self.counters.objects += 1;
        Found { collection, object: object.clone(), onode }
    }

    pub fn store(&mut self, found: &Found) -> Attempt<()> {
        let key = object_key(found.collection, &found.object);
        let value = found.onode.encode();
        match self.get(&key)? {
            Some(old) if old == value => Ok(()),
            _ => self.put(key, value),
        }
    }
}

/// Blocks.
impl Context<'_> {
    /// Takes free blocks for data.
    pub fn allocate(&mut self, count: u64) -> Attempt<Vec<u64>> {
        if self.space.free_blocks() < count.saturating_add(self.kept_blocks) {
            return Err(Stop::Space);
        }
        let blocks = self.space.allocate(count).ok_or(Stop::Space)?;
        self.fresh.extend(&blocks);
        Ok(blocks)
    }

    /// Blocks of data that there are with this transaction.
    pub fn data_blocks(&self) -> u64 {
        (self.space.data_blocks() + self.fresh.len() as u64).saturating_sub(self.freed.len() as u64)
    }

    /// An object maps a block no more.
    pub fn give_up(&mut self, slot: Slot) -> Attempt<()> {
        if slot.shared && !self.drop_share(slot.block)? {
            return Ok(());
        }
        self.blocks.remove(&slot.block);
        match self.fresh.remove(&slot.block) {
            // Nothing durable refers to it.
            true => self.space.give_back([slot.block]),
            false => self.freed.push(slot.block),
        }
        Ok(())
    }

    fn counts(&self, block: u64) -> Attempt<(Key, u8, Counts)> {
        let key = counts_key(block / crate::records::CHUNK_BLOCKS);
        let counts = match self.get(&key)? {
            Some(value) => Counts::decode(&value).map_err(damaged)?,
            None => Counts::default(),
        };
        Ok((key, (block % crate::records::CHUNK_BLOCKS) as u8, counts))
    }

    /// One object less maps a block. Returns whether that was the last.
    fn drop_share(&mut self, block: u64) -> Attempt<bool> {
        let (key, place, mut counts) = self.counts(block)?;
        match counts.0.get(&place).copied() {
            None => return Ok(true),
            Some(0..=2) => drop(counts.0.remove(&place)),
            Some(more) => drop(counts.0.insert(place, more - 1)),
        }
        match counts.0.is_empty() {
            true => self.delete(key)?,
            false => self.put(key, counts.encode())?,
        }
        Ok(false)
    }

    /// One object more maps the blocks.
    pub fn add_shares(&mut self, chunk: &Chunk) -> Attempt<()> {
        for slot in chunk.0.values() {
            let (key, place, mut counts) = self.counts(slot.block)?;
            *counts.0.entry(place).or_insert(1) += 1;
            self.put(key, counts.encode())?;
        }
        Ok(())
    }

    /// The bytes of mapped blocks, each checked.
    ///
    /// # Errors
    /// Some have to be read first, could not be read, or are not what was written.
    pub fn bytes_of(&self, found: &Found, slots: &[(u64, Slot)]) -> Attempt<Vec<Piece>> {
        let held = |block: u64| {
            let own = self.blocks.get(&block).or_else(|| self.contents.deferred(block));
            own.map(|piece| Ok(piece.clone())).or_else(|| self.contents.fetched.get(&block).cloned())
        };
        let missing: Vec<u64> = slots.iter().map(|s| s.1.block).filter(|b| held(*b).is_none()).collect();
        if !missing.is_empty() {
            return Err(Stop::Blocks(missing));
        }
        let mut out = Vec::with_capacity(slots.len());
        for (number, slot) in slots {
            let Some(piece) = held(slot.block) else { continue };
            let piece = piece?;
            check_block(found.collection, &found.object, *number, slot, &piece)?;
            out.push(piece);
        }
        Ok(out)
    }
}

/// Whether a block's bytes are those that were written.
///
/// # Errors
/// They aren't.
pub fn check_block(
    collection: CollectionId,
    object: &GHObject,
    number: u64,
    slot: &Slot,
    bytes: &[u8],
) -> Result<(), StoreError> {
    match buffer::crc32c(!0, bytes) == slot.crc {
        true => Ok(()),
        false => {
            let object = Box::new(object.clone());
            Err(StoreError::Checksum { collection, object, offset: number * BLOCK })
        }
    }
}
