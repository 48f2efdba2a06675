//! What the whole procedure does on studies drawn from recorded real trials, where the truth is known: false colours where
//! nothing differs, how often intervals hold the truth, how often a slowdown of a tenth is found. The short form runs
//! with every test; `make lab-evidence` runs the long one and prints its figures. How the trials were recorded is described
//! in data/README.md.

#![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

use labstats::effect::{self, DEFAULT, Trial};
use labstats::judge::{Better, Colour, Correction, Criteria};
use labstats::one_sigma;
use labstats::power::simulated::{Sensitivity, detectable as sensitivity, found};
use labstats::power::{Plan, blocks_for, detectable};
use labstats::simulate::{Layout, Noise, Rates, rates, study};

/// A recording: one system's trials in the order in which they ran, a list for each phase.
struct Recording {
    name: &'static str,
    phases: Vec<Vec<f64>>,
}

fn recordings() -> Vec<Recording> {
    let of = |name, text: &str| Recording { name, phases: columns(text) };
    vec![
        of("store in memory", include_str!("data/loligo-mem-4k.csv")),
        of("simple store", include_str!("data/loligo-simple-4k.csv")),
    ]
}

/// The columns of a CSV file of numbers, below a line of names.
fn columns(text: &str) -> Vec<Vec<f64>> {
    let rows: Vec<Vec<f64>> =
        text.lines().skip(1).map(|l| l.split(',').map(|x| x.parse().unwrap()).collect()).collect();
    (0..rows[0].len()).map(|i| rows.iter().map(|row| row[i]).collect()).collect()
}

/// A short study: both phases of one workload on one system, twenty variants.
const LAYOUT: Layout = Layout { cells: 2, variants: 20, blocks: 3, defaults_per_block: 2 };

/// Any effect is coloured, however small: only the statistics keep chance from a colour.
const CRITERIA: Criteria = Criteria { correction: Correction::Holm, confidence: 0.95, effect: 0.0, seed: 1 };

fn nothing_differs(recording: &Recording, layout: &Layout, studies: u32) -> Rates {
    let found = rates(layout, &Noise::Recorded(recording.phases.clone()), &[], &CRITERIA, studies, 2026);
    println!(
        "{}: {studies} studies of {} variants that differ in nothing, {} cells, {} blocks: any colour in {:.2}%, \
         intervals of one variant hold the truth in {:.2}%, all adjusted ones of a study in {:.2}%",
        recording.name,
        layout.variants,
        layout.cells,
        layout.blocks,
        100.0 * found.any_false,
        100.0 * found.covered,
        100.0 * found.all_covered
    );
    found
}

/// The plan that a slowdown of a tenth needs with this recording's spread, and the share of studies that find it.
fn a_tenth_slower(recording: &Recording, variants: usize, studies: u32) -> f64 {
    let spread = recording.phases.iter().map(|p| spread(p)).fold(0.0, f64::max);
    let plan = Plan {
        blocks: 2,
        defaults_per_block: 2,
        variants,
        cells: recording.phases.len(),
        spread,
        confidence: 0.95,
        effect: 0.05,
        correction: Correction::Holm,
    };
    let blocks = blocks_for(&plan, 0.9, 0.8, 5000).unwrap();
    let layout = Layout { cells: plan.cells, variants, blocks, defaults_per_block: 2 };
    let criteria = Criteria { effect: 0.05, ..CRITERIA };
    let found = rates(&layout, &Noise::Recorded(recording.phases.clone()), &[0.9], &criteria, studies, 10);
    println!(
        "{}: one of {variants} variants a tenth slower, spread {:.1}%, {blocks} blocks planned for 80%: found in {:.1}% of \
         {studies} studies, false colours beside it in {:.2}%",
        recording.name,
        100.0 * spread,
        100.0 * found.found,
        100.0 * found.any_false
    );
    found.found
}

/// The spread of neighbours, as a study's blocks have it.
fn spread(values: &[f64]) -> f64 {
    let of_block = (LAYOUT.variants as u32 + LAYOUT.defaults_per_block) as usize;
    let trials = values.iter().enumerate();
    let trials: Vec<Trial> =
        trials.map(|(i, &value)| Trial { block: (i / of_block) as u32, variant: DEFAULT, value }).collect();
    // From the logarithms' deviation to the coefficient of variation that a plan asks for.
    effect::fit(&trials).unwrap().spread.powi(2).exp_m1().sqrt()
}

#[test]
fn hundreds_of_studies_drawn_from_real_trials_have_few_false_colours() {
    for recording in recordings() {
        let found = nothing_differs(&recording, &LAYOUT, 300);
        // The standard error of 5% in 300 studies is 1.3%.
        assert!(found.any_false <= 0.05 + 0.026, "{}: {found:?}", recording.name);
        assert!((0.93..=0.97).contains(&found.covered), "{}: {found:?}", recording.name);
    }
}

#[test]
fn a_slowdown_of_a_tenth_is_found_with_the_planned_power() {
    for recording in recordings() {
        let found = a_tenth_slower(&recording, 3, 10);
        // The standard error of 80% in 10 studies of two cells is 9%.
        assert!(found >= 0.8 - 0.2, "{}: {found}", recording.name);
    }
}

#[test]
fn the_one_sigma_rule_colours_real_trials_by_chance_too() {
    for recording in recordings() {
        for values in &recording.phases {
            let rate = one_sigma_on(values);
            assert!((0.08..0.1).contains(&rate), "{}: {rate}", recording.name);
        }
    }
}

/// The share of comparisons that the article's rule colours: six neighbours, in two shuffled halves.
fn one_sigma_on(values: &[f64]) -> f64 {
    let six = Layout { cells: 1, variants: 5, blocks: 1, defaults_per_block: 1 };
    let noise = Noise::Recorded(vec![values.to_vec()]);
    let coloured = |seed: u64| {
        let trials = &study(&six, &noise, &[], seed)[0].trials;
        let half = |first: bool| -> Vec<f64> {
            trials.iter().filter(|t| (t.variant < 3) == first).map(|t| t.value).collect()
        };
        one_sigma::colour(&half(true), &half(false), Better::Higher).is_some_and(Colour::tells_apart)
    };
    (0..20_000).filter(|&seed| coloured(seed)).count() as f64 / 20_000.0
}

#[test]
#[ignore = "10,000 studies of each recording: minutes with --release; make lab-evidence"]
fn ten_thousand_studies_drawn_from_real_trials() {
    // Twenty variants; more cells, which ask for smaller p of the same few trials; few variants. Trials of the last form are
    // too few to be shuffled.
    let forms = [(2, 20, 3), (2, 20, 10), (12, 20, 3), (2, 3, 3), (8, 3, 3)];
    for recording in recordings() {
        for (cells, variants, blocks) in forms {
            let layout = Layout { cells, variants, blocks, ..LAYOUT };
            let found = nothing_differs(&recording, &layout, studies(10_000));
            let most = if (cells, variants) == (8, 3) { 0.065 } else { 0.055 };
            assert!(found.any_false <= most, "{}: {found:?}", recording.name);
            assert!((0.94..=0.96).contains(&found.covered), "{}: {found:?}", recording.name);
        }
        for values in &recording.phases {
            println!(
                "{}: one-sigma rule: {:.1}% false colours",
                recording.name,
                100.0 * one_sigma_on(values)
            );
        }
    }
}

/// So many studies, or as many as EVIDENCE_STUDIES says, for a first look.
fn studies(usual: u32) -> u32 {
    std::env::var("EVIDENCE_STUDIES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
#[ignore = "1,000 studies of each recording: minutes with --release; make lab-evidence"]
fn a_thousand_studies_with_a_variant_that_is_a_tenth_slower() {
    for recording in recordings() {
        for variants in [1, 3, 20] {
            let found = a_tenth_slower(&recording, variants, studies(1000));
            assert!(found >= 0.8 - 0.0126, "{}: {found}", recording.name);
        }
    }
}

#[test]
#[ignore = "1,000 studies of each plan: a minute with --release; make lab-evidence"]
fn small_plans_find_what_was_played() {
    let forms = [(3, 2, 20, 12), (3, 2, 20, 2), (3, 2, 3, 3), (3, 2, 2, 10), (9, 1, 1, 3), (6, 1, 1, 20)];
    for (blocks, defaults_per_block, variants, cells) in forms {
        let plan = Plan {
            blocks,
            defaults_per_block,
            variants,
            cells,
            spread: 0.1,
            confidence: 0.95,
            effect: 0.05,
            correction: Correction::Holm,
        };
        let computed = detectable(&plan, 0.8).unwrap();
        let Sensitivity::Simulated(simulated) = sensitivity(&plan, 0.8) else {
            panic!("not simulated: {plan:?}")
        };
        let share = |less: f64| found(&plan, 1.0 - less, studies(1000), 2027);
        let (of_computed, of_played) = (share(computed.less), share(simulated.less));
        println!(
            "{blocks} blocks of {defaults_per_block} defaults and {variants} variants, {cells} cells: -{:.1}% computed, \
             found in {:.1}%; -{:.1}% simulated, found in {:.1}%",
            100.0 * computed.less,
            100.0 * of_computed,
            100.0 * simulated.less,
            100.0 * of_played
        );
        assert!((of_played - 0.8).abs() < 0.07, "{plan:?}: {of_played}");
    }
}
