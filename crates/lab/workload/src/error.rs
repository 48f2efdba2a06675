//! What can go wrong, each with whose fault it is and what to do next.

use std::io;
use std::path::PathBuf;

/// Why a load could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the caller gave does not fit the load.
    #[error("{what}")]
    Impossible {
        /// A sentence that names it.
        what: String,
    },
    /// A program can't be started.
    #[error("{program} can't be started: {source}; {remedy}")]
    Start {
        /// Its name.
        program: String,
        /// The system's word.
        source: io::Error,
        /// What to do, as `apt-get install fio`.
        remedy: String,
    },
    /// A program failed: the cluster's fault, or that of the study's command.
    #[error("{what} failed ({status}): {output}")]
    Failed {
        /// The program and its instance.
        what: String,
        /// How it ended.
        status: String,
        /// Its last words.
        output: String,
    },
    /// A program did not end in time: the cluster hangs, or the bound is too tight.
    #[error("{what} took more than {seconds} s and was ended: {output}")]
    Late {
        /// The program and its instance.
        what: String,
        /// The bound.
        seconds: u64,
        /// Its last words.
        output: String,
    },
    /// A program ended well, but its output is not what is known of it: its release is unknown to the lab.
    #[error("the output of {what} can't be read: {why}; it is kept in {path}")]
    Output {
        /// The program and its instance.
        what: String,
        /// What is missing or wrong.
        why: String,
        /// Where the whole of it is.
        path: PathBuf,
    },
    /// The load ended well without a single operation.
    #[error("{what} completed no operation: the cluster hangs, or is too slow for the length of the phase")]
    Nothing {
        /// The phase.
        what: String,
    },
    /// The caller's own step between phases failed.
    #[error("before the phase {phase}: {why}")]
    Between {
        /// The phase that did not begin.
        phase: String,
        /// The caller's words.
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
pub(crate) type Result<T> = std::result::Result<T, Error>;
