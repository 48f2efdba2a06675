//! Operations that change data and existence: WRITE, WRITEFULL, WRITESAME, APPEND, ZERO, TRUNCATE, CREATE, DELETE,
//! SETALLOCHINT.

use buffer::Rope;
use encoding::{Decode, Decoder};
use types::Errno;

use crate::run::{Extent, Runner, StepError, StepResult};
use crate::{Mutation, ObjectFlags};

/// Repetitions of WRITESAME's data are shared in blocks of about this many bytes.
const SAME_BLOCK: usize = 64 << 10;

impl Runner<'_> {
    pub fn write(&mut self, x: &Extent, data: &Rope, flags: u32) -> StepResult {
        if x.length != data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        let seq = self.state.info.truncate_seq;
        let (old, new) = (seq > u64::from(x.truncate_seq), u64::from(x.truncate_seq) > seq);
        let mut length = x.length;
        if old && x.end() > self.state.info.size {
            // A write from before a truncation that has overtaken it: what was cut stays cut.
            length = length.min(self.state.info.size.saturating_sub(x.offset));
            self.reply_length(length);
        }
        if new {
            self.take_truncation(x)?;
        }
        self.check_extent(x.offset, length)?;
        self.create_if_absent();
        let data = if length == x.length { data.clone() } else { data.slice(0..length as usize) };
        let crc_from = |seed| data.crc32c(seed);
        let digest = self.digest_after(x.offset, length, crc_from);
        if length > 0 {
            self.mutations.push(Mutation::Write { offset: x.offset, data, flags });
        } else if x.offset <= self.state.info.size {
            self.mutations.push(Mutation::Touch);
        } else if !old {
            self.mutations.push(Mutation::Truncate(x.offset));
            self.mark_data_dirty(self.state.info.size, x.offset - self.state.info.size);
            self.resize(x.offset);
        }
        // An old write past the end changes nothing, not even the version: the truncation was meant to cut it.
        match digest {
            Some(crc) => self.state.info.set_data_digest(crc),
            None => self.state.info.clear_data_digest(),
        }
        if length > 0 && x.offset + length > self.state.info.size {
            self.resize(x.offset + length);
        }
        self.mark_data_dirty(x.offset, length);
        self.delta.wrote(length);
        Ok(Some(0))
    }

    /// The data's digest after a write, where it is known without reading: the write replaces all data, or adds to data
    /// whose digest is kept. `crc_from` is the written bytes' checksum from a seed.
    fn digest_after(&self, offset: u64, length: u64, crc_from: impl Fn(u32) -> u32) -> Option<u32> {
        let info = &self.state.info;
        if offset == 0 && length >= info.size {
            Some(crc_from(u32::MAX))
        } else if offset == info.size && info.has(ObjectFlags::DATA_DIGEST) {
            Some(crc_from(info.data_digest))
        } else {
            None
        }
    }

    /// A write that knows of a truncation which has not come yet brings it along.
    fn take_truncation(&mut self, x: &Extent) -> Result<(), StepError> {
        if self.state.is_visible() {
            if x.truncate_size > self.ctx.limits.object_size_max {
                return Err(Errno::EFBIG.into());
            }
            self.mutations.push(Mutation::Truncate(x.truncate_size));
            let size = self.state.info.size;
            self.mark_data_dirty(x.truncate_size, size.saturating_sub(x.truncate_size));
            if x.truncate_size != size {
                self.state.info.clear_data_digest();
            }
            self.resize(x.truncate_size);
        }
        self.state.info.truncate_seq = u64::from(x.truncate_seq);
        self.state.info.truncate_size = x.truncate_size;
        Ok(())
    }

    pub fn append(&mut self, x: &Extent, data: &Rope, flags: u32) -> StepResult {
        let info = &self.state.info;
        let at_end = Extent {
            offset: info.size,
            length: x.length,
            truncate_size: info.truncate_size,
            truncate_seq: info.truncate_seq as u32,
        };
        self.write(&at_end, data, flags)
    }

    pub fn write_full(&mut self, x: &Extent, data: &Rope, flags: u32) -> StepResult {
        if x.length != data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        self.check_extent(0, x.length)?;
        self.create_if_absent();
        let size = self.state.info.size;
        if x.length < size {
            self.mutations.push(Mutation::Truncate(x.length));
        }
        if x.length > 0 {
            self.mutations.push(Mutation::Write { offset: 0, data: data.clone(), flags });
        }
        self.state.info.set_data_digest(data.crc32c(u32::MAX));
        self.mark_data_dirty(0, size.max(x.length));
        self.resize(x.length);
        self.delta.wrote(x.length);
        Ok(Some(0))
    }

    pub fn write_same(
        &mut self,
        offset: u64,
        length: u64,
        data_length: u64,
        data: &Rope,
        flags: u32,
    ) -> StepResult {
        if length == 0 {
            return Ok(Some(0));
        }
        if data_length == 0 || length % data_length != 0 || data_length != data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        let info = &self.state.info;
        // It knows of no truncation, and is cut like any write that one has overtaken.
        let length = match info.truncate_seq > 0 {
            true => length.min(info.size.saturating_sub(offset)),
            false => length,
        };
        // Before memory is taken for it.
        self.check_extent(offset, length)?;
        let repeats = (SAME_BLOCK / data.len()).max(1);
        let block = if repeats == 1 { data.clone() } else { data.to_vec().repeat(repeats).into() };
        let mut all = Rope::new();
        while (all.len() as u64) < length {
            let left = (length - all.len() as u64).min(block.len() as u64);
            all.append(block.slice(0..left as usize));
        }
        self.write(&Extent { offset, length, ..Extent::default() }, &all, flags)
    }

    pub fn zero(&mut self, x: &Extent) -> StepResult {
        let max = self.ctx.limits.object_size_max;
        let size = self.state.info.size;
        if self.state.exists && x.offset < max && (1..=max).contains(&x.length) && x.end() >= size {
            if x.offset >= size {
                return Ok(None);
            }
            // Zeroing up to the end is a truncation: Ceph does so, and clients see the size shrink.
            return self.truncate(x);
        }
        self.check_extent(x.offset, x.length)?;
        if x.length > 0 && self.state.is_visible() {
            self.mutations.push(Mutation::Zero { offset: x.offset, len: x.length });
            self.mark_data_dirty(x.offset, x.length);
            self.delta.num_wr += 1;
            self.state.info.clear_data_digest();
        }
        Ok(Some(0))
    }

    /// TRUNCATE to `x.offset`; with a truncate_seq only if the object hasn't seen it (TRIMTRUNC).
    pub fn truncate(&mut self, x: &Extent) -> StepResult {
        if !self.state.is_visible() {
            return Ok(Some(0));
        }
        self.check_extent(x.offset, x.length)?;
        if x.truncate_seq != 0 {
            if x.offset != x.truncate_size {
                return Err(Errno::EINVAL.into());
            }
            if u64::from(x.truncate_seq) <= self.state.info.truncate_seq {
                return Ok(Some(0));
            }
            self.state.info.truncate_seq = u64::from(x.truncate_seq);
            self.state.info.truncate_size = x.truncate_size;
        }
        self.mutations.push(Mutation::Truncate(x.offset));
        let size = self.state.info.size;
        self.mark_data_dirty(size.min(x.offset), size.abs_diff(x.offset));
        self.resize(x.offset);
        self.delta.num_wr += 1;
        self.state.info.clear_data_digest();
        Ok(Some(0))
    }

    pub fn create(&mut self, exclusive: bool, indata: &Rope) -> StepResult {
        if exclusive && self.state.is_visible() {
            return Err(Errno::EEXIST.into());
        }
        if !indata.is_empty() {
            // Once a category; must still be a string.
            let bytes = indata.to_piece();
            Decoder::new(&bytes).blob("category").map_err(|_| StepError::from(Errno::EINVAL))?;
        }
        self.create_if_absent();
        self.mutations.push(Mutation::Touch);
        Ok(Some(0))
    }

    pub fn delete(&mut self) -> StepResult {
        let newest = self.ctx.snapc.snaps.first().map_or(0, |s| s.0);
        let snapset = &self.state.snapset;
        let whiteout = !snapset.clones.is_empty() || newest > snapset.seq;
        if !self.state.exists || (self.state.info.is_whiteout() && whiteout) {
            return Err(Errno::ENOENT.into());
        }
        self.mutations.push(Mutation::Remove);
        self.mark_data_dirty(0, self.state.info.size);
        let info = &mut self.state.info;
        self.clean.clean_omap = false;
        self.delta.num_wr += 1;
        self.delta.num_bytes -= info.size as i64;
        info.size = 0;
        info.clear_data_digest();
        info.clear_omap_digest();
        // As in Ceph it keeps its flag OMAP: of what this request does to it the store learns later.
        self.end_watches();
        let info = &mut self.state.info;
        if whiteout {
            info.flags |= ObjectFlags::WHITEOUT;
            self.delta.num_whiteouts += 1;
            self.mutations.push(Mutation::Create);
            return Ok(Some(0));
        }
        if info.is_whiteout() {
            info.flags &= !ObjectFlags::WHITEOUT;
            self.delta.num_whiteouts -= 1;
        }
        self.delta.num_objects -= 1;
        self.state.exists = false;
        Ok(Some(0))
    }

    pub fn set_alloc_hint(&mut self, object_size: u64, write_size: u64, flags: u32) -> StepResult {
        self.create_if_absent();
        let info = &mut self.state.info;
        info.expected_object_size = object_size;
        info.expected_write_size = write_size;
        info.alloc_hint_flags = flags;
        self.mutations.push(Mutation::AllocHint { object_size, write_size, flags });
        Ok(Some(0))
    }

    /// The value at the beginning of `indata`, or EINVAL.
    pub fn parse<T: Decode>(d: &mut Decoder<'_>) -> Result<T, StepError> {
        d.get().map_err(|_| Errno::EINVAL.into())
    }
}
