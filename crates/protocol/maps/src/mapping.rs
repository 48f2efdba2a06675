//! From an object to the OSDs that hold it.

use crush::hash::hash32_2;
use crush::{ITEM_NONE, Placed};
use types::{ObjectLocator, OsdId, PgId, Release};

use crate::PgPool;
use crate::osdmap::OsdMap;

pub(crate) const QUINCY: Release = Release(17);

/// Where a placement group is: by the map's rules (`up`) and at work (`acting`, which differs while an exception
/// holds). Holes of erasure-coded sets are [`OsdId::NONE`]; no primary is `None`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct UpActing {
    /// The set that rules, overrides and the OSDs' states give.
    pub up: Vec<OsdId>,
    pub up_primary: Option<OsdId>,
    /// The set that serves.
    pub acting: Vec<OsdId>,
    pub acting_primary: Option<OsdId>,
}

impl OsdMap {
    /// The raw placement group (its seed is a whole hash) of an object. `None`: no such pool.
    pub fn object_to_pg(&self, locator: &ObjectLocator, name: &[u8]) -> Option<PgId> {
        let pool = self.pools.get(&locator.pool)?;
        let key = if locator.key.is_empty() { name } else { &locator.key };
        let seed = match locator.hash {
            hash @ 0.. => hash as u32,
            _ => pool.hash_key(key, &locator.nspace),
        };
        Some(PgId { pool: locator.pool, seed })
    }

    /// The placement group that holds what maps to a raw one. `None`: no such pool.
    pub fn raw_pg_to_pg(&self, raw: PgId) -> Option<PgId> {
        Some(self.pools.get(&raw.pool)?.raw_pg_to_pg(raw))
    }

    /// Where a placement group (raw or folded) is. Empty for an unknown pool.
    pub fn pg_to_up_acting(&self, pg: PgId) -> UpActing {
        let Some(pool) = self.pools.get(&pg.pool) else { return UpActing::default() };
        self.up_acting(pool, pg, &self.crush_place(pool, pg).items)
    }

    /// What CRUSH gives for a placement group, whatever exists, is up, or is excepted.
    pub(crate) fn crush_place(&self, pool: &PgPool, pg: PgId) -> Placed {
        // Before Quincy a rule holds only for pools of its kind and within its bounds of size.
        let rule = match self.require_osd_release < QUINCY {
            true => self.crush.find_rule(pool.crush_rule, pool.kind, pool.size),
            false => Some(pool.crush_rule.into()),
        };
        let Some(rule) = rule else {
            // No rule fits the pool: nothing is placed, as in stock.
            return Placed::default();
        };
        let x = pool.raw_pg_to_pps(pg);
        self.crush.place(rule, x, pool.size.into(), &self.weights, pg.pool.0)
    }

    /// Where a placement group is that CRUSH places on `crushed`.
    pub(crate) fn up_acting(&self, pool: &PgPool, pg: PgId, crushed: &[i32]) -> UpActing {
        let (up, up_primary) = self.up_set(pool, pg, crushed);
        let (temp, temp_primary) = self.temp_set(pool, pg);
        let (acting, acting_primary) = match temp.is_empty() {
            true => (up.clone(), temp_primary.or(up_primary)),
            false => (temp, temp_primary),
        };
        UpActing { up, up_primary, acting, acting_primary }
    }

    /// Whether a placement group (folded) has an entry of its own in any table of exceptions, in force or not.
    pub(crate) fn is_excepted(&self, pg: PgId) -> bool {
        self.pg_temp.contains_key(&pg)
            || self.primary_temp.contains_key(&pg)
            || self.pg_upmap.contains_key(&pg)
            || self.pg_upmap_items.contains_key(&pg)
            || self.pg_upmap_primaries.contains_key(&pg)
    }

    /// How readily an OSD becomes primary: 0 to [`OsdMap::WEIGHT_IN`].
    pub(crate) fn affinity(&self, osd: OsdId) -> u32 {
        let table = self.primary_affinity.as_ref();
        let slot = table.zip(usize::try_from(osd.0).ok()).and_then(|(table, i)| table.get(i));
        slot.copied().unwrap_or(Self::WEIGHT_IN)
    }

    /// Drops what does not pass, or in an erasure-coded pool leaves holes.
    fn keep(
        &self,
        pool: &PgPool,
        osds: impl Iterator<Item = OsdId>,
        passes: impl Fn(OsdId) -> bool,
    ) -> Vec<OsdId> {
        match pool.can_shift_osds() {
            true => osds.filter(|&osd| passes(osd)).collect(),
            false => osds.map(|osd| if passes(osd) { osd } else { OsdId::NONE }).collect(),
        }
    }

    /// Whether an override's target is a known OSD that is out: then the override does not hold.
    fn is_known_out(&self, osd: OsdId) -> bool {
        osd.0 != ITEM_NONE && (0..self.max_osd()).contains(&osd.0) && self.weight(osd) == 0
    }

    fn apply_upmaps(&self, pg: PgId, raw: &mut Vec<OsdId>) {
        if let Some(whole) = self.pg_upmap.get(&pg) {
            if whole.iter().any(|&osd| self.is_known_out(osd)) {
                return;
            }
            raw.clone_from(whole);
        }
        for &(from, to) in self.pg_upmap_items.get(&pg).into_iter().flatten() {
            if raw.contains(&to) || self.is_known_out(to) {
                continue;
            }
            if let Some(slot) = raw.iter_mut().find(|osd| **osd == from) {
                *slot = to;
            }
        }
        if let Some(&primary) = self.pg_upmap_primaries.get(&pg) {
            let known = (0..self.max_osd()).contains(&primary.0) && self.weight(primary) != 0;
            // The first place is the primary's already.
            let place = raw.iter().skip(1).position(|&osd| osd == primary);
            if let (true, Some(place)) = (known, place) {
                raw.swap(0, place + 1);
            }
        }
    }

    fn up_set(&self, pool: &PgPool, pg: PgId, crushed: &[i32]) -> (Vec<OsdId>, Option<OsdId>) {
        let mut raw = self.keep(pool, crushed.iter().map(|&item| OsdId(item)), |osd| self.exists(osd));
        self.apply_upmaps(pool.raw_pg_to_pg(pg), &mut raw);
        let mut up = self.keep(pool, raw.into_iter(), |osd| self.is_up(osd));
        let primary = self.apply_affinity(pool, pool.raw_pg_to_pps(pg), &mut up).or_else(|| first_osd(&up));
        (up, primary)
    }

    /// The primary that affinities choose, moved to the front of a replicated set. `None`: affinities change nothing.
    fn apply_affinity(&self, pool: &PgPool, seed: u32, osds: &mut [OsdId]) -> Option<OsdId> {
        self.primary_affinity.as_ref()?;
        let candidates = || osds.iter().enumerate().filter(|(_, osd)| **osd != OsdId::NONE);
        if candidates().all(|(_, &osd)| self.affinity(osd) == Self::WEIGHT_IN) {
            return None;
        }
        let accepts = |osd: OsdId| {
            let affinity = self.affinity(osd);
            affinity >= Self::WEIGHT_IN || hash32_2(seed, osd.0 as u32) >> 16 < affinity
        };
        // Where all decline, the first has to.
        let place = candidates().find(|(_, osd)| accepts(**osd)).or_else(|| candidates().next())?.0;
        let primary = osds.get(place).copied()?;
        if pool.can_shift_osds() {
            osds.get_mut(..=place)?.rotate_right(1);
        }
        Some(primary)
    }

    fn temp_set(&self, pool: &PgPool, pg: PgId) -> (Vec<OsdId>, Option<OsdId>) {
        let pg = pool.raw_pg_to_pg(pg);
        let stored = self.pg_temp.get(&pg).into_iter().flatten().copied();
        let temp = self.keep(pool, stored, |osd| self.is_up(osd));
        let primary =
            self.primary_temp.get(&pg).copied().filter(|osd| osd.0 != -1).or_else(|| first_osd(&temp));
        (undo_primary_first(pool, temp), primary)
    }
}

fn first_osd(osds: &[OsdId]) -> Option<OsdId> {
    osds.iter().copied().find(|&osd| osd != OsdId::NONE)
}

/// A Tentacle monitor stores an optimized erasure-coded pool's pg_temp with the shards that may be primary first;
/// back to shard order.
fn undo_primary_first(pool: &PgPool, temp: Vec<OsdId>) -> Vec<OsdId> {
    let (low, high) = pool.nonprimary_shards;
    let bits = u128::from(low) | u128::from(high) << 64;
    let optimized = pool.has_flags(crate::PoolFlags::EC_OPTIMIZATIONS);
    if !optimized || temp.len() != usize::from(pool.size) || temp.len() > 128 {
        return temp;
    }
    let barred = |shard: usize| bits >> shard & 1 == 1;
    let (mut first, mut second) = (0, (0..temp.len()).filter(|&shard| !barred(shard)).count());
    let mut next = |shard| {
        let from = if barred(shard) { &mut second } else { &mut first };
        *from += 1;
        temp.get(*from - 1).copied().unwrap_or(OsdId::NONE)
    };
    (0..temp.len()).map(&mut next).collect()
}
