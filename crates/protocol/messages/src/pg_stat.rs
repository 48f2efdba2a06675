//! A placement group's statistics (pg_stat_t), as OSDs report them.

use std::collections::{BTreeMap, BTreeSet};

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EVersion, Epoch, IntervalSet, OsdId, PgId, PgShard, PoolId, UTime};

use crate::codec::fields;
use crate::{ObjectStatCollection, PgState};

/// Ceph's pg_stat_t. 16.2 writes version 26; what later releases add is optional and written when there.
#[derive(Clone, PartialEq, Debug)]
pub struct PgStat {
    /// The last entry of the log.
    pub version: EVersion,
    /// The primary's count of reports.
    pub reported_seq: u64,
    /// The primary's map when it reported.
    pub reported_epoch: Epoch,
    /// What it is at.
    pub state: PgState,
    /// The log's start.
    pub log_start: EVersion,
    /// The log's start on disk.
    pub ondisk_log_start: EVersion,
    /// When the placement group was made.
    pub created: Epoch,
    /// When it was last clean.
    pub last_epoch_clean: Epoch,
    /// What it was split from.
    pub parent: PgId,
    /// By how many bits.
    pub parent_split_bits: u32,
    /// The log when it was last scrubbed.
    pub last_scrub: EVersion,
    /// When it was last scrubbed.
    pub last_scrub_stamp: UTime,
    /// Counts over its objects.
    pub stats: ObjectStatCollection,
    /// Log entries.
    pub log_size: i64,
    /// Log entries on disk.
    pub ondisk_log_size: i64,
    /// Where CRUSH puts it.
    pub up: Vec<OsdId>,
    /// Who serves it.
    pub acting: Vec<OsdId>,
    /// When this was reported.
    pub last_fresh: UTime,
    /// When the state last changed.
    pub last_change: UTime,
    /// When it was last active.
    pub last_active: UTime,
    /// When it was last clean.
    pub last_clean: UTime,
    /// When it was last not stale.
    pub last_unstale: UTime,
    /// When `up` and `acting` last changed.
    pub mapping_epoch: Epoch,
    /// The log when it was last scrubbed deeply.
    pub last_deep_scrub: EVersion,
    /// When it was last scrubbed deeply.
    pub last_deep_scrub_stamp: UTime,
    /// Whether counts are only estimates, after a split.
    pub stats_invalid: bool,
    /// When a scrub last found nothing.
    pub last_clean_scrub_stamp: UTime,
    /// When it last became active.
    pub last_became_active: UTime,
    /// Whether the count of dirty objects is not to be trusted.
    pub dirty_stats_invalid: bool,
    /// The first of `up`, -1 for none.
    pub up_primary: OsdId,
    /// The first of `acting`, -1 for none.
    pub acting_primary: OsdId,
    /// Whether omap counts are not to be trusted.
    pub omap_stats_invalid: bool,
    /// Whether hit set counts are not to be trusted.
    pub hitset_stats_invalid: bool,
    /// OSDs that peering waits for.
    pub blocked_by: Vec<OsdId>,
    /// When it was last not degraded.
    pub last_undegraded: UTime,
    /// When it last had its full size.
    pub last_fullsized: UTime,
    /// Whether hit set bytes are not to be trusted.
    pub hitset_bytes_stats_invalid: bool,
    /// When it was last peered.
    pub last_peered: UTime,
    /// When it last became peered.
    pub last_became_peered: UTime,
    /// Whether the count of pinned objects is not to be trusted.
    pub pin_stats_invalid: bool,
    /// Snapshots that wait to be trimmed.
    pub snaptrimq_len: u32,
    /// Snapshots that it has lately trimmed.
    pub purged_snaps: IntervalSet,
    /// Whether manifest counts are not to be trusted.
    pub manifest_stats_invalid: bool,
    /// Members that lack nothing.
    pub avail_no_missing: Vec<PgShard>,
    /// How many objects are on which members.
    pub object_location_counts: BTreeMap<BTreeSet<PgShard>, i32>,
    /// From version 27 on.
    pub scrub: Option<ScrubStatus>,
    /// From version 28 on.
    pub timing: Option<PgTiming>,
    /// Duplicates kept behind the log, from version 29 on.
    pub log_dups_size: Option<i64>,
    /// From version 30 on.
    pub reserving: Option<ScrubReserving>,
}

/// The scrub scheduler's view, in pg_stat_t from version 27 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubStatus {
    /// Seconds that the last scrub took.
    pub last_duration: i32,
    /// When the next is due.
    pub scheduled_at: UTime,
    /// Seconds that the running one has taken.
    pub duration_seconds: i32,
    /// pg_scrub_sched_status_t.
    pub status: u16,
    /// Whether one runs.
    pub is_active: bool,
    /// Whether it is deep.
    pub is_deep: bool,
    /// Whether it was the schedule that started it.
    pub is_periodic: bool,
    pub objects_scrubbed: i64,
}
fields!(ScrubStatus [
    last_duration, scheduled_at, duration_seconds, status, is_active, is_deep, is_periodic, objects_scrubbed,
]);

/// Durations in pg_stat_t from version 28 on.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PgTiming {
    /// Seconds that the last scrub took.
    pub scrub_duration: f64,
    pub objects_trimmed: i64,
    /// Seconds that trimming took.
    pub snaptrim_duration: f64,
}
fields!(PgTiming [scrub_duration, objects_trimmed, snaptrim_duration]);

/// A scrub's reservations, in pg_stat_t from version 30 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubReserving {
    /// The OSD whose answer is awaited.
    pub osd_to_respond: u16,
    /// Which of the replicas that is.
    pub ordinal: u8,
    /// How many are to be reserved.
    pub num_to_reserve: u8,
}
fields!(ScrubReserving [osd_to_respond, ordinal, num_to_reserve]);

const NAME: &str = "pg_stat_t";
/// What 16.2 writes.
const VERSION_BASE: u8 = 26;

impl PgStat {
    /// The version that is written: as far as the optional parts go without a gap.
    fn version(&self) -> u8 {
        let parts =
            [self.scrub.is_some(), self.timing.is_some(), self.log_dups_size.is_some(), self.reserving.is_some()];
        VERSION_BASE + parts.iter().take_while(|&&there| there).count() as u8
    }

    fn encode_base(&self, e: &mut Encoder) {
        e.put(&self.version).put(&self.reported_seq).put(&self.reported_epoch).put(&(self.state.0 as u32));
        e.put(&self.log_start).put(&self.ondisk_log_start).put(&self.created).put(&self.last_epoch_clean);
        e.put(&self.parent).put(&self.parent_split_bits).put(&self.last_scrub).put(&self.last_scrub_stamp);
        e.put(&self.stats).put(&self.log_size).put(&self.ondisk_log_size).put(&self.up).put(&self.acting);
        e.put(&self.last_fresh).put(&self.last_change).put(&self.last_active).put(&self.last_clean);
        e.put(&self.last_unstale).put(&self.mapping_epoch).put(&self.last_deep_scrub);
        e.put(&self.last_deep_scrub_stamp).put(&self.stats_invalid).put(&self.last_clean_scrub_stamp);
        e.put(&self.last_became_active).put(&self.dirty_stats_invalid).put(&self.up_primary);
        e.put(&self.acting_primary).put(&self.omap_stats_invalid).put(&self.hitset_stats_invalid);
        e.put(&self.blocked_by).put(&self.last_undegraded).put(&self.last_fullsized);
        e.put(&self.hitset_bytes_stats_invalid).put(&self.last_peered).put(&self.last_became_peered);
        e.put(&self.pin_stats_invalid).put(&self.snaptrimq_len).put(&((self.state.0 >> 32) as u32));
        e.put(&self.purged_snaps).put(&self.manifest_stats_invalid).put(&self.avail_no_missing);
        e.put(&self.object_location_counts);
    }

    /// The fields of version 26, in their order on the wire but for the state's upper half.
    fn decode_base(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut stat = Self {
            version: d.get()?,
            reported_seq: d.get()?,
            reported_epoch: d.get()?,
            state: PgState(d.get::<u32>()?.into()),
            log_start: d.get()?,
            ondisk_log_start: d.get()?,
            created: d.get()?,
            last_epoch_clean: d.get()?,
            parent: d.get()?,
            parent_split_bits: d.get()?,
            last_scrub: d.get()?,
            last_scrub_stamp: d.get()?,
            stats: d.get()?,
            log_size: d.get()?,
            ondisk_log_size: d.get()?,
            up: d.get()?,
            acting: d.get()?,
            last_fresh: d.get()?,
            last_change: d.get()?,
            last_active: d.get()?,
            last_clean: d.get()?,
            last_unstale: d.get()?,
            mapping_epoch: d.get()?,
            last_deep_scrub: d.get()?,
            last_deep_scrub_stamp: d.get()?,
            stats_invalid: d.get()?,
            last_clean_scrub_stamp: d.get()?,
            last_became_active: d.get()?,
            dirty_stats_invalid: d.get()?,
            up_primary: d.get()?,
            acting_primary: d.get()?,
            omap_stats_invalid: d.get()?,
            hitset_stats_invalid: d.get()?,
            blocked_by: d.get()?,
            last_undegraded: d.get()?,
            last_fullsized: d.get()?,
            hitset_bytes_stats_invalid: d.get()?,
            last_peered: d.get()?,
            last_became_peered: d.get()?,
            pin_stats_invalid: d.get()?,
            snaptrimq_len: d.get()?,
            ..Self::default()
        };
        stat.state.0 |= u64::from(d.get::<u32>()?) << 32;
        stat.purged_snaps = d.get()?;
        stat.manifest_stats_invalid = d.get()?;
        stat.avail_no_missing = d.get()?;
        stat.object_location_counts = d.get()?;
        Ok(stat)
    }
}

impl Default for PgStat {
    /// A placement group of which nothing is known yet.
    fn default() -> Self {
        let (none, parent) = (OsdId(-1), PgId { pool: PoolId(0), seed: 0 });
        Self {
            version: EVersion::default(),
            reported_seq: 0,
            reported_epoch: Epoch(0),
            state: PgState::default(),
            log_start: EVersion::default(),
            ondisk_log_start: EVersion::default(),
            created: Epoch(0),
            last_epoch_clean: Epoch(0),
            parent,
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
            purged_snaps: IntervalSet::new(),
            manifest_stats_invalid: false,
            avail_no_missing: Vec::new(),
            object_location_counts: BTreeMap::new(),
            scrub: None,
            timing: None,
            log_dups_size: None,
            reserving: None,
        }
    }
}

impl Encode for PgStat {
    fn encode(&self, e: &mut Encoder) {
        let version = self.version();
        e.versioned(version, 22, |e| {
            self.encode_base(e);
            if let (Some(scrub), 27..) = (&self.scrub, version) {
                e.put(scrub);
            }
            if let (Some(timing), 28..) = (&self.timing, version) {
                e.put(timing);
            }
            if let (Some(size), 29..) = (&self.log_dups_size, version) {
                e.put(size);
            }
            if let (Some(reserving), 30..) = (&self.reserving, version) {
                e.put(reserving);
            }
        });
    }
}
impl Decode for PgStat {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(30, NAME, |d, version| {
            if version < VERSION_BASE {
                return Err(DecodeError::TooOld { what: NAME, version });
            }
            let mut stat = Self::decode_base(d)?;
            if version >= 27 {
                stat.scrub = Some(d.get()?);
            }
            if version >= 28 {
                stat.timing = Some(d.get()?);
            }
            if version >= 29 {
                stat.log_dups_size = Some(d.get()?);
            }
            if version >= 30 {
                stat.reserving = Some(d.get()?);
            }
            Ok(stat)
        })
    }
}
