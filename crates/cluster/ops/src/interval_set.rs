//! Sets of half-open ranges of u64 (Ceph's interval_set<uint64_t>).

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Disjoint, non-empty, non-adjacent ranges as (start, length), ascending.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct IntervalSet(Vec<(u64, u64)>);

impl IntervalSet {
    /// No range.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// One range; empty when `len` is 0. A range past the end of u64 is cut there.
    pub fn range(start: u64, len: u64) -> Self {
        match len.min(u64::MAX - start) {
            0 => Self::new(),
            len => Self(vec![(start, len)]),
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
        self.0.splice(from..to, [(low, high - low)]);
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
        self.0.splice(from..to, first.into_iter().chain(last).filter(|r| r.1 > 0));
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
        e.put(&self.0);
    }
}
impl Decode for IntervalSet {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let n = d.count(16, "interval_set")?;
        let mut out = Self::new();
        let mut end = None;
        for _ in 0..n {
            let (start, len): (u64, u64) = d.get()?;
            let bad = |value| DecodeError::BadValue { what: "interval_set", value };
            if len == 0 || end.is_some_and(|end| start <= end) {
                return Err(bad(start));
            }
            end = Some(start.checked_add(len).ok_or(bad(len))?);
            out.0.push((start, len));
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
    fn the_whole_range_loses_a_hole_and_ends_stay() {
        let mut set = IntervalSet::range(0, u64::MAX);
        set.remove(10, 5);
        set.remove(u64::MAX - 3, 100);
        assert_eq!(set.ranges(), [(0, 10), (15, u64::MAX - 3 - 15)]);
    }
}
