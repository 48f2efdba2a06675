//! The same t with the variants' names shuffled: what t come from trials like these, normal or not, where no variant
//! differs.
//!
//! Source: R. A. Fisher, "The Design of Experiments" (1935); the largest of all t against those of the shuffled data: P.
//! H. Westfall and S. S. Young, "Resampling-Based Multiple Testing" (1993). As the runner shuffled the variants within
//! blocks, the comparison is exact for a cell in which nothing differs, whatever the distribution of the trials. With
//! many variants and few trials of each it is needed: the pooled spread hardly notices one stalled trial, which Student's
//! t then takes for an effect.
//!
//! With few blocks that can't give small p ([`super::CellFit::least_shuffled_p`]). Then what blocks leave of the trials is
//! shuffled over all of them (D. Freedman and D. Lane, "A nonstochastic interpretation of reported significance levels",
//! 1983), which is exact only if all blocks spread alike.
//!
//! Limits: where some variants differ, their trials take part in the shuffling, which is on the careful side.

use std::collections::BTreeMap;

use super::blocks::Blocks;
use super::{DEFAULT, Trial};
use crate::matrix::{Square, inverse};
use crate::random::Random;

/// Where a trial's place may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// The places of its own block.
    Blocks,
    /// All places.
    All,
}

/// |t| of shuffled data.
pub(crate) struct Shuffled {
    /// The largest of each round, ascending.
    largest: Vec<f64>,
    /// Of all variants in all rounds, ascending.
    all: Vec<f64>,
}

impl Shuffled {
    /// The share of rounds, this one included, whose largest |t| is at least `t`.
    pub(crate) fn p_of_largest(&self, t: f64) -> f64 {
        share_from(&self.largest, t)
    }

    /// The share of all |t|, this one included, that are at least `t`.
    pub(crate) fn p_alone(&self, t: f64) -> f64 {
        share_from(&self.all, t)
    }
}

fn share_from(ascending: &[f64], t: f64) -> f64 {
    // Rounding differs with the order of summing; equal t count as reached.
    let below = ascending.partition_point(|&x| x < t.abs() * (1.0 - 1e-9));
    (ascending.len() - below + 1) as f64 / (ascending.len() + 1) as f64
}

/// Shuffles the usable trials of a cell `rounds` times. `None` where the cell can't be fitted.
pub(crate) fn shuffled(trials: &[Trial], over: Over, rounds: usize, seed: u64) -> Option<Shuffled> {
    let usable: Vec<Trial> =
        trials.iter().copied().filter(|t| t.value.is_finite() && t.value > 0.0).collect();
    let blocks = Blocks::of(&usable).ok()?;
    let variants: Vec<usize> = blocks.variants.iter().copied().filter(|&v| v != DEFAULT).collect();
    let covariance = inverse(&blocks.normal_equations(&variants).0)?;
    let df = blocks.trials().checked_sub(blocks.blocks.len() + variants.len()).filter(|&df| df > 0)?;
    let mut rows = Rows::of(&blocks, &variants);
    let mut random = Random::new(seed);
    let mut result = Shuffled { largest: Vec::with_capacity(rounds), all: Vec::new() };
    for _ in 0..rounds {
        rows.shuffle(over, &mut random);
        let t = rows.t(&covariance, df as f64);
        result.largest.push(t.iter().copied().fold(0.0, f64::max));
        result.all.extend(t);
    }
    result.largest.sort_by(f64::total_cmp);
    result.all.sort_by(f64::total_cmp);
    Some(result)
}

/// The chance that one trial of each block gets the same variant's name, whichever; shuffled over all, that a variant
/// gets just the trials that suit it best.
pub(super) fn least_shuffled_p(blocks: &Blocks, over: Over) -> f64 {
    let variants = blocks.variants.len().saturating_sub(1) as f64;
    let one = match over {
        Over::Blocks => blocks.blocks.iter().map(|b| 1.0 / b.len() as f64).product::<f64>(),
        Over::All => {
            let (trials, of_one) = (blocks.trials(), blocks.blocks.len());
            (0..of_one).map(|i| (of_one - i) as f64 / trials.saturating_sub(i).max(1) as f64).product()
        }
    };
    (variants * one * mirrored(blocks, over)).min(1.0)
}

/// Where one variant and the default have as many trials, exchanging all their names gives the same |t| once more.
fn mirrored(blocks: &Blocks, over: Over) -> f64 {
    let is_half =
        |trials: &[(usize, f64)]| 2 * trials.iter().filter(|t| t.0 == DEFAULT).count() == trials.len();
    let one_variant = blocks.variants.len() == 2;
    let alike = match over {
        Over::Blocks => blocks.blocks.iter().all(|b| is_half(b)),
        Over::All => is_half(&blocks.blocks.concat()),
    };
    if one_variant && alike { 2.0 } else { 1.0 }
}

/// The trials in order of blocks: the variant's place (`None`: the default), and ln value less the block's mean.
struct Rows {
    places: Vec<Option<usize>>,
    values: Vec<f64>,
    /// Trials of each block.
    sizes: Vec<usize>,
    variants: usize,
}

impl Rows {
    fn of(blocks: &Blocks, variants: &[usize]) -> Self {
        let place: BTreeMap<usize, usize> = variants.iter().enumerate().map(|(i, &v)| (v, i)).collect();
        let mut rows = Self {
            places: blocks.blocks.iter().flatten().map(|t| place.get(&t.0).copied()).collect(),
            values: blocks.blocks.iter().flatten().map(|t| t.1).collect(),
            sizes: blocks.blocks.iter().map(Vec::len).collect(),
            variants: variants.len(),
        };
        rows.centre();
        rows
    }

    /// Takes the blocks' means out.
    fn centre(&mut self) {
        let mut rest = self.values.as_mut_slice();
        for &size in &self.sizes {
            let (block, after) = rest.split_at_mut(size);
            let mean = block.iter().sum::<f64>() / size as f64;
            block.iter_mut().for_each(|y| *y -= mean);
            rest = after;
        }
    }

    fn shuffle(&mut self, over: Over, random: &mut Random) {
        if over == Over::All {
            random.shuffle(&mut self.values);
            return;
        }
        let mut rest = self.values.as_mut_slice();
        for &size in &self.sizes {
            let (block, after) = rest.split_at_mut(size);
            random.shuffle(block);
            rest = after;
        }
    }

    fn t(&self, covariance: &Square, df: f64) -> Vec<f64> {
        let mut score = vec![0.0; self.variants];
        let mut squares = 0.0;
        let mut first = 0;
        for &size in &self.sizes {
            let block = first..first + size;
            first = block.end;
            let mean = self.values[block.clone()].iter().sum::<f64>() / size as f64;
            for (place, value) in self.places[block.clone()].iter().zip(&self.values[block]) {
                let centred = value - mean;
                squares += centred * centred;
                if let Some(i) = *place {
                    score[i] += centred;
                }
            }
        }
        let estimates: Vec<f64> =
            covariance.iter().map(|row| row.iter().zip(&score).map(|(c, s)| c * s).sum()).collect();
        let explained: f64 = estimates.iter().zip(&score).map(|(e, s)| e * s).sum();
        let spread = ((squares - explained).max(f64::MIN_POSITIVE) / df).sqrt();
        let errors = covariance.iter().enumerate().map(|(i, row)| spread * row[i].sqrt());
        estimates.iter().zip(errors).map(|(e, error)| (e / error).abs()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::fit;

    fn trials(noise: impl Fn(usize) -> f64) -> Vec<Trial> {
        (0..36)
            .map(|i| Trial {
                block: i as u32 / 12,
                variant: (i % 12_usize).saturating_sub(2),
                value: noise(i).exp(),
            })
            .collect()
    }

    #[test]
    fn without_shuffling_t_is_that_of_the_fit() {
        let trials = trials(|i| ((i * 7919 % 101) as f64) / 500.0);
        let blocks = Blocks::of(&trials).unwrap();
        let variants: Vec<usize> = (1..10).collect();
        let covariance = inverse(&blocks.normal_equations(&variants).0).unwrap();
        let cell = fit(&trials).unwrap();
        let t = Rows::of(&blocks, &variants).t(&covariance, f64::from(cell.df));
        assert!(cell.effects.iter().zip(t).all(|(e, t)| (e.t().abs() - t).abs() < 1e-9));
    }

    #[test]
    fn one_stalled_trial_is_no_surprise_to_shuffled_data_and_an_effect_in_all_blocks_is() {
        let noise = |i: usize| ((i * 7919 % 101) as f64) / 2000.0;
        let p = |trials: &[Trial]| {
            let strongest = fit(trials).unwrap().effects.iter().map(|e| e.t().abs()).fold(0.0, f64::max);
            let shuffled = shuffled(trials, Over::Blocks, 500, 1).unwrap();
            (shuffled.p_of_largest(strongest), shuffled.p_alone(strongest))
        };
        let stalled = p(&trials(|i| noise(i) - if i == 17 { 0.7 } else { 0.0 }));
        assert!(stalled.0 > 0.2 && stalled.1 > 0.02, "{stalled:?}");
        let effect = p(&trials(|i| noise(i) - if i % 12 == 5 { 0.2 } else { 0.0 }));
        assert!(effect.0 < 0.01 && effect.1 < 0.002, "{effect:?}");
    }

    #[test]
    fn p_is_hardly_below_what_chance_puts_together() {
        let trials = trials(|i| ((i * 7919 % 101) as f64) / 20_000.0 - if i % 12 == 5 { 2.0 } else { 0.0 });
        let cell = fit(&trials).unwrap();
        assert!((cell.least_shuffled_p - 9.0 / 12_f64.powi(3)).abs() < 1e-12);
        let p = shuffled(&trials, Over::Blocks, 4000, 1).unwrap().p_of_largest(cell.effects[2].t());
        assert!((0.5..2.0).contains(&(p / cell.least_shuffled_p)), "{p}");
        let over_all = shuffled(&trials, Over::All, 20_000, 1).unwrap().p_of_largest(cell.effects[2].t());
        assert!((cell.least_p_shuffled_over_all - 9.0 * 6.0 / (36.0 * 35.0 * 34.0)).abs() < 1e-12);
        assert!((0.5..2.0).contains(&(over_all / cell.least_p_shuffled_over_all)), "{over_all}");
    }

    #[test]
    fn two_names_exchanged_are_as_far_apart_as_before() {
        let trials: Vec<Trial> = (0..12)
            .map(|i| Trial { block: i / 2, variant: (i % 2) as usize, value: f64::from(1 + i % 2 + i / 7) })
            .collect();
        let cell = fit(&trials).unwrap();
        let p = |over| shuffled(&trials, over, 4000, 1).unwrap().p_of_largest(cell.effects[0].t());
        assert!((cell.least_shuffled_p - 2.0 / 64.0).abs() < 1e-12);
        assert!((0.5..2.0).contains(&(p(Over::Blocks) / cell.least_shuffled_p)));
        assert!((cell.least_p_shuffled_over_all - 2.0 / 924.0).abs() < 1e-12);
    }
}
