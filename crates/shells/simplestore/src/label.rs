//! Whose store it is, and what can be wrong with a directory.

use std::io;
use std::path::PathBuf;

use devmodel::ModelError;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Fsid, OsdId};

/// The format written here, described in docs/formats/simple.md.
pub const FORMAT: u32 = 3;

/// The oldest format that is read. A store of it, or of one between, becomes one of [`FORMAT`] when it is opened.
pub const OLDEST_FORMAT: u32 = 2;

/// The parameters of a new store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    pub cluster: Fsid,
    pub osd: OsdId,
    /// The OSD's unique id, which distinguishes it from an earlier OSD of the same number.
    pub osd_uuid: Fsid,
    /// The image's size, bytes (rounded down to 4 KiB).
    pub size_bytes: u64,
}

impl Encode for Label {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.cluster).put(&self.osd).put(&self.osd_uuid).put(&self.size_bytes);
        });
    }
}
impl Decode for Label {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "label", |d, _| {
            Ok(Self { cluster: d.get()?, osd: d.get()?, osd_uuid: d.get()?, size_bytes: d.get()? })
        })
    }
}

/// Why a store could not be made or opened. Nothing was changed, but a store of an older format may be one of [`FORMAT`].
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// There is a store already.
    #[error("{0} holds a store already")]
    Exists(PathBuf),
    /// The directory has no store, or lacks a part of it.
    #[error("{path} holds no store: {why}; put back what is missing, or a copy of the directory")]
    NotAStore {
        /// The directory.
        path: PathBuf,
        why: String,
    },
    /// A file of it can't be written.
    #[error(
        "{path} can't be written ({error}), as a store has to be that is served or changed: make it writable (permissions, attributes, a \
         read-only file system: `mount -o remount,rw`), or use a copy"
    )]
    ReadOnly {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A build from before formats were kept wrote it.
    #[error(
        "{path} has store format {found} of an earlier build, and this build reads none before {OLDEST_FORMAT}: copy \
         the data out with the build that wrote it, then make a new store"
    )]
    Older {
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A newer program wrote it.
    #[error("{path} was written by a newer version (store format {found}, this one knows {FORMAT})")]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Its contents make no sense.
    #[error("the store in {path} is damaged ({why}); restore the directory from a copy")]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The modelled device that it was to lie on can't be.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The process, or the system, has too many files open.
    #[error("{path} can't be opened: {error}: {todo}")]
    FewFiles {
        /// The directory, or a file in it.
        path: PathBuf,
        #[source]
        error: io::Error,
        /// What to do.
        todo: &'static str,
    },
    /// The system failed.
    #[error("{path}: {error}")]
    Io {
        /// The directory, or a file in it.
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}
