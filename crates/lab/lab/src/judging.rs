//! From records to judgements: which trials make up a cell, and what `labstats` says of each variant in it.

use std::collections::{BTreeMap, BTreeSet};

use labstats::effect::Trial;
use labstats::judge::{self, Better, Cell, Correction, Criteria, Judged};
use labstats::stop::Planned;
use results::{Record, Status};
use study::{Design, Plan, Rule, Study};

/// What variants are compared within, by their names in the records.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CellName {
    /// The system.
    pub system: String,
    /// The workload.
    pub workload: String,
    /// The phase.
    pub phase: String,
}

/// The trials of a study, by cell: what the first run gave, and what was run to confirm.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// Trials of the plan.
    pub first: BTreeMap<CellName, Vec<Trial>>,
    /// Trials that confirm.
    pub again: BTreeMap<CellName, Vec<Trial>>,
}

/// Sorts the records that ended well into cells; variants are numbered as in `variants`, the default first. The last
/// record of an id counts. A trial whose phase was not steady counts too: it is marked in the report, never dropped.
pub fn samples(records: &[Record], variants: &[String]) -> Samples {
    let last: BTreeMap<&str, &Record> = records.iter().map(|r| (r.id.as_str(), r)).collect();
    let mut samples = Samples::default();
    for record in last.into_values().filter(|r| r.outcome.status == Status::Ok && !r.profiled) {
        let Some(variant) = variants.iter().position(|v| *v == record.parameters.variant) else { continue };
        let into = if record.confirms { &mut samples.again } else { &mut samples.first };
        for measurement in &record.measurements {
            // A step on the way up a ladder is no sample.
            let Some(phase) = measurement.sample_of() else { continue };
            let name = CellName {
                system: record.parameters.system.clone(),
                workload: record.parameters.workload.clone(),
                phase,
            };
            let trial = Trial { block: record.block, variant, value: measurement.ops_per_s };
            into.entry(name).or_default().push(trial);
        }
    }
    samples
}

/// The cells of a plan with their trials so far: also those of which none has ended well.
pub(crate) fn planned(study: &Study, plan: &Plan, mut samples: Samples) -> Vec<Planned> {
    let mut cells: BTreeMap<CellName, BTreeSet<usize>> = BTreeMap::new();
    for cell in plan.counts().into_keys() {
        let (Some(system), Some(workload)) =
            (study.systems.get(cell.system), study.workloads.get(cell.workload))
        else {
            continue;
        };
        for phase in workload.sampled_phases() {
            let (system, workload) = (system.name.clone(), workload.name.clone());
            let name = CellName { system, workload, phase };
            cells.entry(name).or_default().extend((cell.variant > 0).then_some(cell.variant));
        }
    }
    let of = |(name, variants)| Planned { trials: samples.first.remove(&name).unwrap_or_default(), variants };
    cells.into_iter().map(of).collect()
}

/// The judgements of all cells, in the order of their names. Colours of entries that were run once more are those that
/// stood.
pub fn judge(samples: &Samples, design: &Design) -> Vec<(CellName, Judged)> {
    let mut judged = judge_first(samples, design);
    for (name, judged) in &mut judged {
        let Some(again) = samples.again.get(name) else { continue };
        let confirmed: BTreeSet<usize> = again.iter().map(|t| t.variant).collect();
        for entry in judged.entries.iter_mut().filter(|e| confirmed.contains(&e.variant)) {
            entry.colour = judge::confirm(entry, again, design.confidence);
        }
    }
    judged
}

/// The judgements before anything was run once more: what has to be is told from them alone, however often the run was
/// stopped in between.
pub fn judge_first(samples: &Samples, design: &Design) -> Vec<(CellName, Judged)> {
    let cells: Vec<Cell> =
        samples.first.values().map(|t| Cell { better: Better::Higher, trials: t.clone() }).collect();
    samples.first.keys().cloned().zip(judge::judge(&cells, &criteria(design))).collect()
}

/// What a study asks of its judgements. Under the article's rule, whose colours need nothing of it, as for Holm's.
pub(crate) fn criteria(design: &Design) -> Criteria {
    let correction = match design.rule {
        Rule::Adjusted(study::Correction::FalseDiscovery) => Correction::FalseDiscovery,
        _ => Correction::Holm,
    };
    Criteria { correction, confidence: design.confidence, effect: design.effect, seed: design.seed }
}

/// The cells whose colours have to be confirmed, as places in the study's lists.
pub fn flagged(study: &Study, judged: &[(CellName, Judged)]) -> Vec<study::Cell> {
    let system = |name: &str| study.systems.iter().position(|s| s.name == name);
    let workload = |name: &str| study.workloads.iter().position(|w| w.name == name);
    let mut cells = BTreeSet::new();
    for (name, judged) in judged {
        let (Some(system), Some(workload)) = (system(&name.system), workload(&name.workload)) else {
            continue;
        };
        let told = judged.entries.iter().filter(|e| e.colour.tells_apart());
        cells.extend(told.map(|e| study::Cell { system, workload, variant: e.variant }));
    }
    cells.into_iter().collect()
}
