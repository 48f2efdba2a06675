//! MOSDPGReadyToMerge: an OSD says whether a placement group can be merged into another.

use types::{EVersion, Epoch, PgId};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDPGReadyToMerge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdPgReadyToMerge {
    /// The common prefix; its version is the OSD's map.
    pub paxos: Paxos,
    /// The placement group that goes away.
    pub pgid: PgId,
    pub source_version: EVersion,
    /// The version of the one that stays.
    pub target_version: EVersion,
    /// When it last went active.
    pub last_epoch_started: Epoch,
    /// When it was last clean.
    pub last_epoch_clean: Epoch,
    /// Whether it is ready.
    pub ready: bool,
}

payload!(OsdPgReadyToMerge = OSD_PG_READY_TO_MERGE, version 1, compat 1, [
    paxos, pgid, source_version, target_version, last_epoch_started, last_epoch_clean, ready,
]);
