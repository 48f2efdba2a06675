//! Which snapshots were ever purged. The OSD asks the monitor when it has become active, and every `osd_deep_scrub_interval` from
//! then on, and tells its PGs, which trim the clones that they still have of these snapshots: an import brings such clones back, and
//! no map names their snapshots any more.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use messages::{MonGetPurgedSnaps, MonGetPurgedSnapsReply, Paxos};
use options::opt;
use types::{Epoch, IntervalSet, PoolId, UTime};

use super::Control;
use crate::OsdPhase;
use crate::parts::{Out, ToShard};

#[derive(Debug, Default)]
pub(super) struct PurgedSnaps {
    asked: Option<Asked>,
    /// When the monitor is asked next; `None` before the first time.
    due: Option<UTime>,
    /// When the PGs were told last.
    pub told: UTime,
}

/// What the monitor is being asked, a part after the other.
#[derive(Debug)]
struct Asked {
    /// What these epochs, the first one left out, have purged is still to come.
    after: Epoch,
    through: Epoch,
    /// What has come.
    purged: BTreeMap<PoolId, IntervalSet>,
}

impl Control {
    /// The OSD is active: the first time in this start it asks at once.
    pub(super) fn begin_purged(&mut self, now: UTime, out: &mut Out) {
        self.purged.due.get_or_insert(now);
        self.purged_tick(now, out);
    }

    /// A command wants it now.
    pub(super) fn want_purged(&mut self, now: UTime, out: &mut Out) {
        self.purged.due = Some(now);
        self.purged_tick(now, out);
    }

    pub(super) fn purged_deadline(&self) -> Option<UTime> {
        self.purged.due.filter(|_| self.state == OsdPhase::Active && self.purged.asked.is_none())
    }

    pub(super) fn purged_tick(&mut self, now: UTime, out: &mut Out) {
        if self.purged_deadline().is_some_and(|due| due <= now) {
            let (after, through) = (Epoch(0), self.history.epoch());
            self.purged.asked = Some(Asked { after, through, purged: BTreeMap::new() });
            self.ask_purged(out);
        }
    }

    /// Asks for what is still to come; again when a session to the monitor has begun.
    pub(super) fn ask_purged(&mut self, out: &mut Out) {
        // Nothing is being asked.
        let Some(&Asked { after, through, .. }) = self.purged.asked.as_ref() else { return };
        self.send_mon(MonGetPurgedSnaps { paxos: Paxos::default(), start: after, last: through }, out);
    }

    pub(super) fn on_purged(&mut self, now: UTime, reply: MonGetPurgedSnapsReply, out: &mut Out) {
        // An answer that came twice, as the question did.
        let Some(asked) = self.purged.asked.as_mut().filter(|asked| asked.after == reply.start) else {
            return;
        };
        for (pool, snaps) in reply.purged_snaps.into_values().flatten() {
            asked.purged.entry(pool).or_default().union(&snaps);
        }
        if asked.after < reply.last && reply.last < asked.through {
            asked.after = reply.last;
            return self.ask_purged(out);
        }
        let Some(Asked { purged, .. }) = self.purged.asked.take() else { return };
        let every = Duration::from_secs_f64(self.options.get(opt::OSD_DEEP_SCRUB_INTERVAL));
        (self.purged.told, self.purged.due) = (now, Some(now.after(every)));
        let purged = Arc::new(purged);
        if !purged.is_empty() {
            out.send_shards(|| ToShard::Purged(purged.clone()));
        }
    }
}
