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
pub struct DirLock(#[allow(dead_code, reason = "the lock lives as long as this")] Option<FileLock>);

impl DirLock {
    /// Takes the lock without waiting.
    ///
    /// # Errors
    /// The directory is in use, or its file can't be opened.
    pub fn take(dir: &Path) -> Result<Self, LockError> {
        FileLock::take(&dir.join("lock")).map(|lock| Self(Some(lock)))
    }

    /// Takes the lock of a directory that can't be written: with others that only read, and with no one that writes. In a
    /// directory without the file no process has the lock, since each that takes it makes the file.
    ///
    /// # Errors
    /// The directory is in use, or its file can't be opened.
    pub fn share(dir: &Path) -> Result<Self, LockError> {
        match FileLock::share(&dir.join("lock")) {
            Err(LockError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(Self(None)),
            shared => shared.map(|lock| Self(Some(lock))),
        }
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
        Self::lock(open.map_err(LockError::Io)?, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes the lock of a file that is not to be written, with others that only read it.
    ///
    /// # Errors
    /// The file is in use, or can't be opened.
    pub fn share(path: &Path) -> Result<Self, LockError> {
        // What is open to be read alone can't be locked against others that read, on every file system.
        Self::lock(File::open(path).map_err(LockError::Io)?, FlockOperation::NonBlockingLockShared)
    }

    fn lock(file: File, how: FlockOperation) -> Result<Self, LockError> {
        match flock(&file, how) {
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

    #[test]
    fn those_that_only_read_share_a_directory_and_keep_writers_out() {
        let dir = tempfile::tempdir().unwrap();
        DirLock::share(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is made");
        let lock = DirLock::take(dir.path()).unwrap();
        assert!(matches!(DirLock::share(dir.path()), Err(LockError::InUse)));
        drop(lock);
        let readers = [(); 2].map(|()| DirLock::share(dir.path()).unwrap());
        assert!(matches!(DirLock::take(dir.path()), Err(LockError::InUse)));
        drop(readers);
        DirLock::take(dir.path()).unwrap();
    }
}
