//! Simultaneous two-sided comparisons of several variants with one control.
//!
//! Sources: C. W. Dunnett, "A multiple comparison procedure for comparing several treatments with a control" (JASA 50,
//! 1955) and "New tables for multiple comparisons with a control" (Biometrics 20, 1964); unequal numbers of samples by
//! the one-factor structure of the correlations (Dunnett 1955; J. C. Hsu, "The factor analytic approach to
//! simultaneous inference in the general linear model", 1992).
//!
//! Where k estimates share a control, the correlation of two of them is the product of their loadings, so given the
//! control's error z and the estimated spread s they are independent:
//!
//! ```text
//! P(all |T| <= c) = E_s E_z  prod_i [ Phi((c s - l_i z) / r_i) - Phi((-c s - l_i z) / r_i) ],   r_i² = 1 - l_i²
//! ```
//!
//! Both averages are sums over fixed points (trapezoid rule). What is computed is the complement, so that small p keep
//! their digits.
//!
//! Limits: normal errors with one spread for all variants of the cell. p below about 1e-12 are not exact.

use crate::student::{normal_above, spread_points};

pub(crate) use cache::Cache;

mod cache;

/// The joint distribution of k comparisons with one control.
#[derive(Clone, Debug)]
pub struct Dunnett {
    groups: Vec<Group>,
    spread: Vec<(f64, f64)>,
    control: Vec<(f64, f64)>,
}

/// Comparisons with the same loading.
#[derive(Clone, Copy, Debug)]
struct Group {
    loading: f64,
    rest: f64,
    count: f64,
}

/// Loadings closer than this are taken for equal.
const SAME: f64 = 1e-9;

/// A variant with far more samples than the control would come close to a loading of 1, where the sums need ever more
/// points; the cap moves the critical value up by less than a thousandth.
const LARGEST_LOADING: f64 = 0.995;

impl Dunnett {
    /// Of comparisons whose squared loadings (0 to 1, anything else is taken for the nearest) are given, with `df`
    /// residual degrees of freedom (at least 1). For plain samples the squared loading of variant i is
    /// n_i / (n_i + n_control).
    pub fn new(squared_loadings: &[f64], df: u32) -> Self {
        let mut loadings: Vec<f64> =
            squared_loadings.iter().map(|s| s.max(0.0).sqrt().min(LARGEST_LOADING)).collect();
        loadings.sort_by(f64::total_cmp);
        let mut groups: Vec<Group> = Vec::new();
        for loading in loadings {
            match groups.last_mut() {
                Some(last) if loading - last.loading < SAME => last.count += 1.0,
                _ => groups.push(Group { loading, rest: (1.0 - loading * loading).sqrt(), count: 1.0 }),
            }
        }
        let control = control_points(&groups);
        Self { groups, spread: spread_points(f64::from(df.max(1))), control }
    }

    /// Of `k` comparisons where every variant has one sample for each `defaults` of the control.
    pub fn balanced(k: usize, defaults: u32, df: u32) -> Self {
        Self::new(&vec![1.0 / (1.0 + f64::from(defaults.max(1))); k], df)
    }

    /// The probability that the largest of all |t| exceeds `t` though no variant differs: the adjusted p.
    pub fn p(&self, t: f64) -> f64 {
        let t = t.abs();
        if t.is_nan() || self.groups.is_empty() {
            return 1.0;
        }
        if t.is_infinite() {
            return 0.0;
        }
        let p: f64 = self.spread.iter().map(|&(s, weight)| weight * self.any_beyond(t * s)).sum();
        p.clamp(0.0, 1.0)
    }

    /// The |t| whose adjusted p is `level`. Infinite for a level of 0 or less and where
    /// nothing is compared, 0 for a level of 1 or more.
    pub fn critical(&self, level: f64) -> f64 {
        critical(|t| self.p(t), level)
    }

    /// The probability that any |X| exceeds `u`, the spread known.
    fn any_beyond(&self, u: f64) -> f64 {
        if u > 40.0 {
            return 0.0;
        }
        self.control.iter().map(|&(z, weight)| weight * self.any_beyond_given(u, z)).sum()
    }

    fn any_beyond_given(&self, u: f64, z: f64) -> f64 {
        let mut log_within = 0.0;
        for g in &self.groups {
            let shift = g.loading * z;
            let beyond = normal_above((u - shift) / g.rest) + normal_above((u + shift) / g.rest);
            log_within += g.count * (-beyond.min(1.0)).ln_1p();
        }
        -log_within.exp_m1()
    }
}

/// Points of a standard normal's positive half (the integrand is even); weights sum to 1.
fn control_points(groups: &[Group]) -> Vec<(f64, f64)> {
    let sharpest = groups.iter().map(|g| g.loading / g.rest).fold(1.0, f64::max);
    let step = 0.4 / sharpest;
    let count = (9.0 / step).ceil() as usize;
    let mut points: Vec<(f64, f64)> =
        (0..=count).map(|i| step * i as f64).map(|z| (z, (-0.5 * z * z).exp())).collect();
    if let Some(first) = points.first_mut() {
        first.1 *= 0.5;
    }
    let total: f64 = points.iter().map(|p| p.1).sum();
    points.iter_mut().for_each(|p| p.1 /= total);
    points
}

/// The t at which the falling function `p`, 1 at 0, reaches `level`.
fn critical(p: impl Fn(f64) -> f64, level: f64) -> f64 {
    if level <= 0.0 {
        return f64::INFINITY;
    }
    if level >= 1.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 2.0);
    while p(high) > level {
        (low, high) = (high, 2.0 * high);
        if high > 1e12 {
            return f64::INFINITY;
        }
    }
    bisect_log(p, level, low, high)
}

/// Where the falling function `p` reaches `level`, between `low` and `high` (p(high) <= level): the secant on ln p,
/// kept inside the bracket (Illinois method).
fn bisect_log(p: impl Fn(f64) -> f64, level: f64, mut low: f64, mut high: f64) -> f64 {
    let f = |c: f64| (p(c).max(f64::MIN_POSITIVE) / level).ln();
    let (mut f_low, mut f_high) = (f(low), f(high));
    for _ in 0..100 {
        if high - low < 1e-9 * high || f_high == 0.0 {
            break;
        }
        let middle = (low + (high - low) * f_low / (f_low - f_high)).clamp(low, high);
        let middle = if middle > low && middle < high { middle } else { 0.5 * (low + high) };
        let f_middle = f(middle);
        if f_middle.abs() < 1e-11 {
            return middle;
        }
        if f_middle > 0.0 {
            (low, f_low) = (middle, f_middle);
            f_high *= 0.5;
        } else {
            (high, f_high) = (middle, f_middle);
            f_low *= 0.5;
        }
    }
    high
}

#[cfg(test)]
mod tests;
