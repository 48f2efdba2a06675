//! The lines that `loligo bench -f json-lines` prints: an object for each second, and one for the whole. Pure.

use results::{Histogram, Latency};
use serde::Deserialize;

use crate::phase::Instance;
use crate::run::OutputParser;
use crate::supervisor::Finished;
use crate::timeline::Progress;

#[derive(Debug, Deserialize)]
struct Second {
    second: u32,
    seconds: f64,
    operations: u64,
    bytes: u64,
    latency_us: Times,
}

#[derive(Debug, Deserialize)]
struct Whole {
    seconds: f64,
    partial: bool,
    why_partial: Option<String>,
    total: Total,
}

#[derive(Debug, Deserialize)]
struct Total {
    operations: u64,
    bytes: u64,
    latency_us: Times,
    latency_histogram_us: Vec<(f64, u64)>,
}

/// Nothing where there were no operations.
#[derive(Debug, Deserialize)]
struct Times {
    min: Option<f64>,
    mean: Option<f64>,
    max: Option<f64>,
    stddev: Option<f64>,
}

/// What an instance says.
pub(crate) struct BenchOutput {
    pub pool: String,
}

/// A second that ends more than this much early is the run's last one, and counts in the totals alone.
const WHOLE_SECOND: f64 = 0.99;

impl OutputParser for BenchOutput {
    fn line(&mut self, line: &str) -> Option<Progress> {
        // The last line is none of a second.
        let second: Second = serde_json::from_str(line).ok()?;
        (second.seconds >= WHOLE_SECOND).then(|| Progress {
            elapsed: f64::from(second.second),
            seconds: second.seconds,
            operations: second.operations,
            bytes: second.bytes,
            latency_us: second.latency_us.mean,
        })
    }

    fn result(&self, finished: &Finished) -> Result<Instance, String> {
        self.totals(&finished.out)
    }
}

impl BenchOutput {
    fn totals(&self, out: &str) -> Result<Instance, String> {
        let last = out.lines().last().unwrap_or_default();
        let whole: Whole = serde_json::from_str(last)
            .map_err(|error| format!("its last line does not have the results: {error}"))?;
        if whole.partial {
            let why = whole.why_partial.unwrap_or_default();
            return Err(format!("it measured only a part: {why}"));
        }
        let Total { operations, bytes, latency_us, latency_histogram_us } = whole.total;
        Ok(Instance {
            pool: self.pool.clone(),
            seconds: whole.seconds,
            operations,
            bytes,
            latency: Latency {
                mean_us: latency_us.mean.unwrap_or_default(),
                max_us: latency_us.max.unwrap_or_default(),
                histogram: Some(Histogram { buckets: latency_histogram_us }),
            },
            min_us: latency_us.min.unwrap_or_default(),
            stddev_us: latency_us.stddev,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = r#"{"second":1,"seconds":1.0,"operations":10,"bytes":40960,"in_flight":2,"latency_us":{"min":90.0,"mean":100.5,"stddev":3.0,"max":120.0,"p50":100.0}}
{"second":2,"seconds":0.2,"operations":0,"bytes":0,"in_flight":0,"latency_us":{"min":null,"mean":null,"stddev":null,"max":null,"p50":null}}
{"mode":"rand","seconds":1.2,"partial":false,"why_partial":null,"total":{"operations":10,"bytes":40960,"operations_per_second":8.3,"latency_us":{"min":90.0,"mean":100.5,"stddev":3.0,"max":120.0},"latency_histogram_us":[[100.0,6],[120.0,4]]}}
"#;

    fn output() -> BenchOutput {
        BenchOutput { pool: "p".into() }
    }

    #[test]
    fn whole_seconds_are_progress_and_the_last_line_is_the_result() {
        let seconds: Vec<Progress> = OUT.lines().filter_map(|line| output().line(line)).collect();
        assert_eq!(seconds.len(), 1);
        assert_eq!(
            (seconds[0].elapsed, seconds[0].operations, seconds[0].latency_us),
            (1.0, 10, Some(100.5))
        );
        let whole = output().totals(OUT).unwrap();
        assert_eq!((whole.seconds, whole.operations, whole.bytes, whole.min_us), (1.2, 10, 40960, 90.0));
        assert_eq!(whole.latency.histogram.unwrap().buckets, [(100.0, 6), (120.0, 4)]);
    }

    #[test]
    fn a_part_of_a_run_is_no_result() {
        let part =
            OUT.replace(r#""partial":false,"why_partial":null"#, r#""partial":true,"why_partial":"full""#);
        assert_eq!(output().totals(&part).unwrap_err(), "it measured only a part: full");
        let cut = &OUT[..OUT.len() - 20];
        assert!(output().totals(cut).unwrap_err().contains("does not have the results"));
        assert!(output().totals("").is_err());
    }
}
