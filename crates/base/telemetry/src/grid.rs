//! Counts of operations by latency and size, in the buckets of Ceph's `perf histogram dump`.

use core::ops::AddAssign;

/// Buckets of each axis.
pub const GRID_BUCKETS: usize = 32;

/// One axis: bucket 0 is below zero (nothing is), bucket 1 below `quant`, each later one twice as wide as all before it,
/// the last one open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GridAxis {
    pub name: &'static str,
    pub quant: u64,
}

/// Ceph gives it nanoseconds, so that a bucket is of 100 µs, and names it otherwise.
pub const LATENCY_AXIS: GridAxis = GridAxis { name: "Latency (usec)", quant: 100_000 };
pub const SIZE_AXIS: GridAxis = GridAxis { name: "Request size (bytes)", quant: 512 };

impl GridAxis {
    #[inline]
    fn bucket(self, value: u64) -> usize {
        let quants = value / self.quant;
        (1 + (64 - quants.leading_zeros()) as usize).min(GRID_BUCKETS - 1)
    }

    /// The least and the greatest value of a bucket, where there is one.
    pub fn range(self, bucket: usize) -> (Option<u64>, Option<i64>) {
        let below = |bucket: usize| if bucket == 0 { 0 } else { self.quant << (bucket - 1) };
        match bucket {
            0 => (None, Some(-1)),
            _ if bucket + 1 >= GRID_BUCKETS => (Some(below(GRID_BUCKETS - 2)), None),
            _ => (Some(below(bucket - 1)), Some(below(bucket) as i64 - 1)),
        }
    }
}

/// Counts by latency in nanoseconds and bytes. Takes its 8 KiB with the first operation.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LatencySizeGrid {
    counts: Option<Box<[[u64; GRID_BUCKETS]; GRID_BUCKETS]>>,
}

impl LatencySizeGrid {
    #[inline]
    pub fn add(&mut self, nanos: u64, bytes: u64) {
        let counts = self.counts.get_or_insert_with(|| Box::new([[0; GRID_BUCKETS]; GRID_BUCKETS]));
        counts[LATENCY_AXIS.bucket(nanos)][SIZE_AXIS.bucket(bytes)] += 1;
    }

    /// The counts: a row for each bucket of latency, in it one for each of size.
    pub fn rows(&self) -> [[u64; GRID_BUCKETS]; GRID_BUCKETS] {
        self.counts.as_deref().copied().unwrap_or_default()
    }
}

impl AddAssign for LatencySizeGrid {
    fn add_assign(&mut self, other: Self) {
        match (&mut self.counts, other.counts) {
            (_, None) => {}
            (Some(sum), Some(counts)) => {
                let cells = sum.iter_mut().flatten().zip(counts.iter().flatten());
                cells.for_each(|(sum, count)| *sum += count);
            }
            (sum @ None, counts) => *sum = counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_whose_range_has_it() {
        for axis in [LATENCY_AXIS, SIZE_AXIS] {
            let values = [0, 1, 511, 512, 4096, 99_999, 100_000, 1 << 30, 1 << 40, u64::MAX];
            for value in values {
                let (min, max) = axis.range(axis.bucket(value));
                let is_above = min.is_some_and(|min| min <= value);
                let is_below = max.is_none_or(|max| value <= max as u64);
                assert!(is_above && is_below, "{value} of {axis:?}");
            }
        }
        // As Ceph 16.2 prints them.
        assert_eq!(SIZE_AXIS.range(0), (None, Some(-1)));
        assert_eq!(SIZE_AXIS.range(1), (Some(0), Some(511)));
        assert_eq!(SIZE_AXIS.range(2), (Some(512), Some(1023)));
        assert_eq!(SIZE_AXIS.range(30), (Some(137_438_953_472), Some(274_877_906_943)));
        assert_eq!(SIZE_AXIS.range(31), (Some(274_877_906_944), None));
        assert_eq!(LATENCY_AXIS.range(31), (Some(53_687_091_200_000), None));
    }

    #[test]
    fn grids_add_up() {
        let (mut one, mut two) = (LatencySizeGrid::default(), LatencySizeGrid::default());
        assert_eq!(one, LatencySizeGrid::default());
        one.add(50_000, 4096);
        two.add(60_000, 4096);
        two.add(150_000, 0);
        one += two;
        one += LatencySizeGrid::default();
        let rows = one.rows();
        assert_eq!((rows[1][5], rows[2][1]), (2, 1));
        assert_eq!(rows.iter().flatten().sum::<u64>(), 3);
        let mut none = LatencySizeGrid::default();
        none += one.clone();
        assert_eq!(none, one);
    }
}
