//! An OSD: its maps, its placement groups, its clients' sessions, its reports to the monitor.
//!
//! A pure state machine: [`Osd::handle`] takes an event with the time and appends effects. One OSD is one shard: it
//! belongs to one core, and nothing in it waits. It boots and learns by messages only, so that any monitor that speaks
//! Ceph's protocol will do. It never opens a socket or a file, reads a clock, or executes an operation: that is `pg`'s
//! and `ops`'.

mod boot;
mod cluster_log;
mod command;
mod config;
mod dispatch;
mod event;
mod load;
mod map_history;
mod maps_in;
mod osd;
mod pg_create;
mod pg_events;
mod pg_stats;
mod pg_view;
mod pgs;
mod report;
mod session;
mod space;
mod superblock;
mod throttle;

pub use config::{OsdAddrs, OsdConfig};
pub use event::{LogLevel, OsdEffect, OsdEvent};
pub use monclient::{Attempt, HuntConfig, MonClientConfig, MonClientEvent, MonClientIo};
pub use osd::{Osd, OsdPhase};
