//! MGetPoolStats: asks for pools' statistics (`rados df`).

use types::{Fsid, Name};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MGetPoolStats.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GetPoolStats {
    /// Transaction id; the reply repeats it.
    pub tid: u64,
    /// The common prefix.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    /// The pools, by name.
    pub pools: Vec<Name>,
}

payload!(GetPoolStats = GET_POOL_STATS, version 1, compat 1, [paxos, fsid, pools], outside [tid]);
