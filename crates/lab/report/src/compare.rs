//! A against B: two systems of a run, or two runs.
//!
//! Each row is a cell of its own with A as the default; all rows are one family. Systems of one run
//! share blocks. Two runs don't: each is one block-less sample, so what drifted between the runs is in the ratio.

use std::collections::{BTreeMap, BTreeSet};

use labstats::effect::Trial;
use labstats::judge::{Better, Cell, Criteria, Judged, judge};
use results::{Record, RunInfo};

use crate::config_diff::{ConfigDiff, Difference};
use crate::from_labstats::zeros_words;
use crate::gather::{Spread, Trials, spread, value};
use crate::input::{Colour, DEFAULT, JudgedVariant, Outline};
use crate::quantity::Quantity;

/// A table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Comparison {
    /// A's name.
    pub a: String,
    /// B's name.
    pub b: String,
    /// What differs behind the names of rows that are marked: said before them.
    pub config_diff: Vec<String>,
    pub rows: Vec<Row>,
    /// What must be known: other machines, another study, what can't be compared.
    pub notes: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// What is compared: system (of two runs), workload, phase, variant.
    pub what: String,
    /// Whether the name means different things in A and B.
    pub other_setup: bool,
    /// A's value of the quantity that is compared.
    pub a: Option<Spread>,
    /// B's.
    pub b: Option<Spread>,
    /// B over A.
    pub judged: JudgedVariant,
}

/// Every two systems of a run by a quantity, each with the default; all rows of all tables are one family. Besides, the
/// pairs that can't be compared: one is modelled and the other isn't, or they share no load of which it is known.
pub fn systems(
    outline: &Outline,
    trials: &Trials,
    quantity: Quantity,
    criteria: &Criteria,
) -> (Vec<Comparison>, Vec<(String, String)>) {
    let (mut tables, mut refused, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for (i, a) in outline.systems.iter().enumerate() {
        for b in outline.systems.iter().skip(i + 1) {
            let found = shared_loads(outline, trials, quantity, (a, b));
            if found.is_empty() {
                refused.push((a.clone(), b.clone()));
            } else {
                tables
                    .push((Comparison { a: a.clone(), b: b.clone(), ..Comparison::default() }, found.len()));
                pairs.extend(found);
            }
        }
    }
    let mut rows = rows(pairs, better(quantity), Common::Blocks, criteria).into_iter();
    let filled =
        tables.into_iter().map(|(table, n)| Comparison { rows: rows.by_ref().take(n).collect(), ..table });
    (filled.collect(), refused)
}

/// The loads that both systems have trials of; none where modelled devices would meet real ones.
fn shared_loads(outline: &Outline, trials: &Trials, quantity: Quantity, (a, b): (&str, &str)) -> Vec<Pair> {
    let mut modelled = BTreeSet::new();
    let mut pairs = Vec::new();
    for (workload, phase) in outline.loads() {
        let mut values = |system: &str| -> Vec<(u32, f64)> {
            let found = trials.planned((system, workload, phase), DEFAULT);
            found
                .map(|(r, m)| {
                    modelled.insert(r.parameters.modelled);
                    (r.block, value(m, quantity))
                })
                // No cost is shown of a cluster whose servers run elsewhere.
                .filter(|(_, value)| quantity == Quantity::Ops || *value > 0.0)
                .collect()
        };
        let (a, b) = (values(a), values(b));
        if !a.is_empty() && !b.is_empty() {
            pairs.push((format!("{workload}, {phase}"), a, b));
        }
    }
    if modelled.len() > 1 { Vec::new() } else { pairs }
}

/// Two runs: every system, workload, phase and variant that either has. `config_diff`: what differs between their studies.
pub fn runs(
    a: (&str, &RunInfo, &[Record]),
    b: (&str, &RunInfo, &[Record]),
    config_diff: &ConfigDiff,
    criteria: &Criteria,
) -> Comparison {
    let mut notes = differences(a.1, b.1);
    let (of_a, of_b) = (values(a.2), values(b.2));
    let keys: BTreeSet<&Key> = of_a.keys().chain(of_b.keys()).collect();
    let (mut pairs, mut marked) = (Vec::new(), Vec::new());
    for &key in &keys {
        let what = format!("{}: {}, {}, {}", key.system, key.workload, key.phase, key.variant);
        match (of_a.get(key), of_b.get(key)) {
            (Some((_, m, _)), Some((_, n, _))) if m != n => {
                notes.push(format!("{what}: modelled devices in one run only; not compared"));
            }
            (x, y) => {
                let values = |side: Option<&Side>| side.map(|s| s.0.clone()).unwrap_or_default();
                if let (Some(x), Some(y)) = (x, y) {
                    if x.2 != y.2 {
                        notes.push(format!("{what}: other versions: {} and {}", x.2, y.2));
                    }
                }
                let zeros = [x, y].into_iter().flatten().flat_map(|s| &s.0).filter(|v| v.1 <= 0.0).count();
                if zeros > 0 {
                    notes.push(format!("{what}: {}", zeros_words(zeros)));
                }
                marked.push(x.is_some() && y.is_some() && key.differs(config_diff));
                pairs.push((what, values(x), values(y)));
            }
        }
    }
    let both: Vec<&Key> = keys.into_iter().filter(|k| of_a.contains_key(k) && of_b.contains_key(k)).collect();
    let mut rows = rows(pairs, Better::Higher, Common::Nothing, criteria);
    for (row, marked) in rows.iter_mut().zip(marked) {
        row.other_setup = marked;
    }
    Comparison { a: a.0.into(), b: b.0.into(), config_diff: told(config_diff, &both), rows, notes }
}

/// What differs behind the names of these rows, a line each.
fn told(config_diff: &ConfigDiff, keys: &[&Key]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |kind: &str, found: &BTreeMap<String, Vec<Difference>>, of: fn(&Key) -> &String| {
        for (name, differences) in found.iter().filter(|(name, _)| keys.iter().any(|k| of(k) == *name)) {
            let line = |d: &Difference| format!("{kind} {name}: {}: {} in A, {} in B", d.what, d.a, d.b);
            lines.extend(differences.iter().map(line));
        }
    };
    add("system", &config_diff.systems, |k| &k.system);
    add("workload", &config_diff.workloads, |k| &k.workload);
    add("variant", &config_diff.variants, |k| &k.variant);
    lines
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    system: String,
    workload: String,
    phase: String,
    variant: String,
}

impl Key {
    fn differs(&self, config_diff: &ConfigDiff) -> bool {
        config_diff.systems.contains_key(&self.system)
            || config_diff.workloads.contains_key(&self.workload)
            || config_diff.variants.contains_key(&self.variant)
    }
}

/// Values with their block, whether modelled, the server's version.
type Side = (Vec<(u32, f64)>, bool, String);

fn values(records: &[Record]) -> BTreeMap<Key, Side> {
    let mut all: BTreeMap<Key, Side> = BTreeMap::new();
    for r in records.iter().filter(|r| r.outcome.status == results::Status::Ok && !r.confirms) {
        for m in &r.measurements {
            let Some(phase) = m.sample_of() else { continue };
            let p = &r.parameters;
            let key = Key {
                system: p.system.clone(),
                workload: p.workload.clone(),
                phase,
                variant: p.variant.clone(),
            };
            let side = all.entry(key).or_insert((Vec::new(), p.modelled, r.build.server.clone()));
            side.0.push((r.block, m.ops_per_s));
        }
    }
    all
}

fn differences(a: &RunInfo, b: &RunInfo) -> Vec<String> {
    let mut notes = Vec::new();
    if a.study_hash != b.study_hash {
        notes.push("the two runs are of different study files".to_string());
    }
    let (m, n) = (&a.machine, &b.machine);
    let differ = [
        ("host", m.host == n.host),
        ("kernel", m.kernel == n.kernel),
        ("distribution", m.system == n.system),
        ("processor", m.cpu == n.cpu),
        ("cores", m.cores == n.cores),
        ("memory", m.memory == n.memory),
        ("disk", m.disk == n.disk),
        ("file system", m.file_system == n.file_system),
    ];
    let differ: Vec<&str> = differ.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect();
    if !differ.is_empty() {
        notes.push(format!("the machines differ: {}", differ.join(", ")));
    }
    notes.push(
        "Two runs share no block: a sample is a block's mean, and what changed between the runs beside A and B is in the \
         ratio too."
            .to_string(),
    );
    notes
}

/// A row's name, A's values and B's, each with its block.
type Pair = (String, Vec<(u32, f64)>, Vec<(u32, f64)>);

fn better(quantity: Quantity) -> Better {
    match quantity {
        Quantity::Ops | Quantity::Bytes => Better::Higher,
        _ => Better::Lower,
    }
}

/// What the two sides of a pair have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Common {
    /// Blocks of one run: what drifts meets both alike.
    Blocks,
    /// Nothing: two runs. What drifts between blocks is in each run's spread, so a sample is a block, not a trial.
    Nothing,
}

/// A block's trials as one sample, the geometric mean; a block where one did nothing has none.
fn samples_of_blocks(trials: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    trials.iter().for_each(|&(block, value)| blocks.entry(block).or_default().push(value));
    let mean = |values: Vec<f64>| {
        let logs: f64 = values.iter().map(|v| v.ln()).sum();
        (0, (logs / values.len() as f64).exp())
    };
    blocks.into_values().map(mean).collect()
}

fn rows(pairs: Vec<Pair>, better: Better, common: Common, criteria: &Criteria) -> Vec<Row> {
    let samples = |trials: &[(u32, f64)]| match common {
        Common::Blocks => trials.to_vec(),
        Common::Nothing => samples_of_blocks(trials),
    };
    let cells: Vec<Cell> = pairs
        .iter()
        .map(|(_, a, b)| {
            let trial = |variant| move |(block, value): (u32, f64)| Trial { block, variant, value };
            let (a, b) = (samples(a).into_iter().map(trial(0)), samples(b).into_iter().map(trial(1)));
            Cell { better, trials: a.chain(b).collect() }
        })
        .collect();
    pairs.into_iter().zip(judge(&cells, criteria)).map(|(pair, found)| row(pair, &found)).collect()
}

fn row((what, a, b): Pair, found: &Judged) -> Row {
    let nothing = |values: &[(u32, f64)]| !values.is_empty() && values.iter().all(|v| v.1 <= 0.0);
    let mean = |values: &[(u32, f64)]| match nothing(values) {
        true => Some(Spread { mean: 0.0, interval: None, trials: values.len() }),
        false => spread(values.iter().map(|v| v.1)),
    };
    let mut judged = JudgedVariant {
        name: what.clone(),
        samples: u32::try_from(a.len() + b.len()).unwrap_or(u32::MAX),
        why: found.fit.as_ref().err().map(ToString::to_string).unwrap_or_default(),
        ..JudgedVariant::default()
    };
    match found.entries.first() {
        Some(entry) => crate::from_labstats::adjusted(&mut judged, entry, 0),
        None if a.is_empty() || b.is_empty() => {
            judged.colour = Colour::OneSided;
            judged.why = format!("only in {}", if b.is_empty() { "A" } else { "B" });
        }
        None if nothing(&a) || nothing(&b) => {
            judged.colour = Colour::Zero;
            judged.why = format!("{} did 0 operations a second", if nothing(&a) { "A" } else { "B" });
        }
        None => judged.colour = Colour::TooFew,
    }
    Row { what, other_setup: false, a: mean(&a), b: mean(&b), judged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use labstats::judge::Correction;

    /// Trials of a block are alike, blocks are not: many trials of few blocks tell no more than the blocks.
    #[test]
    fn blocks_that_drift_do_not_make_two_runs_differ() {
        let of = |levels: [f64; 3]| -> Vec<(u32, f64)> {
            let trial = |(block, level): (u32, f64)| {
                (0..6).map(move |i| (block, level * (1.0 + 0.001 * f64::from(i))))
            };
            (0..).zip(levels).flat_map(trial).collect()
        };
        let criteria = Criteria { correction: Correction::Holm, confidence: 0.95, effect: 0.0, seed: 1 };
        let colour = |a, b| {
            let pair = ("x".to_owned(), of(a), of(b));
            rows(vec![pair], Better::Higher, Common::Nothing, &criteria).remove(0).judged.colour
        };
        assert_eq!(colour([100.0, 120.0, 140.0], [120.0, 140.0, 160.0]), Colour::Grey);
        assert_eq!(colour([100.0, 101.0, 102.0], [120.0, 121.0, 122.0]), Colour::Green);
        let samples = samples_of_blocks(&[(0, 4.0), (0, 9.0), (1, 5.0)]);
        assert_eq!(samples.iter().map(|s| (s.0, s.1.round())).collect::<Vec<_>>(), [(0, 6.0), (0, 5.0)]);
    }
}
