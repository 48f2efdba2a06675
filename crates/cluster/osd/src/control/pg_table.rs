//! What the control part knows of the placement groups: where each is, and what its shard published last.

use std::collections::{BTreeMap, BTreeSet};

use maps::{OsdMap, PoolFlags};
use messages::{OsdPgCreated, Paxos};
use pg::Phase;
use store::StoreShard;
use types::{Epoch, PgId, PoolId, SpgId, UTime};

use super::load::LoadStep;
use super::map_history::MapStep;
use super::pg_create::CreateOrder;
use super::{Control, LogLevel};
use crate::parts::{Out, PgPlace, Route, ToGate, ToShard};
use crate::shard::{PgSlot, PgStatus};

/// A PG as the control part knows it.
#[derive(Debug)]
struct PgRecord {
    shard: StoreShard,
    /// `None` until its shard has published something of it.
    status: Option<PgStatus>,
    /// It has failed, and is not through with another attempt since.
    has_failed: bool,
}

impl PgRecord {
    fn loads(&self) -> bool {
        self.status.is_none_or(|status| status.phase == Phase::Loading)
    }

    /// Notes what its shard published. Whether it was loading before.
    fn publish(&mut self, status: PgStatus) -> bool {
        let loaded = self.loads();
        self.status = Some(status);
        self.has_failed = match status.phase {
            Phase::Failed => true,
            // A PG that has loaded its records becomes primary only when it gets its map.
            Phase::Loading | Phase::Nonprimary | Phase::Splitting => self.has_failed && status.leads,
            Phase::Peering(_) | Phase::Peered | Phase::Active(_) | Phase::Removing => false,
        };
        loaded
    }

    /// The way of requests to it; `None`: they go nowhere.
    fn route(&self, slot: PgSlot) -> Option<Route> {
        let place = PgPlace { shard: self.shard, slot };
        let is_served = self.status.is_some_and(|status| status.phase != Phase::Removing);
        is_served.then_some(Route { place, has_failed: self.has_failed })
    }
}

/// All PGs.
#[derive(Debug, Default)]
pub(super) struct PgTable {
    records: BTreeMap<SpgId, PgRecord>,
    /// PGs that have not read what they keep.
    loading: usize,
    /// Stored collections whose pool the map does not have yet (while old maps are gone through).
    deferred: BTreeMap<SpgId, StoreShard>,
    /// Shards whose stored collections are not known yet.
    finding: usize,
    /// PGs that the monitor wants made. They wait for the map of the order, or for room.
    pub to_create: BTreeMap<SpgId, CreateOrder>,
    /// PGs that were created: reported to the monitor until their pool is complete.
    pub created: BTreeSet<PgId>,
}

impl PgTable {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// PGs that this OSD leads.
    pub(super) fn led(&self) -> usize {
        self.statuses().filter(|(_, status)| status.is_led()).count()
    }

    /// Every PG, in order.
    pub(super) fn ids(&self) -> impl Iterator<Item = &SpgId> {
        self.records.keys()
    }

    pub(super) fn contains(&self, pgid: &SpgId) -> bool {
        self.records.contains_key(pgid)
    }

    pub(super) fn shard_of(&self, pgid: &SpgId) -> Option<StoreShard> {
        self.records.get(pgid).map(|record| record.shard)
    }

    pub(super) fn insert(&mut self, pgid: SpgId, shard: StoreShard) {
        self.records.insert(pgid, PgRecord { shard, status: None, has_failed: false });
        self.loading += 1;
    }

    pub(super) fn remove(&mut self, pgid: &SpgId) {
        if self.records.remove(pgid).is_some_and(|record| record.loads()) {
            self.loading -= 1;
        }
    }

    /// Whether every PG has read what it keeps.
    pub(super) fn all_loaded(&self) -> bool {
        self.finding == 0 && self.loading == 0
    }

    pub(super) fn status(&self, pgid: &SpgId) -> Option<&PgStatus> {
        self.records.get(pgid)?.status.as_ref()
    }

    pub(super) fn statuses(&self) -> impl Iterator<Item = (&SpgId, &PgStatus)> + Clone {
        self.records.iter().filter_map(|(pgid, record)| Some((pgid, record.status.as_ref()?)))
    }

    /// The PGs that are led here, and the oldest epoch in which any of them was last clean (`now` without any).
    pub(super) fn last_epochs_clean(&self, now: Epoch) -> (Vec<PgId>, Epoch) {
        let led = self.statuses().filter(|(_, status)| status.leads);
        let clean = |status: &PgStatus| if status.is_clean() { now } else { status.last_epoch_clean };
        let oldest = led.clone().map(|(_, status)| clean(status)).min().unwrap_or(now);
        (led.map(|(pgid, _)| pgid.pg).collect(), oldest)
    }

    /// The up_thru that the PGs led here need.
    pub(super) fn up_thru_wanted(&self) -> Epoch {
        let led = self.statuses().filter(|(_, status)| status.is_led());
        led.map(|(_, status)| status.same_interval_since).max().unwrap_or(Epoch(0))
    }

    /// Whether these are the PGs that the shards have, in the states that they published.
    pub(super) fn agrees_with(
        &self,
        shards: impl Iterator<Item = (SpgId, StoreShard, Option<PgStatus>)>,
    ) -> bool {
        let mut theirs = 0;
        let is_known = |(id, shard, status)| {
            theirs += 1;
            self.records.get(&id).is_some_and(|record| (record.shard, record.status) == (shard, status))
        };
        let known = { shards }.all(is_known);
        let loading = self.records.values().filter(|record| record.loads()).count();
        self.loading == loading && known && self.records.len() == theirs
    }
}

impl Control {
    /// The first way in which the shards' PGs are others than those known here, when no message is on its way.
    pub(crate) fn check_shards(&self, shards: &[crate::shard::Shard]) -> Result<(), &'static str> {
        let theirs =
            shards.iter().flat_map(|shard| shard.statuses().map(|(pgid, status)| (pgid, shard.id(), status)));
        match self.pgs.agrees_with(theirs) {
            true => Ok(()),
            false => Err("the control part knows other PGs, or other states, than the shards have"),
        }
    }

    /// The epoch that every PG of every shard has durably reached.
    pub(super) fn reached(&self) -> Epoch {
        self.shards.iter().map(|shard| shard.reached).min().unwrap_or(Epoch(0))
    }

    /// A PG is there, or its state is another than before.
    pub(super) fn on_pg_status(
        &mut self,
        now: UTime,
        pgid: SpgId,
        slot: PgSlot,
        status: PgStatus,
        out: &mut Out,
    ) {
        let Some(record) = self.pgs.records.get_mut(&pgid) else {
            return out.broken(format!("pg {pgid} has a state, and nothing is known of it"));
        };
        let (before, route_before) = (record.status, record.route(slot));
        let loaded = record.publish(status);
        match (loaded, record.loads()) {
            (true, false) => self.pgs.loading -= 1,
            // It had failed, and begins again.
            (false, true) => self.pgs.loading += 1,
            (true, true) | (false, false) => {}
        }
        let route = record.route(slot);
        if route_before != route {
            out.send_gates(|| ToGate::Pg { pgid, route });
        }
        // Another state; or another place, if nothing is different here.
        self.stats_changed(now);
        let is_there = |status: &PgStatus| status.stored && status.is_active();
        if is_there(&status) && !before.as_ref().is_some_and(is_there) {
            self.announce_pg(pgid, out);
        }
        if status.is_led() {
            self.want_up_thru(status.same_interval_since, out);
        }
        self.note_scrubbable(now, &pgid, out);
        self.pgs_loaded(now, out);
    }

    /// Reports to the monitor that a PG of a pool that is being made exists, once it does so durably: the monitor orders
    /// it no more.
    fn announce_pg(&mut self, pgid: SpgId, out: &mut Out) {
        if self.is_being_created(pgid) {
            self.pgs.created.insert(pgid.pg);
            self.send_mon(OsdPgCreated { paxos: Paxos::default(), pgid: pgid.pg }, out);
        }
    }

    pub(super) fn is_being_created(&self, pgid: SpgId) -> bool {
        let pool = self.history.current().and_then(|map| map.pools.get(&pgid.pg.pool));
        pool.is_some_and(|pool| pool.has_flags(PoolFlags::CREATING))
    }

    /// Reports to the monitor (again) which PGs of pools that are not complete yet were made.
    pub(super) fn resend_created(&mut self, out: &mut Out) {
        for pg in self.pgs.created.clone() {
            self.send_mon(OsdPgCreated { paxos: Paxos::default(), pgid: pg }, out);
        }
    }

    /// One epoch on.
    pub(super) fn pgs_advance(&mut self, now: UTime, step: &MapStep, old: Option<&OsdMap>, out: &mut Out) {
        self.note_merges(now, step, old, out);
        self.send_map(out);
        let map = &step.map;
        let known = |pgid: &SpgId| map.pools.contains_key(&pgid.pg.pool);
        let (load, wait) =
            std::mem::take(&mut self.pgs.deferred).into_iter().partition(|(pgid, _)| known(pgid));
        self.pgs.deferred = wait;
        self.load_pgs(load, out);
        let creating = |pool: &PoolId| map.pools.get(pool).is_some_and(|p| p.has_flags(PoolFlags::CREATING));
        self.pgs.created.retain(|pg| creating(&pg.pool));
        self.create_pgs(out);
    }

    /// Gives the shards the map that the control part goes by.
    pub(super) fn send_map(&self, out: &mut Out) {
        // A new OSD has no map yet.
        let Some(step) = self.history.step() else { return };
        out.send_shards(|| ToShard::Map(step.clone()));
    }

    /// PGs were split.
    pub(super) fn on_pgs_split(&mut self, shard: StoreShard, children: Vec<SpgId>, out: &mut Out) {
        for pgid in children {
            if self.pgs.contains(&pgid) {
                return out.broken(format!("pg {pgid} was split off another one, and is there"));
            }
            self.pgs.to_create.remove(&pgid);
            self.pgs.insert(pgid, shard);
        }
        // The shares of the log depend on how many PGs there are.
        self.configure_shards(out);
    }

    /// Says it where a pool's number of PGs falls: there are no merges yet.
    fn note_merges(&mut self, now: UTime, step: &MapStep, old: Option<&OsdMap>, out: &mut Out) {
        let map = &step.map;
        for (id, _) in step.delta.pools() {
            let pg_num = |map: &OsdMap| map.pools.get(&id).map(|pool| pool.pg_num);
            // A pool that is new or gone merges nothing.
            let (Some(was), Some(is)) = (old.and_then(pg_num), pg_num(map)) else { continue };
            if was <= is {
                continue;
            }
            let text = format!(
                "pool {}: pg_num goes from {was} to {is}, but PGs can't be merged yet: the objects of the PGs that are \
                 gone are not served; set pg_num back to {was}",
                id.0
            );
            self.cluster_log(now, LogLevel::Error, text, out);
        }
    }

    /// Asks the shards which PGs they have stored.
    pub(super) fn find_pgs(&mut self, out: &mut Out) {
        self.pgs.finding = self.shards.len();
        self.configure_shards(out);
        out.send_shards(|| ToShard::FindPgs);
    }

    /// A shard's collections are known: each is a PG.
    pub(super) fn on_pgs_found(
        &mut self,
        now: UTime,
        shard: StoreShard,
        found: Result<Vec<SpgId>, String>,
        out: &mut Out,
    ) {
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.fail(format!("can't list the collections of the store: {error}")),
        };
        let (Some(map), Some(LoadStep::Pgs(_))) = (self.history.current().cloned(), self.loading) else {
            return out.broken("PGs are found before the first map is loaded");
        };
        self.pgs.finding -= 1;
        let known = |pgid: &SpgId| map.pools.contains_key(&pgid.pg.pool);
        let found = found.into_iter().map(|pgid| (pgid, shard));
        let (load, wait): (BTreeMap<_, _>, BTreeMap<_, _>) = found.partition(|(pgid, _)| known(pgid));
        self.pgs.deferred.extend(wait);
        self.load_pgs(load, out);
        if self.pgs.finding == 0 {
            // The shares of the log depend on how many PGs there are.
            self.configure_shards(out);
        }
        self.pgs_loaded(now, out);
    }

    fn load_pgs(&mut self, pgs: BTreeMap<SpgId, StoreShard>, out: &mut Out) {
        for (pgid, shard) in pgs {
            self.pgs.insert(pgid, shard);
            out.send_shard(shard, ToShard::Load(pgid));
        }
    }

    /// All maps are gone through. Collections of pools that no map had are of pools that came and went in a hole
    /// between maps: they go.
    pub(super) fn drop_unknown_pgs(&mut self, out: &mut Out) {
        for (pgid, shard) in std::mem::take(&mut self.pgs.deferred) {
            self.pgs.insert(pgid, shard);
            out.send_shard(shard, ToShard::RemoveLeftover(pgid));
        }
    }

    /// The shard that a new PG is made in.
    pub(super) fn shard_for(&self, pgid: &SpgId) -> StoreShard {
        StoreShard::of_new((*pgid).into(), self.shards.len() as u32)
    }
}
