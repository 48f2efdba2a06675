//! Operations that read data: READ, SPARSE_READ, MAPEXT, STAT, CMPEXT, CHECKSUM.

use buffer::Rope;
use encoding::Encoder;
use types::Errno;

use crate::checksum::{self, ChecksumKind};
use crate::run::{Extent, Runner, StepError, StepResult, unasked};
use crate::{Fetched, Need};

/// CMPEXT's result for a difference at byte n is -4095 - n.
const MAX_ERRNO: i32 = 4095;

impl Runner<'_> {
    /// The size that a reader sees who knows of a newer truncation than the object.
    fn size_for_reader(&self, x: &Extent) -> u64 {
        let info = &self.state.info;
        let unseen = info.truncate_seq < u64::from(x.truncate_seq) && x.end() > x.truncate_size;
        if unseen { info.size.min(x.truncate_size) } else { info.size }
    }

    pub fn read(&mut self, x: &Extent) -> StepResult {
        let size = self.size_for_reader(x);
        let wanted = if x.length == 0 { size } else { x.length };
        let length = wanted.min(size.saturating_sub(x.offset));
        if length > 0 {
            self.data = self.fetch_data(x.offset, length)?;
        }
        self.extents.first_read.get_or_insert(x.offset);
        self.reply_length(self.data.len() as u64);
        self.delta.read(self.data.len() as u64);
        Ok(Some(0))
    }

    fn allocated(&mut self, offset: u64, len: u64) -> Result<Vec<(u64, u64)>, StepError> {
        match self.fetch(Need::Extents { offset, len })? {
            Fetched::Extents(extents) => Ok(extents),
            other => Err(unasked(&other)),
        }
    }

    pub fn sparse_read(&mut self, x: &Extent) -> StepResult {
        if !self.stored {
            // Of no bytes too: the store is asked in any case.
            return Err(Errno::ENOENT.into());
        }
        let length = x.length.min(self.size_for_reader(x).saturating_sub(x.offset));
        let extents = if length == 0 { Vec::new() } else { self.allocated(x.offset, length)? };
        let (mut data, mut read, mut pending) = (Rope::new(), Vec::with_capacity(extents.len()), false);
        for (offset, len) in extents {
            // Ask for all of them before giving up on the first.
            match self.fetch_data(offset, len) {
                Ok(piece) => {
                    read.push((offset, piece.len() as u64));
                    data.append(piece);
                }
                Err(StepError::Pending) => pending = true,
                Err(fail) => return Err(fail),
            }
        }
        if pending {
            return Err(StepError::Pending);
        }
        self.reply_length(data.len() as u64);
        self.delta.read(data.len() as u64);
        let mut e = Encoder::new(0);
        e.put(&read).put(&(data.len() as u32));
        self.data = e.into_bytes().into();
        self.data.append(data);
        Ok(Some(0))
    }

    pub fn map_extents(&mut self, x: &Extent) -> StepResult {
        let extents = self.allocated(x.offset, x.length)?;
        let mut e = Encoder::new(0);
        e.put(&extents);
        self.data = e.into_bytes().into();
        self.delta.read(self.data.len() as u64);
        Ok(None)
    }

    pub fn stat(&mut self) -> StepResult {
        self.delta.num_rd += 1;
        self.check_visible()?;
        let mut e = Encoder::new(0);
        e.put(&self.state.info.size).put(&self.state.info.mtime);
        self.data = e.into_bytes().into();
        Ok(None)
    }

    /// Compares with what is stored; bytes past the object's end count as zeros.
    pub fn compare_extent(&mut self, x: &Extent, expected: &Rope) -> StepResult {
        let info = &self.state.info;
        let unseen = info.truncate_seq < u64::from(x.truncate_seq) && x.end() > x.truncate_size;
        let size = if unseen { x.truncate_size } else { info.size };
        let length = x.length.min(size.min(info.size).saturating_sub(x.offset));
        let stored = if length == 0 || !self.stored || self.state.info.is_whiteout() {
            Rope::new()
        } else {
            self.delta.read(length);
            self.fetch_data(x.offset, length)?
        };
        let stored = stored.pieces().iter().flat_map(|p| p.iter()).chain(std::iter::repeat(&0));
        let expected = expected.pieces().iter().flat_map(|p| p.iter());
        match expected.zip(stored).position(|(a, b)| a != b) {
            None => Ok(Some(0)),
            Some(at) => Err(StepError::Fail(-MAX_ERRNO - at.min(i32::MAX as usize - 4096) as i32)),
        }
    }

    pub fn checksum(&mut self, x: &Extent, chunk_size: u32, kind: u8, indata: &Rope) -> StepResult {
        let chunk = u64::from(chunk_size);
        if chunk > 0 && (x.length == 0 || x.length % chunk != 0) {
            return Err(Errno::EINVAL.into());
        }
        let size = self.state.info.size;
        let length = match (x.offset, x.length) {
            (0, 0) => size,
            (offset, _) if offset >= size => return Ok(Some(0)),
            (offset, length) => length.min(size - offset),
        };
        if chunk > 0 && length % chunk != 0 {
            return Err(Errno::EINVAL.into());
        }
        let kind = ChecksumKind::from_wire(kind).ok_or(Errno::EINVAL)?;
        let init = kind.init_value(&indata.to_piece()).ok_or(Errno::EINVAL)?;
        let data = if length > 0 { self.fetch_data(x.offset, length)? } else { Rope::new() };
        self.delta.read(data.len() as u64);
        if (data.len() as u64) < length {
            // The request has made the object longer than what is stored.
            return Err(Errno::EINVAL.into());
        }
        self.data = checksum::checksums(kind, init, chunk, &data.to_piece()).into();
        Ok(Some(0))
    }
}
