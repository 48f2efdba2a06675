//! Opening stores.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blockdev::{DeviceId, DeviceQueue};
use blockstore::{BLOCK, BlockStore, Label, Opener};
use device::{
    DeviceOptions, DirLock, Engine, FileDevice, Files, LockError, ModelledDisk, ModelledQueue, RingEvent,
};

use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Rehoming, StoreError, Token, Tuning,
};

use crate::devices::Devices;
use crate::drive::Driver;
use crate::fsck;
use crate::growing::{FileSpace, Growing};
use crate::label::{check_log, read_label, target, unreadable};
use crate::medium::Medium;
use crate::place;
use crate::room::{Room, Used};
use crate::store::{BlockFileShard, BlockFileStore, Held};
use crate::{OpenError, Owner};

/// The store's file within its directory.
const FILE: &str = "block";

/// The link to where its logs lie, if they are apart: BlueStore's name.
const LOG_FILE: &str = "block.wal";

/// The link to where they were, while they move.
const LEFT_FILE: &str = "block.wal.left";

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
    /// The modelled device that the store lies on, if it is to lie on one. Making a store is not modelled, nor are logs that
    /// lie apart.
    pub model: Option<ModelledOn>,
    /// The same for logs that lie apart; without such logs it changes nothing.
    pub log_model: Option<ModelledOn>,
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
            log_model: None,
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

/// Where the way to a store's logs is, if they lie apart.
pub fn log_path_in(dir: &Path) -> PathBuf {
    dir.join(LOG_FILE)
}

/// Where the way to the place is that a store's logs leave.
pub(crate) fn left_path_in(dir: &Path) -> PathBuf {
    dir.join(LEFT_FILE)
}

/// The files or devices that a store lies on.
pub(crate) struct Parts {
    pub(crate) data: PathBuf,
    /// Where the logs lie, if they are apart.
    pub(crate) log: Option<PathBuf>,
}

impl Parts {
    /// Those of the store in `dir`, which says whose it is in `label` and `owner`.
    ///
    /// # Errors
    /// The logs are not there, or are another's.
    pub(crate) fn of(dir: &Path, label: &Label, owner: &Owner) -> Result<Self, OpenError> {
        let link = log_path_in(dir);
        // The superblocks may say that it was moved there.
        let log = (label.log_apart || link.is_symlink()).then_some(link);
        if let Some(link) = &log {
            check_log(link, label, owner)?;
        }
        Ok(Self { data: path_in(dir), log })
    }

    /// Keeps others from what the store lies on. The directory's lock does not: another directory may have a link to the same.
    pub(crate) fn hold(&self) -> Result<Vec<File>, OpenError> {
        [&self.data].into_iter().chain(&self.log).map(|path| place::hold(path)).collect()
    }

    /// The same of what is only read.
    fn hold_to_read(&self) -> Result<Vec<File>, OpenError> {
        [&self.data].into_iter().chain(&self.log).map(|path| place::hold_to_read(path)).collect()
    }

    pub(crate) fn open(&self, options: &Options) -> Result<Files, OpenError> {
        self.open_devices(options, false)
    }

    fn open_devices(&self, options: &Options, read_only: bool) -> Result<Files, OpenError> {
        let device = |id, path: &Path| FileDevice {
            queue_depth: QUEUE_DEPTH,
            read_only,
            debug: options.device.clone(),
            ..FileDevice::new(id, path)
        };
        let data = device(DeviceId::Data, &self.data);
        let log = self.log.as_ref().map(|path| device(DeviceId::Wal, path));
        let devices: Vec<_> = std::iter::once(data).chain(log).collect();
        Ok(Files::open(&devices, options.engine)?)
    }
}

/// Opens the store in `dir`, which must be that of `owner`.
///
/// # Errors
/// See [`OpenError`].
pub fn open(dir: &Path, owner: &Owner, options: &Options) -> Result<BlockFileStore, OpenError> {
    open_for(dir, Some(owner), options, How::ToWrite).map(|(store, _, _)| store)
}

/// Opens the store in `dir` whosever it is, for tools.
///
/// # Errors
/// See [`OpenError`].
pub fn open_any(dir: &Path, options: &Options) -> Result<(BlockFileStore, Label, Owner), OpenError> {
    open_for(dir, None, options, How::ToWrite)
}

/// A store that was opened to be read.
pub struct ToRead {
    pub store: BlockFileStore,
    pub label: Label,
    pub owner: Owner,
    /// What is damaged, a sentence each; the first says why the store is refused otherwise. Then nothing is written to it.
    pub damage: Vec<String>,
    /// What of it can't be written, and why, if so. Then nothing is written to it.
    pub read_only: Option<ReadOnly>,
}

/// What can't be written: [`OpenError::ReadOnly`], which it says for those that have to write.
pub struct ReadOnly {
    pub path: PathBuf,
    pub why: String,
}

impl std::fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} can't be written ({})", self.path.display(), self.why)
    }
}

impl ReadOnly {
    pub fn refusal(self) -> OpenError {
        OpenError::ReadOnly { path: self.path, why: self.why }
    }
}

/// Opens the store in `dir` whosever it is to read what can be read of it, also if [`open_any`] refuses it. One that can't be written
/// has what its log has replayed in memory. A damaged one has nothing of records of the log from the first on that can't be read: what
/// it gives of an object may be older than what was acknowledged.
///
/// # Errors
/// See [`OpenError`]: that of [`open_any`].
pub fn open_to_read(dir: &Path, options: &Options) -> Result<ToRead, OpenError> {
    let mut read_only = None;
    let opened = match open_any(dir, options) {
        Err(OpenError::ReadOnly { path, why }) => {
            read_only = Some(ReadOnly { path, why });
            open_for(dir, None, options, How::ToRead)
        }
        other => other,
    };
    let refused = match opened {
        Ok((store, label, owner)) => {
            return Ok(ToRead { store, label, owner, damage: Vec::new(), read_only });
        }
        // A store that takes fewer files in spite of damage is not damaged for that.
        Err(refused @ OpenError::FewFiles { .. }) => return Err(refused),
        Err(refused) => refused,
    };
    let mut found = Vec::new();
    let Ok((store, label, owner)) = open_for(dir, None, options, How::InSpiteOfDamage(&mut found)) else {
        return Err(refused);
    };
    let why = refused.to_string();
    // It is among what was found.
    found.retain(|one| !why.contains(one));
    found.insert(0, why);
    Ok(ToRead { store, label, owner, damage: found, read_only })
}

/// How a store is opened.
enum How<'a> {
    /// Its log is sealed, so that nothing follows what was read of it.
    ToWrite,
    /// Nothing is written to it: it can't be.
    ToRead,
    /// The same; what is damaged is noted.
    InSpiteOfDamage(&'a mut Vec<String>),
}

fn open_for(
    dir: &Path,
    wanted: Option<&Owner>,
    options: &Options,
    mut how: How<'_>,
) -> Result<(BlockFileStore, Label, Owner), OpenError> {
    let path = path_in(dir);
    let metadata = std::fs::metadata(&path).map_err(|error| unreadable(&path, error))?;
    let writes = matches!(how, How::ToWrite);
    let lock = match lock(dir) {
        Err(OpenError::ReadOnly { .. }) if !writes => DirLock::share(dir).map_err(|e| locked(dir, e))?,
        locked => locked?,
    };
    let (label, owner) = read_label(&path)?;
    if let Some(wanted) = wanted.filter(|wanted| **wanted != owner) {
        let (has, wanted) = (Box::new(owner), Box::new(*wanted));
        return Err(OpenError::OtherOwner { path, has, wanted });
    }
    let parts = Parts::of(dir, &label, &owner)?;
    let held = if writes { parts.hold() } else { parts.hold_to_read() }?;
    let files = parts.open_devices(options, !writes)?;
    for note in files.notes() {
        tracing::info!("osd.{}'s store: {note}", owner.osd);
    }
    let mut opening = Opening::new(&parts, &label, &files, options, Arc::new((lock, held)))?;
    opening.is_file = metadata.is_file();
    opening.writes = writes;
    opening.is_damaged = matches!(how, How::InSpiteOfDamage(_));
    opening.check_length(&owner)?;
    // Where one is refused, none is written to.
    let loaded = (0..label.shards).map(|shard| opening.load(shard, &owner)).collect::<Result<Vec<_>, _>>()?;
    check_growth(&path, &owner, loaded.iter().filter_map(|(opener, _)| opener.loaded()))?;
    let mut shards = Vec::new();
    for (shard, loaded) in (0..).zip(loaded) {
        let mut handle = opening.shard(shard, loaded, &owner)?;
        let listed = collections(&mut handle, &opening.driver)
            .map_err(|error| format!("the collections of shard {shard} can't be listed: {error}"));
        let collections = match (listed, &mut how) {
            (Err(why), How::InSpiteOfDamage(damage)) => {
                damage.push(why);
                Vec::new()
            }
            (listed, _) => listed.map_err(|why| OpenError::Damaged { path: path.clone(), why })?,
        };
        if let (How::InSpiteOfDamage(damage), Some(of_shard)) = (&mut how, handle.inner().damage()) {
            damage.extend_from_slice(of_shard);
        }
        shards.push((handle, collections));
    }
    let mut store = BlockFileStore::new(shards);
    let driver = Driver::new();
    store.set_waker(driver.waker());
    turns(&mut store, &driver, |store, _| store.is_settled().then_some(()));
    Ok((store, label, owner))
}

/// Shards that have grown otherwise than the others would write to the same blocks. That some lack the last growth is what a
/// power loss leaves: they serve what they have.
fn check_growth<'a>(
    path: &Path,
    owner: &Owner,
    shards: impl Iterator<Item = &'a BlockStore<Queue>>,
) -> Result<(), OpenError> {
    let mut ends: Vec<Vec<u64>> = shards.map(BlockStore::ends).collect();
    ends.sort_by_key(Vec::len);
    if let Some(two) = ends.windows(2).find(|two| !two[1].starts_with(&two[0])) {
        let why = format!("its shards have grown apart: to the bytes {:?} and {:?}", two[0], two[1]);
        return Err(OpenError::Damaged { path: path.into(), why });
    }
    if ends.first() != ends.last() {
        tracing::warn!(
            "osd.{}'s store: some of its shards have not grown yet: `loligo store expand` brings that to its end",
            owner.osd
        );
    }
    Ok(())
}

/// A shard that was loaded, and what its device rings.
type Loaded = (Opener<Queue>, Option<RingEvent>);

/// What the shards of a store have in common while they are opened.
struct Opening<'a> {
    path: &'a Path,
    /// Where the logs are, if they are apart.
    log: Option<PathBuf>,
    devices: Arc<Devices>,
    label: &'a Label,
    files: &'a Files,
    options: &'a Options,
    held: Held,
    is_file: bool,
    writes: bool,
    /// It is opened in spite of damage.
    is_damaged: bool,
    /// Those that are modelled, with their bytes.
    disks: Vec<(DeviceId, ModelledDisk, u64)>,
    used: Arc<Used>,
    driver: Driver,
}

impl<'a> Opening<'a> {
    fn new(
        parts: &'a Parts,
        label: &'a Label,
        files: &'a Files,
        options: &'a Options,
        held: Held,
    ) -> Result<Self, OpenError> {
        let (path, queue) = (&parts.data, files.queue());
        let mut disks = Vec::new();
        let mut check = |device, path: &Path, needed: u64, model: &Option<ModelledOn>| {
            let bytes = queue.geometry(device).ok_or_else(|| no_device(path))?.size_bytes;
            if bytes < needed {
                return Err(cut(path, device, bytes, needed));
            }
            if let Some(on) = model {
                disks.push((device, ModelledDisk::named(&on.name, &on.parameters, bytes)?, bytes));
            }
            Ok(())
        };
        // See [`Opening::check_length`].
        check(DeviceId::Data, path, 0, &options.model)?;
        let log = parts.log.as_deref().map(target);
        if let Some(log) = &log {
            check(DeviceId::Wal, log, label.log_device_bytes(), &options.log_model)?;
        }
        let (used, driver) = (Used::of(label.shards), Driver::new());
        let devices = Devices::at(&target(path), log.as_deref());
        Ok(Self {
            path,
            log,
            devices,
            label,
            files,
            options,
            held,
            is_file: false,
            writes: true,
            is_damaged: false,
            disks,
            used,
            driver,
        })
    }

    /// Refuses a device that has been made shorter than the store on it was when it was made. A store that has grown since needs more:
    /// its first shard says that, where it can be read.
    fn check_length(&self, owner: &Owner) -> Result<(), OpenError> {
        let queue = self.files.queue();
        let bytes = queue.geometry(DeviceId::Data).ok_or_else(|| no_device(self.path))?.size_bytes;
        if bytes >= self.label.size_bytes {
            return Ok(());
        }
        match self.load(0, owner) {
            Err(grown @ OpenError::Cut { .. }) => Err(grown),
            _ => Err(cut(self.path, DeviceId::Data, bytes, self.label.size_bytes)),
        }
    }

    /// Loads a shard over a queue of its own. Nothing is written.
    fn load(&self, number: u32, owner: &Owner) -> Result<Loaded, OpenError> {
        let (path, label, driver) = (self.path, self.label, &self.driver);
        let queue = self.files.queue();
        if let Some(note) = queue.note().filter(|_| number == 0) {
            tracing::warn!("osd.{}'s store: {note}", owner.osd);
        }
        let event = queue.event();
        let places = self.disks.iter().map(|(device, disk, bytes)| (*device, disk.place(0, *bytes)));
        let mut queue: Queue = match self.disks.is_empty() {
            true => Box::new(queue),
            false => Box::new(ModelledQueue::new(queue, places)),
        };
        queue.set_waker(driver.waker());
        let store = self.options.store;
        let tuning = Tuning { discard: store.discard, new_deferred_bytes: store.new_deferred_bytes };
        let Tuning { discard, new_deferred_bytes } = self.medium().tuning(tuning);
        let options = blockstore::Options { discard, new_deferred_bytes, ..store.shared_by(label.shards) };
        let mut opener = Opener::new(queue, number, options).map_err(|e| failed(path, e))?;
        #[cfg(feature = "leave-out-barrier")]
        if let Some(barrier) = left_out() {
            opener.leave_out(barrier);
        }
        if self.is_damaged {
            opener = opener.in_spite_of_damage();
        } else if !self.writes {
            opener = opener.to_read();
        }
        let loaded = driver.run(&mut opener, Opener::load, Opener::deadline);
        loaded.map(|()| (opener, event)).map_err(|error| self.failed(error))
    }

    /// Opens a shard that is loaded.
    fn shard(
        &self,
        number: u32,
        (mut opener, event): Loaded,
        owner: &Owner,
    ) -> Result<BlockFileShard, OpenError> {
        let (path, label, driver) = (self.path, self.label, &self.driver);
        let opened = driver.run(&mut opener, Opener::turn, Opener::deadline);
        let mut store = opened.map_err(|error| self.failed(error))?;
        if let Some(bytes) = self.options.memory_bytes {
            store.limit_memory(bytes / u64::from(label.shards));
        }
        let name = format!("osd.{}'s store, shard {number}", owner.osd);
        for note in fsck::unread_superblocks(&store) {
            tracing::warn!("{name}: {note}");
        }
        let mut shard = BlockFileShard::new(
            store,
            event,
            (name, self.devices.clone()),
            driver.now(),
            (self.medium(), self.held.clone()),
        );
        if let Some(layout) = label.shard(number).filter(|_| self.is_file && !self.is_damaged) {
            let file = || OpenOptions::new().read(true).write(self.writes).open(path).map_err(io_error(path));
            let of_shard = layout.block_offset(0) - layout.superblocks;
            let fixed = BLOCK + u64::from(label.shards) * of_shard;
            let room =
                Room::new(file()?, self.options.file_system_stores, fixed, (number, self.used.clone()));
            let growing = match self.writes {
                true => {
                    let growing = Growing::new(file()?, self.options.file_space, shard.inner(), driver.now());
                    Some(growing.map_err(|e| io_error(path)(e.into()))?)
                }
                false => None,
            };
            shard.has_room(room, growing);
        }
        Ok(shard)
    }

    /// The error as one that names the file, that of the logs, too, if it is about them.
    fn failed(&self, error: blockstore::OpenError) -> OpenError {
        match (error.log_device(), &self.log) {
            (Some(DeviceId::Wal), Some(log)) => OpenError::Damaged {
                path: self.path.to_owned(),
                why: format!("{error}; the log is in {}", log.display()),
            },
            _ => failed(self.path, error),
        }
    }

    fn medium(&self) -> Medium {
        let Options { store, model, file_space, .. } = self.options;
        // The first flush behind a write to bytes that were only allocated makes the file system write its journal, too.
        let is_written_first = self.is_file && *file_space != FileSpace::Whole;
        Medium {
            is_file: self.is_file,
            modelled_ssd: model.as_ref().map(|on| on.name.starts_with("ssd")),
            new_deferred_min: if is_written_first { store.prefer_deferred_bytes } else { 0 },
        }
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

/// What the system says of the place that a store's logs lie on, apart from its data.
#[derive(Clone, Debug)]
pub struct LogDevice {
    pub path: PathBuf,
    pub bytes: u64,
    /// Records of the log begin at multiples of it.
    pub unit_bytes: u32,
    /// Otherwise it is a file.
    pub is_block_device: bool,
    pub rotates: bool,
}

/// Where the logs of the store in `dir` lie, if that is not beside its data.
///
/// # Errors
/// `dir` has no store, or the label of the store or of its log can't be read.
pub fn log_device(dir: &Path) -> Result<Option<LogDevice>, OpenError> {
    let (label, owner) = read_label(&path_in(dir))?;
    let Some(link) = Parts::of(dir, &label, &owner)?.log else { return Ok(None) };
    let path = target(&link);
    let metadata = std::fs::metadata(&path).map_err(io_error(&path))?;
    let is_block_device = !metadata.is_file();
    let bytes = if is_block_device { place::device_bytes(&path)? } else { metadata.len() };
    let (unit_bytes, rotates) = (label.log_unit_bytes, device::rotates(&metadata));
    Ok(Some(LogDevice { path, bytes, unit_bytes, is_block_device, rotates }))
}

/// Opens a shard for what its opening changes.
pub(crate) fn open_shard(
    path: &Path,
    files: &Files,
    shard: u32,
    options: &Options,
    how: impl FnOnce(Opener<Queue>) -> Opener<Queue>,
) -> Result<(), OpenError> {
    let driver = Driver::new();
    let mut queue: Queue = Box::new(files.queue());
    queue.set_waker(driver.waker());
    let opener = Opener::new(queue, shard, options.store);
    let mut opener = how(opener.map_err(|error| failed(path, error))?);
    let opened = driver.run(&mut opener, Opener::turn, Opener::deadline);
    opened.map(drop).map_err(|error| failed(path, error))
}

/// The barrier that a test wants left out.
#[cfg(feature = "leave-out-barrier")]
#[allow(clippy::panic, reason = "a test that misspells a barrier would leave out none, and show nothing")]
fn left_out() -> Option<blockstore::Barrier> {
    let name = std::env::var("LOLIGO_LEAVE_OUT_BARRIER").ok()?;
    let found = blockstore::Barrier::ALL.into_iter().find(|barrier| format!("{barrier:?}") == name);
    Some(found.unwrap_or_else(|| panic!("LOLIGO_LEAVE_OUT_BARRIER={name}: no such barrier")))
}

/// The error of a pure machine as one that names the file.
pub(crate) fn failed(path: &Path, error: blockstore::OpenError) -> OpenError {
    let path = path.to_owned();
    match error {
        blockstore::OpenError::Device(error) => OpenError::Failed { path, error },
        blockstore::OpenError::Cut { device_bytes, needed } => {
            cut(&path, DeviceId::Data, device_bytes, needed)
        }
        other => OpenError::Damaged { path, why: other.to_string() },
    }
}

/// A file or device that has fewer bytes than what lies on it.
fn cut(path: &Path, part: DeviceId, bytes: u64, needed: u64) -> OpenError {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    OpenError::Cut { path: path.to_owned(), is_log: part == DeviceId::Wal, is_file, bytes, needed }
}

/// A queue without its only device is a mistake of this program's.
pub(crate) fn no_device(path: &Path) -> OpenError {
    failed(path, blockstore::OpenError::NoDevice)
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::io(path, error)
}

pub(crate) fn lock(dir: &Path) -> Result<DirLock, OpenError> {
    DirLock::take(dir).map_err(|e| locked(dir, e))
}

fn locked(dir: &Path, error: LockError) -> OpenError {
    match error {
        LockError::InUse => OpenError::InUse(dir.into()),
        LockError::Io(error) => place::not_writable(dir, error),
    }
}
