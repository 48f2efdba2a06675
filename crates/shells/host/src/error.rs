//! What can stop a cluster from starting, each as one sentence for the person who asked for it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use text::format_bytes;

/// Why a cluster did not start, or a directory could not be used. Nothing was changed when one of these is given.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Another process has a file of the directory, which a link or another name of it leads to.
    #[error(
        "{0} is in use by another process: a cluster runs whose directory has the same file by a link or another name"
    )]
    FileInUse(PathBuf),
    /// Another process serves the directory.
    #[error("{dir} is in use by another loligo (process {pid}); `loligo stop {dir}` ends it")]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process that holds it, or `?`.
        pid: String,
    },
    /// A later program wrote the directory.
    #[error("{dir} was written by a newer loligo (format {found}, this one knows {known}); use that release")]
    NewerFormat {
        /// The directory.
        dir: PathBuf,
        /// The format found.
        found: u64,
        /// The newest format known here.
        known: u64,
    },
    /// A build from before the first lasting format wrote the directory.
    #[error(
        "{dir} has format {found} of an earlier build, and this one reads format {known}: copy the data out with the \
         build that wrote it, then make a new cluster"
    )]
    OlderFormat {
        dir: PathBuf,
        /// The format found.
        found: u64,
        /// The oldest format known here.
        known: u64,
    },
    #[error("{0} is not a directory; name that of a cluster, or a new or empty one to make a cluster in")]
    NotADirectory(PathBuf),
    #[error("{dir} can't be made: {error}; name another directory with --dir")]
    MakeDir { dir: PathBuf, error: io::Error },
    /// A directory with other things in it.
    #[error(
        "{0} is not empty and holds no cluster of loligo's; name the directory of a cluster, or a new or empty one to \
         make a cluster in"
    )]
    NotACluster(PathBuf),
    /// A file or directory of a cluster.
    #[error(
        "{part} is a part of the cluster in {cluster}: name that directory, and an OSD by its number (--osd) where the \
         command takes one"
    )]
    PartOfCluster { part: PathBuf, cluster: PathBuf },
    /// The description of the cluster can't be read.
    #[error("{path} can't be read: {reason}; restore it, or name another directory with --dir")]
    BadDescription {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The command asks for something else than what the directory holds.
    #[error("{dir} holds a cluster with {has}, not {asked}; leave --{flag} out, or name another directory")]
    Differs {
        /// The directory.
        dir: PathBuf,
        /// What differs, as the directory has it.
        has: String,
        /// As it was asked for.
        asked: String,
        flag: &'static str,
    },
    /// A port is taken.
    #[error(
        "{addr} is in use by another program; name another with {flag}, or take free ports with --port 0"
    )]
    PortInUse {
        /// The address.
        addr: SocketAddr,
        /// The flag or option that names it.
        flag: &'static str,
    },
    /// The flags name two ports for the monitor.
    #[error(
        "--mon-addr {addr} and --port {port} name two ports for the monitor; leave one of them out (the OSDs' ports \
         alone: --set ms_bind_port_min=PORT)"
    )]
    TwoPorts { addr: SocketAddr, port: u16 },
    /// A port cannot be bound for another reason.
    #[error("{addr} can't be bound: {error}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The system's answer.
        error: io::Error,
    },
    /// No free port in the OSDs' range.
    #[error("no free port for an OSD from {min} to {max} (ms_bind_port_min, ms_bind_port_max)")]
    NoOsdPort {
        /// First tried.
        min: u16,
        /// Last tried.
        max: u16,
    },
    /// Not loopback, and no authentication.
    #[error(
        "{0} is not a loopback address, and without authentication anyone who reaches it owns the data; add --insecure-bind to do it all the same"
    )]
    InsecureBind(IpAddr),
    /// The disk has no room.
    #[error(
        "no space in {dir}: {} are free, a cluster needs {} to start; make room on its file system (delete other files there, or make \
         it larger), then start it again",
        format_bytes(*.available),
        format_bytes(*.needed)
    )]
    NoSpace {
        /// The directory.
        dir: PathBuf,
        /// Bytes free.
        available: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The disk has no room for another store.
    #[error(
        "no space in {dir}: {} are free, and a new store takes {} at once",
        format_bytes(*.available),
        format_bytes(*.needed)
    )]
    NoSpaceForStore {
        /// Where the store, or its log, is to lie.
        dir: PathBuf,
        /// Bytes free.
        available: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// What is to be written is on a file system without space.
    #[error(
        "{0} can't be written, for its file system is full: make room there (delete other files, or make it larger), then try again"
    )]
    DiskFull(PathBuf),
    /// What is to be written is on a file system that is mounted read-only.
    #[error(
        "{0} can't be written, for its file system is mounted read-only: mount it read-write (`mount -o remount,rw`), or use a copy; \
         `loligo store fsck`, `list`, `dump` and `export` read what is there"
    )]
    ReadOnly(PathBuf),
    /// The disk or the file system failed.
    #[error("{path}: {error}")]
    Io {
        /// What was touched.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The monitor's state is damaged or unreadable.
    #[error(
        "the monitor's state in {path} can't be used: {reason}; restore the file from a copy, or make it again from the \
         OSDs with `loligo mon rebuild DIR`"
    )]
    MonState {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The monitor's state is of an earlier time than an OSD's store.
    #[error(
        "osd.{osd} has OSD map {has}, and the monitor's newest is {newest}: the state in {} is older than the OSDs' stores, as one \
         from a backup. With the cluster stopped, put the newer one back, or make it again from the OSDs' maps with \
         `loligo mon rebuild --force {}` (`loligo mon rebuild --help` says what that loses)",
        .dir.join("mon").display(), .dir.display()
    )]
    MonBehind { dir: PathBuf, osd: i32, has: u32, newest: u32 },
    /// There is no reason to make the monitor's state again.
    #[error(
        "the monitor's state in {0} can be used, so nothing was rebuilt; --force makes it again all the same"
    )]
    MonStateUsable(PathBuf),
    /// No OSD has a map.
    #[error("no OSD of {dir} has a map to rebuild the monitor from: {reasons}")]
    NothingToRebuildFrom { dir: PathBuf, reasons: String },
    /// An OSD's store is damaged or unreadable.
    #[error("osd.{osd}'s store can't be used: {reason}")]
    Store {
        osd: i32,
        /// What is wrong.
        reason: String,
    },
    /// Some OSDs did not come up in time.
    #[error(
        "osd.{} did not come up within {seconds} s; {} says why",
        .missing.iter().map(i32::to_string).collect::<Vec<_>>().join(", osd."),
        .dir.join("log").display()
    )]
    NotReady { dir: PathBuf, missing: Vec<i32>, seconds: u64 },
    /// The system would stop the process in the middle.
    #[error(
        "a process may open {limit} files here, and {osds} OSDs need {needed} before a client comes: raise the hard limit of open files \
         (`ulimit -Hn`, in a unit of systemd LimitNOFILE=)"
    )]
    FewFiles { limit: u64, needed: u64, osds: u32 },
    /// The stores that were asked for are too small for an OSD's own records.
    #[error("OSDs of {} are too small: --osd-size takes at least {}", format_bytes(*.bytes), format_bytes(*.min))]
    OsdTooSmall { bytes: u64, min: u64 },
    #[error(
        "{device} has {}, which is too small: an OSD needs at least {}; name a larger device with --device",
        format_bytes(*.bytes),
        format_bytes(*.min)
    )]
    DeviceTooSmall { device: PathBuf, bytes: u64, min: u64 },
    /// A daemon failed.
    #[error("{0}")]
    Failed(String),
    /// An option was refused.
    #[error("{0}")]
    Option(#[from] options::SetError),
    /// An option's value can't be served.
    #[error("{0}")]
    Unsupported(String),
}

impl HostError {
    /// For `map_err`: an I/O error at `path`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path),
            _ => Self::Io { path, error },
        }
    }

    /// The reason that a new store can't be made or opened.
    pub(crate) fn of_new_store(self) -> String {
        match self {
            Self::Store { reason, .. } => reason,
            other => other.to_string(),
        }
    }

    /// The reason that one OSD's start has to fail, where its number is said beside it.
    pub(crate) fn of_osd(&self) -> String {
        match self {
            Self::Store { reason, .. } => format!("its store can't be used: {reason}"),
            other => other.to_string(),
        }
    }
}
