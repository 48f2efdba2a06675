//! MPGStatsAck: says which reports have been taken in.

use std::collections::BTreeMap;

use types::{Epoch, PgId};

use crate::codec::payload;

/// Ceph's MPGStatsAck.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgStatsAck {
    /// The report's transaction id.
    pub tid: u64,
    /// By placement group: the report's count and the map that it was made with.
    pub pg_stat: BTreeMap<PgId, (u64, Epoch)>,
}

payload!(PgStatsAck = PG_STATS_ACK, version 1, compat 1, [pg_stat], outside [tid]);
