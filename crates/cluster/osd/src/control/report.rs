//! The OSD's regular reports to the monitor: statistics, beacons, up_thru.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use maps::{OsdMap, OsdState};
use messages::{
    FULLEST_SHARD_ALERT, MgrMap, OsdAlive, OsdBeacon, OsdFull, OsdStat, OsdSuperblock, Paxos, PerfStat,
    PgStat, PgStats, SlowOps, StoreStatfs,
};
use options::opt;
use store::{Compressed, StatFs, StoreShard};
use telemetry::Average;
use types::{Epoch, OsdId, PgId, PoolId, UTime};

use super::Control;
use crate::parts::{OpLoad, Out, ShardSpace, ToGate, ToShard};
use crate::shard::full_state;
use crate::{LogLevel, OsdPhase};

/// How long changes of PGs' states are gathered before they are reported: long enough for all PGs of a new pool, short
/// enough that a user does not notice.
const GATHER: Duration = Duration::from_millis(50);

/// How long a report waits at most for the stores to say how much space they have: a device may hang.
const SPACE_ANSWER: Duration = Duration::from_millis(20);

/// When what was last said, and what is to be said.
#[derive(Debug, Default)]
pub(crate) struct OsdReport {
    /// Statistics are due then.
    stats_due: Option<UTime>,
    /// The stores were asked for their space, so that the report is as new as what it says of PGs; so many answers are to come.
    space_asked: Option<usize>,
    /// A beacon is due then.
    beacon_due: Option<UTime>,
    /// Reports so far in this start.
    seq: u64,
    /// Whether an active manager takes the statistics instead.
    manager: bool,
    /// Shards and gates whose statistics are still to come, and those that have come.
    collecting: usize,
    collected: BTreeMap<PgId, PgStat>,
    load: OpLoad,
    /// The OSD's own statistics in the last report.
    last_stat: Option<OsdStat>,
    /// The sum of commit latencies that the last report went up to.
    reported_latency: Average,
    /// What up_thru was last asked for.
    pub(crate) up_thru_wanted: Epoch,
}

/// The part of a store's or a pool's statistics that says what is compressed.
fn compressed(of: Compressed) -> StoreStatfs {
    StoreStatfs {
        data_compressed: of.stored as i64,
        data_compressed_allocated: of.allocated as i64,
        data_compressed_original: of.original as i64,
        ..StoreStatfs::default()
    }
}

impl Control {
    /// Everything at once: the OSD has become active, or talks to another monitor.
    pub(crate) fn report_all(&mut self, now: UTime, out: &mut Out) {
        if self.state != OsdPhase::Active {
            return;
        }
        self.send_beacon(now, out);
        self.report.up_thru_wanted = Epoch(0);
        self.want_up_thru(self.pgs.up_thru_wanted(), out);
        self.resend_created(out);
        self.send_stats(now, out);
    }

    /// A new map is in force.
    pub(crate) fn report_after_map(&mut self, now: UTime, out: &mut Out) {
        if self.state == OsdPhase::Active {
            self.want_up_thru(self.pgs.up_thru_wanted(), out);
            self.stats_changed(now);
        }
    }

    /// Some PG's state changed: statistics go out soon.
    pub(crate) fn stats_changed(&mut self, now: UTime) {
        let soon = now.after(GATHER);
        if self.report.stats_due.is_none_or(|due| due > soon) {
            self.report.stats_due = Some(soon);
        }
    }

    /// Statistics are wanted at once.
    pub(super) fn stats_wanted(&mut self, now: UTime) {
        self.report.stats_due = Some(now);
    }

    /// A beacon is wanted at once.
    pub(super) fn beacon_wanted(&mut self, now: UTime) {
        self.report.beacon_due = Some(now);
    }

    /// The number of the next report of statistics.
    pub(super) fn next_stat_seq(&self) -> u64 {
        u64::from(self.up_epoch.0) << 32 | (self.report.seq + 1)
    }

    pub(crate) fn report_deadline(&self) -> Option<UTime> {
        match self.state {
            OsdPhase::Active => [self.report.stats_due, self.report.beacon_due].into_iter().flatten().min(),
            _ => None,
        }
    }

    pub(crate) fn report_tick(&mut self, now: UTime, out: &mut Out) {
        if self.state != OsdPhase::Active {
            return;
        }
        if self.report.beacon_due.is_none_or(|due| due <= now) {
            self.send_beacon(now, out);
        }
        if self.report.stats_due.is_none_or(|due| due <= now) {
            if self.report.space_asked.take().is_some() {
                return self.send_stats(now, out);
            }
            self.report.space_asked = Some(self.shards.len());
            self.report.stats_due = Some(now.after(SPACE_ANSWER));
            self.ask_space(out);
        }
    }

    pub(crate) fn handle_mgr_map(&mut self, now: UTime, message: &MgrMap, out: &mut Out) {
        use encoding::Decode;
        let map = match maps::MgrMap::from_bytes(&message.map) {
            Ok(map) => map,
            Err(error) => {
                let text =
                    format!("the monitor's map of managers can't be read, the one before is kept: {error}");
                return self.log(LogLevel::Warn, text, out);
            }
        };
        self.mon.subscriptions().got("mgrmap", map.epoch.0.into());
        let had_manager = std::mem::replace(&mut self.report.manager, map.available);
        if had_manager && !map.available {
            self.stats_changed(now);
        }
    }

    fn send_beacon(&mut self, now: UTime, out: &mut Out) {
        let interval = Duration::from_secs_f64(self.options.get(opt::OSD_BEACON_REPORT_INTERVAL));
        let epoch = self.history.epoch();
        let (pgs, min_last_epoch_clean) = self.pgs.last_epochs_clean(epoch);
        let beacon = OsdBeacon {
            paxos: Paxos::at(epoch.0.into()),
            pgs,
            min_last_epoch_clean,
            last_purged_snaps_scrub: self.purged.told,
            osd_beacon_report_interval: interval.as_secs() as i32,
        };
        self.report.beacon_due = Some(now.after(interval));
        self.send_mon(beacon, out);
    }

    /// Asks for the up_thru that a PG's interval needs.
    pub(crate) fn want_up_thru(&mut self, want: Epoch, out: &mut Out) {
        let have = self.history.current().and_then(|m| m.osd(self.config.whoami)).map(|o| o.info.up_thru);
        if self.state != OsdPhase::Active
            || want <= self.report.up_thru_wanted
            || have.is_some_and(|h| want <= h)
        {
            return;
        }
        self.report.up_thru_wanted = want;
        let alive = OsdAlive { paxos: Paxos::at(self.history.epoch().0.into()), want };
        self.send_mon(alive, out);
    }

    /// Statistics go to the monitor as long as no manager is there to take them.
    fn send_stats(&mut self, now: UTime, out: &mut Out) {
        self.report.stats_due =
            Some(now.after(Duration::from_secs_f64(self.options.get(opt::OSD_MON_REPORT_INTERVAL))));
        if self.report.manager || !self.mon.is_ready() || self.report.collecting > 0 {
            return;
        }
        self.report.collecting = self.shards.len() + self.placement.gates().len();
        self.report.load = OpLoad::default();
        let (epoch, complaint_time) = (self.history.epoch(), crate::config::complaint_time(&self.options));
        out.send_shards(|| ToShard::CollectStats { epoch });
        out.send_gates(|| ToGate::CollectStats { complaint_time });
    }

    /// A shard reports on its PGs and requests, or a gate on requests. When all have, it goes to the monitor.
    pub(super) fn on_stats(&mut self, stats: BTreeMap<PgId, PgStat>, load: Option<OpLoad>, out: &mut Out) {
        self.report.collected.extend(stats);
        let Some(load) = load else {
            // A message of all PGs would be as much work for the monitor as all of them at once.
            return self.send_collected(self.report.last_stat.clone(), out);
        };
        self.report.load.add(load);
        self.report.collecting = self.report.collecting.saturating_sub(1);
        if self.report.collecting > 0 {
            return;
        }
        self.report.seq += 1;
        let stat = self.osd_stat();
        self.report.last_stat = Some(stat.clone());
        self.send_collected(Some(stat), out);
    }

    /// Sends the monitor the PGs' statistics that have come, with those of the OSD as far as they are known.
    fn send_collected(&mut self, osd_stat: Option<OsdStat>, out: &mut Out) {
        let osd_stat = osd_stat.unwrap_or_else(|| self.osd_stat());
        let pg_stat = std::mem::take(&mut self.report.collected);
        let stats = PgStats {
            tid: 0,
            paxos: Paxos::default(),
            fsid: self.config.cluster_fsid,
            osd_stat,
            pg_stat,
            epoch: self.history.epoch(),
            had_map_for: UTime::default(),
            pool_stat: self.pool_stat(),
        };
        self.send_mon(stats, out);
    }

    /// What pools take of the stores: of each pool with a PG here, if the stores count data or omaps by pool, otherwise only what is
    /// compressed.
    fn pool_stat(&self) -> BTreeMap<PoolId, StoreStatfs> {
        let space = self.statfs();
        let mut pools: BTreeSet<PoolId> = space.compressed.keys().copied().collect();
        if space.is_by_pool() || !space.has_uncounted_omaps {
            pools.extend(self.pgs.ids().map(|pg| pg.pg.pool));
        }
        let of_pool = |pool: PoolId| {
            let packed = space.compressed.get(&pool).copied().unwrap_or_default();
            let allocated = space.by_pool.get(&pool).copied().unwrap_or(0);
            StoreStatfs {
                allocated: allocated as i64,
                data_stored: (allocated.saturating_sub(packed.allocated) + packed.original) as i64,
                omap_allocated: space.omaps_by_pool.get(&pool).copied().unwrap_or(0) as i64,
                ..compressed(packed)
            }
        };
        pools.into_iter().map(|pool| (pool, of_pool(pool))).collect()
    }

    fn osd_stat(&mut self) -> OsdStat {
        let space = self.statfs();
        let used = space.bytes_total.saturating_sub(space.bytes_available);
        let packed = space.all_compressed();
        let data_stored = space.data_bytes.saturating_sub(packed.allocated) + packed.original;
        let omaps = space.omap_bytes();
        let load = self.report.load;
        let before = std::mem::replace(&mut self.report.reported_latency, load.commit_latency);
        let latency = (load.commit_latency - before).mean().as_nanos() as u64;
        OsdStat {
            statfs: StoreStatfs {
                total: space.bytes_total,
                available: space.bytes_available,
                allocated: space.data_bytes as i64,
                data_stored: data_stored as i64,
                omap_allocated: omaps as i64,
                internal_metadata: used.saturating_sub(space.data_bytes + omaps) as i64,
                ..compressed(packed)
            },
            up_from: self.up_epoch,
            seq: u64::from(self.up_epoch.0) << 32 | self.report.seq,
            num_pgs: self.pgs.len() as u32,
            num_osds: 1,
            num_per_pool_osds: space.is_by_pool().into(),
            num_per_pool_omap_osds: (!space.has_uncounted_omaps).into(),
            // What is committed can be read: there is no other apply.
            os_perf_stat: PerfStat { commit_latency_ns: latency, apply_latency_ns: latency },
            os_alerts: self.alerts(load),
            ..OsdStat::default()
        }
    }

    /// The OSD's warnings of itself.
    fn alerts(&self, load: OpLoad) -> BTreeMap<OsdId, BTreeMap<String, String>> {
        let mut alerts = BTreeMap::new();
        if load.slow > 0 {
            let slow = SlowOps { count: load.slow, oldest_secs: load.oldest_nanos / 1_000_000_000 };
            alerts.insert(SlowOps::ALERT.to_owned(), slow.to_string());
        }
        alerts.extend(self.fullest_shard().map(|words| (FULLEST_SHARD_ALERT.to_owned(), words)));
        if alerts.is_empty() {
            return BTreeMap::new();
        }
        BTreeMap::from([(self.config.whoami, alerts)])
    }

    /// The state that the map ought to show, which is that of the fullest shard: what lies in it can't lie in another one.
    fn full_state(&self, map: &OsdMap) -> u32 {
        let states =
            self.shards.iter().map(|shard| full_state(&shard.space.statfs, shard.space.is_full, map));
        let found = states.fold(0, |found, state| found | state);
        let bits = [OsdState::FULL, OsdState::BACKFILLFULL, OsdState::NEARFULL];
        bits.into_iter().find(|bit| found & bit != 0).unwrap_or(0)
    }

    /// Words for an operator whose OSD is (nearly) full because of one shard.
    fn fullest_shard(&self) -> Option<String> {
        let map = self.history.current()?;
        let (all, state) = (self.statfs(), self.full_state(map));
        if self.shards.len() < 2 || state == 0 || state == full_state(&all, false, map) {
            return None;
        }
        let left = |of: &StatFs| of.bytes_available as f64 / of.bytes_total.max(1) as f64;
        let by_room = |(_, a): &(usize, &StatFs), (_, b): &(usize, &StatFs)| left(a).total_cmp(&left(b));
        let shards = self.shards.iter().map(|shard| &shard.space.statfs).enumerate();
        let (number, fullest) = shards.min_by(by_room)?;
        Some(format!(
            "shard {number} of its store's {} is {:.0}% full, the whole store {:.0}%: a PG's objects stay in its shard; more \
             PGs in the pools with most of the data spread them better",
            self.shards.len(),
            100.0 * (1.0 - left(fullest)),
            100.0 * (1.0 - left(&all)),
        ))
    }

    /// Asks the shards for their stores' space.
    pub(super) fn ask_space(&self, out: &mut Out) {
        out.send_shards(|| ToShard::AskSpace);
    }

    /// The space of all shards.
    pub(super) fn statfs(&self) -> StatFs {
        let mut sum = StatFs::default();
        self.shards.iter().for_each(|shard| sum += shard.space.statfs.clone());
        sum
    }

    pub(super) fn on_space(&mut self, now: UTime, shard: StoreShard, space: ShardSpace, out: &mut Out) {
        let first = self.statfs().bytes_total == 0;
        let Some(state) = self.shards.get_mut(shard.0 as usize) else {
            return out.broken(format!("shard {} has space, and does not exist", shard.0));
        };
        state.space = space;
        self.report.space_asked = self.report.space_asked.map(|answers| answers.saturating_sub(1));
        if self.report.space_asked == Some(0) && self.state == OsdPhase::Active {
            self.report.space_asked = None;
            self.send_stats(now, out);
        }
        if first && self.state == OsdPhase::Active {
            self.stats_changed(now);
        }
        self.report_fullness(out);
    }

    /// Tells the monitor when the map shows this OSD fuller or emptier than it is.
    fn report_fullness(&mut self, out: &mut Out) {
        const MASK: u32 = OsdState::FULL | OsdState::BACKFILLFULL | OsdState::NEARFULL;
        // An OSD that is not up is not in the map with a state to correct.
        let Some(map) = self.history.current().filter(|_| self.state == OsdPhase::Active) else { return };
        let Some(shown) = map.osd(self.config.whoami).map(|osd| osd.state & MASK) else { return };
        let state = self.full_state(map);
        if state != shown {
            let map_epoch = self.history.epoch();
            let full = OsdFull { paxos: Paxos::at(map_epoch.0.into()), map_epoch, state };
            self.send_mon(full, out);
        }
    }

    /// What the boot message says of the store.
    pub(super) fn boot_superblock(&self) -> OsdSuperblock {
        let epoch = self.history.epoch();
        // A snapshot is purged when every PG has trimmed it, so while a PG's only OSD is away none is.
        OsdSuperblock { current_epoch: epoch, purged_snaps_last: epoch, ..self.superblock.clone() }
    }
}
