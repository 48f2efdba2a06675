//! One open device: its geometry, whether it is poisoned, and what keeps concurrent system calls to the contract.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use blockdev::{DeviceError, DeviceId, Done, Durability, Geometry, Op};
use buffer::Rope;
use rustix::io::Errno as SystemErrno;
use types::Errno;

use super::direct::DirectFile;
use super::medium::Medium;
use super::overlap::Overlap;
use super::{FileDevice, OpenError};

/// Longest request, bytes: a copy for memory that is not aligned is at most as long.
const REQUEST_BYTES_MAX: u64 = 4 << 20;

pub struct Unit {
    pub id: DeviceId,
    pub geometry: Geometry,
    medium: Medium,
    /// See [`blockdev::DeviceQueue`], "Failures".
    poisoned: AtomicBool,
    /// The kernel reports a failed write-back once for each open file: of two calls that overlap and that both sync, one
    /// may get the error of what the other promises. In the page cache such calls run one at a time, holding this alone.
    /// With direct I/O a durable write has the error of its own bytes, and shares this; a flush that went well passes
    /// through it alone before it is reported, so that a durable write that failed beside it has poisoned the device.
    /// Rings take no part: their owners learn of a completion when they like, and a flush must not wait for that.
    syncs: RwLock<()>,
    /// The page cache is copied to and from without a lock: a read could see a half of a sector. `None`: direct I/O.
    overlap: Option<Overlap>,
}

impl Unit {
    pub fn open(device: &FileDevice, notes: &mut Vec<String>) -> Result<Self, OpenError> {
        let FileDevice { id, block_bytes, queue_depth, .. } = *device;
        if !block_bytes.is_power_of_two() || !(512..=1 << 20).contains(&block_bytes) {
            return Err(OpenError::BlockBytes { device: id, block_bytes });
        }
        let opened = Medium::open(device, notes)?;
        let block_bytes = block_bytes.max(opened.block_bytes);
        let size_bytes = opened.size_bytes / u64::from(block_bytes) * u64::from(block_bytes);
        if size_bytes == 0 {
            let (path, size_bytes) = (device.path.clone(), opened.size_bytes);
            return Err(OpenError::TooSmall { device: id, path, size_bytes, block_bytes });
        }
        let geometry = Geometry {
            size_bytes,
            block_bytes,
            request_bytes_max: REQUEST_BYTES_MAX,
            queue_depth: queue_depth.max(1),
            discards: opened.discards,
            rotational: opened.rotational,
            durable_flushes: opened.durable_flushes,
        };
        let medium = opened.medium;
        let overlap = (!medium.is_direct()).then(Overlap::default);
        let poisoned = AtomicBool::new(false);
        Ok(Self { id, geometry, medium, poisoned, syncs: RwLock::new(()), overlap })
    }

    /// Performs a request that was checked; a flush too, although the pool gathers those.
    pub fn perform(&self, op: Op) -> Result<Done, DeviceError> {
        match op {
            Op::Read { offset, mut buffer } => {
                let range = offset..offset + buffer.len() as u64;
                let _held = self.overlap.as_ref().map(|o| o.share(range));
                let read = self.medium.read(offset, &mut buffer);
                read.map(|()| Done::Read(buffer)).map_err(|e| self.error(offset, e))
            }
            Op::Write { offset, data, durability } => {
                let _held = self.overlap.as_ref().map(|o| o.take(offset..offset + data.len() as u64));
                match durability {
                    Durability::Volatile => self.change(offset, || self.medium.write(offset, &data))?,
                    Durability::Durable => self.write_durable(offset, &data)?,
                }
                Ok(Done::Written)
            }
            Op::Flush => self.flush().map(|()| Done::Flushed),
            Op::Discard { offset, len } => {
                let _held = self.overlap.as_ref().map(|o| o.take(offset..offset + len));
                let discard =
                    || if self.geometry.discards { self.medium.discard(offset, len) } else { Ok(()) };
                self.change(offset, discard).map(|()| Done::Discarded)
            }
        }
    }

    /// Makes durable what had completed.
    pub fn flush(&self) -> Result<(), DeviceError> {
        if self.medium.is_direct() {
            let flushed = self.sync(0, || self.medium.flush());
            drop(self.syncs.write().unwrap_or_else(PoisonError::into_inner));
            return flushed.and_then(|()| self.unless_poisoned());
        }
        let _alone = self.syncs.write().unwrap_or_else(PoisonError::into_inner);
        self.sync(0, || self.medium.flush())
    }

    fn write_durable(&self, offset: u64, data: &Rope) -> Result<(), DeviceError> {
        let write = || self.medium.write_durable(offset, data);
        if self.medium.is_direct() {
            let _shared = self.syncs.read().unwrap_or_else(PoisonError::into_inner);
            return self.sync(offset, write);
        }
        let _alone = self.syncs.write().unwrap_or_else(PoisonError::into_inner);
        self.sync(offset, write)
    }

    /// A call whose failure leaves in doubt what was not durable.
    fn sync(&self, offset: u64, call: impl FnOnce() -> Result<(), SystemErrno>) -> Result<(), DeviceError> {
        self.unless_poisoned()?;
        if let Err(error) = call() {
            self.poison();
            return Err(self.error(offset, error));
        }
        self.unless_poisoned()
    }

    /// A call whose failure concerns its range.
    fn change(&self, offset: u64, call: impl FnOnce() -> Result<(), SystemErrno>) -> Result<(), DeviceError> {
        self.unless_poisoned()?;
        call().map_err(|e| self.error(offset, e))?;
        self.unless_poisoned()
    }

    /// The file for direct I/O, if that is used.
    pub fn direct(&self) -> Option<&DirectFile> {
        self.medium.direct()
    }

    pub fn poison(&self) {
        self.poisoned.store(true, Ordering::SeqCst);
    }

    /// # Errors
    /// [`DeviceError::Poisoned`].
    pub fn unless_poisoned(&self) -> Result<(), DeviceError> {
        match self.poisoned.load(Ordering::SeqCst) {
            true => Err(DeviceError::Poisoned { device: self.id }),
            false => Ok(()),
        }
    }

    pub fn error(&self, offset: u64, error: SystemErrno) -> DeviceError {
        DeviceError::Io { device: self.id, offset, errno: Errno(error.raw_os_error()) }
    }
}
