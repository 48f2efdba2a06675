//! The host: one process that gives the monitor and the OSDs their threads, sockets, clock and disks.
//!
//! Decides nothing that a client could see: what daemons do stands in `mon`, `osd` and `pg`, and this crate only
//! performs their effects.

mod clock;
mod cluster;
mod core;
mod core_main;
mod delay;
mod dir;
mod error;
mod link;
mod log;
mod monstore;
mod open;
mod plan;
mod status;

pub(crate) use cluster::Word;
pub use cluster::{Cluster, Facts, UpRequest};
pub use dir::{ClusterDir, Description, Found, StoreKind, disk_space, holder, look};
pub use error::HostError;
pub use log::log_writer;
