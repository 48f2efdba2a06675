//! What a daemon measures of itself: the stages of its operations, the slowest operations, and counters. Pure: every time
//! comes with the event that is measured.

mod average;
mod grid;
mod histogram;
mod history;
mod stages;

pub use average::Average;
pub use grid::{GRID_BUCKETS, GridAxis, LATENCY_AXIS, LatencySizeGrid, SIZE_AXIS};
pub use histogram::Histogram;
pub use history::{Finished, History, HistoryConfig};
pub use stages::{OpTimes, Stage};
