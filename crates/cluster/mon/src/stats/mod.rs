//! What OSDs report of themselves and their PGs: kept in memory only, summed up for commands and health.

pub mod pg_state;
pub mod pgmap;
pub mod sums;
mod wire;

pub use pgmap::{OsdStats, PgMap, PgStats};
pub use sums::Sums;
