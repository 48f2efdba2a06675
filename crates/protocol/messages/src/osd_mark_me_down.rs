//! MOSDMarkMeDown: an OSD that stops asks to be marked down; the monitor returns it when that is done.

use types::{EntityAddrVec, Epoch, Fsid, OsdId};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDMarkMeDown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdMarkMeDown {
    /// The common prefix; its version is the OSD's map.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    pub target_osd: OsdId,
    /// Where.
    pub target_addrs: EntityAddrVec,
    /// The OSD's map.
    pub epoch: Epoch,
    /// Whether it waits for the answer.
    pub request_ack: bool,
    /// Whether it is to be marked dead too: nothing of it remains in flight.
    pub down_and_dead: bool,
}

payload!(OsdMarkMeDown = OSD_MARK_ME_DOWN, version 4, compat 3, [
    paxos, fsid, target_osd, target_addrs, epoch, request_ack, down_and_dead,
]);
