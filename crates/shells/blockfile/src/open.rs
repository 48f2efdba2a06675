//! Making and opening stores.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use blockdev::{DeviceId, DeviceQueue};
use blockstore::{BLOCK, Label, Making, Opener};
use device::{DeviceOptions, DirLock, Engine, FileDevice, Files, LockError, ModelledDisk, ModelledQueue};
use encoding::Encode;

use crate::drive::Driver;
use crate::growing::Growing;
use crate::label::read_label;
use crate::room::Room;
use crate::store::BlockFileStore;
use crate::{OpenError, Owner};

/// The store's file within its directory.
const FILE: &str = "block";

/// Requests that the device works on together.
const QUEUE_DEPTH: usize = 64;

/// Bytes of the log: this part of the store's,
const LOG_PART: u64 = 64;
/// at least and at most so many. The log is written once in whole when the store is made.
const LOG_BYTES_MIN: u64 = 8 << 20;
const LOG_BYTES_MAX: u64 = 32 << 20;

/// Bytes of the smallest store.
const SIZE_MIN: u64 = 32 << 20;

/// A store's queue to its devices.
pub type Queue = Box<dyn DeviceQueue + Send>;

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The volatile cache and the power switch for crash tests.
    pub device: DeviceOptions,
    /// What performs reads and writes, where the file allows it.
    pub engine: Engine,
    /// The modelled device that the store lies on, if it is to lie on one. Making a store is not modelled.
    pub model: Option<ModelledOn>,
    /// How the store uses memory and the log.
    pub store: blockstore::Options,
    /// Stores on the file system, this one included. Each reports an equal part of what is free there, so that their
    /// sum counts it once.
    pub file_system_stores: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: DeviceOptions::default(),
            engine: Engine::IoUring,
            model: None,
            store: blockstore::Options::default(),
            file_system_stores: 1,
        }
    }
}

/// A device model, as `bdev_model` and `bdev_model_parameters` name it.
#[derive(Clone, Debug)]
pub struct ModelledOn {
    pub name: String,
    /// `a=b,c=d` over its own parameters.
    pub parameters: String,
}

/// Bytes of the log of a store of so many bytes: they are written when it is made.
pub fn log_bytes(size_bytes: u64) -> u64 {
    (size_bytes / LOG_PART).clamp(LOG_BYTES_MIN, LOG_BYTES_MAX) / BLOCK * BLOCK
}

/// Where a directory's store is.
pub fn path_in(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Makes an empty store of `size_bytes` (rounded down to 4 KiB) in `dir`, which is made if missing. One whose making was
/// interrupted is made again.
///
/// # Errors
/// See [`OpenError`]; a store that is there already is one.
pub fn mkfs(dir: &Path, owner: &Owner, size_bytes: u64, options: &Options) -> Result<(), OpenError> {
    let path = path_in(dir);
    let size_bytes = size_bytes / BLOCK * BLOCK;
    if size_bytes < SIZE_MIN {
        return Err(OpenError::TooSmall { path, bytes: size_bytes, needed: SIZE_MIN });
    }
    std::fs::create_dir_all(dir).map_err(io_error(dir))?;
    let _lock = lock(dir)?;
    if holds_data(&path).map_err(io_error(&path))? {
        return Err(OpenError::Exists(path));
    }
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(io_error(&path))?;
    // From an empty file: an earlier try may have left blocks that nothing will use.
    file.set_len(0).and_then(|()| file.set_len(size_bytes)).map_err(io_error(&path))?;
    // The file's name and length are no block of the device: they are the directory's own to keep.
    file.sync_all().map_err(io_error(&path))?;
    File::open(dir).and_then(|d| d.sync_all()).map_err(io_error(dir))?;
    make(&path, owner, size_bytes, options)
}

/// Whether there is anything where the label would be. It is written last: an interrupted making leaves zeros there.
fn holds_data(path: &Path) -> io::Result<bool> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(BLOCK).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(bytes.iter().any(|byte| *byte != 0))
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
        owner: owner.to_bytes(0),
    };
    let mut making = Making::new(queue, label).map_err(|e| failed(path, e))?;
    let made = driver.run(&mut making, Making::turn, Making::deadline);
    made.map(drop).map_err(|e| failed(path, e))
}

/// Opens the store in `dir`, which must be that of `owner`.
///
/// # Errors
/// See [`OpenError`].
pub fn open(dir: &Path, owner: &Owner, options: &Options) -> Result<BlockFileStore, OpenError> {
    let path = path_in(dir);
    let no_store = |error: &io::Error| OpenError::NotAStore { path: path.clone(), why: error.to_string() };
    let metadata = std::fs::metadata(&path).map_err(|error| no_store(&error))?;
    let lock = lock(dir)?;
    let (label, has) = read_label(&path)?;
    if has != *owner {
        let (has, wanted) = (Box::new(has), Box::new(*owner));
        return Err(OpenError::OtherOwner { path, has, wanted });
    }
    let files = files(&path, options)?;
    for note in files.notes() {
        tracing::info!("osd.{}'s store: {note}", owner.osd);
    }
    let queue = files.queue();
    if let Some(note) = queue.note() {
        tracing::warn!("osd.{}'s store: {note}", owner.osd);
    }
    let bytes = queue.geometry(DeviceId::Data).ok_or_else(|| no_device(&path))?.size_bytes;
    if bytes < label.size_bytes {
        return Err(OpenError::Cut { path, bytes, needed: label.size_bytes });
    }
    let mut queue: Queue = match &options.model {
        None => Box::new(queue),
        Some(on) => {
            let disk = ModelledDisk::named(&on.name, &on.parameters, bytes)?;
            Box::new(ModelledQueue::new(queue, [(DeviceId::Data, disk.place(0, bytes))]))
        }
    };
    let driver = Driver::new();
    queue.set_waker(driver.waker());
    let mut opener = Opener::new(queue, 0, options.store).map_err(|e| failed(&path, e))?;
    let store = driver.run(&mut opener, Opener::turn, Opener::deadline).map_err(|e| failed(&path, e))?;
    if !metadata.is_file() {
        return Ok(BlockFileStore::new(store, None, driver.now(), lock));
    }
    let file = || OpenOptions::new().read(true).write(true).open(&path).map_err(io_error(&path));
    let room = Room::new(file()?, options.file_system_stores);
    let used = store.used_bytes();
    let growing = Growing::new(file()?, label.size_bytes, used).map_err(|e| io_error(&path)(e.into()))?;
    let mut opened = BlockFileStore::new(store, Some(room), driver.now(), lock);
    opened.grows(growing);
    Ok(opened)
}

fn files(path: &Path, options: &Options) -> Result<Files, OpenError> {
    let device = FileDevice {
        queue_depth: QUEUE_DEPTH,
        debug: options.device.clone(),
        ..FileDevice::new(DeviceId::Data, path)
    };
    Ok(Files::open(&[device], options.engine)?)
}

fn random_id() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}

/// The error of a pure machine as one that names the file.
fn failed(path: &Path, error: blockstore::OpenError) -> OpenError {
    let path = path.to_owned();
    match error {
        blockstore::OpenError::Device(error) => OpenError::Failed { path, error },
        other => OpenError::Damaged { path, why: other.to_string() },
    }
}

/// A queue without its only device is a mistake of this program's.
fn no_device(path: &Path) -> OpenError {
    failed(path, blockstore::OpenError::NoDevice)
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::Io { path, error }
}

fn lock(dir: &Path) -> Result<DirLock, OpenError> {
    DirLock::take(dir).map_err(|e| match e {
        LockError::InUse => OpenError::InUse(dir.into()),
        LockError::Io(error) => OpenError::Io { path: dir.into(), error },
    })
}
