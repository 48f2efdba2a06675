//! The mean of a configuration's trials and its interval, for bars.
//!
//! On logarithms, as ratios are: the geometric mean with Student's interval, which never reaches below 0. It holds for
//! this configuration alone; comparisons stand on `labstats` and are narrower, since blocks take out the drift.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Geometric.
    pub mean: f64,
    /// 95%; `None` with fewer than two trials.
    pub interval: Option<(f64, f64)>,
    /// Trials that count: those with a value above 0.
    pub trials: usize,
}

/// Of values; those that are not above 0 don't count. `None` where none does.
pub fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let logs: Vec<f64> = values.filter(|v| v.is_finite() && *v > 0.0).map(f64::ln).collect();
    let n = logs.len() as f64;
    if logs.is_empty() {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n;
    let squares = logs.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>();
    let interval = StudentsT::new(0.0, 1.0, n - 1.0).ok().map(|t| {
        let reach = t.inverse_cdf(0.975) * (squares / (n - 1.0) / n).sqrt();
        ((mean - reach).exp(), (mean + reach).exp())
    });
    Some(Spread { mean: mean.exp(), interval, trials: logs.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students_on_logarithms() {
        let s = spread([90.0, 100.0, 111.0].into_iter()).unwrap();
        // By hand: mean of logs 4.604845, deviation 0.104867, t(2, 97.5%) 4.302653.
        let (low, high) = s.interval.unwrap();
        assert!((s.mean - 99.966_6).abs() < 1e-3, "{}", s.mean);
        assert!((low - 77.04).abs() < 0.05 && (high - 129.72).abs() < 0.05, "{low} {high}");
    }

    #[test]
    fn one_trial_has_no_interval_and_no_trial_has_no_mean() {
        assert_eq!(spread([5.0].into_iter()).unwrap().interval, None);
        assert_eq!(spread([0.0, f64::NAN].into_iter()), None);
    }
}
