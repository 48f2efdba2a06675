//! The result of a phase, and its observer.

use results::{Latency, Measurement, Process, Sample, Step};
use study::Phase;

use crate::error::Error;

/// Observes where phases begin and end, and each step of a ladder as a phase. A phase is named as [`PhaseResult::label`]
/// has it. All calls come on the thread that called [`crate::run`].
pub trait Observer {
    /// Before a phase: nothing of it runs yet. With `drop_caches` the study wants the host's caches dropped now.
    ///
    /// # Errors
    /// A sentence: the phase is not begun and the load has failed.
    fn before(&mut self, _phase: &str, _drop_caches: bool) -> Result<(), String> {
        Ok(())
    }

    /// The phase begins: its programs are started right after this call. Not called where preparing them failed.
    fn begins(&mut self, _phase: &str) {}

    /// The phase's programs run, with these process ids; those on other hosts are not among them.
    fn clients(&mut self, _phase: &str, _pids: &[u32]) {}

    /// Every second of a phase: `t` is in seconds since the origin given to [`crate::run`].
    fn sample(&mut self, _sample: &Sample) {}

    /// The phase's programs have ended, well or not.
    fn ends(&mut self, _phase: &str) {}

    /// A step outside of phases begins, for progress (`filling the images`).
    fn step(&mut self, _what: &str) {}
}

/// An observer that wants to know nothing.
impl Observer for () {}

/// What a load gave.
#[derive(Debug)]
pub struct Ran {
    /// One for each phase that ran to its end, in order.
    pub phases: Vec<PhaseResult>,
    /// What ended the load early.
    pub failure: Option<Error>,
}

/// A phase that ran to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseResult {
    pub phase: Phase,
    /// Its name in the time line: the phase's, or PHASE.NUMBER-dDEPTH and PHASE.NUMBER-rRATE of a ladder's step.
    pub label: String,
    /// What it was on a ladder.
    pub step: Option<Step>,
    /// As the load itself says, that of the longest instance.
    pub seconds: f64,
    /// Operations completed over all instances.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Over all instances.
    pub latency: Latency,
    /// One for each whole second, over all instances.
    pub samples: Vec<Sample>,
    /// Each instance on its own, in the order of the pools.
    pub instances: Vec<Instance>,
    /// CPU of the client programs, on whatever host.
    pub clients: Clients,
    /// From the first instance's start to the last one's; of hosts, as they are heard of here.
    pub start_skew_s: f64,
}

/// CPU seconds of the phase's programs and of the children they waited for, from start to end, exact to the kernel's
/// clock tick for each. A watcher can't tell that: it sees a program last up to a second before its end.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Clients {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
}

/// An instance's own figures.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Instance {
    /// Its pool; empty for a command.
    pub pool: String,
    /// As it says.
    pub seconds: f64,
    /// Completed.
    pub operations: u64,
    /// Moved.
    pub bytes: u64,
    /// As it says; the deviation where it tells.
    pub latency: Latency,
    /// Smallest latency in microseconds.
    pub min_us: f64,
    /// Standard deviation of latency in microseconds.
    pub stddev_us: Option<f64>,
}

impl PhaseResult {
    /// All instances together. None if nothing was done.
    pub(crate) fn of(phase: Phase, instances: Vec<Instance>) -> Option<Self> {
        let operations: u64 = instances.iter().map(|i| i.operations).sum();
        let seconds = instances.iter().map(|i| i.seconds).fold(0.0, f64::max);
        if operations == 0 || seconds <= 0.0 {
            return None;
        }
        let sum: f64 = instances.iter().map(|i| i.latency.mean_us * i.operations as f64).sum();
        let histograms = instances.iter().map(|i| i.latency.histogram.as_ref());
        Some(Self {
            phase,
            label: phase.name().to_owned(),
            step: None,
            seconds,
            operations,
            bytes: instances.iter().map(|i| i.bytes).sum(),
            latency: Latency {
                mean_us: sum / operations as f64,
                max_us: instances.iter().map(|i| i.latency.max_us).fold(0.0, f64::max),
                // One instance without a histogram leaves the merged one incomplete: then there is none.
                histogram: histograms
                    .collect::<Option<Vec<_>>>()
                    .filter(|all| !all.is_empty())
                    .map(|all| crate::fio::histogram::merged(&all)),
            },
            samples: Vec::new(),
            instances,
            clients: Clients::default(),
            start_skew_s: 0.0,
        })
    }

    /// Operations a second.
    #[must_use]
    pub fn ops_per_s(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// The load's part of a record. Of `cpu` it has the `client` process alone; steadiness, devices and the servers'
    /// CPU are for others to fill in.
    #[must_use]
    pub fn measurement(&self) -> Measurement {
        let mut measurement = Measurement {
            phase: self.phase.name().to_owned(),
            step: self.step.clone(),
            seconds: self.seconds,
            operations: self.operations,
            bytes: self.bytes,
            ops_per_s: self.ops_per_s(),
            bytes_per_s: self.bytes as f64 / self.seconds,
            latency: self.latency.clone(),
            start_skew_s: self.start_skew_s,
            ..Measurement::default()
        };
        let Clients { user_s, system_s } = self.clients;
        let client = Process { user_s, system_s, ..Process::default() };
        measurement.cpu.by_process.insert("client".to_owned(), client);
        measurement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(seconds: f64, operations: u64, mean_us: f64) -> Instance {
        let latency = Latency { mean_us, max_us: mean_us * 10.0, histogram: None };
        Instance { seconds, operations, bytes: operations * 4096, latency, ..Instance::default() }
    }

    #[test]
    fn instances_count_together_over_the_longest_ones_time() {
        let all = PhaseResult::of(Phase::Write, vec![instance(9.0, 300, 100.0), instance(10.0, 100, 500.0)]);
        let m = all.unwrap().measurement();
        assert_eq!((m.seconds, m.operations, m.ops_per_s), (10.0, 400, 40.0));
        assert_eq!((m.latency.mean_us, m.latency.max_us), (200.0, 5000.0));
        assert_eq!((m.phase.as_str(), m.bytes_per_s), ("write", 40.0 * 4096.0));
    }

    #[test]
    fn a_phase_without_an_operation_is_no_result() {
        assert_eq!(PhaseResult::of(Phase::Read, vec![instance(3.0, 0, 0.0)]), None);
        assert_eq!(PhaseResult::of(Phase::Read, Vec::new()), None);
    }
}
