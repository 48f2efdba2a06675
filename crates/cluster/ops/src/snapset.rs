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

/// Where a snapshot of an object is to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundSnap {
    /// The head has not changed since.
    Head,
    Clone(SnapId),
    /// The object did not exist, or the snapshot is removed.
    Nothing,
}

impl SnapSet {
    /// The object that has a snapshot's state. `removed` are the pool's snapshots whose removal has begun: clones may
    /// still be there for them.
    pub fn find(&self, snap: SnapId, removed: Option<&IntervalSet>) -> FoundSnap {
        if snap.0 > self.seq {
            return FoundSnap::Head;
        }
        let clone = self.clones.iter().find(|clone| **clone >= snap);
        let preserves = |clone: &&SnapId| self.clone_snaps.get(clone).is_some_and(|of| of.contains(&snap));
        match clone.filter(preserves) {
            Some(clone) if !removed.is_some_and(|removed| removed.contains(snap.0)) => {
                FoundSnap::Clone(*clone)
            }
            _ => FoundSnap::Nothing,
        }
    }

    /// The clone of exactly this name, or the head of which it will be one (CEPH_OSD_FLAG_MAP_SNAP_CLONE).
    pub fn find_clone(&self, id: SnapId) -> FoundSnap {
        match (id.0 > self.seq, self.clones.contains(&id)) {
            (true, _) => FoundSnap::Head,
            (false, true) => FoundSnap::Clone(id),
            (false, false) => FoundSnap::Nothing,
        }
    }

    /// The bytes that a clone shares with the head.
    pub fn shared_since(&self, clone: SnapId) -> IntervalSet {
        let mut newer = self.clone_overlap.range(clone..).map(|(_, overlap)| overlap);
        let mut shared = newer.next().cloned().unwrap_or_default();
        newer.for_each(|overlap| shared.intersect(overlap));
        shared
    }

    /// The bytes that are counted for a clone: those that it does not share with the next newer one.
    pub fn clone_bytes(&self, clone: SnapId) -> u64 {
        let size = self.clone_size.get(&clone).copied().unwrap_or(0);
        size.saturating_sub(self.clone_overlap.get(&clone).map_or(0, IntervalSet::size))
    }

    /// Forgets a clone. What the one before it shares from then on, it shares with the one behind.
    pub fn remove_clone(&mut self, clone: SnapId) {
        // Removing it twice changes nothing.
        let Some(at) = self.clones.iter().position(|c| *c == clone) else { return };
        self.clones.remove(at);
        self.clone_size.remove(&clone);
        self.clone_snaps.remove(&clone);
        let overlap = self.clone_overlap.remove(&clone).unwrap_or_default();
        let older = at.checked_sub(1).and_then(|at| self.clones.get(at));
        if let Some(shared) = older.and_then(|older| self.clone_overlap.get_mut(older)) {
            shared.intersect(&overlap);
        }
    }
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
