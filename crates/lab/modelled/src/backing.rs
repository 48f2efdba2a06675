//! The sparse file that a modelled disk's bytes are in. It goes through the page cache and is never synced: a modelled
//! disk lives for a trial, and how long a flush takes is the model's to say.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

/// The file.
pub(crate) struct Backing {
    file: File,
    size: u64,
}

impl Backing {
    /// Opens it; an absent or empty one is made `size` bytes long.
    pub(crate) fn open(path: &Path, size: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.metadata()?.len() {
            0 => file.set_len(size)?,
            length if length == size => {}
            length => {
                let words = format!("it has {length} bytes, the device {size}");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
            }
        }
        Ok(Self { file, size })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that `length` has from `offset` on; none beyond the end.
    pub(crate) fn within(&self, offset: u64, length: u64) -> u64 {
        length.min(self.size.saturating_sub(offset))
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    /// Gives space back; what was there reads as zeros.
    pub(crate) fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, flags, offset, length)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_size_is_refused_and_a_new_one_is_sparse() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let disk = Backing::open(&path, 80 << 30).unwrap();
        disk.write(79 << 30, b"here").unwrap();
        let mut read = [0; 4];
        disk.read(79 << 30, &mut read).unwrap();
        assert_eq!(&read, b"here");
        disk.discard(79 << 30, 4096).unwrap();
        disk.read(79 << 30, &mut read).unwrap();
        assert_eq!(read, [0; 4]);
        assert_eq!(disk.within(disk.size() - 1, 4096), 1);
        assert_eq!(disk.within(disk.size() + 1, 4096), 0);
        assert!(Backing::open(&path, 1 << 30).is_err());
    }
}
