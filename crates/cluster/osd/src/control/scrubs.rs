//! Which PGs are scrubbed when: those that operators name, and those whose last scrub is longer ago than the options
//! or their pools allow, `osd_max_scrubs` of them at once. The PGs do it (`pg::scrub`), and say when they are through.
//!
//! When a PG is due depends on its last scrub and on a number that is drawn from its name and that scrub's time, so that
//! PGs of one pool are not due together, and a restart changes nothing.

use core::time::Duration;
use std::collections::BTreeMap;

use maps::PoolOptionKey;
use messages::OsdScrub2;
use options::opt;
use pg::ScrubOrder;
use serde_json::{Value, json};
use store::StoreShard;
use types::{Errno, SpgId, SplitMix64, UTime};

use super::Control;
use super::command::Refusal;
use crate::parts::{Out, ToShard};
use crate::shard::PgStatus;
use crate::{LogLevel, OsdPhase};

/// How often PGs are looked at for scrubs that are due.
const LOOK: Duration = Duration::from_secs(10);
/// When they are looked at after a scrub: when its result is known here, or when what ended it may be over.
const AGAIN: Duration = Duration::from_millis(50);
const RETRY: Duration = Duration::from_secs(1);

/// The scrubs of an OSD.
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    /// What operators want. An order stays until it was carried out, or its PG is not led here any more.
    wanted: BTreeMap<SpgId, ScrubOrder>,
    running: BTreeMap<SpgId, ScrubOrder>,
    /// PGs whose scrub an operator has aborted, and until when the schedule leaves them alone.
    aborted: BTreeMap<SpgId, UTime>,
    /// When the PGs are looked at next; `None` before the first.
    look_at: Option<UTime>,
}

impl Scrubs {
    /// Both orders in one: a repair is deep, and a deep scrub checks all that another one does.
    fn want(&mut self, pgid: SpgId, order: ScrubOrder) {
        let wanted = self.wanted.entry(pgid).or_default();
        wanted.deep |= order.deep || order.repair;
        wanted.repair |= order.repair;
        self.aborted.remove(&pgid);
    }

    /// A PG is removed.
    pub(super) fn forget(&mut self, pgid: &SpgId) {
        self.wanted.remove(pgid);
        self.running.remove(pgid);
        self.aborted.remove(pgid);
    }
}

/// When a PG is due, and for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    at: UTime,
    deep: bool,
}

/// A number from 0 to 1 that is a PG's own for the interval that began at `since`.
fn share(pgid: &SpgId, since: UTime, salt: u64) -> f64 {
    let name = (pgid.pg.pool.0 as u64) << 32 | u64::from(pgid.pg.seed);
    let seed = SplitMix64::new(name ^ salt).next_u64() ^ since.as_nanos();
    SplitMix64::new(seed).next_u64() as f64 / u64::MAX as f64
}

impl Control {
    /// The monitor, or a manager, wants PGs scrubbed.
    pub(super) fn on_scrub_message(&mut self, now: UTime, message: &OsdScrub2, out: &mut Out) {
        if message.fsid != self.config.cluster_fsid {
            return self.log(LogLevel::Warn, "an order to scrub is of another cluster and is ignored", out);
        }
        let order = ScrubOrder { deep: message.deep, repair: message.repair, periodic: false };
        for pgid in message.scrub_pgs.iter().filter(|pgid| self.pgs.contains(pgid)) {
            self.scrubs.want(*pgid, order);
        }
        self.start_scrubs(now, out);
    }

    fn leads(&self, pgid: &SpgId) -> Result<(), Refusal> {
        match self.pgs.status(pgid) {
            Some(status) if status.leads => Ok(()),
            _ => Err((Errno::EPERM, "Not primary".into())),
        }
    }

    /// A command wants a PG scrubbed that is here. The answer is Ceph's.
    pub(super) fn order_scrub(
        &mut self,
        now: UTime,
        pgid: SpgId,
        deep: bool,
        out: &mut Out,
    ) -> Result<Value, Refusal> {
        self.leads(&pgid)?;
        self.scrubs.want(pgid, ScrubOrder { deep, ..ScrubOrder::default() });
        self.start_scrubs(now, out);
        Ok(json!({ "deep": deep, "must": true, "stamp": UTime::default().to_string() }))
    }

    /// `scrub-abort`: ends the scrub of a PG, and takes back what operators want of it. The answer is Ceph's.
    pub(super) fn abort_scrub(
        &mut self,
        now: UTime,
        pgid: SpgId,
        shard: StoreShard,
        out: &mut Out,
    ) -> Result<Value, Refusal> {
        self.leads(&pgid)?;
        self.scrubs.wanted.remove(&pgid);
        let active = self.scrubs.running.contains_key(&pgid);
        if active {
            let delay = Duration::from_secs(self.options.get(opt::OSD_SCRUB_RETRY_DELAY));
            self.scrubs.aborted.insert(pgid, now.after(delay));
            out.send_shard(shard, ToShard::AbortScrub { pgid });
        }
        Ok(json!({ "applicable": true, "active": active }))
    }

    /// A PG has ended a scrub.
    pub(super) fn on_scrubbed(&mut self, now: UTime, pgid: SpgId, complete: bool) {
        // Its pool was removed meanwhile.
        let Some(order) = self.scrubs.running.remove(&pgid) else { return };
        let is_aborted = self.scrubs.aborted.contains_key(&pgid);
        if !complete && !order.periodic && !is_aborted {
            self.scrubs.want(pgid, order);
        }
        // Its new state, with the time of this scrub, follows.
        let at = now.after(if complete { AGAIN } else { RETRY });
        self.scrubs.look_at = Some(self.scrubs.look_at.map_or(at, |look| look.min(at)));
    }

    /// A PG has another state: it may be well enough for a scrub that an operator wants.
    pub(super) fn note_scrubbable(&mut self, now: UTime, pgid: &SpgId, out: &mut Out) {
        if self.scrubs.wanted.contains_key(pgid) {
            self.start_scrubs(now, out);
        }
    }

    pub(super) fn scrubs_deadline(&self) -> Option<UTime> {
        self.scrubs.look_at.filter(|_| self.state == OsdPhase::Active)
    }

    pub(super) fn scrubs_tick(&mut self, now: UTime, out: &mut Out) {
        if self.state != OsdPhase::Active || self.scrubs.look_at.is_some_and(|at| at > now) {
            return;
        }
        let pgs = &self.pgs;
        self.scrubs.wanted.retain(|pgid, _| pgs.status(pgid).is_none_or(|status| status.leads));
        self.scrubs.aborted.retain(|_, until| *until > now);
        self.scrubs.look_at = Some(now.after(LOOK));
        self.start_scrubs(now, out);
    }

    /// Begins what there is a place for: first what operators want, then what is due for longest.
    fn start_scrubs(&mut self, now: UTime, out: &mut Out) {
        let places =
            (self.options.get(opt::OSD_MAX_SCRUBS) as usize).saturating_sub(self.scrubs.running.len());
        if places == 0 || self.state != OsdPhase::Active {
            return;
        }
        let is_free = |pgid: &SpgId| {
            let is_clean = self.pgs.status(pgid).is_some_and(PgStatus::is_clean);
            is_clean && !self.scrubs.running.contains_key(pgid)
        };
        let wanted = self.scrubs.wanted.iter().filter(|(pgid, _)| is_free(pgid));
        let mut start: Vec<(SpgId, ScrubOrder)> =
            wanted.take(places).map(|(id, order)| (*id, *order)).collect();
        if start.len() < places && self.schedule_may_scrub(now) {
            let may_begin = |pgid: &SpgId| {
                let put_off = self.scrubs.aborted.get(pgid).is_some_and(|until| *until > now);
                is_free(pgid) && !self.scrubs.wanted.contains_key(pgid) && !put_off
            };
            let due = self.pgs.statuses().filter(|(pgid, _)| may_begin(pgid));
            let mut due: Vec<(Due, SpgId)> =
                due.filter_map(|(pgid, status)| Some((self.due(now, pgid, status)?, *pgid))).collect();
            due.retain(|(due, _)| due.at <= now);
            due.sort_by_key(|(due, pgid)| (due.at, *pgid));
            let periodic = |deep| ScrubOrder { deep, repair: false, periodic: true };
            let left = places - start.len();
            start.extend(due.into_iter().take(left).map(|(due, pgid)| (pgid, periodic(due.deep))));
        }
        for (pgid, order) in start {
            let Some(shard) = self.pgs.shard_of(&pgid) else { continue };
            self.scrubs.wanted.remove(&pgid);
            self.scrubs.running.insert(pgid, order);
            out.send_shard(shard, ToShard::Scrub { pgid, order });
        }
    }

    /// When a PG is to be scrubbed next; `None` while flags forbid it.
    fn due(&self, now: UTime, pgid: &SpgId, status: &PgStatus) -> Option<Due> {
        let map = self.history.current()?;
        let pool = map.pools.get(&pgid.pg.pool)?;
        let own = |key: i32| pool.double_option(key).filter(|seconds| *seconds > 0.0);
        let every = own(PoolOptionKey::SCRUB_MIN_INTERVAL)
            .unwrap_or_else(|| self.options.get(opt::OSD_SCRUB_MIN_INTERVAL));
        let deeply_every = own(PoolOptionKey::DEEP_SCRUB_INTERVAL)
            .unwrap_or_else(|| self.options.get(opt::OSD_DEEP_SCRUB_INTERVAL));
        let ratio = self.options.get(opt::OSD_SCRUB_INTERVAL_RANDOMIZE_RATIO);
        let spread = self.options.get(opt::OSD_DEEP_SCRUB_INTERVAL_CV);
        let allowed = |deep| !pg::is_scrub_forbidden(map, pgid.pg.pool, deep);
        let after =
            |since: UTime, seconds: f64| since.after(Duration::from_secs_f64(seconds.clamp(0.0, 1e10)));
        let (last, deep_last) = (status.last_scrub, status.last_deep_scrub);
        let shallow = Due { at: after(last, every * (1.0 + ratio * share(pgid, last, 0))), deep: false };
        let drawn = 2.0 * share(pgid, deep_last, 1) - 1.0;
        let deep = Due { at: after(deep_last, deeply_every * (1.0 + spread * drawn)), deep: true };
        // A deep scrub that is due saves the other one.
        if deep.at <= now && allowed(true) {
            return Some(deep);
        }
        [deep, shallow].into_iter().filter(|due| allowed(due.deep)).min_by_key(|due| due.at)
    }

    /// `dump_scrubs`: what is planned.
    pub(super) fn planned_scrubs(&self, now: UTime) -> Value {
        let planned = self.pgs.statuses().filter(|(_, status)| status.leads).filter_map(|(pgid, status)| {
            let wanted = self.scrubs.wanted.get(pgid);
            let due = match wanted {
                Some(order) => Due { at: UTime::default(), deep: order.deep },
                None => self.due(now, pgid, status)?,
            };
            let latest = Duration::from_secs_f64(self.options.get(opt::OSD_SCRUB_MAX_INTERVAL));
            Some(json!({
                "pgid": pgid.to_string(),
                "sched_time": due.at.to_string(),
                "deadline": status.last_scrub.after(latest).to_string(),
                "orig_sched_time": due.at.to_string(),
                "forced": wanted.is_some(),
                "level": if due.deep { "deep" } else { "shallow" },
                "urgency": if wanted.is_some() { "operator_requested" } else { "periodic_regular" },
                "eligible": due.at <= now,
                "last_issue": "none",
            }))
        });
        Value::Array(planned.collect())
    }

    /// `dump_scrub_reservations`: what runs.
    pub(super) fn scrub_reservations(&self) -> Value {
        json!({
            "scrubs_local": self.scrubs.running.len(),
            "scrubs_remote": 0,
            "osd_max_scrubs": self.options.get(opt::OSD_MAX_SCRUBS),
            // Other OSDs reserve nothing here while PGs have one copy.
            "remote_scrub_reservations": {
                "max_allowed": 0, "min_priority": 0, "queues": [], "in_progress": [],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgs_of_a_pool_draw_different_numbers_that_do_not_change() {
        let pg = |seed: u32| SpgId::from(format!("1.{seed:x}").parse::<types::PgId>().unwrap());
        let since = UTime { sec: 1_700_000_000, nsec: 0 };
        let drawn: Vec<f64> = (0..64).map(|seed| share(&pg(seed), since, 0)).collect();
        assert!(drawn.iter().all(|n| (0.0..=1.0).contains(n)), "{drawn:?}");
        assert!(drawn.iter().any(|n| *n < 0.2) && drawn.iter().any(|n| *n > 0.8), "{drawn:?}");
        assert_eq!(drawn[5], share(&pg(5), since, 0));
        assert_ne!(drawn[5], share(&pg(5), since.after(Duration::from_secs(1)), 0));
    }

    #[test]
    fn two_orders_for_a_pg_become_the_stronger_one() {
        let pgid = SpgId::from("1.0".parse::<types::PgId>().unwrap());
        let mut scrubs = Scrubs::default();
        scrubs.want(pgid, ScrubOrder::default());
        assert_eq!(scrubs.wanted[&pgid], ScrubOrder::default());
        scrubs.want(pgid, ScrubOrder { repair: true, ..ScrubOrder::default() });
        scrubs.want(pgid, ScrubOrder::default());
        assert_eq!(scrubs.wanted[&pgid], ScrubOrder { deep: true, repair: true, periodic: false });
    }
}
