//! Events and effects of an OSD.

use auth::{SessionId, SessionInfo};
use messages::Message;
use monclient::{MonClientEvent, MonClientIo};
use store::{Completion, Compression, ReadRequest, StoreShard, Token, Transaction, Tuning};
use types::{EntityAddr, EntityAddrVec, Errno, LogLevel, PoolId};

use crate::{CoreId, PartMessage};

/// What an OSD goes by that is neither its own nor the cluster's.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Surroundings {
    /// Seconds that local time is ahead of UTC now. It changes with daylight saving time.
    pub utc_offset: i32,
    /// The machine's load of the last minute, divided by its processors.
    pub load: f64,
}

/// Events.
#[derive(Debug)]
pub enum OsdEvent {
    /// The store is open: load it, find a monitor, boot.
    Start,
    /// A peer connected to one of the OSD's addresses and is authenticated.
    SessionOpened(SessionInfo),
    /// A session ended for good. (One that is only interrupted and resumed has not.)
    SessionClosed(SessionId),
    /// A message of a session.
    Message {
        session: SessionId,
        message: Message,
        /// Bytes of its segments, for the budget.
        bytes: u64,
    },
    /// Much of what was sent on a session waits for its peer to take it, or no longer does.
    SessionBehind { session: SessionId, is_behind: bool },
    /// An event of the connection to the monitor.
    Mon(MonClientEvent),
    /// The store of a shard completed a request.
    Store(StoreShard, Completion),
    /// A message of the OSD's parts on another core: see [`OsdEffect::ToCore`].
    FromCore(PartMessage),
    /// The driver of the OSD found a broken invariant at it: the OSD fails.
    Broken(String),
    /// Go on with the work that [`OsdEffect::Continue`] left.
    Continue,
    /// The session with the OSD at this public address ended before it opened, or takes nothing more now: what was sent
    /// on it by [`OsdEffect::SendPeer`] may be lost.
    PeerLost(EntityAddr),
    /// Answers [`OsdEffect::Rebind`]: the new cluster address.
    Rebound(EntityAddrVec),
    /// Time passed; due at [`crate::Osd::deadline`], harmless at any other time.
    Tick,
    /// A command of the admin socket, as JSON with its `prefix`; [`OsdEffect::AdminAnswer`] of this number answers it, now or
    /// later. Only where the control part is.
    AdminCommand { id: u64, command: Vec<u8> },
    /// What the process sees of the machine; given before [`OsdEvent::Start`], and again from time to time.
    Surroundings(Surroundings),
    /// Stop cleanly: tell the monitor, then [`OsdEffect::Stopped`].
    Shutdown,
}

/// Effects, in order.
#[derive(Debug)]
pub enum OsdEffect {
    /// Send a message on a session.
    Send { session: SessionId, message: Message },
    /// Send a message to the public address of another OSD, as a client of it, on a session that is made if need be. Its
    /// messages come by [`OsdEvent::Message`], its end by [`OsdEvent::SessionClosed`] or [`OsdEvent::PeerLost`].
    SendPeer { to: EntityAddrVec, message: Message },
    /// End the session of [`OsdEffect::SendPeer`].
    ClosePeer { to: EntityAddrVec },
    /// End a session.
    Close {
        session: SessionId,
        /// Why, for the log.
        reason: String,
    },
    /// Stop reading from a session's socket: the budget of messages or bytes is spent.
    Pause(SessionId),
    /// Read from it again.
    Resume(SessionId),
    /// Queue a transaction on a shard's store.
    Queue {
        shard: StoreShard,
        /// Comes back in the completion.
        token: Token,
        txn: Transaction,
    },
    /// Read from a shard's store.
    Read {
        shard: StoreShard,
        /// Comes back in the completion.
        token: Token,
        request: ReadRequest,
    },
    /// Acknowledge a refused transaction: everything built upon it is undone.
    Acknowledge { shard: StoreShard, token: Token },
    /// Bound the memory of a shard's store.
    StoreMemory { shard: StoreShard, bytes: u64 },
    /// Say how a shard's store compresses: see [`store::ObjectStore::set_compression`].
    StoreCompression { shard: StoreShard, pool: Option<PoolId>, how: Option<Compression> },
    /// Tune a shard's store: see [`store::ObjectStore::set_tuning`].
    StoreTuning { shard: StoreShard, tuning: Tuning },
    /// Hand a message to the OSD's parts on another core, as [`OsdEvent::FromCore`]. Messages from one core to another
    /// keep their order.
    ToCore { core: CoreId, message: PartMessage },
    /// There was more work than one event may be, of a map or of many PGs: hand in [`OsdEvent::Continue`] when other events have had their turn.
    Continue,
    /// For the connection to the monitor.
    Mon(MonClientIo),
    /// A line for the log.
    Log(LogLevel, String),
    /// Give the OSD another cluster address, port and nonce, then [`OsdEvent::Rebound`]; end all sessions at the old one and
    /// at the heartbeat addresses. The map showed the OSD down: no earlier message may reach it, and none of its earlier messages a
    /// peer.
    Rebind,
    /// The highest log level among the OSD's options has changed; `None`: none is set.
    LogLevel(Option<u8>),
    /// Answers [`OsdEvent::AdminCommand`].
    AdminAnswer { id: u64, answer: Result<Vec<u8>, (Errno, String)> },
    /// The OSD takes part from here on: a map shows it up at its addresses.
    Active,
    /// It stopped, as asked.
    Stopped,
    /// It cannot go on: the store failed or belongs to another OSD, or the map says that it does not exist. Nothing
    /// more comes from it.
    Failed(String),
}
