//! The OSD maps: taking in what comes, keeping what clients may still ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use buffer::{Piece, Rope};
use encoding::Decode;
use maps::{Incremental, MapDelta, OsdMap};
use messages::Blob;
use store::{CollectionId, Transaction};
use types::{Epoch, Fsid};

use super::map_reader::StoredMap;
use super::superblock::{full_map_object, inc_map_object};

/// Bytes of increments kept in memory.
const INCREMENT_BYTES_MAX: usize = 8 << 20;
/// Old maps removed from the store with each message of new ones. What is left begins with a map that is kept whole.
const TRIM_EPOCHS_MAX: u32 = maps::KEPT_WHOLE_EVERY;

/// Why a map was not taken. All of it is the sender's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum MapError {
    #[error("it belongs to the cluster {0}")]
    OtherCluster(Fsid),
    #[error("map {epoch}: {reason}")]
    Bad { epoch: Epoch, reason: String },
}

/// What came of a message of maps.
#[derive(Debug, PartialEq)]
pub(crate) enum MapUpdate {
    /// Nothing new in it.
    Nothing,
    /// Epochs are missing between ours and the message's: ask for them from here on.
    Gap { from: Epoch },
    /// Taken: to be stored, then [`MapHistory::advance_to`]. Which epochs came.
    Maps { first: Epoch, last: Epoch },
}

/// A map, and what it changes.
#[derive(Clone, Debug)]
pub(crate) struct MapStep {
    pub map: Arc<OsdMap>,
    /// What leads to it from the map before. Everything moves where that is unknown: at the first map, and where a full
    /// map came in place of an increment.
    pub delta: Arc<MapDelta>,
}

impl MapStep {
    fn new(before: Option<&Arc<OsdMap>>, map: Arc<OsdMap>, increment: Option<&Incremental>) -> Self {
        let delta = match before {
            Some(before) => MapDelta::between(before, &map, increment),
            None => MapDelta::between(&OsdMap::default(), &map, None),
        };
        Self { map, delta: Arc::new(delta) }
    }
}

/// Maps in memory. `newest` runs ahead of `current` while new maps are being stored.
#[derive(Debug, Default)]
pub(crate) struct MapHistory {
    /// From the current map to the newest one.
    maps: BTreeMap<Epoch, MapStep>,
    /// How many increments are kept in memory for peers and clients that lag behind; one that is further behind asks the
    /// monitor.
    pub increments_max: usize,
    /// Encoded increments by the epoch they lead to, without a hole up to the newest map.
    increments: BTreeMap<Epoch, Piece>,
    increment_bytes: usize,
    /// Encoded full map of the current epoch, once it was asked for.
    full: Option<(Epoch, Piece)>,
    current: Epoch,
    newest: Epoch,
    /// Up to which epoch full maps were asked for, since an increment gave another checksum than its own; 0 for none. Those
    /// up to the newest map have come (Ceph's requested_full_first and requested_full_last).
    fulls_asked: Epoch,
}

impl MapHistory {
    pub(crate) fn new(increments_max: usize) -> Self {
        Self { increments_max, ..Self::default() }
    }

    /// Begins with a map that was stored.
    pub(crate) fn load(&mut self, map: Arc<OsdMap>) {
        self.current = map.epoch;
        self.newest = map.epoch;
        self.maps = [(map.epoch, MapStep::new(None, map, None))].into();
    }

    /// Adds a map that was stored, newer than all.
    pub(crate) fn append(&mut self, stored: StoredMap) {
        let StoredMap { map, increment } = stored;
        let (increment, bytes) = increment.unzip();
        match bytes {
            Some(bytes) => self.keep_increment(map.epoch, bytes),
            None => self.forget_increments(),
        }
        self.insert(map, increment.as_ref());
    }

    fn insert(&mut self, map: OsdMap, increment: Option<&Incremental>) {
        let before = self.maps.get(&self.newest).map(|step| &step.map);
        let step = MapStep::new(before, Arc::new(map), increment);
        self.newest = step.map.epoch;
        self.maps.insert(self.newest, step);
    }

    /// The step to the map that everything here goes by; `None` before the first.
    pub(crate) fn step(&self) -> Option<&MapStep> {
        self.maps.get(&self.current)
    }

    /// The map that everything here goes by; `None` before the first.
    pub(crate) fn current(&self) -> Option<&Arc<OsdMap>> {
        self.step().map(|step| &step.map)
    }

    /// Its epoch; 0 before the first.
    pub(crate) fn epoch(&self) -> Epoch {
        self.current
    }

    /// The newest map taken in, stored or not.
    pub(crate) fn newest(&self) -> Epoch {
        self.newest
    }

    /// The same map, decoded; `None` before the first.
    pub(crate) fn newest_map(&self) -> Option<&OsdMap> {
        self.maps.get(&self.newest).map(|step| &*step.map)
    }

    /// Moves the current map on by one epoch, to one that was taken (and stored). Answers the step to it, and the map
    /// before.
    pub(crate) fn advance(&mut self) -> Option<(MapStep, Option<Arc<OsdMap>>)> {
        let (&next, step) = self.maps.range(self.current.next()..).next()?;
        let (step, old) = (step.clone(), self.maps.remove(&self.current));
        self.current = next;
        Some((step, old.map(|old| old.map)))
    }

    /// Takes the maps of a message that are new, and appends to `txn` what stores them. On an error whatever came
    /// before the bad map is taken.
    pub(crate) fn take(
        &mut self,
        message: &messages::OsdMap,
        fsid: Fsid,
        txn: &mut Transaction,
    ) -> Result<MapUpdate, MapError> {
        if message.fsid != fsid {
            return Err(MapError::OtherCluster(message.fsid));
        }
        let (Some(first), Some(last)) = (message.first(), message.last()) else {
            return Ok(MapUpdate::Nothing);
        };
        if last <= self.newest {
            return Ok(MapUpdate::Nothing);
        }
        if last == Epoch(u32::MAX) {
            return Err(MapError::Bad { epoch: last, reason: "nothing can come after it".into() });
        }
        let wanted = self.newest.next();
        // Only what the whole cluster has trimmed may be left out: PGs go through every other epoch.
        let trimmed = first <= message.cluster_osdmap_trim_lower_bound;
        if first > wanted && !(trimmed && message.maps.contains_key(&first)) {
            return Ok(MapUpdate::Gap { from: wanted });
        }
        let start = first.max(wanted);
        let mut taken = MapUpdate::Nothing;
        // Only epochs that are in the message: a range in it may be as long as its sender pleases.
        let epochs: std::collections::BTreeSet<Epoch> = message
            .maps
            .keys()
            .chain(message.incremental_maps.keys())
            .copied()
            .filter(|e| *e >= start)
            .collect();
        for epoch in epochs {
            if epoch != start && epoch != self.newest.next() {
                break;
            }
            self.take_one(message, epoch, txn)?;
            taken = MapUpdate::Maps { first: start, last: epoch };
        }
        Ok(taken)
    }

    fn take_one(
        &mut self,
        message: &messages::OsdMap,
        epoch: Epoch,
        txn: &mut Transaction,
    ) -> Result<(), MapError> {
        let bad = |reason: String| MapError::Bad { epoch, reason };
        let increment = message.incremental_maps.get(&epoch);
        // The first increment of all makes a map out of nothing.
        let nothing = (epoch == Epoch(1) && self.newest == Epoch(0)).then(Arc::<OsdMap>::default);
        let base = self
            .maps
            .get(&self.newest)
            .map(|step| &step.map)
            .or(nothing.as_ref())
            .filter(|m| m.epoch.next() == epoch);
        let (map, full, applied) = match (message.maps.get(&epoch), increment, base) {
            (Some(bytes), _, _) => {
                let map = OsdMap::from_bytes(bytes).map_err(|e| bad(e.to_string()))?;
                (map, bytes.0.clone(), None)
            }
            (None, Some(bytes), Some(base)) => {
                let inc = Incremental::from_bytes(bytes).map_err(|e| bad(e.to_string()))?;
                let mut map = OsdMap::clone(base);
                let full = map.apply_checked(&inc).map_err(|e| bad(e.to_string()))?;
                (map, Piece::from(full), Some(inc))
            }
            _ => return Err(bad("neither a full map nor an increment to the one before".into())),
        };
        if map.epoch != epoch || map.fsid != message.fsid {
            return Err(bad(format!("it is map {} of {}", map.epoch, map.fsid)));
        }
        if applied.is_none() || maps::is_kept_whole(epoch) {
            txn.write(CollectionId::Meta, &full_map_object(epoch), 0, full.into());
        }
        match increment {
            Some(bytes) => {
                txn.write(CollectionId::Meta, &inc_map_object(epoch), 0, Rope::from(bytes.0.clone()));
                self.keep_increment(epoch, bytes.0.clone());
            }
            // A hole: what lies before can't lead to what comes.
            None => self.forget_increments(),
        }
        self.insert(map, applied.as_ref());
        Ok(())
    }

    /// Notes that the full maps are needed that `message` has in another form. Answers which to ask for, also when they
    /// were asked for before: the monitor may not have had them then.
    pub(crate) fn want_fulls(&mut self, message: &messages::OsdMap) -> Option<(Epoch, Epoch)> {
        let first = self.newest.0.checked_add(1)?;
        // No further than it has maps: its sender may claim any epoch to be its last.
        let count = message.maps.len() + message.incremental_maps.len();
        let last = first.saturating_add(u32::try_from(count).ok()?) - 1;
        let last = Epoch(last).min(message.last()?);
        self.fulls_asked = self.fulls_asked.max(last);
        (Epoch(first) <= last).then_some((Epoch(first), last))
    }

    /// The full maps that were asked for and have not come.
    pub(crate) fn fulls_missing(&self) -> Option<(Epoch, Epoch)> {
        (self.newest < self.fulls_asked).then(|| (self.newest.next(), self.fulls_asked))
    }

    fn keep_increment(&mut self, epoch: Epoch, bytes: Piece) {
        if self.increments.last_key_value().is_some_and(|(last, _)| last.next() != epoch) {
            self.forget_increments();
        }
        self.increment_bytes += bytes.len();
        self.increments.insert(epoch, bytes);
        while self.increments.len() > self.increments_max || self.increment_bytes > INCREMENT_BYTES_MAX {
            let Some((_, old)) = self.increments.pop_first() else {
                debug_assert_eq!(self.increment_bytes, 0, "bytes of no increment");
                return;
            };
            self.increment_bytes -= old.len();
        }
    }

    /// The next older increment than all at hand, as long as those are less than `wanted`.
    pub(crate) fn increment_lacked(&self, wanted: usize) -> Option<Epoch> {
        let oldest = self.increments.keys().next().copied().unwrap_or(self.newest.next());
        let epoch = Epoch(oldest.0.checked_sub(1)?);
        (epoch > Epoch(0) && self.increments.len() < wanted).then_some(epoch)
    }

    /// Adds an increment of before this start. Whether there was room, and it leads to the oldest that is at hand.
    pub(crate) fn add_old_increment(&mut self, epoch: Epoch, bytes: Piece) -> bool {
        let fits = self.increment_lacked(self.increments_max) == Some(epoch)
            && self.increment_bytes + bytes.len() <= INCREMENT_BYTES_MAX;
        if fits {
            self.increment_bytes += bytes.len();
            self.increments.insert(epoch, bytes);
        }
        fits
    }

    fn forget_increments(&mut self) {
        self.increments.clear();
        self.increment_bytes = 0;
    }

    /// A message for a peer with map `have`: the increments that it lacks, those of the newest `epochs_max` that are at hand, or the
    /// current full map where the newest increment is not at hand. A receiver that sees a hole, and no `trim_bound` beyond
    /// it, asks the monitor for the epochs between. Ceph: OSDService::send_incremental_map.
    pub(crate) fn share_from(
        &mut self,
        have: Epoch,
        epochs_max: u32,
        trim_bound: Epoch,
    ) -> Option<messages::OsdMap> {
        let map = self.current()?.clone();
        if have >= map.epoch {
            return None;
        }
        let mut message = messages::OsdMap {
            fsid: map.fsid,
            newest_map: self.newest,
            cluster_osdmap_trim_lower_bound: trim_bound,
            ..messages::OsdMap::default()
        };
        if have.0 > 0 && self.increments.contains_key(&map.epoch) {
            let first = have.next().max(Epoch(map.epoch.next().0.saturating_sub(epochs_max)));
            let range = self.increments.range(first..=map.epoch);
            message.incremental_maps = range.map(|(e, bytes)| (*e, Blob(bytes.clone()))).collect();
        } else {
            message.maps = [(map.epoch, Blob(self.full_bytes(&map)))].into();
        }
        Some(message)
    }

    fn full_bytes(&mut self, map: &OsdMap) -> Piece {
        match &self.full {
            Some((epoch, bytes)) if *epoch == map.epoch => bytes.clone(),
            _ => {
                let bytes = Piece::from(map.encode_full());
                self.full = Some((map.epoch, bytes.clone()));
                bytes
            }
        }
    }
}

/// Appends the removal of stored maps from `oldest` up to (not including) `bound`, some at a time; answers the oldest
/// left.
pub(crate) fn trim(oldest: Epoch, bound: Epoch, txn: &mut Transaction) -> Epoch {
    let end = bound.min(maps::trim_bound(Epoch(oldest.0.saturating_add(TRIM_EPOCHS_MAX)))).0.max(oldest.0);
    for epoch in (oldest.0..end).map(Epoch) {
        txn.remove(CollectionId::Meta, &full_map_object(epoch));
        txn.remove(CollectionId::Meta, &inc_map_object(epoch));
    }
    Epoch(end)
}

#[cfg(test)]
mod tests {
    use maps::{MapFlags, PgPool, Placement, Publication, Stale, publish};
    use types::{PgId, PoolId, Release, UTime};

    use super::*;

    const POOL: PoolId = PoolId(1);
    const PG: PgId = PgId { pool: POOL, seed: 0 };

    fn next(before: &OsdMap, change: impl FnOnce(&mut Incremental)) -> Publication {
        let mut inc = Incremental::new(before.fsid, before.epoch.next(), UTime::default());
        change(&mut inc);
        publish(before, inc).unwrap()
    }

    fn first() -> Publication {
        next(&OsdMap::default(), |inc| {
            inc.new_require_osd_release = Release(16);
            inc.new_pools.insert(POOL, PgPool::default());
        })
    }

    fn message(published: &[(&Publication, bool)]) -> messages::OsdMap {
        let mut message = messages::OsdMap::default();
        for (one, full) in published {
            let epoch = one.map.epoch;
            match full {
                true => message.maps.insert(epoch, Blob(one.full.clone().into())),
                false => message.incremental_maps.insert(epoch, Blob(one.incremental.clone().into())),
            };
        }
        message
    }

    fn take(history: &mut MapHistory, message: &messages::OsdMap) -> MapUpdate {
        history.take(message, Fsid::default(), &mut Transaction::new()).unwrap()
    }

    #[test]
    fn an_increment_says_what_it_changes_and_a_full_map_changes_everything() {
        let one = first();
        let two = next(&one.map, |inc| inc.new_flags = Some(one.map.flags | MapFlags::NOUP));
        let three = next(&two.map, |_| {});
        let mut history = MapHistory::default();
        take(&mut history, &message(&[(&one, true), (&two, false), (&three, true)]));
        let place = Placement::of(&one.map, PG);
        let stale = |step: &MapStep| place.stale(PG, &step.map, &step.delta);
        let (step, old) = history.advance().unwrap();
        assert_eq!((step.map.epoch, old.map(|old| old.epoch), stale(&step)), (Epoch(1), None, Stale::Walk));
        let (step, old) = history.advance().unwrap();
        assert_eq!((step.delta.epoch(), old.map(|old| old.epoch)), (Epoch(2), Some(Epoch(1))));
        assert_eq!((step.delta.flags(), stale(&step)), (MapFlags::NOUP, Stale::No));
        let (step, _) = history.advance().unwrap();
        assert_eq!((step.delta.epoch(), stale(&step)), (Epoch(3), Stale::Walk));
        assert!(history.advance().is_none());
    }
}
