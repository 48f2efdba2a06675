//! `status`, `health`, `df`, `fsid`, `versions`, `features`, `log`.

use std::collections::BTreeMap;
use std::time::Duration;

use messages::PgState;
use types::{Errno, UTime};

use super::{Answer, Call, Command, Failure, fail, services};
use crate::fmt::{Align, Json, Table, bytes, count};
use crate::mon::Mon;
use crate::mutes::{Mute, parse_span};
use crate::service::log::LogLevel;
use crate::service::osdmap;
use crate::stats::pgmap::Rates;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "status",
        help: "Summary of the cluster's state",
        module: "mon",
        perm: "r",
        run: status,
    },
    Command {
        signature: "health name=detail,type=CephChoices,strings=detail,req=false",
        help: "Health of the cluster; with 'detail', what each check found",
        module: "mon",
        perm: "r",
        run: health,
    },
    Command {
        signature: "health mute name=code,type=CephString name=ttl,type=CephString,req=false name=sticky,type=CephBool,req=false",
        help: "Leave a health check out of the overall status",
        module: "mon",
        perm: "w",
        run: health_mute,
    },
    Command {
        signature: "health unmute name=code,type=CephString,req=false",
        help: "Count a muted health check (or all of them) again",
        module: "mon",
        perm: "w",
        run: health_unmute,
    },
    Command {
        signature: "df name=detail,type=CephChoices,strings=detail,req=false",
        help: "Space of the cluster and of its pools",
        module: "mon",
        perm: "r",
        run: df,
    },
    Command { signature: "fsid", help: "Id of the cluster", module: "mon", perm: "r", run: fsid },
    Command {
        signature: "versions",
        help: "How many daemons run which version",
        module: "mon",
        perm: "r",
        run: versions,
    },
    Command {
        signature: "features",
        help: "Feature words of connected daemons and clients",
        module: "mon",
        perm: "r",
        run: features,
    },
    Command {
        signature: "time-sync-status",
        help: "How far the monitors' clocks are apart",
        module: "mon",
        perm: "r",
        run: time_sync_status,
    },
    Command {
        signature: "log last name=num,type=CephInt,range=1,req=false name=level,type=CephChoices,strings=debug|info|sec|warn|error,req=false name=channel,type=CephChoices,strings=*|cluster|audit|cephadm,req=false",
        help: "Last lines of the cluster log",
        module: "mon",
        perm: "r",
        run: log_last,
    },
    Command {
        signature: "log name=logtext,type=CephString,n=N",
        help: "Add a line to the cluster log",
        module: "mon",
        perm: "rw",
        run: log,
    },
];

/// A span of time in its coarsest unit that says enough: `35s`, `4m`, `9h`, `3d`.
pub(crate) fn span(seconds: u64) -> String {
    const UNITS: [(u64, u64, &str); 6] = [
        (120, 1, "s"),
        (120 * 60, 60, "m"),
        (48 * 3600, 3600, "h"),
        (14 * 86_400, 86_400, "d"),
        (12 * 604_800, 604_800, "w"),
        (24 * 2_592_000, 2_592_000, "M"),
    ];
    match UNITS.iter().find(|(limit, ..)| seconds < *limit) {
        Some((_, unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{}y", seconds / 31_536_000),
    }
}

fn status(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let health = mon.health(call.now);
    let age = call.now.sec.saturating_sub(mon.started.sec);
    let json = || {
        Json::object()
            .with("fsid", mon.config.fsid.to_string())
            .with("health", health.json(false))
            .with("election_epoch", 1)
            .with("quorum", Json::array([0]))
            .with("quorum_names", Json::array([mon.config.name.as_str()]))
            .with("quorum_age", age)
            .with("monmap", monmap_summary(mon))
            .with("osdmap", osdmap::summary_json(&mon.osdmap))
            .with("pgmap", pgmap_json(mon))
            .with("fsmap", fsmap_json())
            .with("mgrmap", mgrmap_json(mon))
            .with("servicemap", services::map_json(mon))
            .with("progress_events", Json::object())
    };
    let text = || {
        let mut out = String::from("  cluster:\n");
        out += &format!("    id:     {}\n", mon.config.fsid);
        out += &format!("    health: {}\n \n", health.status_lines("            "));
        out += "  services:\n";
        let pad = services::name_padding(mon, "mon");
        let age = span(u64::from(age));
        out += &format!("    mon: {pad}1 daemons, quorum {} (age {age})\n", mon.config.name);
        out += &format!("    mgr: {pad}{}\n", mgrmap_text(mon, call.now));
        out += &format!("    osd: {pad}{}\n", osdmap::summary_text(&mon.osdmap, call.now));
        out += &format!("{} \n", services::lines(mon));
        out += &services::tasks_text(mon);
        out += &pgmap_text(mon);
        out
    };
    Ok(call.show(json, text))
}

fn monmap_summary(mon: &Mon) -> Json {
    Json::object()
        .with("epoch", mon.monmap.epoch.0)
        .with("min_mon_release_name", mon.config.profile.release.name())
        .with("num_mons", 1)
}

fn fsmap_json() -> Json {
    Json::object().with("epoch", 1).with("by_rank", Json::Array(vec![])).with("up:standby", 0)
}

fn mgrmap_text(mon: &Mon, now: UTime) -> String {
    let map = &mon.mgrmap;
    match map.available {
        true => {
            let since = u64::from(now.sec.saturating_sub(map.active_change.sec));
            format!("{}(active, since {})", map.active_name, span(since))
        }
        false => "no daemons active".into(),
    }
}

fn mgrmap_json(mon: &Mon) -> Json {
    Json::object()
        .with("available", mon.mgrmap.available)
        .with("num_standbys", 0)
        .with("modules", Json::Array(vec![]))
        .with("services", Json::object())
}

/// What the PGs lack, in words and as (name, how many, of how many).
fn shortfalls(mon: &Mon) -> Vec<(&'static str, i64, i64)> {
    let sums = *mon.pgmap.total().sum();
    let all = [
        ("degraded", sums.num_objects_degraded, sums.num_object_copies),
        ("misplaced", sums.num_objects_misplaced, sums.num_object_copies),
        ("unfound", sums.num_objects_unfound, sums.num_objects),
    ];
    all.into_iter().filter(|(_, some, of)| *some > 0 && *of > 0).collect()
}

pub(super) fn pgmap_json(mon: &Mon) -> Json {
    let (pgmap, total) = (&mon.pgmap, mon.pgmap.total());
    let space = pgmap.space(|_| true);
    let states = pgmap.by_state();
    let mut out = Json::object().with(
        "pgs_by_state",
        Json::array(
            states
                .iter()
                .map(|(state, n)| Json::object().with("state_name", state.to_string()).with("count", *n)),
        ),
    );
    out.put("num_pgs", pgmap.pgs.len());
    out.put("num_pools", osdmap::pools(&mon.osdmap).count());
    out.put("num_objects", total.sum().num_objects.max(0) as u64);
    out.put("data_bytes", total.sum().num_bytes.max(0) as u64);
    out.put("bytes_used", space.used_raw());
    out.put("bytes_avail", space.available);
    out.put("bytes_total", space.total);
    let (unknown, inactive) = not_serving(&states);
    let ratio = |n: u64| f64::from((n as f32) / (pgmap.pgs.len().max(1) as f32));
    if unknown > 0 {
        out.put("unknown_pgs_ratio", ratio(unknown));
    }
    if inactive > 0 {
        out.put("inactive_pgs_ratio", ratio(inactive));
    }
    for (what, some, of) in shortfalls(mon) {
        out.put(&format!("{what}_objects"), some);
        out.put(&format!("{what}_total"), of);
        out.put(&format!("{what}_ratio"), some as f64 / of as f64);
    }
    rates_into(&mut out, &pgmap.rates(None));
    out
}

/// Adds a second's client work to an object, where there is any.
pub(super) fn rates_into(out: &mut Json, rates: &Rates) {
    if rates.any_read {
        out.put("read_bytes_sec", rates.read_bytes);
    }
    if rates.any_write {
        out.put("write_bytes_sec", rates.write_bytes);
    }
    if rates.any_read || rates.any_write {
        out.put("read_op_per_sec", rates.reads);
        out.put("write_op_per_sec", rates.writes);
    }
}

/// A second's client work in words; empty where there is none.
pub(super) fn rates_text(rates: &Rates) -> String {
    let mut out = String::new();
    if rates.any_read {
        out += &format!("{}/s rd, ", bytes(rates.read_bytes));
    }
    if rates.any_write {
        out += &format!("{}/s wr, ", bytes(rates.write_bytes));
    }
    if !out.is_empty() {
        out += &format!("{} op/s rd, {} op/s wr", count(rates.reads), count(rates.writes));
    }
    out
}

/// How many PGs no OSD has reported, and how many reported ones serve no client.
fn not_serving(states: &[(PgState, u64)]) -> (u64, u64) {
    let unknown = states.iter().filter(|(state, _)| state.is_unknown()).map(|(_, n)| n).sum();
    let inactive = states
        .iter()
        .filter(|(state, _)| !state.is_unknown() && !state.has(PgState::ACTIVE))
        .map(|(_, n)| n)
        .sum();
    (unknown, inactive)
}

fn pgmap_text(mon: &Mon) -> String {
    let (pgmap, total) = (&mon.pgmap, mon.pgmap.total());
    let space = pgmap.space(|_| true);
    let pgs = pgmap.pgs.len();
    let mut out = String::from("  data:\n");
    out += &format!("    pools:   {} pools, {pgs} pgs\n", osdmap::pools(&mon.osdmap).count());
    out += &format!(
        "    objects: {} objects, {}\n",
        count(total.sum().num_objects.max(0) as u64),
        bytes(total.sum().num_bytes.max(0) as u64)
    );
    out += &format!(
        "    usage:   {} used, {} / {} avail\n",
        bytes(space.used_raw()),
        bytes(space.available),
        bytes(space.total)
    );
    let states = pgmap.by_state();
    let mut lines = Vec::new();
    let (unknown, inactive) = not_serving(&states);
    let percent = |n: u64| n as f64 / pgs.max(1) as f64 * 100.0;
    if unknown > 0 {
        lines.push(format!("{:.3}% pgs unknown", percent(unknown)));
    }
    if inactive > 0 {
        lines.push(format!("{:.3}% pgs not active", percent(inactive)));
    }
    for (what, some, of) in shortfalls(mon) {
        lines.push(format!("{some}/{of} objects {what} ({:.3}%)", some as f64 / of as f64 * 100.0));
    }
    let width = states.iter().map(|(_, n)| n.to_string().len()).max().unwrap_or(1);
    lines.extend(states.iter().map(|(state, n)| format!("{n:<width$} {state}")));
    out += &format!("    pgs:     {}\n \n", lines.join("\n             "));
    let work = rates_text(&pgmap.rates(None));
    if !work.is_empty() {
        out += &format!("  io:\n    client:   {work}\n \n");
    }
    out
}

fn health(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let detail = call.args.text("detail")?.is_some_and(|d| d == "detail");
    let health = mon.health(call.now);
    Ok(call.show(|| health.json(detail), || health.text(detail)))
}

fn health_mute(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let code = call.args.required("code")?;
    let until = match call.args.text("ttl")? {
        None => None,
        Some(ttl) => match parse_span(&ttl) {
            Some(seconds) => Some(call.now.after(Duration::from_secs(seconds.into()))),
            None => {
                return fail(
                    Errno::EINVAL,
                    format!("'{ttl}' is not a span of time, such as 90, 10m or 1h30m"),
                );
            }
        },
    };
    let mut mute = Mute { until, sticky: call.args.flag("sticky"), ..Mute::default() };
    if !mute.sticky {
        let health = mon.health(call.now);
        let Some(check) = health.get(&code) else {
            return fail(
                Errno::ENOENT,
                format!("health check {code} has found nothing; use --sticky to mute it anyway"),
            );
        };
        (mute.count, mute.summary) = (check.count, check.summary.clone());
    }
    mon.set_mute(&code, Some(&mute));
    Ok(Answer::default())
}

fn health_unmute(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    match call.args.text("code")? {
        Some(code) => mon.set_mute(&code, None),
        None => mon.mutes().into_keys().for_each(|code| mon.set_mute(&code, None)),
    }
    Ok(Answer::default())
}

fn fsid(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let fsid = mon.config.fsid.to_string();
    Ok(call.show(|| Json::object().with("fsid", fsid.as_str()), || format!("{fsid}\n")))
}

impl Mon {
    /// How many OSDs that are up run which version.
    pub(crate) fn osd_versions(&self) -> BTreeMap<String, u64> {
        let mut out = BTreeMap::new();
        for osd in osdmap::osds(&self.osdmap).filter(|osd| osdmap::is_up(&self.osdmap, *osd)) {
            let metadata = self.osd_metadata(osd);
            let version = metadata.get("ceph_version").map_or("unknown", |v| v.as_str());
            *out.entry(version.to_string()).or_default() += 1;
        }
        out
    }
}

/// Versions and how many run each, as an object.
pub(super) fn version_counts(counts: &BTreeMap<String, u64>) -> Json {
    counts.iter().fold(Json::object(), |out, (version, n)| out.with(version, *n))
}

fn versions(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let osds = mon.osd_versions();
    let mons = BTreeMap::from([(mon.config.version.clone(), 1)]);
    let mgrs = mon.manager_versions();
    let services = services::versions(mon);
    let mut overall = BTreeMap::new();
    let parts = [&mons, &mgrs, &osds].into_iter().chain(services.iter().map(|(_, versions)| versions));
    for (version, n) in parts.flatten() {
        *overall.entry(version.clone()).or_default() += n;
    }
    let mut json = Json::object()
        .with("mon", version_counts(&mons))
        .with("mgr", version_counts(&mgrs))
        .with("osd", version_counts(&osds))
        .with("mds", Json::object());
    services.iter().for_each(|(service, versions)| json.put(service, version_counts(versions)));
    let json = json.with("overall", version_counts(&overall));
    Ok(call.show_json(json))
}

fn features(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    Ok(call.show_json(feature_map(mon)))
}

/// The features of all that are connected, by kind.
pub(super) fn feature_map(mon: &Mon) -> Json {
    let mut counts: BTreeMap<&'static str, BTreeMap<u64, u64>> = BTreeMap::new();
    counts.entry("mon").or_default().insert(mon.config.profile.features_supported, 1);
    if mon.mgrmap.available {
        counts.entry("mgr").or_default().insert(mon.mgrmap.active_mgr_features, 1);
    }
    for session in mon.monitor_sessions() {
        let of_kind = counts.entry(session.info.entity.kind.as_str()).or_default();
        *of_kind.entry(session.info.features).or_default() += 1;
    }
    let mut json = Json::object();
    for kind in ["mon", "mds", "osd", "client", "mgr"] {
        if let Some(words) = counts.get(kind) {
            let groups = words.iter().map(|(word, n)| {
                Json::object()
                    .with("features", format!("{word:#x}"))
                    .with("release", "luminous")
                    .with("num", *n)
            });
            json.put(kind, Json::array(groups));
        }
    }
    json
}

fn time_sync_status(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let checks = Json::object().with("epoch", 1).with("round", 0).with("round_status", "finished");
    Ok(call.show_json(Json::object().with("timechecks", checks)))
}

fn log_last(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let num = call.args.int("num")?.unwrap_or(20).clamp(1, 10_000) as usize;
    let level = call.args.text("level")?.and_then(|l| LogLevel::from_name(&l)).unwrap_or(LogLevel::Info);
    let channel = call.args.text("channel")?.unwrap_or_else(|| "*".into());
    let lines = mon.log.last(num, level, &channel);
    let addrs = super::mon::addrs_json(&types::EntityAddrVec(vec![mon.config.addr]));
    let json = || {
        Json::array(lines.iter().map(|line| {
            let own = line.name == format!("mon.{}", mon.config.name);
            let of_line = Json::object().with("addrvec", Json::Array(vec![]));
            line.json(if own { addrs.clone() } else { of_line })
        }))
    };
    let text = || lines.iter().map(|line| line.text_line() + "\n").collect();
    Ok(call.show(json, text))
}

fn log(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let text = call.args.list("logtext")?.join(" ");
    mon.add_line(call.by.line(call.now, text));
    Ok(Answer::default())
}

fn df(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let detail = call.args.text("detail")?.is_some_and(|d| d == "detail");
    Ok(call.show(|| df_json(mon, detail), || df_text(mon, detail)))
}

/// Device classes and the OSDs in each; those without a class last.
pub(crate) fn classes(mon: &Mon) -> BTreeMap<String, Vec<i32>> {
    let mut out: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for osd in osdmap::osds(&mon.osdmap) {
        let class = osdmap::crush(&mon.osdmap).device_class(osd).unwrap_or("").to_string();
        out.entry(class).or_default().push(osd);
    }
    out
}

fn df_json(mon: &Mon, detail: bool) -> Json {
    let totals = |space: messages::StoreStatfs| {
        Json::object()
            .with("total_bytes", space.total)
            .with("total_avail_bytes", space.available)
            .with("total_used_bytes", space.used_raw())
            .with("total_used_raw_bytes", space.used_raw())
            .with("total_used_raw_ratio", ratio(space.used_raw(), space.total))
    };
    let stats = totals(mon.pgmap.space(|_| true))
        .with("num_osds", mon.pgmap.osds.len())
        .with("num_per_pool_osds", mon.pgmap.sum_osds(|stats| stats.num_per_pool_osds))
        .with("num_per_pool_omap_osds", mon.pgmap.sum_osds(|stats| stats.num_per_pool_omap_osds));
    let by_class = classes(mon)
        .iter()
        .filter(|(class, _)| !class.is_empty())
        .fold(Json::object(), |out, (class, osds)| {
            out.with(class, totals(mon.pgmap.space(|osd| osds.contains(&osd))))
        });
    let pools = osdmap::pools(&mon.osdmap).map(|(id, name, _)| {
        Json::object().with("name", name).with("id", id.0).with("stats", mon.pool_usage(id).json(detail))
    });
    Json::object()
        .with("stats", stats)
        .with("stats_by_class", by_class)
        .with("pools", Json::array(pools.collect::<Vec<_>>()))
}

/// A part as a ratio of a whole, rounded as a 32-bit float is.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => f64::from((part as f64 / whole as f64) as f32),
    }
}

fn df_text(mon: &Mon, detail: bool) -> String {
    let mut raw = Table::new().columns(Align::Left, &["CLASS"]);
    raw = raw.columns(Align::Right, &["SIZE", "AVAIL", "USED", "RAW USED", "%RAW USED"]);
    let mut line = |name: &str, space: messages::StoreStatfs| {
        raw.row([
            name.to_string(),
            bytes(space.total),
            bytes(space.available),
            bytes(space.used_raw()),
            bytes(space.used_raw()),
            crate::fmt::percent(ratio(space.used_raw(), space.total)),
        ]);
    };
    for (class, osds) in classes(mon).iter().filter(|(class, _)| !class.is_empty()) {
        line(class, mon.pgmap.space(|osd| osds.contains(&osd)));
    }
    line("TOTAL", mon.pgmap.space(|_| true));
    let mut pools =
        Table::new().columns(Align::Left, &["POOL"]).columns(Align::Right, &["ID", "PGS", "STORED"]);
    if detail {
        pools = pools.columns(Align::Right, &["(DATA)", "(OMAP)"]);
    }
    pools = pools.columns(Align::Right, &["OBJECTS", "USED"]);
    if detail {
        pools = pools.columns(Align::Right, &["(DATA)", "(OMAP)"]);
    }
    pools = pools.columns(Align::Right, &["%USED", "MAX AVAIL"]);
    if detail {
        let rest = ["QUOTA OBJECTS", "QUOTA BYTES", "DIRTY", "USED COMPR", "UNDER COMPR"];
        pools = pools.columns(Align::Right, &rest);
    }
    for (id, name, pool) in osdmap::pools(&mon.osdmap) {
        pools.row(mon.pool_usage(id).row(id, name, pool.pg_num, detail));
    }
    format!("--- RAW STORAGE ---\n{} \n--- POOLS ---\n{}", raw.render(), pools.render())
}
