//! The life of all connections of a core's daemons: accepting, dialling, sessions, limits, timeouts. Pure.
//!
//! A socket is a number here. The host opens, reads, writes and closes sockets; it reports what happens to them by
//! [`Messenger::accept`] and [`Messenger::handle`] and performs what [`Messenger::poll`] yields. Bytes are read through
//! [`Messenger::read_slices`], payload straight into its place, and written from
//! [`Messenger::out_queue`]. Daemons send and end sessions by [`Messenger::send`], [`Messenger::close`] and the like, and
//! learn of sessions and messages by [`Effect::Daemon`]. OSDs reach each other by address, with [`Messenger::send_peer`].
//!
//! This crate never does I/O, reads no clock, and never decides what a message means.

mod config;
mod dial;
mod event;
mod in_memory;
mod limits;
mod messenger;
mod out_queue;
mod peers;
mod receive;
mod room;
mod slots;
mod socket;

pub use config::{MessengerConfig, ProcessUsage};
pub use event::{Daemon, Effect, Endpoint, Event, Interest, Role, SessionEvent, SocketEffect};
pub use in_memory::{CoreAddr, CoreContent, CoreMessage, EndpointNews};
pub use messenger::Messenger;
pub use out_queue::OutQueue;
pub use peers::PeerFull;
pub use slots::SocketId;
