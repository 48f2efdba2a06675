//! The ledger: what a run has made, written down before it is made, so that whatever interrupts the run can be undone.
//!
//! A file of JSON lines in the work directory: `{"made":{"id":3,"resource":{...}}}`, and `{"gone":3}` once it is undone.
//! Every line is on disk before the thing is made. The file is locked while a run lives, so that no other run undoes it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::lock::lock;

/// Something that a run made. Each names what is needed to tell it from what others made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Processes that carry this text in their environment ([`crate::processes::TOKEN`]): servers and their
    /// children, client programs. Covers the moment between a process's start and its own line.
    Token {
        /// Unique to a cluster.
        token: String,
    },
    /// A server.
    Process {
        /// As `osd.0`.
        name: String,
        /// Its process id.
        pid: u32,
        /// When it started, in clock ticks since boot: another start time is someone else's process.
        start: u64,
    },
    /// A directory with everything in it.
    Directory {
        /// Below the work directory.
        path: PathBuf,
    },
    File {
        /// Below the work directory.
        path: PathBuf,
    },
    /// The loop device over a file.
    Loop {
        /// The file.
        backing: PathBuf,
    },
    /// A modelled disk: a FUSE mount, and the process that serves it. It isn't ended with the servers: file systems lie
    /// on it, and it ends when it is unmounted.
    Modelled {
        /// Where it is mounted, below the work directory.
        at: PathBuf,
        /// Carried by its process alone, in the place of the cluster's.
        token: String,
    },
    Mount {
        /// Below the work directory.
        at: PathBuf,
    },
    /// A directory for loads, in which they may mount things.
    Scratch {
        /// Below the work directory.
        path: PathBuf,
    },
    /// A pool in a cluster that others run.
    Pool {
        /// The cluster's ceph.conf.
        conf: PathBuf,
        /// A unique name.
        name: String,
    },
    /// A directory that the kernel's NFS server exports.
    Export {
        /// To whom.
        client: String,
        /// Below the work directory.
        path: PathBuf,
    },
    /// The content of a raw device: undone only where the first blocks carry this id.
    Device {
        /// The device.
        path: PathBuf,
        /// The id that the store or file system on it was given.
        uuid: String,
    },
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Token { token } => write!(f, "processes of the run {token}"),
            Self::Process { name, pid, .. } => write!(f, "{name} (process {pid})"),
            Self::Directory { path } => write!(f, "the directory {}", path.display()),
            Self::File { path } => write!(f, "the file {}", path.display()),
            Self::Loop { backing } => write!(f, "the loop device over {}", backing.display()),
            Self::Modelled { at, .. } => write!(f, "the modelled disk {}", at.display()),
            Self::Mount { at } => write!(f, "the mount {}", at.display()),
            Self::Scratch { path } => write!(f, "the loads' directory {}", path.display()),
            Self::Pool { name, .. } => write!(f, "the pool {name}"),
            Self::Export { client, path } => write!(f, "the export {client}:{}", path.display()),
            Self::Device { path, .. } => write!(f, "what was written to {}", path.display()),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Made { id: u64, resource: Resource },
    Gone(u64),
}

/// What is still there, in the order in which it was made. A last line without its end is one that was being written
/// when the run was interrupted: the thing was not made then.
///
/// # Errors
/// The number of the first line that can't be read, and why.
pub fn parse(text: &str) -> std::result::Result<Vec<(u64, Resource)>, (usize, String)> {
    let mut left = Vec::new();
    let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    for (number, line) in whole.lines().enumerate() {
        match serde_json::from_str(line).map_err(|e| (number + 1, e.to_string()))? {
            Line::Made { id, resource } => left.push((id, resource)),
            Line::Gone(id) => left.retain(|(other, _)| *other != id),
        }
    }
    Ok(left)
}

/// The order in which things are undone: processes first (the token finds those without a line), then everything else
/// from the last made to the first.
#[must_use]
pub fn undo_order(mut left: Vec<(u64, Resource)>) -> Vec<(u64, Resource)> {
    left.reverse();
    left.sort_by_key(|(_, resource)| !matches!(resource, Resource::Token { .. } | Resource::Process { .. }));
    left
}

/// An open, locked ledger.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    path: PathBuf,
    left: Vec<(u64, Resource)>,
    next: u64,
}

impl Ledger {
    /// Opens and locks it; an absent one is made.
    ///
    /// # Errors
    /// [`Error::InUse`] when another run holds it, [`Error::Ledger`] when it is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .doing("opening the ledger", path)?;
        if !lock(&file).doing("locking the ledger", path)? {
            return Err(Error::InUse { path: path.parent().unwrap_or(path).to_owned() });
        }
        let mut text = String::new();
        file.read_to_string(&mut text).doing("reading the ledger", path)?;
        let left = parse(&text).map_err(|(line, why)| Error::Ledger { path: path.to_owned(), line, why })?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).doing("cutting a half-written line of", path)?;
        let next = left.iter().map(|(id, _)| id + 1).max().unwrap_or(0).max(text.lines().count() as u64);
        Ok(Self { file, path: path.to_owned(), left, next })
    }

    /// Writes down what is about to be made, and returns when that is on disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn about_to_make(&mut self, resource: Resource) -> Result<u64> {
        let id = self.next;
        self.append(&Line::Made { id, resource: resource.clone() })?;
        self.next += 1;
        self.left.push((id, resource));
        Ok(id)
    }

    /// Strikes out what is gone. The last one leaves an empty file.
    ///
    /// # Errors
    /// The disk's.
    pub fn is_gone(&mut self, id: u64) -> Result<()> {
        self.append(&Line::Gone(id))?;
        self.left.retain(|(other, _)| *other != id);
        if self.left.is_empty() {
            self.file.set_len(0).doing("emptying", &self.path)?;
            self.file.seek(SeekFrom::Start(0)).doing("emptying", &self.path)?;
        }
        Ok(())
    }

    /// What is still there, in the order in which it was made.
    #[must_use]
    pub fn left(&self) -> &[(u64, Resource)] {
        &self.left
    }

    fn append(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(|e| Error::Ledger {
            path: self.path.clone(),
            line: 0,
            why: e.to_string(),
        })?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).doing("writing the ledger", &self.path)?;
        self.file.sync_data().doing("writing the ledger", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Resource {
        Resource::File { path: PathBuf::from(name) }
    }

    #[test]
    fn what_was_struck_out_is_gone_and_the_rest_keeps_its_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.about_to_make(file("a")).unwrap();
        let b = ledger.about_to_make(file("b")).unwrap();
        ledger.about_to_make(file("c")).unwrap();
        ledger.is_gone(b).unwrap();
        drop(ledger);
        let mut again = Ledger::open(&path).unwrap();
        let names: Vec<_> = again.left().iter().map(|(_, t)| t.clone()).collect();
        assert_eq!(names, [file("a"), file("c")]);
        let d = again.about_to_make(file("d")).unwrap();
        assert!(again.left().iter().filter(|(id, _)| *id == d).count() == 1, "an id is used once");
    }

    #[test]
    fn a_line_that_was_cut_short_was_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.about_to_make(file("a")).unwrap();
        drop(ledger);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str(r#"{"made":{"id":1,"thi"#);
        std::fs::write(&path, text).unwrap();
        let mut again = Ledger::open(&path).unwrap();
        assert_eq!(again.left().len(), 1);
        again.about_to_make(file("b")).unwrap();
        drop(again);
        assert_eq!(
            Ledger::open(&path).unwrap().left().len(),
            2,
            "the next line does not stick to the cut one"
        );
    }

    #[test]
    fn a_damaged_line_is_named() {
        assert_eq!(parse("{\"gone\":1}\nrubbish\n{\"gone\":2}\n").unwrap_err().0, 2);
    }

    #[test]
    fn two_runs_do_not_share_a_work_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let _held = Ledger::open(&path).unwrap();
        assert!(matches!(Ledger::open(&path), Err(Error::InUse { .. })));
    }

    #[test]
    fn processes_end_first_then_mounts_before_their_loops_and_files() {
        let token = Resource::Token { token: "t".into() };
        let mount = Resource::Mount { at: "m".into() };
        let looped = Resource::Loop { backing: "f".into() };
        let osd = Resource::Process { name: "osd.0".into(), pid: 7, start: 9 };
        let disk = Resource::Modelled { at: "d".into(), token: "u".into() };
        let made = [token.clone(), file("f"), disk.clone(), looped.clone(), mount.clone(), osd.clone()];
        let left = made.into_iter().enumerate().map(|(i, t)| (i as u64, t)).collect();
        let order: Vec<Resource> = undo_order(left).into_iter().map(|(_, t)| t).collect();
        assert_eq!(order, [osd, token, mount, looped, disk, file("f")]);
    }

    #[test]
    fn when_all_is_gone_the_file_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = Ledger::open(&path).unwrap();
        let a = ledger.about_to_make(file("a")).unwrap();
        ledger.is_gone(a).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        ledger.about_to_make(file("b")).unwrap();
        drop(ledger);
        assert_eq!(Ledger::open(&path).unwrap().left().len(), 1);
    }
}
