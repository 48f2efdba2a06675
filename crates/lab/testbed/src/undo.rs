//! Undoing what a ledger says is there: at the end of a trial, and at the next start after an interrupted one.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cluster::{nfs, running};
use crate::error::{Doing, Error, Result};
use crate::ledger::{Resource, undo_order};
use crate::place::{devices, loops, modelled};
use crate::processes::{self, Process};
use crate::run::Runner;
use crate::work_dir::{Paths, WorkDir};
use process::mounts;

/// How long an unmount may take, with what it writes back, and how long a busy one is tried again.
const UNMOUNT: Duration = Duration::from_secs(60);

/// How long a load's own mount may take to end.
const LET_GO: Duration = Duration::from_secs(10);

/// How long a loop device may stay after it was detached.
const DETACH: Duration = Duration::from_secs(15);

impl WorkDir {
    /// Undoes everything that the ledger has: processes, then the rest from the last made to the first. Ends at the
    /// first thing that can't be undone, since what was made before may lie below it; a second call goes on there.
    ///
    /// # Errors
    /// [`Error::Stays`] and those of the programs used.
    pub(crate) fn undo_all(&mut self, say: &mut dyn FnMut(&str)) -> Result<()> {
        let order = undo_order(self.ledger.left().to_vec());
        let (processes, rest): (Vec<_>, Vec<_>) = order
            .into_iter()
            .partition(|(_, t)| matches!(t, Resource::Token { .. } | Resource::Process { .. }));
        let resources: Vec<Resource> = processes.iter().map(|(_, t)| t.clone()).collect();
        end_processes(&resources)?;
        for (id, _) in processes {
            self.ledger.is_gone(id)?;
        }
        for (_, resource) in &rest {
            if let Resource::Modelled { token, .. } = resource {
                modelled::hurry(token);
            }
        }
        for (id, resource) in rest {
            if matches!(resource, Resource::Mount { .. }) {
                say(&format!("unmounting {}", shown(&resource, &self.paths)));
            }
            self.notes.extend(undo(&resource, &self.paths)?);
            self.ledger.is_gone(id)?;
        }
        self.reap();
        Ok(())
    }
}

/// How often processes that were being started are looked for, and how long after each other.
const LOOKS: usize = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

fn shown(resource: &Resource, paths: &Paths) -> String {
    match resource {
        Resource::Mount { at } => at.strip_prefix(&paths.root).unwrap_or(at).display().to_string(),
        other => other.to_string(),
    }
}

/// Clients and OSDs first, the monitor last: they would ask it while they end.
fn end_processes(resources: &[Resource]) -> Result<()> {
    let (mut servers, mut monitors) = (Vec::new(), Vec::new());
    for resource in resources {
        match resource {
            Resource::Process { name, pid, start } if name.starts_with("mon.") => {
                monitors.push(Process { pid: *pid, start: *start });
            }
            Resource::Process { pid, start, .. } => servers.push(Process { pid: *pid, start: *start }),
            Resource::Token { token } => servers.extend(processes::with_token(token)),
            _ => {}
        }
    }
    servers.retain(|p| !monitors.contains(p));
    servers.sort();
    servers.dedup();
    let mut left = processes::end(&servers);
    left.extend(processes::end(&monitors));
    left.extend(end_stragglers(resources));
    match left.first() {
        None => Ok(()),
        Some(process) => Err(Error::Stays {
            what: format!("process {}", process.pid),
            why: "it does not end even by SIGKILL; it may wait for a disk".to_owned(),
        }),
    }
}

/// A process that was being started when we looked did not have its environment yet: looks until a look finds nothing.
fn end_stragglers(resources: &[Resource]) -> Vec<Process> {
    let tokens = || {
        resources.iter().filter_map(|t| if let Resource::Token { token } = t { Some(token) } else { None })
    };
    let mut left = Vec::new();
    for token in tokens() {
        for _ in 0..LOOKS {
            sleep(BETWEEN_LOOKS);
            let found = processes::with_token(token);
            if found.is_empty() {
                break;
            }
            left = processes::end(&found);
        }
    }
    left
}

/// Undoes one thing; nothing to undo is fine. Gives a sentence where something was left on purpose.
fn undo(resource: &Resource, paths: &Paths) -> Result<Option<String>> {
    match resource {
        Resource::Token { .. } | Resource::Process { .. } => Ok(None),
        Resource::Mount { at } => unmount(own(at, paths)?).map(|()| None),
        Resource::Modelled { at, token } => {
            unmount(own(at, paths)?)?;
            modelled::end(token).map(|()| None)
        }
        Resource::Loop { backing } => detach(own(backing, paths)?).map(|()| None),
        Resource::File { path } => match fs::remove_file(own(path, paths)?) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).doing("removing the file", path),
            _ => Ok(None),
        },
        Resource::Directory { path } => remove_dir(own(path, paths)?).map(|()| None),
        Resource::Scratch { path } => {
            let mut inside = mounts::below(own(path, paths)?);
            inside.sort_by_key(|m| std::cmp::Reverse(m.at.as_os_str().len()));
            inside.iter().try_for_each(|mount| let_go(&mount.at))?;
            remove_dir(path).map(|()| None)
        }
        Resource::Pool { conf, name } => running::remove_pool(conf, name, paths).map(|()| None),
        Resource::Export { client, path } => nfs::withdraw(client, own(path, paths)?).map(|()| None),
        Resource::Device { path, uuid } => devices::wipe_own(path, uuid),
    }
}

/// A ledger that was edited or moved must not lead us outside.
fn own<'a>(path: &'a Path, paths: &Paths) -> Result<&'a Path> {
    let up = path.components().any(|c| matches!(c, std::path::Component::ParentDir));
    if path.starts_with(&paths.root) && path != paths.root && !up {
        return Ok(path);
    }
    Err(Error::Stays {
        what: path.display().to_string(),
        why: format!(
            "the ledger {} names it, but it is not below the work directory; if the directory was moved, \
             undo by hand what the ledger lists and remove the ledger",
            paths.ledger().display()
        ),
    })
}

fn unmount(at: &Path) -> Result<()> {
    let begin = Instant::now();
    while mounts::all().iter().any(|m| m.at == at) {
        let mut command = Command::new("umount");
        command.arg(at);
        // Not to be stopped: a caller who wants to stop wants this done.
        match Runner::default().run("unmounting", command, UNMOUNT) {
            Ok(_) => {}
            Err(Error::Failed { output, .. }) if begin.elapsed() > UNMOUNT => {
                return Err(Error::Stays {
                    what: format!("the mount {}", at.display()),
                    why: format!("{output}; end what uses it and run the lab again"),
                });
            }
            Err(Error::Failed { .. }) => sleep(Duration::from_millis(200)),
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// What a load mounted: its server is gone by now, so a mount that does not end well is let go.
fn let_go(at: &Path) -> Result<()> {
    for lazily in [&[][..], &["--lazy"]] {
        let mut command = Command::new("umount");
        command.args(lazily).arg(at);
        match Runner::default().run("unmounting", command, LET_GO) {
            Ok(_) | Err(Error::Failed { .. } | Error::Late { .. }) => {}
            Err(other) => return Err(other),
        }
        if !mounts::all().iter().any(|m| m.at == at) {
            return Ok(());
        }
    }
    let why = "not even lazily; end what uses it and run the lab again".to_owned();
    Err(Error::Stays { what: format!("the mount {}", at.display()), why })
}

fn detach(backing: &Path) -> Result<()> {
    let begin = Instant::now();
    loop {
        let over = loops::over(backing);
        let Some(device) = over.first() else { return Ok(()) };
        if begin.elapsed() > DETACH {
            return Err(Error::Stays {
                what: format!("the loop device {}", device.display()),
                why: "something still uses it, perhaps a process in another mount namespace; \
                      it goes when that ends"
                    .to_owned(),
            });
        }
        let mut command = Command::new("losetup");
        command.arg("--detach").arg(device);
        if let Err(error) = Runner::default().run("detaching a loop device", command, DETACH) {
            if !matches!(error, Error::Failed { .. }) {
                return Err(error);
            }
        }
        // The kernel may finish a little later.
        if !loops::over(backing).is_empty() {
            sleep(Duration::from_millis(100));
        }
    }
}

fn remove_dir(path: &Path) -> Result<()> {
    if let Some(mount) = mounts::below(path).first() {
        return Err(Error::Stays {
            what: path.display().to_string(),
            why: format!("something that the lab did not mount is on {}; unmount it", mount.at.display()),
        });
    }
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).doing("removing the directory", path),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Stop;

    #[test]
    fn everything_below_the_work_directory_goes_and_a_second_time_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        let mut work_dir = WorkDir::open(dir.path(), Stop::default()).unwrap();
        let image = work_dir.paths.image("osd.0");
        work_dir.make_file(&image, 4096).unwrap();
        let data = work_dir.paths.data("osd.0");
        work_dir.make_dir(&data).unwrap();
        fs::write(data.join("store"), "x").unwrap();
        drop(work_dir);

        // Another run, after the first was interrupted.
        let mut work_dir = WorkDir::open(dir.path(), Stop::default()).unwrap();
        work_dir.undo_all(&mut |_| ()).unwrap();
        assert!(!image.exists() && !data.exists());
        assert!(work_dir.ledger.left().is_empty());
        work_dir.undo_all(&mut |_| ()).unwrap();
    }

    #[test]
    fn what_was_written_down_but_never_made_is_struck_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut work_dir = WorkDir::open(dir.path(), Stop::default()).unwrap();
        let backing = work_dir.paths.image("osd.0");
        work_dir.ledger.about_to_make(Resource::Directory { path: work_dir.paths.data("osd.0") }).unwrap();
        work_dir.ledger.about_to_make(Resource::Loop { backing }).unwrap();
        work_dir.ledger.about_to_make(Resource::Mount { at: work_dir.paths.data("osd.0") }).unwrap();
        let at = work_dir.paths.modelled("osd.0");
        work_dir.ledger.about_to_make(Resource::Modelled { at, token: "nobody-has-this".into() }).unwrap();
        work_dir.undo_all(&mut |_| ()).unwrap();
        assert!(work_dir.ledger.left().is_empty());
    }

    #[test]
    fn what_a_load_mounted_goes_with_its_directory() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut work_dir = WorkDir::open(dir.path(), Stop::default()).unwrap();
        let path = work_dir.paths.root.join("load");
        work_dir.ledger.about_to_make(Resource::Scratch { path: path.clone() }).unwrap();
        let at = path.join("mnt");
        fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "lab"]).arg(&at).status();
        if !mounted.is_ok_and(|status| status.success()) {
            return;
        }
        // Something still uses it: it is removed nevertheless.
        let used = fs::File::create(at.join("open")).unwrap();
        work_dir.undo_all(&mut |_| ()).unwrap();
        assert!(!path.exists() && mounts::below(&path).is_empty());
        drop(used);
    }

    #[test]
    fn a_ledger_that_names_something_outside_is_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let precious = outside.path().join("precious");
        fs::write(&precious, "x").unwrap();
        let dir = tempfile::tempdir().unwrap();
        for path in [precious.clone(), dir.path().join("x/../../y"), dir.path().to_owned()] {
            let mut work_dir = WorkDir::open(dir.path(), Stop::default()).unwrap();
            work_dir.ledger.about_to_make(Resource::Directory { path }).unwrap();
            assert!(matches!(work_dir.undo_all(&mut |_| ()), Err(Error::Stays { .. })));
            assert_eq!(work_dir.ledger.left().len(), 1, "it stays written down");
            fs::remove_file(work_dir.paths.ledger()).unwrap();
        }
        assert!(precious.exists());
    }

    #[test]
    fn processes_of_an_interrupted_run_end_and_others_live() {
        let dir = tempfile::tempdir().unwrap();
        let mut work_dir = WorkDir::open(dir.path(), Stop::default()).unwrap();
        let mut ours = Command::new("sleep").arg("60").spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let at = |pid| processes::find(pid).unwrap().start;
        let line = |name: &str, pid, start| Resource::Process { name: name.into(), pid, start };
        work_dir.ledger.about_to_make(line("osd.0", ours.id(), at(ours.id()))).unwrap();
        work_dir.ledger.about_to_make(line("osd.1", other.id(), at(other.id()) - 1)).unwrap();
        work_dir.undo_all(&mut |_| ()).unwrap();
        assert!(ours.try_wait().unwrap().is_some());
        assert!(other.try_wait().unwrap().is_none(), "another start time is someone else's process");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
