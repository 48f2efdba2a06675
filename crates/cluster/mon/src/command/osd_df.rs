//! `osd df`, `osd perf`, `osd utilization`: OSDs by what they hold.

use std::collections::BTreeMap;

use maps::OsdState;
use messages::StoreStatfs;
use types::OsdId;

use super::{Answer, Call, Command, Failure};
use crate::crush_view::{self, Node};
use crate::fmt::{Align, Json, Table, bytes, general, weight};
use crate::mon::Mon;
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd df name=output_method,type=CephChoices,strings=plain|tree,req=false name=filter_by,type=CephChoices,strings=class|name,req=false name=filter,type=CephString,req=false",
        help: "Space of the OSDs",
        module: "osd",
        perm: "r",
        run: df,
    },
    Command { signature: "osd perf", help: "Latencies of the OSDs", module: "osd", perm: "r", run: perf },
    Command {
        signature: "osd utilization",
        help: "How evenly PGs are spread over OSDs",
        module: "osd",
        perm: "r",
        run: utilization,
    },
];

/// A shown line's numbers.
struct OsdLoad {
    space: StoreStatfs,
    utilization: f64,
    var: f64,
    pgs: usize,
}

struct Utilization<'a> {
    mon: &'a Mon,
    nodes: Vec<Node>,
    pgs: BTreeMap<i32, usize>,
    total: StoreStatfs,
    average: f64,
}

fn utilization_of(space: &StoreStatfs) -> f64 {
    match space.total {
        0 => 0.0,
        total => f64::from((space.used_raw() as f64 * 100.0 / total as f64) as f32),
    }
}

impl<'a> Utilization<'a> {
    fn new(mon: &'a Mon, call: &Call<'_>) -> Result<Self, Failure> {
        let crush = &mon.osdmap.crush;
        let filter = call.args.text("filter")?;
        let shown = |osd: i32| match (&filter, call.args.text("filter_by").ok().flatten().as_deref()) {
            (Some(class), Some("class")) => crush.device_class(osd) == Some(class.as_str()),
            (Some(name), Some(_)) => {
                crush_view::name(crush, osd) == *name
                    || crush_view::location(crush, osd).iter().any(|(_, above)| above == name)
            }
            _ => true,
        };
        let mut nodes = crush_view::walk(crush, false);
        let keep: Vec<i32> = nodes.iter().map(|n| n.id).filter(|id| *id >= 0 && shown(*id)).collect();
        nodes.retain(|node| {
            node.id < 0 && crush_view::walk_from(crush, node.id).iter().any(|n| keep.contains(&n.id))
                || keep.contains(&node.id)
        });
        let mut pgs: BTreeMap<i32, usize> = BTreeMap::new();
        for osd in mon.pgmap.pgs.values().flat_map(|pg| pg.acting.iter()) {
            *pgs.entry(osd.0).or_default() += 1;
        }
        let inside = |osd: i32| keep.contains(&osd) && osdmap::is_in(&mon.osdmap, osd);
        let total = mon.pgmap.space(inside);
        let average = match total.total {
            0 => 0.0,
            all => total.used_raw() as f64 * 100.0 / all as f64,
        };
        Ok(Self { mon, nodes, pgs, total, average })
    }

    fn load(&self, id: i32) -> OsdLoad {
        let below: Vec<i32> = if id >= 0 {
            vec![id]
        } else {
            crush_view::walk_from(&self.mon.osdmap.crush, id)
                .iter()
                .map(|n| n.id)
                .filter(|id| *id >= 0)
                .collect()
        };
        let space = self
            .mon
            .pgmap
            .space(|osd| below.contains(&osd) && (id >= 0 || osdmap::is_in(&self.mon.osdmap, osd)));
        let utilization = if id >= 0 {
            utilization_of(&space)
        } else {
            match space.total {
                0 => 0.0,
                total => space.used_raw() as f64 * 100.0 / total as f64,
            }
        };
        let var = if self.average > 0.0 { utilization / self.average } else { 0.0 };
        let pgs = if id >= 0 { self.pgs.get(&id).copied().unwrap_or(0) } else { 0 };
        OsdLoad { space, utilization, var, pgs }
    }

    /// Smallest and largest variation and the standard deviation of what OSDs that are in use.
    fn spread(&self) -> (f64, f64, f64) {
        let mut seen = std::collections::BTreeSet::new();
        let loads: Vec<OsdLoad> = self
            .nodes
            .iter()
            .filter(|n| n.id >= 0 && osdmap::is_in(&self.mon.osdmap, n.id) && seen.insert(n.id))
            .map(|n| self.load(n.id))
            .filter(|load| load.space.total > 0)
            .collect();
        if loads.is_empty() {
            return (0.0, 0.0, 0.0);
        }
        let least = loads.iter().map(|l| l.var).fold(f64::INFINITY, f64::min);
        let most = loads.iter().map(|l| l.var).fold(0.0, f64::max);
        let squares: f64 = loads.iter().map(|l| (l.utilization - self.average).powi(2)).sum();
        (least, most, (squares / loads.len() as f64).sqrt())
    }

    fn status(&self, osd: i32) -> &'static str {
        match self.mon.osdmap.osd(OsdId(osd)) {
            Some(entry) if entry.is_up() => "up",
            Some(entry) if entry.state & OsdState::DESTROYED != 0 => "destroyed",
            _ => "down",
        }
    }

    fn json(&self, tree: bool) -> Json {
        let crush = &self.mon.osdmap.crush;
        let kb = |n: i64| n.max(0) as u64 / 1024;
        let nodes = self.nodes.iter().filter(|node| tree || node.id >= 0).map(|node| {
            let load = self.load(node.id);
            let mut out = crush_view::node_json(crush, node);
            let reweight = if node.id >= 0 { osdmap::reweight(&self.mon.osdmap, node.id) } else { -1.0 };
            out.put("reweight", reweight);
            out.put("kb", load.space.total / 1024);
            out.put("kb_used", load.space.used_raw() / 1024);
            out.put("kb_used_data", kb(load.space.allocated));
            out.put("kb_used_omap", kb(load.space.omap_allocated));
            out.put("kb_used_meta", kb(load.space.internal_metadata));
            out.put("kb_avail", load.space.available / 1024);
            out.put("utilization", load.utilization);
            out.put("var", load.var);
            out.put("pgs", load.pgs);
            if node.id >= 0 {
                out.with("status", self.status(node.id))
            } else {
                out.with("children", Json::array(node.children.iter().copied()))
            }
        });
        let (least, most, deviation) = self.spread();
        let summary = Json::object()
            .with("total_kb", self.total.total / 1024)
            .with("total_kb_used", self.total.used_raw() / 1024)
            .with("total_kb_used_data", kb(self.total.allocated))
            .with("total_kb_used_omap", kb(self.total.omap_allocated))
            .with("total_kb_used_meta", kb(self.total.internal_metadata))
            .with("total_kb_avail", self.total.available / 1024)
            .with("average_utilization", self.average)
            .with("min_var", least)
            .with("max_var", most)
            .with("dev", deviation);
        Json::object()
            .with("nodes", Json::array(nodes.collect::<Vec<_>>()))
            .with("stray", Json::Array(vec![]))
            .with("summary", summary)
    }

    fn text(&self, tree: bool) -> String {
        let crush = &self.mon.osdmap.crush;
        let mut table = Table::new();
        for heading in
            ["ID", "CLASS", "WEIGHT", "REWEIGHT", "SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL"]
        {
            table = table.column(heading, Align::Left, Align::Right);
        }
        for heading in ["%USE", "VAR", "PGS", "STATUS"] {
            table = table.column(heading, Align::Left, Align::Right);
        }
        if tree {
            table = table.columns(Align::Left, &["TYPE NAME"]);
        }
        let space_cells = |space: &StoreStatfs| {
            let size = |n: i64| bytes(n.max(0) as u64);
            [
                bytes(space.total),
                bytes(space.used_raw()),
                size(space.allocated),
                size(space.omap_allocated),
                size(space.internal_metadata),
                bytes(space.available),
            ]
        };
        for node in self.nodes.iter().filter(|node| tree || node.id >= 0) {
            let load = self.load(node.id);
            let leaf = node.id >= 0;
            let reweight = if leaf { osdmap::reweight(&self.mon.osdmap, node.id) } else { -1.0 };
            let mut cells = vec![
                node.id.to_string(),
                crush.device_class(node.id).unwrap_or("").to_string(),
                weight(crush_view::weight(node.weight)),
                weight(reweight),
            ];
            cells.extend(space_cells(&load.space));
            cells.push(low(load.utilization));
            cells.push(low(load.var));
            cells.push(if leaf { load.pgs.to_string() } else { "-".into() });
            cells.push(if leaf { self.status(node.id).into() } else { String::new() });
            cells.push(crush_view::node_label(crush, node));
            table.row(cells);
        }
        let mut sum = vec![String::new(), String::new(), String::new(), "TOTAL".to_string()];
        sum.extend(space_cells(&self.total));
        sum.push(low(self.average));
        table.row(sum);
        let (least, most, deviation) = self.spread();
        format!("{}MIN/MAX VAR: {}/{}  STDDEV: {}\n", table.render(), low(least), low(most), low(deviation))
    }
}

/// Two places; a plain 0 for (nearly) nothing.
fn low(value: f64) -> String {
    if value < 0.000_001 { "0".into() } else { format!("{value:.2}") }
}

fn df(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let tree = call.args.text("output_method")?.is_some_and(|m| m == "tree");
    let report = Utilization::new(mon, call)?;
    Ok(call.show(|| report.json(tree), || report.text(tree)))
}

fn perf(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let osds = || mon.pgmap.osds.iter().rev();
    let json = || {
        let infos = osds().map(|(osd, stats)| {
            let stats = Json::object()
                .with("commit_latency_ms", stats.os_perf_stat.commit_latency_ns / 1_000_000)
                .with("apply_latency_ms", stats.os_perf_stat.apply_latency_ns / 1_000_000)
                .with("commit_latency_ns", stats.os_perf_stat.commit_latency_ns)
                .with("apply_latency_ns", stats.os_perf_stat.apply_latency_ns);
            Json::object().with("id", *osd).with("perf_stats", stats)
        });
        let stats = Json::object().with("osd_perf_infos", Json::array(infos));
        Json::object().with("pg_ready", true).with("osdstats", stats)
    };
    let text = || {
        let mut table =
            Table::new().columns(Align::Right, &["osd", "commit_latency(ms)", "apply_latency(ms)"]);
        for (osd, stats) in osds() {
            let ms = |ns: u64| (ns / 1_000_000).to_string();
            table.row([
                osd.to_string(),
                ms(stats.os_perf_stat.commit_latency_ns),
                ms(stats.os_perf_stat.apply_latency_ns),
            ]);
        }
        table.render()
    };
    Ok(call.show(json, text))
}

fn utilization(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let inside: Vec<i32> = osdmap::osds(&mon.osdmap).filter(|osd| osdmap::is_in(&mon.osdmap, *osd)).collect();
    let counts: Vec<(usize, i32)> = inside.iter().map(|osd| (mon.pgmap.pgs_of(*osd), *osd)).collect();
    let n = counts.len().max(1) as f64;
    let average = counts.iter().map(|(pgs, _)| *pgs).sum::<usize>() as f64 / n;
    let deviation = (counts.iter().map(|(p, _)| (*p as f64 - average).powi(2)).sum::<f64>() / n).sqrt();
    let expected = (average * (1.0 - 1.0 / n)).max(0.0).sqrt();
    let least = counts.iter().min().copied().unwrap_or((0, -1));
    let most = counts.iter().max().copied().unwrap_or((0, -1));
    let json = || {
        Json::object()
            .with("avg_pgs", average)
            .with("std_dev", deviation)
            .with("expected_baseline_std_dev", expected)
            .with("min_osd", least.1)
            .with("min_osd_pgs", least.0)
            .with("max_osd", most.1)
            .with("max_osd_pgs", most.0)
    };
    let text = || {
        let of_mean = |pgs: usize| general(if average > 0.0 { pgs as f64 / average } else { 0.0 }, 6);
        format!(
            "avg {}\nstddev {} (expected baseline {})\nmin osd.{} with {} pgs ({} * mean)\nmax osd.{} with {} pgs ({} * mean)\n",
            general(average, 6),
            general(deviation, 6),
            general(expected, 6),
            least.1,
            least.0,
            of_mean(least.0),
            most.1,
            most.0,
            of_mean(most.0)
        )
    };
    Ok(call.show(json, text))
}
