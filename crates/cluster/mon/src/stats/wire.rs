//! Reports as messages carry them, turned into what is kept.

use super::pgmap::{OsdStats, PgStats, PoolStats, Space};
use super::sums::Sums;

impl From<&messages::StoreStatfs> for Space {
    fn from(s: &messages::StoreStatfs) -> Self {
        Self {
            total: s.total,
            available: s.available,
            internally_reserved: s.internally_reserved,
            allocated: s.allocated,
            data_stored: s.data_stored,
            data_compressed: s.data_compressed,
            data_compressed_allocated: s.data_compressed_allocated,
            data_compressed_original: s.data_compressed_original,
            omap_allocated: s.omap_allocated,
            internal_metadata: s.internal_metadata,
        }
    }
}

impl From<&Space> for messages::StoreStatfs {
    fn from(s: &Space) -> Self {
        Self {
            total: s.total,
            available: s.available,
            internally_reserved: s.internally_reserved,
            allocated: s.allocated,
            data_stored: s.data_stored,
            data_compressed: s.data_compressed,
            data_compressed_allocated: s.data_compressed_allocated,
            data_compressed_original: s.data_compressed_original,
            omap_allocated: s.omap_allocated,
            internal_metadata: s.internal_metadata,
        }
    }
}

impl From<&messages::OsdStat> for OsdStats {
    fn from(s: &messages::OsdStat) -> Self {
        Self {
            up_from: s.up_from,
            seq: s.seq,
            num_pgs: s.num_pgs,
            space: Space::from(&s.statfs),
            hb_peers: s.hb_peers.iter().map(|osd| osd.0).collect(),
            commit_latency_ns: s.os_perf_stat.commit_latency_ns,
            apply_latency_ns: s.os_perf_stat.apply_latency_ns,
            slow_ops: 0,
        }
    }
}

impl From<&messages::PgStat> for PgStats {
    fn from(s: &messages::PgStat) -> Self {
        Self {
            version: s.version,
            reported_seq: s.reported_seq,
            reported_epoch: s.reported_epoch,
            state: s.state.0,
            last_fresh: s.last_fresh,
            last_change: s.last_change,
            last_active: s.last_active,
            last_peered: s.last_peered,
            last_clean: s.last_clean,
            last_became_active: s.last_became_active,
            last_became_peered: s.last_became_peered,
            last_unstale: s.last_unstale,
            last_undegraded: s.last_undegraded,
            last_fullsized: s.last_fullsized,
            mapping_epoch: s.mapping_epoch,
            log_start: s.log_start,
            ondisk_log_start: s.ondisk_log_start,
            created: s.created,
            last_epoch_clean: s.last_epoch_clean,
            last_scrub: s.last_scrub,
            last_scrub_stamp: s.last_scrub_stamp,
            last_deep_scrub: s.last_deep_scrub,
            last_deep_scrub_stamp: s.last_deep_scrub_stamp,
            last_clean_scrub_stamp: s.last_clean_scrub_stamp,
            log_size: s.log_size,
            ondisk_log_size: s.ondisk_log_size,
            snaptrimq_len: s.snaptrimq_len,
            sums: Sums::from(&s.stats.sum),
            up: s.up.iter().map(|osd| osd.0).collect(),
            acting: s.acting.iter().map(|osd| osd.0).collect(),
            up_primary: s.up_primary.0,
            acting_primary: s.acting_primary.0,
        }
    }
}

impl From<&PoolStats> for messages::PoolStat {
    fn from(s: &PoolStats) -> Self {
        Self {
            stats: messages::ObjectStatCollection { sum: (&s.sums).into() },
            log_size: s.log_size,
            ondisk_log_size: s.log_size,
            up: s.up as i32,
            acting: s.acting as i32,
            store_stats: (&s.space).into(),
            num_store_stats: s.num_store_stats as i32,
        }
    }
}
