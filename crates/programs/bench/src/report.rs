//! Results as text and as JSON.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};
use telemetry::Histogram;
use text::format_bytes_exact;

use crate::args::Format;
use crate::error::errno_text;
use crate::instance::{Ended, Left};
use crate::spec::{Arrivals, Mode, Spec};
use crate::tally::{Done, Interval, Tally};

/// The percentiles that are reported.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];

const MIB: f64 = (1 << 20) as f64;

impl Spec {
    /// What is done, in a line.
    pub(crate) fn heading(&self) -> String {
        let how = match self.arrivals {
            Arrivals::AsOneEnds => format!("{} in flight each", self.in_flight),
            Arrivals::Even { per_second } => format!("{per_second} operations a second"),
            Arrivals::Poisson { per_second } => format!("{per_second} operations a second at random times"),
        };
        let instances = if self.instances == 1 { "instance" } else { "instances" };
        format!(
            "{} for {} s: {} {instances}, {how}, pool {}",
            self.mode.name(),
            self.duration.as_secs_f64(),
            self.instances,
            self.pools.join(", ")
        )
    }
}

/// The head of the table of progress.
pub(crate) fn progress_head() -> String {
    "  sec  in flight operations      ops/s       MB/s   avg lat(ms)   p99 lat(ms)   max lat(ms)".into()
}

/// A second's line of that table.
pub(crate) fn progress_line(second: &Interval) -> String {
    // What is left of the run after its last whole second may be next to nothing.
    let per_second = |n: f64| if second.seconds > 1e-3 { n / second.seconds } else { 0.0 };
    let millis = |nanos: Option<f64>| nanos.map_or("-".into(), |nanos| format!("{:.3}", nanos / 1e6));
    let latency = &second.latency;
    format!(
        "{:>5} {:>10} {:>10} {:>10.0} {:>10.3} {:>13} {:>13} {:>13}",
        second.second,
        second.in_flight,
        second.operations,
        per_second(second.operations as f64),
        per_second(second.bytes as f64 / MIB),
        millis(latency.mean()),
        millis(latency.percentile(99.0).map(|n| n as f64)),
        millis(latency.max().map(|n| n as f64)),
    )
}

/// All that was measured.
pub(crate) struct Results {
    spec: Arc<Spec>,
    interrupted: bool,
    intervals: Vec<Interval>,
    tally: Tally,
    seconds: f64,
    /// Why only a part was measured.
    failures: Vec<String>,
    instances: Vec<Ended>,
}

impl Results {
    pub(crate) fn new(spec: Arc<Spec>, interrupted: bool, intervals: Vec<Interval>) -> Self {
        let (tally, failures) = (Tally::default(), Vec::new());
        Self { spec, interrupted, intervals, tally, seconds: 0.0, failures, instances: Vec::new() }
    }

    pub(crate) fn add(&mut self, ended: Ended) {
        self.tally.merge(&ended.measured.tally);
        self.seconds = self.seconds.max(ended.measured.seconds);
        self.failures.extend(ended.measured.failed.clone());
        self.instances.push(ended);
    }

    pub(crate) fn failed(&mut self, why: String) {
        self.failures.push(why);
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.instances.is_empty()
    }

    /// Whether all that was asked for was measured.
    fn is_whole(&self) -> bool {
        self.failures.is_empty() && !self.interrupted
    }

    /// Whether all was measured, and nothing is left that was to be removed.
    pub(crate) fn is_well(&self) -> bool {
        self.is_whole() && !self.instances.iter().any(|ended| matches!(ended.left, Left::Stuck(_)))
    }

    fn why_partial(&self) -> Option<String> {
        match (self.failures.first(), self.interrupted) {
            (Some(why), _) => Some(why.clone()),
            (None, true) => Some("interrupted".into()),
            (None, false) => None,
        }
    }

    /// What the user has to know beside the results.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(why) = self.why_partial() {
            warnings.push(format!("only a part of the run was measured: {why}"));
        }
        if self.instances.iter().any(|ended| ended.verified == Some(false)) && self.spec.verifies {
            warnings.push("what was read was not compared: another program wrote the objects".into());
        }
        for ended in &self.instances {
            if let Left::Stuck(why) = &ended.left {
                let Ended { pool, prefix, .. } = ended;
                warnings.push(format!(
                    "objects are left in pool '{pool}': {why}; loligo bench cleanup -p {pool} --prefix {prefix} removes them"
                ));
            }
        }
        warnings
    }

    pub(crate) fn text(&self, format: Format) -> String {
        match format {
            Format::Plain => self.plain(),
            Format::Json { pretty: false } | Format::JsonLines => format!("{}\n", self.json()),
            Format::Json { pretty: true } => format!("{:#}\n", self.json()),
        }
    }

    fn per_second(&self, amount: f64) -> f64 {
        if self.seconds > 0.0 { amount / self.seconds } else { 0.0 }
    }

    // --- plain ---

    fn plain(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(out, "{:<24}{value}", format!("{name}:"));
        };
        if let Some(why) = self.why_partial() {
            line("PARTIAL RESULTS", why);
        }
        line("Total time run", format!("{:.6}", self.seconds));
        let all = self.tally.all();
        let is_mixed = self.tally.reads.latency.count() > 0 && self.tally.writes.latency.count() > 0;
        let kinds = [("reads", &self.tally.reads), ("writes", &self.tally.writes)];
        for (kind, done) in kinds.iter().filter(|(_, done)| done.latency.count() > 0) {
            line(&format!("Total {kind} made"), done.latency.count().to_string());
        }
        if let Some(ended) = self.instances.first() {
            line("Operation size", ended.block_size.to_string());
            line("Object size", ended.object_size.to_string());
        }
        line("Bandwidth (MB/sec)", format!("{:.3}", self.per_second(all.bytes as f64 / MIB)));
        line("Average IOPS", format!("{:.0}", self.per_second(all.latency.count() as f64)));
        self.plain_spread(&mut line);
        latency_lines("", &all.latency, &mut line);
        if is_mixed {
            kinds
                .iter()
                .for_each(|(kind, done)| latency_lines(&format!("{kind} "), &done.latency, &mut line));
        }
        for (code, count) in &self.tally.errors {
            line("Failed operations", format!("{count}: {}", errno_text(*code)));
        }
        if self.tally.mismatches > 0 {
            line("Wrong data", format!("{} reads", self.tally.mismatches));
        }
        if self.tally.never_begun > 0 {
            line("Never begun", format!("{} planned operations", self.tally.never_begun));
        }
        for ended in &self.instances {
            match &ended.left {
                Left::Kept(objects) => {
                    line(
                        "Objects kept",
                        format!("{objects} in pool {}, prefix {}", ended.pool, ended.prefix),
                    );
                }
                Left::Removed(objects) => {
                    line("Objects removed", format!("{objects} from pool {}", ended.pool));
                }
                Left::Nothing | Left::Stuck(_) => {}
            }
        }
        out
    }

    /// How much whole seconds differ.
    fn plain_spread(&self, line: &mut impl FnMut(&str, String)) {
        let whole: Vec<f64> = self.whole_seconds().map(|second| second.operations as f64).collect();
        let [first, rest @ ..] = whole.as_slice() else { return };
        let mean = whole.iter().sum::<f64>() / whole.len() as f64;
        let variance = whole.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / whole.len() as f64;
        line("Stddev IOPS", format!("{:.1}", variance.sqrt()));
        line("Max IOPS", format!("{}", rest.iter().copied().fold(*first, f64::max)));
        line("Min IOPS", format!("{}", rest.iter().copied().fold(*first, f64::min)));
    }

    fn whole_seconds(&self) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().filter(|second| second.seconds > 0.99)
    }

    // --- JSON ---

    fn json(&self) -> Value {
        let spec = &self.spec;
        let (loop_kind, counts_from) = match spec.arrivals {
            Arrivals::AsOneEnds => ("closed", "submission"),
            Arrivals::Even { .. } | Arrivals::Poisson { .. } => ("open", "planned start"),
        };
        let arrivals = match spec.arrivals {
            Arrivals::AsOneEnds => None,
            Arrivals::Even { .. } => Some("even"),
            Arrivals::Poisson { .. } => Some("poisson"),
        };
        let reads_percent = match spec.mode {
            Mode::Mixed { reads_percent } => Some(reads_percent),
            Mode::Write | Mode::Seq | Mode::Rand => None,
        };
        json!({
            "mode": spec.mode.name(),
            "reads_percent": reads_percent,
            "pools": spec.pools,
            "instances": spec.instances,
            "loop": loop_kind,
            "in_flight_max": spec.in_flight,
            "rate": spec.arrivals.rate(),
            "arrivals": arrivals,
            "latency_counts_from": counts_from,
            "seconds_wanted": spec.duration.as_secs_f64(),
            "seconds": self.seconds,
            "partial": !self.is_whole(),
            "why_partial": self.why_partial(),
            "errors": self.tally.errors.iter().map(|(code, n)| (errno_name(*code), json!(n)))
                .collect::<serde_json::Map<_, _>>(),
            "wrong_data": self.tally.mismatches,
            "never_begun": self.tally.never_begun,
            "block_size": self.instances.first().map(|ended| ended.block_size),
            "object_size": self.instances.first().map(|ended| ended.object_size),
            "total": self.json_done(&self.tally.all()),
            "reads": self.json_done(&self.tally.reads),
            "writes": self.json_done(&self.tally.writes),
            "per_second": self.intervals.iter().map(json_second).collect::<Vec<_>>(),
            "objects": self.instances.iter().map(json_left).collect::<Vec<_>>(),
        })
    }

    fn json_done(&self, done: &Done) -> Value {
        let count = done.latency.count();
        json!({
            "operations": count,
            "bytes": done.bytes,
            "operations_per_second": self.per_second(count as f64),
            "bytes_per_second": self.per_second(done.bytes as f64),
            "latency_us": json_latency(&done.latency),
            // Upper bounds in microseconds, and counts.
            "latency_histogram_us": done.latency.buckets()
                .map(|(bound, count)| json!([bound as f64 / 1e3, count])).collect::<Vec<_>>(),
        })
    }
}

fn latency_lines(kind: &str, latency: &Histogram, line: &mut impl FnMut(&str, String)) {
    let seconds = |nanos: Option<f64>| nanos.map_or("-".into(), |nanos| format!("{:.9}", nanos / 1e9));
    line(&format!("Average {kind}Latency(s)"), seconds(latency.mean()));
    line(&format!("Stddev {kind}Latency(s)"), seconds(latency.stddev()));
    line(&format!("Min {kind}latency(s)"), seconds(latency.min().map(|n| n as f64)));
    for (name, percent) in PERCENTILES {
        line(&format!("{name} {kind}latency(s)"), seconds(latency.percentile(percent).map(|n| n as f64)));
    }
    line(&format!("Max {kind}latency(s)"), seconds(latency.max().map(|n| n as f64)));
}

fn json_latency(latency: &Histogram) -> Value {
    let micros = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e3);
    let mut all = json!({
        "min": micros(latency.min()),
        "mean": latency.mean().map(|nanos| nanos / 1e3),
        "stddev": latency.stddev().map(|nanos| nanos / 1e3),
        "max": micros(latency.max()),
    });
    for (name, percent) in PERCENTILES {
        all[name] = json!(micros(latency.percentile(percent)));
    }
    all
}

pub(crate) fn json_second(second: &Interval) -> Value {
    json!({
        "second": second.second,
        "seconds": second.seconds,
        "operations": second.operations,
        "bytes": second.bytes,
        "in_flight": second.in_flight,
        "latency_us": json_latency(&second.latency),
    })
}

fn json_left(ended: &Ended) -> Value {
    let (state, count, why) = match &ended.left {
        Left::Nothing => ("none", 0, None),
        Left::Removed(objects) => ("removed", *objects, None),
        Left::Kept(objects) => ("kept", *objects, None),
        Left::Stuck(why) => ("left", 0, Some(why)),
    };
    json!({
        "pool": ended.pool, "prefix": ended.prefix, "state": state, "count": count, "why": why,
        "verified": ended.verified, "size": format_bytes_exact(ended.object_size),
    })
}

fn errno_name(code: i32) -> String {
    types::Errno(code.saturating_neg()).to_string()
}
