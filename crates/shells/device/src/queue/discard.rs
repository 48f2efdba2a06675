//! Giving ranges of a file or a block device back to what lies below.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Result;

/// Gives a range back: a hole in a regular file, `BLKDISCARD` of a block device.
///
/// # Errors
/// The system's; `OPNOTSUPP` where there is no such thing.
pub fn discard(file: &File, offset: u64, len: u64) -> Result<()> {
    let is_block_device = file.metadata().is_ok_and(|m| m.file_type().is_block_device());
    if is_block_device {
        return discard_blocks(file, offset, len);
    }
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)
}

/// `BLKDISCARD` of `linux/fs.h`: an ioctl without a direction or a size in its number.
const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);

#[allow(unsafe_code, reason = "rustix has no safe call for this ioctl")]
fn discard_blocks(file: &File, offset: u64, len: u64) -> Result<()> {
    // SAFETY: BLKDISCARD reads two u64, the range's first byte and its length, and writes nothing.
    unsafe {
        let range = rustix::ioctl::Setter::<BLKDISCARD, [u64; 2]>::new([offset, len]);
        rustix::ioctl::ioctl(file, range)
    }
}
