//! Where the objects of PGs are that the map has taken from them. No OSD reports such a PG, so after a start of the monitor
//! nothing else says that the change which moved it can be undone.

use std::collections::{BTreeMap, BTreeSet};

use encoding::{Decode, Encode};
use types::{OsdId, PgId, PoolId};

use crate::state::{Batch, State, StateKey};

const SERVICE: &str = "pg_homes";

/// By PG, the OSDs that served it last.
pub type PgHomes = BTreeMap<PgId, Vec<OsdId>>;

fn key(pool: PoolId) -> StateKey {
    StateKey::version(SERVICE, pool.0.max(0) as u64)
}

fn pools(state: &State) -> impl Iterator<Item = (PoolId, &[u8])> {
    crate::state::versions(state, SERVICE, 0).map(|(pool, bytes)| (PoolId(pool as i64), bytes))
}

/// What is durable. A value that does not decode counts as a pool without such PGs: what would move them stays refused.
pub fn open(state: &State) -> PgHomes {
    let mut homes = PgHomes::new();
    for (pool, bytes) in pools(state) {
        let of_pool: BTreeMap<u32, Vec<OsdId>> = BTreeMap::from_bytes(bytes).unwrap_or_default();
        homes.extend(of_pool.into_iter().map(|(seed, home)| (PgId { pool, seed }, home)));
    }
    homes
}

/// Puts into a batch what differs from what is durable.
pub fn put(homes: &PgHomes, state: &State, batch: &mut Batch) {
    let mut by_pool: BTreeMap<PoolId, BTreeMap<u32, Vec<OsdId>>> = BTreeMap::new();
    for (pg, home) in homes {
        by_pool.entry(pg.pool).or_default().insert(pg.seed, home.clone());
    }
    let gone: BTreeSet<PoolId> = pools(state).map(|(pool, _)| pool).collect();
    for pool in gone.into_iter().filter(|pool| !by_pool.contains_key(pool)) {
        batch.delete(key(pool));
    }
    for (pool, homes) in by_pool {
        let bytes = homes.to_bytes(0);
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
            put(homes, &state, &mut batch);
            batch.apply_to(&mut state);
            assert_eq!(&open(&state), homes);
            batch.0.len()
        };
        assert_eq!((written(&homes), written(&homes)), (2, 0));
        homes.remove(&pg(1, 5));
        assert_eq!((written(&homes), written(&homes)), (1, 0));
        homes.remove(&pg(7, 0));
        assert_eq!((written(&homes), written(&homes)), (1, 0));
        state.insert(key(PoolId(1)), vec![1]);
        assert_eq!(open(&state), PgHomes::new(), "damage is no home");
    }
}
