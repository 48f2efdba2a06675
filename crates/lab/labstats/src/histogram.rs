//! Latency percentiles from merged histograms, never from averaged percentiles.
//!
//! A percentile of many clients or trials is that of all their operations together: counts are added up, then the rank
//! is looked for (G. Tene, "How NOT to measure latency", 2013, on why percentiles can't be averaged). A percentile is
//! refused when fewer than [`BEYOND`] operations lie beyond it: it would be the word of a handful.
//!
//! Limits: the answer is the upper bound of the bucket that holds the rank, so it errs upwards by up to a bucket's
//! width. Operations of one trial are no independent samples: percentiles of variants are compared trial by trial, as
//! values of [`crate::effect::Trial`].

use std::collections::BTreeMap;

/// Operations that must lie beyond a percentile.
pub const BEYOND: u64 = 10;

/// Merged counts of operations by latency.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Merged {
    /// By the bits of the upper bound in microseconds, which for numbers from 0 up have the numbers' order.
    counts: BTreeMap<u64, u64>,
    total: u64,
}

/// Why there is no histogram or no percentile.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum Refused {
    /// The bound is no number from 0 up: the load's output was misread.
    #[error("a latency histogram has a bucket up to {0} us: not a number from 0 up")]
    Bound(f64),
    /// Not above 0 and below 100.
    #[error("{0} is not a percentile: expected a number above 0 and below 100")]
    Percentile(f64),
    /// Too few operations for this percentile.
    #[error(
        "p{percentile} needs {needed} operations to have {BEYOND} beyond it; there are {have}: measure longer"
    )]
    TooFew {
        /// The percentile asked for.
        percentile: f64,
        /// Operations that there are.
        have: u64,
        /// Operations that it takes.
        needed: u64,
    },
}

impl Merged {
    /// Adds the buckets of another histogram: (upper bound in microseconds, count), in any order. After an error
    /// nothing of it has been added.
    pub fn add(&mut self, buckets: &[(f64, u64)]) -> Result<(), Refused> {
        if let Some(bad) = buckets.iter().find(|b| !b.0.is_finite() || b.0 < 0.0) {
            return Err(Refused::Bound(bad.0));
        }
        for &(bound, count) in buckets.iter().filter(|b| b.1 > 0) {
            // Adding 0.0 makes -0.0 the same bucket.
            let at = self.counts.entry((bound + 0.0).to_bits()).or_default();
            *at = at.saturating_add(count);
            self.total = self.total.saturating_add(count);
        }
        Ok(())
    }

    /// Operations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The buckets, ascending: (upper bound in microseconds, count above 0).
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.counts.iter().map(|(&bits, &count)| (f64::from_bits(bits), count))
    }

    /// The latency in microseconds that `percentile` of a hundred operations don't exceed: 99.99 is p99.99.
    pub fn percentile(&self, percentile: f64) -> Result<f64, Refused> {
        if !(percentile > 0.0 && percentile < 100.0) {
            return Err(Refused::Percentile(percentile));
        }
        let too_few = || Refused::TooFew { percentile, have: self.total, needed: needed(percentile) };
        if self.total < needed(percentile) {
            return Err(too_few());
        }
        let rank = ((percentile / 100.0) * self.total as f64 - ROUNDING).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        self.buckets()
            .find(|&(_, count)| {
                seen = seen.saturating_add(count);
                seen >= rank
            })
            .map(|(bound, _)| bound)
            .ok_or_else(too_few)
    }
}

/// 99.9 per cent of 10,000 must be 9,990, though the product is a hair above.
const ROUNDING: f64 = 1e-6;

/// Operations that a percentile takes.
fn needed(percentile: f64) -> u64 {
    (BEYOND as f64 / (1.0 - percentile / 100.0) - ROUNDING).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn merged(parts: &[&[(f64, u64)]]) -> Merged {
        let mut all = Merged::default();
        parts.iter().for_each(|p| all.add(p).unwrap());
        all
    }

    #[test]
    fn the_percentile_of_two_clients_is_that_of_all_their_operations() {
        let fast = [(100.0, 900_000_u64)];
        let slow = [(100.0, 50_000), (10_000.0, 50_000)];
        let all = merged(&[&fast, &slow]);
        assert_eq!((all.percentile(95.0), all.percentile(95.01)), (Ok(100.0), Ok(10_000.0)));
        // The mean of both clients' p95 would be 5,050.
        assert_eq!(all.total(), 1_000_000);
    }

    #[test]
    fn a_percentile_with_fewer_than_ten_operations_beyond_it_is_refused() {
        let all = merged(&[&[(100.0, 99_000), (200.0, 999)]]);
        assert_eq!(all.percentile(99.9), Ok(200.0));
        assert_eq!(
            all.percentile(99.99),
            Err(Refused::TooFew { percentile: 99.99, have: 99_999, needed: 100_000 })
        );
        let more = merged(&[&[(100.0, 99_000), (200.0, 1000)]]);
        assert_eq!(more.percentile(99.99), Ok(200.0));
        let text = all.percentile(99.99).unwrap_err().to_string();
        assert!(text.contains("p99.99 needs 100000 operations"), "{text}");
    }

    #[test]
    fn ranks_are_exact_where_the_product_rounds() {
        let all = merged(&[&[(1.0, 9_990), (2.0, 10)]]);
        assert_eq!(all.percentile(99.9), Ok(1.0));
        let all = merged(&[&[(1.0, 9_989), (2.0, 11)]]);
        assert_eq!(all.percentile(99.9), Ok(2.0));
    }

    #[test]
    fn what_is_no_latency_or_no_percentile_is_refused() {
        let mut all = merged(&[&[(5.0, 100)]]);
        assert_eq!(all.add(&[(1.0, 5), (-1.0, 5)]), Err(Refused::Bound(-1.0)));
        assert!(all.add(&[(f64::NAN, 5)]).is_err() && all.add(&[(f64::INFINITY, 5)]).is_err());
        assert_eq!(all.total(), 100);
        for bad in [0.0, 100.0, -1.0, f64::NAN] {
            assert!(matches!(all.percentile(bad), Err(Refused::Percentile(_))));
        }
        assert!(Merged::default().percentile(50.0).is_err());
    }

    proptest! {
        #[test]
        fn merging_in_any_order_gives_the_same_and_percentiles_ascend(
            a in prop::collection::vec((0.0..1e6_f64, 0_u64..5000), 1..30),
            b in prop::collection::vec((0.0..1e6_f64, 0_u64..5000), 1..30),
        ) {
            let one = merged(&[&a, &b]);
            prop_assert_eq!(&one, &merged(&[&b, &a]));
            let found: Vec<f64> =
                [1.0, 50.0, 90.0, 99.0, 99.9, 99.99].iter().filter_map(|&p| one.percentile(p).ok()).collect();
            prop_assert!(found.is_sorted());
        }

        #[test]
        fn the_percentile_is_the_sorted_samples_one(mut samples in prop::collection::vec(1_u32..500, 100..400), p in 1.0..90.0_f64) {
            let buckets: Vec<(f64, u64)> = samples.iter().map(|&s| (f64::from(s), 1)).collect();
            samples.sort_unstable();
            let rank = (p / 100.0 * samples.len() as f64).ceil() as usize;
            prop_assert_eq!(merged(&[&buckets]).percentile(p), Ok(f64::from(samples[rank - 1])));
        }
    }
}
