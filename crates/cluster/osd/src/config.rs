//! The configuration of an OSD at its start.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use monclient::MonClientConfig;
use ops::ClassTable;
use options::{Values, opt};
use pg::{LogLimits, PgConfig, ScrubConfig};
use store::{ByMedium, Compression, CompressionAlgorithm, CompressionMode, Tuning};
use telemetry::HistoryConfig;
use types::{EntityAddrVec, Fsid, OsdId, Profile};

use crate::gate::ThrottleLimits;
use crate::memory::MemoryShares;
use crate::shard::{ShardConfig, TrackerConfig};

/// The four addresses of an OSD. All carry the nonce of this start, which no earlier start had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdAddrs {
    /// Where clients connect.
    pub client: EntityAddrVec,
    /// Where other OSDs connect; equal to `client` where there is no second network.
    pub cluster: EntityAddrVec,
    /// Where heartbeats come on the cluster's network.
    pub hb_back: EntityAddrVec,
    /// Where heartbeats come on the public network.
    pub hb_front: EntityAddrVec,
}

impl OsdAddrs {
    /// One address for everything.
    pub fn same(addr: impl Into<EntityAddrVec>) -> Self {
        let addr = addr.into();
        Self { client: addr.clone(), cluster: addr.clone(), hb_back: addr.clone(), hb_front: addr }
    }
}

/// The configuration of an OSD at its start.
#[derive(Clone, Debug)]
pub struct OsdConfig {
    /// Its number.
    pub whoami: OsdId,
    /// The cluster's id.
    pub cluster_fsid: Fsid,
    /// The OSD's own id, as `osd new` registered it. Written into an empty store; must equal that of another one.
    pub osd_fsid: Fsid,
    /// Its addresses.
    pub addrs: OsdAddrs,
    /// What the boot message says of host, store and version (names as ceph-osd's: `hostname`, `osd_objectstore`, ...).
    /// The addresses are filled in.
    pub metadata: BTreeMap<String, String>,
    /// The release to be.
    pub profile: Profile,
    /// How to reach monitors.
    pub monitors: MonClientConfig,
    /// The options in force. Those that the monitor sends are set on top.
    pub options: Values,
}

/// The budget that the options give each of an OSD's gates: its share, rounded up.
pub(crate) fn limits(options: &Values, gates: usize) -> ThrottleLimits {
    let share = |total: u64| total.div_ceil(gates.max(1) as u64);
    ThrottleLimits {
        messages_max: share(options.get(opt::OSD_CLIENT_MESSAGE_CAP)),
        bytes_max: share(options.get(opt::OSD_CLIENT_MESSAGE_SIZE_CAP)),
        reads_max: options.get(opt::OSD_CLIENT_READS_BYTES_MAX),
    }
}

/// What the options give a shard, one of `shards`, of an OSD that has `pgs` PGs.
pub(crate) fn of_shard(o: &Values, pgs: usize, shards: usize) -> ShardConfig {
    let share = |total: u64| total.div_ceil(shards.max(1) as u64);
    let memory = MemoryShares::of(o);
    let object_contexts_max = share(memory.object_contexts) as usize;
    let contexts_once_max = share(o.get(opt::OSD_OBJECT_CONTEXTS_ONCE_MAX)) as usize;
    let mut config = PgConfig::default();
    config.ops.object_size_max = o.get(opt::OSD_MAX_OBJECT_SIZE);
    config.ops.attr_size_max = o.get(opt::OSD_MAX_ATTR_SIZE);
    config.ops.attr_name_len_max = o.get(opt::OSD_MAX_ATTR_NAME_LEN);
    config.ops.omap_entries_max = o.get(opt::OSD_MAX_OMAP_ENTRIES_PER_REQUEST);
    config.ops.read_bytes_max = o.get(opt::OSD_READ_BYTES_MAX);
    let (load_list, default_list) = (o.get(opt::OSD_CLASS_LOAD_LIST), o.get(opt::OSD_CLASS_DEFAULT_LIST));
    config.classes = ClassTable::new(cls::CLASSES, load_list, default_list).with_filters(cls::FILTERS);
    config.ops.watch_timeout_seconds = o.get(opt::OSD_CLIENT_WATCH_TIMEOUT) as u32;
    config.ops.notify_timeout_seconds = o.get(opt::OSD_DEFAULT_NOTIFY_TIMEOUT) as u32;
    config.ops.object_watchers_max = o.get(opt::OSD_OBJECT_WATCHERS_MAX);
    config.ops.notify_bytes_max = o.get(opt::OSD_NOTIFY_BYTES_MAX);
    config.log = LogLimits {
        entries_target: LogLimits::share(
            memory.log_entries as usize,
            pgs,
            o.get(opt::OSD_MIN_PG_LOG_ENTRIES) as usize,
            o.get(opt::OSD_MAX_PG_LOG_ENTRIES) as usize,
        ),
        trim_min: o.get(opt::OSD_PG_LOG_TRIM_MIN) as usize,
        trim_max: o.get(opt::OSD_PG_LOG_TRIM_MAX) as usize,
        dups_tracked: o.get(opt::OSD_PG_LOG_DUPS_TRACKED),
    };
    config.object_name_len_max = o.get(opt::OSD_MAX_OBJECT_NAME_LEN) as usize;
    config.namespace_len_max = o.get(opt::OSD_MAX_OBJECT_NAMESPACE_LEN) as usize;
    config.write_bytes_max = (o.get(opt::OSD_MAX_WRITE_SIZE) as usize) << 20;
    config.trim_sleep = Duration::from_secs_f64(o.get(opt::OSD_SNAP_TRIM_SLEEP));
    config.concurrent_trims_max = o.get(opt::OSD_PG_MAX_CONCURRENT_SNAP_TRIMS) as usize;
    config.scrub = scrub(o);
    // One PG may have all of them.
    config.object_contexts_idle_max = object_contexts_max;
    ShardConfig {
        pg: Arc::new(config),
        failsafe_full_ratio: o.get(opt::OSD_FAILSAFE_FULL_RATIO),
        queued_bytes_max: share(o.get(opt::OSD_CLIENT_MESSAGE_SIZE_CAP)),
        object_contexts_max,
        object_contexts_once_max: contexts_once_max.min(object_contexts_max),
        store_memory_bytes: memory.store_bytes / shards.max(1) as u64,
        store_tuning: store_tuning(o),
        compression: compression(o),
        tracker: tracker(o),
    }
}

fn scrub(o: &Values) -> ScrubConfig {
    ScrubConfig {
        chunk_min: o.get(opt::OSD_SCRUB_CHUNK_MIN) as usize,
        chunk_max: o.get(opt::OSD_SCRUB_CHUNK_MAX) as usize,
        shallow_chunk_min: o.get(opt::OSD_SHALLOW_SCRUB_CHUNK_MIN) as usize,
        shallow_chunk_max: o.get(opt::OSD_SHALLOW_SCRUB_CHUNK_MAX) as usize,
        preemptions_max: o.get(opt::OSD_SCRUB_MAX_PREEMPTIONS) as u32,
        sleep: Duration::from_secs_f64(o.get(opt::OSD_SCRUB_SLEEP)),
        stride_bytes: o.get(opt::OSD_DEEP_SCRUB_STRIDE),
        omap_keys_at_once: o.get(opt::OSD_DEEP_SCRUB_KEYS) as usize,
        large_omap_keys: o.get(opt::OSD_DEEP_SCRUB_LARGE_OMAP_OBJECT_KEY_THRESHOLD),
        large_omap_bytes: o.get(opt::OSD_DEEP_SCRUB_LARGE_OMAP_OBJECT_VALUE_SUM_THRESHOLD),
    }
}

/// What the options tune an OSD's store by, when it is opened and later.
pub fn store_tuning(o: &Values) -> Tuning {
    let either = o.get(opt::BLUESTORE_PREFER_DEFERRED_SIZE);
    // Writes of fewer bytes than the options say: at most so many.
    let at_most = |own| if either > 0 { either } else { o.get(own) }.saturating_sub(1);
    Tuning {
        discard: o.get(opt::BDEV_ENABLE_DISCARD),
        new_deferred_bytes: ByMedium {
            hdd: at_most(opt::BLUESTORE_PREFER_DEFERRED_SIZE_HDD),
            ssd: at_most(opt::BLUESTORE_PREFER_DEFERRED_SIZE_SSD),
        },
    }
}

/// The compression that the options ask for. The option table accepts only the names that the store knows.
pub(crate) fn compression(o: &Values) -> Compression {
    let default = Compression::default();
    // 0 leaves it to the option for the kind of disk.
    let bytes = |both: u64, hdd: u64, ssd: u64| match both {
        0 => ByMedium { hdd, ssd },
        both => ByMedium { hdd: both, ssd: both },
    };
    let algorithm = CompressionAlgorithm::of_name(o.get(opt::BLUESTORE_COMPRESSION_ALGORITHM));
    Compression {
        mode: CompressionMode::of_name(o.get(opt::BLUESTORE_COMPRESSION_MODE)).unwrap_or(default.mode),
        algorithm: algorithm.unwrap_or(default.algorithm),
        zstd_level: o.get(opt::COMPRESSOR_ZSTD_LEVEL) as i32,
        required_ratio: o.get(opt::BLUESTORE_COMPRESSION_REQUIRED_RATIO),
        blob_bytes_min: bytes(
            o.get(opt::BLUESTORE_COMPRESSION_MIN_BLOB_SIZE),
            o.get(opt::BLUESTORE_COMPRESSION_MIN_BLOB_SIZE_HDD),
            o.get(opt::BLUESTORE_COMPRESSION_MIN_BLOB_SIZE_SSD),
        ),
        blob_bytes_max: bytes(
            o.get(opt::BLUESTORE_COMPRESSION_MAX_BLOB_SIZE),
            o.get(opt::BLUESTORE_COMPRESSION_MAX_BLOB_SIZE_HDD),
            o.get(opt::BLUESTORE_COMPRESSION_MAX_BLOB_SIZE_SSD),
        ),
    }
}

/// Whether operations are tracked, and which are reported as slow.
pub(crate) fn complaint_time(o: &Values) -> Option<Duration> {
    let enabled = o.get(opt::OSD_ENABLE_OP_TRACKER);
    enabled.then(|| Duration::from_secs_f64(o.get(opt::OSD_OP_COMPLAINT_TIME)))
}

fn tracker(o: &Values) -> TrackerConfig {
    let history = HistoryConfig {
        size: o.get(opt::OSD_OP_HISTORY_SIZE) as usize,
        duration: Duration::from_secs(o.get(opt::OSD_OP_HISTORY_DURATION)),
        slow_size: o.get(opt::OSD_OP_HISTORY_SLOW_OP_SIZE) as usize,
        slow_threshold: Duration::from_secs_f64(o.get(opt::OSD_OP_HISTORY_SLOW_OP_THRESHOLD)),
    };
    let complaint_time = complaint_time(o);
    let history = complaint_time.map(|_| history).unwrap_or_default();
    TrackerConfig { history, complaint_time }
}
