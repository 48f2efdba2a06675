//! Events and effects.

use messages::{Message, MonCommandAck, PoolOpReply};
use monclient::{MonClientEvent, MonClientIo};
use types::{EntityAddrVec, OsdId};

use crate::commands::CommandId;
use crate::linger::{NotifyId, NotifyOutcome, WatchEvent, WatchId};
use crate::maps_in::MapWaitId;
use crate::request::{Outcome, RequestId};
use crate::session::OsdSession;

/// What happens to a client.
#[derive(Debug)]
pub enum ObjecterEvent {
    /// Of the session to the monitor.
    Mon(MonClientEvent),
    /// The connection that was asked for is authenticated.
    Connected(OsdSession),
    /// The connection could not be made, or ended, with everything sent on it that was not answered.
    Reset(OsdSession, String),
    /// An OSD sent a message.
    Message(OsdSession, Message),
    /// Time passed; due at [`Objecter::deadline`](crate::Objecter::deadline), harmless at any other time.
    Tick,
}

/// What the shell has to do, and what the client's user learns.
#[derive(Debug)]
pub enum ObjecterEffect {
    /// For the session to the monitor.
    Mon(MonClientIo),
    /// Connect to an OSD and authenticate; then [`ObjecterEvent::Connected`], or [`ObjecterEvent::Reset`].
    Connect(OsdSession, OsdId, EntityAddrVec),
    /// Send a message on a session that is connected.
    Send(OsdSession, Message),
    /// Close the connection, or stop making it. Events of it that come later are ignored.
    Disconnect(OsdSession),
    /// A request has ended, each exactly once.
    Done(RequestId, Outcome),
    Watch(WatchId, WatchEvent),
    /// A notify has ended, each exactly once.
    NotifyDone(NotifyId, NotifyOutcome),
    /// A command was answered, or given up: then the result is ETIMEDOUT.
    CommandDone(CommandId, MonCommandAck),
    /// A pool operation was answered, or given up: then the result is ETIMEDOUT. Its change is in the map of `epoch`.
    PoolOpDone(CommandId, PoolOpReply),
    /// The map is as new as the newest that the monitor had when [`Objecter::wait_for_latest_map`] was called.
    ///
    /// [`Objecter::wait_for_latest_map`]: crate::Objecter::wait_for_latest_map
    MapReached(MapWaitId),
    /// Something that an operator should know.
    Warning(String),
}
