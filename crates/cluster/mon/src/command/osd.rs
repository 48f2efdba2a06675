//! `osd …` that only looks: tree, dump, stat, map, find, metadata.

use std::collections::BTreeMap;

use maps::{OsdMap, OsdState};
use types::{Errno, IntervalSet, Name, ObjectLocator, OsdId, PoolId};

use super::mon::{addrs_json, legacy_addr};
use super::pool_show::{pool_json, pool_line};
use super::status::version_counts;
use super::{Answer, Call, Command, Failure, fail};
use crate::crush_view::{self, location};
use crate::fmt::{Align, Json, Table, general, stamp, weight};
use crate::mon::Mon;
use crate::service::{kept_maps, osdmap};

pub(super) const COMMANDS: &[Command] = &[
    Command { signature: "osd stat", help: "The OSD map in one line", module: "osd", perm: "r", run: stat },
    Command {
        signature: "osd dump name=epoch,type=CephInt,range=0,req=false",
        help: "The OSD map",
        module: "osd",
        perm: "r",
        run: dump,
    },
    Command {
        signature: "osd info name=id,type=CephOsdName,req=false",
        help: "The OSD map's entries of OSDs",
        module: "osd",
        perm: "r",
        run: info,
    },
    Command {
        signature: "osd tree name=epoch,type=CephInt,range=0,req=false name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        help: "Hosts and OSDs as a tree",
        module: "osd",
        perm: "r",
        run: tree,
    },
    Command {
        signature: "osd ls name=epoch,type=CephInt,range=0,req=false",
        help: "Numbers of all OSDs",
        module: "osd",
        perm: "r",
        run: ls,
    },
    Command {
        signature: "osd getmap name=epoch,type=CephInt,range=0,req=false",
        help: "The OSD map in its binary form",
        module: "osd",
        perm: "r",
        run: getmap,
    },
    Command {
        signature: "osd getmaxosd",
        help: "Bound of OSD numbers",
        module: "osd",
        perm: "r",
        run: getmaxosd,
    },
    Command {
        signature: "osd map name=pool,type=CephPoolname name=object,type=CephObjectname name=nspace,type=CephString,req=false",
        help: "Where an object is",
        module: "osd",
        perm: "r",
        run: map,
    },
    Command {
        signature: "osd find name=id,type=CephOsdName",
        help: "Where an OSD is",
        module: "osd",
        perm: "r",
        run: find,
    },
    Command {
        signature: "osd metadata name=id,type=CephOsdName,req=false",
        help: "What an OSD (or every OSD) said of itself",
        module: "osd",
        perm: "r",
        run: metadata,
    },
    Command {
        signature: "osd versions",
        help: "Versions of the OSDs",
        module: "osd",
        perm: "r",
        run: versions,
    },
    Command {
        signature: "osd blocklist ls",
        help: "Addresses that OSDs refuse",
        module: "osd",
        perm: "r",
        run: blocklist_ls,
    },
    Command {
        signature: "osd blacklist ls",
        help: "The blocklist, by its name before Ceph 16",
        module: "osd",
        perm: "r",
        run: blocklist_ls,
    },
    Command {
        signature: "osd get-require-min-compat-client",
        help: "Oldest release that clients must have",
        module: "osd",
        perm: "r",
        run: |mon, _| Ok(Answer::data(mon.osdmap.require_min_compat_client.name().to_string() + "\n")),
    },
    Command {
        signature: "osd tree-from name=epoch,type=CephInt,range=0,req=false name=bucket,type=CephString name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        help: "A bucket, and what is below it, as a tree",
        module: "osd",
        perm: "r",
        run: tree_from,
    },
    Command {
        signature: "osd ls-tree name=epoch,type=CephInt,range=0,req=false name=name,type=CephString,req=true",
        help: "Numbers of the OSDs below a bucket",
        module: "osd",
        perm: "r",
        run: ls_tree,
    },
];

/// The map of the epoch asked for, if that is another one than the newest; decoded and encoded.
fn old_map(mon: &Mon, call: &Call<'_>) -> Result<Option<(OsdMap, Vec<u8>)>, Failure> {
    let epoch = match call.args.int("epoch")? {
        None | Some(0) => return Ok(None),
        Some(epoch) if epoch == i64::from(mon.osdmap.epoch.0) => return Ok(None),
        Some(epoch) => epoch,
    };
    let kept = u64::try_from(epoch).map_or(Ok(None), |epoch| kept_maps::map(&mon.state, epoch));
    match kept.map_err(|e| Failure::Errno(Errno::EIO, e.to_string()))? {
        None => fail(Errno::ENOENT, format!("there is no OSD map of epoch {epoch}")),
        found => Ok(found),
    }
}

/// The map of the epoch asked for.
fn map_of(mon: &Mon, call: &Call<'_>) -> Result<OsdMap, Failure> {
    Ok(old_map(mon, call)?.map_or_else(|| mon.osdmap.clone(), |(map, _)| map))
}

fn stat(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = &mon.osdmap;
    let text = || {
        let summary = osdmap::summary_text(map, call.now);
        match summary.split_once("; ") {
            Some((counts, remapped)) => format!("{counts}; epoch: e{}; {remapped}\n", map.epoch.0),
            None => format!("{summary}; epoch: e{}\n", map.epoch.0),
        }
    };
    Ok(call.show(|| osdmap::summary_json(map), text))
}

fn ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = map_of(mon, call)?;
    let text = || osdmap::osds(&map).map(|osd| format!("{osd}\n")).collect();
    Ok(call.show(|| Json::array(osdmap::osds(&map)), text))
}

fn getmap(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (epoch, data) = match old_map(mon, call)? {
        Some((map, full)) => (map.epoch, full),
        None => (mon.osdmap.epoch, mon.osdmap_full.to_vec()),
    };
    Ok(Answer { status: format!("got osdmap epoch {epoch}"), data })
}

fn getmaxosd(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (max, epoch) = (mon.osdmap.max_osd(), mon.osdmap.epoch.0);
    let json = || Json::object().with("epoch", epoch).with("max_osd", max);
    Ok(call.show(json, || format!("max_osd = {max} in epoch {epoch}\n")))
}

/// `[1,0]`.
pub(crate) fn set_text<T: std::fmt::Display>(osds: &[T]) -> String {
    format!("[{}]", osds.iter().map(T::to_string).collect::<Vec<_>>().join(","))
}

fn map(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (pool, object) = (call.args.required("pool")?, call.args.required("object")?);
    let nspace = call.args.text("nspace")?.unwrap_or_default();
    let map = &mon.osdmap;
    let Some(id) = map.pool_by_name(&pool) else {
        return fail(Errno::ENOENT, format!("pool {pool} does not exist"));
    };
    let locator = ObjectLocator { pool: id, key: Name::new(), nspace: Name::from(nspace.as_str()), hash: -1 };
    let raw = map.object_to_pg(&locator, object.as_bytes());
    let Some((raw, pg)) = raw.and_then(|raw| Some((raw, map.raw_pg_to_pg(raw)?))) else {
        return fail(Errno::ENOENT, format!("pool {pool} does not exist"));
    };
    let place = map.pg_to_up_acting(pg);
    let primary = |osd: Option<OsdId>| osd.map_or(-1, |osd| osd.0);
    let full_name = if nspace.is_empty() { object.clone() } else { format!("{nspace}/{object}") };
    let json = || {
        Json::object()
            .with("epoch", map.epoch.0)
            .with("pool", pool.as_str())
            .with("pool_id", id.0)
            .with("objname", full_name.as_str())
            .with("raw_pgid", raw.to_string())
            .with("pgid", pg.to_string())
            .with("up", Json::array(place.up.iter().map(|osd| osd.0)))
            .with("up_primary", primary(place.up_primary))
            .with("acting", Json::array(place.acting.iter().map(|osd| osd.0)))
            .with("acting_primary", primary(place.acting_primary))
    };
    let text = || {
        format!(
            "osdmap e{} pool '{pool}' ({id}) object '{full_name}' -> pg {raw} ({pg}) -> up ({}, p{}) acting ({}, p{})\n",
            map.epoch.0,
            set_text(&place.up),
            primary(place.up_primary),
            set_text(&place.acting),
            primary(place.acting_primary)
        )
    };
    Ok(call.show(json, text))
}

/// An existing OSD that a command names.
fn named(mon: &Mon, call: &Call<'_>) -> Result<Option<i32>, Failure> {
    match call.args.osd("id")? {
        Some(osd) if !osdmap::exists(&mon.osdmap, osd) => {
            fail(Errno::ENOENT, format!("osd.{osd} does not exist"))
        }
        other => Ok(other),
    }
}

fn find(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let Some(osd) = named(mon, call)? else { return fail(Errno::EINVAL, "which OSD?") };
    let Some(entry) = mon.osdmap.osd(OsdId(osd)) else { return fail(Errno::ENOENT, "no such OSD") };
    let mut json = Json::object()
        .with("osd", osd)
        .with("addrs", addrs_json(&entry.client_addrs))
        .with("osd_fsid", entry.uuid.to_string());
    let metadata = mon.osd_metadata(osd);
    for (key, shown) in [("hostname", "host"), ("container_name", "container_name")] {
        if let Some(value) = metadata.get(key) {
            json.put(shown, value.as_str());
        }
    }
    let mut place = location(&mon.osdmap.crush, osd);
    place.sort();
    let place = place.iter().fold(Json::object(), |out, (kind, name)| out.with(kind, name.as_str()));
    Ok(call.show_json(json.with("crush_location", place)))
}

fn metadata(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let of = |osd: i32| {
        let metadata = mon.osd_metadata(osd);
        metadata.iter().fold(Json::object().with("id", osd), |out, (k, v)| out.with(k, v.as_str()))
    };
    match named(mon, call)? {
        Some(osd) => Ok(call.show_json(of(osd))),
        None => Ok(call.show_json(Json::array(osdmap::osds(&mon.osdmap).map(of)))),
    }
}

fn versions(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    Ok(call.show_json(version_counts(&mon.osd_versions())))
}

fn blocklist_ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let list = &mon.osdmap.blocklist;
    let plain = |addr: &types::EntityAddr| match addr.socket {
        Some(socket) => format!("{socket}/{}", addr.nonce),
        None => addr.to_string(),
    };
    let json =
        || {
            Json::array(list.iter().map(|(addr, until)| {
                Json::object().with("addr", plain(addr)).with("until", until.to_string())
            }))
        };
    let text = || list.iter().map(|(addr, until)| format!("{} {until}\n", plain(addr))).collect();
    let mut answer = call.show(json, text);
    answer.status = format!("listed {} entries", list.len());
    Ok(answer)
}

/// Whether an OSD matches the states that `osd tree` was asked for.
fn matches(map: &OsdMap, osd: i32, states: &[String]) -> bool {
    let (up, inside) = (osdmap::is_up(map, osd), osdmap::is_in(map, osd));
    let destroyed = map.osd(OsdId(osd)).is_some_and(|o| o.state & OsdState::DESTROYED != 0);
    states.iter().all(|state| match state.as_str() {
        "up" => up,
        "down" => !up,
        "in" => inside,
        "out" => !inside,
        "destroyed" => destroyed,
        _ => true,
    })
}

fn tree(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = map_of(mon, call)?;
    let nodes = crush_view::walk(&map.crush, false);
    show_tree(call, &map, nodes, true)
}

/// The item that a command names.
fn item(map: &OsdMap, name: &str) -> Result<i32, Failure> {
    match map.crush.item_by_name(name) {
        Some(id) => Ok(id),
        None => fail(Errno::ENOENT, format!("there is no bucket '{name}' in the CRUSH map")),
    }
}

fn tree_from(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = map_of(mon, call)?;
    let bucket = item(&map, &call.args.required("bucket")?)?;
    let nodes = crush_view::walk_from(&map.crush, bucket);
    show_tree(call, &map, nodes, false)
}

fn ls_tree(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = map_of(mon, call)?;
    let bucket = item(&map, &call.args.required("name")?)?;
    let mut osds: Vec<i32> = crush_view::walk_from(&map.crush, bucket).iter().map(|node| node.id).collect();
    osds.retain(|id| *id >= 0 && osdmap::exists(&map, *id));
    osds.sort_unstable();
    let text = || osds.iter().map(|osd| format!("{osd}\n")).collect();
    Ok(call.show(|| Json::array(osds.iter().copied()), text))
}

/// Shows a walk of the tree; `with_stray`: and the OSDs that are not in the tree.
fn show_tree(
    call: &Call<'_>,
    map: &OsdMap,
    mut nodes: Vec<crush_view::Node>,
    with_stray: bool,
) -> Result<Answer, Failure> {
    let states = call.args.list("states")?;
    let crush = &map.crush;
    if !states.is_empty() {
        let keep: std::collections::BTreeSet<i32> =
            nodes.iter().map(|n| n.id).filter(|id| *id >= 0 && matches(map, *id, &states)).collect();
        let above =
            |bucket: i32| crush_view::walk_from(crush, bucket).iter().any(|below| keep.contains(&below.id));
        nodes.retain(|node| if node.id >= 0 { keep.contains(&node.id) } else { above(node.id) });
        let shown: std::collections::BTreeSet<i32> = nodes.iter().map(|n| n.id).collect();
        nodes.iter_mut().for_each(|node| node.children.retain(|child| shown.contains(child)));
    }
    let status = |osd: i32| match map.osd(OsdId(osd)) {
        None => "DNE",
        Some(entry) if entry.is_up() => "up",
        Some(entry) if entry.state & OsdState::DESTROYED != 0 => "destroyed",
        Some(_) => "down",
    };
    let placed: std::collections::BTreeSet<i32> = nodes.iter().map(|n| n.id).collect();
    let stray: Vec<i32> = osdmap::osds(map)
        .filter(|osd| {
            with_stray
                && !placed.contains(osd)
                && crush.parent_of(*osd).is_none()
                && matches(map, *osd, &states)
        })
        .collect();
    let osd_members = |mut out: Json, osd: i32| {
        out.put("exists", u64::from(osdmap::exists(map, osd)));
        out.put("status", status(osd));
        out.put("reweight", osdmap::reweight(map, osd));
        out.put("primary_affinity", osdmap::primary_affinity(map, osd));
        out
    };
    let json = || {
        let shown = nodes.iter().map(|node| {
            let out = crush_view::node_json(crush, node);
            if node.id >= 0 {
                osd_members(out, node.id)
            } else {
                out.with("children", Json::array(node.children.iter().copied()))
            }
        });
        let stray = stray.iter().map(|osd| {
            let bare = Json::object().with("id", *osd).with("name", format!("osd.{osd}"));
            let bare = bare.with("type", "osd").with("type_id", 0).with("crush_weight", 0.0).with("depth", 0);
            osd_members(bare, *osd)
        });
        Json::object().with("nodes", Json::array(shown)).with("stray", Json::array(stray))
    };
    let text = || {
        let mut table = Table::new()
            .column("ID", Align::Left, Align::Right)
            .column("CLASS", Align::Left, Align::Right)
            .column("WEIGHT", Align::Left, Align::Right)
            .columns(Align::Left, &["TYPE NAME"])
            .column("STATUS", Align::Left, Align::Right)
            .column("REWEIGHT", Align::Left, Align::Right)
            .column("PRI-AFF", Align::Left, Align::Right);
        let mut row = |id: i32, crush_weight: f64, label: String| {
            let class = crush.device_class(id).unwrap_or("").to_string();
            let mut cells = vec![id.to_string(), class, weight(crush_weight), label];
            if id >= 0 {
                cells.push(status(id).to_string());
                cells.push(weight(osdmap::reweight(map, id)));
                cells.push(weight(osdmap::primary_affinity(map, id)));
            }
            table.row(cells);
        };
        for node in &nodes {
            row(node.id, crush_view::weight(node.weight), crush_view::node_label(crush, node));
        }
        for osd in &stray {
            row(*osd, 0.0, format!("osd.{osd}"));
        }
        table.render()
    };
    Ok(call.show(json, text))
}

/// An OSD's states as words.
pub(super) fn states(state: u32) -> Vec<&'static str> {
    const NAMES: [&str; 13] = [
        "exists",
        "up",
        "autoout",
        "new",
        "full",
        "nearfull",
        "backfillfull",
        "destroyed",
        "noup",
        "nodown",
        "noin",
        "noout",
        "stop",
    ];
    NAMES.iter().enumerate().filter(|(bit, _)| state >> bit & 1 == 1).map(|(_, name)| *name).collect()
}

fn osd_json(map: &OsdMap, osd: i32) -> Json {
    let entry = map.osd(OsdId(osd)).cloned().unwrap_or_default();
    let info = entry.info;
    let mut out = Json::object()
        .with("osd", osd)
        .with("uuid", entry.uuid.to_string())
        .with("up", u64::from(entry.is_up()))
        .with("in", u64::from(osdmap::is_in(map, osd)))
        .with("weight", osdmap::reweight(map, osd))
        .with("primary_affinity", osdmap::primary_affinity(map, osd));
    for (name, epoch) in [
        ("last_clean_begin", info.last_clean_begin),
        ("last_clean_end", info.last_clean_end),
        ("up_from", info.up_from),
        ("up_thru", info.up_thru),
        ("down_at", info.down_at),
        ("lost_at", info.lost_at),
    ] {
        out.put(name, epoch.0);
    }
    let addrs = [
        ("public", &entry.client_addrs),
        ("cluster", &entry.cluster_addrs),
        ("heartbeat_back", &entry.hb_back_addrs),
        ("heartbeat_front", &entry.hb_front_addrs),
    ];
    for (name, addrs) in addrs {
        out.put(&format!("{name}_addrs"), addrs_json(addrs));
    }
    for (name, addrs) in addrs {
        out.put(&format!("{name}_addr"), legacy_addr(addrs));
    }
    // The words are in the order of their bits from the top, as Ceph's programs show them.
    let mut words = states(entry.state);
    words.sort_unstable();
    out.with("state", Json::array(words))
}

fn osd_line(map: &OsdMap, osd: i32) -> String {
    let entry = map.osd(OsdId(osd)).cloned().unwrap_or_default();
    let info = entry.info;
    let mut line = format!(
        "osd.{osd} {} {} weight {}",
        if entry.is_up() { "up  " } else { "down" },
        if osdmap::is_in(map, osd) { "in " } else { "out" },
        general(osdmap::reweight(map, osd), 6)
    );
    let affinity = osdmap::primary_affinity(map, osd);
    if affinity != 1.0 {
        line += &format!(" primary_affinity {}", general(affinity, 6));
    }
    line += &format!(
        " up_from {} up_thru {} down_at {} last_clean_interval [{},{})",
        info.up_from.0, info.up_thru.0, info.down_at.0, info.last_clean_begin.0, info.last_clean_end.0
    );
    if info.lost_at.0 != 0 {
        line += &format!(" lost_at {}", info.lost_at.0);
    }
    let bracketed = |addrs: &types::EntityAddrVec| match addrs.0.len() {
        1 => format!("[{addrs}]"),
        _ => addrs.to_string(),
    };
    line += &format!(" {} {} ", bracketed(&entry.client_addrs), bracketed(&entry.cluster_addrs));
    line += &states(entry.state).join(",");
    if !entry.uuid.is_zero() {
        line += &format!(" {}", entry.uuid);
    }
    line
}

fn info(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = &mon.osdmap;
    match named(mon, call)? {
        Some(osd) => Ok(call.show(|| osd_json(map, osd), || osd_line(map, osd) + "\n")),
        None => {
            let text = || osdmap::osds(map).map(|osd| osd_line(map, osd) + "\n").collect();
            Ok(call.show(|| Json::array(osdmap::osds(map).map(|osd| osd_json(map, osd))), text))
        }
    }
}

fn dump(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = map_of(mon, call)?;
    Ok(call.show(|| dump_json(&map), || dump_text(&map)))
}

/// The oldest release whose clients understand the map.
fn min_compat_client(map: &OsdMap) -> &'static str {
    if map.pg_upmap.is_empty() && map.pg_upmap_items.is_empty() { "jewel" } else { "luminous" }
}

fn dump_text(map: &OsdMap) -> String {
    let ratio = |value: f32| general(f64::from(value), 6);
    let mut out = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\nfull_ratio {}\nbackfillfull_ratio {}\nnearfull_ratio {}\n",
        map.epoch.0,
        map.fsid,
        map.created,
        map.modified,
        maps::MapFlags::names(map.flags),
        map.crush_version,
        ratio(map.full_ratio),
        ratio(map.backfillfull_ratio),
        ratio(map.nearfull_ratio)
    );
    out += &format!(
        "require_min_compat_client {}\nmin_compat_client {}\nrequire_osd_release {}\nstretch_mode_enabled {}\n",
        map.require_min_compat_client.name(),
        min_compat_client(map),
        map.require_osd_release.name(),
        map.stretch.enabled
    );
    for (id, name, pool) in osdmap::pools(map) {
        out += &pool_line(id, &name, pool);
        out.push('\n');
    }
    out += &format!("max_osd {}\n", map.max_osd());
    for osd in osdmap::osds(map) {
        out += &osd_line(map, osd);
        out.push('\n');
    }
    for (pg, osds) in &map.pg_temp {
        out += &format!("pg_temp {pg} {}\n", set_text(osds));
    }
    for (addr, until) in &map.blocklist {
        out += &format!("blocklist {addr} expires {until}\n");
    }
    out
}

/// Snapshots by pool.
fn snaps_json(pools: &BTreeMap<PoolId, IntervalSet>) -> Json {
    let interval =
        |(begin, length): &(u64, u64)| Json::object().with("begin", *begin).with("length", *length);
    Json::array(pools.iter().map(|(pool, snaps)| {
        Json::object().with("pool", pool.0).with("snaps", Json::array(snaps.ranges().iter().map(interval)))
    }))
}

pub(super) fn dump_json(map: &OsdMap) -> Json {
    let flags = maps::MapFlags::names(map.flags);
    let mut flag_set: Vec<&str> = flags.split(',').filter(|f| !f.is_empty()).collect();
    flag_set.sort_unstable();
    let stretch = Json::object()
        .with("stretch_mode_enabled", map.stretch.enabled)
        .with("stretch_bucket_count", map.stretch.bucket_count)
        .with("degraded_stretch_mode", map.stretch.degraded)
        .with("recovering_stretch_mode", map.stretch.recovering)
        .with("stretch_mode_bucket", map.stretch.bucket);
    let xinfo = osdmap::osds(map).map(|osd| {
        let x = map.osd(OsdId(osd)).map(|o| o.xinfo).unwrap_or_default();
        Json::object()
            .with("osd", osd)
            .with("down_stamp", stamp(x.down_stamp))
            .with("laggy_probability", f64::from(x.laggy_probability) / f64::from(u32::MAX))
            .with("laggy_interval", x.laggy_interval)
            .with("features", x.features)
            .with("old_weight", f64::from(x.old_weight) / 65536.0)
            .with("last_purged_snaps_scrub", stamp(x.last_purged_snaps_scrub))
            .with("dead_epoch", x.dead_epoch.0)
    });
    let temp = map.pg_temp.iter().map(|(pg, osds)| {
        Json::object().with("pgid", pg.to_string()).with("osds", Json::array(osds.iter().map(|o| o.0)))
    });
    let upmaps = map.pg_upmap.iter().map(|(pg, osds)| {
        let osds = Json::array(osds.iter().map(|osd| osd.0));
        Json::object().with("pgid", pg.to_string()).with("osds", osds)
    });
    let upmap_items = map.pg_upmap_items.iter().map(|(pg, pairs)| {
        let pair = |(from, to): &(OsdId, OsdId)| Json::object().with("from", from.0).with("to", to.0);
        Json::object().with("pgid", pg.to_string()).with("mappings", Json::array(pairs.iter().map(pair)))
    });
    let primary_temp = map
        .primary_temp
        .iter()
        .map(|(pg, osd)| Json::object().with("pgid", pg.to_string()).with("osd", osd.0));
    let held = |flags: u32| Json::array(osdmap::held_names(flags));
    let node_flags = map
        .crush_node_flags
        .iter()
        .fold(Json::object(), |out, (id, flags)| out.with(&crush_view::name(&map.crush, *id), held(*flags)));
    let class_flags = map.device_class_flags.iter().fold(Json::object(), |out, (id, flags)| {
        out.with(map.crush.class_names.get(id).map_or("", String::as_str), held(*flags))
    });
    let blocklist = map
        .blocklist
        .iter()
        .fold(Json::object(), |out, (addr, until)| out.with(&addr.to_string(), until.to_string()));
    let profiles = map.erasure_code_profiles.iter().fold(Json::object(), |out, (name, profile)| {
        let profile = profile.iter().fold(Json::object(), |out, (k, v)| out.with(k, v.as_str()));
        out.with(name, profile)
    });
    Json::object()
        .with("epoch", map.epoch.0)
        .with("fsid", map.fsid.to_string())
        .with("created", stamp(map.created))
        .with("modified", stamp(map.modified))
        .with("last_up_change", stamp(map.last_up_change))
        .with("last_in_change", stamp(map.last_in_change))
        .with("flags", flags.as_str())
        .with("flags_num", map.flags)
        .with("flags_set", Json::array(flag_set))
        .with("crush_version", map.crush_version)
        .with("full_ratio", f64::from(map.full_ratio))
        .with("backfillfull_ratio", f64::from(map.backfillfull_ratio))
        .with("nearfull_ratio", f64::from(map.nearfull_ratio))
        .with("cluster_snapshot", map.cluster_snapshot.as_str())
        .with("pool_max", map.pool_max)
        .with("max_osd", map.max_osd())
        .with("require_min_compat_client", map.require_min_compat_client.name())
        .with("min_compat_client", min_compat_client(map))
        .with("require_osd_release", map.require_osd_release.name())
        .with(
            "pools",
            Json::array(osdmap::pools(map).map(|(id, name, pool)| pool_json("pool", id, &name, pool))),
        )
        .with("osds", Json::array(osdmap::osds(map).map(|osd| osd_json(map, osd))))
        .with("osd_xinfo", Json::array(xinfo))
        .with("pg_upmap", Json::array(upmaps))
        .with("pg_upmap_items", Json::array(upmap_items))
        .with("pg_temp", Json::array(temp))
        .with("primary_temp", Json::array(primary_temp))
        .with("blocklist", blocklist)
        .with("range_blocklist", Json::object())
        .with("erasure_code_profiles", profiles)
        .with("removed_snaps_queue", snaps_json(&map.removed_snaps_queue))
        .with("new_removed_snaps", snaps_json(&map.new_removed_snaps))
        .with("new_purged_snaps", snaps_json(&map.new_purged_snaps))
        .with("crush_node_flags", node_flags)
        .with("device_class_flags", class_flags)
        .with("stretch_mode", stretch)
}
