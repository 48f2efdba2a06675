//! The monitor: the cluster's maps and configuration, its commands, and the manager's part that clients need, for a
//! cluster with one monitor.
//!
//! A pure state machine ([`Mon::handle`]): events in, effects out. State is (service, key) → value; every change is a
//! [`state::Batch`] that the shell makes durable before anything of it is shown or answered. This crate never does
//! I/O, keeps no clock and forms no quorum: clusters of several monitors use Ceph's own.

pub mod command;
pub mod fmt;
pub mod health;
pub mod options;
pub mod service;
pub mod state;
pub mod stats;
