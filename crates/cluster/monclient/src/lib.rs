//! A session to any one of a cluster's monitors: which one to try, when to try the next, and the subscriptions.
//!
//! A pure state machine: [`MonClient::handle`] takes an event with the time and appends effects. The shell opens the
//! connections, authenticates on them and carries messages. It never opens a socket, reads a clock, or decides what a
//! map means: maps are handed on as they come.

mod client;
mod hunt;
mod subscriptions;

pub use client::{
    Attempt, MonClient, MonClientConfig, MonClientEffect, MonClientEvent, MonClientIo, VersionRange,
};
pub use hunt::HuntConfig;
pub use subscriptions::{ONETIME, Subscriptions};
