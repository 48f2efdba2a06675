//! MPGStats: an OSD's report about itself and the placement groups that it leads.

use std::collections::BTreeMap;

use types::{Epoch, Fsid, PgId, PoolId, UTime};

use crate::codec::payload;
use crate::{OsdStat, Paxos, PgStat, StoreStatfs};

/// Ceph's MPGStats. To the manager; to the monitor where that has the manager's part.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PgStats {
    /// Transaction id; the acknowledgement repeats it.
    pub tid: u64,
    /// The common prefix.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    /// About the OSD.
    pub osd_stat: OsdStat,
    /// About the placement groups whose primary it is.
    pub pg_stat: BTreeMap<PgId, PgStat>,
    /// Its map.
    pub epoch: Epoch,
    /// No longer used.
    pub had_map_for: UTime,
    /// Use of its store, by pool.
    pub pool_stat: BTreeMap<PoolId, StoreStatfs>,
}

payload!(
    PgStats = PG_STATS, version 2, compat 1,
    [paxos, fsid, osd_stat, pg_stat, epoch, had_map_for, pool_stat], outside [tid]
);
