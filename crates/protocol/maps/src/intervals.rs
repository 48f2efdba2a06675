//! Sets of snapshot ids as ranges (Ceph's interval_set).

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Snapshot ids as disjoint ranges, each a start and a length of at least 1.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SnapIntervals(BTreeMap<u64, u64>);

impl SnapIntervals {
    /// The empty set.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, ascending: start and length.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(&start, &len)| (start, len))
    }

    /// Whether `id` is in it.
    pub fn contains(&self, id: u64) -> bool {
        self.0.range(..=id).next_back().is_some_and(|(&start, &len)| id - start < len)
    }

    /// Adds `len` ids from `start`; ranges that touch become one.
    pub fn insert(&mut self, start: u64, len: u64) {
        let (mut from, mut to) = (start, start.saturating_add(len));
        if from == to {
            return;
        }
        // Ranges that begin at or before the new one's end and reach its start are swallowed.
        while let Some((&s, &l)) = self.0.range(..=to).next_back() {
            let end = s.saturating_add(l);
            if end < from {
                break;
            }
            from = from.min(s);
            to = to.max(end);
            self.0.remove(&s);
        }
        self.0.insert(from, to - from);
    }

    /// Removes `len` ids from `start`, those of them that are there.
    pub fn remove(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        if start == end {
            return;
        }
        while let Some((&s, &l)) = self.0.range(..end).next_back() {
            let e = s.saturating_add(l);
            if e <= start {
                break;
            }
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start - s);
            }
            if e > end {
                self.0.insert(end, e - end);
            }
        }
    }

    /// Adds all of `other`.
    pub fn union(&mut self, other: &Self) {
        other.ranges().for_each(|(start, len)| self.insert(start, len));
    }

    /// Removes all of `other`.
    pub fn subtract(&mut self, other: &Self) {
        other.ranges().for_each(|(start, len)| self.remove(start, len));
    }
}

impl Encode for SnapIntervals {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.0);
    }
}
impl Decode for SnapIntervals {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let n = d.count(16, "interval_set")?;
        let mut set = Self::new();
        for _ in 0..n {
            let (start, len) = (d.get()?, d.get()?);
            set.insert(start, len);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_behaves_like_a_set_of_numbers() {
        let mut random = types::SplitMix64::new(7);
        let (mut set, mut model) = (SnapIntervals::new(), std::collections::BTreeSet::new());
        for _ in 0..2000 {
            let (start, len) = (random.below(60), random.below(8));
            match random.below(2) {
                0 => {
                    set.insert(start, len);
                    model.extend(start..start + len);
                }
                _ => {
                    set.remove(start, len);
                    model.retain(|i| !(start..start + len).contains(i));
                }
            }
            for id in 0..70 {
                assert_eq!(set.contains(id), model.contains(&id), "{id} in {set:?}");
            }
            let ranges: Vec<_> = set.ranges().collect();
            assert!(ranges.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "touching ranges: {set:?}");
        }
    }
}
