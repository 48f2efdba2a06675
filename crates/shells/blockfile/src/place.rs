//! What a new store is made on: an image file, or a block device that holds nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blockstore::BLOCK;
use rustix::fs::OFlags;
use types::Fsid;

use crate::label::read_label;
use crate::open::{io_error, path_in};
use crate::{OpenError, Owner};

/// Where file systems, partition tables and volume managers say that a device is theirs: at its beginning and its end.
const HEAD: u64 = 4 << 20;
const TAIL: u64 = 1 << 20;

/// Bytes of zeros that are written at once.
const ZEROS: usize = 1 << 20;

/// A block device's size.
///
/// # Errors
/// It can't be opened, or is none.
pub fn device_bytes(path: &Path) -> Result<u64, OpenError> {
    let mut file = File::open(path).map_err(io_error(path))?;
    if !file.metadata().map_err(io_error(path))?.file_type().is_block_device() {
        return Err(OpenError::NotADevice(path.into()));
    }
    file.seek(SeekFrom::End(0)).map_err(io_error(path))
}

/// Opens a block device so that no one else can take it (nor mount it) while the file is open.
pub fn hold(path: &Path) -> Result<File, OpenError> {
    let exclusive = OFlags::EXCL.bits() as i32;
    let opened = OpenOptions::new().read(true).write(true).custom_flags(exclusive).open(path);
    opened.map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => OpenError::InUse(path.into()),
        _ => OpenError::Io { path: path.into(), error },
    })
}

/// Makes the image file, as long as the store is to be, and sparse unless it is to be written whole.
pub fn file(dir: &Path, size_bytes: u64, preallocate: bool) -> Result<PathBuf, OpenError> {
    let path = path_in(dir);
    // The label is written last: where the making of a store was interrupted, there are zeros.
    if holds(&path, 0, BLOCK).map_err(io_error(&path))? {
        return Err(OpenError::Exists(path));
    }
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.map_err(io_error(&path))?;
    // From an empty file: an earlier try may have left blocks that nothing will use.
    let sized = file.set_len(0).and_then(|()| match preallocate {
        true => write_zeros(&mut file, size_bytes),
        false => file.set_len(size_bytes),
    });
    // The file's name and length are no block of the device: they are the directory's own to keep.
    sized.and_then(|()| file.sync_all()).map_err(io_error(&path))?;
    File::open(dir).and_then(|d| d.sync_all()).map_err(io_error(dir))?;
    Ok(path)
}

fn write_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(ZEROS as u64);
        file.write_all(&zeros[..now as usize])?;
        left -= now;
    }
    Ok(())
}

/// Links the directory to a device, whose first blocks are emptied if it may be overwritten. It may hold the store of the same
/// OSD, which is given up then, or nothing; anything else is overwritten only if `overwrite` says so.
pub fn device(dir: &Path, device: &Path, owner: &Owner, overwrite: bool) -> Result<PathBuf, OpenError> {
    let bytes = device_bytes(device)?;
    let held = hold(device)?;
    let is_own =
        matches!(read_label(device), Ok((_, has)) if (has.cluster, has.osd) == (owner.cluster, owner.osd));
    if !is_own && !overwrite {
        let tail = bytes.saturating_sub(TAIL);
        let full = holds(device, 0, HEAD).and_then(|head| Ok(head || holds(device, tail, TAIL)?));
        if full.map_err(io_error(device))? {
            return Err(OpenError::HoldsData(device.into()));
        }
    }
    let path = path_in(dir);
    match std::fs::read_link(&path) {
        Ok(link) if link == device => {}
        Ok(_) => return Err(OpenError::Exists(path)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::os::unix::fs::symlink(device, &path).map_err(io_error(&path))?;
        }
        Err(_) => return Err(OpenError::Exists(path)),
    }
    // What was there is given up from here on, also by an interrupted making.
    let emptied = held.write_all_at(&[0; BLOCK as usize], 0).and_then(|()| held.sync_all());
    emptied.map_err(io_error(device))?;
    File::open(dir).and_then(|d| d.sync_all()).map_err(io_error(dir))?;
    Ok(path)
}

/// Takes back the making of an OSD's store in `dir` for this cluster, also one that was interrupted, if it is on a block
/// device: the device holds nothing then.
///
/// # Errors
/// The device can't be read or written, or is in use.
pub fn unmake(dir: &Path, cluster: Fsid) -> Result<(), OpenError> {
    let path = path_in(dir);
    if std::fs::read_link(&path).is_err() {
        return Ok(());
    }
    let is_own = match read_label(&path) {
        Ok((_, owner)) => owner.cluster == cluster,
        // The link is made once the device may be taken, and then its first block is emptied.
        Err(_) => !holds(&path, 0, BLOCK).map_err(io_error(&path))?,
    };
    if !is_own {
        return Ok(());
    }
    let (held, bytes) = (hold(&path)?, device_bytes(&path)?.min(HEAD));
    let emptied = held.write_all_at(&vec![0; bytes as usize], 0).and_then(|()| held.sync_all());
    emptied.map_err(io_error(&path))
}

/// Whether a part of a file is there and is not zeros.
fn holds(path: &Path, offset: u64, bytes: u64) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut found = Vec::new();
    file.take(bytes).read_to_end(&mut found)?;
    Ok(found.iter().any(|byte| *byte != 0))
}
