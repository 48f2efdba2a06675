//! When operations are due. Pure: the time comes with each question.

use types::{SplitMix64, UTime};

use crate::spec::Arrivals;

/// The planned starts of an instance's operations.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// Whenever fewer than so many are in flight.
    Closed {
        in_flight: usize,
    },
    Open(Open),
}

#[derive(Clone, Debug)]
pub(crate) struct Open {
    start: u64,
    end: u64,
    /// Nanoseconds between operations, on average.
    gap: f64,
    /// The planned starts of the first one and of the next, in nanoseconds after `start`.
    first: f64,
    next: f64,
    /// Operations planned so far.
    planned: u64,
    random: Option<SplitMix64>,
    in_flight: usize,
}

/// Whether an operation is to be begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// Now; its time counts from here on, which may be long past.
    Since(UTime),
    /// Not before this time.
    At(UTime),
    /// When one has ended.
    WhenOneEnds,
    /// Never: all are begun.
    Never,
}

impl Pace {
    /// Of one of several instances that share a rate: their operations take turns.
    pub(crate) fn new(
        arrivals: Arrivals,
        in_flight: usize,
        (start, end): (UTime, UTime),
        (instance, instances): (usize, usize),
        seed: u64,
    ) -> Self {
        let Some(rate) = arrivals.rate() else { return Self::Closed { in_flight } };
        let gap = 1e9 * instances as f64 / rate;
        let random = matches!(arrivals, Arrivals::Poisson { .. })
            .then(|| SplitMix64::new(SplitMix64::at(seed, instance as u64)));
        let (start, end) = (start.as_nanos(), end.as_nanos());
        let first = gap * instance as f64 / instances as f64;
        let mut open = Open { start, end, gap, first, next: first, planned: 0, random, in_flight };
        if let Some(random) = &mut open.random {
            open.next = exponential(random, gap);
        }
        Self::Open(open)
    }

    /// Whether the next operation is due while so many are in flight.
    pub(crate) fn due(&self, now: UTime, in_flight: usize) -> Due {
        match self {
            Self::Closed { in_flight: max } if in_flight < *max => Due::Since(now),
            Self::Closed { .. } => Due::WhenOneEnds,
            Self::Open(open) => {
                let at = open.start.saturating_add(open.next as u64);
                let planned = UTime::from_nanos(at);
                match at {
                    at if at >= open.end => Due::Never,
                    _ if planned > now => Due::At(planned),
                    // It waits for room, and its time runs.
                    _ if in_flight >= open.in_flight => Due::WhenOneEnds,
                    _ => Due::Since(planned),
                }
            }
        }
    }

    /// The operation that was due is begun.
    pub(crate) fn begun(&mut self) {
        if let Self::Open(open) = self {
            open.planned += 1;
            open.next = match &mut open.random {
                Some(random) => open.next + exponential(random, open.gap),
                // Not a sum, which would drift.
                None => open.first + open.planned as f64 * open.gap,
            };
        }
    }

    /// Operations planned before the end of an open loop that are not begun.
    pub(crate) fn left(&self) -> u64 {
        let mut rest = self.clone();
        let mut left = 0;
        while let Self::Open(open) = &rest {
            if open.start.saturating_add(open.next as u64) >= open.end {
                break;
            }
            rest.begun();
            left += 1;
        }
        left
    }
}

fn exponential(random: &mut SplitMix64, mean: f64) -> f64 {
    -(1.0 - random.f64()).ln() * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> UTime {
        UTime::from_nanos(1_000_000_000_000_000_000 + nanos)
    }

    fn planned(pace: &mut Pace) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            match pace.due(at(3600 * 1_000_000_000), 0) {
                Due::Since(start) => all.push(start.as_nanos() - at(0).as_nanos()),
                Due::Never => return all,
                due => panic!("{due:?}"),
            }
            pace.begun();
        }
    }

    #[test]
    fn a_closed_loop_begins_one_when_one_has_ended() {
        let pace = Pace::new(Arrivals::AsOneEnds, 2, (at(0), at(9)), (0, 1), 0);
        assert_eq!(pace.due(at(5), 1), Due::Since(at(5)));
        assert_eq!(pace.due(at(5), 2), Due::WhenOneEnds);
        assert_eq!(pace.left(), 0);
    }

    #[test]
    fn an_open_loop_counts_from_the_planned_start_however_late_it_is() {
        let even = Arrivals::Even { per_second: 1000.0 };
        let mut pace = Pace::new(even, 2, (at(0), at(5_000_000)), (0, 1), 0);
        assert_eq!(pace.due(at(0), 0), Due::Since(at(0)));
        pace.begun();
        assert_eq!(pace.due(at(10), 0), Due::At(at(1_000_000)));
        // The client was held up: what was planned meanwhile is begun at once, each from its own start.
        assert_eq!(pace.due(at(3_500_000), 0), Due::Since(at(1_000_000)));
        pace.begun();
        assert_eq!(pace.due(at(3_500_000), 2), Due::WhenOneEnds, "no more than so many at once");
        assert_eq!(pace.due(at(9_500_000), 1), Due::Since(at(2_000_000)));
        assert_eq!(pace.left(), 3);
    }

    #[test]
    fn instances_share_a_rate_and_take_turns() {
        let even = Arrivals::Even { per_second: 1e6 };
        let mut all = Vec::new();
        for instance in 0..3 {
            let mut pace = Pace::new(even, 1, (at(0), at(999_000)), (instance, 3), 0);
            all.extend(planned(&mut pace));
        }
        all.sort_unstable();
        assert_eq!(all.len(), 999);
        assert!(all.windows(2).all(|pair| (999..=1001).contains(&(pair[1] - pair[0]))), "{all:?}");
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_scattered_gaps() {
        let poisson = Arrivals::Poisson { per_second: 10_000.0 };
        let mut pace = Pace::new(poisson, 1, (at(0), at(10_000_000_000)), (0, 1), 7);
        let all = planned(&mut pace);
        assert!((99_000..101_000).contains(&all.len()), "{}", all.len());
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let spread = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((0.97..1.03).contains(&(spread / mean)), "the spread is the mean: {spread}, {mean}");
    }
}
