//! The table itself.

use crate::parse::Value;
use crate::typed::OptionType;
use crate::{Kind, ValueError, ceph, debug, is_log_level};

/// What an option means to this program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionStatus {
    /// It changes what we do.
    Effective,
    /// It changes what we do, and Ceph has no such option.
    Own,
    /// It belongs to another program that reads the same file (named); we leave it alone.
    OtherProgram(&'static str),
    /// Ceph has it; here there is nothing for it to tune.
    NothingToTune,
    /// Neither Ceph nor Loligo has it.
    Unknown,
}

/// One option that is effective here.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// The default, as text.
    pub default: &'static str,
    /// Smallest and largest number allowed.
    pub range: Option<(f64, f64)>,
    /// The texts allowed; none for any.
    pub choices: &'static [&'static str],
    /// Effective or our own.
    pub status: OptionStatus,
    /// Whether a change takes effect while running.
    pub runtime: bool,
    /// Whether only the command line of a start can give it: it is read before the monitor's store is, and never again. One that is
    /// Ceph's is stored all the same, for the clients that take it from there.
    pub at_start_only: bool,
    /// What it does, a sentence.
    pub about: &'static str,
}

const fn spec(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> OptionSpec {
    OptionSpec {
        name,
        kind,
        default,
        range: None,
        choices: &[],
        status: OptionStatus::Effective,
        runtime: false,
        at_start_only: false,
        about,
    }
}

impl OptionSpec {
    /// Reads a value.
    ///
    /// # Errors
    /// It is not of the option's kind, or not one that is allowed.
    pub fn read(&self, text: &str) -> Result<Value, ValueError> {
        let value = crate::parse::read(self.kind, self.range, text)?;
        match &value {
            Value::Text(text) if !self.choices.is_empty() && !self.choices.contains(&text.as_str()) => {
                let text = text.clone();
                Err(match self.choices {
                    [only] => ValueError::NotServed { text, only },
                    many => ValueError::NotAChoice { text, choices: many.to_vec() },
                })
            }
            _ => Ok(value),
        }
    }

    const fn range(mut self, min: f64, max: f64) -> Self {
        self.range = Some((min, max));
        self
    }
    const fn one_of(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }
    const fn own(mut self) -> Self {
        self.status = OptionStatus::Own;
        self
    }
    const fn runtime(mut self) -> Self {
        self.runtime = true;
        self
    }
    const fn at_start_only(mut self) -> Self {
        self.at_start_only = true;
        self
    }
}

/// An option that a cluster which runs can't be given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{name} is read only when the process opens its stores and sockets: stop the cluster, and give it to its start with \
     `loligo up --set {name}={value}`"
)]
pub struct AtStartOnly {
    name: String,
    value: String,
}

/// Checks that a value which is given to a daemon that runs can have an effect.
///
/// # Errors
/// Only the command line of a start can give the option (normalized name).
pub fn check_settable(name: &str, value: &str) -> Result<(), AtStartOnly> {
    match lookup(name) {
        Some(spec) if spec.at_start_only => Err(AtStartOnly { name: name.into(), value: value.into() }),
        _ => Ok(()),
    }
}

/// Checks that a value which is given to the monitor to keep can have an effect: on a daemon, or on a client of Ceph's.
///
/// # Errors
/// It is an option of this program's own that only the command line of a start can give (normalized name).
pub fn check_storable(name: &str, value: &str) -> Result<(), AtStartOnly> {
    match lookup(name) {
        Some(spec) if spec.status == OptionStatus::Own => check_settable(name, value),
        _ => Ok(()),
    }
}

use Kind::{Bool, Float, Int, Secs, Size, Text};

/// Makes the table, and for each row the constant of `opt` that reads its value with its type.
macro_rules! table {
    ($($row:ident: $type:ty = $spec:expr;)*) => {
        /// The options that this program acts on, typed by their values: `values.get(opt::OSD_MAP_MESSAGE_MAX)`. A
        /// constant is called as its option, in upper case, so a misspelt option does not compile:
        ///
        /// ```compile_fail
        /// options::Values::new().get(options::opt::OSD_MAP_MESAGE_MAX);
        /// ```
        pub mod opt {
            use crate::typed::Opt;
            $(pub const $row: Opt<$type> = Opt::new(super::Row::$row as usize);)*
        }

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Row {
            $($row),*
        }

        /// Every option that this program acts on, sorted by name.
        static TABLE: &[OptionSpec] = &[$($spec),*];

        $(const _: () = check_row::<$type>(stringify!($row), &$spec);)*
    };
}

/// Fails to compile where a row's constant is not called as its option, or its type does not hold all values of its
/// kind and range.
const fn check_row<T: OptionType + ?Sized>(constant: &str, spec: &OptionSpec) {
    let (constant, name) = (constant.as_bytes(), spec.name.as_bytes());
    assert!(constant.len() == name.len(), "a constant is called as its option");
    let mut i = 0;
    while i < name.len() {
        assert!(constant[i].eq_ignore_ascii_case(&name[i]), "a constant is called as its option");
        i += 1;
    }
    let mut fits = false;
    i = 0;
    while i < T::KINDS.len() {
        fits |= T::KINDS[i] as u8 == spec.kind as u8;
        i += 1;
    }
    assert!(fits, "the constant's type is not that of the option's kind");
    let above_zero = matches!(spec.range, Some((min, _)) if min >= 0.0);
    assert!(!T::UNSIGNED || !matches!(spec.kind, Int) || above_zero, "a u64 needs a range from 0 or more");
}

table! {
    AUTH_CLIENT_REQUIRED: str = spec("auth_client_required", Text, "none", "How clients authenticate; only 'none' so far.").one_of(&["none"]);
    AUTH_CLUSTER_REQUIRED: str = spec("auth_cluster_required", Text, "none", "How daemons authenticate; only 'none' so far.").one_of(&["none"]);
    AUTH_SERVICE_REQUIRED: str = spec("auth_service_required", Text, "none", "The authentication that daemons require of clients; only 'none' so far.").one_of(&["none"]);
    BDEV_DEBUG_FAIL_FILE: str = spec(
        "bdev_debug_fail_file",
        Text,
        "",
        "For tests: while a file of this name is in an OSD's directory, every operation of its disk fails with EIO.",
    )
    .own()
    .at_start_only();
    BDEV_DEBUG_VOLATILE_CACHE: bool = spec(
        "bdev_debug_volatile_cache",
        Bool,
        "false",
        "For tests of power loss: keep each write in the process until a flush of the device covers it.",
    )
    .own()
    .at_start_only();
    BDEV_DEBUG_VOLATILE_LEAK_SEED: u64 = spec(
        "bdev_debug_volatile_leak_seed",
        Int,
        "0",
        "With bdev_debug_volatile_cache: seed of the random unflushed 4 KiB blocks that reach the file; 0 for none.",
    )
    .range(0.0, i64::MAX as f64)
    .own()
    .at_start_only();
    BDEV_ENABLE_DISCARD: bool = spec("bdev_enable_discard", Bool, "false", "Discard the blocks of a block device that the store has freed. Image files give freed space back in any case.").runtime();
    BDEV_LOG_MODEL: str = spec("bdev_log_model", Text, "", "The same as bdev_model for the logs that `loligo up --log-device` puts on devices of their own. Without it these are as fast as they are.").own().at_start_only();
    BDEV_LOG_MODEL_PARAMETERS: str = spec("bdev_log_model_parameters", Text, "", "With bdev_log_model: parameters that differ from the model's data sheet, as a=b,c=d.").own().at_start_only();
    BDEV_MODEL: str = spec(
        "bdev_model",
        Text,
        "",
        "Slow each OSD's store down to a modelled device: disk-7200, ssd or raid0-of-N, each also with -write-back.",
    )
    .own()
    .at_start_only();
    BDEV_MODEL_PARAMETERS: str = spec("bdev_model_parameters", Text, "", "With bdev_model: parameters that differ from the model's data sheet, as a=b,c=d.").own().at_start_only();
    BLUESTORE_COMPRESSION_ALGORITHM: str = spec(
        "bluestore_compression_algorithm",
        Text,
        "lz4",
        "What compresses data where the pool's compression_algorithm does not say so. Ceph's default is snappy, which is not there.",
    )
    .one_of(&["lz4", "zstd"])
    .runtime();
    BLUESTORE_COMPRESSION_MAX_BLOB_SIZE: u64 = spec(
        "bluestore_compression_max_blob_size",
        Size,
        "0",
        "Bytes that are compressed together of objects with hints that they are only read in sequence, rounded down to a power of two, 256 KiB at most; 0 takes the option for the kind of disk.",
    )
    .range(0.0, 4294967296.0)
    .runtime();
    BLUESTORE_COMPRESSION_MAX_BLOB_SIZE_HDD: u64 = spec("bluestore_compression_max_blob_size_hdd", Size, "65536", "bluestore_compression_max_blob_size on disks that rotate.")
        .range(8192.0, 4294967296.0)
        .runtime();
    BLUESTORE_COMPRESSION_MAX_BLOB_SIZE_SSD: u64 = spec("bluestore_compression_max_blob_size_ssd", Size, "65536", "bluestore_compression_max_blob_size on disks that do not rotate.")
        .range(8192.0, 4294967296.0)
        .runtime();
    BLUESTORE_COMPRESSION_MIN_BLOB_SIZE: u64 = spec(
        "bluestore_compression_min_blob_size",
        Size,
        "0",
        "Bytes that are compressed together of all other objects, rounded down to a power of two, 256 KiB at most; 0 takes the option for the kind of disk. Writes of less are compressed too if they have 8 KiB.",
    )
    .range(0.0, 4294967296.0)
    .runtime();
    BLUESTORE_COMPRESSION_MIN_BLOB_SIZE_HDD: u64 = spec("bluestore_compression_min_blob_size_hdd", Size, "8192", "bluestore_compression_min_blob_size on disks that rotate.")
        .range(8192.0, 4294967296.0)
        .runtime();
    BLUESTORE_COMPRESSION_MIN_BLOB_SIZE_SSD: u64 = spec("bluestore_compression_min_blob_size_ssd", Size, "65536", "bluestore_compression_min_blob_size on disks that do not rotate.")
        .range(8192.0, 4294967296.0)
        .runtime();
    BLUESTORE_COMPRESSION_MODE: str = spec(
        "bluestore_compression_mode",
        Text,
        "none",
        "When the block store compresses what is written, where the pool's compression_mode does not say so: none, passive (if clients say that it pays), aggressive (unless they say that it does not), force.",
    )
    .one_of(&["none", "passive", "aggressive", "force"])
    .runtime();
    BLUESTORE_COMPRESSION_REQUIRED_RATIO: f64 = spec(
        "bluestore_compression_required_ratio",
        Float,
        "0.875",
        "Data are kept compressed if they come to at most this share of their size, in units of 4 KiB.",
    )
    .range(0.0, 1.0)
    .runtime();
    BLUESTORE_PREFER_DEFERRED_SIZE: u64 = spec(
        "bluestore_prefer_deferred_size",
        Size,
        "0",
        "Writes of fewer bytes go to the block store's log first and to their place later, those of new objects too; 0 takes the option for the kind of disk. Overwrites of up to 32 KiB do so in any case, and new data of up to 32 KiB where nothing else is being written, or on an image file that was not written whole (`loligo up --preallocate`).",
    )
    .range(0.0, 524288.0)
    .runtime();
    BLUESTORE_PREFER_DEFERRED_SIZE_HDD: u64 = spec("bluestore_prefer_deferred_size_hdd", Size, "65536", "bluestore_prefer_deferred_size on disks that rotate.")
        .range(0.0, 524288.0)
        .runtime();
    BLUESTORE_PREFER_DEFERRED_SIZE_SSD: u64 = spec("bluestore_prefer_deferred_size_ssd", Size, "0", "bluestore_prefer_deferred_size on disks that do not rotate.")
        .range(0.0, 524288.0)
        .runtime();
    COMPRESSOR_ZSTD_LEVEL: u64 = spec("compressor_zstd_level", Int, "1", "How hard zstd tries: 1 is fastest, 22 smallest.").range(1.0, 22.0).runtime();
    MGR_SERVICE_BEACON_GRACE: f64 = spec("mgr_service_beacon_grace", Secs, "60", "Seconds without a report after which the manager forgets a service daemon.")
        .range(0.0, 1e9)
        .runtime();
    MGR_SERVICES_BYTES_MAX: u64 = spec(
        "mgr_services_bytes_max",
        Size,
        "4194304",
        "Bytes of all that service daemons say of themselves, with 64 for each name and value; what is more is left out.",
    )
    .range(1024.0, 1e9)
    .runtime()
    .own();
    MGR_STATS_PERIOD: u64 = spec("mgr_stats_period", Int, "5", "Seconds between two reports of a service daemon.").range(1.0, 3600.0).runtime();
    MON_ALLOW_POOL_DELETE: bool = spec("mon_allow_pool_delete", Bool, "true", "Whether pools can be removed. Ceph's default is false.").runtime();
    MON_CONFIG_KEY_MAX_ENTRY_SIZE: u64 = spec("mon_config_key_max_entry_size", Size, "65536", "Bytes that a value of `config-key` may have.").runtime();
    MON_DATA_AVAIL_CRIT: u64 = spec("mon_data_avail_crit", Int, "5", "Percentage of free space on the monitor's disk below which MON_DISK_CRIT is raised.")
        .range(0.0, 100.0)
        .runtime();
    MON_DATA_AVAIL_WARN: u64 = spec("mon_data_avail_warn", Int, "30", "Percentage of free space on the monitor's disk below which MON_DISK_LOW is raised.")
        .range(0.0, 100.0)
        .runtime();
    MON_HEALTH_LOG_UPDATE_PERIOD: u64 = spec("mon_health_log_update_period", Int, "5", "Least seconds between two lines of the cluster log about a health check whose summary keeps changing.").range(0.0, 86400.0).runtime();
    MON_MAX_OSD: u64 = spec("mon_max_osd", Int, "10000", "The highest bound of OSD numbers that `ceph osd setmaxosd` sets.").range(1.0, 1e6).runtime();
    MON_MAX_PG_PER_OSD: u64 = spec("mon_max_pg_per_osd", Int, "250", "Maximum number of placement groups on an OSD; a pool that needs more is refused.")
        .range(1.0, 1e6)
        .runtime();
    MON_MAX_POOL_PG_NUM: u64 = spec("mon_max_pool_pg_num", Int, "65536", "The most placement groups a pool may have.").range(1.0, 1e9).runtime();
    MON_MIN_OSDMAP_EPOCHS: u64 = spec("mon_min_osdmap_epochs", Int, "500", "How many OSD map epochs are kept at least.").range(1.0, 1e6).runtime();
    MON_OSD_BACKFILLFULL_RATIO: f64 = spec("mon_osd_backfillfull_ratio", Float, "0.9", "Share of an OSD in use from which it takes no more backfill; read when a cluster is made.")
        .range(0.0, 100.0);
    MON_OSD_DOWN_OUT_INTERVAL: f64 = spec("mon_osd_down_out_interval", Secs, "600", "Seconds after which a down OSD is marked out; 0 never.").runtime();
    MON_OSD_FULL_RATIO: f64 = spec("mon_osd_full_ratio", Float, "0.95", "Share of an OSD in use from which its pools take no more writes; read when a cluster is made.")
        .range(0.0, 100.0);
    MON_OSD_MIN_DOWN_REPORTERS: u64 = spec("mon_osd_min_down_reporters", Int, "2", "OSDs that must report another one before it is marked down.")
        .range(1.0, 1000.0)
        .runtime();
    MON_OSD_MIN_IN_RATIO: f64 = spec("mon_osd_min_in_ratio", Float, "0.75", "Share of OSDs that stay in when others are marked out.")
        .range(0.0, 1.0)
        .runtime();
    MON_OSD_NEARFULL_RATIO: f64 = spec("mon_osd_nearfull_ratio", Float, "0.85", "Share of an OSD in use from which the monitor warns about it; read when a cluster is made.")
        .range(0.0, 100.0);
    MON_OSD_REPORT_TIMEOUT: f64 = spec("mon_osd_report_timeout", Secs, "900", "Seconds without a beacon after which an OSD is marked down.")
        .range(1.0, 1e9)
        .runtime();
    MON_PG_STUCK_THRESHOLD: f64 = spec("mon_pg_stuck_threshold", Secs, "60", "Seconds after which a placement group counts as stuck.").runtime();
    MON_WARN_ON_POOL_NO_APP: bool = spec("mon_warn_on_pool_no_app", Bool, "true", "Whether to warn about a pool that is in use without an application.")
        .runtime();
    MON_WARN_ON_POOL_NO_REDUNDANCY: bool = spec("mon_warn_on_pool_no_redundancy", Bool, "false", "Whether to warn about a pool of one copy.").runtime();
    MON_WARN_ON_POOL_PG_NUM_NOT_POWER_OF_TWO: bool = spec(
        "mon_warn_on_pool_pg_num_not_power_of_two",
        Bool,
        "true",
        "Whether to warn about a pool whose pg_num is not a power of two.",
    )
    .runtime();
    MON_WARN_PG_NOT_DEEP_SCRUBBED_RATIO: f64 = spec(
        "mon_warn_pg_not_deep_scrubbed_ratio",
        Float,
        "0.75",
        "A warning says of which placement groups the last deep scrub is older than its interval by more than this part of it; 0 for none.",
    )
    .range(0.0, 1000.0)
    .runtime();
    MON_WARN_PG_NOT_SCRUBBED_RATIO: f64 = spec(
        "mon_warn_pg_not_scrubbed_ratio",
        Float,
        "0.5",
        "A warning says of which placement groups the last scrub is older than osd_scrub_max_interval by more than this part of it; 0 for none.",
    )
    .range(0.0, 1000.0)
    .runtime();
    MS_BIND_PORT_MAX: u64 = spec("ms_bind_port_max", Int, "7300", "The last port an OSD tries.").range(1.0, 65535.0).at_start_only();
    MS_BIND_PORT_MIN: u64 = spec("ms_bind_port_min", Int, "6800", "The first port an OSD tries.").range(1.0, 65535.0).at_start_only();
    MS_CONNECTION_READY_TIMEOUT: f64 = spec("ms_connection_ready_timeout", Secs, "10", "Seconds a peer has to finish the handshake.").range(0.1, 3600.0).at_start_only();
    MS_CONNECTIONS_MAX: u64 = spec("ms_connections_max", Int, "10000", "Maximum number of connections of the process.").range(16.0, 1e6).own().at_start_only();
    MS_CRC_DATA: bool = spec("ms_crc_data", Bool, "true", "Whether the checksums of messages are checked and written.").at_start_only();
    MS_INITIAL_BACKOFF: f64 = spec("ms_initial_backoff", Secs, "0.2", "Seconds before an OSD whose connection did not open is dialled again; each further pause is twice as long.").range(0.001, 3600.0).at_start_only();
    MS_MAX_BACKOFF: f64 = spec("ms_max_backoff", Secs, "15", "Longest pause in seconds before an OSD is dialled again (see ms_initial_backoff).").range(0.001, 3600.0).at_start_only();
    MS_PEER_UNACKED_BYTES_MAX: u64 = spec(
        "ms_peer_unacked_bytes_max",
        Size,
        "134217728",
        "Unacknowledged bytes to another OSD from which nothing more is sent to it.",
    )
    .range(1e6, 1e12)
    .own()
    .at_start_only();
    MS_RECEIVE_UNFINISHED_BYTES_MAX: u64 = spec(
        "ms_receive_unfinished_bytes_max",
        Size,
        "8388608",
        "Bytes of partly received messages over all connections; above this the connections that stalled longest are ended.",
    )
    .own()
    .at_start_only();
    MS_TCP_LISTEN_BACKLOG: u64 = spec("ms_tcp_listen_backlog", Int, "512", "Connections that may wait to be accepted.").range(1.0, 65535.0).at_start_only();
    OSD_ALLOW_OLDER_STORE: bool = spec("osd_allow_older_store", Bool, "false", "Let an OSD serve from a store that is older than what it has acknowledged, as one of a backup: what came later is lost.").own().at_start_only();
    OSD_BEACON_REPORT_INTERVAL: f64 = spec("osd_beacon_report_interval", Secs, "300", "Seconds between an OSD's beacons to the monitor.").range(1.0, 86400.0);
    OSD_CLASS_DEFAULT_LIST: str = spec(
        "osd_class_default_list",
        Text,
        "cephfs hello journal lock log numops otp rbd refcount rgw rgw_gc timeindex user version cas cmpomap queue 2pc_queue fifo sem_set",
        "Object classes, separated by spaces, that clients with the right to execute may call; * for all. Others need allow *.",
    )
    .runtime();
    OSD_CLASS_LOAD_LIST: str = spec(
        "osd_class_load_list",
        Text,
        "cephfs hello journal lock log numops otp rbd refcount rgw rgw_gc timeindex user version cas cmpomap queue 2pc_queue fifo sem_set",
        "Object classes, separated by spaces, that may be called at all; * for all.",
    )
    .runtime();
    OSD_CLIENT_MESSAGE_CAP: u64 = spec("osd_client_message_cap", Int, "256", "Client messages that an OSD works on at once.").range(0.0, 1e6);
    OSD_CLIENT_MESSAGE_SIZE_CAP: u64 = spec("osd_client_message_size_cap", Size, "524288000", "Bytes of client messages that an OSD holds at once. At a start less than the default where the OSDs would have more than a quarter of the machine's memory for them.");
    OSD_CLIENT_READS_BYTES_MAX: u64 = spec(
        "osd_client_reads_bytes_max",
        Size,
        "4194304",
        "Bytes that reads of 64 KiB and more of one client's connection have under way at once; the next wait until it has taken answers. 0 for no limit.",
    )
    .range(0.0, 1e12)
    .own();
    OSD_CLIENT_WATCH_TIMEOUT: u64 = spec("osd_client_watch_timeout", Int, "30", "Seconds after which a watch ends whose client does not ping.")
        .range(1.0, 1e6)
        .runtime();
    OSD_COPYFROM_MAX_CHUNK: u64 = spec("osd_copyfrom_max_chunk", Size, "8388608", "Bytes that a copy of an object reads at once.").range(4096.0, 67108864.0).runtime();
    OSD_CRUSH_CHOOSELEAF_TYPE: u64 = spec("osd_crush_chooseleaf_type", Int, "0", "The bucket type that copies are spread over; 0 is the OSD, 1 the host.")
        .range(0.0, 11.0);
    OSD_DEBUG_INJECT_DISPATCH_DELAY_DURATION: f64 = spec(
        "osd_debug_inject_dispatch_delay_duration",
        Float,
        "0.1",
        "For tests: length of an injected delay in seconds; all daemons of the core wait.",
    )
    .range(0.0, 60.0)
    .at_start_only();
    OSD_DEBUG_INJECT_DISPATCH_DELAY_PROBABILITY: f64 = spec(
        "osd_debug_inject_dispatch_delay_probability",
        Float,
        "0",
        "For tests: share of the clients' operations that an injected delay precedes.",
    )
    .range(0.0, 1.0)
    .at_start_only();
    OSD_DEBUG_NO_BOOT: str = spec("osd_debug_no_boot", Text, "", "Numbers of OSDs that are kept from booting, to test what that does.").own().at_start_only();
    OSD_DEEP_SCRUB_INTERVAL: f64 = spec("osd_deep_scrub_interval", Secs, "604800", "Seconds from one deep scrub of a placement group to the next.")
        .range(1.0, 1e9)
        .runtime();
    OSD_DEEP_SCRUB_INTERVAL_CV: f64 = spec(
        "osd_deep_scrub_interval_cv",
        Float,
        "0.2",
        "Deep scrubs are earlier or later than osd_deep_scrub_interval by up to this part of it, each placement group by another part.",
    )
    .range(0.0, 0.4)
    .runtime();
    OSD_DEEP_SCRUB_KEYS: u64 = spec("osd_deep_scrub_keys", Int, "1024", "Keys of an object's omap that a deep scrub reads at once.")
        .range(1.0, 1e6)
        .runtime();
    OSD_DEEP_SCRUB_LARGE_OMAP_OBJECT_KEY_THRESHOLD: u64 = spec(
        "osd_deep_scrub_large_omap_object_key_threshold",
        Int,
        "200000",
        "A deep scrub warns of objects whose omap has more keys (LARGE_OMAP_OBJECTS).",
    )
    .range(0.0, 1e15)
    .runtime();
    OSD_DEEP_SCRUB_LARGE_OMAP_OBJECT_VALUE_SUM_THRESHOLD: u64 = spec(
        "osd_deep_scrub_large_omap_object_value_sum_threshold",
        Size,
        "1073741824",
        "A deep scrub warns of objects whose omap's values have more bytes (LARGE_OMAP_OBJECTS).",
    )
    .runtime();
    OSD_DEEP_SCRUB_STRIDE: u64 = spec("osd_deep_scrub_stride", Size, "524288", "Bytes of an object that a deep scrub reads at once.")
        .range(4096.0, 67108864.0)
        .runtime();
    OSD_DEFAULT_NOTIFY_TIMEOUT: u64 = spec("osd_default_notify_timeout", Int, "30", "Seconds that a notify waits for its watchers, unless it says so itself.")
        .range(1.0, 1e6)
        .runtime();
    OSD_ENABLE_OP_TRACKER: bool = spec("osd_enable_op_tracker", Bool, "true", "Whether an OSD keeps the slowest operations for dump_historic_ops, and reports slow ones.").runtime();
    OSD_FAILSAFE_FULL_RATIO: f64 = spec("osd_failsafe_full_ratio", Float, "0.97", "Share of an OSD's store in use from which it starts no write, whatever the map says.")
        .range(0.0, 1.0)
        .runtime();
    OSD_HEARTBEAT_GRACE: f64 = spec("osd_heartbeat_grace", Secs, "20", "Seconds of silence after which an OSD is reported down.")
        .range(1.0, 1e9)
        .runtime();
    OSD_MAP_CACHE_SIZE: u64 = spec("osd_map_cache_size", Int, "50", "Increments of the OSD map that an OSD keeps in memory for peers and clients which lack them.")
        .range(1.0, 1e5)
        .runtime();
    OSD_MAP_MESSAGE_MAX: u64 = spec("osd_map_message_max", Int, "40", "Map epochs sent in one message.").range(1.0, 1000.0).runtime();
    OSD_MAP_MESSAGE_MAX_BYTES: u64 = spec("osd_map_message_max_bytes", Size, "10485760", "Bytes of map epochs sent in one message.").runtime();
    OSD_MAP_SHARE_MAX_EPOCHS: u64 = spec("osd_map_share_max_epochs", Int, "40", "Map epochs that an OSD sends a peer which lacks more.")
        .range(1.0, 1000.0)
        .runtime();
    OSD_MAX_ATTR_NAME_LEN: u64 = spec("osd_max_attr_name_len", Int, "100", "Bytes an attribute's name may have.").range(1.0, 4096.0).runtime();
    OSD_MAX_ATTR_SIZE: u64 = spec("osd_max_attr_size", Size, "0", "Bytes an attribute may have; 0 is no limit.").runtime();
    OSD_MAX_OBJECT_NAME_LEN: u64 = spec("osd_max_object_name_len", Int, "2048", "Bytes an object's name may have.").range(1.0, 65536.0).runtime();
    OSD_MAX_OBJECT_NAMESPACE_LEN: u64 = spec("osd_max_object_namespace_len", Int, "256", "Bytes a namespace may have.").range(1.0, 65536.0).runtime();
    OSD_MAX_OBJECT_SIZE: u64 = spec("osd_max_object_size", Size, "134217728", "Bytes an object may have.").runtime();
    OSD_MAX_OMAP_ENTRIES_PER_REQUEST: u64 = spec("osd_max_omap_entries_per_request", Int, "1024", "Keys that one omap read returns.").range(1.0, 1e6).runtime();
    OSD_MAX_PG_LOG_ENTRIES: u64 = spec("osd_max_pg_log_entries", Int, "10000", "The most log entries that a placement group's share comes to.")
        .range(1.0, 1e7)
        .runtime();
    OSD_MAX_SCRUBS: u64 = spec("osd_max_scrubs", Int, "3", "Placement groups that an OSD scrubs at once; what operators ask for waits for its turn too.")
        .range(1.0, 1000.0)
        .runtime();
    OSD_MAX_WRITE_SIZE: u64 = spec("osd_max_write_size", Int, "90", "Mebibytes that one write may carry.").range(4.0, 4096.0).runtime();
    OSD_MEMORY_TARGET: u64 = spec(
        "osd_memory_target",
        Size,
        "4294967296",
        "Bytes of memory for what an OSD keeps: its store's cache, object contexts, PG logs. At a start less than the default where the OSDs would have more than a quarter of the machine's memory.",
    )
    .range(67108864.0, 1125899906842624.0)
    .runtime();
    OSD_MIN_PG_LOG_ENTRIES: u64 = spec("osd_min_pg_log_entries", Int, "250", "The fewest log entries that a placement group is trimmed to.")
        .range(1.0, 1e7)
        .runtime();
    OSD_MON_REPORT_INTERVAL: f64 = spec("osd_mon_report_interval", Secs, "5", "Seconds between an OSD's reports of its statistics.").range(0.05, 3600.0);
    OSD_NOTIFY_BYTES_MAX: u64 = spec("osd_notify_bytes_max", Size, "67108864", "Bytes that the notifies of a placement group and the answers to them may hold; more gets ENOMEM.")
        .own()
        .runtime();
    // Some 0.6 KB each. A durable store has other defaults (`host::plan`).
    OSD_OBJECT_CONTEXTS_MAX: u64 = spec("osd_object_contexts_max", Int, "32768", "Objects whose metadata an OSD keeps in memory while no request uses them: at most an eighth of osd_memory_target. Durable stores have a default of 262144.")
        .range(0.0, 16777216.0)
        .own()
        .runtime();
    OSD_OBJECT_CONTEXTS_ONCE_MAX: u64 = spec("osd_object_contexts_once_max", Int, "4096", "So many of them, at most, may have been used only once since they came into memory. Durable stores have a default of 262144.")
        .range(0.0, 16777216.0)
        .own()
        .runtime();
    OSD_OBJECT_WATCHERS_MAX: u64 = spec("osd_object_watchers_max", Int, "4096", "Watches that one object may have; more gets EUSERS.")
        .range(1.0, 1e6)
        .own()
        .runtime();
    OSD_OP_COMPLAINT_TIME: f64 = spec("osd_op_complaint_time", Float, "30", "Seconds after which an operation that is not answered is reported as slow.")
        .range(0.0, 1e9)
        .runtime();
    OSD_OP_HISTORY_DURATION: u64 = spec("osd_op_history_duration", Int, "600", "Seconds for which an OSD keeps its slowest operations.")
        .range(0.0, 1e6)
        .runtime();
    OSD_OP_HISTORY_SIZE: u64 = spec("osd_op_history_size", Int, "20", "The slowest operations that an OSD keeps.").range(0.0, 1e5).runtime();
    OSD_OP_HISTORY_SLOW_OP_SIZE: u64 = spec("osd_op_history_slow_op_size", Int, "20", "Operations past osd_op_history_slow_op_threshold that an OSD keeps for good.")
        .range(0.0, 1e5)
        .runtime();
    OSD_OP_HISTORY_SLOW_OP_THRESHOLD: f64 = spec("osd_op_history_slow_op_threshold", Float, "10", "Seconds from which on an operation counts as slow in dump_historic_slow_ops.")
        .range(0.0, 1e9)
        .runtime();
    OSD_PG_EPOCH_MAX_LAG_FACTOR: f64 = spec("osd_pg_epoch_max_lag_factor", Float, "2", "Times osd_map_cache_size: how many map epochs placement groups may lag before the OSD accepts no more maps.")
        .range(0.1, 1000.0)
        .runtime();
    OSD_PG_LOG_DUPS_TRACKED: u64 = spec(
        "osd_pg_log_dups_tracked",
        Int,
        "3000",
        "Number of versions, counted back from the newest, for which a placement group recognises a resent write.",
    )
    .range(0.0, 1e7)
    .runtime();
    OSD_PG_LOG_TRIM_MAX: u64 = spec("osd_pg_log_trim_max", Int, "10000", "The most log entries that one trim removes.").range(1.0, 1e7).runtime();
    OSD_PG_LOG_TRIM_MIN: u64 = spec(
        "osd_pg_log_trim_min",
        Int,
        "100",
        "The fewest log entries that are worth a trim; ignored where it exceeds osd_pg_log_trim_max.",
    )
    .range(0.0, 1e7)
    .runtime();
    OSD_PG_MAX_CONCURRENT_SNAP_TRIMS: u64 = spec("osd_pg_max_concurrent_snap_trims", Int, "2", "Objects that a placement group trims of removed snapshots at once.")
        .range(1.0, 1000.0)
        .runtime();
    OSD_POOL_DEFAULT_CRUSH_RULE: i64 = spec("osd_pool_default_crush_rule", Int, "-1", "The CRUSH rule of a new pool; -1 takes the first that fits.").runtime();
    OSD_POOL_DEFAULT_FLAG_HASHPSPOOL: bool = spec("osd_pool_default_flag_hashpspool", Bool, "true", "Whether the pool's number is part of the placement hash of a new pool.");
    OSD_POOL_DEFAULT_MIN_SIZE: u64 = spec("osd_pool_default_min_size", Int, "0", "Copies that must be available to serve I/O; 0 derives it from the size.")
        .range(0.0, 10.0)
        .runtime();
    OSD_POOL_DEFAULT_PG_AUTOSCALE_MODE: str = spec("osd_pool_default_pg_autoscale_mode", Text, "off", "Autoscale mode of a new pool; it has no effect yet.")
        .one_of(&["off", "warn", "on"])
        .runtime();
    OSD_POOL_DEFAULT_PG_NUM: u64 = spec("osd_pool_default_pg_num", Int, "32", "Placement groups of a new pool.").range(1.0, 65536.0).runtime();
    OSD_POOL_DEFAULT_PGP_NUM: u64 = spec("osd_pool_default_pgp_num", Int, "0", "Placement groups used for placing; 0 is pg_num.")
        .range(0.0, 65536.0)
        .runtime();
    OSD_POOL_DEFAULT_SIZE: u64 = spec("osd_pool_default_size", Int, "1", "Copies of a new pool's objects; more than 1 waits for replication.")
        .range(1.0, 10.0)
        .runtime();
    // Twice osd_max_object_size: a whole object can be read at once. At most 1 GiB, so that a reply fits its frame.
    OSD_READ_BYTES_MAX: u64 = spec("osd_read_bytes_max", Size, "268435456", "Bytes that one request may read; more gets EMSGSIZE.")
        .range(1048576.0, 1073741824.0)
        .own();
    OSD_SCRUB_BEGIN_HOUR: u64 = spec("osd_scrub_begin_hour", Int, "0", "Scrubs of the schedule begin from this hour of local time on; where it equals osd_scrub_end_hour, at any hour.")
        .range(0.0, 23.0)
        .runtime();
    OSD_SCRUB_BEGIN_WEEK_DAY: u64 = spec("osd_scrub_begin_week_day", Int, "0", "Scrubs of the schedule begin from this day of the week on (0 is Sunday); where it equals osd_scrub_end_week_day, on any day.")
        .range(0.0, 6.0)
        .runtime();
    OSD_SCRUB_CHUNK_MAX: u64 = spec("osd_scrub_chunk_max", Int, "15", "Objects of a chunk of a deep scrub, whose writes wait or end the chunk.")
        .range(1.0, 10000.0)
        .runtime();
    OSD_SCRUB_CHUNK_MIN: u64 = spec("osd_scrub_chunk_min", Int, "5", "Objects of a chunk of a deep scrub at least, after writes have ended larger ones.")
        .range(1.0, 10000.0)
        .runtime();
    OSD_SCRUB_END_HOUR: u64 = spec("osd_scrub_end_hour", Int, "0", "Scrubs of the schedule begin before this hour of local time.")
        .range(0.0, 23.0)
        .runtime();
    OSD_SCRUB_END_WEEK_DAY: u64 = spec("osd_scrub_end_week_day", Int, "0", "Scrubs of the schedule begin before this day of the week (0 is Sunday).")
        .range(0.0, 6.0)
        .runtime();
    OSD_SCRUB_INTERVAL_RANDOMIZE_RATIO: f64 = spec(
        "osd_scrub_interval_randomize_ratio",
        Float,
        "0.5",
        "Scrubs are put off by up to this part of osd_scrub_min_interval, each placement group by another part.",
    )
    .range(0.0, 10.0)
    .runtime();
    OSD_SCRUB_LOAD_THRESHOLD: f64 = spec("osd_scrub_load_threshold", Float, "10", "Scrubs of the schedule begin while the machine's load, divided by its processors, is less than this.")
        .range(0.0, 1e9)
        .runtime();
    OSD_SCRUB_MAX_INTERVAL: f64 = spec("osd_scrub_max_interval", Secs, "604800", "Seconds after which a placement group is late to be scrubbed (PG_NOT_SCRUBBED).")
        .range(1.0, 1e9)
        .runtime();
    OSD_SCRUB_MAX_PREEMPTIONS: u64 = spec("osd_scrub_max_preemptions", Int, "5", "How often writes may end a scrub's chunk before they wait until it is through.")
        .range(0.0, 30.0)
        .runtime();
    OSD_SCRUB_MIN_INTERVAL: f64 = spec("osd_scrub_min_interval", Secs, "86400", "Seconds from one scrub of a placement group to the next.")
        .range(1.0, 1e9)
        .runtime();
    OSD_SCRUB_RETRY_DELAY: u64 = spec("osd_scrub_retry_delay", Int, "30", "Seconds that the schedule leaves a placement group alone whose scrub an operator aborted.")
        .range(0.0, 1e9)
        .runtime();
    OSD_SCRUB_SLEEP: f64 = spec("osd_scrub_sleep", Secs, "0", "Seconds that a scrub pauses between chunks.")
        .range(0.0, 3600.0)
        .runtime();
    OSD_SHALLOW_SCRUB_CHUNK_MAX: u64 = spec("osd_shallow_scrub_chunk_max", Int, "100", "Objects of a chunk of a scrub that is not deep, whose writes wait or end the chunk.")
        .range(1.0, 10000.0)
        .runtime();
    OSD_SHALLOW_SCRUB_CHUNK_MIN: u64 = spec("osd_shallow_scrub_chunk_min", Int, "50", "Objects of a chunk of a scrub that is not deep at least, after writes have ended larger ones.")
        .range(1.0, 10000.0)
        .runtime();
    OSD_SNAP_TRIM_SLEEP: f64 = spec("osd_snap_trim_sleep", Secs, "0", "Seconds that a placement group pauses after each batch of objects that it trims of removed snapshots.")
        .range(0.0, 3600.0)
        .runtime();
    OSD_STORE_SHARDS: u64 = spec(
        "osd_store_shards",
        Int,
        "0",
        "Shards of a block store, fixed when it is made; 0 for one on each core that serves its OSD then.",
    )
    .range(0.0, 64.0)
    .own()
    .at_start_only();
    OSD_TARGET_PG_LOG_ENTRIES_PER_OSD: u64 = spec(
        "osd_target_pg_log_entries_per_osd",
        Int,
        "300000",
        "Log entries of an OSD, shared out among its placement groups between osd_min_pg_log_entries and osd_max_pg_log_entries; 0 gives each the minimum.",
    )
    .range(0.0, 1e9)
    .runtime();
}

/// Every option that is effective here, sorted by name.
pub fn all() -> &'static [OptionSpec] {
    TABLE
}

/// The entry of an effective option; `name` must be normalized.
pub fn lookup(name: &str) -> Option<&'static OptionSpec> {
    Some(&TABLE[row(name)?])
}

/// The row of an effective option.
pub(crate) fn row(name: &str) -> Option<usize> {
    TABLE.binary_search_by_key(&name, |s| s.name).ok()
}

/// What an option (normalized name) means here.
pub fn status(name: &str) -> OptionStatus {
    if let Some(spec) = lookup(name) {
        return spec.status;
    }
    if is_log_level(name) {
        return OptionStatus::Effective;
    }
    match ceph::find(name).map(|option| option.program) {
        Some(None) => OptionStatus::NothingToTune,
        Some(Some(program)) => OptionStatus::OtherProgram(program),
        None => OptionStatus::Unknown,
    }
}

/// The known name that is nearest to `name`, if any is near enough to be a likely slip; one that has an effect here
/// before others as near.
pub fn nearest(name: &str) -> Option<&'static str> {
    text::nearest(name, names())
}

/// Every known name: ours, then Ceph's log levels, then Ceph's others.
pub fn names() -> impl Iterator<Item = &'static str> {
    let rest = ceph::all().map(|option| option.name).filter(|name| lookup(name).is_none());
    TABLE.iter().map(|s| s.name).chain(debug::names()).chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by_key(|s| s.name));
    }

    #[test]
    fn every_default_is_a_value_of_its_kind_and_in_range() {
        for s in TABLE {
            assert_eq!(normalize(s.name), s.name);
            assert!(s.read(s.default).is_ok(), "{}", s.name);
        }
    }

    #[test]
    fn our_own_options_are_not_cephs_and_the_effective_are() {
        for s in TABLE {
            let known = ceph::find(s.name).is_some();
            assert_eq!(known, s.status == OptionStatus::Effective, "{}", s.name);
        }
    }

    #[test]
    fn an_authentication_that_is_not_served_is_a_value_of_no_option() {
        for name in ["auth_client_required", "auth_cluster_required", "auth_service_required"] {
            let error = crate::canonical(name, "cephx").unwrap_err().to_string();
            assert_eq!(error, "'cephx' can't be served: so far only 'none' can", "{name}");
            assert!(crate::Values::new().set(name, "cephx, none").is_err());
            assert_eq!(crate::canonical(name, "none").as_deref(), Ok("none"));
        }
    }

    #[test]
    fn what_only_a_start_can_give_says_so_and_is_stored_if_it_is_cephs() {
        let only: Vec<_> = TABLE.iter().filter(|s| s.at_start_only).collect();
        let own = only.iter().filter(|s| s.status == OptionStatus::Own).count();
        assert_eq!((own, only.len()), (13, 22));
        for s in only {
            assert!(!s.runtime, "{}", s.name);
            let refused = check_settable(s.name, "1").unwrap_err();
            assert!(refused.to_string().contains(&format!("`loligo up --set {}=1`", s.name)), "{refused}");
            // What Ceph's scripts set is stored in any case, and its clients read it.
            let stored = if s.status == OptionStatus::Own { Err(refused) } else { Ok(()) };
            assert_eq!(check_storable(s.name, "1"), stored);
        }
        for settable in ["osd_max_object_size", "no_such_option"] {
            assert_eq!((check_settable(settable, "1"), check_storable(settable, "1")), (Ok(()), Ok(())));
        }
    }

    #[test]
    fn the_five_statuses_are_distinguished() {
        assert_eq!(status("osd_max_object_size"), OptionStatus::Effective);
        assert_eq!(status("debug_ms"), OptionStatus::Effective);
        assert_eq!(status("bdev_debug_volatile_cache"), OptionStatus::Own);
        assert_eq!(status("rbd_cache"), OptionStatus::OtherProgram("rbd"));
        assert_eq!(status("objecter_inflight_ops"), OptionStatus::OtherProgram("client"));
        assert_eq!(status("bluestore_cache_size"), OptionStatus::NothingToTune);
        assert_eq!(status("osd_max_objekt_size"), OptionStatus::Unknown);
        assert_eq!(nearest("osd_max_objekt_size"), Some("osd_max_object_size"));
        assert_eq!(nearest("zzzzzz"), None);
    }

    #[test]
    fn a_log_level_of_no_subsystem_is_unknown() {
        assert_eq!(status("debug_nonsense"), OptionStatus::Unknown);
        assert_eq!(status("debug_asserts_on_shutdown"), OptionStatus::NothingToTune);
        assert_eq!(nearest("debug_osdd"), Some("debug_osd"));
        assert_eq!(nearest("debug_nonsense"), Some("debug_none"));
    }

    #[test]
    fn every_name_is_listed_once() {
        let all: Vec<&str> = names().collect();
        let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len());
        assert!(all.iter().all(|n| status(n) != OptionStatus::Unknown));
    }
}
