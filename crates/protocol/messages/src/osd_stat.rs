//! An OSD's statistics (osd_stat_t).

use std::collections::BTreeMap;
use std::fmt;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Epoch, FeatureBits, OsdId};

use crate::StoreStatfs;
use crate::codec::fields;

/// Ceph's osd_stat_t, version 14.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdStat {
    /// Size and use of the store.
    pub statfs: StoreStatfs,
    /// Snapshots that wait to be trimmed.
    pub snap_trim_queue_len: i32,
    /// PGs that trim.
    pub num_snap_trimming: i32,
    /// OSDs that it exchanges heartbeats with.
    pub hb_peers: Vec<OsdId>,
    /// Ages of waiting operations, by powers of two (pow2_hist_t).
    pub op_queue_age_hist: Pow2Hist,
    /// Latencies of the store.
    pub os_perf_stat: PerfStat,
    /// When it last booted.
    pub up_from: Epoch,
    /// Count of reports, with the boot's epoch in the upper half.
    pub seq: u64,
    pub num_pgs: u32,
    /// Warnings of stores, by OSD and name.
    pub os_alerts: BTreeMap<OsdId, BTreeMap<String, String>>,
    pub num_shards_repaired: u64,
    /// OSDs that this sums over: 1 in an OSD's own report.
    pub num_osds: u32,
    /// Of those, how many report use by pool.
    pub num_per_pool_osds: u32,
    /// Of those, how many report omap use by pool.
    pub num_per_pool_omap_osds: u32,
    /// Times of heartbeats, by peer.
    pub hb_pingtime: BTreeMap<OsdId, PingTimes>,
}

/// Operations of an OSD that take too long, as its report names them in [`OsdStat::os_alerts`]. Ceph's OSDs tell their
/// manager in a message of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowOps {
    pub count: u64,
    /// For how long the oldest one is under way.
    pub oldest_secs: u64,
}

impl SlowOps {
    /// The alert's name.
    pub const ALERT: &str = "SLOW_OPS";
}

/// The name in [`OsdStat::os_alerts`] of the words about a store's shard that is fuller than the whole store: what the map
/// says of the OSD is what it says of that shard. Ceph's stores have no shards.
pub const FULLEST_SHARD_ALERT: &str = "FULLEST_SHARD";

impl fmt::Display for SlowOps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slow ops, oldest one blocked for {} sec", self.count, self.oldest_secs)
    }
}

impl std::str::FromStr for SlowOps {
    type Err = ();

    /// Reads what [`SlowOps`] displays.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (count, rest) = text.split_once(" slow ops, oldest one blocked for ").ok_or(())?;
        let secs = rest.strip_suffix(" sec").ok_or(())?;
        Ok(Self { count: count.parse().map_err(drop)?, oldest_secs: secs.parse().map_err(drop)? })
    }
}

/// Ceph's pow2_hist_t.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pow2Hist {
    /// How many values lie in each power of two.
    pub bins: Vec<i32>,
}
fields!(Pow2Hist "pow2_hist_t" version 1, compat 1, [bins]);

/// Ceph's objectstore_perf_stat_t. Peers without OS_PERF_STAT_NS (all up to 18.2) get whole milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerfStat {
    /// Until a transaction is durable, in nanoseconds.
    pub commit_latency_ns: u64,
    /// Until it can be read, in nanoseconds.
    pub apply_latency_ns: u64,
}

const NS_PER_MS: u64 = 1_000_000;

impl Encode for PerfStat {
    fn encode(&self, e: &mut Encoder) {
        if e.has(FeatureBits::OS_PERF_STAT_NS) {
            e.versioned(2, 2, |e| {
                e.put(&self.commit_latency_ns).put(&self.apply_latency_ns);
            });
        } else {
            let ms = |ns: u64| u32::try_from(ns / NS_PER_MS).unwrap_or(u32::MAX);
            e.versioned(1, 1, |e| {
                e.put(&ms(self.commit_latency_ns)).put(&ms(self.apply_latency_ns));
            });
        }
    }
}
impl Decode for PerfStat {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "objectstore_perf_stat_t", |d, version| match version {
            0..2 => {
                let (commit, apply): (u32, u32) = d.get()?;
                let ns = |ms: u32| u64::from(ms) * NS_PER_MS;
                Ok(Self { commit_latency_ns: ns(commit), apply_latency_ns: ns(apply) })
            }
            _ => Ok(Self { commit_latency_ns: d.get()?, apply_latency_ns: d.get()? }),
        })
    }
}

/// Heartbeat times to one peer (Ceph's osd_stat_t::Interfaces), in microseconds; averages, lows and highs over 1, 5
/// and 15 minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PingTimes {
    /// When, in seconds since 1970.
    pub last_update: u32,
    /// Over the cluster's network.
    pub back: PingTime,
    /// Over the clients' network.
    pub front: PingTime,
}
fields!(PingTimes [last_update, back, front]);

/// Times over one network, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PingTime {
    pub average: [u32; 3],
    /// Lows.
    pub min: [u32; 3],
    /// Highs.
    pub max: [u32; 3],
    pub last: u32,
}

impl Encode for PingTime {
    fn encode(&self, e: &mut Encoder) {
        [self.average, self.min, self.max].iter().flatten().for_each(|n| {
            e.put(n);
        });
        e.put(&self.last);
    }
}
impl Decode for PingTime {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut three = || Ok([d.get()?, d.get()?, d.get()?]);
        Ok(Self { average: three()?, min: three()?, max: three()?, last: d.get()? })
    }
}

const NAME: &str = "osd_stat_t";

impl Encode for OsdStat {
    fn encode(&self, e: &mut Encoder) {
        let s = &self.statfs;
        e.versioned(14, 2, |e| {
            // The sizes are here in KiB too, for readers before Nautilus.
            e.put(&(s.total >> 10)).put(&(s.used_raw() >> 10)).put(&(s.available >> 10));
            e.put(&self.snap_trim_queue_len).put(&self.num_snap_trimming).put(&self.hb_peers).put(&0u32);
            e.put(&self.op_queue_age_hist).put(&self.os_perf_stat).put(&self.up_from).put(&self.seq);
            e.put(&self.num_pgs);
            e.put(&(s.allocated >> 10)).put(&(s.omap_allocated >> 10)).put(&(s.internal_metadata >> 10));
            e.put(s).put(&self.os_alerts).put(&self.num_shards_repaired).put(&self.num_osds);
            e.put(&self.num_per_pool_osds).put(&self.num_per_pool_omap_osds).put(&self.hb_pingtime);
        });
    }
}
impl Decode for OsdStat {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(14, NAME, |d, version| {
            if version < 14 {
                return Err(DecodeError::TooOld { what: NAME, version });
            }
            // Sizes in KiB: the same as in statfs.
            d.take(24, "osd_stat_t kb")?;
            let (snap_trim_queue_len, num_snap_trimming, hb_peers) = (d.get()?, d.get()?, d.get()?);
            // Peers that were heard only, which no release since Luminous fills.
            d.get::<Vec<OsdId>>()?;
            let (op_queue_age_hist, os_perf_stat, up_from) = (d.get()?, d.get()?, d.get()?);
            let (seq, num_pgs) = (d.get()?, d.get()?);
            d.take(24, "osd_stat_t kb_used")?;
            Ok(Self {
                statfs: d.get()?,
                snap_trim_queue_len,
                num_snap_trimming,
                hb_peers,
                op_queue_age_hist,
                os_perf_stat,
                up_from,
                seq,
                num_pgs,
                os_alerts: d.get()?,
                num_shards_repaired: d.get()?,
                num_osds: d.get()?,
                num_per_pool_osds: d.get()?,
                num_per_pool_omap_osds: d.get()?,
                hb_pingtime: d.get()?,
            })
        })
    }
}
