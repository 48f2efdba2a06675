//! Who may have written since a placement group was last clean.

use std::collections::BTreeSet;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Epoch, PgShard};

use crate::codec::fields;

/// The byte before what follows: nothing, or the compact form (1 was the form before Luminous).
const KIND_NONE: u8 = 0;
const KIND_COMPACT: u8 = 2;

/// An interval in which the PG may have accepted writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastInterval {
    pub first: Epoch,
    pub last: Epoch,
    pub acting: BTreeSet<PgShard>,
}
fields!(PastInterval "compact_interval_t" version 1, compat 1, [first, last, acting]);

/// The intervals since the PG was last clean (Ceph's `PastIntervals`), in the compact form, the only one since Luminous.
/// `None` inside was never set.
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
fields!(CompactIntervals "pi_compact_rep" version 1, compat 1, [first, last, all_participants, intervals]);

impl PastIntervals {
    /// Adds an interval that has ended. A later one whose members all acted in an earlier one makes that needless:
    /// any OSD of the later one knows the writes of the earlier.
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

impl Encode for PastIntervals {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| match &self.0 {
            None => drop(e.put(&KIND_NONE)),
            Some(all) => drop(e.put(&KIND_COMPACT).put(all)),
        });
    }
}
impl Decode for PastIntervals {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "PastIntervals", |d, _| match d.get()? {
            KIND_NONE => Ok(Self(None)),
            KIND_COMPACT => Ok(Self(Some(d.get()?))),
            kind => Err(DecodeError::BadValue { what: "PastIntervals kind", value: kind.into() }),
        })
    }
}
