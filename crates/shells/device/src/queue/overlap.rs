//! Ranges that are being read or written.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Lets requests of different ranges, and reads, run together, and others one after the other.
#[derive(Default)]
pub struct Overlap {
    held: Mutex<Vec<(Range<u64>, Access)>>,
    freed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Shared,
    Alone,
}

/// A range that is held until this is dropped.
pub struct Held<'a> {
    overlap: &'a Overlap,
    range: Range<u64>,
    access: Access,
}

impl Overlap {
    /// Waits until the range is not written.
    pub fn share(&self, range: Range<u64>) -> Held<'_> {
        self.hold(range, Access::Shared)
    }

    /// Waits until the range is neither read nor written.
    pub fn take(&self, range: Range<u64>) -> Held<'_> {
        self.hold(range, Access::Alone)
    }

    fn hold(&self, range: Range<u64>, access: Access) -> Held<'_> {
        let clash = |(other, theirs): &(Range<u64>, Access)| {
            other.start < range.end
                && range.start < other.end
                && (access == Access::Alone || *theirs == Access::Alone)
        };
        let mut held = self.ranges();
        while held.iter().any(clash) {
            held = self.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        held.push((range.clone(), access));
        Held { overlap: self, range, access }
    }

    /// A panic elsewhere doesn't make the list wrong.
    fn ranges(&self) -> MutexGuard<'_, Vec<(Range<u64>, Access)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.overlap.ranges();
        if let Some(at) =
            held.iter().position(|(range, access)| *range == self.range && *access == self.access)
        {
            held.swap_remove(at);
        }
        drop(held);
        self.overlap.freed.notify_all();
    }
}
