//! What other OSDs have of the PG, where its past intervals leave that open: whom to ask, and what an answer means.
//!
//! An OSD that acted in a past interval without this one may have taken writes in it. Whether it has is known to that OSD
//! alone. Its answer counts for one interval of this PG: it comes from a map of that interval or a later one, by which
//! the other OSD takes nothing more of any interval before.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use messages::{PgHolding, PgInfoReply, PgQuestion, PgSummary};
use types::{Epoch, OsdId, UTime};

use crate::out::Out;
use crate::phase::{Peering, Phase};
use crate::{MapView, Notice, Pg, PgEffect, PgInfo};

/// How long an answer may take before the question is sent again. A question or its answer is lost with its session.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What this interval knows of other OSDs.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// Those that were asked and have not answered, each with the epoch since which it was up.
    asked: BTreeMap<OsdId, Epoch>,
    answers: BTreeMap<OsdId, PgHolding>,
    /// When those are asked again that gave no answer of use.
    again_at: Option<UTime>,
    /// Why the PG is not served, as it was said last.
    said: Option<String>,
}

/// Where the PG stands with one of them.
enum Standing {
    /// It has nothing that this OSD lacks.
    Settled,
    /// It is to be asked, or was.
    Asked,
    /// What is in the way, and the way out.
    InTheWay(String),
}

impl Pg {
    /// Finds out whether other OSDs have anything that this one lacks, as far as that is known. Whether that is settled:
    /// they have nothing.
    pub(crate) fn settle_others(&mut self, out: &mut Out<'_>) -> bool {
        let Some(map) = &self.map else {
            self.broken("other OSDs are looked for without a map", out);
            return false;
        };
        let mut reason = (map.acting != [self.whoami]).then(|| "more than one OSD acts".to_owned());
        let since = self.records.info.history.same_interval_since;
        let question = PgQuestion { pgid: self.id, epoch: map.epoch, since };
        let mut is_settled = reason.is_none();
        let mut ask = BTreeMap::new();
        for osd in self.to_consider(map) {
            match self.standing(map, osd) {
                Standing::Settled => continue,
                Standing::Asked => drop(ask.insert(osd, map.osdmap.osd(osd).map(|osd| osd.info.up_from))),
                Standing::InTheWay(why) => drop(reason.get_or_insert(why)),
            }
            is_settled = false;
        }
        if is_settled {
            self.others.again_at = None;
            return true;
        }
        for (osd, up_from) in ask {
            // One that was started again knows nothing of the question.
            let up_from = up_from.unwrap_or_default();
            if self.others.asked.insert(osd, up_from) != Some(up_from) {
                out.push(PgEffect::AskPeer { osd, question });
            }
        }
        let is_unreadable = |has: &PgHolding| *has == PgHolding::Unreadable;
        if !self.others.asked.is_empty() || self.others.answers.values().any(is_unreadable) {
            self.others.again_at.get_or_insert(self.now.after(AGAIN_AFTER));
        }
        if let Some(reason) = reason {
            self.say_not_served(reason, out);
        }
        false
    }

    fn say_not_served(&mut self, reason: String, out: &mut Out<'_>) {
        if self.others.said.as_ref() != Some(&reason) {
            self.others.said = Some(reason.clone());
            out.push(PgEffect::Notice(Notice::NotServed { reason }));
        }
    }

    /// The OSDs that may have taken writes since this one acted.
    fn to_consider(&self, map: &MapView) -> BTreeSet<OsdId> {
        let started = self.records.info.history.last_epoch_started;
        let past = self.records.past.0.iter().flat_map(|past| &past.intervals);
        let past = past.filter(|interval| interval.last >= started);
        let without_us =
            past.filter(|interval| interval.acting.iter().all(|member| member.osd != self.whoami));
        let open = without_us.flat_map(|interval| {
            let members = interval.acting.iter().map(|member| member.osd);
            // One that was removed, or given up as lost, has nothing for us. One that is up may all the same.
            members.filter(|osd| {
                let osd = map.osdmap.osd(*osd).filter(|osd| osd.exists());
                osd.is_some_and(|osd| osd.is_up() || osd.info.lost_at <= interval.first)
            })
        });
        open.collect()
    }

    fn standing(&self, map: &MapView, osd: OsdId) -> Standing {
        let is_up = map.osdmap.osd(osd).is_some_and(maps::Osd::is_up);
        match self.others.answers.get(&osd) {
            Some(PgHolding::Nothing) => Standing::Settled,
            Some(PgHolding::Info(theirs)) if !is_newer(theirs, &self.records.info) => Standing::Settled,
            Some(PgHolding::Info(theirs)) => Standing::InTheWay(self.why_newer(osd, theirs)),
            Some(PgHolding::Unreadable) => Standing::InTheWay(format!(
                "osd.{osd} may have taken writes since this one acted, and can't read what it has of the PG"
            )),
            None if is_up => Standing::Asked,
            None => Standing::InTheWay(format!(
                "osd.{osd} may have taken writes since this one acted, and is down: start it; if it can't be, and \
                 `loligo store list DIR --osd {osd}` has no {}, `ceph osd lost {osd} --yes-i-really-mean-it` gives up nothing",
                self.id
            )),
        }
    }

    fn why_newer(&self, osd: OsdId, theirs: &PgSummary) -> String {
        let (ours, me) = (self.records.info.last_update, self.whoami);
        let PgSummary { last_update, last_epoch_started, .. } = theirs;
        format!(
            "osd.{osd} has served it since this one did (from epoch {last_epoch_started} on, with writes up to {last_update}; here \
             they end at {ours}), and there is no recovery yet: `ceph osd out {me}` lets osd.{osd} serve it where the map then has \
             it there; with osd.{osd} stopped, `ceph osd lost {osd} --yes-i-really-mean-it` gives its writes up"
        )
    }

    /// Another OSD says what it has. What it says of another interval, or again, changes nothing.
    pub(crate) fn on_peer_info(&mut self, osd: OsdId, reply: &PgInfoReply, out: &mut Out<'_>) {
        let PgInfoReply { question, epoch, has, .. } = reply;
        let since = self.records.info.history.same_interval_since;
        let is_due = self.phase == Phase::Peering(Peering::Others)
            && question.pgid == self.id
            && question.since == since
            // By an older map it could still take writes of an interval before.
            && *epoch >= since;
        if !is_due || self.others.asked.remove(&osd).is_none() {
            return;
        }
        self.others.answers.insert(osd, *has);
        self.peer(out);
    }

    /// When those are asked again that gave no answer of use.
    pub(crate) fn others_deadline(&self) -> Option<UTime> {
        self.others.again_at.filter(|_| self.phase == Phase::Peering(Peering::Others))
    }

    pub(crate) fn on_others_tick(&mut self, out: &mut Out<'_>) {
        if self.others_deadline().is_none_or(|at| self.now < at) {
            return;
        }
        let silent: Vec<OsdId> = std::mem::take(&mut self.others.asked).into_keys().collect();
        self.others.answers.retain(|_, has| *has != PgHolding::Unreadable);
        self.others.again_at = None;
        if let (Some(osd), None) = (silent.first(), &self.others.said) {
            let reason = format!(
                "osd.{osd} may have taken writes since this one acted, and does not say what it has; it is asked again"
            );
            self.say_not_served(reason, out);
        }
        self.peer(out);
    }

    /// What the PG says of itself to other OSDs; `None` while that is being changed or read.
    pub fn holding(&self) -> Option<PgHolding> {
        let info = &self.records.info;
        match self.phase {
            Phase::Loading | Phase::Splitting | Phase::Removing => None,
            Phase::Failed => Some(PgHolding::Unreadable),
            Phase::Nonprimary | Phase::Peering(_) | Phase::Peered | Phase::Active(_) => {
                Some(PgHolding::Info(PgSummary {
                    last_update: info.last_update,
                    log_tail: info.log_tail,
                    last_epoch_started: info.last_epoch_started,
                    last_interval_started: info.last_interval_started,
                }))
            }
        }
    }
}

/// Whether another OSD's copy may have what this one's lacks.
///
/// A copy that went active later was served by an OSD that had settled then what this one has, or had been told to give it
/// up. Of two that went active in the same interval one was copied from the other by hand: it has what there was
/// until then. Equal versions are of the same write, so nothing was taken since.
fn is_newer(theirs: &PgSummary, ours: &PgInfo) -> bool {
    let is_later =
        (theirs.last_epoch_started, theirs.last_update) > (ours.last_epoch_started, ours.last_update);
    is_later && theirs.last_update != ours.last_update
}
