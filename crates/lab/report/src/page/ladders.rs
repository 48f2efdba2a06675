//! Ladders as tables: the saturation and the highest rate that holds the target, and every depth.

use super::table;
use crate::charts::words::escape;
use crate::gather::ladder::{DepthSummary, Summary, summaries};
use crate::gather::{Spread, Trials};
use crate::input::Input;
use crate::quantity::{Quantity, number};

/// Both tables; empty where nothing climbed.
pub fn tables(input: &Input) -> String {
    let all = summaries(&input.outline, &Trials::of(&input.records));
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = all.iter().map(|s| row(input, s)).collect();
    let header = [
        "system",
        "load",
        "saturation, closed loop (ops/s)",
        "95%",
        "at depth",
        "target",
        "held rate, open loop (ops/s)",
        "95%",
        "held in trials",
    ];
    let depths: Vec<Vec<String>> =
        all.iter().flat_map(|s| s.by_depth.iter().map(|summary| depth(s, summary))).collect();
    let depth_header =
        ["system", "load", "in flight (closed loop)", "ops/s", "p50", "p90", "p99", "p99.9", "p99.99"];
    format!(
        "<p>The default: the best throughput of the depths, and the highest rate that holds the target. Means are geometric, each \
         system alone; a rate counts in the trials in which one held.</p>\n{}\
         <details><summary>Every depth</summary>\n<p>Percentiles are of histograms added up over the trials; – where fewer \
         than ten operations lie beyond, or the load gives none.</p>\n{}</details>\n",
        table("numbers", &header, &rows),
        table("numbers", &depth_header, &depths)
    )
}

fn row(input: &Input, s: &Summary) -> Vec<String> {
    let mean = |s: Option<Spread>| s.map_or("–".to_string(), |s| number(s.mean));
    let interval = |s: Option<Spread>| {
        let ends = s.and_then(|s| s.interval);
        ends.map_or("–".to_string(), |(low, high)| format!("{} to {}", number(low), number(high)))
    };
    let target = input.outline.targets.get(&s.load.0);
    vec![
        escape(&s.system),
        escape(&format!("{}, {}", s.load.0, s.load.1)),
        mean(s.saturation),
        interval(s.saturation),
        match s.depths {
            Some((low, high)) if low == high => low.to_string(),
            Some((low, high)) => format!("{low} to {high}"),
            None => "–".to_string(),
        },
        target.map_or("none".to_string(), |(p, us)| format!("p{p} {}", Quantity::Latency.show(*us))),
        mean(s.held),
        interval(s.held),
        target.map_or(String::new(), |_| format!("{} of {}", s.trials.0, s.trials.1)),
    ]
}

fn depth(s: &Summary, summary: &DepthSummary) -> Vec<String> {
    let mut row = vec![
        escape(&s.system),
        escape(&format!("{}, {}", s.load.0, s.load.1)),
        summary.depth.to_string(),
        summary.ops.map_or("–".to_string(), |s| number(s.mean)),
    ];
    for percentile in [50.0, 90.0, 99.0, 99.9, 99.99] {
        let found = summary.latency.percentile(percentile).ok();
        row.push(found.map_or("–".to_string(), |us| Quantity::Latency.show(us)));
    }
    row
}
