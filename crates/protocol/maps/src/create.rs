//! A cluster's first map, and making the next one from changes.

use std::collections::BTreeMap;

use crush::{BuildError, CrushMap};
use types::{Epoch, Fsid, Release, UTime};

use crate::osdmap::{MapFlags, OsdMap};
use crate::{ApplyError, Incremental};

/// What a new cluster starts from.
#[derive(Clone, Debug)]
pub struct NewCluster {
    /// Its id.
    pub fsid: Fsid,
    /// When.
    pub created: UTime,
    /// The release that OSDs must have; decides the maps' encoding.
    pub release: Release,
    /// The CRUSH type that replicas are spread over, `host` or `osd`.
    pub failure_domain: String,
}

impl NewCluster {
    /// Epoch 1 as a monitor makes it: no pools, no OSDs, rule 0 `replicated_rule` below root `default`.
    pub fn map(&self) -> Result<OsdMap, BuildError> {
        let profile = [("k", "2"), ("m", "2"), ("plugin", "jerasure"), ("technique", "reed_sol_van")];
        let profile: BTreeMap<String, String> =
            profile.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Ok(OsdMap {
            fsid: self.fsid,
            epoch: Epoch(1),
            created: self.created,
            modified: self.created,
            flags: MapFlags::SORTBITWISE
                | MapFlags::RECOVERY_DELETES
                | MapFlags::PURGED_SNAPDIRS
                | MapFlags::PGLOG_HARDLIMIT,
            crush: CrushMap::new_cluster(&self.failure_domain)?,
            erasure_code_profiles: [("default".to_owned(), profile)].into(),
            nearfull_ratio: 0.85,
            backfillfull_ratio: 0.90,
            full_ratio: 0.95,
            require_min_compat_client: Release::LUMINOUS,
            require_osd_release: self.release,
            ..OsdMap::default()
        })
    }

    /// The increment that makes epoch 1 out of nothing: it holds the whole map.
    pub fn first_increment(&self) -> Result<Incremental, BuildError> {
        let mut inc = Incremental::new(self.fsid, Epoch(1), self.created);
        inc.encode_features = self.release.map_features();
        (inc.fullmap, inc.full_crc) = self.map()?.encode_full_and_crc();
        Ok(inc)
    }
}

/// A new epoch, ready to be stored and sent.
#[derive(Clone, Debug)]
pub struct Publication {
    pub map: OsdMap,
    /// The map, encoded.
    pub full: Vec<u8>,
    /// The increment that leads to it, encoded with both checksums.
    pub incremental: Vec<u8>,
}

/// Applies an increment to the epoch before and encodes both results; `full_crc` and `encode_features` are set here.
pub fn publish(previous: &OsdMap, mut inc: Incremental) -> Result<Publication, ApplyError> {
    let mut map = previous.clone();
    map.apply(&inc)?;
    let (full, crc) = map.encode_full_and_crc();
    inc.full_crc = crc;
    // Whoever follows encodes the full map with this word and compares.
    inc.encode_features = map.require_osd_release.map_features();
    let incremental = inc.encode_for(map.require_osd_release);
    Ok(Publication { map, full, incremental })
}
