//! What a core's thread runs: it takes the daemons that were opened for it, and serves them until it gets the command to end.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use blockfile::LogPlace;
use messenger::{Daemon, Endpoint, MessengerConfig, Role};
use mon::{InitialOsd, MANAGER_GID, ManagerConfig, Mon, MonEvent};
use msgr::{Limits, Local};
use node::NodeEvent;
use options::{Values, opt};
use osd::{CoreId, Osd, OsdConfig, OsdEvent, Placement, Surroundings};
use store::{ObjectStore, StoreShard};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use types::{EntityAddr, EntityType, Fsid, OsdId, Profile};

use crate::core::{Core, CrossCore, Shared};
use crate::dir::{self, StoreKind};
use crate::mon_command::{self, MonCommand, MonReply};
use crate::monstore::{CommitResult, MonStore};
use crate::open::{self, OpenStore};
use crate::plan::PeerListeners;
use crate::progress::StartProgress;
use crate::{CoreReport, HostError, control, metrics};

/// How often daemons are asked whether their time has come.
const TICK: Duration = Duration::from_millis(20);

/// How often OSDs hear of the machine's load and time zone.
const SURROUNDINGS_TICK: Duration = Duration::from_secs(5);

/// For how long long buffers without a use are kept, at least.
const BUFFERS_TICK: Duration = Duration::from_secs(30);

/// How often the monitor hears of time.
const MON_TICK: Duration = Duration::from_secs(1);

/// How often the monitor hears of its disk.
const DISK_TICK: Duration = Duration::from_secs(30);

/// How long sockets get to send their last bytes.
const CLOSE_GRACE: Duration = Duration::from_millis(50);

/// Commands and notifications for a core from other threads.
pub(crate) enum CoreCommand {
    /// The monitor's state: batches up to this token are durable.
    Committed(CommitResult),
    /// An OSD's store has completions.
    StoreReady(OsdId),
    /// What another core has for this one, in order.
    FromCore(Vec<CrossCore>),
    /// A connection that another core has accepted.
    Accepted(Endpoint, TcpStream, SocketAddr),
    /// Stop an OSD cleanly; its control part is on this core.
    StopOsd(OsdId),
    /// Run these parts of an OSD; those that it had here have ended.
    StartOsd(Box<OsdParts>),
    /// An OSD failed, for this reason: the monitor, which is on this core, is to know.
    OsdFailed(OsdId, String),
    /// For the monitor, which is on this core.
    Mon(MonCommand, MonReply),
    /// The process may open no more files: a connection that can be spared makes room for another.
    MakeRoom,
    /// The thread is to end.
    Quit,
}

/// The monitor of a core.
pub(crate) struct MonPlan {
    pub(crate) fsid: Fsid,
    pub(crate) addr: SocketAddr,
    pub(crate) listener: TcpListener,
    /// What it announces of itself as a manager; `None` where nothing is served.
    pub(crate) manager: Option<(ManagerConfig, TcpListener)>,
    /// Prometheus's.
    pub(crate) metrics: Option<TcpListener>,
    pub(crate) store: StoreKind,
    pub(crate) dir: PathBuf,
    pub(crate) cluster_dir: PathBuf,
    pub(crate) osds: Vec<InitialOsd>,
    /// Whether this is the cluster's first start.
    pub(crate) is_new: bool,
}

/// What a new store is made on.
#[derive(Clone, Default)]
pub(crate) struct StorePlace {
    pub(crate) device: Option<PathBuf>,
    pub(crate) overwrite: bool,
    /// Where its logs lie, if that is not beside the data.
    pub(crate) log: Option<LogPlace>,
    pub(crate) preallocate: bool,
}

/// An OSD: what its control part's core needs to open it.
pub(crate) struct OsdPlan {
    pub(crate) id: OsdId,
    pub(crate) uuid: Fsid,
    pub(crate) fsid: Fsid,
    pub(crate) nonce: u32,
    pub(crate) listener: TcpListener,
    pub(crate) peers: PeerListeners,
    pub(crate) addr: SocketAddr,
    pub(crate) mon_addr: SocketAddr,
    pub(crate) store: StoreKind,
    pub(crate) size_bytes: u64,
    pub(crate) dir: PathBuf,
    /// How its store is made, if it is to be.
    pub(crate) place: StorePlace,
    pub(crate) boots: bool,
    /// Stores on the file system of this one, itself included.
    pub(crate) file_system_stores: u32,
    pub(crate) placement: Arc<Placement>,
    /// Whether this is the cluster's first start.
    pub(crate) is_new: bool,
}

/// The parts of an OSD that a core gets.
pub(crate) struct OsdParts {
    id: OsdId,
    config: OsdConfig,
    placement: Arc<Placement>,
    stores: Vec<(StoreShard, OpenStore)>,
    addr: SocketAddr,
    nonce: u32,
    /// On the core of the control part.
    home: Option<OsdHome>,
}

/// What only the core of the control part has of an OSD.
struct OsdHome {
    boots: bool,
    /// Where its admin socket is.
    admin_socket: PathBuf,
    /// Its connections go to all gates.
    listener: TcpListener,
    /// Their connections stay: a lossless session that is cut goes on with a connection to the same core.
    peers: PeerListeners,
}

impl OsdParts {
    /// Opens (or makes) an OSD's store, and gives each core its parts. Those of the control part's core are the last.
    pub(crate) fn of(
        plan: OsdPlan,
        values: &Values,
        cores: &[UnboundedSender<CoreCommand>],
    ) -> Result<Vec<(CoreId, Self)>, HostError> {
        let control = plan.placement.control();
        let handles = open::osd_store(&plan, values, cores)?;
        let mut parts: Vec<(CoreId, Self)> = Vec::new();
        for core in plan.placement.all_cores() {
            let config = open::osd_config(&plan, values);
            let (id, addr, nonce, placement) = (plan.id, plan.addr, plan.nonce, plan.placement.clone());
            let (stores, home) = (Vec::new(), None);
            parts.push((core, Self { id, config, placement, stores, addr, nonce, home }));
        }
        for (index, handle) in handles.into_iter().enumerate() {
            let home = plan.placement.shards().get(index);
            if let Some((_, parts)) = parts.iter_mut().find(|(core, _)| Some(core) == home) {
                parts.stores.push((StoreShard(index as u32), handle));
            }
        }
        if let Some((_, parts)) = parts.iter_mut().find(|(core, _)| *core == control) {
            let mut admin_socket = plan.dir.into_os_string();
            admin_socket.push(".asok");
            parts.home = Some(OsdHome {
                boots: plan.boots,
                admin_socket: admin_socket.into(),
                listener: plan.listener,
                peers: plan.peers,
            });
        }
        parts.sort_by_key(|(core, _)| *core == control);
        Ok(parts)
    }
}

/// Why an OSD of the directory does not start that the map no longer has.
const REMOVED: &str = "it was removed from the cluster (ceph osd purge or rm); its directory can be deleted";

/// What a core will run. Opened before its thread starts, so that what can fail fails with nothing running.
pub(crate) struct CorePlan {
    pub(crate) index: usize,
    pub(crate) values: Values,
    pub(crate) mon: Option<MonPlan>,
    pub(crate) osds: Vec<OsdParts>,
    pub(crate) sender: UnboundedSender<CoreCommand>,
    commands: UnboundedReceiver<CoreCommand>,
    opened_mon: Option<(Mon, MonStore)>,
}

impl CorePlan {
    pub(crate) fn empty(index: usize, values: Values) -> Self {
        let (sender, commands) = unbounded_channel();
        Self { index, values, mon: None, osds: Vec::new(), sender, commands, opened_mon: None }
    }

    /// Opens (or makes) the states of all daemons. At a later start an OSD whose store can't be opened costs the others
    /// nothing: it is answered with the reason. The monitor starts without any OSD, too: a new store under an OSD's number
    /// needs it.
    ///
    /// # Errors
    /// The monitor's state can't be used; at a cluster's first start, one OSD's.
    pub(crate) fn open_all(
        plans: &mut [Self],
        osds: Vec<OsdPlan>,
        values: &Values,
        now: types::UTime,
        progress: &StartProgress,
    ) -> Result<BTreeMap<OsdId, String>, HostError> {
        for plan in plans.iter_mut() {
            if let Some(mon) = &plan.mon {
                progress.monitor(&mon.dir);
                plan.opened_mon = Some(open::mon(mon, values, plan.sender.clone(), now)?);
            }
        }
        let senders: Vec<_> = plans.iter().map(|plan| plan.sender.clone()).collect();
        let mut failed = BTreeMap::new();
        let map = plans.iter().find_map(|plan| plan.opened_mon.as_ref()).map(|(mon, _)| mon.osdmap().clone());
        for osd in osds {
            let (id, is_new) = (osd.id, osd.is_new);
            if map.as_ref().is_some_and(|map| !map.exists(id)) {
                failed.insert(id, REMOVED.to_owned());
                continue;
            }
            progress.store(id, &osd.dir);
            match OsdParts::of(osd, values, &senders) {
                Ok(parts) => {
                    for (core, parts) in parts {
                        plans[usize::from(core.0)].osds.push(parts);
                    }
                }
                Err(error) if is_new => return Err(error),
                Err(error) => drop(failed.insert(id, error.of_osd())),
            }
        }
        Ok(failed)
    }
}

fn limits(values: &Values) -> Limits {
    // A write's payload, and some room for what goes with it.
    let data = (values.get(opt::OSD_MAX_WRITE_SIZE) as usize + 22) << 20;
    Limits {
        check_data_crc: values.get(opt::MS_CRC_DATA),
        data_bytes_max: data,
        message_bytes_max: data + (16 << 20),
        // Without an answer the client would resend it for ever.
        refused_with_answer: Some(messages::kind::OSD_OP),
        ..Limits::default()
    }
}

fn local(kind: EntityType, num: i64, role: Role, addr: EntityAddr, values: &Values) -> Local {
    Local {
        kind,
        num,
        addrs: addr.into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: role.lossless_peers(),
        limits: limits(values),
    }
}

/// Serves a plan until [`CoreCommand::Quit`].
pub(crate) async fn core_main(
    plan: CorePlan,
    shared: Arc<Shared>,
    config: MessengerConfig,
    cores: Vec<UnboundedSender<CoreCommand>>,
) {
    let CorePlan { index, values, mon, osds, commands, opened_mon, .. } = plan;
    let here = CoreId(index as u16);
    let core = Core::new(shared, config, cores);
    let has_mon = mon.is_some();
    if let (Some(plan), Some((mon, store))) = (mon, opened_mon) {
        core.node().add_mon(mon);
        core.set_monstore(store);
        core.dispatch(NodeEvent::Mon(mon_command::open_session()));
        let endpoint = Endpoint::public(Daemon::Mon);
        let addr = EntityAddr::v2(plan.addr, 0);
        core.set_endpoint(endpoint, local(EntityType::Mon, 0, endpoint.role, addr, &values));
        serve(&core, endpoint, plan.listener, vec![here]);
        if let Some((manager, listener)) = plan.manager {
            let endpoint = Endpoint::public(Daemon::Mgr);
            let num = MANAGER_GID as i64;
            core.set_endpoint(endpoint, local(EntityType::Mgr, num, endpoint.role, manager.addr, &values));
            serve(&core, endpoint, listener, vec![here]);
        }
        tokio::task::spawn_local(control::serve(core.clone(), plan.cluster_dir.join("loligo.sock")));
        if let Some(listener) = plan.metrics {
            tokio::task::spawn_local(metrics::serve(core.clone(), listener, plan.cluster_dir.clone()));
        }
        tokio::task::spawn_local(tick_mon(core.clone(), plan.cluster_dir));
    }
    for parts in osds {
        start_osd(&core, here, parts, &values);
    }
    tokio::task::spawn_local(tick(core.clone()));
    tokio::task::spawn_local(tick_surroundings(core.clone()));
    if here == CoreId(0) {
        tokio::task::spawn_local(tick_buffers());
    }
    tokio::task::spawn_local(core.clone().run_timers());
    run(&core, commands, &values).await;
    core.admin.end_all();
    core.close_all();
    tokio::time::sleep(CLOSE_GRACE).await;
    if has_mon {
        core.close_monstore();
    }
}

/// Serves a listener. Its connections go to `gates` in turn.
fn serve(core: &Rc<Core>, endpoint: Endpoint, listener: TcpListener, gates: Vec<CoreId>) {
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => {
            let task = tokio::task::spawn_local(core.clone().listen(endpoint, listener, gates));
            core.keep_listener(endpoint, task);
        }
        Err(error) => core.report(CoreReport::Failed(format!("{}: {error}", endpoint.daemon))),
    }
}

fn start_osd(core: &Rc<Core>, here: CoreId, parts: OsdParts, values: &Values) {
    let OsdParts { id, config, placement, stores, addr, nonce, home } = parts;
    let gates = placement.gates().to_vec();
    let osd = Osd::on_core(config, here, placement);
    let mut handles = Vec::new();
    for (shard, OpenStore { handle, event }) in stores {
        handles.push((shard, handle as Box<dyn ObjectStore>));
        event.into_iter().for_each(|event| core.watch_store(id, event));
    }
    core.node().add_osd_parts(id, osd, handles);
    let endpoint = |role, addr| {
        let endpoint = Endpoint::new(Daemon::Osd(id), role);
        let addr = EntityAddr::v2(addr, nonce);
        core.set_endpoint(endpoint, local(EntityType::Osd, id.0.into(), role, addr, values));
        endpoint
    };
    let public = endpoint(Role::Public, addr);
    // The core of the control part has the listeners, and starts the OSD.
    let Some(home) = home else { return };
    let peers: Vec<_> =
        home.peers.into_iter().map(|(role, addr, listener)| (endpoint(role, addr), listener)).collect();
    if !home.boots {
        return tracing::warn!("osd.{id} is kept from booting (osd_debug_no_boot)");
    }
    serve(core, public, home.listener, gates);
    peers.into_iter().for_each(|(endpoint, listener)| serve(core, endpoint, listener, vec![here]));
    core.serve_admin_socket(id, home.admin_socket);
    core.dispatch(NodeEvent::Osd(id, OsdEvent::Surroundings(surroundings(core))));
    core.dispatch(NodeEvent::Osd(id, OsdEvent::Start));
}

fn surroundings(core: &Core) -> Surroundings {
    Surroundings { utc_offset: runtime::utc_offset(core.shared.clock.now()), load: runtime::load() }
}

async fn tick_surroundings(core: Rc<Core>) {
    let mut interval = tokio::time::interval(SURROUNDINGS_TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let news = surroundings(&core);
        let osds = core.node().osd_ids();
        osds.into_iter().for_each(|id| core.dispatch(NodeEvent::Osd(id, OsdEvent::Surroundings(news))));
    }
}

/// Buffers are the process's: one core looks after them.
async fn tick_buffers() {
    let mut interval = tokio::time::interval(BUFFERS_TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        buffer::give_back_unused();
    }
}

async fn tick(core: Rc<Core>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let due = core.node().deadline().is_some_and(|at| at <= core.shared.clock.now());
        if due {
            core.tick_osds();
        }
    }
}

async fn tick_mon(core: Rc<Core>, dir: PathBuf) {
    let mut interval = tokio::time::interval(MON_TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut since_disk = DISK_TICK;
    loop {
        interval.tick().await;
        if since_disk >= DISK_TICK {
            since_disk = Duration::ZERO;
            if let Ok((total, available)) = dir::disk_space(&dir) {
                core.dispatch(NodeEvent::Mon(MonEvent::DiskSpace { total, available }));
            }
        }
        since_disk += MON_TICK;
        core.dispatch(NodeEvent::Mon(MonEvent::Tick));
    }
}

/// Takes the core's commands until [`CoreCommand::Quit`].
async fn run(core: &Rc<Core>, mut commands: UnboundedReceiver<CoreCommand>, values: &Values) {
    while let Some(command) = commands.recv().await {
        match command {
            CoreCommand::Committed(CommitResult::UpTo(token)) => {
                core.dispatch(NodeEvent::Mon(MonEvent::Committed { token }));
            }
            CoreCommand::Committed(CommitResult::Failed(reason)) => {
                core.report(CoreReport::Failed(format!("the monitor's state can't be written: {reason}")));
            }
            CoreCommand::StoreReady(id) => core.dispatch(NodeEvent::StoreReady(id)),
            CoreCommand::FromCore(messages) => core.take_from_core(messages),
            CoreCommand::Accepted(endpoint, stream, peer) => core.take_accepted(endpoint, stream, peer),
            CoreCommand::MakeRoom => {
                core.make_room();
            }
            CoreCommand::StopOsd(id) => core.dispatch(NodeEvent::Osd(id, OsdEvent::Shutdown)),
            CoreCommand::StartOsd(parts) => start_osd(core, core.here(), *parts, values),
            CoreCommand::OsdFailed(osd, reason) => {
                core.dispatch(NodeEvent::Mon(MonEvent::OsdFailed { osd: osd.0, reason }));
            }
            CoreCommand::Mon(command, reply) => core.command_mon(command, reply),
            CoreCommand::Quit => return,
        }
    }
}

#[cfg(test)]
mod tests;
