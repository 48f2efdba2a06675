//! Maps, an epoch at a time, for the placement groups of a shard.

use std::sync::Arc;

use maps::OsdMap;
use messages::OsdOpReply;
use pg::PgEvent;
use types::{Errno, UTime};

use super::pg_view::{Mapping, view};
use super::{PgSlot, Shard};
use crate::parts::{Out, ToControl, ToGate};

impl Shard {
    /// One epoch on for all PGs.
    pub(super) fn take_map(&mut self, now: UTime, map: Arc<OsdMap>, out: &mut Out) {
        self.map = Some(map.clone());
        for slot in self.pgs.slots() {
            self.pg_advance(now, slot, &map, out);
        }
        self.note_reached(out);
        self.refuse_fenced(&map, out);
        self.retry(now, out);
    }

    /// Gives a PG the next map, unless it has seen it.
    pub(super) fn pg_advance(&mut self, now: UTime, slot: PgSlot, map: &Arc<OsdMap>, out: &mut Out) {
        let Some(entry) = self.pgs.get_mut(slot) else {
            return out.broken(format!("map {} for the PG of {slot:?}, which is not here", map.epoch));
        };
        if !entry.pg.phase().takes_maps() {
            return;
        }
        if map.epoch <= entry.epoch {
            // It was made in a later map.
            return;
        }
        entry.epoch = map.epoch;
        if map.epoch < entry.pg.info().stats.reported_epoch {
            // The OSD goes through stored maps again at its start.
            return;
        }
        let Some(view) = view(map, &entry.pg.id()) else {
            // The pool is gone: everything stored goes too, a part at a time.
            return self.pg_handle(now, slot, PgEvent::Remove, out);
        };
        let mapping = Mapping::of(&view, self.whoami);
        if !mapping.is_same_place(&entry.mapping) {
            entry.changed = now;
            entry.mapping = mapping;
            entry.moved = true;
        }
        entry.mapping.size = view.pool.size;
        self.advancing = true;
        self.pg_handle(now, slot, PgEvent::AdvanceMap(Box::new(view)), out);
        self.advancing = false;
    }

    /// Publishes that every PG has durably reached the newest map, once it is so.
    pub(super) fn note_reached(&mut self, out: &mut Out) {
        // Before the first map there is none to reach.
        let Some(epoch) = self.map.as_ref().map(|map| map.epoch) else { return };
        if self.advances == 0 && self.loading == 0 && self.reached < epoch {
            self.reached = epoch;
            out.send_control(ToControl::MapReached { shard: self.id, epoch });
        }
    }

    /// Refuses the requests that are held of clients that the map shuts out, whatever they wait for: they must learn
    /// that they are fenced. PGs see to those that they have.
    fn refuse_fenced(&mut self, map: &OsdMap, out: &mut Out) {
        let shut_out =
            self.queue.take_held(|held| held.op.addrs.0.iter().any(|addr| map.is_blocklisted(addr)));
        for held in shut_out {
            let session = held.op.session;
            let reply = Box::new(OsdOpReply::error(&held.op.op, Errno::ESHUTDOWN.code(), map.epoch));
            out.send_gate_of(session, ToGate::Reply { session, reply });
        }
    }
}
