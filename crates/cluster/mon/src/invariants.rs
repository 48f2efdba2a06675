//! What holds of the monitor after each event. Checked in builds with debug assertions, so in every test and in the
//! simulator.

use types::{BrokenInvariant, invariant};

use crate::mon::{Mon, WAITING_IDS_MAX, WAITING_PER_SESSION_MAX};
use crate::service::{kept_maps, osdmap};
use crate::session::SUBSCRIPTIONS_MAX;

impl Mon {
    /// The first invariant that does not hold.
    pub(crate) fn check(&self) -> Result<(), BrokenInvariant> {
        self.check_pipeline()?;
        self.check_waiting()?;
        self.check_sessions()?;
        invariant!(self.services.is_counted_right(), "the texts of services are miscounted")?;
        self.check_derived()
    }

    /// What was gathered is proposed as soon as nothing is under way, and a proposal changes something.
    fn check_pipeline(&self) -> Result<(), BrokenInvariant> {
        let pending = &self.pending;
        let empty = pending.batch.is_empty()
            && pending.with_map.is_empty()
            && pending.osdmap.is_none()
            && pending.claimed.is_empty()
            && pending.deferred.is_empty()
            && pending.maps_to.is_empty();
        let Some(proposal) = &self.in_flight else {
            return invariant!(empty, "nothing is proposed though changes or replies were gathered");
        };
        invariant!(
            proposal.token == self.token,
            "proposal {} is not the last, {}",
            proposal.token,
            self.token
        )?;
        invariant!(!proposal.batch.is_empty(), "proposal {} changes nothing", proposal.token)?;
        let next = proposal.osdmap.as_ref().map_or(self.osdmap.epoch, |next| next.map.epoch);
        let follows = next == self.osdmap.epoch || next == self.osdmap.epoch.next();
        invariant!(follows, "OSD map {next} is proposed after {}", self.osdmap.epoch)?;
        // What changes the map waits while a proposal is under way: nothing is built on a map that may not come.
        let gathers_next = pending.osdmap.as_ref().is_none_or(|inc| inc.epoch == self.osdmap.epoch.next());
        invariant!(gathers_next, "the increment gathered does not follow OSD map {}", self.osdmap.epoch)
    }

    /// A request waits only for a commit that comes, or for the tick after a change was dropped.
    fn check_waiting(&self) -> Result<(), BrokenInvariant> {
        let wakes = self.in_flight.is_some() || self.change_dropped;
        invariant!(wakes || self.waiting.is_empty(), "{} requests wait for no commit", self.waiting.len())?;
        invariant!(
            self.in_flight.is_some() || self.ids_wanted.is_empty(),
            "{} connections wait for an id that no commit brings",
            self.ids_wanted.len()
        )?;
        invariant!(self.ids_wanted.len() <= WAITING_IDS_MAX, "{} wait for an id", self.ids_wanted.len())?;
        let counted: usize = self.sessions.values().map(|session| session.waiting).sum();
        let waiting = self.waiting.len();
        invariant!(counted == waiting, "sessions count {counted} waiting requests of {waiting}")
    }

    fn check_sessions(&self) -> Result<(), BrokenInvariant> {
        for (id, session) in &self.sessions {
            invariant!(session.info.id == *id, "{id} is kept under another session's id")?;
            let waiting = self.waiting.iter().filter(|request| request.session == *id).count();
            invariant!(session.waiting == waiting, "{id} counts {} of {waiting} requests", session.waiting)?;
            invariant!(waiting <= WAITING_PER_SESSION_MAX, "{waiting} requests of {id} wait")?;
            let subscriptions = session.subscriptions.len();
            invariant!(subscriptions <= SUBSCRIPTIONS_MAX, "{id} has {subscriptions} subscriptions")?;
        }
        Ok(())
    }

    /// What is derived from the committed state is that of the newest map.
    fn check_derived(&self) -> Result<(), BrokenInvariant> {
        let (map, epoch) = (&self.osdmap, self.osdmap.epoch);
        let committed = kept_maps::last_committed(&self.state);
        invariant!(
            u64::from(epoch.0) == committed,
            "OSD map {epoch} is shown, and {committed} is the newest committed"
        )?;
        let pgs: usize = map.pools.values().map(|pool| pool.pg_num as usize).sum();
        invariant!(
            self.pgmap.pgs.len() == pgs,
            "{} PGs have statistics, the map has {pgs}",
            self.pgmap.pgs.len()
        )?;
        for osd in self.down_since.keys() {
            invariant!(osdmap::is_down_in(map, *osd), "osd.{osd} counts as down and in")?;
        }
        for (target, by) in self.failures.keys() {
            let up = osdmap::is_up(map, *target) && osdmap::is_up(map, *by);
            invariant!(up, "osd.{by}'s report of osd.{target} outlived one of them")?;
        }
        Ok(())
    }
}
