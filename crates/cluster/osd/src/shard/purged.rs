//! Tells the placement groups of a shard which snapshots of their pools were ever purged.

use std::collections::BTreeMap;
use std::sync::Arc;

use pg::PgEvent;
use types::{IntervalSet, PoolId, UTime};

use super::Shard;
use crate::parts::Out;

/// PGs that one event tells: each looks at once into its index of clones.
const PGS_PER_EVENT: usize = 32;

/// What PGs are being told.
#[derive(Debug)]
pub(super) struct Telling {
    pub snaps: Arc<BTreeMap<PoolId, IntervalSet>>,
    /// The place of the PG that comes next.
    pub next: usize,
}

impl Shard {
    /// Goes on with telling, as far as one event may.
    pub(crate) fn tell_purged(&mut self, now: UTime, out: &mut Out) {
        // All PGs know.
        let Some(Telling { snaps, mut next }) = self.telling.take() else { return };
        let end = self.pgs.places().min(next + PGS_PER_EVENT);
        while next < end {
            let entry = self.pgs.by_place(next).map(|entry| (entry.slot, entry.pg.id().pg.pool));
            if let Some((slot, purged)) = entry.and_then(|(slot, pool)| Some((slot, snaps.get(&pool)?))) {
                self.pg_handle(now, slot, PgEvent::Purged(Box::new(purged.clone())), out);
            }
            next += 1;
        }
        if next < self.pgs.places() {
            self.telling = Some(Telling { snaps, next });
        }
    }
}
