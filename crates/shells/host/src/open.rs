//! Opens, or makes, the states of daemons.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use blockfile::{BlockFileShard, BlockFileStore, FileSpace, NewStore, StoreOptions};
use device::{Device, DeviceOptions, DeviceRole, FileLock, LockError, Power, RedbBackend};

use messenger::Role;
use mon::{Mon, MonConfig};
use monclient::{HuntConfig, MonClientConfig};
use options::{Values, opt};
use osd::{MemoryShares, OsdAddrs, OsdConfig};
use redb::backends::InMemoryBackend;
use simplestore::SimpleStore;
use store::{MemStore, ObjectStore, Tuning};
use tokio::sync::mpsc::UnboundedSender;
use types::{EntityAddr, Profile, UTime};

use crate::HostError;
use crate::core_main::{CoreCommand, MonPlan, OsdPlan, StorePlace};
use crate::dir::{StoreKind, UNFINISHED_CONVERSION};
use crate::monstore::MonStore;

/// Bytes of metadata that each OSD's store holds in memory.
const METADATA_CACHE_BYTES: usize = 6 << 20;

fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // The short name, as CRUSH has it.
    name.split('.').next().unwrap_or("localhost").to_owned()
}

/// The monitor's configuration at a start.
pub(crate) fn mon_config(plan: &MonPlan, values: &Values) -> Result<MonConfig, HostError> {
    Ok(MonConfig {
        fsid: plan.fsid,
        name: "a".into(),
        addr: EntityAddr::v2(plan.addr, 0),
        manager: plan.manager.as_ref().map(|(manager, _)| *manager),
        hostname: hostname(),
        profile: Profile::PACIFIC,
        version: version(),
        options: values.clone(),
        key_seed: crate::plan::random()?,
        machine: crate::machine::facts(),
        osds: plan.osds.clone(),
    })
}

/// Opens the monitor's state, or makes it.
pub(crate) fn mon(
    plan: &MonPlan,
    values: &Values,
    commands: UnboundedSender<CoreCommand>,
    now: UTime,
) -> Result<(Mon, MonStore), HostError> {
    let path = plan.dir.join("state.redb");
    let failed = |reason: String| HostError::MonState { path: path.clone(), reason };
    let config = mon_config(plan, values)?;
    // Only at the cluster's first start: a state that was lost later must not be taken for a new cluster's.
    let is_new = plan.is_new || !plan.store.is_durable();
    let first = is_new.then(|| Mon::create(&config, now)).transpose().map_err(|e| failed(e.to_string()))?;
    // The receiver is gone only when the process ends.
    let done = move |committed| drop(commands.send(CoreCommand::Committed(committed)));
    let (store, state) = match plan.store {
        StoreKind::Mem => MonStore::open(&path, InMemoryBackend::new(), first, done)?,
        StoreKind::Simple | StoreKind::Block => {
            fs::create_dir_all(&plan.dir).map_err(HostError::io(&plan.dir))?;
            MonStore::open(&path, mon_backend(&path, values)?, first, done)?
        }
    };
    let mon = Mon::open(config, state, now).map_err(|e| failed(e.to_string()))?;
    Ok((mon, store))
}

/// How files are opened: with the volatile cache over them where a test asks for it.
fn device_options(values: &Values, salt: u64) -> DeviceOptions {
    let seed = values.get(opt::BDEV_DEBUG_VOLATILE_LEAK_SEED);
    DeviceOptions {
        volatile_cache: values.get(opt::BDEV_DEBUG_VOLATILE_CACHE),
        // Every file leaks in its own way.
        leak_seed: (seed != 0).then(|| seed.wrapping_mul(1000).wrapping_add(salt)),
        power: None,
    }
}

/// The modelled device that each OSD's store lies on, one for each: its name and its parameters.
fn model(values: &Values) -> Option<(String, String)> {
    named_model(values.get(opt::BDEV_MODEL), values.get(opt::BDEV_MODEL_PARAMETERS))
}

/// The one that each OSD's log lies on, where it has a device of its own.
fn log_model(values: &Values) -> Option<(String, String)> {
    named_model(values.get(opt::BDEV_LOG_MODEL), values.get(opt::BDEV_LOG_MODEL_PARAMETERS))
}

fn named_model(name: &str, parameters: &str) -> Option<(String, String)> {
    (!name.is_empty()).then(|| (name.to_owned(), parameters.to_owned()))
}

/// The monitor's state is never on a modelled device, as if it had a disk for itself. The file is one process's at a time, by whatever
/// link or name it is opened: the directory's lock does not see to that, for another directory may have a link to it.
pub(crate) fn mon_backend(path: &Path, values: &Values) -> Result<RedbBackend, HostError> {
    let lock = FileLock::take(path).map_err(|error| match error {
        LockError::InUse => HostError::FileInUse(path.into()),
        LockError::Io(error) => HostError::io(path)(error),
    })?;
    let device = Device::open(path, true, DeviceRole::MonState, device_options(values, 0))
        .map_err(HostError::io(path))?;
    Ok(RedbBackend::new(device).locked_by(lock))
}

/// A store shard's handle, on its way to its core.
pub(crate) type StoreHandle = Box<dyn ObjectStore + Send>;

/// An open store shard.
pub(crate) struct OpenStore {
    pub(crate) handle: StoreHandle,
    /// Where there is one, the core watches it: it becomes readable when the device has done something.
    pub(crate) event: Option<OwnedFd>,
}

/// Opens an OSD's store, or makes it: a handle for each of its shards. `cores` are the commands of all cores.
pub(crate) fn osd_store(
    plan: &OsdPlan,
    values: &Values,
    cores: &[UnboundedSender<CoreCommand>],
) -> Result<Vec<OpenStore>, HostError> {
    if plan.dir.join(UNFINISHED_CONVERSION).exists() {
        let reason = "its conversion to the store 'block' did not get to its end: stop the cluster and run `loligo store \
                      convert` again"
            .to_owned();
        return Err(HostError::Store { osd: plan.id.0, reason });
    }
    if log_model(values).is_some() && plan.place.log.is_none() {
        let reason =
            "bdev_log_model needs a log on a device of its own: --log-device names it when a cluster is made";
        return Err(HostError::Store { osd: plan.id.0, reason: reason.to_owned() });
    }
    let mut stores = match plan.store {
        StoreKind::Mem => mem_stores(plan, values)?,
        StoreKind::Simple => {
            let handle = Box::new(simple_store(plan, values).map_err(|e| unusable(plan, &e))?);
            vec![OpenStore { handle, event: None }]
        }
        StoreKind::Block => {
            let store = block_store(plan, values).map_err(|e| unusable(plan, &e))?;
            let of_shard = |mut handle: BlockFileShard| {
                let event = handle.take_event();
                OpenStore { handle: Box::new(handle), event }
            };
            let handles = blockfile::handles(store).map_err(|e| unusable(plan, &e))?;
            handles.into_iter().map(of_shard).collect()
        }
    };
    let of_plan = plan.placement.shards();
    if stores.len() != of_plan.len() {
        let reason =
            format!("it has {} shards now, and had {} when it was looked at", stores.len(), of_plan.len());
        return Err(HostError::Store { osd: plan.id.0, reason });
    }
    for (store, core) in stores.iter_mut().zip(of_plan) {
        let (id, commands) = (plan.id, cores[usize::from(core.0)].clone());
        // Called on any thread; the receiver is gone only when the process ends.
        store.handle.set_waker(Arc::new(move || drop(commands.send(CoreCommand::StoreReady(id)))));
    }
    Ok(stores)
}

fn unusable(plan: &OsdPlan, error: &(dyn std::error::Error + 'static)) -> HostError {
    let mut causes = std::iter::successors(Some(error), |e| e.source());
    let too_large = causes.any(|e| {
        e.downcast_ref().is_some_and(|e: &std::io::Error| e.kind() == std::io::ErrorKind::FileTooLarge)
    });
    let what_to_do = if too_large { "; name a smaller --osd-size" } else { "" };
    HostError::Store { osd: plan.id.0, reason: format!("{error}{what_to_do}") }
}

fn mem_stores(plan: &OsdPlan, values: &Values) -> Result<Vec<OpenStore>, HostError> {
    if model(values).is_some() {
        let reason = "bdev_model needs a store with a device: this one is in memory".to_owned();
        return Err(HostError::Store { osd: plan.id.0, reason });
    }
    let handles = MemStore::handles(plan.size_bytes, plan.placement.shards().len() as u32);
    Ok(handles.into_iter().map(|handle| OpenStore { handle: Box::new(handle), event: None }).collect())
}

/// How an OSD's files are opened.
fn osd_device_options(plan: &OsdPlan, values: &Values) -> DeviceOptions {
    let fail_file = values.get(opt::BDEV_DEBUG_FAIL_FILE);
    let power = (!fail_file.is_empty()).then(|| Arc::new(Power::fails_while(plan.dir.join(fail_file))));
    DeviceOptions { power, ..device_options(values, 1 + plan.id.0 as u64) }
}

/// Made only at the cluster's first start: an OSD that lost its store later must not come back empty.
fn simple_store(plan: &OsdPlan, values: &Values) -> Result<SimpleStore, simplestore::OpenError> {
    let on = |(name, parameters)| simplestore::ModelledOn { name, parameters };
    let options = simplestore::Options {
        device: osd_device_options(plan, values),
        model: model(values).map(on),
        metadata_cache_bytes: METADATA_CACHE_BYTES,
        file_system_stores: plan.file_system_stores,
    };
    if plan.is_new {
        let label = simplestore::Label {
            cluster: plan.fsid,
            osd: plan.id,
            osd_uuid: plan.uuid,
            size_bytes: plan.size_bytes,
        };
        simplestore::mkfs(&plan.dir, &label, &options)?;
    }
    simplestore::open(&plan.dir, &options)
}

/// The block store that is made in an OSD's directory.
pub(crate) fn new_store(dir: &Path, place: StorePlace, size_bytes: u64, shards: u32) -> NewStore {
    let StorePlace { device, overwrite, log, preallocate } = place;
    let cluster_dir = dir.parent().map(Path::to_owned);
    NewStore { size_bytes, device, overwrite, log, preallocate, shards, cluster_dir }
}

/// Made only at the cluster's first start, as the simple store is.
fn block_store(plan: &OsdPlan, values: &Values) -> Result<BlockFileStore, blockfile::OpenError> {
    let on = |(name, parameters)| blockfile::ModelledOn { name, parameters };
    let Tuning { discard, new_deferred_bytes } = osd::store_tuning(values);
    let options = blockfile::Options {
        device: osd_device_options(plan, values),
        model: model(values).map(on),
        log_model: log_model(values).map(on),
        file_system_stores: plan.file_system_stores,
        file_space: if plan.place.preallocate { FileSpace::Whole } else { FileSpace::Follows },
        store: StoreOptions { discard, new_deferred_bytes, ..StoreOptions::default() },
        memory_bytes: Some(MemoryShares::of(values).store_bytes),
        ..blockfile::Options::default()
    };
    let owner = blockfile::Owner { cluster: plan.fsid, osd: plan.id, osd_uuid: plan.uuid };
    if plan.is_new {
        let shards = plan.placement.shards().len() as u32;
        let new = new_store(&plan.dir, plan.place.clone(), plan.size_bytes, shards);
        blockfile::mkfs(&plan.dir, &owner, &new, &options)?;
    }
    blockfile::open(&plan.dir, &owner, &options)
}

/// What `ceph versions` shows of us: the release that we speak as, and who we are.
fn version() -> String {
    let Profile { version, release, .. } = Profile::PACIFIC;
    format!("ceph version {version} (loligo {}) {} (stable)", env!("CARGO_PKG_VERSION"), release.name())
}

fn osd_addrs(plan: &OsdPlan) -> OsdAddrs {
    let mut addrs = OsdAddrs::same(EntityAddr::v2(plan.addr, plan.nonce));
    for (role, addr, _) in &plan.peers {
        let addr = EntityAddr::v2(*addr, plan.nonce).into();
        match role {
            Role::Public => addrs.client = addr,
            Role::Cluster => addrs.cluster = addr,
            Role::HeartbeatBack => addrs.hb_back = addr,
            Role::HeartbeatFront => addrs.hb_front = addr,
        }
    }
    addrs
}

/// The configuration of an OSD at its start.
pub(crate) fn osd_config(plan: &OsdPlan, values: &Values) -> OsdConfig {
    OsdConfig {
        whoami: plan.id,
        cluster_fsid: plan.fsid,
        osd_fsid: plan.uuid,
        addrs: osd_addrs(plan),
        metadata: metadata(plan),
        profile: Profile::PACIFIC,
        monitors: MonClientConfig {
            hostname: hostname(),
            hunt: HuntConfig::default(),
            ping_interval: std::time::Duration::from_secs(10),
            ..MonClientConfig::new(vec![EntityAddr::v2(plan.mon_addr, 0).into()], Some(plan.fsid))
        },
        options: values.clone(),
    }
}

/// What `ceph osd metadata` shows (ceph-osd's names).
fn metadata(plan: &OsdPlan) -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let store = plan.store.as_str();
    let pairs = [
        ("arch", text(uname.machine())),
        ("ceph_release", Profile::PACIFIC.release.name().into()),
        ("ceph_version", version()),
        ("ceph_version_short", Profile::PACIFIC.version.into()),
        ("hostname", hostname()),
        ("osd_data", plan.dir.display().to_string()),
        ("osd_objectstore", store.into()),
        ("back_iface", String::new()),
        ("front_iface", String::new()),
        ("default_device_class", "ssd".into()),
        ("rotational", "0".into()),
        ("network_numa_unknown_ifaces", String::new()),
        ("osdspec_affinity", String::new()),
        // Ours: what the store was made for, of which the file system below may have less.
        (mon::STORE_BYTES, plan.size_bytes.to_string()),
    ];
    let pairs = pairs.into_iter().chain(crate::machine::log_facts(plan));
    pairs.map(|(k, v)| (k.to_owned(), v)).chain(crate::machine::facts()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use redb::StorageBackend;

    use super::*;

    /// A copy of a cluster's directory has its links, and its own lock.
    #[test]
    fn the_monitors_state_is_one_process_s_at_a_time_by_whatever_name() {
        let tmp = tempfile::tempdir().unwrap();
        let [state, hard, link] = ["state.redb", "hard", "link"].map(|name| tmp.path().join(name));
        let open = |path: &Path| mon_backend(path, &Values::new());
        let held = open(&state).unwrap();
        held.write(0, b"a state").unwrap();
        fs::hard_link(&state, &hard).unwrap();
        symlink(&state, &link).unwrap();
        for path in [&state, &hard, &link] {
            let error = open(path).map(drop).unwrap_err();
            assert!(matches!(&error, HostError::FileInUse(of) if of == path), "{error}");
        }
        drop(held);
        assert_eq!(open(&link).unwrap().len().unwrap(), 7);
    }
}
