//! An object's snapshots (Ceph's SnapSet), kept with its head in the attribute "ss".

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{IntervalSet, SnapId};

/// The clones of an object and what they share with their successor.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SnapSet {
    /// The newest snapshot that a write of this object has seen.
    pub seq: u64,
    /// Snapshots as of `seq`, newest first (written only by releases before Octopus).
    pub snaps: Vec<SnapId>,
    /// The clones, ascending; each is named by its newest snapshot.
    pub clones: Vec<SnapId>,
    /// What each clone shares with the next newer one.
    pub clone_overlap: BTreeMap<SnapId, IntervalSet>,
    /// Each clone's size in bytes.
    pub clone_size: BTreeMap<SnapId, u64>,
    /// Each clone's snapshots, newest first.
    pub clone_snaps: BTreeMap<SnapId, Vec<SnapId>>,
}

impl Encode for SnapSet {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(3, 2, |e| {
            // The constant says that the head exists: one without a head is no longer made.
            e.put(&self.seq).put(&true).put(&self.snaps).put(&self.clones);
            e.put(&self.clone_overlap).put(&self.clone_size).put(&self.clone_snaps);
        });
    }
}
impl Decode for SnapSet {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(3, "SnapSet", |d, v| {
            if v < 3 {
                return Err(DecodeError::TooOld { what: "SnapSet", version: v });
            }
            let seq = d.get()?;
            d.get::<bool>()?;
            let (snaps, clones, clone_overlap) = (d.get()?, d.get()?, d.get()?);
            Ok(Self { seq, snaps, clones, clone_overlap, clone_size: d.get()?, clone_snaps: d.get()? })
        })
    }
}
