//! MRemoveSnaps: a metadata server gives snapshots' ids back; the monitor answers with the same message.

use std::collections::BTreeMap;

use types::SnapId;

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MRemoveSnaps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoveSnaps {
    /// The common prefix.
    pub paxos: Paxos,
    /// By pool.
    pub snaps: BTreeMap<i32, Vec<SnapId>>,
}

payload!(RemoveSnaps = REMOVE_SNAPS, version 1, compat 1, [paxos, snaps]);
