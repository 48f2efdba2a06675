//! Making and opening stores.

use std::io;
use std::path::Path;

use device::{Device, DeviceOptions, DeviceRole, DirLock, LockError, Modelled, ModelledRange, RedbBackend};
use encoding::{Decode, Encode};
use redb::{Builder, Database, DatabaseError, ReadableDatabase};

use crate::alloc::Allocator;
use crate::data::Space;
use crate::label::{FORMAT, Label, OpenError};
use crate::onode::{BLOCK, Onode, decode_chunk};
use crate::store::{SimpleStore, Waker};
use crate::tables::{Failure, In, META, Tables};
use crate::worker::Worker;

/// The metadata's file within the directory.
const METADATA_FILE: &str = "meta.redb";
/// The data's file within the directory.
const IMAGE_FILE: &str = "block";

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The volatile cache for kill tests.
    pub device: DeviceOptions,
    /// The modelled device that the store lies on, if it is to lie on one. Making a store is not modelled.
    pub model: Option<ModelledOn>,
    /// Bytes of metadata held in memory at the most.
    pub metadata_cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { device: DeviceOptions::default(), model: None, metadata_cache_bytes: 16 << 20 }
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
    let device = Device::open(&dir.join(name), create, site, options.device).map_err(|e| io_error(dir, e))?;
    Ok(match part {
        Some(part) => device.on(part),
        None => device,
    })
}

/// Makes an empty store in `dir`, which is made if missing. One whose making was interrupted is made anew.
///
/// # Errors
/// See [`OpenError`]; a store that is there already is one.
pub fn mkfs(dir: &Path, label: &Label, options: &Options) -> Result<(), OpenError> {
    std::fs::create_dir_all(dir).map_err(|e| io_error(dir, e))?;
    let _lock = lock(dir)?;
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

/// Opens the store in `dir`. `waker` is called, from the store's own thread, when completions are ready.
///
/// # Errors
/// See [`OpenError`].
pub fn open(dir: &Path, options: &Options, waker: Waker) -> Result<SimpleStore, OpenError> {
    let missing = |name: &str| !dir.join(name).is_file();
    if missing(METADATA_FILE) || missing(IMAGE_FILE) {
        return Err(OpenError::NotAStore(dir.into()));
    }
    let lock = lock(dir)?;
    let (for_metadata, for_image) = match &options.model {
        Some(on) => parts(dir, on).map(|(metadata, image)| (Some(metadata), Some(image)))?,
        None => (None, None),
    };
    let db = open_metadata(dir, false, options, for_metadata)?;
    let label = read_meta(dir, &db)?.ok_or_else(|| OpenError::NotAStore(dir.into()))?;
    let image = device(dir, IMAGE_FILE, false, DeviceRole::Image, options, for_image)?;
    let damaged = |why: String| OpenError::Damaged { path: dir.into(), why };
    let blocks = label.size_bytes / BLOCK;
    if image.len().map_err(|e| io_error(dir, e))? < blocks * BLOCK {
        return Err(damaged(format!("{IMAGE_FILE} is shorter than {} bytes", blocks * BLOCK)));
    }
    let (space, next_nid) = scan(&db, blocks).map_err(damaged)?;
    let worker = Worker::new(db, image, space, next_nid);
    SimpleStore::start(worker, label, lock, waker).map_err(|e| io_error(dir, e))
}

fn io_error(dir: &Path, error: io::Error) -> OpenError {
    OpenError::Io { path: dir.into(), error }
}

fn lock(dir: &Path) -> Result<DirLock, OpenError> {
    DirLock::take(dir).map_err(|e| match e {
        LockError::InUse => OpenError::InUse(dir.into()),
        LockError::Io(e) => io_error(dir, e),
    })
}

fn open_metadata(
    dir: &Path,
    create: bool,
    options: &Options,
    part: Option<ModelledRange>,
) -> Result<Database, OpenError> {
    let device = device(dir, METADATA_FILE, create, DeviceRole::OsdMetadata, options, part)?;
    if !create && device.is_empty().map_err(|e| io_error(dir, e))? {
        return Err(OpenError::NotAStore(dir.into()));
    }
    let mut builder = Builder::new();
    builder.set_cache_size(options.metadata_cache_bytes);
    builder.create_with_backend(RedbBackend::new(device)).map_err(|e| match e {
        DatabaseError::Storage(redb::StorageError::Io(e)) => io_error(dir, e),
        other => OpenError::Damaged { path: dir.into(), why: other.to_string() },
    })
}

/// The label, or `None` where none was written yet.
fn read_meta(dir: &Path, db: &Database) -> Result<Option<Label>, OpenError> {
    let damaged = |why: String| OpenError::Damaged { path: dir.into(), why };
    let txn = db.begin_read().map_err(|e| damaged(e.to_string()))?;
    let table = match txn.open_table(META) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(e) => return Err(damaged(e.to_string())),
    };
    let get = |key: &str| {
        let value = table.get(key.as_bytes()).map_err(|e| damaged(e.to_string()))?;
        value.map(|v| v.value().to_vec()).ok_or_else(|| damaged(format!("no {key}")))
    };
    let found = u32::from_bytes(&get("format")?).map_err(|e| damaged(e.to_string()))?;
    if found > FORMAT {
        return Err(OpenError::Newer { path: dir.into(), found });
    }
    Label::from_bytes(&get("label")?).map(Some).map_err(|e| damaged(e.to_string()))
}

fn write_meta(db: &Database, label: &Label) -> Result<(), String> {
    let write = || -> Result<(), redb::Error> {
        let txn = db.begin_write()?;
        {
            let mut table = txn.open_table(META)?;
            table.insert(&b"format"[..], &FORMAT.to_bytes(0)[..])?;
            table.insert(&b"label"[..], &label.to_bytes(0)[..])?;
        }
        // The tables are made here, so that every later transaction finds them.
        Tables::open(&txn)?;
        Ok(txn.commit()?)
    };
    write().map_err(|e| e.to_string())
}

/// Which blocks are in use, and the first object number that was never given.
fn scan(db: &Database, blocks: u64) -> Result<(Space, u64), String> {
    let txn = db.begin_write().map_err(|e| e.to_string())?;
    let mut space = Space::new(Allocator::new(blocks));
    let mut next_nid = 1;
    {
        let tables = Tables::open(&txn).map_err(|e| e.to_string())?;
        let scan_chunks = tables.scan(In::Chunks, &[], None, |_, value| {
            for block in decode_chunk(value)?.values() {
                if !space.alloc.mark_used(block.at) {
                    let why = format!("block {} belongs to two objects or to none", block.at);
                    return Err(Failure::Fatal(store::StoreError::Damaged(why)));
                }
            }
            Ok(true)
        });
        let scan_onodes = tables.scan(In::Onodes, &[], None, |_, value| {
            next_nid = next_nid.max(Onode::from_bytes(value)?.nid + 1);
            Ok(true)
        });
        scan_chunks.and(scan_onodes).map_err(|(Failure::Fatal(e) | Failure::Refused(e))| e.to_string())?;
    }
    txn.abort().map_err(|e| e.to_string())?;
    Ok((space, next_nid))
}
