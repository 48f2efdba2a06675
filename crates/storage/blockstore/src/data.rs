//! Objects' bytes: which blocks are mapped, shared, and given up. [`crate::write`] puts new ones there.

use std::collections::BTreeMap;
use std::ops::Range;

use buffer::{Piece, Rope};

use crate::chunk::{CHUNK_BLOCKS, Chunk, place_bit, places_from};
use crate::context::{Context, bad_blob};
use crate::find::Found;
use crate::layout::BLOCK;
use crate::mapped::{Mapped, unpacked};
use crate::onode::Onode;
use crate::stop::{Attempt, damaged};

impl Context<'_> {
    /// What is mapped of the blocks `first..end`.
    pub fn mapped(&self, onode: &Onode, first: u64, end: u64) -> Attempt<Mapped> {
        let mut mapped = Mapped::default();
        let mut add = |base: u64, record: &[u8]| {
            let wanted = places_from(base, &(first..end));
            let chunk = Chunk::decode_within(record, wanted).map_err(damaged)?;
            mapped.add_chunk(base, &chunk, &(first..end));
            Ok(())
        };
        let only = first / CHUNK_BLOCKS;
        if end.div_ceil(CHUNK_BLOCKS) == only + 1 {
            self.with_record(onode, only, |record| add(only * CHUNK_BLOCKS, record))?;
        } else {
            for (chunk, value) in self.records(onode, &(first..end))? {
                add(chunk * CHUNK_BLOCKS, &value)?;
            }
        }
        Ok(mapped)
    }

    /// Whether some of the blocks are compressed.
    pub fn has_blobs(&self, onode: &Onode, blocks: &Range<u64>) -> Attempt<bool> {
        Ok(!self.mapped(onode, blocks.start, blocks.end)?.blobs.is_empty())
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
        let mapped = self.mapped(&found.onode, first, end)?;
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
            if from < to && !self.mapped(&found.onode, block, block + 1)?.is_empty() {
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

    /// Gives up the blocks `first..end` of an object; the caller stores it.
    pub fn unmap(&mut self, found: &mut Found, first: u64, end: u64) -> Attempt<()> {
        for (number, value) in self.records(&found.onode, &(first..end))? {
            let base = number * CHUNK_BLOCKS;
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
                true => self.delete_record(&mut found.onode, number, &value),
                false => self.put_record(&mut found.onode, number, Some(&value), chunk.encode()),
            }
        }
        Ok(())
    }

    /// Lets an object map, from `to_first` on, the blocks that another one maps in `blocks`; gives up what it had there.
    /// Compressed blocks stay at their places of a chunk. The caller stores both.
    pub fn share_range(
        &mut self,
        from: &mut Onode,
        blocks: Range<u64>,
        to: &mut Found,
        to_first: u64,
    ) -> Attempt<()> {
        self.unmap(to, to_first, to_first + (blocks.end - blocks.start))?;
        let mut shared: BTreeMap<u64, Chunk> = BTreeMap::new();
        for (number, value) in self.records(from, &blocks)? {
            let base = number * CHUNK_BLOCKS;
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
            self.put_record(from, number, Some(&value), chunk.encode());
        }
        for (number, part) in shared {
            let old = self.record(&to.onode, number)?;
            let mut chunk = Chunk::of_record(old.as_ref()).map_err(damaged)?;
            part.slots.iter().for_each(|(place, slot)| chunk.slots.insert(place, slot));
            chunk.blobs.extend(part.blobs);
            let rescued = self.rescued(to, number * CHUNK_BLOCKS, &chunk, 0)?;
            if !rescued.is_empty() {
                self.replace(&mut chunk, rescued, Vec::new())?;
            }
            self.put_record(&mut to.onode, number, old.as_ref(), chunk.encode());
        }
        Ok(())
    }

    /// Lets `to`, which has no data, map the same blocks. The caller stores both.
    pub fn share_data(&mut self, from: &mut Onode, to: &mut Onode) -> Attempt<()> {
        for (number, value) in self.records(from, &(0..u64::MAX))? {
            let mut chunk = Chunk::decode(&value).map_err(damaged)?;
            self.add_shares(&chunk)?;
            chunk.stored_mut().for_each(|slot| slot.shared = true);
            let shared = chunk.encode();
            self.put_record(from, number, Some(&value), shared.clone());
            self.put_record(to, number, None, shared);
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

/// Bytes of an object from the blocks that are mapped, ascending, each piece whole blocks; zeros between them.
pub fn assemble(offset: u64, len: u64, runs: impl Iterator<Item = (u64, Piece)>) -> Rope {
    let end = offset + len;
    let mut out = Rope::new();
    let mut at = offset;
    for (number, piece) in runs {
        let start = number * BLOCK;
        let (from, to) = (start.max(offset), (start + piece.len() as u64).min(end));
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
    use crate::pool_use::PoolUse;
    use crate::ranges::Ranges;
    use crate::records::chunk_key;
    use crate::space::Space;
    use crate::tree::Tables;

    #[test]
    fn a_record_of_the_map_that_was_found_lately_is_not_searched_for() {
        let (tables, contents, packer) = (Tables::default(), Contents::default(), Packer::default());
        let slot = Slot { block: 9, crc: 1, shared: false };
        let chunk = Chunk { slots: [(5, slot)].into_iter().collect(), blobs: Vec::new() };
        // The tables do not have it: a search finds nothing.
        tables.recent.borrow_mut().maps.note(7, 0, &chunk.encode());
        let (pool_use, mut space) = (PoolUse::default(), Space::new(&Ranges::one(0, 100)));
        let blocks = (&mut space, &packer, &pool_use);
        let mut context = Context::new(&tables, &contents, &NOTHING_FETCHED, blocks, Counters::default());
        let onode = Onode::decode(&vec![0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0].into())
            .expect("of an earlier build");
        let found = |context: &Context<'_>| context.mapped(&onode, 5, 6).map(|mapped| mapped.numbers()).ok();
        assert_eq!(found(&context), Some(vec![]));
        context.asks_recent = true;
        assert_eq!(found(&context), Some(vec![5]));
        // What a transaction has changed is known to it alone.
        context.put_new(chunk_key(8, 0), chunk.encode());
        assert_eq!(found(&context), Some(vec![]));
    }
}
