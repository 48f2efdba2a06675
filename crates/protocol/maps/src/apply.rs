//! Applying an increment: the next epoch, exactly as Ceph computes it (its checksum is compared everywhere).

use crush::CrushMap;
use encoding::{Decode, DecodeError};
use types::{Epoch, Fsid, OsdId, PoolId, Release, UTime};

use crate::osdmap::{MapFlags, OsdMap};
use crate::{Incremental, Osd, OsdInfo, OsdState, OsdXInfo};

/// Why an increment does not fit a map: the fault of who sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// It belongs to another cluster.
    #[error("increment of cluster {theirs}, map of cluster {ours}")]
    OtherCluster {
        /// The map's cluster.
        ours: Fsid,
        /// The increment's.
        theirs: Fsid,
    },
    /// It leads from another epoch.
    #[error("increment to epoch {to} does not follow epoch {from}")]
    NotNext {
        /// The map's epoch.
        from: Epoch,
        /// The increment's.
        to: Epoch,
    },
    /// It speaks of an OSD beyond max_osd.
    #[error("increment names osd.{0}, beyond max_osd")]
    BadOsd(OsdId),
    /// An OSD comes up without heartbeat addresses.
    #[error("osd.{0} comes up without heartbeat addresses")]
    NoHeartbeatAddrs(OsdId),
    /// Snapshots of this pool were purged without ever being removed.
    #[error("pool {0} purges snapshots that were not removed")]
    PurgedUnremoved(PoolId),
    /// max_osd beyond what any cluster has.
    #[error("max_osd {0} is out of range")]
    BadMaxOsd(i32),
    /// It was made for another map, or this one is not what it should be.
    #[error("with the increment it has the checksum {actual:#010x}, not {expected:#010x}")]
    Checksum { expected: u32, actual: u32 },
    /// It, or a map inside it, can't be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Far above any cluster; a forged increment can't make us allocate for more.
const MAX_OSD_LIMIT: i32 = 1 << 20;

impl OsdMap {
    /// Turns this map into the next epoch's. On an error the map may hold part of the changes: throw it away.
    pub fn apply(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if inc.epoch == Epoch(1) {
            self.fsid = inc.fsid;
        } else if inc.fsid != self.fsid {
            return Err(ApplyError::OtherCluster { ours: self.fsid, theirs: inc.fsid });
        }
        if self.epoch.0.checked_add(1) != Some(inc.epoch.0) {
            return Err(ApplyError::NotNext { from: self.epoch, to: inc.epoch });
        }
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        if !inc.fullmap.is_empty() {
            *self = Self::from_bytes(&inc.fullmap)?;
            return Ok(());
        }
        if let Some(max_osd) = inc.new_max_osd {
            if max_osd > MAX_OSD_LIMIT {
                return Err(ApplyError::BadMaxOsd(max_osd));
            }
            self.set_max_osd(max_osd);
        }
        self.apply_flags(inc);
        self.apply_pools(inc)?;
        self.apply_osds(inc)?;
        self.apply_exceptions(inc);
        self.apply_settings(inc);
        self.apply_crush(inc)
    }

    fn apply_flags(&mut self, inc: &Incremental) {
        let Some(flags) = inc.new_flags else { return };
        self.flags = flags;
        let raise = |release: &mut Release, to: u8| *release = (*release).max(Release(to));
        if flags & MapFlags::REQUIRE_KRAKEN != 0 {
            raise(&mut self.require_osd_release, 11);
        } else if flags & MapFlags::REQUIRE_JEWEL != 0 {
            raise(&mut self.require_osd_release, 10);
        }
    }

    fn apply_pools(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if let Some(max) = inc.new_pool_max {
            self.pool_max = max as i32;
        }
        for (&id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = self.epoch;
            self.pools.insert(id, pool);
        }
        self.new_removed_snaps = inc.new_removed_snaps.clone();
        self.new_purged_snaps = inc.new_purged_snaps.clone();
        for (&pool, snaps) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(pool).or_default().union(snaps);
        }
        for (&pool, snaps) in &inc.new_purged_snaps {
            let queue = self.removed_snaps_queue.get_mut(&pool).ok_or(ApplyError::PurgedUnremoved(pool))?;
            queue.subtract(snaps);
            if queue.is_empty() {
                self.removed_snaps_queue.remove(&pool);
            }
        }
        self.pool_names.extend(inc.new_pool_names.iter().map(|(&id, name)| (id, name.clone())));
        for id in &inc.old_pools {
            self.pools.remove(id);
            self.pool_names.remove(id);
        }
        Ok(())
    }

    fn apply_osds(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        set_if_any(&mut self.last_up_change, inc.new_last_up_change);
        set_if_any(&mut self.last_in_change, inc.new_last_in_change);
        for (&id, &weight) in &inc.new_weight {
            let osd = self.osd_mut(id)?;
            // An OSD comes into being by getting a weight.
            if weight != 0 {
                osd.state = (osd.state | OsdState::EXISTS) & !(OsdState::AUTOOUT | OsdState::NEW);
                osd.xinfo.old_weight = 0;
            }
            if let Some(slot) = self.weights.get_mut(id.0 as usize) {
                *slot = weight;
            }
        }
        for (&id, &affinity) in &inc.new_primary_affinity {
            self.set_primary_affinity(id, affinity)?;
        }
        for name in &inc.old_erasure_code_profiles {
            self.erasure_code_profiles.remove(name);
        }
        self.erasure_code_profiles
            .extend(inc.new_erasure_code_profiles.iter().map(|(k, v)| (k.clone(), v.clone())));
        self.apply_states(inc)?;
        self.apply_up(inc)?;
        self.apply_infos(inc)
    }

    fn apply_states(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        for (&id, &bits) in &inc.new_state {
            let bits = if bits == 0 { OsdState::UP } else { bits };
            let (epoch, modified) = (self.epoch, self.modified);
            let osd = self.osd_mut(id)?;
            if osd.state & bits & OsdState::UP != 0 {
                osd.info.down_at = epoch;
                osd.xinfo.down_stamp = modified;
            }
            if osd.state & bits & OsdState::EXISTS != 0 {
                *osd = Osd::default();
                self.set_primary_affinity(id, Self::WEIGHT_IN)?;
            } else {
                osd.state ^= bits;
            }
        }
        Ok(())
    }

    fn apply_up(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        for (&id, addrs) in &inc.new_up_client {
            let heartbeats = inc.new_hb_back_up.get(&id).zip(inc.new_hb_front_up.get(&id));
            let (back, front) = heartbeats.ok_or(ApplyError::NoHeartbeatAddrs(id))?;
            let epoch = self.epoch;
            let osd = self.osd_mut(id)?;
            osd.state = (osd.state | OsdState::EXISTS | OsdState::UP) & !OsdState::STOP;
            osd.client_addrs = addrs.clone();
            osd.hb_back_addrs = back.clone();
            osd.hb_front_addrs = front.clone();
            osd.info.up_from = epoch;
        }
        for (&id, addrs) in &inc.new_up_cluster {
            self.osd_mut(id)?.cluster_addrs = addrs.clone();
        }
        Ok(())
    }

    fn apply_infos(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        let info = |osd: &mut Osd, set: &dyn Fn(&mut OsdInfo)| set(&mut osd.info);
        for (&id, &epoch) in &inc.new_up_thru {
            info(self.osd_mut(id)?, &|i| i.up_thru = epoch);
        }
        for (&id, &(begin, end)) in &inc.new_last_clean_interval {
            info(self.osd_mut(id)?, &|i| (i.last_clean_begin, i.last_clean_end) = (begin, end));
        }
        for (&id, &epoch) in &inc.new_lost {
            info(self.osd_mut(id)?, &|i| i.lost_at = epoch);
        }
        for (&id, &xinfo) in &inc.new_xinfo {
            let slot: &mut OsdXInfo = &mut self.osd_mut(id)?.xinfo;
            *slot = xinfo;
        }
        for (&id, &uuid) in &inc.new_uuid {
            self.osd_mut(id)?.uuid = uuid;
        }
        Ok(())
    }

    fn apply_exceptions(&mut self, inc: &Incremental) {
        for (&pg, osds) in &inc.new_pg_temp {
            match osds.is_empty() {
                true => self.pg_temp.remove(&pg),
                false => self.pg_temp.insert(pg, osds.clone()),
            };
        }
        for (&pg, &osd) in &inc.new_primary_temp {
            match osd.0 {
                -1 => self.primary_temp.remove(&pg),
                _ => self.primary_temp.insert(pg, osd),
            };
        }
        self.pg_upmap.extend(inc.new_pg_upmap.iter().map(|(&pg, v)| (pg, v.clone())));
        self.pg_upmap.retain(|pg, _| !inc.old_pg_upmap.contains(pg));
        self.pg_upmap_items.extend(inc.new_pg_upmap_items.iter().map(|(&pg, v)| (pg, v.clone())));
        self.pg_upmap_items.retain(|pg, _| !inc.old_pg_upmap_items.contains(pg));
        self.pg_upmap_primaries.extend(&inc.new_pg_upmap_primary);
        self.pg_upmap_primaries.retain(|pg, _| !inc.old_pg_upmap_primary.contains(pg));
        // An entry that is there already keeps its time.
        for (&addr, &until) in &inc.new_blocklist {
            self.blocklist.entry(addr).or_insert(until);
        }
        for addr in &inc.old_blocklist {
            self.blocklist.remove(addr);
        }
        for (&addr, &until) in &inc.new_range_blocklist {
            self.range_blocklist.entry(addr).or_insert(until);
        }
        for addr in &inc.old_range_blocklist {
            self.range_blocklist.remove(addr);
        }
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        let flags = [
            (&mut self.crush_node_flags, &inc.new_crush_node_flags),
            (&mut self.device_class_flags, &inc.new_device_class_flags),
        ];
        for (ours, new) in flags {
            ours.extend(new);
            ours.retain(|_, bits| *bits != 0);
        }
        self.cluster_snapshot_epoch = if inc.cluster_snapshot.is_empty() { Epoch(0) } else { inc.epoch };
        self.cluster_snapshot = inc.cluster_snapshot.clone();
        let ratios = [
            (&mut self.nearfull_ratio, inc.new_nearfull_ratio),
            (&mut self.backfillfull_ratio, inc.new_backfillfull_ratio),
            (&mut self.full_ratio, inc.new_full_ratio),
        ];
        for (ours, new) in ratios {
            if new >= 0.0 {
                *ours = new;
            }
        }
        let unchanged = Incremental::RELEASE_UNCHANGED;
        if inc.new_require_min_compat_client != unchanged && inc.new_require_min_compat_client > Release(0) {
            self.require_min_compat_client = inc.new_require_min_compat_client;
        }
        if inc.new_require_osd_release != unchanged {
            self.require_osd_release = inc.new_require_osd_release;
            if self.require_osd_release >= Release::LUMINOUS {
                self.flags = self.flags & !MapFlags::LEGACY_REQUIRE | MapFlags::RECOVERY_DELETES;
            }
            if self.require_osd_release >= Release::NAUTILUS {
                self.flags |= MapFlags::PGLOG_HARDLIMIT;
            }
        }
        if let Some(stretch) = inc.new_stretch {
            self.stretch = stretch;
        }
        match inc.mutate_allow_crimson {
            1 => self.allow_crimson = true,
            2 => self.allow_crimson = false,
            _ => {}
        }
    }

    fn apply_crush(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if inc.crush.is_empty() {
            return Ok(());
        }
        self.crush = CrushMap::from_bytes(&inc.crush)?;
        if self.require_osd_release >= Release::LUMINOUS {
            self.crush_version = self.crush_version.wrapping_add(1);
        }
        let classes = &self.crush.class_names;
        self.device_class_flags.retain(|class, _| classes.contains_key(class));
        Ok(())
    }

    /// Sets how readily an OSD becomes primary. The table appears with the first value, default or not.
    pub fn set_primary_affinity(&mut self, id: OsdId, affinity: u32) -> Result<(), ApplyError> {
        let len = self.osds.len();
        let table = self.primary_affinity.get_or_insert_with(|| vec![Self::WEIGHT_IN; len]);
        let slot = usize::try_from(id.0).ok().and_then(|i| table.get_mut(i));
        *slot.ok_or(ApplyError::BadOsd(id))? = affinity;
        Ok(())
    }

    fn osd_mut(&mut self, id: OsdId) -> Result<&mut Osd, ApplyError> {
        usize::try_from(id.0).ok().and_then(|i| self.osds.get_mut(i)).ok_or(ApplyError::BadOsd(id))
    }
}

fn set_if_any(slot: &mut UTime, value: UTime) {
    if value != UTime::default() {
        *slot = value;
    }
}
