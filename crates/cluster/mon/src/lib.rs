//! The monitor: the cluster's maps and configuration, its commands, and the manager's part that clients need, for a
//! cluster with one monitor.
//!
//! A pure state machine ([`Mon::handle`]): events in, effects out. State is (service, key) → value; every change is a
//! [`state::Batch`] that the shell makes durable before anything of it is shown or answered. This crate never does
//! I/O, keeps no clock and forms no quorum: clusters of several monitors use Ceph's own.

mod audit;
mod checks;
pub mod command;
mod create;
mod crush_view;
mod dispatch;
mod elsewhere;
mod event;
pub mod fmt;
mod forced_pgs;
pub mod health;
mod health_log;
mod homes;
mod invariants;
mod manager;
pub mod metrics;
mod mon;
mod mutes;
mod option_facts;
mod osd_failures;
mod osd_messages;
mod pg_num;
mod scrub_checks;
mod service;
mod session;
mod slow_ops;
mod snaps;
pub mod state;
pub mod stats;
mod subscriptions;
mod tick;
mod usage;

pub use checks::STORE_BYTES;
pub use create::MANAGER_GID;
pub use event::{InitialOsd, ManagerConfig, MonConfig, MonEffect, MonEvent, MonOpenError};
pub use mon::Mon;
pub use state::{Batch, Key, State, StateKey};
