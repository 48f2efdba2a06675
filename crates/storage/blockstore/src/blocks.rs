//! Blocks of a transaction: taking them, giving them up, sharing them, and what they hold.

use std::slice;

use buffer::Piece;
use store::{CollectionId, StoreError};
use types::GHObject;

use crate::bitmap::{Run, runs_of};
use crate::chunk::{CHUNK_BLOCKS, Chunk, Slot};
use crate::context::Context;
use crate::find::Found;
use crate::layout::BLOCK;
use crate::page::Key;
use crate::pool_use::Change as PoolChange;
use crate::records::{Counts, counts_key};
use crate::stop::{Attempt, Stop, damaged};

impl Context<'_> {
    /// Takes free blocks for data.
    pub fn allocate(&mut self, count: u64) -> Attempt<Vec<u64>> {
        if self.space.free_blocks() < count.saturating_add(self.kept_blocks) {
            return Err(Stop::Space);
        }
        let blocks = self.space.allocate(count).ok_or(Stop::Space)?;
        runs_of(blocks.iter().copied()).into_iter().for_each(|run| self.fresh.insert(run));
        self.count_blocks(blocks.len() as i64);
        Ok(blocks)
    }

    fn count_blocks(&mut self, more: i64) {
        if let Some(pool) = self.pool {
            self.pools.add(pool, PoolChange { blocks: more, ..PoolChange::default() });
        }
    }

    /// Blocks of data that there are with this transaction.
    pub fn data_blocks(&self) -> u64 {
        (self.space.data_blocks() + self.fresh.len()).saturating_sub(self.freed.len() as u64)
    }

    /// An object maps a block no more. Returns whether none does.
    pub fn give_up(&mut self, slot: Slot) -> Attempt<bool> {
        if slot.shared && !self.drop_share(slot.block)? {
            return Ok(false);
        }
        self.count_blocks(-1);
        match self.fresh.remove(slot.block) {
            // Nothing durable refers to it.
            true => {
                self.new_contents.remove(Run { start: slot.block, count: 1 });
                self.space.give_back([slot.block]);
            }
            false => {
                self.replaced.remove(&slot.block);
                self.freed.push(slot.block);
            }
        }
        Ok(true)
    }

    /// Sets the contents of a block that this transaction took, or may write in place.
    pub fn set_contents(&mut self, block: u64, bytes: Piece) {
        match self.fresh.contains(block) {
            true => self.new_contents.insert(block, bytes),
            false => drop(self.replaced.insert(block, bytes)),
        }
    }

    /// Blocks whose contents it sets.
    pub fn contents_blocks(&self) -> u64 {
        self.new_contents.len() + self.replaced.len() as u64
    }

    fn counts(&self, block: u64) -> Attempt<(Key, u8, Counts)> {
        let key = counts_key(block / CHUNK_BLOCKS);
        let counts = match self.get(&key)? {
            Some(value) => Counts::decode(&value).map_err(damaged)?,
            None => Counts::default(),
        };
        Ok((key, (block % CHUNK_BLOCKS) as u8, counts))
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
        chunk.blobs.iter().for_each(|blob| self.count_live(blob, blob.live, 1));
        for slot in chunk.stored() {
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
        let held = |slot: &Slot| {
            let block = slot.block;
            let own = self.replaced.get(&block).cloned().or_else(|| self.new_contents.get(block));
            let own = own.or_else(|| self.contents.deferred(block));
            let cached = || self.contents.cache.get(block, slot.crc).map(Ok);
            own.map(Ok).or_else(|| self.fetched.get(&block).cloned()).or_else(cached)
        };
        let missing: Vec<u64> =
            slots.iter().map(|s| &s.1).filter(|s| held(s).is_none()).map(|s| s.block).collect();
        if !missing.is_empty() {
            return Err(Stop::Blocks(missing));
        }
        let mut out = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(piece) = held(&slot.1) else { continue };
            let piece = piece?;
            check_blocks(found.collection, &found.object, slice::from_ref(slot), &piece)?;
            out.push(piece);
        }
        Ok(out)
    }
}

/// Whether the bytes of blocks, one behind the other, are those that were written.
///
/// # Errors
/// They aren't.
pub fn check_blocks(
    collection: CollectionId,
    object: &GHObject,
    slots: &[(u64, Slot)],
    bytes: &Piece,
) -> Result<(), StoreError> {
    debug_assert_eq!(bytes.len() as u64, slots.len() as u64 * BLOCK, "bytes of {} blocks", slots.len());
    let wrong = bytes.first_wrong_page(slots.iter().map(|(_, slot)| slot.crc));
    match wrong.and_then(|at| slots.get(at)) {
        None => Ok(()),
        Some((number, _)) => {
            let object = Box::new(object.clone());
            Err(StoreError::Checksum { collection, object, offset: number * BLOCK })
        }
    }
}
