//! What one epoch changed, as far as anything that follows the map has to look again.

use std::collections::{BTreeMap, BTreeSet};

use crush::OsdFilter;
use types::{Epoch, OsdId, PgId, PoolId};

use crate::mapping::QUINCY;
use crate::{Incremental, OsdMap, PgPool, PoolFlags};

/// What changed of a pool, from the least to the most: each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PoolChange {
    /// Facts that do not place its PGs: flags, options, min_size, snapshots.
    Facts,
    /// How the OSDs that CRUSH gives become up and acting sets.
    Sets,
    /// Where CRUSH places its PGs. Also of a pool that is new or gone.
    Walk,
}

/// An OSD whose entry changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OsdChange {
    pub id: OsdId,
    /// Its in/out weight.
    pub weight: bool,
    /// Whether it exists, whether it is up, its primary affinity.
    pub state: bool,
    /// Its life in epochs ([`crate::OsdInfo`]): up_from, up_thru, down_at, lost_at.
    pub life: bool,
}

/// What differs between an epoch and the one before. Made once per epoch and shared by all that follow the map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapDelta {
    epoch: Epoch,
    /// CRUSH may place every PG elsewhere.
    everything: bool,
    pools: BTreeMap<PoolId, PoolChange>,
    /// In order of their ids.
    osds: Vec<OsdChange>,
    reweighted: OsdFilter,
    restated: OsdFilter,
    /// PGs with another entry in a table of exceptions.
    pgs: BTreeSet<PgId>,
    flags: u32,
    blocklist: bool,
}

impl MapDelta {
    /// What leads from `old` to `new`, the next epoch. `increment` is what made `new` out of `old`; without it (a full map
    /// came) every PG is taken to have moved.
    pub fn between(old: &OsdMap, new: &OsdMap, increment: Option<&Incremental>) -> Self {
        let increment = increment.filter(|inc| inc.fullmap.is_empty());
        let mut delta = Self {
            epoch: new.epoch,
            everything: increment.is_none_or(|inc| rules_differ(old, new, inc)),
            pools: BTreeMap::new(),
            osds: Vec::new(),
            reweighted: OsdFilter::default(),
            restated: OsdFilter::default(),
            pgs: increment.map(excepted).unwrap_or_default(),
            flags: old.flags ^ new.flags,
            blocklist: increment.is_none_or(names_clients),
        };
        let pools: BTreeSet<PoolId> = match increment {
            Some(inc) => inc.new_pools.keys().chain(&inc.old_pools).copied().collect(),
            None => old.pools.keys().chain(new.pools.keys()).copied().collect(),
        };
        let purged = increment.into_iter().flat_map(|inc| inc.new_purged_snaps.keys());
        delta.pools.extend(purged.map(|id| (*id, PoolChange::Facts)));
        for id in pools {
            if let Some(change) = pool_change(old.pools.get(&id), new.pools.get(&id)) {
                delta.pools.insert(id, change);
            }
        }
        let longest = old.max_osd().max(new.max_osd());
        let osds: BTreeSet<OsdId> = match increment {
            Some(inc) => {
                let resized = old.max_osd().min(new.max_osd())..longest;
                named_osds(inc).chain(resized.map(OsdId)).collect()
            }
            None => (0..longest).map(OsdId).collect(),
        };
        osds.into_iter().for_each(|id| delta.compare_osd(old, new, id));
        delta
    }

    fn compare_osd(&mut self, old: &OsdMap, new: &OsdMap, id: OsdId) {
        // An exception whose target is beyond max_osd holds, though its weight is 0.
        let known = |map: &OsdMap| (0..map.max_osd()).contains(&id.0);
        let state = |map: &OsdMap| (map.exists(id), map.is_up(id), map.affinity(id), known(map));
        let life = |map: &OsdMap| map.osd(id).map(|osd| osd.info);
        let change = OsdChange {
            id,
            weight: old.weight(id) != new.weight(id),
            state: state(old) != state(new),
            life: life(old) != life(new),
        };
        if change.weight {
            self.reweighted.add(id.0);
        }
        if change.state {
            self.restated.add(id.0);
        }
        if change.weight || change.state || change.life {
            self.osds.push(change);
        }
    }

    /// The epoch that it leads to.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What changed of a pool; `None`: nothing.
    pub fn pool(&self, id: PoolId) -> Option<PoolChange> {
        self.pools.get(&id).copied()
    }

    /// The pools whose entries changed.
    pub fn pools(&self) -> impl Iterator<Item = (PoolId, PoolChange)> + '_ {
        self.pools.iter().map(|(id, change)| (*id, *change))
    }

    /// The OSDs whose entries changed, in order of their ids.
    pub fn osds(&self) -> &[OsdChange] {
        &self.osds
    }

    /// The bits of the map's flags that flipped.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether clients or networks were blocked or unblocked.
    pub fn changes_blocklist(&self) -> bool {
        self.blocklist
    }

    /// Whether CRUSH may place a PG elsewhere whose placement depends on the weights of `touched`.
    pub(crate) fn crush_moves(&self, pool: PoolId, touched: OsdFilter) -> bool {
        self.everything || self.pool(pool) == Some(PoolChange::Walk) || self.reweighted.meets(touched)
    }

    /// Whether the sets of a PG (folded) may change that CRUSH places on `crushed` as before. `excepted`: it has an entry
    /// in a table of exceptions.
    pub(crate) fn sets_move(&self, pg: PgId, touched: OsdFilter, excepted: bool, crushed: &[OsdId]) -> bool {
        let changed = |id: &OsdId| {
            let found = self.osds.binary_search_by_key(id, |change| change.id).ok();
            found.and_then(|at| self.osds.get(at)).is_some_and(|change| change.state)
        };
        self.pool(pg.pool) >= Some(PoolChange::Sets)
            || self.pgs.contains(&pg)
            // An exception holds or not by the weights and states of OSDs that it names.
            || excepted && !(self.reweighted.is_empty() && self.restated.is_empty())
            || self.restated.meets(touched) && crushed.iter().any(changed)
    }
}

/// Whether CRUSH itself gives other results for any pool.
fn rules_differ(old: &OsdMap, new: &OsdMap, inc: &Incremental) -> bool {
    let bounded = |map: &OsdMap| map.require_osd_release < QUINCY;
    bounded(old) != bounded(new) || !inc.crush.is_empty() && !old.crush.places_like(&new.crush)
}

fn names_clients(inc: &Incremental) -> bool {
    let blocked = inc.new_blocklist.len() + inc.new_range_blocklist.len();
    blocked + inc.old_blocklist.len() + inc.old_range_blocklist.len() > 0
}

/// PGs of which an increment changes an exception.
fn excepted(inc: &Incremental) -> BTreeSet<PgId> {
    let temp = inc.new_pg_temp.keys().chain(inc.new_primary_temp.keys());
    let whole = inc.new_pg_upmap.keys().chain(&inc.old_pg_upmap);
    let items = inc.new_pg_upmap_items.keys().chain(&inc.old_pg_upmap_items);
    let primaries = inc.new_pg_upmap_primary.keys().chain(&inc.old_pg_upmap_primary);
    temp.chain(whole).chain(items).chain(primaries).copied().collect()
}

/// OSDs whose entries an increment may change.
fn named_osds(inc: &Incremental) -> impl Iterator<Item = OsdId> + '_ {
    let states = inc.new_state.keys().chain(inc.new_up_client.keys()).chain(inc.new_weight.keys());
    let lives = inc.new_up_thru.keys().chain(inc.new_lost.keys()).chain(inc.new_last_clean_interval.keys());
    states.chain(lives).chain(inc.new_primary_affinity.keys()).copied()
}

fn pool_change(old: Option<&PgPool>, new: Option<&PgPool>) -> Option<PoolChange> {
    let (Some(old), Some(new)) = (old, new) else {
        return (old.is_some() || new.is_some()).then_some(PoolChange::Walk);
    };
    let walk = |pool: &PgPool| {
        let spread = pool.has_flags(PoolFlags::HASHPSPOOL);
        (pool.kind, pool.size, pool.crush_rule, pool.pgp_num, spread)
    };
    let sets =
        |pool: &PgPool| (pool.pg_num, pool.nonprimary_shards, pool.has_flags(PoolFlags::EC_OPTIMIZATIONS));
    match () {
        () if walk(old) != walk(new) => Some(PoolChange::Walk),
        () if sets(old) != sets(new) => Some(PoolChange::Sets),
        () => (old != new).then_some(PoolChange::Facts),
    }
}
