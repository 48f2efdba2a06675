//! Opening stores.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blockdev::{DeviceId, DeviceQueue};
use blockstore::{BLOCK, Label, Opener};
use device::{DeviceOptions, DirLock, Engine, FileDevice, Files, LockError, ModelledDisk, ModelledQueue};

use store::{CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Rehoming, StoreError, Token};

use crate::drive::Driver;
use crate::growing::{FileSpace, Growing};
use crate::label::read_label;
use crate::place;
use crate::room::{Room, Used};
use crate::store::{BlockFileShard, BlockFileStore, Held};
use crate::{OpenError, Owner};

/// The store's file within its directory.
const FILE: &str = "block";

/// Requests that the device works on together.
const QUEUE_DEPTH: usize = 64;

/// Objects that one step moves to another shard.
const MOVED_AT_ONCE: usize = 100;

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
    /// The memory that an open store may take, if that is bounded otherwise than in `store`.
    pub memory_bytes: Option<u64>,
    /// Stores on the file system, this one included. Each reports an equal part of what is free there, so that their
    /// sum counts it once.
    pub file_system_stores: u32,
    /// How much of the disk an image file takes.
    pub file_space: FileSpace,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: DeviceOptions::default(),
            engine: Engine::IoUring,
            model: None,
            store: blockstore::Options::default(),
            memory_bytes: None,
            file_system_stores: 1,
            file_space: FileSpace::default(),
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
    let mut opening = Opening::new(&path, &label, &files, options, Arc::new((lock, held)))?;
    opening.is_file = metadata.is_file();
    let mut shards = Vec::new();
    for shard in 0..label.shards {
        let mut handle = opening.shard(shard, &owner)?;
        let collections = collections(&mut handle, &opening.driver).map_err(|error| OpenError::Damaged {
            path: path.clone(),
            why: format!("the collections of shard {shard} can't be listed: {error}"),
        })?;
        shards.push((handle, collections));
    }
    let mut store = BlockFileStore::new(shards);
    let driver = Driver::new();
    store.set_waker(driver.waker());
    turns(&mut store, &driver, |store, _| store.is_settled().then_some(()));
    Ok((store, label, owner))
}

/// What the shards of a store have in common while they are opened.
struct Opening<'a> {
    path: &'a Path,
    label: &'a Label,
    files: &'a Files,
    options: &'a Options,
    held: Held,
    is_file: bool,
    /// Of the file or device.
    bytes: u64,
    disk: Option<ModelledDisk>,
    used: Arc<Used>,
    driver: Driver,
}

impl<'a> Opening<'a> {
    fn new(
        path: &'a Path,
        label: &'a Label,
        files: &'a Files,
        options: &'a Options,
        held: Held,
    ) -> Result<Self, OpenError> {
        let bytes = files.queue().geometry(DeviceId::Data).ok_or_else(|| no_device(path))?.size_bytes;
        if bytes < label.size_bytes {
            return Err(OpenError::Cut { path: path.to_owned(), bytes, needed: label.size_bytes });
        }
        let named = |on: &ModelledOn| ModelledDisk::named(&on.name, &on.parameters, bytes);
        let disk = options.model.as_ref().map(named).transpose()?;
        let (used, driver) = (Used::of(label.shards), Driver::new());
        Ok(Self { path, label, files, options, held, is_file: false, bytes, disk, used, driver })
    }

    /// Opens a shard over a queue of its own.
    fn shard(&self, number: u32, owner: &Owner) -> Result<BlockFileShard, OpenError> {
        let (path, label, driver) = (self.path, self.label, &self.driver);
        let queue = self.files.queue();
        if let Some(note) = queue.note().filter(|_| number == 0) {
            tracing::warn!("osd.{}'s store: {note}", owner.osd);
        }
        let event = queue.event();
        let mut queue: Queue = match &self.disk {
            None => Box::new(queue),
            Some(disk) => {
                let place = disk.place(0, self.bytes);
                Box::new(ModelledQueue::new(queue, [(DeviceId::Data, place)]))
            }
        };
        queue.set_waker(driver.waker());
        let options = self.options.store.shared_by(label.shards);
        let mut opener = Opener::new(queue, number, options).map_err(|e| failed(path, e))?;
        let opened = driver.run(&mut opener, Opener::turn, Opener::deadline);
        let mut store = opened.map_err(|e| failed(path, e))?;
        if let Some(bytes) = self.options.memory_bytes {
            store.limit_memory(bytes / u64::from(label.shards));
        }
        let mut shard = BlockFileShard::new(store, event, driver.now(), self.held.clone());
        if let Some(layout) = label.shard(number).filter(|_| self.is_file) {
            let file = || OpenOptions::new().read(true).write(true).open(path).map_err(io_error(path));
            let of_shard = layout.blocks - layout.superblocks;
            let fixed = BLOCK + u64::from(label.shards) * of_shard;
            let room =
                Room::new(file()?, self.options.file_system_stores, fixed, (number, self.used.clone()));
            let growing = Growing::new(file()?, self.options.file_space, shard.inner(), driver.now());
            shard.grows(room, growing.map_err(|e| io_error(path)(e.into()))?);
        }
        Ok(shard)
    }
}

/// Gives a store turns, on this thread, until there is what is wanted.
fn turns<S: ObjectStore, T>(
    store: &mut S,
    driver: &Driver,
    mut wanted: impl FnMut(&mut S, &mut Vec<Completion>) -> Option<T>,
) -> T {
    let mut completed = Vec::new();
    driver.run(
        store,
        |store, now| {
            store.turn(now);
            store.completions(&mut completed);
            wanted(store, &mut completed)
        },
        |store| store.deadline(),
    )
}

/// The handles of a store's shards, for a core each. Collections that were on their way from shard to shard arrive first.
///
/// # Errors
/// One can't: there is no space, or the device failed.
pub fn handles(mut store: BlockFileStore) -> Result<Vec<BlockFileShard>, StoreError> {
    let driver = Driver::new();
    store.set_waker(driver.waker());
    for (id, to) in store.on_their_way() {
        let mut state = Rehoming::Continues;
        while state == Rehoming::Continues {
            store.rehome(id, to, MOVED_AT_ONCE, Token(0));
            let completion = turns(&mut store, &driver, |_, completed| completed.pop());
            let Completion::Rehomed { result, .. } = completion else { return Err(StoreError::Stopped) };
            state = result?;
        }
    }
    Ok(store.into_handles())
}

/// The collections of a shard that was opened, which its driver's thread waits for.
fn collections(shard: &mut BlockFileShard, driver: &Driver) -> Result<Vec<CollectionId>, StoreError> {
    shard.read(ReadRequest::Collections, Token(0));
    match turns(shard, driver, |_, completed| completed.pop()) {
        Completion::Read { result: Ok(ReadOutcome::Collections(all)), .. } => Ok(all),
        Completion::Read { result: Err(error), .. } => Err(error),
        // It was asked for nothing else.
        _ => Err(StoreError::Stopped),
    }
}

/// How many shards the store in `dir` has.
///
/// # Errors
/// There is no store, or its label can't be read.
pub fn shards_in(dir: &Path) -> Result<u32, OpenError> {
    read_label(&path_in(dir)).map(|(label, _)| label.shards)
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
