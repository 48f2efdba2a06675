//! Sets of u64 as ranges: extents of an object, snapshots' ids.

use std::ops::Range;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use smallvec::{SmallVec, smallvec};

/// Disjoint, non-empty, non-adjacent half-open ranges as (start, length), ascending (Ceph's `interval_set<uint64_t>` and
/// `interval_set<snapid_t>`, which are encoded alike).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct IntervalSet(Ranges);

/// Most sets have one range, which needs no memory of its own.
type Ranges = SmallVec<[(u64, u64); 1]>;

impl IntervalSet {
    /// No range.
    pub const fn new() -> Self {
        Self(SmallVec::new_const())
    }

    /// One range; empty when `len` is 0. A range past the end of u64 is cut there.
    pub fn range(start: u64, len: u64) -> Self {
        match len.min(u64::MAX - start) {
            0 => Self::new(),
            len => Self(smallvec![(start, len)]),
        }
    }

    /// The ranges as (start, length).
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of the lengths.
    pub fn size(&self) -> u64 {
        self.0.iter().map(|r| r.1).sum()
    }

    /// Whether `value` is in a range.
    pub fn contains(&self, value: u64) -> bool {
        let after = self.0.partition_point(|&(s, _)| s <= value);
        self.0[..after].last().is_some_and(|&(s, l)| value - s < l)
    }

    /// Adds `[start, start + len)`, joining what it touches.
    pub fn insert(&mut self, start: u64, len: u64) {
        let len = len.min(u64::MAX - start);
        if len == 0 {
            return;
        }
        let end = start + len;
        let from = self.0.partition_point(|&(s, l)| s + l < start);
        let to = self.0.partition_point(|&(s, _)| s <= end);
        let (mut low, mut high) = (start, end);
        if let (true, Some(&(s, _))) = (from < to, self.0.get(from)) {
            low = low.min(s);
        }
        if let (true, Some(&(s, l))) = (from < to, self.0.get(to.wrapping_sub(1))) {
            high = high.max(s + l);
        }
        self.replace(from..to, [(low, high - low)]);
    }

    /// Takes `[start, start + len)` away.
    pub fn remove(&mut self, start: u64, len: u64) {
        let len = len.min(u64::MAX - start);
        if len == 0 {
            return;
        }
        let end = start + len;
        let from = self.0.partition_point(|&(s, l)| s + l <= start);
        let to = self.0.partition_point(|&(s, _)| s < end);
        if from >= to {
            return;
        }
        let first = self.0.get(from).map(|&(s, _)| (s, start.saturating_sub(s)));
        let last = self.0.get(to - 1).map(|&(s, l)| (end, (s + l).saturating_sub(end)));
        let [first, last] = [first, last].map(|range| range.filter(|range| range.1 > 0));
        match (first, last) {
            (Some(first), Some(last)) => self.replace(from..to, [first, last]),
            (Some(one), None) | (None, Some(one)) => self.replace(from..to, [one]),
            (None, None) => self.replace(from..to, []),
        }
    }

    /// Puts `ranges` where those of the places `at` are.
    fn replace<const N: usize>(&mut self, at: Range<usize>, ranges: [(u64, u64); N]) {
        let kept = at.len().min(N);
        self.0[at.start..at.start + kept].copy_from_slice(&ranges[..kept]);
        self.0.drain(at.start + kept..at.end);
        self.0.insert_many(at.start + kept, ranges.into_iter().skip(kept));
    }

    /// Adds all of `other`.
    pub fn union(&mut self, other: &Self) {
        other.0.iter().for_each(|&(start, len)| self.insert(start, len));
    }

    /// Takes all of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        other.0.iter().for_each(|&(start, len)| self.remove(start, len));
    }

    /// Keeps only what is in `other` too.
    pub fn intersect(&mut self, other: &Self) {
        let mut both = Ranges::new();
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(&&(x, x_len)), Some(&&(y, y_len))) = (a.peek(), b.peek()) {
            let (start, end) = (x.max(y), (x + x_len).min(y + y_len));
            if start < end {
                both.push((start, end - start));
            }
            if x + x_len < y + y_len {
                a.next()
            } else {
                b.next()
            };
        }
        self.0 = both;
    }

    /// Drops shortest ranges until at most `max` remain.
    pub fn keep_longest(&mut self, max: usize) {
        while self.0.len() > max {
            let shortest = self.0.iter().enumerate().min_by_key(|(_, r)| r.1).map_or(0, |(i, _)| i);
            self.0.remove(shortest);
        }
    }
}

impl Encode for IntervalSet {
    fn encode(&self, e: &mut Encoder) {
        e.put(&*self.0);
    }
}
impl Decode for IntervalSet {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let n = d.count(16, "interval_set")?;
        let mut out = Self::new();
        for _ in 0..n {
            let (start, len): (u64, u64) = d.get()?;
            let bad = |value| DecodeError::BadValue { what: "interval_set", value };
            if len == 0 || start.checked_add(len).is_none() {
                return Err(bad(len));
            }
            match out.0.last_mut() {
                Some((s, l)) if start < *s + *l => return Err(bad(start)),
                // Ceph never writes ranges that touch each other, but reads them.
                Some((s, l)) if start == *s + *l => *l += len,
                _ => out.0.push((start, len)),
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_bitmap(steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..12), 0..40)) {
            let (mut set, mut bits) = (IntervalSet::new(), [false; 64]);
            for (add, start, len) in steps {
                if add { set.insert(start, len) } else { set.remove(start, len) }
                (start..start + len).for_each(|i| bits[i as usize] = add);
                let mut from_set = [false; 64];
                set.ranges().iter().for_each(|&(s, l)| (s..s + l).for_each(|i| from_set[i as usize] = true));
                prop_assert_eq!(from_set, bits);
                let mut both = set.clone();
                both.intersect(&IntervalSet(smallvec![(3, 4), (9, 1), (20, 30)]));
                let mut rest = set.clone();
                for (start, len) in [(0, 3), (7, 2), (10, 10), (50, 20)] {
                    rest.remove(start, len);
                }
                prop_assert_eq!(both, rest);
                (0..64).for_each(|i| assert_eq!(set.contains(i), bits[i as usize], "{i} in {set:?}"));
                prop_assert!(set.ranges().windows(2).all(|w| w[0].0 + w[0].1 < w[1].0));
                prop_assert_eq!(IntervalSet::from_bytes_exact(&set.to_bytes(0)), Ok(set.clone()));
            }
        }

        #[test]
        fn decoding_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = IntervalSet::from_bytes(&bytes);
        }
    }

    #[test]
    fn touching_ranges_are_read_as_one_and_overlapping_or_empty_ones_refused() {
        let read = |ranges: &[(u64, u64)]| IntervalSet::from_bytes_exact(&ranges.to_vec().to_bytes(0));
        assert_eq!(read(&[(1, 2), (3, 4), (9, 1)]).map(|s| s.0.to_vec()), Ok(vec![(1, 6), (9, 1)]));
        for refused in [&[(1, 3), (3, 1)][..], &[(5, 1), (1, 1)], &[(4, 0)], &[(u64::MAX, 1)]] {
            assert!(matches!(read(refused), Err(DecodeError::BadValue { .. })), "{refused:?}");
        }
    }

    #[test]
    fn union_and_difference_go_range_by_range() {
        let mut set = IntervalSet::range(0, 10);
        set.union(&IntervalSet(smallvec![(8, 4), (20, 2)]));
        set.subtract(&IntervalSet(smallvec![(2, 2), (21, 5)]));
        assert_eq!(set.ranges(), [(0, 2), (4, 8), (20, 1)]);
    }

    #[test]
    fn the_whole_range_loses_a_hole_and_ends_stay() {
        let mut set = IntervalSet::range(0, u64::MAX);
        set.remove(10, 5);
        set.remove(u64::MAX - 3, 100);
        assert_eq!(set.ranges(), [(0, 10), (15, u64::MAX - 3 - 15)]);
    }
}
