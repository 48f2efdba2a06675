//! MPoolOpReply: the answer to MPoolOp.

use types::{Epoch, Fsid};

use crate::codec::payload;
use crate::{Blob, Paxos};

/// Ceph's MPoolOpReply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolOpReply {
    /// The request's transaction id.
    pub tid: u64,
    /// The common prefix.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    /// 0 or a negated error number.
    pub result: i32,
    /// The OSD map that shows the change; clients wait for it.
    pub epoch: Epoch,
    /// The new snapshot's id as a u64, where one was allotted.
    pub response: Option<Blob>,
}

payload!(PoolOpReply = POOL_OP_REPLY, version 1, compat 1, [paxos, fsid, result, epoch, response], outside [tid]);
