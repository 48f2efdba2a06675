//! A running cluster: what `loligo up` starts and stops.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use messenger::MessengerConfig;
use options::{OptionStatus, Values, opt};
use osd::CoreId;
use tokio::sync::mpsc::UnboundedSender;
use types::{Epoch, OsdId};

use crate::control::{OsdReply, OsdRequest};
use crate::core::Shared;
use crate::core_main::{CoreCommand, CorePlan, core_main};
use crate::delay::DispatchDelay;
use crate::dir::{self, ClusterDir, Description, DirState, StoreKind};
use crate::last_words::{self, LastWords};
use crate::open_files::{self, OpenFiles};
use crate::osd_control::WaitingRequest;
use crate::osds::{OsdState, OsdStates, OsdTable};
use crate::plan::{self, OsdPlanner, Sockets};
use crate::progress::StartProgress;
use crate::{HostError, log, machine};
use runtime::Clock;

/// How long OSDs may take to leave the cluster cleanly.
const OSD_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What `loligo up` was asked for; `None` takes what the directory has, or the default.
#[derive(Clone, Debug, Default)]
pub struct UpRequest {
    /// Where the cluster lives.
    pub dir: PathBuf,
    /// How many OSDs.
    pub osds: Option<u32>,
    pub store: Option<StoreKind>,
    /// Bytes of each OSD's store.
    pub osd_size: Option<u64>,
    /// Block devices for the stores of a new cluster, one for each OSD; none for image files.
    pub devices: Vec<PathBuf>,
    /// Block devices or files for the logs of a new cluster's stores, one for each OSD; none for logs beside the data.
    pub log_devices: Vec<PathBuf>,
    /// Those of the devices whose contents may be overwritten.
    pub overwrite: Vec<PathBuf>,
    /// Whether image files that are made are written whole.
    pub preallocate: bool,
    /// The monitor's address.
    pub mon_addr: Option<SocketAddr>,
    /// The first port; 0 for free ones.
    pub port: Option<u16>,
    /// Threads.
    pub cores: Option<u32>,
    /// Options by name.
    pub settings: Vec<(String, String)>,
    /// Whether an address that is not loopback may be bound.
    pub insecure_bind: bool,
    /// Where Prometheus reads the cluster, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// Says what the start waits for.
    pub progress: StartProgress,
}

/// A core's report to the thread that started it.
#[derive(Debug)]
pub(crate) enum CoreReport {
    /// An OSD takes part.
    Active(OsdId),
    /// An OSD stopped, as asked.
    Stopped(OsdId),
    /// An OSD failed. The process goes on.
    OsdFailed(OsdId, String),
    /// An OSD can't boot: it has a newer map than the monitor.
    MonBehind { osd: OsdId, has: Epoch, newest: Epoch },
    /// The core has no part of an OSD any more, and no listener: it stopped or failed.
    Ended(OsdId),
    /// Somebody asks something of one OSD.
    Asked(OsdRequest, OsdReply),
    /// Something failed that the process cannot go on without.
    Failed(String),
}

/// What `loligo up` prints about the cluster.
#[derive(Clone, Debug)]
pub struct ClusterInfo {
    /// Its directory, absolute.
    pub dir: PathBuf,
    /// The monitor's address.
    pub mon_addr: SocketAddr,
    /// How many OSDs.
    pub osds: u32,
    /// Their store.
    pub store: StoreKind,
    /// The cluster's id.
    pub fsid: String,
    /// Where Prometheus reads it.
    pub metrics: Option<SocketAddr>,
    /// `osd_memory_target` as this process was started.
    pub memory_target: u64,
    /// At the first start, where the stores may grow to more bytes than their file system has free: both.
    pub promised_too_much: Option<(u64, u64)>,
    /// When and why the process that served it before ended, if that was a failure.
    pub last_failure: Option<String>,
    pub open_files: OpenFiles,
}

/// A cluster whose threads run.
pub struct Cluster {
    info: ClusterInfo,
    pub(crate) osds: OsdTable,
    pub(crate) planner: OsdPlanner,
    /// Requests to single OSDs that wait for them.
    pub(crate) waiting: Vec<WaitingRequest>,
    threads: Threads,
    reports: Receiver<CoreReport>,
    // Its lock is held until the end.
    pub(crate) dir: ClusterDir,
    progress: StartProgress,
    /// `None` where it can't be made.
    last_words: Option<LastWords>,
    /// Whether this is the cluster's first start.
    is_new: bool,
    /// Whether it serves: every OSD took part once, or failed.
    is_ready: bool,
}

/// What runs once a cluster is started.
struct Started {
    osds: OsdTable,
    planner: OsdPlanner,
    threads: Threads,
    reports: Receiver<CoreReport>,
    metrics: Option<SocketAddr>,
    last_words: Option<LastWords>,
    /// What they say of the process before.
    last_failure: Option<String>,
}

impl Cluster {
    /// Starts a cluster. When it fails, nothing was changed. [`Cluster::ready`] waits for its OSDs.
    pub fn start(request: UpRequest) -> Result<Self, HostError> {
        let mut values = read_settings(&request.settings)?;
        let found = dir::inspect(&request.dir)?;
        let is_new = !matches!(found, DirState::Cluster(_));
        let mut description = plan::describe(&request, found)?;
        plan::check_bind(&request, &description)?;
        let open_files = open_files::check(&request, &description)?;
        let limits = machine::memory_limits(description.osds);
        values.set_default(opt::OSD_MEMORY_TARGET.name(), &limits.target.to_string())?;
        values.set_default(opt::OSD_CLIENT_MESSAGE_SIZE_CAP.name(), &limits.messages.to_string())?;
        if description.store != StoreKind::Mem {
            plan::keep_many_contexts(&mut values)?;
        }
        let memory_target = values.get(opt::OSD_MEMORY_TARGET);
        // Taken before the ports: a second start on the same directory reports that, not a port in use.
        let dir = ClusterDir::lock(&request.dir)?;
        let promised_too_much = is_new.then(|| dir.promised_too_much(&description)).flatten();
        match Self::start_in(&dir, &request, values, &mut description) {
            Ok(Started { osds, planner, threads, reports, metrics, last_words, last_failure }) => {
                let info = ClusterInfo {
                    dir: dir.path().to_owned(),
                    mon_addr: description.mon_addr,
                    osds: description.osds,
                    store: description.store,
                    fsid: description.fsid.clone(),
                    metrics,
                    memory_target,
                    promised_too_much,
                    last_failure,
                    open_files,
                };
                Ok(Self {
                    info,
                    osds,
                    planner,
                    waiting: Vec::new(),
                    threads,
                    reports,
                    dir,
                    progress: request.progress,
                    last_words,
                    is_new,
                    is_ready: false,
                })
            }
            Err(error) => {
                match is_new {
                    true => dir.undo(false),
                    false => dir.ended(),
                }
                Err(error)
            }
        }
    }

    fn start_in(
        dir: &ClusterDir,
        request: &UpRequest,
        values: Values,
        description: &mut Description,
    ) -> Result<Started, HostError> {
        let sockets = Sockets::bind(request, &values, description)?;
        let metrics = sockets.metrics_addr();
        dir.check_space(description)?;
        log::log_to(dir.path())?;
        if let Some(pid) = dir.killed_before() {
            tracing::warn!("process {pid}, which served {} last, did not end cleanly", dir.path().display());
        }
        let last_failure = last_words::last_failure(dir.path());
        if let Some(failure) = &last_failure {
            tracing::warn!("the last process that served it failed: {failure}");
        }
        let (reports, receiver) = channel();
        let states = OsdStates::default();
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            delay: DispatchDelay::of(&values),
            listen_backlog: values.get(opt::MS_TCP_LISTEN_BACKLOG) as i32,
            reports,
            osds: states.clone(),
        });
        let messenger = messenger_config(&values)?;
        if description.starts == 0 {
            dir.clear();
            dir.write_description(description)?;
        }
        description.starts += 1;
        let planner = OsdPlanner::new(request, values, description, dir.path())?;
        let planned = plan::plan_cores(&planner, sockets, dir.path(), shared.clock.now(), &request.progress)?;
        // Without it `loligo status` knows less; the cluster serves all the same.
        let last_words = LastWords::reserve(dir.path(), last_failure.as_deref())
            .inspect_err(|error| tracing::warn!("{}/{}: {error}", dir.path().display(), last_words::NAME))
            .ok();
        dir.write_client_files(description)?;
        dir.write_description(description)?;
        let mut osds = OsdTable::new(states);
        for (osd, placement, nonce) in planned.osds {
            let state = match planned.failed.get(&osd) {
                Some(reason) => OsdState::Failed(reason.clone()),
                None if planner.boots(osd) => OsdState::Starting,
                None => OsdState::Held,
            };
            osds.add(osd, placement, nonce, state);
        }
        let threads = spawn(planned.cores, &shared, &messenger, dir.path())?;
        for (osd, reason) in planned.failed {
            note_failure(&threads, osd, &reason);
        }
        Ok(Started { osds, planner, threads, reports: receiver, metrics, last_words, last_failure })
    }

    /// What `loligo up` prints.
    pub fn info(&self) -> &ClusterInfo {
        &self.info
    }

    /// Waits until every OSD takes part, or has failed.
    ///
    /// # Errors
    /// An OSD of a new cluster failed, or one did not take part in time: the cluster was ended. If this was its first start nothing of it is
    /// left but, when the reason is to be looked up there, its log.
    pub fn ready(mut self, timeout: Duration) -> Result<Self, HostError> {
        let Err(error) = self.wait_ready(timeout) else {
            self.is_ready = true;
            self.last_words.iter().for_each(LastWords::clear);
            return Ok(self);
        };
        self.last_words.iter().for_each(|words| words.say(&error.to_string()));
        self.quit();
        match self.is_new {
            true => self.dir.undo(matches!(error, HostError::NotReady { .. })),
            false => self.dir.ended(),
        }
        Err(error)
    }

    fn wait_ready(&mut self, timeout: Duration) -> Result<(), HostError> {
        let end = Instant::now() + timeout;
        loop {
            let missing = self.osds.having(|state| *state == OsdState::Starting);
            self.progress.osds(&missing);
            if missing.is_empty() {
                return Ok(());
            }
            match self.reports.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(report) => match self.take(report) {
                    Some(failure) => return Err(failure),
                    None => self.check_failed()?,
                },
                Err(RecvTimeoutError::Timeout) => {
                    return Err(HostError::NotReady {
                        dir: self.info.dir.clone(),
                        missing: missing.into_iter().map(|o| o.0).collect(),
                        seconds: timeout.as_secs(),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(HostError::Failed("every core ended".into()));
                }
            }
        }
    }

    /// A new cluster is to be whole. A later start serves what is there, be it the monitor alone: with it an OSD can begin again.
    fn check_failed(&self) -> Result<(), HostError> {
        let failed = self.osds.states().into_iter().find_map(|(osd, state)| match state {
            OsdState::Failed(reason) => Some((osd, reason)),
            _ => None,
        });
        match failed {
            Some((osd, reason)) if self.is_new => Err(HostError::Failed(format!("osd.{osd}: {reason}"))),
            _ => Ok(()),
        }
    }

    /// What the OSDs do.
    pub fn osds(&self) -> BTreeMap<OsdId, OsdState> {
        self.osds.states()
    }

    /// Serves for as long as `time`: takes what the cores report, and does what is asked of single OSDs. Answers early
    /// with what failed that the process cannot go on without, if anything. An OSD that fails is no such thing, nor is
    /// the last one: the monitor goes on.
    pub fn serve(&mut self, time: Duration) -> Option<HostError> {
        let end = Instant::now() + time;
        while let Ok(report) = self.reports.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if let Some(failure) = self.take(report) {
                return Some(failure);
            }
        }
        self.give_up_late_requests();
        None
    }

    fn take(&mut self, report: CoreReport) -> Option<HostError> {
        match report {
            CoreReport::Active(osd) if self.osds.state(osd) == Some(&OsdState::Starting) => {
                self.osds.set(osd, OsdState::Active);
            }
            // It came up again after the map showed it down, or while it stops.
            CoreReport::Active(_) => {}
            // Why it was stopped stays known.
            CoreReport::Stopped(osd) if matches!(self.osds.state(osd), Some(OsdState::Failed(_))) => {}
            CoreReport::Stopped(osd) => self.osds.set(osd, OsdState::Stopped),
            CoreReport::MonBehind { osd, has, newest } => return self.mon_is_behind(osd, has, newest),
            CoreReport::OsdFailed(osd, reason) => {
                note_failure(&self.threads, osd, &reason);
                self.osds.set(osd, OsdState::Failed(reason));
            }
            CoreReport::Ended(osd) => self.osds.core_ended(osd),
            CoreReport::Asked(request, reply) => self.on_request(request, reply),
            CoreReport::Failed(reason) => {
                self.last_words.iter().for_each(|words| words.say(&reason));
                return Some(HostError::Failed(reason));
            }
        }
        self.answer_requests();
        None
    }

    /// An OSD has a newer map than the monitor. At a start the monitor's state is the old one: what it made of its maps would
    /// be others than those that OSDs have by the same numbers, so it ends before it makes one. In a cluster that serves, it is
    /// the one OSD that does not belong to it.
    fn mon_is_behind(&mut self, osd: OsdId, has: Epoch, newest: Epoch) -> Option<HostError> {
        let dir = self.info.dir.clone();
        let behind = HostError::MonBehind { dir, osd: osd.0, has: has.0, newest: newest.0 };
        if !self.is_ready {
            return Some(behind);
        }
        if self.osds.state(osd) == Some(&OsdState::Starting) {
            let reason = behind.to_string();
            note_failure(&self.threads, osd, &reason);
            self.stop_osd(osd);
            self.osds.set(osd, OsdState::Failed(reason));
        }
        None
    }

    /// Stops the OSDs, then the monitor, then the threads; what was accepted is on disk afterwards.
    pub fn stop(mut self) -> Result<(), HostError> {
        for osd in self.osds.having(OsdState::runs) {
            self.stop_osd(osd);
        }
        let end = Instant::now() + OSD_STOP_TIMEOUT;
        loop {
            let running = self.osds.having(OsdState::runs);
            if running.is_empty() {
                break;
            }
            match self.reports.recv_timeout(end.saturating_duration_since(Instant::now())) {
                // Their peers learn that the process is ending.
                Ok(CoreReport::Asked(..)) => {}
                // A failure now is no news: the process ends.
                Ok(report) => drop(self.take(report)),
                Err(_) => {
                    tracing::warn!("these OSDs did not stop in time: {running:?}");
                    break;
                }
            }
        }
        self.quit();
        self.dir.ended();
        Ok(())
    }

    /// Has an OSD that runs stop.
    pub(crate) fn stop_osd(&mut self, osd: OsdId) {
        let Some(placement) = self.osds.placement(osd) else { return };
        self.send(placement.control(), CoreCommand::StopOsd(osd));
        self.osds.set(osd, OsdState::Stopping);
    }

    pub(crate) fn send(&self, core: CoreId, command: CoreCommand) {
        if let Some((sender, _)) = self.threads.get(usize::from(core.0)) {
            // A core that ended has dropped its receiver; that is reported as the process's failure.
            let _ = sender.send(command);
        }
    }

    /// The queues of all cores.
    pub(crate) fn cores(&self) -> Vec<UnboundedSender<CoreCommand>> {
        self.threads.iter().map(|(sender, _)| sender.clone()).collect()
    }

    /// Ends the threads without stopping the OSDs cleanly.
    fn quit(&mut self) {
        for (sender, _) in &self.threads {
            // A core that ended has dropped its receiver; there is nothing to stop on it.
            let _ = sender.send(CoreCommand::Quit);
        }
        for (_, thread) in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The core that has the monitor.
pub(crate) const MON_CORE: CoreId = CoreId(0);

/// Logs an OSD's failure, and has the monitor know it.
fn note_failure(threads: &Threads, osd: OsdId, reason: &str) {
    tracing::error!("osd.{osd} failed: {reason}. The monitor and the other OSDs go on");
    if let Some((mon, _)) = threads.get(usize::from(MON_CORE.0)) {
        // The receiver is gone only when the process is ending.
        let _ = mon.send(CoreCommand::OsdFailed(osd, reason.to_owned()));
    }
}

type Threads = Vec<(UnboundedSender<CoreCommand>, JoinHandle<()>)>;

fn spawn(
    plans: Vec<CorePlan>,
    shared: &Arc<Shared>,
    messenger: &MessengerConfig,
    dir: &Path,
) -> Result<Threads, HostError> {
    let pin = plans.len() > 1;
    let cores: Vec<_> = plans.iter().map(|plan| plan.sender.clone()).collect();
    let mut threads = Vec::new();
    for plan in plans {
        let (shared, sender, index) = (shared.clone(), plan.sender.clone(), plan.index);
        let messenger = MessengerConfig {
            core: index as u16,
            cookie_seed: messenger.cookie_seed ^ index as u64,
            ..messenger.clone()
        };
        let cores = cores.clone();
        let start = move || core_main(plan, shared, messenger, cores);
        let thread = runtime::spawn_core(index, pin, start).map_err(HostError::io(dir))?;
        threads.push((sender, thread));
    }
    Ok(threads)
}

/// The options in force. Logs those that have nothing to tune.
fn messenger_config(values: &Values) -> Result<MessengerConfig, HostError> {
    Ok(MessengerConfig {
        core: 0,
        connections_max: values.get(opt::MS_CONNECTIONS_MAX) as usize,
        unfinished_bytes_max: values.get(opt::MS_RECEIVE_UNFINISHED_BYTES_MAX) as usize,
        ready_timeout: Duration::from_secs_f64(values.get(opt::MS_CONNECTION_READY_TIMEOUT)),
        initial_backoff: Duration::from_secs_f64(values.get(opt::MS_INITIAL_BACKOFF)),
        max_backoff: Duration::from_secs_f64(values.get(opt::MS_MAX_BACKOFF)),
        peer_bytes_max: values.get(opt::MS_PEER_UNACKED_BYTES_MAX) as usize,
        check_in_memory: cfg!(debug_assertions),
        cookie_seed: u64::from_le_bytes(plan::random::<8>()?),
        usage: Arc::default(),
    })
}

fn read_settings(settings: &[(String, String)]) -> Result<Values, HostError> {
    let mut values = Values::new();
    for (name, value) in settings {
        if values.set(name, value)? == OptionStatus::NothingToTune {
            tracing::warn!(
                "{name} is an option of Ceph's that has nothing to tune here; it is taken without effect"
            );
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(dir: &Path, osd_size: Option<u64>) -> UpRequest {
        let settings = vec![("mon_data_avail_warn".to_owned(), "0".to_owned())];
        let (dir, port, osds, cores) = (dir.to_owned(), Some(0), Some(1), Some(1));
        UpRequest { dir, port, osds, cores, osd_size, settings, ..UpRequest::default() }
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap().flatten();
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_first_start_whose_osds_do_not_come_up_leaves_nothing_but_its_log() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("c");
        let started = Cluster::start(request(&dir, Some(64 << 20))).unwrap();
        let Err(error) = started.ready(Duration::ZERO) else { panic!("no OSD is up at once") };
        assert!(
            error.to_string().contains(&format!("osd.0 did not come up within 0 s; {}", dir.display())),
            "{error}"
        );
        // The log of a process is the first cluster's, which may be another test's.
        assert!(names(&dir).iter().all(|name| name == "log"), "{:?}", names(&dir));
        // Another size is no contradiction: there is no cluster.
        let started = Cluster::start(request(&dir, Some(128 << 20))).unwrap();
        let cluster = started.ready(Duration::from_secs(60)).unwrap();
        cluster.stop().unwrap();
        // A later start that fails leaves the cluster as it is.
        let started = Cluster::start(request(&dir, None)).unwrap();
        assert!(started.ready(Duration::ZERO).is_err());
        Cluster::start(request(&dir, None)).unwrap().ready(Duration::from_secs(60)).unwrap().stop().unwrap();
    }

    #[test]
    fn stores_too_small_for_an_osd_are_refused_before_anything_is_made() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("c");
        let Err(error) = Cluster::start(request(&dir, Some(10))) else { panic!("10 bytes hold no OSD") };
        assert_eq!(error.to_string(), "OSDs of 10 bytes are too small: --osd-size takes at least 64 MiB");
        assert!(!dir.exists());
    }
}
