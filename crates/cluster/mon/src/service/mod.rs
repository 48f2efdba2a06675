//! The services: each holds what was committed of it and adds its changes to a batch.

pub mod auth;
pub mod config;
pub mod log;
pub mod osdmap;
