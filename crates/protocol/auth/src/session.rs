//! What a daemon's services know of a session.

use std::fmt;

use types::{EntityAddrVec, EntityId, EntityName};

use crate::Caps;

/// A session's number within this process, never used twice. The upper 16 bits are the number of the core that has the
/// session's connection, so that a reply finds its way from any core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

impl SessionId {
    const CORE_SHIFT: u32 = 48;

    /// The session `number` of a core's.
    pub fn on_core(core: u16, number: u64) -> Self {
        debug_assert!(number >> Self::CORE_SHIFT == 0, "more sessions than there are numbers");
        Self(u64::from(core) << Self::CORE_SHIFT | number)
    }

    pub fn core(self) -> u16 {
        (self.0 >> Self::CORE_SHIFT) as u16
    }
}

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
