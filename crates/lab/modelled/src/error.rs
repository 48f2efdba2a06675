//! What can go wrong with a modelled disk, with what to do next.

use std::io;
use std::path::PathBuf;

/// Why a modelled disk can't be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's FUSE device can't be opened.
    #[error(
        "modelled disks need /dev/fuse, which can't be opened ({source}): run as root; \
         'modprobe fuse' or apt-get install fuse3 make the device; a container must be given it"
    )]
    NoFuse {
        /// The system's words.
        source: io::Error,
    },
    /// The file that holds the bytes.
    #[error("the file {path} below a modelled disk can't be used: {source}")]
    Backing {
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// It can't be mounted.
    #[error(
        "a modelled disk can't be mounted at {at}: {source}; without root it needs apt-get install fuse3"
    )]
    Mount {
        /// Where.
        at: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A thread of it panicked.
    #[error("the modelled disk ended because of a bug; the message before this one has the place")]
    Panicked,
    /// The kernel ended it.
    #[error("the modelled disk ended before it was unmounted: {source}")]
    Ended {
        /// The system's words.
        source: io::Error,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
