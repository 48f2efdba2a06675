//! The effect of each variant of a cell: the ratio of its value to the default's in the same block.
//!
//! Source: the analysis of block designs by least squares with the blocks eliminated (F. Yates, "The recovery of
//! inter-block information in balanced incomplete block designs", 1940, its intra-block part; as in every textbook on
//! designed experiments), on logarithms. The model of a trial's value is
//!
//! ```text
//! ln value = block + variant + error
//! ```
//!
//! without interaction. Where no trial is missing, a variant's estimate is the mean over blocks of the log ratio of its
//! value to the geometric mean of that block's defaults; where trials failed, least squares weighs what is left.
//!
//! Limits: one spread for all variants of a cell, errors independent and roughly normal on logs. The order within
//! blocks being shuffled is what makes errors independent enough where the machine drifts. A block whose trials of
//! this cell are of one variant only says nothing. Outliers are kept, reported ([`CellFit::tails`],
//! [`Effect::least_without_one`]) and dealt with by [`crate::judge`];
//! intervals of single variants cover a little less often with them (93% for 95% where 2% of trials stall).

use std::collections::{BTreeMap, BTreeSet};

use crate::dunnett::Dunnett;
use crate::matrix::{Square, inverse};
use crate::student::{t_critical, t_two_sided};
use blocks::Blocks;
use influence::least_without_one;
use permute::least_shuffled_p;

pub use own_spread::own_spread;

pub(crate) use permute::{Over, Shuffled, shuffled};

mod blocks;
mod influence;
mod own_spread;
mod permute;

/// The variant that all others are compared with.
pub const DEFAULT: usize = 0;

/// A whole trial, as one cell sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    pub block: u32,
    /// Its variant; [`DEFAULT`] is 0.
    pub variant: usize,
    /// What was measured, above 0, in any unit: operations a second, seconds, microseconds.
    pub value: f64,
}

/// What the trials of a cell say.
#[derive(Clone, PartialEq, Debug)]
pub struct CellFit {
    /// Variants that can be compared with the default, ascending; the default itself is not among them.
    pub effects: Vec<Effect>,
    /// Residual degrees of freedom, at least 1.
    pub df: u32,
    /// Standard deviation of ln value within blocks and variants: close to the coefficient of variation.
    pub spread: f64,
    /// How far single trials lie off, compared with normal ones: excess kurtosis of the residuals in standard errors.
    /// About 0 for normal trials, above 2 where some trials clearly are outliers.
    pub tails: f64,
    /// About the smallest p that shuffling within blocks can give: the chance that one trial of each block gets the same
    /// variant's name, whichever.
    pub least_shuffled_p: f64,
    /// The same of shuffling over all blocks.
    pub least_p_shuffled_over_all: f64,
    /// Trials of the default that were used.
    pub defaults: usize,
    /// Variants that no block connects with the default.
    pub not_comparable: Vec<usize>,
    /// Trials whose value is not a number above 0: not used, to be shown.
    pub unusable: Vec<Trial>,
}

/// A variant against the default.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effect {
    pub variant: usize,
    /// Its trials that were used.
    pub trials: usize,
    /// Ln of its value over the default's.
    pub log_ratio: f64,
    /// Standard error of that.
    pub log_error: f64,
    /// What `log_ratio` becomes without that one trial (of this variant, the default or any other) on which it stands
    /// most: the nearest to 0 or furthest beyond. 0 where it stands on one trial alone.
    pub least_without_one: f64,
    /// The share of its variance that it has in common with the other variants: Dunnett's squared loading.
    pub shared: f64,
}

/// Why a cell can't be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoFit {
    /// Without the default there is nothing to compare with.
    #[error("no trial of the default has a value above 0")]
    NoDefault,
    /// As many unknowns as trials.
    #[error("too few trials to tell the spread between trials: add a block")]
    NoSpread,
}

/// Smaller differences of logarithms than this are rounding.
const ROUNDING: f64 = 1e-12;

impl Effect {
    /// The variant's value over the default's.
    pub fn ratio(&self) -> f64 {
        self.log_ratio.exp()
    }

    /// The estimate in standard errors; 0 where the estimate is 0, infinite where the trials had no spread at all.
    pub fn t(&self) -> f64 {
        if self.log_ratio == 0.0 { 0.0 } else { self.log_ratio / self.log_error }
    }

    /// The ratio's interval that reaches `critical` standard errors to each side of the logarithm.
    pub fn interval(&self, critical: f64) -> (f64, f64) {
        let reach = if self.log_error == 0.0 { 0.0 } else { critical * self.log_error };
        ((self.log_ratio - reach).exp(), (self.log_ratio + reach).exp())
    }
}

impl CellFit {
    /// The joint distribution of this cell's comparisons.
    pub fn dunnett(&self) -> Dunnett {
        Dunnett::new(&self.shared(), self.df)
    }

    /// Dunnett's squared loadings.
    pub(crate) fn shared(&self) -> Vec<f64> {
        self.effects.iter().map(|e| e.shared).collect()
    }

    /// Two-sided p of one variant alone, not adjusted for anything.
    pub fn p_alone(&self, effect: &Effect) -> f64 {
        t_two_sided(effect.t(), f64::from(self.df))
    }

    /// The ratio's interval of one variant alone with the given confidence, not adjusted for anything.
    pub fn interval_alone(&self, effect: &Effect, confidence: f64) -> (f64, f64) {
        effect.interval(t_critical(1.0 - confidence, f64::from(self.df)))
    }
}

/// Fits a cell. The order of the trials does not matter.
pub fn fit(trials: &[Trial]) -> Result<CellFit, NoFit> {
    let (usable, unusable): (Vec<Trial>, Vec<Trial>) =
        trials.iter().partition(|t| t.value.is_finite() && t.value > 0.0);
    let blocks = Blocks::of(&usable)?;
    let variants: Vec<usize> = blocks.variants.iter().copied().filter(|&v| v != DEFAULT).collect();
    let not_comparable: BTreeSet<usize> =
        usable.iter().map(|t| t.variant).filter(|v| !blocks.variants.contains(v)).collect();

    let (information, score) = blocks.normal_equations(&variants);
    let covariance = inverse(&information).ok_or(NoFit::NoSpread)?;
    let estimates: Vec<f64> = covariance.iter().map(|row| dot(row, &score)).collect();
    let df = blocks.trials().saturating_sub(blocks.blocks.len() + variants.len());
    if df == 0 {
        return Err(NoFit::NoSpread);
    }
    let by_variant: BTreeMap<usize, f64> = variants.iter().copied().zip(estimates.iter().copied()).collect();
    let residuals = blocks.residuals(&by_variant);
    let squares: f64 = residuals.iter().flatten().map(|r| r * r).sum();
    let spread = (squares / df as f64).sqrt();
    let spread = if spread < ROUNDING { 0.0 } else { spread };
    let common = common_part(&covariance);
    let least = least_without_one(&blocks, &variants, &estimates, &covariance, &residuals);
    let unrounded = |x: f64| if x.abs() < ROUNDING { 0.0 } else { x };
    let variances = covariance.iter().enumerate().map(|(i, row)| row[i]);
    let effects = variants
        .iter()
        .zip(estimates.iter().zip(least))
        .zip(variances)
        .map(|((&variant, (&estimate, least)), variance)| Effect {
            variant,
            trials: blocks.count(variant),
            log_ratio: unrounded(estimate),
            log_error: spread * variance.sqrt(),
            least_without_one: unrounded(least),
            shared: common / variance,
        })
        .collect();
    Ok(CellFit {
        effects,
        df: u32::try_from(df).unwrap_or(u32::MAX),
        spread,
        tails: if spread > 0.0 { tails(&residuals) } else { 0.0 },
        least_shuffled_p: least_shuffled_p(&blocks, Over::Blocks),
        least_p_shuffled_over_all: least_shuffled_p(&blocks, Over::All),
        defaults: blocks.count(DEFAULT),
        not_comparable: not_comparable.into_iter().collect(),
        unusable,
    })
}

fn tails(residuals: &[Vec<f64>]) -> f64 {
    let n = residuals.iter().map(Vec::len).sum::<usize>() as f64;
    let mean = |power: i32| residuals.iter().flatten().map(|r| r.powi(power)).sum::<f64>() / n;
    (mean(4) / mean(2).powi(2) - 3.0) / (24.0 / n).sqrt()
}

/// The covariance that every two estimates have at least in common: with it as the one factor, correlations are never
/// overstated, so critical values err to the large side (Slepian's inequality). No covariance is negative here: the
/// information matrix has no positive entry off its diagonal.
fn common_part(covariance: &Square) -> f64 {
    let mut least = f64::INFINITY;
    for (i, row) in covariance.iter().enumerate() {
        row.iter().take(i).for_each(|&c| least = least.min(c));
    }
    if least.is_finite() { least.max(0.0) } else { 0.0 }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests;
