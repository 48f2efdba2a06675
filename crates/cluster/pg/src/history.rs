//! When a PG's life took its turns (Ceph's pg_history_t).

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EVersion, Epoch, UTime};

/// The epochs that peering decides by, and the last scrubs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PgHistory {
    /// The PG was created (or split off) in.
    pub epoch_created: Epoch,
    /// Its pool was created in.
    pub epoch_pool_created: Epoch,
    /// Lower bound of the last epoch in which it went active.
    pub last_epoch_started: Epoch,
    /// First epoch of that interval.
    pub last_interval_started: Epoch,
    /// Lower bound of the last epoch in which it was clean.
    pub last_epoch_clean: Epoch,
    /// First epoch of that interval.
    pub last_interval_clean: Epoch,
    /// It last split in.
    pub last_epoch_split: Epoch,
    /// Its pool or cluster was last marked full in.
    pub last_epoch_marked_full: Epoch,
    /// The interval's first epoch.
    pub same_interval_since: Epoch,
    /// The up set is the same since.
    pub same_up_since: Epoch,
    /// The acting primary is the same since.
    pub same_primary_since: Epoch,
    /// The last scrub ended at.
    pub last_scrub: EVersion,
    /// And when.
    pub last_scrub_stamp: UTime,
    /// The last deep scrub ended at.
    pub last_deep_scrub: EVersion,
    /// And when.
    pub last_deep_scrub_stamp: UTime,
    /// When a scrub last found nothing.
    pub last_clean_scrub_stamp: UTime,
    /// How long an earlier interval may still serve reads: seconds and nanoseconds.
    pub prior_readable_until_ub: (i32, i32),
}

impl Encode for PgHistory {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(10, 4, |e| {
            e.put(&self.epoch_created).put(&self.last_epoch_started).put(&self.last_epoch_clean);
            e.put(&self.last_epoch_split).put(&self.same_interval_since).put(&self.same_up_since);
            e.put(&self.same_primary_since).put(&self.last_scrub).put(&self.last_scrub_stamp);
            e.put(&self.last_deep_scrub).put(&self.last_deep_scrub_stamp).put(&self.last_clean_scrub_stamp);
            e.put(&self.last_epoch_marked_full).put(&self.last_interval_started);
            e.put(&self.last_interval_clean).put(&self.epoch_pool_created).put(&self.prior_readable_until_ub);
        });
    }
}
impl Decode for PgHistory {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(10, "pg_history_t", |d, v| match v {
            0..10 => Err(DecodeError::TooOld { what: "pg_history_t", version: v }),
            _ => Ok(Self {
                // Fields in the order they are written.
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
                prior_readable_until_ub: d.get()?,
            }),
        })
    }
}
