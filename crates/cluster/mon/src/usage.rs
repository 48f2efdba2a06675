//! How much a pool holds and how much more fits.

use maps::{OsdMap, OsdState, PgPool};
use messages::ObjectStatSum;
use types::{OsdId, PoolId};

use crate::command::ratio;
use crate::crush_view;
use crate::fmt::{Json, bytes, count, percent};
use crate::mon::Mon;
use crate::service::osdmap;
use crate::stats::PgMap;

/// A pool's use of space, in bytes unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolUsage {
    /// What users stored.
    pub stored: u64,
    pub stored_omap: u64,
    pub objects: u64,
    /// Taken on disks.
    pub used: u64,
    pub used_omap: u64,
    /// Used, of used and available.
    pub used_ratio: f64,
    /// What users can still store.
    pub max_avail: u64,
    /// The same on disks.
    pub avail_raw: u64,
    /// What users stored times the copies.
    pub stored_raw: u64,
    /// Objects allowed; 0 for no limit.
    pub quota_objects: u64,
    /// Bytes allowed; 0 for no limit.
    pub quota_bytes: u64,
    /// Compressed data, after and before.
    pub compressed: (u64, u64),
    /// All counters.
    pub sums: ObjectStatSum,
}

/// Bytes on disks that a rule can still take before the first OSD is full.
pub fn rule_avail(map: &OsdMap, pgmap: &PgMap, rule: u32) -> u64 {
    let crush = osdmap::crush(map);
    let Some(rule) = crush.rule(rule) else { return 0 };
    let mut weights = std::collections::BTreeMap::new();
    for step in rule.steps.iter().filter(|step| step.op == crush::op::TAKE) {
        for node in crush_view::walk_from(crush, step.arg1).iter().filter(|node| node.id >= 0) {
            let reweight = osdmap::reweight(map, node.id);
            *weights.entry(node.id).or_insert(0.0) += crush_view::weight(node.weight) * reweight;
        }
    }
    let sum: f64 = weights.values().sum();
    let full_ratio = f64::from(osdmap::full_ratio(map));
    let fits = weights.iter().filter(|(_, weight)| **weight > 0.0).filter_map(|(osd, weight)| {
        let space = pgmap.osds.get(osd).filter(|stats| stats.statfs.total > 0)?.statfs;
        let unusable = space.total as f64 * (1.0 - full_ratio);
        let left = (space.available as f64 - unusable).min(space.total as f64 * left_by_state(map, *osd));
        Some(left.max(0.0) / (weight / sum))
    });
    fits.reduce(f64::min).map_or(0, |bytes| bytes as u64)
}

/// The part of an OSD that can be left before it is full, by its state in the map: an OSD of several shards has the state of the
/// fullest one, whose PGs can't use what the others have.
fn left_by_state(map: &OsdMap, osd: i32) -> f64 {
    let state = map.osd(OsdId(osd)).map_or(0, |osd| osd.state);
    let ratios = [
        (OsdState::FULL, map.full_ratio),
        (OsdState::BACKFILLFULL, map.backfillfull_ratio),
        (OsdState::NEARFULL, map.nearfull_ratio),
    ];
    let reached = ratios.iter().find(|(bit, _)| state & bit != 0);
    reached.map_or(1.0, |(_, ratio)| f64::from(map.full_ratio) - f64::from(*ratio))
}

impl Mon {
    /// A pool's use of space; zeros for a pool that does not exist.
    pub(crate) fn pool_usage(&self, id: PoolId) -> PoolUsage {
        match osdmap::pool(&self.osdmap, id) {
            Some(pool) => usage(&self.osdmap, &self.pgmap, id, pool),
            None => PoolUsage::default(),
        }
    }
}

fn usage(map: &OsdMap, pgmap: &PgMap, id: PoolId, pool: &PgPool) -> PoolUsage {
    let stats = pgmap.pools().get(&id).copied().unwrap_or_default();
    let (sums, space) = (*stats.sum(), stats.stat.store_stats);
    let positive = |n: i64| n.max(0) as u64;
    let mut copies = f64::from(pool.size.max(1));
    if sums.num_object_copies > 0 {
        let whole = sums.num_object_copies - sums.num_objects_degraded;
        copies *= whole.max(0) as f64 / sums.num_object_copies as f64;
    }
    let avail_raw = rule_avail(map, pgmap, pool.crush_rule.into());
    let max_avail = if copies > 0.0 { (avail_raw as f64 / copies) as u64 } else { 0 };
    let by_pool = stats.stat.num_store_stats > 0 && pgmap.is_by_pool();
    let compressed = (positive(space.data_compressed_allocated), positive(space.data_compressed_original));
    let sizes = (positive(sums.num_bytes) as f64 * copies) as u64;
    let used_data = match by_pool {
        true => positive(space.allocated),
        false => sizes.saturating_sub(compressed.1.saturating_sub(compressed.0)),
    };
    // Where stores do not say it, what the last deep scrubs found, as in Ceph.
    let has_omaps = stats.stat.num_store_stats > 0 && pgmap.has_omaps_by_pool();
    let stored_omap = match has_omaps && copies > 0.0 {
        true => (positive(space.omap_allocated) as f64 / copies) as u64,
        false => positive(sums.num_omap_bytes),
    };
    let used_omap = (stored_omap as f64 * copies) as u64;
    // Stores count whole blocks, and sizes have the holes.
    let stored_raw_data =
        if by_pool && copies > 0.0 { positive(space.data_stored).min(sizes) } else { sizes };
    let stored_data = if copies > 0.0 { (stored_raw_data as f64 / copies) as u64 } else { 0 };
    let used = used_data + used_omap;
    PoolUsage {
        stored: stored_data + stored_omap,
        stored_omap,
        objects: positive(sums.num_objects),
        used,
        used_omap,
        used_ratio: ratio(used, used + avail_raw),
        max_avail,
        avail_raw,
        stored_raw: stored_raw_data + used_omap,
        quota_objects: pool.quota_max_objects,
        quota_bytes: pool.quota_max_bytes,
        compressed,
        sums,
    }
}

impl PoolUsage {
    /// As `df -f json` gives it.
    pub fn json(&self, detail: bool) -> Json {
        let mut out = Json::object().with("stored", self.stored);
        if detail {
            out.put("stored_data", self.stored - self.stored_omap);
            out.put("stored_omap", self.stored_omap);
        }
        out.put("objects", self.objects);
        out.put("kb_used", self.used.div_ceil(1024));
        out.put("bytes_used", self.used);
        if detail {
            out.put("data_bytes_used", self.used - self.used_omap);
            out.put("omap_bytes_used", self.used_omap);
        }
        out.put("percent_used", self.used_ratio);
        out.put("max_avail", self.max_avail);
        if detail {
            out.put("quota_objects", self.quota_objects);
            out.put("quota_bytes", self.quota_bytes);
            out.put("dirty", 0);
            out.put("rd", self.sums.num_rd);
            out.put("rd_bytes", self.sums.num_rd_kb.saturating_mul(1024));
            out.put("wr", self.sums.num_wr);
            out.put("wr_bytes", self.sums.num_wr_kb.saturating_mul(1024));
            out.put("compress_bytes_used", self.compressed.0);
            out.put("compress_under_bytes", self.compressed.1);
            out.put("stored_raw", self.stored_raw);
            out.put("avail_raw", self.avail_raw);
        }
        out
    }

    /// As a row of `df`.
    pub fn row(&self, id: PoolId, name: String, pg_num: u32, detail: bool) -> Vec<String> {
        let mut out = vec![name, id.to_string(), pg_num.to_string(), bytes(self.stored)];
        if detail {
            out.extend([bytes(self.stored - self.stored_omap), bytes(self.stored_omap)]);
        }
        out.extend([count(self.objects), bytes(self.used)]);
        if detail {
            out.extend([bytes(self.used - self.used_omap), bytes(self.used_omap)]);
        }
        out.extend([percent(self.used_ratio), bytes(self.max_avail)]);
        if detail {
            let quota = |limit: u64, text: String| if limit == 0 { "N/A".to_string() } else { text };
            out.push(quota(self.quota_objects, count(self.quota_objects)));
            out.push(quota(self.quota_bytes, bytes(self.quota_bytes)));
            out.extend(["N/A".to_string(), bytes(self.compressed.0), bytes(self.compressed.1)]);
        }
        out
    }
}
