//! Everything that can be checked before anything is made: programs, rights, devices, space, settings.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use rustix::fs::statvfs;
use study::{CephStore, FileSystem, FsKind, Place, System, Target};

use crate::cluster::layout::{self, Layout};
use crate::cluster::{Site, Wanted, ceph, loligo, nfs, places, running};
use crate::conf;
use crate::error::{Doing, Error, Result};
use crate::place::space::{self, Free, Sizes};
use crate::place::{devices, filesystem};
use crate::ports::{self, Ports};
use crate::release::{Release, program};
use crate::work_dir::{Paths, check_path};
use process::mounts;

/// Everything that prevents a cluster, as far as it can be known without making anything.
#[must_use]
pub fn check(site: &Site, wanted: &Wanted<'_>) -> Vec<Error> {
    let paths = Paths { root: site.work_dir.clone() };
    let mut problems = problems(site, wanted);
    problems.extend(sizes(wanted, &paths).err());
    problems
}

/// The first problem, or the sizes.
pub(crate) fn all(site: &Site, wanted: &Wanted<'_>, paths: &Paths) -> Result<Sizes> {
    match problems(site, wanted).into_iter().next() {
        Some(problem) => Err(problem),
        None => sizes(wanted, paths),
    }
}

fn problems(site: &Site, wanted: &Wanted<'_>) -> Vec<Error> {
    let system = wanted.system;
    let mut results = vec![check_path(&site.work_dir), affinity(system).map(drop), listen(system)];
    match &system.target {
        Target::Running { conf } => {
            results.push(fs::metadata(conf).map(drop).doing("looking for the running cluster's", conf));
            results.push(Release::installed().has("ceph"));
            if results.iter().all(Result::is_ok) {
                results.push(running::check(conf));
            }
        }
        Target::Nfs { .. } => {
            results.push(nfs::check());
            results.extend(place_problems(site, system, &system.place));
        }
        Target::Loligo { .. } => {
            results.push(loligo::check(system, wanted.file_system));
            // A modelled one is in Loligo's device layer, and needs nothing of the machine.
            let log = system.journal.as_ref().filter(|place| !matches!(place, Place::Modelled { .. }));
            results.extend(log.into_iter().flat_map(|place| place_problems(site, system, place)));
            results.push(
                fs::metadata(&site.loligo).map(drop).doing("looking for Loligo's program", &site.loligo),
            );
            results.push(Release::installed().has("ceph"));
        }
        Target::Ceph { release, store } => {
            results.extend(ceph_problems(site, wanted, release, *store));
            results.extend(places(system).flat_map(|place| place_problems(site, system, place)));
        }
    }
    let settings = check_settings(system, wanted.settings);
    settings.into_iter().chain(results.into_iter().filter_map(Result::err)).collect()
}

/// What is wrong with settings, whatever the machine is like.
pub fn check_settings(system: &System, settings: &[study::Setting]) -> Vec<Error> {
    let store = match &system.target {
        Target::Ceph { store, .. } => Some(layout::store_name(*store)),
        Target::Loligo { .. } => None,
        Target::Running { .. } | Target::Nfs { .. } => return Vec::new(),
    };
    settings.iter().filter_map(|setting| conf::check(setting, store).err()).collect()
}

/// Only servers that the lab starts listen anywhere.
fn listen(system: &System) -> Result<()> {
    match system.target {
        Target::Loligo { .. } | Target::Ceph { .. } => ports::is_ours(system.listen),
        Target::Running { .. } | Target::Nfs { .. } => Ok(()),
    }
}

fn ceph_problems(site: &Site, wanted: &Wanted<'_>, release: &str, store: CephStore) -> Vec<Result<()>> {
    let mut results = Vec::new();
    let impossible = |what: &str| Err(Error::Impossible { what: what.to_owned() });
    match store {
        CephStore::FileStore if release != "16.2" => {
            results
                .push(impossible("FileStore is gone from Ceph after 16.2; ask for bluestore, or for 16.2"));
        }
        CephStore::FileStore if is_raw(&wanted.system.place) => {
            results
                .push(impossible("FileStore needs a file system: give its place one (xfs, ext4 or btrfs)"));
        }
        CephStore::MemStore if wanted.system.journal.is_some() => {
            results.push(impossible("MemStore has no journal to put elsewhere"));
        }
        _ => {}
    }
    match Release::find(release, &site.peers) {
        Err(error) => results.push(Err(error)),
        Ok(programs) => {
            results.extend(ceph::PROGRAMS.iter().map(|name| programs.has(name)));
            if wanted.file_system {
                results.push(programs.has("ceph-mds"));
            }
            if programs.is_root() {
                results.push(needs_root(&format!("running Ceph {release} in its root")));
                results.push(program("unshare").map(drop));
            }
        }
    }
    results
}

fn is_raw(place: &Place) -> bool {
    match place {
        Place::Directory => false,
        Place::Image { .. } => true,
        Place::Devices { fs, .. } | Place::Loop { fs, .. } | Place::Modelled { fs, .. } => fs.is_none(),
    }
}

fn place_problems(site: &Site, system: &System, place: &Place) -> Vec<Result<()>> {
    let mut results = Vec::new();
    let mut with_fs = |fs: &Option<FileSystem>| {
        if let Some(fs) = fs {
            results.push(program(&filesystem::mkfs_program(fs.kind)).map(drop));
            results.push(mountable(fs.kind));
        }
        results.push(needs_root("making loop devices, file systems and mounts"));
    };
    match place {
        Place::Directory | Place::Image { .. } => {}
        Place::Loop { fs, .. } => {
            with_fs(fs);
            results.push(program("losetup").map(drop));
        }
        Place::Modelled { fs, .. } => {
            with_fs(fs);
            results.push(program("losetup").map(drop));
            results.push(modelled::possible().map_err(Error::from));
            let program = &site.loligo;
            results.push(fs::metadata(program).map(drop).doing("looking for Loligo's program", program));
        }
        Place::Devices { paths, fs } => {
            with_fs(fs);
            if paths.len() != system.osds as usize {
                let (osds, devices) = (system.osds, paths.len());
                results.push(Err(Error::Impossible {
                    what: format!("{} has {osds} OSDs and {devices} devices: name one for each", system.name),
                }));
            }
            results.extend(twice(system));
            results.extend(paths.iter().map(|path| devices::check(path, &site.allowed_devices)));
        }
    }
    results
}

/// A device that is named twice.
fn twice(system: &System) -> Option<Result<()>> {
    let mut seen = Vec::new();
    for place in places(system) {
        let Place::Devices { paths, .. } = place else { continue };
        for path in paths {
            let real = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            if seen.contains(&real) {
                let why = "it is named for two OSDs, or for data and journal".to_owned();
                return Some(Err(Error::Device { path: path.clone(), why }));
            }
            seen.push(real);
        }
    }
    None
}

/// Whether the kernel knows a file system: built in, or as a module.
pub(crate) fn kernel_has(name: &str) -> bool {
    let known = |text: &str| text.lines().any(|l| l.split_ascii_whitespace().next_back() == Some(name));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let module = Path::new("/lib/modules").join(release.trim()).join("kernel/fs").join(name);
    known(&fs::read_to_string("/proc/filesystems").unwrap_or_default()) || module.exists()
}

fn mountable(kind: FsKind) -> Result<()> {
    let name = filesystem::name(kind);
    // The kernel's ext4 mounts ext2 as well.
    if kernel_has(name) || (kind == FsKind::Ext2 && kernel_has("ext4")) {
        return Ok(());
    }
    Err(Error::Impossible { what: format!("this kernel has no {name}; choose another file system") })
}

fn needs_root(what: &str) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Error::NotRoot { what: what.to_owned() })
}

fn sizes(wanted: &Wanted<'_>, paths: &Paths) -> Result<Sizes> {
    if matches!(wanted.system.target, Target::Running { .. }) {
        return Ok(Sizes::default());
    }
    // A work directory that isn't there yet is made on the disk of the nearest one that is.
    let there = paths.root.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
    let disk = statvfs(there).doing("looking at the disk of", there)?;
    let free = Free {
        disk: disk.f_bavail.saturating_mul(disk.f_frsize),
        memory: process::meminfo("MemAvailable").unwrap_or(0),
    };
    let named = wanted.settings.iter().rev().find(|s| options::normalize(&s.name) == "osd_journal_size");
    let journal = named.and_then(|s| s.value.trim().parse::<u64>().ok());
    space::plan(wanted.system, journal, free, &paths.root)
}

/// The prefix of a server, which keeps it on the system's cores: the first ones that this process may use.
pub(crate) fn affinity(system: &System) -> Result<Vec<OsString>> {
    let Some(cores) = system.cores else { return Ok(Vec::new()) };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let chosen = first_cores(list, cores).ok_or_else(|| Error::Impossible {
        what: format!("{} asks for {cores} cores, this machine gives us {}", system.name, list.trim()),
    })?;
    Ok(vec![program("taskset")?.into(), "-c".into(), chosen.into()])
}

/// The first `count` of a list as `0-3,8`.
fn first_cores(list: &str, count: u32) -> Option<String> {
    let mut all = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    let chosen = all.get(..count as usize).filter(|c| !c.is_empty())?;
    Some(chosen.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

/// The ceph.conf that a cluster would get, with ports and ids that stand for those chosen at the start. For Loligo, the
/// study's settings in their sections. Nothing is made.
///
/// # Errors
/// Those of sizes and settings.
pub fn ceph_conf(site: &Site, wanted: &Wanted<'_>) -> Result<String> {
    Ok(conf_to_be(site, wanted)?.text())
}

/// Sentences on settings of the study that the lab replaces in that ceph.conf; none where it is not known.
pub fn replaced(site: &Site, wanted: &Wanted<'_>) -> Vec<String> {
    conf_to_be(site, wanted).map(|conf| conf.notes().to_vec()).unwrap_or_default()
}

fn conf_to_be(site: &Site, wanted: &Wanted<'_>) -> Result<conf::Conf> {
    let paths = Paths { root: site.work_dir.clone() };
    let Target::Ceph { store, .. } = &wanted.system.target else {
        return Ok(conf::Conf::of_study(wanted.settings));
    };
    let below = match &wanted.system.place {
        Place::Loop { fs, .. } | Place::Devices { fs, .. } | Place::Modelled { fs, .. } => {
            fs.as_ref().map(|f| filesystem::name(f.kind).to_owned())
        }
        Place::Directory => paths.root.ancestors().find_map(mounts::of).map(|m| m.kind),
        Place::Image { .. } => None,
    };
    let file_systems: Vec<String> = below.into_iter().filter(|_| *store == CephStore::FileStore).collect();
    let layout = Layout {
        paths: &paths,
        system: wanted.system,
        store: *store,
        settings: wanted.settings,
        sizes: &sizes(wanted, &paths)?,
        fsid: "00000000-0000-0000-0000-000000000000",
        ports: Ports { mon: 10_000, first: 10_002, last: 10_099 },
        journals: &[],
        file_systems: &file_systems,
        file_system: wanted.file_system,
        memory: process::meminfo("MemTotal").unwrap_or(0),
    };
    Ok(layout::ceph_conf(&layout).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_the_first_that_we_may_use() {
        assert_eq!(first_cores("0-1\n", 1).as_deref(), Some("0"));
        assert_eq!(first_cores("\t2-3,8", 3).as_deref(), Some("2,3,8"));
        assert_eq!(first_cores("0-1", 3), None);
        assert_eq!(first_cores("0-1", 0), None);
        assert_eq!(first_cores("", 1), None);
    }

    #[test]
    fn what_stands_in_the_way_is_told_all_at_once() {
        let system = System {
            name: "s".into(),
            target: Target::Ceph { release: "20.2".into(), store: CephStore::FileStore },
            osds: 1,
            pool_size: 1,
            cores: Some(4096),
            listen: std::net::Ipv4Addr::LOCALHOST,
            place: Place::Image { size: 1 << 62 },
            journal: None,
            settings: Vec::new(),
            line: 1,
        };
        let site = Site { peers: vec!["/no/such/place".into()], ..Site::new("/tmp/a b") };
        let problems = check(&site, &Wanted { system: &system, settings: &[], file_system: false });
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        for part in ["/tmp/a b", "cores", "FileStore is gone", "peer-root.sh 20.2", "free"] {
            assert!(text.iter().any(|t| t.contains(part)), "{part}: {text:?}");
        }
    }
}
