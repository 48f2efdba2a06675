//! The work directory of a run: where everything lies in it, and its ledger. Makes things only after writing them down.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;

use modelled::TransportOverhead;

use crate::error::{Doing, Error, Result};
use crate::ledger::{Ledger, Resource};
use crate::run::{Runner, Stop};

/// Paths below the work directory.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// The work directory itself, absolute.
    pub(crate) root: PathBuf,
}

impl Paths {
    pub(crate) fn ledger(&self) -> PathBuf {
        self.root.join("ledger.jsonl")
    }
    pub(crate) fn conf(&self) -> PathBuf {
        self.root.join("ceph.conf")
    }
    pub(crate) fn keyring(&self) -> PathBuf {
        self.root.join("keyring")
    }
    /// Logs; they stay until the next cluster of this work directory starts.
    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("log")
    }
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }
    /// What a program itself said, beside its log.
    pub(crate) fn out(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.out"))
    }
    /// Servers' own directories, or mounts for them, by server; journals by `journal.N`.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.root.join("data").join(name)
    }
    /// Where a modelled disk is mounted.
    pub(crate) fn modelled(&self, name: &str) -> PathBuf {
        self.root.join("modelled").join(name)
    }
    /// Files below loop devices, and images.
    pub(crate) fn image(&self, name: &str) -> PathBuf {
        self.root.join("images").join(name)
    }
    /// What servers keep while they run.
    pub(crate) fn run(&self) -> PathBuf {
        self.root.join("run")
    }
    /// The admin socket of a server: Unix sockets' paths are short.
    pub(crate) fn socket(&self, name: &str) -> Option<PathBuf> {
        /// Bytes that a Unix socket's path may have, with its end.
        const MAX: usize = 108;
        let path = self.run().join(format!("{name}.asok"));
        (path.as_os_str().len() < MAX).then_some(path)
    }
}

/// The work directory with its ledger.
#[derive(Debug)]
pub(crate) struct WorkDir {
    pub(crate) paths: Paths,
    pub(crate) ledger: Ledger,
    pub(crate) runner: Runner,
    /// Sentences for the user.
    pub(crate) notes: Vec<String>,
    /// Processes of modelled disks, to be collected when they have ended.
    pub(crate) disks: Vec<Child>,
    /// The transport overhead of modelled disks, once it was measured.
    pub(crate) overhead: Option<TransportOverhead>,
}

impl WorkDir {
    /// Opens a work directory; an absent one is made.
    pub(crate) fn open(work_dir: &Path, stop: Stop) -> Result<Self> {
        fs::create_dir_all(work_dir).doing("making the work directory", work_dir)?;
        let root = fs::canonicalize(work_dir).doing("finding", work_dir)?;
        check_path(&root)?;
        let paths = Paths { root };
        let ledger = Ledger::open(&paths.ledger())?;
        let runner = Runner { stop, token: None };
        Ok(Self { paths, ledger, runner, notes: Vec::new(), disks: Vec::new(), overhead: None })
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Makes a directory that isn't there, and those above it.
    pub(crate) fn make_dir(&mut self, path: &Path) -> Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_dir(parent)?;
        }
        self.ledger.about_to_make(Resource::Directory { path: path.to_owned() })?;
        fs::create_dir(path).doing("making the directory", path)
    }

    /// Makes a sparse file of `size` bytes.
    pub(crate) fn make_file(&mut self, path: &Path, size: u64) -> Result<()> {
        if let Some(parent) = path.parent() {
            self.make_dir(parent)?;
        }
        self.ledger.about_to_make(Resource::File { path: path.to_owned() })?;
        let file = File::create(path).doing("making the file", path)?;
        file.set_len(size).doing("sizing the file", path)
    }

    /// Collects processes of modelled disks that have ended.
    pub(crate) fn reap(&mut self) {
        // Whoever still runs is not waited for: the ledger has it.
        self.disks.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }

    /// Makes a file with a text.
    pub(crate) fn write_file(&mut self, path: &Path, text: &str) -> Result<()> {
        self.ledger.about_to_make(Resource::File { path: path.to_owned() })?;
        fs::write(path, text).doing("writing", path)
    }
}

/// A path must reach ceph.conf and Ceph's programs as it is: `$` stands for variables there, `#` and `;` begin
/// comments, and the programs' own lists are split at blanks and commas.
pub(crate) fn check_path(path: &Path) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:".contains(c);
    let refuse = |why: &str| Err(Error::WorkDir { path: path.to_owned(), why: why.to_owned() });
    match path.to_str() {
        Some(text) if text.chars().all(plain) => {}
        _ => {
            return refuse(
                "its path may only have letters, digits and /._-+@: (it is written into ceph.conf)",
            );
        }
    }
    if path.parent().is_none() {
        return refuse("it is the root directory");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_ceph_conf_would_misread_is_refused() {
        assert!(check_path(Path::new("/tmp/lab-1/x.y")).is_ok());
        for bad in ["/tmp/a b", "/tmp/$id", "/tmp/a#b", "/tmp/ü", "/"] {
            assert!(check_path(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_thing_stands_in_the_ledger_and_an_existing_directory_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut work_dir = WorkDir::open(dir.path(), Stop::default()).unwrap();
        let path = work_dir.paths.image("osd.0");
        work_dir.make_file(&path, 1 << 20).unwrap();
        work_dir.make_dir(&work_dir.paths.root.clone()).unwrap();
        assert_eq!(work_dir.ledger.left().len(), 2, "the file and the directory that holds it");
        work_dir.make_dir(&work_dir.paths.data("osd.0")).unwrap();
        assert_eq!(work_dir.ledger.left().len(), 4, "the directory and the one above it");
        assert_eq!(fs::metadata(path).unwrap().len(), 1 << 20);
    }
}
