//! The OSDMap: pools, OSDs, the CRUSH map, exceptions to placement.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use crush::CrushMap;
use types::{
    AddrType, EntityAddr, EntityAddrVec, Epoch, Fsid, IntervalSet, OsdId, PgId, PoolId, Release, UTime,
};

use crate::{Osd, PgPool};

/// Bits of the map's flags (CEPH_OSDMAP_*).
pub struct MapFlags;

// Named as Ceph names them.
impl MapFlags {
    pub const NEARFULL: u32 = 1 << 0;
    pub const FULL: u32 = 1 << 1;
    pub const PAUSERD: u32 = 1 << 2;
    pub const PAUSEWR: u32 = 1 << 3;
    pub const PAUSEREC: u32 = 1 << 4;
    pub const NOUP: u32 = 1 << 5;
    pub const NODOWN: u32 = 1 << 6;
    pub const NOOUT: u32 = 1 << 7;
    pub const NOIN: u32 = 1 << 8;
    pub const NOBACKFILL: u32 = 1 << 9;
    pub const NORECOVER: u32 = 1 << 10;
    pub const NOSCRUB: u32 = 1 << 11;
    pub const NODEEP_SCRUB: u32 = 1 << 12;
    pub const NOTIERAGENT: u32 = 1 << 13;
    pub const NOREBALANCE: u32 = 1 << 14;
    pub const SORTBITWISE: u32 = 1 << 15;
    pub const REQUIRE_JEWEL: u32 = 1 << 16;
    pub const REQUIRE_KRAKEN: u32 = 1 << 17;
    pub const REQUIRE_LUMINOUS: u32 = 1 << 18;
    pub const RECOVERY_DELETES: u32 = 1 << 19;
    pub const PURGED_SNAPDIRS: u32 = 1 << 20;
    pub const NOSNAPTRIM: u32 = 1 << 21;
    pub const PGLOG_HARDLIMIT: u32 = 1 << 22;
    pub const NOAUTOSCALE: u32 = 1 << 23;

    /// Releases that were named by flags before require_osd_release was a field.
    pub(crate) const LEGACY_REQUIRE: u32 =
        Self::REQUIRE_JEWEL | Self::REQUIRE_KRAKEN | Self::REQUIRE_LUMINOUS;

    /// The names of the bits that are set, joined by commas, as `ceph osd dump` prints them.
    pub fn names(flags: u32) -> String {
        const NAMES: [&str; 24] = [
            "nearfull",
            "full",
            "pauserd",
            "pausewr",
            "pauserec",
            "noup",
            "nodown",
            "noout",
            "noin",
            "nobackfill",
            "norecover",
            "noscrub",
            "nodeep-scrub",
            "notieragent",
            "norebalance",
            "sortbitwise",
            "require_jewel_osds",
            "require_kraken_osds",
            "require_luminous_osds",
            "recovery_deletes",
            "purged_snapdirs",
            "nosnaptrim",
            "pglog_hardlimit",
            "noautoscale",
        ];
        let set = NAMES.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1);
        set.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
    }
}

/// Stretch mode: a cluster across two sites and a tiebreaker.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Whether it is on.
    pub enabled: bool,
    /// Sites expected.
    pub bucket_count: u32,
    /// 0, or the number of sites that are left.
    pub degraded: u32,
    /// 1 while it comes back.
    pub recovering: u32,
    /// The CRUSH type that the sites have.
    pub bucket: i32,
}

/// The OSDMap of one epoch. [`OsdMap::weights`] and [`OsdMap::osds`] always have the same length, max_osd.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdMap {
    /// The cluster.
    pub fsid: Fsid,
    /// The map's number; 0 before the first.
    pub epoch: Epoch,
    /// When the cluster was created.
    pub created: UTime,
    /// When this epoch was made.
    pub modified: UTime,
    pub pools: BTreeMap<PoolId, PgPool>,
    /// Their names.
    pub pool_names: BTreeMap<PoolId, String>,
    /// The highest pool number ever given.
    pub pool_max: i32,
    /// Bits of [`MapFlags`].
    pub flags: u32,
    /// In/out weights by OSD: 16.16 fixed point, 0 is out, 0x10000 fully in.
    pub weights: Vec<u32>,
    /// OSDs by number; absent ones lack [`crate::OsdState::EXISTS`].
    pub osds: Vec<Osd>,
    /// How readily each OSD becomes primary, 16.16 fixed point; `None`: all at 0x10000.
    pub primary_affinity: Option<Vec<u32>>,
    /// Acting sets that hold in place of the computed ones.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Primaries that hold in place of the computed ones.
    pub primary_temp: BTreeMap<PgId, OsdId>,
    /// The tree of OSDs, and the rules that place PGs on them.
    pub crush: CrushMap,
    /// Counts changes of `crush`.
    pub crush_version: u32,
    /// Named parameters of erasure-coded pools.
    pub erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
    /// Whole placements set by an operator or the balancer.
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Single replacements in placements: from, to.
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Primaries set by the read balancer (Reef on).
    pub pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    /// Snapshots whose removal began in this epoch.
    pub new_removed_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Snapshots whose removal ended in this epoch.
    pub new_purged_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Snapshots being removed.
    pub removed_snaps_queue: BTreeMap<PoolId, IntervalSet>,
    /// When an OSD last came up or went down.
    pub last_up_change: UTime,
    /// When an OSD last went in or out.
    pub last_in_change: UTime,
    /// Instances that may not act any more, and until when.
    pub blocklist: BTreeMap<EntityAddr, UTime>,
    /// The same for whole networks.
    pub range_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Epoch of the cluster snapshot below (obsolete).
    pub cluster_snapshot_epoch: Epoch,
    /// Its name.
    pub cluster_snapshot: String,
    /// Fullness, as a fraction, at which a warning is given.
    pub nearfull_ratio: f32,
    /// Fullness at which OSDs take no backfill.
    pub backfillfull_ratio: f32,
    /// Fullness at which writes stop.
    pub full_ratio: f32,
    /// The oldest release that clients may have.
    pub require_min_compat_client: Release,
    /// The oldest release that OSDs may have; decides the map's canonical encoding.
    pub require_osd_release: Release,
    /// State bits (NOUP, NOIN, ...) set on CRUSH buckets.
    pub crush_node_flags: BTreeMap<i32, u32>,
    /// State bits set on device classes.
    pub device_class_flags: BTreeMap<i32, u32>,
    /// Stretch mode.
    pub stretch: Stretch,
    /// Whether crimson OSDs may boot.
    pub allow_crimson: bool,
}

impl Default for OsdMap {
    fn default() -> Self {
        Self {
            fsid: Fsid::default(),
            epoch: Epoch(0),
            created: UTime::default(),
            modified: UTime::default(),
            pools: BTreeMap::new(),
            pool_names: BTreeMap::new(),
            pool_max: 0,
            flags: 0,
            weights: Vec::new(),
            osds: Vec::new(),
            primary_affinity: None,
            pg_temp: BTreeMap::new(),
            primary_temp: BTreeMap::new(),
            crush: CrushMap::new(),
            crush_version: 1,
            erasure_code_profiles: BTreeMap::new(),
            pg_upmap: BTreeMap::new(),
            pg_upmap_items: BTreeMap::new(),
            pg_upmap_primaries: BTreeMap::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            removed_snaps_queue: BTreeMap::new(),
            last_up_change: UTime::default(),
            last_in_change: UTime::default(),
            blocklist: BTreeMap::new(),
            range_blocklist: BTreeMap::new(),
            cluster_snapshot_epoch: Epoch(0),
            cluster_snapshot: String::new(),
            nearfull_ratio: 0.0,
            backfillfull_ratio: 0.0,
            full_ratio: 0.0,
            require_min_compat_client: Release(0),
            require_osd_release: Release(0),
            crush_node_flags: BTreeMap::new(),
            device_class_flags: BTreeMap::new(),
            stretch: Stretch::default(),
            allow_crimson: false,
        }
    }
}

impl OsdMap {
    /// An OSD fully in, and the primary affinity that leaves the choice to CRUSH.
    pub const WEIGHT_IN: u32 = 0x1_0000;

    /// One more than the highest OSD number.
    pub fn max_osd(&self) -> i32 {
        i32::try_from(self.osds.len()).unwrap_or(i32::MAX)
    }

    /// The entry of an OSD that exists.
    pub fn osd(&self, id: OsdId) -> Option<&Osd> {
        self.slot(id).filter(|osd| osd.exists())
    }

    fn slot(&self, id: OsdId) -> Option<&Osd> {
        self.osds.get(usize::try_from(id.0).ok()?)
    }

    /// Whether an OSD exists.
    pub fn exists(&self, id: OsdId) -> bool {
        self.osd(id).is_some()
    }

    /// Whether an OSD exists and is up.
    pub fn is_up(&self, id: OsdId) -> bool {
        self.slot(id).is_some_and(Osd::is_up)
    }

    /// Whether an OSD exists and has a weight above 0.
    pub fn is_in(&self, id: OsdId) -> bool {
        self.exists(id) && self.weight(id) != 0
    }

    /// An OSD's in/out weight; 0 beyond the last.
    pub fn weight(&self, id: OsdId) -> u32 {
        usize::try_from(id.0).ok().and_then(|i| self.weights.get(i)).copied().unwrap_or(0)
    }

    /// The OSDs that exist.
    pub fn existing_osds(&self) -> impl Iterator<Item = (OsdId, &Osd)> + '_ {
        (0..).map(OsdId).zip(&self.osds).filter(|(_, osd)| osd.exists())
    }

    /// Where clients reach an OSD that exists.
    pub fn client_addrs(&self, id: OsdId) -> Option<&EntityAddrVec> {
        self.osd(id).map(|osd| &osd.client_addrs)
    }

    /// The pool with this name.
    pub fn pool_by_name(&self, name: &str) -> Option<PoolId> {
        self.pool_names.iter().find(|(_, n)| *n == name).map(|(&id, _)| id)
    }

    /// Whether all bits of `mask` are set in the flags.
    pub fn has_flags(&self, mask: u32) -> bool {
        self.flags & mask == mask
    }

    /// Whether a peer at `addr` is shut out: itself, its whole host, or a range that its host lies in. Entries name
    /// addresses of no particular messenger. An entry counts until an increment removes it, whatever its time: the monitor's
    /// clock alone decides, since a reader whose clock is ahead would let a fenced client write again.
    pub fn is_blocklisted(&self, addr: &EntityAddr) -> bool {
        if self.blocklist.is_empty() && self.range_blocklist.is_empty() {
            return false;
        }
        let Some(socket) = addr.socket else {
            // Entries have addresses, so the blank one is never among them.
            return false;
        };
        let listed = |socket, nonce| {
            let entry = EntityAddr { kind: AddrType::Any, nonce, socket: Some(socket) };
            self.blocklist.contains_key(&entry)
        };
        listed(socket, addr.nonce)
            || listed(SocketAddr::new(socket.ip(), 0), 0)
            || self
                .range_blocklist
                .keys()
                .any(|range| range.socket.is_some_and(|of| in_range(of.ip(), range.nonce, socket.ip())))
    }

    /// Grows or shrinks the tables to `max_osd`; new OSDs are absent and out.
    pub fn set_max_osd(&mut self, max_osd: i32) {
        let len = usize::try_from(max_osd).unwrap_or(0);
        self.weights.resize(len, 0);
        self.osds.resize_with(len, Osd::default);
        if let Some(affinity) = &mut self.primary_affinity {
            affinity.resize(len, Self::WEIGHT_IN);
        }
    }
}

/// Whether the first `bits` bits of two addresses of one family are the same.
fn in_range(range: IpAddr, bits: u32, ip: IpAddr) -> bool {
    match (range, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            bits == 0 || (a.to_bits() ^ b.to_bits()) >> 32u32.saturating_sub(bits).min(31) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            bits == 0 || (a.to_bits() ^ b.to_bits()) >> 128u32.saturating_sub(bits).min(127) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(kind: AddrType, socket: &str, nonce: u32) -> EntityAddr {
        EntityAddr { kind, nonce, socket: Some(socket.parse().unwrap()) }
    }

    #[test]
    fn a_peer_is_shut_out_by_itself_by_its_host_or_by_a_range() {
        let is_out = |entry: EntityAddr, range: bool, peer: &str| {
            let mut map = OsdMap::default();
            let list = if range { &mut map.range_blocklist } else { &mut map.blocklist };
            list.insert(entry, UTime::default());
            let peer = addr(AddrType::Msgr2, peer, 7);
            map.is_blocklisted(&peer)
        };
        assert!(is_out(addr(AddrType::Any, "10.0.0.1:0", 7), false, "10.0.0.1:0"));
        assert!(!is_out(addr(AddrType::Any, "10.0.0.1:0", 8), false, "10.0.0.1:0"));
        assert!(is_out(addr(AddrType::Any, "10.0.0.1:0", 0), false, "10.0.0.1:4000"));
        for (bits, out) in [(0, true), (8, true), (24, true), (32, false), (31, false)] {
            let range = addr(AddrType::Cidr, "10.0.0.1:0", bits);
            assert_eq!(is_out(range, true, "10.0.0.200:1"), out, "{bits}");
        }
        assert!(is_out(addr(AddrType::Cidr, "[fe80::]:0", 10), true, "[fe80::1]:1"));
        assert!(!is_out(addr(AddrType::Cidr, "[fe80::]:0", 10), true, "[fd80::1]:1"));
    }
}
