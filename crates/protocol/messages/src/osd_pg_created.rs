//! MOSDPGCreated: an OSD has made a placement group.

use types::PgId;

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDPGCreated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdPgCreated {
    /// The common prefix.
    pub paxos: Paxos,
    pub pgid: PgId,
}

payload!(OsdPgCreated = OSD_PG_CREATED, version 1, compat 1, [paxos, pgid]);
