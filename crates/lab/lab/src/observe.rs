//! What is noted while a load runs: the time line, what servers and devices took in each phase, whether throughput was
//! steady.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use labstats::steady::{LEAST, Steadiness, steady};
use results::{Directory, Measurement, Sample};
use testbed::Testbed;
use watch::{PhaseUse, Wanted, Watch};
use workload::{Observer, PhaseResult};

use crate::counting::Counting;
use crate::profiling::Profiler;
use crate::progress::Progress;

/// The observer of one trial's load.
pub(crate) struct Observed<'a> {
    progress: &'a mut Progress,
    origin: Instant,
    watch: Watch,
    /// Samples of the machine.
    watched: Receiver<Sample>,
    /// Samples of the load.
    samples: Vec<Sample>,
    /// What was used in each phase, and in each step of a ladder, by its name in the time line.
    phases: BTreeMap<String, PhaseUse>,
    counting: Counting,
    /// Of a trial that is profiled.
    profiler: Option<Profiler>,
}

impl<'a> Observed<'a> {
    /// Begins to watch the cluster's servers and the devices below it.
    pub fn new(bed: &Testbed, progress: &'a mut Progress) -> Result<Self, String> {
        let origin = Instant::now();
        let (send, watched) = channel();
        let wanted = Wanted {
            processes: bed.processes().into_iter().collect(),
            devices: devices(bed),
            interfaces: interfaces(),
            cycles: counts_cycles(),
            ..Wanted::default()
        };
        // Nobody listens any more once the trial has ended: then the sample is not wanted.
        let sink = Box::new(move |sample| drop(send.send(sample)));
        let watch = Watch::start(wanted, origin, sink).map_err(|e| e.to_string())?;
        let counting = Counting::of(bed);
        let (samples, phases) = (Vec::new(), BTreeMap::new());
        Ok(Self { progress, origin, watch, watched, samples, phases, counting, profiler: None })
    }

    /// Profiles each phase of the trial too; `work` is a directory for what is only needed meanwhile.
    pub fn profile(&mut self, bed: &Testbed, directory: &Directory, id: &str, work: &Path) {
        self.profiler = Some(Profiler {
            directory: directory.clone(),
            id: id.to_owned(),
            work: work.to_owned(),
            processes: bed.processes(),
            devices: devices(bed),
            origin: self.origin,
            running: None,
        });
    }

    /// What the time line counts from.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Writes the time line; gives the phases' measurements, the load's own figures with what was observed.
    pub fn finish(
        self,
        phases: &[PhaseResult],
        (directory, id): (&Directory, &str),
    ) -> Result<Vec<Measurement>, String> {
        let _ = self.watch.stop();
        let mut series = directory.series_writer(id).map_err(|e| e.to_string())?;
        let mut samples = self.samples;
        samples.extend(self.watched.try_iter());
        samples.sort_by(|a, b| a.t.total_cmp(&b.t));
        samples.iter().try_for_each(|sample| series.push(sample)).map_err(|e| e.to_string())?;
        series.finish().map_err(|e| e.to_string())?;
        directory.write_counters(id, self.counting.changed()).map_err(|e| e.to_string())?;
        let changed = self.counting.changed();
        let of = |phase: &PhaseResult| {
            let name = phase.label.as_str();
            let mut measurement = measurement(phase, self.phases.get(name));
            measurement.counters = changed.get(name).map(watch::counters::telling).unwrap_or_default();
            measurement
        };
        Ok(phases.iter().map(of).collect())
    }
}

/// Whether the host counts cycles; found out once.
fn counts_cycles() -> bool {
    static COUNTED: OnceLock<bool> = OnceLock::new();
    *COUNTED.get_or_init(watch::cycles::counted)
}

/// The most interfaces that are watched.
const INTERFACES: usize = 8;

/// The network's interfaces that are not down: clients may be on other hosts, and so may be a running cluster.
fn interfaces() -> Vec<String> {
    let down = |name: &str| {
        let state = std::fs::read_to_string(Path::new("/sys/class/net").join(name).join("operstate"));
        state.is_ok_and(|state| state.trim() == "down")
    };
    let all = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = all.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !down(name));
    // Loopback is what most clusters use.
    names.sort_by_key(|name| (name != "lo", name.clone()));
    names.truncate(INTERFACES);
    names
}

/// The block devices below the OSDs; where there are none, the one below the work directory.
fn devices(bed: &Testbed) -> Vec<String> {
    let own: BTreeSet<String> = bed.devices().values().flatten().cloned().collect();
    match own.is_empty() {
        true => bed.work_device().into_iter().collect(),
        false => own.into_iter().collect(),
    }
}

impl Observer for Observed<'_> {
    fn before(&mut self, phase: &str, drop_caches: bool) -> Result<(), String> {
        self.progress.step(phase);
        match drop_caches {
            true => testbed::drop_caches().map_err(|e| e.to_string()),
            false => Ok(()),
        }
    }

    fn begins(&mut self, phase: &str) {
        if let Some(profiler) = &mut self.profiler {
            profiler.begins();
        }
        self.counting.begins();
        self.watch.begin(phase);
    }

    fn clients(&mut self, _phase: &str, pids: &[u32]) {
        pids.iter().for_each(|pid| self.watch.add("client", *pid));
    }

    fn sample(&mut self, sample: &Sample) {
        if let Some(rate) = sample.values.get("ops_per_s") {
            self.progress.step(&format!("{} {rate:.0}/s", sample.phase));
        }
        self.samples.push(sample.clone());
    }

    fn ends(&mut self, phase: &str) {
        if let Some(used) = self.watch.end() {
            self.phases.insert(phase.to_owned(), used);
        }
        self.counting.ends(phase);
        if let Some(profiler) = &mut self.profiler {
            self.progress.step("reading the profile");
            profiler.ends(phase);
        }
    }

    fn step(&mut self, what: &str) {
        self.progress.step(what);
    }
}

fn measurement(phase: &PhaseResult, used: Option<&PhaseUse>) -> Measurement {
    let mut measurement = phase.measurement();
    if let Some(used) = used {
        // The clients' CPU is the load's own: it waited for them to the end.
        let clients = std::mem::take(&mut measurement.cpu.by_process);
        measurement.cpu = used.cpu(phase.operations);
        measurement.cpu.by_process.extend(clients);
        measurement.devices.clone_from(&used.devices);
        measurement.joules = used.joules;
        if !phase.phase.reads() {
            measurement.device_bytes_per_byte = used.device_bytes_per_byte(phase.bytes);
        }
    }
    let rates: Vec<f64> = phase.samples.iter().filter_map(|s| s.values.get("ops_per_s").copied()).collect();
    match steady(&rates) {
        Steadiness::Steady => measurement.steady = Some(true),
        Steadiness::Unsteady(reason) => {
            measurement.steady = Some(false);
            measurement.unsteady = reason.to_string();
        }
        Steadiness::TooShort { seconds: 0 } => {}
        Steadiness::TooShort { seconds } => {
            measurement.unsteady = format!("too short to tell: {seconds} samples, {LEAST} are needed");
        }
    }
    measurement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(rates: &[f64]) -> PhaseResult {
        let sample = |(t, rate): (usize, &f64)| Sample {
            t: t as f64,
            phase: "write".to_owned(),
            values: [("ops_per_s".to_owned(), *rate)].into(),
        };
        PhaseResult {
            phase: study::Phase::Write,
            label: "write".to_owned(),
            step: None,
            seconds: rates.len() as f64,
            operations: 1000,
            bytes: 4096 * 1000,
            latency: Default::default(),
            samples: rates.iter().enumerate().map(sample).collect(),
            instances: Vec::new(),
            clients: Default::default(),
            start_skew_s: 0.0,
        }
    }

    #[test]
    fn the_cost_of_a_phase_and_what_devices_wrote_stand_in_its_measurement() {
        let process = results::Process { user_s: 0.5, system_s: 0.5, ..Default::default() };
        let device = results::DeviceUse { written: 8192 * 1000, ..Default::default() };
        let used = PhaseUse {
            processes: [("osd.0".to_owned(), process)].into(),
            devices: [("loop0".to_owned(), device)].into(),
            ..Default::default()
        };
        let m = measurement(&phase(&[100.0; 30]), Some(&used));
        assert_eq!((m.cpu.server_us_per_op, m.device_bytes_per_byte, m.steady), (1000.0, 2.0, Some(true)));
        assert!(m.cpu.by_process.contains_key("client") && m.cpu.by_process.contains_key("osd.0"));
    }

    #[test]
    fn a_phase_that_swings_is_marked_and_kept() {
        let swings: Vec<f64> = (0..30).map(|i| if i % 6 < 3 { 120.0 } else { 3000.0 }).collect();
        let m = measurement(&phase(&swings), None);
        assert_eq!((m.steady, m.operations), (Some(false), 1000));
        assert!(!m.unsteady.is_empty());
    }

    #[test]
    fn a_phase_too_short_to_tell_says_so() {
        let m = measurement(&phase(&[100.0; 5]), None);
        assert_eq!((m.steady, m.unsteady.as_str()), (None, "too short to tell: 5 samples, 20 are needed"));
        assert_eq!(measurement(&phase(&[]), None).unsteady, "", "a load without samples");
    }
}
