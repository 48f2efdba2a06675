//! Giving a store the rest of a file or device that has grown.

use std::fs::OpenOptions;
use std::path::Path;

use blockdev::{DeviceId, DeviceQueue};
use blockstore::{BLOCK, Opener};

use crate::OpenError;
use crate::drive::Driver;
use crate::open::{Options, Parts, Queue, failed, io_error, lock, no_device, open_any, path_in};

/// Where a store ended, and where it ends now: bytes of its file or device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expanded {
    pub before: u64,
    pub after: u64,
}

/// Lets the store in `dir`, which is not in use, have all of its file or device. With `file_bytes` its file, which is no
/// longer than that, gets so many bytes first. A crash leaves the store with its old end or the new one.
///
/// # Errors
/// See [`OpenError`]. The store is as it was.
pub fn expand(dir: &Path, file_bytes: Option<u64>, options: &Options) -> Result<Expanded, OpenError> {
    let path = path_in(dir);
    // It is opened as it is: what is damaged is not made larger.
    let (mut store, label, owner) = open_any(dir, options)?;
    let before = store.handles().iter_mut().map(|handle| handle.inner().device_bytes()).max().unwrap_or(0);
    drop(store);
    let _lock = lock(dir)?;
    let metadata = std::fs::metadata(&path).map_err(io_error(&path))?;
    let parts = Parts::of(dir, &label, &owner)?;
    let _held = parts.hold()?;
    if let Some(bytes) = file_bytes {
        if !metadata.is_file() {
            return Err(OpenError::WholeDevice(path));
        }
        if bytes < metadata.len() {
            return Err(OpenError::Shrinks { path, bytes, has: metadata.len() });
        }
        let file = OpenOptions::new().write(true).open(&path).map_err(io_error(&path))?;
        file.set_len(bytes).and_then(|()| file.sync_all()).map_err(io_error(&path))?;
    }
    let mut queue: Queue = Box::new(parts.open(options)?.queue());
    let bytes = queue.geometry(DeviceId::Data).ok_or_else(|| no_device(&path))?.size_bytes;
    // A rest that is no block is of no use.
    let after = bytes / BLOCK * BLOCK;
    if after <= before {
        return Ok(Expanded { before, after: before });
    }
    let driver = Driver::new();
    queue.set_waker(driver.waker());
    let opener = Opener::new(queue, 0, options.store).map_err(|error| failed(&path, error))?;
    let mut opener = opener.growing_to(after);
    let store = driver.run(&mut opener, Opener::turn, Opener::deadline);
    let store = store.map_err(|error| match error {
        blockstore::OpenError::Between { .. } => {
            OpenError::CanNotGrow { path: path.clone(), why: error.to_string() }
        }
        other => failed(&path, other),
    })?;
    Ok(Expanded { before, after: store.device_bytes() })
}
