//! Making and opening stores.

use std::io;
use std::path::Path;

use device::{
    Device, DeviceOptions, DeviceRole, DirLock, FileLock, LockError, Modelled, ModelledRange, NamedDevice,
    RedbBackend, RedbInMemory, catch_redb,
};
use encoding::{Decode, Encode};
use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageBackend};

use crate::alloc::Allocator;
use crate::label::{FORMAT, Label, OLDEST_FORMAT, OpenError};
use crate::records::{BLOCK, Counters, decode_chunk};
use crate::space::Space;
use crate::store::SimpleStore;
use crate::tables::{Table, Tables, damaged, seal, unseal};
use crate::worker::Worker;

/// The metadata's file within the directory.
const METADATA_FILE: &str = "meta.redb";
/// The data's file within the directory.
const IMAGE_FILE: &str = "block";

/// Keys of the table `meta`: the format (u32, little-endian, with no checksum, so that every build can read it),
const FORMAT_KEY: &str = "format";
/// whose store it is,
const LABEL: &str = "label";
/// and what it counts.
pub const COUNTERS: &str = "counters";

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The volatile cache and the power switch for crash tests.
    pub device: DeviceOptions,
    /// The modelled device that the store lies on, if it is to lie on one. Making a store is not modelled.
    pub model: Option<ModelledOn>,
    /// Most bytes of metadata held in memory.
    pub metadata_cache_bytes: usize,
    /// Stores on the file system, this one included. Each reports an equal part of what is free there, so that their
    /// sum counts it once.
    pub file_system_stores: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: DeviceOptions::default(),
            model: None,
            metadata_cache_bytes: 16 << 20,
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

/// The metadata's range of a modelled device, by the image's size: at its start, the image behind it, so that both
/// are one disk's with one arm.
fn metadata_span(image_bytes: u64) -> u64 {
    (image_bytes / 16).max(64 << 20)
}

/// Where the metadata and the image lie on a modelled device.
fn parts(dir: &Path, on: &ModelledOn) -> Result<(ModelledRange, ModelledRange), OpenError> {
    let image = std::fs::metadata(dir.join(IMAGE_FILE)).map_err(|e| io_error(dir, e))?.len();
    let metadata = metadata_span(image);
    let device = Modelled::named(&on.name, &on.parameters, metadata + image)?;
    Ok((ModelledRange::new(&device, 0, metadata), ModelledRange::new(&device, metadata, image)))
}

/// A file of the store, on its part of a modelled device if there is one.
fn device(
    dir: &Path,
    name: &str,
    create: bool,
    site: DeviceRole,
    options: &Options,
    part: Option<ModelledRange>,
) -> Result<Device, OpenError> {
    let path = dir.join(name);
    let opened = Device::open(&path, create, site, options.device.clone());
    let device = opened.map_err(|error| io_error(&path, error))?;
    Ok(match part {
        Some(part) => device.on(part),
        None => device,
    })
}

/// Makes an empty store in `dir`, which is made if missing. One whose making was interrupted is made again.
///
/// # Errors
/// See [`OpenError`]; a store that is there already is one.
pub fn mkfs(dir: &Path, label: &Label, options: &Options) -> Result<(), OpenError> {
    std::fs::create_dir_all(dir).map_err(|e| io_error(dir, e))?;
    let _lock = lock(dir)?;
    let _files = lock_files(dir)?;
    checked(dir, || make(dir, label, options))
}

fn make(dir: &Path, label: &Label, options: &Options) -> Result<(), OpenError> {
    let db = open_metadata(dir, true, options, None)?;
    if read_meta(dir, &db)?.is_some() {
        return Err(OpenError::Exists(dir.into()));
    }
    let image = device(dir, IMAGE_FILE, true, DeviceRole::Image, options, None)?;
    image.set_len(label.size_bytes / BLOCK * BLOCK).map_err(|e| io_error(dir, e))?;
    // The files' names are no block of either device: they are the directory's own to keep.
    std::fs::File::open(dir).and_then(|d| d.sync_all()).map_err(|e| io_error(dir, e))?;
    write_meta(&db, label).map_err(|why| OpenError::Damaged { path: dir.into(), why })
}

/// Opens the store in `dir`.
///
/// # Errors
/// See [`OpenError`].
pub fn open(dir: &Path, options: &Options) -> Result<SimpleStore, OpenError> {
    open_for(dir, options, true)
}

/// Opens the store in `dir` to read it, also where it can't be written: then what its metadata's file needs is done in memory. With
/// what of it can't be written, in words, if so.
///
/// # Errors
/// See [`OpenError`].
pub fn open_to_read(dir: &Path, options: &Options) -> Result<(SimpleStore, Option<String>), OpenError> {
    match open(dir, options) {
        Err(OpenError::ReadOnly { path, error }) => {
            let why = format!("{} can't be written ({error})", path.display());
            open_for(dir, options, false).map(|store| (store, Some(why)))
        }
        other => other.map(|store| (store, None)),
    }
}

fn open_for(dir: &Path, options: &Options, writes: bool) -> Result<SimpleStore, OpenError> {
    if let Some(why) = [METADATA_FILE, IMAGE_FILE].into_iter().find_map(|name| why_no_file(&dir.join(name))) {
        return Err(OpenError::NotAStore { path: dir.into(), why });
    }
    let (lock, files) = match writes {
        true => (lock(dir)?, lock_files(dir)?),
        false => share(dir)?,
    };
    let (for_metadata, for_image) = match &options.model {
        Some(on) => parts(dir, on).map(|(metadata, image)| (Some(metadata), Some(image)))?,
        None => (None, None),
    };
    let Loaded { db, label, counters, alloc } = checked(dir, || match writes {
        true => load(dir, open_metadata(dir, false, options, for_metadata)?),
        false => load(dir, metadata_in_memory(dir, options)?),
    })?;
    let image = match writes {
        true => device(dir, IMAGE_FILE, false, DeviceRole::Image, options, for_image)?,
        false => {
            let path = dir.join(IMAGE_FILE);
            let image = Device::open_to_read(&path, DeviceRole::Image, options.device.clone());
            image.map_err(|error| io_error(&path, error))?
        }
    };
    let damaged = |why: String| OpenError::Damaged { path: dir.into(), why };
    let blocks = label.size_bytes / BLOCK;
    if image.len().map_err(|e| io_error(dir, e))? < blocks * BLOCK {
        return Err(damaged(format!("{IMAGE_FILE} is shorter than {} bytes", blocks * BLOCK)));
    }
    let space = Space::new(alloc, options.file_system_stores);
    let metadata = NamedDevice::at(&dir.join(METADATA_FILE));
    let worker = Worker::new((db, metadata), image, space, counters, writes);
    SimpleStore::start(worker, label, (lock, files)).map_err(|e| io_error(dir, e))
}

/// Why a path leads to no file, if it does not.
fn why_no_file(path: &Path) -> Option<String> {
    let shown = path.display();
    match (std::fs::metadata(path), std::fs::read_link(path)) {
        (Ok(found), _) if found.is_file() => None,
        (Ok(_), _) => Some(format!("{shown} is no file")),
        (Err(error), Ok(to)) => Some(format!("{shown} is a link to {}: {error}", to.display())),
        (Err(error), Err(_)) => Some(format!("{shown}: {error}")),
    }
}

/// The metadata, read as far as a start needs it.
struct Loaded {
    db: Database,
    label: Label,
    counters: Counters,
    alloc: Allocator,
}

fn load(dir: &Path, db: Database) -> Result<Loaded, OpenError> {
    let Meta { format, label, counters } = read_meta(dir, &db)?.ok_or_else(|| not_made(dir))?;
    if format < FORMAT {
        upgrade(&db).map_err(|e| match e {
            redb::Error::Io(e) => io_error(dir, e),
            other => OpenError::Damaged { path: dir.into(), why: format!("{METADATA_FILE}: {other}") },
        })?;
    }
    let alloc = scan(&db, label.size_bytes / BLOCK);
    let alloc = alloc.map_err(|why| OpenError::Damaged { path: dir.into(), why })?;
    Ok(Loaded { db, label, counters, alloc })
}

/// Work on the metadata's file; a panic of redb's there means that the file is damaged.
fn checked<T>(dir: &Path, work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    catch_redb(work).unwrap_or_else(|why| {
        Err(OpenError::Damaged { path: dir.into(), why: format!("{METADATA_FILE}: {why}") })
    })
}

fn io_error(path: &Path, error: io::Error) -> OpenError {
    let path = path.into();
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly { path, error }
        }
        _ => match device::few_files(&error) {
            Some(todo) => OpenError::FewFiles { path, error, todo },
            None => OpenError::Io { path, error },
        },
    }
}

/// Its making did not get to its end.
fn not_made(dir: &Path) -> OpenError {
    OpenError::NotAStore { path: dir.into(), why: format!("{METADATA_FILE} is empty") }
}

fn lock(dir: &Path) -> Result<DirLock, OpenError> {
    DirLock::take(dir).map_err(|error| locked(dir, error))
}

/// Keeps others from the store's files. The directory's lock does not: another directory may have links to them.
fn lock_files(dir: &Path) -> Result<[FileLock; 2], OpenError> {
    let take = |name| {
        let path = dir.join(name);
        FileLock::take(&path).map_err(|error| locked(&path, error))
    };
    Ok([take(METADATA_FILE)?, take(IMAGE_FILE)?])
}

/// The locks of what can't be written, with others that only read it.
fn share(dir: &Path) -> Result<(DirLock, [FileLock; 2]), OpenError> {
    let share = |name| {
        let path = dir.join(name);
        FileLock::share(&path).map_err(|error| locked(&path, error))
    };
    let lock = DirLock::share(dir).map_err(|error| locked(dir, error))?;
    Ok((lock, [share(METADATA_FILE)?, share(IMAGE_FILE)?]))
}

fn locked(path: &Path, error: LockError) -> OpenError {
    match error {
        LockError::InUse => OpenError::InUse(path.into()),
        LockError::Io(error) => io_error(path, error),
    }
}

fn open_metadata(
    dir: &Path,
    create: bool,
    options: &Options,
    part: Option<ModelledRange>,
) -> Result<Database, OpenError> {
    let device = device(dir, METADATA_FILE, create, DeviceRole::OsdMetadata, options, part)?;
    if !create && device.is_empty().map_err(|e| io_error(dir, e))? {
        return Err(not_made(dir));
    }
    database(dir, options, RedbBackend::new(device))
}

/// The metadata of a store that can't be written.
fn metadata_in_memory(dir: &Path, options: &Options) -> Result<Database, OpenError> {
    let path = dir.join(METADATA_FILE);
    let backend = RedbInMemory::open(&path).map_err(|error| io_error(&path, error))?;
    if backend.len().map_err(|e| io_error(dir, e))? == 0 {
        return Err(not_made(dir));
    }
    database(dir, options, backend)
}

fn database(dir: &Path, options: &Options, backend: impl StorageBackend) -> Result<Database, OpenError> {
    let mut builder = Builder::new();
    builder.set_cache_size(options.metadata_cache_bytes);
    builder.create_with_backend(backend).map_err(|e| match e {
        // A file that is no database is an I/O error of redb's too, of this kind.
        DatabaseError::Storage(redb::StorageError::Io(e)) if e.kind() != io::ErrorKind::InvalidData => {
            io_error(dir, e)
        }
        other => OpenError::Damaged { path: dir.into(), why: format!("{METADATA_FILE}: {other}") },
    })
}

/// What the metadata says of the store as a whole.
struct Meta {
    format: u32,
    label: Label,
    counters: Counters,
}

/// `None` where nothing was written yet.
fn read_meta(dir: &Path, db: &Database) -> Result<Option<Meta>, OpenError> {
    let damaged = |why: String| OpenError::Damaged { path: dir.into(), why };
    let txn = db.begin_read().map_err(|e| damaged(e.to_string()))?;
    let table = match txn.open_table(Table::Meta.definition()) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(e) => return Err(damaged(e.to_string())),
    };
    let get = |key: &str| {
        let value = table.get(key.as_bytes()).map_err(|e| damaged(e.to_string()))?;
        value.map(|v| v.value().to_vec()).ok_or_else(|| damaged(format!("{METADATA_FILE} has no {key}")))
    };
    let found = u32::from_bytes(&get(FORMAT_KEY)?).map_err(|e| damaged(e.to_string()))?;
    if found < OLDEST_FORMAT {
        return Err(OpenError::Older { path: dir.into(), found });
    }
    if found > FORMAT {
        return Err(OpenError::Newer { path: dir.into(), found });
    }
    let record = |key: &str| {
        let sealed = get(key)?;
        let value = unseal(key.as_bytes(), &sealed).map(<[u8]>::to_vec);
        value.ok_or_else(|| damaged(format!("bad checksum of {key} in {METADATA_FILE}")))
    };
    let label = Label::from_bytes_exact(&record(LABEL)?).map_err(|e| damaged(e.to_string()))?;
    let counters = Counters::from_bytes_exact(&record(COUNTERS)?).map_err(|e| damaged(e.to_string()))?;
    Ok(Some(Meta { format: found, label, counters }))
}

/// Makes a store of format 2 one of this format: it lacks the table of attributes apart, and its records are as those
/// here.
fn upgrade(db: &Database) -> Result<(), redb::Error> {
    let txn = db.begin_write()?;
    txn.open_table(Table::Attrs.definition())?;
    txn.open_table(Table::Meta.definition())?.insert(FORMAT_KEY.as_bytes(), &FORMAT.to_bytes(0)[..])?;
    Ok(txn.commit()?)
}

fn write_meta(db: &Database, label: &Label) -> Result<(), String> {
    let counters = Counters { next_nid: 1, metadata_bytes: 0 };
    let write = || -> Result<(), redb::Error> {
        let txn = db.begin_write()?;
        // The tables are made here, so that every later transaction finds them.
        Tables::open(&txn, 0)?;
        {
            let mut table = txn.open_table(Table::Meta.definition())?;
            table.insert(FORMAT_KEY.as_bytes(), &FORMAT.to_bytes(0)[..])?;
            for (key, value) in [(LABEL, label.to_bytes(0)), (COUNTERS, counters.to_bytes(0))] {
                table.insert(key.as_bytes(), &seal(key.as_bytes(), &value)[..])?;
            }
        }
        Ok(txn.commit()?)
    };
    write().map_err(|e| e.to_string())
}

/// Which blocks are in use.
fn scan(db: &Database, blocks: u64) -> Result<Allocator, String> {
    let txn = db.begin_read().map_err(|e| e.to_string())?;
    let tables = Tables::open_read(&txn, 0).map_err(|e| e.to_string())?;
    let mut alloc = Allocator::new(blocks);
    let scanned = tables.scan(Table::Chunks, &[], None, |key, value| {
        let chunk = decode_chunk(value).map_err(|e| damaged(format!("the block map at {key:02x?}: {e}")))?;
        match chunk.values().find(|block| !alloc.mark_used(block.at)) {
            Some(block) => {
                Err(damaged(format!("block {} belongs to two objects or lies behind the image", block.at)))
            }
            None => Ok(true),
        }
    });
    scanned.map_err(|failure| failure.into_error().to_string())?;
    Ok(alloc)
}
