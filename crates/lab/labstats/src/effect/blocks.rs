//! The trials of a cell by blocks, and the equations of their least squares.

use std::collections::{BTreeMap, BTreeSet};

use super::{DEFAULT, NoFit, Trial};
use crate::matrix::Square;

/// The blocks that are connected with the default: (variant, ln value) of each trial.
pub(super) struct Blocks {
    pub(super) blocks: Vec<Vec<(usize, f64)>>,
    pub(super) variants: BTreeSet<usize>,
}

impl Blocks {
    pub(super) fn of(trials: &[Trial]) -> Result<Self, NoFit> {
        if !trials.iter().any(|t| t.variant == DEFAULT) {
            return Err(NoFit::NoDefault);
        }
        let mut all: BTreeMap<u32, Vec<(usize, f64)>> = BTreeMap::new();
        for t in trials {
            all.entry(t.block).or_default().push((t.variant, t.value.ln()));
        }
        // Sums must not depend on the order in which trials are handed in.
        all.values_mut().for_each(|b| b.sort_by(|x, y| x.0.cmp(&y.0).then(x.1.total_cmp(&y.1))));
        let variants = reachable(&all);
        let blocks = all.into_values().filter(|b| b.iter().any(|t| variants.contains(&t.0))).collect();
        Ok(Self { blocks, variants })
    }

    pub(super) fn trials(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    pub(super) fn count(&self, variant: usize) -> usize {
        self.blocks.iter().flatten().filter(|t| t.0 == variant).count()
    }

    /// The information matrix of the variants' differences from the default, and its right-hand side.
    pub(super) fn normal_equations(&self, variants: &[usize]) -> (Square, Vec<f64>) {
        let place: BTreeMap<usize, usize> = variants.iter().enumerate().map(|(i, &v)| (v, i)).collect();
        let mut information = vec![vec![0.0; variants.len()]; variants.len()];
        let mut score = vec![0.0; variants.len()];
        for block in &self.blocks {
            let size = block.len() as f64;
            let mean = block.iter().map(|t| t.1).sum::<f64>() / size;
            let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
            for (variant, y) in block {
                if let Some(&i) = place.get(variant) {
                    *counts.entry(i).or_default() += 1.0;
                    score[i] += y - mean;
                }
            }
            for (&i, &n) in &counts {
                information[i][i] += n;
                for (&j, &m) in &counts {
                    information[i][j] -= n * m / size;
                }
            }
        }
        (information, score)
    }

    /// What the estimates (by variant; 0 for what is missing) leave of each trial, by block in the order of `blocks`.
    pub(super) fn residuals(&self, estimates: &BTreeMap<usize, f64>) -> Vec<Vec<f64>> {
        let of_block = |block: &Vec<(usize, f64)>| {
            let rest: Vec<f64> =
                block.iter().map(|(v, y)| y - estimates.get(v).copied().unwrap_or(0.0)).collect();
            let mean = rest.iter().sum::<f64>() / rest.len() as f64;
            rest.into_iter().map(|r| r - mean).collect()
        };
        self.blocks.iter().map(of_block).collect()
    }
}

/// Variants that a chain of blocks connects with the default.
fn reachable(blocks: &BTreeMap<u32, Vec<(usize, f64)>>) -> BTreeSet<usize> {
    let mut found = BTreeSet::from([DEFAULT]);
    loop {
        let before = found.len();
        for block in blocks.values() {
            if block.iter().any(|t| found.contains(&t.0)) {
                found.extend(block.iter().map(|t| t.0));
            }
        }
        if found.len() == before {
            return found;
        }
    }
}
