//! `loligo mon rebuild DIR`: the state of a lost or damaged monitor, made again from what the OSDs of the directory keep.
//!
//! An OSD keeps every map since a while, so the newest of all OSDs has the pools, the OSDs and where everything is. What
//! only the monitor had is lost: stored options, entities and their keys, config keys, the cluster log. Objects are not
//! touched. The former state is moved aside, never removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use maps::OsdMap;
use mon::Mon;
use options::Values;
use osd::{Salvaged, salvage};
use runtime::Clock;
use store::{Completion, ReadRequest, Token};
use tokio::sync::mpsc::unbounded_channel;
use types::OsdId;

use crate::cluster::UpRequest;
use crate::core_main::MonPlan;
use crate::dir::{self, ClusterDir, Description, DirState, StoreKind};
use crate::open::{self, StoreHandle};
use crate::plan::OsdPlanner;
use crate::{HostError, last_words, monstore};

/// How long a store may take to answer a read.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// What a rebuild found and made.
#[derive(Debug)]
pub struct Rebuilt {
    /// The OSD with the newest map, and the map's epoch.
    pub source: OsdId,
    pub found_epoch: u32,
    /// The epoch that the monitor begins with.
    pub epoch: u32,
    pub pools: Vec<String>,
    /// OSDs whose stores could not be read, or had no map, with the reasons.
    pub unread: Vec<(OsdId, String)>,
    /// Where the former state is now.
    pub former: Option<PathBuf>,
}

/// Rebuilds the monitor's state of a directory whose cluster does not run.
///
/// # Errors
/// The cluster runs, its store keeps nothing, the monitor's state can be used (unless `force`), or no OSD has a map.
pub fn rebuild_monitor(path: &Path, force: bool) -> Result<Rebuilt, HostError> {
    let description = match dir::inspect(path)? {
        DirState::Cluster(description) => *description,
        DirState::Empty | DirState::Unfinished => return Err(HostError::NotACluster(path.into())),
    };
    if description.store == StoreKind::Mem {
        return Err(HostError::Unsupported(
            "rebuilding a cluster whose store is mem: nothing was kept".into(),
        ));
    }
    let dir = ClusterDir::lock(path)?;
    let done = rebuild_in(&dir, &description, force);
    dir.ended();
    done
}

fn rebuild_in(dir: &ClusterDir, description: &Description, force: bool) -> Result<Rebuilt, HostError> {
    let (values, clock) = (Values::new(), Clock::start());
    let request = UpRequest { dir: dir.path().to_owned(), ..UpRequest::default() };
    let planner = OsdPlanner::new(&request, values.clone(), description, dir.path())?;
    let mon_dir = dir.path().join("mon");
    let plan = mon_plan(&planner, description, &mon_dir)?;
    if !force && is_usable(&plan, &values, &clock)? {
        return Err(HostError::MonStateUsable(mon_dir.join("state.redb")));
    }
    let (mut best, mut unread): (Option<(OsdId, Box<OsdMap>)>, _) = (None, Vec::new());
    for index in 0..description.osds {
        let id = OsdId(index as i32);
        let found = match read_osd(&planner, id, &values, &clock) {
            Ok(found) => found,
            Err(reason) => {
                unread.push((id, reason));
                continue;
            }
        };
        if let Some(damaged) = found.damaged {
            unread.push((id, format!("its newest maps can't be read: {damaged}")));
        }
        match found.map {
            Some(map) if best.as_ref().is_none_or(|(_, best)| best.epoch < map.epoch) => {
                best = Some((id, map))
            }
            Some(_) => {}
            None => unread.push((id, "it never had a map".into())),
        }
    }
    let Some((source, map)) = best else {
        let reasons: Vec<String> = unread.iter().map(|(osd, why)| format!("osd.{osd}: {why}")).collect();
        return Err(HostError::NothingToRebuildFrom { dir: dir.path().into(), reasons: reasons.join("; ") });
    };
    let config = open::mon_config(&plan, &values)?;
    let failed =
        |error: mon::MonOpenError| HostError::MonState { path: mon_dir.clone(), reason: error.to_string() };
    let batch = Mon::rebuild(&config, &map, clock.now()).map_err(failed)?;
    let former = move_aside(&mon_dir)?;
    fs::create_dir_all(&mon_dir).map_err(HostError::io(&mon_dir))?;
    monstore::make(
        &mon_dir.join("state.redb"),
        open::mon_backend(&mon_dir.join("state.redb"), &values)?,
        batch,
    )?;
    // What was written must open.
    let (commands, _receiver) = unbounded_channel();
    let (mon, store) = open::mon(&plan, &values, commands, clock.now())?;
    drop(store);
    // The log keeps why the last process ended; the next start has nothing to warn of.
    last_words::mended(dir.path());
    Ok(Rebuilt {
        source,
        found_epoch: map.epoch.0,
        epoch: mon.osdmap().epoch.0,
        pools: map.pool_names.values().cloned().collect(),
        unread,
        former,
    })
}

fn mon_plan(planner: &OsdPlanner, description: &Description, mon_dir: &Path) -> Result<MonPlan, HostError> {
    Ok(MonPlan {
        fsid: planner.fsid(),
        addr: description.mon_addr,
        listener: unused_listener()?,
        manager: None,
        metrics: None,
        store: description.store,
        dir: mon_dir.to_owned(),
        cluster_dir: planner.request.dir.clone(),
        osds: Vec::new(),
        is_new: false,
    })
}

/// Plans have listeners; nothing is served here, and nobody learns of this one.
fn unused_listener() -> Result<std::net::TcpListener, HostError> {
    let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    std::net::TcpListener::bind(addr).map_err(|error| HostError::Bind { addr, error })
}

fn is_usable(plan: &MonPlan, values: &Values, clock: &Clock) -> Result<bool, HostError> {
    if !plan.dir.join("state.redb").exists() {
        return Ok(false);
    }
    let (commands, _receiver) = unbounded_channel();
    match open::mon(plan, values, commands, clock.now()) {
        Ok(_) => Ok(true),
        // Another cluster's, which runs.
        Err(in_use @ HostError::FileInUse(_)) => Err(in_use),
        // It may be usable when there is space.
        Err(full @ HostError::DiskFull(_)) => Err(full),
        Err(_) => Ok(false),
    }
}

/// Reads what an OSD's store knows.
fn read_osd(planner: &OsdPlanner, id: OsdId, values: &Values, clock: &Clock) -> Result<Salvaged, String> {
    let error = |error: HostError| error.of_osd();
    let listener = unused_listener().map_err(error)?;
    let plan = planner.plan(id, (listener, Vec::new()), 0, false).map_err(error)?;
    let (commands, _receiver) = unbounded_channel();
    let mut stores = open::osd_store(&plan, values, &vec![commands; planner.cores()]).map_err(error)?;
    // What the control part keeps is in the first shard.
    let Some(store) = stores.first_mut() else { return Err("its store has no shards".into()) };
    let mut last = 0;
    let found = salvage(|request| {
        last += 1;
        read_now(&mut store.handle, request, Token(last), clock)
            .ok_or_else(|| format!("its store did not answer a read within {} s", READ_TIMEOUT.as_secs()))
    })?;
    if found.superblock.whoami != id {
        return Err(format!("its store is that of osd.{}", found.superblock.whoami));
    }
    Ok(found)
}

/// Waits for the answer to a read.
fn read_now(
    store: &mut StoreHandle,
    request: ReadRequest,
    token: Token,
    clock: &Clock,
) -> Option<Completion> {
    let end = Instant::now() + READ_TIMEOUT;
    store.read(request, token);
    let mut done = Vec::new();
    while Instant::now() < end {
        store.turn(clock.now());
        store.completions(&mut done);
        if let Some(at) = done.iter().position(|completion| completion.token() == token) {
            return Some(done.swap_remove(at));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Moves the monitor's directory to the first free `mon.lost-N`.
fn move_aside(mon_dir: &Path) -> Result<Option<PathBuf>, HostError> {
    if !mon_dir.exists() {
        return Ok(None);
    }
    let named = |n: u32| mon_dir.with_file_name(format!("mon.lost-{n}"));
    let to = (1..).map(named).find(|to| !to.exists()).unwrap_or_else(|| named(0));
    fs::rename(mon_dir, &to).map_err(HostError::io(mon_dir))?;
    Ok(Some(to))
}
