//! What a device's bytes lie on, with blocking calls.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

use blockdev::DeviceId;
use buffer::{PieceMut, Rope};
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::{Errno, Result};

use super::direct::DirectFile;
use super::discard::discard;
use super::rope::aligned_buffer;
use super::{FileDevice, OpenError};
use crate::{Device, DeviceOptions, DeviceRole};

pub enum Medium {
    /// Past the page cache.
    Direct(DirectFile),
    /// Through it, with the crash hooks.
    Cached(Device),
}

/// A medium, and what the system says of it.
pub struct OpenMedium {
    pub medium: Medium,
    pub size_bytes: u64,
    /// What direct I/O needs at least.
    pub block_bytes: u32,
    pub discards: bool,
    pub rotational: bool,
    pub durable_flushes: bool,
}

impl Medium {
    /// Opens and flushes it. Adds what an operator should know to `notes`.
    pub fn open(device: &FileDevice, notes: &mut Vec<String>) -> std::result::Result<OpenMedium, OpenError> {
        let FileDevice { id, ref path, .. } = *device;
        let io = |error| OpenError::Io { device: id, path: path.clone(), error };
        let mut file = OpenOptions::new().read(true).write(!device.read_only).open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let is_block_device = metadata.file_type().is_block_device();
        if !is_block_device && !metadata.is_file() {
            return Err(OpenError::WrongKind { device: id, path: path.clone() });
        }
        let size_bytes = file.seek(SeekFrom::End(0)).map_err(io)?;
        let discards = match is_block_device {
            _ if device.read_only => false,
            true => property(metadata.rdev(), "discard_max_bytes").is_some_and(|bytes| bytes > 0),
            // A hole behind the end changes nothing, and shows whether the file system makes holes.
            false => discard(&file, size_bytes, 4096).is_ok(),
        };
        file.sync_data().map_err(io)?;
        let (block_bytes, medium) = match open_direct(device, size_bytes) {
            Ok(direct) => (direct.block_bytes, Self::Direct(direct)),
            Err(why) => {
                notes.push(format!("{id} at {path:?} is used through the page cache: {why}"));
                (1, Self::Cached(open_cached(device).map_err(io)?))
            }
        };
        let rotational = rotates(&metadata);
        let durable_flushes = medium.is_direct() && has_to_flush(&metadata);
        Ok(OpenMedium { medium, size_bytes, block_bytes, discards, rotational, durable_flushes })
    }

    pub fn direct(&self) -> Option<&DirectFile> {
        match self {
            Self::Direct(file) => Some(file),
            Self::Cached(_) => None,
        }
    }

    pub fn is_direct(&self) -> bool {
        self.direct().is_some()
    }

    pub fn read(&self, offset: u64, buffer: &mut PieceMut) -> Result<()> {
        match self {
            Self::Direct(file) => file.read(offset, buffer),
            Self::Cached(device) => device.read_at(offset, buffer.as_mut_slice()).map_err(errno),
        }
    }

    pub fn write(&self, offset: u64, data: &Rope) -> Result<()> {
        match self {
            Self::Direct(file) => file.write(offset, data),
            Self::Cached(device) => device.write_rope_at(offset, data).map_err(errno),
        }
    }

    pub fn write_durable(&self, offset: u64, data: &Rope) -> Result<()> {
        match self {
            Self::Direct(file) => file.write_durable(offset, data),
            Self::Cached(device) => device.write_durable_at(offset, data).map_err(errno),
        }
    }

    pub fn flush(&self) -> Result<()> {
        match self {
            Self::Direct(file) => file.flush(),
            Self::Cached(device) => device.flush().map_err(errno),
        }
    }

    pub fn discard(&self, offset: u64, len: u64) -> Result<()> {
        match self {
            Self::Direct(file) => file.discard(offset, len),
            Self::Cached(device) => device.discard(offset, len).map_err(errno),
        }
    }
}

/// The system's number; EIO where it gave none (a short read).
fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn open_cached(device: &FileDevice) -> io::Result<Device> {
    let role = match device.id {
        DeviceId::Data => DeviceRole::Image,
        DeviceId::Wal | DeviceId::Db => DeviceRole::OsdMetadata,
    };
    let seed = device.debug.leak_seed.map(|seed| seed ^ ((device.id as u64) << 32));
    let options = DeviceOptions { leak_seed: seed, ..device.debug.clone() };
    let cached = match device.read_only {
        true => Device::open_to_read(&device.path, role, options)?,
        false => Device::open(&device.path, false, role, options)?,
    };
    // A flush that failed while the device was open before may have left bytes in the cache that the disk has not.
    cached.drop_cached(0, 0);
    Ok(cached)
}

/// Opens for direct I/O and tries it; otherwise says why not.
fn open_direct(device: &FileDevice, size_bytes: u64) -> std::result::Result<DirectFile, String> {
    if device.debug.volatile_cache || device.debug.power.is_some() {
        return Err("its debug options need that".into());
    }
    let flags = OFlags::DIRECT.bits() as i32;
    let open = || {
        let mut how = OpenOptions::new();
        let opened = how.read(true).write(!device.read_only).custom_flags(flags).open(&device.path);
        opened.map_err(|e| format!("O_DIRECT is refused: {e}"))
    };
    let (file, ring_file) = (open()?, open()?);
    let (offset_align, memory_align) = alignment(&file).unwrap_or((device.block_bytes, device.block_bytes));
    // Cautious: drivers have asked for more than they said.
    let memory_align = memory_align.max(512) as usize;
    let direct =
        DirectFile { file, ring_file, block_bytes: device.block_bytes.max(offset_align), memory_align };
    let len = direct.block_bytes as usize;
    if size_bytes >= len as u64 {
        let first = direct.read_aligned(0, &mut aligned_buffer(len).as_mut_slice()[..len]);
        first.map_err(|e| format!("a direct read of its first {len} bytes fails: {e}"))?;
    }
    Ok(direct)
}

/// What direct I/O needs of offsets and lengths, and of memory; `None` if the system does not say (before Linux 6.1).
fn alignment(file: &File) -> Option<(u32, u32)> {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    let both = (stat.stx_dio_offset_align, stat.stx_dio_mem_align);
    (known && both.0.is_power_of_two() && both.1.is_power_of_two()).then_some(both)
}

/// Whether a block device has to seek, or the disk below a file. What is below a disk of virtio-blk the kernel does not know: it
/// says that it rotates, and such disks are rarely those that do.
pub fn rotates(metadata: &Metadata) -> bool {
    let disk = disk_of(metadata);
    property(disk, "rotational") == Some(1) && !is_virtual(disk)
}

/// Whether the kernel refuses writes to a block device, which may be opened for them all the same.
pub fn is_read_only(metadata: &Metadata) -> bool {
    let says_so =
        || std::fs::read_to_string(sys_path(metadata.rdev(), "ro")).is_ok_and(|text| text.trim() == "1");
    metadata.file_type().is_block_device() && says_so()
}

fn is_virtual(disk: u64) -> bool {
    let drivers = ["device", "../device"].map(|device| sys_path(disk, &format!("{device}/driver")));
    let mut names = drivers.iter().filter_map(|driver| std::fs::read_link(driver).ok());
    names.any(|driver| driver.ends_with("virtio_blk"))
}

/// The number of a block device, or of the one below a file.
fn disk_of(metadata: &Metadata) -> u64 {
    if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() }
}

/// Whether the kernel flushes the disk below for each `RWF_DSYNC` write: the disk has a cache and does not take FUA. With FUA the
/// kernel writes such a request through the cache and leaves the rest there. Not so for a device of several disks that is used
/// without a file system: the write and its flush go to one of them. A file system that keeps its disk to itself (a number that is
/// no block device's) gets no, and so does a disk without a cache, which may be given one.
fn has_to_flush(metadata: &Metadata) -> bool {
    let disk = disk_of(metadata);
    let has_cache = text_property(disk, "write_cache").is_some_and(|cache| cache == "write back");
    let is_one = !metadata.file_type().is_block_device() || !is_made_of_disks(disk);
    has_cache && property(disk, "fua") == Some(0) && is_one
}

fn is_made_of_disks(disk: u64) -> bool {
    let below = ["slaves", "../slaves"].map(|slaves| std::fs::read_dir(sys_path(disk, slaves)));
    below.into_iter().flatten().any(|mut slaves| slaves.next().is_some())
}

/// A property of a disk's queue; a partition has its disk's.
fn property(number: u64, name: &str) -> Option<u64> {
    text_property(number, name)?.parse().ok()
}

fn text_property(number: u64, name: &str) -> Option<String> {
    ["queue", "../queue"].iter().find_map(|queue| {
        let text = std::fs::read_to_string(sys_path(number, &format!("{queue}/{name}"))).ok()?;
        Some(text.trim().to_owned())
    })
}

/// Where the system says something of a disk.
fn sys_path(number: u64, what: &str) -> String {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    format!("/sys/dev/block/{major}:{minor}/{what}")
}
