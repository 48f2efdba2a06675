//! PGs whose objects are on other OSDs than those that the map gives them. Data can't move between OSDs yet: such a PG
//! serves no client until the map gives it back, so it is shown as down at once, and the command that moved it says so.
//!
//! The monitor knows where objects are from the last report of the PG by an OSD that served it.

use std::collections::BTreeSet;

use crush::CrushMap;
use maps::{Incremental, OsdMap, UpActing};
use types::{OsdId, PgId, UTime};

use crate::crush_view;
use crate::homes::is_away;
use crate::mon::Mon;
use crate::service::osdmap;

/// Whether PGs may have other OSDs by the map that an increment makes.
pub(crate) fn moves_pgs(increment: &Incremental) -> bool {
    let upmaps = !increment.new_pg_upmap.is_empty()
        || !increment.old_pg_upmap.is_empty()
        || !increment.new_pg_upmap_items.is_empty()
        || !increment.old_pg_upmap_items.is_empty()
        || !increment.new_pg_temp.is_empty();
    upmaps
        || !increment.new_weight.is_empty()
        || !increment.crush.is_empty()
        || !increment.new_pools.is_empty()
}

/// The commands that give an OSD its place in the CRUSH map back, if it has none in the next map: where it was and with what weight is
/// nowhere to be read then.
fn taken_out(map: &OsdMap, next: &OsdMap, osd: OsdId) -> Option<String> {
    let (was, is) = (&map.crush, &next.crush);
    if was.parent_of(osd.0).is_none() || is.parent_of(osd.0).is_some() {
        return None;
    }
    // All digits: a weight is a whole number of 65536ths, and less would be read as the one before.
    let weight = f64::from(was.weight_of(osd.0)) / f64::from(CrushMap::WEIGHT_ONE);
    let place = crush_view::location_text(was, osd.0).replace(',', " ");
    let add = format!("`ceph osd crush add osd.{osd} {weight} {place}`");
    Some(match was.device_class(osd.0).filter(|class| is.device_class(osd.0) != Some(*class)) {
        Some(class) => format!("`ceph osd crush set-device-class {class} osd.{osd}` after {add}"),
        None => add,
    })
}

/// `osd.1, osd.2`
pub(crate) fn osd_names(osds: impl IntoIterator<Item = OsdId>) -> String {
    osds.into_iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", ")
}

impl Mon {
    /// Holds every PG's last report against the map.
    pub(crate) fn place_pgs(&mut self, now: UTime) {
        let pgs: Vec<PgId> = self.pgmap.pgs.keys().copied().collect();
        pgs.into_iter().for_each(|pg| self.place_pg(now, pg));
    }

    /// Holds a PG's last report against the map.
    pub(crate) fn place_pg(&mut self, now: UTime, id: PgId) {
        // The report of a PG that the map does not have was not taken.
        if !self.pgmap.pgs.contains_key(&id) {
            return;
        }
        let placed = self.osdmap.pg_to_up_acting(id);
        self.note_home(id, &placed);
        let is_known_away = self.is_known_away(id, &placed);
        if is_known_away {
            self.pgmap.recall(id);
        }
        let Some(pg) = self.pgmap.pgs.get(&id) else { return };
        // An OSD that the map gives the PG, and that has an old copy, says itself what the PG waits for.
        let is_current = pg.acting.iter().any(|osd| placed.acting.contains(osd));
        let elsewhere = !is_current && (is_known_away || self.is_reported_away(&self.osdmap, id));
        let is_up = osdmap::is_up(&self.osdmap, pg.acting_primary.0);
        self.pgmap.set_elsewhere(now, id, elsewhere, is_up);
    }

    /// Holds the PGs of which only the home is known against the map: an OSD that may have them has reported all of its PGs.
    pub(crate) fn place_kept(&mut self, now: UTime) {
        let kept: Vec<PgId> = self.away.keys().copied().filter(|pg| self.pgmap.is_home_kept(*pg)).collect();
        kept.into_iter().for_each(|pg| self.place_pg(now, pg));
    }

    /// Whether a PG is not where its objects are by what was kept from before the start: no OSD reports it.
    fn is_known_away(&self, id: PgId, placed: &UpActing) -> bool {
        let home = self.home_against(id, &placed.acting).filter(|_| self.pgmap.is_home_kept(id));
        home.is_some_and(|home| is_away(&self.osdmap, home, placed))
    }

    /// Whether a PG that was reported is not where its objects are by this map.
    fn is_reported_away(&self, map: &OsdMap, id: PgId) -> bool {
        let home = self.pgmap.home(id).filter(|_| self.pgmap.is_reported(id));
        home.is_some_and(|home| is_away(map, home, &map.pg_to_up_acting(id)))
    }

    /// What a command has to say whose change of the map takes PGs away from their objects; empty otherwise.
    pub(crate) fn warn_of_moves(&self) -> String {
        let Some(increment) = self.pending.osdmap.as_ref().filter(|increment| moves_pgs(increment)) else {
            return String::new();
        };
        let mut next = self.osdmap.clone();
        if next.apply(increment).is_err() {
            // The proposal fails with the reason.
            return String::new();
        }
        let (mut pgs, mut osds) = (0, BTreeSet::new());
        for id in self.pgmap.pgs.keys().copied() {
            if self.is_reported_away(&next, id) && !self.is_reported_away(&self.osdmap, id) {
                pgs += 1;
                osds.extend(self.pgmap.home(id).into_iter().flatten().copied());
            }
        }
        if pgs == 0 {
            return String::new();
        }
        let down = match pgs {
            1 => "1 PG is down from now on: its objects are".to_owned(),
            many => format!("{many} PGs are down from now on: their objects are"),
        };
        let lost: Vec<String> = osds.iter().filter_map(|osd| taken_out(&self.osdmap, &next, *osd)).collect();
        let on = osd_names(osds);
        let back = match lost.is_empty() {
            true => "Change it back to reach them".to_owned(),
            false => format!("To reach them: {}", lost.join(", ")),
        };
        format!("WARNING: {down} on {on}, and data can't be moved yet. {back}")
    }
}
