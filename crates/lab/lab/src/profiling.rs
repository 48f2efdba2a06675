//! A profiled trial: stacks of the servers and requests of their devices, phase by phase. What can't be had is said in
//! its place; it never fails a trial.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use results::{Directory, PhaseProfile, Requests, Stacks};
use study::{Profiled, Study};
use watch::events::Tracing;
use watch::profile::Profiling;

/// Sentences before the start, on what this host does not have; none where nothing is to be profiled.
pub(crate) fn notes(study: &Study) -> Vec<String> {
    if study.design.profile == Profiled::No {
        return Vec::new();
    }
    let perf = watch::profile::available().err().map(|e| format!("no flame graphs here: {e}"));
    let events = watch::events::available().err().map(|e| format!("no seek plots here: {e}"));
    perf.into_iter().chain(events).collect()
}

/// Profiles the phases of a trial.
pub(crate) struct Profiler {
    pub directory: Directory,
    /// The trial's.
    pub id: String,
    /// Where perf may write while it runs.
    pub work: PathBuf,
    /// The servers.
    pub processes: BTreeMap<String, u32>,
    /// Below the stores.
    pub devices: Vec<String>,
    /// The zero of the trial's time.
    pub origin: Instant,
    /// What goes on.
    pub running: Option<Running>,
}

/// Either is a sentence where it can't be had.
pub(crate) struct Running {
    stacks: Result<Profiling, String>,
    requests: Result<Tracing, String>,
}

impl Profiler {
    pub fn begins(&mut self) {
        let stacks = if self.processes.is_empty() {
            Err("which processes belong to the cluster is not known".to_owned())
        } else {
            Profiling::start(&self.processes, &self.work.join("perf.data")).map_err(|e| e.to_string())
        };
        let requests = if self.devices.is_empty() {
            Err("no device is below the stores".to_owned())
        } else {
            Tracing::start(&self.devices, self.origin).map_err(|e| e.to_string())
        };
        self.running = Some(Running { stacks, requests });
    }

    pub fn ends(&mut self, phase: &str) {
        let Some(Running { stacks, requests }) = self.running.take() else { return };
        let requests = match requests {
            Ok(tracing) => tracing.end(),
            Err(note) => self.devices.iter().map(|device| without(device, &note)).collect(),
        };
        let stacks = stacks.and_then(|profiling| profiling.end().map_err(|e| e.to_string()));
        let stacks = stacks.unwrap_or_else(|note| Stacks { note, ..Stacks::default() });
        let profile = PhaseProfile { phase: phase.to_owned(), stacks: Some(stacks), requests };
        if let Err(error) = self.directory.write_profile(&self.id, &profile) {
            eprintln!("the profile of {} is not kept: {error}", self.id);
        }
    }
}

fn without(device: &str, note: &str) -> Requests {
    Requests { device: device.to_owned(), note: note.to_owned(), one_of: 1, ..Requests::default() }
}
