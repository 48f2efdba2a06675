//! Names of what data lie on, for the errors of it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A block device or a file by its name.
#[derive(Clone, Debug)]
pub struct NamedDevice {
    path: PathBuf,
    is_file: bool,
}

impl NamedDevice {
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), is_file: std::fs::metadata(path).is_ok_and(|found| found.is_file()) }
    }

    /// How it failed, and what to do.
    pub fn failed(&self, errno: types::Errno, byte: Option<u64>) -> String {
        let words = io::Error::from_raw_os_error(errno.0);
        let at = byte.map_or_else(String::new, |byte| format!(" at byte {byte}"));
        let is_full = [Errno::NOSPC, Errno::DQUOT].iter().any(|full| full.raw_os_error() == errno.0);
        let todo = match is_full {
            true if self.is_file => "make room on its file system",
            true => "give what lies below the device more space",
            false => "the system's log (`dmesg`) may say why; mend the device, or have it replaced",
        };
        format!("{} failed{at}: {words}: {todo}", self.path.display())
    }
}
