//! ops
mod clean_regions;
mod interval_set;
mod object_info;
mod snapset;

pub use clean_regions::CleanRegions;
pub use interval_set::IntervalSet;
pub use object_info::{ObjectFlags, ObjectInfo, RawManifest, WatchInfo, Watchers};
pub use snapset::SnapSet;
