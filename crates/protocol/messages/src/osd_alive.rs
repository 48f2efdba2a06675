//! MOSDAlive: an OSD asks for its up_thru to be raised, so that a placement group may go active.

use types::Epoch;

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MOSDAlive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdAlive {
    /// The common prefix; its version is the OSD's map.
    pub paxos: Paxos,
    /// The up_thru wanted.
    pub want: Epoch,
}

payload!(OsdAlive = OSD_ALIVE, version 1, compat 1, [paxos, want]);
