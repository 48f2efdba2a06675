//! A placement group's core: orders clients' requests, runs them, logs and commits their changes, answers resends.
//!
//! [`Pg::handle`] takes a [`PgEvent`] and appends [`PgEffect`]s, in order; nothing else happens. A request waits in its
//! object's queue, is executed by `ops`, parked while the store reads for it, and executed again; a write becomes one
//! transaction (data, metadata, log entry, info), and is answered when that is durable. This crate never does I/O,
//! reads a clock or knows connections; how many copies there are is its backend's business alone.

mod attrs;
mod backend;
mod backoff;
mod cache;
mod change;
mod check;
mod client;
mod config;
mod copy;
mod count;
mod event;
mod finish;
mod hash_range;
mod info;
mod interval;
mod list;
mod load;
mod log;
mod log_entry;
mod objects;
mod others;
mod out;
mod peering;
mod pg;
mod phase;
mod planted;
mod records;
mod refused;
mod remove;
mod request;
mod run;
mod scrub;
mod set_aside;
mod snap_index;
mod snaps;
mod split;
mod trim;
mod watch;
mod watches;

pub use backend::{BACKEND_TOKEN_BIT, Backend, Context, LocalBackend, Progress, ReadResult, TOKEN_BITS};
pub use backoff::BackoffRange;
pub use change::{Change, ObjectSteps};
pub use client::may_read_replica;
pub use config::{PgConfig, ScrubConfig};
pub use copy::CopyResult;
pub use count::newest_snap;
pub use event::{ClientOp, ClusterLogLevel, MapView, Notice, PgEffect, PgEvent, PgFailure, PoolView};
pub use info::{FastInfo, HitSetHistory, HitSetInfo, InfoAttr, PgInfo};
pub use load::Origin;
pub use log::{LogLimits, LoggedRequest, PgLog};
pub use log_entry::{EntryExtras, EntryKind, Extras, LogDup, LogEntry, RollbackRecord};
pub use pg::Pg;
pub use phase::{Active, Peering, Phase};
pub use planted::{Bug, Planted};
pub use records::{Before, Records};
pub use scrub::{Inconsistent, ScrubOrder, ScrubState, ScrubWork, is_scrub_forbidden};
pub use set_aside::{SetAside, SpaceTally};
pub use watches::WatchView;
