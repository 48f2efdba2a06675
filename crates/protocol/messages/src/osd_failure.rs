//! MOSDFailure: an OSD reports another that does not answer, or takes that back.

use types::{EntityAddrVec, Epoch, Fsid, OsdId};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDFailure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdFailure {
    /// The common prefix; its version is the reporter's map.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    /// Who failed.
    pub target_osd: OsdId,
    /// Where it was.
    pub target_addrs: EntityAddrVec,
    /// The reporter's map.
    pub epoch: Epoch,
    /// [`OsdFailure::FAILED`] and its like.
    pub flags: u8,
    /// Seconds for which it has not answered.
    pub failed_for: i32,
}

impl OsdFailure {
    /// FLAG_FAILED: it failed; without, it is alive again.
    pub const FAILED: u8 = 1;
    /// FLAG_IMMEDIATE: not a timeout, its process is known to be gone.
    pub const IMMEDIATE: u8 = 2;
}

payload!(OsdFailure = OSD_FAILURE, version 4, compat 4, [
    paxos, fsid, target_osd, target_addrs, epoch, flags, failed_for,
]);
