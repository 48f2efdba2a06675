//! `osd …` that places single PGs against CRUSH: upmaps, temporary acting sets, and weights of many OSDs at once.
//!
//! Data does not follow a PG yet, so a command that takes a PG from its objects says so ([`crate::elsewhere`]).

use maps::{OsdMap, PgPool};
use types::{Errno, OsdId, PgId};

use super::args::parse_osd;
use super::osd::set_text;
use super::{Answer, Call, Command, Failure, fail, osd_rw};
use crate::mon::{Claim, Mon};
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    osd_rw(
        "osd pg-upmap name=pgid,type=CephPgid name=id,type=CephOsdName,n=N",
        "Place a PG on these OSDs",
        pg_upmap,
    ),
    osd_rw("osd rm-pg-upmap name=pgid,type=CephPgid", "Undo osd pg-upmap", |mon, call| {
        let (pg, _) = pg(mon, call)?;
        if mon.osdmap.pg_upmap.contains_key(&pg) {
            mon.claim_or_wait(Claim::Placement)?;
            mon.osdmap_change(call.now).old_pg_upmap.insert(pg);
        }
        Ok(Answer::status(format!("clear {pg} pg_upmap mapping")))
    }),
    osd_rw(
        "osd pg-upmap-items name=pgid,type=CephPgid name=id,type=CephOsdName,n=N",
        "Place a PG on other OSDs: pairs of the OSD that CRUSH gives, and the one to take for it",
        pg_upmap_items,
    ),
    osd_rw("osd rm-pg-upmap-items name=pgid,type=CephPgid", "Undo osd pg-upmap-items", |mon, call| {
        let (pg, _) = pg(mon, call)?;
        if mon.osdmap.pg_upmap_items.contains_key(&pg) {
            mon.claim_or_wait(Claim::Placement)?;
            mon.osdmap_change(call.now).old_pg_upmap_items.insert(pg);
        }
        Ok(Answer::status(format!("clear {pg} pg_upmap_items mapping")))
    }),
    osd_rw(
        "osd pg-temp name=pgid,type=CephPgid name=id,type=CephOsdName,n=N,req=false",
        "Let these OSDs serve a PG for the time being; without OSDs: those that CRUSH gives",
        pg_temp,
    ),
    osd_rw(
        "osd primary-temp name=pgid,type=CephPgid name=id,type=CephOsdName",
        "Let this OSD be a PG's primary for the time being",
        primary_temp,
    ),
    osd_rw("osd rm-primary-temp name=pgid,type=CephPgid", "Undo osd primary-temp", |mon, call| {
        let (pg, _) = pg(mon, call)?;
        if mon.osdmap.primary_temp.contains_key(&pg) {
            mon.claim_or_wait(Claim::Placement)?;
            mon.osdmap_change(call.now).new_primary_temp.insert(pg, OsdId(-1));
        }
        Ok(Answer::status(format!("done cleaning up primary_temp of {pg}")))
    }),
    osd_rw(
        "osd reweightn name=weights,type=CephString",
        "Let only parts of OSDs' weights count: a JSON object of weights (65536 for 1) by OSD",
        reweightn,
    ),
];

/// The PG that a command names, with its pool.
fn pg<'a>(mon: &'a Mon, call: &Call<'_>) -> Result<(PgId, &'a PgPool), Failure> {
    let text = call.args.required("pgid")?;
    let Ok(pg) = text.parse::<PgId>() else { return fail(Errno::EINVAL, format!("invalid pgid '{text}'")) };
    match mon.osdmap.pools.get(&pg.pool).filter(|pool| pg.seed < pool.pg_num) {
        Some(pool) => Ok((pg, pool)),
        None => fail(Errno::ENOENT, format!("pgid '{text}' does not exist")),
    }
}

/// The OSDs that a command names; all exist.
fn osds(mon: &Mon, call: &Call<'_>) -> Result<Vec<OsdId>, Failure> {
    let mut out = Vec::new();
    for text in call.args.list("id")? {
        match parse_osd(&text) {
            Some(osd) if osdmap::exists(&mon.osdmap, osd) => out.push(OsdId(osd)),
            Some(osd) => return fail(Errno::ENOENT, format!("osd.{osd} does not exist")),
            None => return fail(Errno::EINVAL, format!("'{text}' is not an OSD")),
        }
    }
    Ok(out)
}

/// Refuses a number of OSDs that does not fit the pool.
fn check_count(count: usize, pool: &PgPool) -> Result<(), Failure> {
    let (min, max) = (pool.min_size, pool.size);
    if count < usize::from(min) {
        return fail(Errno::EINVAL, format!("num of osds ({count}) < pool min size ({min})"));
    }
    if count > usize::from(max) {
        return fail(Errno::EINVAL, format!("num of osds ({count}) > pool size ({max})"));
    }
    Ok(())
}

fn pg_upmap(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (pg, pool) = pg(mon, call)?;
    let mut chosen = Vec::new();
    for osd in osds(mon, call)? {
        if !chosen.contains(&osd) {
            chosen.push(osd);
        }
    }
    check_count(chosen.len(), pool)?;
    mon.claim_or_wait(Claim::Placement)?;
    let shown = set_text(&chosen);
    mon.osdmap_change(call.now).new_pg_upmap.insert(pg, chosen);
    Ok(Answer::status(format!("set {pg} pg_upmap mapping to {shown}")))
}

fn pg_upmap_items(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (pg, pool) = pg(mon, call)?;
    let all = osds(mon, call)?;
    if all.len() % 2 != 0 || all.is_empty() {
        return fail(Errno::EINVAL, "you must specify pairs of osd ids to be remapped");
    }
    if all.len() / 2 > usize::from(pool.size) {
        let text = format!("num of osd pairs ({}) > pool size ({})", all.len() / 2, pool.size);
        return fail(Errno::EINVAL, text);
    }
    let mut pairs: Vec<(OsdId, OsdId)> = Vec::new();
    for pair in all.chunks_exact(2) {
        let pair = (pair[0], pair[1]);
        if pair.0 != pair.1 && !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    if pairs.is_empty() {
        return fail(Errno::EINVAL, "no valid upmap items(pairs) is specified");
    }
    mon.claim_or_wait(Claim::Placement)?;
    let shown: Vec<String> = pairs.iter().map(|(from, to)| format!("{from}->{to}")).collect();
    mon.osdmap_change(call.now).new_pg_upmap_items.insert(pg, pairs);
    Ok(Answer::status(format!("set {pg} pg_upmap_items mapping to [{}]", shown.join(","))))
}

fn pg_temp(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (pg, pool) = pg(mon, call)?;
    let chosen = osds(mon, call)?;
    if chosen.is_empty() {
        if mon.osdmap.pg_temp.contains_key(&pg) {
            mon.claim_or_wait(Claim::Placement)?;
            mon.osdmap_change(call.now).new_pg_temp.insert(pg, Vec::new());
        }
        return Ok(Answer::status(format!("done cleaning up pg_temp of {pg}")));
    }
    check_count(chosen.len(), pool)?;
    mon.claim_or_wait(Claim::Placement)?;
    let shown = set_text(&chosen);
    mon.osdmap_change(call.now).new_pg_temp.insert(pg, chosen);
    Ok(Answer::status(format!("set {pg} pg_temp mapping to {shown}")))
}

fn primary_temp(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (pg, _) = pg(mon, call)?;
    let Some(osd) = osds(mon, call)?.first().copied() else { return fail(Errno::EINVAL, "which OSD?") };
    mon.claim_or_wait(Claim::Placement)?;
    mon.osdmap_change(call.now).new_primary_temp.insert(pg, osd);
    Ok(Answer::status(format!("set {pg} primary_temp mapping to {osd}")))
}

fn reweightn(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let bad = |why: String| Failure::Errno(Errno::EINVAL, format!("unable to parse 'weights' value: {why}"));
    let text = call.args.required("weights")?;
    let given: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let mut weights = Vec::new();
    for (name, value) in given {
        let osd = parse_osd(&name).filter(|osd| osdmap::exists(&mon.osdmap, *osd));
        let osd = osd.ok_or_else(|| bad(format!("there is no OSD '{name}'")))?;
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let weight = number.and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= OsdMap::WEIGHT_IN);
        let weight = weight.ok_or_else(|| bad(format!("{value} is not a weight from 0 to 65536")))?;
        weights.push((osd, weight));
    }
    let claims: Vec<Claim> = weights.iter().map(|(osd, _)| Claim::Osd(*osd)).collect();
    mon.claim_all_or_wait(&claims)?;
    if !weights.is_empty() {
        let changed = weights.into_iter().map(|(osd, weight)| (OsdId(osd), weight));
        mon.osdmap_change(call.now).new_weight.extend(changed);
    }
    Ok(Answer::default())
}
