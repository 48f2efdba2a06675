//! MOSDFull: an OSD reports that it is full, or no longer.

use types::Epoch;

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDFull.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdFull {
    /// The common prefix; its version is the OSD's map.
    pub paxos: Paxos,
    /// The OSD's map.
    pub map_epoch: Epoch,
    /// Its state as bits of the OSD map (CEPH_OSD_FULL, NEARFULL, BACKFILLFULL).
    pub state: u32,
}

payload!(OsdFull = OSD_FULL, version 1, compat 1, [paxos, map_epoch, state]);
