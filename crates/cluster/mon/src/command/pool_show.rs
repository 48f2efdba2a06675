//! A pool as `osd dump` and its like show it.

use maps::{PgPool, PoolFlags, PoolOption, PoolOptionKey, PoolSnap};
use types::PoolId;

use crate::fmt::{Json, stamp};

pub(super) fn autoscale_name(mode: u8) -> &'static str {
    ["off", "warn", "on"].get(usize::from(mode)).copied().unwrap_or("unknown")
}

/// A pool's applications and their values.
pub(super) fn applications_json(pool: &PgPool) -> Json {
    pool.application_metadata.iter().fold(Json::object(), |out, (app, values)| {
        let values = values.iter().fold(Json::object(), |out, (k, v)| out.with(k, v.as_str()));
        out.with(app, values)
    })
}

fn option_text(option: &PoolOption) -> String {
    match option {
        PoolOption::Str(text) => text.clone(),
        PoolOption::Int(n) => n.to_string(),
        PoolOption::Double(n) => crate::fmt::general(*n, 6),
    }
}

/// An option's value in JSON.
pub(super) fn option_json(option: &PoolOption) -> Json {
    match option {
        PoolOption::Str(text) => Json::from(text.as_str()),
        PoolOption::Int(n) => Json::from(*n),
        PoolOption::Double(n) => Json::from(*n),
    }
}

/// The options that are set, as they are shown: by name.
fn named_options(pool: &PgPool) -> Vec<(&'static str, &PoolOption)> {
    let mut out: Vec<_> = pool
        .opts
        .iter()
        .filter_map(|(key, value)| {
            let name = PoolOptionKey::NAMES.iter().find(|(known, _)| known == key)?.1;
            Some((name, value))
        })
        .collect();
    out.sort_by_key(|(name, _)| *name);
    out
}

/// A pool's line in `osd dump`.
pub(super) fn pool_line(id: PoolId, name: &str, pool: &PgPool) -> String {
    let kind = match pool.kind {
        PgPool::ERASURE => format!("erasure profile {}", pool.erasure_code_profile),
        _ => "replicated".into(),
    };
    let mut line = format!(
        "pool {id} '{name}' {kind} size {} min_size {} crush_rule {} object_hash {} pg_num {} pgp_num {}",
        pool.size,
        pool.min_size,
        pool.crush_rule,
        if pool.object_hash == 2 { "rjenkins" } else { "linux" },
        pool.pg_num,
        pool.pgp_num
    );
    if pool.pg_num_target != pool.pg_num {
        line += &format!(" pg_num_target {}", pool.pg_num_target);
    }
    if pool.pgp_num_target != pool.pgp_num {
        line += &format!(" pgp_num_target {}", pool.pgp_num_target);
    }
    line += &format!(
        " autoscale_mode {} last_change {}",
        autoscale_name(pool.pg_autoscale_mode),
        pool.last_change.0
    );
    let resend = [
        pool.last_force_op_resend,
        pool.last_force_op_resend_prenautilus,
        pool.last_force_op_resend_preluminous,
    ];
    if resend.iter().any(|epoch| epoch.0 != 0) {
        line += &format!(" lfor {}/{}/{}", resend[0].0, resend[1].0, resend[2].0);
    }
    if pool.flags != 0 {
        line += &format!(" flags {}", PoolFlags::names(pool.flags));
    }
    if pool.quota_max_bytes != 0 {
        line += &format!(" max_bytes {}", pool.quota_max_bytes);
    }
    if pool.quota_max_objects != 0 {
        line += &format!(" max_objects {}", pool.quota_max_objects);
    }
    line += &format!(" stripe_width {}", pool.stripe_width);
    if pool.expected_num_objects != 0 {
        line += &format!(" expected_num_objects {}", pool.expected_num_objects);
    }
    for (name, value) in named_options(pool) {
        line += &format!(" {name} {}", option_text(value));
    }
    if !pool.application_metadata.is_empty() {
        let apps: Vec<&str> = pool.application_metadata.keys().map(|a| a.as_str()).collect();
        line += &format!(" application {}", apps.join(","));
    }
    for snap in pool.snaps.values() {
        line += &format!("\n\tsnap {} '{}' {}", snap.id.0, snap.name, snap.stamp);
    }
    line
}

fn snap_json(snap: &PoolSnap) -> Json {
    Json::object().with("snapid", snap.id.0).with("stamp", stamp(snap.stamp)).with("name", snap.name.as_str())
}

/// A pool in `osd dump -f json`; `id_key` is what its number is called there.
pub(super) fn pool_json(id_key: &str, id: PoolId, name: &str, pool: &PgPool) -> Json {
    let peering = pool.peering_crush;
    let merge = &pool.last_pg_merge_meta;
    let merge = Json::object()
        .with("source_pgid", merge.source.to_string())
        .with("ready_epoch", merge.ready_epoch.0)
        .with("last_epoch_started", merge.last_epoch_started.0)
        .with("last_epoch_clean", merge.last_epoch_clean.0)
        .with("source_version", merge.source_version.to_string())
        .with("target_version", merge.target_version.to_string());
    let options = named_options(pool)
        .iter()
        .fold(Json::object(), |out, (name, value)| out.with(name, option_json(value)));
    let snap_mode = if pool.has_flags(PoolFlags::POOL_SNAPS) { "pool" } else { "selfmanaged" };
    Json::object()
        .with(id_key, id.0)
        .with("pool_name", name)
        .with("create_time", stamp(pool.create_time))
        .with("flags", pool.flags)
        .with("flags_names", PoolFlags::names(pool.flags))
        .with("type", pool.kind)
        .with("size", pool.size)
        .with("min_size", pool.min_size)
        .with("crush_rule", pool.crush_rule)
        .with("peering_crush_bucket_count", peering.map_or(0, |p| p.bucket_count))
        .with("peering_crush_bucket_target", peering.map_or(0, |p| p.bucket_target))
        .with("peering_crush_bucket_barrier", peering.map_or(0, |p| p.bucket_barrier))
        .with(
            "peering_crush_bucket_mandatory_member",
            peering.map_or(crush::ITEM_NONE, |p| p.mandatory_member),
        )
        .with("object_hash", pool.object_hash)
        .with("pg_autoscale_mode", autoscale_name(pool.pg_autoscale_mode))
        .with("pg_num", pool.pg_num)
        .with("pg_placement_num", pool.pgp_num)
        .with("pg_placement_num_target", pool.pgp_num_target)
        .with("pg_num_target", pool.pg_num_target)
        .with("pg_num_pending", pool.pg_num_pending)
        .with("last_pg_merge_meta", merge)
        .with("last_change", pool.last_change.0.to_string())
        .with("last_force_op_resend", pool.last_force_op_resend.0.to_string())
        .with("last_force_op_resend_prenautilus", pool.last_force_op_resend_prenautilus.0.to_string())
        .with("last_force_op_resend_preluminous", pool.last_force_op_resend_preluminous.0.to_string())
        .with("auid", pool.auid)
        .with("snap_mode", snap_mode)
        .with("snap_seq", pool.snap_seq.0)
        .with("snap_epoch", pool.snap_epoch.0)
        .with("pool_snaps", Json::array(pool.snaps.values().map(snap_json)))
        .with("removed_snaps", "[]")
        .with("quota_max_bytes", pool.quota_max_bytes)
        .with("quota_max_objects", pool.quota_max_objects)
        .with("tiers", Json::Array(vec![]))
        .with("tier_of", pool.tier_of.0)
        .with("read_tier", pool.read_tier.0)
        .with("write_tier", pool.write_tier.0)
        .with("cache_mode", "none")
        .with("target_max_bytes", pool.target_max_bytes)
        .with("target_max_objects", pool.target_max_objects)
        .with("cache_target_dirty_ratio_micro", pool.cache_target_dirty_ratio_micro)
        .with("cache_target_dirty_high_ratio_micro", pool.cache_target_dirty_high_ratio_micro)
        .with("cache_target_full_ratio_micro", pool.cache_target_full_ratio_micro)
        .with("cache_min_flush_age", pool.cache_min_flush_age)
        .with("cache_min_evict_age", pool.cache_min_evict_age)
        .with("erasure_code_profile", pool.erasure_code_profile.as_str())
        .with("hit_set_params", Json::object().with("type", "none"))
        .with("hit_set_period", pool.hit_set_period)
        .with("hit_set_count", pool.hit_set_count)
        .with("use_gmt_hitset", pool.use_gmt_hitset)
        .with("min_read_recency_for_promote", pool.min_read_recency_for_promote)
        .with("min_write_recency_for_promote", pool.min_write_recency_for_promote)
        .with("hit_set_grade_decay_rate", pool.hit_set_grade_decay_rate)
        .with("hit_set_search_last_n", pool.hit_set_search_last_n)
        .with("grade_table", Json::Array(vec![]))
        .with("stripe_width", pool.stripe_width)
        .with("expected_num_objects", pool.expected_num_objects)
        .with("fast_read", pool.fast_read)
        .with("options", options)
        .with("application_metadata", applications_json(pool))
}
