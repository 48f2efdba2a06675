//! Objects' bytes: which blocks are mapped, shared, and given up. [`crate::write`] puts new ones there.

use std::collections::BTreeMap;
use std::ops::Range;

use buffer::{Piece, Rope};
use store::keys;

use crate::chunk::{CHUNK_BLOCKS, Chunk, place_bit, places_from};
use crate::context::{Context, Found, bad_blob};
use crate::layout::BLOCK;
use crate::mapped::{Mapped, unpacked};
use crate::page::Key;
use crate::records::{Part, chunk_key, chunk_of, part_key};
use crate::stop::{Attempt, damaged};

/// As many records of the map are looked up one by one; of more those that are there are searched.
const FEW_CHUNKS: u64 = 2;

impl Context<'_> {
    /// The records of the map that have blocks of `first..end`, with the number of their first block.
    fn chunks(&self, number: u64, first: u64, end: u64) -> Attempt<Vec<(u64, Key, Piece)>> {
        let chunks = first / CHUNK_BLOCKS..end.div_ceil(CHUNK_BLOCKS);
        if chunks.end.saturating_sub(chunks.start) <= FEW_CHUNKS {
            let keys = chunks.map(|chunk| (chunk * CHUNK_BLOCKS, chunk_key(number, chunk)));
            let found = keys.map(|(base, key)| Ok(self.get(&key)?.map(|value| (base, key, value))));
            return found.filter_map(Attempt::transpose).collect();
        }
        let start = chunk_key(number, chunks.start);
        let stop = match chunks.end {
            chunk if chunk <= u64::from(u32::MAX) => Some(chunk_key(number, chunk)),
            _ => keys::after_prefix(&part_key(number, Part::Chunk, &[])),
        };
        let records = self.range(&start, stop.as_deref())?;
        let base = |key: &Key| chunk_of(key).ok_or_else(|| damaged("a key of a map of blocks"));
        records.into_iter().map(|(key, value)| Ok((base(&key)? * CHUNK_BLOCKS, key, value))).collect()
    }

    /// A record of the map; an empty one if it is not there.
    pub fn chunk(&self, key: &[u8]) -> Attempt<Chunk> {
        match self.get(key)? {
            Some(value) => Chunk::decode(&value).map_err(damaged),
            None => Ok(Chunk::default()),
        }
    }

    /// What is mapped of the blocks `first..end`.
    pub fn mapped(&self, number: u64, first: u64, end: u64) -> Attempt<Mapped> {
        let mut mapped = Mapped::default();
        let mut add = |base: u64, record: &[u8]| {
            let wanted = places_from(base, &(first..end));
            let chunk = Chunk::decode_within(record, wanted).map_err(damaged)?;
            mapped.add_chunk(base, &chunk, &(first..end));
            Ok(())
        };
        let only = first / CHUNK_BLOCKS;
        if end.div_ceil(CHUNK_BLOCKS) == only + 1 {
            self.with_record(number, only, |record| add(only * CHUNK_BLOCKS, record))?;
        } else {
            for (base, _, value) in self.chunks(number, first, end)? {
                add(base, &value)?;
            }
        }
        Ok(mapped)
    }

    /// Shows a record of the map, if it is there.
    fn with_record(&self, number: u64, chunk: u64, show: impl FnOnce(&[u8]) -> Attempt<()>) -> Attempt<()> {
        if let Some(recent) = self.recent()
            && let Some(record) = recent.maps.record(number, chunk)
        {
            return show(record);
        }
        let Some(value) = self.get(&chunk_key(number, chunk))? else { return Ok(()) };
        self.note(|recent| recent.maps.note(number, chunk, &value));
        show(&value)
    }

    /// Whether some of the blocks are compressed.
    pub fn has_blobs(&self, number: u64, blocks: &Range<u64>) -> Attempt<bool> {
        Ok(!self.mapped(number, blocks.start, blocks.end)?.blobs.is_empty())
    }

    /// The contents of mapped blocks by their numbers, ascending.
    ///
    /// # Errors
    /// Some have to be read first, could not be read, or are not what was written.
    pub fn contents_of(&self, found: &Found, mapped: &Mapped) -> Attempt<Vec<(u64, Piece)>> {
        let pieces = self.bytes_of(found, &mapped.slots)?;
        let read = mapped.slots.iter().map(|(number, _)| *number).zip(pieces).collect();
        let bad = |blob| bad_blob(found.collection, &found.object, blob).into();
        unpacked(&mapped.blobs, read, &self.packer.codec).map_err(bad)
    }

    /// Bytes of an object, which reach no further than its end.
    pub fn read(&self, found: &Found, offset: u64, len: u64) -> Attempt<Rope> {
        let (first, end) = (offset / BLOCK, (offset + len).div_ceil(BLOCK));
        let mapped = self.mapped(found.onode.number, first, end)?;
        Ok(assemble(offset, len, self.contents_of(found, &mapped)?.into_iter()))
    }

    /// Makes a range zero; the caller stores the object.
    pub fn zero(&mut self, found: &mut Found, offset: u64, len: u64) -> Attempt<()> {
        if len == 0 {
            return Ok(());
        }
        let size = found.onode.size;
        let end = offset + len;
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        if first < last {
            self.unmap(found, first, last)?;
        }
        let head_end = (first * BLOCK).min(end);
        for (from, to) in [(offset, head_end), ((last * BLOCK).max(head_end), end)] {
            let block = from / BLOCK;
            if from < to && !self.mapped(found.onode.number, block, block + 1)?.is_empty() {
                self.write(found, from, &Rope::zeros((to - from) as usize), None)?;
            }
        }
        found.onode.size = size.max(end);
        Ok(())
    }

    /// Sets an object's size; the caller stores it.
    pub fn truncate(&mut self, found: &mut Found, size: u64) -> Attempt<()> {
        if size < found.onode.size {
            // What lies behind the end in its block must not come back when the object grows.
            let block_end = size.next_multiple_of(BLOCK).min(found.onode.size);
            self.unmap(found, size.div_ceil(BLOCK), u64::MAX)?;
            self.zero(found, size, block_end - size)?;
        }
        found.onode.size = size;
        Ok(())
    }

    /// Gives up the blocks `first..end` of an object.
    pub fn unmap(&mut self, found: &Found, first: u64, end: u64) -> Attempt<()> {
        for (base, key, value) in self.chunks(found.onode.number, first, end)? {
            let mut chunk = Chunk::decode(&value).map_err(damaged)?;
            let gone = places_from(base, &(first..end));
            let rescued = self.rescued(found, base, &chunk, gone)?;
            for slot in chunk.slots.take(gone).values() {
                self.give_up(*slot)?;
            }
            self.take_places(&mut chunk, gone)?;
            if !rescued.is_empty() {
                self.replace(&mut chunk, rescued, Vec::new())?;
            }
            match chunk.is_empty() {
                true => self.delete_known(key, &value),
                false => self.put(key, chunk.encode())?,
            }
        }
        Ok(())
    }

    /// Lets an object map, from `to_first` on, the blocks that another one maps in `blocks`; gives up what it had there.
    /// Compressed blocks stay at their places of a chunk.
    pub fn share_range(
        &mut self,
        from: &Found,
        blocks: Range<u64>,
        to: &Found,
        to_first: u64,
    ) -> Attempt<()> {
        self.unmap(to, to_first, to_first + (blocks.end - blocks.start))?;
        let mut shared: BTreeMap<u64, Chunk> = BTreeMap::new();
        for (base, key, value) in self.chunks(from.onode.number, blocks.start, blocks.end)? {
            let mut chunk = Chunk::decode(&value).map_err(damaged)?;
            let inside = places_from(base, &blocks);
            let some = part_of(&mut chunk, inside);
            self.add_shares(&some)?;
            for (place, slot) in some.slots.iter() {
                let target = to_first + (base + u64::from(place) - blocks.start);
                let there = shared.entry(target / CHUNK_BLOCKS).or_default();
                there.slots.insert((target % CHUNK_BLOCKS) as u8, slot);
            }
            if !some.blobs.is_empty() {
                let target = (base + to_first).wrapping_sub(blocks.start) / CHUNK_BLOCKS;
                shared.entry(target).or_default().blobs.extend(some.blobs);
            }
            self.put(key, chunk.encode())?;
        }
        for (number, part) in shared {
            let key = chunk_key(to.onode.number, number);
            let mut chunk = self.chunk(&key)?;
            part.slots.iter().for_each(|(place, slot)| chunk.slots.insert(place, slot));
            chunk.blobs.extend(part.blobs);
            let rescued = self.rescued(to, number * CHUNK_BLOCKS, &chunk, 0)?;
            if !rescued.is_empty() {
                self.replace(&mut chunk, rescued, Vec::new())?;
            }
            self.put(key, chunk.encode())?;
        }
        Ok(())
    }

    /// Lets the object numbered `to`, which has no data, map the same blocks.
    pub fn share_data(&mut self, from: u64, to: u64) -> Attempt<()> {
        for (base, key, value) in self.chunks(from, 0, u64::MAX)? {
            let mut chunk = Chunk::decode(&value).map_err(damaged)?;
            self.add_shares(&chunk)?;
            chunk.stored_mut().for_each(|slot| slot.shared = true);
            let shared = chunk.encode();
            self.put(key, shared.clone())?;
            self.put_new(chunk_key(to, base / CHUNK_BLOCKS), shared);
        }
        Ok(())
    }
}

/// What a chunk has at these places, as another object is to have it; it is shared from here on.
fn part_of(chunk: &mut Chunk, inside: u64) -> Chunk {
    let mut part = Chunk::default();
    for (place, slot) in chunk.slots.iter_mut().filter(|(place, _)| inside & place_bit(*place) != 0) {
        slot.shared = true;
        part.slots.insert(place, *slot);
    }
    for blob in chunk.blobs.iter_mut().filter(|blob| blob.live & inside != 0) {
        blob.stored.iter_mut().for_each(|slot| slot.shared = true);
        let mut copy = blob.clone();
        copy.live &= inside;
        part.blobs.push(copy);
    }
    part
}

/// Bytes of an object from the blocks that are mapped, ascending; zeros between them.
pub fn assemble(offset: u64, len: u64, blocks: impl Iterator<Item = (u64, Piece)>) -> Rope {
    let end = offset + len;
    let mut out = Rope::new();
    let mut at = offset;
    for (number, piece) in blocks {
        let start = number * BLOCK;
        let (from, to) = (start.max(offset), (start + BLOCK).min(end));
        if from >= to {
            continue;
        }
        out.append(Rope::zeros((from - at) as usize));
        out.push(piece.slice((from - start) as usize..(to - start) as usize));
        at = to;
    }
    out.append(Rope::zeros((end - at) as usize));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Slot;
    use crate::context::{Contents, NOTHING_FETCHED};
    use crate::layout::Counters;
    use crate::packer::Packer;
    use crate::ranges::Ranges;
    use crate::space::Space;
    use crate::tree::Tables;

    #[test]
    fn a_record_of_the_map_that_was_found_lately_is_not_searched_for() {
        let (tables, contents, packer) = (Tables::default(), Contents::default(), Packer::default());
        let slot = Slot { block: 9, crc: 1, shared: false };
        let chunk = Chunk { slots: [(5, slot)].into_iter().collect(), blobs: Vec::new() };
        // The tables do not have it: a search finds nothing.
        tables.recent.borrow_mut().maps.note(7, 0, &chunk.encode());
        let mut space = Space::new(&Ranges::one(0, 100));
        let blocks = (&mut space, &packer);
        let mut context = Context::new(&tables, &contents, &NOTHING_FETCHED, blocks, Counters::default());
        let found = |context: &Context<'_>| context.mapped(7, 5, 6).map(|mapped| mapped.numbers()).ok();
        assert_eq!(found(&context), Some(vec![]));
        context.asks_recent = true;
        assert_eq!(found(&context), Some(vec![5]));
        // What a transaction has changed is known to it alone.
        context.put_new(chunk_key(8, 0), chunk.encode());
        assert_eq!(found(&context), Some(vec![]));
    }
}
