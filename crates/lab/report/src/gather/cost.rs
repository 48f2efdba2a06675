//! What the default costs on each system: CPU, device bytes, energy; and its latency.

use super::percentiles::merged;
use super::spread;
use super::trials::{Trial, Trials, is_open_loop, value};
use crate::input::{DEFAULT, Outline};
use crate::quantity::{Quantity, number};

/// A system under a load. Texts are ready to be shown; what is not known says so.
pub struct Cost {
    pub system: String,
    /// The workload and its phase.
    pub load: (String, String),
    /// `closed`, `open`, or empty for a command.
    pub open_loop: &'static str,
    /// Mean, p50, p99, p99.9, p99.99, largest.
    pub latency: [String; 6],
    /// CPU of the servers for an operation; operations for each second of it; cycles for an operation; bytes written to
    /// the devices for each of the clients'; joules for a thousand operations.
    pub cost: [String; 5],
}

/// The names of [`Cost::latency`].
pub const LATENCY: [&str; 6] = ["mean", "p50", "p99", "p99.9", "p99.99", "largest"];
/// The names of [`Cost::cost`].
pub const COST: [&str; 5] = [
    "servers' CPU an operation",
    "operations a core-second",
    "cycles an operation",
    "device bytes a byte",
    "J a 1,000 operations",
];

/// Every system under every load that has trials.
pub fn costs(outline: &Outline, trials: &Trials) -> Vec<Cost> {
    let mut all = Vec::new();
    for (workload, phase) in outline.loads() {
        for system in &outline.systems {
            let cell = (system.as_str(), workload, phase);
            let found: Vec<Trial> = trials.planned(cell, DEFAULT).collect();
            if let Some(first) = found.first() {
                let command = first.0.parameters.load == "command";
                all.push(Cost {
                    system: system.clone(),
                    load: (workload.into(), phase.into()),
                    open_loop: match (command, is_open_loop(first)) {
                        (true, _) => "",
                        (false, true) => "open",
                        (false, false) => "closed",
                    },
                    latency: latency(trials, cell, &found),
                    cost: cost(&found),
                });
            }
        }
    }
    all
}

fn latency(trials: &Trials, cell: (&str, &str, &str), found: &[Trial]) -> [String; 6] {
    let show = |v: Option<f64>| v.filter(|v| *v > 0.0).map_or("–".into(), |v| Quantity::Latency.show(v));
    let histogram = merged(trials, cell);
    let percentile = |p: f64| show(histogram.percentile(p).ok());
    let mean = spread(found.iter().map(|(_, m)| m.latency.mean_us)).map(|s| s.mean);
    let largest = found.iter().map(|(_, m)| m.latency.max_us).fold(0.0, f64::max);
    [show(mean), percentile(50.0), percentile(99.0), percentile(99.9), percentile(99.99), show(Some(largest))]
}

fn cost(found: &[Trial]) -> [String; 5] {
    let mean = |of: fn(&Trial) -> f64| spread(found.iter().map(of)).map(|s| s.mean);
    let plain = |v: Option<f64>| v.map_or("–".into(), number);
    let operations = |t: &Trial| t.1.operations.max(1) as f64;
    let cycles: Vec<f64> =
        found.iter().filter_map(|t| Some(t.1.cpu.cycles? as f64 / operations(t))).collect();
    let joules: Vec<f64> = found.iter().filter_map(|t| Some(t.1.joules? / operations(t) * 1000.0)).collect();
    [
        mean(|t| value(t.1, Quantity::CpuPerOp)).map_or("–".into(), |v| Quantity::CpuPerOp.show(v)),
        plain(mean(|t| t.1.cpu.ops_per_core_s)),
        if cycles.is_empty() {
            "not counted".into()
        } else {
            plain(spread(cycles.into_iter()).map(|s| s.mean))
        },
        plain(mean(|t| t.1.device_bytes_per_byte)),
        if joules.is_empty() {
            "not measured".into()
        } else {
            plain(spread(joules.into_iter()).map(|s| s.mean))
        },
    ]
}
