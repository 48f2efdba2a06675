//! pg
mod history;
mod info;
mod log;
mod log_entry;
mod past_intervals;
mod stat;
pub use history::PgHistory;
pub use info::{FastInfo, HitSetHistory, HitSetInfo, InfoAttr, PgInfo};
pub use log::{Found, LogLimits, PgLog};
pub use log_entry::{EntryKind, LogDup, LogEntry, RollbackRecord};
pub use past_intervals::{CompactIntervals, PastInterval, PastIntervals, PgShard};
pub use stat::{PgStat, PgState, ShardWire};
