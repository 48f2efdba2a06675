//! What can go wrong with a report.

use std::io;
use std::path::PathBuf;

/// Each sentence says what to do where that isn't plain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused to write.
    #[error("can't write {}: {source}", path.display())]
    Write {
        /// What was written.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
