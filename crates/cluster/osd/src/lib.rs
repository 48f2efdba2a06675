//! An OSD: its maps, its placement groups, its clients' sessions, its reports to the monitor.
//!
//! An OSD has three kinds of parts, each a pure state machine: one **control** part (maps, boot, orders to make and
//! remove PGs, reports, commands), a **gate** on each core that has connections of it (sessions, budgets, requests that
//! wait for a map or a PG), and a **shard** for each store shard (PGs, the operation queue, space). They exchange
//! [`PartMessage`]s and read nothing of each other. [`Osd`] is the parts of one OSD that are on one core:
//! [`Osd::handle`] takes an event with the time and appends effects; a message for a part on another core is an effect.
//!
//! Nothing in it waits. It boots and learns by messages only, so that any monitor that speaks Ceph's protocol will do.
//! It never opens a socket or a file, reads a clock, or executes an operation: that is `pg`'s and `ops`'.

mod config;
mod control;
mod event;
mod gate;
mod memory;
mod osd;
mod parts;
mod perf;
mod report;
mod salvage;
mod shard;

pub use config::{OsdAddrs, OsdConfig, store_tuning};
pub use control::OsdPhase;
pub use event::{OsdEffect, OsdEvent, Surroundings};
pub use memory::MemoryShares;
pub use monclient::{Attempt, HuntConfig, MonClientConfig, MonClientEvent, MonClientIo};
pub use osd::Osd;
pub use parts::{CoreId, PartMessage, Placement, Stores, Touched};
pub use pg::newest_snap;
pub use salvage::{Salvaged, salvage};
pub use shard::compression_of_pool;
pub use types::LogLevel;
