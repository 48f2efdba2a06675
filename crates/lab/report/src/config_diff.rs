//! What two studies mean by the same name. Rows of two runs are matched by names alone, so what a name stands for is
//! held against each other, and what differs is told. Versions of programs may differ: that is what is compared.

use std::collections::{BTreeMap, BTreeSet};

use study::{
    BenchLoad, Clients, CommandLoad, FioLoad, Ladder, Place, RadosBench, Setting, Study, System, Target,
    Variant, Workload, WorkloadKind,
};
use text::format_bytes_exact;

/// What differs behind the names that two studies share.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConfigDiff {
    pub systems: BTreeMap<String, Vec<Difference>>,
    pub workloads: BTreeMap<String, Vec<Difference>>,
    pub variants: BTreeMap<String, Vec<Difference>>,
}

/// Something that is not the same in both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// What: `osds`, `osd/osd_op_threads`.
    pub what: String,
    /// A's.
    pub a: String,
    /// B's.
    pub b: String,
}

/// Shown for something that only one of two has.
const NOT_SET: &str = "not set";

/// What a definition says, by key.
type Facts = BTreeMap<String, String>;

impl ConfigDiff {
    /// Of two studies. Names that only one of them has are left out: their rows have one side.
    pub fn of(a: &Study, b: &Study) -> Self {
        Self {
            systems: shared(a.systems.iter().map(|s| (&s.name, system(a, s))), |name| {
                b.systems.iter().find(|s| s.name == name).map(|s| system(b, s))
            }),
            workloads: shared(a.workloads.iter().map(|w| (&w.name, workload(w))), |name| {
                b.workloads.iter().find(|w| w.name == name).map(workload)
            }),
            variants: shared(a.variants.iter().map(|v| (&v.name, variant(v))), |name| {
                b.variants.iter().find(|v| v.name == name).map(variant)
            }),
        }
    }
}

fn shared<'a>(
    of_a: impl Iterator<Item = (&'a String, Facts)>,
    of_b: impl Fn(&str) -> Option<Facts>,
) -> BTreeMap<String, Vec<Difference>> {
    let both = of_a.filter_map(|(name, a)| Some((name.clone(), differences(&a, &of_b(name)?))));
    both.filter(|(_, found)| !found.is_empty()).collect()
}

fn differences(a: &Facts, b: &Facts) -> Vec<Difference> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let value = |facts: &Facts, key: &String| facts.get(key).cloned().unwrap_or_else(|| NOT_SET.to_owned());
    let each =
        keys.into_iter().map(|key| Difference { what: key.clone(), a: value(a, key), b: value(b, key) });
    each.filter(|d| d.a != d.b).collect()
}

fn facts<const N: usize>(pairs: [(&str, String); N]) -> Facts {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

// What follows takes every structure apart by its fields: a new one can't be forgotten.

fn system(study: &Study, system: &System) -> Facts {
    let System { name: _, target, osds, pool_size, cores, listen, place, journal, settings, line: _ } =
        system;
    let mut all = facts([
        ("program", program(target)),
        ("osds", osds.to_string()),
        ("pool_size", pool_size.to_string()),
        ("cores", cores.map_or_else(|| "all".to_owned(), |n| n.to_string())),
        ("listen", listen.to_string()),
        ("place", place.to_string()),
        ("journal", journal.as_ref().map_or_else(|| "with the data".to_owned(), Place::to_string)),
    ]);
    // The study's default is a part of every system that the lab configures.
    all.extend(option_facts(&study::merged(study.default.iter().chain(settings))));
    all
}

fn program(target: &Target) -> String {
    let store = target.store();
    match target {
        Target::Loligo { .. } => format!("loligo, {store}"),
        Target::Ceph { release, .. } => format!("ceph {release}, {store}"),
        Target::Running { conf } => format!("running, {}", conf.display()),
        Target::Nfs { .. } => format!("nfs, {store}"),
    }
}

/// Options by section and name, however their names are spelled.
fn option_facts(settings: &[Setting]) -> Facts {
    let key = |s: &Setting| format!("{}/{}", s.section, options::normalize(&s.name));
    settings.iter().map(|s| (key(s), s.value.clone())).collect()
}

fn variant(variant: &Variant) -> Facts {
    option_facts(&variant.settings)
}

fn workload(workload: &Workload) -> Facts {
    let load = ("load", workload.load().to_owned());
    let mut all = match &workload.kind {
        WorkloadKind::RadosBench(bench) => {
            let RadosBench { clients, object_size, in_flight, ladder, seconds, phases: _, drop_caches } =
                bench;
            let mut all = facts([
                load,
                ("object_size", format_bytes_exact(*object_size)),
                ("in_flight", in_flight.to_string()),
                ("ladder", ladder_words(ladder.as_ref())),
                ("seconds", seconds.to_string()),
                ("drop_caches", yes(*drop_caches)),
            ]);
            all.extend(client_facts(clients));
            all
        }
        WorkloadKind::Fio(fio) => {
            let FioLoad {
                clients,
                engine: _,
                block_size,
                size,
                in_flight,
                ladder,
                seconds,
                phases: _,
                rate,
                prefill,
                drop_caches,
            } = fio;
            let mut all = facts([
                load,
                ("block_size", format_bytes_exact(*block_size)),
                ("size", format_bytes_exact(*size)),
                ("in_flight", in_flight.to_string()),
                ("ladder", ladder_words(ladder.as_ref())),
                ("seconds", seconds.to_string()),
                ("rate", rate.map_or_else(|| NOT_SET.to_owned(), |rate| rate.to_string())),
                ("prefill", yes(*prefill)),
                ("drop_caches", yes(*drop_caches)),
            ]);
            all.extend(client_facts(clients));
            all
        }
        WorkloadKind::LoligoBench(bench) => {
            let BenchLoad {
                clients,
                block_size,
                size,
                in_flight,
                ladder,
                seconds,
                phases: _,
                reads_percent,
                rate,
                drop_caches,
            } = bench;
            let mut all = facts([
                load,
                ("block_size", format_bytes_exact(*block_size)),
                ("size", format_bytes_exact(*size)),
                ("in_flight", in_flight.to_string()),
                ("ladder", ladder_words(ladder.as_ref())),
                ("seconds", seconds.to_string()),
                ("reads", reads_percent.map_or_else(|| NOT_SET.to_owned(), |reads| reads.to_string())),
                ("rate", rate.map_or_else(|| NOT_SET.to_owned(), |rate| rate.to_string())),
                ("drop_caches", yes(*drop_caches)),
            ]);
            all.extend(client_facts(clients));
            all
        }
        WorkloadKind::Command(command) => {
            // How long it is expected to take changes no trial, and a program's package is where it comes from.
            let CommandLoad { prepare, run, cleanup, needs: _, file_system, timeout, expected: _ } = command;
            let text = |shell: &Option<String>| shell.clone().unwrap_or_else(|| NOT_SET.to_owned());
            facts([
                load,
                ("prepare", text(prepare)),
                ("run", run.clone()),
                ("cleanup", text(cleanup)),
                ("file_system", yes(*file_system)),
                ("timeout", timeout.to_string()),
            ])
        }
    };
    // A phase works on what those before it left.
    let phases: Vec<&str> = workload.phases().iter().map(|phase| phase.name()).collect();
    all.insert("phases".to_owned(), phases.join(", "));
    all
}

fn client_facts(clients: &Clients) -> Facts {
    let Clients { instances, hosts, pg_num } = clients;
    let hosts = if hosts.is_empty() { "this machine".to_owned() } else { hosts.join(" ") };
    facts([("instances", instances.to_string()), ("hosts", hosts), ("pg_num", pg_num.to_string())])
}

fn ladder_words(ladder: Option<&Ladder>) -> String {
    let Some(Ladder { first_depth, last_depth, gain, rates, target }) = ladder else {
        return "none".to_owned();
    };
    let rates: Vec<String> = rates.iter().map(f64::to_string).collect();
    let target =
        target.map_or_else(String::new, |t| format!(", p{} within {} us", t.percentile, t.latency_us));
    format!("depths {first_depth} to {last_depth}, gain {gain}, rates [{}]{target}", rates.join(", "))
}

fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
#[path = "config_diff/tests.rs"]
mod tests;
