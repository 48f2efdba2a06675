//! The host: one process that gives the monitor and the OSDs their threads, sockets, clock and disks.
//!
//! Decides nothing that a client could see: daemons' behaviour is in `mon`, `osd` and `pg`, and this crate only
//! performs their effects.

mod admin_socket;
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
mod rebind;
mod status;

pub(crate) use cluster::CoreReport;
pub use cluster::{Cluster, ClusterInfo, UpRequest};
pub use dir::{ClusterDir, Description, DirState, StoreKind, disk_space, holder, inspect};
pub use error::HostError;
pub use log::{log_writer, reopen_log};
