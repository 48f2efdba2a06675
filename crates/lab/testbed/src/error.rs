//! What can go wrong, each with whose fault it is and what to do next.

use std::io;
use std::path::PathBuf;

/// Why a cluster could not be made or taken down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The study asks for something that isn't built yet.
    #[error("not yet: {what}")]
    NotYet { what: String },
    /// This machine can't do a part of the study; what it is left out of the run with.
    #[error("not here: {what}")]
    NotHere {
        /// A sentence that names it and what to do.
        what: String,
    },
    /// The study asks for something that can't be.
    #[error("{what}")]
    Impossible {
        /// A sentence that names it and what can be instead.
        what: String,
    },
    /// There can be no modelled disks here.
    #[error(transparent)]
    Modelled(#[from] modelled::Error),
    /// The work directory can't be used.
    #[error("the work directory {path} can't be used: {why}")]
    WorkDir {
        /// The directory.
        path: PathBuf,
        why: String,
    },
    /// Another run uses the work directory.
    #[error("another run uses {path}; wait for it or give this one another work directory")]
    InUse {
        /// The work directory.
        path: PathBuf,
    },
    /// A program is missing.
    #[error("{program} was not found {place}: {remedy}")]
    Missing {
        /// Its name or path.
        program: String,
        /// `on this machine`, `in the root ...`.
        place: String,
        /// What to do, as `apt-get install btrfs-progs`.
        remedy: String,
    },
    /// A root directory of a newer release is missing.
    #[error(
        "no finished root of Ceph {release} was found (looked in {looked}); \
         tests/peers/peer-root.sh {release} makes one, or set LOLIGO_PEERS to the directory that has it"
    )]
    NoPeer {
        release: String,
        /// Directories, separated by commas.
        looked: String,
    },
    /// What is installed is another release.
    #[error("the study needs Ceph {wanted}, but '{found}' is installed")]
    WrongRelease {
        /// As in the study.
        wanted: String,
        /// The program's words.
        found: String,
    },
    /// Root's rights are needed.
    #[error("{what} needs root; run the lab as root, or give the system a directory or an image")]
    NotRoot {
        /// The step.
        what: String,
    },
    /// Too little space.
    #[error("{what} need {needed}, {path} has {free} free; make the sizes smaller or use another directory")]
    Space {
        /// What is to be made.
        what: String,
        /// Needed, in words.
        needed: String,
        /// Where.
        path: PathBuf,
        /// Free, in words.
        free: String,
    },
    /// A device is refused.
    #[error("the device {path} is not touched: {why}")]
    Device {
        /// The device.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A setting can't be written.
    #[error("line {line}: the option {name} {why}")]
    Setting {
        /// In the study file.
        line: u32,
        /// As written.
        name: String,
        why: String,
    },
    /// A program failed.
    #[error("{what} failed ({status}): {output}")]
    Failed {
        /// The step.
        what: String,
        /// How it ended.
        status: String,
        /// Its last words.
        output: String,
    },
    /// A program did not end in time.
    #[error("{what} took more than {seconds} s and was ended: {output}")]
    Late {
        /// The step.
        what: String,
        /// The bound.
        seconds: u64,
        /// Its last words.
        output: String,
    },
    /// A part of the cluster did not come up.
    #[error("{what} did not come up within {seconds} s; the last lines of its log: {output}")]
    NotUp {
        /// The part.
        what: String,
        /// The bound.
        seconds: u64,
        /// The last lines of its log.
        output: String,
    },
    /// A server ended by itself.
    #[error("{name} ended by itself ({status}); the last lines of its log: {output}")]
    Ended {
        /// The server.
        name: String,
        /// How.
        status: String,
        /// The last lines of its log.
        output: String,
    },
    /// An answer of a cluster can't be read.
    #[error("the answer to '{command}' can't be read: {why}")]
    Answer {
        command: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something can't be undone.
    #[error("{what} could not be undone: {why}")]
    Stays {
        /// What is left.
        what: String,
        /// Why, and what to do.
        why: String,
    },
    /// The ledger is damaged.
    #[error(
        "line {line} of {path} is damaged ({why}); look for leftovers \
         (losetup -a, mount, ps) and remove the file"
    )]
    Ledger {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        why: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// The system refused something.
    #[error("{doing} {path}: {source}")]
    Io {
        /// The step, as `making the directory`.
        doing: &'static str,
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

/// What this crate's functions give.
pub type Result<T> = std::result::Result<T, Error>;

/// Names the step and the path of an I/O error.
pub(crate) trait Doing<T> {
    /// As `std::fs::write(..).doing("writing", path)`.
    fn doing(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|e| Error::Io { doing, path: path.into(), source: e.into() })
    }
}
