//! Where PGs' objects are: the OSDs that acted when a PG served last, as they reported it.

use std::collections::BTreeMap;

use messages::{PgStat, PgState};
use types::{OsdId, PgId};

/// By PG, as far as reports have come since the monitor's start.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes(BTreeMap<PgId, Vec<OsdId>>);

/// Whether a PG of this state has its objects.
pub(crate) fn serves(state: PgState) -> bool {
    state.has(PgState::ACTIVE) || state.has(PgState::PEERED)
}

impl Homes {
    /// Takes a report. An OSD that does not serve the PG may have an old copy of it: it counts only until more is known.
    pub fn report(&mut self, id: PgId, stat: &PgStat) {
        if serves(stat.state) {
            self.0.insert(id, stat.acting.clone());
        } else {
            self.0.entry(id).or_insert_with(|| stat.acting.clone());
        }
    }

    /// A PG is new. If it comes out of one that is known, its objects are where those are. (PGs of a new pool come before
    /// any of them was reported.)
    pub fn add(&mut self, id: PgId) {
        // The PG that it comes out of has the same number without the highest bit, or is one that is new as well.
        let Some(bit) = id.seed.checked_ilog2() else { return };
        let parent = PgId { seed: id.seed & !(1 << bit), ..id };
        if let Some(home) = self.0.get(&parent).cloned() {
            self.0.insert(id, home);
        }
    }

    pub fn of(&self, id: PgId) -> Option<&[OsdId]> {
        self.0.get(&id).map(Vec::as_slice)
    }

    pub fn forget(&mut self, id: PgId) {
        self.0.remove(&id);
    }

    pub fn retain(&mut self, wanted: impl Fn(PgId) -> bool) {
        self.0.retain(|id, _| wanted(*id));
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
