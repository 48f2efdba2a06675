//! The `systems` of a study file: read here, held against each other in `system_rules`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::fields::{Fields, duplicate, named_once, word};
use crate::model::{CephStore, LoligoStore, Setting, System, Target};
use crate::node::Node;
use crate::place::{self, ResolvedPlace};
use crate::problem::{At, ProblemKind, Problems};
use crate::{settings, system_rules};

/// Release lines of Ceph that the lab starts.
pub(crate) const RELEASES: [&str; 3] = ["16.2", "18.2", "20.2"];

const TARGETS: [&str; 4] = ["loligo", "ceph", "running", "nfs"];
const KEYS: [&str; 11] = [
    "name",
    "loligo",
    "ceph",
    "running",
    "nfs",
    "osds",
    "pool_size",
    "cores",
    "place",
    "journal",
    "settings",
];

/// Reads the list of systems; one with a list of file systems becomes one for each.
pub(crate) fn read(study: &Fields<'_>, p: &mut Problems) -> Vec<System> {
    let mut systems: Vec<System> = Vec::new();
    let listen = listen(study, p);
    let nodes = study.list("systems", p).unwrap_or_default();
    named_once(nodes, "system", p);
    for node in nodes {
        let once = !p.any_at(node.at);
        for mut system in one(node, p) {
            system.listen = listen;
            if let Some(first) = systems.iter().find(|s| s.name == system.name).filter(|_| once) {
                let first = At { line: first.line, column: 1 };
                duplicate("system", &system.name, first, node.at, p);
            }
            systems.push(system);
        }
    }
    systems
}

/// The address that servers of every system listen at. Whether it is one of this machine's is looked at later.
fn listen(study: &Fields<'_>, p: &mut Problems) -> Ipv4Addr {
    let Some(node) = study.get("listen") else { return Ipv4Addr::LOCALHOST };
    let text = study.line("listen", p).unwrap_or_default();
    let address = text.parse().ok().filter(|a: &Ipv4Addr| !a.is_unspecified() && !a.is_broadcast());
    if address.is_none() {
        let want = "an IPv4 address of one interface of this machine".to_owned();
        p.add(node.at, ProblemKind::Value { place: "listen".into(), text: text.to_owned(), want });
    }
    // A wrong one is said once: whoever needs another than loopback has tried to give it.
    address.unwrap_or(Ipv4Addr::UNSPECIFIED)
}

/// The systems of one element.
fn one(node: &Node, p: &mut Problems) -> Vec<System> {
    let Some(fields) = Fields::of(node, "a system", &KEYS, p) else { return Vec::new() };
    let name = fields.name("system", p).unwrap_or_default();
    let fields = fields.called(format!("system '{name}'"));
    fields.need(&["name"], p);
    let before = p.count();
    let target = target(&fields, p);
    let osds = fields.count("osds", 1..=1000, p);
    let osds = osds.unwrap_or(if fields.get("nfs").is_some() { 1 } else { 3 });
    let pool_size = fields.count("pool_size", 1..=16, p).unwrap_or(1);
    let cores = fields.count("cores", 1..=4096, p);
    let places =
        fields.get("place").map_or_else(|| vec![ResolvedPlace::directory()], |n| place::read(n, "place", p));
    let journal = fields.get("journal").and_then(|n| place::read(n, "journal", p).into_iter().next());
    let options = fields.get("settings").map(|n| settings::read(n, "settings", p)).unwrap_or_default();
    let Some(target) = target else { return Vec::new() };
    let several = places.len() > 1;
    let made: Vec<System> = places
        .into_iter()
        .map(|made| System {
            name: if several { format!("{name}-{}", made.name) } else { name.to_owned() },
            target: target.clone(),
            osds,
            pool_size,
            cores,
            listen: Ipv4Addr::LOCALHOST,
            place: made.place,
            journal: journal.clone().map(|j| j.place),
            settings: joined(&options, made.settings),
            line: fields.at.line,
        })
        .collect();
    // What is wrong alone would only be said a second time.
    if p.count() == before {
        made.iter().for_each(|system| system_rules::check(system, &fields, p));
    }
    made
}

/// The system's options, then those of its file system.
fn joined(system: &[Setting], file_system: Vec<Setting>) -> Vec<Setting> {
    crate::conf::merged(system.iter().chain(&file_system))
}

/// The program under test.
fn target(fields: &Fields<'_>, p: &mut Problems) -> Option<Target> {
    let entry = fields.one_of(&TARGETS, p)?;
    let place = format!("{} of {}", entry.key, fields.place);
    match entry.key.as_str() {
        "loligo" => {
            let inner = Fields::of(&entry.node, &place, &["store"], p)?;
            inner.need(&["store"], p);
            let stores =
                [("simple", LoligoStore::Simple), ("block", LoligoStore::Block), ("mem", LoligoStore::Mem)];
            Some(Target::Loligo { store: inner.word("store", &stores, p)? })
        }
        "ceph" => {
            let inner = Fields::of(&entry.node, &place, &["release", "store"], p)?;
            inner.need(&["release", "store"], p);
            let releases = RELEASES.map(|r| (r, r));
            let release = inner.get("release").and_then(|n| word(n, "release of Ceph", &releases, p));
            let stores = [
                ("bluestore", CephStore::BlueStore),
                ("filestore", CephStore::FileStore),
                ("memstore", CephStore::MemStore),
            ];
            let store = inner.word("store", &stores, p);
            Some(Target::Ceph { release: release?.to_owned(), store: store? })
        }
        "running" => {
            let inner = Fields::of(&entry.node, &place, &["conf"], p)?;
            inner.need(&["conf"], p);
            Some(Target::Running { conf: PathBuf::from(inner.line("conf", p)?) })
        }
        _ => {
            let inner = Fields::of(&entry.node, &place, &["export"], p)?;
            inner.need(&["export"], p);
            Some(Target::Nfs { sync: inner.word("export", &[("sync", true), ("async", false)], p)? })
        }
    }
}
