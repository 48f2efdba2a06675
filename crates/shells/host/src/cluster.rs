//! A running cluster: what `loligo up` starts and stops.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use messenger::MessengerConfig;
use options::{OptionStatus, Values, opt};
use tokio::sync::mpsc::UnboundedSender;
use types::OsdId;

use crate::clock::Clock;
use crate::core::Shared;
use crate::core_main::{CoreCommand, CorePlan, OsdParts, core_main};
use crate::delay::DispatchDelay;
use crate::dir::{self, ClusterDir, Description, DirState, StoreKind};
use crate::plan::{self, Sockets};
use crate::{HostError, log};

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
    /// At the first start, where the stores may grow to more bytes than their file system has free: both.
    pub promised_too_much: Option<(u64, u64)>,
}

/// A cluster whose threads run.
pub struct Cluster {
    info: ClusterInfo,
    /// OSDs that run, or are to come up.
    expected: BTreeSet<OsdId>,
    failed: BTreeMap<OsdId, String>,
    threads: Vec<(UnboundedSender<CoreCommand>, JoinHandle<()>)>,
    reports: Receiver<CoreReport>,
    // Its lock is held until the end.
    dir: ClusterDir,
    /// Whether this is the cluster's first start.
    is_new: bool,
}

impl Cluster {
    /// Starts a cluster. When it fails, nothing was changed. [`Cluster::ready`] waits for its OSDs.
    pub fn start(request: UpRequest) -> Result<Self, HostError> {
        let values = read_settings(&request.settings)?;
        refuse_what_is_not_served(&values)?;
        let found = dir::inspect(&request.dir)?;
        let is_new = !matches!(found, DirState::Cluster(_));
        let mut description = plan::describe(&request, found)?;
        plan::check_bind(&request, &description)?;
        // Taken before the ports: a second start on the same directory reports that, not a port in use.
        let dir = ClusterDir::lock(&request.dir)?;
        let promised_too_much = is_new.then(|| dir.promised_too_much(&description)).flatten();
        match Self::start_in(&dir, &request, values, &mut description) {
            Ok((threads, reports, expected)) => {
                let info = ClusterInfo {
                    dir: dir.path().to_owned(),
                    mon_addr: description.mon_addr,
                    osds: description.osds,
                    store: description.store,
                    fsid: description.fsid.clone(),
                    promised_too_much,
                };
                Ok(Self { info, expected, failed: BTreeMap::new(), threads, reports, dir, is_new })
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
    ) -> Result<(Threads, Receiver<CoreReport>, BTreeSet<OsdId>), HostError> {
        let sockets = Sockets::bind(request, &values, description)?;
        dir.check_space(description)?;
        if let Err(error) = runtime::raise_file_limit() {
            tracing::warn!("the limit of open files stays as it is: {error}");
        }
        log::log_to(dir.path())?;
        if let Some(pid) = dir.killed_before() {
            tracing::warn!("process {pid}, which served {} last, did not end cleanly", dir.path().display());
        }
        let (reports, receiver) = channel();
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            delay: DispatchDelay::of(&values),
            listen_backlog: values.get(opt::MS_TCP_LISTEN_BACKLOG) as i32,
            reports,
            failed_osds: Mutex::default(),
        });
        let messenger = MessengerConfig {
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
        };
        if description.starts == 0 {
            dir.clear();
            dir.write_description(description)?;
        }
        description.starts += 1;
        let plans = plan::plan_cores(request, values, description, sockets, dir.path(), shared.clock.now())?;
        dir.write_client_files(description)?;
        dir.write_description(description)?;
        let expected = plans.iter().flat_map(|plan| plan.osds.iter().filter_map(OsdParts::boots)).collect();
        Ok((spawn(plans, &shared, &messenger, dir.path())?, receiver, expected))
    }

    /// What `loligo up` prints.
    pub fn info(&self) -> &ClusterInfo {
        &self.info
    }

    /// Waits until every OSD takes part.
    ///
    /// # Errors
    /// An OSD failed, or did not take part in time: the cluster was ended. If this was its first start nothing of it is
    /// left but, when the reason is to be looked up there, its log.
    pub fn ready(mut self, timeout: Duration) -> Result<Self, HostError> {
        let Err(error) = self.wait_ready(timeout) else { return Ok(self) };
        self.quit();
        match self.is_new {
            true => self.dir.undo(matches!(error, HostError::NotReady { .. })),
            false => self.dir.ended(),
        }
        Err(error)
    }

    fn wait_ready(&mut self, timeout: Duration) -> Result<(), HostError> {
        let end = Instant::now() + timeout;
        let mut missing = self.expected.clone();
        while !missing.is_empty() {
            match self.reports.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(CoreReport::Active(osd)) => drop(missing.remove(&osd)),
                Ok(CoreReport::Stopped(_)) => {}
                Ok(CoreReport::OsdFailed(osd, reason)) => {
                    tracing::error!("osd.{osd} failed: {reason}");
                    self.failed.insert(osd, reason.clone());
                    self.expected.remove(&osd);
                    missing.remove(&osd);
                    // A new cluster is to be whole; a later start serves what is there.
                    if self.is_new || self.expected.is_empty() {
                        return Err(HostError::Failed(format!("osd.{osd}: {reason}")));
                    }
                }
                Ok(CoreReport::Failed(reason)) => return Err(HostError::Failed(reason)),
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
        Ok(())
    }

    /// OSDs that have failed, with their reasons.
    pub fn failed_osds(&self) -> &BTreeMap<OsdId, String> {
        &self.failed
    }

    /// Notes what the cores reported since the last call, and answers what failed that the process cannot go on without, if
    /// anything. An OSD that fails is no such thing, nor is the last one: the monitor goes on. Does not wait.
    pub fn failure(&mut self) -> Option<HostError> {
        while let Ok(report) = self.reports.try_recv() {
            match report {
                CoreReport::Failed(reason) => return Some(HostError::Failed(reason)),
                CoreReport::OsdFailed(osd, reason) => {
                    self.expected.remove(&osd);
                    let others = self.expected.len();
                    tracing::error!("osd.{osd} failed: {reason}. {others} other OSDs and the monitor go on");
                    self.failed.insert(osd, reason);
                }
                CoreReport::Active(_) | CoreReport::Stopped(_) => {}
            }
        }
        None
    }

    /// Stops the OSDs, then the monitor, then the threads; what was accepted is on disk afterwards.
    pub fn stop(mut self) -> Result<(), HostError> {
        self.send_all(|| CoreCommand::StopOsds);
        let end = Instant::now() + OSD_STOP_TIMEOUT;
        let mut running = std::mem::take(&mut self.expected);
        while !running.is_empty() {
            match self.reports.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(CoreReport::Stopped(osd) | CoreReport::OsdFailed(osd, _)) => drop(running.remove(&osd)),
                Ok(CoreReport::Active(_) | CoreReport::Failed(_)) => {}
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

    /// Ends the threads without stopping the OSDs cleanly.
    fn quit(&mut self) {
        self.send_all(|| CoreCommand::Quit);
        for (_, thread) in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    fn send_all(&self, command: impl Fn() -> CoreCommand) {
        for (sender, _) in &self.threads {
            // A core that ended has dropped its receiver; there is nothing to stop on it.
            let _ = sender.send(command());
        }
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

fn refuse_what_is_not_served(values: &Values) -> Result<(), HostError> {
    for option in [opt::AUTH_CLIENT_REQUIRED, opt::AUTH_CLUSTER_REQUIRED, opt::AUTH_SERVICE_REQUIRED] {
        let (name, value) = (option.name(), values.get(option));
        if value != "none" {
            return Err(HostError::Unsupported(format!(
                "{name} = {value}: only 'none' can be served so far"
            )));
        }
    }
    Ok(())
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
