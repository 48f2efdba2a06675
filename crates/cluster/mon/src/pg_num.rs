//! How many PGs a pool has: a target that a command sets, which the pool's PGs follow (what Ceph's manager does in
//! DaemonServer::adjust_pgs).
//!
//! OSDs split PGs where they are, so the new PGs must be on the same OSDs: data can't be moved between OSDs yet. They are,
//! as long as `pgp_num` stays, by which CRUSH places PGs. It follows where that takes no PG from its objects.

use maps::{PgPool, PoolFlags};
use types::{PgId, PoolId, UTime};

use crate::homes::OUT_OSDS;
use crate::mon::Mon;
use crate::stats::homes::serves;

/// PGs that a pool gets in one epoch; the next ones when these are active (mgr_max_pg_creating's default).
const PGS_AT_ONCE: u32 = 1024;

/// What a pool's numbers may become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PgNumbers {
    pub pg_num: u32,
    pub pgp_num: u32,
}

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
        let changed = PgPool { pg_num, pgp_num, ..pool.clone() };
        let pgp_num = if self.leaving(id, &changed).is_none() { pgp_num } else { pool.pgp_num };
        PgNumbers { pg_num, pgp_num }
    }

    /// Whether every PG of the pool was made and serves: then each has the records that the new ones begin with.
    fn may_split(&self, id: PoolId, pool: &PgPool) -> bool {
        let first = PgId { pool: id, seed: 0 };
        let mut pgs = self.pgmap.pgs.range(first..).take_while(|(pg, _)| pg.pool == id);
        !pool.has_flags(PoolFlags::CREATING) && pgs.all(|(_, pg)| serves(pg.state))
    }

    /// A PG that would be on other OSDs than the one that it comes out of: an exception places that one.
    pub(crate) fn splits_elsewhere(&self, id: PoolId, pg_num: u32) -> Option<PgId> {
        let old = self.osdmap.pools.get(&id)?;
        let maps = OUT_OSDS.map(|out| self.with_pool(id, PgPool { pg_num, ..old.clone() }, out));
        (old.pg_num..pg_num).map(|seed| PgId { pool: id, seed }).find(|pg| {
            let of = old.raw_pg_to_pg(*pg);
            maps.iter().any(|map| map.pg_to_up_acting(*pg) != map.pg_to_up_acting(of))
        })
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
