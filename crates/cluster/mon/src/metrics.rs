//! The cluster as Prometheus reads it: what the manager of a Ceph cluster serves (its module `prometheus`), under the same
//! names and with the same labels, in the text format 0.0.4.

use core::fmt::Write;

use maps::{MapFlags, PoolOption, PoolOptionKey};
use messages::PgState;
use types::{OsdId, UTime};

use crate::health::Severity;
use crate::mon::Mon;
use crate::service::osdmap;

/// A text of metrics, in groups of one name each.
#[derive(Default)]
pub struct MetricsText(String);

/// A label's value, as the text format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl MetricsText {
    /// Begins a metric. `kind`: `gauge`, `counter` or `untyped`.
    pub fn metric(&mut self, name: &str, kind: &str, about: &str) {
        let about = about.replace('\\', "\\\\").replace('\n', " ");
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP ceph_{name} {about}\n# TYPE ceph_{name} {kind}");
    }

    /// A value of the metric of this name.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "ceph_{name}{labels} {value}");
    }

    /// A metric with one value.
    pub fn single(&mut self, name: &str, kind: &str, about: &str, value: f64) {
        self.metric(name, kind, about);
        self.value(name, &[], value);
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

impl Mon {
    /// Everything that the monitor knows, for Prometheus.
    pub fn metrics(&self, now: UTime) -> String {
        let mut out = MetricsText::default();
        self.health_metrics(now, &mut out);
        self.daemon_metrics(&mut out);
        self.osd_metrics(&mut out);
        self.space_metrics(&mut out);
        self.pool_metrics(&mut out);
        self.pg_metrics(&mut out);
        out.into_text()
    }

    fn health_metrics(&self, now: UTime, out: &mut MetricsText) {
        let health = self.health(now);
        let number = match health.status() {
            Severity::Ok => 0.0,
            Severity::Warn => 1.0,
            Severity::Error => 2.0,
        };
        out.single("health_status", "untyped", "Cluster health status", number);
        let name = "health_detail";
        out.metric(name, "gauge", "healthcheck status by type (0=inactive, 1=active)");
        for (code, check) in health.shown() {
            out.value(name, &[("name", code), ("severity", check.severity.name())], 1.0);
        }
        let osds: Vec<i32> = osdmap::osds(&self.osdmap).collect();
        let slow: u64 = osds.iter().map(|osd| self.slow_ops_of(*osd)).sum();
        let about = "OSD or Monitor requests taking a long time to process";
        out.single("healthcheck_slow_ops", "gauge", about, slow as f64);
        let name = "daemon_health_metrics";
        out.metric(name, "gauge", "Health metrics for Ceph daemons");
        for osd in osds {
            let daemon = format!("osd.{osd}");
            let slow = self.slow_ops_of(osd);
            out.value(name, &[("type", "SLOW_OPS"), ("ceph_daemon", &daemon)], slow as f64);
        }
    }

    fn daemon_metrics(&self, out: &mut MetricsText) {
        let me = format!("mon.{}", self.config.name);
        let address = self.config.addr.socket.map_or(String::new(), |socket| socket.ip().to_string());
        out.metric("mon_quorum_status", "gauge", "Monitors in quorum");
        out.value("mon_quorum_status", &[("ceph_daemon", &me)], 1.0);
        out.metric("mon_metadata", "untyped", "MON Metadata");
        let labels = [
            ("ceph_daemon", me.as_str()),
            ("hostname", &self.config.hostname),
            ("public_addr", &address),
            ("rank", "0"),
            ("ceph_version", &self.config.version),
        ];
        out.value("mon_metadata", &labels, 1.0);
        self.monitor_counters(&me, out);
        self.manager_metrics(out);
        out.metric("osd_metadata", "untyped", "OSD Metadata");
        let host_of = |addrs: &types::EntityAddrVec| {
            let first = addrs.0.first().and_then(|addr| addr.socket);
            first.map_or(String::new(), |socket| socket.ip().to_string())
        };
        let osds: Vec<i32> = osdmap::osds(&self.osdmap).collect();
        for osd in &osds {
            let (metadata, daemon) = (self.osd_metadata(*osd), format!("osd.{osd}"));
            let of = |key: &str| metadata.get(key).map_or("", String::as_str);
            let entry = self.osdmap.osd(OsdId(*osd));
            let (public, cluster) =
                entry.map_or(Default::default(), |e| (host_of(&e.client_addrs), host_of(&e.cluster_addrs)));
            let labels = [
                ("back_iface", of("back_iface")),
                ("ceph_daemon", &daemon),
                ("cluster_addr", &cluster),
                ("device_class", self.osdmap.crush.device_class(*osd).unwrap_or("")),
                ("front_iface", of("front_iface")),
                ("hostname", of("hostname")),
                ("objectstore", of("osd_objectstore")),
                ("public_addr", &public),
                ("ceph_version", of("ceph_version")),
            ];
            out.value("osd_metadata", &labels, 1.0);
        }
        for (name, about) in [
            ("disk_occupation", "Associate Ceph daemon with disk used"),
            ("disk_occupation_human", "Associate Ceph daemon with disk used for displaying to humans"),
        ] {
            out.metric(name, "untyped", about);
            for osd in &osds {
                let (metadata, daemon) = (self.osd_metadata(*osd), format!("osd.{osd}"));
                let of = |key: &str| metadata.get(key).map_or("", String::as_str);
                // A log may lie in a file.
                let log = [of("bluefs_wal_dev_node"), of("bluefs_wal_path")].concat();
                let labels = [
                    ("ceph_daemon", daemon.as_str()),
                    ("device", of("osd_data")),
                    ("db_device", ""),
                    ("wal_device", log.as_str()),
                    ("instance", of("hostname")),
                    ("devices", of("devices")),
                    ("device_ids", of("device_ids")),
                ];
                out.value(name, &labels, 1.0);
            }
        }
    }

    /// The counters that `ceph tell mon.ID perf dump` has in its section `mon`.
    fn monitor_counters(&self, me: &str, out: &mut MetricsText) {
        for (section, name, value, grows, about) in crate::command::counters(self) {
            if section == "mon" {
                let name = format!("mon_{name}");
                out.metric(&name, if grows { "counter" } else { "gauge" }, about);
                out.value(&name, &[("ceph_daemon", me)], value as f64);
            }
        }
    }

    fn manager_metrics(&self, out: &mut MetricsText) {
        if !self.mgrmap.available {
            return;
        }
        let manager = format!("mgr.{}", self.mgrmap.active_name);
        out.metric("mgr_metadata", "gauge", "MGR metadata");
        let labels = [
            ("ceph_daemon", manager.as_str()),
            ("hostname", &self.config.hostname),
            ("ceph_version", &self.config.version),
        ];
        out.value("mgr_metadata", &labels, 1.0);
        out.metric("mgr_status", "gauge", "MGR status (0=standby, 1=active)");
        out.value("mgr_status", &labels[..1], 1.0);
    }

    fn osd_metrics(&self, out: &mut MetricsText) {
        const FLAGS: [(&str, u32); 9] = [
            ("noup", MapFlags::NOUP),
            ("nodown", MapFlags::NODOWN),
            ("noout", MapFlags::NOOUT),
            ("noin", MapFlags::NOIN),
            ("nobackfill", MapFlags::NOBACKFILL),
            ("norebalance", MapFlags::NOREBALANCE),
            ("norecover", MapFlags::NORECOVER),
            ("noscrub", MapFlags::NOSCRUB),
            ("nodeep_scrub", MapFlags::NODEEP_SCRUB),
        ];
        let map = &self.osdmap;
        for (flag, bit) in FLAGS {
            let (name, about) = (format!("osd_flag_{flag}"), format!("OSD Flag {flag}"));
            out.single(&name, "untyped", &about, f64::from(u8::from(map.flags & bit != 0)));
        }
        let about = "OSD cluster-wide nearfull ratio";
        out.single("osd_nearfull_ratio", "gauge", about, f64::from(map.nearfull_ratio));
        out.single("osd_full_ratio", "gauge", "OSD cluster-wide full ratio", f64::from(map.full_ratio));
        let osds: Vec<(i32, String)> = osdmap::osds(map).map(|osd| (osd, format!("osd.{osd}"))).collect();
        let mut each = |name: &str, kind: &str, about: &str, value: &dyn Fn(i32) -> f64| {
            out.metric(name, kind, about);
            for (osd, daemon) in &osds {
                out.value(name, &[("ceph_daemon", daemon)], value(*osd));
            }
        };
        let flag = |set: bool| f64::from(u8::from(set));
        each("osd_weight", "untyped", "OSD status weight", &|osd| osdmap::reweight(map, osd));
        each("osd_up", "untyped", "OSD status up", &|osd| flag(osdmap::is_up(map, osd)));
        each("osd_in", "untyped", "OSD status in", &|osd| flag(osdmap::is_in(map, osd)));
        let latency = |osd: i32, pick: fn(&messages::PerfStat) -> u64| {
            self.pgmap.osds.get(&osd).map_or(0.0, |stat| (pick(&stat.os_perf_stat) / 1_000_000) as f64)
        };
        each("osd_apply_latency_ms", "gauge", "OSD stat apply_latency_ms", &|osd| {
            latency(osd, |stat| stat.apply_latency_ns)
        });
        each("osd_commit_latency_ms", "gauge", "OSD stat commit_latency_ms", &|osd| {
            latency(osd, |stat| stat.commit_latency_ns)
        });
        let blocked = map.blocklist.len() as f64;
        let about = "OSD Blocklist Count osd_blocklist_count";
        out.single("cluster_osd_blocklist_count", "gauge", about, blocked);
    }

    fn space_metrics(&self, out: &mut MetricsText) {
        type Pick = fn(&messages::StoreStatfs) -> u64;
        const SPACE: [(&str, Pick); 3] = [
            ("total_bytes", |space| space.total),
            ("total_used_bytes", |space| space.used_raw()),
            ("total_used_raw_bytes", |space| space.used_raw()),
        ];
        let all = self.pgmap.space(|_| true);
        let classes = crate::command::status::classes(self);
        for (name, pick) in SPACE {
            out.single(&format!("cluster_{name}"), "gauge", &format!("DF {name}"), pick(&all) as f64);
            let by_class = format!("cluster_by_class_{name}");
            out.metric(&by_class, "gauge", &format!("DF {name}"));
            for (class, osds) in &classes {
                let space = self.pgmap.space(|osd| osds.contains(&osd));
                out.value(&by_class, &[("device_class", class)], pick(&space) as f64);
            }
        }
        let total = self.pgmap.total();
        let sum = total.sum();
        for (kind, count) in [
            ("degraded", sum.num_objects_degraded),
            ("misplaced", sum.num_objects_misplaced),
            ("unfound", sum.num_objects_unfound),
        ] {
            let about = format!("Number of {kind} objects");
            out.single(&format!("num_objects_{kind}"), "gauge", &about, count as f64);
        }
    }

    fn pool_metrics(&self, out: &mut MetricsText) {
        let pools: Vec<_> = osdmap::pools(&self.osdmap).collect();
        out.metric("pool_metadata", "untyped", "POOL Metadata");
        for (id, name, pool) in &pools {
            let number = id.0.to_string();
            let applications: Vec<&str> = pool.application_metadata.keys().map(|app| app.as_str()).collect();
            let mode = match pool.opts.get(&PoolOptionKey::COMPRESSION_MODE) {
                Some(PoolOption::Str(mode)) => mode.as_str(),
                _ => "none",
            };
            let labels = [
                ("pool_id", number.as_str()),
                ("name", name),
                ("type", "replicated"),
                ("description", &format!("replica:{}", pool.size)),
                ("compression_mode", mode),
                ("application", &applications.join(",")),
            ];
            out.value("pool_metadata", &labels, 1.0);
        }
        type Pick = fn(&crate::usage::PoolUsage) -> f64;
        const USAGE: [(&str, &str, Pick); 16] = [
            ("max_avail", "gauge", |u| u.max_avail as f64),
            ("avail_raw", "gauge", |u| u.avail_raw as f64),
            ("stored", "gauge", |u| u.stored as f64),
            ("stored_raw", "gauge", |u| u.stored_raw as f64),
            ("objects", "gauge", |u| u.objects as f64),
            ("dirty", "gauge", |_| 0.0),
            ("quota_bytes", "gauge", |u| u.quota_bytes as f64),
            ("quota_objects", "gauge", |u| u.quota_objects as f64),
            ("rd", "counter", |u| u.sums.num_rd as f64),
            ("rd_bytes", "counter", |u| u.sums.num_rd_kb as f64 * 1024.0),
            ("wr", "counter", |u| u.sums.num_wr as f64),
            ("wr_bytes", "counter", |u| u.sums.num_wr_kb as f64 * 1024.0),
            ("compress_bytes_used", "gauge", |u| u.compressed.0 as f64),
            ("compress_under_bytes", "gauge", |u| u.compressed.1 as f64),
            ("bytes_used", "gauge", |u| u.used as f64),
            ("percent_used", "gauge", |u| u.used_ratio),
        ];
        let usages: Vec<_> = pools.iter().map(|(id, ..)| (id.0.to_string(), self.pool_usage(*id))).collect();
        for (name, kind, pick) in USAGE {
            let (metric, about) = (format!("pool_{name}"), format!("DF pool {name}"));
            out.metric(&metric, kind, &about);
            for (id, usage) in &usages {
                out.value(&metric, &[("pool_id", id)], pick(usage));
            }
        }
        // Nothing is recovered, and nothing repaired: each object has one copy.
        for name in [
            "recovering_objects_per_sec",
            "recovering_bytes_per_sec",
            "recovering_keys_per_sec",
            "num_objects_recovered",
            "num_bytes_recovered",
        ] {
            out.metric(&format!("pool_{name}"), "gauge", &format!("OSD pool stats: {name}"));
            for (id, _) in &usages {
                out.value(&format!("pool_{name}"), &[("pool_id", id)], 0.0);
            }
        }
        out.metric("pool_objects_repaired", "counter", "Number of objects repaired in a pool");
        for (id, _) in &usages {
            out.value("pool_objects_repaired", &[("pool_id", id)], 0.0);
        }
    }

    fn pg_metrics(&self, out: &mut MetricsText) {
        let pools: Vec<(String, Vec<PgState>)> = osdmap::pools(&self.osdmap)
            .map(|(id, ..)| {
                let of = self.pgmap.pgs.iter().filter(|(pg, _)| pg.pool == id);
                (id.0.to_string(), of.map(|(_, stat)| stat.state).collect())
            })
            .collect();
        out.metric("pg_total", "gauge", "PG Total Count per Pool");
        for (id, states) in &pools {
            out.value("pg_total", &[("pool_id", id)], states.len() as f64);
        }
        let mut counted = |state: &str, is: &dyn Fn(&PgState) -> bool| {
            let name = format!("pg_{state}");
            out.metric(&name, "gauge", &format!("PG {state} per pool"));
            for (id, states) in &pools {
                out.value(&name, &[("pool_id", id)], states.iter().filter(|s| is(s)).count() as f64);
            }
        };
        for (state, name) in PgState::ALL {
            counted(name, &|pg| pg.has(*state));
        }
        counted("unknown", &|pg| pg.is_unknown());
    }
}
