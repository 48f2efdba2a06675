//! The PG map: the newest report of every PG and OSD, and their sums.

use std::collections::{BTreeMap, VecDeque};

use types::{EVersion, Epoch, PgId, PoolId, UTime};

use super::pg_state;
use super::sums::Sums;
use crate::fmt::Json;

/// Space of a store (Ceph's store_statfs_t), in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// The device's size.
    pub total: u64,
    /// Free.
    pub available: u64,
    /// Kept by the store for itself.
    pub internally_reserved: u64,
    /// Taken by data.
    pub allocated: i64,
    /// Data as users see it.
    pub data_stored: i64,
    /// Data after compression.
    pub data_compressed: i64,
    /// Taken by compressed data.
    pub data_compressed_allocated: i64,
    /// Before its compression.
    pub data_compressed_original: i64,
    /// Taken by omaps.
    pub omap_allocated: i64,
    /// Taken by the store's metadata.
    pub internal_metadata: i64,
}

impl Space {
    /// Bytes that are not free.
    pub fn used_raw(&self) -> u64 {
        self.total.saturating_sub(self.available)
    }

    /// Adds another store's.
    pub fn add(&mut self, other: &Self) {
        self.total = self.total.saturating_add(other.total);
        self.available = self.available.saturating_add(other.available);
        self.internally_reserved = self.internally_reserved.saturating_add(other.internally_reserved);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.data_stored = self.data_stored.saturating_add(other.data_stored);
        self.data_compressed = self.data_compressed.saturating_add(other.data_compressed);
        self.data_compressed_allocated =
            self.data_compressed_allocated.saturating_add(other.data_compressed_allocated);
        self.data_compressed_original =
            self.data_compressed_original.saturating_add(other.data_compressed_original);
        self.omap_allocated = self.omap_allocated.saturating_add(other.omap_allocated);
        self.internal_metadata = self.internal_metadata.saturating_add(other.internal_metadata);
    }

    /// Adds the members to an object.
    pub fn json_into(&self, out: &mut Json) {
        out.put("total", self.total);
        out.put("available", self.available);
        out.put("internally_reserved", self.internally_reserved);
        out.put("allocated", self.allocated);
        out.put("data_stored", self.data_stored);
        out.put("data_compressed", self.data_compressed);
        out.put("data_compressed_allocated", self.data_compressed_allocated);
        out.put("data_compressed_original", self.data_compressed_original);
        out.put("omap_allocated", self.omap_allocated);
        out.put("internal_metadata", self.internal_metadata);
    }
}

/// What an OSD reports of itself (Ceph's osd_stat_t).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdStats {
    /// The epoch it came up in, as it says.
    pub up_from: Epoch,
    /// The report's number.
    pub seq: u64,
    /// PGs it holds.
    pub num_pgs: u32,
    pub space: Space,
    /// Who it exchanges heartbeats with.
    pub hb_peers: Vec<i32>,
    /// Latency of commits, in nanoseconds.
    pub commit_latency_ns: u64,
    /// Latency of applying, in nanoseconds.
    pub apply_latency_ns: u64,
    /// Operations in flight for too long, when reported.
    pub slow_ops: u64,
}

/// What a primary reports of a PG (Ceph's pg_stat_t).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgStats {
    pub version: EVersion,
    pub reported_seq: u64,
    pub reported_epoch: Epoch,
    pub state: u64,
    pub last_fresh: UTime,
    pub last_change: UTime,
    pub last_active: UTime,
    pub last_peered: UTime,
    pub last_clean: UTime,
    pub last_became_active: UTime,
    pub last_became_peered: UTime,
    pub last_unstale: UTime,
    pub last_undegraded: UTime,
    pub last_fullsized: UTime,
    pub mapping_epoch: Epoch,
    pub log_start: EVersion,
    pub ondisk_log_start: EVersion,
    pub created: Epoch,
    pub last_epoch_clean: Epoch,
    pub last_scrub: EVersion,
    pub last_scrub_stamp: UTime,
    pub last_deep_scrub: EVersion,
    pub last_deep_scrub_stamp: UTime,
    pub last_clean_scrub_stamp: UTime,
    pub log_size: i64,
    pub ondisk_log_size: i64,
    pub snaptrimq_len: u32,
    pub sums: Sums,
    pub up: Vec<i32>,
    pub acting: Vec<i32>,
    pub up_primary: i32,
    pub acting_primary: i32,
}

impl PgStats {
    /// A PG that exists in the map and was not reported yet.
    pub fn unreported(created: Epoch, now: UTime) -> Self {
        Self {
            created,
            last_epoch_clean: created,
            last_fresh: now,
            last_change: now,
            last_active: now,
            last_peered: now,
            last_clean: now,
            last_unstale: now,
            last_undegraded: now,
            last_fullsized: now,
            up_primary: -1,
            acting_primary: -1,
            ..Self::default()
        }
    }

    /// As `pg ls -f json` shows it.
    pub fn json(&self, id: PgId) -> Json {
        let mut out = Json::object()
            .with("pgid", id.to_string())
            .with("version", self.version.to_string())
            .with("reported_seq", self.reported_seq)
            .with("reported_epoch", self.reported_epoch.0)
            .with("state", pg_state::text(self.state));
        for (name, stamp) in [
            ("last_fresh", self.last_fresh),
            ("last_change", self.last_change),
            ("last_active", self.last_active),
            ("last_peered", self.last_peered),
            ("last_clean", self.last_clean),
            ("last_became_active", self.last_became_active),
            ("last_became_peered", self.last_became_peered),
            ("last_unstale", self.last_unstale),
            ("last_undegraded", self.last_undegraded),
            ("last_fullsized", self.last_fullsized),
        ] {
            out.put(name, crate::fmt::stamp(stamp));
        }
        out.put("mapping_epoch", self.mapping_epoch.0);
        out.put("log_start", self.log_start.to_string());
        out.put("ondisk_log_start", self.ondisk_log_start.to_string());
        out.put("created", self.created.0);
        out.put("last_epoch_clean", self.last_epoch_clean.0);
        out.put("parent", "0.0");
        out.put("parent_split_bits", 0);
        out.put("last_scrub", self.last_scrub.to_string());
        out.put("last_scrub_stamp", crate::fmt::stamp(self.last_scrub_stamp));
        out.put("last_deep_scrub", self.last_deep_scrub.to_string());
        out.put("last_deep_scrub_stamp", crate::fmt::stamp(self.last_deep_scrub_stamp));
        out.put("last_clean_scrub_stamp", crate::fmt::stamp(self.last_clean_scrub_stamp));
        out.put("log_size", self.log_size);
        out.put("ondisk_log_size", self.ondisk_log_size);
        for part in ["stats", "dirty_stats", "omap_stats", "hitset_stats", "hitset_bytes_stats"] {
            out.put(&format!("{part}_invalid"), false);
        }
        out.put("pin_stats_invalid", false);
        out.put("manifest_stats_invalid", false);
        out.put("snaptrimq_len", self.snaptrimq_len);
        out.put("stat_sum", self.sums.json());
        out.put("up", Json::array(self.up.iter().copied()));
        out.put("acting", Json::array(self.acting.iter().copied()));
        for name in ["avail_no_missing", "object_location_counts", "blocked_by"] {
            out.put(name, Json::Array(vec![]));
        }
        out.put("up_primary", self.up_primary);
        out.put("acting_primary", self.acting_primary);
        out.put("purged_snaps", Json::Array(vec![]));
        out
    }
}

/// A pool's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// PGs.
    pub num_pg: u64,
    /// Counters.
    pub sums: Sums,
    /// Entries in the PGs' logs.
    pub log_size: i64,
    /// Lengths of the up sets, added.
    pub up: u64,
    /// Lengths of the acting sets, added.
    pub acting: u64,
    /// Space, where OSDs report it by pool.
    pub space: Space,
    /// OSDs that report it by pool.
    pub num_store_stats: u64,
}

/// All reports.
#[derive(Clone, Debug, Default)]
pub struct PgMap {
    pub pgs: BTreeMap<PgId, PgStats>,
    pub osds: BTreeMap<i32, OsdStats>,
    /// Space a pool takes on an OSD.
    pub pool_space: BTreeMap<(PoolId, i32), Space>,
    /// Grows with every report.
    pub version: u64,
    /// When the last report came.
    pub stamp: UTime,
    samples: VecDeque<(UTime, BTreeMap<PoolId, Sums>)>,
}

/// Rates are taken over this many samples at most.
const SAMPLES_MAX: usize = 6;

impl PgMap {
    /// An OSD's report about itself.
    pub fn report_osd(&mut self, now: UTime, osd: i32, stats: OsdStats, space: BTreeMap<PoolId, Space>) {
        self.touch(now);
        self.osds.insert(osd, stats);
        self.pool_space.retain(|(_, of), _| *of != osd);
        self.pool_space.extend(space.into_iter().map(|(pool, space)| ((pool, osd), space)));
    }

    /// A primary's report about a PG: taken when it is newer than what is known and the PG exists.
    pub fn report_pg(&mut self, id: PgId, stats: PgStats) {
        if let Some(known) = self.pgs.get_mut(&id) {
            let newer =
                (stats.reported_epoch, stats.reported_seq) > (known.reported_epoch, known.reported_seq);
            if newer || known.state == 0 {
                *known = stats;
            }
        }
    }

    /// Makes the set of PGs what the OSD map says (`wanted`: PG → epoch of its pool's creation).
    pub fn set_pgs(&mut self, now: UTime, wanted: &BTreeMap<PgId, Epoch>) {
        self.pgs.retain(|id, _| wanted.contains_key(id));
        for (id, created) in wanted {
            self.pgs.entry(*id).or_insert_with(|| PgStats::unreported(*created, now));
        }
        self.pool_space.retain(|(pool, _), _| wanted.keys().any(|id| id.pool == *pool));
    }

    /// Marks the PGs of primaries that are down as stale, and drops OSDs that are gone.
    pub fn set_osds(&mut self, now: UTime, exists: impl Fn(i32) -> bool, is_up: impl Fn(i32) -> bool) {
        self.osds.retain(|osd, _| exists(*osd));
        for pg in self.pgs.values_mut() {
            if pg.state != 0 && pg.state & pg_state::STALE == 0 && !is_up(pg.acting_primary) {
                pg.state |= pg_state::STALE;
                pg.last_unstale = now;
                pg.last_change = now;
            }
        }
    }

    fn touch(&mut self, now: UTime) {
        self.version += 1;
        self.stamp = now;
    }

    /// Takes a sample for rates (on every tick).
    pub fn sample(&mut self, now: UTime) {
        let pools = self.pools().into_iter().map(|(pool, stats)| (pool, stats.sums)).collect();
        self.samples.push_back((now, pools));
        while self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    /// A second's worth of a pool's counters (`None`: of all pools): (reads, KiB read, writes, KiB written) a second.
    pub fn rates(&self, pool: Option<PoolId>) -> Rates {
        let (Some((from, before)), Some((to, after))) = (self.samples.front(), self.samples.back()) else {
            return Rates::default();
        };
        let seconds = (to.as_nanos().saturating_sub(from.as_nanos())) as f64 / 1e9;
        if seconds <= 0.0 {
            return Rates::default();
        }
        let mut delta = Sums::default();
        for (id, sums) in after.iter().filter(|(id, _)| pool.is_none_or(|p| p == **id)) {
            // A pool's first report is not a second's work.
            if let Some(earlier) = before.get(id) {
                delta.add(&sums.since(earlier));
            }
        }
        let per_second = |n: i64| (n as f64 / seconds) as u64;
        Rates {
            read_bytes: per_second(delta.num_rd_kb.saturating_mul(1024)),
            write_bytes: per_second(delta.num_wr_kb.saturating_mul(1024)),
            reads: per_second(delta.num_rd),
            writes: per_second(delta.num_wr),
            any_read: delta.num_rd > 0 || delta.num_rd_kb > 0,
            any_write: delta.num_wr > 0 || delta.num_wr_kb > 0,
        }
    }

    /// Sums a pool.
    pub fn pools(&self) -> BTreeMap<PoolId, PoolStats> {
        let mut out: BTreeMap<PoolId, PoolStats> = BTreeMap::new();
        for (id, pg) in &self.pgs {
            let pool = out.entry(id.pool).or_default();
            pool.num_pg += 1;
            pool.sums.add(&pg.sums);
            pool.log_size += pg.log_size;
            pool.up += pg.up.len() as u64;
            pool.acting += pg.acting.len() as u64;
        }
        for ((pool, _), space) in &self.pool_space {
            if let Some(pool) = out.get_mut(pool) {
                pool.space.add(space);
                pool.num_store_stats += 1;
            }
        }
        out
    }

    /// The sum over all pools.
    pub fn total(&self) -> PoolStats {
        self.pools().values().fold(PoolStats::default(), |mut sum, pool| {
            sum.num_pg += pool.num_pg;
            sum.sums.add(&pool.sums);
            sum.log_size += pool.log_size;
            sum.up += pool.up;
            sum.acting += pool.acting;
            sum.space.add(&pool.space);
            sum.num_store_stats += pool.num_store_stats;
            sum
        })
    }

    /// The space of the OSDs that `wanted` picks.
    pub fn space(&self, wanted: impl Fn(i32) -> bool) -> Space {
        self.osds.iter().filter(|(osd, _)| wanted(**osd)).fold(Space::default(), |mut sum, (_, stats)| {
            sum.add(&stats.space);
            sum
        })
    }

    /// How many PGs are in each state, the most first.
    pub fn by_state(&self) -> Vec<(u64, u64)> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for pg in self.pgs.values() {
            *counts.entry(pg.state).or_default() += 1;
        }
        let mut out: Vec<(u64, u64)> = counts.into_iter().collect();
        out.sort_by_key(|(state, n)| std::cmp::Reverse((*n, *state)));
        out
    }

    /// How many PGs have an OSD in their acting set.
    pub fn pgs_of(&self, osd: i32) -> usize {
        self.pgs.values().filter(|pg| pg.acting.contains(&osd)).count()
    }
}

/// Client work a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    /// Whether there was any read.
    pub any_read: bool,
    /// Whether there was any write.
    pub any_write: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pg(seed: u32) -> PgId {
        PgId { pool: PoolId(1), seed }
    }

    #[test]
    fn only_newer_reports_of_pgs_that_exist_are_taken() {
        let now = UTime { sec: 9, nsec: 0 };
        let mut map = PgMap::default();
        map.set_pgs(now, &BTreeMap::from([(pg(0), Epoch(3))]));
        assert_eq!(map.by_state(), [(0, 1)]);
        let report = |seq, state| PgStats { reported_seq: seq, state, ..Default::default() };
        map.report_pg(pg(0), report(5, pg_state::ACTIVE));
        map.report_pg(pg(0), report(4, pg_state::DOWN));
        map.report_pg(pg(1), report(4, pg_state::DOWN));
        assert_eq!(map.by_state(), [(pg_state::ACTIVE, 1)]);
        map.set_osds(now, |_| true, |_| false);
        assert_eq!(map.by_state(), [(pg_state::ACTIVE | pg_state::STALE, 1)]);
        map.set_pgs(now, &BTreeMap::new());
        assert!(map.pgs.is_empty());
    }

    #[test]
    fn rates_are_what_was_done_between_samples() {
        let mut map = PgMap::default();
        map.set_pgs(UTime::default(), &BTreeMap::from([(pg(0), Epoch(3))]));
        for second in 0..5u32 {
            let done = i64::from(second) * 10;
            let sums = Sums { num_wr: done, num_wr_kb: done * 4, ..Default::default() };
            map.report_pg(pg(0), PgStats { reported_seq: u64::from(second) + 1, sums, ..Default::default() });
            map.sample(UTime { sec: 100 + second, nsec: 0 });
        }
        let rates = map.rates(None);
        assert_eq!((rates.writes, rates.write_bytes, rates.any_read), (10, 40 * 1024, false));
        assert_eq!(map.rates(Some(PoolId(2))), Rates::default());
    }
}
