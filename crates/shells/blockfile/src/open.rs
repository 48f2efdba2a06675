//! Opening stores.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use blockdev::{DeviceId, DeviceQueue};
use blockstore::{Label, Opener};
use device::{DeviceOptions, DirLock, Engine, FileDevice, Files, LockError, ModelledDisk, ModelledQueue};

use crate::drive::Driver;
use crate::growing::Growing;
use crate::label::read_label;
use crate::place;
use crate::room::Room;
use crate::store::BlockFileStore;
use crate::{OpenError, Owner};

/// The store's file within its directory.
const FILE: &str = "block";

/// Requests that the device works on together.
const QUEUE_DEPTH: usize = 64;

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

/// Where a directory's store is.
pub fn path_in(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Opens the store in `dir`, which must be that of `owner`.
///
/// # Errors
/// See [`OpenError`].
pub fn open(dir: &Path, owner: &Owner, options: &Options) -> Result<BlockFileStore, OpenError> {
    open_for(dir, Some(owner), options).map(|(store, _, _)| store)
}

/// Opens the store in `dir` whosever it is, for tools.
///
/// # Errors
/// See [`OpenError`].
pub fn open_any(dir: &Path, options: &Options) -> Result<(BlockFileStore, Label, Owner), OpenError> {
    open_for(dir, None, options)
}

fn open_for(
    dir: &Path,
    wanted: Option<&Owner>,
    options: &Options,
) -> Result<(BlockFileStore, Label, Owner), OpenError> {
    let path = path_in(dir);
    let no_store = |error: &io::Error| OpenError::NotAStore { path: path.clone(), why: error.to_string() };
    let metadata = std::fs::metadata(&path).map_err(|error| no_store(&error))?;
    let lock = lock(dir)?;
    let (label, owner) = read_label(&path)?;
    if let Some(wanted) = wanted.filter(|wanted| **wanted != owner) {
        let (has, wanted) = (Box::new(owner), Box::new(*wanted));
        return Err(OpenError::OtherOwner { path, has, wanted });
    }
    let held = if metadata.is_file() { None } else { Some(place::hold(&path)?) };
    let files = files(&path, options)?;
    for note in files.notes() {
        tracing::info!("osd.{}'s store: {note}", owner.osd);
    }
    let queue = files.queue();
    if let Some(note) = queue.note() {
        tracing::warn!("osd.{}'s store: {note}", owner.osd);
    }
    let event = queue.event();
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
        return Ok((BlockFileStore::new(store, None, event, driver.now(), (lock, held)), label, owner));
    }
    let file = || OpenOptions::new().read(true).write(true).open(&path).map_err(io_error(&path));
    let fixed = label.shard(0).map_or(0, |shard| shard.blocks);
    let room = Room::new(file()?, options.file_system_stores, fixed);
    let used = store.used_bytes();
    let growing = Growing::new(file()?, label.size_bytes, used).map_err(|e| io_error(&path)(e.into()))?;
    let mut opened = BlockFileStore::new(store, Some(room), event, driver.now(), (lock, held));
    opened.grows(growing);
    Ok((opened, label, owner))
}

pub(crate) fn files(path: &Path, options: &Options) -> Result<Files, OpenError> {
    let device = FileDevice {
        queue_depth: QUEUE_DEPTH,
        debug: options.device.clone(),
        ..FileDevice::new(DeviceId::Data, path)
    };
    Ok(Files::open(&[device], options.engine)?)
}

/// The error of a pure machine as one that names the file.
pub(crate) fn failed(path: &Path, error: blockstore::OpenError) -> OpenError {
    let path = path.to_owned();
    match error {
        blockstore::OpenError::Device(error) => OpenError::Failed { path, error },
        other => OpenError::Damaged { path, why: other.to_string() },
    }
}

/// A queue without its only device is a mistake of this program's.
pub(crate) fn no_device(path: &Path) -> OpenError {
    failed(path, blockstore::OpenError::NoDevice)
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::Io { path, error }
}

pub(crate) fn lock(dir: &Path) -> Result<DirLock, OpenError> {
    DirLock::take(dir).map_err(|e| match e {
        LockError::InUse => OpenError::InUse(dir.into()),
        LockError::Io(error) => OpenError::Io { path: dir.into(), error },
    })
}
