//! Adjustment over all cells of a study.
//!
//! Sources: S. Holm, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal of Statistics 6,
//! 1979); that it may count groups instead of single tests where each group's own tests are held together already:
//! J. J. Goeman and A. Solari, "The sequential rejection principle of familywise error control" (Annals of Statistics
//! 38, 2010); Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate" (JRSS B 57, 1995).
//!
//! [`holm`] takes p that are adjusted within their group (Dunnett's within a cell). At each step a p may be as large as
//! the level over the number of groups that hold a test not yet rejected. If T groups hold tests that are true, the
//! first false rejection needs a p of at most level / T in one of them, and within each the chance of that is at most
//! level / T: so there is a false rejection in the family with at most the level's probability, whatever the dependence
//! between cells. With groups of one test each this is Holm's procedure as published.
//!
//! Limits: [`benjamini_hochberg`] bounds the share of false rejections for independent or positively dependent tests,
//! not the chance of any.

use std::collections::BTreeMap;

/// A test after adjustment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Adjusted {
    /// The smallest level of the family at which this test is rejected; never below the p given.
    pub p: f64,
    /// Whether it is rejected at the level asked for.
    pub rejected: bool,
    /// The level that its own p was held against, and at which its interval belongs: the interval at it excludes no
    /// effect exactly if the test is rejected.
    pub level: f64,
}

/// Holm's procedure over groups: `tests` are (group, p adjusted within the group). The answers are in the order given.
///
/// The level of a rejected test is that of its own step; all others have the level of the step at which the procedure
/// stopped. At the first step it is the family's level over the number of groups.
pub fn holm<G: Ord + Copy>(tests: &[(G, f64)], level: f64) -> Vec<Adjusted> {
    let mut waiting: BTreeMap<G, usize> = BTreeMap::new();
    tests.iter().for_each(|t| *waiting.entry(t.0).or_default() += 1);
    let order = ascending(tests.iter().map(|t| t.1));
    let mut results = vec![Adjusted { p: 1.0, rejected: false, level }; tests.len()];
    let (mut largest, mut stopped_at) = (0.0_f64, None);
    // Equal p are one step, so that the answer does not depend on which comes first.
    for step in order.chunk_by(|&a, &b| tests[a].1 == tests[b].1) {
        let p = step.first().map_or(1.0, |&i| tests[i].1);
        let groups = waiting.len() as f64;
        largest = largest.max((p * groups).min(1.0));
        let rejected = stopped_at.is_none() && p <= level / groups;
        if !rejected {
            stopped_at.get_or_insert(level / groups);
        }
        for &i in step {
            results[i] = Adjusted { p: largest, rejected, level: stopped_at.unwrap_or(level / groups) };
            take_one(&mut waiting, tests[i].0);
        }
    }
    results
}

/// Benjamini and Hochberg's procedure on p that are not adjusted for anything. The level that intervals belong to is
/// that of Y. Benjamini and D. Yekutieli, "False discovery rate-adjusted multiple confidence intervals" (JASA 100,
/// 2005): the level times the share of tests rejected (of one test where none is).
pub fn benjamini_hochberg(p: &[f64], level: f64) -> Vec<Adjusted> {
    let all = p.len() as f64;
    let order = ascending(p.iter().copied());
    let mut results = vec![Adjusted { p: 1.0, rejected: false, level }; p.len()];
    let mut smallest = 1.0_f64;
    for (rank, &i) in order.iter().enumerate().rev() {
        smallest = smallest.min(p[i] * (all / (rank + 1) as f64));
        results[i].p = smallest;
    }
    let rejected = results.iter().filter(|r| r.p <= level).count();
    for result in &mut results {
        result.rejected = result.p <= level;
        result.level = level * rejected.max(1) as f64 / all;
    }
    results
}

fn take_one<G: Ord>(waiting: &mut BTreeMap<G, usize>, group: G) {
    if let Some(left) = waiting.get_mut(&group) {
        *left -= 1;
        if *left == 0 {
            waiting.remove(&group);
        }
    }
}

fn ascending(p: impl Iterator<Item = f64>) -> Vec<usize> {
    let p: Vec<f64> = p.collect();
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p(adjusted: &[Adjusted]) -> Vec<f64> {
        adjusted.iter().map(|a| (a.p * 1e6).round() / 1e6).collect()
    }

    fn alone(p: &[f64]) -> Vec<(usize, f64)> {
        p.iter().copied().enumerate().collect()
    }

    #[test]
    fn groups_of_one_are_holms_procedure() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let found = holm(&alone(&[0.01, 0.04, 0.03, 0.005]), 0.05);
        assert_eq!(p(&found), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(found.iter().map(|a| a.rejected).collect::<Vec<_>>(), [true, false, false, true]);
    }

    #[test]
    fn benjamini_and_hochbergs_example() {
        // Their paper's fifteen p: four are rejected at 0.05.
        let given = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        let found = benjamini_hochberg(&given, 0.05);
        assert_eq!(found.iter().filter(|a| a.rejected).count(), 4);
        assert!((found[3].p - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
        assert!((found[14].level - 0.05 * 4.0 / 15.0).abs() < 1e-12);
        assert_eq!(holm(&alone(&given), 0.05).iter().filter(|a| a.rejected).count(), 3);
    }

    #[test]
    fn one_group_needs_no_more_than_its_own_adjustment() {
        let found = holm(&[("a", 0.04), ("a", 0.001), ("a", 0.6)], 0.05);
        assert_eq!(p(&found), [0.04, 0.001, 0.6]);
        assert!(found.iter().all(|a| a.level == 0.05));
    }

    #[test]
    fn the_level_eases_only_when_a_whole_group_is_rejected() {
        let half = holm(&[("a", 0.001), ("a", 0.9), ("b", 0.03), ("b", 0.9)], 0.05);
        assert!(half[0].rejected && !half[2].rejected);
        let whole = holm(&[("a", 0.001), ("a", 0.002), ("b", 0.03), ("b", 0.9)], 0.05);
        assert!(whole[1].rejected && whole[2].rejected);
        assert_eq!((whole[0].level, whole[2].level, whole[3].level), (0.025, 0.05, 0.05));
    }

    #[test]
    fn nothing_to_adjust_is_fine() {
        assert!(holm::<u8>(&[], 0.05).is_empty() && benjamini_hochberg(&[], 0.05).is_empty());
    }

    proptest! {
        #[test]
        fn adjusted_is_never_smaller_and_discoveries_never_fewer(given in prop::collection::vec((0_u8..4, 0.0..1.0_f64), 1..40)) {
            let raw: Vec<f64> = given.iter().map(|t| t.1 * t.1 * t.1).collect();
            let grouped: Vec<(u8, f64)> = given.iter().zip(&raw).map(|(t, &p)| (t.0, p)).collect();
            let (plain, by_group) = (holm(&alone(&raw), 0.05), holm(&grouped, 0.05));
            let discovery = benjamini_hochberg(&raw, 0.05);
            for i in 0..raw.len() {
                prop_assert!(plain[i].p >= raw[i] && discovery[i].p >= raw[i] && by_group[i].p >= raw[i]);
                prop_assert!(discovery[i].p <= plain[i].p + 1e-12);
                prop_assert!(by_group[i].p <= plain[i].p + 1e-12);
                for a in [plain[i], by_group[i], discovery[i]] {
                    prop_assert_eq!(a.rejected, raw[i] <= a.level * (1.0 + 1e-12));
                    prop_assert_eq!(a.rejected, a.p <= 0.05 * (1.0 + 1e-12));
                }
            }
        }

        #[test]
        fn the_order_of_tests_does_not_matter(given in prop::collection::vec((0_u8..4, 0.0..0.2_f64), 1..30), seed in 0_u64..99) {
            let before = holm(&given, 0.05);
            let mut order: Vec<usize> = (0..given.len()).collect();
            crate::random::Random::new(seed).shuffle(&mut order);
            let shuffled: Vec<(u8, f64)> = order.iter().map(|&i| given[i]).collect();
            for (place, after) in holm(&shuffled, 0.05).into_iter().enumerate() {
                prop_assert_eq!(before[order[place]], after);
            }
        }
    }
}
