//! `service dump` and `service status`, and what other commands show of the daemons that registered.

use std::collections::{BTreeMap, BTreeSet};

use super::{Command, legacy_addr, mon_r};
use crate::fmt::Json;
use crate::mon::Mon;
use crate::service::osdmap;
use crate::service::services::{Facts, ServiceDaemon};

pub(super) const COMMANDS: &[Command] = &[
    mon_r("service dump", "Services that registered, and their daemons", |mon, call| {
        Ok(call.show_json(map_json(mon)))
    }),
    mon_r("service status", "What the daemons of services say of their state", |mon, call| {
        let all = mon.services.others().fold(Json::object(), |out, (service, daemons)| {
            let shown = daemons.iter().fold(Json::object(), |out, (name, d)| out.with(name, state_json(d)));
            out.with(service, shown)
        });
        Ok(call.show_json(all))
    }),
];

type Daemons = BTreeMap<String, ServiceDaemon>;

fn facts_json(facts: &Facts) -> Json {
    facts.iter().fold(Json::object(), |out, (key, value)| out.with(key, value.as_str()))
}

fn state_json(daemon: &ServiceDaemon) -> Json {
    Json::object()
        .with("status_stamp", daemon.status_stamp.to_string())
        .with("last_beacon", daemon.last_beacon.to_string())
        .with("status", facts_json(&daemon.status))
}

pub(super) fn map_json(mon: &Mon) -> Json {
    let services = mon.services.services().fold(Json::object(), |out, (service, daemons)| {
        // A member among the daemons, as Ceph has it; nothing ever sets it.
        let none = Json::object().with("summary", "");
        let shown = daemons.iter().fold(none, |out, (name, daemon)| out.with(name, daemon_json(daemon)));
        out.with(service, Json::object().with("daemons", shown))
    });
    let modified = mon.services.modified().unwrap_or_else(|| osdmap::created(&mon.osdmap));
    Json::object()
        .with("epoch", mon.services.epoch())
        .with("modified", modified.to_string())
        .with("services", services)
}

fn daemon_json(daemon: &ServiceDaemon) -> Json {
    Json::object()
        .with("start_epoch", daemon.start_epoch)
        .with("start_stamp", daemon.start_stamp.to_string())
        .with("gid", daemon.gid)
        .with("addr", legacy_addr(&daemon.addr.into()))
        .with("metadata", facts_json(&daemon.metadata))
        .with("task_status", facts_json(&daemon.task_status))
}

/// How many daemons a service has, in words: `2 portals active (2 hosts)`.
fn summary(daemons: &Daemons) -> String {
    let values = |key: &str| daemons.values().filter_map(|d| d.metadata.get(key)).collect::<Vec<_>>();
    let kind = values("daemon_type").last().map_or("daemon", |kind| kind.as_str());
    let groups: Vec<String> = [("host", "hostname"), ("zone", "zone_id")]
        .into_iter()
        .map(|(group, key)| (group, values(key).into_iter().collect::<BTreeSet<_>>().len()))
        .filter(|(_, n)| *n > 0)
        // Ceph's plural: of one, too.
        .map(|(group, n)| format!("{n} {group}s"))
        .collect();
    let n = daemons.len();
    let out = format!("{n} {kind}{} active", if n > 1 { "s" } else { "" });
    if groups.is_empty() { out } else { format!("{out} ({})", groups.join(", ")) }
}

/// What is put before a name of `ceph -s` so that the longest service's name fits.
pub(super) fn name_padding(mon: &Mon, name: &str) -> String {
    let longest = mon.services.services().map(|(service, _)| service.len()).fold(3, usize::max);
    " ".repeat(longest - name.len())
}

/// The lines of `ceph -s` for services.
pub(super) fn lines(mon: &Mon) -> String {
    let line = |(service, daemons): (&str, &Daemons)| {
        format!("    {service}: {}{}\n", name_padding(mon, service), summary(daemons))
    };
    mon.services.others().map(line).collect()
}

/// The part of `ceph -s` about tasks; empty where no daemon has any.
pub(super) fn tasks_text(mon: &Mon) -> String {
    let mut by_task: BTreeMap<(&str, &str), BTreeMap<String, &str>> = BTreeMap::new();
    for (service, daemons) in mon.services.services() {
        for (name, daemon) in daemons {
            for (task, status) in &daemon.task_status {
                by_task.entry((service, task)).or_default().insert(format!("{service}.{name}"), status);
            }
        }
    }
    if by_task.is_empty() {
        return String::new();
    }
    let mut out = String::from("  task status:\n");
    for ((_, task), daemons) in by_task {
        out += &format!("\n    {task}:");
        daemons.iter().for_each(|(daemon, status)| out += &format!("\n        {daemon}: {status}"));
    }
    out + "\n \n"
}

/// How many daemons of each service run which version.
pub(super) fn versions(mon: &Mon) -> Vec<(&str, BTreeMap<String, u64>)> {
    let count = |daemons: &Daemons| {
        let mut out = BTreeMap::new();
        for daemon in daemons.values() {
            let version = daemon.metadata.get("ceph_version").map_or("unknown", |v| v.as_str());
            *out.entry(version.to_owned()).or_default() += 1;
        }
        out
    };
    mon.services.others().map(|(service, daemons)| (service, count(daemons))).collect()
}
