//! When a run may end before its last block: by precision or by budget, never by significance.
//!
//! Stopping when something is significant makes false colours (P. Armitage, C. K. McPherson, B. C. Rowe, "Repeated
//! significance tests on accumulating data", 1969). Stopping when intervals are narrow does not, as widths say nothing
//! about where effects lie (Y. S. Chow and H. Robbins, "On the asymptotic theory of fixed-width sequential confidence
//! intervals", 1965). So [`decide`] sees [`Widths`] only, which hold no estimate and no p, and the widths are those of
//! Holm's first step, which no decision has narrowed.
//!
//! With few degrees of freedom a spread that comes out small by luck would end a run too early, and intervals then cover
//! less often than they say (89% instead of 95%, where a run may end after its first block): nothing counts as precise
//! before every cell has [`FEWEST_DF`].

use std::collections::BTreeSet;

use crate::effect::{Trial, fit};
use crate::judge::first_level;

/// Residual degrees of freedom that every cell must have before its widths mean anything.
pub const FEWEST_DF: u32 = 12;

/// A cell as it was planned, with the trials so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Planned {
    /// Those that ended well.
    pub trials: Vec<Trial>,
    /// The variants that are compared with the default there, whether they have trials or not.
    pub variants: BTreeSet<usize>,
}

/// Half-widths of all adjusted intervals of a study so far.
#[derive(Clone, PartialEq, Debug)]
pub struct Widths(Vec<f64>);

/// What a run may be ended by.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Limits {
    /// Every interval reaches at most this far up from its estimate, as a share of it.
    pub precision: Option<f64>,
    /// Seconds that the run may take.
    pub budget_s: Option<f64>,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Run the next block.
    GoOn,
    /// Every interval is narrow enough.
    Precise,
    /// The next block would not end within the budget.
    BudgetSpent,
}

impl Widths {
    /// Of the planned cells so far, at the confidence of the family. A cell or variant that can't be judged yet has an
    /// infinite width.
    pub fn of(cells: &[Planned], confidence: f64) -> Self {
        let compared: Vec<&Planned> = cells.iter().filter(|cell| !cell.variants.is_empty()).collect();
        let level = first_level(compared.len(), confidence);
        let mut widths = Vec::new();
        for planned in compared {
            let Some(cell) = fit(&planned.trials).ok().filter(|cell| cell.df >= FEWEST_DF) else {
                widths.push(f64::INFINITY);
                continue;
            };
            let critical = cell.dunnett().critical(level);
            widths.extend(cell.effects.iter().map(|e| (critical * e.log_error).exp_m1()));
            let judged: BTreeSet<usize> = cell.effects.iter().map(|e| e.variant).collect();
            widths.extend(planned.variants.difference(&judged).map(|_| f64::INFINITY));
        }
        Self(widths)
    }

    /// The widest, as a share of its estimate: 0.05 is an interval up to 1.05 times the estimate. Infinite where nothing
    /// can be judged yet.
    pub fn widest(&self) -> f64 {
        self.0.iter().copied().reduce(f64::max).unwrap_or(f64::INFINITY)
    }
}

/// Whether to run the next block. `spent_s` seconds have passed and the next block will take about `next_s`.
pub fn decide(limits: &Limits, widths: &Widths, spent_s: f64, next_s: f64) -> Decision {
    if limits.precision.is_some_and(|x| widths.widest() <= x) {
        Decision::Precise
    } else if limits.budget_s.is_some_and(|budget| spent_s + next_s > budget) {
        Decision::BudgetSpent
    } else {
        Decision::GoOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Layout, Noise, study};

    fn trials(blocks: u32, ratios: &[f64]) -> Vec<Planned> {
        let layout = Layout { cells: 2, variants: 3, blocks, defaults_per_block: 2 };
        let cells = study(&layout, &Noise::Normal { spread: 0.05 }, ratios, 5);
        cells.into_iter().map(|c| Planned { trials: c.trials, variants: (1..=3).collect() }).collect()
    }

    /// The spread that few trials show may be small by luck.
    #[test]
    fn few_trials_are_never_precise() {
        let limits = Limits { precision: Some(1e6), budget_s: None };
        // Two defaults and three variants: 4 degrees of freedom a block but for the 3 that the variants take.
        for (blocks, wanted) in [(1, Decision::GoOn), (3, Decision::GoOn), (4, Decision::Precise)] {
            let widths = Widths::of(&trials(blocks, &[]), 0.95);
            assert_eq!(decide(&limits, &widths, 0.0, 1.0), wanted, "{blocks}");
        }
    }

    #[test]
    fn a_variant_whose_trials_all_failed_is_not_precise() {
        let mut cells = trials(8, &[]);
        assert!(Widths::of(&cells, 0.95).widest() < 1.0);
        cells[0].trials.retain(|t| t.variant != 2);
        assert_eq!(Widths::of(&cells, 0.95).widest(), f64::INFINITY);
    }

    #[test]
    fn widths_do_not_know_where_effects_lie() {
        let (none, large) =
            (Widths::of(&trials(4, &[]), 0.95), Widths::of(&trials(4, &[3.0, 0.2, 1.4]), 0.95));
        for (a, b) in none.0.iter().zip(&large.0) {
            assert!((a - b).abs() < 1e-9);
        }
        assert_eq!(none.0.len(), 6);
    }

    #[test]
    fn more_blocks_make_a_run_precise() {
        let limits = Limits { precision: Some(0.05), budget_s: None };
        assert_eq!(decide(&limits, &Widths::of(&trials(3, &[]), 0.95), 0.0, 1.0), Decision::GoOn);
        assert_eq!(decide(&limits, &Widths::of(&trials(60, &[]), 0.95), 0.0, 1.0), Decision::Precise);
    }

    #[test]
    fn a_block_that_would_not_end_in_time_is_not_begun() {
        let widths = Widths::of(&trials(3, &[]), 0.95);
        let limits = Limits { precision: None, budget_s: Some(100.0) };
        assert_eq!(decide(&limits, &widths, 80.0, 20.0), Decision::GoOn);
        assert_eq!(decide(&limits, &widths, 80.0, 20.1), Decision::BudgetSpent);
        assert_eq!(decide(&Limits::default(), &widths, 1e9, 1e9), Decision::GoOn);
    }

    #[test]
    fn what_cant_be_judged_yet_is_not_precise() {
        let limits = Limits { precision: Some(10.0), budget_s: None };
        let mut cells = trials(3, &[]);
        cells.push(Planned { trials: Vec::new(), variants: BTreeSet::from([1]) });
        assert_eq!(decide(&limits, &Widths::of(&cells, 0.95), 0.0, 1.0), Decision::GoOn);
        assert_eq!(decide(&limits, &Widths::of(&[], 0.95), 0.0, 1.0), Decision::GoOn);
    }
}
