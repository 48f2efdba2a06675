//! What OSDs report of themselves and their PGs: kept in memory only, summed up for commands and health.

pub(crate) mod homes;
pub mod json;
pub mod pgmap;

pub use pgmap::{PgMap, PoolTotals};
