//! What a new store is made on: an image file, or a block device that holds nothing else; and what its log is made on.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blockstore::BLOCK;
use rustix::fs::{
    Advice, FallocateFlags, FlockOperation, OFlags, fadvise, fallocate, flock, ioctl_blksszget,
};
use rustix::io::Errno;
use types::{Fsid, OsdId};

use crate::label::{being_made_for, owner_on};
use crate::open::{io_error, left_path_in, log_path_in, path_in};
use crate::{OpenError, Owner};

/// Where file systems, partition tables and volume managers say that a device is theirs: at its beginning and its end.
const HEAD: u64 = 4 << 20;
const TAIL: u64 = 1 << 20;

/// Bytes of zeros that are written, or looked for, at once.
const ZEROS: usize = 1 << 20;

/// Zeros that the system's cache has at a time while a file is written whole, bytes.
const CACHED_MAX: u64 = 256 << 20;

/// Where devices are. A file that was made here would be in memory, and gone with the next start of the machine.
const DEVICES: &str = "/dev";

/// A block device's size.
///
/// # Errors
/// It can't be opened, or is none.
pub fn device_bytes(path: &Path) -> Result<u64, OpenError> {
    let mut file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => OpenError::MissingDevice(path.into()),
        _ => io_error(path)(error),
    })?;
    if !file.metadata().map_err(io_error(path))?.file_type().is_block_device() {
        return Err(OpenError::NotADevice(path.into()));
    }
    file.seek(SeekFrom::End(0)).map_err(io_error(path))
}

/// Opens a block device, or a file, so that no one else can take it (nor mount it) while the file is open. It can be written.
pub fn hold(path: &Path) -> Result<File, OpenError> {
    let file = hold_for(path, true)?;
    if device::is_read_only(&file.metadata().map_err(io_error(path))?) {
        return Err(OpenError::ReadOnly { path: path.into(), why: "the device is read-only".to_owned() });
    }
    Ok(file)
}

/// The same of what is only read, and may be one that can't be written. Others may read a file, too.
pub fn hold_to_read(path: &Path) -> Result<File, OpenError> {
    hold_for(path, false)
}

fn hold_for(path: &Path, writing: bool) -> Result<File, OpenError> {
    let is_file = std::fs::metadata(path).map_err(io_error(path))?.is_file();
    let exclusive = if is_file { 0 } else { OFlags::EXCL.bits() as i32 };
    let opened = OpenOptions::new().read(true).write(writing).custom_flags(exclusive).open(path);
    let file = opened.map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => OpenError::InUse(path.into()),
        _ if writing => not_writable(path, error),
        _ => OpenError::io(path, error),
    })?;
    if is_file {
        let how = match writing {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        lock_file(path, &file, how)?;
    }
    Ok(file)
}

/// The error of what could not be opened to be written.
pub fn not_writable(path: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly { path: path.into(), why: error.to_string() }
        }
        _ => OpenError::io(path, error),
    }
}

/// Keeps others from a file, by whatever name or link they come to it, while it is open.
fn lock_file(path: &Path, file: &File, how: FlockOperation) -> Result<(), OpenError> {
    match flock(file, how) {
        Err(Errno::WOULDBLOCK) => Err(OpenError::InUse(path.into())),
        other => other.map_err(|error| io_error(path)(error.into())),
    }
}

/// Makes the image file, as long as the store is to be, and sparse unless it is to be written whole, and holds it.
pub fn file(dir: &Path, size_bytes: u64, preallocate: bool) -> Result<File, OpenError> {
    let path = path_in(dir);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.map_err(|error| not_writable(&path, error))?;
    lock_file(&path, &file, FlockOperation::NonBlockingLockExclusive)?;
    // The label is written last: where the making of a store was interrupted, there are zeros.
    if holds(&path, 0, BLOCK)? {
        return Err(OpenError::Exists(path));
    }
    // From an empty file: an earlier try may have left blocks that nothing will use.
    let sized = file.set_len(0).and_then(|()| {
        device::write_in_place(&file);
        match preallocate {
            true => write_zeros(&mut file, size_bytes),
            false => file.set_len(size_bytes),
        }
    });
    // The file's name and length are no block of the device: they are the directory's own to keep.
    sized.and_then(|()| file.sync_all()).map_err(|error| of_length(&path, size_bytes, error))?;
    sync_dir(dir)?;
    Ok(file)
}

/// The error of a file that could not be made so long. Beyond 63 bits the system is not even asked.
pub fn of_length(path: &Path, bytes: u64, error: io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::FileTooLarge => OpenError::TooLarge { path: path.into(), bytes, most: None },
        _ if i64::try_from(bytes).is_err() => OpenError::TooLarge { path: path.into(), bytes, most: None },
        _ => OpenError::io(path, error),
    }
}

/// Nothing of the file is in the system's cache afterwards: the store passes it by, and each of the store's writes would have to
/// throw a part of it out first.
fn write_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS];
    let mut written = 0;
    while written < bytes {
        let (from, end) = (written, bytes.min(written + CACHED_MAX));
        while written < end {
            let now = (end - written).min(ZEROS as u64);
            file.write_all(&zeros[..now as usize])?;
            written += now;
        }
        file.sync_data()?;
        // A file system that keeps them takes some memory, no more.
        let _ = fadvise(&*file, from, NonZeroU64::new(end - from), Advice::DontNeed);
    }
    Ok(())
}

/// Who takes what a part of a store is to be made on.
#[derive(Clone, Copy, Debug)]
pub struct Taker<'a> {
    pub owner: &'a Owner,
    /// The directory of the owner's cluster, if the store is one of a cluster: nothing else that belongs to it can be taken.
    pub cluster_dir: Option<&'a Path>,
}

impl Taker<'_> {
    fn is_own(&self, has: &Owner) -> bool {
        (has.cluster, has.osd) == (self.owner.cluster, self.owner.osd)
    }

    /// What is another part of the cluster can't be taken, whatever may be overwritten. Who takes it looks at the owner's own parts.
    /// An OSD that is gone has no directory, and what its store lay on may be overwritten.
    fn refuse_parts_of_cluster(&self, path: &Path) -> Result<(), OpenError> {
        let Some(dir) = self.cluster_dir.and_then(|dir| dir.canonicalize().ok()) else { return Ok(()) };
        let has = owner_on(path);
        if has.is_some_and(|has| self.is_own(&has)) {
            return Ok(());
        }
        if let Some(other) = has.filter(|has| has.cluster == self.owner.cluster).map(|has| has.osd)
            && dir.join(format!("osd.{other}")).exists()
        {
            return Err(OpenError::OfAnotherOsd { path: path.into(), other });
        }
        match path.canonicalize() {
            Ok(to) if to.starts_with(&dir) => Err(OpenError::OfTheCluster { path: path.into(), dir }),
            _ => Ok(()),
        }
    }
}

/// Whether two paths lead to the same file or device, by whatever name, or would, once it is made.
pub fn is_same_place(a: &Path, b: &Path) -> bool {
    let is_which = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        let device = found.file_type().is_block_device().then(|| found.rdev());
        Some(device.map_or((Some((found.dev(), found.ino())), None), |device| (None, Some(device))))
    };
    match (is_which(a), is_which(b)) {
        (None, None) => is_same_name(a, b),
        (a, b) => a == b,
    }
}

/// Whether two paths are one name in one directory, whether anything has it or not.
pub fn is_same_name(a: &Path, b: &Path) -> bool {
    let resolved = |path: &Path| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    a == b || resolved(a).is_some_and(|a| Some(a) == resolved(b))
}

/// Holds a device or a file that a part of an OSD's store is to be made on. It may hold a part of the same OSD's store, whole or
/// as far as its making came, which is given up then, or nothing; anything else may be overwritten only if `overwrite` says so,
/// and another part of the same cluster never. Nothing of it is changed.
pub fn take(path: &Path, taker: Taker<'_>, overwrite: bool) -> Result<File, OpenError> {
    taker.refuse_parts_of_cluster(path)?;
    let mut held = hold(path)?;
    check_sectors(path, &held)?;
    let is_own = owner_on(path).is_some_and(|has| taker.is_own(&has));
    if !is_own && !overwrite && is_used(path, &mut held)? {
        return Err(OpenError::HoldsData(path.into()));
    }
    Ok(held)
}

/// Refuses a device that ends within a sector: the system performs no request there.
fn check_sectors(path: &Path, mut held: &File) -> Result<(), OpenError> {
    if held.metadata().map_err(io_error(path))?.is_file() {
        return Ok(());
    }
    let sector = ioctl_blksszget(held).map_err(|error| io_error(path)(error.into()))?;
    let (bytes, sector) = (held.seek(SeekFrom::End(0)).map_err(io_error(path))?, u64::from(sector.max(1)));
    match bytes % sector {
        0 => Ok(()),
        _ => Err(OpenError::PartOfASector { path: path.into(), bytes, sector }),
    }
}

/// Whether there is something on a device, where it would say whose it is, or anywhere in a file.
fn is_used(path: &Path, held: &mut File) -> Result<bool, OpenError> {
    if held.metadata().map_err(io_error(path))?.is_file() {
        return holds(path, 0, u64::MAX);
    }
    let bytes = held.seek(SeekFrom::End(0)).map_err(io_error(path))?;
    Ok(holds(path, 0, HEAD)? || holds(path, bytes.saturating_sub(TAIL), TAIL)?)
}

/// The same for a log, which may lie in a file. `None`: there is none, and [`make_log`] makes it.
pub fn take_for_log(path: &Path, taker: Taker<'_>, overwrite: bool) -> Result<Option<File>, OpenError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() || metadata.file_type().is_block_device() => {
            take(path, taker, overwrite).map(Some)
        }
        Ok(_) => Err(OpenError::NoPlaceForALog(path.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            if is_among_devices(path) {
                Err(OpenError::NoDevice(path.into()))
            } else if path.is_symlink() {
                // It leads nowhere, and no file is made where it is.
                Err(OpenError::io(path, error))
            } else if dir.is_some_and(|dir| !dir.exists()) {
                Err(OpenError::NoDirectory(path.into()))
            } else {
                Ok(None)
            }
        }
        Err(error) => Err(OpenError::io(path, error)),
    }
}

/// Whether the name of a file is one of a device: below `/dev`, but not in a file system that is mounted there.
fn is_among_devices(path: &Path) -> bool {
    let on = |dir: &Path| std::fs::metadata(dir).ok().map(|found| found.dev());
    let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
    dir.is_some_and(|dir| dir.starts_with(DEVICES) && on(&dir) == on(Path::new(DEVICES)))
}

/// Makes the file of a log, and holds it.
pub fn make_log(path: &Path) -> Result<File, OpenError> {
    let made = OpenOptions::new().write(true).create_new(true).open(path).map_err(io_error(path))?;
    device::write_in_place(&made);
    hold(path)
}

/// What a store lies on outside of its directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// The block device of its data; `None` for an image file.
    pub device: Option<PathBuf>,
    /// The block device or file of its logs; `None` for logs beside the data.
    pub log: Option<PathBuf>,
}

/// Those of the store in `dir`, also of one that is being made, as far as it was given some. A link to an image
/// file names no device. A link that leads nowhere does: the device is gone.
pub fn places_in(dir: &Path) -> Places {
    let linked = |path: PathBuf| std::fs::read_link(path).ok();
    let is_file = std::fs::metadata(path_in(dir)).is_ok_and(|found| found.is_file());
    let device = linked(path_in(dir)).filter(|_| !is_file);
    Places { device, log: linked(log_path_in(dir)) }
}

/// Whether a directory is linked to this; otherwise nothing is in the link's place.
pub fn is_linked(link: &Path, to: &Path) -> Result<bool, OpenError> {
    match std::fs::read_link(link) {
        Ok(there) if there == to => Ok(true),
        Ok(there) => Err(OpenError::LeadsElsewhere { link: link.into(), there, to: to.into() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        _ => Err(OpenError::Exists(link.into())),
    }
}

/// Links a directory to what was taken, and notes in its first block for whom a store is being made there.
pub fn link(dir: &Path, link: &Path, to: &Path, held: &File, owner: &Owner) -> Result<(), OpenError> {
    if !is_linked(link, to)? {
        std::os::unix::fs::symlink(to, link).map_err(io_error(link))?;
    }
    give_up(to, held, owner)?;
    sync_dir(dir)
}

/// What was there is given up from here on. Who finds it later sees that it is the owner's, though no label says so yet: an empty
/// first block says nothing, as other formats leave it empty. Nor does anything else on a device say any more whose it was: a system
/// that starts with it would take a mirror's half or a file system for what it was, and write to it.
pub fn give_up(path: &Path, held: &File, owner: &Owner) -> Result<(), OpenError> {
    let given_up = held.write_all_at(&being_made_for(owner), 0).and_then(|()| held.sync_all());
    given_up
        .and_then(|()| if held.metadata()?.is_file() { Ok(()) } else { empty_ends(held) })
        .map_err(io_error(path))
}

/// Empties what [`is_used`] looks at of a device, but for the first block.
fn empty_ends(mut held: &File) -> io::Result<()> {
    let bytes = held.seek(SeekFrom::End(0))?;
    let (head, tail) = (BLOCK..bytes.min(HEAD), bytes.saturating_sub(TAIL).max(BLOCK)..bytes);
    for range in [head, tail] {
        held.write_all_at(&vec![0; range.end.saturating_sub(range.start) as usize], range.start)?;
    }
    held.sync_all()
}

/// Has a link lead here, whatever it led to before: in one step.
pub fn relink(dir: &Path, link: &Path, to: &Path) -> Result<(), OpenError> {
    let new = link.with_extension("new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io_error(&new)(error)),
        _ => {}
    }
    std::os::unix::fs::symlink(to, &new).map_err(io_error(&new))?;
    std::fs::rename(&new, link).map_err(io_error(link))?;
    sync_dir(dir)
}

/// Removes a link, durably.
pub fn unlink(dir: &Path, link: &Path) -> Result<(), OpenError> {
    std::fs::remove_file(link).map_err(io_error(link))?;
    sync_dir(dir)
}

/// Makes a file as long as the logs in it need it to be, with all of the disk that this takes.
pub fn lengthen(path: &Path, file: &File, bytes: u64) -> Result<(), OpenError> {
    let has = file.metadata().map_err(io_error(path))?.len();
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // The logs are written whole in any case.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) if has < bytes => file.set_len(bytes),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other.map_err(io::Error::from),
    }
    .and_then(|()| file.sync_all())
    .map_err(io_error(path))?;
    path.parent().map_or(Ok(()), sync_dir)
}

fn sync_dir(dir: &Path) -> Result<(), OpenError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error(dir))
}

/// Takes back the making of an OSD's store in `dir`, also one that was interrupted, where it is on block devices or files
/// elsewhere: the devices hold nothing then, and the files are gone. What is another OSD's by now stays.
///
/// # Errors
/// A device can't be read or written, or is in use.
pub fn unmake(dir: &Path, cluster: Fsid, osd: OsdId) -> Result<(), OpenError> {
    unmake_behind(&path_in(dir), cluster, osd)?;
    unmake_behind(&log_path_in(dir), cluster, osd)?;
    unmake_behind(&left_path_in(dir), cluster, osd)
}

/// Forgets the log of a store that was in `dir` and is given up: it was moved there, and the caller does not know. Another store would
/// be refused with it.
pub fn forget_log(dir: &Path, owner: &Owner) -> Result<(), OpenError> {
    let link = log_path_in(dir);
    // Its device may have failed with the store.
    let _ = unmake_behind(&link, owner.cluster, owner.osd);
    unlink(dir, &link)
}

fn unmake_behind(link: &Path, cluster: Fsid, osd: OsdId) -> Result<(), OpenError> {
    // An image file, and what was not made, go with the directory.
    if !link.is_symlink() {
        return Ok(());
    }
    // The file itself, where the link leads to another link.
    let path = match link.canonicalize() {
        Ok(path) => path,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::io(link, error)),
    };
    unmake_at(&path, cluster, osd)
}

/// The same of a device or file itself.
pub fn unmake_at(path: &Path, cluster: Fsid, osd: OsdId) -> Result<(), OpenError> {
    if owner_on(path).is_none_or(|has| (has.cluster, has.osd) != (cluster, osd)) {
        return Ok(());
    }
    let held = hold(path)?;
    if held.metadata().map_err(io_error(path))?.is_file() {
        return std::fs::remove_file(path).map_err(io_error(path));
    }
    // The first block last: who is interrupted finds what says whose it is.
    let emptied = empty_ends(&held).and_then(|()| held.write_all_at(&[0; BLOCK as usize], 0));
    emptied.and_then(|()| held.sync_all()).map_err(io_error(path))
}

/// Whether a part of a file is there and is not zeros.
fn holds(path: &Path, offset: u64, bytes: u64) -> Result<bool, OpenError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(io_error(path)(error)),
    };
    file.seek(SeekFrom::Start(offset)).map_err(io_error(path))?;
    let (mut rest, mut found, mut at) = (file.take(bytes), vec![0; ZEROS], offset);
    loop {
        match rest.read(&mut found) {
            Ok(0) => return Ok(false),
            Ok(some) if found[..some].iter().any(|byte| *byte != 0) => return Ok(true),
            Ok(some) => at += some as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(OpenError::CanNotRead { path: path.into(), at, error }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use rustix::io::{ReadWriteFlags, preadv2};

    use super::*;

    /// Whether a read of a file finds its bytes in the system's cache.
    fn is_cached(file: &File, offset: u64) -> bool {
        let mut byte = [0];
        preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) == Ok(1)
    }

    #[test]
    fn of_a_device_that_is_emptied_the_ends_and_nothing_else_are_written() {
        for bytes in [BLOCK, BLOCK + 512, TAIL, HEAD + 512, HEAD + TAIL + 3 * BLOCK + 512] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![1; bytes as usize]).unwrap();
            empty_ends(&file).unwrap();
            let mut found = vec![0; bytes as usize];
            file.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(file.metadata().unwrap().len(), bytes);
            let is_left = |at: u64| at < BLOCK || (HEAD..bytes.saturating_sub(TAIL)).contains(&at);
            assert!((0..).zip(found).all(|(at, byte)| (byte == 1) == is_left(at)), "{bytes}");
        }
    }

    #[test]
    fn an_image_file_behind_a_link_is_no_device() {
        let dir = tempfile::tempdir().unwrap();
        let (image, gone) = (dir.path().join("image"), dir.path().join("gone"));
        File::create_new(&image).unwrap();
        relink(dir.path(), &path_in(dir.path()), &image).unwrap();
        relink(dir.path(), &log_path_in(dir.path()), &image).unwrap();
        assert_eq!(places_in(dir.path()), Places { device: None, log: Some(image) });
        relink(dir.path(), &path_in(dir.path()), &gone).unwrap();
        assert_eq!(places_in(dir.path()).device, Some(gone));
    }

    #[test]
    fn a_file_that_is_written_whole_leaves_nothing_in_the_cache() {
        // Here, for a directory of temporary files may be nothing but cache.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut known = File::create_new(dir.path().join("known")).unwrap();
        known.write_all(&[0; ZEROS]).and_then(|()| known.sync_all()).unwrap();
        fadvise(&known, 0, None, Advice::DontNeed).unwrap();
        let known = File::open(dir.path().join("known")).unwrap();
        let is_dropped = !is_cached(&known, 0);
        known.read_exact_at(&mut [0], 0).unwrap();
        if !is_dropped || !is_cached(&known, 0) {
            return eprintln!("not run: this file system does not tell what it keeps in the cache");
        }

        let path = dir.path().join("zeros");
        let bytes = 4 * ZEROS as u64 + 512;
        write_zeros(&mut File::create_new(&path).unwrap(), bytes).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(file.metadata().unwrap().len(), bytes);
        assert!((0..bytes).step_by(ZEROS / 2).all(|offset| !is_cached(&file, offset)));
        let mut some = vec![1; ZEROS];
        file.read_exact_at(&mut some, 0).unwrap();
        assert!(some.iter().all(|byte| *byte == 0) && is_cached(&file, 0));
    }
}
