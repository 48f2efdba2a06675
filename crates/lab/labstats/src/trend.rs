//! Whether throughput changes from the start of a phase to its end in the same way in all trials of a cell: what can be
//! told of phases that are too short to be judged one by one ([`crate::steady`]).
//!
//! Each trial gives one number, the logarithm of its last third's mean over its first third's; Student's interval of
//! their mean needs nothing of how one second depends on the one before. A store that fills its journal, warms up or
//! begins to clean in every trial shows here after a few trials of five seconds.
//!
//! Limits: a single trial that was unsteady by itself does not show; a dip in the middle does not; the numbers of trials
//! are taken for roughly normal. The level is 1%, since a study has many cells.

use crate::student::t_critical;

/// Trials that are needed.
pub const LEAST_TRIALS: usize = 4;

/// Samples that a trial needs: with fewer a third is one of them.
pub const LEAST_SAMPLES: usize = 4;

/// Changes below this share don't matter, as in [`crate::steady::THRESHOLD`].
pub const THRESHOLD: f64 = crate::steady::THRESHOLD;

const CONFIDENCE: f64 = 0.99;

/// What the trials of a cell have in common.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trend {
    /// Trials that were long enough.
    pub trials: usize,
    /// The rate in the last third over that in the first.
    pub ratio: f64,
    /// Its 99% interval.
    pub interval: (f64, f64),
}

impl Trend {
    /// Whether the phase has no steady state: the interval excludes 1, and the change matters.
    pub fn changes(&self) -> bool {
        let certain = self.interval.0 > 1.0 || self.interval.1 < 1.0;
        certain && self.ratio.ln().abs() >= THRESHOLD.ln_1p()
    }

    /// Whether a change that matters is excluded.
    pub fn is_steady(&self) -> bool {
        self.interval.0 > 1.0 / (1.0 + THRESHOLD) && self.interval.1 < 1.0 + THRESHOLD
    }
}

/// Judges a cell by the values a second of each of its trials. `None` with too few trials that are long enough.
pub fn trend(trials: &[Vec<f64>]) -> Option<Trend> {
    let changes: Vec<f64> = trials.iter().filter_map(|t| change(t)).collect();
    if changes.len() < LEAST_TRIALS {
        return None;
    }
    let n = changes.len() as f64;
    let mean = changes.iter().sum::<f64>() / n;
    let squares: f64 = changes.iter().map(|c| (c - mean).powi(2)).sum();
    let error = (squares / (n - 1.0) / n).sqrt();
    let reach = t_critical(1.0 - CONFIDENCE, n - 1.0) * error;
    Some(Trend {
        trials: changes.len(),
        ratio: mean.exp(),
        interval: ((mean - reach).exp(), (mean + reach).exp()),
    })
}

/// Ln of the last third's mean over the first third's.
fn change(samples: &[f64]) -> Option<f64> {
    let samples: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
    let third = samples.len().div_ceil(3);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / third as f64;
    let (first, last) = (mean(samples.get(..third)?), mean(samples.get(samples.len() - third..)?));
    (samples.len() >= LEAST_SAMPLES && first > 0.0 && last > 0.0).then(|| (last / first).ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Trials of five seconds with a spread between seconds, an autocorrelation and a change from start to end.
    fn trials(count: usize, spread: f64, change: f64, seed: u64) -> Vec<Vec<f64>> {
        let mut random = Random::new(seed);
        let mut trial = || {
            let mut x = random.normal();
            let mut second = |i: usize| {
                x = 0.6 * x + 0.8 * random.normal();
                1000.0 * (spread * x).exp() * (1.0 + change * i as f64 / 4.0)
            };
            (0..5).map(&mut second).collect()
        };
        (0..count).map(|_| trial()).collect()
    }

    #[test]
    fn trials_without_a_common_change_are_rarely_flagged() {
        for trials_each in [6, 18] {
            let flagged = (0..1000).filter(|&s| trend(&trials(trials_each, 0.2, 0.0, s)).unwrap().changes());
            let count = flagged.count();
            assert!(count <= 20, "{trials_each} trials: {count} of 1000");
        }
    }

    #[test]
    fn a_fall_of_a_third_in_every_trial_is_found() {
        let found = (0..200).filter(|&s| trend(&trials(18, 0.2, -0.33, s)).unwrap().changes()).count();
        assert!(found > 180, "{found}");
    }

    #[test]
    fn quiet_trials_are_steady_and_a_small_change_does_not_matter() {
        let quiet = trend(&trials(18, 0.02, 0.0, 1)).unwrap();
        assert!(quiet.is_steady() && !quiet.changes(), "{quiet:?}");
        let small = trend(&trials(18, 0.02, -0.06, 1)).unwrap();
        assert!(small.interval.1 < 1.0 && !small.changes(), "{small:?}");
    }

    #[test]
    fn a_phase_that_is_too_short_or_stood_still_says_nothing() {
        assert_eq!(trend(&trials(3, 0.1, 0.0, 1)), None);
        assert_eq!(trend(&vec![vec![1.0; 3]; 20]), None);
        assert_eq!(trend(&vec![vec![0.0; 9]; 20]), None);
        assert_eq!(trend(&[]), None);
    }
}
