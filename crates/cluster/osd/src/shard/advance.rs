//! Maps, an epoch at a time, for the placement groups of a shard.
//!
//! An epoch moves few PGs. A PG that it does not move, of a pool and with flags as before, only notes the map. All of it
//! happens in pieces of a bounded size, with other events between them: until the shard is through with a map, some of
//! its PGs have it and some have not, and requests of that epoch wait for theirs.

use std::sync::Arc;

use maps::{MapDelta, OsdMap, Stale};
use messages::{OsdOpReply, PgTrouble};
use pg::{PgEvent, Phase};
use types::{Errno, UTime};

use super::pg_view::{Mapping, view_at};
use super::{PgSlot, Shard};
use crate::LogLevel;
use crate::control::MapStep;
use crate::parts::{Out, PgPlace, ToControl, ToGate};

/// The work that maps are in one event, in looks at a PG that stays what it is. One of these takes about 0.1
/// microseconds, so an event takes some milliseconds at most.
pub(crate) const MAP_WORK_PER_EVENT: usize = 20_000;

/// The cost of a PG that gets a map, and may write.
const EVENT_WORK: usize = 100;
/// What CRUSH costs.
const WALK_WORK: usize = 50;

/// PGs of a shard that are being split at once. Each is a transaction that touches every object of it.
const SPLITS_AT_ONCE: usize = 8;

/// A map that the PGs are being taken to.
#[derive(Debug)]
pub(super) struct Advance {
    step: MapStep,
    /// The place of the PG that comes next.
    next: usize,
}

/// What a map is to a PG.
enum Turn {
    /// It has it, or takes no maps any more.
    Skip,
    /// It changes nothing.
    Pass,
    /// Its pool is gone.
    Remove,
    Tell(Box<pg::MapView>),
}

impl Shard {
    /// One epoch on for all PGs. The shard is through with the one before.
    pub(super) fn take_map(&mut self, now: UTime, step: MapStep, out: &mut Out) {
        if self.advance.is_some() {
            return out.broken(format!("map {} comes while another is gone through", step.map.epoch));
        }
        self.map = Some(step.map.clone());
        self.tell_compression(out);
        self.refuse_fenced(&step.map, out);
        self.advance = Some(Advance { step, next: 0 });
        self.go_on(now, out);
    }

    /// Whether there is more to do of a map or of a report, or PGs are yet to be told of purged snapshots.
    pub(crate) fn has_work(&self) -> bool {
        (self.advance.is_some() && !self.advance_waits) || self.collecting.is_some() || self.telling.is_some()
    }

    /// Goes on with the map that the PGs are being taken to, as far as this event may.
    ///
    /// PGs that are being split take no maps, and those that they are split into are to have every map from this one on. So
    /// there is no end of a map before all of them are there, and no beginning of the next.
    pub(crate) fn go_on(&mut self, now: UTime, out: &mut Out) {
        // There is no map to go on with: another shard of this core asked.
        let Some(mut advance) = self.advance.take() else { return };
        self.advance_waits = self.is_unsettled() && advance.next == 0;
        while advance.next < self.pgs.places() && !self.advance_waits {
            if self.splitting >= SPLITS_AT_ONCE && self.is_next_to_split(&advance) {
                self.advance_waits = true;
                break;
            }
            if !out.has_work_left() {
                self.advance = Some(advance);
                // What waited for the PGs that have the map now.
                return self.retry(now, out);
            }
            if let Some(slot) = self.pgs.by_place(advance.next).map(|entry| entry.slot) {
                let MapStep { map, delta } = &advance.step;
                self.pg_advance(now, slot, map, Some(delta), out);
            }
            advance.next += 1;
        }
        if self.advance_waits || self.is_unsettled() {
            self.advance_waits = true;
            self.advance = Some(advance);
            return self.retry(now, out);
        }
        let epoch = advance.step.map.epoch;
        out.send_control(ToControl::MapApplied { shard: self.id, epoch });
        self.note_reached(out);
        self.retry(now, out);
    }

    /// Whether PGs are being split or loaded.
    fn is_unsettled(&self) -> bool {
        self.splitting > 0 || self.loading > 0
    }

    fn is_next_to_split(&mut self, advance: &Advance) -> bool {
        // A place whose PG is gone.
        let Some(entry) = self.pgs.by_place(advance.next) else { return false };
        let pool = advance.step.map.pools.get(&entry.pg.id().pg.pool);
        pool.is_some_and(|pool| entry.pg.is_to_split(pool.pg_num))
    }

    /// Gives a PG a map, unless it has seen it. `delta` leads to it from the map before.
    fn pg_advance(
        &mut self,
        now: UTime,
        slot: PgSlot,
        map: &Arc<OsdMap>,
        delta: Option<&MapDelta>,
        out: &mut Out,
    ) {
        let turn = self.turn_of_map(now, slot, map, delta, out);
        match (turn, self.pgs.get_mut(slot)) {
            (Turn::Skip, _) | (_, None) => {}
            (Turn::Pass, Some(entry)) => {
                entry.pg.pass_map(map);
                self.timers.set(slot, &mut entry.timer, entry.pg.deadline());
            }
            // Everything stored goes too, a part at a time.
            (Turn::Remove, _) => self.pg_handle(now, slot, PgEvent::Remove, out),
            (Turn::Tell(view), _) => self.tell_map(now, slot, view, out),
        }
    }

    fn turn_of_map(
        &mut self,
        now: UTime,
        slot: PgSlot,
        map: &Arc<OsdMap>,
        delta: Option<&MapDelta>,
        out: &mut Out,
    ) -> Turn {
        out.note_work(1);
        let whoami = self.whoami;
        // A PG that is to be given a map was in the set a moment ago.
        let Some(entry) = self.pgs.get_mut(slot) else { return Turn::Skip };
        if entry.pg.phase() == Phase::Failed {
            self.place_failed(now, slot, map, out);
            return Turn::Skip;
        }
        if !entry.pg.phase().takes_maps() {
            return Turn::Skip;
        }
        if map.epoch <= entry.epoch {
            // It was made, or has loaded, in this map or a later one.
            return Turn::Skip;
        }
        // It leads nowhere from a PG that has not seen the map before.
        let delta = delta.filter(|delta| entry.epoch.next() == delta.epoch());
        entry.epoch = map.epoch;
        let pgid = entry.pg.id();
        let pool = map.pools.get(&pgid.pg.pool);
        let (Some(pool), true) = (pool, map.epoch >= entry.pg.info().stats.reported_epoch) else {
            entry.mapping = None;
            // The OSD goes through stored maps again at its start.
            return if pool.is_some() { Turn::Skip } else { Turn::Remove };
        };
        let of_delta = entry.mapping.as_mut().zip(delta);
        let stale = of_delta.as_ref().map(|(at, delta)| at.place.stale(pgid.pg, map, delta));
        out.note_work(if matches!(stale, None | Some(Stale::Walk)) { WALK_WORK } else { 0 });
        let moved = match (stale, of_delta) {
            (Some(Stale::No), _) => false,
            (_, Some((mapping, delta))) => mapping.advance(pgid.pg, map, delta, whoami),
            (_, None) => {
                let new = Mapping::of(map, pool, pgid.pg, whoami);
                let old = entry.mapping.replace(new.clone());
                old.is_none_or(|old| !old.place.is_same_place(&new.place))
            }
        };
        if moved {
            (entry.changed, entry.moved) = (now, true);
        }
        let is_as_before = |delta: &MapDelta| delta.pool(pgid.pg.pool).is_none() && delta.flags() == 0;
        if !moved && !entry.pg.phase().waits_for_a_map() && delta.is_some_and(is_as_before) {
            return Turn::Pass;
        }
        out.note_work(EVENT_WORK);
        let Some(mapping) = &mut entry.mapping else { return Turn::Skip };
        mapping.size = pool.size.into();
        Turn::Tell(Box::new(view_at(map, pool, &mapping.place)))
    }

    /// A PG that has failed takes no map, but its place in the map stays known: the OSD that leads it reports its state.
    fn place_failed(&mut self, now: UTime, slot: PgSlot, map: &Arc<OsdMap>, out: &mut Out) {
        out.note_work(WALK_WORK);
        let whoami = self.whoami;
        // It was in the set a moment ago.
        let Some(entry) = self.pgs.get_mut(slot) else { return };
        let pgid = entry.pg.id();
        let new = map.pools.get(&pgid.pg.pool).map(|pool| Mapping::of(map, pool, pgid.pg, whoami));
        let is_same = match (&entry.mapping, &new) {
            (Some(old), Some(new)) => old.place.is_same_place(&new.place),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            (entry.changed, entry.moved) = (now, true);
        }
        if entry.mapping.is_some() && new.is_none() {
            // Its pool is in no map any more, so nothing else would tell of it.
            let text = PgTrouble::Remains.line(&pgid, "it had failed before its pool was removed");
            out.send_control(ToControl::ClusterLog(LogLevel::Error, text));
        }
        entry.mapping = new;
        if let Some(status) = entry.publish(now) {
            out.send_control(ToControl::PgStatus { pgid, slot, status });
        }
    }

    fn tell_map(&mut self, now: UTime, slot: PgSlot, view: Box<pg::MapView>, out: &mut Out) {
        self.advancing = true;
        self.pg_handle(now, slot, PgEvent::AdvanceMap(view), out);
        self.advancing = false;
    }

    /// Gives a PG that has read what it keeps the newest map: it was not there for those before.
    pub(super) fn first_map(&mut self, now: UTime, slot: PgSlot, out: &mut Out) {
        // Before the first map there is none to give.
        let Some(map) = self.map.clone() else { return };
        self.pg_advance(now, slot, &map, None, out);
    }

    /// Publishes that every PG has durably reached the newest map, once it is so.
    pub(super) fn note_reached(&mut self, out: &mut Out) {
        // Before the first map there is none to reach.
        let Some(epoch) = self.map.as_ref().map(|map| map.epoch) else { return };
        if self.advances == 0 && !self.is_unsettled() && self.reached < epoch && self.advance.is_none() {
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
            let place = PgPlace { shard: self.id, slot: held.slot };
            let reply = Box::new(OsdOpReply::error(&held.op.op, Errno::ESHUTDOWN.code(), map.epoch));
            out.send_gate_of(session, ToGate::Reply { session, place, reply });
        }
    }

    /// The first way in which what is under way of a map contradicts itself.
    pub(super) fn check_advance(&self) -> Result<(), &'static str> {
        let epoch = |map: &Option<Arc<OsdMap>>| map.as_ref().map(|map| map.epoch);
        match &self.advance {
            Some(advance) if epoch(&self.map) != Some(advance.step.map.epoch) => {
                Err("the map that PGs are taken to is not the shard's")
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use auth::SessionId;
    use crush::CrushMap;
    use maps::{Incremental, NewCluster, OsdState, PgPool, PoolFlags};
    use messages::PgHistory;
    use pg::Origin;
    use store::{NoPeek, StoreShard};
    use types::{Epoch, Fsid, OsdId, PgId, PoolId, Release, SpgId};

    use super::super::op_queue::QueuedOp;
    use super::super::pg_view::view;
    use super::*;
    use crate::parts::{To, ToShard};
    use crate::{CoreId, Placement};

    const PGS: u32 = 16_384;
    const OSDS: i32 = 100;
    const POOL: PoolId = PoolId(1);
    /// One piece may end with a PG that CRUSH places and that gets the map.
    const PIECE: usize = MAP_WORK_PER_EVENT + EVENT_WORK + WALK_WORK;

    fn map() -> OsdMap {
        let cluster = NewCluster {
            fsid: Fsid([7; 16]),
            created: UTime::default(),
            release: Release::REEF,
            failure_domain: "host".into(),
        };
        let mut map = cluster.map().unwrap();
        let mut crush = CrushMap::new_cluster("host").unwrap();
        for osd in 0..OSDS {
            crush.add_osd(osd, 0x1_0000, &format!("host{}", osd / 5), None).unwrap();
        }
        map.crush = crush;
        map.set_max_osd(OSDS);
        map.osds.iter_mut().for_each(|osd| osd.state = OsdState::EXISTS | OsdState::UP);
        map.weights.fill(OsdMap::WEIGHT_IN);
        map.pools.insert(POOL, PgPool::replicated(3, 2, PGS, 0));
        map
    }

    /// What one epoch cost.
    #[derive(Default, Debug)]
    struct Cost {
        pieces: usize,
        longest: usize,
        total: usize,
    }

    struct Bench {
        shard: Shard,
        map: Arc<OsdMap>,
        inbox: VecDeque<To>,
    }

    impl Bench {
        /// Of an OSD that leads none of them.
        fn new(pgs: u32) -> Self {
            Self::led_by(OsdId(OSDS), pgs)
        }

        fn led_by(whoami: OsdId, pgs: u32) -> Self {
            let mut bench = Self {
                shard: Shard::new(StoreShard(0), whoami),
                map: Arc::new(map()),
                inbox: VecDeque::new(),
            };
            let step = bench.step(Arc::new(map()), None);
            bench.event(|shard, out| shard.handle(UTime::default(), ToShard::Map(step), out));
            for seed in 0..pgs {
                let pgid = SpgId::from(PgId { pool: POOL, seed });
                let first = view(&bench.map, &pgid).unwrap();
                let history = PgHistory::created(bench.map.epoch, UTime::default());
                let origin = Box::new(Origin { history, past: Default::default(), first, later: Vec::new() });
                let make = ToShard::Make { pgid, origin };
                bench.event(|shard, out| shard.handle(UTime::default(), make, out));
            }
            bench.inbox.clear();
            bench
        }

        fn step(&self, map: Arc<OsdMap>, increment: Option<&Incremental>) -> MapStep {
            let delta = Arc::new(MapDelta::between(&self.map, &map, increment));
            MapStep { map, delta }
        }

        /// Gives the shard an event; what that cost.
        fn event(&mut self, event: impl FnOnce(&mut Shard, &mut Out)) -> usize {
            let (mut effects, mut no_peek) = (Vec::new(), NoPeek);
            let placement = Placement::one_core(1);
            let mut out = Out::new(
                &mut effects,
                &mut self.inbox,
                &mut no_peek,
                CoreId(0),
                &placement,
                UTime::default(),
            );
            event(&mut self.shard, &mut out);
            out.work()
        }

        /// Begins an epoch; what its first piece cost.
        fn begin(&mut self, change: impl FnOnce(&OsdMap, &mut Incremental)) -> usize {
            let mut inc = Incremental::new(self.map.fsid, self.map.epoch.next(), UTime::default());
            change(&self.map, &mut inc);
            let mut new = OsdMap::clone(&self.map);
            new.apply(&inc).unwrap();
            let step = self.step(Arc::new(new), Some(&inc));
            self.map = step.map.clone();
            self.event(|shard, out| shard.handle(UTime::default(), ToShard::Map(step), out))
        }

        fn epoch(&mut self, change: impl FnOnce(&OsdMap, &mut Incremental)) -> Cost {
            let mut work = self.begin(change);
            let mut cost = Cost::default();
            loop {
                cost = Cost {
                    pieces: cost.pieces + 1,
                    longest: cost.longest.max(work),
                    total: cost.total + work,
                };
                if !self.shard.has_work() {
                    self.shard.check().unwrap();
                    return cost;
                }
                work = self.event(|shard, out| shard.go_on(UTime::default(), out));
            }
        }

        /// Every PG has the map, and is where it puts it.
        fn check(&self) {
            for entry in self.shard.pgs.iter() {
                let (pgid, epoch) = (entry.pg.id(), self.map.epoch);
                let at = entry.mapping.as_ref().unwrap().place.up_acting();
                assert_eq!((entry.epoch, entry.pg.stats().reported_epoch), (epoch, epoch), "{pgid}");
                assert_eq!(at, self.map.pg_to_up_acting(pgid.pg), "{pgid}");
                let stats = entry.pg.stats();
                assert_eq!((&stats.up, &stats.acting), (&at.up, &at.acting), "{pgid}");
            }
        }
    }

    #[test]
    fn a_pg_that_peers_hears_of_every_map() {
        let mut bench = Bench::led_by(OsdId(0), 500);
        let peers = bench.shard.pgs.iter().filter(|entry| entry.pg.phase().waits_for_a_map()).count();
        assert!(peers > 0);
        let cost = bench.epoch(|map, inc| {
            inc.new_up_thru.insert(OsdId(0), map.epoch);
        });
        assert_eq!(cost.total, 500 + peers * EVENT_WORK);
    }

    fn flap(_: &OsdMap, inc: &mut Incremental) {
        inc.new_state.insert(OsdId(42), OsdState::UP);
    }

    #[test]
    fn forty_epochs_with_16384_pgs_come_in_pieces_and_touch_the_pgs_that_they_move() {
        let mut bench = Bench::new(PGS);
        // Three copies over 100 OSDs: a PG in 33 has one on the OSD that flaps.
        let moved = (0..PGS)
            .filter(|&seed| bench.map.pg_to_up_acting(PgId { pool: POOL, seed }).up.contains(&OsdId(42)));
        let moved = moved.count();
        for epoch in 0..40 {
            let cost = bench.epoch(flap);
            assert!(cost.longest <= PIECE, "epoch {epoch}: {cost:?}");
            assert_eq!(cost.total, PGS as usize + moved * EVENT_WORK, "epoch {epoch}: {cost:?}");
        }
        bench.check();
        let cost = bench.epoch(|_, inc| {
            inc.new_weight.insert(OsdId(42), 0);
        });
        assert!(cost.longest <= PIECE && cost.pieces > 1, "{cost:?}");
        bench.check();
    }

    #[test]
    fn an_epoch_that_concerns_no_pg_costs_a_look_at_each() {
        let mut bench = Bench::new(500);
        assert_eq!(bench.epoch(|_, _| {}).total, 500);
        let life = bench.epoch(|map, inc| {
            inc.new_up_thru.insert(OsdId(3), map.epoch);
        });
        assert_eq!(life.total, 500);
        bench.check();
    }

    #[test]
    fn pgs_are_told_what_changes_of_their_pool_and_of_the_flags() {
        let mut bench = Bench::new(50);
        let full = |map: &OsdMap, inc: &mut Incremental| {
            let mut pool = map.pools[&POOL].clone();
            pool.flags |= PoolFlags::FULL;
            inc.new_pools.insert(POOL, pool);
        };
        assert_eq!(bench.epoch(full).total, 50 + 50 * EVENT_WORK);
        let marked = |bench: &Bench| {
            let epochs = bench.shard.pgs.iter().map(|entry| entry.pg.info().history.last_epoch_marked_full);
            epochs.collect::<Vec<_>>()
        };
        assert_eq!(marked(&bench), [bench.map.epoch; 50]);
        let flags =
            |map: &OsdMap, inc: &mut Incremental| inc.new_flags = Some(map.flags ^ maps::MapFlags::NOUP);
        assert_eq!(bench.epoch(flags).total, 50 + 50 * EVENT_WORK);
        bench.check();
    }

    #[test]
    fn an_epoch_without_its_delta_is_looked_up_whole() {
        let mut bench = Bench::new(50);
        for entry in bench.shard.pgs.iter_mut() {
            entry.epoch = Epoch(bench.map.epoch.0 - 1);
        }
        assert_eq!(bench.epoch(|_, _| {}).total, 50 * (1 + WALK_WORK + EVENT_WORK));
        bench.check();
    }

    #[test]
    fn between_pieces_a_request_of_the_new_epoch_waits_for_its_pg() {
        let mut bench = Bench::new(2000);
        let epoch = bench.map.epoch.next();
        bench.begin(|map, inc| inc.new_flags = Some(map.flags ^ maps::MapFlags::NOUP));
        while bench.shard.pgs.by_place(0).unwrap().epoch < epoch {
            bench.event(|shard, out| shard.go_on(UTime::default(), out));
        }
        assert!(bench.shard.has_work());
        let slots: Vec<_> = bench.shard.pgs.iter().map(|entry| entry.slot).collect();
        let held = |bench: &Bench| bench.shard.queue.iter().count();
        for (tid, slot) in [(1, slots[0]), (2, slots[1999])] {
            let mut op = super::super::op_queue::test_queued_op(slot.0, 7, tid);
            op.op.op.epoch = epoch;
            let QueuedOp { slot, op, .. } = op;
            let received = UTime::default();
            bench.event(|shard, out| {
                shard.handle(UTime::default(), ToShard::Request { slot, op, received }, out)
            });
        }
        assert_eq!(held(&bench), 1, "the last PG has not come to the map yet");
        assert_eq!(bench.shard.queue.iter().next().unwrap().op.session, SessionId(7));
        while bench.shard.has_work() {
            bench.event(|shard, out| shard.go_on(UTime::default(), out));
        }
        assert_eq!(held(&bench), 0);
        bench.check();
    }
}
