//! Making stores.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use blockdev::{DeviceError, DeviceId, DeviceQueue};
use blockstore::{BLOCK, LABEL_BYTES, Label, Making, SIZE_BYTES_MAX};
use encoding::Encode;

use crate::drive::Driver;
use crate::label::SHARDS_MAX;
use crate::open::{Options, Parts, Queue, io_error, lock, log_path_in, no_device, path_in};
use crate::place::Taker;
use crate::{OpenError, Owner, place};

/// Bytes of a shard's log: this part of the shard's,
const LOG_PART: u64 = 64;
/// at least and at most so many.
const LOG_BYTES_MIN: u64 = 8 << 20;
const LOG_BYTES_MAX: u64 = 32 << 20;
/// Bytes of all logs, where the least of each allows it. They are written once in whole when the store is made.
const LOGS_BYTES_MAX: u64 = 64 << 20;
/// So many times as much where the store takes its disk at once anyway: each checkpoint writes most of the tree's pages again, so
/// fewer write less (docs/profiling.md).
const LOG_TIMES_OF_WHOLE: u64 = 3;

/// Bytes of the smallest store.
const SIZE_MIN: u64 = 32 << 20;

/// Bytes of a shard, at least, where there are several: each has a log, and what is never given out.
const SHARD_BYTES_MIN: u64 = 256 << 20;

/// The store to be made.
#[derive(Clone, Debug)]
pub struct NewStore {
    /// Bytes, rounded down to 4 KiB; a device is used whole.
    pub size_bytes: u64,
    /// The block device that it is to lie on; an image file otherwise.
    pub device: Option<PathBuf>,
    /// Whether what the device holds may be overwritten.
    pub overwrite: bool,
    /// Where the logs are to lie, if not beside the data.
    pub log: Option<LogPlace>,
    /// Whether the image file is written whole, with zeros.
    pub preallocate: bool,
    /// How many shards are wanted; [`shards_of`] says how many there will be.
    pub shards: u32,
    /// The directory of the OSD's cluster, if it is one of a cluster: other parts of the cluster are never overwritten.
    pub cluster_dir: Option<PathBuf>,
}

/// A block device or a file for the logs of a store.
#[derive(Clone, Debug)]
pub struct LogPlace {
    /// A file that is not there is made, and one that is too short is made longer.
    pub path: PathBuf,
    /// Whether what it holds may be overwritten.
    pub overwrite: bool,
}

impl NewStore {
    /// A sparse image file of so many bytes.
    pub fn file(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            device: None,
            overwrite: false,
            log: None,
            preallocate: false,
            shards: 1,
            cluster_dir: None,
        }
    }

    fn taker<'a>(&'a self, owner: &'a Owner) -> Taker<'a> {
        Taker { owner, cluster_dir: self.cluster_dir.as_deref() }
    }
}

/// How many shards a store of so many bytes gets where `wanted` are: fewer where each would be too small.
pub fn shards_of(size_bytes: u64, wanted: u32) -> u32 {
    let most = (size_bytes / SHARD_BYTES_MIN).min(u64::from(SHARDS_MAX)) as u32;
    wanted.clamp(1, most.max(1))
}

/// Bytes of each shard's log in a store of so many bytes, which `takes_all` of them when it is made or not.
fn log_bytes(size_bytes: u64, shards: u32, takes_all: bool) -> u64 {
    let shards = u64::from(shards.max(1));
    let times = if takes_all { LOG_TIMES_OF_WHOLE } else { 1 };
    let most = (LOGS_BYTES_MAX * times / shards).clamp(LOG_BYTES_MIN, LOG_BYTES_MAX * times);
    (size_bytes / shards / LOG_PART).clamp(LOG_BYTES_MIN, most) / BLOCK * BLOCK
}

/// Bytes of all logs of a store for which so many shards are wanted, which are written when it is made. Logs are larger where
/// it `takes_all` of its bytes then: a device, or an image file that is written whole.
pub fn logs_bytes(size_bytes: u64, shards: u32, takes_all: bool) -> u64 {
    let shards = shards_of(size_bytes, shards);
    log_bytes(size_bytes, shards, takes_all) * u64::from(shards)
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
    let path = || new.device.clone().unwrap_or_else(|| path_in(dir));
    if size_bytes < SIZE_MIN {
        return Err(OpenError::TooSmall { path: path(), bytes: size_bytes, needed: SIZE_MIN });
    }
    if size_bytes > SIZE_BYTES_MAX {
        return Err(OpenError::TooLarge { path: path(), bytes: size_bytes, most: Some(SIZE_BYTES_MAX) });
    }
    std::fs::create_dir_all(dir).map_err(io_error(dir))?;
    let _lock = lock(dir)?;
    let shards = shards_of(size_bytes, new.shards);
    let mut label = Label {
        id: random_id().map_err(io_error(dir))?,
        shards,
        size_bytes,
        log_bytes: log_bytes(size_bytes, shards, new.preallocate || new.device.is_some()),
        log_unit_bytes: BLOCK as u32,
        log_apart: new.log.is_some(),
        copies: true,
        owner: owner.to_bytes(0),
    };
    let (parts, _held) = place_parts(dir, owner, new, &mut label)?;
    make(&parts, label, options)
}

/// Whether what a store is to lie on outside of its directory may be taken for it. Nothing is changed.
///
/// # Errors
/// It is not there, too small, in use, another part of the cluster, or holds data that may not be overwritten.
pub fn check_places(owner: &Owner, new: &NewStore) -> Result<(), OpenError> {
    if let Some(path) = &new.device {
        let bytes = place::device_bytes(path)?;
        if bytes < SIZE_MIN {
            return Err(OpenError::TooSmall { path: path.clone(), bytes, needed: SIZE_MIN });
        }
        place::take(path, new.taker(owner), new.overwrite)?;
    }
    if let Some(LogPlace { path, overwrite }) = &new.log {
        let held = place::take_for_log(path, new.taker(owner), *overwrite)?;
        let bytes = new.device.as_deref().map_or(Ok(new.size_bytes), place::device_bytes)?;
        held.map_or(Ok(None), |held| bytes_for_each_log(shards_of(bytes, new.shards), path, &held))?;
    }
    Ok(())
}

/// Whether the links in `dir` to what a store lies on, as far as there are any, let it be made: the one to its data leads where it is
/// to be. One to a log may lead elsewhere: it is that of the store before, which is given up, as the making gives up the log there.
///
/// # Errors
/// The link to the data leads elsewhere, or one of both is not a link.
pub fn check_links(dir: &Path, new: &NewStore) -> Result<(), OpenError> {
    if let Some(device) = &new.device {
        place::is_linked(&path_in(dir), device)?;
    }
    check_log_link(dir, new)
}

fn check_log_link(dir: &Path, new: &NewStore) -> Result<(), OpenError> {
    match &new.log {
        Some(log) if place::places_in(dir).log.is_none() => {
            place::is_linked(&log_path_in(dir), &log.path).map(drop)
        }
        _ => Ok(()),
    }
}

/// A log lies neither where the data are nor where the link to it is, which are made with the store.
fn check_log_elsewhere(log: &Path, dir: &Path) -> Result<(), OpenError> {
    if place::is_same_place(log, &path_in(dir)) {
        return Err(OpenError::HasTheData(log.into()));
    }
    match place::is_same_name(log, &log_path_in(dir)) {
        true => Err(OpenError::OfTheCluster { path: log.into(), dir: dir.into() }),
        false => Ok(()),
    }
}

/// Makes, or takes, what the store is to lie on, and holds it. All that may be refused is looked at before anything is
/// changed.
fn place_parts(
    dir: &Path,
    owner: &Owner,
    new: &NewStore,
    label: &mut Label,
) -> Result<(Parts, Vec<File>), OpenError> {
    let (data, link) = (path_in(dir), log_path_in(dir));
    let device = match &new.device {
        None => None,
        Some(path) => {
            place::is_linked(&data, path)?;
            Some((path, place::take(path, new.taker(owner), new.overwrite)?))
        }
    };
    let (linked, wanted) = (place::places_in(dir).log, new.log.as_ref().map(|log| &log.path));
    let is_former = linked.is_some() && linked.as_ref() != wanted;
    let log = match &new.log {
        None => None,
        Some(LogPlace { path, overwrite }) => {
            check_log_link(dir, new)?;
            check_log_elsewhere(path, dir)?;
            let held = place::take_for_log(path, new.taker(owner), *overwrite)?;
            held.as_ref().map_or(Ok(()), |held| fit_logs(label, path, held))?;
            Some((path, held))
        }
    };
    let (mut parts, mut all_held) = (Parts { data, log: None }, Vec::new());
    all_held.push(match device {
        None => place::file(dir, label.size_bytes, new.preallocate)?,
        Some((path, held)) => {
            place::link(dir, &parts.data, path, &held, owner)?;
            held
        }
    });
    if is_former {
        place::forget_log(dir, owner)?;
    }
    if let Some((path, held)) = log {
        let held = held.map_or_else(|| place::make_log(path), Ok)?;
        place::link(dir, &link, path, &held, owner)?;
        if held.metadata().map_err(io_error(path))?.is_file() {
            place::lengthen(path, &held, label.log_device_bytes())?;
        }
        all_held.push(held);
        parts.log = Some(link);
    }
    Ok((parts, all_held))
}

/// Gives the logs what a block device has for them, where that is less than they would have beside the data.
fn fit_logs(label: &mut Label, path: &Path, held: &File) -> Result<(), OpenError> {
    let each = bytes_for_each_log(label.shards, path, held)?;
    label.log_bytes = each.map_or(label.log_bytes, |each| label.log_bytes.min(each));
    Ok(())
}

/// What a block device has for each log. A file has what they need.
fn bytes_for_each_log(shards: u32, path: &Path, held: &File) -> Result<Option<u64>, OpenError> {
    if held.metadata().map_err(io_error(path))?.is_file() {
        return Ok(None);
    }
    let (bytes, shards) = (place::device_bytes(path)?, u64::from(shards));
    let each = bytes.saturating_sub(LABEL_BYTES) / shards / BLOCK * BLOCK;
    if each < LOG_BYTES_MIN {
        let needed = LOG_BYTES_MIN * shards + LABEL_BYTES;
        return Err(OpenError::TooSmallForLogs { path: path.into(), bytes, needed });
    }
    Ok(Some(each))
}

fn make(parts: &Parts, mut label: Label, options: &Options) -> Result<(), OpenError> {
    let path = &parts.data;
    let mut queue: Queue = Box::new(parts.open(options)?.queue());
    let driver = Driver::new();
    queue.set_waker(driver.waker());
    let of_data = queue.geometry(DeviceId::Data).ok_or_else(|| no_device(path))?;
    let of_log = queue.geometry(label.log_device()).ok_or_else(|| no_device(path))?;
    label.log_unit_bytes = of_data.block_bytes.max(of_log.block_bytes);
    let mut making = Making::new(queue, label).map_err(|e| not_made(parts, e))?;
    let made = driver.run(&mut making, Making::turn, Making::deadline);
    made.map(drop).map_err(|e| not_made(parts, e))
}

/// The error of the making as one that names the file or device. Nothing is damaged: there was no store yet.
fn not_made(parts: &Parts, error: blockstore::OpenError) -> OpenError {
    let path = match (&error, &parts.log) {
        (blockstore::OpenError::Device(DeviceError::Io { device: DeviceId::Wal, .. }), Some(log)) => log,
        _ => &parts.data,
    };
    OpenError::NotMade { path: path.clone(), why: error.to_string() }
}

fn random_id() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
