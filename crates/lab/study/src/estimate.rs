//! How long trials will take. Said before the start; nothing depends on it but the user's patience and the budget.

use crate::model::{Ladder, Study, System, WorkloadKind};
use crate::plan::Trial;

/// Bytes a second that all clients together are taken to write when a load fills its images or objects first: a plain
/// disk's order of magnitude, until a trial has been measured.
const PREFILL: f64 = 100e6;

/// Seconds of a trial. `overhead` gives those of a system that are not the load's: making devices and file systems,
/// starting, pools, clean-up.
pub fn trial_seconds(study: &Study, trial: &Trial, overhead: &dyn Fn(&System) -> f64) -> f64 {
    let system = study.systems.get(trial.cell.system).map_or(0.0, overhead);
    let load = study.workloads.get(trial.cell.workload).map_or(0.0, |w| load_seconds(&w.kind));
    system + load
}

/// Seconds of some trials in all.
pub fn plan_seconds(study: &Study, trials: &[Trial], overhead: &dyn Fn(&System) -> f64) -> f64 {
    trials.iter().map(|trial| trial_seconds(study, trial, overhead)).sum()
}

/// Seconds of a load: its phases, what it writes before them, or what a command is expected to take.
fn load_seconds(kind: &WorkloadKind) -> f64 {
    match kind {
        WorkloadKind::RadosBench(bench) => {
            f64::from(bench.seconds) * bench.phases.len() as f64 * steps(bench.ladder.as_ref())
        }
        WorkloadKind::Fio(fio) => {
            let written = fio.size as f64 * f64::from(fio.clients.total());
            let prefill = if fio.prefill { written / PREFILL } else { 0.0 };
            prefill + f64::from(fio.seconds) * fio.phases.len() as f64 * steps(fio.ladder.as_ref())
        }
        WorkloadKind::LoligoBench(bench) => {
            let written = bench.size as f64 * f64::from(bench.clients.total());
            let steps = bench.phases.len() as f64 * steps(bench.ladder.as_ref());
            written / PREFILL + f64::from(bench.seconds) * steps
        }
        WorkloadKind::Command(command) => f64::from(command.expected),
    }
}

/// Runs that the search for the highest rate takes: halvings to within a twentieth, and rates that are tried again.
const SEARCH: f64 = 7.0;

/// Measurements in a phase: most, where a ladder ends by what it finds.
fn steps(ladder: Option<&Ladder>) -> f64 {
    let Some(ladder) = ladder else { return 1.0 };
    let doublings = (f64::from(ladder.last_depth) / f64::from(ladder.first_depth.max(1))).log2().floor();
    1.0 + doublings.max(0.0) + ladder.rates.len() as f64 + ladder.target.map_or(0.0, |_| SEARCH)
}
