//! The `workloads` of a study file. Lists of sizes, depths and rates make a workload for each combination.

use crate::command;
use crate::fields::{Fields, count, duplicate, named_once, size, text, word};
use crate::ladder;
use crate::model::{BenchLoad, Clients, Engine, FioLoad, Ladder, Phase, RadosBench, Workload, WorkloadKind};
use crate::node::Node;
use crate::problem::{At, Conflict, ProblemKind, Problems};

const KINDS: [&str; 4] = ["rados_bench", "loligo_bench", "fio", "command"];
/// The longest phase: a week.
const SECONDS: std::ops::RangeInclusive<u32> = 1..=604_800;

/// Bytes of an instance of fio or `loligo bench` at most: it writes them all before the first phase.
const FIO_MAX: u64 = 1 << 40;

/// Phases of `rados bench`; it writes new objects only.
const BENCH_PHASES: [(&str, Phase); 3] =
    [("write", Phase::Write), ("read", Phase::Read), ("rand_read", Phase::RandRead)];
/// Phases of fio, and those of `loligo bench`.
const FIO_PHASES: &[(&str, Phase)] = &[
    ("write", Phase::Write),
    ("read", Phase::Read),
    ("rand_write", Phase::RandWrite),
    ("rand_read", Phase::RandRead),
];
const LOLIGO_PHASES: &[(&str, Phase)] = &[
    ("write", Phase::Write),
    ("read", Phase::Read),
    ("rand_write", Phase::RandWrite),
    ("rand_read", Phase::RandRead),
    ("mixed", Phase::Mixed),
];

/// Reads of a hundred operations of a mixed phase, where the study does not say.
const READS_PERCENT: u32 = 50;

/// Reads the list of workloads.
pub(crate) fn read(study: &Fields<'_>, p: &mut Problems) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Vec::new();
    let nodes = study.list("workloads", p).unwrap_or_default();
    named_once(nodes, "workload", p);
    for node in nodes {
        let once = !p.any_at(node.at);
        for workload in one(node, p) {
            if let Some(first) = workloads.iter().find(|w| w.name == workload.name).filter(|_| once) {
                duplicate("workload", &workload.name, At { line: first.line, column: 1 }, node.at, p);
            }
            workloads.push(workload);
        }
    }
    workloads
}

/// The workloads of one element.
fn one(node: &Node, p: &mut Problems) -> Vec<Workload> {
    let known: Vec<&str> = ["name"].into_iter().chain(KINDS).collect();
    let Some(fields) = Fields::of(node, "a workload", &known, p) else { return Vec::new() };
    let name = fields.name("workload", p).unwrap_or_default();
    let fields = fields.called(format!("workload '{name}'"));
    fields.need(&["name"], p);
    let Some(entry) = fields.one_of(&KINDS, p) else { return Vec::new() };
    let place = format!("{} of {}", entry.key, fields.place);
    let kinds = match entry.key.as_str() {
        "rados_bench" => rados_bench(&entry.node, &place, p),
        "loligo_bench" => loligo_bench(&entry.node, &place, p),
        "fio" => fio(&entry.node, &place, p),
        _ => command::read(&entry.node, &place, p).map(|c| vec![(String::new(), WorkloadKind::Command(c))]),
    };
    let line = fields.at.line;
    kinds
        .unwrap_or_default()
        .into_iter()
        .map(|(suffix, kind)| Workload { name: format!("{name}{suffix}"), kind, line })
        .collect()
}

fn rados_bench(node: &Node, place: &str, p: &mut Problems) -> Option<Vec<(String, WorkloadKind)>> {
    let keys = [
        "instances",
        "hosts",
        "pg_num",
        "object_size",
        "in_flight",
        "ladder",
        "seconds",
        "phases",
        "drop_caches",
    ];
    let fields = Fields::of(node, place, &keys, p)?;
    fields.need(&["object_size", "seconds", "phases"], p);
    let clients = clients(&fields, p);
    let sizes = sweep(&fields, "object_size", p, size);
    let ladder = ladder::read(&fields, &clients, false, p);
    let depths = depths(&fields, &clients, ladder.as_ref(), p);
    let seconds = fields.count("seconds", SECONDS, p);
    let phases = phases(&fields, FIO_PHASES, false, p);
    let drop_caches = fields.yes("drop_caches", p).unwrap_or(true);
    let (seconds, phases) = (seconds?, phases?);
    let mut made = Vec::new();
    for (size_name, object_size) in &sizes {
        for (depth_name, in_flight) in &depths {
            let (object_size, in_flight) = (*object_size, *in_flight);
            let (clients, phases, ladder) = (clients.clone(), phases.clone(), ladder.clone());
            let bench = RadosBench { clients, object_size, in_flight, ladder, seconds, phases, drop_caches };
            made.push((format!("{size_name}{depth_name}"), WorkloadKind::RadosBench(bench)));
        }
    }
    Some(made)
}

fn loligo_bench(node: &Node, place: &str, p: &mut Problems) -> Option<Vec<(String, WorkloadKind)>> {
    let keys = [
        "instances",
        "hosts",
        "pg_num",
        "block_size",
        "size",
        "in_flight",
        "ladder",
        "seconds",
        "phases",
        "reads",
        "rate",
        "drop_caches",
    ];
    let fields = Fields::of(node, place, &keys, p)?;
    fields.need(&["block_size", "size", "seconds", "phases"], p);
    let clients = clients(&fields, p);
    let blocks = sweep(&fields, "block_size", p, size);
    let bytes = fields.size_up_to("size", FIO_MAX, p);
    let ladder = ladder::read(&fields, &clients, true, p);
    let depths = depths(&fields, &clients, ladder.as_ref(), p);
    let seconds = fields.count("seconds", SECONDS, p);
    let phases = phases(&fields, LOLIGO_PHASES, true, p);
    let reads_percent = reads_percent(&fields, phases.as_deref(), p);
    let drop_caches = fields.yes("drop_caches", p).unwrap_or(true);
    let rates = rates(&fields, &clients, p);
    let (bytes, seconds, phases) = (bytes?, seconds?, phases?);
    let mut made = Vec::new();
    for (block_name, block_size) in &blocks {
        if *block_size > bytes {
            let at = fields.get("block_size").map_or(fields.at, |n| n.at);
            p.add(at, Conflict::BlockAboveSize { block: *block_size, size: bytes });
        }
        for (depth_name, in_flight) in &depths {
            for (rate_name, rate) in &rates {
                let load = BenchLoad {
                    clients: clients.clone(),
                    block_size: *block_size,
                    size: bytes,
                    in_flight: *in_flight,
                    ladder: ladder.clone(),
                    seconds,
                    phases: phases.clone(),
                    reads_percent,
                    rate: *rate,
                    drop_caches,
                };
                made.push((format!("{block_name}{depth_name}{rate_name}"), WorkloadKind::LoligoBench(load)));
            }
        }
    }
    Some(made)
}

/// The share of reads in a mixed phase.
fn reads_percent(fields: &Fields<'_>, phases: Option<&[Phase]>, p: &mut Problems) -> Option<u32> {
    let is_mixed = phases?.contains(&Phase::Mixed);
    match fields.get("reads") {
        Some(node) if !is_mixed => {
            p.add(node.at, Conflict::ReadsWithoutMixed);
            None
        }
        given => {
            is_mixed.then(|| given.and_then(|_| fields.count("reads", 1..=99, p)).unwrap_or(READS_PERCENT))
        }
    }
}

/// The fixed rates of a load; a lone `None` where it has none.
fn rates(fields: &Fields<'_>, clients: &Clients, p: &mut Problems) -> Vec<(String, Option<u32>)> {
    if fields.get("rate").is_none() {
        return vec![(String::new(), None)];
    }
    let given = sweep(fields, "rate", p, |n, key, p| shared_rate(n, key, clients.total(), p));
    given.into_iter().map(|(name, rate)| (name, Some(rate))).collect()
}

fn fio(node: &Node, place: &str, p: &mut Problems) -> Option<Vec<(String, WorkloadKind)>> {
    let keys = [
        "engine",
        "instances",
        "hosts",
        "pg_num",
        "block_size",
        "size",
        "in_flight",
        "ladder",
        "seconds",
        "phases",
        "rate",
        "prefill",
        "drop_caches",
    ];
    let fields = Fields::of(node, place, &keys, p)?;
    fields.need(&["engine", "block_size", "size", "seconds", "phases"], p);
    let clients = clients(&fields, p);
    let engine = fields.word("engine", &[("rados", Engine::Rados), ("rbd", Engine::Rbd)], p);
    let blocks = sweep(&fields, "block_size", p, size);
    let bytes = fields.size_up_to("size", FIO_MAX, p);
    let ladder = ladder::read(&fields, &clients, true, p);
    let depths = depths(&fields, &clients, ladder.as_ref(), p);
    let seconds = fields.count("seconds", SECONDS, p);
    let prefill = fields.yes("prefill", p).unwrap_or(true);
    let phases = phases(&fields, FIO_PHASES, prefill, p);
    let drop_caches = fields.yes("drop_caches", p).unwrap_or(true);
    let rates = rates(&fields, &clients, p);
    if engine == Some(Engine::Rados) && !prefill && phases.iter().flatten().any(|phase| phase.reads()) {
        p.add(fields.get("prefill").map_or(fields.at, |n| n.at), Conflict::RadosReadsUnfilled);
    }
    let (engine, bytes, seconds, phases) = (engine?, bytes?, seconds?, phases?);
    let mut made = Vec::new();
    for (block_name, block_size) in &blocks {
        if *block_size > bytes {
            let at = fields.get("block_size").map_or(fields.at, |n| n.at);
            p.add(at, Conflict::BlockAboveSize { block: *block_size, size: bytes });
        }
        for (depth_name, in_flight) in &depths {
            for (rate_name, rate) in &rates {
                let load = FioLoad {
                    clients: clients.clone(),
                    engine,
                    block_size: *block_size,
                    size: bytes,
                    in_flight: *in_flight,
                    ladder: ladder.clone(),
                    seconds,
                    phases: phases.clone(),
                    rate: *rate,
                    prefill,
                    drop_caches,
                };
                made.push((format!("{block_name}{depth_name}{rate_name}"), WorkloadKind::Fio(load)));
            }
        }
    }
    Some(made)
}

fn clients(fields: &Fields<'_>, p: &mut Problems) -> Clients {
    let hosts = fields.texts("hosts", p).unwrap_or_default();
    for (i, host) in hosts.iter().enumerate() {
        // Of ssh's command line: a name with a dash in front would be an option.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@:%".contains(c);
        if host.is_empty() || host.starts_with('-') || !host.chars().all(plain) {
            let at = fields.get("hosts").map_or(fields.at, |n| n.at);
            let want = "a host as ssh knows it (HOST or USER@HOST)".to_owned();
            p.add(at, ProblemKind::Value { place: "hosts".into(), text: host.clone(), want });
        }
        if hosts.iter().take(i).any(|h| h == host) {
            let at = fields.get("hosts").map_or(fields.at, |n| n.at);
            duplicate("host", host, at, at, p);
        }
    }
    Clients {
        instances: fields.count("instances", 1..=10_000, p).unwrap_or(1),
        hosts,
        pg_num: fields.count("pg_num", 1..=65_536, p).unwrap_or(32),
    }
}

/// The values of a key that may be a list, each with what it adds to the workload's name: nothing for a lone value.
fn sweep<T: PartialEq>(
    fields: &Fields<'_>,
    key: &'static str,
    p: &mut Problems,
    read: impl Fn(&Node, &str, &mut Problems) -> Option<T>,
) -> Vec<(String, T)> {
    let nodes = fields.one_or_more(key, p).unwrap_or_default();
    let several = nodes.len() > 1;
    let mut values: Vec<(String, T)> = Vec::new();
    for node in nodes {
        let Some(value) = read(node, key, p) else { continue };
        // However it is written: two names for one workload would be compared as if they differed.
        if values.iter().any(|(_, earlier)| *earlier == value) {
            duplicate("value", text(node, key, p).unwrap_or_default(), node.at, node.at, p);
            continue;
        }
        let suffix = if several { text(node, key, p).map(|t| format!("-{t}")) } else { None };
        values.push((suffix.unwrap_or_default(), value));
    }
    values
}

/// A rate that leaves each instance one request a second at least.
fn shared_rate(node: &Node, key: &str, instances: u32, p: &mut Problems) -> Option<u32> {
    let rate = count(node, key, 1..=u32::MAX, p)?;
    if rate < instances {
        p.add(node.at, Conflict::RateBelowInstances { rate, instances });
    }
    Some(rate)
}

/// Requests in flight, shared evenly by all instances; a ladder's last depth where there is one.
fn depths(
    fields: &Fields<'_>,
    clients: &Clients,
    ladder: Option<&Ladder>,
    p: &mut Problems,
) -> Vec<(String, u32)> {
    // A ladder that can't be read has its problem already.
    if fields.get("ladder").is_some() {
        return vec![(String::new(), ladder.map_or(1, |l| l.last_depth))];
    }
    fields.need(&["in_flight"], p);
    let instances = clients.total();
    sweep(fields, "in_flight", p, |node, key, p| {
        let in_flight = count(node, key, 1..=1_000_000, p)?;
        if in_flight % instances != 0 {
            p.add(node.at, Conflict::NotAMultiple { in_flight, instances });
        }
        Some(in_flight)
    })
}

/// Phases in order; what reads comes after what wrote, if nothing is written before the first.
fn phases(
    fields: &Fields<'_>,
    known: &[(&str, Phase)],
    prefill: bool,
    p: &mut Problems,
) -> Option<Vec<Phase>> {
    let fio = fields.get("engine").is_some() || fields.get("block_size").is_some();
    let nodes = fields.one_or_more("phases", p)?;
    let mut phases = Vec::new();
    let mut written = prefill;
    for node in nodes {
        let Some(phase) = word(node, "phase", known, p) else { continue };
        if !fio && !BENCH_PHASES.iter().any(|(_, known)| *known == phase) {
            let kind = Conflict::PhaseOfAnother {
                load: "rados bench",
                phase: phase.name(),
                has: "write, read, rand_read",
            };
            p.add(node.at, kind);
        }
        if phase.reads() && !written {
            let also =
                if fio { ": put a write before it, or 'prefill: yes'" } else { ": put 'write' before it" };
            p.add(node.at, Conflict::ReadBeforeWrite { phase: phase.name(), also });
        }
        written |= !phase.reads();
        if phases.contains(&phase) {
            duplicate("phase", phase.name(), node.at, node.at, p);
        }
        phases.push(phase);
    }
    Some(phases)
}
