//! What the label of an OSD's store says of its owner, and reading it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use blockstore::{Label, Part};
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Fsid, OsdId};

use crate::OpenError;

/// The most shards of a store: each has a log and a ring of its own.
pub const SHARDS_MAX: u32 = 64;

/// Whose store it is: kept in the label (`docs/formats/block.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub cluster: Fsid,
    pub osd: OsdId,
    /// Distinguishes the OSD from an earlier one of the same number.
    pub osd_uuid: Fsid,
}

impl Encode for Owner {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.cluster).put(&self.osd).put(&self.osd_uuid);
        });
    }
}

impl Decode for Owner {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "owner of a block store", |d, _| {
            Ok(Self { cluster: d.get()?, osd: d.get()?, osd_uuid: d.get()? })
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "osd.{} (id {}) of cluster {}", self.osd, self.osd_uuid, self.cluster)
    }
}

/// Reads the label of the store on a file or device, and the owner in it.
///
/// # Errors
/// There is no file, it can't be read, or it holds no block store.
pub fn read_label(path: &Path) -> Result<(Label, Owner), OpenError> {
    let mut bytes = vec![0; blockstore::BLOCK as usize];
    match File::open(path).and_then(|mut file| file.read_exact(&mut bytes)) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
            return Err(OpenError::NotAStore { path: path.into(), why: error.to_string() });
        }
        Err(error) => return Err(OpenError::Io { path: path.into(), error }),
    }
    let no_store = |error: DecodeError| OpenError::NotAStore { path: path.into(), why: error.to_string() };
    let label = Label::decode(&bytes, Part::Data).map_err(no_store)?;
    let owner = Owner::from_bytes_exact(&label.owner).map_err(no_store)?;
    Ok((label, owner))
}
