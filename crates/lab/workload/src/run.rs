//! Runs a load: its phases one after the other, telling the observer.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use study::{Clients, Phase, WorkloadKind};

use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::hosts::{self, Hosts};
use crate::phase::{Instance, Observer, PhaseResult, Ran};
use crate::supervisor::{Finished, ProcessEvent, Program, run_all};
use crate::timeline::{Merge, Progress};
use crate::{bench, command, fio, rados};

/// Runs a load to its end or to its first failure; phases that ended well before are kept. `origin` is when the trial
/// began: the zero of all samples' `t`.
pub fn run(kind: &WorkloadKind, cluster: &Cluster, origin: Instant, observer: &mut dyn Observer) -> Ran {
    let mut phases = Vec::new();
    let mut runner = PhaseRunner { observer, origin };
    let failure = try_run(kind, cluster, &mut runner, &mut phases).err();
    Ran { phases, failure }
}

fn try_run(
    kind: &WorkloadKind,
    cluster: &Cluster,
    runner: &mut PhaseRunner<'_>,
    phases: &mut Vec<PhaseResult>,
) -> Result<()> {
    fs::create_dir_all(&cluster.work_dir).map_err(|source| Error::Io {
        doing: "making the directory",
        path: cluster.work_dir.clone(),
        source,
    })?;
    match kind {
        WorkloadKind::RadosBench(bench) => {
            rados::run(bench, &with_clients(&bench.clients, cluster, runner)?, runner, phases)
        }
        WorkloadKind::Fio(load) => {
            fio::run(load, &with_clients(&load.clients, cluster, runner)?, runner, phases)
        }
        WorkloadKind::LoligoBench(load) => {
            bench::run(load, &with_clients(&load.clients, cluster, runner)?, runner, phases)
        }
        WorkloadKind::Command(load) => command::run(load, cluster, runner, phases),
    }
}

/// The cluster with the hosts that its clients run on, each prepared.
fn with_clients(clients: &Clients, cluster: &Cluster, runner: &mut PhaseRunner<'_>) -> Result<Cluster> {
    if cluster.pools.len() != clients.total() as usize {
        let what = format!("{} instances need as many pools, not {}", clients.total(), cluster.pools.len());
        return Err(Error::Impossible { what });
    }
    if !clients.hosts.is_empty() {
        runner.observer.step("preparing the client hosts");
    }
    let hosts = Hosts::open(&clients.hosts, clients.instances, cluster)?;
    Ok(Cluster { hosts: Arc::new(hosts), ..cluster.clone() })
}

/// The load's own words on its version: a line.
///
/// # Errors
/// The program can't be started or fails. A command has no version: an empty line.
pub fn client_version(kind: &WorkloadKind, cluster: &Cluster) -> Result<String> {
    if let Some(of_hosts) = hosts::versions(kind, cluster)? {
        return Ok(of_hosts);
    }
    let (mut command, remedy) = match kind {
        WorkloadKind::RadosBench(_) => (cluster.ceph("rados"), "apt-get install ceph-common"),
        WorkloadKind::Fio(_) => (cluster.host("fio"), fio::REMEDY),
        WorkloadKind::LoligoBench(_) => (cluster.host(&bench::program_name()), bench::REMEDY),
        WorkloadKind::Command(_) => return Ok(String::new()),
    };
    command.arg("--version");
    let what = format!("{} --version", command.get_program().to_string_lossy());
    let program = Program::new(what, command, remedy);
    let finished = run_all(vec![program], Duration::from_secs(30), &AtomicBool::new(false), &mut |_| ())?;
    Ok(finished.first().and_then(|f| f.out.lines().next()).unwrap_or_default().to_owned())
}

/// A phase as all kinds of loads have it.
pub(crate) struct Load {
    pub phase: Phase,
    /// Its name in the time line and, as a step of a ladder, unlike any other's of the load.
    pub label: String,
    pub drop_caches: bool,
    /// How long it is to take.
    pub seconds: u32,
}

/// Reads the output of an instance of a load.
pub(crate) trait OutputParser {
    /// Takes a line; gives the progress of a second where the line ends one.
    fn line(&mut self, line: &str) -> Option<Progress>;

    /// The totals, once it has ended well. An error says what is missing or wrong in its output.
    fn result(&self, finished: &Finished) -> std::result::Result<Instance, String>;
}

/// Runs phases: their observer, and the origin of their times.
pub(crate) struct PhaseRunner<'a> {
    pub observer: &'a mut dyn Observer,
    pub origin: Instant,
}

impl PhaseRunner<'_> {
    /// Runs one phase: a program and the parser of its output for each instance.
    pub fn phase<T: OutputParser>(
        &mut self,
        cluster: &Cluster,
        load: &Load,
        programs: Vec<Program>,
        mut parsers: Vec<T>,
    ) -> Result<PhaseResult> {
        let name = load.label.as_str();
        if cluster.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        self.observer
            .before(name, load.drop_caches)
            .map_err(|why| Error::Between { phase: name.to_owned(), why })?;
        let limit = Duration::from_secs(u64::from(load.seconds) + u64::from(cluster.margin));
        let mut merged = Merged::new(name, parsers.len());
        let ran = run_all(programs, limit, &cluster.stop, &mut |event| {
            match event {
                ProcessEvent::Begins => self.observer.begins(name),
                ProcessEvent::Started(pids) => self.observer.clients(name, pids),
                ProcessEvent::Line(index, line, at) => {
                    let t = at.saturating_duration_since(self.origin).as_secs_f64();
                    if let Some(progress) = parsers.get_mut(index).and_then(|parser| parser.line(line)) {
                        merged.add(index, progress, t);
                    }
                }
                ProcessEvent::Ended(index) => merged.merge.end(index),
                ProcessEvent::Failed(index, out, err) => {
                    keep_output(&cluster.work_dir, name, index, [out, err])
                }
            }
            merged.hand_on(self.observer);
        });
        self.observer.ends(name);
        let finished = ran?;
        let kept = keep(&cluster.work_dir, name, &finished)?;
        let result = |((parser, finished), path): ((&T, &Finished), PathBuf)| {
            parser.result(finished).map_err(|why| Error::Output { what: finished.what.clone(), why, path })
        };
        let instances = parsers.iter().zip(&finished).zip(kept).map(result).collect::<Result<Vec<_>>>()?;
        let Some(mut phase) = PhaseResult::of(load.phase, instances) else {
            return Err(Error::Nothing { what: format!("the phase {name}") });
        };
        phase.label.clone_from(&load.label);
        phase.samples = merged.samples;
        phase.start_skew_s = skew(&finished);
        for finished in &finished {
            phase.clients.user_s += finished.cpu.user_s;
            phase.clients.system_s += finished.cpu.system_s;
        }
        Ok(phase)
    }
}

/// From the first program's start to the last one's.
fn skew(finished: &[Finished]) -> f64 {
    let started = || finished.iter().map(|f| f.started);
    let span = started().max().zip(started().min()).map(|(last, first)| last - first);
    span.unwrap_or_default().as_secs_f64()
}

/// The phase's time line as it grows.
struct Merged {
    merge: Merge,
    /// Instances whose start is known.
    started: Vec<bool>,
    samples: Vec<results::Sample>,
}

impl Merged {
    fn new(phase: &str, instances: usize) -> Self {
        Self { merge: Merge::new(phase, instances), started: vec![false; instances], samples: Vec::new() }
    }

    fn add(&mut self, index: usize, progress: Progress, t: f64) {
        if let Some(started) = self.started.get_mut(index).filter(|s| !**s) {
            *started = true;
            self.merge.start(index, t - progress.elapsed);
        }
        self.merge.add(index, progress);
    }

    fn hand_on(&mut self, observer: &mut dyn Observer) {
        while let Some(sample) = self.merge.take() {
            observer.sample(&sample);
            self.samples.push(sample);
        }
    }
}

/// The file with the output of a program of a phase.
fn output_file(work_dir: &Path, phase: &str, index: usize) -> PathBuf {
    work_dir.join(format!("{phase}.{index}.out"))
}

/// Keeps what a program said by the time something failed. What can't be written is only missing from the logs.
pub(crate) fn keep_output(work_dir: &Path, phase: &str, index: usize, output_so_far: [&str; 2]) {
    let _ = fs::write(output_file(work_dir, phase, index), output_so_far.concat());
}

/// Writes what each program said into the work directory, once nothing is measured any more; gives the paths.
fn keep(work_dir: &Path, phase: &str, finished: &[Finished]) -> Result<Vec<PathBuf>> {
    let write = |(index, finished): (usize, &Finished)| {
        let path = output_file(work_dir, phase, index);
        let text = format!("{}{}", finished.out, finished.err);
        fs::write(&path, text).map_err(|source| Error::Io {
            doing: "writing",
            path: path.clone(),
            source,
        })?;
        Ok(path)
    };
    finished.iter().enumerate().map(write).collect()
}
