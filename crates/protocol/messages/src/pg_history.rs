//! A placement group's history (pg_history_t).

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EVersion, Epoch, UTime};

use crate::TimeSpan;

/// Ceph's pg_history_t, version 10 (9 without the last field).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PgHistory {
    /// When the placement group was made.
    pub epoch_created: Epoch,
    /// When it last went active, as far as known.
    pub last_epoch_started: Epoch,
    /// When it was last clean.
    pub last_epoch_clean: Epoch,
    /// When it was last split or split off.
    pub last_epoch_split: Epoch,
    /// The first epoch of the interval in which it is.
    pub same_interval_since: Epoch,
    /// Since when the up set has been the same.
    pub same_up_since: Epoch,
    /// Since when the primary has been the same.
    pub same_primary_since: Epoch,
    /// The log when it was last scrubbed.
    pub last_scrub: EVersion,
    /// When it was last scrubbed.
    pub last_scrub_stamp: UTime,
    /// The log when it was last scrubbed deeply.
    pub last_deep_scrub: EVersion,
    /// When it was last scrubbed deeply.
    pub last_deep_scrub_stamp: UTime,
    /// When a scrub last found nothing.
    pub last_clean_scrub_stamp: UTime,
    /// When the pool was last full.
    pub last_epoch_marked_full: Epoch,
    /// The first epoch of the interval of `last_epoch_started`.
    pub last_interval_started: Epoch,
    /// The first epoch of the interval of `last_epoch_clean`.
    pub last_interval_clean: Epoch,
    /// When the pool was made.
    pub epoch_pool_created: Epoch,
    /// How long earlier intervals may still serve reads.
    pub prior_readable_until_ub: Option<TimeSpan>,
}

impl PgHistory {
    /// Of a placement group that is made in the epoch `created`, at the time `stamp`, with its pool.
    pub fn created(created: Epoch, stamp: UTime) -> Self {
        Self {
            epoch_created: created,
            epoch_pool_created: created,
            same_interval_since: created,
            same_up_since: created,
            same_primary_since: created,
            last_scrub_stamp: stamp,
            last_deep_scrub_stamp: stamp,
            last_clean_scrub_stamp: stamp,
            prior_readable_until_ub: Some(TimeSpan::default()),
            ..Self::default()
        }
    }
}

const NAME: &str = "pg_history_t";

impl Encode for PgHistory {
    fn encode(&self, e: &mut Encoder) {
        let version = if self.prior_readable_until_ub.is_some() { 10 } else { 9 };
        e.versioned(version, 4, |e| {
            e.put(&self.epoch_created).put(&self.last_epoch_started).put(&self.last_epoch_clean);
            e.put(&self.last_epoch_split).put(&self.same_interval_since).put(&self.same_up_since);
            e.put(&self.same_primary_since).put(&self.last_scrub).put(&self.last_scrub_stamp);
            e.put(&self.last_deep_scrub).put(&self.last_deep_scrub_stamp).put(&self.last_clean_scrub_stamp);
            e.put(&self.last_epoch_marked_full).put(&self.last_interval_started).put(&self.last_interval_clean);
            e.put(&self.epoch_pool_created);
            if let Some(span) = &self.prior_readable_until_ub {
                e.put(span);
            }
        });
    }
}
impl Decode for PgHistory {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(10, NAME, |d, version| {
            if version < 9 {
                return Err(DecodeError::TooOld { what: NAME, version });
            }
            Ok(Self {
                epoch_created: d.get()?,
                last_epoch_started: d.get()?,
                last_epoch_clean: d.get()?,
                last_epoch_split: d.get()?,
                same_interval_since: d.get()?,
                same_up_since: d.get()?,
                same_primary_since: d.get()?,
                last_scrub: d.get()?,
                last_scrub_stamp: d.get()?,
                last_deep_scrub: d.get()?,
                last_deep_scrub_stamp: d.get()?,
                last_clean_scrub_stamp: d.get()?,
                last_epoch_marked_full: d.get()?,
                last_interval_started: d.get()?,
                last_interval_clean: d.get()?,
                epoch_pool_created: d.get()?,
                prior_readable_until_ub: if version >= 10 { Some(d.get()?) } else { None },
            })
        })
    }
}
