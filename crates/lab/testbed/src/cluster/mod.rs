//! A cluster of a study: made and started, handed out as a [`Testbed`], taken down.

pub(crate) mod admin;
pub mod admin_client;
mod ceph;
mod check;
pub(crate) mod layout;
mod loligo;
pub(crate) mod nfs;
pub mod pools;
pub(crate) mod running;
mod servers;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use study::{Place, Setting, System, Target};

use crate::error::{Doing, Error, Result};
use crate::ledger::Resource;
use crate::run::Stop;
use crate::work_dir::{Paths, WorkDir};
use admin::Admin;
pub use check::{ceph_conf, check, check_settings, replaced};
use process::mounts;
use servers::Servers;

/// Where clusters are made, and with what.
#[derive(Clone, Debug)]
pub struct Site {
    /// Everything lies below it. One cluster at a time; it may be used again after that.
    pub work_dir: PathBuf,
    /// Loligo's program.
    pub loligo: PathBuf,
    /// Directories that hold roots of newer Ceph releases, as `DIR/18.2`.
    pub peers: Vec<PathBuf>,
    /// Raw devices that may be overwritten.
    pub allowed_devices: Vec<PathBuf>,
    /// Set by the caller when it wants to stop.
    pub stop: Stop,
}

impl Site {
    /// A work directory, this very program as Loligo, and the usual places of roots: LOLIGO_PEERS, else
    /// `/var/cache/loligo/peers`.
    #[must_use]
    pub fn new(work_dir: impl Into<PathBuf>) -> Self {
        let peers = std::env::var_os("LOLIGO_PEERS").unwrap_or_else(|| "/var/cache/loligo/peers".into());
        Self {
            work_dir: work_dir.into(),
            loligo: std::env::current_exe().unwrap_or_else(|_| "loligo".into()),
            peers: vec![peers.into()],
            allowed_devices: Vec::new(),
            stop: Stop::default(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The system under test.
    pub system: &'a System,
    /// All settings of the trial, resolved; written to ceph.conf exactly as given, in their sections.
    pub settings: &'a [Setting],
    /// Whether the workload needs a file system (CephFS).
    pub file_system: bool,
}

/// The parameters of the parts of this module.
pub(crate) struct Order<'a> {
    pub(crate) site: &'a Site,
    pub(crate) system: &'a System,
    pub(crate) settings: &'a [Setting],
    pub(crate) file_system: bool,
    /// Carried by every process of the cluster.
    pub(crate) token: &'a str,
    /// The prefix of a server, which keeps it on its cores.
    pub(crate) affinity: Vec<OsString>,
    /// Bytes of memory that the machine has.
    pub(crate) memory: u64,
}

/// What a started cluster consists of, beside its servers.
pub(crate) struct Parts {
    pub(crate) conf: PathBuf,
    pub(crate) devices: BTreeMap<String, Vec<String>>,
    pub(crate) version: String,
    pub(crate) admin: Admin,
    /// What the NFS server exports.
    pub(crate) export: Option<String>,
}

/// A random id, as the kernel gives them.
pub(crate) fn fresh_uuid() -> Result<String> {
    const SOURCE: &str = "/proc/sys/kernel/random/uuid";
    Ok(fs::read_to_string(SOURCE).doing("reading", SOURCE)?.trim().to_owned())
}

/// A running cluster. Taken down by [`Testbed::take_down`]; dropping it does the same as a last resort, without a word.
#[derive(Debug)]
pub struct Testbed {
    work_dir: WorkDir,
    servers: Servers,
    admin: Admin,
    conf: PathBuf,
    devices: BTreeMap<String, Vec<String>>,
    version: String,
    host_prefix: Vec<OsString>,
    export: Option<String>,
    /// What names of pools begin with.
    pools: String,
    /// Whether others run the cluster.
    running: bool,
    down: bool,
}

/// Undoes what an interrupted run left in a work directory; its own things only. Gives sentences on what was left on
/// purpose. Does nothing where nothing is left.
///
/// # Errors
/// [`Error::InUse`] when a run lives there; [`Error::Stays`] for what can't be undone now: call it again later.
pub fn clean_up(work_dir: &Path, say: &mut dyn FnMut(&str)) -> Result<Vec<String>> {
    if !work_dir.join("ledger.jsonl").exists() {
        return Ok(Vec::new());
    }
    let mut work_dir = WorkDir::open(work_dir, Stop::default())?;
    clear(&mut work_dir, say)?;
    Ok(work_dir.notes)
}

fn clear(work_dir: &mut WorkDir, say: &mut dyn FnMut(&str)) -> Result<()> {
    let left = work_dir.ledger.left().len();
    if left > 0 {
        say(&format!("cleaning up {left} things that an interrupted run left"));
        keep_logs(&work_dir.paths);
    }
    work_dir.undo_all(say)
}

/// Makes and starts a cluster: leftovers of an earlier run in the work directory are undone, everything is checked,
/// then things are made. When it fails, what was made is undone; the logs stay.
///
/// # Errors
/// The first of [`check`]'s, and whatever comes up meanwhile.
pub fn start(site: &Site, wanted: &Wanted<'_>, say: &mut dyn FnMut(&str)) -> Result<Testbed> {
    let mut work_dir = WorkDir::open(&site.work_dir, site.stop.clone())?;
    clear(&mut work_dir, say)?;
    let sizes = check::all(site, wanted, &work_dir.paths)?;
    fresh_logs(&work_dir.paths.logs())?;
    for note in &sizes.notes {
        work_dir.note(note.clone());
    }

    let token = fresh_uuid()?;
    work_dir.ledger.about_to_make(Resource::Token { token: token.clone() })?;
    work_dir.runner.token = Some(token.clone());
    let order = Order {
        site,
        system: wanted.system,
        settings: wanted.settings,
        file_system: wanted.file_system,
        token: &token,
        affinity: check::affinity(wanted.system)?,
        memory: process::meminfo("MemTotal").unwrap_or(0),
    };
    if !wanted.system.listen.is_loopback() {
        work_dir.note(format!("servers listen at {} without authentication", wanted.system.listen));
    }
    let mut servers = Servers::default();
    let parts = match &wanted.system.target {
        Target::Loligo { store } => loligo::start(&mut work_dir, &order, *store, &sizes, &mut servers, say),
        Target::Ceph { release, store } => {
            ceph::start(&mut work_dir, &order, (release, *store), &sizes, &mut servers, say)
        }
        Target::Running { conf } => running::attach(&mut work_dir, &order, conf, say),
        Target::Nfs { sync } => nfs::start(&mut work_dir, &order, *sync, say),
    };
    match parts {
        Ok(parts) => {
            let Parts { conf, devices, version, admin, export } = parts;
            let host_prefix = vec!["env".into(), format!("{}={token}", crate::processes::TOKEN).into()];
            let running = matches!(wanted.system.target, Target::Running { .. });
            // Whoever else uses the cluster has no pools of such names.
            let pools = if running {
                format!("loligo-lab-{}-", token.get(..13).unwrap_or(&token))
            } else {
                "lab".into()
            };
            let down = false;
            Ok(Testbed {
                work_dir,
                servers,
                admin,
                conf,
                devices,
                version,
                host_prefix,
                export,
                pools,
                running,
                down,
            })
        }
        Err(error) => {
            keep_logs(&work_dir.paths);
            // The first error is reported; what stays is in the ledger for the next start.
            let _ = work_dir.undo_all(say);
            servers.reap();
            Err(error)
        }
    }
}

/// The log directory, emptied of an earlier cluster's.
fn fresh_logs(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).doing("emptying the log directory", dir)?;
    }
    fs::create_dir_all(dir).doing("making the log directory", dir)
}

/// Copies to the logs what would go with the cluster: its ceph.conf, and the log that Loligo has in its own directory.
fn keep_logs(paths: &Paths) {
    // What can't be kept, or isn't there, is no reason to leave a cluster running.
    let _ = fs::copy(paths.conf(), paths.logs().join("ceph.conf"));
    let _ = fs::copy(paths.data("loligo").join("log"), paths.log("loligo"));
}

impl Testbed {
    /// The clients' ceph.conf.
    #[must_use]
    pub fn conf(&self) -> &Path {
        &self.conf
    }

    /// The servers' process ids by name: `mon.a`, `mgr.x`, `osd.0`, `mds.a`, `loligo`. Empty for a running cluster.
    #[must_use]
    pub fn processes(&self) -> BTreeMap<String, u32> {
        self.servers.pids()
    }

    /// Kernel names of the block devices below each OSD's data and journal, as `loop0`. Stores in memory have none.
    #[must_use]
    pub fn devices(&self) -> &BTreeMap<String, Vec<String>> {
        &self.devices
    }

    /// The kernel's name of the block device below the work directory.
    #[must_use]
    pub fn work_device(&self) -> Option<String> {
        mounts::device_below(&self.work_dir.paths.root)
    }

    /// The server's own words on its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Sentences for the user: raised limits, sizes that were chosen, what could not be done as asked.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.work_dir.notes
    }

    /// The prefix of a client program so that it runs as one of the cluster's release and reaches
    /// this cluster. Programs of a root see the work directory and `/tmp` at their own paths, and nothing else of
    /// this machine. Every process started so is ended when the cluster is taken down.
    #[must_use]
    pub fn client_prefix(&self) -> &[OsString] {
        &self.admin.prefix
    }

    /// What an NFS server exports, `host:/path`.
    #[must_use]
    pub fn export(&self) -> Option<&str> {
        self.export.as_deref()
    }

    /// A fresh directory for loads. What they mount there, and the directory, go when the cluster is taken down.
    ///
    /// # Errors
    /// The system's.
    pub fn scratch(&mut self) -> Result<PathBuf> {
        let path = self.work_dir.paths.root.join("load");
        let resource = Resource::Scratch { path: path.clone() };
        if !self.work_dir.ledger.left().iter().any(|(_, other)| *other == resource) {
            self.work_dir.ledger.about_to_make(resource)?;
        }
        fs::create_dir_all(&path).doing("making the directory", &path)?;
        Ok(path)
    }

    /// The prefix of one of this machine's own programs, so that it too is ended when the cluster is
    /// taken down, or at the next start.
    #[must_use]
    pub fn host_prefix(&self) -> &[OsString] {
        &self.host_prefix
    }

    /// A client program with its prefix.
    #[must_use]
    pub fn client(&self, program: &str) -> Command {
        crate::release::command(&self.admin.prefix, program, &[])
    }

    /// Log files to keep, also after the cluster was taken down, until the next one starts in this work directory.
    #[must_use]
    pub fn logs(&self) -> Vec<PathBuf> {
        logs(&self.work_dir.paths.root)
    }

    /// Checks that all servers still run.
    ///
    /// # Errors
    /// [`Error::Ended`] with the server's last words.
    pub fn check(&mut self) -> Result<()> {
        self.servers.check(&self.work_dir.paths)
    }

    /// Asks a cluster that others run whether it still answers, after something failed in it.
    ///
    /// # Errors
    /// [`Error::NotUp`].
    pub fn still_answers(&self) -> Result<()> {
        if !self.running {
            return Ok(());
        }
        self.admin.json(&["status"]).map(drop).map_err(|error| running::not_up(&self.conf, error))
    }

    /// Ends the servers and every client that was started with the prefix, and removes everything but the logs and
    /// notes. Gives sentences on what was left on purpose.
    ///
    /// # Errors
    /// [`Error::Stays`] for what can't be undone now; [`clean_up`] or the next start tries again.
    pub fn take_down(mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>> {
        let before = self.work_dir.notes.len();
        self.bring_down(say)?;
        Ok(self.work_dir.notes.split_off(before))
    }

    fn bring_down(&mut self, say: &mut dyn FnMut(&str)) -> Result<()> {
        self.down = true;
        keep_logs(&self.work_dir.paths);
        say("taking the cluster down");
        let undone = self.work_dir.undo_all(say);
        self.servers.reap();
        undone
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if !self.down {
            // No caller is left to report to; the ledger keeps what stays.
            let _ = self.bring_down(&mut |_| ());
        }
    }
}

/// Log files of the last cluster of a work directory, also of one whose start failed.
#[must_use]
pub fn logs(work_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(work_dir.join("log")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.is_file()).collect();
    files.sort();
    files
}

/// Writes back and drops the machine's page cache, directory entries and inodes.
///
/// # Errors
/// [`Error::NotRoot`] without root's rights.
pub fn drop_caches() -> Result<()> {
    const SWITCH: &str = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    match fs::write(SWITCH, "3\n") {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(Error::NotRoot { what: "dropping the machine's caches".to_owned() })
        }
        other => other.doing("writing", SWITCH),
    }
}

/// Both places of a system.
pub(crate) fn places(system: &System) -> impl Iterator<Item = &Place> {
    [Some(&system.place), system.journal.as_ref()].into_iter().flatten()
}
