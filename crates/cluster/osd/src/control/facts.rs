//! Commands about what an OSD has, or has nothing of: the map, addresses that are shut out, scrubs and recoveries (there
//! are none), its log.

use serde_json::{Map, Value, json};
use types::{Errno, UTime};

use super::Control;
use super::command::{Refusal, words};
use crate::LogLevel;
use crate::parts::Out;

/// What Ceph's OSDs offer beside these, and why it is not here.
const REFUSED: [(&str, &str); 7] = [
    ("heap", "the allocator (mimalloc) has no profiler to ask; 'dump_mempools' shows what is counted"),
    ("get_heap_property", "the allocator (mimalloc) has no properties to ask"),
    ("set_heap_property", "the allocator (mimalloc) has no properties to set"),
    ("compact", "the store frees what it does not need by itself"),
    ("set_recovery_delay", "nothing is recovered: each object has one copy"),
    ("dump_objectstore_kv_stats", "the store has no RocksDB"),
    ("smart", "devices are not asked for their own health"),
];

impl Control {
    /// Answers a command of this module; `None`: it is none.
    pub(super) fn fact_command(
        &mut self,
        now: UTime,
        prefix: &str,
        args: &Map<String, Value>,
        out: &mut Out,
    ) -> Option<Result<Value, Refusal>> {
        if let Some((_, why)) = REFUSED.iter().find(|(name, _)| *name == prefix) {
            return Some(Err((Errno::EOPNOTSUPP, format!("{prefix}: {why}"))));
        }
        let none = || json!({ "max_allowed": 0, "min_priority": 0, "queues": [], "in_progress": [] });
        Some(Ok(match prefix {
            "dump_blocklist" => self.blocklist(),
            "get_mapped_pools" => {
                let mut pools: Vec<i64> = self.pgs.ids().map(|pg| pg.pg.pool.0).collect();
                pools.dedup();
                json!(pools)
            }
            "get_latest_osdmap" => Value::String(String::new()),
            // Heartbeats are answered within the process: there is no network to be slow.
            "dump_osd_network" => json!({ "threshold": 1000, "entries": [] }),
            "dump_scrubs" => self.planned_scrubs(now),
            "dump_scrub_reservations" => self.scrub_reservations(),
            "dump_recovery_reservations" => {
                json!({ "local_reservations": none(), "remote_reservations": none() })
            }
            "objecter_requests" => json!({
                "ops": [], "linger_ops": [], "pool_ops": [], "pool_stat_ops": [], "statfs_ops": [],
                "command_ops": [],
            }),
            "list_devices" => json!([]),
            // Lines go out as they come.
            "log dump" | "log flush" => json!({}),
            "send_beacon" => {
                self.beacon_wanted(now);
                Value::String(String::new())
            }
            "scrub_purged_snaps" => {
                self.want_purged(now, out);
                Value::String(String::new())
            }
            "cluster_log" => {
                let text = args.get("message").map(words).unwrap_or_default();
                if text.is_empty() {
                    return Some(Err((Errno::EINVAL, "cluster_log: there is no message".into())));
                }
                self.cluster_log(now, LogLevel::Error, text, out);
                Value::String(String::new())
            }
            _ => return None,
        }))
    }

    fn blocklist(&self) -> Value {
        let Some(map) = self.history.current() else { return json!([]) };
        let all = map.blocklist.iter();
        let entry = |(addr, until): (&types::EntityAddr, &UTime)| json!({ "addr": addr.to_string(), "expire_time": until.to_string() });
        Value::Array(all.map(entry).collect())
    }
}
