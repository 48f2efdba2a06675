//! What becomes of each estimate when any one trial is left out.
//!
//! Source: D. A. Belsley, E. Kuh, R. E. Welsch, "Regression Diagnostics" (1980): the change is that trial's residual
//! over one minus its leverage, spread over the estimates by the inverse of the information. Nothing is fitted again.

use std::collections::BTreeMap;

use super::blocks::Blocks;
use crate::matrix::Square;

/// A leverage this close to 1: without the trial, what it weighs on can't be estimated.
const ALONE: f64 = 1e-9;

/// For each estimate (in the order of `variants`) the value nearest to no effect, or furthest beyond it, that leaving out
/// one trial gives. 0 where a trial is the only one that the estimate stands on.
pub(super) fn least_without_one(
    blocks: &Blocks,
    variants: &[usize],
    estimates: &[f64],
    covariance: &Square,
    residuals: &[Vec<f64>],
) -> Vec<f64> {
    let place: BTreeMap<usize, usize> = variants.iter().enumerate().map(|(i, &v)| (v, i)).collect();
    let mut least = estimates.to_vec();
    for (block, rests) in blocks.blocks.iter().zip(residuals) {
        let pulls = Pulls::of(block, &place, covariance);
        for (&(variant, _), rest) in block.iter().zip(rests) {
            let own = place.get(&variant).copied();
            let pull = pulls.of_trial(own, covariance);
            let left_over = 1.0 - pulls.leverage(own, &pull);
            for ((least, estimate), pull) in least.iter_mut().zip(estimates).zip(pull) {
                if pull.abs() < ALONE {
                    continue;
                }
                let without = if left_over < ALONE { 0.0 } else { estimate - pull * rest / left_over };
                if without * estimate.signum() < *least * estimate.signum() {
                    *least = without;
                }
            }
        }
    }
    least
}

/// How the trials of one block pull at the estimates.
struct Pulls {
    /// Trials of each variant (by place) in the block, as a share of the block.
    shares: BTreeMap<usize, f64>,
    /// The covariance times those shares.
    common: Vec<f64>,
    size: f64,
}

impl Pulls {
    fn of(block: &[(usize, f64)], place: &BTreeMap<usize, usize>, covariance: &Square) -> Self {
        let size = block.len() as f64;
        let mut shares: BTreeMap<usize, f64> = BTreeMap::new();
        for i in block.iter().filter_map(|t| place.get(&t.0)) {
            *shares.entry(*i).or_default() += 1.0 / size;
        }
        let common = covariance.iter().map(|row| shares.iter().map(|(&i, s)| row[i] * s).sum()).collect();
        Self { shares, common, size }
    }

    /// How much each estimate follows a trial of the variant at `own` (`None`: of the default).
    fn of_trial(&self, own: Option<usize>, covariance: &Square) -> Vec<f64> {
        let rows = covariance.iter().zip(&self.common);
        rows.map(|(row, common)| own.map_or(0.0, |i| row[i]) - common).collect()
    }

    /// How much the fit follows that trial: 1 if it is fitted whatever it says.
    fn leverage(&self, own: Option<usize>, pull: &[f64]) -> f64 {
        let shared: f64 = self.shares.iter().map(|(&i, s)| pull[i] * s).sum();
        1.0 / self.size + own.map_or(0.0, |i| pull[i]) - shared
    }
}
