//! MMonGetPurgedSnaps: an OSD asks which snapshots were purged while it was away.

use types::Epoch;

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MMonGetPurgedSnaps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonGetPurgedSnaps {
    /// The common prefix.
    pub paxos: Paxos,
    /// From this map on.
    pub start: Epoch,
    /// Up to this one, included.
    pub last: Epoch,
}

payload!(MonGetPurgedSnaps = MON_GET_PURGED_SNAPS, version 1, compat 1, [paxos, start, last]);
