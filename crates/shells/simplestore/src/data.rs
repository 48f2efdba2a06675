//! Objects' bytes: blocks that are written once, mapped, and given back.

use std::io::ErrorKind;

use buffer::{Piece, PieceMut, Rope, crc32c};
use store::StoreError;

use crate::alloc::Run;
use crate::object::{Context, Found};
use crate::records::{BLOCK, Block, CHUNK_BLOCKS, Chunk, decode_chunk, encode_chunk};
use crate::tables::{Attempt, Failure, Table, damaged};
use crate::worker::{io_error, read_error};
use store::keys::{self, Key};

/// Whether a change may use the reserve.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reserve {
    Keep,
    Use,
}

/// What a read does with the system's cache of the image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PageCache {
    Keep,
    /// Drops what was read: it is not wanted soon.
    DropAfter,
    /// Drops before reading, so that the bytes come from the disk, and after.
    Bypass,
}

impl Context<'_, '_> {
    /// The mapped blocks of `first..end`, by number within the object.
    fn mapped(&self, nid: u64, first: u64, end: u64) -> Attempt<Vec<(u64, Block)>> {
        let mut blocks = Vec::new();
        let start = chunk_key(nid, first / CHUNK_BLOCKS);
        let stop = match end.div_ceil(CHUNK_BLOCKS) {
            n if end < u64::MAX => Some(chunk_key(nid, n)),
            _ => keys::after_prefix(&nid.to_be_bytes()),
        };
        self.tables.scan(Table::Chunks, &start, stop.as_deref(), |key, value| {
            let base = chunk_base(key)?;
            let all = chunk_of(value)?.into_iter().map(|(place, block)| (base + u64::from(place), block));
            blocks.extend(all.filter(|(n, _)| (first..end).contains(n)));
            Ok(true)
        })?;
        Ok(blocks)
    }

    /// Reads successive blocks that lie one after the other, and checks each.
    fn read_run(&self, found: &Found, run: &[(u64, Block)], cache: PageCache) -> Attempt<Piece> {
        let Some((_, first)) = run.first() else { return Ok(Piece::empty()) };
        let mut piece = PieceMut::to_fill(run.len() * BLOCK as usize);
        let (offset, len) = (first.at * BLOCK, run.len() as u64 * BLOCK);
        if cache == PageCache::Bypass {
            self.image.drop_cached(offset, len);
        }
        let read = self.image.read_at(offset, piece.as_mut_slice());
        read.map_err(|e| read_error(self.image, offset, &e))?;
        if cache != PageCache::Keep {
            self.image.drop_cached(offset, len);
        }
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
    fn read_blocks(&self, found: &Found, first: u64, end: u64, cache: PageCache) -> Attempt<Rope> {
        let mut out = Rope::new();
        let mut at = first;
        for run in runs(&self.mapped(found.onode.nid, first, end)?) {
            let start = run[0].0;
            out.append(Rope::zeros(((start - at) * BLOCK) as usize));
            out.push(self.read_run(found, run, cache)?);
            at = start + run.len() as u64;
        }
        out.append(Rope::zeros(((end - at) * BLOCK) as usize));
        Ok(out)
    }

    /// Bytes of an object, cut at its end.
    pub fn read_data(&self, found: &Found, offset: u64, len: u64, cache: PageCache) -> Attempt<Rope> {
        let end = offset.saturating_add(len).min(found.onode.size);
        if offset >= end {
            return Ok(Rope::new());
        }
        let first = offset / BLOCK;
        let blocks = self.read_blocks(found, first, end.div_ceil(BLOCK), cache)?;
        let skip = (offset - first * BLOCK) as usize;
        Ok(blocks.slice(skip..skip + (end - offset) as usize))
    }

    /// Mapped ranges of an object, cut at its end.
    pub fn extents(&self, found: &Found, offset: u64, len: u64) -> Attempt<Vec<(u64, u64)>> {
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

    /// Puts bytes into an object; the caller stores its record. `checksums` are those of `data`'s blocks, which are
    /// whole and aligned then.
    pub fn write_data(
        &mut self,
        found: &mut Found,
        offset: u64,
        data: &Rope,
        checksums: Option<&[u32]>,
    ) -> Attempt<()> {
        match checksums {
            Some(checksums) if !data.is_empty() => {
                self.map(found.onode.nid, offset / BLOCK, data, Some(checksums), Reserve::Keep)?;
                found.onode.size = found.onode.size.max(offset + data.len() as u64);
                Ok(())
            }
            Some(_) | None => self.overlay(found, offset, data, Reserve::Keep),
        }
    }

    /// Puts bytes into an object; blocks at either end that the bytes cover in part are read and merged.
    fn overlay(&mut self, found: &mut Found, offset: u64, data: &Rope, reserve: Reserve) -> Attempt<()> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
        let (head, tail) = ((offset - first * BLOCK) as usize, (end - last * BLOCK) as usize);
        let old = |block| self.read_blocks(found, block, block + 1, PageCache::Keep);
        let mut blocks = Rope::new();
        if head > 0 {
            blocks.append(old(first)?.slice(0..head));
        }
        blocks.append(data.clone());
        if tail < BLOCK as usize {
            blocks.append(old(last)?.slice(tail..BLOCK as usize));
        }
        self.map(found.onode.nid, first, &blocks, None, reserve)?;
        found.onode.size = found.onode.size.max(end);
        Ok(())
    }

    /// Makes a range zero; the caller stores the record.
    pub fn zero_data(&mut self, found: &mut Found, offset: u64, len: u64) -> Attempt<()> {
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
    pub fn truncate_data(&mut self, found: &mut Found, size: u64) -> Attempt<()> {
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
    pub fn copy_data(&mut self, from: &Found, to: u64) -> Attempt<()> {
        let blocks = self.mapped(from.onode.nid, 0, u64::MAX)?;
        for run in runs(&blocks) {
            for part in run.chunks(256) {
                let data = self.read_run(from, part, PageCache::Keep)?.into();
                let checksums: Vec<u32> = part.iter().map(|(_, block)| block.crc).collect();
                self.map(to, part[0].0, &data, Some(&checksums), Reserve::Keep)?;
            }
        }
        Ok(())
    }

    /// Writes whole blocks to free space and maps them, in place of what was mapped, from block `first` on.
    fn map(
        &mut self,
        nid: u64,
        first: u64,
        data: &Rope,
        checksums: Option<&[u32]>,
        reserve: Reserve,
    ) -> Attempt<()> {
        let count = data.len() as u64 / BLOCK;
        let mut new = self.write_blocks(data, checksums, reserve)?.into_iter();
        let (mut number, end) = (first, first + count);
        while number < end {
            let chunk_end = ((number / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS).min(end);
            let key = chunk_key(nid, number / CHUNK_BLOCKS);
            let mut chunk = self.chunk(&key)?;
            for (place, block) in (number..chunk_end).zip(new.by_ref()) {
                let old = chunk.insert((place % CHUNK_BLOCKS) as u8, block);
                self.space.free(old.map(|b| b.at));
            }
            self.tables.set(Table::Chunks, &key, &encode_chunk(&chunk))?;
            number = chunk_end;
        }
        Ok(())
    }

    /// Writes `data`, whole blocks, to free space.
    fn write_blocks(
        &mut self,
        data: &Rope,
        checksums: Option<&[u32]>,
        reserve: Reserve,
    ) -> Attempt<Vec<Block>> {
        let count = data.len() as u64 / BLOCK;
        let runs = self.allocate(count, reserve)?;
        self.data_written = true;
        let mut blocks = Vec::with_capacity(count as usize);
        for run in runs {
            let from = blocks.len() * BLOCK as usize;
            let part = data.slice(from..from + (run.len * BLOCK) as usize);
            let written = self.image.write_rope_at(run.start * BLOCK, &part);
            written.map_err(|e| self.write_failure(count, run.start * BLOCK, &e))?;
            for at in 0..run.len {
                let block = || part.slice((at * BLOCK) as usize..((at + 1) * BLOCK) as usize);
                let given = checksums.and_then(|all| all.get(blocks.len())).copied();
                let crc = given.unwrap_or_else(|| block().crc32c(!0));
                blocks.push(Block { at: run.start + at, crc });
            }
        }
        Ok(blocks)
    }

    fn allocate(&mut self, count: u64, reserve: Reserve) -> Attempt<Vec<Run>> {
        let kept = match reserve {
            Reserve::Keep => self.space.reserve_bytes() / BLOCK,
            Reserve::Use => 0,
        };
        let available = self.space.free_blocks().saturating_sub(kept);
        let taken = if count > available { None } else { self.space.allocate(count) };
        let full = || StoreError::NoSpace { needed: count * BLOCK, available: available * BLOCK };
        taken.ok_or_else(|| full().into())
    }

    /// A full file system refuses the transaction. After any other failed write the image can't be relied upon, and the
    /// store stops.
    fn write_failure(&self, blocks: u64, byte: u64, error: &std::io::Error) -> Failure {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Failure::Refused(StoreError::NoSpace { needed: blocks * BLOCK, available: 0 })
            }
            _ => Failure::Fatal(io_error("write to the image", self.image, Some(byte), error)),
        }
    }

    fn chunk(&self, key: &[u8]) -> Attempt<Chunk> {
        match self.tables.get(Table::Chunks, key)? {
            Some(bytes) => chunk_of(&bytes),
            None => Ok(Chunk::new()),
        }
    }

    /// Gives up the blocks `first..end` of an object.
    pub fn unmap(&mut self, nid: u64, first: u64, end: u64) -> Attempt<()> {
        let start = chunk_key(nid, first / CHUNK_BLOCKS);
        let stop = match end {
            u64::MAX => keys::after_prefix(&nid.to_be_bytes()),
            end => Some(chunk_key(nid, end.div_ceil(CHUNK_BLOCKS))),
        };
        for key in self.tables.keys(Table::Chunks, &start, stop.as_deref())? {
            let base = chunk_base(&key)?;
            let (gone, kept): (Chunk, Chunk) = self
                .chunk(&key)?
                .into_iter()
                .partition(|(place, _)| (first..end).contains(&(base + u64::from(*place))));
            self.space.free(gone.values().map(|b| b.at));
            match kept.is_empty() {
                true => self.tables.remove(Table::Chunks, &key)?,
                false => self.tables.set(Table::Chunks, &key, &encode_chunk(&kept))?,
            }
        }
        Ok(())
    }
}

fn chunk_key(nid: u64, number: u64) -> Key {
    keys::numbered_key(nid, &number.to_be_bytes())
}

/// The number of a chunk's first block, from its key.
fn chunk_base(key: &[u8]) -> Attempt<u64> {
    let number =
        key.split_first_chunk::<8>().and_then(|(_, rest)| rest.try_into().ok()).map(u64::from_be_bytes);
    let base = number.and_then(|n| n.checked_mul(CHUNK_BLOCKS));
    base.ok_or_else(|| damaged(format!("the block map has the malformed key {key:02x?}")))
}

fn chunk_of(bytes: &[u8]) -> Attempt<Chunk> {
    decode_chunk(bytes).map_err(|e| damaged(format!("a record of the block map: {e}")))
}

/// Parts of a list of blocks that follow one another in the object and on the image, at most 4 MiB.
fn runs(blocks: &[(u64, Block)]) -> impl Iterator<Item = &[(u64, Block)]> {
    let follows = |a: &(u64, Block), b: &(u64, Block)| a.0 + 1 == b.0 && a.1.at + 1 == b.1.at;
    blocks.chunk_by(follows).flat_map(|run| run.chunks(1024))
}
