//! An epoch as the changes from the one before (Ceph's OSDMap::Incremental).

use std::collections::{BTreeMap, BTreeSet};

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EntityAddr, EntityAddrVec, Epoch, Fsid, IntervalSet, OsdId, PgId, PoolId, Release, UTime};

use crate::osdmap::Stretch;
use crate::wire::{get_release, put_pools, put_release, seal, verify, whole_envelope};
use crate::{OsdXInfo, PgPool};

/// The changes that lead to epoch [`Incremental::epoch`]. What is `None`, negative or empty stays as it was.
#[derive(Clone, PartialEq, Debug)]
pub struct Incremental {
    /// The cluster.
    pub fsid: Fsid,
    /// The epoch that results; it applies to the one before.
    pub epoch: Epoch,
    /// When it was made.
    pub modified: UTime,
    /// The highest pool number ever given; `None`: unchanged.
    pub new_pool_max: Option<i64>,
    /// The map's flags, all of them.
    pub new_flags: Option<u32>,
    /// A whole encoded map in place of everything below; empty: none.
    pub fullmap: Vec<u8>,
    /// An encoded CRUSH map; empty: unchanged.
    pub crush: Vec<u8>,
    /// The tables' new length.
    pub new_max_osd: Option<i32>,
    /// Pools added or changed.
    pub new_pools: BTreeMap<PoolId, PgPool>,
    /// Pools named or renamed.
    pub new_pool_names: BTreeMap<PoolId, String>,
    /// Pools removed.
    pub old_pools: BTreeSet<PoolId>,
    /// OSDs that come up, with their addresses; each needs both heartbeat entries too.
    pub new_up_client: BTreeMap<OsdId, EntityAddrVec>,
    /// Addresses for other OSDs.
    pub new_up_cluster: BTreeMap<OsdId, EntityAddrVec>,
    /// Heartbeat addresses, cluster network.
    pub new_hb_back_up: BTreeMap<OsdId, EntityAddrVec>,
    /// Heartbeat addresses, public network.
    pub new_hb_front_up: BTreeMap<OsdId, EntityAddrVec>,
    /// State bits to flip; 0 means UP. Flipping EXISTS off destroys the entry.
    pub new_state: BTreeMap<OsdId, u32>,
    /// In/out weights.
    pub new_weight: BTreeMap<OsdId, u32>,
    /// Acting sets; an empty one removes.
    pub new_pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Primaries; -1 removes.
    pub new_primary_temp: BTreeMap<PgId, OsdId>,
    /// Primary affinities.
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    /// Erasure-code profiles added or changed.
    pub new_erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
    /// Erasure-code profiles removed.
    pub old_erasure_code_profiles: Vec<String>,
    /// Whole placements.
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Whole placements removed.
    pub old_pg_upmap: BTreeSet<PgId>,
    /// Replacements.
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Replacements removed.
    pub old_pg_upmap_items: BTreeSet<PgId>,
    /// Primaries of the read balancer.
    pub new_pg_upmap_primary: BTreeMap<PgId, OsdId>,
    /// Primaries removed.
    pub old_pg_upmap_primary: BTreeSet<PgId>,
    /// Snapshots whose removal begins.
    pub new_removed_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Snapshots whose removal ended.
    pub new_purged_snaps: BTreeMap<PoolId, IntervalSet>,
    /// When an OSD last came up or went down; zero: unchanged.
    pub new_last_up_change: UTime,
    /// When an OSD last went in or out; zero: unchanged.
    pub new_last_in_change: UTime,
    /// Epochs up to which OSDs are known to be alive.
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    /// Last clean intervals: first and last epoch.
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    /// OSDs whose data is lost, up to an epoch.
    pub new_lost: BTreeMap<OsdId, Epoch>,
    /// Instances blocked, and until when.
    pub new_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Instances unblocked.
    pub old_blocklist: Vec<EntityAddr>,
    /// Networks blocked, and until when.
    pub new_range_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Networks unblocked.
    pub old_range_blocklist: Vec<EntityAddr>,
    /// A cluster snapshot's name; empty: none.
    pub cluster_snapshot: String,
    /// Ids of OSDs' stores.
    pub new_uuid: BTreeMap<OsdId, Fsid>,
    /// More about OSDs.
    pub new_xinfo: BTreeMap<OsdId, OsdXInfo>,
    /// The feature word that the writer encoded for.
    pub encode_features: u64,
    /// Fullness of warnings; below 0: unchanged.
    pub new_nearfull_ratio: f32,
    /// Fullness at which writes stop.
    pub new_full_ratio: f32,
    /// Fullness at which backfill stops.
    pub new_backfillfull_ratio: f32,
    /// The oldest release of clients; `Release(0xff)`: unchanged.
    pub new_require_min_compat_client: Release,
    /// The oldest release of OSDs; `Release(0xff)`: unchanged.
    pub new_require_osd_release: Release,
    /// State bits of CRUSH buckets; 0 removes.
    pub new_crush_node_flags: BTreeMap<i32, u32>,
    /// State bits of device classes; 0 removes.
    pub new_device_class_flags: BTreeMap<i32, u32>,
    /// Stretch mode, if it changes.
    pub new_stretch: Option<Stretch>,
    /// 0 unchanged, 1 allow crimson OSDs, 2 forbid them.
    pub mutate_allow_crimson: u8,
    /// The checksum of the full map that results.
    pub full_crc: u32,
}

impl Incremental {
    /// A release field that stays as it was.
    pub const RELEASE_UNCHANGED: Release = Release(0xff);

    /// No changes yet, to make `epoch` of cluster `fsid`.
    pub fn new(fsid: Fsid, epoch: Epoch, modified: UTime) -> Self {
        Self { fsid, epoch, modified, ..Self::default() }
    }

    /// Sets the CRUSH map, in the form that the canonical full map has it in.
    pub fn set_crush(&mut self, crush: &crush::CrushMap) {
        self.crush = crush.to_bytes(self.encode_features);
    }

    /// Whether it holds no change but the time.
    pub fn is_empty(&self) -> bool {
        let bare = Self::new(self.fsid, self.epoch, self.modified);
        *self == Self { encode_features: self.encode_features, full_crc: self.full_crc, ..bare }
    }

    /// The encoding for a cluster whose OSDs are of `release` (the resulting map's require_osd_release), with its own
    /// checksum; [`Incremental::full_crc`] must be set.
    pub fn encode_for(&self, release: Release) -> Vec<u8> {
        let mut e = Encoder::new(u64::MAX);
        self.encode_as(&mut e, release);
        e.into_bytes()
    }

    fn encode_as(&self, e: &mut Encoder, release: Release) {
        let start = e.len();
        e.versioned(8, 7, |e| {
            self.encode_client_part(e, release);
            self.encode_osd_part(e);
            e.put(&0u32).put(&self.full_crc);
        });
        seal(e, start, 4);
    }

    fn encode_client_part(&self, e: &mut Encoder, release: Release) {
        let version = if release >= Release::REEF { 9 } else { 8 };
        e.versioned(version, 1, |e| {
            e.put(&self.fsid).put(&self.epoch).put(&self.modified);
            e.put(&self.new_pool_max.unwrap_or(-1)).put(&self.new_flags.map_or(-1, |f| f as i32));
            e.blob(&self.fullmap).blob(&self.crush).put(&self.new_max_osd.unwrap_or(-1));
            put_pools(e, &self.new_pools, release);
            e.put(&self.new_pool_names).put(&self.old_pools).put(&self.new_up_client);
            e.put(&self.new_state).put(&self.new_weight);
            e.put(&self.new_pg_temp).put(&self.new_primary_temp).put(&self.new_primary_affinity);
            e.put(&self.new_erasure_code_profiles).put(&self.old_erasure_code_profiles);
            e.put(&self.new_pg_upmap).put(&self.old_pg_upmap);
            e.put(&self.new_pg_upmap_items).put(&self.old_pg_upmap_items);
            e.put(&self.new_removed_snaps).put(&self.new_purged_snaps);
            e.put(&self.new_last_up_change).put(&self.new_last_in_change);
            if version >= 9 {
                e.put(&self.new_pg_upmap_primary).put(&self.old_pg_upmap_primary);
            }
        });
    }

    fn encode_osd_part(&self, e: &mut Encoder) {
        let ranges = !self.new_range_blocklist.is_empty() || !self.old_range_blocklist.is_empty();
        let version = match () {
            () if self.mutate_allow_crimson != 0 => 12,
            () if ranges => 11,
            () if self.new_stretch.is_some() => 10,
            () => 9,
        };
        e.versioned(version, 1, |e| {
            e.put(&self.new_hb_back_up).put(&self.new_up_thru).put(&self.new_last_clean_interval);
            e.put(&self.new_lost);
            e.put(&self.new_blocklist);
            e.put(&self.old_blocklist).put(&self.new_up_cluster).put(&self.cluster_snapshot);
            e.put(&self.new_uuid).put(&self.new_xinfo).put(&self.new_hb_front_up).put(&self.encode_features);
            e.put(&self.new_nearfull_ratio).put(&self.new_full_ratio).put(&self.new_backfillfull_ratio);
            put_release(e, self.new_require_min_compat_client);
            put_release(e, self.new_require_osd_release);
            e.put(&self.new_crush_node_flags).put(&self.new_device_class_flags);
            if version >= 10 {
                let s = self.new_stretch.unwrap_or_default();
                e.put(&self.new_stretch.is_some());
                e.put(&s.bucket_count).put(&s.degraded).put(&s.recovering).put(&s.bucket).put(&s.enabled);
            }
            if version >= 11 {
                e.put(&self.new_range_blocklist);
                e.put(&self.old_range_blocklist);
            }
            if version >= 12 {
                e.put(&self.mutate_allow_crimson);
            }
        });
    }
}

impl Encode for Incremental {
    /// The form for the release that it itself requires, or Pacific's: enough for tests and tools; a monitor knows the
    /// map and uses [`Incremental::encode_for`].
    fn encode(&self, e: &mut Encoder) {
        let release = self.new_require_osd_release;
        let unchanged = release == Self::RELEASE_UNCHANGED;
        self.encode_as(e, if unchanged { Release::PACIFIC } else { release });
    }
}

impl Decode for Incremental {
    /// Verifies the increment's own checksum first.
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut look_ahead = Decoder::new(d.rest());
        let bytes = whole_envelope(&mut look_ahead, "OSDMap::Incremental")?;
        verify("OSDMap::Incremental", bytes, bytes.len().saturating_sub(8))?;
        d.versioned(8, "OSDMap::Incremental", |d, _| {
            let mut inc = Self::default();
            d.versioned(9, "Incremental client part", |d, v| inc.decode_client_part(d, v))?;
            d.versioned(12, "Incremental osd part", |d, v| inc.decode_osd_part(d, v))?;
            d.get::<u32>()?;
            inc.full_crc = d.get()?;
            Ok(inc)
        })
    }
}

impl Incremental {
    fn decode_client_part(&mut self, d: &mut Decoder<'_>, version: u8) -> Result<(), DecodeError> {
        if version < 5 {
            return Err(DecodeError::TooOld { what: "Incremental client part", version });
        }
        self.fsid = d.get()?;
        self.epoch = d.get()?;
        self.modified = d.get()?;
        self.new_pool_max = Some(d.get()?).filter(|&n: &i64| n != -1);
        self.new_flags = u32::try_from(d.get::<i32>()?).ok();
        self.fullmap = d.blob("Incremental fullmap")?.to_vec();
        self.crush = d.blob("Incremental crush")?.to_vec();
        self.new_max_osd = Some(d.get()?).filter(|&n: &i32| n >= 0);
        self.new_pools = d.get()?;
        self.new_pool_names = d.get()?;
        self.old_pools = d.get()?;
        self.new_up_client = d.get()?;
        self.new_state = d.get()?;
        self.new_weight = d.get()?;
        self.new_pg_temp = d.get()?;
        self.new_primary_temp = d.get()?;
        self.new_primary_affinity = d.get()?;
        self.new_erasure_code_profiles = d.get()?;
        self.old_erasure_code_profiles = d.get()?;
        self.new_pg_upmap = d.get()?;
        self.old_pg_upmap = d.get()?;
        self.new_pg_upmap_items = d.get()?;
        self.old_pg_upmap_items = d.get()?;
        if version >= 6 {
            self.new_removed_snaps = d.get()?;
            self.new_purged_snaps = d.get()?;
        }
        if version >= 8 {
            self.new_last_up_change = d.get()?;
            self.new_last_in_change = d.get()?;
        }
        if version >= 9 {
            self.new_pg_upmap_primary = d.get()?;
            self.old_pg_upmap_primary = d.get()?;
        }
        Ok(())
    }

    fn decode_osd_part(&mut self, d: &mut Decoder<'_>, version: u8) -> Result<(), DecodeError> {
        if version < 6 {
            return Err(DecodeError::TooOld { what: "Incremental osd part", version });
        }
        self.new_hb_back_up = d.get()?;
        self.new_up_thru = d.get()?;
        self.new_last_clean_interval = d.get()?;
        self.new_lost = d.get()?;
        self.new_blocklist = d.get()?;
        self.old_blocklist = d.get()?;
        self.new_up_cluster = d.get()?;
        self.cluster_snapshot = d.get()?;
        self.new_uuid = d.get()?;
        self.new_xinfo = d.get()?;
        self.new_hb_front_up = d.get()?;
        self.encode_features = d.get()?;
        self.new_nearfull_ratio = d.get()?;
        self.new_full_ratio = d.get()?;
        self.new_backfillfull_ratio = d.get()?;
        self.new_require_min_compat_client = get_release(d)?;
        self.new_require_osd_release = get_release(d)?;
        if version >= 8 {
            self.new_crush_node_flags = d.get()?;
        }
        if version >= 9 {
            self.new_device_class_flags = d.get()?;
        }
        if version >= 10 {
            let change: bool = d.get()?;
            let (bucket_count, degraded, recovering) = (d.get()?, d.get()?, d.get()?);
            let (bucket, enabled) = (d.get()?, d.get()?);
            self.new_stretch =
                change.then_some(Stretch { enabled, bucket_count, degraded, recovering, bucket });
        }
        if version >= 11 {
            self.new_range_blocklist = d.get()?;
            self.old_range_blocklist = d.get()?;
        }
        if version >= 12 {
            self.mutate_allow_crimson = d.get()?;
        }
        Ok(())
    }
}

impl Default for Incremental {
    fn default() -> Self {
        Self {
            fsid: Fsid::default(),
            epoch: Epoch(0),
            modified: UTime::default(),
            new_pool_max: None,
            new_flags: None,
            fullmap: Vec::new(),
            crush: Vec::new(),
            new_max_osd: None,
            new_pools: BTreeMap::new(),
            new_pool_names: BTreeMap::new(),
            old_pools: BTreeSet::new(),
            new_up_client: BTreeMap::new(),
            new_up_cluster: BTreeMap::new(),
            new_hb_back_up: BTreeMap::new(),
            new_hb_front_up: BTreeMap::new(),
            new_state: BTreeMap::new(),
            new_weight: BTreeMap::new(),
            new_pg_temp: BTreeMap::new(),
            new_primary_temp: BTreeMap::new(),
            new_primary_affinity: BTreeMap::new(),
            new_erasure_code_profiles: BTreeMap::new(),
            old_erasure_code_profiles: Vec::new(),
            new_pg_upmap: BTreeMap::new(),
            old_pg_upmap: BTreeSet::new(),
            new_pg_upmap_items: BTreeMap::new(),
            old_pg_upmap_items: BTreeSet::new(),
            new_pg_upmap_primary: BTreeMap::new(),
            old_pg_upmap_primary: BTreeSet::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            new_last_up_change: UTime::default(),
            new_last_in_change: UTime::default(),
            new_up_thru: BTreeMap::new(),
            new_last_clean_interval: BTreeMap::new(),
            new_lost: BTreeMap::new(),
            new_blocklist: BTreeMap::new(),
            old_blocklist: Vec::new(),
            new_range_blocklist: BTreeMap::new(),
            old_range_blocklist: Vec::new(),
            cluster_snapshot: String::new(),
            new_uuid: BTreeMap::new(),
            new_xinfo: BTreeMap::new(),
            encode_features: Release::PACIFIC.map_features(),
            new_nearfull_ratio: -1.0,
            new_full_ratio: -1.0,
            new_backfillfull_ratio: -1.0,
            new_require_min_compat_client: Self::RELEASE_UNCHANGED,
            new_require_osd_release: Self::RELEASE_UNCHANGED,
            new_crush_node_flags: BTreeMap::new(),
            new_device_class_flags: BTreeMap::new(),
            new_stretch: None,
            mutate_allow_crimson: 0,
            full_crc: 0,
        }
    }
}
