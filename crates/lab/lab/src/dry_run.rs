//! Every trial with its ceph.conf: printed by `--dry-run`, kept in a run's plan.json.

use serde::Serialize;
use study::{Cell, WorkloadKind};
use testbed::{Site, Wanted};

use crate::error::LabError;
use crate::prepare::Prepared;

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

fn conf(prepared: &Prepared, site: &Site, cell: Cell) -> Result<String, LabError> {
    let study = &prepared.study;
    let (system, variant) = (&study.systems[cell.system], &study.variants[cell.variant]);
    let settings = prepared.settings(system, variant);
    let file_system =
        matches!(&study.workloads[cell.workload].kind, WorkloadKind::Command(c) if c.file_system);
    Ok(testbed::ceph_conf(site, &Wanted { system, settings: &settings, file_system })?)
}

fn planned<'a>(prepared: &'a Prepared, site: &Site) -> Result<Vec<Planned<'a>>, LabError> {
    let study = &prepared.study;
    let of = |trial: &'a study::Trial| {
        Ok(Planned {
            order: trial.order,
            id: &trial.id,
            block: trial.block,
            system: &study.systems[trial.cell.system].name,
            workload: &study.workloads[trial.cell.workload].name,
            variant: &study.variants[trial.cell.variant].name,
            conf: conf(prepared, site, trial.cell)?,
        })
    };
    prepared.plan.trials.iter().map(of).collect()
}

/// The plan as it is kept with the results.
pub(crate) fn plan_json(prepared: &Prepared, site: &Site) -> Result<Vec<u8>, LabError> {
    let planned = planned(prepared, site)?;
    serde_json::to_vec_pretty(&planned).map_err(|e| LabError::Nothing(e.to_string()))
}

/// Prints every trial and its ceph.conf.
pub(crate) fn print(prepared: &Prepared, site: &Site) -> Result<(), LabError> {
    for trial in planned(prepared, site)? {
        println!(
            "\n== {} (block {}): {} on {}, {}",
            trial.id, trial.block, trial.workload, trial.system, trial.variant
        );
        print!("{}", trial.conf);
    }
    Ok(())
}
