//! Joint distributions kept for the next cell that has the same: the cells of a complete study all do, and so do all
//! synthetic studies of a layout. A distribution that is asked for often gets a table of its p, which is read by cubic
//! interpolation of ln p over ln t; p from it are right to about 1e-5 of themselves.

use std::collections::BTreeMap;

use super::Dunnett;

/// Distributions by their loadings and degrees of freedom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    known: BTreeMap<(Vec<u64>, u32), Kept>,
}

/// A distribution with what was computed of it before.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    dunnett: Dunnett,
    uses: u32,
    table: Vec<f64>,
    critical: BTreeMap<u64, f64>,
}

/// A table costs as much as some 200 p; a cell needs one for each variant and some ten for each critical value.
const USES_BEFORE_TABLE: u32 = 5;

/// Ln t of the table's first entry, and the distance of entries.
const FIRST: f64 = -2.3;
const STEP: f64 = 0.03;
const ENTRIES: usize = 240;

/// Below this p the table ends.
const LEAST: f64 = 1e-13;

impl Cache {
    /// As [`Dunnett::new`].
    pub(crate) fn get(&mut self, squared_loadings: &[f64], df: u32) -> &mut Kept {
        // Rounding in the last digits must not make two distributions of one.
        let mut key: Vec<u64> = squared_loadings.iter().map(|l| (l * 1e10).round() as u64).collect();
        key.sort_unstable();
        let kept = self.known.entry((key, df)).or_insert_with(|| Kept {
            dunnett: Dunnett::new(squared_loadings, df),
            uses: 0,
            table: Vec::new(),
            critical: BTreeMap::new(),
        });
        kept.uses += 1;
        if kept.uses == USES_BEFORE_TABLE {
            kept.table = table(&kept.dunnett);
            kept.critical.clear();
        }
        kept
    }
}

impl Kept {
    /// As [`Dunnett::p`].
    pub(crate) fn p(&self, t: f64) -> f64 {
        self.tabulated(t.abs()).unwrap_or_else(|| self.dunnett.p(t))
    }

    /// As [`Dunnett::critical`].
    pub(crate) fn critical(&mut self, level: f64) -> f64 {
        if let Some(known) = self.critical.get(&level.to_bits()) {
            return *known;
        }
        let found = super::critical(|t| self.p(t), level);
        self.critical.insert(level.to_bits(), found);
        found
    }

    fn tabulated(&self, t: f64) -> Option<f64> {
        let place = (t.ln() - FIRST) / STEP;
        let left = place.floor();
        if left.is_nan() || left < 1.0 || left > ENTRIES as f64 {
            return None;
        }
        let first = left as usize - 1;
        let [a, b, c, d] = *self.table.get(first..first + 4)? else { return None };
        let x = place - left;
        // Lagrange's cubic through the entries at -1, 0, 1, 2.
        let y = -a * x * (x - 1.0) * (x - 2.0) / 6.0 + b * (x + 1.0) * (x - 1.0) * (x - 2.0) / 2.0
            - c * (x + 1.0) * x * (x - 2.0) / 2.0
            + d * (x + 1.0) * x * (x - 1.0) / 6.0;
        Some(y.exp().min(1.0))
    }
}

fn table(dunnett: &Dunnett) -> Vec<f64> {
    (0..ENTRIES)
        .map(|i| dunnett.p((FIRST + STEP * i as f64).exp()))
        .take_while(|&p| p > LEAST)
        .map(f64::ln)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_distribution_says() {
        for (squared, df) in [(vec![0.33; 20], 40), (vec![0.2, 0.5, 0.8], 2), (vec![0.5], 1000)] {
            let mut cache = Cache::default();
            (0..USES_BEFORE_TABLE).for_each(|_| _ = cache.get(&squared, df).critical(0.05));
            let kept = cache.get(&squared, df);
            assert!(!kept.table.is_empty());
            for i in 0..400 {
                let t = 0.01 * 1.025_f64.powi(i);
                let (found, expected) = (kept.p(t), kept.dunnett.p(t));
                assert!((found - expected).abs() <= 5e-5 * expected, "{df} {t}: {found}, not {expected}");
            }
            for level in [0.05, 0.001] {
                assert!((kept.critical(level) / kept.dunnett.critical(level) - 1.0).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn no_t_at_all_is_never_significant() {
        let mut cache = Cache::default();
        (0..9).for_each(|_| _ = cache.get(&[0.5, 0.5], 3).critical(0.05));
        let kept = cache.get(&[0.5, 0.5], 3);
        assert_eq!((kept.p(0.0), kept.p(f64::NAN), kept.p(f64::INFINITY)), (1.0, 1.0, 0.0));
        assert!((kept.p(-3.0) - kept.p(3.0)).abs() < 1e-15);
    }
}
