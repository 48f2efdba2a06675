//! What the label of an OSD's store says of its owner, and reading it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

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

/// Reads the label of the store whose data are on a file or device, and the owner in it.
///
/// # Errors
/// There is no file, it can't be read, or it holds no block store.
pub fn read_label(path: &Path) -> Result<(Label, Owner), OpenError> {
    let no_store = |why: String| OpenError::NotAStore { path: path.into(), why };
    let bytes = match label_bytes(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(no_store(too_short(path))),
        Err(error) => return Err(unreadable(path, error)),
    };
    decode(&bytes, Part::Data).map_err(|error| match decode(&bytes, Part::Log) {
        Ok((_, owner)) => no_store(format!("it has the log alone of {owner}")),
        Err(_) => no_store(error.to_string()),
    })
}

/// Why a file or a device that is shorter than a label has none.
fn too_short(path: &Path) -> String {
    // The length of a device is where its end is.
    let bytes = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    let has = bytes.map_or("too few bytes".to_owned(), |bytes| format!("{bytes} bytes, too few"));
    let why = match std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        true => "the file was made shorter",
        false => "the device has lost what was behind it, or is another one",
    };
    format!("it has {has} for a store's label: {why}")
}

/// The error of a store's data that can't be read: a link that leads nowhere is another loss than that of the file.
pub fn unreadable(path: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => {
            OpenError::NoData { link: path.into(), path: target(path) }
        }
        io::ErrorKind::NotFound => OpenError::NoFile(path.into()),
        _ => OpenError::io(path, error),
    }
}

/// Reads the label of the log behind a link, which must be that of a store.
///
/// # Errors
/// It is not there, can't be read, or is another's.
pub fn check_log(link: &Path, label: &Label, wanted: &Owner) -> Result<(), OpenError> {
    let path = target(link);
    let other = |why: String| {
        let (link, path, wanted) = (link.to_owned(), path.clone(), Box::new(*wanted));
        OpenError::OtherLog { link, path, wanted, why }
    };
    let bytes = match label_bytes(link) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::NoLog { link: link.into(), path, why: error.to_string() });
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(other(too_short(link)));
        }
        Err(error) => return Err(OpenError::io(path, error)),
    };
    match (decode(&bytes, Part::Log), decode(&bytes, Part::Data)) {
        (Ok((_, has)), _) if has != *wanted => Err(other(format!("it has that of {has}"))),
        (Ok((found, _)), _) if found.id != label.id => Err(other(
            "it has that of another store of the same OSD, of before or after it was made anew".to_owned(),
        )),
        (Ok(_), _) => Ok(()),
        (Err(_), Ok((_, has))) => Err(other(format!("it has the data of {has}"))),
        (Err(error), Err(_)) => Err(other(error.to_string())),
    }
}

/// Whose store a file or device has a part of, if it has any, also one that is being made.
pub fn owner_on(path: &Path) -> Option<Owner> {
    let bytes = label_bytes(path).ok()?;
    let found = [Part::Data, Part::Log].into_iter().find_map(|part| decode(&bytes, part).ok());
    found
        .map(|(_, owner)| owner)
        .or_else(|| Owner::decode(&mut Decoder::new(bytes.strip_prefix(BEING_MADE)?)).ok())
}

/// What the first block says while a store's part is being made: the owner's encoding follows. The label replaces it.
const BEING_MADE: &[u8] = b"loligo is making a store here\n";

/// The first block of a place where a part of the owner's store is being made.
pub fn being_made_for(owner: &Owner) -> Vec<u8> {
    let mut block = [BEING_MADE, &owner.to_bytes(0)].concat();
    block.resize(blockstore::BLOCK as usize, 0);
    block
}

/// What a link leads to; a path that is none leads to itself.
pub fn target(link: &Path) -> PathBuf {
    match (std::fs::read_link(link), link.parent()) {
        // Joined to it, an absolute path stays what it is.
        (Ok(to), Some(dir)) => dir.join(to),
        _ => link.to_owned(),
    }
}

fn label_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; blockstore::LABEL_BYTES as usize];
    File::open(path).and_then(|mut file| file.read_exact(&mut bytes))?;
    Ok(bytes)
}

fn decode(bytes: &[u8], part: Part) -> Result<(Label, Owner), DecodeError> {
    let label = Label::decode(bytes, part)?;
    let owner = Owner::from_bytes_exact(&label.owner)?;
    Ok((label, owner))
}
