//! Latency percentiles of the default on each system, from histograms merged over its trials.

use labstats::histogram::Merged;

use super::trials::{Trials, conditions};
use crate::charts::percentiles::{PERCENTILES, Percentiles};
use crate::input::{DEFAULT, Outline};

/// The chart of a load; `None` where no load gave histograms.
pub fn percentiles(outline: &Outline, trials: &Trials, workload: &str, phase: &str) -> Option<Percentiles> {
    let lines: Vec<_> = outline
        .systems
        .iter()
        .map(|s| {
            let modelled =
                trials.all((s, workload, phase), DEFAULT).iter().any(|(r, _)| r.parameters.modelled);
            let name = if modelled { format!("{s} (modelled devices)") } else { s.clone() };
            (name, points(&merged(trials, (s, workload, phase))))
        })
        .filter(|(_, points)| !points.is_empty())
        .collect();
    if lines.is_empty() {
        return None;
    }
    let any = trials.any(workload, phase)?;
    Some(Percentiles {
        title: format!("{workload}, {phase}: latency percentiles of the default"),
        below: format!(
            "{}. From histograms added up over the trials; a percentile with fewer than ten operations beyond it is \
             left out.",
            conditions(&any)
        ),
        lines,
    })
}

/// The histograms of the default's trials added up. One that holds no latencies is left out whole.
pub fn merged(trials: &Trials, cell: (&str, &str, &str)) -> Merged {
    let mut all = Merged::default();
    for histogram in trials.planned(cell, DEFAULT).filter_map(|(_, m)| m.latency.histogram.as_ref()) {
        // Refused whole where a bound is no number: the load's output was misread, and no percentile is made from it.
        let _ = all.add(&histogram.buckets);
    }
    all
}

fn points(all: &Merged) -> Vec<(f64, f64)> {
    PERCENTILES
        .iter()
        .filter_map(|p| Some((*p, all.percentile(*p).ok()?)))
        .filter(|(_, v)| *v > 0.0)
        .collect()
}
