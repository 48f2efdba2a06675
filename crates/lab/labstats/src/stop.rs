//! When a run may end before its last block: by precision or by budget, never by significance.
//!
//! Stopping when something is significant makes false colours (P. Armitage, C. K. McPherson, B. C. Rowe, "Repeated
//! significance tests on accumulating data", 1969). Stopping when intervals are narrow does not, as widths say nothing
//! about where effects lie (Y. S. Chow and H. Robbins, "On the asymptotic theory of fixed-width sequential confidence
//! intervals", 1965). So [`decide`] sees [`Widths`] only, which hold no estimate and no p, and the widths are those of
//! Holm's first step, which no decision has narrowed.
//!
//! Limits: with very few blocks a spread that came out small by luck ends a run too early and intervals then cover
//! slightly less often than they say; two blocks at least should have run.

use crate::effect::{Trial, fit};
use crate::judge::first_level;

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
    /// Of the trials of each cell so far, at the confidence of the family. A cell or variant that can't be judged yet
    /// has an infinite width.
    pub fn of(cells: &[Vec<Trial>], confidence: f64) -> Self {
        let level = first_level(cells.len(), confidence);
        let mut widths = Vec::new();
        for trials in cells {
            let Ok(cell) = fit(trials) else {
                widths.push(f64::INFINITY);
                continue;
            };
            let critical = cell.dunnett().critical(level);
            widths.extend(cell.effects.iter().map(|e| (critical * e.log_error).exp_m1()));
            widths.extend(cell.not_comparable.iter().map(|_| f64::INFINITY));
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

    fn trials(blocks: u32, ratios: &[f64]) -> Vec<Vec<Trial>> {
        let layout = Layout { cells: 2, variants: 3, blocks, defaults_per_block: 2 };
        let cells = study(&layout, &Noise::Normal { spread: 0.05 }, ratios, 5);
        cells.into_iter().map(|c| c.trials).collect()
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
        cells.push(Vec::new());
        assert_eq!(decide(&limits, &Widths::of(&cells, 0.95), 0.0, 1.0), Decision::GoOn);
        assert_eq!(decide(&limits, &Widths::of(&[], 0.95), 0.0, 1.0), Decision::GoOn);
    }
}
