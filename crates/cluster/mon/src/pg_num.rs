//! How many PGs a pool has: a target that a command sets, which the pool's PGs follow (what Ceph's manager does in
//! DaemonServer::adjust_pgs).
//!
//! OSDs split PGs where they are, so the new PGs must be on the same OSDs: data can't be moved between OSDs yet. They are,
//! as long as `pgp_num` stays, by which CRUSH places PGs. It follows where that moves nothing.

use maps::{OsdMap, OsdState, PgPool, PoolFlags};
use messages::PgState;
use types::{OsdId, PgId, PoolId, UTime};

use crate::mon::Mon;

/// PGs that a pool gets in one epoch; the next ones when these are active (mgr_max_pg_creating's default).
const PGS_AT_ONCE: u32 = 1024;

/// What a pool's numbers may become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PgNumbers {
    pub pg_num: u32,
    pub pgp_num: u32,
}

/// What is assumed of OSDs that are out. They come in again with the objects that they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OutOsds {
    StayOut,
    AreIn,
}

const OUT_OSDS: [OutOsds; 2] = [OutOsds::StayOut, OutOsds::AreIn];

impl Mon {
    /// A step of every pool towards the numbers of PGs that are asked for.
    pub(crate) fn adjust_pg_numbers(&mut self, now: UTime) {
        let due = |pool: &&PgPool| (pool.pg_num, pool.pgp_num) != (pool.pg_num_target, pool.pgp_num_target);
        let pools: Vec<PoolId> =
            self.osdmap.pools.iter().filter(|(_, pool)| due(pool)).map(|(id, _)| *id).collect();
        for id in pools {
            let Some(pool) = self.osdmap.pools.get(&id) else { continue };
            let next = self.next_pg_numbers(id, pool);
            if next != (PgNumbers { pg_num: pool.pg_num, pgp_num: pool.pgp_num }) {
                let epoch = self.osdmap.epoch.next();
                // A pool that is being changed waits for the next tick.
                let _ = self.change_pool(now, id, |pool| next.apply(pool, epoch));
            }
        }
    }

    /// The numbers that a pool may have in the next epoch.
    pub(crate) fn next_pg_numbers(&self, id: PoolId, pool: &PgPool) -> PgNumbers {
        let now = PgNumbers { pg_num: pool.pg_num, pgp_num: pool.pgp_num };
        let target = pool.pg_num_target.min(pool.pg_num.saturating_add(PGS_AT_ONCE));
        let grows = target > pool.pg_num;
        if grows && (!self.may_split(id, pool) || self.splits_elsewhere(id, target).is_some()) {
            return now;
        }
        let pg_num = target.max(pool.pg_num);
        let pgp_num = pool.pgp_num_target.min(pg_num);
        let pgp_num = if self.moves_nothing(id, pg_num, pgp_num) { pgp_num } else { pool.pgp_num };
        PgNumbers { pg_num, pgp_num }
    }

    /// Whether every PG of the pool was made and serves: then each has the records that the new ones begin with.
    fn may_split(&self, id: PoolId, pool: &PgPool) -> bool {
        let serves = |state: PgState| state.has(PgState::ACTIVE) || state.has(PgState::PEERED);
        let first = PgId { pool: id, seed: 0 };
        let mut pgs = self.pgmap.pgs.range(first..).take_while(|(pg, _)| pg.pool == id);
        !pool.has_flags(PoolFlags::CREATING) && pgs.all(|(_, pg)| serves(pg.state))
    }

    /// A PG that would be on other OSDs than the one that it comes out of: an exception places that one.
    pub(crate) fn splits_elsewhere(&self, id: PoolId, pg_num: u32) -> Option<PgId> {
        let old = self.osdmap.pools.get(&id)?;
        let numbers = PgNumbers { pg_num, pgp_num: old.pgp_num };
        let maps = OUT_OSDS.map(|out| self.with_pg_numbers(id, numbers, out));
        (old.pg_num..pg_num).map(|seed| PgId { pool: id, seed }).find(|pg| {
            let of = old.raw_pg_to_pg(*pg);
            maps.iter().any(|map| map.pg_to_up_acting(*pg) != map.pg_to_up_acting(of))
        })
    }

    /// Whether every PG stays where it is with another `pgp_num`, also when all OSDs are up, and when they are in too.
    pub(crate) fn moves_nothing(&self, id: PoolId, pg_num: u32, pgp_num: u32) -> bool {
        let Some(pool) = self.osdmap.pools.get(&id) else { return true };
        if pgp_num == pool.pgp_num {
            return true;
        }
        OUT_OSDS.into_iter().all(|out| {
            let before = self.with_pg_numbers(id, PgNumbers { pg_num, pgp_num: pool.pgp_num }, out);
            let after = self.with_pg_numbers(id, PgNumbers { pg_num, pgp_num }, out);
            let mut pgs = (0..pg_num).map(|seed| PgId { pool: id, seed });
            pgs.all(|pg| before.pg_to_up_acting(pg) == after.pg_to_up_acting(pg))
        })
    }

    /// The map with other numbers and with every OSD up: where PGs belong, whoever is down for now.
    fn with_pg_numbers(&self, id: PoolId, numbers: PgNumbers, out: OutOsds) -> OsdMap {
        let mut map = self.osdmap.clone();
        for osd in (0..map.max_osd()).filter(|osd| self.osdmap.exists(OsdId(*osd))) {
            map.osds[osd as usize].state |= OsdState::UP;
            let weight = &mut map.weights[osd as usize];
            if out == OutOsds::AreIn && *weight == 0 {
                *weight = OsdMap::WEIGHT_IN;
            }
        }
        if let Some(pool) = map.pools.get_mut(&id) {
            (pool.pg_num, pool.pgp_num) = (numbers.pg_num, numbers.pgp_num);
        }
        map
    }
}

impl PgNumbers {
    /// Changes the pool in the map of `epoch`.
    pub(crate) fn apply(self, pool: &mut PgPool, epoch: types::Epoch) {
        if self.pg_num != pool.pg_num {
            pool.pg_num = self.pg_num;
            pool.pg_num_pending = self.pg_num;
            // Clients from before Luminous do not know that PGs which split begin a new interval.
            pool.last_force_op_resend_preluminous = epoch;
        }
        pool.pgp_num = self.pgp_num;
    }
}
