//! The MonMap: who the monitors are.

use std::collections::{BTreeMap, BTreeSet};

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EntityAddrVec, Epoch, Fsid, Release, UTime};

/// One monitor (Ceph's mon_info_t).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MonInfo {
    /// The name after `mon.`.
    pub name: String,
    /// Where everyone reaches it.
    pub public_addrs: EntityAddrVec,
    /// The lower, the more clients prefer it.
    pub priority: u16,
    /// Weight among those of one priority (SRV records).
    pub weight: u16,
    /// Its location, by CRUSH type.
    pub crush_loc: BTreeMap<String, String>,
    /// When it was added; written from 20.2 on.
    pub time_added: Option<UTime>,
}

impl Encode for MonInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(if self.time_added.is_some() { 6 } else { 5 }, 1, |e| {
            e.put(&self.name).put(&self.public_addrs).put(&self.priority).put(&self.weight);
            e.put(&self.crush_loc);
            if let Some(time) = &self.time_added {
                e.put(time);
            }
        });
    }
}
impl Decode for MonInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(6, "mon_info_t", |d, version| {
            let mut info = Self { name: d.get()?, public_addrs: d.get()?, ..Self::default() };
            if version >= 2 {
                info.priority = d.get()?;
            }
            if version >= 4 {
                info.weight = d.get()?;
            }
            if version >= 5 {
                info.crush_loc = d.get()?;
            }
            if version >= 6 {
                info.time_added = Some(d.get()?);
            }
            Ok(info)
        })
    }
}

/// Which key types the cluster's cephx uses (20.2 on).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonCiphers {
    /// Epoch of the last change.
    pub epoch: Epoch,
    /// The cipher of service tickets.
    pub service: i32,
    /// Ciphers that clients may have.
    pub allowed: Vec<i32>,
    /// The cipher of new keys.
    pub preferred: i32,
}

/// The MonMap (Ceph's MonMap).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonMap {
    /// The cluster.
    pub fsid: Fsid,
    /// The map's number.
    pub epoch: Epoch,
    /// When it last changed.
    pub last_changed: UTime,
    /// When the cluster was created.
    pub created: UTime,
    /// Features that every monitor must have for good.
    pub persistent_features: u64,
    /// Features that all have at the moment.
    pub optional_features: u64,
    /// The monitors by name.
    pub mons: BTreeMap<String, MonInfo>,
    /// Names by rank.
    pub ranks: Vec<String>,
    /// The oldest release among the monitors.
    pub min_mon_release: Release,
    /// Ranks that were removed.
    pub removed_ranks: BTreeSet<u32>,
    /// 1 classic, 2 disallow, 3 connectivity.
    pub strategy: u8,
    /// Monitors that may not lead.
    pub disallowed_leaders: BTreeSet<String>,
    /// Whether stretch mode is on.
    pub stretch_mode_enabled: bool,
    /// The monitor that decides between two sites.
    pub tiebreaker_mon: String,
    /// Monitors marked down by stretch mode.
    pub stretch_marked_down_mons: BTreeSet<String>,
    /// Key types; written from 20.2 on.
    pub ciphers: Option<MonCiphers>,
}

impl MonMap {
    /// Features of monitors that hold for good in a Pacific cluster: Kraken to Pacific, pruning, pinging. Bit 1
    /// (Luminous) makes clients wait for the manager's map, bit 2 (Mimic) for their configuration.
    pub const PACIFIC_FEATURES: u64 = 0xff;

    /// A map of monitors, ranked in the order given, as a Pacific cluster has it.
    pub fn new(fsid: Fsid, created: UTime, mons: impl IntoIterator<Item = (String, EntityAddrVec)>) -> Self {
        let mons: Vec<_> = mons.into_iter().collect();
        let info = |(name, public_addrs): (String, EntityAddrVec)| {
            (name.clone(), MonInfo { name, public_addrs, ..MonInfo::default() })
        };
        Self {
            fsid,
            epoch: Epoch(1),
            last_changed: created,
            created,
            persistent_features: Self::PACIFIC_FEATURES,
            optional_features: 0,
            ranks: mons.iter().map(|(name, _)| name.clone()).collect(),
            mons: mons.into_iter().map(info).collect(),
            min_mon_release: Release::PACIFIC,
            removed_ranks: BTreeSet::new(),
            strategy: 1,
            disallowed_leaders: BTreeSet::new(),
            stretch_mode_enabled: false,
            tiebreaker_mon: String::new(),
            stretch_marked_down_mons: BTreeSet::new(),
            ciphers: None,
        }
    }
}

fn put_mon_features(e: &mut Encoder, features: u64) {
    e.versioned(1, 1, |e| {
        e.put(&features);
    });
}

fn get_mon_features(d: &mut Decoder<'_>) -> Result<u64, DecodeError> {
    d.versioned(1, "mon_feature_t", |d, _| d.get())
}

impl Encode for MonMap {
    /// Version 9, Pacific's; 10 where there are key types.
    fn encode(&self, e: &mut Encoder) {
        e.versioned(if self.ciphers.is_some() { 10 } else { 9 }, 6, |e| {
            e.put(&self.fsid).put(&self.epoch).put(&self.last_changed).put(&self.created);
            put_mon_features(e, self.persistent_features);
            put_mon_features(e, self.optional_features);
            e.put(&self.mons).put(&self.ranks).put(&self.min_mon_release.0).put(&self.removed_ranks);
            e.put(&self.strategy).put(&self.disallowed_leaders).put(&self.stretch_mode_enabled);
            e.put(&self.tiebreaker_mon).put(&self.stretch_marked_down_mons);
            if let Some(ciphers) = &self.ciphers {
                e.put(&ciphers.epoch).put(&ciphers.service).put(&ciphers.allowed).put(&ciphers.preferred);
            }
        });
    }
}
impl Decode for MonMap {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(10, "MonMap", |d, version| {
            // 6 is Nautilus'; before, addresses had one protocol.
            if version < 6 {
                return Err(DecodeError::TooOld { what: "MonMap", version });
            }
            let mut map = Self::new(d.get()?, UTime::default(), []);
            map.epoch = d.get()?;
            map.last_changed = d.get()?;
            map.created = d.get()?;
            map.persistent_features = get_mon_features(d)?;
            map.optional_features = get_mon_features(d)?;
            map.mons = d.get()?;
            map.ranks = d.get()?;
            if version >= 7 {
                map.min_mon_release = Release(d.get()?);
            }
            if version >= 8 {
                map.removed_ranks = d.get()?;
                map.strategy = d.get()?;
                map.disallowed_leaders = d.get()?;
            }
            if version >= 9 {
                map.stretch_mode_enabled = d.get()?;
                map.tiebreaker_mon = d.get()?;
                map.stretch_marked_down_mons = d.get()?;
            }
            if version >= 10 {
                map.ciphers = Some(MonCiphers {
                    epoch: d.get()?,
                    service: d.get()?,
                    allowed: d.get()?,
                    preferred: d.get()?,
                });
            }
            Ok(map)
        })
    }
}
