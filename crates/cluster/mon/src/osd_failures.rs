//! OSDs of which the monitor knows that they failed, and why: what runs them says so ([`crate::MonEvent::OsdFailed`]). An
//! OSD that failed while it took part has reported it itself, and marked itself down; one that did not get so far can't.
//!
//! A failed PG is reported as down, which has other causes too; its OSD says why in the cluster log.
//!
//! The reasons are not kept: at the monitor's next start the OSDs start again too, and fail again or do not.

use auth::SessionId;
use maps::MapFlags;
use messages::{PgState, PgTrouble};
use types::{PgId, UTime};

use crate::health::{Health, Severity};
use crate::mon::{Claim, Mon};
use crate::service::log::LogLevel;
use crate::service::osdmap;

/// PGs that the detail of a check lists.
const REMAINING_MAX: usize = 50;

const REMAINING_HINT: &str = "stop the OSD (`loligo stop DIR --osd N`): `loligo store fsck DIR --osd N` says what is damaged, `fsck --repair` mends \
     what it can, and `loligo store remove DIR --osd N --pg ID` removes of a PG what can be read; a start tries again. The rest goes \
     with a new store alone (`loligo start DIR --osd N --replace`), once `loligo store export` has saved the PGs that are wanted";

impl Mon {
    pub(crate) fn osd_failed(&mut self, now: UTime, osd: i32, reason: String) {
        self.failed_osds.insert(osd, reason);
        if !self.is_proposing() {
            self.mark_failed_down(now);
        }
    }

    /// Marks those down that the map shows up: nothing else would before `mon_osd_report_timeout`.
    pub(crate) fn mark_failed_down(&mut self, now: UTime) {
        let up = self.failed_osds.keys().copied().filter(|osd| osdmap::is_up(&self.osdmap, *osd));
        for osd in up.collect::<Vec<_>>() {
            // One that another request changes has its turn at the next tick.
            if !self.osdmap.has_flags(MapFlags::NODOWN) && self.claim(Claim::Osd(osd)) {
                self.mark_down(now, osd);
                let reason = &self.failed_osds[&osd];
                let text = format!("osd.{osd} marked down, it failed: {reason}");
                self.say(now, LogLevel::Error, text);
            }
        }
    }

    /// Notes what an OSD's line of the cluster log says of a PG that failed.
    pub(crate) fn note_stopped_pg(&mut self, line: &str) {
        if let Some((pg, reason)) = PgTrouble::Stopped.parse(line)
            && self.pgmap.pgs.contains_key(&pg)
        {
            self.stopped_pgs.insert(pg, reason.to_owned());
        }
    }

    /// Forgets why a PG failed that is reported as something else.
    pub(crate) fn note_pg_state(&mut self, pg: PgId, state: PgState) {
        if !state.has(PgState::DOWN) {
            self.stopped_pgs.remove(&pg);
        }
    }

    /// Why a PG of this state failed, if it did.
    pub(crate) fn why_stopped(&self, pg: PgId, state: PgState) -> Option<&str> {
        self.stopped_pgs.get(&pg).filter(|_| state.has(PgState::DOWN)).map(String::as_str)
    }

    /// Notes what an OSD's line of the cluster log says of a PG that it can't remove.
    pub(crate) fn note_remaining_pg(&mut self, osd: i32, session: SessionId, line: &str) {
        if let Some((pg, reason)) = PgTrouble::Remains.parse(line)
            && !self.osdmap.pools.contains_key(&pg.pool)
        {
            self.remaining_pgs.insert((osd, pg), (session, reason.to_owned()));
        }
    }

    /// An OSD starts, and tries again: what it has said of that already, by the same session, counts.
    pub(crate) fn forget_remaining_pgs(&mut self, osd: i32, session: SessionId) {
        self.remaining_pgs.retain(|(of, _), (by, _)| *of != osd || *by == session);
    }

    pub(crate) fn check_remaining_pgs(&self, health: &mut Health) {
        let there = self.remaining_pgs.iter().filter(|((osd, _), _)| osdmap::exists(&self.osdmap, *osd));
        let mut detail: Vec<String> =
            there.map(|((osd, pg), (_, reason))| format!("osd.{osd} keeps pg {pg}: {reason}")).collect();
        if detail.is_empty() {
            return;
        }
        let summary = format!("{} pg(s) of removed pools can't be removed", detail.len());
        detail.truncate(REMAINING_MAX);
        detail.push(REMAINING_HINT.to_owned());
        health.add("PG_NOT_REMOVED", Severity::Warn, summary, detail);
    }

    pub(crate) fn check_failed_osds(&self, health: &mut Health) {
        let failed = self.failed_osds.iter().filter(|(osd, _)| osdmap::exists(&self.osdmap, **osd));
        let detail: Vec<String> = failed.map(|(osd, reason)| format!("osd.{osd} failed: {reason}")).collect();
        if !detail.is_empty() {
            let plural = if detail.len() > 1 { "s" } else { "" };
            health.add("OSD_FAILED", Severity::Warn, format!("{} osd{plural} failed", detail.len()), detail);
        }
    }
}
