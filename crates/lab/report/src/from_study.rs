//! From a study file's contents to the outline that the report follows.

use std::collections::BTreeMap;

use study::{NotRun, Study, WorkloadKind};

use crate::input::{Outline, Publication, Variant, Workload};

/// The outline. `not_yet` says by places in the study's lists (system, workload) why a workload can't run there; what is in
/// `not_run` without a reason there gets a plain one.
pub fn outline(study: &Study, not_run: &NotRun, not_yet: &BTreeMap<(usize, usize), String>) -> Outline {
    let system = |s: usize| study.systems.get(s).map(|s| s.name.clone());
    let nothing_to_tune = not_run
        .variants
        .iter()
        .filter_map(|(s, v)| Some((system(*s)?, study.variants.get(*v)?.name.clone())));
    let without_reason =
        not_run.workloads.iter().map(|place| (*place, "this system can't run it".to_string()));
    let mut reasons: BTreeMap<_, _> = without_reason.collect();
    reasons.extend(not_yet.clone());
    let not_yet = reasons
        .into_iter()
        .filter_map(|((s, w), why)| Some(((system(s)?, study.workloads.get(w)?.name.clone()), why)));
    Outline {
        about: study.about.clone(),
        source: study.source.as_ref().map(|s| Publication {
            title: s.title.clone(),
            author: s.author.clone(),
            date: s.date.clone(),
        }),
        changes: study.changes.clone(),
        systems: study.systems.iter().map(|s| s.name.clone()).collect(),
        workloads: study
            .workloads
            .iter()
            .map(|w| Workload { name: w.name.clone(), phases: w.sampled_phases() })
            .collect(),
        targets: study.workloads.iter().filter_map(target).collect(),
        variants: study
            .variants
            .iter()
            .map(|v| Variant { name: v.name.clone(), parameter: v.parameter.clone() })
            .collect(),
        nothing_to_tune: nothing_to_tune.collect(),
        not_yet: not_yet.collect(),
    }
}

fn target(workload: &study::Workload) -> Option<(String, (f64, f64))> {
    let ladder = match &workload.kind {
        WorkloadKind::Fio(fio) => fio.ladder.as_ref(),
        WorkloadKind::LoligoBench(bench) => bench.ladder.as_ref(),
        WorkloadKind::RadosBench(_) | WorkloadKind::Command(_) => None,
    };
    let target = ladder?.target?;
    Some((workload.name.clone(), (target.percentile, target.latency_us)))
}
