//! Phases too short to be judged one by one: what the trials of a cell show together.

use std::collections::BTreeMap;

use labstats::trend::{Trend, trend};
use results::Status;

use super::table;
use crate::charts::words::escape;
use crate::input::{Input, percent};

/// Seconds of each trial, by system, workload and phase.
type Seconds<'a> = BTreeMap<(&'a str, &'a str, &'a str), Vec<Vec<f64>>>;

/// A table of cells; empty where no phase was too short.
pub fn section(input: &Input) -> String {
    let cells = seconds(input);
    if cells.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = cells
        .iter()
        .map(|((system, workload, phase), trials)| {
            let words = trend(trials).map_or("too few trials or samples to tell".into(), words);
            vec![escape(system), escape(workload), escape(phase), trials.len().to_string(), words]
        })
        .collect();
    let header = ["system", "workload", "phase", "trials", "from the first third of the phase to the last"];
    format!(
        "<h3>Too short to tell</h3>\n<p>These phases have too few samples to tell whether a single trial was steady. All \
         trials together show whether the phase has a steady state: the change of the rate, with its 99% interval.</p>\n{}",
        table("plain", &header, &rows)
    )
}

/// Of the trials whose phase can't be judged alone.
fn seconds<'a>(input: &'a Input) -> Seconds<'a> {
    let mut cells = Seconds::new();
    for record in input.records.iter().filter(|r| r.outcome.status == Status::Ok) {
        // A load without samples has no words on it.
        let short: Vec<&str> = record
            .measurements
            .iter()
            .filter(|m| m.steady.is_none() && !m.unsteady.is_empty())
            .map(|m| m.phase.as_str())
            .collect();
        if short.is_empty() {
            continue;
        }
        let samples = (input.series)(&record.id).map(|s| s.samples).unwrap_or_default();
        for phase in short {
            let of_phase = samples.iter().filter(|s| s.phase == phase);
            let rates = of_phase.filter_map(|s| s.values.get("ops_per_s").copied()).collect();
            let p = &record.parameters;
            cells.entry((p.system.as_str(), p.workload.as_str(), phase)).or_default().push(rates);
        }
    }
    cells
}

fn words(found: Trend) -> String {
    let (low, high) = found.interval;
    let change = format!("{} ({} to {})", percent(found.ratio), percent(low), percent(high));
    let verdict = if found.changes() {
        "changes: longer phases are needed"
    } else if found.is_steady() {
        "steady on the whole"
    } else {
        "undecided"
    };
    format!("{change}: {verdict}")
}
