//! What a plan can detect, found by playing it through: synthetic studies of normal trials, judged as real ones are, with
//! the shuffling and the guard that [`super::detectable`] knows nothing of. In few blocks those cost the more the
//! more variants and cells there are.
//!
//! One cell is simulated, at the level that the first step leaves to it: before anything is told apart, the other cells do
//! nothing else to it. Each study has an effect of its own, a little smaller than the last one's where that was found and
//! larger where it was missed (H. Robbins and S. Monro, "A stochastic approximation method", 1951; the mean of the
//! later ones is taken: B. T. Polyak and A. B. Juditsky, "Acceleration of stochastic approximation by averaging", 1992).
//!
//! Limits: the spread is assumed, and trials are normal on logarithms; of [`STUDIES`] studies the standard error of a
//! power of 80% is some 3 points. Plans whose shuffling costs more than [`MOST_WORK`] are computed alone; in so many
//! blocks it costs hardly any power.

use super::{Detectable, Plan, Prepared};
use crate::dunnett::Cache;
use crate::judge::{Criteria, first_level, judge_with, shuffling};
use crate::simulate::{Layout, Noise, rates, study};

/// Studies simulated; the first third only finds the place.
const STUDIES: u32 = 300;

/// Steps shrink as one over the number of studies simulated and this one.
const FIRST: f64 = 10.0;

/// The first steps in standard errors of an effect: what a normal distribution's slope at a power of 80% asks for, and
/// half as much again, for shuffling makes power rise more slowly.
const STEP: f64 = 1.5 / 0.28;

/// So much less than the power asked for in the later studies: there is no effect that is found so often.
const SHORT: f64 = 0.1;

/// Trials of a cell times the rounds of its shuffling.
const MOST_WORK: f64 = 300_000.0;

/// Effects are looked for up to this logarithm of a ratio, a hundredfold.
const LARGEST: f64 = 4.6;

/// What a plan can detect, and how that is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sensitivity {
    /// Sensitivity through.
    Simulated(Detectable),
    /// Simulating it would take too long, or trials don't spread: computed, which is the best case.
    Computed(Detectable),
    /// Nothing, or hundredfold effects only.
    Nothing,
}

/// The smallest effects coloured with probability `power` (0.8 in most plans).
pub fn detectable(plan: &Plan, power: f64) -> Sensitivity {
    let Some(computed) = super::detectable(plan, power) else { return Sensitivity::Nothing };
    if work(plan) > MOST_WORK || plan.spread == 0.0 {
        return Sensitivity::Computed(computed);
    }
    simulated(plan, power).map_or(Sensitivity::Nothing, Sensitivity::Simulated)
}

/// The share of `studies` other studies of one cell in which an effect of this ratio is coloured.
pub fn found(plan: &Plan, ratio: f64, studies: u32, seed: u64) -> f64 {
    let SimulatedCell { layout, noise, criteria, .. } = SimulatedCell::of(plan);
    rates(&layout, &noise, &[ratio], &Criteria { seed: 1, ..criteria }, studies, seed).found
}

fn work(plan: &Plan) -> f64 {
    let trials = f64::from(plan.blocks) * (f64::from(plan.defaults_per_block) + plan.variants as f64);
    trials * shuffling::rounds(first_level(plan.cells, plan.confidence)) as f64
}

fn simulated(plan: &Plan, power: f64) -> Option<Detectable> {
    let prepared = Prepared::of(plan)?;
    let (more, less) = (prepared.reach(1.0, power)?, prepared.reach(-1.0, power)?);
    let mut cell = SimulatedCell::of(plan);
    let reached = approach(|at, n| cell.is_found(at, n), more, prepared.error, power)?;
    // On logarithms both directions are alike, but for the smallest effect that is coloured.
    Some(Detectable { more: reached.exp_m1(), less: -(-reached * less / more).exp_m1() })
}

/// The log ratio at which `is_found` is true with probability `power`, from a first guess and the standard error where
/// nothing is shuffled. `is_found` is asked of a log ratio and of a number that is another one each time.
fn approach(mut is_found: impl FnMut(f64, u32) -> bool, first: f64, error: f64, power: f64) -> Option<f64> {
    let mut at = first.min(LARGEST);
    let (mut sum, mut found, mut counted) = (0.0, 0.0, 0.0);
    for n in 0..STUDIES {
        let one = if is_found(at, n) { 1.0 } else { 0.0 };
        if n >= STUDIES / 3 {
            (sum, found, counted) = (sum + at, found + one, counted + 1.0);
        }
        at = (at + STEP * error * (power - one) / (FIRST + f64::from(n))).clamp(0.0, LARGEST);
    }
    (found / counted > power - SHORT).then_some(sum / counted)
}

/// A cell of a plan's synthetic studies, in which the first variant has an effect.
struct SimulatedCell {
    layout: Layout,
    noise: Noise,
    criteria: Criteria,
    /// Distributions of the studies before.
    cache: Cache,
}

impl SimulatedCell {
    fn of(plan: &Plan) -> Self {
        let Plan { blocks, defaults_per_block, variants, .. } = *plan;
        let confidence = 1.0 - first_level(plan.cells, plan.confidence);
        Self {
            layout: Layout { cells: 1, variants, blocks, defaults_per_block },
            noise: Noise::Normal { spread: plan.log_spread() },
            criteria: Criteria { correction: plan.correction, confidence, effect: plan.effect, seed: 0 },
            cache: Cache::default(),
        }
    }

    /// Whether study number `n` colours an effect of this log ratio.
    fn is_found(&mut self, log_ratio: f64, n: u32) -> bool {
        let seed = u64::from(n) + 1;
        let cells = study(&self.layout, &self.noise, &[log_ratio.exp()], seed);
        let judged = judge_with(&mut self.cache, &cells, &Criteria { seed, ..self.criteria });
        let effect = judged.iter().flat_map(|j| &j.entries).find(|e| e.variant == 1);
        effect.is_some_and(|e| e.colour.tells_apart() && (e.ratio > 1.0) == (log_ratio > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Correction;
    use crate::student::normal_below;

    fn plan(blocks: u32, variants: usize, cells: usize) -> Plan {
        Plan {
            blocks,
            defaults_per_block: 2,
            variants,
            cells,
            spread: 0.1,
            confidence: 0.95,
            effect: 0.05,
            correction: Correction::Holm,
        }
    }

    #[test]
    fn effects_of_small_plans_are_found_as_often_as_played_and_less_often_as_computed() {
        let pairs = Plan { defaults_per_block: 1, ..plan(9, 1, 3) };
        for (plan, most_computed) in [(pairs, 0.75), (plan(3, 3, 3), 0.77)] {
            let simulated = simulated(&plan, 0.8).unwrap();
            let computed = super::super::detectable(&plan, 0.8).unwrap();
            // The standard error of 80% in 600 studies is 2%, and that of the simulated effect is 3%.
            for ratio in [1.0 + simulated.more, 1.0 - simulated.less] {
                let found = found(&plan, ratio, 600, 77);
                assert!((found - 0.8).abs() < 0.07, "{plan:?}: {found}");
            }
            let found = found(&plan, 1.0 - computed.less, 600, 77);
            assert!(found < most_computed, "{plan:?}: {found}");
        }
    }

    #[test]
    fn in_whole_studies_as_much_is_found() {
        let plan = plan(3, 3, 3);
        let layout = Layout { cells: 3, variants: 3, blocks: 3, defaults_per_block: 2 };
        let criteria = Criteria {
            correction: plan.correction,
            confidence: plan.confidence,
            effect: plan.effect,
            seed: 5,
        };
        let less = simulated(&plan, 0.8).unwrap().less;
        let noise = Noise::Normal { spread: plan.log_spread() };
        // All cells have the effect: what is told apart in one eases the others' levels.
        let found = rates(&layout, &noise, &[1.0 - less], &criteria, 300, 77).found;
        assert!((0.76..0.92).contains(&found), "{found}");
    }

    #[test]
    fn in_many_blocks_both_say_the_same() {
        let plan = plan(12, 3, 2);
        let (simulated, computed) =
            (simulated(&plan, 0.8).unwrap(), super::super::detectable(&plan, 0.8).unwrap());
        assert!((simulated.more / computed.more - 1.0).abs() < 0.1, "{simulated:?} {computed:?}");
    }

    #[test]
    fn large_plans_and_those_without_spread_are_left_to_the_computation() {
        for plan in [plan(300, 20, 2), Plan { spread: 0.0, ..plan(3, 3, 2) }] {
            assert!(matches!(detectable(&plan, 0.8), Sensitivity::Computed(_)), "{plan:?}");
        }
        assert_eq!(detectable(&plan(1, 1, 1), 0.8), Sensitivity::Nothing);
    }

    #[test]
    fn the_effect_is_found_from_any_first_guess_where_there_is_one() {
        // Found where it is larger than a draw that spreads twice as wide as the error says.
        let share = |at: f64| normal_below((at - 1.0) / 0.2);
        let is_found = |at: f64, n: u32| f64::from((n * 7919) % 1009) / 1009.0 < share(at);
        for first in [0.9, 1.0, 1.25] {
            let at = approach(is_found, first, 0.1, 0.8).unwrap();
            assert!((share(at) - 0.8).abs() < 0.06, "{first}: {at}");
        }
        assert_eq!(approach(|_, _| false, 0.5, 0.1, 0.8), None);
    }
}
