//! The order for a scrub, and what the PG reports of the scrub.

use core::time::Duration;

use buffer::Piece;
use maps::{MapFlags, OsdMap, PoolFlags};
use store::{Attrs, ReadOutcome, StoreError};
use types::{HObject, PoolId, SnapId, UTime};

/// What a scrub is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubOrder {
    /// Read all data and omaps too.
    pub deep: bool,
    /// Mend what can be mended.
    pub repair: bool,
    /// The schedule wants it, no operator: the flags noscrub and nodeep-scrub end it.
    pub periodic: bool,
}

impl ScrubOrder {
    /// How the cluster log calls it.
    pub fn mode(self) -> &'static str {
        match self {
            Self { repair: true, .. } => "repair",
            Self { deep: true, .. } => "deep-scrub",
            Self { .. } => "scrub",
        }
    }
}

/// What other parts show of a scrub that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubState {
    pub order: ScrubOrder,
    pub began: UTime,
}

/// What a scrub has cost: for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubWork {
    pub metadata_reads: u64,
    pub data_reads: u64,
    pub data_bytes: u64,
    pub omap_reads: u64,
    /// Bytes of values.
    pub omap_bytes: u64,
    /// Writes that ended a chunk, and those that waited for one.
    pub preemptions: u64,
    pub held_back: u64,
    pub took: Duration,
}

impl ScrubWork {
    pub(super) fn note(&mut self, result: &Result<ReadOutcome, StoreError>) {
        match result {
            Ok(ReadOutcome::Object(_)) => self.metadata_reads += 1,
            Ok(ReadOutcome::Data(data)) => {
                self.data_reads += 1;
                self.data_bytes += data.len() as u64;
            }
            Ok(ReadOutcome::Omap(page)) => {
                self.omap_reads += 1;
                self.omap_bytes += page.entries.iter().map(|(_, value)| value.len() as u64).sum::<u64>();
            }
            Ok(_) | Err(_) => {}
        }
    }
}

impl core::ops::AddAssign for ScrubWork {
    fn add_assign(&mut self, other: Self) {
        self.metadata_reads += other.metadata_reads;
        self.data_reads += other.data_reads;
        self.data_bytes += other.data_bytes;
        self.omap_reads += other.omap_reads;
        self.omap_bytes += other.omap_bytes;
        self.preemptions += other.preemptions;
        self.held_back += other.held_back;
        self.took += other.took;
    }
}

/// A damaged object, as the last scrub found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inconsistent {
    /// `errors` are bits of Ceph's err_t; `attrs` the object info and the SnapSet, as far as they are there.
    Object { oid: HObject, version: u64, errors: u64, size: Option<u64>, digest: Option<u32>, attrs: Attrs },
    /// Clones and their head differ; `errors` are bits of Ceph's inconsistent_snapset_t.
    Snaps { head: HObject, errors: u64, missing: Vec<SnapId>, extra: Vec<SnapId>, snapset: Piece },
}

/// Whether flags of the map or of a pool forbid scrubs that no operator asks for.
pub fn is_scrub_forbidden(map: &OsdMap, pool: PoolId, deep: bool) -> bool {
    let pool = |flag: u64| map.pools.get(&pool).is_some_and(|pool| pool.has_flags(flag));
    let shallow = map.has_flags(MapFlags::NOSCRUB) || pool(PoolFlags::NOSCRUB);
    let deeply = map.has_flags(MapFlags::NODEEP_SCRUB) || pool(PoolFlags::NODEEP_SCRUB);
    if deep { deeply } else { shallow }
}
