//! The cluster's directory: its description, its lock, and the files that clients need.
//!
//! `cluster.json` is written before anything else when a cluster is made, with no start counted, and again when all of
//! it is there: a directory holds a whole cluster, or says that it does not.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use blockfile::NewStore;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use types::{Fsid, OsdId};

use crate::{HostError, ending, last_words};

/// The layout of a directory that this program reads and writes. From 2 on every layout opens for ever: a newer one
/// comes with the code that reads the older, and a directory of each is kept in tests/formats.
///
/// 3: OSDs and the monitor keep the whole OSD map of some epochs only (docs/design/0011). A directory of format 2, where
/// they keep each, opens and is of format 3 from then on: a build that knows only 2 would take the others for lost.
///
/// 4: the monitor keeps where the objects of PGs are that the map has taken from them (docs/formats/monitor.md). A directory of
/// format 3 opens and is of format 4 from then on: what a build that knows only 3 left there would be out of date.
const FORMAT: u64 = 4;

/// The oldest layout that this program reads.
const OLDEST_FORMAT: u64 = 2;

/// Bytes that must be free before a cluster is made: what stores leave to other files there,
const SPACE_MIN: u64 = 64 << 20;
/// and some for the records of each OSD and its first objects.
const SPACE_MIN_OF_OSD: u64 = 32 << 20;
/// Bytes that must be free before a cluster starts that was made already: it writes a few maps, and what is stored has
/// to be deletable on a full disk.
const SPACE_MIN_LATER: u64 = 4 << 20;

/// How long a lock is waited for that no process seems to have,
const LOOKS: Duration = Duration::from_millis(200);
/// and one whose process was killed: it waits for its disks.
const ENDS: Duration = Duration::from_secs(20);
/// How often it is tried.
const POLL: Duration = Duration::from_millis(5);

/// Where OSDs keep their data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// On disk: redb and an image file.
    Simple,
    /// On disk: an image file or a block device, with metadata and log in it.
    Block,
    /// In memory: nothing is kept.
    Mem,
}

impl StoreKind {
    /// The name that the command line has.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Block => "block",
            Self::Mem => "mem",
        }
    }

    /// The store of a name that the command line has.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Simple, Self::Block, Self::Mem].into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether what is stored is there at the next start.
    pub fn is_durable(self) -> bool {
        match self {
            Self::Simple | Self::Block => true,
            Self::Mem => false,
        }
    }
}

/// What `cluster.json` holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The layout's number.
    pub format: u64,
    /// The cluster's id.
    pub fsid: String,
    /// The OSDs' store.
    pub store: StoreKind,
    /// The stores by OSD, where some were converted and others were not; none where all have the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub osd_stores: Vec<StoreKind>,
    /// How many OSDs there are.
    pub osds: u32,
    /// Bytes of an OSD's store; with devices, of the smallest.
    pub osd_size: u64,
    /// The block devices that the stores lie on, by OSD; none for image files. An empty path is an image file among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PathBuf>,
    /// The block devices or files that the stores' logs lie on, by OSD; none for logs beside the data. An empty path is one of
    /// these among the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_devices: Vec<PathBuf>,
    /// Whether image files were written whole when they were made, and stay so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preallocated: bool,
    /// The monitor's address at the last start.
    pub mon_addr: SocketAddr,
    /// The manager's address at the last start; none before there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mgr_addr: Option<SocketAddr>,
    /// The OSDs' addresses at the last start.
    pub osd_addrs: Vec<SocketAddr>,
    /// The OSDs' own ids.
    pub osd_uuids: Vec<String>,
    /// Times the cluster was started.
    pub starts: u64,
}

impl Description {
    /// A new cluster's description.
    pub fn new(fsid: Fsid, store: StoreKind, osds: u32, osd_size: u64, mon_addr: SocketAddr) -> Self {
        let fsid = fsid.to_string();
        Self {
            format: FORMAT,
            fsid,
            store,
            osd_stores: Vec::new(),
            osds,
            osd_size,
            devices: Vec::new(),
            log_devices: Vec::new(),
            preallocated: false,
            mon_addr,
            mgr_addr: None,
            osd_addrs: Vec::new(),
            osd_uuids: Vec::new(),
            starts: 0,
        }
    }

    /// The store of an OSD.
    pub fn store_of(&self, osd: u32) -> StoreKind {
        self.osd_stores.get(osd as usize).copied().unwrap_or(self.store)
    }

    /// Notes that an OSD's store is another one now.
    pub fn set_store_of(&mut self, osd: u32, store: StoreKind) {
        let mut stores: Vec<StoreKind> = (0..self.osds).map(|osd| self.store_of(osd)).collect();
        if let Some(of) = stores.get_mut(osd as usize) {
            *of = store;
        }
        if stores.iter().all(|of| *of == store) {
            (self.store, stores) = (store, Vec::new());
        }
        self.osd_stores = stores;
    }
}

/// A directory that this process holds, with the lock on it.
#[derive(Debug)]
pub struct ClusterDir {
    path: PathBuf,
    // Held for as long as the process serves the directory. Names it, and nothing after a clean end.
    lock: File,
    made_here: bool,
    killed_before: Option<u32>,
}

/// What is at a path before anything is changed.
pub enum DirState {
    /// Nothing, or an empty directory.
    Empty,
    /// What a first start left that did not get to its end: nothing was ever served from it.
    Unfinished,
    Cluster(Box<Description>),
}

/// Looks at a path without changing anything.
pub fn inspect(path: &Path) -> Result<DirState, HostError> {
    let file = path.join("cluster.json");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return inspect_empty(path),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(part_of_cluster(path).unwrap_or_else(|| HostError::NotADirectory(path.into())));
        }
        Err(error) => return Err(HostError::Io { path: file, error }),
    };
    let bad = |reason: String| HostError::BadDescription { path: file.clone(), reason };
    // The format first: a newer file may have another shape.
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let found = value["format"].as_u64().ok_or_else(|| bad("it names no format".into()))?;
    if found > FORMAT {
        return Err(HostError::NewerFormat { dir: path.into(), found, known: FORMAT });
    }
    if found < OLDEST_FORMAT {
        return Err(HostError::OlderFormat { dir: path.into(), found, known: OLDEST_FORMAT });
    }
    let mut description: Description = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
    // What the next start writes.
    description.format = FORMAT;
    description.fsid.parse::<Fsid>().map_err(|e| bad(e.to_string()))?;
    Ok(if description.starts == 0 { DirState::Unfinished } else { DirState::Cluster(Box::new(description)) })
}

fn inspect_empty(path: &Path) -> Result<DirState, HostError> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => match missing_before_parent(path) {
            Some(missing) => Err(HostError::Io { path: missing.into(), error }),
            None => Ok(DirState::Empty),
        },
        Err(error) => Err(HostError::Io { path: path.into(), error }),
        // What a start that failed half-way may leave is ours to remake; anything else is not.
        Ok(entries) => {
            let strange = entries
                .flatten()
                .any(|e| !matches!(e.file_name().to_str(), Some("lock" | "log" | last_words::NAME)));
            match strange {
                true => Err(part_of_cluster(path).unwrap_or_else(|| HostError::NotACluster(path.into()))),
                false => Ok(DirState::Empty),
            }
        }
    }
}

/// What to say of a path that lies in a cluster's directory, if it does.
fn part_of_cluster(path: &Path) -> Option<HostError> {
    let whole = fs::canonicalize(path).ok()?;
    let cluster = whole.ancestors().skip(1).find(|dir| dir.join("cluster.json").is_file())?;
    Some(HostError::PartOfCluster { part: path.into(), cluster: cluster.into() })
}

/// The part up to a `..` below a directory that does not exist. Once that is made, the path is another directory, which
/// may hold other files.
fn missing_before_parent(path: &Path) -> Option<&Path> {
    path.ancestors().find(|part| part.ends_with("..") && !part.exists())
}

/// Takes the lock of a directory. Two others may have it who serve no one: a program that looks which process holds it (for a
/// moment), and a process that was killed (until its memory and its disks' requests are done with). It waits for both.
fn take_lock(path: &Path, lock: &File) -> Result<(), HostError> {
    let (mut until, mut ended) = (Instant::now() + LOOKS, None);
    while flock(lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        let pid = holder(path);
        if ended.is_none() && pid.is_some_and(ending::is_ending) {
            (until, ended) = (Instant::now() + ENDS, pid);
        }
        if pid.is_some_and(|pid| !ending::is_ending(pid)) || Instant::now() > until {
            let pid = pid.map_or("?".into(), |pid| pid.to_string());
            return Err(HostError::InUse { pid, dir: path.into() });
        }
        std::thread::sleep(POLL);
    }
    // It may have its ports for a moment more.
    while ended.is_some_and(|pid| !ending::is_gone(pid)) && Instant::now() < until {
        std::thread::sleep(POLL);
    }
    Ok(())
}

impl ClusterDir {
    /// Makes the directory if need be and takes its lock.
    pub fn lock(path: &Path) -> Result<Self, HostError> {
        let made_here = !path.exists();
        fs::create_dir_all(path).map_err(|error| HostError::MakeDir { dir: path.into(), error })?;
        let path = path.canonicalize().map_err(HostError::io(path))?;
        let name = path.join("lock");
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).read(true).write(true);
        let mut lock = options.open(&name).map_err(HostError::io(&name))?;
        take_lock(&path, &lock)?;
        let mut before = String::new();
        // An unreadable number is no reason not to start.
        let _ = lock.read_to_string(&mut before);
        write_lock(&lock, &std::process::id().to_string()).map_err(HostError::io(&name))?;
        Ok(Self { path, lock, made_here, killed_before: before.trim().parse().ok() })
    }

    /// The process that served the directory before and did not end cleanly.
    pub fn killed_before(&self) -> Option<u32> {
        self.killed_before
    }

    /// Notes that the process ends cleanly.
    pub fn ended(&self) {
        // Only a line of the next start's log depends on it.
        let _ = write_lock(&self.lock, "");
    }

    /// Where it is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes back a directory in which a cluster could not be made: what lies in it, and itself if it was made for it.
    /// `keep_log` leaves the log, for what it says of the failure; the next start takes the directory for empty.
    pub fn undo(self, keep_log: bool) {
        self.clear();
        for name in ["cluster.json", "cluster.json.new", "lock", last_words::NAME] {
            let _ = fs::remove_file(self.path.join(name));
        }
        if keep_log {
            return;
        }
        let _ = fs::remove_file(self.path.join("log"));
        if self.made_here {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Removes the daemons' states and the clients' files, for a cluster that was never whole. Its block devices are left
    /// without a store: another start may have them.
    pub fn clear(&self) {
        let description = fs::read(self.path.join("cluster.json")).unwrap_or_default();
        let description: serde_json::Value = serde_json::from_slice(&description).unwrap_or_default();
        let cluster = description["fsid"].as_str().and_then(|fsid| fsid.parse::<Fsid>().ok());
        for name in ["mon", "ceph.conf", "keyring", "loligo.sock"] {
            let at = self.path.join(name);
            let _ = if at.is_dir() { fs::remove_dir_all(&at) } else { fs::remove_file(&at) };
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(osd) = name.to_str().and_then(|name| name.strip_prefix("osd.")) else { continue };
            if let Some((cluster, osd)) = cluster.zip(osd.parse().ok().map(OsdId)) {
                if let Err(error) = blockfile::unmake(&entry.path(), cluster, osd) {
                    tracing::warn!("the store that was made is still there: {error}");
                }
            }
            let _ = fs::remove_dir_all(entry.path());
        }
    }

    /// Refuses a disk that has no room for a cluster, before its first start if `starts` is 0.
    pub fn check_space(&self, description: &Description) -> Result<(), HostError> {
        let (_, available) = disk_space(&self.path)?;
        let needed = match description {
            Description { starts: 1.., .. } => SPACE_MIN_LATER,
            Description { store: StoreKind::Mem, .. } => SPACE_MIN,
            Description { devices, .. } if !devices.is_empty() => SPACE_MIN,
            // Logs in files take their space when the stores are made, wherever that is.
            Description { log_devices, osds, .. } if !log_devices.is_empty() => {
                SPACE_MIN + u64::from(*osds) * SPACE_MIN_OF_OSD
            }
            Description { store: StoreKind::Simple, osds, .. } => {
                SPACE_MIN + u64::from(*osds) * SPACE_MIN_OF_OSD
            }
            Description { store: StoreKind::Block, osds, osd_size, .. } => {
                // At most as many shards as CPUs; what is named beyond is a log of 8 MiB each.
                let shards = std::thread::available_parallelism().map_or(1, |n| n.get()) as u32;
                SPACE_MIN
                    + u64::from(*osds) * (SPACE_MIN_OF_OSD + blockfile::logs_bytes(*osd_size, shards, false))
            }
        };
        if available < needed {
            return Err(HostError::NoSpace { dir: self.path.clone(), available, needed });
        }
        Ok(())
    }

    /// Where the stores may grow to more than the file system has: what they may take, and the bytes free, if so.
    pub fn promised_too_much(&self, description: &Description) -> Option<(u64, u64)> {
        let on_it = (0..description.osds).filter(|osd| description.device_of(*osd).is_none()).count() as u64;
        let promised = description.osd_size.saturating_mul(on_it);
        let (_, available) = disk_space(&self.path).ok()?;
        (description.store.is_durable() && promised > available).then_some((promised, available))
    }

    /// Writes the description, durably, in place of the one before.
    pub fn write_description(&self, description: &Description) -> Result<(), HostError> {
        let text = serde_json::to_string_pretty(description)
            .map_err(|e| HostError::BadDescription { path: self.path.clone(), reason: e.to_string() })?;
        self.replace("cluster.json", &text)
    }

    /// Writes a file, durably, in place of the one before.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<(), HostError> {
        let (new, at) = (self.path.join(format!("{name}.new")), self.path.join(name));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &at)?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(HostError::io(&at))
    }
}

/// Bytes of the file `lock`.
const LOCK_BYTES: usize = 16;

/// Writes whom a lock names, in place: a file system that is full takes that.
fn write_lock(lock: &File, text: &str) -> io::Result<()> {
    lock.write_all_at(format!("{text:<LOCK_BYTES$}").as_bytes(), 0)?;
    lock.set_len(LOCK_BYTES as u64)
}

/// Bytes of the file system that holds `path`, and those free.
pub fn disk_space(path: &Path) -> Result<(u64, u64), HostError> {
    let stat = rustix::fs::statvfs(path).map_err(|e| HostError::Io { path: path.into(), error: e.into() })?;
    Ok((stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize))
}

/// A directory within an OSD's while its store is there twice and the new one counts: files are yet to be moved.
pub const UNFINISHED_CONVERSION: &str = "converted";

/// Refuses file systems that have no room for what the making of an OSD's store in `dir` writes: a block store, or another.
pub(crate) fn check_space_of_store(dir: &Path, new: Option<&NewStore>) -> Result<(), HostError> {
    // An image file and a log may be on one file system.
    let mut systems: BTreeMap<u64, (PathBuf, u64)> = BTreeMap::new();
    for (at, bytes) in written_at_once(dir, new) {
        let system = fs::metadata(&at).map_err(HostError::io(&at))?.dev();
        systems.entry(system).or_insert((at, 0)).1 += bytes;
    }
    for (dir, needed) in systems.into_values() {
        let (_, available) = disk_space(&dir)?;
        if available < needed {
            return Err(HostError::NoSpaceForStore { dir, available, needed });
        }
    }
    Ok(())
}

/// The directories that the making of a store in `dir` writes to, and how many bytes.
fn written_at_once(dir: &Path, new: Option<&NewStore>) -> Vec<(PathBuf, u64)> {
    let here = |bytes| (dir.to_owned(), bytes);
    let Some(new) = new else { return vec![here(SPACE_MIN_LATER)] };
    let logs = blockfile::logs_bytes(new.size_bytes, new.shards, new.preallocate || new.device.is_some());
    let data = match (&new.device, &new.log) {
        (None, _) if new.preallocate => Some(here(SPACE_MIN_LATER + new.size_bytes)),
        (None, None) => Some(here(SPACE_MIN_LATER + logs)),
        (None, Some(_)) => Some(here(SPACE_MIN_LATER)),
        (Some(_), _) => None,
    };
    let of_log = new.log.as_ref().and_then(|log| {
        let has = match fs::metadata(&log.path) {
            Ok(found) if !found.is_file() => return None,
            found => found.map_or(0, |found| found.blocks() * 512),
        };
        let beside = log.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((beside.to_owned(), logs.saturating_sub(has)))
    });
    data.into_iter().chain(of_log).collect()
}

/// The process that serves a directory, if one does.
pub fn holder(path: &Path) -> Option<u32> {
    let mut lock = File::open(path.join("lock")).ok()?;
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => None,
        Err(_) => {
            let mut text = String::new();
            lock.read_to_string(&mut text).ok()?;
            text.trim().parse().ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        let addr = "127.0.0.1:3300".parse().unwrap();
        let new = Description::new(Fsid::from_random([1; 16]), StoreKind::Mem, 3, 1 << 30, addr);
        Description { starts: 1, ..new }
    }

    #[test]
    fn a_cluster_is_found_again_and_a_second_process_is_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("c");
        assert!(matches!(inspect(&path), Ok(DirState::Empty)));
        let dir = ClusterDir::lock(&path).unwrap();
        dir.write_description(&description()).unwrap();
        assert!(matches!(inspect(&path), Ok(DirState::Cluster(d)) if *d == description()));
        dir.write_description(&Description { starts: 0, ..description() }).unwrap();
        assert!(matches!(inspect(&path), Ok(DirState::Unfinished)));
        assert!(matches!(ClusterDir::lock(&path), Err(HostError::InUse { .. })));
        assert_eq!(holder(&path), Some(std::process::id()));
        assert_eq!(dir.killed_before(), None);
        drop(dir);
        assert_eq!(holder(&path), None);
        let dir = ClusterDir::lock(&path).unwrap();
        assert_eq!(dir.killed_before(), Some(std::process::id()), "no clean end");
        dir.ended();
        drop(dir);
        assert_eq!(ClusterDir::lock(&path).unwrap().killed_before(), None);
        // As earlier versions left it, and whatever is longer.
        for before in ["", "12345678", "1234567890123456789012345678901234567890"] {
            fs::write(path.join("lock"), before).unwrap();
            let dir = ClusterDir::lock(&path).unwrap();
            assert_eq!((dir.killed_before(), holder(&path)), (before.parse().ok(), Some(std::process::id())));
        }
    }

    /// A shell that locks the directory, and is killed while what it has started has the lock yet.
    fn killed_with_the_lock(path: &Path, after: &str) -> std::process::Child {
        let script = format!(
            "exec 9>>\"$0/lock\"; flock -n 9 || exit 1; echo $$ >\"$0/lock\"; sleep {after} & kill -9 $$"
        );
        let child = std::process::Command::new("sh").arg("-c").arg(script).arg(path).spawn().unwrap();
        let began = Instant::now();
        while !ending::is_gone(child.id()) {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
        child
    }

    #[test]
    fn a_process_that_was_killed_and_one_that_looks_are_waited_for() {
        let tmp = tempfile::tempdir().unwrap();
        let mut killed = killed_with_the_lock(tmp.path(), "0.5");
        let dir = ClusterDir::lock(tmp.path()).unwrap();
        assert_eq!(dir.killed_before(), Some(killed.id()));
        killed.wait().unwrap();
        drop(dir);
        let looks = File::open(tmp.path().join("lock")).unwrap();
        flock(&looks, FlockOperation::NonBlockingLockShared).unwrap();
        let waits = std::thread::spawn({
            let path = tmp.path().to_owned();
            move || ClusterDir::lock(&path).is_ok()
        });
        std::thread::sleep(Duration::from_millis(20));
        drop(looks);
        assert!(waits.join().unwrap(), "no process holds it");
    }

    #[test]
    fn stores_of_osds_are_told_apart_only_while_they_differ() {
        let mut some = Description { store: StoreKind::Simple, ..description() };
        some.set_store_of(1, StoreKind::Block);
        let stores = |of: &Description| (0..3).map(|osd| of.store_of(osd)).collect::<Vec<_>>();
        assert_eq!(stores(&some), [StoreKind::Simple, StoreKind::Block, StoreKind::Simple]);
        some.set_store_of(0, StoreKind::Block);
        some.set_store_of(2, StoreKind::Block);
        assert_eq!(some, Description { store: StoreKind::Block, ..description() });
    }

    #[test]
    fn other_formats_and_a_strange_directory_are_refused_unchanged() {
        let tmp = tempfile::tempdir().unwrap();
        fs::write(tmp.path().join("cluster.json"), r#"{"format": 99, "shape": []}"#).unwrap();
        assert!(matches!(inspect(tmp.path()), Err(HostError::NewerFormat { found: 99, .. })));
        fs::write(tmp.path().join("cluster.json"), r#"{"format": 1, "shape": []}"#).unwrap();
        assert!(matches!(inspect(tmp.path()), Err(HostError::OlderFormat { found: 1, .. })));
        fs::remove_file(tmp.path().join("cluster.json")).unwrap();
        fs::write(tmp.path().join("thesis.txt"), "years of work").unwrap();
        assert!(matches!(inspect(tmp.path()), Err(HostError::NotACluster(_))));
    }

    #[test]
    fn what_is_named_of_a_cluster_in_place_of_it_is_told() {
        let tmp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(tmp.path()).unwrap();
        let osd = root.join("osd.0");
        fs::create_dir(&osd).unwrap();
        fs::write(osd.join("block"), "data").unwrap();
        assert!(matches!(inspect(&osd), Err(HostError::NotACluster(_))));
        fs::write(root.join("cluster.json"), "{}").unwrap();
        for named in [osd.clone(), osd.join("block"), root.join("osd.0/../osd.0")] {
            let Err(HostError::PartOfCluster { part, cluster }) = inspect(&named) else {
                panic!("{named:?} is taken for something else")
            };
            assert_eq!((part, cluster), (named, root.clone()));
        }
    }

    #[test]
    fn what_is_no_directory_or_leads_out_of_a_missing_one_is_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let file = tmp.path().join("thesis.txt");
        fs::write(&file, "years of work").unwrap();
        assert!(matches!(inspect(&file), Err(HostError::NotADirectory(_))));
        assert!(matches!(inspect(&file.join("c")), Err(HostError::NotADirectory(_))));
        // Made, the missing directory would lead to one with another's file in it.
        let Err(error) = inspect(&tmp.path().join("missing/../../").join(tmp.path().file_name().unwrap()))
        else {
            panic!("a directory that is not empty was taken for a new one");
        };
        assert!(error.to_string().contains("missing/.."), "{error}");
        assert!(matches!(inspect(&tmp.path().join("missing/c")), Ok(DirState::Empty)));
        fs::create_dir(tmp.path().join("here")).unwrap();
        assert!(matches!(inspect(&tmp.path().join("here/../c")), Ok(DirState::Empty)));
    }

    #[test]
    fn a_directory_of_the_format_before_opens_and_is_written_as_one_of_today() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = ClusterDir::lock(tmp.path()).unwrap();
        dir.write_description(&Description { format: OLDEST_FORMAT, ..description() }).unwrap();
        assert!(matches!(inspect(tmp.path()), Ok(DirState::Cluster(d)) if *d == description()));
    }

    #[test]
    fn what_a_new_store_writes_at_once_must_have_room() {
        let tmp = tempfile::tempdir().unwrap();
        let (_, free) = disk_space(tmp.path()).unwrap();
        let small = NewStore::file(1 << 30);
        check_space_of_store(tmp.path(), Some(&small)).unwrap();
        let whole = NewStore { preallocate: true, ..NewStore::file(free + (1 << 30)) };
        let refused = check_space_of_store(tmp.path(), Some(&whole));
        assert!(matches!(refused, Err(HostError::NoSpaceForStore { .. })), "{refused:?}");
        // An image file takes its bytes as they are written.
        check_space_of_store(tmp.path(), Some(&NewStore { preallocate: false, ..whole })).unwrap();
    }

    #[test]
    fn a_new_store_and_its_log_on_one_file_system_must_have_room_together() {
        let tmp = tempfile::tempdir().unwrap();
        let (_, free) = disk_space(tmp.path()).unwrap();
        let logs = blockfile::logs_bytes(free, 1, true);
        // With either alone there is room.
        let path = tmp.path().join("log");
        let beside = NewStore { preallocate: true, ..NewStore::file(free - SPACE_MIN_LATER - logs / 2) };
        check_space_of_store(tmp.path(), Some(&beside)).unwrap();
        let log = Some(blockfile::LogPlace { path, overwrite: false });
        check_space_of_store(tmp.path(), Some(&NewStore { log: log.clone(), ..NewStore::file(free) }))
            .unwrap();
        let refused = check_space_of_store(tmp.path(), Some(&NewStore { log, ..beside }));
        assert!(matches!(refused, Err(HostError::NoSpaceForStore { .. })), "{refused:?}");
    }

    #[test]
    fn undo_leaves_nothing_of_ours_and_all_of_others() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("new");
        let dir = ClusterDir::lock(&path).unwrap();
        fs::create_dir(path.join("osd.0")).unwrap();
        dir.write_description(&description()).unwrap();
        dir.undo(false);
        assert!(!path.exists());
    }
}
