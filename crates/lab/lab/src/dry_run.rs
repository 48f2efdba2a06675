//! Every trial with its ceph.conf: printed by `--dry-run`, kept in a run's plan.json.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use study::Cell;
use testbed::{Site, Wanted};

use crate::error::LabError;
use crate::output;
use crate::prepare::{Prepared, What};

/// What plan.json holds.
#[derive(Serialize, Deserialize)]
struct PlanFile {
    left_out: Vec<LeftOut>,
    /// Each as [`Planned`] has it, or as an earlier command kept it.
    trials: Vec<serde_json::Value>,
}

impl PlanFile {
    /// Takes over what is not planned again, before what is.
    fn keep(&mut self, kept: Self) {
        let systems: BTreeSet<&str> = self.trials.iter().filter_map(|t| t["system"].as_str()).collect();
        let of_others = kept.left_out.into_iter().filter(|left| !systems.contains(left.system.as_str()));
        for left in of_others {
            if !self.left_out.contains(&left) {
                self.left_out.push(left);
            }
        }
        let mine: BTreeSet<&str> = self.trials.iter().filter_map(|t| t["id"].as_str()).collect();
        let is_mine = |trial: &serde_json::Value| trial["id"].as_str().is_some_and(|id| mine.contains(id));
        let earlier: Vec<_> = kept.trials.into_iter().filter(|trial| !is_mine(trial)).collect();
        self.trials.splice(0..0, earlier);
    }
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

/// A results directory's plan as it was kept.
fn kept(directory: &results::Directory) -> Result<PlanFile, results::Error> {
    let damaged = |source: serde_json::Error| {
        let (path, line) = (directory.path().join("plan.json"), source.line() as u64);
        results::Error::Damaged { path, line, source }
    };
    serde_json::from_slice(&directory.plan()?).map_err(damaged)
}

/// What a kept plan left out.
///
/// # Errors
/// [`results::Error::Damaged`]: a report without it would call trials missing that were never planned.
pub(crate) fn left_out(directory: &results::Directory) -> Result<Vec<LeftOut>, results::Error> {
    Ok(kept(directory)?.left_out)
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

/// The plan as it is kept with the results. What an earlier command planned of this study, of other systems, workloads or
/// blocks, stays in it.
pub(crate) fn plan_json(
    prepared: &Prepared,
    site: &Site,
    earlier: Option<&results::Directory>,
) -> Result<Vec<u8>, LabError> {
    let left_out = prepared.cells.iter().map(|((system, what), why)| LeftOut {
        system: system.clone(),
        what: what.clone(),
        why: why.clone(),
    });
    let encode = |e: serde_json::Error| LabError::Nothing(e.to_string());
    let trials = planned(prepared, site).iter().map(serde_json::to_value).collect::<Result<_, _>>();
    let mut plan = PlanFile { left_out: left_out.collect(), trials: trials.map_err(encode)? };
    if let Some(directory) = earlier {
        plan.keep(kept(directory)?);
    }
    serde_json::to_vec_pretty(&plan).map_err(encode)
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
        assert_eq!(serde_json::from_slice::<PlanFile>(&text).unwrap().left_out, both);
    }

    #[test]
    fn what_other_commands_planned_stays_in_the_plan() {
        let trial = |id: &'static str, order| Planned {
            order,
            id,
            block: 0,
            system: "b",
            workload: "w",
            variant: "default",
            conf: String::new(),
        };
        let left = |system: &str| LeftOut {
            system: system.into(),
            what: What::Variant("v".into()),
            why: "nothing to tune".into(),
        };
        let earlier = serde_json::json!({
            "left_out": [left("a"), left("b")],
            "trials": [{"id": "b0.a", "order": 0}, {"id": "b0.b", "order": 7}],
        });
        let trials = vec![serde_json::to_value(trial("b0.b", 1)).unwrap()];
        let mut plan = PlanFile { left_out: Vec::new(), trials };
        plan.keep(serde_json::from_value(earlier).unwrap());
        let of = |at: usize| (plan.trials[at]["id"].as_str(), plan.trials[at]["order"].as_u64());
        assert_eq!((of(0), of(1)), ((Some("b0.a"), Some(0)), (Some("b0.b"), Some(1))));
        // Of a system that was planned again, this command knows best.
        assert_eq!(plan.left_out, [left("a")]);
    }
}
