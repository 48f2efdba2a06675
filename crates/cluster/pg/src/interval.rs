//! Maps: when an interval ends, and what is noted of it.

use std::sync::Arc;

use maps::{MapFlags, OsdMap};
use messages::{PastInterval, PgStat, PgState};
use ops::FullKind;
use types::{Epoch, PgShard};

use crate::hash_range::is_resized;
use crate::out::Out;
use crate::peering::acting_copies;
use crate::phase::{Active, Peering, Phase};
use crate::{MapView, Pg, PoolView};

impl Pg {
    pub(crate) fn on_advance_map(&mut self, map: MapView, out: &mut Out<'_>) {
        // `defer_map` keeps the map until the PG can take it.
        let Some(map) = self.defer_map(map) else { return };
        if matches!(self.phase, Phase::Removing) || self.map.as_ref().is_some_and(|m| map.epoch <= m.epoch) {
            return;
        }
        let first = self.map.is_none();
        if self.take_map(map, out) || first {
            self.decide_role(out);
        } else if self.phase.serves_requests() {
            self.trim_on(out);
        } else if let Phase::Peering(Peering::Others | Peering::UpThru) = self.phase {
            self.peer(out);
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
        self.fence_watches();
        self.update_snap_queue();
        new_interval
    }

    pub(crate) fn full(&self) -> Option<FullKind> {
        self.map.as_ref().and_then(|m| m.pool.full)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |m| m.epoch)
    }

    /// Goes on to the next map, which changes nothing for this PG: its sets, its pool and the map's flags are those of the
    /// map before.
    pub fn pass_map(&mut self, osdmap: &Arc<OsdMap>) {
        // A PG without a map gets its first one as an event.
        let Some(map) = &mut self.map else { return };
        map.epoch = osdmap.epoch;
        map.osdmap.clone_from(osdmap);
        self.fence_watches();
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
        // A restart does not know the map before, and the store how far the PG was split.
        let splits = self.is_to_split(map.pool.pg_num);
        (primary_changed || sets_changed || others_changed || splits, primary_changed)
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
        let (stats, history) = (&self.records.info.stats, &self.records.info.history);
        let ended = PastInterval {
            first: history.same_interval_since,
            last: Epoch(map.epoch.0.saturating_sub(1)),
            acting: acting_copies(&stats.acting).map(|osd| PgShard { osd, shard: self.id.shard }).collect(),
        };
        let last_clean = history.last_epoch_clean;
        // Where the last map is not known any more, the interval may have gone any way.
        let went_rw = match &self.map {
            Some(last) => last.may_have_written(&ended, last_clean),
            None => !ended.acting.is_empty() && stats.acting_primary.0 >= 0,
        };
        let (up_changed, splits) = (stats.up != map.up, self.is_to_split(map.pool.pg_num));
        // Other copies have what changes counted; a new interval begins with the primary's counters.
        let reads = std::mem::take(&mut self.reads_to_count);
        self.records.add_stats(&reads);
        self.records.past.add(ended, went_rw);
        let history = &mut self.records.info.history;
        history.same_interval_since = map.epoch;
        if splits {
            // Clients sent again when they saw the split, which may have been refused since: what they sent then is served.
            history.last_epoch_split = self.refused_split.as_ref().map_or(map.epoch, |split| split.since);
        }
        if up_changed {
            history.same_up_since = map.epoch;
        }
        if primary_changed {
            history.same_primary_since = map.epoch;
        }
        self.note_mapping(map);
        match map.acting_primary == self.whoami && !primary_changed {
            // Clients send nothing again as long as the primary is the same.
            true => self.requeue_requests(out),
            // They send again what they sent to an earlier primary.
            false => self.drop_begun("its interval has ended", out),
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

    /// The PG's statistics as they are reported at `self`'s time, with the state that clients see.
    pub fn stats(&self) -> PgStat {
        let mut stats = self.records.info.stats.clone();
        let now = self.now;
        stats.state = self.state();
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
        stats.snaptrimq_len = self.trims_to_do().min(u32::MAX.into()) as u32;
        stats.purged_snaps = self.purged_of_queue();
        stats.stats.sum.num_rd += self.reads_to_count.num_rd;
        stats.stats.sum.num_rd_kb += self.reads_to_count.num_rd_kb;
        stats.stats.sum.num_object_copies = stats.stats.sum.num_objects * stats.acting.len() as i64;
        if self.phase.serves_requests() {
            (stats.last_active, stats.last_peered) = (now, now);
        }
        if self.phase.is_clean() {
            stats.last_clean = now;
            stats.last_undegraded = now;
            stats.last_fullsized = now;
        }
        stats
    }

    /// The state that clients see.
    pub fn state(&self) -> PgState {
        let state = match self.phase {
            Phase::Active(Active::Clean) => PgState::ACTIVE.with(PgState::CLEAN),
            Phase::Active(Active::Undersized) => {
                PgState::ACTIVE.with(PgState::UNDERSIZED).with(PgState::DEGRADED)
            }
            Phase::Peered => PgState::PEERED.with(PgState::UNDERSIZED).with(PgState::DEGRADED),
            Phase::Peering(Peering::Activating) => PgState::ACTIVATING,
            Phase::Loading | Phase::Splitting | Phase::Peering(Peering::Others | Peering::UpThru) => {
                PgState::PEERING
            }
            Phase::Failed => PgState::DOWN,
            Phase::Nonprimary | Phase::Removing => PgState::default(),
        };
        self.add_scrub_state(match (self.trim.is_trimming(), self.trim.has_failed()) {
            (true, _) => state.with(PgState::SNAPTRIM),
            (false, true) => state.with(PgState::SNAPTRIM_ERROR),
            (false, false) => state,
        })
    }

    /// [`Pg::stats`] for a report: each has a higher `reported_seq`.
    pub fn report(&mut self) -> PgStat {
        self.records.info.stats.reported_seq += 1;
        self.stats()
    }
}
