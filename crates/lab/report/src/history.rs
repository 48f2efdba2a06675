//! Change points across runs: one series for each system, workload, phase and variant that at least two runs have.

use std::collections::BTreeMap;

use labstats::change_points::{ChangePoint, Options, change_points};
use results::{Record, RunInfo, Status};

use crate::charts::history as charts;
use crate::gather::{Spread, spread};
use crate::input::percent;
use crate::quantity::Quantity;

/// A run among others.
pub struct Run<'a> {
    /// What it is called: its directory.
    pub name: String,
    /// About it.
    pub info: &'a RunInfo,
    pub records: &'a [Record],
}

/// One configuration over the runs.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    /// `system: workload, phase, variant`.
    pub what: String,
    /// The runs that have it, in order of time.
    pub runs: Vec<Point>,
    /// Where it changed; places in `runs`.
    pub changes: Vec<ChangePoint>,
    /// Why no changes were looked for; empty if they were.
    pub why: String,
    /// What could not be seen with so few runs; empty if all could.
    pub unseen: String,
}

/// A run's mean.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The run.
    pub name: String,
    /// When it began.
    pub started: String,
    /// What the server says of its version.
    pub server: String,
    /// Operations a second.
    pub mean: Spread,
}

/// Every configuration. Runs are put in order of their start. Results on modelled devices and on real ones are never one
/// series.
pub fn history(runs: &[Run], options: &Options) -> Vec<History> {
    let mut order: Vec<&Run> = runs.iter().collect();
    order.sort_by(|a, b| a.info.started.cmp(&b.info.started));
    let mut series: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for run in order {
        for (what, (values, server)) in configurations(run.records) {
            if let Some(mean) = spread(values.into_iter()) {
                let point = Point { name: run.name.clone(), started: run.info.started.clone(), server, mean };
                series.entry(what).or_default().push(point);
            }
        }
    }
    series
        .into_iter()
        .filter(|(_, runs)| runs.len() > 1)
        .map(|(what, runs)| judged(what, runs, options))
        .collect()
}

fn judged(what: String, runs: Vec<Point>, options: &Options) -> History {
    let means: Vec<f64> = runs.iter().map(|r| r.mean.mean).collect();
    let (fewest, for_the_end) = (options.fewest_runs(), options.fewest_runs_for_the_end());
    if runs.len() < fewest {
        let why = format!("{} runs; a change can be told from chance from {fewest} on", runs.len());
        return History { what, runs, changes: Vec::new(), why, unseen: String::new() };
    }
    let unseen = match runs.len() < for_the_end {
        true => {
            format!("a change in the last {} runs can be told from {for_the_end} runs on", options.shortest)
        }
        false => String::new(),
    };
    match change_points(&means, options) {
        Ok(changes) => History { what, runs, changes, why: String::new(), unseen },
        Err(e) => History { what, runs, changes: Vec::new(), why: e.to_string(), unseen },
    }
}

fn configurations(records: &[Record]) -> BTreeMap<String, (Vec<f64>, String)> {
    let mut all: BTreeMap<String, (Vec<f64>, String)> = BTreeMap::new();
    for r in records.iter().filter(|r| r.outcome.status == Status::Ok && !r.confirms) {
        for m in &r.measurements {
            let Some(phase) = m.sample_of() else { continue };
            let p = &r.parameters;
            let modelled = if p.modelled { " (modelled devices)" } else { "" };
            let what = format!("{}{modelled}: {}, {phase}, {}", p.system, p.workload, p.variant);
            let entry = all.entry(what).or_insert_with(|| (Vec::new(), r.build.server.clone()));
            entry.0.push(m.ops_per_s);
        }
    }
    all
}

/// The chart of a configuration.
pub fn chart(history: &History) -> String {
    let run = |p: &Point| charts::Run {
        name: p.name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&p.name).to_string(),
        ops: p.mean.mean,
        interval: p.mean.interval,
        hover: format!("{}, {}, {}: {}", p.name, p.started, p.server, Quantity::Ops.show(p.mean.mean)),
    };
    let change = |c: &ChangePoint| {
        let (low, high) = c.interval;
        let words = format!("{} ({} to {})", percent(c.ratio), percent(low), percent(high));
        (c.at, words, c.ratio > 1.0)
    };
    let found = match (history.why.is_empty(), history.changes.len()) {
        (false, _) => format!("{}.", history.why.trim_end_matches('.')),
        (true, 0) => "No change found.".to_string(),
        (true, n) => format!("Changes found: {n}."),
    };
    let found = match history.unseen.is_empty() {
        true => found,
        false => format!("{found} Not seen: {}.", history.unseen),
    };
    charts::chart(&charts::History {
        title: history.what.clone(),
        below: format!(
            "{found} Dots: geometric means of a run's trials; lines: their 95% intervals, each run alone. Dashed: a change, \
             with its size and interval."
        ),
        runs: history.runs.iter().map(run).collect(),
        changes: history.changes.iter().map(change).collect(),
    })
}
