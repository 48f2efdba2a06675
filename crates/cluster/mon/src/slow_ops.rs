//! SLOW_OPS: OSDs that report operations which take too long.

use messages::SlowOps;
use types::OsdId;

use crate::health::{Health, Severity};
use crate::mon::Mon;

/// Daemons that the summary names.
const NAMED_MAX: usize = 10;

impl Mon {
    /// What an OSD's last report says under the name of an alert.
    pub(crate) fn alert(&self, osd: i32, name: &str) -> Option<&str> {
        let alerts = self.pgmap.osds.get(&osd)?.os_alerts.get(&OsdId(osd))?;
        alerts.get(name).map(String::as_str)
    }

    /// What an OSD that is up reports of operations that take too long, if there are any.
    fn slow_ops(&self, osd: i32) -> Option<SlowOps> {
        let is_up = self.osdmap.osd(OsdId(osd)).is_some_and(|entry| entry.is_up());
        let alert = self.alert(osd, SlowOps::ALERT).filter(|_| is_up)?;
        // An alert that says something else is no such report.
        alert.parse::<SlowOps>().ok().filter(|slow| slow.count > 0)
    }

    /// How many they are.
    pub(crate) fn slow_ops_of(&self, osd: i32) -> u64 {
        self.slow_ops(osd).map_or(0, |slow| slow.count)
    }

    pub(crate) fn check_slow_ops(&self, health: &mut Health) {
        let mut sum = SlowOps { count: 0, oldest_secs: 0 };
        let mut daemons = Vec::new();
        for osd in self.pgmap.osds.keys() {
            if let Some(slow) = self.slow_ops(*osd) {
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
