//! A new cluster's state, and what every start makes of it.

use crush::CrushMap;
use encoding::Encode;
use maps::{Incremental, MgrMap, MonMap, NewCluster, OsdMap};
use options::opt;
use types::{EntityAddrVec, Epoch, OsdId, UTime};

use crate::event::{MonConfig, MonOpenError};
use crate::mon::Mon;
use crate::service::{global_ids, osdmap};
use crate::state::{Batch, State, StateKey};

const MONMAP: &str = "monmap";

/// The manager's global id. Those that connections are given begin above [`global_ids::BLOCK`].
pub const MANAGER_GID: u64 = 1;

/// The state of a new cluster: its maps and the first block of global ids.
pub(crate) fn create(config: &MonConfig, now: UTime) -> Result<Batch, MonOpenError> {
    let mut batch = Batch::default();
    global_ids::create(&mut batch);
    let addrs = EntityAddrVec(vec![config.addr]);
    let monmap = MonMap::new(config.fsid, now, [(config.name.clone(), addrs)]);
    put_monmap(&monmap, config, &mut batch);

    let wrong = |error: &dyn std::fmt::Display| MonOpenError::Wrong(error.to_string());
    let failure_domain = match config.options.get(opt::OSD_CRUSH_CHOOSELEAF_TYPE) {
        1 => "host",
        _ => "osd",
    };
    let cluster = NewCluster {
        fsid: config.fsid,
        created: now,
        release: config.profile.release,
        failure_domain: failure_domain.into(),
    };
    let first = cluster.first_increment().map_err(|e| wrong(&e))?;
    let map = osdmap::propose(&OsdMap::default(), first, &mut batch).map_err(|e| wrong(&e))?.map;
    if !config.osds.is_empty() {
        let mut crush = map.crush.clone();
        let mut increment = osdmap::increment(Epoch(map.epoch.0 + 1), config.fsid, now);
        increment.new_max_osd = config.osds.iter().map(|osd| osd.id.saturating_add(1)).max();
        for osd in &config.osds {
            let weight = crush_weight(osd.size_bytes);
            crush.add_osd(osd.id, weight, &config.hostname, osd.class.as_deref()).map_err(|e| wrong(&e))?;
            let id = OsdId(osd.id);
            // A weight alone brings an OSD into being; its state's bit would be flipped back.
            increment.new_weight.insert(id, OsdMap::WEIGHT_IN);
            increment.new_uuid.insert(id, osd.uuid);
        }
        increment.set_crush(&crush);
        set_ratios(config, &mut increment);
        osdmap::propose(&map, increment, &mut batch).map_err(|e| wrong(&e))?;
    }
    Ok(batch)
}

/// Epochs that a rebuilt monitor leaves out after the newest map that an OSD has: clients may have seen some of them.
const EPOCHS_SKIPPED: u32 = 64;

/// The state of a cluster whose monitor's was lost, from the newest map that its OSDs have. The stored options, entities,
/// config keys and the cluster log are not in it: nothing else has them.
pub(crate) fn rebuild(config: &MonConfig, found: &OsdMap, now: UTime) -> Result<Batch, MonOpenError> {
    if found.fsid != config.fsid {
        return Err(MonOpenError::OtherCluster { found: found.fsid, wanted: config.fsid });
    }
    let mut batch = Batch::default();
    // Requests are known by their client's id: one that was given before must not be given again. The ids of a lost
    // state grew from 1; these begin above what 2^20 a second since 1970 would have reached.
    global_ids::create_above(u64::from(now.sec) << 20, &mut batch);
    let addrs = EntityAddrVec(vec![config.addr]);
    put_monmap(&MonMap::new(config.fsid, now, [(config.name.clone(), addrs)]), config, &mut batch);
    let every = maps::KEPT_WHOLE_EVERY;
    let epoch = (found.epoch.0 + EPOCHS_SKIPPED).next_multiple_of(every);
    // A whole one: what increments there were from the OSDs' maps to it is lost.
    let before = OsdMap { epoch: Epoch(epoch - 1), ..found.clone() };
    let increment = osdmap::increment(Epoch(epoch), config.fsid, now);
    osdmap::propose(&before, increment, &mut batch).map_err(|e| MonOpenError::Wrong(e.to_string()))?;
    Ok(batch)
}

/// How full OSDs may be, where the options of a new cluster say something else than the map's defaults. A number above 1
/// is a percentage, as in Ceph. Later `osd set-full-ratio` and its like change them.
fn set_ratios(config: &MonConfig, increment: &mut Incremental) {
    for (option, ratio) in [
        (opt::MON_OSD_FULL_RATIO, &mut increment.new_full_ratio),
        (opt::MON_OSD_BACKFILLFULL_RATIO, &mut increment.new_backfillfull_ratio),
        (opt::MON_OSD_NEARFULL_RATIO, &mut increment.new_nearfull_ratio),
    ] {
        if let Some(given) = config.options.given(option) {
            *ratio = (if given > 1.0 { given / 100.0 } else { given }) as f32;
        }
    }
}

/// An OSD's weight by custom: its size in TiB, 16.16 fixed point, rounded to five places as its boot gives it.
fn crush_weight(size_bytes: u64) -> u32 {
    let tib = size_bytes as f64 / (1u64 << 40) as f64;
    let rounded = (tib * 10_000.0).round().max(1.0) / 10_000.0;
    (rounded * f64::from(CrushMap::WEIGHT_ONE)) as u32
}

fn put_monmap(monmap: &MonMap, config: &MonConfig, batch: &mut Batch) {
    batch.put(StateKey::name(MONMAP, "latest"), monmap.to_bytes(config.profile.features_encode));
}

/// The monitor map with the address of this start: clients compare it with the one that the session shows.
pub(crate) fn monmap(config: &MonConfig, state: &State) -> Result<MonMap, MonOpenError> {
    let key = StateKey::name(MONMAP, "latest");
    let mut map: MonMap =
        Mon::stored(state, &key)?.ok_or_else(|| MonOpenError::Missing("the monitor map".into()))?;
    let addrs = EntityAddrVec(vec![config.addr]);
    let mut changed = false;
    if let Some(info) = map.mons.get_mut(&config.name) {
        changed = info.public_addrs != addrs;
        info.public_addrs = addrs;
    }
    if changed {
        map.epoch = Epoch(map.epoch.0 + 1);
    }
    Ok(map)
}

/// The batch that keeps a monitor map which a start has changed.
pub(crate) fn keep_monmap(mon: &Mon, batch: &mut Batch) {
    let bytes = mon.monmap.to_bytes(mon.config.profile.features_encode);
    let key = StateKey::name(MONMAP, "latest");
    if mon.state.get(&key) != Some(&bytes) {
        batch.put(key, bytes);
    }
}

/// The manager map: the monitor itself is the manager, or there is none at work.
pub(crate) fn mgrmap(config: &MonConfig, now: UTime) -> MgrMap {
    let Some(manager) = config.manager else {
        return MgrMap { epoch: Epoch(1), available: false, ..MgrMap::default() };
    };
    MgrMap {
        epoch: manager.epoch,
        active_addrs: manager.addr.into(),
        active_gid: MANAGER_GID,
        available: true,
        active_name: config.name.clone(),
        active_change: now,
        active_mgr_features: config.profile.features_supported,
        ..MgrMap::default()
    }
}
