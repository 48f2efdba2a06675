//! The health checks about scrubs: what they found, and PGs that have not been scrubbed for long.

use maps::PoolOptionKey;
use messages::PgStat;
use options::{Opt, opt};
use types::{PgId, UTime};

use crate::checks::DETAIL_MAX;
use crate::fmt::stamp;
use crate::health::{Health, Severity};
use crate::mon::Mon;
use crate::service::osdmap;

/// A check of how long ago PGs were scrubbed.
struct Lateness {
    code: &'static str,
    what: &'static str,
    last: fn(&PgStat) -> UTime,
    ratio: Opt<f64>,
    /// Seconds, where the pool has none of its own under `key`.
    interval: Opt<f64>,
    key: i32,
}

const SCRUBBED: Lateness = Lateness {
    code: "PG_NOT_SCRUBBED",
    what: "scrubbed",
    last: |pg| pg.last_scrub_stamp,
    ratio: opt::MON_WARN_PG_NOT_SCRUBBED_RATIO,
    interval: opt::OSD_SCRUB_MAX_INTERVAL,
    key: PoolOptionKey::SCRUB_MAX_INTERVAL,
};

const DEEP_SCRUBBED: Lateness = Lateness {
    code: "PG_NOT_DEEP_SCRUBBED",
    what: "deep-scrubbed",
    last: |pg| pg.last_deep_scrub_stamp,
    ratio: opt::MON_WARN_PG_NOT_DEEP_SCRUBBED_RATIO,
    interval: opt::OSD_DEEP_SCRUB_INTERVAL,
    key: PoolOptionKey::DEEP_SCRUB_INTERVAL,
};

impl Mon {
    pub(crate) fn check_scrubs(&self, now: UTime, health: &mut Health) {
        let sum = *self.pgmap.total().sum();
        let errors = sum.num_scrub_errors;
        if errors > 0 {
            let summary = format!("{errors} scrub errors");
            health.add_counted("OSD_SCRUB_ERRORS", Severity::Error, summary, errors, vec![]);
        }
        if sum.num_large_omap_objects > 0 {
            self.check_large_omaps(sum.num_large_omap_objects, health);
        }
        self.check_late(now, &SCRUBBED, health);
        self.check_late(now, &DEEP_SCRUBBED, health);
    }

    /// `objects`: how many there are in all pools.
    fn check_large_omaps(&self, objects: i64, health: &mut Health) {
        let pools = self.pgmap.pools();
        let large = |id| pools.get(&id).map_or(0, |stats| stats.sum().num_large_omap_objects);
        let found = osdmap::pools(&self.osdmap).map(|(id, name, _)| (large(id), name));
        let mut detail: Vec<String> = found
            .filter(|(objects, _)| *objects > 0)
            .map(|(objects, name)| format!("{objects} large objects found in pool '{name}'"))
            .collect();
        if detail.is_empty() {
            return;
        }
        detail.push("Search the cluster log for 'Large omap object found' for more details.".into());
        let summary = format!("{objects} large omap objects");
        health.add_counted("LARGE_OMAP_OBJECTS", Severity::Warn, summary, objects, detail);
    }

    /// Warns of PGs whose last scrub is older than `interval * (1 + ratio)`. A ratio of 0 switches the check off; a pool
    /// whose own interval is 0 has the option's.
    fn check_late(&self, now: UTime, of: &Lateness, health: &mut Health) {
        let &Lateness { code, what, last, key, .. } = of;
        let (late, interval) = (self.options.get(of.ratio), self.options.get(of.interval));
        if late <= 0.0 {
            return;
        }
        let is_late = |(id, pg): &(&PgId, &PgStat)| {
            let pool = self.osdmap.pools.get(&id.pool);
            let interval =
                pool.and_then(|pool| pool.double_option(key)).filter(|own| *own > 0.0).unwrap_or(interval);
            let age = now.as_nanos().saturating_sub(last(pg).as_nanos()) as f64 / 1e9;
            // Nothing is known of a PG that was never reported.
            pool.is_some() && last(pg) != UTime::default() && age > interval * (1.0 + late)
        };
        let found: Vec<(&PgId, &PgStat)> = self.pgmap.pgs.iter().filter(is_late).collect();
        if found.is_empty() {
            return;
        }
        let lines = found.iter().take(DETAIL_MAX);
        let mut detail: Vec<String> =
            lines.map(|(id, pg)| format!("pg {id} not {what} since {}", stamp(last(pg)))).collect();
        if found.len() > DETAIL_MAX {
            detail.push(format!("{} more pgs... ", found.len() - DETAIL_MAX));
        }
        let summary = format!("{} pgs not {what} in time", found.len());
        health.add_counted(code, Severity::Warn, summary, found.len() as i64, detail);
    }
}
