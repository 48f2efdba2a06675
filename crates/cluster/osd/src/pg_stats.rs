//! What the OSD reports and shows of its placement groups, and of its own store at boot.

use std::collections::BTreeMap;

use messages::{OsdSuperblock, PgStat, PgState};
use pg::Phase;
use serde_json::{Value, json};
use types::{OsdId, PgId, SpgId, UTime};

use crate::Osd;
use crate::pgs::{PgEntry, PgSet};

const NOBODY: OsdId = OsdId(-1);

fn state(entry: &PgEntry) -> PgState {
    let acting = entry.mapping.acting.len() as u32;
    match entry.active {
        true if acting >= entry.mapping.size => PgState::ACTIVE.with(PgState::CLEAN),
        true => PgState::ACTIVE.with(PgState::UNDERSIZED).with(PgState::DEGRADED),
        false if entry.pg.phase() == Phase::Failed => PgState::INCOMPLETE,
        false => PgState::PEERING,
    }
}

impl PgEntry {
    /// The PG's report at this moment.
    fn report(&mut self, now: UTime, epoch: types::Epoch) -> PgStat {
        let mut stat = self.pg.report();
        let (info, at) = (self.pg.info(), &self.mapping);
        stat.state = state(self);
        stat.created = info.history.epoch_created;
        stat.last_epoch_clean = if self.active { epoch } else { info.history.last_epoch_clean };
        stat.mapping_epoch = info.history.same_interval_since;
        (stat.up, stat.acting) = (at.up.clone(), at.acting.clone());
        stat.up_primary = at.up_primary.unwrap_or(NOBODY);
        stat.acting_primary = at.acting_primary.unwrap_or(NOBODY);
        stat.reported_epoch = epoch;
        (stat.last_fresh, stat.last_unstale, stat.last_change) = (now, now, self.changed);
        if self.active {
            (stat.last_active, stat.last_peered) = (now, now);
            (stat.last_became_active, stat.last_became_peered) = (self.became_active, self.became_active);
        }
        if stat.state.has(PgState::CLEAN) {
            (stat.last_clean, stat.last_undegraded, stat.last_fullsized) = (now, now, now);
        }
        stat
    }
}

impl PgSet {
    /// What `pg PGID query` shows.
    pub(crate) fn query(&self, pgid: &SpgId) -> Option<Value> {
        let entry = self.entries.get(pgid)?;
        let (info, ids) = (entry.pg.info(), |osds: &[OsdId]| osds.iter().map(|o| o.0).collect::<Vec<_>>());
        let history = &info.history;
        Some(json!({
            "state": state(entry).to_string(),
            "epoch": info.stats.reported_epoch.0,
            "up": ids(&entry.mapping.up),
            "acting": ids(&entry.mapping.acting),
            "info": {
                "pgid": pgid.to_string(),
                "last_update": info.last_update.to_string(),
                "last_complete": info.last_complete.to_string(),
                "log_tail": info.log_tail.to_string(),
                "last_user_version": info.last_user_version,
                "history": {
                    "epoch_created": history.epoch_created.0,
                    "last_epoch_started": history.last_epoch_started.0,
                    "last_epoch_clean": history.last_epoch_clean.0,
                    "same_up_since": history.same_up_since.0,
                    "same_interval_since": history.same_interval_since.0,
                    "same_primary_since": history.same_primary_since.0,
                },
            },
        }))
    }
}

impl Osd {
    /// Reports of the PGs that are led here.
    pub(crate) fn pgs_stats(&mut self, now: UTime) -> BTreeMap<PgId, PgStat> {
        let epoch = self.history.epoch();
        let led = self.pgs.entries.iter_mut().filter(|(_, e)| e.is_reported());
        led.map(|(pgid, entry)| (pgid.pg, entry.report(now, epoch))).collect()
    }

    /// What the boot message says of the store.
    pub(crate) fn boot_superblock(&self) -> OsdSuperblock {
        let epoch = self.history.epoch();
        // No snapshot is ever trimmed yet, so nothing was missed.
        OsdSuperblock { current_epoch: epoch, purged_snaps_last: epoch, ..self.superblock.clone() }
    }
}
