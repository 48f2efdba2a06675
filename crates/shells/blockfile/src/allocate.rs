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

/// Gives the file as many bytes of these ranges as a file system that is nearly full has at once; returns those, and how many of them
/// count as taken of what is left for others, of which it gains at most `of_left`. What the file had already takes nothing: which bytes
/// that are, the store does not know when it is opened.
///
/// The store has nothing in these ranges, and writes nothing there meanwhile: holes are made in them, and nowhere else.
///
/// # Errors
/// The system's; `NOSPC` also where what is free is left to others.
pub fn allocate_most(
    file: &impl Extensible,
    ranges: &[Range<u64>],
    of_left: u64,
) -> Result<(Vec<Range<u64>>, u64), Errno> {
    let step = step_of(&file.system()?);
    let (mut ranges, _) = divided(ranges, whole_blocks(step.unwrap_or(SMALLEST)));
    let before = file.bytes()?;
    loop {
        match ranges.iter().try_for_each(|range| file.allocate(range)) {
            Err(Errno::NOSPC | Errno::DQUOT) if bytes_of(&ranges) >= 2 * SMALLEST => {
                // Some of them may have been allocated.
                ranges = keep_first(file, &ranges, whole_blocks(bytes_of(&ranges) / 2))?;
            }
            other => break other?,
        }
    }
    let gained = file.bytes()?.saturating_sub(before);
    let (kept, taken) = match step {
        // Other stores may have asked at the same moment: each of them then gives up what is too much.
        Some(_) => (gained.saturating_sub(lacking(&file.system()?)), 0),
        None if gained > of_left => (0, 0),
        // Also what it had: who opens the store again and again would otherwise take all, a little each time.
        None => (gained, bytes_of(&ranges)),
    };
    if kept < gained {
        let len = bytes_of(&ranges).saturating_sub(whole_blocks(gained - kept));
        ranges = keep_first(file, &ranges, len)?;
    }
    if ranges.is_empty() { Err(Errno::NOSPC) } else { Ok((ranges, taken)) }
}

pub fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The first so many bytes of these ranges, and the others.
fn divided(ranges: &[Range<u64>], mut bytes: u64) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for range in ranges {
        let border = range.start + bytes.min(range.end - range.start);
        bytes -= border - range.start;
        first.extend((range.start < border).then_some(range.start..border));
        rest.extend((border < range.end).then_some(border..range.end));
    }
    (first, rest)
}

/// Keeps the first so many bytes, and makes holes of the others.
fn keep_first(file: &impl Extensible, ranges: &[Range<u64>], bytes: u64) -> Result<Vec<Range<u64>>, Errno> {
    let (kept, rest) = divided(ranges, bytes);
    rest.iter().try_for_each(|range| file.punch(range))?;
    Ok(kept)
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
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    const BLOCK: u64 = blockstore::BLOCK;
    const MIB: u64 = 1 << 20;

    /// A file system of 300 MiB, the blocks that a file has of it, and what another file takes after this one asked what is free.
    struct Fake {
        free: Cell<u64>,
        has: RefCell<BTreeSet<u64>>,
        other: Cell<u64>,
        /// Blocks that hold something.
        in_use: BTreeSet<u64>,
    }

    impl Fake {
        fn new(free: u64, other: u64) -> Self {
            let (has, in_use) = (RefCell::default(), BTreeSet::new());
            Self { free: Cell::new(free), has, other: Cell::new(other), in_use }
        }

        fn has_bytes(&self) -> u64 {
            self.has.borrow().len() as u64 * BLOCK
        }
    }

    fn one(start: u64, end: u64) -> Vec<Range<u64>> {
        std::iter::once(start..end).collect()
    }

    fn blocks(range: &Range<u64>) -> Range<u64> {
        assert!(range.start.is_multiple_of(BLOCK) && range.end.is_multiple_of(BLOCK), "{range:?}");
        range.start / BLOCK..range.end / BLOCK
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
            Ok(self.has_bytes())
        }

        fn allocate(&self, range: &Range<u64>) -> Result<(), Errno> {
            self.free.set(self.free.get() - self.other.take());
            for block in blocks(range) {
                if self.has.borrow().contains(&block) {
                    continue;
                }
                // What it has taken until then stays its.
                self.free.set(self.free.get().checked_sub(BLOCK).ok_or(Errno::NOSPC)?);
                self.has.borrow_mut().insert(block);
            }
            Ok(())
        }

        fn punch(&self, range: &Range<u64>) -> Result<(), Errno> {
            for block in blocks(range) {
                assert!(!self.in_use.contains(&block), "a hole is made in block {block}, which is in use");
                if self.has.borrow_mut().remove(&block) {
                    self.free.set(self.free.get() + BLOCK);
                }
            }
            Ok(())
        }
    }

    /// What stores leave of 300 MiB.
    const OTHERS: u64 = 300 * MIB / 16;

    #[test]
    fn a_file_alone_takes_what_is_not_left_to_others() {
        let file = Fake::new(100 * MIB, 0);
        let mut next = 0;
        let mut step = || {
            let allocated = allocate_most(&file, &one(next, next + 64 * MIB), 0);
            next = allocated.as_ref().map_or(next, |(ranges, _)| ranges[0].end);
            allocated
        };
        assert_eq!(step(), Ok((one(0, 64 * MIB), 0)));
        while let Ok((ranges, _)) = step() {
            assert!(
                bytes_of(&ranges) >= MIB && file.free.get() >= OTHERS,
                "{ranges:?}, {} free",
                file.free.get()
            );
        }
        assert!((OTHERS..OTHERS + MIB).contains(&file.free.get()), "{} free", file.free.get());
    }

    #[test]
    fn two_files_that_grow_at_once_leave_the_same_to_others() {
        // The other one takes so much that nothing, a part or all of this one's step is too much.
        for other in 0..100 {
            let file = Fake::new(100 * MIB, other * MIB);
            let allocated = allocate_most(&file, &[0..40 * MIB, 50 * MIB..74 * MIB], 0);
            let has = allocated.map_or(0, |(ranges, _)| bytes_of(&ranges));
            assert_eq!(has, file.has_bytes(), "{other} MiB are the other's");
            let least = OTHERS.min((100 - other) * MIB);
            assert!(file.free.get() >= least, "{} of {least} are free: {other} MiB", file.free.get());
        }
    }

    #[test]
    fn of_what_is_left_no_more_is_taken_than_allowed() {
        let file = Fake::new(10 * MIB, 0);
        assert_eq!(allocate_most(&file, &one(0, 64 * MIB), 0), Err(Errno::NOSPC));
        assert_eq!((file.free.get(), file.has_bytes()), (10 * MIB, 0));
        assert_eq!(allocate_most(&file, &one(0, 64 * MIB), 4 * MIB), Ok((one(0, MIB), MIB)));
        // It has these already: for the next opening they count the same.
        assert_eq!(allocate_most(&file, &one(0, 64 * MIB), 4 * MIB), Ok((one(0, MIB), MIB)));
        assert_eq!(file.has_bytes(), MIB);
    }

    #[test]
    fn no_hole_is_made_between_the_ranges() {
        for (free, other) in
            [(10 * MIB, 0), (20 * MIB, 0), (100 * MIB, 70 * MIB), (100 * MIB, 95 * MIB), (MIB / 2, 0)]
        {
            for of_left in [0, 4 * MIB] {
                // Holes of one to four blocks between others that are in use; some that are not have bytes all the same.
                let mut file = Fake::new(free, other);
                let (mut ranges, mut at) = (Vec::new(), 0);
                for n in 0..4000 {
                    let hole = at..at + 1 + n % 4;
                    at = hole.end + 1 + n % 7;
                    file.in_use.extend(hole.end..at);
                    if n % 3 == 0 {
                        file.has.borrow_mut().extend(hole.clone());
                    }
                    ranges.push(hole.start * BLOCK..hole.end * BLOCK);
                }
                file.has.borrow_mut().extend(&file.in_use);
                while let Ok((given, _)) = allocate_most(&file, &ranges, of_left) {
                    let mut given_blocks = given.iter().flat_map(blocks);
                    assert!(given_blocks.all(|block| file.has.borrow().contains(&block)), "a hole is given");
                    let (_, rest) = divided(&ranges, bytes_of(&given));
                    ranges = rest;
                    if ranges.is_empty() {
                        break;
                    }
                }
                assert!(file.in_use.iter().all(|block| file.has.borrow().contains(block)));
            }
        }
    }
}
