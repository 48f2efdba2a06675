//! What a core's thread runs: it takes the daemons that were opened for it, serves them, and ends when told.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use messenger::{Daemon, Endpoint, MessengerConfig, Role};
use mon::{InitialOsd, Mon, MonEvent};
use msgr::{Limits, Local};
use node::NodeEvent;
use options::{Values, opt};
use osd::{Osd, OsdEvent};
use store::ObjectStore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use types::{EntityAddr, EntityType, Fsid, OsdId, Profile};

use crate::core::{Core, Shared};
use crate::dir::{self, StoreKind};
use crate::monstore::{CommitResult, MonStore};
use crate::open;
use crate::plan::PeerListeners;
use crate::{CoreReport, HostError, status};

/// How often daemons are asked whether their time has come.
const TICK: Duration = Duration::from_millis(20);

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
    /// Stop the OSDs cleanly.
    StopOsds,
    /// The thread is to end.
    Quit,
}

/// The monitor of a core.
pub(crate) struct MonPlan {
    pub(crate) fsid: Fsid,
    pub(crate) addr: SocketAddr,
    pub(crate) listener: TcpListener,
    pub(crate) store: StoreKind,
    pub(crate) dir: PathBuf,
    pub(crate) cluster_dir: PathBuf,
    pub(crate) osds: Vec<InitialOsd>,
    /// Whether this is the cluster's first start.
    pub(crate) is_new: bool,
}

/// An OSD of a core.
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
    pub(crate) boots: bool,
    /// Stores on the file system of this one, itself included.
    pub(crate) file_system_stores: u32,
    /// Whether this is the cluster's first start.
    pub(crate) is_new: bool,
}

/// What a core will run. Opened before its thread starts, so that what can fail fails with nothing running.
pub(crate) struct CorePlan {
    pub(crate) index: usize,
    pub(crate) values: Values,
    pub(crate) mon: Option<MonPlan>,
    pub(crate) osds: Vec<OsdPlan>,
    pub(crate) sender: UnboundedSender<CoreCommand>,
    commands: UnboundedReceiver<CoreCommand>,
    opened_mon: Option<(Mon, MonStore)>,
    opened_stores: Vec<Box<dyn ObjectStore + Send>>,
}

impl CorePlan {
    pub(crate) fn empty(index: usize, values: Values) -> Self {
        let (sender, commands) = unbounded_channel();
        Self {
            index,
            values,
            mon: None,
            osds: Vec::new(),
            sender,
            commands,
            opened_mon: None,
            opened_stores: Vec::new(),
        }
    }

    /// Opens (or makes) the states of all its daemons.
    pub(crate) fn open(&mut self, now: types::UTime) -> Result<(), HostError> {
        if let Some(plan) = &self.mon {
            self.opened_mon = Some(open::mon(plan, &self.values, self.sender.clone(), now)?);
        }
        for plan in &self.osds {
            self.opened_stores.push(open::osd_store(plan, &self.values, self.sender.clone())?);
        }
        Ok(())
    }
}

fn limits(values: &Values) -> Limits {
    // A write's payload, and some room for what goes with it.
    let data = (values.get(opt::OSD_MAX_WRITE_SIZE) as usize + 22) << 20;
    Limits {
        check_data_crc: values.get(opt::MS_CRC_DATA),
        data_bytes_max: data,
        message_bytes_max: data + (16 << 20),
        // A client that is told nothing would send it again for ever.
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

/// Serves a plan until told to quit.
pub(crate) async fn core_main(plan: CorePlan, shared: Arc<Shared>, config: MessengerConfig) {
    let core = Core::new(shared, config);
    let CorePlan { values, mon, osds, commands, opened_mon, opened_stores, .. } = plan;
    let has_mon = mon.is_some();
    let ids: Vec<OsdId> = osds.iter().map(|o| o.id).collect();
    if let (Some(plan), Some((mon, store))) = (mon, opened_mon) {
        core.node().add_mon(mon);
        core.set_monstore(store);
        let endpoint = Endpoint::public(Daemon::Mon);
        let addr = EntityAddr::v2(plan.addr, 0);
        core.set_endpoint(endpoint, local(EntityType::Mon, 0, endpoint.role, addr, &values));
        serve(&core, endpoint, plan.listener);
        tokio::task::spawn_local(status::serve(core.clone(), plan.cluster_dir.join("loligo.sock")));
        tokio::task::spawn_local(tick_mon(core.clone(), plan.cluster_dir));
    }
    for (plan, store) in osds.into_iter().zip(opened_stores) {
        start_osd(&core, plan, store, &values);
    }
    tokio::task::spawn_local(tick(core.clone()));
    tokio::task::spawn_local(core.clone().run_timers());
    run(&core, commands, &ids).await;
    core.close_all();
    tokio::time::sleep(CLOSE_GRACE).await;
    if has_mon {
        core.close_monstore();
    }
}

fn serve(core: &Rc<Core>, endpoint: Endpoint, listener: TcpListener) {
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => drop(tokio::task::spawn_local(core.clone().listen(endpoint, listener))),
        Err(error) => core.report(CoreReport::Failed(format!("{}: {error}", endpoint.daemon))),
    }
}

fn start_osd(core: &Rc<Core>, plan: OsdPlan, store: Box<dyn ObjectStore + Send>, values: &Values) {
    let id = plan.id;
    let osd = Osd::new(open::osd_config(&plan, values));
    core.node().add_osd(id, osd, store);
    if !plan.boots {
        tracing::warn!("osd.{id} is kept from booting (osd_debug_no_boot)");
    }
    let public = (Role::Public, plan.addr, plan.listener);
    for (role, addr, listener) in std::iter::once(public).chain(plan.peers) {
        let endpoint = Endpoint::new(Daemon::Osd(id), role);
        let addr = EntityAddr::v2(addr, plan.nonce);
        core.set_endpoint(endpoint, local(EntityType::Osd, id.0.into(), role, addr, values));
        if plan.boots {
            serve(core, endpoint, listener);
        }
    }
    if plan.boots {
        core.dispatch(NodeEvent::Osd(id, OsdEvent::Start));
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

/// Takes the core's commands until it is told to quit.
async fn run(core: &Rc<Core>, mut commands: UnboundedReceiver<CoreCommand>, osds: &[OsdId]) {
    while let Some(command) = commands.recv().await {
        match command {
            CoreCommand::Committed(CommitResult::UpTo(token)) => {
                core.dispatch(NodeEvent::Mon(MonEvent::Committed { token }));
            }
            CoreCommand::Committed(CommitResult::Failed(reason)) => {
                core.report(CoreReport::Failed(format!("the monitor's state can't be written: {reason}")));
            }
            CoreCommand::StoreReady(id) => core.dispatch(NodeEvent::StoreReady(id)),
            CoreCommand::StopOsds => {
                osds.iter().for_each(|&id| core.dispatch(NodeEvent::Osd(id, OsdEvent::Shutdown)));
            }
            CoreCommand::Quit => return,
        }
    }
}
