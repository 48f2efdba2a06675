//! MMonGetOSDMap: asks for old OSD maps.

use types::Epoch;

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MMonGetOSDMap. Ranges include their ends; 0 and 0 ask for none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonGetOsdMap {
    /// The common prefix.
    pub paxos: Paxos,
    /// Full maps from here.
    pub full_first: Epoch,
    /// Full maps up to here.
    pub full_last: Epoch,
    /// Increments from here.
    pub inc_first: Epoch,
    /// Increments up to here.
    pub inc_last: Epoch,
}

payload!(MonGetOsdMap = MON_GET_OSD_MAP, version 1, compat 1, [paxos, full_first, full_last, inc_first, inc_last]);
