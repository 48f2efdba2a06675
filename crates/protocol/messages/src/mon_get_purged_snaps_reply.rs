//! MMonGetPurgedSnapsReply: the snapshots that were purged.

use std::collections::BTreeMap;

use types::{Epoch, IntervalSet, PoolId};

use crate::codec::payload;
use crate::Paxos;

/// Ceph's MMonGetPurgedSnapsReply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonGetPurgedSnapsReply {
    /// The common prefix.
    pub paxos: Paxos,
    /// From this map on.
    pub start: Epoch,
    /// Up to this one, included; may be less than was asked for.
    pub last: Epoch,
    /// By map and pool.
    pub purged_snaps: BTreeMap<Epoch, BTreeMap<PoolId, IntervalSet>>,
}

payload!(MonGetPurgedSnapsReply = MON_GET_PURGED_SNAPS_REPLY, version 1, compat 1, [paxos, start, last, purged_snaps]);
