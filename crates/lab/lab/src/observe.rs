//! What is noted while a load runs: the time line, the servers' cost in each phase, whether throughput was steady.

use std::collections::BTreeMap;
use std::time::Instant;

use labstats::steady::{Steadiness, steady};
use results::{CpuUse, Measurement, Process, Sample, SeriesWriter};
use study::Phase;
use testbed::Testbed;
use workload::{Observer, PhaseResult, phase_name};

use crate::progress::Progress;

/// The observer of one trial's load.
pub(crate) struct Observed<'a> {
    progress: &'a mut Progress,
    series: Option<SeriesWriter>,
    servers: BTreeMap<String, u32>,
    origin: Instant,
    /// The servers' CPU when a phase began.
    at_begin: BTreeMap<String, Process>,
    /// The servers' CPU in each phase that ended.
    cpu: BTreeMap<&'static str, BTreeMap<String, Process>>,
    /// The first thing that went wrong with the time line.
    failed: Option<String>,
}

impl<'a> Observed<'a> {
    pub fn new(bed: &Testbed, series: SeriesWriter, progress: &'a mut Progress) -> Self {
        Self {
            progress,
            series: Some(series),
            servers: bed.processes(),
            origin: Instant::now(),
            at_begin: BTreeMap::new(),
            cpu: BTreeMap::new(),
            failed: None,
        }
    }

    /// What the time line counts from.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// The phases' measurements, the load's own figures with what was observed.
    pub fn finish(mut self, phases: &[PhaseResult]) -> Result<Vec<Measurement>, String> {
        if let Some(series) = self.series.take() {
            series.finish().map_err(|e| e.to_string())?;
        }
        match self.failed {
            Some(words) => Err(words),
            None => Ok(phases.iter().map(|phase| measurement(phase, &self.cpu)).collect()),
        }
    }

    fn cpu_now(&self) -> BTreeMap<String, Process> {
        let read = |(name, pid): (&String, &u32)| Some((name.clone(), process_cpu(*pid)?));
        self.servers.iter().filter_map(read).collect()
    }
}

impl Observer for Observed<'_> {
    fn before(&mut self, phase: Phase, drop_caches: bool) -> Result<(), String> {
        self.progress.step(phase_name(phase));
        match drop_caches {
            true => testbed::drop_caches().map_err(|e| e.to_string()),
            false => Ok(()),
        }
    }

    fn begins(&mut self, _phase: Phase) {
        self.at_begin = self.cpu_now();
    }

    fn sample(&mut self, sample: &Sample) {
        if let Some(rate) = sample.values.get("ops_per_s") {
            self.progress.step(&format!("{} {rate:.0}/s", sample.phase));
        }
        if let Some(Err(error)) = self.series.as_mut().map(|series| series.push(sample)) {
            self.failed.get_or_insert(error.to_string());
        }
    }

    fn ends(&mut self, phase: Phase) {
        let mut used = self.cpu_now();
        for (name, process) in &mut used {
            if let Some(before) = self.at_begin.get(name) {
                process.user_s -= before.user_s;
                process.system_s -= before.system_s;
            }
        }
        self.cpu.insert(phase_name(phase), used);
    }

    fn step(&mut self, what: &str) {
        self.progress.step(what);
    }
}

fn measurement(phase: &PhaseResult, cpu: &BTreeMap<&'static str, BTreeMap<String, Process>>) -> Measurement {
    let mut measurement = phase.measurement();
    if let Some(servers) = cpu.get(phase_name(phase.phase)) {
        add_cost(&mut measurement.cpu, servers, phase.operations);
    }
    let rates: Vec<f64> = phase.samples.iter().filter_map(|s| s.values.get("ops_per_s").copied()).collect();
    match steady(&rates) {
        Steadiness::Steady => measurement.steady = Some(true),
        Steadiness::Unsteady(reason) => {
            measurement.steady = Some(false);
            measurement.unsteady = reason.to_string();
        }
        Steadiness::TooShort { .. } => {}
    }
    measurement
}

/// The servers' CPU, in all and for each operation.
fn add_cost(cpu: &mut CpuUse, servers: &BTreeMap<String, Process>, operations: u64) {
    let seconds: f64 = servers.values().map(|p| p.user_s + p.system_s).sum();
    cpu.by_process.extend(servers.clone());
    if operations > 0 && seconds > 0.0 {
        cpu.server_us_per_op = seconds * 1e6 / operations as f64;
        cpu.ops_per_core_s = operations as f64 / seconds;
    }
}

/// CPU seconds of a process so far; nothing if it is gone.
fn process_cpu(pid: u32) -> Option<Process> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (user_s, system_s) = stat_cpu(&text)?;
    Some(Process { user_s, system_s, ..Process::default() })
}

/// User and system seconds of a /proc/PID/stat. Clock ticks are 10 ms on every Linux that Ceph runs on (USER_HZ).
fn stat_cpu(text: &str) -> Option<(f64, f64)> {
    // The name stands in parentheses and may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| Some(fields.get(at)?.parse::<u64>().ok()? as f64 / 100.0);
    Some((ticks(11)?, ticks(12)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_of_a_process_with_an_odd_name_is_read() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 250 75 0 0 20 0 1 0 5 1 1";
        assert_eq!(stat_cpu(text), Some((2.5, 0.75)));
        assert_eq!(stat_cpu("nonsense"), None);
    }

    #[test]
    fn the_cost_is_that_of_all_servers() {
        let process = |s| Process { user_s: s, ..Process::default() };
        let servers = [("osd.0".to_owned(), process(1.0)), ("mon.a".to_owned(), process(1.0))].into();
        let mut cpu = CpuUse::default();
        add_cost(&mut cpu, &servers, 1000);
        assert_eq!((cpu.server_us_per_op, cpu.ops_per_core_s), (2000.0, 500.0));
    }
}
