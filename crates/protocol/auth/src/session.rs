//! What a daemon's services know of a session.

use std::fmt;

use types::{EntityAddrVec, EntityId, EntityName};

use crate::Caps;

/// A session's number within this process, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}", self.0)
    }
}

/// An established session: who is there, and what it may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionInfo {
    pub id: SessionId,
    /// The authentication name, `client.admin`.
    pub entity: EntityId,
    /// The instance, `client.4123`.
    pub name: EntityName,
    /// The id that authentication agreed on.
    pub global_id: u64,
    /// What it may do here.
    pub caps: Caps,
    /// Features of both sides.
    pub features: u64,
    /// The addresses that the peer says it has.
    pub peer_addrs: EntityAddrVec,
    /// The nonce of our address that the peer dialled (or dialled from).
    pub local_nonce: u32,
}
