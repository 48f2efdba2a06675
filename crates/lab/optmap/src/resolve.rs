//! Which verdict an option gets on a system.

use study::{CephStore, Setting, System, Target};

use crate::old_names::{OldName, old_name};
use crate::parts::{Loads, Part, Process, client, processes};
use crate::table::{Entry, Release};
use crate::values;
use crate::verdict::{Resolved, Verdict, Why};
use crate::{loligo, rules};

/// What each option is on a system, in their order, for any load that the lab has. Other options on which an effect
/// depends are looked for among these and the system's own. Names compare as in ceph.conf: blanks, dashes and
/// underscores are one, case doesn't count.
pub fn resolve(system: &System, settings: &[Setting]) -> Vec<Resolved> {
    let in_force = study::merged(system.settings.iter().chain(settings));
    resolve_among(system, Loads::ALL, settings, &in_force)
}

/// As [`resolve`], under the loads of a study and among all the options that the system gets.
pub(crate) fn resolve_among(
    system: &System,
    loads: Loads,
    settings: &[Setting],
    in_force: &[Setting],
) -> Vec<Resolved> {
    let stage = Stage::of(system, loads, in_force);
    settings.iter().map(|setting| stage.resolve(setting, loads)).collect()
}

/// Defaults of pools that are made without telling; the lab tells them of each pool that it makes.
const POOL_DEFAULTS: [&str; 2] = ["osd_pool_default_size", "osd_pool_default_pg_num"];

/// Why those do nothing where no command of the user's makes pools.
const OF_POOLS: &str = "the lab makes the pools, by the system's pool_size and the workload's pg_num";

/// An effect: the processes that act on an option, or why none does.
pub(crate) type Effect = Result<Vec<Process>, Why>;

/// A system as its options see it.
pub(crate) enum Stage<'a> {
    Ceph(Ceph<'a>),
    Loligo(loligo::Loligo<'a>),
    /// Nothing is set there, for this reason.
    Fixed(Why),
}

impl<'a> Stage<'a> {
    pub(crate) fn of(system: &'a System, loads: Loads, in_force: &'a [Setting]) -> Self {
        match &system.target {
            Target::Ceph { release, store } => Self::Ceph(Ceph {
                // An unknown release is treated as the newest known one.
                release: Release::named(release).unwrap_or(Release::Tentacle),
                processes: processes(*store, loads, in_force),
                rules: Some((*store, system)),
                in_force,
            }),
            Target::Loligo { .. } => Self::Loligo(loligo::Loligo {
                // Its clients are the programs installed here.
                clients: Ceph {
                    release: Release::Pacific,
                    processes: vec![client(loads)],
                    rules: None,
                    in_force,
                },
            }),
            Target::Running { .. } => Self::Fixed(Why::Running),
            Target::Nfs { .. } => Self::Fixed(Why::NoCluster),
        }
    }

    fn resolve(&self, setting: &Setting, loads: Loads) -> Resolved {
        let name = options::normalize(&setting.name);
        let of_pools = POOL_DEFAULTS.contains(&name.as_str()) && !loads.command;
        let effect = match self {
            Self::Ceph(_) | Self::Loligo(_) if of_pools => Some(Err(Why::Rule(OF_POOLS))),
            Self::Ceph(ceph) => ceph.effect(&name, &setting.section),
            Self::Loligo(loligo) => loligo.effect(&name, &setting.section),
            Self::Fixed(why) => known_anywhere(&name).then(|| Err(why.clone())),
        };
        let (verdict, acts_in) = match effect {
            Some(Ok(acts_in)) => (Verdict::Effective, acts_in),
            Some(Err(why)) => (Verdict::AcceptedWithoutEffect { why }, Vec::new()),
            None => (self.without_entry(&name, &setting.section), Vec::new()),
        };
        let at_default = verdict == Verdict::Effective && self.is_default(&name, &setting.value);
        Resolved { setting: setting.clone(), verdict, acts_in, at_default }
    }

    /// The verdict on a name that the system does not have.
    fn without_entry(&self, name: &str, section: &str) -> Verdict {
        if let Some(old) = old_name(name) {
            return match self {
                Self::Ceph(ceph) => renamed(&old, |to| ceph.effect(to, section)),
                Self::Loligo(loligo) => renamed(&old, |to| loligo.effect(to, section)),
                Self::Fixed(why) => Verdict::AcceptedWithoutEffect { why: why.clone() },
            };
        }
        if let Self::Ceph(_) = self {
            let systems = who_knows(name);
            if !systems.is_empty() {
                return Verdict::AcceptedWithoutEffect { why: Why::OnlyIn { systems } };
            }
        }
        Verdict::Unknown { nearest: self.nearest(name) }
    }

    fn nearest(&self, name: &str) -> Option<&'static str> {
        match self {
            Self::Ceph(ceph) => text::nearest(name, ceph.release.table().names()),
            _ => text::nearest(name, options::names().chain(Release::Tentacle.table().names())),
        }
    }

    /// Whether a value is the default of the system.
    fn is_default(&self, name: &str, value: &str) -> bool {
        match self {
            Self::Ceph(ceph) => ceph.entry(name).is_some_and(|e| values::same(e, value, e.default)),
            Self::Loligo(loligo) => loligo.is_default(name, value),
            Self::Fixed(_) => false,
        }
    }
}

/// An option of earlier releases, by what its successors do.
fn renamed(old: &OldName, effect: impl Fn(&str) -> Option<Effect>) -> Verdict {
    let sentence = old.sentence;
    let Some(first) = old.to.first() else {
        return Verdict::AcceptedWithoutEffect { why: Why::Gone(sentence) };
    };
    let acts = |to: &&&'static str| matches!(effect(to), Some(Ok(_)));
    let to: Vec<&'static str> = old.to.iter().filter(acts).copied().collect();
    if to.is_empty() {
        return Verdict::AcceptedWithoutEffect { why: Why::SoIsItsSuccessor { to: first, sentence } };
    }
    Verdict::Renamed { to, sentence }
}

/// The systems of the lab that know a name.
fn who_knows(name: &str) -> Vec<String> {
    let releases = Release::ALL.into_iter().filter(|r| r.table().get(name).is_some());
    let mut systems: Vec<String> = releases.map(|r| format!("Ceph {}", r.name())).collect();
    if options::lookup(name).is_some() {
        systems.push("Loligo".to_owned());
    }
    systems
}

pub(crate) fn known_anywhere(name: &str) -> bool {
    !who_knows(name).is_empty() || options::status(name) != options::OptionStatus::Unknown
}

/// Whether the lab starts the daemon (or runs the client) that a section is of, by the names that the testbed gives them.
fn daemon_runs(section: &str, osds: Option<u32>) -> bool {
    match section.split_once('.') {
        None => true,
        Some(("osd", id)) => id.parse::<u32>().is_ok_and(|id| osds.is_some_and(|osds| id < osds)),
        Some(("mon" | "mds", id)) => id == "a",
        Some(("mgr", id)) => id == "x",
        Some(("client", id)) => id == "admin",
        Some(_) => false,
    }
}

/// Programs of a Ceph release.
pub(crate) struct Ceph<'a> {
    release: Release,
    processes: Vec<(Process, Vec<Part>)>,
    /// What rules look at; none where only clients run.
    rules: Option<(CephStore, &'a System)>,
    in_force: &'a [Setting],
}

impl Ceph<'_> {
    pub(crate) fn entry(&self, name: &str) -> Option<&'static Entry> {
        self.release.table().get(name)
    }

    /// The effect of an option in a section of ceph.conf; `None` if the release does not have it.
    pub(crate) fn effect(&self, name: &str, section: &str) -> Option<Effect> {
        Some(self.effect_of(self.entry(name)?, section))
    }

    fn effect_of(&self, entry: &Entry, section: &str) -> Effect {
        if entry.readers.is_empty() {
            return Err(Why::NobodyReads { release: self.release.name() });
        }
        if let Some(why) = self.rule(entry.name) {
            return Err(Why::Rule(why));
        }
        let has = |parts: &[Part]| parts.iter().any(|part| entry.readers.contains(part));
        let running = self.processes.iter().filter(|(_, parts)| has(parts)).map(|(process, _)| *process);
        let readers: Vec<Process> = running.collect();
        if readers.is_empty() {
            return Err(Why::NotRunning { readers: entry.readers.iter().map(|p| p.called()).collect() });
        }
        let mut acts_in = readers.clone();
        acts_in.retain(|process| process.reads(section));
        if acts_in.is_empty() {
            return Err(Why::OtherSection { section: section.to_owned(), readers });
        }
        if !daemon_runs(section, self.rules.map(|(_, system)| system.osds)) {
            return Err(Why::NoSuchDaemon { section: section.to_owned() });
        }
        // The section of a kind of daemon wins over `global`.
        let wins = |process: &Process| section == "global" && self.is_set_in(process.name(), entry.name);
        match acts_in.iter().find(|p| wins(p)).copied() {
            Some(process) if acts_in.iter().all(wins) => {
                Err(Why::Overridden { section: process.name().to_owned() })
            }
            _ => Ok(acts_in.into_iter().filter(|p| !wins(p)).collect()),
        }
    }

    fn rule(&self, name: &str) -> Option<&'static str> {
        let (store, system) = self.rules?;
        rules::why(name, self.release, store, system, self.in_force)
    }

    /// Whether a section sets an option.
    pub(crate) fn is_set_in(&self, section: &str, name: &str) -> bool {
        self.in_force.iter().any(|s| s.section == section && options::normalize(&s.name) == name)
    }
}
