//! Maps: when an interval ends, and what the PG is in the new one.

use maps::MapFlags;
use messages::{PastInterval, PgStat, PgState};
use ops::FullKind;
use types::{Epoch, OsdId, PgShard};

use crate::client::NOT_PRIMARY;
use crate::hash_range::is_resized;
use crate::out::Out;
use crate::pg::Phase;
use crate::{MapView, Notice, Pg, PgEffect, PoolView};

impl Pg {
    pub(crate) fn on_advance_map(&mut self, map: MapView, out: &mut Out<'_>) {
        let Some(map) = self.defer_map(map) else { return };
        if matches!(self.phase, Phase::Removing) || self.map.as_ref().is_some_and(|m| map.epoch <= m.epoch) {
            return;
        }
        let first = self.map.is_none();
        if self.take_map(map, out) || first {
            self.decide_role(out);
        }
    }

    /// Goes on to a newer map. Whether it begins a new interval: then the PG's role is to be decided.
    pub(crate) fn take_map(&mut self, map: MapView, out: &mut Out<'_>) -> bool {
        let first = self.map.is_none();
        let became_full = map.pool.full.is_some() && self.full().is_none();
        if became_full && !first {
            self.records.info.history.last_epoch_marked_full = map.epoch;
            self.records.dirty = true;
        }
        let (new_interval, primary_changed) = self.compare(&map);
        if new_interval {
            self.begin_interval(&map, primary_changed, out);
        }
        self.map = Some(map);
        new_interval
    }

    pub(crate) fn full(&self) -> Option<FullKind> {
        self.map.as_ref().and_then(|m| m.pool.full)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |m| m.epoch)
    }

    /// Whether `map` begins a new interval, and whether the acting primary is another. What a restart remembers of the
    /// map before is in the statistics.
    ///
    /// Clients compare the same (Ceph's PastIntervals::is_new_interval) and send again when an interval begins, so
    /// nothing may be added or left out.
    fn compare(&self, map: &MapView) -> (bool, bool) {
        let stats = &self.records.info.stats;
        let primary_changed = map.acting_primary != stats.acting_primary;
        let sets_changed =
            map.acting != stats.acting || map.up != stats.up || map.up_primary != stats.up_primary;
        let others_changed = self.map.as_ref().is_some_and(|old| {
            let flags =
                |map: &MapView| map.osdmap.flags & (MapFlags::SORTBITWISE | MapFlags::RECOVERY_DELETES);
            flags(old) != flags(map) || self.is_new_for_pool(&old.pool, &map.pool)
        });
        (primary_changed || sets_changed || others_changed, primary_changed)
    }

    fn is_new_for_pool(&self, old: &PoolView, new: &PoolView) -> bool {
        let what = |pool: &PoolView| (pool.size, pool.min_size, pool.peering_crush, pool.ec_optimizations);
        let seed = self.id.pg.seed;
        what(old) != what(new)
            || is_resized(seed, old.pg_num, new.pg_num)
            // A merge is prepared, or given up.
            || is_resized(seed, old.pg_num_pending, new.pg_num_pending)
            || is_resized(seed, new.pg_num_pending, old.pg_num_pending)
    }

    fn begin_interval(&mut self, map: &MapView, primary_changed: bool, out: &mut Out<'_>) {
        let stats = &self.records.info.stats;
        let acting = stats.acting.iter().filter(|&&osd| osd != OsdId::NONE && osd.0 >= 0);
        let ended = PastInterval {
            first: self.records.info.history.same_interval_since,
            last: Epoch(map.epoch.0.saturating_sub(1)),
            acting: acting.map(|&osd| PgShard { osd, shard: self.id.shard }).collect(),
        };
        let min_size = self.map.as_ref().map_or(1, |m| m.pool.min_size) as usize;
        let went_rw = ended.acting.len() >= min_size.max(1) && stats.acting_primary.0 >= 0;
        let up_changed = stats.up != map.up;
        // Other copies have what changes counted; a new interval begins with the primary's counters.
        let reads = std::mem::take(&mut self.reads_to_count);
        self.records.add_stats(&reads);
        self.records.past.add(ended, went_rw);
        let history = &mut self.records.info.history;
        history.same_interval_since = map.epoch;
        if up_changed {
            history.same_up_since = map.epoch;
        }
        if primary_changed {
            history.same_primary_since = map.epoch;
        }
        self.note_mapping(map);
        if primary_changed || map.acting != [self.whoami] {
            // Clients send again what they sent to an earlier primary.
            self.drop_requests(out);
            self.phase = Phase::Inactive;
        }
    }

    pub(crate) fn note_mapping(&mut self, map: &MapView) {
        let stats = &mut self.records.info.stats;
        stats.up.clone_from(&map.up);
        stats.up_primary = map.up_primary;
        stats.acting.clone_from(&map.acting);
        stats.acting_primary = map.acting_primary;
        stats.mapping_epoch = map.epoch;
        stats.reported_epoch = map.epoch;
        self.records.dirty = true;
    }

    /// Becomes active if this OSD acts alone; makes the interval durable either way.
    pub(crate) fn decide_role(&mut self, out: &mut Out<'_>) {
        let Some(map) = &self.map else {
            return self.broken("a role is decided without a map", out);
        };
        let (primary, alone) = (map.acting_primary == self.whoami, map.acting == [self.whoami]);
        let epoch = map.epoch;
        if primary && alone {
            let since = self.records.info.history.same_interval_since;
            let history = &mut self.records.info.history;
            history.last_epoch_started = epoch;
            history.last_interval_started = since;
            history.last_epoch_clean = epoch;
            history.last_interval_clean = since;
            self.records.info.last_epoch_started = epoch;
            self.records.info.last_interval_started = since;
            self.records.info.stats.last_epoch_clean = epoch;
            self.records.past.clear();
            if !self.is_active() {
                self.records.info.stats.last_became_active = self.now;
                self.records.info.stats.last_became_peered = self.now;
                self.records.info.stats.last_change = self.now;
            }
            self.phase = Phase::Active;
        } else {
            self.phase = Phase::Inactive;
            if primary {
                out.push(PgEffect::Notice(Notice::NotServed { reason: "more than one OSD acts" }));
            } else {
                for op in std::mem::take(&mut self.waiting) {
                    Self::dropped(op.session, op.op.tid, NOT_PRIMARY, out);
                }
            }
        }
        self.records.dirty = true;
        self.submit_info(out);
        if self.is_active() {
            for op in std::mem::take(&mut self.waiting) {
                self.on_client_op(op, out);
            }
        }
    }

    /// The PG's statistics as they are reported at `self`'s time, with the state that clients see.
    pub fn stats(&self) -> PgStat {
        let mut stats = self.records.info.stats.clone();
        let now = self.now;
        let clean = self.is_active();
        stats.state = if clean { PgState::ACTIVE.with(PgState::CLEAN) } else { PgState::default() };
        stats.version = self.records.info.last_update;
        stats.reported_epoch = self.epoch();
        stats.last_fresh = now;
        stats.last_unstale = now;
        stats.log_start = self.records.info.log_tail;
        stats.ondisk_log_start = self.records.info.log_tail;
        stats.last_scrub = self.records.info.history.last_scrub;
        stats.last_scrub_stamp = self.records.info.history.last_scrub_stamp;
        stats.last_deep_scrub = self.records.info.history.last_deep_scrub;
        stats.last_deep_scrub_stamp = self.records.info.history.last_deep_scrub_stamp;
        stats.last_clean_scrub_stamp = self.records.info.history.last_clean_scrub_stamp;
        stats.last_epoch_clean = self.records.info.history.last_epoch_clean;
        stats.avail_no_missing.clear();
        stats.stats.sum.num_rd += self.reads_to_count.num_rd;
        stats.stats.sum.num_rd_kb += self.reads_to_count.num_rd_kb;
        stats.stats.sum.num_object_copies = stats.stats.sum.num_objects * stats.acting.len() as i64;
        if clean {
            stats.last_active = now;
            stats.last_clean = now;
            stats.last_peered = now;
            stats.last_undegraded = now;
            stats.last_fullsized = now;
        }
        stats
    }

    /// [`Pg::stats`] for a report: each has a higher `reported_seq`.
    pub fn report(&mut self) -> PgStat {
        self.records.info.stats.reported_seq += 1;
        self.stats()
    }
}
