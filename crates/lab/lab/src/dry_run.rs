//! Every trial with its ceph.conf: printed by `--dry-run`, kept in a run's plan.json.

use serde::{Deserialize, Serialize};
use study::Cell;
use testbed::{Site, Wanted};

use crate::error::LabError;
use crate::output;
use crate::prepare::{Prepared, What};

/// What plan.json holds.
#[derive(Serialize)]
struct PlanFile<'a> {
    left_out: Vec<LeftOut>,
    trials: Vec<Planned<'a>>,
}

/// A variant or workload that isn't run on a system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    /// The system.
    pub system: String,
    /// The variant or workload.
    #[serde(flatten)]
    pub what: What,
    /// Why.
    pub why: String,
}

#[derive(Deserialize)]
struct KeptPlan {
    left_out: Vec<LeftOut>,
}

/// What a kept plan left out.
///
/// # Errors
/// [`results::Error::Damaged`]: a report without it would call trials missing that were never planned.
pub(crate) fn left_out(directory: &results::Directory) -> Result<Vec<LeftOut>, results::Error> {
    let damaged = |source: serde_json::Error| {
        let (path, line) = (directory.path().join("plan.json"), source.line() as u64);
        results::Error::Damaged { path, line, source }
    };
    Ok(serde_json::from_slice::<KeptPlan>(&directory.plan()?).map_err(damaged)?.left_out)
}

#[derive(Serialize)]
struct Planned<'a> {
    order: u32,
    id: &'a str,
    block: u32,
    system: &'a str,
    workload: &'a str,
    variant: &'a str,
    conf: String,
}

/// A trial's ceph.conf; where this machine could not run it, why not.
fn conf(prepared: &Prepared, site: &Site, cell: Cell) -> String {
    let study = &prepared.study;
    let (system, variant) = (&study.systems[cell.system], &study.variants[cell.variant]);
    let settings = prepared.settings(system, variant);
    let file_system = study.workloads[cell.workload].needs_file_system();
    testbed::ceph_conf(site, &Wanted { system, settings: &settings, file_system })
        .unwrap_or_else(|error| format!("# not here: {error}\n{}", study::ceph_conf_text(&settings)))
}

fn planned<'a>(prepared: &'a Prepared, site: &Site) -> Vec<Planned<'a>> {
    let study = &prepared.study;
    let of = |trial: &'a study::Trial| Planned {
        order: trial.order,
        id: &trial.id,
        block: trial.block,
        system: &study.systems[trial.cell.system].name,
        workload: &study.workloads[trial.cell.workload].name,
        variant: &study.variants[trial.cell.variant].name,
        conf: conf(prepared, site, trial.cell),
    };
    prepared.plan.trials.iter().chain(&prepared.profiles).map(of).collect()
}

/// The plan as it is kept with the results.
pub(crate) fn plan_json(prepared: &Prepared, site: &Site) -> Result<Vec<u8>, LabError> {
    let left_out = prepared.cells.iter().map(|((system, what), why)| LeftOut {
        system: system.clone(),
        what: what.clone(),
        why: why.clone(),
    });
    let plan = PlanFile { left_out: left_out.collect(), trials: planned(prepared, site) };
    serde_json::to_vec_pretty(&plan).map_err(|e| LabError::Nothing(e.to_string()))
}

/// Prints every trial and its ceph.conf.
pub(crate) fn print(prepared: &Prepared, site: &Site) {
    for trial in planned(prepared, site) {
        output::line(format_args!(
            "\n== {} (block {}): {} on {}, {}",
            trial.id, trial.block, trial.workload, trial.system, trial.variant
        ));
        output::write(trial.conf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_and_a_workload_of_one_name_are_told_apart() {
        let of = |what| LeftOut { system: "s".into(), what, why: "w".into() };
        let both = vec![of(What::Variant("bench".into())), of(What::Workload("bench".into()))];
        let text = serde_json::to_vec(&PlanFile { left_out: both.clone(), trials: Vec::new() }).unwrap();
        assert_eq!(serde_json::from_slice::<KeptPlan>(&text).unwrap().left_out, both);
    }
}
