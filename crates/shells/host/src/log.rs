//! Where log lines go: DIR/log once there is a directory, and standard error unless in the background.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::HostError;

static LOG: Log = Log(RwLock::new(None));

/// The log's file, once there is one. A line is written under the read lock, so a change of the file waits for lines
/// under way.
struct Log(RwLock<Option<LogFile>>);

struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: PathBuf) -> Result<Self, HostError> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(HostError::io(&path))?;
        Ok(Self { path, file })
    }
}

impl Log {
    // A panic of a thread that wrote leaves the file as usable as before.
    fn read(&self) -> RwLockReadGuard<'_, Option<LogFile>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Option<LogFile>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, path: PathBuf) -> Result<(), HostError> {
        let opened = LogFile::open(path)?;
        // A second cluster in one process (a test) shares the first one's file.
        self.change().get_or_insert(opened);
        Ok(())
    }

    fn reopen(&self) -> Result<(), HostError> {
        let mut current = self.change();
        // Before there is a directory there is no file either.
        let Some(log) = &mut *current else { return Ok(()) };
        *log = LogFile::open(log.path.clone())?;
        Ok(())
    }

    fn write(&self, line: &[u8]) {
        if let Some(log) = &*self.read() {
            // One call a line: lines of several threads don't mix. A full disk must not end a cluster.
            let _ = (&log.file).write_all(line);
        }
    }
}

/// A writer of one log line.
pub struct LogWriter;

/// What the process's logger writes to.
pub fn log_writer() -> LogWriter {
    LogWriter
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LOG.write(line);
        if std::env::var_os("LOLIGO_DETACHED").is_none() {
            let _ = io::stderr().write_all(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From here on lines go to `dir`/log too.
pub(crate) fn log_to(dir: &Path) -> Result<(), HostError> {
    LOG.open(dir.join("log"))
}

/// Opens the log's file again by its name, as after a rotation that renamed it; logrotate sends SIGHUP for that.
///
/// # Errors
/// The file can't be opened; lines go on to the one that was open.
pub fn reopen_log() -> Result<(), HostError> {
    LOG.reopen()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_rotation_lines_go_to_a_new_file_and_to_the_old_one_where_that_fails() {
        let tmp = tempfile::tempdir().unwrap();
        let (path, old) = (tmp.path().join("log"), tmp.path().join("log.1"));
        let log = Log(RwLock::new(None));
        log.reopen().unwrap();
        log.write(b"to nowhere");
        log.open(path.clone()).unwrap();
        log.write(b"one ");
        std::fs::rename(&path, &old).unwrap();
        log.write(b"two");
        log.reopen().unwrap();
        log.write(b"three ");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "one two");
        std::fs::rename(&path, &old).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(log.reopen().is_err());
        log.write(b"four");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "three four");
    }
}
