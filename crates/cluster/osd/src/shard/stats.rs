//! What a shard reports and shows of its placement groups.

use std::collections::BTreeMap;

use maps::UpActing;
use messages::PgStat;
use serde_json::{Value, json};
use types::{Epoch, OsdId, PgId, SpgId, UTime};

use super::Shard;
use super::pg_set::PgEntry;

const NOBODY: OsdId = OsdId(-1);

impl PgEntry {
    /// Empty before the first map.
    fn sets(&self) -> UpActing {
        self.mapping.as_ref().map(|mapping| mapping.place.up_acting()).unwrap_or_default()
    }

    /// The PG's report at this moment.
    fn report(&mut self, now: UTime, epoch: Epoch) -> PgStat {
        let (active, clean) = (self.status().is_active(), self.status().is_clean());
        let mut stat = self.pg.report();
        let (info, at) = (self.pg.info(), self.sets());
        stat.created = info.history.epoch_created;
        stat.last_epoch_clean = if clean { epoch } else { info.history.last_epoch_clean };
        stat.mapping_epoch = info.history.same_interval_since;
        (stat.up, stat.acting) = (at.up, at.acting);
        stat.up_primary = at.up_primary.unwrap_or(NOBODY);
        stat.acting_primary = at.acting_primary.unwrap_or(NOBODY);
        stat.reported_epoch = epoch;
        (stat.last_fresh, stat.last_unstale, stat.last_change) = (now, now, self.changed);
        if active {
            (stat.last_active, stat.last_peered) = (now, now);
            (stat.last_became_active, stat.last_became_peered) = (self.became_active, self.became_active);
        }
        if clean {
            (stat.last_clean, stat.last_undegraded, stat.last_fullsized) = (now, now, now);
        }
        stat
    }
}

impl Shard {
    /// What `pg PGID query` shows.
    pub(crate) fn query(&self, pgid: &SpgId) -> Option<Value> {
        let entry = self.pgs.get(self.pgs.slot_of(pgid)?)?;
        let (info, ids) = (entry.pg.info(), |osds: &[OsdId]| osds.iter().map(|o| o.0).collect::<Vec<_>>());
        let (history, at) = (&info.history, entry.sets());
        Some(json!({
            "state": entry.pg.state().to_string(),
            "epoch": info.stats.reported_epoch.0,
            "up": ids(&at.up),
            "acting": ids(&at.acting),
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

    /// Reports of the PGs that are led here.
    pub(crate) fn stats(&mut self, now: UTime, epoch: Epoch) -> BTreeMap<PgId, PgStat> {
        let led = self.pgs.iter_mut().filter(|entry| entry.status().is_reported());
        led.map(|entry| (entry.pg.id().pg, entry.report(now, epoch))).collect()
    }
}
