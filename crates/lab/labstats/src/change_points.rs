//! Change points in a series of runs, for `lab history`.
//!
//! Source: E-divisive means (D. S. Matteson and N. A. James, "A nonparametric approach for multiple change point
//! analysis of multivariate data", JASA 109, 2014), found useful for software performance by D. Daly et al., "The use
//! of change point detection to identify software performance regressions in a continuous integration system" (2020).
//! The series is split where the energy distance between the two sides is largest, as long as a permutation test finds
//! the split significant; then the parts are looked at in the same way. Values are taken as logarithms, so a change is
//! a ratio.
//!
//! Limits: runs are taken as independent. Each split is tested at the level asked for, not all of them together. In
//! short series nothing can be significant, however large: [`Options::fewest_runs`]; a change in the last
//! [`Options::shortest`] runs needs [`Options::fewest_runs_for_the_end`]. The size of a change is that of the means of
//! its two parts with Welch's interval (B. L. Welch 1947), which does not know that the place was chosen where the
//! change looks largest: it errs to the narrow and large side, less so for clear changes. The work grows with the
//! square of the series' length times the permutations: a second for some hundred runs.

use crate::random::Random;
use crate::student::t_critical;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Level of each split's test.
    pub level: f64,
    /// Permutations of each test; the smallest p is one over one more.
    pub permutations: u32,
    /// Runs between two changes at least; 2 or more.
    pub shortest: usize,
    /// Confidence of the sizes' intervals.
    pub confidence: f64,
    /// Seed of the permutations.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { level: 0.01, permutations: 499, shortest: 3, confidence: 0.95, seed: 1 }
    }
}

impl Options {
    /// The shortest series in which a change can be found at all, wherever it lies.
    pub fn fewest_runs(&self) -> usize {
        let can = |n: &usize| self.can_be_found(*n, n / 2);
        (2 * self.shortest.max(2)..RUNS_LOOKED_AT).find(can).unwrap_or(RUNS_LOOKED_AT)
    }

    /// The shortest series in which a change in the last runs can be found.
    pub fn fewest_runs_for_the_end(&self) -> usize {
        let can = |n: &usize| self.can_be_found(*n, self.shortest.max(2));
        (self.fewest_runs()..RUNS_LOOKED_AT).find(can).unwrap_or(RUNS_LOOKED_AT)
    }

    /// Whether a split of `n` runs that leaves `m` on one side can have a p at the level: of all ways to choose them, this
    /// one and the one that changes the sides look as far apart, and permutations meet them by chance.
    fn can_be_found(&self, n: usize, m: usize) -> bool {
        let ways = (0..m).fold(1.0, |ways, i| ways * (n - i) as f64 / (i + 1) as f64);
        let permutations = f64::from(self.permutations);
        (1.0 + permutations * 2.0 / ways) / (permutations + 1.0) <= self.level
    }
}

/// Series that are looked at for the fewest runs.
const RUNS_LOOKED_AT: usize = 1000;

/// A change between two runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChangePoint {
    /// The first run after the change, from 0.
    pub at: usize,
    /// P of its permutation test.
    pub p: f64,
    /// Geometric mean after, up to the next change, over that before, back to the one before.
    pub ratio: f64,
    /// The ratio's interval.
    pub interval: (f64, f64),
}

/// A value that has no logarithm.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error(
    "run {at} of the series has the value {value}: only numbers above 0 have a ratio; leave that run out"
)]
pub struct NoRatio {
    /// Which, from 0.
    pub at: usize,
    pub value: f64,
}

/// The change points of a series of runs in order of time, ascending.
pub fn change_points(series: &[f64], options: &Options) -> Result<Vec<ChangePoint>, NoRatio> {
    if let Some((at, &value)) = series.iter().enumerate().find(|(_, v)| !(v.is_finite() && **v > 0.0)) {
        return Err(NoRatio { at, value });
    }
    let logs: Vec<f64> = series.iter().map(|v| v.ln()).collect();
    let mut search = Search { options, shortest: options.shortest.max(2), random: Random::new(options.seed) };
    let splits = search.splits(&logs);
    Ok(sizes(&logs, &splits, options.confidence))
}

/// A place and its p.
type Split = (usize, f64);

struct Search<'a> {
    options: &'a Options,
    shortest: usize,
    random: Random,
}

impl Search<'_> {
    fn splits(&mut self, logs: &[f64]) -> Vec<Split> {
        let mut splits: Vec<Split> = Vec::new();
        loop {
            let parts = parts(logs, &splits);
            let Some((energy, at)) = best(&parts, self.shortest) else { return splits };
            let Some(p) = self.permutation_p(&parts, energy) else { return splits };
            splits.push((at, p));
            splits.sort_by_key(|s| s.0);
        }
    }

    /// How often a split as good is found after the values of each part were shuffled; `None` as soon as that is more
    /// often than the level allows.
    fn permutation_p(&mut self, parts: &[(usize, &[f64])], energy: f64) -> Option<f64> {
        let mut shuffled: Vec<(usize, Vec<f64>)> =
            parts.iter().map(|&(at, part)| (at, part.to_vec())).collect();
        let share =
            |as_good: u32| f64::from(as_good) / f64::from(self.options.permutations.saturating_add(1));
        let mut as_good = 1_u32;
        for _ in 0..self.options.permutations {
            if share(as_good) > self.options.level {
                return None;
            }
            for (_, part) in &mut shuffled {
                self.random.shuffle(part);
            }
            // Rounding differs with the order of the values; equal energies count as good.
            let found = best(&shuffled, self.shortest).map_or(0.0, |b| b.0);
            as_good += u32::from(found >= energy * (1.0 - 1e-9));
        }
        Some(share(as_good)).filter(|&p| p <= self.options.level)
    }
}

/// The best split of any part: its energy and its place in the whole series.
fn best<T: AsRef<[f64]>>(parts: &[(usize, T)], shortest: usize) -> Option<(f64, usize)> {
    parts
        .iter()
        .filter_map(|(start, part)| best_split(part.as_ref(), shortest).map(|(e, at)| (e, start + at)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The parts between the splits, each with its place.
fn parts<'a>(logs: &'a [f64], splits: &[Split]) -> Vec<(usize, &'a [f64])> {
    let mut edges: Vec<usize> = splits.iter().map(|s| s.0).collect();
    edges.push(logs.len());
    let mut start = 0;
    let mut result = Vec::new();
    for end in edges {
        result.push((start, &logs[start..end]));
        start = end;
    }
    result
}

/// The split of one part with the largest energy (above 0) and that energy; `None` where the part is too short or all
/// its values are the same.
fn best_split(part: &[f64], shortest: usize) -> Option<(f64, usize)> {
    let n = part.len();
    if n < 2 * shortest {
        return None;
    }
    // Sums of distances within the values before the split, within those after it, and between both.
    let distances_to = |i: usize, of: &[f64]| -> f64 { of.iter().map(|y| (part[i] - y).abs()).sum() };
    let (mut before, mut between) = (0.0, 0.0);
    let mut after: f64 = (0..n).map(|i| distances_to(i, &part[i..])).sum();
    let mut best: Option<(f64, usize)> = None;
    for at in 1..=n - shortest {
        let (to_before, to_after) =
            (distances_to(at - 1, &part[..at - 1]), distances_to(at - 1, &part[at..]));
        before += to_before;
        after -= to_after;
        between += to_after - to_before;
        if at < shortest {
            continue;
        }
        let (left, right) = (at as f64, (n - at) as f64);
        let apart = 2.0 * between / (left * right)
            - 2.0 * before / (left * (left - 1.0))
            - 2.0 * after / (right * (right - 1.0));
        let energy = apart * left * right / (left + right);
        if energy > best.map_or(1e-12, |b| b.0) {
            best = Some((energy, at));
        }
    }
    best
}

fn sizes(logs: &[f64], splits: &[Split], confidence: f64) -> Vec<ChangePoint> {
    let parts = parts(logs, splits);
    splits
        .iter()
        .zip(parts.windows(2))
        .map(|(&(at, p), pair)| {
            let (before, after) = (Moments::of(pair[0].1), Moments::of(pair[1].1));
            let change = after.mean - before.mean;
            let reach = welch_reach(&before, &after, confidence);
            ChangePoint {
                at,
                p,
                ratio: change.exp(),
                interval: ((change - reach).exp(), (change + reach).exp()),
            }
        })
        .collect()
}

struct Moments {
    mean: f64,
    /// Variance of the mean.
    variance: f64,
    df: f64,
}

impl Moments {
    fn of(part: &[f64]) -> Self {
        let n = part.len() as f64;
        let mean = part.iter().sum::<f64>() / n;
        let squares: f64 = part.iter().map(|x| (x - mean).powi(2)).sum();
        Self { mean, variance: squares / (n - 1.0) / n, df: n - 1.0 }
    }
}

/// Half the width of Welch's interval of a difference of means.
fn welch_reach(a: &Moments, b: &Moments, confidence: f64) -> f64 {
    let variance = a.variance + b.variance;
    if variance == 0.0 {
        return 0.0;
    }
    let df = variance.powi(2) / (a.variance.powi(2) / a.df + b.variance.powi(2) / b.df);
    t_critical(1.0 - confidence, df) * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPTIONS: Options =
        Options { level: 0.01, permutations: 199, shortest: 3, confidence: 0.95, seed: 1 };

    fn series(levels: &[(usize, f64)], spread: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let flat = levels.iter().flat_map(|&(n, level)| std::iter::repeat_n(level, n));
        flat.map(|level| level * (spread * random.normal()).exp()).collect()
    }

    fn places(series: &[f64]) -> Vec<usize> {
        change_points(series, &OPTIONS).unwrap().iter().map(|c| c.at).collect()
    }

    #[test]
    fn a_short_series_shows_nothing_however_large_the_change() {
        let options = Options::default();
        assert_eq!((options.fewest_runs(), options.fewest_runs_for_the_end()), (10, 13));
        let noise = |i: usize| 1.0 + 0.01 * ((i * 7 % 5) as f64 - 2.0);
        let found = |runs: usize, after: usize| {
            let series: Vec<f64> =
                (0..runs).map(|i| noise(i) * if i < runs - after { 1.0 } else { 3.0 }).collect();
            change_points(&series, &options).unwrap().len()
        };
        assert_eq!((found(9, 4), found(10, 5), found(12, 3), found(13, 3)), (0, 1, 0, 1));
    }

    #[test]
    fn changes_are_found_where_they_are_with_their_size() {
        let found =
            change_points(&series(&[(20, 1000.0), (15, 800.0), (15, 1200.0)], 0.03, 1), &OPTIONS).unwrap();
        assert_eq!(found.iter().map(|c| c.at).collect::<Vec<_>>(), [20, 35]);
        for (change, ratio) in found.iter().zip([0.8, 1.5]) {
            assert!((change.ratio / ratio - 1.0).abs() < 0.03, "{change:?}");
            assert!(change.interval.0 < change.ratio && change.ratio < change.interval.1, "{change:?}");
            assert!(change.interval.1 / change.interval.0 < 1.1 && change.p <= 0.01, "{change:?}");
        }
    }

    #[test]
    fn one_odd_run_is_no_change() {
        let mut runs = series(&[(30, 1000.0)], 0.03, 2);
        runs[14] = 300.0;
        assert!(places(&runs).is_empty());
    }

    #[test]
    fn runs_that_differ_in_nothing_seldom_show_a_change() {
        let flagged =
            (0..150).filter(|&seed| !places(&series(&[(25, 1000.0)], 0.1, seed)).is_empty()).count();
        assert!(flagged <= 5, "{flagged} of 150 at 1%");
    }

    #[test]
    fn intervals_hold_the_size_of_clear_changes_about_as_often_as_they_say() {
        let (mut held, mut all) = (0, 0);
        for seed in 0..120 {
            for change in change_points(&series(&[(12, 100.0), (12, 130.0)], 0.05, seed), &OPTIONS).unwrap() {
                held += u32::from(change.interval.0 < 1.3 && 1.3 < change.interval.1);
                all += 1;
            }
        }
        assert!(all >= 118, "{all}");
        assert!(f64::from(held) / f64::from(all) > 0.89, "{held} of {all}");
    }

    #[test]
    fn what_is_too_short_or_flat_has_no_change() {
        assert!(places(&[]).is_empty() && places(&[1.0, 9.0, 1.0, 9.0]).is_empty());
        assert!(places(&[5.0; 40]).is_empty());
    }

    #[test]
    fn two_flat_levels_are_a_change_without_doubt() {
        let found = change_points(&series(&[(10, 1.0), (10, 2.0)], 0.0, 1), &OPTIONS).unwrap();
        assert_eq!((found.len(), found[0].at), (1, 10));
        assert!((found[0].ratio - 2.0).abs() < 1e-9 && found[0].interval.0 == found[0].interval.1);
    }

    #[test]
    fn a_run_without_a_result_is_refused() {
        assert_eq!(change_points(&[1.0, 0.0], &OPTIONS), Err(NoRatio { at: 1, value: 0.0 }));
        assert!(change_points(&[f64::NAN], &OPTIONS).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn the_unit_does_not_matter_and_the_seed_decides(seed in 0_u64..500, unit in 0.001..1000.0_f64) {
            let runs = series(&[(12, 100.0), (8, 115.0)], 0.05, seed);
            let scaled: Vec<f64> = runs.iter().map(|x| x * unit).collect();
            prop_assert_eq!(places(&runs), places(&scaled));
            prop_assert_eq!(places(&runs), places(&runs));
        }

        #[test]
        fn the_energy_is_that_of_its_definition(part in prop::collection::vec(0.0..10.0_f64, 6..20)) {
            let Some((energy, at)) = best_split(&part, 3) else { return Ok(()) };
            let (a, b) = part.split_at(at);
            let mean = |x: &[f64], y: &[f64], pairs: f64| {
                x.iter().flat_map(|p| y.iter().map(move |q| (p - q).abs())).sum::<f64>() / pairs
            };
            let (n, m) = (a.len() as f64, b.len() as f64);
            let apart = 2.0 * mean(a, b, n * m) - mean(a, a, n * (n - 1.0)) - mean(b, b, m * (m - 1.0));
            prop_assert!((energy - apart * n * m / (n + m)).abs() < 1e-9);
        }
    }
}
