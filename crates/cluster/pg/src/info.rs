//! What a PG knows of itself (Ceph's pg_info_t and pg_fast_info_t), kept with its pgmeta object.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use messages::{PgHistory, PgStat, TimeSpan};
use types::{EVersion, Epoch, HObject, IntervalSet, SpgId, UTime};

/// Names of the pgmeta object's attributes that hold a PG's own records.
pub struct InfoAttr;

impl InfoAttr {
    /// A whole [`PgInfo`].
    pub const INFO: &'static str = "_info";
    /// [`messages::PastIntervals`].
    pub const PAST_INTERVALS: &'static str = "_biginfo";
}

/// One hit set (Ceph's pg_hit_set_info_t). Not used; carried.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct HitSetInfo {
    begin: UTime,
    end: UTime,
    version: EVersion,
    using_gmt: bool,
}

/// Hit sets (Ceph's pg_hit_set_history_t). Not used; carried.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct HitSetHistory {
    current_last_update: EVersion,
    dummy_stamp: UTime,
    dummy_info: HitSetInfo,
    history: Vec<HitSetInfo>,
}

impl Encode for HitSetInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.begin).put(&self.end).put(&self.version).put(&self.using_gmt);
        });
    }
}
impl Decode for HitSetInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "pg_hit_set_info_t", |d, v| match v {
            0..2 => Err(DecodeError::TooOld { what: "pg_hit_set_info_t", version: v }),
            _ => Ok(Self { begin: d.get()?, end: d.get()?, version: d.get()?, using_gmt: d.get()? }),
        })
    }
}
impl Encode for HitSetHistory {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.current_last_update).put(&self.dummy_stamp).put(&self.dummy_info).put(&self.history);
        });
    }
}
impl Decode for HitSetHistory {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "pg_hit_set_history_t", |d, _| {
            let (current_last_update, dummy_stamp, dummy_info) = (d.get()?, d.get()?, d.get()?);
            Ok(Self { current_last_update, dummy_stamp, dummy_info, history: d.get()? })
        })
    }
}

/// What a PG knows of itself (Ceph's `pg_info_t`).
#[derive(Clone, PartialEq, Debug)]
pub struct PgInfo {
    /// The PG.
    pub pgid: SpgId,
    /// The newest log entry.
    pub last_update: EVersion,
    /// Nothing up to here is missing.
    pub last_complete: EVersion,
    /// The version before the log's first entry.
    pub log_tail: EVersion,
    /// The last epoch in which it went active here.
    pub last_epoch_started: Epoch,
    /// That interval's first epoch.
    pub last_interval_started: Epoch,
    /// The newest user version of any object.
    pub last_user_version: u64,
    /// Objects before this one are here; the maximum when all are.
    pub last_backfill: HObject,
    /// Snapshots that are trimmed.
    pub purged_snaps: IntervalSet,
    /// Statistics.
    pub stats: PgStat,
    /// The PG's history.
    pub history: PgHistory,
    /// Not used.
    pub hit_set: HitSetHistory,
}

impl PgInfo {
    /// A PG that was just made.
    pub fn new(pgid: SpgId) -> Self {
        Self {
            pgid,
            last_update: EVersion::default(),
            last_complete: EVersion::default(),
            log_tail: EVersion::default(),
            last_epoch_started: Epoch(0),
            last_interval_started: Epoch(0),
            last_user_version: 0,
            last_backfill: HObject::max(),
            purged_snaps: IntervalSet::new(),
            stats: PgStat::default(),
            history: PgHistory {
                // As every release since 15.2 writes it.
                prior_readable_until_ub: Some(TimeSpan::default()),
                ..PgHistory::default()
            },
            hit_set: HitSetHistory::default(),
        }
    }
}

impl Encode for PgInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(32, 26, |e| {
            e.put(&self.pgid.pg).put(&self.last_update).put(&self.last_complete).put(&self.log_tail);
            e.put(&HObject::min()); // Once last_backfill in another order.
            e.put(&self.stats).put(&self.history).put(&self.purged_snaps).put(&self.last_epoch_started);
            e.put(&self.last_user_version).put(&self.hit_set).put(&self.pgid.shard).put(&self.last_backfill);
            e.put(&true).put(&self.last_interval_started);
        });
    }
}
impl Decode for PgInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(32, "pg_info_t", |d, v| match v {
            0..32 => Err(DecodeError::TooOld { what: "pg_info_t", version: v }),
            _ => decode_info(d),
        })
    }
}

fn decode_info(d: &mut Decoder<'_>) -> Result<PgInfo, DecodeError> {
    let (pg, last_update, last_complete, log_tail) = (d.get()?, d.get()?, d.get()?, d.get()?);
    d.get::<HObject>()?;
    let (stats, history, purged_snaps, last_epoch_started) = (d.get()?, d.get()?, d.get()?, d.get()?);
    let (last_user_version, hit_set, shard, last_backfill) = (d.get()?, d.get()?, d.get()?, d.get()?);
    d.get::<bool>()?;
    Ok(PgInfo {
        pgid: SpgId { pg, shard },
        last_update,
        last_complete,
        log_tail,
        last_epoch_started,
        last_interval_started: d.get()?,
        last_user_version,
        last_backfill,
        purged_snaps,
        stats,
        history,
        hit_set,
    })
}

/// The small part of an info that nearly every request changes: written instead of the whole when nothing else did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FastInfo {
    last_update: EVersion,
    last_complete: EVersion,
    last_user_version: u64,
    /// version, then the sums in the order of [`FastInfo::of`].
    stats_version: EVersion,
    log_size: i64,
    sums: [i64; 8],
}

impl FastInfo {
    /// What `info` has of it.
    pub fn of(info: &PgInfo) -> Self {
        let s = &info.stats.stats.sum;
        Self {
            last_update: info.last_update,
            last_complete: info.last_complete,
            last_user_version: info.last_user_version,
            stats_version: info.stats.version,
            log_size: info.stats.log_size,
            sums: [
                s.num_bytes,
                s.num_objects,
                s.num_object_copies,
                s.num_rd,
                s.num_rd_kb,
                s.num_wr,
                s.num_wr_kb,
                s.num_objects_dirty,
            ],
        }
    }

    /// Brings `info`, the whole that was written last, up to date with what was written after it.
    pub fn apply_to(&self, info: &mut PgInfo) {
        info.last_update = self.last_update;
        info.last_complete = self.last_complete;
        info.last_user_version = self.last_user_version;
        info.stats.version = self.stats_version;
        info.stats.log_size = self.log_size;
        info.stats.ondisk_log_size = self.log_size;
        let s = &mut info.stats.stats.sum;
        [
            s.num_bytes,
            s.num_objects,
            s.num_object_copies,
            s.num_rd,
            s.num_rd_kb,
            s.num_wr,
            s.num_wr_kb,
            s.num_objects_dirty,
        ] = self.sums;
    }
}

impl Encode for FastInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.last_update).put(&self.last_complete).put(&self.last_user_version);
            e.put(&self.stats_version).put(&self.log_size);
            self.sums.iter().for_each(|n| {
                e.put(n);
            });
        });
    }
}
impl Decode for FastInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "fast info", |d, _| {
            let (last_update, last_complete, last_user_version) = (d.get()?, d.get()?, d.get()?);
            let (stats_version, log_size) = (d.get()?, d.get()?);
            let mut sums = [0; 8];
            for n in &mut sums {
                *n = d.get()?;
            }
            Ok(Self { last_update, last_complete, last_user_version, stats_version, log_size, sums })
        })
    }
}
