//! The host: one process that gives the monitor and the OSDs their threads, sockets, clock and disks.
//!
//! Decides nothing that a client could see: daemons' behaviour is in `mon`, `osd` and `pg`, and this crate only
//! performs their effects.

mod admin_socket;
mod aside;
mod client_files;
mod cluster;
mod control;
mod core;
mod core_main;
mod delay;
mod dir;
mod ending;
mod error;
mod last_words;
mod link;
mod log;
mod machine;
mod memory;
mod metrics;
mod mon_command;
mod monstore;
mod open;
mod open_files;
mod osd_control;
mod osds;
mod places;
mod plan;
mod progress;
mod rebind;
mod rebuild;
mod replace;
mod spare;
mod store_events;

pub use client_files::{pointing_command, shell_word};
pub(crate) use cluster::CoreReport;
pub use cluster::{Cluster, ClusterInfo, UpRequest};
pub use control::CONTROL_VERSION;
pub use dir::{
    ClusterDir, Description, DirState, StoreKind, UNFINISHED_CONVERSION, disk_space, holder, inspect,
};
pub use error::HostError;
pub use last_words::{last_failure, say_last};
pub use log::{log_writer, on_log_level, reopen_log};
pub use memory::on_memory_bound;
pub use open_files::OpenFiles;
pub use osds::OsdState;
pub use places::check_places;
pub use plan::{OSD_SIZE_MIN, default};
pub use progress::StartProgress;
pub use rebuild::{Rebuilt, rebuild_monitor};
