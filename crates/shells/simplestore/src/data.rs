//! Objects' bytes: blocks that are written once, mapped, and given back.

use buffer::{Piece, PieceMut, Rope, crc32c};
use store::StoreError;

use crate::alloc::Allocator;
use crate::keys;
use crate::object::{Context, Found};
use crate::onode::{BLOCK, Block, CHUNK_BLOCKS, Chunk, decode_chunk, encode_chunk};
use crate::tables::{In, Step};
use crate::worker::io_error;

/// The image's space and what transactions not yet durable do to it.
pub struct Space {
    pub alloc: Allocator,
    /// Taken and given up by the transaction being applied.
    taken: Vec<u64>,
    freed: Vec<u64>,
    /// Given up by the batch: free when it is durable, since a crash brings back who had them.
    freed_by_batch: Vec<u64>,
}

impl Space {
    pub fn new(alloc: Allocator) -> Self {
        Self { alloc, taken: Vec::new(), freed: Vec::new(), freed_by_batch: Vec::new() }
    }

    /// Blocks that transactions leave free, so that a full store can still cut objects short.
    pub fn reserved_blocks(&self) -> u64 {
        (self.alloc.blocks() / 64).min(1024)
    }

    /// Blocks in use once the batch is durable.
    pub fn used_blocks(&self) -> u64 {
        let freed = self.freed_by_batch.len() + self.freed.len();
        self.alloc.blocks() - self.alloc.free_blocks() - freed as u64
    }

    /// Blocks that a transaction can take now.
    pub fn available_blocks(&self) -> u64 {
        self.alloc.free_blocks().saturating_sub(self.reserved_blocks())
    }

    /// The transaction's changes stay.
    pub fn keep(&mut self) {
        self.taken.clear();
        self.freed_by_batch.append(&mut self.freed);
    }

    /// The transaction is refused.
    pub fn take_back(&mut self) {
        self.taken.drain(..).for_each(|block| self.alloc.release(block));
        self.freed.clear();
    }

    /// The batch is durable.
    pub fn committed(&mut self) {
        self.freed_by_batch.drain(..).for_each(|block| self.alloc.release(block));
    }
}

/// Whether a change may use the reserve.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reserve {
    Keep,
    Use,
}

impl Context<'_, '_> {
    /// The mapped blocks of `first..end`, by number within the object.
    fn mapped(&self, nid: u64, first: u64, end: u64) -> Step<Vec<(u64, Block)>> {
        let mut blocks = Vec::new();
        let start = chunk_key(nid, first / CHUNK_BLOCKS);
        let stop = match end.div_ceil(CHUNK_BLOCKS) {
            n if end < u64::MAX => Some(chunk_key(nid, n)),
            _ => keys::after_prefix(&nid.to_be_bytes()),
        };
        self.tables.scan(In::Chunks, &start, stop.as_deref(), |key, value| {
            let base = chunk_number(key) * CHUNK_BLOCKS;
            let all = decode_chunk(value)?.into_iter().map(|(place, block)| (base + u64::from(place), block));
            blocks.extend(all.filter(|(n, _)| (first..end).contains(n)));
            Ok(true)
        })?;
        Ok(blocks)
    }

    /// Reads successive blocks that lie one after the other, and checks each.
    fn read_run(&self, found: &Found, run: &[(u64, Block)]) -> Step<Piece> {
        let Some((_, first)) = run.first() else { return Ok(Piece::empty()) };
        let mut piece = PieceMut::zeroed(run.len() * BLOCK as usize);
        let read = self.image.read_at(first.at * BLOCK, piece.as_mut_slice());
        read.map_err(|e| io_error("read of the image", &e))?;
        let piece = piece.freeze();
        for ((number, block), bytes) in run.iter().zip(piece.chunks(BLOCK as usize)) {
            if crc32c(!0, bytes) != block.crc {
                let object = Box::new(found.object.clone());
                return Err(StoreError::Checksum {
                    collection: found.collection,
                    object,
                    offset: number * BLOCK,
                }
                .into());
            }
        }
        Ok(piece)
    }

    /// Whole blocks `first..end`, zeros where nothing is mapped.
    fn read_blocks(&self, found: &Found, first: u64, end: u64) -> Step<Rope> {
        let mut out = Rope::new();
        let mut at = first;
        for run in runs(&self.mapped(found.onode.nid, first, end)?) {
            let start = run[0].0;
            out.append(Rope::zeros(((start - at) * BLOCK) as usize));
            out.push(self.read_run(found, run)?);
            at = start + run.len() as u64;
        }
        out.append(Rope::zeros(((end - at) * BLOCK) as usize));
        Ok(out)
    }

    /// Bytes of an object, cut at its end.
    pub fn read_data(&self, found: &Found, offset: u64, len: u64) -> Step<Rope> {
        let end = offset.saturating_add(len).min(found.onode.size);
        if offset >= end {
            return Ok(Rope::new());
        }
        let first = offset / BLOCK;
        let blocks = self.read_blocks(found, first, end.div_ceil(BLOCK))?;
        let skip = (offset - first * BLOCK) as usize;
        Ok(blocks.slice(skip..skip + (end - offset) as usize))
    }

    /// Mapped ranges of an object, cut at its end.
    pub fn extents(&self, found: &Found, offset: u64, len: u64) -> Step<Vec<(u64, u64)>> {
        let end = offset.saturating_add(len).min(found.onode.size);
        let mut out: Vec<(u64, u64)> = Vec::new();
        if offset >= end {
            return Ok(out);
        }
        for (number, _) in self.mapped(found.onode.nid, offset / BLOCK, end.div_ceil(BLOCK))? {
            let (from, to) = ((number * BLOCK).max(offset), ((number + 1) * BLOCK).min(end));
            match out.last_mut() {
                Some((at, len)) if *at + *len == from => *len += to - from,
                _ => out.push((from, to - from)),
            }
        }
        Ok(out)
    }

    /// Puts bytes into an object; the caller stores its record.
    pub fn write_data(&mut self, found: &mut Found, offset: u64, data: &Rope) -> Step<()> {
        self.overlay(found, offset, data, Reserve::Keep)
    }

    fn overlay(&mut self, found: &mut Found, offset: u64, data: &Rope, reserve: Reserve) -> Step<()> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
        let (head, tail) = ((offset - first * BLOCK) as usize, (end - last * BLOCK) as usize);
        let mut blocks = Rope::new();
        if head > 0 {
            blocks.append(self.read_blocks(found, first, first + 1)?.slice(0..head));
        }
        blocks.append(data.clone());
        if tail < BLOCK as usize {
            blocks.append(self.read_blocks(found, last, last + 1)?.slice(tail..BLOCK as usize));
        }
        self.map(found.onode.nid, first, &blocks, reserve)?;
        found.onode.size = found.onode.size.max(end);
        Ok(())
    }

    /// Makes a range zero; the caller stores the record.
    pub fn zero_data(&mut self, found: &mut Found, offset: u64, len: u64) -> Step<()> {
        if len == 0 {
            return Ok(());
        }
        let end = offset + len;
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        if first < last {
            self.unmap(found.onode.nid, first, last)?;
        }
        let head_end = (first * BLOCK).min(end);
        for (from, to) in [(offset, head_end), ((last * BLOCK).max(head_end), end)] {
            if from < to && !self.mapped(found.onode.nid, from / BLOCK, from / BLOCK + 1)?.is_empty() {
                self.overlay(found, from, &Rope::zeros((to - from) as usize), Reserve::Use)?;
            }
        }
        found.onode.size = found.onode.size.max(end);
        Ok(())
    }

    /// Sets an object's size; the caller stores the record.
    pub fn truncate_data(&mut self, found: &mut Found, size: u64) -> Step<()> {
        if size < found.onode.size {
            // What lies behind the end in its block must not come back when the object grows.
            let block_end = size.next_multiple_of(BLOCK).min(found.onode.size);
            self.unmap(found.onode.nid, size.div_ceil(BLOCK), u64::MAX)?;
            self.zero_data(found, size, block_end - size)?;
        }
        found.onode.size = size;
        Ok(())
    }

    /// Copies all blocks of `from` to the object numbered `to`, which has none.
    pub fn copy_data(&mut self, from: &Found, to: u64) -> Step<()> {
        let blocks = self.mapped(from.onode.nid, 0, u64::MAX)?;
        for run in runs(&blocks) {
            for part in run.chunks(256) {
                let data = self.read_run(from, part)?.into();
                self.map(to, part[0].0, &data, Reserve::Keep)?;
            }
        }
        Ok(())
    }

    /// Writes whole blocks to free space and maps them, in place of what was mapped, from block `first` on.
    fn map(&mut self, nid: u64, first: u64, data: &Rope, reserve: Reserve) -> Step<()> {
        let count = data.len() as u64 / BLOCK;
        let mut new = self.write_blocks(count, data, reserve)?.into_iter();
        let (mut number, end) = (first, first + count);
        while number < end {
            let chunk_end = ((number / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS).min(end);
            let key = chunk_key(nid, number / CHUNK_BLOCKS);
            let mut chunk = self.chunk(&key)?;
            for (place, block) in (number..chunk_end).zip(new.by_ref()) {
                let old = chunk.insert((place % CHUNK_BLOCKS) as u8, block);
                self.space.freed.extend(old.map(|b| b.at));
            }
            self.tables.set(In::Chunks, &key, &encode_chunk(&chunk))?;
            number = chunk_end;
        }
        Ok(())
    }

    /// Takes `count` blocks and writes `data` to them.
    fn write_blocks(&mut self, count: u64, data: &Rope, reserve: Reserve) -> Step<Vec<Block>> {
        let available = match reserve {
            Reserve::Keep => self.space.available_blocks(),
            Reserve::Use => self.space.alloc.free_blocks(),
        };
        let full = StoreError::NoSpace { needed: count * BLOCK, available: available * BLOCK };
        let taken = if count > available { None } else { self.space.alloc.allocate(count) };
        let runs = taken.ok_or(full)?;
        self.space.taken.extend(runs.iter().flat_map(|r| r.start..r.start + r.len));
        self.data_written = true;
        let mut blocks = Vec::with_capacity(count as usize);
        let mut at = 0;
        for run in runs {
            let len = (run.len * BLOCK) as usize;
            let part = data.slice(at..at + len);
            let written = self.image.write_rope_at(run.start * BLOCK, &part);
            written.map_err(|e| io_error("write to the image", &e))?;
            blocks.extend((0..run.len).map(|i| {
                let from = (i * BLOCK) as usize;
                Block { at: run.start + i, crc: part.slice(from..from + BLOCK as usize).crc32c(!0) }
            }));
            at += len;
        }
        Ok(blocks)
    }

    fn chunk(&self, key: &[u8]) -> Step<Chunk> {
        match self.tables.get(In::Chunks, key)? {
            Some(bytes) => Ok(decode_chunk(&bytes)?),
            None => Ok(Chunk::new()),
        }
    }

    /// Gives up the blocks `first..end` of an object.
    pub fn unmap(&mut self, nid: u64, first: u64, end: u64) -> Step<()> {
        let start = chunk_key(nid, first / CHUNK_BLOCKS);
        let stop = match end {
            u64::MAX => keys::after_prefix(&nid.to_be_bytes()),
            end => Some(chunk_key(nid, end.div_ceil(CHUNK_BLOCKS))),
        };
        for key in self.tables.keys(In::Chunks, &start, stop.as_deref())? {
            let base = chunk_number(&key) * CHUNK_BLOCKS;
            let (gone, kept): (Chunk, Chunk) = self
                .chunk(&key)?
                .into_iter()
                .partition(|(place, _)| (first..end).contains(&(base + u64::from(*place))));
            self.space.freed.extend(gone.values().map(|b| b.at));
            match kept.is_empty() {
                true => drop(self.tables.remove(In::Chunks, &key)?),
                false => self.tables.set(In::Chunks, &key, &encode_chunk(&kept))?,
            }
        }
        Ok(())
    }
}

fn chunk_key(nid: u64, number: u64) -> Vec<u8> {
    keys::numbered_key(nid, &number.to_be_bytes())
}

/// A chunk's number, from its key.
fn chunk_number(key: &[u8]) -> u64 {
    key.last_chunk::<8>().map_or(0, |n| u64::from_be_bytes(*n))
}

/// Parts of a list of blocks that follow one another in the object and on the image, 4 MiB at the most.
fn runs(blocks: &[(u64, Block)]) -> impl Iterator<Item = &[(u64, Block)]> {
    let follows = |a: &(u64, Block), b: &(u64, Block)| a.0 + 1 == b.0 && a.1.at + 1 == b.1.at;
    blocks.chunk_by(follows).flat_map(|run| run.chunks(1024))
}
