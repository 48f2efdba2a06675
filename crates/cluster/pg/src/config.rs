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
    pub scrub: ScrubConfig,
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
            scrub: ScrubConfig::default(),
            planted: Planted::default(),
        }
    }
}

/// How a PG is scrubbed, by the names of Ceph's options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubConfig {
    /// osd_scrub_chunk_min and _max: objects of a chunk of a deep scrub.
    pub chunk_min: usize,
    pub chunk_max: usize,
    /// osd_shallow_scrub_chunk_min and _max.
    pub shallow_chunk_min: usize,
    pub shallow_chunk_max: usize,
    /// osd_scrub_max_preemptions: how often a write may end a chunk.
    pub preemptions_max: u32,
    /// osd_scrub_sleep: between chunks.
    pub sleep: Duration,
    /// osd_deep_scrub_stride: bytes of an object that are read at once.
    pub stride_bytes: u64,
    /// osd_deep_scrub_keys: keys of an omap that are read at once.
    pub omap_keys_at_once: usize,
    /// osd_deep_scrub_large_omap_object_key_threshold.
    pub large_omap_keys: u64,
    /// osd_deep_scrub_large_omap_object_value_sum_threshold, bytes.
    pub large_omap_bytes: u64,
}

impl Default for ScrubConfig {
    fn default() -> Self {
        Self {
            chunk_min: 5,
            chunk_max: 15,
            shallow_chunk_min: 50,
            shallow_chunk_max: 100,
            preemptions_max: 5,
            sleep: Duration::ZERO,
            stride_bytes: 512 << 10,
            omap_keys_at_once: 1024,
            large_omap_keys: 200_000,
            large_omap_bytes: 1 << 30,
        }
    }
}

impl Pg {
    /// Puts other settings in force, for what the PG does from then on.
    pub fn configure(&mut self, config: Arc<PgConfig>) {
        self.config = config;
    }
}
