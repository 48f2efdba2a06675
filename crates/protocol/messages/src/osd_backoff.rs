//! MOSDBackoff: an OSD asks a client to hold operations back.

use types::{Epoch, HObject, SpgId};

use crate::codec::payload;

/// Ceph's MOSDBackoff.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdBackoff {
    /// The placement group.
    pub pgid: SpgId,
    /// The sender's map.
    pub map_epoch: Epoch,
    /// [`OsdBackoff::BLOCK`] and its like.
    pub op: u8,
    /// The backoff's number within the session.
    pub id: u64,
    /// The first object held back.
    pub begin: HObject,
    /// The end of the range (exclusive); equal to `begin` for that one object.
    pub end: HObject,
}

impl OsdBackoff {
    /// CEPH_OSD_BACKOFF_OP_BLOCK: hold back.
    pub const BLOCK: u8 = 1;
    /// CEPH_OSD_BACKOFF_OP_ACK_BLOCK: the client has taken note.
    pub const ACK_BLOCK: u8 = 2;
    /// CEPH_OSD_BACKOFF_OP_UNBLOCK: send again.
    pub const UNBLOCK: u8 = 3;
}

payload!(OsdBackoff = OSD_BACKOFF, version 1, compat 1, [pgid, map_epoch, op, id, begin, end]);
