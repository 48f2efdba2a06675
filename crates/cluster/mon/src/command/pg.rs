//! `pg …`.

use messages::{ObjectStatSum, OsdStat, PgStat, PgState, PoolStat, StoreStatfs};
use types::{OsdId, PgId, PoolId};

use super::osd::set_text;
use super::{Answer, Call, Command, Failure, Format, fail};
use crate::fmt::{Align, Json, Table, bytes, count};
use crate::mon::Mon;
use crate::service::osdmap;
use crate::stats::json::{pg_json, space_into, sum_json};
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command { signature: "pg stat", help: "The PGs in one line", module: "pg", perm: "r", run: stat },
    Command {
        signature: "pg dump name=dumpcontents,type=CephChoices,strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief,n=N,req=false",
        help: "Everything about PGs, pools and OSDs",
        module: "pg",
        perm: "r",
        run: dump,
    },
    Command {
        signature: "pg ls name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        help: "PGs, of a pool or in given states",
        module: "pg",
        perm: "r",
        run: ls,
    },
    Command {
        signature: "pg ls-by-pool name=poolstr,type=CephString name=states,type=CephString,n=N,req=false",
        help: "PGs of a pool",
        module: "pg",
        perm: "r",
        run: ls,
    },
    Command {
        signature: "pg ls-by-osd name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        help: "PGs on an OSD",
        module: "pg",
        perm: "r",
        run: ls,
    },
    Command {
        signature: "pg ls-by-primary name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        help: "PGs that an OSD leads",
        module: "pg",
        perm: "r",
        run: ls,
    },
    Command {
        signature: "pg dump_json name=dumpcontents,type=CephChoices,strings=all|summary|sum|pools|osds|pgs,n=N,req=false",
        help: "Everything about PGs, pools and OSDs, as JSON",
        module: "pg",
        perm: "r",
        run: |mon, call| dump(mon, &Call { format: json_format(call), ..*call }),
    },
    Command {
        signature: "pg dump_pools_json",
        help: "The pools' statistics, as JSON",
        module: "pg",
        perm: "r",
        run: |mon, call| {
            let data = part_of(&dump_json(mon), "pool_stats");
            let shown = Call { format: json_format(call), ..*call }.show_json(data);
            Ok(Answer { status: "dumped pools".into(), ..shown })
        },
    },
    Command {
        signature: "pg map name=pgid,type=CephPgid",
        help: "Where a PG is",
        module: "pg",
        perm: "r",
        run: map,
    },
];

const NOTE: &str = "\n* NOTE: omap figures come from deep scrubs and may be older than the rest.\n";

fn stat(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (pgmap, total) = (&mon.pgmap, mon.pgmap.total());
    let space = pgmap.space(|_| true);
    let mut states = pgmap.by_state();
    states.sort_unstable();
    let rates = pgmap.rates(None);
    let json = || {
        let by_state =
            states.iter().map(|(state, n)| Json::object().with("name", state.to_string()).with("num", *n));
        let mut summary = Json::object()
            .with("num_pg_by_state", Json::array(by_state))
            .with("num_pgs", pgmap.pgs.len())
            .with("num_bytes", total.sum().num_bytes)
            .with("total_bytes", space.total)
            .with("total_avail_bytes", space.available)
            .with("total_used_bytes", space.used_raw())
            .with("total_used_raw_bytes", space.used_raw());
        if rates.any_read {
            summary.put("read_bytes_sec", rates.read_bytes);
        }
        if rates.any_write {
            summary.put("write_bytes_sec", rates.write_bytes);
        }
        if rates.any_read || rates.any_write {
            summary.put("io_sec", rates.reads + rates.writes);
        }
        Json::object().with("pg_ready", true).with("pg_summary", summary)
    };
    let text = || {
        let states: Vec<String> = states.iter().map(|(state, n)| format!("{n} {state}")).collect();
        let mut out = format!(
            "{} pgs: {}; {} data, {} used, {} / {} avail",
            pgmap.pgs.len(),
            states.join(", "),
            bytes(total.sum().num_bytes.max(0) as u64),
            bytes(space.used_raw()),
            bytes(space.available),
            bytes(space.total)
        );
        if rates.any_read || rates.any_write {
            out += "; ";
            if rates.any_read {
                out += &format!("{}/s rd, ", bytes(rates.read_bytes));
            }
            if rates.any_write {
                out += &format!("{}/s wr, ", bytes(rates.write_bytes));
            }
            out += &format!("{} op/s", count(rates.reads + rates.writes));
        }
        out + "\n"
    };
    Ok(call.show(json, text))
}

fn map(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let text = call.args.required("pgid")?;
    let Ok(raw) = text.parse::<PgId>() else {
        return fail(Errno::EINVAL, format!("'{text}' is not a PG (POOL.SEED)"));
    };
    let Some(pg) = mon.osdmap.raw_pg_to_pg(raw) else {
        return fail(Errno::ENOENT, format!("there is no pool {}", raw.pool));
    };
    let place = mon.osdmap.pg_to_up_acting(pg);
    let epoch = mon.osdmap.epoch.0;
    let json = || {
        Json::object()
            .with("epoch", epoch)
            .with("raw_pgid", raw.to_string())
            .with("pgid", pg.to_string())
            .with("up", Json::array(place.up.iter().map(|o| o.0)))
            .with("acting", Json::array(place.acting.iter().map(|o| o.0)))
    };
    let (up, acting) = (set_text(&place.up), set_text(&place.acting));
    Ok(call.show(json, || format!("osdmap e{epoch} pg {raw} ({pg}) -> up {up} acting {acting}\n")))
}

fn ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let pool = match call.args.text("poolstr")? {
        Some(name) => Some(super::pool::find(mon, &name)?),
        None => call.args.int("pool")?.map(PoolId),
    };
    let osd = call.args.osd("osd")?;
    if let Some(osd) = osd.filter(|osd| !osdmap::is_up(&mon.osdmap, *osd)) {
        return fail(Errno::EAGAIN, format!("osd {osd} is not up"));
    }
    let primary_only = call.args.prefix()? == "pg ls-by-primary";
    let mut bits = PgState::default();
    for name in call.args.list("states")? {
        for name in name.split('+').filter(|n| *n != "all") {
            match PgState::named(name) {
                Some(bit) => bits = bits.with(bit),
                None => return fail(Errno::EINVAL, format!("'{name}' is not a state of PGs")),
            }
        }
    }
    let wanted = |id: &PgId, pg: &PgStat| {
        let on_osd = |osd: i32| match (primary_only, OsdId(osd)) {
            (true, osd) => pg.acting_primary == osd,
            (false, osd) => pg.acting.contains(&osd) || pg.up.contains(&osd),
        };
        pool.is_none_or(|p| p == id.pool) && osd.is_none_or(on_osd) && pg.state.has(bits)
    };
    let pgs: Vec<(&PgId, &PgStat)> = mon.pgmap.pgs.iter().filter(|(id, pg)| wanted(id, pg)).collect();
    let json = || {
        Json::object()
            .with("pg_ready", true)
            .with("pg_stats", Json::array(pgs.iter().map(|(id, pg)| pg_json(**id, pg))))
    };
    let text = || {
        let numbers =
            ["OBJECTS", "DEGRADED", "MISPLACED", "UNFOUND", "BYTES", "OMAP_BYTES*", "OMAP_KEYS*", "LOG"];
        let mut table = Table::new()
            .columns(Align::Left, &["PG"])
            .columns(Align::Right, &numbers)
            .columns(Align::Left, &["STATE"])
            .columns(Align::Right, &["SINCE", "VERSION", "REPORTED"])
            .columns(Align::Left, &["UP", "ACTING", "SCRUB_STAMP", "DEEP_SCRUB_STAMP"]);
        for (id, pg) in &pgs {
            let since = u64::from(call.now.sec.saturating_sub(pg.last_change.sec));
            table.row([
                id.to_string(),
                pg.stats.sum.num_objects.to_string(),
                pg.stats.sum.num_objects_degraded.to_string(),
                pg.stats.sum.num_objects_misplaced.to_string(),
                pg.stats.sum.num_objects_unfound.to_string(),
                pg.stats.sum.num_bytes.to_string(),
                pg.stats.sum.num_omap_bytes.to_string(),
                pg.stats.sum.num_omap_keys.to_string(),
                pg.log_size.to_string(),
                pg.state.to_string(),
                super::status::span(since),
                pg.version.to_string(),
                format!("{}:{}", pg.reported_epoch.0, pg.reported_seq),
                format!("{}p{}", set_text(&pg.up), pg.up_primary),
                format!("{}p{}", set_text(&pg.acting), pg.acting_primary),
                crate::fmt::stamp(pg.last_scrub_stamp),
                crate::fmt::stamp(pg.last_deep_scrub_stamp),
            ]);
        }
        table.render() + NOTE
    };
    Ok(call.show(json, text))
}

fn space_json(space: &StoreStatfs) -> Json {
    let mut out = Json::object();
    space_into(&mut out, space);
    out
}

fn pool_json(stat: &PoolStat) -> Json {
    Json::object()
        .with("stat_sum", sum_json(&stat.stats.sum))
        .with("store_stats", space_json(&stat.store_stats))
        .with("log_size", stat.log_size)
        .with("ondisk_log_size", stat.ondisk_log_size)
        .with("up", stat.up)
        .with("acting", stat.acting)
        .with("num_store_stats", stat.num_store_stats)
}

fn osd_json(mon: &Mon, osd: Option<i32>) -> Json {
    let stats = osd.and_then(|osd| mon.pgmap.osds.get(&osd)).cloned().unwrap_or_default();
    let sum = |of: fn(&OsdStat) -> u32| match osd {
        Some(_) => of(&stats).into(),
        None => mon.pgmap.sum_osds(of),
    };
    let (space, osds) = match osd {
        Some(_) => (stats.statfs, 1),
        None => (mon.pgmap.space(|_| true), mon.pgmap.osds.len()),
    };
    let kb = |n: i64| n.max(0) as u64 / 1024;
    let mut out = Json::object();
    if let Some(osd) = osd {
        out.put("osd", osd);
    }
    let perf = Json::object()
        .with("commit_latency_ms", stats.os_perf_stat.commit_latency_ns / 1_000_000)
        .with("apply_latency_ms", stats.os_perf_stat.apply_latency_ns / 1_000_000)
        .with("commit_latency_ns", stats.os_perf_stat.commit_latency_ns)
        .with("apply_latency_ns", stats.os_perf_stat.apply_latency_ns);
    let hist = Json::object().with("histogram", Json::Array(vec![])).with("upper_bound", 1);
    out.with("up_from", stats.up_from.0)
        .with("seq", stats.seq)
        .with("num_pgs", sum(|stats| stats.num_pgs))
        .with("num_osds", osds)
        .with("num_per_pool_osds", sum(|stats| stats.num_per_pool_osds))
        .with("num_per_pool_omap_osds", sum(|stats| stats.num_per_pool_omap_osds))
        .with("kb", space.total / 1024)
        .with("kb_used", space.used_raw() / 1024)
        .with("kb_used_data", kb(space.allocated))
        .with("kb_used_omap", kb(space.omap_allocated))
        .with("kb_used_meta", kb(space.internal_metadata))
        .with("kb_avail", space.available / 1024)
        .with("statfs", space_json(&space))
        .with("hb_peers", Json::array(stats.hb_peers.iter().map(|peer| peer.0)))
        .with("snap_trim_queue_len", 0)
        .with("num_snap_trimming", 0)
        .with("num_shards_repaired", 0)
        .with("op_queue_age_hist", hist)
        .with("perf_stat", perf)
        .with("alerts", Json::Array(vec![]))
        .with("network_ping_times", Json::Array(vec![]))
}

pub(super) fn dump_json(mon: &Mon) -> Json {
    let pools = mon.pgmap.pools();
    let pool_stats = pools.iter().rev().map(|(id, stats)| {
        let sums = Json::object().with("poolid", id.0).with("num_pg", stats.num_pg);
        match (sums, pool_json(&stats.stat)) {
            (Json::Object(mut all), Json::Object(rest)) => {
                all.extend(rest);
                Json::Object(all)
            }
            (sums, _) => sums,
        }
    });
    let statfs = mon.pgmap.pool_space.iter().map(|((pool, osd), space)| {
        let mut out = Json::object().with("poolid", pool.0).with("osd", *osd);
        space_into(&mut out, space);
        out
    });
    let map = Json::object()
        .with("version", mon.pgmap.version)
        .with("stamp", mon.pgmap.stamp.to_string())
        .with("last_osdmap_epoch", 0)
        .with("last_pg_scan", 0)
        .with("pg_stats_sum", pool_json(&mon.pgmap.total().stat))
        .with("osd_stats_sum", osd_json(mon, None))
        .with("pg_stats_delta", pool_json(&PoolStat::default()).with("stamp_delta", "0.000000"))
        .with("pg_stats", Json::array(mon.pgmap.pgs.iter().map(|(id, pg)| pg_json(*id, pg))))
        .with("pool_stats", Json::array(pool_stats))
        .with("osd_stats", Json::array(mon.pgmap.osds.keys().rev().map(|osd| osd_json(mon, Some(*osd)))))
        .with("pool_statfs", Json::array(statfs));
    Json::object().with("pg_ready", true).with("pg_map", map)
}

fn dump_text(mon: &Mon) -> String {
    let mut out = format!(
        "version {}\nstamp {}\nlast_osdmap_epoch 0\nlast_pg_scan 0\n",
        mon.pgmap.version, mon.pgmap.stamp
    );
    let counts = [
        "OBJECTS",
        "MISSING_ON_PRIMARY",
        "DEGRADED",
        "MISPLACED",
        "UNFOUND",
        "BYTES",
        "OMAP_BYTES*",
        "OMAP_KEYS*",
        "LOG",
        "DISK_LOG",
    ];
    let cells = |sums: &ObjectStatSum, log: i64| {
        [
            sums.num_objects,
            sums.num_objects_missing_on_primary,
            sums.num_objects_degraded,
            sums.num_objects_misplaced,
            sums.num_objects_unfound,
            sums.num_bytes,
            sums.num_omap_bytes,
            sums.num_omap_keys,
            log,
            log,
        ]
        .map(|n| n.to_string())
    };
    let mut pgs = Table::new()
        .columns(Align::Left, &["PG_STAT"])
        .columns(Align::Right, &counts)
        .columns(Align::Left, &["STATE", "STATE_STAMP"])
        .columns(Align::Right, &["VERSION", "REPORTED"])
        .columns(Align::Left, &["UP"])
        .columns(Align::Right, &["UP_PRIMARY"])
        .columns(Align::Left, &["ACTING"])
        .columns(Align::Right, &["ACTING_PRIMARY", "LAST_SCRUB"])
        .columns(Align::Left, &["SCRUB_STAMP"])
        .columns(Align::Right, &["LAST_DEEP_SCRUB"])
        .columns(Align::Left, &["DEEP_SCRUB_STAMP"])
        .columns(Align::Right, &["SNAPTRIMQ_LEN"]);
    for (id, pg) in &mon.pgmap.pgs {
        let mut row = vec![id.to_string()];
        row.extend(cells(&pg.stats.sum, pg.log_size));
        row.extend([
            pg.state.to_string(),
            crate::fmt::stamp(pg.last_change),
            pg.version.to_string(),
            format!("{}:{}", pg.reported_epoch.0, pg.reported_seq),
            set_text(&pg.up),
            pg.up_primary.to_string(),
            set_text(&pg.acting),
            pg.acting_primary.to_string(),
            pg.last_scrub.to_string(),
            crate::fmt::stamp(pg.last_scrub_stamp),
            pg.last_deep_scrub.to_string(),
            crate::fmt::stamp(pg.last_deep_scrub_stamp),
            pg.snaptrimq_len.to_string(),
        ]);
        pgs.row(row);
    }
    out += &pgs.render();
    let mut pools = Table::new().columns(Align::Left, &["POOLID"]).columns(Align::Right, &counts);
    let mut pool_row = |name: String, stat: &PoolStat| {
        let mut row = vec![name];
        row.extend(cells(&stat.stats.sum, stat.log_size));
        pools.row(row);
    };
    mon.pgmap.pools().iter().rev().for_each(|(id, stats)| pool_row(id.to_string(), &stats.stat));
    pool_row("sum".into(), &mon.pgmap.total().stat);
    out += &format!("\n{}", pools.render());
    let mut osds = Table::new()
        .columns(Align::Left, &["OSD_STAT"])
        .columns(Align::Right, &["USED", "AVAIL", "USED_RAW", "TOTAL"])
        .columns(Align::Right, &["HB_PEERS", "PG_SUM", "PRIMARY_PG_SUM"]);
    let mut osd_row = |name: String, space: &StoreStatfs, rest: Vec<String>| {
        let used = bytes(space.used_raw());
        let mut row = vec![name, used.clone(), bytes(space.available), used, bytes(space.total)];
        row.extend(rest);
        osds.row(row);
    };
    for (osd, stats) in mon.pgmap.osds.iter().rev() {
        let leads = mon.pgmap.pgs.values().filter(|pg| pg.acting_primary == OsdId(*osd)).count();
        let rest = vec![set_text(&stats.hb_peers), mon.pgmap.pgs_of(*osd).to_string(), leads.to_string()];
        osd_row(osd.to_string(), &stats.statfs, rest);
    }
    osd_row("sum".into(), &mon.pgmap.space(|_| true), vec![]);
    out + "\n" + &osds.render() + NOTE
}

/// The format of a command that answers in JSON in any case.
fn json_format(call: &Call<'_>) -> Format {
    match call.format {
        Format::Plain => Format::Json,
        other => other,
    }
}

fn dump(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let what = call.args.list("dumpcontents")?;
    let only = |part: &str| what.len() == 1 && what.iter().any(|w| w == part);
    let brief = |(id, pg): (&PgId, &PgStat)| {
        Json::object()
            .with("pgid", id.to_string())
            .with("state", pg.state.to_string())
            .with("up", Json::array(pg.up.iter().map(|osd| osd.0)))
            .with("acting", Json::array(pg.acting.iter().map(|osd| osd.0)))
            .with("up_primary", pg.up_primary.0)
            .with("acting_primary", pg.acting_primary.0)
    };
    let json = || match &dump_json(mon) {
        all if only("pgs") => part_of(all, "pg_stats"),
        all if only("pools") => part_of(all, "pool_stats"),
        all if only("osds") => part_of(all, "osd_stats"),
        _ if only("pgs_brief") => Json::object()
            .with("pg_ready", true)
            .with("pg_stats", Json::array(mon.pgmap.pgs.iter().map(brief))),
        all => all.clone(),
    };
    let text = || if only("pgs_brief") { brief_text(mon) } else { dump_text(mon) };
    let mut answer = call.show(json, text);
    answer.status = format!("dumped {}", if what.is_empty() { "all".into() } else { what.join(",") });
    Ok(answer)
}

/// One line for each PG with the columns of Ceph's `pg dump pgs_brief`, which scripts read by their numbers.
fn brief_text(mon: &Mon) -> String {
    let columns = ["PG_STAT", "STATE", "UP", "UP_PRIMARY", "ACTING", "ACTING_PRIMARY"];
    let mut table = Table::new().columns(Align::Left, &columns);
    for (id, pg) in &mon.pgmap.pgs {
        table.row([
            id.to_string(),
            pg.state.to_string(),
            set_text(&pg.up),
            pg.up_primary.0.to_string(),
            set_text(&pg.acting),
            pg.acting_primary.0.to_string(),
        ]);
    }
    table.render()
}

fn part_of(all: &Json, key: &str) -> Json {
    let part = member(all, "pg_map").and_then(|map| member(map, key)).cloned();
    Json::object().with("pg_ready", true).with(key, part.unwrap_or(Json::Array(vec![])))
}

/// A member of an object.
pub(super) fn member<'a>(object: &'a Json, key: &str) -> Option<&'a Json> {
    let Json::Object(members) = object else { return None };
    members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}
