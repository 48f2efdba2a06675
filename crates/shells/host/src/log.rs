//! Where log lines go: DIR/log once there is a directory, and standard error unless in the background.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use crate::HostError;

static FILE: OnceLock<File> = OnceLock::new();

/// A writer of one log line.
pub struct LogWriter;

/// What the process's logger writes to.
pub fn log_writer() -> LogWriter {
    LogWriter
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(mut file) = FILE.get() {
            // One call a line: lines of several threads don't mix. A full disk must not end a cluster.
            let _ = file.write_all(line);
        }
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
    let path = dir.join("log");
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(HostError::io(path))?;
    // A second cluster in one process (a test) shares the first one's file.
    let _ = FILE.set(file);
    Ok(())
}
