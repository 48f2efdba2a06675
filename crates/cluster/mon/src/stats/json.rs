//! Statistics as `ceph -f json` shows them.

use messages::{ObjectStatSum, PgStat, StoreStatfs};
use types::{OsdId, PgId, PgShard};

use crate::fmt::{Json, stamp};

/// Counters that are shown after another one, not where they are encoded: (counter, shown after).
const MOVED: [(&str, &str); 6] = [
    ("num_objects_missing", "num_objects_missing_on_primary"),
    ("num_objects_misplaced", "num_objects_degraded"),
    ("num_objects_dirty", "num_objects_unfound"),
    ("num_whiteouts", "num_objects_dirty"),
    ("num_shallow_scrub_errors", "num_scrub_errors"),
    ("num_deep_scrub_errors", "num_shallow_scrub_errors"),
];

/// Counters that are shown under another name: (counter, shown name).
const RENAMED: [(&str, &str); 4] = [
    ("num_rd", "num_read"),
    ("num_rd_kb", "num_read_kb"),
    ("num_wr", "num_write"),
    ("num_wr_kb", "num_write_kb"),
];

/// All counters.
pub fn sum_json(sum: &ObjectStatSum) -> Json {
    let all: Vec<(&str, i64)> = sum.counters().collect();
    let mut out = Json::object();
    for counter in all.iter().filter(|(name, _)| !MOVED.iter().any(|(moved, _)| moved == name)) {
        let mut next = Some(*counter);
        while let Some((name, value)) = next {
            let shown =
                RENAMED.iter().find(|(renamed, _)| *renamed == name).map_or(name, |(_, shown)| *shown);
            out.put(shown, value);
            let follower = MOVED.iter().find(|(_, after)| *after == name);
            next = follower.and_then(|(moved, _)| all.iter().find(|(name, _)| name == moved)).copied();
        }
    }
    out
}

/// Adds the members to `out`.
pub fn space_into(out: &mut Json, space: &StoreStatfs) {
    out.put("total", space.total);
    out.put("available", space.available);
    out.put("internally_reserved", space.internally_reserved);
    out.put("allocated", space.allocated);
    out.put("data_stored", space.data_stored);
    out.put("data_compressed", space.data_compressed);
    out.put("data_compressed_allocated", space.data_compressed_allocated);
    out.put("data_compressed_original", space.data_compressed_original);
    out.put("omap_allocated", space.omap_allocated);
    out.put("internal_metadata", space.internal_metadata);
}

fn osds_json(osds: &[OsdId]) -> Json {
    Json::array(osds.iter().map(|osd| osd.0))
}

fn shard_json(at: &PgShard) -> String {
    let (osd, shard) = (at.osd.0, at.shard);
    if shard == types::ShardId::NONE { osd.to_string() } else { format!("{osd}({shard})") }
}

/// As `pg ls -f json` shows it.
pub fn pg_json(id: PgId, pg: &PgStat) -> Json {
    let mut out = Json::object()
        .with("pgid", id.to_string())
        .with("version", pg.version.to_string())
        .with("reported_seq", pg.reported_seq)
        .with("reported_epoch", pg.reported_epoch.0)
        .with("state", pg.state.to_string());
    for (name, at) in [
        ("last_fresh", pg.last_fresh),
        ("last_change", pg.last_change),
        ("last_active", pg.last_active),
        ("last_peered", pg.last_peered),
        ("last_clean", pg.last_clean),
        ("last_became_active", pg.last_became_active),
        ("last_became_peered", pg.last_became_peered),
        ("last_unstale", pg.last_unstale),
        ("last_undegraded", pg.last_undegraded),
        ("last_fullsized", pg.last_fullsized),
    ] {
        out.put(name, stamp(at));
    }
    out.put("mapping_epoch", pg.mapping_epoch.0);
    out.put("log_start", pg.log_start.to_string());
    out.put("ondisk_log_start", pg.ondisk_log_start.to_string());
    out.put("created", pg.created.0);
    out.put("last_epoch_clean", pg.last_epoch_clean.0);
    out.put("parent", pg.parent.to_string());
    out.put("parent_split_bits", pg.parent_split_bits);
    out.put("last_scrub", pg.last_scrub.to_string());
    out.put("last_scrub_stamp", stamp(pg.last_scrub_stamp));
    out.put("last_deep_scrub", pg.last_deep_scrub.to_string());
    out.put("last_deep_scrub_stamp", stamp(pg.last_deep_scrub_stamp));
    out.put("last_clean_scrub_stamp", stamp(pg.last_clean_scrub_stamp));
    out.put("log_size", pg.log_size);
    out.put("ondisk_log_size", pg.ondisk_log_size);
    for (name, invalid) in [
        ("stats_invalid", pg.stats_invalid),
        ("dirty_stats_invalid", pg.dirty_stats_invalid),
        ("omap_stats_invalid", pg.omap_stats_invalid),
        ("hitset_stats_invalid", pg.hitset_stats_invalid),
        ("hitset_bytes_stats_invalid", pg.hitset_bytes_stats_invalid),
        ("pin_stats_invalid", pg.pin_stats_invalid),
        ("manifest_stats_invalid", pg.manifest_stats_invalid),
    ] {
        out.put(name, invalid);
    }
    out.put("snaptrimq_len", pg.snaptrimq_len);
    // Since 18.2.
    let scrub = pg.scrub.unwrap_or_default();
    out.put("last_scrub_duration", scrub.last_duration);
    out.put("scrub_duration", Json::Float(pg.timing.unwrap_or_default().scrub_duration));
    out.put("objects_scrubbed", scrub.objects_scrubbed);
    out.put("stat_sum", sum_json(&pg.stats.sum));
    out.put("up", osds_json(&pg.up));
    out.put("acting", osds_json(&pg.acting));
    out.put("avail_no_missing", Json::array(pg.avail_no_missing.iter().map(shard_json)));
    let locations = pg.object_location_counts.iter().map(|(shards, objects)| {
        let shards: Vec<String> = shards.iter().map(shard_json).collect();
        Json::object().with("shards", shards.join(",")).with("objects", *objects)
    });
    out.put("object_location_counts", Json::array(locations));
    out.put("blocked_by", osds_json(&pg.blocked_by));
    out.put("up_primary", pg.up_primary.0);
    out.put("acting_primary", pg.acting_primary.0);
    let purged = pg.purged_snaps.ranges().iter().map(|(start, length)| {
        Json::object().with("start", format!("{start:x}")).with("length", format!("{length:x}"))
    });
    out.put("purged_snaps", Json::array(purged));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_shown_once_and_in_cephs_order() {
        let sum = ObjectStatSum { num_rd: 7, num_objects_missing: 3, num_whiteouts: 2, ..Default::default() };
        let Json::Object(shown) = sum_json(&sum) else { panic!("no object") };
        assert_eq!(shown.len(), sum.counters().count());
        let names: Vec<&str> = shown.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names[4..13],
            [
                "num_objects_missing_on_primary",
                "num_objects_missing",
                "num_objects_degraded",
                "num_objects_misplaced",
                "num_objects_unfound",
                "num_objects_dirty",
                "num_whiteouts",
                "num_read",
                "num_read_kb",
            ]
        );
        assert_eq!(
            names[16..22],
            [
                "num_shallow_scrub_errors",
                "num_deep_scrub_errors",
                "num_objects_recovered",
                "num_bytes_recovered",
                "num_keys_recovered",
                "num_objects_omap",
            ]
        );
        let value = |name: &str| shown.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        assert_eq!(value("num_read"), Some(Json::Int(7)));
        assert_eq!(value("num_objects_missing"), Some(Json::Int(3)));
    }
}
