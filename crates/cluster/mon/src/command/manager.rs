//! What Ceph's manager answers besides statistics: `osd status`, the autoscaler and the balancer (both off), recovery that
//! is forced (there is none to force), its devices.

use messages::StoreStatfs;
use types::{Errno, OsdId, PgId};

use super::{Answer, Call, Command, Failure, Format, fail, mgr_r};
use crate::fmt::{Align, Json, Table};
use crate::mon::Mon;
use crate::service::osdmap;

macro_rules! forced {
    ($($name:literal $word:literal $is_cancel:literal,)*) => {
        &[
            mgr_r("osd status name=bucket,type=CephString,req=false", "Space and load of the OSDs", status),
            mgr_r("osd pool autoscale-status name=format,type=CephString,req=false", "Pools and their PGs (the autoscaler is off)", autoscale_status),
            mgr_r("balancer status", "State of the balancer (it is off)", balancer_status),
            mgr_r("balancer ls", "Plans of the balancer (there are none)", |_, call| Ok(call.show_json(Json::Array(vec![])))),
            mgr_r("balancer mode name=mode,type=CephChoices,strings=none|crush-compat|upmap", "Set the balancer's mode (only none)", balancer_mode),
            mgr_r("balancer off", "Switch the balancer off (it is)", |_, _| Ok(Answer::default())),
            mgr_r("device ls-by-daemon name=who,type=CephString", "Devices of a daemon (none are watched)", no_devices),
            mgr_r("device ls-by-host name=host,type=CephString", "Devices of a host (none are watched)", no_devices),
            mgr_r("pg debug name=debugop,type=CephChoices,strings=unfound_objects_exist|degraded_pgs_exist", "Whether objects are unfound, or PGs degraded", |_, call| {
                // Each object has one copy: none can be missing where another has it.
                Ok(Answer::data(if call.args.required("debugop")?.is_empty() { "" } else { "FALSE\n" }))
            }),
            $(
                mgr_r(concat!("pg ", $name, " name=pgid,type=CephPgid,n=N"), concat!("PGs' ", $word, " (there is none to force)"), |mon, call| {
                    let mut pgs = Vec::new();
                    for text in call.args.list("pgid")? {
                        match text.parse::<PgId>() {
                            Ok(pg) if mon.pgmap.pgs.contains_key(&pg) => pgs.push(pg),
                            _ => return fail(Errno::ENOENT, format!("pg {text} does not exist")),
                        }
                    }
                    Ok(nothing_forced(&pgs, $word, $is_cancel))
                }),
                mgr_r(concat!("osd pool ", $name, " name=who,type=CephPoolname,n=N"), concat!("A pool's ", $word, " (there is none to force)"), |mon, call| {
                    let mut pgs = Vec::new();
                    for name in call.args.list("who")? {
                        let Some(pool) = mon.osdmap.pool_by_name(&name) else {
                            return fail(Errno::ENOENT, format!("unrecognized pool '{name}'"));
                        };
                        pgs.extend(mon.pgmap.pgs.keys().copied().filter(|pg| pg.pool == pool));
                    }
                    Ok(nothing_forced(&pgs, $word, $is_cancel))
                }),
            )*
        ]
    };
}

pub(super) const COMMANDS: &[Command] = forced![
    "force-recovery" "recovery" false,
    "cancel-force-recovery" "recovery" true,
    "force-backfill" "backfilling" false,
    "cancel-force-backfill" "backfill" true,
];

fn nothing_forced(pgs: &[PgId], word: &str, is_cancel: bool) -> Answer {
    let line = |pg: &PgId| match is_cancel {
        true => format!("pg {pg} {word} not forced; "),
        false => format!("pg {pg} doesn't require {word}; "),
    };
    Answer::status(pgs.iter().map(line).collect::<String>())
}

fn no_devices(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let heading = match call.args.text("host")? {
        Some(_) => "DEVICE  DEV  DAEMONS  EXPECTED FAILURE\n",
        None => "DEVICE  HOST:DEV  EXPECTED FAILURE\n",
    };
    Ok(call.show(|| Json::Array(vec![]), || heading.into()))
}

fn balancer_status(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let json = Json::object()
        .with("active", false)
        .with("last_optimize_duration", "")
        .with("last_optimize_started", "")
        .with("mode", "none")
        .with("no_optimization_needed", false)
        .with("optimize_result", "the balancer is not supported yet; PGs stay where CRUSH places them")
        .with("plans", Json::Array(vec![]));
    Ok(call.show_json(json))
}

fn balancer_mode(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    match call.args.required("mode")?.as_str() {
        "none" => Ok(Answer::default()),
        other => {
            let text =
                format!("the balancer is not supported yet: '{other}' would move data, which can't be moved");
            fail(Errno::EOPNOTSUPP, text)
        }
    }
}

/// A number in at most five characters: `448`, `41.0k`, `2047M`.
fn short(value: u64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let (mut unit, mut size) = (0, value as f64);
    while size >= 1024.0 * 4.0 && unit + 1 < UNITS.len() || size >= 1000.0 && unit == 0 {
        (unit, size) = (unit + 1, size / 1024.0);
    }
    let places = if unit == 0 || size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else {
        2
    };
    format!("{size:.places$}{}", UNITS[unit])
}

fn status(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = &mon.osdmap;
    let mut osds: Vec<i32> = osdmap::osds(map).collect();
    if let Some(name) = call.args.text("bucket")?.filter(|name| !name.is_empty()) {
        let Some(id) = map.crush.item_by_name(&name) else {
            return fail(Errno::EINVAL, format!("Bucket not found: {name}"));
        };
        let below = crate::crush_view::walk_from(&map.crush, id);
        osds.retain(|osd| below.iter().any(|node| node.id == *osd));
    }
    let state = |osd: i32| {
        let state = map.osd(OsdId(osd)).map_or(0, |entry| entry.state);
        super::osd::states(state)
    };
    let host = |osd: i32| mon.osd_metadata(osd).get("hostname").cloned().unwrap_or_default();
    let space = |osd: i32| match mon.pgmap.osds.get(&osd) {
        Some(stat) => stat.statfs,
        None => StoreStatfs::default(),
    };
    let used = |osd: i32| space(osd).total.saturating_sub(space(osd).available);
    let rates = |osd: i32| mon.pgmap.osd_rates(osd);
    let json = || {
        let one = |osd: &i32| {
            let rates = rates(*osd);
            Json::object()
                .with("host name", host(*osd))
                .with("id", *osd)
                .with("kb available", space(*osd).available)
                .with("kb used", used(*osd))
                .with("read byte rate", rates.read_bytes)
                .with("read ops rate", rates.reads)
                .with("state", Json::array(state(*osd)))
                .with("write byte rate", rates.write_bytes)
                .with("write ops rate", rates.writes)
        };
        Json::object().with("OSDs", Json::array(osds.iter().map(one)))
    };
    let text = || {
        let mut table = Table::new().column("ID", Align::Right, Align::Right).columns(Align::Left, &["HOST"]);
        table = table.columns(Align::Right, &["USED", "AVAIL", "WR OPS", "WR DATA", "RD OPS", "RD DATA"]);
        table = table.columns(Align::Left, &["STATE"]);
        for osd in &osds {
            let rates = rates(*osd);
            table.row([
                osd.to_string(),
                host(*osd),
                short(used(*osd)),
                short(space(*osd).available),
                short(rates.writes),
                short(rates.write_bytes),
                short(rates.reads),
                short(rates.read_bytes),
                state(*osd).join(","),
            ]);
        }
        table.render()
    };
    Ok(call.show(json, text))
}

fn autoscale_status(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let raw: u64 = mon.pgmap.space(|_| true).total;
    let pools: Vec<_> = osdmap::pools(&mon.osdmap).map(|(id, name, pool)| (id, name, pool.clone())).collect();
    let ratio = |used: u64, copies: u32| crate::command::ratio(used.saturating_mul(copies.into()), raw);
    let json = || {
        Json::array(pools.iter().map(|(id, name, pool)| {
            let (stored, copies) = (mon.pool_usage(*id).stored, pool.size.into());
            let used = stored.saturating_mul(u64::from(copies));
            Json::object()
                .with("actual_capacity_ratio", ratio(stored, copies))
                .with("actual_raw_used", used as f64)
                .with("bias", 1.0)
                .with("bulk", false)
                .with("capacity_ratio", ratio(stored, copies))
                .with("crush_root_id", -1)
                .with("effective_target_ratio", 0.0)
                .with("logical_used", stored)
                .with("pg_autoscale_mode", "off")
                .with("pg_num_final", pool.pg_num)
                .with("pg_num_ideal", 0)
                .with("pg_num_target", pool.pg_num)
                .with("pool_id", id.0)
                .with("pool_name", name.as_str())
                .with("raw_used", used as f64)
                .with("raw_used_rate", f64::from(copies))
                .with("subtree_capacity", raw)
                .with("target_bytes", 0)
                .with("target_ratio", 0.0)
                .with("would_adjust", false)
        }))
    };
    let text = || {
        let mut table = Table::new().columns(Align::Left, &["POOL"]).columns(
            Align::Right,
            &[
                "SIZE",
                "TARGET SIZE",
                "RATE",
                "RAW CAPACITY",
                "RATIO",
                "TARGET RATIO",
                "EFFECTIVE RATIO",
                "BIAS",
                "PG_NUM",
                "NEW PG_NUM",
            ],
        );
        table = table.columns(Align::Left, &["AUTOSCALE", "BULK"]);
        for (id, name, pool) in &pools {
            let stored = mon.pool_usage(*id).stored;
            let empty = String::new;
            table.row([
                name.clone(),
                short(stored),
                empty(),
                format!("{:.1}", f64::from(pool.size)),
                short(raw),
                format!("{:.4}", ratio(stored, pool.size.into())),
                empty(),
                empty(),
                "1.0".into(),
                pool.pg_num.to_string(),
                empty(),
                "off".into(),
                "False".into(),
            ]);
        }
        table.render()
    };
    // Ceph's module has one form for JSON.
    match call.format {
        Format::Plain => Ok(Answer::data(text())),
        Format::Json | Format::JsonPretty => Ok(call.show_json(json())),
    }
}
