//! What time brings: OSDs that fall silent go down, those that stay down go out, blocklist entries end.

use maps::{MapFlags, OsdState, OsdXInfo, PgPool, PoolFlags};
use options::opt;
use types::{OsdId, PgId, PoolId, UTime};

use crate::mon::{Claim, Mon};
use crate::service::log::LogLevel;
use crate::service::osdmap;

/// Seconds between samples for rates.
const SAMPLE_SECONDS: u32 = 5;

/// Seconds from one moment to a later one.
fn seconds(from: UTime, to: UTime) -> f64 {
    to.as_nanos().saturating_sub(from.as_nanos()) as f64 / 1e9
}

impl Mon {
    pub(crate) fn tick(&mut self, now: UTime) {
        if now.sec.saturating_sub(self.sampled.sec) >= SAMPLE_SECONDS {
            self.sampled = now;
            self.pgmap.sample(now);
        }
        self.prune_services(now);
        if self.is_proposing() {
            return;
        }
        for task in [
            Self::mark_failed_down,
            Self::mark_silent_down,
            Self::mark_down_out,
            Self::end_blocklist,
            Self::finish_pools,
            Self::adjust_pg_numbers,
            Self::finish_removals,
            Self::flag_full_pools,
            Self::end_mutes,
            Self::log_health,
        ] {
            self.step(|mon| task(mon, now));
        }
    }

    /// Pools whose OSDs are full, or that have reached their quota, say so in a flag: clients hold their writes.
    fn flag_full_pools(&mut self, now: UTime) {
        const MASK: u64 =
            PoolFlags::FULL | PoolFlags::FULL_QUOTA | PoolFlags::BACKFILLFULL | PoolFlags::NEARFULL;
        let mut changes = Vec::new();
        for (id, pool) in &self.osdmap.pools {
            let limited = pool.quota_max_bytes > 0 || pool.quota_max_objects > 0;
            let wanted = match self.states_below_rule(pool.crush_rule.into()) {
                _ if limited && self.quota_reached(*id) => PoolFlags::FULL | PoolFlags::FULL_QUOTA,
                s if s & OsdState::FULL != 0 => PoolFlags::FULL,
                s if s & OsdState::BACKFILLFULL != 0 => PoolFlags::BACKFILLFULL | PoolFlags::NEARFULL,
                s if s & OsdState::NEARFULL != 0 => PoolFlags::NEARFULL,
                _ => 0,
            };
            if pool.flags & MASK != wanted {
                changes.push((*id, wanted));
            }
        }
        for (id, wanted) in changes {
            // An OSD whose entry is being changed waits for the next tick.
            let _ = self.change_pool(now, id, |pool| pool.flags = pool.flags & !MASK | wanted);
        }
    }

    fn quota_reached(&self, pool: PoolId) -> bool {
        let usage = self.pool_usage(pool);
        let over = |quota: u64, used: u64| quota > 0 && used >= quota;
        over(usage.quota_bytes, usage.stored) || over(usage.quota_objects, usage.objects)
    }

    /// The union of the states of all OSDs that are up, in and below a rule's root.
    fn states_below_rule(&self, rule: u32) -> u32 {
        let crush = &self.osdmap.crush;
        let steps = crush.rule(rule).map(|rule| rule.steps.as_slice()).unwrap_or_default();
        steps
            .iter()
            .filter(|step| step.op == crush::op::TAKE)
            .flat_map(|step| crate::crush_view::walk_from(crush, step.arg1))
            .filter(|node| osdmap::is_up(&self.osdmap, node.id) && osdmap::is_in(&self.osdmap, node.id))
            .filter_map(|node| self.osdmap.osd(OsdId(node.id)))
            .fold(0, |states, osd| states | osd.state)
    }

    /// Marks pools whose PGs have all been reported as created: their PGs are never created again.
    pub(crate) fn finish_pools(&mut self, now: UTime) {
        if self.is_proposing() {
            return;
        }
        let reported = |id: PoolId| {
            let first = PgId { pool: id, seed: 0 };
            let mut pgs = self.pgmap.pgs.range(first..).take_while(|(pg, _)| pg.pool == id);
            pgs.all(|(_, pg)| !pg.state.is_unknown())
        };
        let creating = self.osdmap.pools.iter().filter(|(_, pool)| pool.has_flags(PoolFlags::CREATING));
        let whole: Vec<(PoolId, PgPool)> =
            creating.filter(|(id, _)| reported(**id)).map(|(id, pool)| (*id, pool.clone())).collect();
        for (id, mut pool) in whole {
            if self.claim(Claim::Pool(id.0)) {
                self.forget_forced_pgs(id);
                pool.flags &= !PoolFlags::CREATING;
                self.osdmap_change(now).new_pools.insert(id, pool);
            }
        }
        self.end_forced_pgs();
    }

    fn mark_silent_down(&mut self, now: UTime) {
        let timeout = self.options.get(opt::MON_OSD_REPORT_TIMEOUT);
        let silent: Vec<i32> = self
            .beacons
            .iter()
            .filter(|(_, heard)| seconds(**heard, now) > timeout)
            .map(|(osd, _)| *osd)
            .collect();
        for osd in silent {
            let nodown = self.osdmap.has_flags(MapFlags::NODOWN)
                || osdmap::is_held(&self.osdmap, osd, OsdState::NODOWN);
            if !nodown && self.claim(Claim::Osd(osd)) {
                self.mark_down(now, osd);
                self.say(
                    now,
                    LogLevel::Info,
                    format!("osd.{osd} marked down after no beacon for {timeout} s"),
                );
            }
        }
    }

    fn mark_down_out(&mut self, now: UTime) {
        let interval = self.options.get(opt::MON_OSD_DOWN_OUT_INTERVAL);
        if interval == 0.0 || self.osdmap.has_flags(MapFlags::NOOUT) {
            return;
        }
        let overdue: Vec<i32> = self
            .down_since
            .iter()
            .filter(|(_, since)| seconds(**since, now) > interval)
            .map(|(osd, _)| *osd)
            .collect();
        for osd in overdue {
            // The OSD was removed: `down_since` follows with the map.
            let Some(entry) = self.osdmap.osd(OsdId(osd)).cloned() else { continue };
            let all = osdmap::osds(&self.osdmap).count();
            let inside = osdmap::osds(&self.osdmap).filter(|o| osdmap::is_in(&self.osdmap, *o)).count();
            // The share that is in now, before this one goes.
            let ratio = inside as f64 / all.max(1) as f64;
            let noout = osdmap::is_held(&self.osdmap, osd, OsdState::NOOUT);
            if noout || ratio < self.options.get(opt::MON_OSD_MIN_IN_RATIO) || !self.claim(Claim::Osd(osd)) {
                continue;
            }
            let xinfo = OsdXInfo { old_weight: self.osdmap.weight(OsdId(osd)), ..entry.xinfo };
            let change = self.osdmap_change(now);
            change.new_weight.insert(OsdId(osd), 0);
            change.new_state.insert(OsdId(osd), OsdState::AUTOOUT);
            change.new_xinfo.insert(OsdId(osd), xinfo);
            self.say(
                now,
                LogLevel::Info,
                format!("Marking osd.{osd} out (has been down for {interval} seconds)"),
            );
            // One OSD per epoch, so that the ratio is checked again.
            return;
        }
    }

    fn end_blocklist(&mut self, now: UTime) {
        let ended: Vec<_> =
            self.osdmap.blocklist.iter().filter(|(_, until)| **until < now).map(|(addr, _)| *addr).collect();
        if !ended.is_empty() && self.claim(Claim::Blocklist) {
            self.osdmap_change(now).old_blocklist.extend(ended);
        }
    }
}
