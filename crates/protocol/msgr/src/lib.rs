//! Ceph's messenger 2.1 without sockets: frames, the handshake of both roles, lossy and lossless sessions.
//!
//! [`Connection`] takes a peer's bytes and yields effects (bytes to write, messages, the end with its reason). The
//! shell owns the socket, reads into what the connection offers and performs the effects. This crate never does I/O, reads no clock and
//! never interprets a message's body.

mod banner;
mod connection;
mod control;
mod frame;
mod handshake;
mod limits;
mod reader;
mod reason;
mod receive;
mod segment;
mod session;
mod tag;

pub use connection::{Accept, Connect, Connection, Effect, Local, PeerInfo};
pub use control::{ClientIdent, Control, Reconnect, ServerIdent};
pub use frame::{Frame, FrameBody, MessageTooLong, Preamble, encode_control, encode_message};
pub use limits::Limits;
pub use messages::{MessageHeader, RawMessage};
pub use reader::{FrameReader, NeededBytes};
pub use reason::{CloseReason, Fault, FrameError};
pub use receive::{ReadSlices, ReceiveBuffer};
pub use session::{AcceptDecision, LinkState, Session, SessionRequest};
pub use tag::{Phase, Tag};
