//! Changes of a pool that place its PGs anew, held against where the PGs' objects are. Data can't be moved between OSDs
//! yet: a PG that such a change would take from its objects would be down. A PG that is away from them already stands
//! in no change's way, so what took it there can be undone.

use core::fmt;

use maps::{OsdMap, OsdState, PgPool, UpActing};
use types::{OsdId, PgId, PoolId};

use crate::elsewhere::osd_names;
use crate::mon::Mon;
use crate::service::osdmap;

/// Why PGs stay where they are.
pub(crate) const NO_MOVES: &str = "data can't be moved between OSDs yet";

/// What is assumed of OSDs that are out. They come in again with the objects that they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutOsds {
    StayOut,
    AreIn,
}

pub(crate) const OUT_OSDS: [OutOsds; 2] = [OutOsds::StayOut, OutOsds::AreIn];

/// A PG that a change would take from the OSDs that have its objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leaving {
    pg: PgId,
    home: Vec<OsdId>,
    /// Whether the home is that of a report.
    is_reported: bool,
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pg, home) = (self.pg, osd_names(self.home.iter().copied()));
        match self.is_reported {
            true => write!(f, "pg {pg} would leave {home}"),
            false => write!(f, "pg {pg}, which no OSD has reported yet, would leave {home}"),
        }
    }
}

/// Whether none of the OSDs that have a PG's objects is among those that the map gives the PG. Where the map gives it none
/// because they are down, they come back with it.
pub(crate) fn is_away(map: &OsdMap, home: &[OsdId], placed: &UpActing) -> bool {
    let is_home = home.iter().any(|osd| placed.acting.contains(osd));
    let waits = placed.acting.is_empty() && !home.iter().any(|osd| osdmap::is_up(map, osd.0));
    !is_home && !waits
}

impl Mon {
    /// A PG that `changed` in place of its pool would take from its objects. Every OSD counts as up, and those that are out are tried
    /// both ways: out and in. The objects of a PG that no OSD has reported are taken to be where the map has the PG.
    pub(crate) fn leaving(&self, id: PoolId, changed: &PgPool) -> Option<Leaving> {
        let pool = self.osdmap.pools.get(&id)?;
        // Parts of a PG that is split are placed as that is, as long as these stay.
        if (pool.pgp_num, pool.crush_rule) == (changed.pgp_num, changed.crush_rule) {
            return None;
        }
        let split = PgPool { pg_num: changed.pg_num, ..pool.clone() };
        OUT_OSDS.into_iter().find_map(|out| {
            let (before, after) =
                (self.with_pool(id, split.clone(), out), self.with_pool(id, changed.clone(), out));
            (0..changed.pg_num).map(|seed| PgId { pool: id, seed }).find_map(|pg| {
                let (was, is) = (before.pg_to_up_acting(pg), after.pg_to_up_acting(pg));
                let reported = self.pgmap.home(pool.raw_pg_to_pg(pg));
                let home = reported.unwrap_or(&was.acting);
                let leaves = !is_away(&before, home, &was) && is_away(&after, home, &is);
                let leaving = || Leaving { pg, home: home.to_vec(), is_reported: reported.is_some() };
                (leaves && !home.is_empty()).then(leaving)
            })
        })
    }

    /// The map with this pool in place of that of its number, and with every OSD up.
    pub(crate) fn with_pool(&self, id: PoolId, pool: PgPool, out: OutOsds) -> OsdMap {
        let mut map = self.osdmap.clone();
        for osd in (0..map.max_osd()).filter(|osd| self.osdmap.exists(OsdId(*osd))) {
            map.osds[osd as usize].state |= OsdState::UP;
            let weight = &mut map.weights[osd as usize];
            if out == OutOsds::AreIn && *weight == 0 {
                *weight = OsdMap::WEIGHT_IN;
            }
        }
        map.pools.insert(id, pool);
        map
    }
}
