//! The JSON documents that fio prints: one a second and a last one, each with everything since the start. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::timeline::Progress;

/// A document, as far as it is needed.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Document {
    /// Always one here.
    pub jobs: Vec<Job>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Job {
    /// A number of the system's, 0 if all is well.
    pub error: i64,
    pub read: Direction,
    pub write: Direction,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Direction {
    /// Bytes moved.
    pub io_bytes: u64,
    /// Milliseconds since the start.
    pub runtime: u64,
    /// Operations, with those in flight while fio runs.
    pub total_ios: u64,
    /// From the making of a request to its end.
    pub lat_ns: Times,
}

/// Latencies in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Times {
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Operations that are in it; some of the last ones may be missing while fio runs.
    #[serde(rename = "N")]
    pub n: u64,
    /// Middle of a bin to count.
    #[serde(default)]
    pub bins: BTreeMap<u64, u64>,
}

impl Document {
    /// The direction that has operations. Our jobs have one only.
    #[must_use]
    pub fn direction(&self) -> Option<&Direction> {
        let job = self.jobs.first()?;
        [&job.read, &job.write].into_iter().max_by_key(|d| d.total_ios)
    }
}

/// Puts documents together from lines and gives what was done between two of them.
#[derive(Default, Debug)]
pub struct Documents {
    lines: String,
    inside: bool,
    last: Option<Document>,
}

/// What lies between two documents is a second unless the last one came soon after the one before.
const SECOND_MS: u64 = 500;

impl Documents {
    /// Takes a line; gives a second's worth where the line ends a document.
    pub fn line(&mut self, line: &str) -> Option<Progress> {
        match line {
            // fio indents all but the outermost braces.
            "{" => {
                self.lines.clear();
                self.inside = true;
            }
            _ if !self.inside => return None,
            _ => {}
        }
        self.lines.push_str(line);
        self.lines.push('\n');
        if line != "}" {
            return None;
        }
        self.inside = false;
        // One that can't be read is made up for by the next.
        let document: Document = serde_json::from_str(&self.lines).ok()?;
        let before = self.last.replace(document);
        let now = self.last.as_ref()?.direction()?;
        between(before.as_ref().and_then(Document::direction), now)
    }

    /// The last one that was whole: with all operations, once fio has ended.
    #[must_use]
    pub fn last(&self) -> Option<&Document> {
        self.last.as_ref()
    }
}

fn between(before: Option<&Direction>, now: &Direction) -> Option<Progress> {
    let nothing = Direction::default();
    let before = before.unwrap_or(&nothing);
    let ms = now.runtime.checked_sub(before.runtime).filter(|ms| *ms >= SECOND_MS)?;
    let timed = now.lat_ns.n.saturating_sub(before.lat_ns.n);
    let sum = now.lat_ns.mean * now.lat_ns.n as f64 - before.lat_ns.mean * before.lat_ns.n as f64;
    Some(Progress {
        elapsed: now.runtime as f64 / 1e3,
        seconds: ms as f64 / 1e3,
        // Completed ones, as bytes are; `total_ios` has those in flight too while fio runs.
        operations: timed,
        bytes: now.io_bytes.saturating_sub(before.io_bytes),
        latency_us: (timed > 0 && sum > 0.0).then(|| sum / timed as f64 / 1e3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../tests/data/fio-3.33-randread.txt");

    fn all(text: &str) -> (Documents, Vec<Progress>) {
        let mut documents = Documents::default();
        let seconds = text.lines().filter_map(|l| documents.line(l)).collect();
        (documents, seconds)
    }

    #[test]
    fn each_documents_difference_is_a_second() {
        let (documents, seconds) = all(TEXT);
        let last = documents.last().unwrap().direction().unwrap();
        assert!(last.runtime >= 2000 && last.total_ios > 100);
        let told: u64 = seconds.iter().map(|s| s.operations).sum();
        assert!(!seconds.is_empty() && told <= last.total_ios, "{seconds:?}");
        for second in &seconds {
            assert!((0.5..1.5).contains(&second.seconds), "{second:?}");
            assert!(second.bytes.abs_diff(second.operations * 4096) <= 2 * 4096, "{second:?}");
            let latency = second.latency_us.unwrap();
            // Two in flight all the time.
            let expected = 2.0 / second.operations as f64 * second.seconds * 1e6;
            assert!((latency / expected - 1.0).abs() < 0.2, "{latency} against {expected}");
        }
    }

    #[test]
    fn the_last_documents_bins_hold_every_operation() {
        let (documents, _) = all(TEXT);
        let last = documents.last().unwrap().direction().unwrap();
        let histogram = crate::fio::histogram::of_bins(&last.lat_ns.bins);
        assert_eq!(histogram.buckets.iter().map(|b| b.1).sum::<u64>(), last.total_ios);
        let (bound, _) = histogram.buckets.last().unwrap();
        let max = last.lat_ns.max / 1e3;
        assert!(*bound >= max && *bound <= max * (1.0 + 1.0 / 64.0), "{bound} for {max}");
        let mean = histogram.buckets.iter().map(|(b, n)| b * *n as f64).sum::<f64>() / last.total_ios as f64;
        assert!((mean / (last.lat_ns.mean / 1e3) - 1.0).abs() < 1.0 / 64.0, "{mean}");
    }

    #[test]
    fn words_around_documents_do_no_harm() {
        let text = format!("fio: a note\n{TEXT}fio: another\n");
        assert_eq!(all(&text).1, all(TEXT).1);
        let (documents, seconds) = all("{\nnot json\n}\n");
        assert!(documents.last().is_none() && seconds.is_empty());
    }
}
