//! The check of p by shuffling the variants' names, cell by cell, so that no distribution which all variants share can
//! make a false colour.
//!
//! Within a cell it steps down from the largest effect (P. H. Westfall and S. S. Young, "Resampling-Based Multiple
//! Testing", 1993): its p is that of the largest |t| among all shuffled variants; then its trials leave, and the next
//! is asked among those that are left, with a p not below the one before. So a large effect does not hide small ones
//! by being noise to their shuffling.
//!
//! Limits: how it is shuffled, and whether, depends on the level and so on the number of cells: where within-block
//! shuffling can show nothing at the level of many cells, an entry may be judged by Student's p alone, which may be
//! smaller. With false-discovery control nothing steps down, and a large effect does hide small ones.

use super::{Cell, Correction, Criteria, compared, first_level};
use crate::effect::{CellFit, Effect, NoFit, Over, Shuffled, Trial, fit, shuffled};

/// Rounds of shuffling for each 1 / level of a cell at Holm's first step: p below that level are then told from it.
const ROUNDS: f64 = 8.0;

/// However large the level, so many rounds at least; then p of small studies don't depend on the number of cells.
const FEWEST_ROUNDS: f64 = 1000.0;

/// However small the level, so many rounds are enough.
const MOST_ROUNDS: f64 = 20_000.0;

/// Shuffling shows something where the smallest p that it can give is below this share of the level.
const ENOUGH: f64 = 0.5;

/// Of [`CellFit::tails`].
pub const CLEARLY_NOT_NORMAL: f64 = 2.0;

/// Rounds of shuffling where a cell has this level.
pub(crate) fn rounds(level: f64) -> usize {
    (ROUNDS / level).clamp(FEWEST_ROUNDS, MOST_ROUNDS) as usize
}

/// Raises p to those of shuffled data in every cell where one is small enough to be rejected in a family of this cell
/// alone; `tests` hold (cell, p) of each effect in order.
pub(super) fn raise(
    tests: &mut [(usize, f64)],
    cells: &[Cell],
    fits: &[Result<CellFit, NoFit>],
    criteria: &Criteria,
) {
    let level = first_level(compared(fits), criteria.confidence);
    let most = 1.0 - criteria.confidence;
    for of_cell in tests.chunk_by_mut(|a, b| a.0 == b.0) {
        let Some(&(cell, _)) = of_cell.first() else { continue };
        let Ok(fit) = &fits[cell] else { continue };
        if of_cell.iter().all(|test| test.1 > most) {
            continue;
        }
        let shuffling =
            Shuffling { level, rounds: rounds(level), seed: criteria.seed.wrapping_add(cell as u64) };
        let trials = &cells[cell].trials;
        let p = match criteria.correction {
            Correction::Holm => shuffling.step_down(trials, fit, most),
            Correction::FalseDiscovery => shuffling.each_alone(trials, fit),
        };
        for (test, p) in of_cell.iter_mut().zip(p) {
            test.1 = test.1.max(p);
        }
    }
}

/// Of a cell.
struct Shuffling {
    /// At Holm's first step.
    level: f64,
    rounds: usize,
    seed: u64,
}

impl Shuffling {
    /// A p for each effect, none above `most` asked further; 0 where shuffling can show nothing.
    fn step_down(&self, trials: &[Trial], all: &CellFit, most: f64) -> Vec<f64> {
        let mut p = vec![0.0; all.effects.len()];
        let mut left = trials.to_vec();
        let mut of_left = all.clone();
        let mut before = 0.0_f64;
        while let Some(shuffled) = self.shuffled(&left, &of_left) {
            for effect in &of_left.effects {
                if let Some(at) = all.effects.iter().position(|e| e.variant == effect.variant) {
                    p[at] = before.max(shuffled.p_of_largest(effect.t()));
                }
            }
            let Some(largest) = of_left.effects.iter().max_by(|a, b| a.t().abs().total_cmp(&b.t().abs()))
            else {
                break;
            };
            before = before.max(shuffled.p_of_largest(largest.t()));
            if before > most {
                break;
            }
            left.retain(|trial| trial.variant != largest.variant);
            match fit(&left) {
                Ok(fit) => of_left = fit,
                Err(_) => break,
            }
        }
        p
    }

    fn each_alone(&self, trials: &[Trial], fit: &CellFit) -> Vec<f64> {
        let Some(shuffled) = self.shuffled(trials, fit) else { return vec![0.0; fit.effects.len()] };
        fit.effects.iter().map(|e: &Effect| shuffled.p_alone(e.t())).collect()
    }

    /// Nothing where no shuffling can show anything, or nothing is compared.
    fn shuffled(&self, trials: &[Trial], fit: &CellFit) -> Option<Shuffled> {
        if fit.effects.is_empty() {
            return None;
        }
        shuffled(trials, self.over(fit)?, self.rounds, self.seed)
    }

    /// How to shuffle: within blocks where that can show something, else over all. Where neither can, trials have to be
    /// taken for normal; if they clearly are not, nothing can be told with so few.
    fn over(&self, fit: &CellFit) -> Option<Over> {
        if fit.least_shuffled_p < ENOUGH * self.level {
            Some(Over::Blocks)
        } else if fit.least_p_shuffled_over_all < ENOUGH * self.level {
            Some(Over::All)
        } else {
            (fit.tails > CLEARLY_NOT_NORMAL).then_some(Over::Blocks)
        }
    }
}
