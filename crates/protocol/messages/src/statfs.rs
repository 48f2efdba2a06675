//! MStatfs: asks for the cluster's (or a pool's) size and use.

use types::{Fsid, PoolId};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MStatfs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statfs {
    /// Transaction id; the reply repeats it.
    pub tid: u64,
    /// The common prefix.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    /// Only this pool's.
    pub data_pool: Option<PoolId>,
}

payload!(Statfs = STATFS, version 2, compat 1, [paxos, fsid, data_pool], outside [tid]);
