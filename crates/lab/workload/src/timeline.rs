//! Seconds of several instances merged into one time line. Pure.

use std::collections::VecDeque;

use results::Sample;

/// What an instance did in one of its seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Seconds from the instance's start to the end of this one.
    pub elapsed: f64,
    /// How long it was, about 1.
    pub seconds: f64,
    /// Operations completed in it.
    pub operations: u64,
    /// Bytes moved in it.
    pub bytes: u64,
    /// Mean latency of those operations in microseconds, where there were any.
    pub latency_us: Option<f64>,
}

/// One instance's seconds that wait for the others'.
#[derive(Clone, Default, Debug)]
struct Line {
    /// When it started, in seconds since the trial's origin.
    start: f64,
    waiting: VecDeque<Progress>,
    ended: bool,
}

/// Merges: second N of the time line is second N of every instance that still runs. It comes out once all of those
/// have told it, so a stuck instance holds the time line up. An instance that has ended adds nothing to later seconds:
/// the last ones of a phase may show fewer operations for that reason alone. What lies between an instance's last
/// whole second and its end is in the totals only.
#[derive(Clone, Default, Debug)]
pub struct Merge {
    phase: String,
    lines: Vec<Line>,
}

impl Merge {
    /// Of this many instances.
    #[must_use]
    pub fn new(phase: &str, instances: usize) -> Self {
        Self { phase: phase.to_owned(), lines: vec![Line::default(); instances] }
    }

    /// When an instance started, in seconds since the trial's origin; it may be set again.
    pub fn start(&mut self, instance: usize, t: f64) {
        if let Some(line) = self.lines.get_mut(instance) {
            line.start = t;
        }
    }

    /// The next second of an instance.
    pub fn add(&mut self, instance: usize, progress: Progress) {
        if let Some(line) = self.lines.get_mut(instance) {
            line.waiting.push_back(progress);
        }
    }

    /// There will be no more of this instance.
    pub fn end(&mut self, instance: usize) {
        if let Some(line) = self.lines.get_mut(instance) {
            line.ended = true;
        }
    }

    /// The next second that is complete.
    pub fn take(&mut self) -> Option<Sample> {
        if self.lines.iter().any(|l| !l.ended && l.waiting.is_empty()) {
            return None;
        }
        let parts: Vec<(f64, Progress)> =
            self.lines.iter_mut().filter_map(|l| Some((l.start, l.waiting.pop_front()?))).collect();
        if parts.is_empty() {
            return None;
        }
        let rate = |of: fn(&Progress) -> u64| {
            parts.iter().filter(|(_, p)| p.seconds > 0.0).map(|(_, p)| of(p) as f64 / p.seconds).sum::<f64>()
        };
        let mut sample = Sample {
            t: parts.iter().map(|(start, p)| start + p.elapsed).sum::<f64>() / parts.len() as f64,
            phase: self.phase.clone(),
            ..Sample::default()
        };
        sample.values.insert("ops_per_s".into(), rate(|p| p.operations));
        sample.values.insert("bytes_per_s".into(), rate(|p| p.bytes));
        let timed = || parts.iter().filter_map(|(_, p)| Some((p.latency_us?, p.operations as f64)));
        let operations: f64 = timed().map(|(_, n)| n).sum();
        if operations > 0.0 {
            let latency = timed().map(|(l, n)| l * n).sum::<f64>() / operations;
            sample.values.insert("latency_us".into(), latency);
        }
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(elapsed: f64, operations: u64, latency: f64) -> Progress {
        Progress {
            elapsed,
            seconds: 1.0,
            operations,
            bytes: operations * 10,
            latency_us: (operations > 0).then_some(latency),
        }
    }

    #[test]
    fn a_second_comes_out_when_every_running_instance_has_told_it() {
        let mut merge = Merge::new("write", 2);
        merge.start(0, 5.0);
        merge.start(1, 5.5);
        merge.add(0, second(1.0, 100, 10.0));
        assert_eq!(merge.take(), None);
        merge.add(1, second(1.0, 300, 30.0));
        let sample = merge.take().unwrap();
        assert_eq!((sample.t, sample.phase.as_str()), (6.25, "write"));
        assert_eq!(sample.values["ops_per_s"], 400.0);
        assert_eq!(sample.values["bytes_per_s"], 4000.0);
        assert_eq!(sample.values["latency_us"], 25.0);
        assert_eq!(merge.take(), None);
    }

    #[test]
    fn an_instance_that_has_ended_holds_nothing_up() {
        let mut merge = Merge::new("read", 2);
        merge.add(0, second(1.0, 1, 1.0));
        merge.add(0, second(2.0, 2, 1.0));
        merge.end(1);
        assert_eq!(merge.take().unwrap().values["ops_per_s"], 1.0);
        assert_eq!(merge.take().unwrap().values["ops_per_s"], 2.0);
        merge.end(0);
        assert_eq!(merge.take(), None);
    }

    #[test]
    fn a_second_without_operations_has_no_latency() {
        let mut merge = Merge::new("read", 1);
        merge.add(0, second(1.0, 0, 0.0));
        let sample = merge.take().unwrap();
        assert_eq!(sample.values["ops_per_s"], 0.0);
        assert!(!sample.values.contains_key("latency_us"));
    }
}
