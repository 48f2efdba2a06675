//! The telling ones of Ceph's perf counters, of the default on each system.

use std::collections::BTreeMap;

use super::trials::Trials;
use super::{Spread, spread};
use crate::input::{DEFAULT, Outline};
use crate::quantity::{fixed, number};

/// A load's counters: a row for each counter, a column for each system that has any.
pub struct Counters {
    /// The workload and its phase.
    pub load: (String, String),
    /// Those that have counters.
    pub systems: Vec<String>,
    /// What it is, and its mean over the trials on each system; `–` where it hasn't that.
    pub rows: Vec<(String, Vec<String>)>,
}

/// Every load under which a system has counters.
pub fn counters(outline: &Outline, trials: &Trials) -> Vec<Counters> {
    outline.loads().filter_map(|load| of_load(outline, trials, load)).collect()
}

fn of_load(outline: &Outline, trials: &Trials, (workload, phase): (&str, &str)) -> Option<Counters> {
    let mut systems = Vec::new();
    let mut rows: BTreeMap<String, BTreeMap<usize, String>> = BTreeMap::new();
    for system in &outline.systems {
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (_, measurement) in trials.planned((system, workload, phase), DEFAULT) {
            for (name, value) in &measurement.counters {
                values.entry(name).or_default().push(*value);
            }
        }
        if values.is_empty() {
            continue;
        }
        for (name, values) in values {
            let mean = spread(values.into_iter()).map(|s: Spread| s.mean);
            let (words, unit) = words(name);
            // Counts are whole, and their mean is shown so.
            let shown = |m: f64| if unit == "ms" { number(m) } else { fixed(m, 0) };
            let text = mean.map_or("–".into(), |m| format!("{} {unit}", shown(m)));
            rows.entry(words).or_default().insert(systems.len(), text.trim_end().to_owned());
        }
        systems.push(system.clone());
    }
    let columns = systems.len();
    let row = |(name, values): (String, BTreeMap<usize, String>)| {
        let values = (0..columns).map(|i| values.get(&i).cloned().unwrap_or_else(|| "–".into()));
        (name, values.collect())
    };
    let rows: Vec<_> = rows.into_iter().map(row).collect();
    (!rows.is_empty()).then(|| Counters { load: (workload.into(), phase.into()), systems, rows })
}

/// A counter's name and unit.
fn words(name: &str) -> (String, &'static str) {
    match name.strip_suffix("_ms") {
        Some(name) => (name.to_owned(), "ms"),
        None if name.ends_with("bytes") => (name.to_owned(), "bytes"),
        None => (name.to_owned(), ""),
    }
}
