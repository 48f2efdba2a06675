//! What an OSD says about its store when it boots (OSDSuperblock).

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Epoch, Fsid, OsdId, PoolId, UTime};

use crate::CompatSet;

/// Ceph's OSDSuperblock. 16.2 writes version 9; what later releases add is optional and written when there.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdSuperblock {
    pub cluster_fsid: Fsid,
    /// The OSD's number.
    pub whoami: OsdId,
    /// The newest map that it works with.
    pub current_epoch: Epoch,
    /// The oldest map that it keeps.
    pub oldest_map: Epoch,
    /// The newest map that it keeps.
    pub newest_map: Epoch,
    /// Size in TiB, as a proposal for CRUSH.
    pub weight: f64,
    /// What a reader of the store must know.
    pub compat_features: CompatSet,
    /// When it last went down cleanly: up to here everything was stored.
    pub clean_thru: Epoch,
    /// When it last started.
    pub mounted: Epoch,
    /// The OSD's own id.
    pub osd_fsid: Fsid,
    /// No longer used.
    pub last_epoch_marked_full: Epoch,
    /// No longer used.
    pub pool_last_epoch_marked_full: BTreeMap<PoolId, Epoch>,
    /// Up to which map it has taken in purged snapshots.
    pub purged_snaps_last: Epoch,
    /// When it last searched for purged snapshots.
    pub last_purged_snaps_scrub: UTime,
    /// A bound up to which maps may be forgotten, from version 10 on.
    pub cluster_osdmap_trim_lower_bound: Option<Epoch>,
    /// The maps that it keeps as (first, count) runs, from version 11 on.
    pub maps: Option<Vec<(Epoch, u32)>>,
}

impl OsdSuperblock {
    /// A new OSD's: no maps yet.
    pub fn new(cluster_fsid: Fsid, whoami: OsdId, osd_fsid: Fsid) -> Self {
        Self {
            cluster_fsid,
            whoami,
            current_epoch: Epoch(0),
            oldest_map: Epoch(0),
            newest_map: Epoch(0),
            weight: 0.0,
            compat_features: CompatSet::default(),
            clean_thru: Epoch(0),
            mounted: Epoch(0),
            osd_fsid,
            last_epoch_marked_full: Epoch(0),
            pool_last_epoch_marked_full: BTreeMap::new(),
            purged_snaps_last: Epoch(0),
            last_purged_snaps_scrub: UTime::default(),
            cluster_osdmap_trim_lower_bound: None,
            maps: None,
        }
    }
}

const NAME: &str = "OSDSuperblock";

impl Encode for OsdSuperblock {
    fn encode(&self, e: &mut Encoder) {
        let version = match (&self.cluster_osdmap_trim_lower_bound, &self.maps) {
            (None, _) => 9,
            (Some(_), None) => 10,
            (Some(_), Some(_)) => 11,
        };
        e.versioned(version, 5, |e| {
            e.put(&self.cluster_fsid).put(&self.whoami).put(&self.current_epoch).put(&self.oldest_map);
            e.put(&self.newest_map).put(&self.weight).put(&self.compat_features).put(&self.clean_thru);
            e.put(&self.mounted).put(&self.osd_fsid).put(&self.last_epoch_marked_full);
            e.put(&self.pool_last_epoch_marked_full).put(&self.purged_snaps_last);
            e.put(&self.last_purged_snaps_scrub);
            if let Some(bound) = &self.cluster_osdmap_trim_lower_bound {
                e.put(bound);
                if let Some(maps) = &self.maps {
                    e.put(maps);
                }
            }
        });
    }
}
impl Decode for OsdSuperblock {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(11, NAME, |d, version| {
            if version < 9 {
                return Err(DecodeError::TooOld { what: NAME, version });
            }
            Ok(Self {
                cluster_fsid: d.get()?,
                whoami: d.get()?,
                current_epoch: d.get()?,
                oldest_map: d.get()?,
                newest_map: d.get()?,
                weight: d.get()?,
                compat_features: d.get()?,
                clean_thru: d.get()?,
                mounted: d.get()?,
                osd_fsid: d.get()?,
                last_epoch_marked_full: d.get()?,
                pool_last_epoch_marked_full: d.get()?,
                purged_snaps_last: d.get()?,
                last_purged_snaps_scrub: d.get()?,
                cluster_osdmap_trim_lower_bound: if version >= 10 { Some(d.get()?) } else { None },
                maps: if version >= 11 { Some(d.get()?) } else { None },
            })
        })
    }
}
