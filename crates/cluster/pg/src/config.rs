//! What of the configuration a PG heeds.

use core::time::Duration;
use std::sync::Arc;

use ops::{ClassTable, OpLimits};

use crate::{LogLimits, Pg, Planted};

/// A PG's settings, by the names of Ceph's options. Shared by all PGs of an OSD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgConfig {
    /// What the interpreter heeds.
    pub ops: OpLimits,
    /// Object classes that clients may call.
    pub classes: ClassTable,
    /// How much log is kept.
    pub log: LogLimits,
    /// osd_max_object_name_len, bytes (of locator keys too).
    pub object_name_len_max: usize,
    /// osd_max_object_namespace_len, bytes.
    pub namespace_len_max: usize,
    /// osd_max_write_size, bytes: a request with more data gets EMSGSIZE.
    pub write_bytes_max: usize,
    /// osd_max_pgls: objects a listing returns at once.
    pub list_entries_max: usize,
    /// Our own: object contexts kept when nothing uses them.
    pub object_contexts_idle_max: usize,
    /// Our own: requests held while the PG is not active; more are dropped (clients' sessions bound them earlier).
    pub waiting_requests_max: usize,
    /// osd_snap_trim_sleep: between batches of objects.
    pub trim_sleep: Duration,
    /// osd_pg_max_concurrent_snap_trims: objects of a batch.
    pub concurrent_trims_max: usize,
    pub planted: Planted,
}

impl Default for PgConfig {
    fn default() -> Self {
        Self {
            ops: OpLimits::default(),
            classes: ClassTable::default(),
            log: LogLimits::default(),
            object_name_len_max: 2048,
            namespace_len_max: 256,
            write_bytes_max: 90 << 20,
            list_entries_max: 1024,
            object_contexts_idle_max: 1024,
            waiting_requests_max: 65_536,
            trim_sleep: Duration::ZERO,
            concurrent_trims_max: 2,
            planted: Planted::default(),
        }
    }
}

impl Pg {
    /// Puts other settings in force, for what the PG does from then on.
    pub fn configure(&mut self, config: Arc<PgConfig>) {
        self.config = config;
    }
}
