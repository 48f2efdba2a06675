//! MOSDPGCreate2: the monitor tells an OSD to make placement groups.

use std::collections::BTreeMap;

use types::{Epoch, SpgId, UTime};

use crate::codec::payload;
use crate::{PastIntervals, PgHistory};

/// Ceph's MOSDPGCreate2.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdPgCreate2 {
    /// The monitor's map.
    pub epoch: Epoch,
    /// When each is to have been made.
    pub pgs: BTreeMap<SpgId, (Epoch, UTime)>,
    /// What became of those that may have been made since.
    pub pg_extra: BTreeMap<SpgId, (PgHistory, PastIntervals)>,
}

payload!(OsdPgCreate2 = OSD_PG_CREATE2, version 2, compat 1, [epoch, pgs, pg_extra]);
