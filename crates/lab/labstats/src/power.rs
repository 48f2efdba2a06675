//! What a plan can detect, before anything has run.
//!
//! Source: the power of Dunnett's comparison for one variant, averaged over the estimated spread (C. W. Dunnett, "New
//! multiple comparisons with a control", 1984; the noncentral t for a single comparison), at the level that Holm's
//! first step leaves to a cell. A colour also asks that the estimate reaches the smallest effect, so an effect of just
//! that size is coloured half the time at best, however many blocks there are.
//!
//! Limits: the spread is assumed, not measured; trials are normal on logarithms and none fails or stalls; two blocks or
//! more (a colour is never based on one trial); no cell was rejected before, so that what is found really is a little
//! more; nothing is shuffled. In few blocks shuffling ([`crate::judge`]) has few ways to choose from, its p is coarse,
//! and less is found than this says: [`simulated`] simulates that where it doesn't take too long. With
//! false-discovery control the power is that of an effect that is the only one.

pub mod simulated;

use crate::dunnett::Dunnett;
use crate::judge::{Correction, first_level};
use crate::student::{normal_below, spread_points, t_critical};

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    pub blocks: u32,
    /// Trials of the default in each block.
    pub defaults_per_block: u32,
    /// Variants without the default.
    pub variants: usize,
    /// Cells of the study.
    pub cells: usize,
    /// Assumed spread between trials of one configuration in one block: coefficient of variation, as a share.
    pub spread: f64,
    /// Confidence of the family.
    pub confidence: f64,
    /// The smallest effect that is coloured, as a share.
    pub effect: f64,
    /// What is held together over cells.
    pub correction: Correction,
}

impl Plan {
    /// The spread of the logarithms of a log-normal with this coefficient of variation.
    fn log_spread(&self) -> f64 {
        self.spread.powi(2).ln_1p().sqrt()
    }
}

/// The smallest true effects that are coloured with the power asked for, as shares above 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Detectable {
    /// This much more than the default: 0.1 is a ratio of 1.1.
    pub more: f64,
    /// This much less than the default: 0.1 is a ratio of 0.9. Below 1.
    pub less: f64,
}

/// The probability that a variant whose true ratio is `ratio` gets its colour in one cell; 0 for a plan of one block or
/// without residual degrees of freedom.
pub fn power(plan: &Plan, ratio: f64) -> f64 {
    Prepared::of(plan).map_or(0.0, |p| p.power(ratio.ln()))
}

/// The smallest effects coloured with probability `power` (0.8 in most plans). `None` for a plan of one block or whose trials
/// leave no degrees of freedom, or where nothing is compared.
pub fn detectable(plan: &Plan, power: f64) -> Option<Detectable> {
    let prepared = Prepared::of(plan)?;
    Some(Detectable {
        more: prepared.reach(1.0, power)?.exp_m1(),
        less: -(-prepared.reach(-1.0, power)?).exp_m1(),
    })
}

/// The fewest blocks, up to `most`, with which a true ratio is coloured with probability `power`. `None` if `most` are
/// not enough.
pub fn blocks_for(plan: &Plan, ratio: f64, power: f64, most: u32) -> Option<u32> {
    let enough = |blocks: u32| self::power(&Plan { blocks, ..*plan }, ratio) >= power;
    if !enough(most) {
        return None;
    }
    // More blocks never have less power.
    let (mut few, mut many) = (0, most);
    while many - few > 1 {
        let middle = few + (many - few) / 2;
        if enough(middle) {
            many = middle;
        } else {
            few = middle;
        }
    }
    Some(many)
}

/// A plan's comparison in numbers.
struct Prepared {
    error: f64,
    critical: f64,
    effect: f64,
    spread: Vec<(f64, f64)>,
}

impl Prepared {
    fn of(plan: &Plan) -> Option<Self> {
        let variants = u32::try_from(plan.variants).ok().filter(|&v| v > 0)?;
        let defaults = Some(plan.defaults_per_block).filter(|&d| d > 0)?;
        // Trials less one level for each block and one effect for each variant.
        let blocks = Some(plan.blocks).filter(|&b| b > 1)?;
        let trials_less_blocks = blocks.checked_mul(defaults.checked_add(variants)?.checked_sub(1)?)?;
        let df = trials_less_blocks.checked_sub(variants).filter(|&df| df > 0)?;
        let critical = match plan.correction {
            Correction::Holm => Dunnett::balanced(plan.variants, defaults, df)
                .critical(first_level(plan.cells, plan.confidence)),
            Correction::FalseDiscovery => {
                t_critical(first_level(plan.cells * plan.variants, plan.confidence), f64::from(df))
            }
        };
        let error = plan.log_spread() * ((1.0 + 1.0 / f64::from(defaults)) / f64::from(plan.blocks)).sqrt();
        Some(Self { error, critical, effect: plan.effect, spread: spread_points(f64::from(df)) })
    }

    /// The probability of the right colour for a true log ratio.
    fn power(&self, log_ratio: f64) -> f64 {
        let least = if log_ratio > 0.0 { self.effect.ln_1p() } else { -(-self.effect).ln_1p() };
        let beyond = |s: f64| {
            let needed = (self.critical * s * self.error).max(least);
            normal_below((log_ratio.abs() - needed) / self.error)
        };
        self.spread.iter().map(|&(s, weight)| weight * beyond(s)).sum()
    }

    /// The log ratio, as a number above 0, that has the given power in the given direction.
    fn reach(&self, direction: f64, power: f64) -> Option<f64> {
        let mut high = self.error.max(1e-6);
        while self.power(direction * high) < power {
            high *= 2.0;
            if high > 100.0 {
                return None;
            }
        }
        let mut low = 0.0;
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.power(direction * middle) < power { low = middle } else { high = middle }
        }
        Some(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Criteria;
    use crate::simulate::{Layout, Noise, rates};
    use proptest::prelude::*;

    const PLAN: Plan = Plan {
        blocks: 3,
        defaults_per_block: 2,
        variants: 3,
        cells: 6,
        spread: 0.1,
        confidence: 0.95,
        effect: 0.05,
        correction: Correction::Holm,
    };

    /// The share found among synthetic studies in which one variant has the ratio.
    fn simulated(plan: &Plan, ratio: f64, studies: u32) -> f64 {
        let layout = Layout {
            cells: plan.cells,
            variants: plan.variants,
            blocks: plan.blocks,
            defaults_per_block: plan.defaults_per_block,
        };
        let noise = Noise::Normal { spread: plan.spread.powi(2).ln_1p().sqrt() };
        let criteria = Criteria {
            correction: plan.correction,
            confidence: plan.confidence,
            effect: plan.effect,
            seed: 1,
        };
        rates(&layout, &noise, &[ratio], &criteria, studies, 21).found
    }

    #[test]
    fn detectable_effects_are_found_as_often_as_planned() {
        let d = detectable(&PLAN, 0.8).unwrap();
        for ratio in [1.0 + d.more, 1.0 - d.less] {
            let found = simulated(&PLAN, ratio, 250);
            assert!((found - 0.8).abs() < 0.04, "{d:?}: {ratio} found in {found}");
        }
    }

    #[test]
    fn an_effect_of_just_the_asked_size_is_coloured_half_the_time_at_best() {
        let plan = Plan { blocks: 200, ..PLAN };
        assert!((power(&plan, 1.05) - 0.5).abs() < 0.01);
        assert!(simulated(&Plan { blocks: 60, cells: 1, ..PLAN }, 1.05, 300) < 0.6);
        assert_eq!(blocks_for(&PLAN, 1.05, 0.8, 10_000), None);
    }

    #[test]
    fn the_blocks_for_an_effect_are_the_fewest() {
        let blocks = blocks_for(&PLAN, 0.9, 0.8, 1000).unwrap();
        assert!(power(&Plan { blocks, ..PLAN }, 0.9) >= 0.8);
        assert!(power(&Plan { blocks: blocks - 1, ..PLAN }, 0.9) < 0.8);
        assert!((10..100).contains(&blocks), "{blocks}");
    }

    #[test]
    fn a_plan_without_degrees_of_freedom_detects_nothing() {
        let plan = Plan { blocks: 1, defaults_per_block: 1, ..PLAN };
        assert_eq!((detectable(&plan, 0.8), power(&plan, 0.1)), (None, 0.0));
        assert_eq!(detectable(&Plan { variants: 0, ..PLAN }, 0.8), None);
        assert_eq!(detectable(&Plan { blocks: 0, ..PLAN }, 0.8), None);
        assert_eq!(detectable(&Plan { blocks: 1, defaults_per_block: 9, ..PLAN }, 0.8), None);
        assert_eq!(blocks_for(&plan, 0.9, 0.8, 0), None);
    }

    #[test]
    fn an_assumed_spread_of_nothing_detects_the_asked_effect() {
        let d = detectable(&Plan { spread: 0.0, ..PLAN }, 0.8).unwrap();
        assert!((d.more - 0.05).abs() < 1e-6 && (d.less - 0.05).abs() < 1e-6, "{d:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn more_blocks_and_defaults_detect_less_and_more_cells_more(blocks in 2_u32..12, variants in 1_usize..20, cells in 1_usize..30) {
            let plan = Plan { blocks, variants, cells, ..PLAN };
            let of = |p: Plan| detectable(&p, 0.8).unwrap().more;
            let smaller = [Plan { blocks: blocks + 1, ..plan }, Plan { defaults_per_block: 3, ..plan }];
            let larger = [Plan { cells: cells + 1, ..plan }, Plan { spread: 0.2, ..plan }];
            prop_assert!(smaller.into_iter().all(|p| of(p) < of(plan)));
            prop_assert!(larger.into_iter().all(|p| of(p) > of(plan)));
        }
    }
}
