//! MOSDPGTemp: an OSD asks for other OSDs to serve placement groups for a while.

use std::collections::BTreeMap;

use types::{Epoch, OsdId, PgId};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDPGTemp.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdPgTemp {
    /// The common prefix; its version is the OSD's map.
    pub paxos: Paxos,
    /// The OSD's map.
    pub map_epoch: Epoch,
    /// Who is to serve; empty to end it.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Whether it is to be done although the set is the same as up.
    pub forced: bool,
}

payload!(OsdPgTemp = OSD_PG_TEMP, version 2, compat 1, [paxos, map_epoch, pg_temp, forced]);
