//! A PG's statistics (Ceph's pg_stat_t), kept with its info and reported to the monitor or manager.

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use messages::ObjectStatCollection;
use ops::IntervalSet;
use types::{EVersion, Epoch, OsdId, PgId, PoolId, UTime};

use crate::past_intervals::PgShard;

macro_rules! pg_stat {
    ($($(#[$doc:meta])* $f:ident: $t:ty),* $(,)?) => {
        /// A PG's statistics, as of version 26 (Pacific's).
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct PgStat {
            $($(#[$doc])* pub $f: $t,)*
        }

        impl PgStat {
            fn encode_fields(&self, e: &mut Encoder) {
                $(e.put(&self.$f);)*
            }

            fn decode_fields(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                // A struct's fields are evaluated as written: in the order of the wire.
                Ok(Self { $($f: d.get()?,)* })
            }
        }
    };
}
pg_stat! {
    /// The newest log entry.
    version: EVersion,
    /// Grows with each report.
    reported_seq: u64,
    /// The map at the last report.
    reported_epoch: Epoch,
    /// The low half of [`PgState`].
    state_low: u32,
    /// The log's tail.
    log_start: EVersion,
    /// The stored log's tail.
    ondisk_log_start: EVersion,
    created: Epoch,
    last_epoch_clean: Epoch,
    /// The PG it split off.
    parent: PgId,
    /// By so many bits.
    parent_split_bits: u32,
    /// The last scrub ended at.
    last_scrub: EVersion,
    /// And when.
    last_scrub_stamp: UTime,
    /// Counts over its objects.
    stats: ObjectStatCollection,
    /// Log entries.
    log_size: i64,
    /// Stored log entries.
    ondisk_log_size: i64,
    /// The up set.
    up: Vec<OsdId>,
    /// The acting set.
    acting: Vec<OsdId>,
    /// Last reported.
    last_fresh: UTime,
    /// State last changed.
    last_change: UTime,
    /// Last seen active.
    last_active: UTime,
    /// Last seen clean.
    last_clean: UTime,
    /// Last seen not stale.
    last_unstale: UTime,
    /// The mapping is so since.
    mapping_epoch: Epoch,
    /// The last deep scrub ended at.
    last_deep_scrub: EVersion,
    /// And when.
    last_deep_scrub_stamp: UTime,
    /// Counts are not to be trusted.
    stats_invalid: bool,
    /// When a scrub last found nothing.
    last_clean_scrub_stamp: UTime,
    last_became_active: UTime,
    /// A count is not to be trusted.
    dirty_stats_invalid: bool,
    /// The up set's primary.
    up_primary: OsdId,
    /// The acting set's primary.
    acting_primary: OsdId,
    /// A count is not to be trusted.
    omap_stats_invalid: bool,
    /// A count is not to be trusted.
    hitset_stats_invalid: bool,
    /// OSDs that hold peering up.
    blocked_by: Vec<OsdId>,
    /// Last seen with every copy.
    last_undegraded: UTime,
    /// Last seen with as many OSDs as wanted.
    last_fullsized: UTime,
    /// A count is not to be trusted.
    hitset_bytes_stats_invalid: bool,
    /// Last seen peered.
    last_peered: UTime,
    last_became_peered: UTime,
    /// A count is not to be trusted.
    pin_stats_invalid: bool,
    /// Snapshots to trim.
    snaptrimq_len: u32,
    /// The high half of [`PgState`].
    state_high: u32,
    /// Snapshots trimmed since the last report.
    purged_snaps: IntervalSet,
    /// A count is not to be trusted.
    manifest_stats_invalid: bool,
    /// OSDs that lack nothing.
    avail_no_missing: Vec<ShardWire>,
    /// How many objects are at which sets of OSDs.
    object_location_counts: BTreeMap<Vec<ShardWire>, i32>,
}

/// Bits of a PG's state (PG_STATE_*).
pub struct PgState;

impl PgState {
    /// Being created.
    pub const CREATING: u64 = 1 << 0;
    /// Serves requests.
    pub const ACTIVE: u64 = 1 << 1;
    /// Every copy is where it belongs.
    pub const CLEAN: u64 = 1 << 2;
    pub const PEERING: u64 = 1 << 12;
    /// Not known to be clean or active.
    pub const UNKNOWN: u64 = 0;
}

/// A pg_shard_t inside statistics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShardWire(pub PgShard);

impl Encode for ShardWire {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
        });
    }
}
impl Decode for ShardWire {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "pg_shard_t", |d, _| Ok(Self(d.get()?)))
    }
}

impl PgStat {
    /// The state's bits.
    pub fn state(&self) -> u64 {
        u64::from(self.state_low) | u64::from(self.state_high) << 32
    }

    /// Sets the state's bits.
    pub fn set_state(&mut self, state: u64) {
        (self.state_low, self.state_high) = (state as u32, (state >> 32) as u32);
    }
}

impl Default for PgStat {
    fn default() -> Self {
        let none = OsdId(-1);
        Self {
            version: EVersion::default(),
            reported_seq: 0,
            reported_epoch: Epoch(0),
            state_low: 0,
            log_start: EVersion::default(),
            ondisk_log_start: EVersion::default(),
            created: Epoch(0),
            last_epoch_clean: Epoch(0),
            parent: PgId { pool: PoolId(0), seed: 0 },
            parent_split_bits: 0,
            last_scrub: EVersion::default(),
            last_scrub_stamp: UTime::default(),
            stats: ObjectStatCollection::default(),
            log_size: 0,
            ondisk_log_size: 0,
            up: Vec::new(),
            acting: Vec::new(),
            last_fresh: UTime::default(),
            last_change: UTime::default(),
            last_active: UTime::default(),
            last_clean: UTime::default(),
            last_unstale: UTime::default(),
            mapping_epoch: Epoch(0),
            last_deep_scrub: EVersion::default(),
            last_deep_scrub_stamp: UTime::default(),
            stats_invalid: false,
            last_clean_scrub_stamp: UTime::default(),
            last_became_active: UTime::default(),
            dirty_stats_invalid: false,
            up_primary: none,
            acting_primary: none,
            omap_stats_invalid: false,
            hitset_stats_invalid: false,
            blocked_by: Vec::new(),
            last_undegraded: UTime::default(),
            last_fullsized: UTime::default(),
            hitset_bytes_stats_invalid: false,
            last_peered: UTime::default(),
            last_became_peered: UTime::default(),
            pin_stats_invalid: false,
            snaptrimq_len: 0,
            state_high: 0,
            purged_snaps: IntervalSet::new(),
            manifest_stats_invalid: false,
            avail_no_missing: Vec::new(),
            object_location_counts: BTreeMap::new(),
        }
    }
}

impl Encode for PgStat {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(26, 22, |e| self.encode_fields(e));
    }
}
impl Decode for PgStat {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(26, "pg_stat_t", |d, v| match v {
            0..26 => Err(DecodeError::TooOld { what: "pg_stat_t", version: v }),
            _ => Self::decode_fields(d),
        })
    }
}
