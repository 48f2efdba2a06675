//! The options of a pool that pg_pool_t has no field for (Ceph's pool_opts_t): their keys on the wire and their names.

/// A pool option's value.
#[derive(Clone, PartialEq, Debug)]
pub enum PoolOption {
    Str(String),
    Int(i64),
    Double(f64),
}

macro_rules! keys {
    ($($key:ident = $number:literal $name:literal),* $(,)?) => {
        /// Keys of pool options (pool_opts_t::key_t).
        pub struct PoolOptionKey;

        impl PoolOptionKey {
            $(pub const $key: i32 = $number;)*

            /// Every key with its name in commands, by key.
            pub const NAMES: &'static [(i32, &'static str)] = &[$(($number, $name)),*];
        }
    };
}

keys! {
    SCRUB_MIN_INTERVAL = 0 "scrub_min_interval",
    SCRUB_MAX_INTERVAL = 1 "scrub_max_interval",
    DEEP_SCRUB_INTERVAL = 2 "deep_scrub_interval",
    RECOVERY_PRIORITY = 3 "recovery_priority",
    RECOVERY_OP_PRIORITY = 4 "recovery_op_priority",
    SCRUB_PRIORITY = 5 "scrub_priority",
    COMPRESSION_MODE = 6 "compression_mode",
    COMPRESSION_ALGORITHM = 7 "compression_algorithm",
    COMPRESSION_REQUIRED_RATIO = 8 "compression_required_ratio",
    COMPRESSION_MAX_BLOB_SIZE = 9 "compression_max_blob_size",
    COMPRESSION_MIN_BLOB_SIZE = 10 "compression_min_blob_size",
    CSUM_TYPE = 11 "csum_type",
    CSUM_MAX_BLOCK = 12 "csum_max_block",
    CSUM_MIN_BLOCK = 13 "csum_min_block",
    FINGERPRINT_ALGORITHM = 14 "fingerprint_algorithm",
    PG_NUM_MIN = 15 "pg_num_min",
    TARGET_SIZE_BYTES = 16 "target_size_bytes",
    TARGET_SIZE_RATIO = 17 "target_size_ratio",
    PG_AUTOSCALE_BIAS = 18 "pg_autoscale_bias",
    READ_LEASE_INTERVAL = 19 "read_lease_interval",
    DEDUP_TIER = 20 "dedup_tier",
    DEDUP_CHUNK_ALGORITHM = 21 "dedup_chunk_algorithm",
    DEDUP_CDC_CHUNK_SIZE = 22 "dedup_cdc_chunk_size",
    PG_NUM_MAX = 23 "pg_num_max",
    READ_RATIO = 24 "read_ratio",
}
