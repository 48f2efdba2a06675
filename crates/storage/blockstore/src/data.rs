//! Objects' bytes: mapped blocks, written in place by the log or to new blocks.

use std::collections::BTreeMap;
use std::ops::Range;

use buffer::{Piece, PieceMut, Rope, copy_payload};
use store::keys;

use crate::context::{Context, Found};
use crate::layout::BLOCK;
use crate::page::Key;
use crate::records::{CHUNK_BLOCKS, Chunk, Part, Slot, chunk_key, chunk_of, part_key};
use crate::stop::{Attempt, damaged};

impl Context<'_> {
    /// The records of the map that have blocks of `first..end`, with the number of their first block.
    fn chunks(&self, number: u64, first: u64, end: u64) -> Attempt<Vec<(u64, Key, Piece)>> {
        let start = chunk_key(number, first / CHUNK_BLOCKS);
        let stop = match end.div_ceil(CHUNK_BLOCKS) {
            chunk if chunk <= u64::from(u32::MAX) => Some(chunk_key(number, chunk)),
            _ => keys::after_prefix(&part_key(number, Part::Chunk, &[])),
        };
        let records = self.range(&start, stop.as_deref())?;
        let base = |key: &Key| chunk_of(key).ok_or_else(|| damaged("a key of a map of blocks"));
        records.into_iter().map(|(key, value)| Ok((base(&key)? * CHUNK_BLOCKS, key, value))).collect()
    }

    /// The mapped blocks of `first..end`, by their number in the object.
    pub fn mapped(&self, number: u64, first: u64, end: u64) -> Attempt<Vec<(u64, Slot)>> {
        let mut mapped = Vec::new();
        for (base, _, value) in self.chunks(number, first, end)? {
            let chunk = Chunk::decode(&value).map_err(damaged)?;
            let all = chunk.0.into_iter().map(|(place, slot)| (base + u64::from(place), slot));
            mapped.extend(all.filter(|(block, _)| (first..end).contains(block)));
        }
        Ok(mapped)
    }

    /// Bytes of an object, which reach no further than its end.
    pub fn read(&self, found: &Found, offset: u64, len: u64) -> Attempt<Rope> {
        let (first, end) = (offset / BLOCK, (offset + len).div_ceil(BLOCK));
        let mapped = self.mapped(found.onode.number, first, end)?;
        let pieces = self.bytes_of(found, &mapped)?;
        let numbers = mapped.iter().map(|(number, _)| *number);
        Ok(assemble(offset, len, numbers.zip(pieces)))
    }

    /// Puts bytes into an object; the caller stores it. `checksums` are those of `data`'s blocks, which are whole and
    /// aligned then.
    pub fn write(
        &mut self,
        found: &mut Found,
        offset: u64,
        data: &Rope,
        checksums: Option<&[u32]>,
    ) -> Attempt<()> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        let (first, last) = (offset / BLOCK, end.div_ceil(BLOCK));
        let mut block = first;
        while block < last {
            let chunk_end = ((block / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS).min(last);
            self.write_chunk(found, (block, chunk_end), (offset, data), checksums)?;
            block = chunk_end;
        }
        found.onode.size = found.onode.size.max(end);
        Ok(())
    }

    /// The part of a write that falls on blocks `first..end` of one record of the map.
    fn write_chunk(
        &mut self,
        found: &Found,
        (first, end): (u64, u64),
        (offset, data): (u64, &Rope),
        checksums: Option<&[u32]>,
    ) -> Attempt<()> {
        let key = chunk_key(found.onode.number, first / CHUNK_BLOCKS);
        let mut chunk = match self.get(&key)? {
            Some(value) => Chunk::decode(&value).map_err(damaged)?,
            None => Chunk::default(),
        };
        let place = |block: u64| (block % CHUNK_BLOCKS) as u8;
        let mut contents = Vec::with_capacity((end - first) as usize);
        for block in first..end {
            let old = chunk.0.get(&place(block)).copied();
            contents.push(self.block_content(found, block, old, offset, data)?);
        }
        let stays = |context: &Self, slot: Option<&Slot>| {
            slot.is_some_and(|s| !s.shared && (context.in_place || context.fresh.contains(&s.block)))
        };
        let moves = (first..end).filter(|b| !stays(self, chunk.0.get(&place(*b)))).count();
        let mut new = self.allocate(moves as u64)?.into_iter();
        for (number, bytes) in (first..end).zip(contents) {
            let given = checksums.and_then(|all| all.get((number - offset / BLOCK) as usize)).copied();
            let crc = given.unwrap_or_else(|| bytes.crc32c(!0));
            let old = chunk.0.get(&place(number)).copied();
            let block = match old.filter(|slot| stays(self, Some(slot))) {
                Some(slot) => slot.block,
                None => {
                    if let Some(slot) = old {
                        self.give_up(slot)?;
                    }
                    // As many were allocated as move.
                    new.next().ok_or_else(|| damaged("blocks were counted wrong"))?
                }
            };
            self.blocks.insert(block, bytes);
            chunk.0.insert(place(number), Slot { block, crc, shared: false });
        }
        self.put(key, chunk.encode())
    }

    /// What a block holds after a write: the write's bytes, around them what was there.
    fn block_content(
        &self,
        found: &Found,
        block: u64,
        old: Option<Slot>,
        offset: u64,
        data: &Rope,
    ) -> Attempt<Piece> {
        let (start, end) = (block * BLOCK, (block + 1) * BLOCK);
        let data_end = offset + data.len() as u64;
        let (from, to) = (start.max(offset), end.min(data_end));
        let part = data.slice((from - offset) as usize..(to - offset) as usize);
        if part.len() as u64 == BLOCK {
            return Ok(part.to_piece());
        }
        let mut merged = PieceMut::zeroed(BLOCK as usize);
        let bytes = merged.as_mut_slice();
        if let Some(slot) = old {
            let before = self.bytes_of(found, &[(block, slot)])?;
            before.iter().for_each(|before| copy_payload(bytes, before));
        }
        let mut at = (from - start) as usize;
        for piece in part.pieces() {
            copy_payload(&mut bytes[at..at + piece.len()], piece);
            at += piece.len();
        }
        Ok(merged.freeze())
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
            self.unmap(found.onode.number, first, last)?;
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
            self.unmap(found.onode.number, size.div_ceil(BLOCK), u64::MAX)?;
            self.zero(found, size, block_end - size)?;
        }
        found.onode.size = size;
        Ok(())
    }

    /// Gives up the blocks `first..end` of an object.
    pub fn unmap(&mut self, number: u64, first: u64, end: u64) -> Attempt<()> {
        for (base, key, value) in self.chunks(number, first, end)? {
            let chunk = Chunk::decode(&value).map_err(damaged)?;
            let inside = |place: &u8| (first..end).contains(&(base + u64::from(*place)));
            let (gone, kept) = chunk.0.into_iter().partition(|(place, _)| inside(place));
            let (gone, kept) = (Chunk(gone), Chunk(kept));
            for slot in gone.0.values() {
                self.give_up(*slot)?;
            }
            match kept.0.is_empty() {
                true => self.delete_known(key, &value),
                false => self.put(key, kept.encode())?,
            }
        }
        Ok(())
    }

    /// Lets an object map, from `to_first` on, the blocks that another one maps in `blocks`; gives up what it had there.
    pub fn share_range(&mut self, from: u64, blocks: Range<u64>, to: u64, to_first: u64) -> Attempt<()> {
        self.unmap(to, to_first, to_first + (blocks.end - blocks.start))?;
        let mut shared: BTreeMap<u64, Vec<(u8, Slot)>> = BTreeMap::new();
        for (base, key, value) in self.chunks(from, blocks.start, blocks.end)? {
            let mut chunk = Chunk::decode(&value).map_err(damaged)?;
            let inside = |place: &u8| blocks.contains(&(base + u64::from(*place)));
            let some =
                Chunk(chunk.0.iter().filter(|(p, _)| inside(p)).map(|(p, slot)| (*p, *slot)).collect());
            self.add_shares(&some)?;
            for (place, slot) in some.0 {
                let slot = Slot { shared: true, ..slot };
                chunk.0.insert(place, slot);
                let target = to_first + (base + u64::from(place) - blocks.start);
                let in_chunk = (target % CHUNK_BLOCKS) as u8;
                shared.entry(target / CHUNK_BLOCKS).or_default().push((in_chunk, slot));
            }
            self.put(key, chunk.encode())?;
        }
        for (number, slots) in shared {
            let key = chunk_key(to, number);
            let mut chunk = match self.get(&key)? {
                Some(value) => Chunk::decode(&value).map_err(damaged)?,
                None => Chunk::default(),
            };
            chunk.0.extend(slots);
            self.put(key, chunk.encode())?;
        }
        Ok(())
    }

    /// Lets the object numbered `to`, which has no data, map the same blocks.
    pub fn share_data(&mut self, from: u64, to: u64) -> Attempt<()> {
        for (base, key, value) in self.chunks(from, 0, u64::MAX)? {
            let mut chunk = Chunk::decode(&value).map_err(damaged)?;
            self.add_shares(&chunk)?;
            chunk.0.values_mut().for_each(|slot| slot.shared = true);
            let shared = chunk.encode();
            self.put(key, shared.clone())?;
            self.put_new(chunk_key(to, base / CHUNK_BLOCKS), shared);
        }
        Ok(())
    }
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
