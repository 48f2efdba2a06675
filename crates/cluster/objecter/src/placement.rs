//! From a request to the OSD that serves it, and whether a new map moves it (Ceph's _calc_target).

use std::collections::BTreeMap;

use crush::hash::stable_mod;
use maps::{MapFlags, OsdMap, PgPool, PoolFlags, UpActing};
use messages::osd_op::OsdFlags;
use types::{Epoch, ObjectLocator, OsdId, PgId, PoolId, ShardId, SpgId, SplitMix64};

use crate::request::{Pending, Target};

/// Where a map puts a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    /// Its seed is the object's whole hash.
    pub raw: PgId,
    pub pg: SpgId,
    /// Who gets it; `None` while no OSD serves the PG.
    pub osd: Option<OsdId>,
    pg_num: u32,
    acting: Vec<OsdId>,
    primary: Option<OsdId>,
    /// Whether `osd` is not the primary: then any change of the acting set counts.
    replica: bool,
    /// The map that it was last compared with.
    epoch: Epoch,
}

/// What a map means to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    None,
    /// It must be sent (again), if it is not paused.
    Resend,
    /// The map does not have its pool.
    PoolGone,
    /// The pool fails every request.
    PoolEio,
}

/// What placing a request asks beside it.
pub(crate) struct Placing<'a> {
    pub map: &'a OsdMap,
    /// Where the map puts PGs, as far as it was asked.
    pub known: &'a mut BTreeMap<PgId, UpActing>,
    /// Before this epoch nothing may be sent.
    pub barrier: Epoch,
    pub seed: u64,
}

/// Whether a flag of the map or of a pool says that there is no space.
pub(crate) fn is_full(map: &OsdMap, pool: PoolId) -> bool {
    map.has_flags(MapFlags::FULL) || map.pools.get(&pool).is_some_and(|p| p.has_flags(PoolFlags::FULL))
}

impl Placing<'_> {
    /// Places a request by the map.
    pub fn place(&mut self, pending: &mut Pending) -> Change {
        let map = self.map;
        let Some(pool) = map.pools.get(&pending.request.pool()) else { return Change::PoolGone };
        if pool.has_flags(PoolFlags::EIO) {
            return Change::PoolEio;
        }
        let paused = self.pauses(pending);
        let unpaused = pending.paused && !paused;
        pending.paused = paused;
        let Some((raw, pool)) = raw_pg(map, pending, pool) else { return Change::PoolGone };
        let pg = pool.raw_pg_to_pg(raw);
        let at = self.known.entry(pg).or_insert_with(|| map.pg_to_up_acting(pg)).clone();
        if let Some(old) = &mut pending.placement {
            // OSDs drop requests of epochs before it.
            let forced = pool.last_force_op_resend > old.epoch;
            let resized = is_resized(old.pg.pg.seed, old.pg_num, pool.pg_num);
            old.epoch = map.epoch;
            if !old.moves(raw, &at) && !forced && !resized {
                return if unpaused { Change::Resend } else { Change::None };
            }
        }
        let osd = self.choose(pending, pool, &at);
        let shard = match pool.can_shift_osds() {
            true => ShardId::NONE,
            false => shard_of(&at),
        };
        pending.placement = Some(Placement {
            raw,
            pg: SpgId { pg, shard },
            replica: osd != at.acting_primary,
            osd,
            pg_num: pool.pg_num,
            acting: at.acting,
            primary: at.acting_primary,
            epoch: map.epoch,
        });
        Change::Resend
    }

    fn pauses(&self, pending: &Pending) -> bool {
        let map = self.map;
        let full = pending.respects_full() && is_full(map, pending.request.pool());
        let no_writes = map.has_flags(MapFlags::PAUSEWR) || full;
        pending.has_flag(OsdFlags::READ) && map.has_flags(MapFlags::PAUSERD)
            || pending.has_flag(OsdFlags::WRITE) && no_writes
            || map.epoch < self.barrier
    }

    fn choose(&self, pending: &Pending, pool: &PgPool, at: &UpActing) -> Option<OsdId> {
        let balanced = pending.has_flag(OsdFlags::BALANCE_READS) && !pending.has_flag(OsdFlags::WRITE);
        if !balanced || !pool.can_shift_osds() || at.acting.is_empty() {
            return at.acting_primary;
        }
        let draw = SplitMix64::at(self.seed, pending.id.0) % at.acting.len() as u64;
        at.acting.get(draw as usize).copied()
    }
}

/// The PG before it is folded, and the pool that has it: a cache tier's, where there is one.
fn raw_pg<'a>(map: &'a OsdMap, pending: &Pending, base: &'a PgPool) -> Option<(PgId, &'a PgPool)> {
    let (name, locator) = match &pending.request.target {
        Target::Pg(pg) => return Some((*pg, base)),
        Target::Object { name, locator } => (name, locator),
    };
    let mut locator = ObjectLocator::clone(locator);
    if !pending.has_flag(OsdFlags::IGNORE_OVERLAY) {
        let tiers = [(OsdFlags::READ, base.read_tier), (OsdFlags::WRITE, base.write_tier)];
        let tier = tiers.into_iter().rfind(|(flag, tier)| pending.has_flag(*flag) && tier.0 >= 0);
        locator.pool = tier.map_or(locator.pool, |(_, tier)| tier);
    }
    Some((map.object_to_pg(&locator, name)?, map.pools.get(&locator.pool)?))
}

impl Placement {
    /// Whether a request is to be sent again because its PG or those who serve it are others.
    fn moves(&self, raw: PgId, at: &UpActing) -> bool {
        let role =
            |primary: Option<OsdId>, acting: &[OsdId]| acting.iter().position(|osd| Some(*osd) == primary);
        self.raw != raw
            || self.primary != at.acting_primary
            || role(self.primary, &self.acting) != role(at.acting_primary, &at.acting)
            || self.replica && self.acting != at.acting
    }
}

/// The shard of an erasure-coded PG's primary.
fn shard_of(at: &UpActing) -> ShardId {
    let place = at.acting.iter().position(|osd| Some(*osd) == at.acting_primary);
    place.and_then(|place| i8::try_from(place).ok()).map_or(ShardId::NONE, ShardId)
}

/// Whether a PG splits, is merged into another, or another is merged into it: OSDs drop what was sent before.
fn is_resized(seed: u32, old: u32, new: u32) -> bool {
    if old == new {
        return false;
    }
    let (few, many) = (old.min(new), old.max(new));
    let mask = few.checked_next_power_of_two().map_or(u32::MAX, |p| p - 1);
    seed >= few || (few..many).any(|other| stable_mod(other, few, mask) == seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pg_is_resized_if_it_gains_or_loses_hashes() {
        let owner = |hash: u32, pg_num: u32| stable_mod(hash, pg_num, pg_num.next_power_of_two() - 1);
        for (old, new) in (1..20).flat_map(|old| (1..20).map(move |new| (old, new))) {
            for seed in 0..old {
                let moves = (0..1024).any(|h| (owner(h, old) == seed) != (owner(h, new) == seed));
                assert_eq!(is_resized(seed, old, new), moves, "{seed} of {old}, then {new}");
            }
        }
    }
}
