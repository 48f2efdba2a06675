//! SLOW_OPS: OSDs that report operations which take too long.

use messages::SlowOps;
use types::OsdId;

use crate::health::{Health, Severity};
use crate::mon::Mon;

/// Daemons that the summary names.
const NAMED_MAX: usize = 10;

impl Mon {
    pub(crate) fn check_slow_ops(&self, health: &mut Health) {
        let mut sum = SlowOps { count: 0, oldest_secs: 0 };
        let mut daemons = Vec::new();
        for (osd, stat) in &self.pgmap.osds {
            let is_up = self.osdmap.osd(OsdId(*osd)).is_some_and(|entry| entry.is_up());
            let alerts = stat.os_alerts.get(&OsdId(*osd)).filter(|_| is_up);
            // An alert that says something else is no such report.
            let slow = alerts.and_then(|alerts| alerts.get(SlowOps::ALERT)?.parse::<SlowOps>().ok());
            if let Some(slow) = slow.filter(|slow| slow.count > 0) {
                sum.count += slow.count;
                sum.oldest_secs = sum.oldest_secs.max(slow.oldest_secs);
                daemons.push(format!("osd.{osd}"));
            }
        }
        // The words are what the manager's Prometheus module of Ceph looks for.
        let whose = match &daemons[..] {
            [] => return,
            [one] => format!("{one} has slow ops"),
            all if all.len() <= NAMED_MAX => format!("daemons [{}] have slow ops.", all.join(",")),
            all => format!("daemons [{}]... have slow ops.", all[..NAMED_MAX].join(",")),
        };
        health.add("SLOW_OPS", Severity::Warn, format!("{sum}, {whose}"), Vec::new());
    }
}
