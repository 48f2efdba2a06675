//! Making stores.

use std::io;
use std::path::{Path, PathBuf};

use blockdev::{DeviceId, DeviceQueue};
use blockstore::{BLOCK, Label, Making};
use encoding::Encode;

use crate::drive::Driver;
use crate::open::{Options, Queue, failed, files, io_error, lock, no_device, path_in};
use crate::{OpenError, Owner, place};

/// Bytes of the log: this part of the store's,
const LOG_PART: u64 = 64;
/// at least and at most so many. The log is written once in whole when the store is made.
const LOG_BYTES_MIN: u64 = 8 << 20;
const LOG_BYTES_MAX: u64 = 32 << 20;

/// Bytes of the smallest store.
const SIZE_MIN: u64 = 32 << 20;

/// The store to be made.
#[derive(Clone, Debug, Default)]
pub struct NewStore {
    /// Bytes, rounded down to 4 KiB; a device is used whole.
    pub size_bytes: u64,
    /// The block device that it is to lie on; an image file otherwise.
    pub device: Option<PathBuf>,
    /// Whether what the device holds may be overwritten.
    pub overwrite: bool,
    /// Whether the image file is written whole, with zeros.
    pub preallocate: bool,
}

impl NewStore {
    /// A sparse image file of so many bytes.
    pub fn file(size_bytes: u64) -> Self {
        Self { size_bytes, ..Self::default() }
    }
}

/// Bytes of the log of a store of so many bytes: they are written when it is made.
pub fn log_bytes(size_bytes: u64) -> u64 {
    (size_bytes / LOG_PART).clamp(LOG_BYTES_MIN, LOG_BYTES_MAX) / BLOCK * BLOCK
}

/// Makes an empty store in `dir`, which is made if missing. One whose making was interrupted is made again.
///
/// # Errors
/// See [`OpenError`]; a store that is there already is one.
pub fn mkfs(dir: &Path, owner: &Owner, new: &NewStore, options: &Options) -> Result<(), OpenError> {
    let bytes = match &new.device {
        None => new.size_bytes,
        Some(device) => place::device_bytes(device)?,
    };
    let size_bytes = bytes / BLOCK * BLOCK;
    if size_bytes < SIZE_MIN {
        let path = new.device.clone().unwrap_or_else(|| path_in(dir));
        return Err(OpenError::TooSmall { path, bytes: size_bytes, needed: SIZE_MIN });
    }
    std::fs::create_dir_all(dir).map_err(io_error(dir))?;
    let _lock = lock(dir)?;
    let path = match &new.device {
        None => place::file(dir, size_bytes, new.preallocate)?,
        Some(device) => place::device(dir, device, owner, new.overwrite)?,
    };
    make(&path, owner, size_bytes, options)
}

fn make(path: &Path, owner: &Owner, size_bytes: u64, options: &Options) -> Result<(), OpenError> {
    let files = files(path, options)?;
    let mut queue: Queue = Box::new(files.queue());
    let driver = Driver::new();
    queue.set_waker(driver.waker());
    let geometry = queue.geometry(DeviceId::Data).ok_or_else(|| no_device(path))?;
    let log_bytes = log_bytes(size_bytes);
    let label = Label {
        id: random_id().map_err(io_error(path))?,
        shards: 1,
        size_bytes,
        log_bytes,
        log_unit_bytes: geometry.block_bytes,
        log_apart: false,
        owner: owner.to_bytes(0),
    };
    let mut making = Making::new(queue, label).map_err(|e| failed(path, e))?;
    let made = driver.run(&mut making, Making::turn, Making::deadline);
    made.map(drop).map_err(|e| failed(path, e))
}

fn random_id() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
