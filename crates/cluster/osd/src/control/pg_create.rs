//! Placement groups made on the monitor's word.
//!
//! A PG that has existed must never be created again: its data would seem never to have been. Ceph's monitors mark a
//! pool CREATING until all its PGs are made, and orders for other pools are old ones. A monitor that sends an order
//! without a history (ours) may not know whether the PG has existed: then the maps since the pool was made have to say
//! that no other OSD can ever have had it, and that this OSD had this store all the time.
//!
//! A PG's history begins with the order, not with the map that this OSD has come to: all copies must agree on it. The
//! maps in between are read from the store, oldest first, and handed to the new PG.

use std::collections::BTreeMap;
use std::sync::Arc;

use maps::OsdMap;
use messages::{OsdPgCreate2, OsdPgCreated, PastIntervals, Paxos, PgHistory};
use options::opt;
use pg::{MapView, Origin};
use types::{Epoch, Release, SpgId, UTime};

use super::boot::is_of_another_store;
use super::map_reader::FoundMap;
use super::{Control, MapPurpose};
use crate::LogLevel;
use crate::parts::{Out, ToShard};
use crate::shard::pg_view::view;

/// As many PGs for one of mon_max_pg_per_osd may be made here (osd_max_pg_per_osd_hard_ratio).
const MAX_PG_HARD_RATIO: u64 = 3;

/// An order to make a PG.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CreateOrder {
    /// The monitor's map when it gave the order.
    at: Epoch,
    /// The map since which the PG is to exist, and when that was.
    made: (Epoch, UTime),
    /// What became of the PG until `at`, as Ceph's monitors say it.
    past: Option<(PgHistory, PastIntervals)>,
}

/// A PG that is made once the maps since `first` were read.
#[derive(Debug)]
struct PendingCreate {
    order: CreateOrder,
    first: Epoch,
    /// Whether the maps must show that no other OSD, and no other store of this one, can have had it.
    doubtful: bool,
    /// The PG in the maps read so far. Of neighbours that differ only in the epoch the first and the last are kept.
    views: Vec<MapView>,
}

/// Whether nothing that a PG heeds is different.
fn is_same(a: &MapView, b: &MapView) -> bool {
    (&a.up, a.up_primary, &a.acting, a.acting_primary, &a.pool, a.osdmap.flags)
        == (&b.up, b.up_primary, &b.acting, b.acting_primary, &b.pool, b.osdmap.flags)
}

impl PendingCreate {
    fn add(&mut self, view: MapView) {
        if let [.., before, last] = &self.views[..]
            && is_same(before, last)
        {
            self.views.pop();
        }
        self.views.push(view);
    }

    /// Where the PG begins; `None` if no map had its pool.
    fn origin(self) -> Option<Origin> {
        let (made, stamp) = self.order.made;
        let (history, past) =
            self.order.past.unwrap_or((PgHistory::created(made, stamp), PastIntervals::default()));
        let mut views = self.views.into_iter();
        Some(Origin { history, past, first: views.next()?, later: views.collect() })
    }
}

/// PGs for which maps are read.
#[derive(Debug, Default)]
pub(crate) struct PendingCreates(BTreeMap<SpgId, PendingCreate>);

/// PGs that one event makes, at most: each takes some 20 microseconds.
const PGS_MADE_PER_EVENT: usize = 256;

impl Control {
    /// The monitor wants PGs made.
    pub(crate) fn handle_pg_create(&mut self, message: &OsdPgCreate2, out: &mut Out) {
        self.mon.subscriptions().got("osd_pg_creates", message.epoch.0.into());
        for (pgid, made) in &message.pgs {
            if !self.pgs.contains(pgid) {
                let past = message.pg_extra.get(pgid).cloned();
                let ended = past.as_ref().and_then(|(_, past)| past.0.as_ref()).map(|past| past.last);
                if ended.is_some_and(|last| last >= message.epoch) {
                    let epoch = message.epoch;
                    let text =
                        format!("pg {pgid} is not made: its order of epoch {epoch} has intervals past it");
                    self.log(LogLevel::Error, text, out);
                    continue;
                }
                self.pgs.to_create.insert(*pgid, CreateOrder { at: message.epoch, made: *made, past });
            } else if self.pgs.created.contains(&pgid.pg) {
                // It was reported to the monitor before, and the message was lost.
                self.send_mon(OsdPgCreated { paxos: Paxos::default(), pgid: pgid.pg }, out);
            }
        }
        self.create_pgs(out);
    }

    /// Makes the PGs that wait for it, as far as the map and the limit of PGs allow.
    pub(crate) fn create_pgs(&mut self, out: &mut Out) {
        // Without a map the orders wait for one.
        let Some(map) = self.history.current().cloned() else { return };
        if self.loading.is_some() || self.creating.is_some() {
            return;
        }
        let mut pending = BTreeMap::new();
        let due = self.pgs.to_create.iter().filter(|(_, order)| order.at <= map.epoch);
        let due: Vec<_> = due.take(PGS_MADE_PER_EVENT).map(|(pgid, order)| (*pgid, order.clone())).collect();
        self.creates_left = due.len() == PGS_MADE_PER_EVENT;
        for (pgid, order) in due {
            if !self.may_create(pgid, &map) {
                self.pgs.to_create.remove(&pgid);
                continue;
            }
            if !self.has_room(pending.len(), pgid, out) {
                self.creates_left = false;
                break;
            }
            self.pgs.to_create.remove(&pgid);
            let creating = map.require_osd_release < Release::NAUTILUS || self.is_being_created(pgid);
            let made = order.made.0.min(map.epoch);
            let oldest = self.superblock.oldest_map;
            let (first, doubtful) = match (creating, &order.past) {
                (true, Some(_)) => (order.at.max(oldest), false),
                (true, None) => (made.max(oldest), false),
                // An old order: the pool's PGs were made.
                (false, Some(_)) => continue,
                // This store may be younger than the PG, which another may have had.
                (false, None) if made < oldest => continue,
                (false, None) => (made, true),
            };
            pending.insert(pgid, PendingCreate { order, first, doubtful, views: Vec::new() });
        }
        if let Some(first) = pending.values().map(|m| m.first).min() {
            self.creating = Some(PendingCreates(pending));
            self.make_from(first, None, out);
        }
    }

    /// Whether there are more to make.
    pub(crate) fn has_work(&self) -> bool {
        self.creates_left
    }

    /// Goes on with what was left to make.
    pub(crate) fn go_on_creating(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.creates_left) {
            self.create_pgs(out);
        }
    }

    fn has_room(&self, coming: usize, pgid: SpgId, out: &mut Out) -> bool {
        let pgs_max = self.options.get(opt::MON_MAX_PG_PER_OSD) * MAX_PG_HARD_RATIO;
        let room = ((self.pgs.len() + coming) as u64) < pgs_max;
        if !room {
            let text = format!("pg {pgid} is not made: there are {pgs_max} PGs here already");
            self.log(LogLevel::Warn, text, out);
        }
        room
    }

    fn may_create(&self, pgid: SpgId, map: &OsdMap) -> bool {
        let exists = map.pools.get(&pgid.pg.pool).is_some_and(|pool| pgid.pg.seed < pool.pg_num);
        exists && !self.pgs.contains(&pgid)
    }

    /// Goes on with the maps from `epoch` on; the current one is at hand, earlier ones are read. `base`: the map before.
    /// Whether that was all.
    fn make_from(&mut self, epoch: Epoch, base: Option<Arc<OsdMap>>, out: &mut Out) -> bool {
        let Some(map) = self.history.current().cloned() else {
            out.broken("orders are looked into without a map");
            return true;
        };
        if epoch < map.epoch && self.creating.as_ref().is_some_and(|pending| !pending.0.is_empty()) {
            self.read_map(epoch, base, MapPurpose::Create, out);
            return false;
        }
        self.note_views(&map);
        for (pgid, pending) in self.creating.take().map(|pending| pending.0).unwrap_or_default() {
            if let (true, Some(origin)) = (self.may_create(pgid, &map), pending.origin()) {
                self.create_pg(pgid, origin, out);
            }
        }
        true
    }

    pub(super) fn on_create_map(&mut self, epoch: Epoch, found: FoundMap, out: &mut Out) {
        let (map, reason) = match found {
            Ok(Some(found)) => (Some(Arc::new(found.map)), String::new()),
            Ok(None) => (None, "it is not stored".into()),
            Err(reason) => (None, reason),
        };
        match &map {
            Some(map) => self.note_views(map),
            None => {
                for pending in self.creating.iter_mut() {
                    pending.0.retain(|_, pending| !pending.doubtful);
                    // What comes after the hole is all that is known.
                    pending.0.values_mut().for_each(|pending| pending.views.clear());
                }
                let text =
                    format!("map {epoch} does not show where new PGs were, some may not be made: {reason}");
                self.log(LogLevel::Warn, text, out);
            }
        }
        if self.make_from(epoch.next(), map, out) {
            // Orders that came in the meantime.
            self.create_pgs(out);
        }
    }

    /// Notes where the PGs are in this map, and strikes out doubtful ones that another OSD may have had in it, or another store of
    /// this one.
    fn note_views(&mut self, map: &Arc<OsdMap>) {
        // No PG is being made: there is nothing to note.
        let (whoami, Some(creating)) = (self.config.whoami, &mut self.creating) else { return };
        let had_another_store =
            map.osd(whoami).is_some_and(|osd| is_of_another_store(osd, self.config.osd_fsid));
        creating.0.retain(|pgid, pending| {
            let Some(view) = view(map, pgid).filter(|_| map.epoch >= pending.first) else { return true };
            // It comes out of another PG, in which its objects are or were.
            if pending.doubtful && pgid.pg.seed >= view.pool.pg_num {
                return false;
            }
            let elsewhere = view.acting.iter().any(|osd| *osd != whoami);
            pending.add(view);
            !(pending.doubtful && (elsewhere || had_another_store))
        });
    }

    /// Has a PG made, if this OSD acts in it.
    fn create_pg(&mut self, pgid: SpgId, origin: Origin, out: &mut Out) {
        let newest = origin.later.last().unwrap_or(&origin.first);
        if newest.acting.contains(&self.config.whoami) {
            let shard = self.shard_for(&pgid);
            self.pgs.insert(pgid, shard);
            out.send_shard(shard, ToShard::Make { pgid, origin: Box::new(origin) });
        }
    }
}
