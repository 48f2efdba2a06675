//! A RADOS client's shell: gives the pure `objecter` its sockets and its clock.
//!
//! A [`Client`] belongs to one thread and blocks only in [`Client::turn`], which writes what was submitted, one write for
//! each socket, waits for sockets or for a time given to the nanosecond, and answers with what has happened. It has one
//! connection to each OSD that it needs and one to a monitor. Several threads use a `Client` each.
//!
//! Authentication is by cephx where the client has a key (`keyring`), else by method none. Frames are checksummed; a
//! cluster that takes only sealed ones (mode secure) is refused. It never interprets what an operation does, and caches no object.

mod client;
mod config;
mod error;
mod keyring;
mod link;
mod mon_host;

pub use client::{Client, ClientEvent};
pub use config::ClientConfig;
pub use error::ClientError;
pub use keyring::Credentials;
pub use mon_host::{find_conf, monitors_of_conf, parse_mon_host};
