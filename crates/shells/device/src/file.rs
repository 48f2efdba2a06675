//! A file as a block device.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use blockdev::{DeviceError, DeviceId, Done, Durability, Op, VolatileCache};
use buffer::Rope;
use rustix::io::ReadWriteFlags;
use types::Errno;

use crate::power::Survivors;
use crate::queue::{discard, write_pieces};
use crate::{ModelledRange, NamedDevice, Power, write_in_place};

/// What a device is for. Says which flush a test build leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceRole {
    /// An OSD store's data.
    Image,
    /// An OSD store's metadata.
    OsdMetadata,
    /// The monitor's state.
    MonState,
}

impl DeviceRole {
    fn flush_is_left_out(self) -> bool {
        match self {
            Self::Image => cfg!(feature = "skip-flush-image"),
            Self::OsdMetadata => cfg!(feature = "skip-flush-osd-metadata"),
            Self::MonState => cfg!(feature = "skip-flush-mon-state"),
        }
    }
}

/// How a device behaves.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// `bdev_debug_volatile_cache`: writes stay in the process until a flush, so that killing it loses them.
    pub volatile_cache: bool,
    /// `bdev_debug_volatile_leak_seed`: with the cache, a random half of written sectors reaches the file early, out of
    /// order and at random moments. Devices opened with one seed differ from one another by their role.
    pub leak_seed: Option<u64>,
    /// A switch that tests cut the power with.
    pub power: Option<Arc<Power>>,
}

/// Bytes of a file system, see [`Device::fs_space`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FsSpace {
    /// The file has them.
    pub given: u64,
    /// Free.
    pub free: u64,
}

/// A file read, written and flushed as a block device. Clones are the same device.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
    /// The modelled device that it lies on.
    range: Option<ModelledRange>,
}

struct Inner {
    file: File,
    name: NamedDevice,
    role: DeviceRole,
    cache: Option<Mutex<VolatileCache>>,
    power: Option<Arc<Power>>,
}

/// The longest time between two early sectors.
const LEAK_INTERVAL_MAX: Duration = Duration::from_millis(4);

impl Device {
    /// Opens a file, made if `create` and missing: one that is written in place ([`write_in_place`]).
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path, create: bool, role: DeviceRole, options: DeviceOptions) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(create).truncate(false).open(path)?;
        if create && file.metadata()?.len() == 0 {
            write_in_place(&file);
        }
        Self::over(file, path, role, options)
    }

    /// Opens a file that is only read: every write fails.
    ///
    /// # Errors
    /// The system's.
    pub fn open_to_read(path: &Path, role: DeviceRole, options: DeviceOptions) -> io::Result<Self> {
        Self::over(File::open(path)?, path, role, options)
    }

    fn over(file: File, path: &Path, role: DeviceRole, options: DeviceOptions) -> io::Result<Self> {
        let seed = options.leak_seed.map(|seed| seed.wrapping_mul(3).wrapping_add(role as u64));
        let cache = options.volatile_cache.then(|| Mutex::new(VolatileCache::new(seed)));
        let inner = Inner { file, name: NamedDevice::at(path), role, cache, power: options.power };
        let device = Self { inner: Arc::new(inner), range: None };
        if options.volatile_cache && seed.is_some() {
            let weak = Arc::downgrade(&device.inner);
            std::thread::Builder::new().name("bdev-leak".into()).spawn(move || leak_until_closed(&weak))?;
        }
        Ok(device)
    }

    /// The same file on a modelled device: from now on reads, flushes and performed requests take as long as the model
    /// says, or as the file does if that is longer. Every read is the device's: the system's cache of the file counts
    /// for nothing.
    #[must_use]
    pub fn on(self, range: ModelledRange) -> Self {
        Self { range: Some(range), ..self }
    }

    /// What it is called.
    pub fn name(&self) -> &NamedDevice {
        &self.inner.name
    }

    /// Bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.inner.file.metadata()?.len())
    }

    /// Whether it has no byte.
    ///
    /// # Errors
    /// The system's.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes it longer by zeros or shorter. A length is no write: it is not held back.
    ///
    /// # Errors
    /// The system's.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        // The system would not be asked, and the error would speak of a conversion.
        if i64::try_from(len).is_err() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.inner.spend()?;
        let mut cache = self.inner.cache();
        self.inner.file.set_len(len)?;
        if let Some(cache) = &mut cache {
            cache.truncate(len);
        }
        Ok(())
    }

    /// Bytes that the file system below has given to the file, and bytes that it has free. A sparse
    /// file promises more than may be there.
    ///
    /// # Errors
    /// The system's.
    pub fn fs_space(&self) -> io::Result<FsSpace> {
        let given = self.inner.file.metadata()?.blocks() * 512;
        let system = rustix::fs::fstatvfs(&self.inner.file)?;
        Ok(FsSpace { given, free: system.f_bavail.saturating_mul(system.f_frsize) })
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// The system's; reading past the end is one.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let Some(range) = &self.range else { return self.read_now(offset, out) };
        let ticket = range.read(offset, out.len() as u64);
        let read = self.read_now(offset, out);
        range.wait(ticket);
        read
    }

    fn read_now(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if let Some(power) = &self.inner.power {
            power.check()?;
        }
        // Held while the file is read: a flush in between would move a sector from the cache to where we were already.
        let cache = self.inner.cache();
        self.inner.file.read_exact_at(out, offset)?;
        if let Some(cache) = &cache {
            cache.overlay(offset, out);
        }
        Ok(())
    }

    /// Puts bytes at `offset`. Durable after the next [`Device::flush`]. On a modelled device it returns when the write
    /// is in the device's queue, and the flush waits for it.
    ///
    /// # Errors
    /// The system's.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.leave_write(offset, data.len());
        self.write_now(offset, data)
    }

    /// [`Device::write_at`] for a rope, as one write.
    ///
    /// # Errors
    /// The system's.
    pub fn write_rope_at(&self, offset: u64, data: &Rope) -> io::Result<()> {
        self.leave_write(offset, data.len());
        self.write_rope_now(offset, data)
    }

    fn leave_write(&self, offset: u64, length: usize) {
        if let Some(range) = &self.range {
            range.leave(range.write(offset, length as u64));
        }
    }

    fn write_now(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.spend()?;
        match &mut self.inner.cache() {
            None => self.inner.file.write_all_at(data, offset),
            Some(cache) => cache.write(offset, data, |at, sector| self.inner.read_sector(at, sector)),
        }
    }

    fn write_rope_now(&self, offset: u64, data: &Rope) -> io::Result<()> {
        let mut at = offset;
        for piece in data.pieces() {
            self.write_now(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Puts whole sectors at `offset`; they are durable on return. Nothing is said of any other write.
    ///
    /// # Errors
    /// The system's. What was written since the last good flush is then in doubt.
    pub(crate) fn write_durable_at(&self, offset: u64, data: &Rope) -> io::Result<()> {
        if self.inner.role.flush_is_left_out() {
            return self.write_rope_at(offset, data);
        }
        self.inner.spend_sync()?;
        let mut cache = self.inner.cache();
        write_pieces(&self.inner.file, offset, data.pieces(), ReadWriteFlags::DSYNC)?;
        if let Some(cache) = &mut cache {
            cache.forget(offset, data.len() as u64);
        }
        Ok(())
    }

    /// Gives whole sectors back to the file system; what they hold is unspecified from now on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.spend()?;
        let mut cache = self.inner.cache();
        discard(&self.inner.file, offset, len)?;
        if let Some(cache) = &mut cache {
            cache.forget(offset, len);
        }
        Ok(())
    }

    /// Returns when everything written before is durable.
    ///
    /// # Errors
    /// The system's. What was written since the last good flush is then in doubt: a second try proves nothing.
    pub fn flush(&self) -> io::Result<()> {
        if self.inner.role.flush_is_left_out() {
            return Ok(());
        }
        match &self.range {
            Some(range) => range.flush(|| self.flush_now()),
            None => self.flush_now(),
        }
    }

    fn flush_now(&self) -> io::Result<()> {
        self.inner.spend_sync()?;
        let mut cache = self.inner.cache();
        if let Some(cache) = &mut cache {
            let len = self.len()?;
            let mut held = cache.take().into_iter();
            while let Some((offset, sector)) = held.next() {
                if let Err(off) = self.inner.spend() {
                    self.inner.let_survive(std::iter::once((offset, sector)).chain(held));
                    return Err(off);
                }
                self.inner.write_sector(len, offset, &sector)?;
            }
        }
        self.inner.file.sync_data()
    }

    /// Asks the system to drop what it has cached of these bytes: a next read comes from the disk. What is not written
    /// back yet stays. Only a request: an error of the system changes nothing and is ignored.
    pub fn drop_cached(&self, offset: u64, len: u64) {
        let _ =
            rustix::fs::fadvise(&self.inner.file, offset, NonZeroU64::new(len), rustix::fs::Advice::DontNeed);
    }

    /// Performs a request to the device `id`; returns when it is complete.
    ///
    /// # Errors
    /// The system's, as [`DeviceError::Io`].
    pub fn perform(&self, id: DeviceId, op: Op) -> Result<Done, DeviceError> {
        let (at, done) = match op {
            Op::Read { offset, mut buffer } => {
                let read = self.read_at(offset, buffer.as_mut_slice());
                (offset, read.map(|()| Done::Read(buffer)))
            }
            Op::Write { offset, data, durability } => {
                let begun = self.range.as_ref().map(|range| (range, range.write(offset, data.len() as u64)));
                let mut written = self.write_rope_now(offset, &data);
                if let Some((range, ticket)) = begun {
                    range.wait(ticket);
                }
                if durability == Durability::Durable {
                    written = written.and_then(|()| self.flush());
                }
                (offset, written.map(|()| Done::Written))
            }
            Op::Flush => (0, self.flush().map(|()| Done::Flushed)),
            // What a discarded range holds is unspecified: it may stay.
            Op::Discard { offset, len: _ } => (offset, Ok(Done::Discarded)),
        };
        done.map_err(|e| DeviceError::Io { device: id, offset: at, errno: errno(&e) })
    }
}

/// The error's number; EIO where the system gave none (a short read).
fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno)
}

impl Inner {
    /// Counts an operation that changes the file, or fails it while the power is off.
    fn spend(&self) -> io::Result<()> {
        self.power.as_ref().map_or(Ok(()), |power| power.spend())
    }

    /// [`Inner::spend`] for what makes durable.
    fn spend_sync(&self) -> io::Result<()> {
        self.power.as_ref().map_or(Ok(()), |power| power.spend_sync())
    }

    /// After a cut: writes the sectors that survive it, of those that a cache held.
    fn let_survive(&self, held: impl Iterator<Item = (u64, Box<[u8]>)>) {
        let Some(seed) = self.power.as_ref().and_then(|power| power.survivors_seed()) else { return };
        let mut survivors = Survivors::new(seed.wrapping_mul(3).wrapping_add(self.role as u64));
        let len = self.file.metadata().map_or(0, |m| m.len());
        for (offset, sector) in held {
            if survivors.includes_next() {
                // A loss of power may lose any of them, so losing one more by an error is no harm.
                let _ = self.write_sector(len, offset, &sector);
            }
        }
    }

    /// The cache, locked; a panic elsewhere doesn't make its contents wrong.
    fn cache(&self) -> Option<MutexGuard<'_, VolatileCache>> {
        self.cache.as_ref().map(|c| c.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A sector of the file, zeros behind its end.
    fn read_sector(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        while at < out.len() {
            match self.file.read_at(&mut out[at..], offset + at as u64) {
                Ok(0) => break,
                Ok(n) => at += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes a sector to the file without making it longer than it is, or would be by the caller's write.
    fn write_sector(&self, len: u64, offset: u64, sector: &[u8]) -> io::Result<()> {
        let end = (len.saturating_sub(offset)).min(sector.len() as u64) as usize;
        self.file.write_all_at(if end == 0 { sector } else { &sector[..end] }, offset)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let held = self.cache().map(|mut cache| cache.take());
        self.let_survive(held.into_iter().flatten());
    }
}

/// Lets sectors out at random moments until the device is closed.
fn leak_until_closed(device: &Weak<Inner>) {
    while let Some(inner) = device.upgrade() {
        let mut pause = LEAK_INTERVAL_MAX;
        if inner.power.as_ref().is_some_and(|power| power.is_off()) {
            break;
        }
        if let Some(mut cache) = inner.cache() {
            if let Some((offset, sector)) = cache.leak() {
                let len = inner.file.metadata().map_or(0, |m| m.len());
                // A failure is the flush's to report: it writes the sector again.
                let _ = inner.write_sector(len, offset, &sector);
                pause = LEAK_INTERVAL_MAX / (1 + u32::from(sector[0] ^ sector[100]) % 64);
            }
        }
        drop(inner);
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use buffer::PieceMut;

    use super::*;

    fn open(path: &Path, volatile_cache: bool, leak_seed: Option<u64>) -> Device {
        Device::open(path, true, DeviceRole::Image, DeviceOptions { volatile_cache, leak_seed, power: None })
            .unwrap()
    }

    #[test]
    fn a_volatile_device_keeps_writes_from_the_file_until_a_flush() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let device = open(&path, true, None);
        device.set_len(64 << 10).unwrap();
        device.write_at(5000, &[7; 9000]).unwrap();
        let mut seen = [0; 3];
        device.read_at(4999, &mut seen).unwrap();
        assert_eq!(seen, [0, 7, 7]);
        assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == 0), "a kill now loses it");
        device.flush().unwrap();
        let file = std::fs::read(&path).unwrap();
        assert_eq!(file.len(), 64 << 10);
        assert!(file[5000..14_000].iter().all(|&b| b == 7) && file[14_000..].iter().all(|&b| b == 0));
    }

    #[test]
    fn with_a_seed_some_unflushed_sectors_reach_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let device = open(&path, true, Some(4));
        device.set_len(100 * 512).unwrap();
        device.write_at(0, &[7; 100 * 512]).unwrap();
        let leaked = || std::fs::read(&path).unwrap().chunks(512).filter(|b| b[0] == 7).count();
        for _ in 0..5000 {
            if leaked() >= 20 {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let n = leaked();
        assert!((20..80).contains(&n), "{n} of 100 sectors");
    }

    /// The file after its power was cut: 16 sectors of ones flushed, 16 of twos held by the cache or whose flush failed.
    fn after_a_cut(operations: u64, survivors_seed: Option<u64>, flush: bool) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let power = Arc::new(Power::default());
        let options =
            DeviceOptions { volatile_cache: true, power: Some(power.clone()), ..Default::default() };
        let device = Device::open(&path, true, DeviceRole::Image, options).unwrap();
        device.set_len(16 * 512).unwrap();
        device.write_at(0, &[1; 16 * 512]).unwrap();
        device.flush().unwrap();
        device.write_at(0, &[2; 16 * 512]).unwrap();
        power.cut_after(operations, survivors_seed);
        if flush {
            assert!(device.flush().is_err());
        }
        assert!(power.is_off());
        let eio = |r: io::Result<()>| r.unwrap_err().raw_os_error() == Some(Errno::EIO.0);
        assert!(eio(device.write_at(0, &[3; 512])) && eio(device.flush()) && eio(device.set_len(0)));
        assert!(eio(device.read_at(0, &mut [0; 10])));
        drop(device);
        std::fs::read(&path).unwrap()
    }

    fn whole_sectors_of_twos(file: &[u8]) -> usize {
        let sectors: Vec<&[u8]> = file.chunks(512).collect();
        assert!(
            sectors.len() == 16 && sectors.iter().all(|b| b.iter().all(|&x| x == b[0])),
            "no sector is torn"
        );
        sectors.iter().filter(|b| b[0] == 2).count()
    }

    #[test]
    fn a_cut_keeps_what_was_flushed_and_by_its_seed_a_part_of_the_cache() {
        assert_eq!(whole_sectors_of_twos(&after_a_cut(0, None, false)), 0);
        let survived: Vec<usize> =
            (0..20).map(|seed| whole_sectors_of_twos(&after_a_cut(0, Some(seed), false))).collect();
        assert!(survived.iter().any(|&n| n < 5) && survived.iter().any(|&n| n > 11), "{survived:?}");
        assert!(survived.iter().any(|n| (5..=11).contains(n)), "{survived:?}");
    }

    #[test]
    fn a_cut_in_a_flush_leaves_a_part_of_it() {
        // The flush itself counts for one, each of its sectors for another.
        assert_eq!(whole_sectors_of_twos(&after_a_cut(6, None, true)), 5);
        assert!((5..16).contains(&whole_sectors_of_twos(&after_a_cut(6, Some(1), true))));
    }

    #[test]
    fn a_device_whose_writes_fail_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let power = Arc::new(Power::default());
        let options = DeviceOptions { power: Some(power.clone()), ..Default::default() };
        let device = Device::open(&dir.path().join("f"), true, DeviceRole::Image, options).unwrap();
        device.write_at(0, b"hello").unwrap();
        power.fail_writes();
        assert!(device.write_at(0, b"x").is_err() && device.flush().is_err() && device.set_len(0).is_err());
        let mut seen = [0; 5];
        device.read_at(0, &mut seen).unwrap();
        assert_eq!(&seen, b"hello");
    }

    #[test]
    fn requests_are_performed_and_failures_are_the_devices() {
        let dir = tempfile::tempdir().unwrap();
        let device = open(&dir.path().join("f"), false, None);
        let write = Op::Write { offset: 3, data: Rope::copy_from(b"hello"), durability: Durability::Durable };
        assert!(matches!(device.perform(DeviceId::Data, write), Ok(Done::Written)));
        assert!(matches!(device.perform(DeviceId::Data, Op::Flush), Ok(Done::Flushed)));
        let read = |offset| device.perform(DeviceId::Data, Op::Read { offset, buffer: PieceMut::zeroed(5) });
        let Ok(Done::Read(mut buffer)) = read(2) else { panic!("a read gives its bytes") };
        assert_eq!(buffer.as_mut_slice(), b"\0hell");
        let past = DeviceError::Io { device: DeviceId::Data, offset: 6, errno: Errno::EIO };
        assert_eq!(read(6).unwrap_err(), past);
    }
}
