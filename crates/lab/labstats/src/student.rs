//! Student's t, the normal and the spread of an estimated standard deviation.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::erf::erfc;
use statrs::function::gamma::ln_gamma;

/// Share of a standard normal above `x`.
pub(crate) fn normal_above(x: f64) -> f64 {
    0.5 * erfc(x / std::f64::consts::SQRT_2)
}

/// Share of a standard normal below `x`.
pub(crate) fn normal_below(x: f64) -> f64 {
    normal_above(-x)
}

/// Two-sided p of a t statistic; 1 where there are no degrees of freedom.
pub(crate) fn t_two_sided(t: f64, df: f64) -> f64 {
    if t.is_nan() {
        return 1.0;
    }
    match StudentsT::new(0.0, 1.0, df) {
        Ok(d) => (2.0 * d.sf(t.abs())).min(1.0),
        Err(_) => 1.0,
    }
}

/// The t that is exceeded on both sides together with probability `level`; infinite where there are no degrees of
/// freedom or no level.
pub(crate) fn t_critical(level: f64, df: f64) -> f64 {
    if level <= 0.0 {
        return f64::INFINITY;
    }
    if level >= 1.0 {
        return 0.0;
    }
    match StudentsT::new(0.0, 1.0, df) {
        // The lower tail keeps its digits for small levels.
        Ok(d) => -d.inverse_cdf(level / 2.0),
        Err(_) => f64::INFINITY,
    }
}

/// Points (value, weight; weights sum to 1) over which to average a smooth function of S, where S² is chi-square with
/// `df` degrees of freedom, divided by them: an estimated standard deviation in units of the true one.
///
/// The trapezoid rule over ln S: its density falls off on both sides, so the rule converges faster than any power of
/// the step. The lower end stands where the density is e^-32 of its peak, so that averages down to about 1e-10 keep
/// three digits.
pub(crate) fn spread_points(df: f64) -> Vec<(f64, f64)> {
    let width = (0.5 / df).sqrt();
    let step = (0.8 * width).min(0.12);
    let low = -(32.0 / df) - 8.0 * width;
    let high = 0.5 * (1.0 + 80.0 / df + 18.0 / df.sqrt()).ln();
    let constant = std::f64::consts::LN_2 + 0.5 * df * (0.5 * df).ln() - ln_gamma(0.5 * df);
    let count = ((high - low) / step).ceil() as usize;
    let density = |x: f64| (constant + df * x - 0.5 * df * (2.0 * x).exp()).exp();
    let mut points: Vec<(f64, f64)> = (0..=count)
        .map(|i| low + step * i as f64)
        .map(|x| (x.exp(), density(x)))
        .filter(|&(_, weight)| weight > 0.0)
        .collect();
    let total: f64 = points.iter().map(|p| p.1).sum();
    points.iter_mut().for_each(|p| p.1 /= total);
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (level, df, expected) in
            [(0.05, 1.0, 12.7062), (0.05, 10.0, 2.22814), (0.01, 10.0, 3.16927), (0.001, 4.0, 8.6103)]
        {
            assert!(
                (t_critical(level, df) - expected).abs() < 2e-4,
                "{level} {df}: {}",
                t_critical(level, df)
            );
        }
        assert!((t_two_sided(t_critical(1e-6, 5.0), 5.0) / 1e-6 - 1.0).abs() < 1e-4);
    }

    #[test]
    fn the_mean_square_of_an_estimated_spread_is_one() {
        for df in [1.0, 2.0, 7.0, 60.0, 1e5] {
            let square: f64 = spread_points(df).iter().map(|(s, w)| s * s * w).sum();
            assert!((square - 1.0).abs() < 1e-8, "{df}: {square}");
        }
    }
}
