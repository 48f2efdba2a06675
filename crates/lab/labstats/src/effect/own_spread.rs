//! Whether a variant's trials spread as those of the others do. The comparison takes all to spread alike; where one
//! spreads several times more, its mean may look like an effect more often than the confidence asked for.

use std::collections::BTreeMap;

use super::{DEFAULT, Trial, fit};

/// With fewer blocks, and fewer degrees of freedom of the others, the answer is chance.
const LEAST_BLOCKS: usize = 3;
const LEAST_DF: u32 = 3;

/// How many times as much a variant's difference from the default varies between blocks as the spread of all other
/// trials lets it. `None` where that is not known: fewer than three blocks, or others that don't spread.
pub fn own_spread(trials: &[Trial], variant: usize) -> Option<f64> {
    let others: Vec<Trial> = trials.iter().copied().filter(|t| t.variant != variant).collect();
    let spread = fit(&others).ok().filter(|f| f.df >= LEAST_DF).map(|f| f.spread).filter(|&s| s > 0.0)?;
    let mut blocks: BTreeMap<u32, [Vec<f64>; 2]> = BTreeMap::new();
    for t in trials.iter().filter(|t| t.value.is_finite() && t.value > 0.0) {
        let side = if t.variant == variant { 1 } else { 0 };
        if side == 1 || t.variant == DEFAULT {
            blocks.entry(t.block).or_default()[side].push(t.value.ln());
        }
    }
    let both: Vec<[Vec<f64>; 2]> =
        blocks.into_values().filter(|sides| sides.iter().all(|s| !s.is_empty())).collect();
    if both.len() < LEAST_BLOCKS {
        return None;
    }
    let n = both.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let differences: Vec<f64> = both.iter().map(|[default, own]| mean(own) - mean(default)).collect();
    // Of a difference's variance, in units of one trial's: the mean over blocks.
    let expected =
        both.iter().map(|sides| sides.iter().map(|s| 1.0 / s.len() as f64).sum::<f64>()).sum::<f64>() / n;
    let centre = mean(&differences);
    let variance = differences.iter().map(|d| (d - centre).powi(2)).sum::<f64>() / (n - 1.0);
    Some((variance / expected).sqrt() / spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Layout, Noise, study};

    const LAYOUT: Layout = Layout { cells: 1, variants: 3, blocks: 3, defaults_per_block: 2 };

    /// The share of studies in which the first variant, whose noise is `times` that of the others, spreads three times as
    /// much as they do.
    fn noticed(times: f64, blocks: u32) -> f64 {
        let noticed = |seed: u64| {
            let layout = Layout { blocks, ..LAYOUT };
            let mut cells = study(&layout, &Noise::Normal { spread: 0.1 }, &[], seed);
            for t in cells[0].trials.iter_mut().filter(|t| t.variant == 1) {
                t.value = t.value.powf(times);
            }
            own_spread(&cells[0].trials, 1).is_some_and(|times| times > 3.0)
        };
        (0..2000).filter(|&seed| noticed(seed)).count() as f64 / 2000.0
    }

    #[test]
    fn what_spreads_more_is_noticed_and_what_spreads_alike_is_not() {
        for blocks in [3, 6] {
            assert!(noticed(1.0, blocks) < 0.01, "{blocks}");
            assert!(noticed(8.0, blocks) > 0.6, "{blocks}");
        }
    }

    #[test]
    fn too_few_blocks_and_no_spread_tell_nothing() {
        let trial = |block, variant, value| Trial { block, variant, value };
        assert_eq!(own_spread(&[], 1), None);
        let flat: Vec<Trial> =
            (0..4).flat_map(|b| [trial(b, 0, 1.0), trial(b, 0, 1.0), trial(b, 1, 2.0)]).collect();
        assert_eq!(own_spread(&flat, 1), None);
        let cells = study(&Layout { blocks: 2, ..LAYOUT }, &Noise::Normal { spread: 0.1 }, &[], 1);
        assert_eq!(own_spread(&cells[0].trials, 1), None);
    }
}
