//! The snapshots whose objects every PG has removed: by pool for ever, and by the epoch that said so for as long as OSDs
//! may ask.

use std::collections::BTreeMap;

use encoding::{Decode, Encode};
use types::{Epoch, IntervalSet, PoolId};

use crate::state::{Batch, State, StateKey, versions};

/// By epoch: pool → snapshots; by the pool's number: all of its snapshots.
const SERVICE: &str = "purged_snaps";

/// What an epoch purged.
pub type PurgedByPool = BTreeMap<PoolId, IntervalSet>;

/// A pool's purged snapshots.
pub fn of_pool(state: &State, pool: PoolId) -> IntervalSet {
    let bytes = state.get(&StateKey::name(SERVICE, &pool.to_string()));
    bytes.and_then(|bytes| IntervalSet::from_bytes(bytes).ok()).unwrap_or_default()
}

/// Notes what the map of `epoch` says is purged.
pub fn put(state: &State, epoch: Epoch, purged: &PurgedByPool, batch: &mut Batch) {
    batch.put(StateKey::version(SERVICE, epoch.0.into()), purged.to_bytes(0));
    for (pool, snaps) in purged {
        let mut all = of_pool(state, *pool);
        all.union(snaps);
        batch.put(StateKey::name(SERVICE, &pool.to_string()), all.to_bytes(0));
    }
}

/// A pool is gone.
pub fn forget_pool(state: &State, pool: PoolId, batch: &mut Batch) {
    let key = StateKey::name(SERVICE, &pool.to_string());
    if state.contains_key(&key) {
        batch.delete(key);
    }
}

/// What the epochs after `start`, up to `last`, purged, as many as `bytes_max` allows; and the last epoch looked at.
pub fn after(
    state: &State,
    start: Epoch,
    last: Epoch,
    bytes_max: usize,
) -> (Epoch, BTreeMap<Epoch, PurgedByPool>) {
    let (mut out, mut bytes) = (BTreeMap::new(), 0);
    for (epoch, value) in versions(state, SERVICE, u64::from(start.0) + 1) {
        let epoch = Epoch(epoch as u32);
        if epoch > last {
            break;
        }
        out.insert(epoch, PurgedByPool::from_bytes(value).unwrap_or_default());
        bytes += value.len();
        if bytes > bytes_max {
            return (epoch, out);
        }
    }
    (last, out)
}
