//! The trials of a run by system, workload, phase and variant.

use std::collections::{BTreeMap, BTreeSet};

use results::{LadderPoint, Measurement, Record, Status};
use text::format_bytes;

use crate::charts::bars::Dot;
use crate::input::DEFAULT;
use crate::quantity::Quantity;

/// A phase of a trial that ended well.
pub type Trial<'a> = (&'a Record, &'a Measurement);

/// System, workload, phase.
type Cell = (String, String, String);

/// Every trial that ended well.
#[derive(Default)]
pub struct Trials<'a> {
    by_cell: BTreeMap<Cell, BTreeMap<&'a str, Vec<Trial<'a>>>>,
    /// Of ladders, by the phase that climbs.
    steps: BTreeMap<Cell, Vec<Trial<'a>>>,
}

impl<'a> Trials<'a> {
    /// Sorts records. Failed and interrupted trials are left out here; the report lists them.
    pub fn of(records: &'a [Record]) -> Self {
        let mut all = Self::default();
        for r in records.iter().filter(|r| r.outcome.status == Status::Ok) {
            for m in &r.measurements {
                let p = &r.parameters;
                if m.step.is_some() {
                    let steps = all.steps.entry(owned((&p.system, &p.workload, &m.phase))).or_default();
                    steps.push((r, m));
                }
                let Some(phase) = m.sample_of() else { continue };
                let cell = all.by_cell.entry(owned((&p.system, &p.workload, &phase))).or_default();
                cell.entry(&p.variant).or_default().push((r, m));
            }
        }
        all
    }

    /// The trials of a variant in a cell, those that confirm included.
    pub fn all(&self, cell: (&str, &str, &str), variant: &str) -> &[Trial<'a>] {
        self.by_cell.get(&owned(cell)).and_then(|c| c.get(variant)).map_or(&[], Vec::as_slice)
    }

    /// Those of the plan: trials that confirm were chosen by what the first ones showed, so means leave them out.
    pub fn planned(&self, cell: (&str, &str, &str), variant: &str) -> impl Iterator<Item = Trial<'a>> {
        self.all(cell, variant).iter().copied().filter(|(r, _)| !r.confirms)
    }

    /// The steps of the default's ladders, of the plan.
    pub fn steps(&self, cell: (&str, &str, &str)) -> impl Iterator<Item = Trial<'a>> {
        let of_default = |(r, _): &Trial| !r.confirms && r.parameters.variant == DEFAULT;
        self.steps.get(&owned(cell)).map_or(&[][..], Vec::as_slice).iter().copied().filter(of_default)
    }

    /// Workloads and phases that have a ladder.
    pub fn ladders(&self) -> BTreeSet<(&str, &str)> {
        self.steps.keys().map(|(_, workload, phase)| (workload.as_str(), phase.as_str())).collect()
    }

    /// Any trial of a workload's phase.
    pub fn any(&self, workload: &str, phase: &str) -> Option<Trial<'a>> {
        let cell = self.by_cell.iter().find(|((_, w, p), _)| w == workload && p == phase)?;
        cell.1.values().flatten().next().copied()
    }
}

fn owned(cell: (&str, &str, &str)) -> Cell {
    (cell.0.to_string(), cell.1.to_string(), cell.2.to_string())
}

/// What is worth a chart for such a load; the first is what the reader sees first.
pub fn metrics(trials: &Trials, workload: &str, phase: &str) -> Vec<Quantity> {
    use Quantity::{Bytes, CpuPerOp, Latency, Ops, Seconds};
    let Some((record, _)) = trials.any(workload, phase) else { return Vec::new() };
    let p = &record.parameters;
    if p.load == "command" {
        return vec![Seconds];
    }
    if p.block_size >= 64 << 10 {
        vec![Bytes, Ops, Latency, CpuPerOp]
    } else {
        vec![Ops, Bytes, Latency, CpuPerOp]
    }
}

/// A measurement's number for a quantity.
pub fn value(m: &Measurement, quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Ops => m.ops_per_s,
        Quantity::Bytes => m.bytes_per_s,
        Quantity::Latency => m.latency.mean_us,
        Quantity::CpuPerOp => m.cpu.server_us_per_op,
        Quantity::Seconds => m.seconds,
        // Of seconds, not of phases.
        _ => f64::NAN,
    }
}

/// A trial as a dot.
pub fn dot((r, m): &Trial, quantity: Quantity) -> Dot {
    let value = value(m, quantity);
    let mut hover = format!("{}: {} (block {}", r.id, quantity.show(value), r.block);
    if r.confirms {
        hover += ", run to confirm";
    }
    hover.push(')');
    let unsteady = m.steady == Some(false);
    if unsteady {
        hover += &format!("; unsteady: {}", m.unsteady);
    }
    Dot { value, unsteady, hover }
}

/// Whether requests came at a fixed rate.
pub fn is_open_loop((r, m): &Trial) -> bool {
    m.step.as_ref().map_or(r.parameters.open_loop, |s| s.rate.is_some())
}

/// What must be known of a trial's phase to read its numbers: the loop, what is in flight, sizes, modelled devices.
pub fn conditions(trial: &Trial) -> String {
    let found = trial.1.step.as_ref().and_then(|s| s.found).map(|found| match found {
        LadderPoint::Saturation => "closed loop, the depth at which each trial's throughput was highest",
        LadderPoint::HeldRate => "open loop, the highest rate at which each trial held the target",
    });
    let words = match (found, is_open_loop(trial)) {
        (Some(words), _) => words,
        (None, true) => "open loop (fixed rate)",
        (None, false) => "closed loop",
    };
    load_words(trial.0, words)
}

/// Whether a whole trial's load was a closed loop, an open one, or a ladder.
pub fn loop_words(record: &Record) -> &'static str {
    let rates = |r: &Record| r.measurements.iter().filter_map(|m| m.step.as_ref()).any(|s| s.rate.is_some());
    match record.measurements.iter().any(|m| m.step.is_some()) {
        true if rates(record) => "a ladder of depths (closed loop), then of fixed rates (open loop)",
        true => "a ladder of depths (closed loop)",
        false if record.parameters.open_loop => "open loop (fixed rate)",
        false => "closed loop",
    }
}

/// What must be known of a load: of its loop these words.
pub fn load_words(record: &Record, of_loop: &str) -> String {
    let p = &record.parameters;
    let mut parts = Vec::new();
    if p.load == "command" {
        parts.push("a command, timed from start to end".to_string());
    } else {
        parts.push(p.load.clone());
        parts.push(of_loop.to_string());
    }
    if p.block_size > 0 {
        parts.push(format_bytes(p.block_size));
    }
    if p.in_flight > 0 {
        parts.push(format!("{} in flight", p.in_flight));
    }
    if p.instances > 0 {
        parts.push(format!("{} client{}", p.instances, if p.instances == 1 { "" } else { "s" }));
    }
    parts.join(", ")
}
