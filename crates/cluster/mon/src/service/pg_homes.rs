//! Where the objects of PGs are that the map has taken from them, and what they add up to. No OSD reports such a PG, so after a
//! start of the monitor nothing else says that the change which moved it can be undone, nor how much it has.

use std::collections::{BTreeMap, BTreeSet};

use encoding::{Decode, Encode};
use messages::ObjectStatSum;
use types::{OsdId, PgId, PoolId};

use crate::state::{Batch, State, StateKey};

const HOMES: &str = "pg_homes";
const SUMS: &str = "pg_sums";

/// By PG, the OSDs that served it last.
pub type PgHomes = BTreeMap<PgId, Vec<OsdId>>;

/// By PG, what it was reported to have.
pub type PgSums = BTreeMap<PgId, ObjectStatSum>;

fn pools<'a>(state: &'a State, service: &'static str) -> impl Iterator<Item = (PoolId, &'a [u8])> {
    crate::state::versions(state, service, 0).map(|(pool, bytes)| (PoolId(pool as i64), bytes))
}

/// What is durable. A value that does not decode counts as a pool without such PGs: what would move them stays refused.
pub fn open(state: &State) -> PgHomes {
    open_service(state, HOMES)
}

/// The same of what they have.
pub fn open_sums(state: &State) -> PgSums {
    open_service(state, SUMS)
}

fn open_service<T: Decode>(state: &State, service: &'static str) -> BTreeMap<PgId, T> {
    let mut all = BTreeMap::new();
    for (pool, bytes) in pools(state, service) {
        let of_pool: BTreeMap<u32, T> = BTreeMap::from_bytes(bytes).unwrap_or_default();
        all.extend(of_pool.into_iter().map(|(seed, of_pg)| (PgId { pool, seed }, of_pg)));
    }
    all
}

/// Puts into a batch what differs from what is durable.
pub fn put(homes: &PgHomes, sums: &PgSums, state: &State, batch: &mut Batch) {
    put_service(HOMES, homes, state, batch);
    put_service(SUMS, sums, state, batch);
}

fn put_service<T: Encode + Clone>(
    service: &'static str,
    all: &BTreeMap<PgId, T>,
    state: &State,
    batch: &mut Batch,
) {
    let key = |pool: PoolId| StateKey::version(service, pool.0.max(0) as u64);
    let mut by_pool: BTreeMap<PoolId, BTreeMap<u32, T>> = BTreeMap::new();
    for (pg, of_pg) in all {
        by_pool.entry(pg.pool).or_default().insert(pg.seed, of_pg.clone());
    }
    let gone: BTreeSet<PoolId> = pools(state, service).map(|(pool, _)| pool).collect();
    for pool in gone.into_iter().filter(|pool| !by_pool.contains_key(pool)) {
        batch.delete(key(pool));
    }
    for (pool, of_pool) in by_pool {
        let bytes = of_pool.to_bytes(0);
        if state.get(&key(pool)) != Some(&bytes) {
            batch.put(key(pool), bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pg(pool: i64, seed: u32) -> PgId {
        PgId { pool: PoolId(pool), seed }
    }

    #[test]
    fn only_pools_that_changed_are_written_and_what_was_written_comes_back() {
        let mut state = State::new();
        let mut homes = PgHomes::from([
            (pg(1, 3), vec![OsdId(0)]),
            (pg(1, 5), vec![OsdId(2)]),
            (pg(7, 0), vec![OsdId(1)]),
        ]);
        let mut written = |homes: &PgHomes| {
            let mut batch = Batch::default();
            let sum = ObjectStatSum { num_objects: 7, ..ObjectStatSum::default() };
            let sums = homes.keys().map(|pg| (*pg, sum)).collect();
            put(homes, &sums, &state, &mut batch);
            batch.apply_to(&mut state);
            assert_eq!((&open(&state), &open_sums(&state)), (homes, &sums));
            batch.0.len()
        };
        assert_eq!((written(&homes), written(&homes)), (4, 0));
        homes.remove(&pg(1, 5));
        assert_eq!((written(&homes), written(&homes)), (2, 0));
        homes.remove(&pg(7, 0));
        assert_eq!((written(&homes), written(&homes)), (2, 0));
        state.insert(StateKey::version(HOMES, 1), vec![1]);
        assert_eq!(open(&state), PgHomes::new(), "damage is no home");
    }
}
