//! One process a directory, or a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Why a directory or a file could not be locked.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it, or another lock of this one.
    InUse,
    /// The system failed.
    Io(io::Error),
}

/// A lock on a directory (its file `lock`), held until dropped or until the process ends, however it ends.
#[derive(Debug)]
pub struct DirLock(#[allow(dead_code, reason = "the lock lives as long as this")] FileLock);

impl DirLock {
    /// Takes the lock without waiting.
    ///
    /// # Errors
    /// The directory is in use, or its file can't be opened.
    pub fn take(dir: &Path) -> Result<Self, LockError> {
        FileLock::take(&dir.join("lock")).map(Self)
    }
}

/// A lock on a file itself, by whatever name or link others come to it, held as a [`DirLock`] is.
#[derive(Debug)]
pub struct FileLock(#[allow(dead_code, reason = "the lock lives as long as the open file")] File);

impl FileLock {
    /// Takes the lock without waiting. A file that is missing is made, empty.
    ///
    /// # Errors
    /// The file is in use, or can't be opened to be written.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = open.map_err(LockError::Io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::InUse),
            Err(e) => Err(LockError::Io(e.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_locked_once_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirLock::take(dir.path()).unwrap();
        assert!(matches!(DirLock::take(dir.path()), Err(LockError::InUse)));
        drop(lock);
        assert!(DirLock::take(dir.path()).is_ok());
    }
}
