//! The services: each holds what was committed of it and adds its changes to a batch.

pub mod config_store;
pub mod global_ids;
pub mod kept_maps;
pub mod log;
pub mod osdmap;
pub mod purged_snaps;
