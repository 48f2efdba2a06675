//! What a store's file takes of its file system, and what it leaves to the monitor, to the log and to other stores.

use std::fs::File;
use std::ops::Range;

use rustix::fs::{FallocateFlags, StatVfs, fallocate};
use rustix::io::Errno;

/// Bytes of the smallest step, where the file system has no more.
const SMALLEST: u64 = 1 << 20;

/// The last bytes of a file system (or a twentieth of it) are taken in the smallest steps: a larger one that fails may hold all that
/// is free for a moment, in which the monitor or another OSD can write nothing.
const LAST: u64 = 64 << 20;

/// Bytes that stores leave free on a file system, or a sixteenth of it: the monitor's store and the log may lie there, and without the
/// monitor no one can delete what fills it.
const LEFT: u64 = 32 << 20;

/// A file to which bytes of its file system can be given.
pub trait Extensible {
    fn system(&self) -> Result<StatVfs, Errno>;
    /// Bytes of the file system that the file has.
    fn bytes(&self) -> Result<u64, Errno>;
    /// Gives the file these bytes. A file system that can't allocate ahead gives them when they are written.
    fn allocate(&self, range: &Range<u64>) -> Result<(), Errno>;
    /// Makes a hole in the file.
    fn punch(&self, range: &Range<u64>) -> Result<(), Errno>;
}

impl Extensible for File {
    fn system(&self) -> Result<StatVfs, Errno> {
        rustix::fs::fstatvfs(self)
    }

    fn bytes(&self) -> Result<u64, Errno> {
        Ok(rustix::fs::fstat(self)?.st_blocks as u64 * 512)
    }

    fn allocate(&self, range: &Range<u64>) -> Result<(), Errno> {
        match fallocate(self, FallocateFlags::KEEP_SIZE, range.start, range.end - range.start) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => other,
        }
    }

    fn punch(&self, range: &Range<u64>) -> Result<(), Errno> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(self, flags, range.start, range.end - range.start)
    }
}

/// Gives the file as many of these bytes as a file system that is nearly full has at once; returns those, and how many of them it
/// took of what is left for others, at most `of_left`. What the file had already takes nothing: which bytes that are, the store does
/// not know when it is opened. The store has nothing in this range.
///
/// # Errors
/// The system's; `NOSPC` also where what is free is left to others.
pub fn allocate_most(
    file: &impl Extensible,
    range: &Range<u64>,
    of_left: u64,
) -> Result<(Range<u64>, u64), Errno> {
    let step = step_of(&file.system()?);
    let mut range = range.start..range.end.min(range.start + whole_blocks(step.unwrap_or(SMALLEST)));
    let before = file.bytes()?;
    loop {
        let len = range.end - range.start;
        match file.allocate(&range) {
            Err(Errno::NOSPC | Errno::DQUOT) if len >= 2 * SMALLEST => {
                range.end = range.start + whole_blocks(len / 2);
            }
            other => break other?,
        }
    }
    let gained = file.bytes()?.saturating_sub(before);
    let (kept, taken) = match step {
        // Other stores may have asked at the same moment: each of them then gives up what is too much.
        Some(_) => (gained.saturating_sub(lacking(&file.system()?)), 0),
        None if gained > of_left => (0, 0),
        None => (gained, gained),
    };
    if kept < gained {
        let len = (range.end - range.start).saturating_sub(whole_blocks(gained - kept));
        let kept = range.start..range.start + len;
        file.punch(&(kept.end..range.end))?;
        range = kept;
    }
    if range.is_empty() { Err(Errno::NOSPC) } else { Ok((range, taken)) }
}

/// Bytes that a file may be given at once; `None` if what is free is left to others.
fn step_of(system: &StatVfs) -> Option<u64> {
    let last = LAST.min(system.f_blocks.saturating_mul(system.f_frsize) / 20);
    let free = for_stores(system);
    (free >= SMALLEST).then(|| free.saturating_sub(last).max(SMALLEST))
}

/// Free bytes of a file system that stores may take.
pub fn for_stores(system: &StatVfs) -> u64 {
    free(system).saturating_sub(left(system))
}

/// Bytes that a file system lacks of those that stores leave free.
fn lacking(system: &StatVfs) -> u64 {
    left(system).saturating_sub(free(system))
}

fn free(system: &StatVfs) -> u64 {
    system.f_bavail.saturating_mul(system.f_frsize)
}

fn left(system: &StatVfs) -> u64 {
    LEFT.min(system.f_blocks.saturating_mul(system.f_frsize) / 16)
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(blockstore::BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const BLOCK: u64 = blockstore::BLOCK;
    const MIB: u64 = 1 << 20;

    /// A file system of 300 MiB, and what another file takes of it after this one asked what is free.
    struct Fake {
        free: Cell<u64>,
        has: Cell<u64>,
        other: Cell<u64>,
    }

    impl Fake {
        fn new(free: u64, other: u64) -> Self {
            Self { free: Cell::new(free), has: Cell::new(0), other: Cell::new(other) }
        }
    }

    impl Extensible for Fake {
        fn system(&self) -> Result<StatVfs, Errno> {
            let free = self.free.get() / BLOCK;
            Ok(StatVfs {
                f_bsize: BLOCK,
                f_frsize: BLOCK,
                f_blocks: 300 * MIB / BLOCK,
                f_bfree: free,
                f_bavail: free,
                f_files: 0,
                f_ffree: 0,
                f_favail: 0,
                f_fsid: 0,
                f_flag: rustix::fs::StatVfsMountFlags::empty(),
                f_namemax: 255,
            })
        }

        fn bytes(&self) -> Result<u64, Errno> {
            Ok(self.has.get())
        }

        fn allocate(&self, range: &Range<u64>) -> Result<(), Errno> {
            self.free.set(self.free.get() - self.other.take());
            let len = range.end - range.start;
            let free = self.free.get().checked_sub(len).ok_or(Errno::NOSPC)?;
            self.free.set(free);
            self.has.set(self.has.get() + len);
            Ok(())
        }

        fn punch(&self, range: &Range<u64>) -> Result<(), Errno> {
            let len = range.end - range.start;
            self.free.set(self.free.get() + len);
            self.has.set(self.has.get() - len);
            Ok(())
        }
    }

    /// What stores leave of 300 MiB.
    const OTHERS: u64 = 300 * MIB / 16;

    #[test]
    fn a_file_alone_takes_what_is_not_left_to_others() {
        let file = Fake::new(100 * MIB, 0);
        assert_eq!(allocate_most(&file, &(0..64 * MIB), 0), Ok((0..64 * MIB, 0)));
        while let Ok((range, _)) = allocate_most(&file, &(0..64 * MIB), 0) {
            assert!(range.end >= MIB && file.free.get() >= OTHERS, "{range:?}, {} free", file.free.get());
        }
        assert!((OTHERS..OTHERS + MIB).contains(&file.free.get()), "{} free", file.free.get());
    }

    #[test]
    fn two_files_that_grow_at_once_leave_the_same_to_others() {
        // The other one takes so much that nothing, a part or all of this one's step is too much.
        for other in 0..100 {
            let file = Fake::new(100 * MIB, other * MIB);
            let allocated = allocate_most(&file, &(0..64 * MIB), 0);
            let has = allocated.map_or(0, |(range, _)| range.end - range.start);
            assert_eq!(has, file.has.get(), "{other} MiB are the other's");
            let least = OTHERS.min((100 - other) * MIB);
            assert!(file.free.get() >= least, "{} of {least} are free: {other} MiB", file.free.get());
        }
    }

    #[test]
    fn of_what_is_left_no_more_is_taken_than_allowed() {
        let file = Fake::new(10 * MIB, 0);
        assert_eq!(allocate_most(&file, &(0..64 * MIB), 0), Err(Errno::NOSPC));
        assert_eq!((file.free.get(), file.has.get()), (10 * MIB, 0));
        assert_eq!(allocate_most(&file, &(0..64 * MIB), 4 * MIB), Ok((0..MIB, MIB)));
    }
}
