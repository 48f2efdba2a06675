//! Where PGs' objects are: the OSDs that acted when a PG served last, as they reported it.

use std::collections::{BTreeMap, BTreeSet};

use messages::{PgStat, PgState};
use types::{OsdId, PgId};

/// By PG, as far as reports have come since the monitor's start, or were kept from before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes {
    by_pg: BTreeMap<PgId, Vec<OsdId>>,
    /// Those that were kept, and that no OSD which serves the PG has confirmed or replaced.
    kept: BTreeSet<PgId>,
}

/// Whether a PG of this state has its objects.
pub(crate) fn serves(state: PgState) -> bool {
    state.has(PgState::ACTIVE) || state.has(PgState::PEERED)
}

/// What a PG comes out of where it is new: it has the same number without the highest bit, and may be new as well.
pub(super) fn parent(id: PgId) -> Option<PgId> {
    let bit = id.seed.checked_ilog2()?;
    Some(PgId { seed: id.seed & !(1 << bit), ..id })
}

impl Homes {
    /// Takes what was kept from before the start.
    pub fn keep(&mut self, id: PgId, home: Vec<OsdId>) {
        self.by_pg.insert(id, home);
        self.kept.insert(id);
    }

    /// Takes a report. An OSD that does not serve the PG may have an old copy of it: it counts only until more is known.
    pub fn report(&mut self, id: PgId, stat: &PgStat) {
        if serves(stat.state) {
            self.by_pg.insert(id, stat.acting.clone());
            self.kept.remove(&id);
        } else {
            self.by_pg.entry(id).or_insert_with(|| stat.acting.clone());
        }
    }

    /// A PG is new. If it comes out of one that is known, its objects are where those are. (PGs of a new pool come before
    /// any of them was reported.)
    pub fn add(&mut self, id: PgId) {
        let Some(parent) = parent(id) else { return };
        if let Some(home) = self.by_pg.get(&parent).cloned() {
            self.by_pg.insert(id, home);
            if self.kept.contains(&parent) {
                self.kept.insert(id);
            }
        }
    }

    pub fn of(&self, id: PgId) -> Option<&[OsdId]> {
        self.by_pg.get(&id).map(Vec::as_slice)
    }

    /// Whether a PG's home is what was kept from before the start.
    pub fn is_kept(&self, id: PgId) -> bool {
        self.kept.contains(&id)
    }

    pub fn forget(&mut self, id: PgId) {
        self.by_pg.remove(&id);
        self.kept.remove(&id);
    }

    pub fn retain(&mut self, wanted: impl Fn(PgId) -> bool) {
        self.by_pg.retain(|id, _| wanted(*id));
        self.kept.retain(|id| wanted(*id));
    }
}

#[cfg(test)]
mod tests {
    use types::PoolId;

    use super::*;

    fn pg(seed: u32) -> PgId {
        PgId { pool: PoolId(1), seed }
    }

    fn stat(state: PgState, osd: i32) -> PgStat {
        PgStat { state, acting: vec![OsdId(osd)], ..PgStat::default() }
    }

    #[test]
    fn only_an_osd_that_serves_a_pg_takes_it_from_another() {
        let mut homes = Homes::default();
        assert_eq!(homes.of(pg(0)), None);
        homes.report(pg(0), &stat(PgState::PEERING, 1));
        assert_eq!(homes.of(pg(0)), Some([OsdId(1)].as_slice()), "nothing better is known");
        homes.report(pg(0), &stat(PgState::ACTIVE, 2));
        for state in [PgState::PEERING, PgState::DOWN, PgState::ACTIVATING, PgState::default()] {
            homes.report(pg(0), &stat(state, 1));
            assert_eq!(homes.of(pg(0)), Some([OsdId(2)].as_slice()), "{state}");
        }
        homes.report(pg(0), &stat(PgState::ACTIVE, 0));
        assert_eq!(homes.of(pg(0)), Some([OsdId(0)].as_slice()));
        homes.forget(pg(0));
        assert_eq!(homes.of(pg(0)), None);
    }

    #[test]
    fn a_home_from_before_the_start_counts_as_kept_until_an_osd_serves_the_pg() {
        let mut homes = Homes::default();
        homes.keep(pg(1), vec![OsdId(1)]);
        homes.report(pg(1), &stat(PgState::PEERING, 2));
        assert_eq!((homes.of(pg(1)), homes.is_kept(pg(1))), (Some([OsdId(1)].as_slice()), true));
        homes.add(pg(3));
        assert_eq!((homes.of(pg(3)), homes.is_kept(pg(3))), (Some([OsdId(1)].as_slice()), true), "its part");
        homes.report(pg(1), &stat(PgState::ACTIVE, 2));
        assert_eq!((homes.of(pg(1)), homes.is_kept(pg(1))), (Some([OsdId(2)].as_slice()), false));
        homes.forget(pg(3));
        assert_eq!((homes.of(pg(3)), homes.is_kept(pg(3))), (None, false));
    }

    #[test]
    fn a_part_of_a_pg_is_where_that_is() {
        let mut homes = Homes::default();
        (0..13).for_each(|seed| homes.add(pg(seed)));
        assert_eq!(homes.of(pg(12)), None, "nothing was reported");
        (0..13).for_each(|seed| homes.report(pg(seed), &stat(PgState::ACTIVE, seed as i32)));
        (13..32).for_each(|seed| homes.add(pg(seed)));
        for (part, of) in [(13, 5), (15, 7), (16, 0), (28, 12), (29, 5), (31, 7)] {
            assert_eq!(homes.of(pg(part)), Some([OsdId(of)].as_slice()), "{part}");
        }
    }
}
