//! `ceph tell mon.ID …` about the monitor's own state: counters, sessions, log, and options until the next start.

use options::Values;
use types::Errno;

use super::mon::addrs_json;
use super::{Answer, Call, Command, Failure, Run, fail};
use crate::fmt::Json;
use crate::mon::Mon;
use crate::service::osdmap;

const fn own(signature: &'static str, help: &'static str, perm: &'static str, run: Run) -> Command {
    Command { signature, help, module: "mon", perm, run }
}

pub(super) const COMMANDS: &[Command] = &[
    own("mon_status", "State of this monitor", "r", |mon, call| {
        let json = crate::command::mon_status(mon, call.now, Json::object());
        Ok(call.show_json(json))
    }),
    own(
        "config set name=var,type=CephString name=val,type=CephString,n=N",
        "Set an option here until the next start",
        "rw",
        |mon, call| {
            let name = options::normalize(&call.args.required("var")?);
            let value = call.args.list("val")?.join(" ");
            override_options(mon, call, vec![(name, value)])
        },
    ),
    own(
        "config unset name=var,type=CephString",
        "Take back what config set has set here",
        "rw",
        |mon, call| {
            mon.overrides.remove(&options::normalize(&call.args.required("var")?));
            mon.merge_options();
            Ok(call.show_json(Json::object().with("success", "")))
        },
    ),
    own(
        "injectargs name=injected_args,type=CephString,n=N",
        "Set options here as on a command line: --NAME VALUE",
        "rw",
        |mon, call| {
            let text = call.args.list("injected_args")?.join(" ");
            let given = options::injected(&text).map_err(|why| Failure::Errno(Errno::EINVAL, why))?;
            override_options(mon, call, given)
        },
    ),
    own(
        "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "Counters",
        "r",
        |mon, call| perf(mon, call, false),
    ),
    own(
        "perf schema name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "What the counters are",
        "r",
        |mon, call| perf(mon, call, true),
    ),
    own("counter dump", "Counters, in the shape that has labels", "r", |mon, call| {
        labelled(mon, call, false)
    }),
    own("counter schema", "What they are, in that shape", "r", |mon, call| labelled(mon, call, true)),
    own("sessions", "Who is connected", "r", sessions),
    own("ops", "Requests that wait for a commit", "r", |mon, call| {
        let ops = mon
            .waiting
            .iter()
            .map(|request| Json::object().with("description", format!("message of {}", request.session)));
        let count = mon.waiting.len();
        Ok(call.show_json(Json::object().with("ops", Json::array(ops)).with("num_ops", count)))
    }),
    own("log dump", "Not needed: nothing is held back from the log", "r", NO_LOG_BUFFER),
    own("log flush", "Not needed: nothing is held back from the log", "r", NO_LOG_BUFFER),
    own("git_version", "The version's commit (a build has none)", "r", |_, call| {
        Ok(call.show_json(Json::object().with("git_version", "")))
    }),
    own(
        "smart name=devid,type=CephString,req=false",
        "Devices' own health (none is asked)",
        "r",
        |_, call| Ok(call.show_json(Json::object())),
    ),
    own(
        "heap name=heapcmd,type=CephString name=value,type=CephString,req=false",
        "Not supported",
        "r",
        |_, _| fail(Errno::EOPNOTSUPP, "could not issue heap profiler command -- not using tcmalloc!"),
    ),
];

const NO_LOG_BUFFER: Run = |_, call| Ok(call.show_json(Json::object()));

/// Sets options until the next start: all of them, or none where one does not fit.
fn override_options(mon: &mut Mon, call: &Call<'_>, given: Vec<(String, String)>) -> Result<Answer, Failure> {
    for (name, value) in &given {
        if options::lookup(name).is_none() {
            return fail(Errno::ENOENT, format!("no option '{name}' is effective here"));
        }
        let bad = |error: options::SetError| Failure::Errno(Errno::EINVAL, error.to_string());
        Values::new().set(name, value).map_err(bad)?;
        options::check_settable(name, value)
            .map_err(|error| Failure::Errno(Errno::EINVAL, error.to_string()))?;
    }
    let done = given.iter().map(|(name, value)| {
        let fixed = options::lookup(name).is_some_and(|spec| !spec.runtime);
        format!("{name} = '{value}'{} ", if fixed { " (may need a restart)" } else { "" })
    });
    let success: String = done.collect();
    mon.overrides.extend(given);
    mon.merge_options();
    Ok(call.show_json(Json::object().with("success", success)))
}

/// Counters of the monitor: section, name, value, whether it only grows, what it counts.
pub(crate) fn counters(mon: &Mon) -> Vec<(&'static str, &'static str, u64, bool, &'static str)> {
    let map = &mon.osdmap;
    let space = mon.pgmap.space(|_| true);
    let states =
        |wanted: messages::PgState| mon.pgmap.pgs.values().filter(|pg| pg.state.has(wanted)).count() as u64;
    let total = mon.pgmap.total();
    let sum = *total.sum();
    let sessions = mon.monitor_sessions().count() as u64;
    let positive = |n: i64| n.max(0) as u64;
    let osds = |picks: fn(&maps::OsdMap, i32) -> bool| {
        osdmap::osds(map).filter(|osd| picks(map, *osd)).count() as u64
    };
    let clean = mon
        .pgmap
        .pgs
        .values()
        .filter(|pg| pg.state.has(messages::PgState::ACTIVE) && pg.state.has(messages::PgState::CLEAN));
    vec![
        ("cluster", "num_mon", 1, false, "Monitors"),
        ("cluster", "num_mon_quorum", 1, false, "Monitors in quorum"),
        ("cluster", "num_osd", osdmap::osds(map).count() as u64, false, "OSDs"),
        ("cluster", "num_osd_up", osds(osdmap::is_up), false, "OSDs that are up"),
        ("cluster", "num_osd_in", osds(osdmap::is_in), false, "OSDs that are in"),
        ("cluster", "osd_epoch", map.epoch.0.into(), false, "Epoch of the OSD map"),
        ("cluster", "osd_bytes", space.total, false, "Total capacity of the OSDs"),
        ("cluster", "osd_bytes_used", space.total.saturating_sub(space.available), false, "Used space"),
        ("cluster", "osd_bytes_avail", space.available, false, "Available space"),
        ("cluster", "num_pool", map.pools.len() as u64, false, "Pools"),
        ("cluster", "num_pg", mon.pgmap.pgs.len() as u64, false, "Placement groups"),
        ("cluster", "num_pg_active_clean", clean.count() as u64, false, "PGs that are active+clean"),
        ("cluster", "num_pg_active", states(messages::PgState::ACTIVE), false, "PGs that are active"),
        ("cluster", "num_pg_peering", states(messages::PgState::PEERING), false, "PGs that are peering"),
        ("cluster", "num_object", positive(sum.num_objects), false, "Objects"),
        ("cluster", "num_object_degraded", positive(sum.num_objects_degraded), false, "Degraded objects"),
        ("cluster", "num_object_misplaced", positive(sum.num_objects_misplaced), false, "Misplaced objects"),
        ("cluster", "num_object_unfound", positive(sum.num_objects_unfound), false, "Unfound objects"),
        ("cluster", "num_bytes", positive(sum.num_bytes), false, "Bytes in all objects"),
        ("mon", "num_sessions", sessions, false, "Open sessions"),
        ("mon", "session_add", mon.sessions_opened, true, "Sessions that were opened in this start"),
        (
            "mon",
            "session_rm",
            mon.sessions_opened.saturating_sub(sessions),
            true,
            "Those of them that have ended",
        ),
        ("mon", "num_elections", 0, true, "Elections: there is one monitor"),
        ("paxos", "commit", mon.token, true, "Proposals of this start"),
    ]
}

fn perf(mon: &mut Mon, call: &Call<'_>, is_schema: bool) -> Result<Answer, Failure> {
    let (logger, counter) = (call.args.text("logger")?, call.args.text("counter")?);
    let wanted =
        |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|a| a.is_empty() || a == name);
    let sections =
        sections(mon, is_schema, |section, name| wanted(&logger, section) && wanted(&counter, name));
    Ok(call.show_json(sections.into_iter().fold(Json::object(), |out, (name, json)| out.with(name, json))))
}

/// The counters, or what they are, in the shape in which labels tell counters of one name apart. This monitor gives them none.
fn labelled(mon: &mut Mon, call: &Call<'_>, is_schema: bool) -> Result<Answer, Failure> {
    let listed = sections(mon, is_schema, |_, _| true).into_iter().map(|(name, counters)| {
        (name, Json::array([Json::object().with("labels", Json::object()).with("counters", counters)]))
    });
    Ok(call.show_json(listed.fold(Json::object(), |out, (name, json)| out.with(name, json))))
}

/// The counters that are wanted, or what they are, by section.
fn sections(mon: &Mon, is_schema: bool, wanted: impl Fn(&str, &str) -> bool) -> Vec<(&'static str, Json)> {
    let mut sections: Vec<(&str, Json)> = Vec::new();
    for (section, name, value, grows, about) in counters(mon) {
        if !wanted(section, name) {
            continue;
        }
        let shown = match is_schema {
            false => Json::from(value),
            true => Json::object()
                .with("type", if grows { 10 } else { 2 })
                .with("metric_type", if grows { "counter" } else { "gauge" })
                .with("value_type", "integer")
                .with("description", about)
                .with("nick", "")
                .with("priority", 0)
                .with("units", if name.contains("bytes") { "bytes" } else { "none" }),
        };
        match sections.iter_mut().find(|(known, _)| *known == section) {
            Some((_, json)) => json.put(name, shown),
            None => sections.push((section, Json::object().with(name, shown))),
        }
    }
    sections
}

fn sessions(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let sessions = mon.monitor_sessions().map(|session| {
        let info = &session.info;
        let socket = types::EntityAddrVec(info.peer_addrs.0.first().copied().into_iter().collect());
        Json::object()
            .with("name", info.name.to_string())
            .with("entity_name", info.entity.to_string())
            .with("addrs", addrs_json(&info.peer_addrs))
            .with("socket_addr", super::mon::first_addr_json(&socket))
            .with("con_type", info.entity.kind.as_str())
            .with("con_features", info.features)
            .with("con_features_hex", format!("{:x}", info.features))
            .with("con_features_release", "luminous")
            .with("open", true)
            .with("caps", Json::object().with("text", "allow *"))
            .with("authenticated", true)
            .with("global_id", info.global_id)
            .with("global_id_status", "none")
            .with("osd_epoch", 0)
            .with("remote_host", "")
    });
    Ok(call.show_json(Json::array(sessions)))
}
