//! PGs that are made again because every copy of them is lost (`osd force-create-pg`).
//!
//! Their pool is flagged CREATING until they are reported, as in Ceph: OSDs follow no order for other pools. What is kept
//! of such a pool tells it from one that was never whole: of that all unreported PGs are to be made, of this only those
//! that were named.

use std::collections::BTreeMap;

use encoding::{Decode, Encode};
use types::{Epoch, PgId, PoolId, UTime};

use crate::mon::{Claim, Mon};
use crate::state::{Key, State, StateKey};

const SERVICE: &str = "forced_pgs";

/// By pool, the seeds of its PGs that are made again, and the epochs from which on these are to exist. A pool stays until
/// it is whole.
#[derive(Default)]
pub(crate) struct ForcedPgs(BTreeMap<PoolId, BTreeMap<u32, Epoch>>);

impl ForcedPgs {
    /// What is durable. A value that does not decode counts as a pool without such PGs: nothing is made for it.
    pub(crate) fn open(state: &State) -> Self {
        let pools = state.iter().filter(|(key, _)| key.service == SERVICE);
        let pools = pools.filter_map(|(key, value)| match key.key {
            Key::Version(pool) => {
                Some((PoolId(pool as i64), BTreeMap::from_bytes(value).unwrap_or_default()))
            }
            Key::Name(_) => None,
        });
        Self(pools.collect())
    }

    /// The epoch from which on a PG is to exist that is made again.
    pub(crate) fn epoch(&self, pg: PgId) -> Option<Epoch> {
        self.0.get(&pg.pool)?.get(&pg.seed).copied()
    }

    /// Whether a PG that nobody has reported is to be made, as far as its pool's past says.
    pub(crate) fn permit(&self, pg: PgId) -> bool {
        self.0.get(&pg.pool).is_none_or(|pgs| pgs.contains_key(&pg.seed))
    }

    /// The pools with such PGs.
    pub(crate) fn pools(&self) -> impl Iterator<Item = PoolId> + '_ {
        self.0.keys().copied()
    }
}

fn key(pool: PoolId) -> StateKey {
    StateKey::version(SERVICE, pool.0.max(0) as u64)
}

impl Mon {
    /// Keeps that a PG is to be made again from this epoch on.
    pub(crate) fn force_pg(&mut self, pg: PgId, epoch: Epoch) {
        let mut pgs = self.forced_pgs.0.get(&pg.pool).cloned().unwrap_or_default();
        pgs.insert(pg.seed, epoch);
        self.batch().put(key(pg.pool), pgs.to_bytes(0));
    }

    /// A pool is whole, or gone.
    pub(crate) fn forget_forced_pgs(&mut self, pool: PoolId) {
        if self.forced_pgs.0.contains_key(&pool) {
            self.batch().delete(key(pool));
        }
    }

    /// PGs that were reported are not made again another time.
    pub(crate) fn end_forced_pgs(&mut self) {
        for pool in self.forced_pgs.pools().collect::<Vec<_>>() {
            let mut pgs = self.forced_pgs.0[&pool].clone();
            let before = pgs.len();
            let is_reported = |seed: u32| self.pgmap.is_reported(PgId { pool, seed });
            pgs.retain(|seed, _| !is_reported(*seed));
            // A command that changes the pool now has its turn first.
            if pgs.len() < before && self.claim(Claim::Pool(pool.0)) {
                self.batch().put(key(pool), pgs.to_bytes(0));
            }
        }
    }

    /// Takes what became durable. What was reported of a PG before it was forced counts no more.
    pub(crate) fn forced_pgs_committed(&mut self, now: UTime) {
        let before = std::mem::replace(&mut self.forced_pgs, ForcedPgs::open(&self.state));
        for (pool, pgs) in &self.forced_pgs.0 {
            for (seed, epoch) in pgs {
                let pg = PgId { pool: *pool, seed: *seed };
                if before.epoch(pg) != Some(*epoch) {
                    self.pgmap.forget_report(now, pg, *epoch);
                }
            }
        }
    }

    /// Whether any of a batch's keys is of these.
    pub(crate) fn concerns_forced_pgs(key: &StateKey) -> bool {
        key.service == SERVICE
    }
}
