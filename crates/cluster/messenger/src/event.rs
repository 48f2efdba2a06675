//! What happens to a messenger, and what it wants done.

use std::fmt;
use std::net::SocketAddr;

use auth::{SessionId, SessionInfo};
use messages::Message;
use monclient::MonClientEvent;
use types::{EntityAddr, EntityType, LogLevel, OsdId};

use crate::{CoreMessage, EndpointNews, OutQueue, SocketId};

/// A daemon of the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Daemon {
    Mon,
    /// The manager that the monitor is for its clients, at an address of its own.
    Mgr,
    Osd(OsdId),
}

impl Daemon {
    /// As what it introduces itself.
    pub(crate) fn kind(self) -> EntityType {
        match self {
            Self::Mon => EntityType::Mon,
            Self::Mgr => EntityType::Mgr,
            Self::Osd(_) => EntityType::Osd,
        }
    }
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mon => f.write_str("mon"),
            Self::Mgr => f.write_str("mgr"),
            Self::Osd(id) => write!(f, "osd.{id}"),
        }
    }
}

/// What an address of a daemon is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Clients connect here, and a daemon dials monitors from here. Sessions end with their connection.
    Public,
    /// OSDs exchange what changes objects here. Sessions with other OSDs outlive their connections.
    Cluster,
    /// Heartbeats on the network of the cluster addresses. Sessions end with their connection.
    HeartbeatBack,
    /// Heartbeats on the network of the public addresses, likewise.
    HeartbeatFront,
}

impl Role {
    /// The kinds of peers whose sessions outlive their connections (for [`msgr::Local::lossless_peers`]).
    pub fn lossless_peers(self) -> Vec<EntityType> {
        match self {
            Self::Cluster => vec![EntityType::Osd],
            Self::Public | Self::HeartbeatBack | Self::HeartbeatFront => Vec::new(),
        }
    }

    /// Whether other OSDs connect here.
    pub(crate) fn is_for_peers(self) -> bool {
        match self {
            Self::Public => false,
            Self::Cluster | Self::HeartbeatBack | Self::HeartbeatFront => true,
        }
    }
}

/// One address of a daemon: a listener, and the source of what is dialled from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Endpoint {
    pub daemon: Daemon,
    pub role: Role,
}

impl Endpoint {
    pub fn new(daemon: Daemon, role: Role) -> Self {
        Self { daemon, role }
    }

    pub fn public(daemon: Daemon) -> Self {
        Self { daemon, role: Role::Public }
    }
}

/// An event of a socket, or the passing of time. Events of a socket that the messenger has closed are ignored.
#[derive(Debug)]
pub enum Event<'a> {
    /// A dialled socket is connected.
    Connected(SocketId),
    /// A socket could not be connected, read or written, with the system's reason.
    Failed(SocketId, String),
    /// This many bytes were read into [`crate::Messenger::read_slices`], which must have been asked for last.
    Read(SocketId, usize),
    /// These bytes were read. Their payload is copied. The socket must be connected.
    Bytes(SocketId, &'a [u8]),
    /// The peer closed its side.
    EndOfStream(SocketId),
    /// Time passed; due at [`crate::Messenger::deadline`], harmless at any other time.
    Tick,
}

/// What the host waits for at a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

/// An effect that the host performs on a socket.
#[derive(Debug)]
pub enum SocketEffect {
    /// Connect, then [`Event::Connected`] or [`Event::Failed`].
    Dial(SocketId, SocketAddr),
    /// Write what [`crate::Messenger::out_queue`] holds, as much as the socket takes.
    Flush(SocketId),
    /// [`crate::Messenger::interest`] has changed for a reason that the socket does not show.
    Interest(SocketId),
    /// Close the socket (or stop connecting it) once these bytes are written, or after a moment without progress.
    Close(SocketId, OutQueue),
}

/// An event of a daemon's sessions.
#[derive(Debug)]
pub enum SessionEvent {
    /// A connection that authenticates to a monitor wants a global id, by [`crate::Messenger::global_id`].
    GlobalIdWanted {
        session: SessionId,
        /// The id that the peer had before; 0 for none.
        asked: u64,
    },
    /// A peer is authenticated, and its session is open.
    Opened(SessionInfo),
    /// An opened session has ended; what a peer had not acknowledged may be lost.
    Closed(SessionId),
    /// The peer of a lossless session has forgotten it: what it had not acknowledged may be lost. The session goes on.
    Reset(SessionId),
    /// The session with the peer at this address was forgotten before it opened: the messages that it had are lost. The
    /// next message opens another session.
    PeerLost(EntityAddr),
    /// After [`crate::PeerFull`]: half of the window of the peer at this address is free, or its session has ended.
    PeerRoom(EntityAddr),
    /// Much of what an OSD sent on a session that its peer dialled waits for the peer to take it, or no longer does.
    Behind { session: SessionId, is_behind: bool },
    Message {
        session: SessionId,
        message: Message,
        /// Bytes of its segments; 0 when it came from an OSD of this process, in memory.
        bytes: u64,
    },
    /// An event of the daemon's own session to a monitor.
    Monitor(MonClientEvent),
}

/// Effects, in order.
#[derive(Debug)]
pub enum Effect {
    /// For the host.
    Socket(SocketEffect),
    /// For a daemon.
    Daemon(Daemon, SessionEvent),
    /// For the messenger of another core, by [`crate::Messenger::from_core`]. Those from one core to another keep their
    /// order.
    ToCore(CoreMessage),
    /// For the messengers of all other cores, by [`crate::Messenger::endpoint_news`], before any [`Effect::ToCore`] that
    /// follows it.
    ToAllCores(EndpointNews),
    /// A line for the log.
    Log(Daemon, LogLevel, String),
}
