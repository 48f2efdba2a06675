//! From `labstats`' judgements to what the report shows, in the study's order and with the statistics' words.

use std::collections::BTreeMap;

use labstats::judge::{Better, CLEARLY_NOT_NORMAL, Colour as Found, Entry, Judged as FoundCell};
use labstats::one_sigma;
use results::{Record, Status};
use study::{Correction, Design, Rule};

use crate::gather::Trials;
use crate::input::{Cell, Colour, DEFAULT, Judged, JudgedVariant, Outline, Variant};

/// A cell's name: system, workload, phase.
pub type CellName = (String, String, String);

/// The judgements of every cell of the outline. Numbers of variants in `cells` are places in the outline's list. Under
/// the one-sigma rule the colours are that rule's, whatever `cells` says.
pub fn judged(
    outline: &Outline,
    records: &[Record],
    design: &Design,
    cells: &[(CellName, FoundCell)],
) -> Judged {
    let found: BTreeMap<&CellName, &FoundCell> = cells.iter().map(|(name, cell)| (name, cell)).collect();
    let trials = Trials::of(records);
    let counts = Counts::of(records);
    let mut all = Vec::new();
    for system in &outline.systems {
        for (workload, phase) in outline.loads() {
            let name = (system.clone(), workload.to_string(), phase.to_string());
            let cell = View {
                outline,
                trials: &trials,
                counts: &counts,
                name: &name,
                found: found.get(&name).copied(),
                confirm: design.confirm,
            };
            let places = outline.variants.iter().enumerate().skip(1);
            let variants = places.map(|(place, v)| cell.variant(place, v, design.rule)).collect();
            all.push(Cell { system: name.0, workload: name.1, phase: name.2, variants });
        }
    }
    let compared = all.iter().flat_map(|c| &c.variants).filter(|v| v.colour.compared());
    let (count, fewest) = compared.fold((0, u32::MAX), |(n, f), v| (n + 1, f.min(v.samples)));
    Judged { cells: all, rule_label: rule_label(design), notes: notes(design, count, fewest) }
}

/// Trials that can't be seen in a cell's values, by (system, workload, variant).
struct Counts<'a> {
    failed: BTreeMap<(&'a str, &'a str, &'a str), (u32, &'a str)>,
}

impl<'a> Counts<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut failed = BTreeMap::new();
        for r in records.iter().filter(|r| r.outcome.status == Status::Failed) {
            let p = &r.parameters;
            let entry = failed.entry((p.system.as_str(), p.workload.as_str(), p.variant.as_str()));
            entry.or_insert((0, r.outcome.error.as_str())).0 += 1;
        }
        Self { failed }
    }
}

/// A warning is given when a variant's spread exceeds the others' by this factor: by chance under 1% with three blocks.
const SPREADS_MORE: f64 = 3.0;

/// A cell with all that is known of it.
struct View<'a> {
    outline: &'a Outline,
    trials: &'a Trials<'a>,
    counts: &'a Counts<'a>,
    name: &'a CellName,
    found: Option<&'a FoundCell>,
    /// Whether the study wants colours confirmed.
    confirm: bool,
}

impl View<'_> {
    fn variant(&self, place: usize, variant: &Variant, rule: Rule) -> JudgedVariant {
        let (system, workload, phase) = (self.name.0.as_str(), self.name.1.as_str(), self.name.2.as_str());
        let trials = self.trials.all((system, workload, phase), &variant.name);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (failed, error) =
            self.counts.failed.get(&(system, workload, variant.name.as_str())).copied().unwrap_or_default();
        let again = trials.iter().filter(|(r, _)| r.confirms).count();
        let mut judged = JudgedVariant {
            name: variant.name.clone(),
            parameter: variant.parameter.clone(),
            samples: count(trials.len() - again),
            unsteady: count(trials.iter().filter(|(_, m)| m.steady == Some(false)).count()),
            failed,
            ..JudgedVariant::default()
        };
        let entry = self.found.and_then(|f| f.entries.iter().find(|e| e.variant == place));
        if self.outline.nothing_to_tune.contains(&(system.to_string(), variant.name.clone())) {
            judged.colour = Colour::NothingToTune;
        } else if let Some(why) = self.outline.not_yet.get(&(system.to_string(), workload.to_string())) {
            (judged.colour, judged.why) = (Colour::NotYet, why.clone());
        } else if rule == Rule::OneSigma {
            self.one_sigma(&mut judged);
        } else if let Some(entry) = entry {
            adjusted(&mut judged, entry, again);
            self.what_more_would_tell(&mut judged, entry, again);
            let left_out = self.zeros(&variant.name).0 + self.zeros(DEFAULT).0;
            if left_out > 0 {
                judged.why += &format!("; {}", zeros_words(left_out));
            }
        }
        if judged.colour == Colour::TooFew {
            judged.why = self.why_not();
            if let Some(side) = self.zero(&judged.name) {
                judged.colour = Colour::Zero;
                judged.why = format!("every trial of {side} did 0 operations a second");
            }
            if failed > 0 && trials.is_empty() {
                (judged.colour, judged.why) = (Colour::Failed, error.to_string());
            }
        }
        judged
    }

    /// Of planned trials, those that did nothing, and all.
    fn zeros(&self, variant: &str) -> (usize, usize) {
        let cell = (self.name.0.as_str(), self.name.1.as_str(), self.name.2.as_str());
        let trials = self.trials.planned(cell, variant);
        trials.fold((0, 0), |(zeros, all), (_, m)| (zeros + usize::from(m.ops_per_s <= 0.0), all + 1))
    }

    /// Which of the two has trials, and all of them did nothing.
    fn zero(&self, variant: &str) -> Option<&'static str> {
        let is_zero = |name: &str| matches!(self.zeros(name), (zeros, all) if all > 0 && zeros == all);
        match (is_zero(variant), is_zero(DEFAULT)) {
            (true, _) => Some("this variant"),
            (false, true) => Some("the default"),
            (false, false) => None,
        }
    }

    /// The article's rule; its interval is the variant's range of one standard deviation over the default's mean.
    fn one_sigma(&self, judged: &mut JudgedVariant) {
        let cell = (self.name.0.as_str(), self.name.1.as_str(), self.name.2.as_str());
        let values =
            |v: &str| -> Vec<f64> { self.trials.planned(cell, v).map(|(_, m)| m.ops_per_s).collect() };
        let (default, variant) = (values(DEFAULT), values(&judged.name));
        let Some(colour) = one_sigma::colour(&default, &variant, Better::Higher) else { return };
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (m, d) = (mean(&variant), mean(&default));
        if d <= 0.0 {
            return;
        }
        let squares: f64 = variant.iter().map(|x| (x - m) * (x - m)).sum();
        let sigma = (squares / (variant.len() as f64 - 1.0)).sqrt();
        (judged.ratio, judged.low, judged.high) = (m / d, (m - sigma) / d, (m + sigma) / d);
        judged.colour = shown(colour);
    }

    /// What a reader can do about a judgement that is not the last word.
    fn what_more_would_tell(&self, judged: &mut JudgedVariant, entry: &Entry, again: usize) {
        let tails = self.found.and_then(|f| f.fit.as_ref().ok()).map_or(0.0, |fit| fit.tails);
        if judged.colour == Colour::Grey && tails > CLEARLY_NOT_NORMAL {
            judged.why += "; single trials of this cell lie far off the others: add blocks";
        }
        if matches!(judged.colour, Colour::Green | Colour::Red) && self.confirm && again == 0 {
            judged.why += "; not run again to confirm";
        }
        if let Some(times) = entry.own_spread.filter(|&times| times > SPREADS_MORE) {
            judged.why +=
                &format!("; its trials spread {times:.1} times as much as the others': it may be chance");
        }
    }

    fn why_not(&self) -> String {
        match self.found.map(|f| &f.fit) {
            Some(Err(why)) => why.to_string(),
            Some(Ok(_)) => "no block has both this variant and the default".into(),
            None => "no trial has ended well".into(),
        }
    }
}

pub(crate) fn adjusted(judged: &mut JudgedVariant, entry: &Entry, again: usize) {
    judged.ratio = entry.ratio;
    (judged.low, judged.high) = entry.adjusted;
    judged.colour = shown(entry.colour);
    judged.why = format!("adjusted p {}", p_text(entry.adjusted_p));
    if again > 0 && entry.colour.tells_apart() {
        judged.why += &format!("; confirmed by {again} more trials");
    } else if again > 0 {
        judged.why += &format!("; was coloured at first, {again} more trials did not confirm it");
    }
}

/// That trials are left out since they did nothing.
pub(crate) fn zeros_words(trials: usize) -> String {
    match trials {
        1 => "1 trial with 0 operations a second is in no ratio".to_owned(),
        n => format!("{n} trials with 0 operations a second are in no ratio"),
    }
}

fn shown(colour: Found) -> Colour {
    match colour {
        Found::Green => Colour::Green,
        Found::Red => Colour::Red,
        Found::White => Colour::White,
        Found::Grey => Colour::Grey,
    }
}

/// A p as it is read: never 0.
pub(crate) fn p_text(p: f64) -> String {
    let digits = if p < 0.01 { 4 } else { 2 };
    if p < 0.0001 { "below 0.0001".into() } else { format!("{p:.digits$}") }
}

/// The rule in a few words.
pub fn rule_label(design: &Design) -> String {
    let confidence = share(design.confidence);
    match design.rule {
        Rule::Adjusted(Correction::Holm) => {
            format!(
                "Rule: Dunnett within cells, Holm across them, {confidence}% confidence for the whole study."
            )
        }
        Rule::Adjusted(Correction::FalseDiscovery) => format!(
            "Rule: FALSE-DISCOVERY control (Benjamini and Hochberg): on average up to {}% of the colours are false.",
            share(1.0 - design.confidence)
        ),
        Rule::OneSigma => "Rule: ONE SIGMA, as in the 2013 article: not adjusted for anything.".into(),
    }
}

/// A share in per cent, without needless zeros.
pub(crate) fn share(share: f64) -> String {
    crate::quantity::number((share * 10_000.0).round() / 100.0)
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_string()
}

fn notes(design: &Design, compared: usize, fewest: u32) -> Vec<String> {
    let confidence = share(design.confidence);
    let effect = share(design.effect);
    let mut notes = vec!["A sample is a whole trial on a fresh cluster, never a second of one.".to_string()];
    notes.push(match design.rule {
        Rule::OneSigma => {
            "An effect is the difference of the means. Intervals are one standard deviation of the \
                           variant's trials to each side: no confidence belongs to them."
                .to_string()
        }
        Rule::Adjusted(_) => {
            "An effect is the ratio of a variant to the default of the same block, on logarithms.".to_string()
        }
    });
    match design.rule {
        Rule::OneSigma => {
            let samples = if compared == 0 { 3 } else { fewest };
            let of_default = samples.saturating_mul(design.defaults_per_block.max(1));
            let rate = one_sigma::false_colours(of_default as usize, samples as usize);
            notes.push(format!(
                "The one-sigma rule colours a comparison when the ranges of one standard deviation around the two means \
                 don't overlap. A simulation gives it {}% false colours a comparison where nothing differs, with \
                 {of_default} trials of the default and {samples} of the variant: of {compared} comparisons about {} would be coloured by chance alone.",
                crate::quantity::number(rate * 100.0),
                crate::quantity::number(rate * compared as f64),
            ));
            return notes;
        }
        Rule::Adjusted(_) if compared == 0 => {
            notes.push("No variant is compared with a default here; systems are, below.".to_owned());
        }
        Rule::Adjusted(Correction::Holm) => notes.push(format!(
            "Green and red: the adjusted interval excludes 1 and the effect is at least {effect}%. The family is all \
             {compared} comparisons of the study: with {confidence}% confidence none of its colours is false."
        )),
        Rule::Adjusted(Correction::FalseDiscovery) => notes.push(format!(
            "Green and red: the comparison is among those that Benjamini's and Hochberg's procedure picks out of all \
             {compared}, and the effect is at least {effect}%. Single colours may be false."
        )),
    }
    notes.push(format!(
        "White: the adjusted interval lies within {effect}% of 1 on both sides, the variant is shown equal. Grey: \
         undecided, which is not equal."
    ));
    if design.confirm {
        notes.push(
            "A coloured cell is run once more, and its colour stands only if the new trials alone show the same \
             direction."
                .to_string(),
        );
    }
    notes
}
