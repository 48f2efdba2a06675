//! The start of an interval: who leads, whether this OSD can serve, when it does.
//!
//! An interval is started when other OSDs have nothing that this one lacks (see [`crate::others`]), a map shows the primary
//! alive in it, and that is durable here; until then requests wait. Only a PG of one acting copy is started yet.

use messages::PastInterval;
use types::OsdId;

use crate::client::NOT_PRIMARY;
use crate::others::Others;
use crate::out::Out;
use crate::phase::{Active, Peering, Phase};
use crate::{MapView, Notice, Pg, PgEffect};

/// Copies that act; an erasure-coded pool's set has holes.
pub(crate) fn acting_copies(acting: &[OsdId]) -> impl Iterator<Item = OsdId> {
    acting.iter().copied().filter(|&osd| osd != OsdId::NONE && osd.0 >= 0)
}

impl MapView {
    /// Whether enough copies act to take writes.
    fn is_writeable(&self) -> bool {
        let copies = acting_copies(&self.acting).count();
        // A stretch pool asks for copies in so many buckets, so at least for as many copies.
        let buckets = self.pool.peering_crush.map_or(0, |peering| peering.bucket_count as usize);
        copies >= (self.pool.min_size as usize).max(buckets).max(1)
    }

    fn is_full_sized(&self) -> bool {
        acting_copies(&self.acting).count() >= self.pool.size as usize
    }

    /// Whether the primary of the interval that ended with this map may have taken writes in it.
    pub(crate) fn may_have_written(&self, ended: &PastInterval, last_clean: types::Epoch) -> bool {
        if self.acting_primary.0 < 0 || !self.is_writeable() {
            return false;
        }
        let primary = self.osdmap.osd(self.acting_primary).map(|osd| &osd.info);
        let alive = primary.is_some_and(|osd| osd.up_thru >= ended.first && osd.up_from <= ended.first);
        // Clean within it: recovery wrote.
        alive || (ended.first..=ended.last).contains(&last_clean)
    }
}

impl Pg {
    /// Begins to peer if this OSD leads; makes the interval durable either way.
    pub(crate) fn decide_role(&mut self, out: &mut Out<'_>) {
        let Some(map) = &self.map else {
            return self.broken("a role is decided without a map", out);
        };
        self.records.dirty = true;
        self.others = Others::default();
        // What would have activated an earlier interval.
        self.own.iter_mut().for_each(|own| own.activates = false);
        if self.is_to_split(map.pool.pg_num) {
            return self.begin_split(out);
        }
        if map.acting_primary == self.whoami {
            self.phase = Phase::Peering(Peering::UpThru);
            if !self.peer(out) {
                self.submit_info(out);
            }
            return;
        }
        let epoch = map.epoch;
        self.phase = Phase::Nonprimary;
        self.submit_info(out);
        self.release_backoffs(out);
        // Requests of newer maps came while the records were read: this OSD may lead in those.
        for (op, set_aside) in std::mem::take(&mut self.waiting) {
            match op.op.epoch > epoch {
                true => self.waiting.push_back((op, set_aside)),
                false => Self::dropped(op.session, op.op.tid, NOT_PRIMARY, out),
            }
        }
    }

    /// Goes on with the start of the interval as far as the map allows. Whether it is being activated.
    pub(crate) fn peer(&mut self, out: &mut Out<'_>) -> bool {
        if !self.settle_others(out) {
            // One that has failed stays so.
            if self.phase != Phase::Failed {
                self.phase = Phase::Peering(Peering::Others);
                self.hold_back_waiting(out);
            }
            return false;
        }
        let Some(map) = &self.map else {
            self.broken("a PG peers without a map", out);
            return false;
        };
        let up_thru = map.osdmap.osd(self.whoami).map(|osd| osd.info.up_thru);
        if up_thru.is_none_or(|up_thru| up_thru < self.records.info.history.same_interval_since) {
            self.phase = Phase::Peering(Peering::UpThru);
            return false;
        }
        if map.is_writeable() {
            self.records.info.last_epoch_started = map.epoch;
            self.records.info.last_interval_started = self.records.info.history.same_interval_since;
            self.records.dirty = true;
        }
        self.phase = Phase::Peering(Peering::Activating);
        self.submit_info(out);
        true
    }

    /// The start of the interval is durable.
    pub(crate) fn on_activated(&mut self, out: &mut Out<'_>) {
        let Some(map) = &self.map else {
            return self.broken("an interval starts without a map", out);
        };
        let (info, epoch) = (&mut self.records.info, map.epoch);
        info.history.last_epoch_started = info.last_epoch_started;
        info.history.last_interval_started = info.last_interval_started;
        if map.is_full_sized() {
            info.history.last_epoch_clean = epoch;
            info.history.last_interval_clean = info.history.same_interval_since;
            info.stats.last_epoch_clean = epoch;
            self.records.past.clear();
        }
        info.stats.last_became_peered = self.now;
        info.stats.last_change = self.now;
        self.records.dirty = true;
        if !map.is_writeable() {
            self.phase = Phase::Peered;
            self.submit_info(out);
            self.hold_back_waiting(out);
            let reason = "fewer OSDs act than the pool's min_size".to_owned();
            return out.push(PgEffect::Notice(Notice::NotServed { reason }));
        }
        info.stats.last_became_active = self.now;
        // Every acting copy has what this one has. The backend reports the changes that are in flight.
        if self.in_flight.is_empty() {
            self.records.durable = self.records.info.last_update;
        }
        self.phase = Phase::Active(if map.is_full_sized() { Active::Clean } else { Active::Undersized });
        self.submit_info(out);
        self.release_backoffs(out);
        self.note_kept_watchers();
        for (op, set_aside) in std::mem::take(&mut self.waiting) {
            self.on_client_op(op, set_aside, out);
        }
        self.trim_on(out);
    }
}
