//! What can go wrong with a results directory.

use std::io;
use std::path::{Path, PathBuf};

/// Each sentence names the file, and what to do where that isn't plain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused to read.
    #[error("can't read {}: {source}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system refused to write.
    #[error("can't write {}: {source}", path.display())]
    Write {
        /// What was written.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else was named.
    #[error("{} is not a results directory: it has no run.json", path.display())]
    NotResults {
        /// What was named.
        path: PathBuf,
    },
    /// Results are never written over.
    #[error("{} holds results already: resume that run, or name another directory", path.display())]
    Exists {
        /// What was named.
        path: PathBuf,
    },
    /// Not what the lab writes; a torn last line is not this.
    #[error("{}, line {line}: not what the lab writes there ({source}); the file was changed or damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// Reading it with this version could misread it.
    #[error(
        "{} was written by a newer version of the lab (format {format}, this one reads up to {}): use that version",
        path.display(), crate::FORMAT
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// JSON has no such value; a fault of the lab itself.
    #[error(
        "the record of trial {id} has a value that is not a number in {field}: a fault of the lab, please report it"
    )]
    NotANumber {
        /// The trial.
        id: String,
        /// Where in the record.
        field: String,
    },
    /// Ids name files.
    #[error(
        "'{id}' can't be a trial's id: 1 to 200 of A-Z, a-z, 0-9, '.', '_', '-', '+', not beginning with a dot"
    )]
    BadId {
        /// The id.
        id: String,
    },
    /// A value that serde can't write; a fault of the lab itself.
    #[error("can't put into JSON what goes to {}: {source}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
    /// The table could not be written.
    #[error("can't write the CSV: {0}")]
    Csv(#[from] csv::Error),
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_path_buf(), source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_path_buf(), source }
    }
}
