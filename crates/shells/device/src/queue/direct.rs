//! A file or a block device opened with `O_DIRECT`.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};

use buffer::{Piece, PieceMut, Rope};
use rustix::io::{Errno, ReadWriteFlags, Result};

use super::discard::discard;
use super::rope::{aligned, aligned_buffer, is_aligned};

/// `IOV_MAX` of Linux: the most pieces that a system call takes.
pub const PIECES_MAX: usize = 1024;

pub struct DirectFile {
    pub file: File,
    /// The same, opened once more for rings: so an error of a flush is reported to the flush.
    pub ring_file: File,
    /// What offsets, lengths and each piece's length are multiples of.
    pub block_bytes: u32,
    /// What a piece's address is a multiple of.
    pub memory_align: usize,
}

impl DirectFile {
    pub fn read(&self, offset: u64, buffer: &mut PieceMut) -> Result<()> {
        if is_aligned(buffer.as_mut_slice().as_ptr(), self.memory_align) {
            return self.read_aligned(offset, buffer.as_mut_slice());
        }
        let len = buffer.len();
        let mut copy = aligned_buffer(len);
        self.read_aligned(offset, &mut copy.as_mut_slice()[..len])?;
        buffer.as_mut_slice().copy_from_slice(&copy.as_mut_slice()[..len]);
        Ok(())
    }

    pub fn read_aligned(&self, mut offset: u64, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() {
            match rustix::io::preadv2(
                &self.file,
                &mut [IoSliceMut::new(out)],
                offset,
                ReadWriteFlags::empty(),
            ) {
                // The file has become shorter.
                Ok(0) => return Err(Errno::IO),
                Ok(n) => {
                    offset += n as u64;
                    out = &mut out[n..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub fn write(&self, offset: u64, data: &Rope) -> Result<()> {
        self.write_aligned(offset, data, ReadWriteFlags::empty())
    }

    pub fn write_durable(&self, offset: u64, data: &Rope) -> Result<()> {
        self.write_aligned(offset, data, ReadWriteFlags::DSYNC)
    }

    fn write_aligned(&self, offset: u64, data: &Rope, flags: ReadWriteFlags) -> Result<()> {
        let pieces = aligned(data, self.block_bytes as usize, self.memory_align);
        write_pieces(&self.file, offset, &pieces, flags)
    }

    pub fn flush(&self) -> Result<()> {
        rustix::fs::fdatasync(&self.file)
    }

    pub fn discard(&self, offset: u64, len: u64) -> Result<()> {
        discard(&self.file, offset, len)
    }
}

/// Writes all pieces one behind the other.
pub fn write_pieces(file: &File, mut offset: u64, pieces: &[Piece], flags: ReadWriteFlags) -> Result<()> {
    for some in pieces.chunks(PIECES_MAX) {
        let mut slices: Vec<IoSlice<'_>> = some.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = &mut slices[..];
        while !left.is_empty() {
            match rustix::io::pwritev2(file, left, offset, flags) {
                Ok(0) => return Err(Errno::IO),
                Ok(n) => {
                    offset += n as u64;
                    IoSlice::advance_slices(&mut left, n);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
