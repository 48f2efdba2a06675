//! Giving a store the rest of a file or device that has grown.

use std::fs::OpenOptions;
use std::path::Path;

use blockstore::{BLOCK, Label};
use device::Files;

use crate::OpenError;
use crate::open::{Options, Parts, io_error, lock, open_any, open_shard, path_in};
use crate::place;

/// Where a store ended, and where it ends now: bytes of its file or device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expanded {
    pub before: u64,
    pub after: u64,
}

/// Lets the store in `dir`, which is not in use, have all of its file or device. With `file_bytes` its file, which is no
/// longer than that, gets so many bytes first. Each shard grows by itself, an equal part of what there is more: a crash
/// leaves each with its old end or the new one, and the next call brings the others to that.
///
/// # Errors
/// See [`OpenError`]. The store is as it was, or, where a device failed, as after a crash.
pub fn expand(dir: &Path, file_bytes: Option<u64>, options: &Options) -> Result<Expanded, OpenError> {
    let path = path_in(dir);
    // It is opened as it is: what is damaged is not made larger.
    let (mut store, label, owner) = open_any(dir, options)?;
    let ends = store.handles().iter_mut().map(|handle| handle.inner().ends()).collect::<Vec<_>>();
    let before = store.handles().iter_mut().map(|handle| handle.inner().device_bytes()).min().unwrap_or(0);
    drop(store);
    let _lock = lock(dir)?;
    let parts = Parts::of(dir, &label, &owner)?;
    let _held = parts.hold()?;
    let bytes = bytes_to_be(&path, file_bytes)?;
    let growing = Shards { path: &path, label: &label, options };
    // What all of them have when nothing is interrupted.
    let mut longest = ends.iter().max_by_key(|ends| ends.len()).cloned().unwrap_or_default();
    let is_behind = ends.iter().any(|ends| *ends != longest);
    let refused =
        |error: blockstore::GrowthError| OpenError::CanNotGrow { path: path.clone(), why: error.to_string() };
    let wanted = label.ends_with(&longest, bytes);
    if is_behind {
        growing.grow(&parts.open(options)?, &longest)?;
    }
    if let Some(ends) = wanted.map_err(refused)? {
        file_bytes.map_or(Ok(()), |bytes| set_len(&path, bytes))?;
        growing.grow(&parts.open(options)?, &ends)?;
        longest = ends;
    }
    Ok(Expanded { before, after: longest.last().copied().unwrap_or(before) })
}

/// The bytes of a store's device, or those that its file has, or is to have.
fn bytes_to_be(path: &Path, file_bytes: Option<u64>) -> Result<u64, OpenError> {
    let metadata = std::fs::metadata(path).map_err(io_error(path))?;
    match (metadata.is_file(), file_bytes) {
        (false, Some(_)) => Err(OpenError::WholeDevice(path.into())),
        (false, None) => place::device_bytes(path),
        (true, Some(bytes)) if bytes < metadata.len() => {
            Err(OpenError::Shrinks { path: path.into(), bytes, has: metadata.len() })
        }
        (true, bytes) => Ok(bytes.unwrap_or(metadata.len())),
    }
    // A rest that is no block is of no use.
    .map(|bytes| bytes / BLOCK * BLOCK)
}

/// Makes the store's file longer, sparse.
fn set_len(path: &Path, bytes: u64) -> Result<(), OpenError> {
    let file = OpenOptions::new().write(true).open(path).map_err(io_error(path))?;
    file.set_len(bytes).and_then(|()| file.sync_all()).map_err(|error| place::of_length(path, bytes, error))
}

/// The shards of a store that grow, one after the other.
struct Shards<'a> {
    path: &'a Path,
    label: &'a Label,
    options: &'a Options,
}

impl Shards<'_> {
    fn grow(&self, files: &Files, ends: &[u64]) -> Result<(), OpenError> {
        (0..self.label.shards).try_for_each(|shard| {
            open_shard(self.path, files, shard, self.options, |opener| opener.growing_to(ends.to_vec()))
        })
    }
}
