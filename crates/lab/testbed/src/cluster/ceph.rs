//! Starting a real Ceph: a monitor, a manager, OSDs on their places, a metadata server where one is asked for.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use study::CephStore;

use crate::cluster::admin::{Admin, Wait};
use crate::cluster::layout::{self, Layout};
use crate::cluster::servers::Servers;
use crate::cluster::{Order, Parts, fresh_uuid};
use crate::error::{Doing, Error, Result};
use crate::place::{self, VolumeKind, filesystem, space::Sizes};
use crate::ports;
use crate::release::{Release, command};
use crate::run::last_lines;
use crate::work_dir::WorkDir;
use process::mounts;

/// How long a small program may take.
const SMALL: Duration = Duration::from_secs(60);

/// How long an OSD's store may take to be made (a journal on a slow disk is written once).
const MKFS: Duration = Duration::from_secs(300);

/// How long servers have to come up. Newer OSDs measure their disk first.
const UP: Duration = Duration::from_secs(120);

/// Programs that a cluster needs.
pub(crate) const PROGRAMS: [&str; 6] =
    ["ceph", "ceph-authtool", "monmaptool", "ceph-mon", "ceph-mgr", "ceph-osd"];

/// The server program's own words on its version, checked against the release that was asked for.
pub(crate) fn version(release: &str, prefix: &[OsString], work_dir: &WorkDir) -> Result<String> {
    let output =
        work_dir.runner.run("ceph-osd --version", command(prefix, "ceph-osd", &["--version"]), SMALL)?;
    let words = output.trim().to_owned();
    if words.starts_with(&format!("ceph version {release}.")) {
        return Ok(words);
    }
    Err(Error::WrongRelease { wanted: release.to_owned(), found: words })
}

/// Where an OSD's parts are.
struct OsdPlace {
    uuid: String,
    data: VolumeKind,
    journal: Option<VolumeKind>,
    devices: Vec<String>,
}

/// Starts a cluster. What was started when an error comes is in `servers` and the ledger.
pub(crate) fn start(
    work_dir: &mut WorkDir,
    order: &Order<'_>,
    (release, store): (&str, CephStore),
    sizes: &Sizes,
    servers: &mut Servers,
    say: &mut dyn FnMut(&str),
) -> Result<Parts> {
    let programs = Release::find(release, &order.site.peers)?;
    let token = order.token;
    let (conf_path, root) = (work_dir.paths.conf(), work_dir.paths.root.clone());
    let client = programs.prefix(&conf_path, &root, token);
    let server: Vec<OsString> = order.affinity.iter().cloned().chain(client.iter().cloned()).collect();
    let version = version(release, &client, work_dir)?;

    work_dir.make_dir(&work_dir.paths.run())?;
    let places = places(work_dir, order, store, say)?;
    let fsid = fresh_uuid()?;
    let seed = fsid.bytes().fold(0_u64, |n, b| n.wrapping_mul(31).wrapping_add(u64::from(b)));
    let ports = ports::free(order.system.listen, order.system.osds, seed)?;
    let layout = Layout {
        paths: &work_dir.paths.clone(),
        system: order.system,
        store,
        settings: order.settings,
        sizes,
        fsid: &fsid,
        ports,
        journals: &journals(&places, store, work_dir),
        file_systems: &file_systems(&places, store),
        file_system: order.file_system,
        memory: order.memory,
    };
    let (conf, notes) = layout::ceph_conf(&layout);
    notes.into_iter().for_each(|note| work_dir.note(note));
    work_dir.write_file(&conf_path, &conf.text())?;

    let admin = Admin { prefix: client.clone(), runner: work_dir.runner.clone() };
    let mut starting = Starting { work_dir, servers, admin: &admin, client: &client, server: &server };
    starting.monitor(&fsid, (order.system.listen, ports.mon), say)?;
    starting.manager()?;
    say("making the OSDs' stores");
    for (id, place) in places.iter().enumerate() {
        starting.announce_osd(id, place, store, sizes)?;
    }
    starting.make_stores(&places)?;
    for id in 0..places.len() {
        starting.osd(id)?;
    }
    starting.all_up(order.system.osds, say)?;
    if order.file_system {
        starting.file_system(say)?;
    }
    let devices = places.into_iter().enumerate().map(|(id, p)| (format!("osd.{id}"), p.devices)).collect();
    Ok(Parts { conf: conf_path, devices, version, admin, export: None })
}

/// Makes the places of all OSDs.
fn places(
    work_dir: &mut WorkDir,
    order: &Order<'_>,
    store: CephStore,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<OsdPlace>> {
    let mut all = Vec::new();
    for index in 0..order.system.osds as usize {
        let uuid = fresh_uuid()?;
        let name = format!("osd.{index}");
        if store == CephStore::MemStore {
            let data = VolumeKind::Dir(work_dir.paths.data(&name), None);
            work_dir.make_dir(&work_dir.paths.data(&name))?;
            all.push(OsdPlace { uuid, data, journal: None, devices: Vec::new() });
            continue;
        }
        say(&format!("making the place of {name}"));
        let loligo = &order.site.loligo;
        let data = place::make(work_dir, &order.system.place, loligo, (&name, index), &uuid)?;
        let mut devices = data.devices;
        let journal = match &order.system.journal {
            None => None,
            Some(place) => {
                let name = format!("journal.{index}");
                let volume = place::make(work_dir, place, loligo, (&name, index), &uuid)?;
                devices.extend(volume.devices);
                Some(volume.kind)
            }
        };
        devices.sort();
        devices.dedup();
        all.push(OsdPlace { uuid, data: data.kind, journal, devices });
    }
    Ok(all)
}

/// FileStore's journals: on their own place, else beside the data.
fn journals(places: &[OsdPlace], store: CephStore, work_dir: &WorkDir) -> Vec<PathBuf> {
    if store != CephStore::FileStore {
        return Vec::new();
    }
    let path = |(id, place): (usize, &OsdPlace)| match &place.journal {
        None => work_dir.paths.data(&format!("osd.{id}")).join("journal"),
        Some(VolumeKind::Dir(dir, _)) => dir.join("journal"),
        Some(VolumeKind::Raw(path)) => path.clone(),
    };
    places.iter().enumerate().map(path).collect()
}

/// The file systems below FileStore's data, by the kernel's names.
fn file_systems(places: &[OsdPlace], store: CephStore) -> Vec<String> {
    let name = |place: &OsdPlace| match &place.data {
        VolumeKind::Dir(_, Some(kind)) => Some(filesystem::name(*kind).to_owned()),
        VolumeKind::Dir(dir, None) => mounts::of(dir).map(|m| m.kind),
        VolumeKind::Raw(_) => None,
    };
    places.iter().filter(|_| store == CephStore::FileStore).filter_map(name).collect()
}

/// A cluster that is being started.
struct Starting<'a> {
    work_dir: &'a mut WorkDir,
    servers: &'a mut Servers,
    admin: &'a Admin,
    client: &'a [OsString],
    server: &'a [OsString],
}

impl Starting<'_> {
    fn tool(&self, what: &str, program: &str, arguments: &[&str], limit: Duration) -> Result<String> {
        self.work_dir.runner.run(what, command(self.client, program, arguments), limit)
    }

    /// Waits with an eye on the servers: one that has ended is an error at once.
    fn wait(&mut self, what: &str, log: &str, mut yes: impl FnMut(&Admin) -> Result<bool>) -> Result<()> {
        let paths = self.work_dir.paths.clone();
        let (log, out) = (paths.log(log), paths.out(log));
        let logs: [&Path; 2] = [&log, &out];
        let stop = self.work_dir.runner.stop.clone();
        Wait { what: what.to_owned(), limit: UP, logs: &logs, stop: &stop }.until(|| {
            self.servers.check(&paths)?;
            yes(self.admin)
        })
    }

    fn monitor(
        &mut self,
        fsid: &str,
        (listen, port): (Ipv4Addr, u16),
        say: &mut dyn FnMut(&str),
    ) -> Result<()> {
        say("starting the monitor");
        let paths = self.work_dir.paths.clone();
        let (keyring, monmap) = (text(&paths.keyring()), text(&paths.root.join("monmap")));
        let keyring_file = crate::ledger::Resource::File { path: paths.keyring() };
        self.work_dir.ledger.about_to_make(keyring_file)?;
        let key = ["--create-keyring", &keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"];
        self.tool("making a keyring", "ceph-authtool", &key, SMALL)?;
        self.work_dir
            .ledger
            .about_to_make(crate::ledger::Resource::File { path: paths.root.join("monmap") })?;
        let address = format!("[v2:{listen}:{port},v1:{listen}:{}]", port + 1);
        let map = ["--create", "--clobber", "--addv", "a", &address, "--fsid", fsid, &monmap];
        self.tool("making the monitor's map", "monmaptool", &map, SMALL)?;
        self.work_dir.make_dir(&paths.data("mon.a"))?;
        let mkfs = ["--mkfs", "-i", "a", "--monmap", &monmap, "--keyring", &keyring];
        self.tool("making the monitor's store", "ceph-mon", &mkfs, SMALL)?;
        self.servers.start(self.work_dir, self.server, "mon.a", "ceph-mon", &["-f", "-i", "a"])?;
        self.wait("the monitor", "mon.a", |admin| {
            let answer = admin.json(&["quorum_status"])?;
            Ok(answer.get("quorum").and_then(|q| q.as_array()).is_some_and(|q| !q.is_empty()))
        })
    }

    fn manager(&mut self) -> Result<()> {
        let data = self.work_dir.paths.data("mgr.x");
        self.work_dir.make_dir(&data)?;
        self.servers.start(self.work_dir, self.server, "mgr.x", "ceph-mgr", &["-f", "-i", "x"])
    }

    /// Tells the monitor of an OSD, and prepares its directory.
    fn announce_osd(&mut self, id: usize, place: &OsdPlace, store: CephStore, sizes: &Sizes) -> Result<()> {
        let data = self.work_dir.paths.data(&format!("osd.{id}"));
        self.work_dir.make_dir(&data)?;
        if store == CephStore::BlueStore {
            bluestore_devices(&data, place, sizes)?;
        }
        self.admin.ask(&["osd", "new", &place.uuid, &id.to_string()]).map(drop)
    }

    /// Makes all stores at once: each waits for its own disk most of the time.
    fn make_stores(&self, places: &[OsdPlace]) -> Result<()> {
        let (client, paths, runner) = (self.client, &self.work_dir.paths, &self.work_dir.runner);
        std::thread::scope(|scope| {
            let make = |(id, place): (usize, &OsdPlace)| {
                let (number, uuid) = (id.to_string(), place.uuid.clone());
                let name = format!("osd.{id}");
                let log = paths.log(&name);
                let mkfs = move || {
                    let arguments = ["--mkfs", "-i", &number, "--osd-uuid", &uuid];
                    let what = format!("making the store of {name}");
                    runner
                        .run(&what, command(client, "ceph-osd", &arguments), MKFS)
                        .map_err(|e| with_log(e, &log))
                };
                scope.spawn(mkfs)
            };
            let all: Vec<_> = places.iter().enumerate().map(make).collect();
            let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<String>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(drop)
            };
            // All are joined before the first error is reported.
            all.into_iter().map(ended).collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn osd(&mut self, id: usize) -> Result<()> {
        let (name, number) = (format!("osd.{id}"), id.to_string());
        self.servers.start(self.work_dir, self.server, &name, "ceph-osd", &["-f", "-i", &number])
    }

    fn all_up(&mut self, osds: u32, say: &mut dyn FnMut(&str)) -> Result<()> {
        say("waiting for the manager and the OSDs");
        self.wait("the manager", "mgr.x", |admin| {
            Ok(admin.json(&["mgr", "dump"])?.get("available").and_then(|a| a.as_bool()) == Some(true))
        })?;
        let mut missing = 0;
        self.wait(&format!("all of the {osds} OSDs"), "osd.0", |admin| {
            let dump = admin.json(&["osd", "dump"])?;
            let all = dump.get("osds").and_then(|o| o.as_array()).cloned().unwrap_or_default();
            let is_up = |osd: &&serde_json::Value| {
                ["up", "in"].iter().all(|f| osd.get(f).and_then(|v| v.as_u64()) == Some(1))
            };
            missing = osds as usize - all.iter().filter(is_up).count().min(osds as usize);
            Ok(missing == 0)
        })
    }

    fn file_system(&mut self, say: &mut dyn FnMut(&str)) -> Result<()> {
        say("making a file system (CephFS)");
        let data = self.work_dir.paths.data("mds.a");
        self.work_dir.make_dir(&data)?;
        self.servers.start(self.work_dir, self.server, "mds.a", "ceph-mds", &["-f", "-i", "a"])?;
        for pool in ["cephfs.metadata", "cephfs.data"] {
            self.admin.ask(&["osd", "pool", "create", pool, "32", "32"])?;
        }
        self.admin.ask(&["fs", "new", "cephfs", "cephfs.metadata", "cephfs.data"])?;
        self.wait("the metadata server", "mds.a", |admin| {
            Ok(admin.ask(&["mds", "stat"])?.contains("up:active"))
        })
    }
}

/// BlueStore finds its devices by links in the OSD's directory. Without one it makes a file there itself.
fn bluestore_devices(data: &Path, place: &OsdPlace, sizes: &Sizes) -> Result<()> {
    let link = |target: &Path, name: &str| {
        let at = data.join(name);
        symlink(target, &at).doing("linking", at)
    };
    if let VolumeKind::Raw(path) = &place.data {
        link(path, "block")?;
    }
    // A database device carries the write-ahead log too.
    match &place.journal {
        None => Ok(()),
        Some(VolumeKind::Raw(path)) => link(path, "block.db"),
        Some(VolumeKind::Dir(dir, _)) => {
            let file = dir.join("block.db");
            let made = fs::File::create(&file).doing("making the file", &file)?;
            made.set_len(sizes.journal).doing("sizing the file", &file)?;
            link(&file, "block.db")
        }
    }
}

/// The reason stands in the log more often than on standard error; often in both.
fn with_log(error: Error, log: &Path) -> Error {
    match error {
        Error::Failed { what, status, output } => {
            let logged = last_lines(&[log]);
            let more = logged.lines().filter(|l| !output.contains(l));
            let output = more.fold(output.clone(), |all, line| format!("{all}\n{line}"));
            Error::Failed { what, status, output }
        }
        other => other,
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
