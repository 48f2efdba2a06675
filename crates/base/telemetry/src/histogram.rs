//! Counts of durations by size, fine enough for percentiles to p99.99.

use core::ops::AddAssign;

/// Buckets of each power of two: a bucket is less than 1% wide.
const BUCKETS: usize = 128;
const BITS: u32 = BUCKETS.trailing_zeros();
/// Those of all 64-bit numbers.
const BUCKETS_ALL: usize = (64 - BITS as usize + 1) * BUCKETS;

/// Durations in nanoseconds, counted in buckets whose width is at most 1/128 of their bound: one below 128 ns is exact.
/// Two histograms add up to that of all their durations.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    nanos: u128,
    /// The sum of the squares of microseconds.
    squares: f64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Vec::new(), count: 0, nanos: 0, squares: 0.0, min: u64::MAX, max: 0 }
    }
}

/// The bucket of a duration.
fn bucket(nanos: u64) -> usize {
    let shift = (64 - BITS).saturating_sub(nanos.leading_zeros() + 1);
    // The bits below the highest one number the bucket within its power of two.
    (shift as usize) * BUCKETS + (nanos >> shift) as usize
}

/// The largest duration of a bucket.
fn bound(bucket: usize) -> u64 {
    let shift = (bucket / BUCKETS).saturating_sub(1);
    let first = (bucket - shift * BUCKETS) as u64;
    (first << shift) + ((1 << shift) - 1)
}

impl Histogram {
    pub fn add(&mut self, nanos: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS_ALL];
        }
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count += 1;
        }
        self.count += 1;
        self.nanos += u128::from(nanos);
        let micros = nanos as f64 / 1e3;
        self.squares += micros * micros;
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// `None` of none; likewise the others.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.nanos as f64 / self.count as f64)
    }

    /// The standard deviation of the durations themselves.
    pub fn stddev(&self) -> Option<f64> {
        let mean = self.mean()? / 1e3;
        let variance = self.squares / self.count as f64 - mean * mean;
        Some(variance.max(0.0).sqrt() * 1e3)
    }

    /// What `percent` (above 0, at most 100) of a hundred durations do not exceed: the upper bound of a bucket, which errs
    /// upwards by less than 1%, and never above the longest duration.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        // 99.9 per cent of 10,000 must be 9,990, though the product is a hair above.
        let rank = (percent / 100.0 * self.count as f64 - 1e-6).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map(|bucket| bound(bucket).min(self.max))
    }

    /// The buckets that are not empty, ascending: the largest duration of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(at, count)| (bound(at), *count))
    }

    /// Empties it, and keeps its memory.
    pub fn clear(&mut self) {
        let mut counts = core::mem::take(&mut self.counts);
        counts.fill(0);
        *self = Self { counts, ..Self::default() };
    }
}

impl AddAssign<&Self> for Histogram {
    fn add_assign(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else {
            self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        }
        self.count += other.count;
        self.nanos += other.nanos;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SplitMix64;

    #[test]
    fn every_duration_is_in_a_bucket_that_is_less_than_a_percent_wide() {
        let mut random = SplitMix64::new(1);
        let numbers = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let drawn: Vec<u64> = (0..10_000).map(|i| random.next_u64() >> (i % 64)).collect();
        for nanos in numbers.chain(drawn).chain([u64::MAX]) {
            let at = bucket(nanos);
            assert!(at < BUCKETS_ALL, "{nanos}");
            assert!(bound(at) >= nanos, "{nanos}");
            assert!((bound(at) - nanos) as f64 <= nanos as f64 / 100.0, "{nanos} up to {}", bound(at));
            assert!(at == 0 || bound(at - 1) < nanos, "{nanos} is in the first bucket that has room for it");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_durations() {
        let mut random = SplitMix64::new(2);
        let mut durations: Vec<u64> = (0..20_000).map(|_| 1 + random.below(5_000_000)).collect();
        let mut histogram = Histogram::default();
        durations.iter().for_each(|nanos| histogram.add(*nanos));
        durations.sort_unstable();
        for percent in [0.1, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
            let rank = (percent / 100.0 * durations.len() as f64).ceil() as usize;
            let (found, exact) = (histogram.percentile(percent).unwrap(), durations[rank - 1]);
            assert!(
                found >= exact && found as f64 <= exact as f64 * 1.01,
                "p{percent}: {found}, not {exact}"
            );
        }
        assert_eq!(
            (histogram.min(), histogram.max()),
            (durations.first().copied(), durations.last().copied())
        );
    }

    #[test]
    fn two_histograms_add_up_to_that_of_all() {
        let (mut both, mut parts) = (Histogram::default(), [Histogram::default(), Histogram::default()]);
        for nanos in [5, 5_000, 90_000, 2_000_000, 7] {
            both.add(nanos);
            parts[usize::from(nanos > 6000)].add(nanos);
        }
        let mut sum = Histogram::default();
        parts.iter().for_each(|part| sum += part);
        assert_eq!(sum.buckets().collect::<Vec<_>>(), both.buckets().collect::<Vec<_>>());
        assert_eq!(
            (sum.count(), sum.min(), sum.max(), sum.mean()),
            (5, Some(5), Some(2_000_000), both.mean())
        );
        assert!((sum.stddev().unwrap() - both.stddev().unwrap()).abs() < 1.0);
        sum.clear();
        assert_eq!((sum.count(), sum.percentile(50.0), sum.buckets().count()), (0, None, 0));
        sum.add(3);
        assert_eq!(sum.min(), Some(3));
    }

    #[test]
    fn nothing_has_no_percentile() {
        let empty = Histogram::default();
        assert_eq!(
            (empty.percentile(99.0), empty.mean(), empty.min(), empty.stddev()),
            (None, None, None, None)
        );
    }
}
