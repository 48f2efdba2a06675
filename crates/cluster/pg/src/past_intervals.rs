//! Who may have written since the PG was last clean (Ceph's PastIntervals, its compact form).

use std::collections::BTreeSet;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Epoch, OsdId, ShardId};

/// An OSD's share of a PG (Ceph's pg_shard_t).
pub type PgShard = (OsdId, ShardId);

/// An interval in which the PG may have accepted writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastInterval {
    pub first: Epoch,
    pub last: Epoch,
    pub acting: BTreeSet<PgShard>,
}

/// The intervals since the PG was last clean. `None` inside was never set.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PastIntervals(pub Option<CompactIntervals>);

/// The compact form: intervals that a later one makes needless are gone.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CompactIntervals {
    /// First epoch covered.
    pub first: Epoch,
    /// Last epoch covered.
    pub last: Epoch,
    /// Everyone who acted.
    pub all_participants: BTreeSet<PgShard>,
    /// The intervals that matter, oldest first.
    pub intervals: Vec<PastInterval>,
}

impl PastIntervals {
    /// Adds an interval that has ended. A later one whose members all acted in an earlier one makes that needless:
    /// whoever is found of the later knows what the earlier wrote.
    pub fn add(&mut self, interval: PastInterval, maybe_went_rw: bool) {
        let all = self.0.get_or_insert_default();
        if all.first == Epoch(0) {
            all.first = interval.first;
        }
        all.last = interval.last;
        all.all_participants.extend(&interval.acting);
        if maybe_went_rw {
            all.intervals.retain(|old| !interval.acting.is_subset(&old.acting));
            all.intervals.push(interval);
        }
    }

    /// Forgets everything: the PG is clean.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

impl Encode for PastInterval {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.first).put(&self.last).put(&shards(&self.acting));
        });
    }
}
impl Decode for PastInterval {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "compact_interval_t", |d, _| {
            Ok(Self { first: d.get()?, last: d.get()?, acting: unshards(d.get()?) })
        })
    }
}

/// A shard's own envelope on the wire.
struct Shard(PgShard);

impl Encode for Shard {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
        });
    }
}
impl Decode for Shard {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "pg_shard_t", |d, _| Ok(Self(d.get()?)))
    }
}

fn shards(set: &BTreeSet<PgShard>) -> Vec<Shard> {
    set.iter().copied().map(Shard).collect()
}

fn unshards(list: Vec<Shard>) -> BTreeSet<PgShard> {
    list.into_iter().map(|s| s.0).collect()
}

impl Encode for PastIntervals {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            let Some(all) = &self.0 else {
                e.put(&0u8);
                return;
            };
            e.put(&2u8).versioned(1, 1, |e| {
                e.put(&all.first).put(&all.last).put(&shards(&all.all_participants)).put(&all.intervals);
            });
        });
    }
}
impl Decode for PastIntervals {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "PastIntervals", |d, _| match d.get::<u8>()? {
            0 => Ok(Self(None)),
            2 => d.versioned(1, "pi_compact_rep", |d, _| {
                let (first, last, all) = (d.get()?, d.get()?, d.get()?);
                Ok(Self(Some(CompactIntervals {
                    first,
                    last,
                    all_participants: unshards(all),
                    intervals: d.get()?,
                })))
            }),
            kind => Err(DecodeError::BadValue { what: "PastIntervals kind", value: kind.into() }),
        })
    }
}
