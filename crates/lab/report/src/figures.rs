//! Every chart of a report, drawn once: the page shows them, and each becomes a file.

use std::collections::BTreeSet;

use results::{Record, Status};

use crate::charts;
use crate::gather::percentages::Fields;
use crate::gather::{self, Trials};
use crate::history::{self, History};
use crate::input::{Colour, DEFAULT, Input};

/// A chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Where it belongs.
    pub kind: Kind,
    /// What a reader chooses it by: (`workload`, `bench-4K`), in the order of the choosers.
    pub keys: Vec<(&'static str, String)>,
    /// Safe as a file name, unique in the report, without extension.
    pub name: String,
    /// The picture.
    pub svg: String,
}

/// Parts of the report that have charts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A load's percentages over variants and systems.
    Percentages,
    /// A variant's percentages over loads and systems.
    Variant,
    /// Every trial of a load as a share of its block's default.
    Ratios,
    /// Bars of all systems.
    Bars,
    /// The scatter of a cell.
    Scatter,
    /// Latency percentiles.
    Percentiles,
    /// Latency over throughput.
    Ladder,
    /// A trial over time.
    OverTime,
    /// Where the servers' time went in a phase.
    Flame,
    /// Where a device's requests went in a phase.
    Seeks,
    /// A configuration over runs; not on a run's page.
    History,
}

impl Kind {
    /// In file names and anchors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Percentages => "percentages",
            Self::Variant => "variant",
            Self::Ratios => "shares",
            Self::Bars => "bars",
            Self::Scatter => "scatter",
            Self::Percentiles => "latency",
            Self::Ladder => "ladder",
            Self::OverTime => "over-time",
            Self::Flame => "flame",
            Self::Seeks => "seeks",
            Self::History => "history",
        }
    }
}

/// Trials shown over time at most; which ones, [`shown_over_time`] says.
pub const OVER_TIME_MAX: usize = 120;

/// Every chart.
pub fn figures(input: &Input) -> Vec<Figure> {
    let trials = Trials::of(&input.records);
    let fields = Fields::of(input);
    let mut all = Vec::new();
    percentages(input, &fields, &mut all);
    for (workload, phase) in input.outline.loads() {
        let load = || vec![("workload", workload.to_string()), ("phase", phase.to_string())];
        if let Some(chart) = gather::ratios::ratios(&input.outline, &fields, &trials, (workload, phase)) {
            all.push(Figure::new(Kind::Ratios, load(), charts::ratios::chart(&chart)));
        }
        for chart in gather::bars::bars(&input.outline, &trials, workload, phase) {
            let mut keys = load();
            keys.push(("metric", chart.quantity.words().to_string()));
            all.push(Figure::new(Kind::Bars, keys, charts::bars::chart(&chart)));
        }
        if let Some(chart) = gather::percentiles::percentiles(&input.outline, &trials, workload, phase) {
            all.push(Figure::new(Kind::Percentiles, load(), charts::percentiles::chart(&chart)));
        }
    }
    for cell in &input.judged.cells {
        if let Some(chart) = gather::scatter::scatter(&trials, cell, &input.judged.rule_label) {
            let keys = vec![
                ("workload", cell.workload.clone()),
                ("phase", cell.phase.clone()),
                ("system", cell.system.clone()),
            ];
            all.push(Figure::new(Kind::Scatter, keys, charts::scatter::chart(&chart)));
        }
    }
    for load in trials.ladders() {
        for chart in gather::ladder::charts(&input.outline, &trials, load) {
            let mut keys = vec![("workload", load.0.to_string()), ("phase", load.1.to_string())];
            keys.push(("percentile", chart.percentile.clone()));
            all.push(Figure::new(Kind::Ladder, keys, charts::ladder::chart(&chart)));
        }
    }
    for record in shown_over_time(input) {
        let chart = (input.series)(&record.id).and_then(|s| gather::over_time::over_time(record, &s));
        if let Some(chart) = chart {
            let p = &record.parameters;
            let keys = vec![
                ("workload", p.workload.clone()),
                ("system", p.system.clone()),
                ("variant", p.variant.clone()),
                ("trial", record.id.clone()),
            ];
            all.push(Figure::new(Kind::OverTime, keys, charts::over_time::chart(&chart)));
        }
    }
    profiles(input, &mut all);
    unique(&mut all);
    all
}

fn profiles(input: &Input, all: &mut Vec<Figure>) {
    for profiled in gather::profiles::profiled(input) {
        let p = &profiled.record.parameters;
        let keys = vec![
            ("workload", p.workload.clone()),
            ("phase", profiled.measurement.name().to_owned()),
            ("system", p.system.clone()),
            ("variant", p.variant.clone()),
        ];
        if let Some(svg) = profiled.flame().and_then(|f| charts::flame::chart(&f)) {
            all.push(Figure::new(Kind::Flame, keys.clone(), svg));
        }
        for seeks in profiled.seeks() {
            if let Some(svg) = charts::seeks::chart(&seeks) {
                let mut keys = keys.clone();
                keys.push(("device", seeks.requests.device.clone()));
                all.push(Figure::new(Kind::Seeks, keys, svg));
            }
        }
    }
}

/// A chart of each configuration over runs.
pub fn history_figures(all: &[History]) -> Vec<Figure> {
    let figure =
        |h: &History| Figure::new(Kind::History, vec![("configuration", h.what.clone())], history::chart(h));
    let mut figures: Vec<Figure> = all.iter().map(figure).collect();
    unique(&mut figures);
    figures
}

fn percentages(input: &Input, fields: &Fields, all: &mut Vec<Figure>) {
    for load in input.outline.loads() {
        if let Some(table) = gather::percentages::of_load(input, fields, load) {
            let keys = vec![("workload", load.0.to_string()), ("phase", load.1.to_string())];
            all.push(Figure::new(Kind::Percentages, keys, charts::percentages::chart(&table)));
        }
    }
    for variant in input.outline.variants.iter().skip(1) {
        if let Some(table) = gather::percentages::of_variant(input, fields, &variant.name) {
            let keys = vec![("variant", variant.name.clone())];
            all.push(Figure::new(Kind::Variant, keys, charts::percentages::chart(&table)));
        }
    }
}

impl Figure {
    fn new(kind: Kind, keys: Vec<(&'static str, String)>, svg: String) -> Self {
        let words: Vec<&str> =
            std::iter::once(kind.name()).chain(keys.iter().map(|k| k.1.as_str())).collect();
        Self { kind, name: file_name(&words.join("-")), keys, svg }
    }
}

fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-+".contains(c) { c } else { '-' };
    text.chars().take(150).map(safe).collect()
}

/// Names that became alike get a number.
fn unique(figures: &mut [Figure]) {
    let mut taken = BTreeSet::new();
    for figure in figures {
        let base = figure.name.clone();
        let mut number = 1;
        while !taken.insert(figure.name.to_lowercase()) {
            number += 1;
            figure.name = format!("{base}-{number}");
        }
    }
}

/// The trials shown over time: failed and unsteady ones first, then the default's and those of coloured variants, then
/// others, [`OVER_TIME_MAX`] in all, in the order of the plan.
pub fn shown_over_time<'a>(input: &'a Input) -> Vec<&'a Record> {
    let coloured: BTreeSet<(&str, &str, &str)> = input
        .judged
        .cells
        .iter()
        .flat_map(|c| c.variants.iter().map(move |v| (c, v)))
        .filter(|(_, v)| matches!(v.colour, Colour::Green | Colour::Red))
        .map(|(c, v)| (c.system.as_str(), c.workload.as_str(), v.name.as_str()))
        .collect();
    let rank = |r: &Record| {
        let p = &r.parameters;
        let key = (p.system.as_str(), p.workload.as_str(), p.variant.as_str());
        match r.outcome.status {
            Status::Failed => 0,
            _ if r.measurements.iter().any(|m| m.steady == Some(false)) => 1,
            _ if r.block == 0 && p.variant == DEFAULT => 2,
            _ if coloured.contains(&key) => 3,
            _ => 4,
        }
    };
    let mut shown: Vec<&Record> = input.records.iter().collect();
    shown.sort_by_key(|r| (rank(r), r.order));
    shown.truncate(OVER_TIME_MAX);
    shown.sort_by_key(|r| r.order);
    shown
}
