//! Placement groups made on the monitor's word.
//!
//! A PG must never be made anew where it has existed: its data would seem never to have been. Ceph's monitors mark a
//! pool CREATING until all its PGs are made, and orders for other pools are old ones. A monitor that sends an order
//! without a history (ours) may not know whether the PG has existed: then the maps since the pool was made have to say
//! that nobody but this OSD can ever have had it, and this store has to be older than the pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use encoding::Decode;
use maps::OsdMap;
use messages::{OsdPgCreate2, OsdPgCreated, Paxos};
use pg::Pg;
use store::{Completion, ReadOutcome};
use types::{Epoch, Release, SpgId, UTime};

use crate::osd::{Out, OwnIo};
use crate::pg_view::{Mapping, view};
use crate::superblock::{full_map_object, read_meta};
use crate::{LogLevel, Osd};

/// As many PGs for one of mon_max_pg_per_osd may be made here (osd_max_pg_per_osd_hard_ratio).
const MAX_PG_HARD_RATIO: u64 = 3;

/// An order to make a PG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CreateOrder {
    /// The monitor's map when it gave the order.
    pub at: Epoch,
    /// The map since which the PG is to exist.
    pub made: Epoch,
    /// Whether a history came with it, as from Ceph's monitors.
    pub has_history: bool,
}

/// Orders that old maps are read for.
#[derive(Debug, Default)]
pub(crate) struct VerifyOrders {
    /// PGs that may still be made, and since when they are to exist.
    pgs: BTreeMap<SpgId, Epoch>,
}

impl Osd {
    /// The monitor wants PGs made.
    pub(crate) fn handle_pg_create(&mut self, now: UTime, message: &OsdPgCreate2, out: &mut Out) {
        self.mon.subscriptions().got("osd_pg_creates", message.epoch.0.into());
        for (pgid, (made, _)) in &message.pgs {
            if !self.pgs.entries.contains_key(pgid) {
                let has_history = message.pg_extra.contains_key(pgid);
                let order = CreateOrder { at: message.epoch, made: *made, has_history };
                self.pgs.to_create.insert(*pgid, order);
            } else if self.pgs.created.contains(&pgid.pg) {
                // Told before, and lost on the way.
                self.send_mon(OsdPgCreated { paxos: Paxos::default(), pgid: pgid.pg }, out);
            }
        }
        self.create_pgs(now, out);
        self.sessions_ready(now, out);
    }

    /// Makes the PGs that wait for it, as far as the map and the limit of PGs allow.
    pub(crate) fn create_pgs(&mut self, now: UTime, out: &mut Out) {
        // Without a map the orders wait for one.
        let Some(map) = self.history.current().cloned() else { return };
        if self.loading.is_some() || self.verify.is_some() {
            return;
        }
        let mut doubtful = BTreeMap::new();
        for (pgid, order) in self.pgs.to_create.clone() {
            if order.at > map.epoch {
                continue;
            }
            if !self.may_create(pgid, &map) {
                self.pgs.to_create.remove(&pgid);
                continue;
            }
            if !self.has_room(pgid, out) {
                break;
            }
            self.pgs.to_create.remove(&pgid);
            let creating = map.require_osd_release < Release::NAUTILUS || self.is_being_created(pgid);
            match (creating, order.has_history) {
                (true, _) => self.create_pg(now, pgid, order.made, &map, out),
                (false, true) => {}
                (false, false) => drop(doubtful.insert(pgid, order.made.min(map.epoch))),
            }
        }
        if let Some(first) = doubtful.values().min().copied() {
            self.verify = Some(VerifyOrders { pgs: doubtful });
            self.verify_from(now, first, out);
        }
    }

    fn has_room(&self, pgid: SpgId, out: &mut Out) -> bool {
        let pgs_max = self.options.count("mon_max_pg_per_osd") * MAX_PG_HARD_RATIO;
        let room = (self.pgs.len() as u64) < pgs_max;
        if !room {
            let text = format!("pg {pgid} is not made: there are {pgs_max} PGs here already");
            self.log(LogLevel::Warn, text, out);
        }
        room
    }

    fn may_create(&self, pgid: SpgId, map: &OsdMap) -> bool {
        let exists = map.pools.get(&pgid.pg.pool).is_some_and(|pool| pgid.pg.seed < pool.pg_num);
        exists && !self.pgs.entries.contains_key(&pgid)
    }

    /// Goes on with the maps from `epoch` on; the current one is at hand, earlier ones are read.
    fn verify_from(&mut self, now: UTime, epoch: Epoch, out: &mut Out) {
        let Some(map) = self.history.current().cloned() else {
            return self.broken("orders are looked into without a map", out);
        };
        if let Some(verify) = &mut self.verify {
            verify.pgs.retain(|_, made| *made >= self.superblock.oldest_map);
        }
        if epoch < map.epoch && self.verify.as_ref().is_some_and(|v| !v.pgs.is_empty()) {
            return self.read(read_meta(full_map_object(epoch)), OwnIo::Verify { epoch }, out);
        }
        self.check_map(&map);
        for (pgid, made) in self.verify.take().map(|v| v.pgs).unwrap_or_default() {
            if self.may_create(pgid, &map) {
                self.create_pg(now, pgid, made, &map, out);
            }
        }
        // Orders that came in the meantime.
        self.create_pgs(now, out);
        self.sessions_ready(now, out);
    }

    pub(crate) fn on_verify_read(&mut self, now: UTime, epoch: Epoch, completion: Completion, out: &mut Out) {
        let map = match completion {
            Completion::Read { result: Ok(ReadOutcome::Data(data)), .. } => {
                OsdMap::from_bytes(&data.to_piece()).ok().filter(|map| map.epoch == epoch)
            }
            _ => None,
        };
        match map {
            Some(map) => self.check_map(&map),
            None => {
                self.log(LogLevel::Warn, format!("map {epoch} is not there to tell which PGs are new"), out);
                self.verify = Some(VerifyOrders::default());
            }
        }
        self.verify_from(now, epoch.next(), out);
    }

    /// Strikes out the PGs that somebody else may have had in this map.
    fn check_map(&mut self, map: &OsdMap) {
        let whoami = self.config.whoami;
        if let Some(verify) = &mut self.verify {
            verify.pgs.retain(|pgid, made| {
                map.epoch < *made || map.pg_to_up_acting(pgid.pg).acting.iter().all(|osd| *osd == whoami)
            });
        }
    }

    /// Makes a PG that is to exist since the map `made`. Clients may have asked for it from that map on: what they sent
    /// then counts, for they send nothing again as long as this OSD stays its primary.
    fn create_pg(&mut self, now: UTime, pgid: SpgId, made: Epoch, map: &Arc<OsdMap>, out: &mut Out) {
        let Some(view) = view(map, &pgid, made.min(map.epoch)) else {
            return self.broken(format!("pg {pgid} is to be made, and its pool is not in the map"), out);
        };
        if !view.acting.contains(&self.config.whoami) {
            return;
        }
        let mapping = Mapping::of(&view, self.config.whoami);
        let mut effects = Vec::new();
        let pg = Pg::create(pgid, self.config.whoami, self.pgs.config.clone(), view, now, &mut effects);
        self.insert_pg(now, pgid, pg, mapping);
        self.pg_perform(now, pgid, effects, out);
        self.stats_changed(now);
        self.want_up_thru(out);
    }
}
