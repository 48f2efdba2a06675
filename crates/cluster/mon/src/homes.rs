//! Changes of a pool that place its PGs anew, held against where the PGs' objects are. Data can't be moved between OSDs
//! yet: a PG that such a change would take from its objects would be down. A PG that is away from them already stands
//! in no change's way, so what took it there can be undone. For that, its home is kept over a restart of the monitor.

use core::fmt;

use maps::{OsdMap, OsdState, PgPool, UpActing};
use types::{OsdId, PgId, PoolId, UTime};

use crate::elsewhere::osd_names;
use crate::mon::Mon;
use crate::service::osdmap;
use crate::service::pg_homes::{self, PgHomes, PgSums};
use crate::state::Batch;

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

/// Where a map has a PG, seen from the OSDs that have its objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whereabouts {
    AtHome,
    Away,
    /// The map gives it no OSD because they are down: they come back with it.
    Waits,
}

fn whereabouts(map: &OsdMap, home: &[OsdId], placed: &UpActing) -> Whereabouts {
    if home.iter().any(|osd| placed.acting.contains(osd)) {
        return Whereabouts::AtHome;
    }
    match placed.acting.is_empty() && !home.iter().any(|osd| osdmap::is_up(map, osd.0)) {
        true => Whereabouts::Waits,
        false => Whereabouts::Away,
    }
}

/// Whether none of the OSDs that have a PG's objects is among those that the map gives the PG.
pub(crate) fn is_away(map: &OsdMap, home: &[OsdId], placed: &UpActing) -> bool {
    whereabouts(map, home, placed) == Whereabouts::Away
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
                let reported = self.home_against(pool.raw_pg_to_pg(pg), &was.acting);
                let home = reported.unwrap_or(&was.acting);
                let leaves = !is_away(&before, home, &was) && is_away(&after, home, &is);
                let leaving = || Leaving { pg, home: home.to_vec(), is_reported: reported.is_some() };
                (leaves && !home.is_empty()).then(leaving)
            })
        })
    }

    /// A PG's home, if it is known. One from before the monitor's start counts only once the OSDs that the map gives the PG have
    /// said which PGs they serve, and this is none of them: it may have been imported there since.
    pub(crate) fn home_against(&self, id: PgId, acting: &[OsdId]) -> Option<&[OsdId]> {
        let counts = !self.pgmap.is_home_kept(id) || acting.iter().all(|osd| self.has_reported_all(*osd));
        self.pgmap.home(id).filter(|_| counts)
    }

    /// Whether an OSD has reported all PGs that it leads, since it is up.
    pub(crate) fn has_reported_all(&self, osd: OsdId) -> bool {
        let entry = self.osdmap.osd(osd).filter(|entry| entry.is_up());
        entry.is_some_and(|entry| self.pgmap.has_reported_all(osd, entry.info.up_from))
    }

    /// What is to be kept over a restart of a PG's home, by this map: no OSD reports a PG that is away. While the OSDs of it are
    /// down, as when the cluster stops, what was noted stays.
    fn kept_home<'a>(
        &'a self,
        map: &OsdMap,
        id: PgId,
        home: Option<&'a [OsdId]>,
        placed: &UpActing,
    ) -> Option<&'a [OsdId]> {
        match whereabouts(map, home?, placed) {
            Whereabouts::Waits => self.away.get(&id).map(Vec::as_slice),
            Whereabouts::Away => home,
            Whereabouts::AtHome => None,
        }
    }

    /// Notes whether a PG's home is to be kept.
    pub(crate) fn note_home(&mut self, id: PgId, placed: &UpActing) {
        let noted = self.away.get(&id).map(Vec::as_slice);
        let kept = self.kept_home(&self.osdmap, id, self.pgmap.home(id), placed);
        if kept == noted {
            return;
        }
        match kept.map(<[OsdId]>::to_vec) {
            Some(home) => drop(self.away.insert(id, home)),
            None => drop(self.away.remove(&id)),
        }
        self.away_changed = true;
    }

    /// Takes the homes that were kept from before the start, and holds them against the map.
    pub(crate) fn open_homes(&mut self, now: UTime) {
        self.away = pg_homes::open(&self.state);
        let kept = self.away.len();
        // One that is made again has no home.
        self.away.retain(|pg, _| self.pgmap.pgs.contains_key(pg) && self.forced_pgs.epoch(*pg).is_none());
        self.away_changed = self.away.len() != kept;
        self.pgmap.keep_homes(self.away.clone());
        let sums = pg_homes::open_sums(&self.state);
        self.pgmap.keep_sums(sums.into_iter().filter(|(pg, _)| self.away.contains_key(pg)));
        self.place_pgs(now);
    }

    /// Puts the homes of PGs that are away into a batch. `next`: a map that becomes durable with it, and may take PGs away.
    pub(crate) fn put_homes(&mut self, next: Option<&OsdMap>, batch: &mut Batch) {
        if let Some(map) = next {
            // What is noted follows with the commit.
            let away = self.away_by(map);
            pg_homes::put(&away, &self.sums_of(&away), &self.state, batch);
        } else if std::mem::take(&mut self.away_changed) {
            pg_homes::put(&self.away, &self.sums_of(&self.away), &self.state, batch);
        }
    }

    /// What was reported of these PGs last.
    fn sums_of(&self, away: &PgHomes) -> PgSums {
        away.keys().filter_map(|id| Some((*id, self.pgmap.pgs.get(id)?.stats.sum))).collect()
    }

    /// The homes that are to be kept once a map is in force.
    fn away_by(&self, map: &OsdMap) -> PgHomes {
        let pgs = map.pools.iter().flat_map(|(pool, p)| (0..p.pg_num).map(|seed| PgId { pool: *pool, seed }));
        let kept = pgs.filter_map(|id| {
            let home = self.pgmap.home_of_next(id)?;
            let kept = self.kept_home(map, id, Some(home), &map.pg_to_up_acting(id));
            kept.map(|home| (id, home.to_vec()))
        });
        kept.collect()
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
