//! Latency bins of fio's `json+` output. Pure.
//!
//! fio counts completions in bins: exact below 128 ns, then 64 bins to each doubling. Its output names a bin by the
//! middle of its range, so the width follows from the name: a 64th of the power of two below it. Ours are named by
//! their upper bound: a percentile read from them errs upwards by at most 1/64 (1.6%).

use std::collections::BTreeMap;

use results::Histogram;

/// Bins below this many nanoseconds are one nanosecond wide.
const EXACT: u64 = 128;

/// Bins to each doubling.
const BINS_LOG2: u32 = 6;

/// From fio's bins (middle in nanoseconds, count).
#[must_use]
pub fn of_bins(bins: &BTreeMap<u64, u64>) -> Histogram {
    let bucket = |(&middle, &count): (&u64, &u64)| (upper_bound(middle) as f64 / 1e3, count);
    Histogram { buckets: bins.iter().filter(|b| *b.1 > 0).map(bucket).collect() }
}

fn upper_bound(middle: u64) -> u64 {
    match middle.checked_ilog2() {
        Some(log2) if middle >= EXACT => middle.saturating_add((1 << (log2 - BINS_LOG2)) / 2),
        _ => middle,
    }
}

/// Counts added up.
#[must_use]
pub fn merged(all: &[&Histogram]) -> Histogram {
    // By the bits of the bound, which for numbers from 0 up have the numbers' order.
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (bound, count) in all.iter().flat_map(|h| &h.buckets) {
        *counts.entry((bound + 0.0).to_bits()).or_default() += count;
    }
    Histogram { buckets: counts.into_iter().map(|(bits, count)| (f64::from_bits(bits), count)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_bound_follows_from_the_middle() {
        // 24,772,608 is the middle of the 262,144 ns from 24,641,536 on.
        assert_eq!(upper_bound(24_772_608), 24_641_536 + 262_144);
        assert_eq!((upper_bound(0), upper_bound(127)), (0, 127));
        // 128 and 129 share a bin.
        assert_eq!(upper_bound(129), 130);
    }

    #[test]
    fn bins_become_buckets_in_microseconds() {
        let bins = BTreeMap::from([(129, 5), (24_772_608, 2), (50, 0)]);
        assert_eq!(of_bins(&bins).buckets, [(0.13, 5), (24_903.68, 2)]);
    }

    #[test]
    fn merging_adds_counts_of_the_same_bound() {
        let a = Histogram { buckets: vec![(1.0, 5), (9.0, 1)] };
        let b = Histogram { buckets: vec![(0.5, 2), (9.0, 3)] };
        assert_eq!(merged(&[&a, &b]).buckets, [(0.5, 2), (1.0, 5), (9.0, 4)]);
    }
}
