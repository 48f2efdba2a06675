//! Where PGs are, kept from epoch to epoch: only those that an increment can move are computed again.

use std::collections::BTreeMap;

use crush::OsdFilter;
use types::{Epoch, OsdId, PgId, PoolId};

use crate::{MapDelta, OsdMap, UpActing};

/// No primary.
const NOBODY: OsdId = OsdId(-1);

/// Where one placement group is at an epoch, with the data that shows whether the next epoch moves it. One allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// What CRUSH gave; behind it the up set, if it is another one; behind that the acting set, if it is another one than
    /// the up set.
    osds: Box<[OsdId]>,
    crushed_len: u32,
    up_len: u32,
    up_is_crushed: bool,
    acting_is_up: bool,
    /// Whether a table of exceptions has an entry for it.
    excepted: bool,
    up_primary: OsdId,
    acting_primary: OsdId,
    touched: OsdFilter,
}

/// What a delta asks for before a placement is that of the next epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stale {
    /// Nothing.
    No,
    /// Up and acting sets out of what CRUSH gave.
    Sets,
    /// CRUSH has to place the PG again.
    Walk,
}

impl Placement {
    /// Where `map` has a placement group (raw or folded). Empty for an unknown pool.
    pub fn of(map: &OsdMap, pg: PgId) -> Self {
        let Some(pool) = map.pools.get(&pg.pool) else {
            return Self::new(&[], &UpActing::default(), false, OsdFilter::default());
        };
        let placed = map.crush_place(pool, pg);
        let crushed: Vec<OsdId> = placed.items.iter().map(|&item| OsdId(item)).collect();
        let excepted = map.is_excepted(pool.raw_pg_to_pg(pg));
        Self::new(&crushed, &map.up_acting(pool, pg, &placed.items), excepted, placed.touched)
    }

    fn new(crushed: &[OsdId], sets: &UpActing, excepted: bool, touched: OsdFilter) -> Self {
        let (up_is_crushed, acting_is_up) = (sets.up == crushed, sets.acting == sets.up);
        let none: &[OsdId] = &[];
        let up = if up_is_crushed { none } else { &sets.up };
        let acting = if acting_is_up { none } else { &sets.acting };
        Self {
            osds: [crushed, up, acting].concat().into(),
            crushed_len: crushed.len() as u32,
            up_len: sets.up.len() as u32,
            up_is_crushed,
            acting_is_up,
            excepted,
            up_primary: sets.up_primary.unwrap_or(NOBODY),
            acting_primary: sets.acting_primary.unwrap_or(NOBODY),
            touched,
        }
    }

    /// What `map` asks for, to which `delta` leads from this placement's epoch. `pg` is what it was made of.
    pub fn stale(&self, pg: PgId, map: &OsdMap, delta: &MapDelta) -> Stale {
        if delta.crush_moves(pg.pool, self.touched) {
            return Stale::Walk;
        }
        let folded = map.raw_pg_to_pg(pg).unwrap_or(pg);
        match delta.sets_move(folded, self.touched, self.excepted, self.crushed()) {
            true => Stale::Sets,
            false => Stale::No,
        }
    }

    /// Moves on to `map`, to which `delta` leads from this placement's epoch. `pg` is what it was made of. Answers whether
    /// up, acting or a primary is another one.
    pub fn advance(&mut self, pg: PgId, map: &OsdMap, delta: &MapDelta) -> bool {
        let next = match (self.stale(pg, map, delta), map.pools.get(&pg.pool)) {
            (Stale::No, _) => return false,
            (Stale::Walk, _) | (_, None) => Self::of(map, pg),
            (Stale::Sets, Some(pool)) => {
                let items: Vec<i32> = self.crushed().iter().map(|osd| osd.0).collect();
                let sets = map.up_acting(pool, pg, &items);
                Self::new(self.crushed(), &sets, map.is_excepted(pool.raw_pg_to_pg(pg)), self.touched)
            }
        };
        let moved = !next.is_same_place(self);
        *self = next;
        moved
    }

    /// Whether both have the same up and acting sets and primaries: an interval goes on.
    pub fn is_same_place(&self, other: &Self) -> bool {
        let primaries = |of: &Self| (of.up_primary, of.acting_primary);
        primaries(self) == primaries(other) && self.up() == other.up() && self.acting() == other.acting()
    }

    fn crushed(&self) -> &[OsdId] {
        self.osds.get(..self.crushed_len as usize).unwrap_or(&[])
    }

    /// The OSDs that it should be on, by the rules, the overrides and the OSDs' states; see [`UpActing::up`].
    pub fn up(&self) -> &[OsdId] {
        let first = if self.up_is_crushed { 0 } else { self.crushed_len as usize };
        self.osds.get(first..first + self.up_len as usize).unwrap_or(&[])
    }

    /// The OSDs that serve it.
    pub fn acting(&self) -> &[OsdId] {
        if self.acting_is_up {
            return self.up();
        }
        let up = if self.up_is_crushed { 0 } else { self.up_len };
        self.osds.get((self.crushed_len + up) as usize..).unwrap_or(&[])
    }

    pub fn up_primary(&self) -> Option<OsdId> {
        Some(self.up_primary).filter(|osd| *osd != NOBODY)
    }

    pub fn acting_primary(&self) -> Option<OsdId> {
        Some(self.acting_primary).filter(|osd| *osd != NOBODY)
    }

    /// The same as plain sets.
    pub fn up_acting(&self) -> UpActing {
        UpActing {
            up: self.up().to_vec(),
            up_primary: self.up_primary(),
            acting: self.acting().to_vec(),
            acting_primary: self.acting_primary(),
        }
    }
}

/// The placements of chosen PGs at one epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    epoch: Epoch,
    pgs: BTreeMap<PgId, Placement>,
}

impl Mapping {
    /// Of no PG yet, at `map`'s epoch.
    pub fn new(map: &OsdMap) -> Self {
        Self { epoch: map.epoch, pgs: BTreeMap::new() }
    }

    /// Of every PG of every pool.
    pub fn of_all(map: &OsdMap) -> Self {
        let mut mapping = Self::new(map);
        map.pools.keys().for_each(|&pool| mapping.add_pool(map, pool));
        mapping
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Adds a PG (folded). `map` is that of [`Mapping::epoch`].
    pub fn add(&mut self, map: &OsdMap, pg: PgId) {
        debug_assert_eq!(map.epoch, self.epoch, "a map of another epoch");
        self.pgs.insert(pg, Placement::of(map, pg));
    }

    /// Adds the missing PGs of a pool. `map` is that of [`Mapping::epoch`].
    pub fn add_pool(&mut self, map: &OsdMap, pool: PoolId) {
        for seed in 0..map.pools.get(&pool).map_or(0, |pool| pool.pg_num) {
            let pg = PgId { pool, seed };
            if !self.pgs.contains_key(&pg) {
                self.add(map, pg);
            }
        }
    }

    pub fn remove(&mut self, pg: PgId) {
        self.pgs.remove(&pg);
    }

    pub fn get(&self, pg: PgId) -> Option<&Placement> {
        self.pgs.get(&pg)
    }

    /// In order of the PGs.
    pub fn iter(&self) -> impl Iterator<Item = (PgId, &Placement)> {
        self.pgs.iter().map(|(pg, placement)| (*pg, placement))
    }

    /// Moves on to `map`, to which `delta` leads from [`Mapping::epoch`]. Answers the PGs that are elsewhere now. PGs of a
    /// pool that is gone stay, with empty sets; PGs that a pool gets are not added.
    pub fn advance(&mut self, map: &OsdMap, delta: &MapDelta) -> Vec<PgId> {
        debug_assert_eq!((self.epoch.next(), delta.epoch()), (map.epoch, map.epoch), "an epoch left out");
        self.epoch = map.epoch;
        let moved = self.pgs.iter_mut().filter_map(|(pg, at)| at.advance(*pg, map, delta).then_some(*pg));
        moved.collect()
    }
}
