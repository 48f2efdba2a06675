//! Commands: what clients ask in JSON and are answered in text or JSON.

pub mod args;
pub mod signature;
