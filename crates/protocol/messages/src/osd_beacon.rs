//! MOSDBeacon: an OSD's regular sign of life to the monitors.

use types::{Epoch, PgId, UTime};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDBeacon.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdBeacon {
    /// The common prefix; its version is the OSD's map.
    pub paxos: Paxos,
    /// The placement groups that it leads.
    pub pgs: Vec<PgId>,
    /// The oldest last_epoch_clean of its placement groups.
    pub min_last_epoch_clean: Epoch,
    /// When it last searched for purged snapshots.
    pub last_purged_snaps_scrub: UTime,
    /// Seconds until its next beacon.
    pub osd_beacon_report_interval: i32,
}

payload!(OsdBeacon = OSD_BEACON, version 3, compat 1, [
    paxos, pgs, min_last_epoch_clean, last_purged_snaps_scrub, osd_beacon_report_interval,
]);
