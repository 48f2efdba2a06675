use super::*;
use crate::random::Random;
use proptest::prelude::*;

fn trial(block: u32, variant: usize, value: f64) -> Trial {
    Trial { block, variant, value }
}

/// `blocks` blocks of `defaults` defaults and `variants` variants; every block has its own level.
fn made_up(blocks: u32, defaults: usize, variants: usize, spread: f64, seed: u64) -> Vec<Trial> {
    let mut random = Random::new(seed);
    let mut trials = Vec::new();
    for block in 0..blocks {
        let level = 1000.0 * (0.3 * random.normal()).exp();
        for i in 0..defaults + variants {
            let variant = i.saturating_sub(defaults - 1);
            trials.push(trial(block, variant, level * (spread * random.normal()).exp()));
        }
    }
    trials
}

#[test]
fn a_complete_cell_gives_the_mean_log_ratio_to_the_defaults_of_the_block() {
    let trials = [
        trial(0, 0, 100.0),
        trial(0, 0, 110.0),
        trial(0, 1, 120.0),
        trial(1, 0, 200.0),
        trial(1, 0, 190.0),
        trial(1, 1, 230.0),
        trial(2, 0, 50.0),
        trial(2, 0, 55.0),
        trial(2, 1, 56.0),
    ];
    let ratios = [
        120.0 / (100.0_f64 * 110.0).sqrt(),
        230.0 / (200.0_f64 * 190.0).sqrt(),
        56.0 / (50.0_f64 * 55.0).sqrt(),
    ];
    let mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / 3.0;
    let cell = fit(&trials).unwrap();
    assert!((cell.effects[0].log_ratio - mean).abs() < 1e-12);
    assert_eq!((cell.df, cell.defaults, cell.effects[0].trials), (5, 6, 3));
    // Spread of a difference of one trial and the mean of two, over three blocks.
    assert!((cell.effects[0].log_error - cell.spread * (1.5_f64 / 3.0).sqrt()).abs() < 1e-12);
}

#[test]
fn one_block_is_a_two_sample_comparison() {
    let trials = [trial(7, 0, 1.0), trial(7, 0, 2.0), trial(7, 0, 4.0), trial(7, 1, 3.0), trial(7, 1, 6.0)];
    let cell = fit(&trials).unwrap();
    let pooled = ((2.0 * 2_f64.ln().powi(2) + 0.5 * 2_f64.ln().powi(2)) / 3.0).sqrt();
    assert_eq!(cell.df, 3);
    assert!((cell.spread - pooled).abs() < 1e-12);
    assert!((cell.effects[0].ratio() - 18_f64.sqrt() / 2.0).abs() < 1e-12);
    assert!((cell.effects[0].log_error - pooled * (1.0 / 2.0 + 1.0 / 3.0_f64).sqrt()).abs() < 1e-12);
}

#[test]
fn variants_share_the_defaults_error() {
    let cell = fit(&made_up(4, 2, 5, 0.1, 1)).unwrap();
    assert!(cell.effects.iter().all(|e| (e.shared - 1.0 / 3.0).abs() < 1e-9), "{cell:?}");
    assert_eq!(cell.df, 4 * 7 - 4 - 5);
}

#[test]
fn a_block_without_a_default_still_compares_through_the_others() {
    let trials = [
        trial(0, 0, 100.0),
        trial(0, 0, 100.0),
        trial(0, 1, 110.0),
        trial(1, 1, 220.0),
        trial(1, 2, 260.0),
        trial(2, 9, 5.0),
        trial(2, 8, 5.0),
        trial(3, 1, 0.0),
        trial(3, 2, f64::NAN),
    ];
    let cell = fit(&trials).unwrap();
    assert!((cell.effects[1].ratio() - 1.1 * 260.0 / 220.0).abs() < 1e-9);
    assert_eq!(cell.not_comparable, [8, 9]);
    assert_eq!(cell.unusable.len(), 2);
    assert_eq!(cell.df, 1);
}

#[test]
fn a_cell_without_default_or_spread_is_refused() {
    assert_eq!(fit(&[]), Err(NoFit::NoDefault));
    assert_eq!(fit(&[trial(0, 0, 0.0), trial(0, 1, 3.0)]), Err(NoFit::NoDefault));
    assert_eq!(fit(&[trial(0, 0, 2.0), trial(0, 1, 3.0)]), Err(NoFit::NoSpread));
    assert_eq!(fit(&[trial(0, 0, 2.0)]), Err(NoFit::NoSpread));
}

#[test]
fn leaving_out_a_trial_is_as_if_it_had_not_been() {
    for seed in 0..20 {
        let mut trials = made_up(3, 2, 4, 0.1, seed);
        trials.remove(seed as usize % 18);
        let cell = fit(&trials).unwrap();
        let mut least: Vec<f64> = cell.effects.iter().map(|e| e.log_ratio).collect();
        for left_out in 0..trials.len() {
            let mut rest = trials.clone();
            rest.remove(left_out);
            for (least, (full, part)) in
                least.iter_mut().zip(cell.effects.iter().zip(fit(&rest).unwrap().effects))
            {
                let direction = full.log_ratio.signum();
                *least = direction * (*least * direction).min(part.log_ratio * direction);
            }
        }
        for (effect, least) in cell.effects.iter().zip(least) {
            assert!((effect.least_without_one - least).abs() < 1e-9, "{effect:?}, not {least}");
        }
    }
}

#[test]
fn an_estimate_from_one_trial_stands_on_that_alone() {
    let trials = [trial(0, 0, 1.0), trial(0, 0, 1.1), trial(0, 1, 3.0), trial(1, 0, 1.0), trial(1, 2, 3.0)];
    let cell = fit(&trials).unwrap();
    assert!(cell.effects.iter().all(|e| e.log_ratio > 1.0 && e.least_without_one == 0.0), "{cell:?}");
}

#[test]
fn the_default_alone_gives_the_spread_and_no_effects() {
    let cell = fit(&made_up(3, 4, 0, 0.1, 3)).unwrap();
    assert!(cell.effects.is_empty() && cell.spread > 0.03 && cell.spread < 0.3);
}

#[test]
fn trials_that_differ_in_nothing_have_no_effect_and_a_difference_without_spread_is_certain() {
    let same: Vec<Trial> = (0..9).map(|i| trial(i / 3, (i % 3).saturating_sub(1) as usize, 0.1)).collect();
    let cell = fit(&same).unwrap();
    assert_eq!((cell.effects[0].t(), cell.p_alone(&cell.effects[0])), (0.0, 1.0));
    assert_eq!(cell.interval_alone(&cell.effects[0], 0.95), (1.0, 1.0));
    let other: Vec<Trial> =
        same.iter().map(|t| Trial { value: if t.variant == 1 { 0.2 } else { 0.1 }, ..*t }).collect();
    let cell = fit(&other).unwrap();
    assert!((cell.effects[0].ratio() - 2.0).abs() < 1e-9);
    assert_eq!(cell.p_alone(&cell.effects[0]), 0.0);
}

#[test]
fn intervals_of_one_variant_cover_as_often_as_they_say() {
    let (mut covered, mut all) = (0, 0);
    for seed in 0..800 {
        let mut trials = made_up(3, 2, 3, 0.1, seed);
        // Failed trials: whatever is left must still cover.
        trials.remove(seed as usize % trials.len());
        trials.remove(seed as usize * 7 % trials.len());
        let Ok(cell) = fit(&trials) else { continue };
        for effect in &cell.effects {
            let (low, high) = cell.interval_alone(effect, 0.95);
            covered += u32::from(low < 1.0 && 1.0 < high);
            all += 1;
        }
    }
    let share = f64::from(covered) / f64::from(all);
    assert!((share - 0.95).abs() < 0.013, "{share} of {all}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_order_of_trials_and_the_unit_do_not_matter(seed in 0_u64..1000, drop in 0_usize..12) {
        let mut trials = made_up(3, 2, 3, 0.1, seed);
        trials.remove(drop);
        let before = fit(&trials).unwrap();
        Random::new(seed).shuffle(&mut trials);
        prop_assert_eq!(&before, &fit(&trials).unwrap());
        trials.iter_mut().for_each(|t| t.value *= 1024.0);
        let scaled = fit(&trials).unwrap();
        for (a, b) in before.effects.iter().zip(&scaled.effects) {
            prop_assert!((a.log_ratio - b.log_ratio).abs() < 1e-9 && (a.log_error - b.log_error).abs() < 1e-9);
        }
    }

    #[test]
    fn blocks_differing_in_level_alone_change_nothing(seed in 0_u64..1000, level in 0.01..100.0_f64) {
        let mut trials = made_up(3, 2, 3, 0.1, seed);
        let before = fit(&trials).unwrap();
        trials.iter_mut().filter(|t| t.block == 1).for_each(|t| t.value *= level);
        let after = fit(&trials).unwrap();
        for (a, b) in before.effects.iter().zip(&after.effects) {
            prop_assert!((a.log_ratio - b.log_ratio).abs() < 1e-9 && (a.log_error - b.log_error).abs() < 1e-9);
        }
    }

    #[test]
    fn the_same_trials_once_more_narrow_the_interval(seed in 0_u64..1000) {
        let trials = made_up(3, 2, 3, 0.1, seed);
        let again = trials.iter().map(|t| Trial { block: t.block + 3, ..*t });
        let twice: Vec<Trial> = trials.iter().copied().chain(again).collect();
        let (one, two) = (fit(&trials).unwrap(), fit(&twice).unwrap());
        for (a, b) in one.effects.iter().zip(&two.effects) {
            let width = |i: (f64, f64)| i.1 / i.0;
            prop_assert!(width(two.interval_alone(b, 0.95)) < width(one.interval_alone(a, 0.95)));
        }
    }
}
