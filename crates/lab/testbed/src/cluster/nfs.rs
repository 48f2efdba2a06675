//! The kernel's NFS server as a system: a fresh file system on the system's place, exported to this machine alone. The
//! server itself is the host's: the lab neither starts nor stops it, and touches no export but its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cluster::admin::Admin;
use crate::cluster::check::kernel_has;
use crate::cluster::{Order, Parts, fresh_uuid};
use crate::error::{Error, Result};
use crate::ledger::Resource;
use crate::place::{self, VolumeKind};
use crate::release::{Release, program};
use crate::run::Runner;
use crate::work_dir::WorkDir;

/// How long `exportfs` may take.
const EXPORT: Duration = Duration::from_secs(20);

/// Where the kernel tells how many threads serve; absent where no server runs.
const THREADS: &str = "/proc/fs/nfsd/threads";

/// What is missing for NFS on this machine.
///
/// # Errors
/// [`Error::NotHere`]: the systems on NFS are left out, the others run.
pub(crate) fn check() -> Result<()> {
    let not_here = |what: String| Err(Error::NotHere { what });
    for (name, what) in [("nfsd", "server"), ("nfs", "client")] {
        if !kernel_has(name) {
            return not_here(format!("this kernel has no NFS {what}, so nothing is run on NFS"));
        }
    }
    for name in ["exportfs", "mount.nfs"] {
        if let Err(error) = program(name) {
            return not_here(format!("nothing is run on NFS: {error}"));
        }
    }
    match serves(Path::new(THREADS)) {
        true => Ok(()),
        false => {
            not_here("nothing is run on NFS: its server does not run; systemctl start nfs-server".to_owned())
        }
    }
}

fn serves(threads: &Path) -> bool {
    let text = fs::read_to_string(threads).unwrap_or_default();
    text.trim().parse::<u32>().is_ok_and(|threads| threads > 0)
}

/// Makes the file system and exports it.
pub(crate) fn start(
    work_dir: &mut WorkDir,
    order: &Order<'_>,
    sync: bool,
    say: &mut dyn FnMut(&str),
) -> Result<Parts> {
    say("making the file system that is exported");
    let uuid = fresh_uuid()?;
    let volume = place::make(work_dir, &order.system.place, &order.site.loligo, ("nfs", 0), &uuid)?;
    let VolumeKind::Dir(dir, _) = volume.kind else {
        let what = "an NFS server needs a place with a file system".to_owned();
        return Err(Error::Impossible { what });
    };
    say("exporting it");
    let client = order.system.listen.to_string();
    let exportfs = program("exportfs")?;
    export(work_dir, &exportfs, &Export { client: &client, dir: &dir, uuid: &uuid, sync })?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let admin = Admin {
        prefix: Release::installed().prefix(Path::new(""), &work_dir.paths.root.clone(), order.token),
        runner: work_dir.runner.clone(),
    };
    Ok(Parts {
        conf: PathBuf::new(),
        devices: BTreeMap::from([("nfs".to_owned(), volume.devices)]),
        version: format!("the NFS server of Linux {}", release.trim()),
        admin,
        export: Some(format!("{client}:{}", dir.display())),
    })
}

/// What is exported, to whom and how.
struct Export<'a> {
    client: &'a str,
    dir: &'a Path,
    uuid: &'a str,
    sync: bool,
}

impl Export<'_> {
    /// exportfs's arguments. `-i`: what the host's own files say of other exports has no part in it.
    fn arguments(&self) -> [String; 4] {
        let answers = if self.sync { "sync" } else { "async" };
        let options = format!("rw,{answers},no_root_squash,no_subtree_check,fsid={}", self.uuid);
        ["-i".into(), "-o".into(), options, format!("{}:{}", self.client, self.dir.display())]
    }
}

fn export(work_dir: &mut WorkDir, exportfs: &Path, export: &Export<'_>) -> Result<()> {
    let (client, path) = (export.client.to_owned(), export.dir.to_owned());
    work_dir.ledger.about_to_make(Resource::Export { client, path })?;
    let mut command = Command::new(exportfs);
    command.args(export.arguments());
    work_dir.runner.run("exporting the file system (exportfs)", command, EXPORT).map(drop)
}

/// Takes an export back. One that was never made is fine.
pub(crate) fn withdraw(client: &str, dir: &Path) -> Result<()> {
    withdraw_by(&program("exportfs")?, client, dir)
}

fn withdraw_by(exportfs: &Path, client: &str, dir: &Path) -> Result<()> {
    // Not to be stopped: a caller who wants to stop wants this done.
    let run = |arguments: &[&str]| {
        let mut command = Command::new(exportfs);
        command.args(arguments);
        Runner::default().run("taking the export back (exportfs)", command, EXPORT)
    };
    let shown = dir.display().to_string();
    let taken = run(&["-u", &format!("{client}:{shown}")]);
    let still = run(&["-s"])?.lines().any(|l| l.split_ascii_whitespace().next() == Some(&shown));
    match (taken, still) {
        (Err(error), true) => {
            Err(Error::Stays { what: format!("the export {client}:{shown}"), why: error.to_string() })
        }
        // The kernel forgets what it knows of the export, or it would hold the file system.
        _ => run(&["-f"]).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Stop;
    use std::os::unix::fs::PermissionsExt;

    /// Stands in for exportfs: keeps exports as lines of a file, and writes down how it was called.
    fn stand_in(dir: &Path) -> PathBuf {
        let text = format!(
            "#!/bin/sh\ncd {}; echo \"$*\" >>calls; touch exports\n\
             case $1 in\n-i) echo \"${{4#*:}}  ${{4%%:*}}($3)\" >>exports;;\n\
             -u) grep -q \"^${{2#*:}} \" exports || {{ echo \"Could not find '$2' to unexport.\" >&2; exit 1; }}\n\
             [ ! -e stuck ] || exit 1; grep -v \"^${{2#*:}} \" exports >rest; mv rest exports;;\n\
             -s) cat exports;;\nesac\n",
            dir.display()
        );
        let path = dir.join("exportfs");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn an_export_is_written_down_made_and_taken_back() {
        let (dir, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let exportfs = stand_in(dir.path());
        let mut work_dir = WorkDir::open(work.path(), Stop::default()).unwrap();
        let exported = Export { client: "127.0.0.1", dir: Path::new("/w/data/nfs"), uuid: "U", sync: true };
        export(&mut work_dir, &exportfs, &exported).unwrap();
        let resource = Resource::Export { client: "127.0.0.1".into(), path: "/w/data/nfs".into() };
        assert_eq!(work_dir.ledger.left().iter().map(|(_, t)| t.clone()).collect::<Vec<_>>(), [resource]);
        withdraw_by(&exportfs, "127.0.0.1", exported.dir).unwrap();
        // A second time, and one that was never made.
        withdraw_by(&exportfs, "127.0.0.1", exported.dir).unwrap();
        let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
        let calls: Vec<&str> = calls.lines().collect();
        assert_eq!(
            calls[..4],
            [
                "-i -o rw,sync,no_root_squash,no_subtree_check,fsid=U 127.0.0.1:/w/data/nfs",
                "-u 127.0.0.1:/w/data/nfs",
                "-s",
                "-f"
            ]
        );
        assert_eq!(fs::read_to_string(dir.path().join("exports")).unwrap(), "");
    }

    #[test]
    fn an_export_that_stays_is_told() {
        let (dir, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let exportfs = stand_in(dir.path());
        let mut work_dir = WorkDir::open(work.path(), Stop::default()).unwrap();
        let exported = Export { client: "127.0.0.1", dir: Path::new("/w/data/nfs"), uuid: "U", sync: false };
        export(&mut work_dir, &exportfs, &exported).unwrap();
        fs::write(dir.path().join("stuck"), "").unwrap();
        let error = withdraw_by(&exportfs, "127.0.0.1", exported.dir).unwrap_err();
        assert!(matches!(&error, Error::Stays { what, .. } if what.contains("/w/data/nfs")), "{error}");
    }

    #[test]
    fn a_server_without_threads_serves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let threads = dir.path().join("threads");
        assert!(!serves(&threads));
        for (text, does) in [("0\n", false), ("8\n", true), ("", false)] {
            fs::write(&threads, text).unwrap();
            assert_eq!(serves(&threads), does);
        }
    }
}
