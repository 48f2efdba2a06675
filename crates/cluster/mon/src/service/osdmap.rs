//! Making the next OSD map, and reading facts from one.

use std::collections::BTreeMap;

use crush::CrushMap;
use maps::{
    ApplyError, Incremental, MapFlags, OsdMap, OsdState, PgPool, Publication, UnreadableMap, publish,
};
use types::{Epoch, Fsid, OsdId, PoolId, UTime};

use crate::command::status::span;
use crate::fmt::Json;
use crate::service::kept_maps;
use crate::state::Batch;

/// Why a change of the map can't be proposed: our own mistake.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProposeError {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("OSD map {epoch}, which it makes, can't be read: {source}")]
    Unreadable { epoch: Epoch, source: UnreadableMap },
}

/// Makes the next epoch out of an increment and adds it to the batch. The map is not to be shown before the batch is
/// durable. A map that can't be read back is none: OSDs, and the monitor after its next start, would refuse it for ever.
pub fn propose(
    previous: &OsdMap,
    mut increment: Incremental,
    batch: &mut Batch,
) -> Result<Publication, ProposeError> {
    let ups = !increment.new_up_client.is_empty()
        || increment.new_state.values().any(|bits| *bits == 0 || bits & OsdState::UP != 0);
    if ups {
        increment.new_last_up_change = increment.modified;
    }
    if !increment.new_weight.is_empty() {
        increment.new_last_in_change = increment.modified;
    }
    let published = publish(previous, increment)?;
    let epoch = published.map.epoch;
    published.check_readable(previous).map_err(|source| ProposeError::Unreadable { epoch, source })?;
    kept_maps::put(batch, &published);
    Ok(published)
}

/// A new increment.
pub fn increment(epoch: Epoch, fsid: Fsid, now: UTime) -> Incremental {
    Incremental::new(fsid, epoch, now)
}

/// The OSDs that exist.
pub fn osds(map: &OsdMap) -> impl Iterator<Item = i32> + '_ {
    map.existing_osds().map(|(id, _)| id.0)
}

/// Whether an OSD exists.
pub fn exists(map: &OsdMap, osd: i32) -> bool {
    map.exists(OsdId(osd))
}

/// Whether an OSD is up.
pub fn is_up(map: &OsdMap, osd: i32) -> bool {
    map.is_up(OsdId(osd))
}

/// Whether an OSD is in.
pub fn is_in(map: &OsdMap, osd: i32) -> bool {
    map.is_in(OsdId(osd))
}

/// Whether an OSD is down and still in.
pub fn is_down_in(map: &OsdMap, osd: i32) -> bool {
    exists(map, osd) && !is_up(map, osd) && is_in(map, osd)
}

/// Whether a flag (of [`OsdState`]: NOUP, NODOWN, NOIN, NOOUT) holds an OSD: its own, or one of its device class or of
/// a CRUSH node above it. The flags of the whole map are others.
pub fn is_held(map: &OsdMap, osd: i32, flag: u32) -> bool {
    let has = |flags: &BTreeMap<i32, u32>, id: i32| flags.get(&id).is_some_and(|flags| flags & flag != 0);
    let own = map.osd(OsdId(osd)).is_some_and(|entry| entry.state & flag != 0);
    let class = map.crush.item_classes.get(&osd).is_some_and(|class| has(&map.device_class_flags, *class));
    own || class || {
        let mut above = map.crush.parent_of(osd).map(|bucket| bucket.id);
        // A tree has at most as many levels as buckets.
        (0..map.crush.buckets.len()).any(|_| {
            let Some(node) = above else { return false };
            above = map.crush.parent_of(node).map(|bucket| bucket.id);
            has(&map.crush_node_flags, node)
        }) || has(&map.crush_node_flags, osd)
    }
}

/// The names of [`is_held`]'s flags.
pub fn held_names(flags: u32) -> Vec<&'static str> {
    let all = [
        ("noup", OsdState::NOUP),
        ("nodown", OsdState::NODOWN),
        ("noin", OsdState::NOIN),
        ("noout", OsdState::NOOUT),
    ];
    all.into_iter().filter(|(_, bit)| flags & bit != 0).map(|(name, _)| name).collect()
}

/// How much of an OSD's weight counts: 0 (out) to 1 (in).
pub fn reweight(map: &OsdMap, osd: i32) -> f64 {
    f64::from(map.weight(OsdId(osd))) / f64::from(OsdMap::WEIGHT_IN)
}

/// How readily an OSD becomes primary: 0 to 1.
pub fn primary_affinity(map: &OsdMap, osd: i32) -> f64 {
    let table = map.primary_affinity.as_ref();
    let slot = usize::try_from(osd).ok().and_then(|i| table?.get(i));
    slot.map_or(1.0, |affinity| f64::from(*affinity) / f64::from(OsdMap::WEIGHT_IN))
}

/// The pools: id, name, pool.
pub fn pools(map: &OsdMap) -> impl Iterator<Item = (PoolId, String, &PgPool)> + '_ {
    map.pools.iter().map(|(id, pool)| (*id, pool_name(map, *id), pool))
}

pub fn pool(map: &OsdMap, id: PoolId) -> Option<&PgPool> {
    map.pools.get(&id)
}

/// A pool's name.
pub fn pool_name(map: &OsdMap, id: PoolId) -> String {
    map.pool_names.get(&id).cloned().unwrap_or_default()
}

pub fn crush(map: &OsdMap) -> &CrushMap {
    &map.crush
}

/// The ratio at which OSDs are full.
pub fn full_ratio(map: &OsdMap) -> f32 {
    map.full_ratio
}

/// When the cluster was made.
pub fn created(map: &OsdMap) -> UTime {
    map.created
}

fn counts(map: &OsdMap) -> (usize, usize, usize) {
    let up = osds(map).filter(|osd| is_up(map, *osd)).count();
    let inside = osds(map).filter(|osd| is_in(map, *osd)).count();
    (osds(map).count(), up, inside)
}

/// PGs that an exception places elsewhere.
fn remapped(map: &OsdMap) -> usize {
    map.pg_temp.len()
}

/// `osd stat` and the `osdmap` member of `status`.
pub fn summary_json(map: &OsdMap) -> Json {
    let (all, up, inside) = counts(map);
    Json::object()
        .with("epoch", map.epoch.0)
        .with("num_osds", all)
        .with("num_up_osds", up)
        .with("osd_up_since", map.last_up_change.sec)
        .with("num_in_osds", inside)
        .with("osd_in_since", map.last_in_change.sec)
        .with("num_remapped_pgs", remapped(map))
}

/// A map in the cluster log's line of it.
pub fn line(map: &OsdMap) -> String {
    let (all, up, inside) = counts(map);
    format!("osdmap e{}: {all} total, {up} up, {inside} in", map.epoch.0)
}

/// The `osd:` line of `status`.
pub fn summary_text(map: &OsdMap, now: UTime) -> String {
    let (all, up, inside) = counts(map);
    let since = |stamp: UTime| {
        if stamp == UTime::default() {
            String::new()
        } else {
            format!(" (since {})", span(u64::from(now.sec.saturating_sub(stamp.sec))))
        }
    };
    let mut out = format!("{all} osds: {up} up");
    out += &since(map.last_up_change);
    out += &format!(", {inside} in");
    out += &since(map.last_in_change);
    match remapped(map) {
        0 => out,
        n => out + &format!("; {n} remapped pgs"),
    }
}

/// Flags that pause something, as `health` names them.
pub fn warn_flags(map: &OsdMap) -> String {
    const WARN: u32 = MapFlags::PAUSERD
        | MapFlags::PAUSEWR
        | MapFlags::PAUSEREC
        | MapFlags::NOUP
        | MapFlags::NODOWN
        | MapFlags::NOIN
        | MapFlags::NOOUT
        | MapFlags::NOBACKFILL
        | MapFlags::NORECOVER
        | MapFlags::NOSCRUB
        | MapFlags::NODEEP_SCRUB
        | MapFlags::NOTIERAGENT
        | MapFlags::NOSNAPTRIM
        | MapFlags::NOREBALANCE;
    MapFlags::names(map.flags & WARN)
}
