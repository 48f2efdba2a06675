//! Objects inside messages that Ceph's own programs of three releases encoded are read whole and written again byte for
//! byte (the crate `corpus` says where they come from).

use std::fmt::Debug;

use encoding::{Decode, Encode};
use messages::osd_op::{PgLsResponse, PgNlsResponse};
use messages::*;
use types::Profile;

fn round_trip<T: Encode + Decode + Debug>(kind: &str) {
    for ((path, bytes), value) in corpus::read::<T>(kind) {
        let again = value.to_bytes(Profile::PACIFIC.features_supported);
        assert_eq!(again, bytes, "{path:?}: {value:?}");
    }
}

macro_rules! types {
    ($($test:ident: $t:ty = $kind:literal),* $(,)?) => {$(
        #[test]
        fn $test() {
            round_trip::<$t>($kind);
        }
    )*};
}
types! {
    pg_stats_come_back: PgStat = "pg_stat_t",
    osd_stats_come_back: OsdStat = "osd_stat_t",
    pool_stats_come_back: PoolStat = "pool_stat_t",
    store_sizes_come_back: StoreStatfs = "store_statfs_t",
    stat_sums_come_back: ObjectStatSum = "object_stat_sum_t",
    stat_collections_come_back: ObjectStatCollection = "object_stat_collection_t",
    pg_histories_come_back: PgHistory = "pg_history_t",
    past_intervals_come_back: PastIntervals = "PastIntervals",
    superblocks_come_back: OsdSuperblock = "OSDSuperblock",
    log_entries_come_back: LogEntry = "LogEntry",
    listings_come_back: PgNlsResponse = "pg_nls_response_t",
    listings_of_a_namespace_come_back: PgLsResponse = "pg_ls_response_t",
    histograms_come_back: Pow2Hist = "pow2_hist_t",
    store_latencies_come_back: PerfStat = "objectstore_perf_stat_t",
    pg_shards_come_back: types::PgShard = "pg_shard_t",
    redirects_come_back: Redirect = "request_redirect_t",
}
