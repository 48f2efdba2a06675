//! The state of one socket.

use std::net::SocketAddr;

use auth::SessionId;
use messages::{Message, kind};
use monclient::Attempt;
use msgr::Connection;
use types::{OsdId, UTime};

use crate::{Daemon, Endpoint, OutQueue};

/// Bytes that may wait for a peer before its requests are no longer read.
pub(crate) const OUT_BYTES_MAX: usize = 64 << 20;

/// Bytes that wait for a peer which is behind.
pub(crate) const OUT_BYTES_BEHIND: usize = 1 << 20;

/// What a socket serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A peer dialled this endpoint.
    Accepted(Endpoint),
    /// An OSD's own session to a monitor.
    Monitor(OsdId, Attempt),
    /// A session with a peer, dialled by either side.
    Peer { endpoint: Endpoint, session: SessionId },
}

impl Owner {
    pub(crate) fn daemon(self) -> Daemon {
        match self {
            Self::Accepted(endpoint) | Self::Peer { endpoint, .. } => endpoint.daemon,
            Self::Monitor(osd, _) => Daemon::Osd(osd),
        }
    }
}

pub(crate) struct Socket {
    /// The socket's number in the order of creation on this core.
    pub(crate) ordinal: u64,
    pub(crate) session: SessionId,
    pub(crate) owner: Owner,
    pub(crate) peer: SocketAddr,
    pub(crate) connection: Connection,
    pub(crate) out: OutQueue,
    /// Whether the host has connected it.
    pub(crate) connected: bool,
    /// Until when the session must be open; `None` once it is.
    pub(crate) ready_by: Option<UTime>,
    /// Features of the open session.
    pub(crate) features: u64,
    /// Whether the open session is one that a client dialled.
    pub(crate) is_client: bool,
    /// Whether the daemon asked not to read.
    pub(crate) paused: bool,
    /// Bytes held of an unfinished message, as last counted.
    pub(crate) held: usize,
    /// Whether the socket is not read for lack of memory: then silence does not mean that the peer has stalled.
    pub(crate) waiting: bool,
    /// Until when it is not read, for lack of memory.
    pub(crate) wait_until: Option<UTime>,
    /// When a peer's connection is checked next.
    pub(crate) check_at: Option<UTime>,
    /// When bytes came last.
    pub(crate) progress: UTime,
    /// What [`crate::SessionEvent::Behind`] said last.
    pub(crate) is_behind: bool,
    /// Whether `Messenger::to_flush` has it.
    pub(crate) to_flush: bool,
}

impl Socket {
    pub(crate) fn is_open(&self) -> bool {
        self.ready_by.is_none()
    }

    /// Whether the peer of an open session reads a message: one of Loligo's own only an OSD that says so.
    pub(crate) fn takes(&self, message: &Message) -> bool {
        !kind::is_ours(message.kind()) || self.is_open() && self.connection.takes_peer_messages()
    }
}
