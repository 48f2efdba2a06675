//! MGetPoolStatsReply: pools' statistics.

use std::collections::BTreeMap;

use types::{Fsid, Name};

use crate::codec::payload;
use crate::{Paxos, PoolStat};

/// Ceph's MGetPoolStatsReply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GetPoolStatsReply {
    /// The request's transaction id.
    pub tid: u64,
    /// The common prefix.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    /// By pool name; pools that don't exist are missing.
    pub pool_stats: BTreeMap<Name, PoolStat>,
    /// Whether every OSD reports use by pool.
    pub per_pool: bool,
}

payload!(
    GetPoolStatsReply = GET_POOL_STATS_REPLY, version 2, compat 1, [paxos, fsid, pool_stats, per_pool],
    outside [tid]
);
