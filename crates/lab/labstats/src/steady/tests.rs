use super::*;
use crate::random::Random;

/// Noise with a standard deviation of `share` of 1000 and an autocorrelation.
fn noise(n: usize, share: f64, autocorrelation: f64, random: &mut Random) -> Vec<f64> {
    let mut x = random.normal();
    (0..n)
        .map(|_| {
            x = autocorrelation * x + (1.0 - autocorrelation * autocorrelation).sqrt() * random.normal();
            1000.0 * (1.0 + share * x)
        })
        .collect()
}

/// The share of `rounds` series of n seconds that are flagged, each changed by `shape` (second -> factor).
fn flagged(n: usize, share: f64, autocorrelation: f64, rounds: u64, shape: impl Fn(usize) -> f64) -> f64 {
    let count = (0..rounds)
        .filter(|&seed| {
            let mut random = Random::new(seed * 1000 + n as u64);
            let series: Vec<f64> = noise(n, share, autocorrelation, &mut random)
                .into_iter()
                .enumerate()
                .map(|(i, x)| x * shape(i))
                .collect();
            matches!(steady(&series), Steadiness::Unsteady(_))
        })
        .count();
    count as f64 / rounds as f64
}

fn reason(series: &[f64]) -> Reason {
    match steady(series) {
        Steadiness::Unsteady(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn noise_of_a_tenth_is_steady_with_or_without_autocorrelation() {
    for (n, autocorrelation) in [
        (20, 0.0),
        (60, 0.0),
        (300, 0.0),
        (20, 0.3),
        (30, 0.5),
        (36, 0.5),
        (40, 0.5),
        (48, 0.5),
        (60, 0.5),
        (300, 0.5),
    ] {
        let rounds = if n == 300 { 100 } else { 400 };
        let rate = flagged(n, 0.1, autocorrelation, rounds, |_| 1.0);
        assert!(rate <= 0.05, "{n} s, autocorrelation {autocorrelation}: {rate}");
    }
}

#[test]
fn single_stalls_are_no_change_of_level() {
    let rate = flagged(60, 0.1, 0.2, 300, |i| if i % 23 == 7 { 0.1 } else { 1.0 });
    assert!(rate <= 0.05, "{rate}");
}

#[test]
fn a_run_that_swings_between_120_and_3000_a_second_is_flagged_even_if_short() {
    let mut random = Random::new(1);
    for n in [5, 20, 60, 300] {
        let fast: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { 120.0 } else { 3000.0 }).collect();
        let slow: Vec<f64> = (0..n).map(|i| if i * 3 / n == 1 { 120.0 } else { 3000.0 }).collect();
        let any: Vec<f64> = (0..n).map(|_| 120.0 + 2880.0 * random.below(1000) as f64 / 999.0).collect();
        for series in [fast, slow, any] {
            assert!(matches!(reason(&series), Reason::Swing { .. }), "{n}: {series:?}");
        }
    }
}

#[test]
fn a_linear_decay_of_a_third_is_flagged() {
    for n in [30, 60, 300] {
        let decay = |i: usize| 1.0 - 0.3 * i as f64 / (n - 1) as f64;
        assert!(flagged(n, 0.05, 0.3, 200, decay) > 0.95, "{n}");
    }
    assert!(flagged(60, 0.1, 0.0, 200, |i| 1.0 - 0.3 * i as f64 / 59.0) > 0.95);
    let line: Vec<f64> = (0..60).map(|i| 1000.0 - 5.0 * f64::from(i)).collect();
    let found = reason(&line);
    assert!(matches!(found, Reason::Trend { change } if (change + 0.346).abs() < 0.01), "{found:?}");
    assert_eq!(found.to_string(), "falls by 35% from start to end");
}

#[test]
fn a_step_is_flagged_and_named() {
    for n in [30, 60, 300] {
        let rate = flagged(n, 0.05, 0.3, 200, |i| if i < n / 2 { 1.0 } else { 0.7 });
        assert!(rate > 0.95, "{n}: {rate}");
    }
    let series: Vec<f64> = noise(60, 0.03, 0.0, &mut Random::new(3))
        .iter()
        .enumerate()
        .map(|(i, x)| if i < 40 { *x } else { 0.7 * x })
        .collect();
    let found = reason(&series);
    assert!(matches!(found, Reason::Step { at: 39..=41, .. }), "{found:?}");
    assert!(found.to_string().starts_with("steps from 9") || found.to_string().starts_with("steps from 10"));
}

#[test]
fn two_flat_levels_are_a_step_and_one_is_steady() {
    let flat: Vec<f64> = (0..40).map(|i| if i < 20 { 900.0 } else { 1200.0 }).collect();
    assert!(matches!(reason(&flat), Reason::Step { at: 20, .. }));
    assert_eq!(steady(&[1000.0; 40]), Steadiness::Steady);
}

#[test]
fn a_slow_beginning_is_a_warm_up() {
    let series: Vec<f64> = noise(90, 0.03, 0.0, &mut Random::new(5))
        .iter()
        .enumerate()
        .map(|(i, x)| if i < 15 { 0.6 * x } else { *x })
        .collect();
    assert!(matches!(reason(&series), Reason::WarmUp { seconds: 15, .. }), "{:?}", reason(&series));
}

#[test]
fn slow_ups_and_downs_are_flagged() {
    let rate = flagged(60, 0.05, 0.0, 100, |i| 1.0 + 0.3 * (i as f64 / 60.0 * std::f64::consts::TAU).sin());
    assert!(rate > 0.95, "{rate}");
    let rate = flagged(120, 0.05, 0.0, 100, |i| 1.0 + 0.3 * (i as f64 / 40.0 * std::f64::consts::TAU).sin());
    assert!(rate > 0.95, "{rate}");
}

#[test]
fn a_change_too_small_to_matter_is_steady() {
    assert_eq!(flagged(300, 0.01, 0.0, 50, |i| if i < 150 { 1.0 } else { 0.95 }), 0.0);
    assert_eq!(flagged(300, 0.01, 0.0, 50, |i| 1.0 - 0.08 * i as f64 / 299.0), 0.0);
}

#[test]
fn few_seconds_without_a_swing_are_too_short_to_tell() {
    assert_eq!(steady(&[]), Steadiness::TooShort { seconds: 0 });
    assert_eq!(steady(&[1.0, 100.0]), Steadiness::TooShort { seconds: 2 });
    assert_eq!(steady(&[1000.0; 19]), Steadiness::TooShort { seconds: 19 });
    assert_eq!(steady(&[f64::NAN; 60]), Steadiness::TooShort { seconds: 0 });
}

#[test]
fn a_phase_that_completed_nothing_is_not_steady() {
    assert_eq!(reason(&[0.0; 30]), Reason::Nothing);
}
