//! What a cache holds that the medium doesn't have yet: byte ranges, by the flush that will cover them.

use std::collections::BTreeMap;

/// Ranges by epoch. Bytes on their way to the medium count until they are there. A byte that is written again before it
/// leaves keeps its epoch: a flush that waits for it gets the newer one.
#[derive(Clone, Default, Debug)]
pub(crate) struct Dirty {
    epochs: BTreeMap<u64, Epoch>,
    /// Where the sweep over the addresses is.
    cursor: u64,
}

#[derive(Clone, Default, Debug)]
struct Epoch {
    /// From first byte to the byte behind the last; none touches another.
    ranges: BTreeMap<u64, u64>,
    /// Bytes of `ranges`.
    held: u64,
    /// Bytes on their way to the medium.
    leaving: u64,
}

impl Dirty {
    /// Bytes held or on their way.
    pub(crate) fn bytes(&self) -> u64 {
        self.epochs.values().map(|e| e.held + e.leaving).sum()
    }

    /// Whether there is anything of an epoch or an older one.
    pub(crate) fn any_up_to(&self, epoch: u64) -> bool {
        self.epochs.range(..=epoch).next().is_some()
    }

    /// Whether a range lies within one of those held.
    pub(crate) fn holds(&self, offset: u64, end: u64) -> bool {
        self.epochs.values().any(|e| e.ranges.range(..=offset).next_back().is_some_and(|r| *r.1 >= end))
    }

    /// A write of an epoch.
    pub(crate) fn add(&mut self, epoch: u64, offset: u64, end: u64) {
        let mut at = offset;
        while at < end {
            let held = self.epochs.values().find_map(|e| e.end_of(at));
            if let Some(behind) = held {
                at = behind;
                continue;
            }
            let next = self.epochs.values().filter_map(|e| e.ranges.range(at..).next()).map(|r| *r.0).min();
            let stop = next.map_or(end, |n| n.min(end));
            self.epochs.entry(epoch).or_default().insert(at, stop);
            at = stop;
        }
    }

    /// A range need not reach the medium.
    pub(crate) fn forget(&mut self, offset: u64, end: u64) {
        self.epochs.values_mut().for_each(|e| e.cut(offset, end));
        self.epochs.retain(|_, e| e.held + e.leaving > 0);
    }

    /// What should go to the medium next: its epoch, first byte and bytes. It is on its way then.
    pub(crate) fn next(&mut self, bytes_max: u64) -> Option<(u64, u64, u64)> {
        let (number, epoch) = self.epochs.iter_mut().find(|(_, e)| e.held > 0)?;
        let ahead = epoch.ranges.range(self.cursor..).next();
        let (&start, &end) = ahead.or_else(|| epoch.ranges.iter().next())?;
        let stop = end.min(start + bytes_max);
        epoch.ranges.remove(&start);
        if stop < end {
            epoch.ranges.insert(stop, end);
        }
        epoch.held -= stop - start;
        epoch.leaving += stop - start;
        self.cursor = stop;
        Some((*number, start, stop - start))
    }

    /// Bytes of an epoch have reached the medium.
    pub(crate) fn destaged(&mut self, epoch: u64, bytes: u64) {
        let Some(e) = self.epochs.get_mut(&epoch) else { return };
        e.leaving -= bytes;
        if e.held + e.leaving == 0 {
            self.epochs.remove(&epoch);
        }
    }
}

impl Epoch {
    /// The end of the range that has a byte.
    fn end_of(&self, at: u64) -> Option<u64> {
        self.ranges.range(..=at).next_back().map(|r| *r.1).filter(|end| *end > at)
    }

    /// Adds a range that overlaps none, and joins it with those that it touches.
    fn insert(&mut self, start: u64, end: u64) {
        self.held += end - start;
        let (mut start, mut end) = (start, end);
        if let Some((&before, _)) = self.ranges.range(..start).next_back().filter(|r| *r.1 == start) {
            start = before;
        }
        if let Some(behind) = self.ranges.remove(&end) {
            end = behind;
        }
        self.ranges.insert(start, end);
    }

    /// Takes a range out.
    fn cut(&mut self, offset: u64, end: u64) {
        while let Some((&start, &stop)) = self.ranges.range(..end).next_back().filter(|r| *r.1 > offset) {
            self.ranges.remove(&start);
            self.held -= stop.min(end) - start.max(offset);
            if start < offset {
                self.ranges.insert(start, offset);
            }
            if stop > end {
                self.ranges.insert(end, stop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_are_swept_in_order() {
        let mut d = Dirty::default();
        for at in [30, 10, 20, 50] {
            d.add(0, at, at + 10);
        }
        assert_eq!((d.bytes(), d.next(15)), (40, Some((0, 10, 15))));
        assert_eq!((d.next(100), d.next(100)), (Some((0, 25, 15)), Some((0, 50, 10))));
        d.add(0, 0, 5);
        assert_eq!((d.next(9), d.next(9)), (Some((0, 0, 5)), None));
        [15, 15, 10, 5].into_iter().for_each(|bytes| d.destaged(0, bytes));
        assert!(d.bytes() == 0 && !d.any_up_to(9));
    }

    #[test]
    fn a_byte_written_again_keeps_its_epoch_and_older_epochs_go_first() {
        let mut d = Dirty::default();
        d.add(0, 10, 20);
        d.add(1, 0, 30);
        assert_eq!(d.bytes(), 30);
        assert!(d.holds(12, 20) && !d.holds(12, 21), "pieces of two epochs");
        assert_eq!(d.next(100), Some((0, 10, 10)));
        assert!(d.any_up_to(0));
        d.destaged(0, 10);
        assert!(!d.any_up_to(0));
        assert_eq!((d.next(100), d.next(100)), (Some((1, 20, 10)), Some((1, 0, 10))));
    }

    #[test]
    fn what_is_forgotten_need_not_go() {
        let mut d = Dirty::default();
        d.add(0, 0, 100);
        d.add(1, 200, 300);
        d.forget(50, 250);
        assert_eq!(d.bytes(), 100);
        d.forget(0, 50);
        assert!(!d.any_up_to(0));
        assert_eq!(d.next(1000), Some((1, 250, 50)));
    }
}
