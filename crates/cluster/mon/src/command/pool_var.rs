//! `osd pool get`, `set` and quotas.

use maps::{PgPool, PoolFlags, PoolOption, PoolOptionKey};
use options::{Value, parse_int};
use text::parse_size;
use types::{Errno, PoolId, SnapId};

use super::pg_num::{set_pg_num, set_pgp_num};
use super::pool::{autoscale_number, check_size, find};
use super::pool_show::{autoscale_name, option_json};
use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::{Json, general};
use crate::homes::NO_MOVES;
use crate::mon::Mon;
use crate::service::osdmap;

const GET: &str = "osd pool get name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|use_gmt_hitset|erasure_code_profile|all|fast_read|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|bulk|eio";
const SET: &str = "osd pool set name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|pgp_num_actual|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|use_gmt_hitset|fast_read|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|bulk|eio|snap_seq name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false";

pub(super) const COMMANDS: &[Command] = &[
    Command { signature: GET, help: "A setting of a pool", module: "osd", perm: "r", run: get },
    Command { signature: SET, help: "Change a setting of a pool", module: "osd", perm: "rw", run: set },
    Command {
        signature: "osd pool set-quota name=pool,type=CephPoolname name=field,type=CephChoices,strings=max_objects|max_bytes name=val,type=CephString",
        help: "Limit a pool's objects or bytes (0: no limit)",
        module: "osd",
        perm: "rw",
        run: set_quota,
    },
    Command {
        signature: "osd pool get-quota name=pool,type=CephPoolname",
        help: "A pool's limits",
        module: "osd",
        perm: "r",
        run: get_quota,
    },
];

/// The largest `snap_seq`. Ceph has no such setting: an operator raises it before PGs of another cluster are imported, so that the pool gives
/// new snapshots ids that theirs do not have.
const SNAP_SEQ_MAX: u64 = i64::MAX as u64;

/// A change of a pool.
type Change = Box<dyn FnOnce(&mut PgPool)>;

/// Settings that are a flag of the pool.
const FLAGS: [(&str, u64); 9] = [
    ("hashpspool", PoolFlags::HASHPSPOOL),
    ("nodelete", PoolFlags::NODELETE),
    ("nopgchange", PoolFlags::NOPGCHANGE),
    ("nosizechange", PoolFlags::NOSIZECHANGE),
    ("write_fadvise_dontneed", PoolFlags::WRITE_FADVISE_DONTNEED),
    ("noscrub", PoolFlags::NOSCRUB),
    ("nodeep-scrub", PoolFlags::NODEEP_SCRUB),
    ("bulk", PoolFlags::BULK),
    ("eio", PoolFlags::EIO),
];

/// A setting's value; `None` where it is not set.
fn value(mon: &Mon, pool: &PgPool, var: &str) -> Option<Json> {
    if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == var) {
        return Some(Json::from(pool.has_flags(*flag)));
    }
    if let Some((key, _)) = PoolOptionKey::NAMES.iter().find(|(_, name)| *name == var) {
        return pool.opts.get(key).map(option_json);
    }
    Some(match var {
        "size" => Json::from(pool.size),
        "min_size" => Json::from(pool.min_size),
        "pg_num" => Json::from(pool.pg_num),
        "pgp_num" => Json::from(pool.pgp_num),
        "crush_rule" => {
            let name = mon.osdmap.crush.rule_names.get(&i32::from(pool.crush_rule));
            Json::from(name.cloned().unwrap_or_else(|| pool.crush_rule.to_string()))
        }
        "use_gmt_hitset" => Json::from(pool.use_gmt_hitset),
        "fast_read" => Json::from(u64::from(pool.fast_read)),
        "pg_autoscale_mode" => Json::from(autoscale_name(pool.pg_autoscale_mode)),
        "erasure_code_profile" if pool.kind == PgPool::ERASURE => {
            Json::from(pool.erasure_code_profile.as_str())
        }
        _ => return None,
    })
}

fn shown(var: &str, value: &Json) -> String {
    match value {
        // Of all switches this one is shown as a number.
        Json::Bool(on) if var == "use_gmt_hitset" => u64::from(*on).to_string(),
        Json::Text(text) => text.clone(),
        Json::Float(number) => general(*number, 6),
        other => other.compact(),
    }
}

const ALL: [&str; 16] = [
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "hashpspool",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "use_gmt_hitset",
    "fast_read",
    "erasure_code_profile",
    "pg_autoscale_mode",
];

fn get(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, var) = (call.args.required("pool")?, call.args.required("var")?);
    let id = find(mon, &name)?;
    let Some(pool) = mon.osdmap.pools.get(&id) else { return fail(Errno::ENOENT, "no such pool") };
    let mut vars: Vec<&str> = vec![&var];
    if var == "all" {
        vars = ALL.to_vec();
        vars.extend(PoolOptionKey::NAMES.iter().map(|(_, name)| *name));
        vars.push("bulk");
    }
    let values: Vec<(&str, Json)> =
        vars.into_iter().filter_map(|var| Some((var, value(mon, pool, var)?))).collect();
    if values.is_empty() {
        return fail(Errno::ENOENT, format!("'{var}' is not set on pool '{name}'"));
    }
    let json = || {
        let pool = Json::object().with("pool", name.as_str()).with("pool_id", id.0);
        values.iter().fold(pool, |out, (var, value)| out.with(var, value.clone()))
    };
    let text = || values.iter().map(|(var, value)| format!("{var}: {}\n", shown(var, value))).collect();
    Ok(call.show(json, text))
}

fn switch(text: &str) -> Result<bool, Failure> {
    match text {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => fail(Errno::EINVAL, format!("'{text}' is not a boolean (expected true or false)")),
    }
}

/// A whole number of a setting; its suffixes are binary.
fn number(text: &str) -> Result<u64, Failure> {
    parse_size(text).ok_or_else(|| Failure::Errno(Errno::EINVAL, format!("'{text}' is not a number")))
}

fn set(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, var) = (call.args.required("pool")?, call.args.required("var")?);
    let val = call.args.required("val")?;
    let id = find(mon, &name)?;
    let said = Answer::status(format!("set pool {id} {var} to {val}"));
    let Some(pool) = mon.osdmap.pools.get(&id) else { return fail(Errno::ENOENT, "no such pool") };
    let change: Change = if let Some((_, flag)) = FLAGS.iter().find(|(n, _)| *n == var) {
        let on = switch(&val)?;
        // It places the PGs by other hashes: their objects stay where they are.
        if var == "hashpspool" && !call.args.flag("yes_i_really_mean_it") {
            let why = "this places all PGs of the pool anew, and those that have objects are down until it is changed back";
            return fail(Errno::EPERM, format!("{why}; pass --yes-i-really-mean-it to do it all the same"));
        }
        Box::new(move |pool| if on { pool.flags |= flag } else { pool.flags &= !flag })
    } else if let Some((key, _)) = PoolOptionKey::NAMES.iter().find(|(_, n)| *n == var) {
        set_option(*key, &var, &val)?
    } else {
        match var.as_str() {
            "size" => {
                check_size(number(&val)?)?;
                Box::new(|pool| (pool.size, pool.min_size) = (1, 1))
            }
            "min_size" => match number(&val)? {
                n if n >= 1 && n <= u64::from(pool.size) => Box::new(move |pool| pool.min_size = n as u8),
                _ => {
                    return fail(
                        Errno::EINVAL,
                        format!("min_size must be from 1 to size, which is {}", pool.size),
                    );
                }
            },
            "pg_num" => {
                let n = number(&val)?;
                return set_pg_num(mon, call, id, n);
            }
            "pgp_num" | "pgp_num_actual" => {
                let n = number(&val)?;
                return set_pgp_num(mon, call, id, (&var, n));
            }
            "crush_rule" => match mon.osdmap.crush.rule_by_name(&val).and_then(|n| u8::try_from(n).ok()) {
                Some(rule) => {
                    check_rule(mon, id, (&name, pool), (&val, rule))?;
                    Box::new(move |pool| pool.crush_rule = rule)
                }
                None => return fail(Errno::ENOENT, format!("there is no CRUSH rule '{val}'")),
            },
            "use_gmt_hitset" => {
                let on = switch(&val)?;
                Box::new(move |pool| pool.use_gmt_hitset = on)
            }
            "fast_read" => {
                return fail(
                    Errno::EINVAL,
                    "fast_read applies to erasure-coded pools only, which are not supported yet",
                );
            }
            "snap_seq" => {
                let (n, given) = (number(&val)?, pool.snap_seq.0);
                if !(given..=SNAP_SEQ_MAX).contains(&n) {
                    let why = format!("snap_seq is {given}: it may only rise, to {SNAP_SEQ_MAX} at most");
                    return fail(Errno::EINVAL, why);
                }
                let epoch = mon.osdmap.epoch.next();
                Box::new(move |pool| {
                    (pool.snap_seq, pool.snap_epoch) = (SnapId(n), epoch);
                    // A pool with snapshots is of one kind, which a reader of the map guesses where it is not said.
                    if n > 0 && pool.flags & (PoolFlags::POOL_SNAPS | PoolFlags::SELFMANAGED_SNAPS) == 0 {
                        pool.flags |= PoolFlags::SELFMANAGED_SNAPS;
                    }
                })
            }
            "pg_autoscale_mode" => {
                let mode = autoscale_number(&val)?;
                Box::new(move |pool| pool.pg_autoscale_mode = mode)
            }
            _ => {
                return fail(Errno::EINVAL, format!("'{var}' is not a pool setting that can be changed"));
            }
        }
    };
    mon.change_pool(call.now, id, change)?;
    let why = match has_effect(&var) {
        true if is_compression(&var) => does_not_compress(mon),
        true => None,
        false => Some(format!(": {}", without_effect(&var))),
    };
    Ok(match why {
        None => said,
        Some(why) => Answer::status(format!("{}, which has no effect{why}", said.status)),
    })
}

/// Refuses a rule that would take PGs from their objects.
fn check_rule(
    mon: &Mon,
    id: PoolId,
    (name, pool): (&str, &PgPool),
    (wanted, rule): (&str, u8),
) -> Result<(), Failure> {
    let Some(leaving) = mon.leaving(id, &PgPool { crush_rule: rule, ..pool.clone() }) else { return Ok(()) };
    let stays = mon.osdmap.crush.rule_names.get(&i32::from(pool.crush_rule)).cloned();
    let stays = stays.unwrap_or_else(|| pool.crush_rule.to_string());
    let (pg_num, pgp_num) = (pool.pg_num_target, pool.pgp_num_target);
    fail(
        Errno::EOPNOTSUPP,
        format!(
            "rule '{wanted}' would place PGs on other OSDs ({leaving}): {NO_MOVES}; the rule stays '{stays}'. To have \
             the objects under rule '{wanted}', make a pool with it (ceph osd pool create NEW {pg_num} {pgp_num} \
             replicated {wanted}) and copy them there (rados cppool {name} NEW)"
        ),
    )
}

/// Why nothing reads a setting.
fn without_effect(var: &str) -> &'static str {
    match var {
        "csum_type" | "csum_min_block" | "csum_max_block" => "block stores have a crc32c of each 4 KiB",
        "nosizechange" => "pools have one copy until replication is there",
        _ => "Loligo has no recovery, autoscaler or deduplication yet",
    }
}

fn is_compression(var: &str) -> bool {
    var.starts_with("compression_")
}

/// The store that compresses, as OSDs name it in their metadata.
const COMPRESSES: &str = "block";

/// Names the OSDs whose stores do not compress, if there are any.
fn does_not_compress(mon: &Mon) -> Option<String> {
    let store = |osd: i32| mon.osd_metadata(osd).get("osd_objectstore").cloned();
    let other = |osd: &i32| store(*osd).is_some_and(|store| store != COMPRESSES);
    let osds: Vec<String> = osdmap::osds(&mon.osdmap).filter(other).map(|osd| format!("osd.{osd}")).collect();
    let all = osds.join(", ");
    (!osds.is_empty()).then(|| format!(" on {all}: only the store '{COMPRESSES}' compresses"))
}

/// Whether something reads a setting. Others are kept and shown, as clients of Ceph expect.
fn has_effect(var: &str) -> bool {
    matches!(
        var,
        "size"
            | "min_size"
            | "pg_num"
            | "pgp_num"
            | "pgp_num_actual"
            | "crush_rule"
            | "hashpspool"
            | "nodelete"
            | "write_fadvise_dontneed"
            | "eio"
            | "noscrub"
            | "nodeep-scrub"
            | "scrub_min_interval"
            | "scrub_max_interval"
            | "deep_scrub_interval"
    ) || is_compression(var)
}

/// The texts that a setting may have which nothing reads.
fn choices(var: &str) -> Option<Vec<&'static str>> {
    match var {
        "csum_type" => options::ceph_choices("bluestore_csum_type"),
        "fingerprint_algorithm" => Some(vec!["none", "sha1", "sha256", "sha512"]),
        "dedup_chunk_algorithm" => Some(vec!["none", "fastcdc", "fixed"]),
        _ => None,
    }
}

/// A change of one of the pool's named options; 0, an empty value or `unset` takes it away.
fn set_option(key: i32, var: &str, val: &str) -> Result<Change, Failure> {
    const FLOATS: [&str; 6] = [
        "scrub_min_interval",
        "scrub_max_interval",
        "deep_scrub_interval",
        "target_size_ratio",
        "pg_autoscale_bias",
        "read_lease_interval",
    ];
    if val.is_empty() || val == "unset" || val == "0" {
        return Ok(Box::new(move |pool| drop(pool.opts.remove(&key))));
    }
    let option = if is_compression(var) {
        read_compression(var, val)?
    } else if let Some(choices) = choices(var) {
        if !choices.contains(&val) {
            return fail(Errno::EINVAL, format!("{var}: '{val}' is not one of {}", choices.join(", ")));
        }
        PoolOption::Str(val.to_string())
    } else if var == "recovery_priority" {
        match parse_int(val) {
            Some(priority) if (-10..=10).contains(&priority) => PoolOption::Int(priority),
            _ => return fail(Errno::EINVAL, format!("recovery_priority: '{val}' is not from -10 to 10")),
        }
    } else if FLOATS.contains(&var) {
        match val.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => PoolOption::Double(number),
            _ => return fail(Errno::EINVAL, format!("{var}: '{val}' is not a number from 0 on")),
        }
    } else {
        PoolOption::Int(i64::try_from(number(val)?).unwrap_or(i64::MAX))
    };
    Ok(Box::new(move |pool| drop(pool.opts.insert(key, option))))
}

/// A pool's setting of compression takes what the OSDs' option takes that it goes before.
fn read_compression(var: &str, val: &str) -> Result<PoolOption, Failure> {
    let option = options::lookup(&format!("bluestore_{var}"));
    let read = option.map(|option| option.read(val));
    match read {
        Some(Ok(Value::Text(text))) => Ok(PoolOption::Str(text)),
        Some(Ok(Value::Float(number))) => Ok(PoolOption::Double(number)),
        Some(Ok(Value::Size(bytes))) => Ok(PoolOption::Int(i64::try_from(bytes).unwrap_or(i64::MAX))),
        Some(Err(error)) => fail(Errno::EINVAL, format!("{var}: {error}")),
        Some(Ok(Value::Bool(_) | Value::Int(_))) | None => {
            fail(Errno::EINVAL, format!("'{var}' is not a pool setting that can be changed"))
        }
    }
}

fn set_quota(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, field) = (call.args.required("pool")?, call.args.required("field")?);
    let text = call.args.required("val")?;
    let id = find(mon, &name)?;
    let (value, example) = match field.as_str() {
        "max_objects" => {
            (parse_int(&text).and_then(|n| u64::try_from(n).ok()), "a count, as 1000, 10K or 5M")
        }
        _ => (parse_size(&text), "bytes, as 4096, 64K or 10Gi"),
    };
    let Some(value) = value else {
        return fail(Errno::EINVAL, format!("'{text}' is not a value for {field} ({example})"));
    };
    match field.as_str() {
        "max_bytes" => mon.change_pool(call.now, id, |pool| pool.quota_max_bytes = value)?,
        "max_objects" => mon.change_pool(call.now, id, |pool| pool.quota_max_objects = value)?,
        _ => {
            return fail(
                Errno::EINVAL,
                format!("'{field}' is not a quota (expected max_bytes or max_objects)"),
            );
        }
    }
    Ok(Answer::status(format!("set-quota {field} = {value} for pool {name}")))
}

fn get_quota(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("pool")?;
    let id = find(mon, &name)?;
    let usage = mon.pool_usage(id);
    let json = || {
        Json::object()
            .with("pool_name", name.as_str())
            .with("pool_id", id.0)
            .with("quota_max_objects", usage.quota_objects)
            .with("current_num_objects", usage.objects)
            .with("quota_max_bytes", usage.quota_bytes)
            .with("current_num_bytes", usage.stored)
    };
    let limit = |n: u64, text: String| if n == 0 { "N/A".to_string() } else { text };
    let text = || {
        format!(
            "quotas for pool '{name}':\n  max objects: {}\n  max bytes  : {}\n",
            limit(usage.quota_objects, format!("{} objects", crate::fmt::count(usage.quota_objects))),
            limit(usage.quota_bytes, crate::fmt::bytes(usage.quota_bytes))
        )
    };
    Ok(call.show(json, text))
}
