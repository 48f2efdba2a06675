//! Giving the store that is there a log of its own, and taking it back.
//!
//! Where a shard's log is, its superblock says. So a log moves when it is empty: its new place is prepared first, then the
//! directory is linked to it, then each shard's superblock says so, and only then the place from before is given up, of which
//! the directory keeps a second link until then. Ended anywhere, the store opens, and the same call goes on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use blockdev::{DeviceId, DeviceQueue};
use blockstore::{BLOCK, Label, Part};

use crate::blocking::Blocking;
use crate::label::{owner_on, read_label, target};
use crate::make::LogPlace;
use crate::open::{
    Options, Parts, io_error, left_path_in, lock, log_path_in, no_device, open_any, open_shard, path_in,
};
use crate::place::{Taker, is_same_place};
use crate::{OpenError, Owner, place};

/// Bytes of zeros written at once.
const ZEROS: usize = 1 << 20;

/// Where the log of a store was, and where it is now; `None` is beside the data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    pub before: Option<PathBuf>,
    pub after: Option<PathBuf>,
}

/// Moves the log of the store in `dir`, which is not in use, to a block device or a file; or, with `None`, beside the data
/// again. A call that was interrupted is made again. `cluster_dir` is the directory of the OSD's cluster, no other part of which can
/// be overwritten.
///
/// # Errors
/// See [`OpenError`]. What can't be had is refused before anything is changed.
pub fn move_log(
    dir: &Path,
    cluster_dir: Option<&Path>,
    to: Option<&LogPlace>,
    options: &Options,
) -> Result<Moved, OpenError> {
    let (label, owner) = read_label(&path_in(dir))?;
    if to.is_none() && label.log_apart {
        return Err(OpenError::NoPlaceBesideData(path_in(dir)));
    }
    let link = log_path_in(dir);
    let before = link.is_symlink().then(|| target(&link));
    let is_there = |to: &LogPlace| before.as_ref().is_some_and(|before| is_same_place(before, &to.path));
    let new = to.filter(|to| !is_there(to));
    let taker = Taker { owner: &owner, cluster_dir };
    let taken = new.map(|to| take(dir, to, &label, taker, options)).transpose()?;
    let is_left = before.is_some() && (to.is_none() || new.is_some());
    let left = leave(dir, &owner, [before.as_deref(), new.map(|to| to.path.as_path())], is_left, options);
    if let Err(refused) = left {
        // Why the log stays says more than why a place could not be given back.
        let _ = taken.map(Taken::undo).transpose();
        return Err(refused);
    }
    if let Some(taken) = taken {
        let path = taken.path.clone();
        // Held until the store has it.
        let _held = taken.prepared(&label, &owner)?;
        place::relink(dir, &link, &path)?;
    }
    // A store that was made with its log apart has it there wherever the link leads.
    if !label.log_apart {
        switch(dir, &label, &owner, to.is_some(), options)?;
    }
    // The place from before has what was there until the store was opened with the new one.
    drop(open_any(dir, options)?);
    if to.is_none() && before.is_some() {
        place::unlink(dir, &link)?;
    }
    give_back(dir, &owner, [to.map(|to| to.path.as_path()), None])?;
    Ok(Moved { before, after: to.map(|to| to.path.clone()) })
}

/// Has the log ready to move: it is empty, and where it `is_left`, the directory has a second link to its place. `needed`: its place
/// before, and the new one.
fn leave(
    dir: &Path,
    owner: &Owner,
    needed: [Option<&Path>; 2],
    is_left: bool,
    options: &Options,
) -> Result<(), OpenError> {
    empty(dir, options)?;
    // An interrupted call left a place that neither the store nor this call needs.
    give_back(dir, owner, needed)?;
    if !is_left {
        return Ok(());
    }
    let link = log_path_in(dir);
    let place = std::fs::read_link(&link).map_err(io_error(&link))?;
    place::relink(dir, &left_path_in(dir), &place)
}

/// Clears the place that the log has left, unless it is one of those that are needed, and forgets it.
fn give_back(dir: &Path, owner: &Owner, needed: [Option<&Path>; 2]) -> Result<(), OpenError> {
    let left = left_path_in(dir);
    if !left.is_symlink() {
        return Ok(());
    }
    let path = target(&left);
    let is_needed = needed.into_iter().flatten().any(|needed| is_same_place(needed, &path));
    if !is_needed && owner_on(&path) == Some(*owner) {
        place::unmake_at(&path, owner.cluster, owner.osd)?;
    }
    place::unlink(dir, &left)
}

/// The new place, while nothing but its length was changed.
struct Taken {
    path: PathBuf,
    held: File,
    was: Was,
}

/// What was there before.
enum Was {
    Nothing,
    /// A file of so many bytes.
    File(u64),
    Device,
}

impl Taken {
    /// Has an empty log there, or leaves what was there: a file that was made for it goes, on a full disk too.
    fn prepared(self, label: &Label, owner: &Owner) -> Result<File, OpenError> {
        match prepare(&self.path, &self.held, label, owner) {
            Ok(()) => Ok(self.held),
            Err(refused) => {
                // The caller is told why there is no log, not that the file could not be removed either.
                let _ = self.undo();
                Err(refused)
            }
        }
    }

    /// Leaves what was there.
    fn undo(self) -> Result<(), OpenError> {
        let undone = match self.was {
            Was::Nothing => std::fs::remove_file(&self.path),
            Was::File(bytes) => self.held.set_len(bytes),
            Was::Device => Ok(()),
        };
        undone.map_err(io_error(&self.path))
    }
}

/// Holds the new place, made if it is a file that is not there, when the log can lie there.
fn take(
    dir: &Path,
    to: &LogPlace,
    label: &Label,
    taker: Taker<'_>,
    options: &Options,
) -> Result<Taken, OpenError> {
    let path = &to.path;
    if is_same_place(path, &path_in(dir)) {
        return Err(OpenError::HasTheData(path.clone()));
    }
    // The data of another store of this OSD is what `take_for_log` would give up.
    if !to.overwrite && read_label(path).is_ok() {
        return Err(OpenError::HoldsData(path.clone()));
    }
    let (held, was) = match place::take_for_log(path, taker, to.overwrite)? {
        Some(held) => {
            let metadata = held.metadata().map_err(io_error(path))?;
            let was = if metadata.is_file() { Was::File(metadata.len()) } else { Was::Device };
            (held, was)
        }
        None => (place::make_log(path)?, Was::Nothing),
    };
    let taken = Taken { path: path.clone(), held, was };
    match fits(path, &taken.held, label, options) {
        Ok(()) => Ok(taken),
        Err(refused) => {
            let _ = taken.undo();
            Err(refused)
        }
    }
}

fn fits(path: &Path, held: &File, label: &Label, options: &Options) -> Result<(), OpenError> {
    let needed = label.log_device_bytes();
    let metadata = held.metadata().map_err(io_error(path))?;
    if !metadata.is_file() {
        let bytes = place::device_bytes(path)?;
        if bytes < needed {
            return Err(OpenError::TooSmallForLogs { path: path.into(), bytes, needed });
        }
    } else if metadata.len() < BLOCK {
        // An empty file has no blocks that could be asked for.
        held.set_len(BLOCK).map_err(io_error(path))?;
    }
    let parts = Parts { data: path.into(), log: None };
    let geometry = parts.open(options)?.queue().geometry(DeviceId::Data);
    let block_bytes = geometry.ok_or_else(|| no_device(path))?.block_bytes;
    match label.log_unit_bytes % block_bytes {
        0 => Ok(()),
        _ => Err(OpenError::LogUnits { path: path.into(), unit: label.log_unit_bytes, block_bytes }),
    }
}

/// Brings everything that is in the logs to its place.
fn empty(dir: &Path, options: &Options) -> Result<(), OpenError> {
    let (store, _, _) = open_any(dir, options)?;
    let mut store = Blocking::new(store);
    let emptied = store.drive(|store, _| {
        let (mut count, mut failed) = (0, false);
        for handle in store.handles() {
            let shard = handle.inner();
            if !shard.is_clean() {
                // Once more, too: a record may follow a checkpoint, that what it gave up is given up.
                shard.request_checkpoint();
                (count, failed) = (count + 1, failed | shard.has_failed());
            }
        }
        (count == 0 || failed).then_some(!failed)
    });
    match emptied {
        true => Ok(()),
        false => Err(OpenError::LogStays(path_in(dir))),
    }
}

/// Makes an empty log of what was taken: the label comes last, for without it nothing is there.
fn prepare(path: &Path, held: &File, label: &Label, owner: &Owner) -> Result<(), OpenError> {
    let bytes = label.log_device_bytes();
    let write = |offset: u64, data: &[u8]| held.write_all_at(data, offset).map_err(io_error(path));
    let sync = || held.sync_all().map_err(io_error(path));
    place::give_up(path, held, owner)?;
    if held.metadata().map_err(io_error(path))?.is_file() {
        place::lengthen(path, held, bytes)?;
    }
    let zeros = vec![0; ZEROS];
    for at in (BLOCK..bytes).step_by(ZEROS) {
        write(at, &zeros[..ZEROS.min((bytes - at) as usize)])?;
    }
    sync()?;
    write(0, &Label { log_apart: true, ..label.clone() }.encode(Part::Log))?;
    sync()
}

/// Has each shard's superblock say where its log is, one after the other.
fn switch(dir: &Path, label: &Label, owner: &Owner, apart: bool, options: &Options) -> Result<(), OpenError> {
    let path = path_in(dir);
    let _lock = lock(dir)?;
    let parts = Parts::of(dir, label, owner)?;
    let _held = parts.hold()?;
    let files = parts.open(options)?;
    (0..label.shards)
        .try_for_each(|shard| open_shard(&path, &files, shard, options, |opener| opener.moving_log(apart)))
}

#[cfg(test)]
mod tests {
    use types::{Fsid, OsdId};

    use super::*;
    use crate::{NewStore, mkfs};

    #[test]
    fn a_log_that_can_not_be_made_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let owner = Owner { cluster: Fsid([1; 16]), osd: OsdId(3), osd_uuid: Fsid([2; 16]) };
        mkfs(dir.path(), &owner, &NewStore::file(32 << 20), &Options::default()).unwrap();
        let (label, _) = read_label(&path_in(dir.path())).unwrap();
        let path = dir.path().join("log");
        let made = place::make_log(&path).unwrap();
        made.set_len(BLOCK).unwrap();
        drop(made);
        // Nothing can be written to it, as on a full disk.
        let taken = Taken { path: path.clone(), held: File::open(&path).unwrap(), was: Was::Nothing };
        assert!(matches!(taken.prepared(&label, &owner), Err(OpenError::Io { .. })));
        assert!(!path.exists());
    }
}
