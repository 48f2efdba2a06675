//! MOSDMarkMeDead: an OSD that was marked down reports that its former instance no longer serves.

use types::{Epoch, Fsid, OsdId};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDMarkMeDead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdMarkMeDead {
    /// The common prefix; its version is the OSD's map.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    pub target_osd: OsdId,
    /// The map in which it is down.
    pub epoch: Epoch,
}

payload!(OsdMarkMeDead = OSD_MARK_ME_DEAD, version 1, compat 1, [paxos, fsid, target_osd, epoch]);
