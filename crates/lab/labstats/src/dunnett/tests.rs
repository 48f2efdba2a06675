use super::*;
use crate::random::Random;
use proptest::prelude::*;

#[test]
fn critical_values_are_those_of_dunnetts_tables() {
    // Two-sided, one sample of the control for each of a variant (Dunnett 1964, tables II and III).
    let tables = [
        (0.05, 1, 10, 2.23),
        (0.05, 2, 10, 2.57),
        (0.05, 3, 10, 2.76),
        (0.05, 9, 10, 3.24),
        (0.05, 3, 20, 2.54),
        (0.05, 5, 20, 2.73),
        (0.05, 5, 5, 3.62),
        (0.05, 9, 60, 2.77),
        (0.01, 2, 10, 3.53),
        (0.01, 9, 10, 4.28),
        (0.01, 3, 20, 3.29),
    ];
    for (level, k, df, expected) in tables {
        let found = Dunnett::balanced(k, 1, df).critical(level);
        assert!((found / expected - 1.0).abs() < 0.005, "{level} {k} {df}: {found}, not {expected}");
    }
}

#[test]
fn critical_values_agree_with_an_independent_integration() {
    // Adaptive quadrature over the spread, 1201 points over the control, by another program.
    let unequal = Dunnett::new(&[0.2, 0.5, 0.8, 0.35], 7);
    let cases = [
        (Dunnett::balanced(1, 1, 10).critical(0.05), 2.22814),
        (Dunnett::balanced(9, 1, 10).critical(0.05), 3.24416),
        (Dunnett::balanced(20, 1, 30).critical(0.01), 3.77470),
        (Dunnett::balanced(23, 2, 46).critical(0.05), 3.159947),
        (Dunnett::balanced(23, 2, 46).critical(0.05 / 36.0), 4.393475),
        (Dunnett::balanced(3, 1, 2).critical(0.05), 6.064848),
        (Dunnett::balanced(3, 1, 2).critical(0.05 / 36.0), 37.249356),
        (unequal.critical(0.05), 3.143241),
        (unequal.p(3.0), 0.06064120),
        (unequal.p(6.0), 0.00178379),
    ];
    for (found, expected) in cases {
        assert!((found / expected - 1.0).abs() < 1e-5, "{found}, not {expected}");
    }
}

#[test]
fn p_is_that_of_the_published_example() {
    // Dunnett 1955: blood counts, a control of 6, drugs of 4 and 5 animals; t = 0.857 and 3.694, 12 degrees of freedom.
    let d = Dunnett::new(&[4.0 / 10.0, 5.0 / 11.0], 12);
    assert!((d.p(0.85703213) - 0.6201).abs() < 1e-4);
    assert!((d.p(3.69375231) - 0.005825).abs() < 1e-5);
}

#[test]
fn critical_values_agree_with_a_simulation() {
    let (sizes, control, df) = ([3_u32, 5, 8], 4_u32, 9_u32);
    let squared: Vec<f64> = sizes.iter().map(|&n| f64::from(n) / f64::from(n + control)).collect();
    let critical = Dunnett::new(&squared, df).critical(0.05);
    let mut random = Random::new(5);
    let rounds = 40_000;
    let exceeded = (0..rounds)
        .filter(|_| {
            let spread = ((0..df).map(|_| random.normal().powi(2)).sum::<f64>() / f64::from(df)).sqrt();
            let zero = random.normal() / f64::from(control).sqrt();
            sizes.iter().any(|&n| {
                let n = f64::from(n);
                let error = (1.0 / n + 1.0 / f64::from(control)).sqrt();
                ((random.normal() / n.sqrt() - zero) / error / spread).abs() > critical
            })
        })
        .count();
    let rate = exceeded as f64 / f64::from(rounds);
    assert!((rate - 0.05).abs() < 0.004, "{rate}");
}

#[test]
fn finer_points_change_nothing() {
    for (k, squared, df) in [(24, 0.25, 1), (24, 0.9, 3), (5, 0.98, 8), (2, 0.01, 200)] {
        let coarse = Dunnett::new(&vec![squared; k], df);
        let mut fine = coarse.clone();
        fine.control = (0..=4000)
            .map(|i| f64::from(i) * 0.0025)
            .map(|z| (z, (-0.5 * z * z).exp() * if z == 0.0 { 0.5 } else { 1.0 }))
            .collect();
        let total: f64 = fine.control.iter().map(|p| p.1).sum();
        fine.control.iter_mut().for_each(|p| p.1 /= total);
        for t in [0.5, 2.0, 3.0, 6.0] {
            assert!((coarse.p(t) / fine.p(t) - 1.0).abs() < 1e-6, "{k} {squared} {df} {t}");
        }
    }
}

#[test]
fn nothing_compared_is_never_significant() {
    let none = Dunnett::new(&[], 5);
    assert_eq!((none.p(3.0), none.critical(0.05)), (1.0, f64::INFINITY));
    let one = Dunnett::balanced(1, 1, 5);
    assert_eq!((one.p(f64::NAN), one.p(f64::INFINITY), one.critical(0.0)), (1.0, 0.0, f64::INFINITY));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn p_lies_between_one_comparison_and_bonferroni(k in 1_usize..30, df in 1_u32..80, t in 0.1..8.0_f64, l in 0.02..0.95_f64) {
        let joint = Dunnett::new(&vec![l; k], df).p(t);
        let single = crate::student::t_two_sided(t, f64::from(df));
        prop_assert!(joint >= single * (1.0 - 1e-6));
        prop_assert!(joint <= (single * k as f64).min(1.0) * (1.0 + 1e-6));
    }

    #[test]
    fn the_critical_value_has_its_level(k in 1_usize..30, df in 1_u32..80, level in 1e-5..0.5_f64) {
        let d = Dunnett::balanced(k, 2, df);
        prop_assert!((d.p(d.critical(level)) / level - 1.0).abs() < 1e-6);
    }

    #[test]
    fn the_order_of_variants_does_not_matter(mut l in prop::collection::vec(0.05..0.9_f64, 2..8), t in 1.0..5.0_f64) {
        let before = Dunnett::new(&l, 10).p(t);
        l.reverse();
        prop_assert_eq!(before, Dunnett::new(&l, 10).p(t));
    }
}
