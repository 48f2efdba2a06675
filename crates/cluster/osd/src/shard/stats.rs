//! What a shard reports and shows of its placement groups.

use std::collections::BTreeMap;

use auth::SessionId;
use maps::UpActing;
use messages::{OsdOp, PgStat};
use pg::{ScrubState, WatchView};
use serde_json::{Map, Value, json};
use telemetry::OpTimes;
use types::{AddrType, Epoch, OsdId, SpgId, UTime};

use super::Shard;
use super::pg_set::PgEntry;
use crate::parts::{OpLoad, Out, PartReport, ReportKind, ToControl};
use crate::report::{OpView, described};

const NOBODY: OsdId = OsdId(-1);

/// PGs that one event reports on, and one message to the monitor: some 0.5 KB each.
pub(crate) const STATS_PGS_PER_EVENT: usize = 512;

/// A report that is under way.
#[derive(Debug)]
pub(super) struct Collecting {
    pub epoch: Epoch,
    /// The place of the PG that comes next.
    pub next: usize,
}

impl PgEntry {
    /// Empty before the first map.
    fn sets(&self) -> UpActing {
        self.mapping.as_ref().map(|mapping| mapping.place.up_acting()).unwrap_or_default()
    }

    /// The PG's report at this moment.
    fn report(&mut self, now: UTime, epoch: Epoch) -> PgStat {
        let (active, clean) = (self.status().is_active(), self.status().is_clean());
        let mut stat = self.pg.report();
        let (info, at) = (self.pg.info(), self.sets());
        stat.created = info.history.epoch_created;
        stat.last_epoch_clean = if clean { epoch } else { info.history.last_epoch_clean };
        stat.mapping_epoch = info.history.same_interval_since;
        (stat.up, stat.acting) = (at.up, at.acting);
        stat.up_primary = at.up_primary.unwrap_or(NOBODY);
        stat.acting_primary = at.acting_primary.unwrap_or(NOBODY);
        stat.reported_epoch = epoch;
        (stat.last_fresh, stat.last_unstale, stat.last_change) = (now, now, self.changed);
        if active {
            (stat.last_active, stat.last_peered) = (now, now);
            (stat.last_became_active, stat.last_became_peered) = (self.became_active, self.became_active);
        }
        if clean {
            (stat.last_clean, stat.last_undegraded, stat.last_fullsized) = (now, now, now);
        }
        stat
    }
}

/// A watch as Ceph's `dump_watchers` shows it.
fn watch_json(watch: &WatchView<'_>) -> Value {
    let text = |name: &types::Name| String::from_utf8_lossy(name).into_owned();
    // Ceph's key is the name of a structure, of which this is no codec.
    let addr_key = ["entity", "addr", "t"].join("_");
    let kind = match watch.addr.kind {
        AddrType::None => "none",
        AddrType::Legacy => "v1",
        AddrType::Msgr2 => "v2",
        AddrType::Any => "any",
        AddrType::Cidr => "cidr",
    };
    let socket = watch.addr.socket.map(|socket| socket.to_string()).unwrap_or_default();
    json!({
        "namespace": text(&watch.oid.nspace),
        "object": text(&watch.oid.name),
        "entity_name": { "type": watch.name.kind.as_str(), "num": watch.name.num },
        "cookie": watch.cookie,
        "timeout": watch.timeout.as_secs(),
        addr_key: { "type": kind, "addr": socket, "nonce": watch.addr.nonce },
    })
}

impl Shard {
    /// What `pg PGID query` shows.
    pub(crate) fn query(&self, pgid: &SpgId) -> Option<Value> {
        let entry = self.pgs.get(self.pgs.slot_of(pgid)?)?;
        let (info, ids) = (entry.pg.info(), |osds: &[OsdId]| osds.iter().map(|o| o.0).collect::<Vec<_>>());
        let (history, at) = (&info.history, entry.sets());
        let stat_sum: Map<String, Value> =
            info.stats.stats.sum.counters().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let scrubber = match entry.pg.scrub_state() {
            None => json!({ "active": false }),
            Some(ScrubState { order, began }) => json!({
                "active": true, "is_deep": order.deep, "is_repair": order.repair, "mode_desc": order.mode(),
                "began": began.to_string(),
            }),
        };
        Some(json!({
            "state": entry.pg.state().to_string(),
            "epoch": info.stats.reported_epoch.0,
            "up": ids(&at.up),
            "acting": ids(&at.acting),
            "info": {
                "pgid": pgid.to_string(),
                "last_update": info.last_update.to_string(),
                "last_complete": info.last_complete.to_string(),
                "log_tail": info.log_tail.to_string(),
                "last_user_version": info.last_user_version,
                "history": {
                    "epoch_created": history.epoch_created.0,
                    "last_epoch_started": history.last_epoch_started.0,
                    "last_epoch_clean": history.last_epoch_clean.0,
                    "same_up_since": history.same_up_since.0,
                    "same_interval_since": history.same_interval_since.0,
                    "same_primary_since": history.same_primary_since.0,
                    "last_scrub": history.last_scrub.to_string(),
                    "last_scrub_stamp": history.last_scrub_stamp.to_string(),
                    "last_deep_scrub": history.last_deep_scrub.to_string(),
                    "last_deep_scrub_stamp": history.last_deep_scrub_stamp.to_string(),
                    "last_clean_scrub_stamp": history.last_clean_scrub_stamp.to_string(),
                },
                "stats": { "stat_sum": stat_sum },
            },
            "scrubber": scrubber,
        }))
    }

    /// Goes on with the report on the PGs that are led here, as far as one event may.
    pub(crate) fn collect_stats(&mut self, now: UTime, out: &mut Out) {
        // No report is under way.
        let Some(Collecting { epoch, next }) = self.collecting.take() else { return };
        // PGs may have come to a newer map since the report began.
        let epoch = self.map.as_ref().map_or(epoch, |map| map.epoch.max(epoch));
        let end = self.pgs.places().min(next + STATS_PGS_PER_EVENT);
        let mut stats = BTreeMap::new();
        for place in next..end {
            if let Some(entry) = self.pgs.by_place(place).filter(|entry| entry.status().is_reported()) {
                stats.insert(entry.pg.id().pg, entry.report(now, epoch));
            }
        }
        let is_last = end == self.pgs.places();
        if !is_last {
            self.collecting = Some(Collecting { epoch, next: end });
        }
        out.send_control(ToControl::Stats { stats, load: is_last.then(|| self.load(now)) });
    }

    /// What the OSD's report has of the requests that are here.
    pub(crate) fn load(&self, now: UTime) -> OpLoad {
        let mut load = OpLoad { commit_latency: self.tracker.counters.commit_latency, ..OpLoad::default() };
        let at_pgs = self.pgs.iter().flat_map(|entry| &entry.requests).map(|request| request.times);
        let queued = self.queue.iter().map(|queued| queued.times);
        for times in at_pgs.chain(queued).filter(|times| self.tracker.is_slow(now, times.received())) {
            load.note_slow(times.age_nanos(now));
        }
        load
    }

    /// What a command wants to know.
    pub(crate) fn report(&mut self, now: UTime, what: ReportKind, out: &mut Out) -> PartReport {
        let mut report = PartReport {
            object_contexts: self.contexts as u64,
            log_entries: self.pgs.iter().map(|entry| entry.pg.log().entries().len() as u64).sum(),
            ..PartReport::default()
        };
        match what {
            ReportKind::InFlight { slow_only } => report.ops = self.ops_in_flight(now, slow_only),
            ReportKind::Longest => report.ops = self.tracker.longest(now),
            ReportKind::LongestSlow => report.ops = self.tracker.slow(),
            ReportKind::Counters => report.counters = self.tracker.counters,
            ReportKind::Memory => report.store_memory = out.memory_pools(self.id),
            ReportKind::FreeSpace => report.free_space = out.free_space(self.id),
            ReportKind::DropCaches => report.keeps_caches = !out.drop_caches(self.id),
            ReportKind::Watches => {
                let watches = self.pgs.iter().flat_map(|entry| entry.pg.watches());
                report.watches = watches.map(|watch| watch_json(&watch)).collect();
            }
            ReportKind::Histograms => report.histograms = self.tracker.histograms.clone(),
            ReportKind::ResetCounters => {
                report.counters = std::mem::take(&mut self.tracker.counters);
                self.tracker.histograms = Default::default();
            }
        }
        report
    }

    fn ops_in_flight(&self, now: UTime, slow_only: bool) -> Vec<OpView> {
        let wanted = |times: &OpTimes| !slow_only || self.tracker.is_slow(now, times.received());
        let view = |times: OpTimes, reqid, op: &OsdOp| OpView {
            description: described(reqid, op.pgid, &op.oid, op.ops.iter(), op.flags),
            times,
            took_nanos: times.age_nanos(now),
            waits_for: None,
        };
        let queued = self.queue.iter().filter(|queued| wanted(&queued.times));
        let mut ops: Vec<OpView> =
            queued.map(|q| view(q.times, q.op.op.request_id(q.op.source), &q.op.op)).collect();
        for entry in self.pgs.iter().filter(|entry| !entry.requests.is_empty()) {
            let asked: BTreeMap<(SessionId, u64), &OsdOp> =
                entry.pg.requests().map(|(session, op)| ((session, op.tid), op)).collect();
            for record in entry.requests.iter().filter(|record| wanted(&record.times)) {
                // It has been answered by the PG and waits for nothing.
                let Some(op) = asked.get(&(record.session, record.tid)) else { continue };
                ops.push(view(record.times, record.reqid(), op));
            }
        }
        ops
    }
}
