//! Where log lines go: DIR/log once there is a directory, and standard error unless in the background.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use types::OsdId;

use crate::HostError;

static LOG: Log = Log(RwLock::new(None));

/// The log levels that OSDs ask for (Ceph's numbers), and what puts the highest of them in force.
static LEVELS: Mutex<Levels> = Mutex::new(Levels { of_osds: BTreeMap::new(), apply: None });

type ApplyLevel = Box<dyn Fn(Option<u8>) + Send>;

struct Levels {
    of_osds: BTreeMap<OsdId, u8>,
    apply: Option<ApplyLevel>,
}

impl Levels {
    fn note(&mut self, osd: OsdId, level: Option<u8>) {
        match level {
            Some(level) => self.of_osds.insert(osd, level),
            None => self.of_osds.remove(&osd),
        };
        if let Some(apply) = &self.apply {
            apply(self.of_osds.values().max().copied());
        }
    }
}

/// Sets what is called with the highest level that the process's OSDs ask for while they run; `None` when no OSD asks for
/// any. The log is the process's: it has the level that it was started with, or a higher one.
pub fn on_log_level(apply: impl Fn(Option<u8>) + Send + 'static) {
    LEVELS.lock().unwrap_or_else(PoisonError::into_inner).apply = Some(Box::new(apply));
}

/// An OSD's options ask for a log level, or for none any more.
pub(crate) fn note_level(osd: OsdId, level: Option<u8>) {
    LEVELS.lock().unwrap_or_else(PoisonError::into_inner).note(osd, level);
}

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

    #[test]
    fn the_highest_level_that_an_osd_asks_for_is_in_force() {
        let (sender, levels) = std::sync::mpsc::channel();
        let apply: ApplyLevel = Box::new(move |level| sender.send(level).unwrap());
        let mut all = Levels { of_osds: BTreeMap::new(), apply: Some(apply) };
        for (osd, level) in [(0, Some(10)), (1, Some(20)), (1, Some(5)), (0, None), (1, None)] {
            all.note(OsdId(osd), level);
        }
        assert_eq!(levels.try_iter().collect::<Vec<_>>(), [Some(10), Some(20), Some(10), Some(5), None]);
    }
}
