//! A trial's samples as panels: throughput, latency, CPU, the devices, network, memory, switches, pressure.

use std::collections::BTreeMap;

use results::{Record, Sample, Series, Status};

use super::trials::{load_words, loop_words};
use crate::charts::over_time::{OverTime, Panel};
use crate::quantity::Quantity;

/// Lines of a panel at most: the largest are shown, the others said.
const LINES_MAX: usize = 6;

/// The chart of a trial; `None` where it has no samples.
pub fn over_time(record: &Record, series: &Series) -> Option<OverTime> {
    let samples = &series.samples;
    let end = samples.last()?.t;
    let mut left_out = 0;
    let mut panels = Vec::new();
    let throughput = if record.parameters.block_size >= 64 << 10 {
        ("bytes_per_s", Quantity::Bytes)
    } else {
        ("ops_per_s", Quantity::Ops)
    };
    for (key, quantity) in [throughput, ("latency_us", Quantity::Latency)] {
        panels.push(panel(samples, quantity, |n| (n == key).then(|| "clients".into()), &mut left_out));
    }
    panels.push(panel(samples, Quantity::Cores, cpu, &mut left_out));
    panels.push(panel(samples, Quantity::Wait, |n| disk(n, ".wait_ms"), &mut left_out));
    panels.push(panel(samples, Quantity::Share, |n| disk(n, ".busy"), &mut left_out));
    panels.push(panel(samples, Quantity::DeviceBytes, moved, &mut left_out));
    panels.push(panel(samples, Quantity::Request, |n| disk(n, ".request"), &mut left_out));
    panels.push(panel(samples, Quantity::Network, network, &mut left_out));
    panels.push(panel(samples, Quantity::Memory, memory, &mut left_out));
    panels.push(panel(
        samples,
        Quantity::Switches,
        |n| (n == "switches").then(|| "whole machine".into()),
        &mut left_out,
    ));
    panels.push(panel(
        samples,
        Quantity::Pressure,
        |n| Some(format!("for {}", n.strip_prefix("pressure.")?)),
        &mut left_out,
    ));
    panels.retain(|p| !p.lines.is_empty());
    if panels.is_empty() {
        return None;
    }
    let p = &record.parameters;
    Some(OverTime {
        title: format!("{}: {} on {}, {}", record.id, p.workload, p.system, p.variant),
        below: below(record, left_out),
        end,
        phases: phases(samples),
        panels,
    })
}

fn below(record: &Record, left_out: usize) -> String {
    let mut text = load_words(record, loop_words(record));
    if record.parameters.modelled {
        text += ", modelled devices";
    }
    if record.outcome.status != Status::Ok {
        text += &format!(". Failed: {}", record.outcome.error);
    }
    for m in record.measurements.iter().filter(|m| m.steady == Some(false)) {
        text += &format!(". {} was unsteady: {}", m.words(), m.unsteady);
    }
    if left_out > 0 {
        text += &format!(". Lines left out as the smallest: {left_out}");
    }
    text
}

fn cpu(name: &str) -> Option<String> {
    let process = name.strip_prefix("cpu.")?;
    Some(if process == "machine" { "whole machine".into() } else { process.into() })
}

fn moved(name: &str) -> Option<String> {
    disk(name, ".read")
        .map(|d| format!("{d} read"))
        .or_else(|| disk(name, ".written").map(|d| format!("{d} written")))
}

fn network(name: &str) -> Option<String> {
    name.strip_prefix("net.")?.strip_suffix(".bytes").map(str::to_owned)
}

fn memory(name: &str) -> Option<String> {
    let process = name.strip_prefix("memory.")?;
    Some(if process == "machine" { "whole machine".into() } else { process.into() })
}

fn disk(name: &str, what: &str) -> Option<String> {
    name.strip_prefix("disk.")?.strip_suffix(what).map(|d| format!("device {d}"))
}

fn panel(
    samples: &[Sample],
    quantity: Quantity,
    shown: impl Fn(&str) -> Option<String>,
    left_out: &mut usize,
) -> Panel {
    let mut keys = BTreeMap::new();
    for (key, value) in samples.iter().flat_map(|s| &s.values) {
        if let Some(name) = shown(key) {
            let largest: &mut f64 = &mut keys.entry(key.as_str()).or_insert((name, 0.0)).1;
            *largest = largest.max(*value);
        }
    }
    let mut keys: Vec<(&str, (String, f64))> = keys.into_iter().collect();
    if keys.len() > LINES_MAX {
        keys.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
        *left_out += keys.len() - LINES_MAX;
        keys.truncate(LINES_MAX);
        keys.sort_by(|a, b| a.0.cmp(b.0));
    }
    let lines = keys.into_iter().map(|(key, (name, _))| (name, points(samples, key)));
    Panel { quantity, lines: lines.collect() }
}

/// The points of a line. Clients and machine have samples of their own in the series, at times of their own: a line goes
/// on over those without its value, and breaks where it was not measured for longer, or where a phase of its load ends.
fn points(samples: &[Sample], key: &str) -> Vec<(f64, f64)> {
    /// Seconds; a sample comes each second.
    const GAP: f64 = 2.5;
    let of_load = matches!(key, "ops_per_s" | "bytes_per_s" | "latency_us");
    let mut points = Vec::new();
    let mut before: Option<&Sample> = None;
    for sample in samples {
        let Some(value) = sample.values.get(key) else { continue };
        if let Some(last) = before.filter(|b| sample.t - b.t > GAP || (of_load && b.phase != sample.phase)) {
            points.push((last.t, f64::NAN));
        }
        points.push((sample.t, *value));
        before = Some(sample);
    }
    points
}

/// Runs of samples with the same phase.
fn phases(samples: &[Sample]) -> Vec<(String, f64, f64)> {
    let mut phases: Vec<(String, f64, f64)> = Vec::new();
    for s in samples.iter().filter(|s| !s.phase.is_empty()) {
        match phases.last_mut() {
            Some((name, _, to)) if *name == s.phase => *to = s.t,
            _ => phases.push((s.phase.clone(), (s.t - 1.0).max(0.0), s.t)),
        }
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t: f64, phase: &str, name: &str) -> Sample {
        Sample { t, phase: phase.into(), values: [(name.to_string(), t)].into() }
    }

    #[test]
    fn lines_go_on_over_samples_of_others_and_break_where_nothing_was_measured() {
        let samples: Vec<Sample> = [1.0, 2.0, 3.0, 7.0]
            .iter()
            .flat_map(|t| [sample(*t, "write", "ops_per_s"), sample(t + 0.4, "write", "cpu.machine")])
            .chain([sample(8.0, "read", "ops_per_s"), sample(8.4, "read", "cpu.machine")])
            .collect();
        let breaks = |key: &str| points(&samples, key).iter().filter(|p| p.1.is_nan()).count();
        assert_eq!(points(&samples, "cpu.machine").len(), 6, "five values and one break");
        assert_eq!(
            (breaks("cpu.machine"), breaks("ops_per_s")),
            (1, 2),
            "the load's line ends with its phase"
        );
    }
}
