//! What a start needs, decided before anything runs: the description, the sockets, and which core gets what.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blockfile::{LogPlace, NewStore};
use messenger::{MessengerConfig, Role};
use mon::{InitialOsd, ManagerConfig};
use options::{Values, opt};
use osd::{CoreId, Placement};
use text::{format_bytes, format_bytes_exact};
use types::{EntityAddr, Epoch, Fsid, OsdId, UTime};

use crate::HostError;
use crate::aside::Settled;
use crate::cluster::UpRequest;
use crate::core_main::{CorePlan, MonPlan, OsdPlan, StorePlace};
use crate::dir::{Description, DirState, StoreKind};
use crate::progress::StartProgress;
use crate::{aside, open, places};

/// What a directory gets when it is made and its [`UpRequest`] names nothing else.
pub mod default {
    use crate::dir::StoreKind;

    pub const OSDS: u32 = 3;
    pub const STORE: StoreKind = StoreKind::Block;
    /// Bytes of each OSD's image file.
    pub const OSD_SIZE: u64 = 10 << 30;
    pub const MON_ADDR: &str = "127.0.0.1:3300";
}

/// Bytes of the smallest store: an OSD keeps its superblock and some hundred maps there, beside its users' data.
pub const OSD_SIZE_MIN: u64 = 64 << 20;

/// Objects whose metadata an OSD of a durable store keeps by default, as far as its memory has room (`osd::memory`). To make a
/// context, the OSD searches the store twice, which costs more than a context that the processor's caches do not have.
const CONTEXTS_OF_DURABLE: &str = "262144";

/// Gives the options for object contexts the defaults of a durable store.
pub(crate) fn keep_many_contexts(values: &mut Values) -> Result<(), HostError> {
    for name in [opt::OSD_OBJECT_CONTEXTS_MAX.name(), opt::OSD_OBJECT_CONTEXTS_ONCE_MAX.name()] {
        values.set_default(name, CONTEXTS_OF_DURABLE)?;
    }
    Ok(())
}

/// Random bytes of the system's.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], HostError> {
    let mut bytes = [0; N];
    let failed =
        |error: rustix::io::Errno| HostError::Io { path: "random numbers".into(), error: error.into() };
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()).map_err(failed)?;
    Ok(bytes)
}

fn random_fsid() -> Result<Fsid, HostError> {
    Ok(Fsid::from_random(random()?))
}

/// The cluster to start: what was found, or a new one. What was asked for must fit what is there.
pub(crate) fn describe(request: &UpRequest, found: DirState) -> Result<Description, HostError> {
    check_ports_agree(request)?;
    let mut description = match found {
        DirState::Empty | DirState::Unfinished => {
            let usual =
                default::MON_ADDR.parse().map_err(|_| HostError::Unsupported(default::MON_ADDR.into()))?;
            let addr = request.mon_addr.unwrap_or(usual);
            places::check(request)?;
            let on_devices = !request.devices.is_empty();
            // One for each OSD, where OSDs are not counted otherwise.
            let named = [&request.devices, &request.log_devices].map(Vec::len).into_iter().find(|n| *n > 0);
            let osds = named.map_or(default::OSDS, |named| named as u32);
            let (store, osds) = (request.store.unwrap_or(default::STORE), request.osds.unwrap_or(osds));
            places::check_device_sizes(&request.devices)?;
            let size = match on_devices {
                true => places::smallest(&request.devices)?,
                false => request.osd_size.unwrap_or(default::OSD_SIZE),
            };
            if size < OSD_SIZE_MIN {
                return Err(HostError::OsdTooSmall { bytes: size, min: OSD_SIZE_MIN });
            }
            let mut new = Description::new(random_fsid()?, store, osds, size, addr);
            new.devices = request.devices.clone();
            new.log_devices = request.log_devices.clone();
            new.preallocated = request.preallocate;
            places::check_new(&new)?;
            new.osd_uuids =
                (0..osds).map(|_| Ok(random_fsid()?.to_string())).collect::<Result<_, HostError>>()?;
            new
        }
        DirState::Cluster(description) => {
            check_fits(request, &description)?;
            *description
        }
    };
    if !description.store.is_durable() {
        // Nothing was kept: clients and OSDs must not take it for the cluster that was there before.
        description.fsid = random_fsid()?.to_string();
    }
    description.mon_addr = mon_addr(request, &description);
    Ok(description)
}

/// Two flags name the monitor's port. Port 0 of an address leaves it to the other flag.
fn check_ports_agree(request: &UpRequest) -> Result<(), HostError> {
    match (request.mon_addr, request.port) {
        (Some(addr), Some(port)) if addr.port() != 0 && addr.port() != port => {
            Err(HostError::TwoPorts { addr, port })
        }
        _ => Ok(()),
    }
}

/// The monitor's address: clients keep a ceph.conf, so a port that was taken because it was free is taken again when the
/// same flags start the cluster again.
fn mon_addr(request: &UpRequest, description: &Description) -> SocketAddr {
    let last = description.mon_addr;
    let mut addr = request.mon_addr.unwrap_or(last);
    if addr.port() == 0 && addr.ip() == last.ip() {
        addr.set_port(last.port());
    }
    match request.port {
        Some(0) if description.starts > 0 && addr.ip() == last.ip() => {}
        Some(port) => addr.set_port(port),
        None => {}
    }
    addr
}

fn check_fits(request: &UpRequest, has: &Description) -> Result<(), HostError> {
    let differs = |flag, has: String, asked: String| {
        Err(HostError::Differs { dir: request.dir.clone(), has, asked, flag })
    };
    match request {
        UpRequest { store: Some(asked), .. } if *asked != has.store => {
            differs("store", format!("the store '{}'", has.store.as_str()), format!("'{}'", asked.as_str()))
        }
        UpRequest { osds: Some(asked), .. } if *asked != has.osds => {
            let plural = if has.osds == 1 { "" } else { "s" };
            differs("osds", format!("{} OSD{plural}", has.osds), asked.to_string())
        }
        UpRequest { devices: asked, .. } if !asked.is_empty() && *asked != has.devices => {
            let list = |of: &[PathBuf]| match of {
                [] => "image files".to_owned(),
                of => places::listed(of, "an image file"),
            };
            differs("device", format!("its OSDs on {}", list(&has.devices)), list(asked))
        }
        UpRequest { log_devices: asked, .. } if !asked.is_empty() && *asked != has.log_devices => {
            let list = |of: &[PathBuf]| match of {
                [] => "beside its data".to_owned(),
                of => format!("on {}", places::listed(of, "the device of its data")),
            };
            differs("log-device", format!("its OSDs' logs {}", list(&has.log_devices)), list(asked))
        }
        UpRequest { preallocate: true, .. } if !has.preallocated => Err(HostError::Unsupported(format!(
            "--preallocate is for a new directory: the stores of {} were made without it",
            request.dir.display()
        ))),
        UpRequest { osd_size: Some(asked), .. } if *asked != has.osd_size => {
            let size = |bytes| match bytes {
                0..1024 => format_bytes(bytes),
                _ => format_bytes_exact(bytes),
            };
            differs("osd-size", format!("OSDs of {}", size(has.osd_size)), size(*asked))
        }
        _ => Ok(()),
    }
}

/// Without authentication only loopback is bound.
pub(crate) fn check_bind(request: &UpRequest, description: &Description) -> Result<(), HostError> {
    let ips = [Some(description.mon_addr.ip()), request.metrics.map(|addr| addr.ip())];
    match ips.into_iter().flatten().find(|ip| !ip.is_loopback()) {
        Some(ip) if !request.insecure_bind => Err(HostError::InsecureBind(ip)),
        _ => Ok(()),
    }
}

/// The listeners of all daemons.
pub(crate) struct Sockets {
    mon: TcpListener,
    mgr: TcpListener,
    /// Prometheus's.
    metrics: Option<TcpListener>,
    /// Of each OSD, the public one.
    osds: Vec<TcpListener>,
    /// Of each OSD, those at which only OSDs connect.
    peers: Vec<PeerListeners>,
}

/// The listeners of an OSD's other addresses, with their roles.
pub(crate) type PeerListeners = Vec<(Role, SocketAddr, TcpListener)>;

/// They take any free port: every OSD of the cluster is in this process, and learns them from the map. Ports of the range
/// are left to public addresses, which are to stay the same.
fn bind_peers(ip: IpAddr, backlog: i32) -> Result<PeerListeners, HostError> {
    let bind_one = |role| {
        let listener = bind(SocketAddr::new(ip, 0), backlog, "--port")?;
        let at = |error| HostError::Io { path: "a listener's address".into(), error };
        Ok((role, listener.local_addr().map_err(at)?, listener))
    };
    [Role::Cluster, Role::HeartbeatBack, Role::HeartbeatFront].into_iter().map(bind_one).collect()
}

fn bind(addr: SocketAddr, backlog: i32, flag: &'static str) -> Result<TcpListener, HostError> {
    runtime::bind(addr, backlog).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => HostError::PortInUse { addr, flag },
        _ => HostError::Bind { addr, error },
    })
}

impl Sockets {
    /// Binds all, and writes the addresses into the description.
    pub(crate) fn bind(
        request: &UpRequest,
        values: &Values,
        description: &mut Description,
    ) -> Result<Self, HostError> {
        let backlog = values.get(opt::MS_TCP_LISTEN_BACKLOG) as i32;
        let at = |error| HostError::Io { path: "a listener's address".into(), error };
        let wanted = description.mon_addr;
        let flag = if request.port.is_some() { "--port" } else { "--mon-addr" };
        let mon = match bind(wanted, backlog, flag) {
            // With free ports any will do; the last one is only kept for clients that are still there.
            Err(HostError::PortInUse { .. }) if request.port == Some(0) => {
                bind(SocketAddr::new(wanted.ip(), 0), backlog, flag)?
            }
            other => other?,
        };
        description.mon_addr = mon.local_addr().map_err(at)?;
        let mut osds = Vec::new();
        for id in 0..description.osds {
            let last = description.osd_addrs.get(id as usize).copied();
            osds.push(bind_server(request, values, description.mon_addr, last, backlog)?);
        }
        description.osd_addrs =
            osds.iter().map(TcpListener::local_addr).collect::<Result<_, _>>().map_err(at)?;
        // After the OSDs, so that they have the ports that they have without it.
        let mgr = bind_server(request, values, description.mon_addr, description.mgr_addr, backlog)?;
        description.mgr_addr = Some(mgr.local_addr().map_err(at)?);
        let ip = description.mon_addr.ip();
        let peers = (0..description.osds).map(|_| bind_peers(ip, backlog)).collect::<Result<_, _>>()?;
        let metrics = request
            .metrics
            .map(|addr| runtime::bind(addr, backlog).map_err(|error| HostError::Bind { addr, error }));
        let metrics = metrics.transpose()?;
        Ok(Self { mon, mgr, metrics, osds, peers })
    }
}

impl Sockets {
    /// Where Prometheus reads the cluster: port 0 was a wish.
    pub(crate) fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }
}

/// A listener of an OSD or of the manager: where it was last time if that is free, else the first free port of the range.
fn bind_server(
    request: &UpRequest,
    values: &Values,
    mon: SocketAddr,
    last: Option<SocketAddr>,
    backlog: i32,
) -> Result<TcpListener, HostError> {
    if let Some(listener) = last.filter(|a| a.ip() == mon.ip()).and_then(|a| runtime::bind(a, backlog).ok()) {
        return Ok(listener);
    }
    let (min, max) = match request.port {
        Some(0) => return bind(SocketAddr::new(mon.ip(), 0), backlog, "--port"),
        Some(port) => (port.saturating_add(1), u16::MAX),
        None => (values.get(opt::MS_BIND_PORT_MIN) as u16, values.get(opt::MS_BIND_PORT_MAX) as u16),
    };
    for port in min..=max {
        match bind(SocketAddr::new(mon.ip(), port), backlog, "ms_bind_port_min") {
            Err(HostError::PortInUse { .. }) => {}
            other => return other,
        }
    }
    Err(HostError::NoOsdPort { min, max })
}

/// The file systems that OSDs' directories lie on.
struct FileSystems(Vec<u64>);

impl FileSystems {
    /// A directory that is yet to be made will be on its parent's; an OSD's may be a link to another disk.
    fn of(dir: &Path, osds: u32) -> Self {
        let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev);
        // One that can't be looked at fails when its store is opened.
        Self((0..osds).map(|i| device(&osd_dir(dir, i)).or_else(|_| device(dir)).unwrap_or(0)).collect())
    }

    /// How many lie where the one of this index does, itself included.
    fn sharing(&self, index: usize) -> u32 {
        self.0.iter().filter(|device| self.0.get(index) == Some(device)).count() as u32
    }
}

/// Where an OSD keeps its store.
fn osd_dir(dir: &Path, index: u32) -> PathBuf {
    dir.join(format!("osd.{index}"))
}

/// Bytes of a store's image file, if there is one yet.
fn image_bytes(store: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(store.join("block")).ok()?;
    metadata.is_file().then_some(metadata.len()).filter(|bytes| *bytes > 0)
}

/// OSDs that `osd_debug_no_boot` keeps from booting.
fn kept_from_booting(values: &Values) -> Vec<OsdId> {
    values
        .get(opt::OSD_DEBUG_NO_BOOT)
        .split([',', ' '])
        .filter_map(|n| n.trim().parse().ok())
        .map(OsdId)
        .collect()
}

/// How many cores serve: as many as were asked for, at most one for each CPU and for each store shard that there may be.
/// Logs a request for cores that can't be met.
fn core_count(asked: Option<u32>, description: &Description, dir: &Path, values: &Values) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get()) as u32;
    let (shards, why) = match description.store {
        // As many shards as cores want.
        StoreKind::Mem => (MessengerConfig::CORES_MAX, "no more can be told apart"),
        StoreKind::Simple => (description.osds, "the store 'simple' has one shard, and each OSD one store"),
        StoreKind::Block => {
            let of = |osd| match description.starts {
                // Its store is yet to be made.
                1 => block_shards(description.osd_size, blockfile::SHARDS_MAX, values),
                _ => shards_there(&osd_dir(dir, osd)),
            };
            ((0..description.osds).map(of).sum(), "each shard of a store has one core at most")
        }
    };
    let max = cpus.min(shards).clamp(1, MessengerConfig::CORES_MAX);
    let cores = asked.unwrap_or(description.osds).clamp(1, max);
    if let Some(asked) = asked.filter(|asked| *asked > cores) {
        let why = if cores == shards { why } else { "the machine has no more" };
        tracing::warn!("--cores {asked}: {cores} will serve; {why}");
    }
    cores
}

/// The shards of the block store in a directory. A store whose label can't be read fails when it is opened.
fn shards_there(dir: &Path) -> u32 {
    blockfile::shards_in(dir).unwrap_or(1)
}

/// The shards of a block store of so many bytes that is to be made for an OSD on so many cores.
fn block_shards(size_bytes: u64, cores: u32, values: &Values) -> u32 {
    let wanted = match values.get(opt::OSD_STORE_SHARDS) {
        0 => cores,
        named => named as u32,
    };
    blockfile::shards_of(size_bytes, wanted)
}

/// The cores that an OSD may use: those that come to it in turn.
fn cores_of(osd: u32, osds: u32, cores: u32) -> Vec<CoreId> {
    let own: Vec<CoreId> =
        (0..cores).filter(|core| core % osds == osd).map(|core| CoreId(core as u16)).collect();
    if own.is_empty() { vec![CoreId((osd % cores) as u16)] } else { own }
}

/// An OSD's parts on its cores: its shards in turn, and a gate on each core that has one.
fn placement(mut cores: Vec<CoreId>, shards: u32) -> Option<Placement> {
    cores.truncate(shards.max(1) as usize);
    let of_shards = cores.iter().copied().cycle().take(shards as usize).collect();
    Placement::new(cores, of_shards)
}

/// Plans OSDs: those of a start, and later single ones that start again.
pub(crate) struct OsdPlanner {
    pub(crate) request: UpRequest,
    pub(crate) values: Values,
    /// As it is in the directory.
    pub(crate) description: Description,
    dir: PathBuf,
    fsid: Fsid,
    cores: u32,
    no_boot: Vec<OsdId>,
}

/// The listeners of one OSD: the public one, and those at which only OSDs connect.
pub(crate) type OsdListeners = (TcpListener, PeerListeners);

impl OsdPlanner {
    pub(crate) fn new(
        request: &UpRequest,
        values: Values,
        description: &Description,
        dir: &Path,
    ) -> Result<Self, HostError> {
        Ok(Self {
            fsid: description.fsid.parse().map_err(|_| bad_id(dir))?,
            cores: core_count(request.cores, description, dir, &values),
            no_boot: kept_from_booting(&values),
            request: request.clone(),
            description: description.clone(),
            dir: dir.to_owned(),
            values,
        })
    }

    pub(crate) fn fsid(&self) -> Fsid {
        self.fsid
    }

    /// How many cores serve.
    pub(crate) fn cores(&self) -> usize {
        self.cores as usize
    }

    /// Whether the description has this OSD.
    pub(crate) fn has(&self, osd: OsdId) -> bool {
        u32::try_from(osd.0).is_ok_and(|index| index < self.description.osds)
    }

    /// The plan of an OSD that the description has. `is_new`: its store is to be made.
    pub(crate) fn plan(
        &self,
        id: OsdId,
        (listener, peers): OsdListeners,
        nonce: u32,
        is_new: bool,
    ) -> Result<OsdPlan, HostError> {
        let (index, description) = (id.0 as u32, &self.description);
        // An OSD whose directory can't be read says so when its store is opened, and costs no other.
        if !is_new && let Err(error) = self.settle(id) {
            tracing::error!("which store osd.{id} has is open: {error}");
        }
        let uuid = description.osd_uuids.get(index as usize).and_then(|u| u.parse().ok());
        let place = self.place(index);
        let size_bytes = match &place.device {
            Some(_) => self.new_bytes(&place),
            // It may have been made larger.
            None => image_bytes(&self.store_dir(id)).unwrap_or_else(|| self.new_bytes(&place)),
        };
        let cores = cores_of(index, description.osds, self.cores);
        let shards = match (description.store_of(index), is_new) {
            (StoreKind::Mem, _) => cores.len() as u32,
            (StoreKind::Simple, _) => 1,
            (StoreKind::Block, true) => block_shards(size_bytes, cores.len() as u32, &self.values),
            (StoreKind::Block, false) => shards_there(&self.store_dir(id)),
        };
        let placement = placement(cores, shards);
        let placement = placement.ok_or_else(|| HostError::Unsupported("an OSD without cores".into()))?;
        Ok(OsdPlan {
            id,
            uuid: uuid.ok_or_else(|| bad_id(&self.dir))?,
            fsid: self.fsid,
            nonce,
            addr: listener.local_addr().map_err(HostError::io("a listener's address"))?,
            listener,
            peers,
            mon_addr: description.mon_addr,
            store: description.store_of(index),
            size_bytes,
            place,
            dir: self.store_dir(id),
            boots: self.boots(id),
            file_system_stores: FileSystems::of(&self.dir, description.osds).sharing(index as usize),
            placement: Arc::new(placement),
            is_new,
        })
    }

    /// Settles which store an OSD has, where another one was to be made in its place and the process ended meanwhile.
    pub(crate) fn settle(&self, osd: OsdId) -> Result<(), HostError> {
        let Some(uuid) = self.description.osd_uuids.get(osd.0 as usize) else { return Ok(()) };
        match aside::settle(&self.store_dir(osd), uuid)? {
            None => {}
            Some(Settled::TakenBack) => tracing::warn!(
                "osd.{osd} has the store that it had: the process ended before another one was in its place"
            ),
            Some(Settled::Done) => tracing::info!("osd.{osd}'s former store is kept aside"),
        }
        Ok(())
    }

    /// What an OSD's store is made on.
    fn place(&self, index: u32) -> StorePlace {
        let description = &self.description;
        let device = description.device_of(index).cloned();
        let overwrite = |path: &PathBuf| self.request.overwrite.contains(path);
        let log = description.log_device_of(index);
        StorePlace {
            overwrite: device.as_ref().is_some_and(overwrite),
            log: log.map(|path| LogPlace { path: path.clone(), overwrite: overwrite(path) }),
            preallocate: description.preallocated,
            device,
        }
    }

    /// Bytes of a store that is made there.
    fn new_bytes(&self, place: &StorePlace) -> u64 {
        let device = place.device.as_deref().map(places::device_bytes);
        // A device that is gone now fails when its store is made or opened.
        device.and_then(Result::ok).unwrap_or(self.description.osd_size)
    }

    /// The block store that would be made for an OSD.
    pub(crate) fn new_store(&self, osd: OsdId) -> NewStore {
        let (index, place) = (osd.0 as u32, self.place(osd.0 as u32));
        let (bytes, cores) = (self.new_bytes(&place), cores_of(index, self.description.osds, self.cores));
        let shards = block_shards(bytes, cores.len() as u32, &self.values);
        open::new_store(&self.store_dir(osd), place, bytes, shards)
    }

    /// Where an OSD keeps its store.
    pub(crate) fn store_dir(&self, osd: OsdId) -> PathBuf {
        osd_dir(&self.dir, osd.0 as u32)
    }

    /// Whether an OSD boots once it is started.
    pub(crate) fn boots(&self, osd: OsdId) -> bool {
        !self.no_boot.contains(&osd)
    }

    /// The listeners of an OSD that starts again, with the address that it had if that is free.
    pub(crate) fn bind(&mut self, osd: OsdId) -> Result<OsdListeners, HostError> {
        let backlog = self.values.get(opt::MS_TCP_LISTEN_BACKLOG) as i32;
        let mon = self.description.mon_addr;
        let last = self.description.osd_addrs.get(osd.0 as usize).copied();
        let listener = bind_server(&self.request, &self.values, mon, last, backlog)?;
        let addr = listener.local_addr().map_err(HostError::io("a listener's address"))?;
        if let Some(known) = self.description.osd_addrs.get_mut(osd.0 as usize) {
            *known = addr;
        }
        Ok((listener, bind_peers(mon.ip(), backlog)?))
    }

    /// A nonce for this start's addresses, which no other start of this directory had.
    fn first_nonce(&self) -> Result<u32, HostError> {
        let [a, b] = random::<2>()?;
        Ok((u32::from(u16::from_le_bytes([a, b])) << 16) | (self.description.starts as u32 & 0xffff))
    }

    /// A nonce for an OSD that starts again at the same address: another than `last`.
    pub(crate) fn next_nonce(&self, last: u32) -> Result<u32, HostError> {
        loop {
            let nonce = self.first_nonce()?;
            if nonce != last {
                return Ok(nonce);
            }
        }
    }

    /// Gives an OSD the id of a store that is yet to be made. Answers the one before.
    pub(crate) fn renew_uuid(&mut self, osd: OsdId) -> Result<String, HostError> {
        self.set_uuid(osd, &random_fsid()?.to_string())
    }

    /// The same with an id that is known.
    pub(crate) fn set_uuid(&mut self, osd: OsdId, uuid: &str) -> Result<String, HostError> {
        let known = self.description.osd_uuids.get_mut(osd.0 as usize).ok_or_else(|| bad_id(&self.dir))?;
        Ok(std::mem::replace(known, uuid.to_owned()))
    }
}

/// What the cores will run, and what of it is missing.
pub(crate) struct Planned {
    pub(crate) cores: Vec<CorePlan>,
    /// OSDs whose stores can't be opened, with the reasons.
    pub(crate) failed: BTreeMap<OsdId, String>,
    /// Of every OSD: where its parts are, and its nonce.
    pub(crate) osds: Vec<(OsdId, Arc<Placement>, u32)>,
}

/// Spreads the daemons over cores: the monitor on the first, OSDs in turn; where there are more cores than OSDs, the
/// cores in turn over the OSDs. Opens their states, or makes them.
pub(crate) fn plan_cores(
    planner: &OsdPlanner,
    sockets: Sockets,
    dir: &Path,
    now: UTime,
    progress: &StartProgress,
) -> Result<Planned, HostError> {
    let description = &planner.description;
    let (nonce, is_new) = (planner.first_nonce()?, description.starts == 1);
    let mut cores: Vec<CorePlan> =
        (0..planner.cores()).map(|index| CorePlan::empty(index, planner.values.clone())).collect();
    let (mut initial, mut plans, mut osds) = (Vec::new(), Vec::new(), Vec::new());
    for (i, listeners) in sockets.osds.into_iter().zip(sockets.peers).enumerate() {
        let osd = OsdId(i as i32);
        progress.store(osd, &planner.store_dir(osd));
        let plan = planner.plan(osd, listeners, nonce, is_new)?;
        initial.push(InitialOsd {
            id: plan.id.0,
            uuid: plan.uuid,
            size_bytes: plan.size_bytes,
            class: Some("ssd".into()),
        });
        osds.push((plan.id, plan.placement.clone(), nonce));
        plans.push(plan);
    }
    let mgr_addr = sockets.mgr.local_addr().map_err(HostError::io("a listener's address"))?;
    let manager = ManagerConfig {
        addr: EntityAddr::v2(mgr_addr, nonce),
        // Clients that stay over a start take only a newer map.
        epoch: Epoch(u32::try_from(description.starts).unwrap_or(u32::MAX)),
    };
    cores[0].mon = Some(MonPlan {
        fsid: planner.fsid,
        addr: description.mon_addr,
        listener: sockets.mon,
        manager: Some((manager, sockets.mgr)),
        metrics: sockets.metrics,
        store: description.store,
        dir: dir.join("mon"),
        cluster_dir: dir.to_owned(),
        osds: initial,
        is_new,
    });
    let failed = CorePlan::open_all(&mut cores, plans, &planner.values, now, progress)?;
    Ok(Planned { cores, failed, osds })
}

fn bad_id(dir: &Path) -> HostError {
    HostError::BadDescription { path: dir.join("cluster.json"), reason: "an id in it is no UUID".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MON: &str = "127.0.0.1:3300";

    fn request(mon_addr: Option<&str>, port: Option<u16>) -> UpRequest {
        UpRequest {
            dir: "/nowhere".into(),
            mon_addr: mon_addr.map(|addr| addr.parse().unwrap()),
            port,
            ..UpRequest::default()
        }
    }

    /// The monitor's addresses of a first start, where free ports are those from 50,000, and of a second with `again`.
    fn addresses(first: &UpRequest, again: &UpRequest) -> Result<(String, String), HostError> {
        let mut description = describe(first, DirState::Empty)?;
        if description.mon_addr.port() == 0 {
            description.mon_addr.set_port(50_000);
        }
        description.starts = 1;
        let second = describe(again, DirState::Cluster(Box::new(description.clone())))?;
        Ok((description.mon_addr.to_string(), second.mon_addr.to_string()))
    }

    #[test]
    fn the_same_flags_give_the_monitor_the_same_address_again() {
        for (mon_addr, port, expected) in [
            (None, None, MON),
            (None, Some(0), "127.0.0.1:50000"),
            (None, Some(4000), "127.0.0.1:4000"),
            (Some("127.0.0.2:0"), None, "127.0.0.2:50000"),
            (Some("127.0.0.2:0"), Some(0), "127.0.0.2:50000"),
            (Some("127.0.0.2:0"), Some(4000), "127.0.0.2:4000"),
            (Some("127.0.0.2:4000"), None, "127.0.0.2:4000"),
            (Some("127.0.0.2:4000"), Some(4000), "127.0.0.2:4000"),
        ] {
            let request = request(mon_addr, port);
            let both = addresses(&request, &request).unwrap();
            assert_eq!(both, (expected.into(), expected.into()), "--mon-addr {mon_addr:?} --port {port:?}");
        }
    }

    #[test]
    fn flags_of_a_later_start_move_the_monitor_only_where_they_name_another_address() {
        let first = request(None, Some(0));
        for (mon_addr, port, expected) in [
            (None, None, "127.0.0.1:50000"),
            (Some("127.0.0.1:0"), None, "127.0.0.1:50000"),
            (None, Some(4000), "127.0.0.1:4000"),
            (Some("127.0.0.2:4000"), None, "127.0.0.2:4000"),
            (Some("127.0.0.2:0"), Some(0), "127.0.0.2:0"),
        ] {
            let (_, second) = addresses(&first, &request(mon_addr, port)).unwrap();
            assert_eq!(second, expected, "--mon-addr {mon_addr:?} --port {port:?}");
        }
    }

    #[test]
    fn two_ports_for_the_monitor_are_refused() {
        for port in [0, 4001] {
            let request = request(Some("127.0.0.1:4000"), Some(port));
            let refused = describe(&request, DirState::Empty).unwrap_err().to_string();
            assert!(refused.contains(&format!("--mon-addr 127.0.0.1:4000 and --port {port}")), "{refused}");
        }
    }
}
