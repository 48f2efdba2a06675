//! `osd …` that answers questions about single OSDs: whether they can stop or go, what they said, whom they hold up.

use std::collections::{BTreeMap, BTreeSet};

use messages::{PgStat, PgState};
use types::{Errno, OsdId, PgId};

use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::{Align, Json, Table};
use crate::mon::Mon;
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd ok-to-stop name=ids,type=CephString,n=N name=max,type=CephInt,range=1,req=false",
        help: "Whether PGs stay available when OSDs stop",
        module: "osd",
        perm: "r",
        run: ok_to_stop,
    },
    Command {
        signature: "osd safe-to-destroy name=ids,type=CephString,n=N",
        help: "Whether OSDs can go for good without any data being lost",
        module: "osd",
        perm: "r",
        run: safe_to_destroy,
    },
    Command {
        signature: "osd last-stat-seq name=id,type=CephOsdName",
        help: "Number of an OSD's last report",
        module: "osd",
        perm: "r",
        run: last_stat_seq,
    },
    Command {
        signature: "osd blocked-by",
        help: "OSDs that PGs wait for",
        module: "osd",
        perm: "r",
        run: blocked_by,
    },
    Command {
        signature: "osd numa-status",
        help: "NUMA nodes that OSDs are bound to (none are)",
        module: "osd",
        perm: "r",
        run: numa_status,
    },
    Command {
        signature: "osd count-metadata name=property,type=CephString",
        help: "How many OSDs said what of a property",
        module: "osd",
        perm: "r",
        run: |mon, call| {
            let all = osdmap::osds(&mon.osdmap).map(|osd| mon.osd_metadata(osd)).filter(|m| !m.is_empty());
            count(call, all.collect())
        },
    },
    Command {
        signature: "mon count-metadata name=property,type=CephString",
        help: "How many monitors said what of a property",
        module: "mon",
        perm: "r",
        run: |mon, call| count(call, vec![mon.own_metadata()]),
    },
];

fn count(call: &Call<'_>, all: Vec<BTreeMap<String, String>>) -> Result<Answer, Failure> {
    let property = call.args.required("property")?;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for one in &all {
        *counts.entry(one.get(&property).map_or("unknown", String::as_str)).or_default() += 1;
    }
    Ok(call.show_json(counts.iter().fold(Json::object(), |out, (value, n)| out.with(value, *n))))
}

/// The OSDs that a command names; all of them for `*`.
fn named(mon: &Mon, call: &Call<'_>) -> Result<BTreeSet<i32>, Failure> {
    let osds = call.osds(&mon.osdmap)?;
    if osds.is_empty() { fail(Errno::EINVAL, "no OSD was named") } else { Ok(osds) }
}

fn ok_to_stop(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let osds = named(mon, call)?;
    let mut lists: BTreeMap<&str, Vec<PgId>> = BTreeMap::new();
    let (mut ok, mut bad) = (0, 0);
    for (id, pg) in mon.pgmap.pgs.iter() {
        let touched = pg.acting.iter().any(|osd| osds.contains(&osd.0));
        let left = pg.acting.iter().filter(|osd| osd.0 >= 0 && !osds.contains(&osd.0)).count();
        let min_size = mon.osdmap.pools.get(&id.pool).map_or(1, |pool| usize::from(pool.min_size));
        let what = match pg.state {
            // Nobody knows where it is.
            state if state.is_unknown() => Some("unknown"),
            _ if !touched => continue,
            state if !state.has(PgState::ACTIVE) => Some("bad_already_inactive"),
            _ if left < min_size => Some("bad_become_inactive"),
            _ => None,
        };
        match what {
            Some(what) => {
                lists.entry(what).or_default().push(*id);
                bad += 1;
            }
            None => ok += 1,
        }
    }
    let json = Json::object()
        .with("ok_to_stop", bad == 0)
        .with("osds", Json::array(osds.iter().copied()))
        .with("num_ok_pgs", ok)
        .with("num_not_ok_pgs", bad);
    let json = lists
        .iter()
        .fold(json, |out, (what, pgs)| out.with(what, Json::array(pgs.iter().map(PgId::to_string))));
    // One line also in plain form, as Ceph's programs have it.
    let data = (json.compact() + "\n").into_bytes();
    match bad {
        0 => Ok(Answer { status: String::new(), data }),
        _ => {
            let status =
                format!("unsafe to stop osd(s) at this time ({bad} PGs are or would become offline)");
            Err(Failure::Shown(Errno::EBUSY, Answer { status, data }))
        }
    }
}

/// What the monitor knows of what OSDs hold.
#[derive(Default)]
pub(super) struct Safety {
    /// Can go without any data being lost.
    safe: Vec<i32>,
    /// Have PGs mapped to them.
    active: Vec<i32>,
    /// Have not reported.
    silent: Vec<i32>,
    /// Reported last that they hold PGs.
    stored: Vec<i32>,
    /// Why not all can go; empty if they can.
    pub why: Vec<String>,
}

/// Whether these OSDs can go for good without any data being lost.
pub(super) fn safety(mon: &Mon, osds: BTreeSet<i32>) -> Safety {
    let holds = |osd: i32, pg: &PgStat| pg.acting.contains(&OsdId(osd)) || pg.up.contains(&OsdId(osd));
    let mut found = Safety::default();
    let mut mapped = 0;
    for osd in osds {
        let pgs = mon.pgmap.pgs.values().filter(|pg| holds(osd, pg)).count();
        match mon.pgmap.osds.get(&osd) {
            _ if !osdmap::exists(&mon.osdmap, osd) => found.safe.push(osd),
            _ if pgs > 0 => {
                found.active.push(osd);
                mapped += pgs;
            }
            None => found.silent.push(osd),
            Some(stats) if stats.num_pgs > 0 => found.stored.push(osd),
            Some(_) => found.safe.push(osd),
        }
    }
    let unknown = mon.pgmap.pgs.values().filter(|pg| pg.state.is_unknown()).count();
    let (active, silent, stored) = (ids(&found.active), ids(&found.silent), ids(&found.stored));
    if !active.is_empty() {
        found.why.push(format!("OSD(s) {active} have {mapped} pgs currently mapped to them."));
    }
    if !silent.is_empty() {
        found.why.push(format!("OSD(s) {silent} have no reported stats, which could still hold data."));
    }
    if !stored.is_empty() {
        found.why.push(format!("OSD(s) {stored} last reported that they hold PGs."));
    }
    if unknown > 0 {
        let why = format!("{unknown} pgs have unknown state; they must report before this can be decided.");
        found.why.push(why);
    }
    found
}

fn ids(osds: &[i32]) -> String {
    osds.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

fn safe_to_destroy(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let found = safety(mon, named(mon, call)?);
    let list = |osds: &[i32]| Json::array(osds.iter().copied());
    let json = || {
        Json::object()
            .with("safe_to_destroy", list(&found.safe))
            .with("active", list(&found.active))
            .with("missing_stats", list(&found.silent))
            .with("stored_pgs", list(&found.stored))
    };
    let mut answer = call.show(json, String::new);
    if found.why.is_empty() {
        let text =
            format!("OSD(s) {} are safe to destroy without reducing data durability.", ids(&found.safe));
        answer.status = text;
        Ok(answer)
    } else {
        answer.status = found.why.join(" ");
        Err(Failure::Shown(Errno::EBUSY, answer))
    }
}

fn last_stat_seq(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let Some(osd) = call.args.osd("id")? else { return fail(Errno::EINVAL, "no OSD was named") };
    let seq = mon.pgmap.osds.get(&osd).map_or(0, |stats| stats.seq);
    Ok(call.show(|| Json::from(seq), || format!("{seq}\n")))
}

fn blocked_by(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut blocked: BTreeMap<i32, u64> = BTreeMap::new();
    for osd in mon.pgmap.pgs.values().flat_map(|pg| &pg.blocked_by) {
        *blocked.entry(osd.0).or_default() += 1;
    }
    let json = || {
        let one = |(osd, n): (&i32, &u64)| Json::object().with("id", *osd).with("num_blocked", *n);
        let infos = Json::object().with("osd_blocked_by_infos", Json::array(blocked.iter().map(one)));
        Json::object().with("pg_ready", true).with("osd_blocked_by", infos)
    };
    let text = || {
        let (left, right) = (Align::Left, Align::Right);
        let mut table = Table::new().column("osd", left, right).column("num_blocked", left, right);
        blocked.iter().for_each(|(osd, n)| table.row([osd.to_string(), n.to_string()]));
        table.render()
    };
    Ok(call.show(json, text))
}

fn numa_status(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let hosts: Vec<(i32, String)> = osdmap::osds(&mon.osdmap)
        .filter_map(|osd| Some((osd, mon.osd_metadata(osd).remove("hostname")?)))
        .collect();
    let json = || {
        Json::array(
            hosts.iter().map(|(osd, host)| Json::object().with("osd", *osd).with("host", host.as_str())),
        )
    };
    let text = || {
        let mut table = Table::new()
            .columns(Align::Right, &["OSD"])
            .columns(Align::Left, &["HOST"])
            .columns(Align::Right, &["NETWORK", "STORAGE", "AFFINITY"])
            .columns(Align::Left, &["CPUS"]);
        for (osd, host) in &hosts {
            table.row([&osd.to_string(), host, "-", "-", "-", "-"]);
        }
        table.render()
    };
    Ok(call.show(json, text))
}
