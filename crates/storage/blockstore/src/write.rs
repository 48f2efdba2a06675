//! New contents of blocks: in place by the log, in new blocks, or compressed in new blocks.
//!
//! **Compressed blocks are never written in place.** What is written over leaves its blob; what is left of a blob leaves it
//! too, as it is, when the blob takes more blocks than that would by itself. So an object never has more blocks than it
//! would have without compression, however it is written.

use std::ops::Range;

use buffer::{Piece, PieceMut, Rope, copy_payload};

use crate::chunk::{Blob, CHUNK_BLOCKS, Chunk, Places, Slot, place_bit, places};
use crate::context::Context;
use crate::find::Found;
use crate::layout::BLOCK;
use crate::mapped::Mapped;
use crate::packer::{Change, NewBlob, NewBlock, Plan};
use crate::stop::{Attempt, damaged};

impl Context<'_> {
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
        let plan = self.packer.plan(found)?;
        if plan.is_some() {
            // What has to be read first is asked for before anything is compressed, which would be done again.
            for chunk in first / CHUNK_BLOCKS..last.div_ceil(CHUNK_BLOCKS) {
                self.record(&found.onode, chunk)?;
            }
        }
        let mut block = first;
        while block < last {
            let chunk_end = ((block / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS).min(last);
            self.write_chunk(found, (block, chunk_end), (offset, data), (checksums, plan))?;
            block = chunk_end;
        }
        found.onode.size = found.onode.size.max(end);
        Ok(())
    }

    /// The part of a write that falls on blocks `first..end` of one record of the map.
    fn write_chunk(
        &mut self,
        found: &mut Found,
        (first, end): (u64, u64),
        (offset, data): (u64, &Rope),
        (checksums, plan): (Option<&[u32]>, Option<Plan>),
    ) -> Attempt<()> {
        let number = first / CHUNK_BLOCKS;
        let base = number * CHUNK_BLOCKS;
        let (data, written) = ((offset, data, checksums), places(first - base, end - base));
        let record = self.record(&found.onode, number)?;
        if let (None, Some(record)) = (plan, &record) {
            let part = Chunk::decode_within(record, written).map_err(damaged)?;
            if self.all_stay(&part, written) {
                let blocks = self.new_blocks(found, (base, &part), first..end, data)?;
                return self.overwrite(found, (number, record), &part, blocks);
            }
        }
        let mut chunk = Chunk::of_record(record.as_ref()).map_err(damaged)?;
        let mut blocks = self.new_blocks(found, (base, &chunk), first..end, data)?;
        let rescued = self.rescued(found, base, &chunk, written)?;
        let blobs = plan.map_or(Vec::new(), |plan| self.packer.pack(plan, &mut blocks));
        if !rescued.is_empty() {
            blocks.extend(rescued);
            blocks.sort_by_key(|block| block.place);
        }
        self.replace(&mut chunk, blocks, blobs)?;
        self.put_record(&mut found.onode, number, record.as_ref(), chunk.encode());
        Ok(())
    }

    /// What blocks of one record of the map hold after a write.
    fn new_blocks(
        &self,
        found: &Found,
        (base, chunk): (u64, &Chunk),
        blocks: Range<u64>,
        (offset, data, checksums): (u64, &Rope, Option<&[u32]>),
    ) -> Attempt<Vec<NewBlock>> {
        let block = |number: u64| {
            let bytes = self.block_content(found, (base, chunk), number, (offset, data))?;
            let given = checksums.and_then(|all| all.get((number - offset / BLOCK) as usize)).copied();
            Ok(NewBlock { place: (number - base) as u8, bytes, crc: given })
        };
        blocks.map(block).collect()
    }

    /// Whether a mapped block is written where it is.
    fn stays(&self, slot: &Slot) -> bool {
        !slot.shared && (self.in_place || self.fresh.contains(slot.block))
    }

    /// Whether all of these places are mapped to blocks that are written where they are.
    fn all_stay(&self, part: &Chunk, written: Places) -> bool {
        part.blobs.is_empty()
            && part.slots.len() == written.count_ones() as usize
            && part.slots.values().all(|slot| self.stays(slot))
    }

    /// Writes blocks where they are: of the map's record only their checksums change.
    fn overwrite(
        &mut self,
        found: &mut Found,
        (number, record): (u64, &Piece),
        part: &Chunk,
        blocks: Vec<NewBlock>,
    ) -> Attempt<()> {
        let mut changed = record.to_vec();
        for (NewBlock { place, bytes, crc }, slot) in blocks.into_iter().zip(part.slots.values()) {
            let crc = crc.unwrap_or_else(|| bytes.crc32c(!0));
            Chunk::set_checksum(&mut changed, place, crc).map_err(damaged)?;
            self.set_contents(slot.block, bytes);
        }
        self.put_record(&mut found.onode, number, Some(record), changed.into());
        Ok(())
    }

    /// What a block holds after a write: the write's bytes, around them what was there.
    fn block_content(
        &self,
        found: &Found,
        (base, chunk): (u64, &Chunk),
        block: u64,
        (offset, data): (u64, &Rope),
    ) -> Attempt<Piece> {
        let (start, end) = (block * BLOCK, (block + 1) * BLOCK);
        let data_end = offset + data.len() as u64;
        let (from, to) = (start.max(offset), end.min(data_end));
        let part = (from - offset) as usize..(to - offset) as usize;
        if part.len() as u64 == BLOCK {
            return Ok(data.piece(part));
        }
        let mut merged = PieceMut::zeroed(BLOCK as usize);
        let bytes = merged.as_mut_slice();
        let mut old = Mapped::default();
        old.add_chunk(base, chunk, &(block..block + 1));
        for (_, before) in self.contents_of(found, &old)? {
            copy_payload(bytes, &before);
        }
        let mut at = (from - start) as usize;
        for piece in data.slice(part).pieces() {
            copy_payload(&mut bytes[at..at + piece.len()], piece);
            at += piece.len();
        }
        Ok(merged.freeze())
    }

    /// The contents of what has to leave its blob when the places `gone` do: what is left of that takes more blocks in it
    /// than by itself.
    pub fn rescued(&self, found: &Found, base: u64, chunk: &Chunk, gone: Places) -> Attempt<Vec<NewBlock>> {
        let mut left = Mapped::default();
        for blob in &chunk.blobs {
            let live = blob.live & !gone;
            if live != 0 && blob.is_too_large_for(live) {
                left.add_blob(base, &Blob { live, ..blob.clone() }, &(0..u64::MAX));
            }
        }
        if left.is_empty() {
            return Ok(Vec::new());
        }
        let place = |number: u64| (number - base) as u8;
        let contents = self.contents_of(found, &left)?.into_iter();
        Ok(contents.map(|(number, bytes)| NewBlock { place: place(number), bytes, crc: None }).collect())
    }

    /// Puts new contents at places of a chunk, in place of what is there; the caller stores the chunk.
    pub fn replace(&mut self, chunk: &mut Chunk, blocks: Vec<NewBlock>, blobs: Vec<NewBlob>) -> Attempt<()> {
        let stays = |new: &&NewBlock| chunk.slots.get(new.place).is_some_and(|slot| self.stays(slot));
        let moves = blocks.len() - blocks.iter().filter(stays).count();
        let packed: u64 = blobs.iter().map(|blob| Blob::stored_blocks(blob.bytes)).sum();
        let mut new = self.allocate(moves as u64 + packed)?.into_iter();
        // As many were allocated as are taken.
        let mut next = || new.next().ok_or_else(|| damaged("blocks were counted wrong"));
        if !chunk.blobs.is_empty() {
            let written = blocks.iter().fold(0, |all, block| all | place_bit(block.place));
            let packed = blobs.iter().fold(0, |all, blob| all | blob.places());
            self.take_places(chunk, written | packed)?;
        }
        for blob in blobs {
            for place in blob.place..blob.place + blob.blocks {
                if let Some(slot) = chunk.slots.remove(place) {
                    self.give_up(slot)?;
                }
            }
            let placed = self.place_blob(blob, &mut next)?;
            chunk.blobs.push(placed);
        }
        chunk.slots.reserve(moves);
        for NewBlock { place, bytes, crc } in blocks {
            let crc = crc.unwrap_or_else(|| bytes.crc32c(!0));
            let old = chunk.slots.get(place).copied();
            let block = match old.filter(|slot| self.stays(slot)) {
                Some(slot) => slot.block,
                None => {
                    if let Some(slot) = old {
                        self.give_up(slot)?;
                    }
                    next()?
                }
            };
            self.set_contents(block, bytes);
            chunk.slots.insert(place, Slot { block, crc, shared: false });
        }
        Ok(())
    }

    /// Gives a blob its blocks.
    fn place_blob(&mut self, blob: NewBlob, next: &mut impl FnMut() -> Attempt<u64>) -> Attempt<Blob> {
        let live = blob.places();
        let NewBlob { place, blocks, algorithm, pool, bytes, data } = blob;
        let mut stored = Vec::with_capacity(data.len() / BLOCK as usize);
        for at in (0..data.len()).step_by(BLOCK as usize) {
            let (block, part) = (next()?, data.slice(at..at + BLOCK as usize));
            stored.push(Slot { block, crc: part.crc32c(!0), shared: false });
            self.set_contents(block, part);
        }
        let blob = Blob { place, blocks, algorithm, pool, bytes, live, stored };
        self.count_live(&blob, live, 1);
        self.count_stored(&blob, 1);
        Ok(blob)
    }

    /// Takes places out of the blobs that have them; a blob without any is given up.
    pub fn take_places(&mut self, chunk: &mut Chunk, gone: Places) -> Attempt<()> {
        for blob in &mut chunk.blobs {
            self.count_live(blob, blob.live & gone, -1);
            blob.live &= !gone;
        }
        let (empty, kept) = std::mem::take(&mut chunk.blobs).into_iter().partition(|blob| blob.live == 0);
        let empty: Vec<Blob> = empty;
        chunk.blobs = kept;
        empty.iter().try_for_each(|blob| self.drop_stored(blob))
    }

    /// An object is removed that has this blob.
    pub fn drop_blob(&mut self, blob: &Blob) -> Attempt<()> {
        self.count_live(blob, blob.live, -1);
        self.drop_stored(blob)
    }

    fn drop_stored(&mut self, blob: &Blob) -> Attempt<()> {
        let mut freed = false;
        for slot in &blob.stored {
            freed = self.give_up(*slot)?;
        }
        if freed {
            self.count_stored(blob, -1);
        }
        Ok(())
    }

    /// Counts blocks that have (or have no more) their contents from a blob.
    pub fn count_live(&mut self, blob: &Blob, live: Places, times: i64) {
        if live != 0 {
            let bytes = i64::from(live.count_ones()) * BLOCK as i64;
            self.packed.entry(blob.pool).or_default().original += times * bytes;
        }
    }

    fn count_stored(&mut self, blob: &Blob, times: i64) {
        let change: &mut Change = self.packed.entry(blob.pool).or_default();
        change.stored += times * i64::from(blob.bytes);
        change.allocated += times * (blob.stored.len() as u64 * BLOCK) as i64;
    }
}
