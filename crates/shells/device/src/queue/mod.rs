//! The devices of a store as files or block devices, behind [`blockdev::DeviceQueue`].
//!
//! [`Files`] opens them; [`Files::queue`] gives each core its queue. Reads and writes go through the queue's io_uring if
//! that is asked for; everything else, and all where there is no ring, through blocking system calls of a bounded pool of
//! threads for each device. So nothing here blocks its caller but [`Files::open`] and the drop of a queue, which waits
//! for what is in flight.
//!
//! Regular files and block devices are opened with `O_DIRECT`. Where the system refuses that, or a test wants its crash
//! hooks, requests go through the page cache; [`Files::notes`] says so.

mod direct;
mod discard;
mod medium;
mod overlap;
mod pool;
mod ring;
mod rope;
mod threads;
mod unit;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blockdev::{DeviceId, Geometry};

use crate::DeviceOptions;
use pool::Pool;
use ring::Ring;
use unit::Unit;

pub(crate) use direct::write_pieces;
pub(crate) use discard::discard;
pub use medium::{is_read_only, rotates};
pub use ring::RingEvent;
pub use threads::{Engine, FileQueue};

/// One device of a store.
#[derive(Clone, Debug)]
pub struct FileDevice {
    pub id: DeviceId,
    /// A regular file, as long as the device is to be, or a block device.
    pub path: PathBuf,
    /// A power of two, at least [`blockdev::SECTOR_BYTES`]. The device's own block counts if it is larger.
    pub block_bytes: u32,
    /// How many requests are worked on together, and the most threads that do.
    pub queue_depth: usize,
    /// Whether it is only read: then it may be one that can't be written, and every write fails.
    pub read_only: bool,
    /// A volatile cache and a power switch for tests. With either the page cache is used.
    pub debug: DeviceOptions,
}

impl FileDevice {
    /// A device with blocks of 4 KiB and a depth of 16.
    pub fn new(id: DeviceId, path: &Path) -> Self {
        let (block_bytes, queue_depth) = (4096, 16);
        let (read_only, debug) = (false, DeviceOptions::default());
        Self { id, path: path.to_owned(), block_bytes, queue_depth, read_only, debug }
    }
}

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{device} at {path:?} cannot be opened: {error}")]
    Io { device: DeviceId, path: PathBuf, error: io::Error },
    #[error("{device} at {path:?} is neither a regular file nor a block device")]
    WrongKind { device: DeviceId, path: PathBuf },
    #[error(
        "{device} at {path:?} has {size_bytes} bytes, which is no whole block of {block_bytes}: make it longer"
    )]
    TooSmall { device: DeviceId, path: PathBuf, size_bytes: u64, block_bytes: u32 },
    #[error(
        "{device}: blocks of {block_bytes} bytes are not supported: use a power of two from 512 bytes to 1 MiB"
    )]
    BlockBytes { device: DeviceId, block_bytes: u32 },
    #[error("{device} is named twice")]
    NamedTwice { device: DeviceId },
}

/// The open devices of a store. Clones are the same devices. They are closed when the last clone and the last queue are
/// dropped; that waits until nothing is in flight.
#[derive(Clone)]
pub struct Files(Arc<Opened>);

struct Opened {
    pools: BTreeMap<DeviceId, Pool>,
    engine: Engine,
    notes: Vec<String>,
}

impl Files {
    /// Opens the devices and flushes them, so that what is read from now on is durable.
    ///
    /// # Errors
    /// See [`OpenError`]; then none is open.
    pub fn open(devices: &[FileDevice], engine: Engine) -> Result<Self, OpenError> {
        let (mut pools, mut notes) = (BTreeMap::new(), Vec::new());
        for device in devices {
            let id = device.id;
            let unit = Unit::open(device, &mut notes)?;
            let io = |error| OpenError::Io { device: id, path: device.path.clone(), error };
            if pools.insert(id, Pool::start(unit).map_err(io)?).is_some() {
                return Err(OpenError::NamedTwice { device: id });
            }
        }
        let engine = match engine {
            Engine::Threads => Engine::Threads,
            Engine::IoUring => match Ring::probe() {
                Ok(()) => Engine::IoUring,
                Err(error) => {
                    notes
                        .push(format!("io_uring is not available, so threads perform all requests: {error}"));
                    Engine::Threads
                }
            },
        };
        Ok(Self(Arc::new(Opened { pools, engine, notes })))
    }

    /// Opens one more queue.
    pub fn queue(&self) -> FileQueue {
        FileQueue::new(self.clone())
    }

    /// What an operator should know of how the devices are used: a sentence each, for a log.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    fn geometry(&self, device: DeviceId) -> Option<Geometry> {
        self.0.pools.get(&device).map(Pool::geometry)
    }
}
