//! The services: each holds its committed state and adds its changes to a batch.

pub mod auth_store;
pub mod config_history;
pub mod config_store;
pub mod global_ids;
pub mod kept_maps;
pub mod log;
pub mod osdmap;
pub mod pg_homes;
pub mod purged_snaps;
mod reserved;
pub(crate) mod services;
