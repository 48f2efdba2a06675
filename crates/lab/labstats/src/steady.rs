//! Whether the throughput of one phase was steady, from its values a second.
//!
//! Four questions, each with an absolute threshold ([`THRESHOLD`]) beside its test, so that long runs are not flagged
//! for differences that don't matter and short ones not for noise:
//!
//! - *swing*: does the middle 80% of the seconds span too much?
//! - *trend*: the slope of a straight line, its error from the effective number of samples (B. D. Santer et al.,
//!   "Statistical significance of trends and trend differences in layer-average atmospheric temperature time series",
//!   2000).
//! - *step*: the self-normalised test for a change of the mean (X. Shao and X. Zhang, "Testing for change points in time
//!   series", JASA 105, 2010): it needs no estimate of the autocorrelation.
//! - *wander*: the interval of the phase's own mean from batch means (B. Schmeiser, "Batch size effects in the analysis
//!   of simulation output", 1982): slow swings that are no step.
//!
//! Single outliers are taken out before trend and step. Where what is left after the cut of MSER-5 (K. P. White, M. J.
//! Cobb, S. C. Spratt, "A comparison of five steady-state truncation heuristics for simulation", 2000) is steady, the
//! reason is a warm-up.
//!
//! Limits: below [`LEAST`] seconds only a swing can be seen; below 48 no wander. Changes smaller than the threshold are
//! not looked for. Noise of about 30% and more between seconds counts as a swing. Trend and
//! step are tested at 1% each. In simulations the rate of false flags is below 5% for noise of 10% with an
//! autocorrelation up to 0.5 from one second to the next (up to 0.3 in phases of 20 s; 6% there at 0.5).

use std::fmt;

use crate::outliers::{quantile, without_outliers};
use crate::student::{t_critical, t_two_sided};

/// Seconds that trend and step need.
pub const LEAST: usize = 20;

/// Seconds that a swing needs.
pub const LEAST_FOR_SWING: usize = 5;

/// Changes below this share of the mean don't matter.
pub const THRESHOLD: f64 = 0.1;

/// The level of trend and step.
const LEVEL: f64 = 0.01;

/// The 1% point of the self-normalised statistic in long series (Shao and Zhang 2010, table 1).
const STEP_CRITICAL: f64 = 68.6;

/// In short series with an autocorrelation of 0.5 the 1% point lies higher by this over the number of seconds: 146 at
/// 20, 102 at 60, 80 at 200 in a simulation.
const STEP_SHORT: f64 = 23.0;

/// The span of the middle 80% over the sum of its ends, from which on it is a swing: 0.4 is 2.3 times as much.
const SWING: f64 = 0.4;

/// A judgement on a phase.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Steadiness {
    /// No test found anything.
    Steady,
    /// Something was found; its `Display` says it in words.
    Unsteady(Reason),
    /// Fewer than [`LEAST`] seconds and no swing among them.
    TooShort {
        /// Seconds that there are.
        seconds: usize,
    },
}

/// What was found. Values are in the unit of the samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reason {
    /// Nothing was completed.
    Nothing,
    /// Too wide a span.
    Swing {
        /// A tenth of the seconds lie below.
        low: f64,
        /// A tenth of the seconds lie above.
        high: f64,
    },
    /// A steady rise or fall.
    Trend {
        /// Change from the first second to the last, as a share of the mean.
        change: f64,
    },
    /// Two levels.
    Step {
        /// Seconds before the step.
        at: usize,
        /// Mean before.
        before: f64,
        /// Mean after.
        after: f64,
    },
    /// Only the beginning differs.
    WarmUp {
        seconds: usize,
        /// Mean of those.
        before: f64,
        /// Mean after.
        after: f64,
    },
    /// Slow ups and downs.
    Wander {
        /// Half-width of the mean's 95% interval, as a share of the mean.
        half_width: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Nothing => write!(f, "nothing was completed"),
            Self::Swing { low, high } => {
                write!(f, "swings: a tenth of the seconds below {low:.0}, a tenth above {high:.0}")
            }
            Self::Trend { change } => {
                let verb = if change > 0.0 { "rises" } else { "falls" };
                write!(f, "{verb} by {:.0}% from start to end", 100.0 * change.abs())
            }
            Self::Step { at, before, after } => {
                write!(f, "steps from {before:.0} to {after:.0} after {at} s")
            }
            Self::WarmUp { seconds, before, after } => {
                write!(f, "warms up: {before:.0} in the first {seconds} s, {after:.0} after")
            }
            Self::Wander { half_width } => {
                write!(f, "wanders: the mean is known to +-{:.0}% only", 100.0 * half_width)
            }
        }
    }
}

/// Judges a phase by its values a second, in order. Values that are no number are left out.
pub fn steady(per_second: &[f64]) -> Steadiness {
    let samples: Vec<f64> = per_second.iter().copied().filter(|x| x.is_finite()).collect();
    if samples.len() >= LEAST_FOR_SWING {
        if mean(&samples) <= 0.0 {
            return Steadiness::Unsteady(Reason::Nothing);
        }
        if let Some(reason) = swing(&samples) {
            return Steadiness::Unsteady(reason);
        }
    }
    if samples.len() < LEAST {
        return Steadiness::TooShort { seconds: samples.len() };
    }
    let cleaned = without_outliers(&samples);
    let found = match level_change(&cleaned) {
        Some(reason) => Some(warm_up(&cleaned).unwrap_or(reason)),
        None => wander(&samples),
    };
    found.map_or(Steadiness::Steady, Steadiness::Unsteady)
}

fn swing(samples: &[f64]) -> Option<Reason> {
    let (low, high) = (quantile(samples, 0.1), quantile(samples, 0.9));
    (high - low > SWING * (high + low)).then_some(Reason::Swing { low, high })
}

/// A trend or a step, whichever describes the series better.
fn level_change(series: &[f64]) -> Option<Reason> {
    match (trend(series), step(series)) {
        (Some(line), Some(jump)) => Some(if line.1 < jump.1 { line.0 } else { jump.0 }),
        (line, jump) => line.or(jump).map(|found| found.0),
    }
}

/// A trend and the squares it leaves.
fn trend(series: &[f64]) -> Option<(Reason, f64)> {
    let n = series.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, mean(series));
    let times: f64 = (0..series.len()).map(|i| (i as f64 - middle).powi(2)).sum();
    let slope = series.iter().enumerate().map(|(i, x)| (i as f64 - middle) * (x - mean)).sum::<f64>() / times;
    let rest: Vec<f64> =
        series.iter().enumerate().map(|(i, x)| x - mean - slope * (i as f64 - middle)).collect();
    let squares: f64 = rest.iter().map(|e| e * e).sum();
    let change = slope * (n - 1.0) / mean;
    let df = effective(&rest) - 2.0;
    if change.abs() < THRESHOLD || df <= 0.5 {
        return None;
    }
    let error = (squares / df / times).sqrt();
    let t = if error > 0.0 { slope / error } else { f64::INFINITY };
    (t_two_sided(t, df) < LEVEL).then_some((Reason::Trend { change }, squares))
}

/// The number of independent samples that would tell as much about a mean.
fn effective(rest: &[f64]) -> f64 {
    let n = rest.len() as f64;
    let squares: f64 = rest.iter().map(|e| e * e).sum();
    if squares == 0.0 {
        return n;
    }
    let neighbours: f64 = rest.iter().zip(rest.iter().skip(1)).map(|(a, b)| a * b).sum();
    let raw = neighbours / squares;
    // Residuals of a line show less autocorrelation than there is (M. G. Kendall 1954).
    let r = (raw + (1.0 + 4.0 * raw.max(0.0)) / n).clamp(0.0, 0.99);
    n * (1.0 - r) / (1.0 + r)
}

/// A step and the squares it leaves.
fn step(series: &[f64]) -> Option<(Reason, f64)> {
    let n = series.len();
    let edge = (n / 20).max(3);
    let mut best = (0.0, 0);
    for k in edge..=n.saturating_sub(edge) {
        let statistic = self_normalised(series, k);
        if statistic > best.0 {
            best = (statistic, k);
        }
    }
    let (before, after) = series.split_at(best.1);
    let critical = STEP_CRITICAL * (1.0 + STEP_SHORT / n as f64);
    if best.0 < critical || before.is_empty() {
        return None;
    }
    let (a, b) = (mean(before), mean(after));
    let squares = around(before, a) + around(after, b);
    let matters = (b - a).abs() >= THRESHOLD * mean(series);
    matters.then_some((Reason::Step { at: best.1, before: a, after: b }, squares))
}

/// Shao and Zhang's statistic for a change after `k` of the values.
fn self_normalised(series: &[f64], k: usize) -> f64 {
    let n = series.len() as f64;
    let (before, after) = series.split_at(k);
    let (size_before, size_after) = (before.len() as f64, after.len() as f64);
    let contrast = size_before * size_after / n * (mean(before) - mean(after));
    let normaliser = (bridge(before) + bridge(after)) / (n * n);
    let statistic = contrast * contrast / n / normaliser;
    // Two flat levels: the step is certain; one flat level: there is none.
    if statistic.is_nan() { 0.0 } else { statistic }
}

/// The sum of squares of the running sums around the mean.
fn bridge(part: &[f64]) -> f64 {
    let mean = mean(part);
    let mut sum = 0.0;
    part.iter()
        .map(|x| {
            sum += x - mean;
            sum * sum
        })
        .sum()
}

/// A warm-up of at most a third, if what is left after it has neither trend nor step.
fn warm_up(series: &[f64]) -> Option<Reason> {
    let cut = mser5(series);
    let (before, after) = series.split_at(cut);
    if cut == 0 || cut * 3 > series.len() || after.len() < LEAST || level_change(after).is_some() {
        return None;
    }
    Some(Reason::WarmUp { seconds: cut, before: mean(before), after: mean(after) })
}

/// Where MSER-5 cuts: the number of values, in batches of five, without which the rest's mean is known best. At most
/// half of them.
fn mser5(series: &[f64]) -> usize {
    let batches: Vec<f64> = series.chunks_exact(5).map(mean).collect();
    let score = |cut: usize| {
        let rest = &batches[cut..];
        around(rest, mean(rest)) / (rest.len() as f64).powi(2)
    };
    let best = (0..=batches.len() / 2).min_by(|&a, &b| score(a).total_cmp(&score(b)));
    best.unwrap_or(0) * 5
}

fn wander(samples: &[f64]) -> Option<Reason> {
    let batches = (samples.len() / 6).min(10);
    // Of six batches the interval is so uncertain that noise of a tenth, autocorrelated by half, is flagged in 7%.
    if batches < 8 {
        return None;
    }
    // The first few seconds that don't fill a batch stay out.
    let size = samples.len() / batches;
    let means: Vec<f64> = samples[samples.len() - batches * size..].chunks_exact(size).map(mean).collect();
    let all = mean(&means);
    let df = batches as f64 - 1.0;
    let error = (around(&means, all) / df / batches as f64).sqrt();
    let half_width = t_critical(0.05, df) * error / all;
    (half_width > THRESHOLD).then_some(Reason::Wander { half_width })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sum of squared distances from a centre.
fn around(values: &[f64], centre: f64) -> f64 {
    values.iter().map(|x| (x - centre).powi(2)).sum()
}

#[cfg(test)]
mod tests;
