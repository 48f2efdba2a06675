//! What can go wrong, each with whose fault it is and what to do next.

use std::io;
use std::path::PathBuf;

/// Why something can't be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller named a device that the kernel has no figures of.
    #[error("the kernel has no statistics for a device {name} (known: {known})")]
    NoDevice {
        /// As given.
        name: String,
        /// Those it knows, separated by commas.
        known: String,
    },
    /// A file of the kernel's can't be read or is not as known.
    #[error("{path} can't be read: {why}")]
    Kernel {
        /// The file.
        path: &'static str,
        why: String,
    },
    /// The thread can't be started.
    #[error("the watching thread can't be started: {0}")]
    Thread(io::Error),
    /// A daemon's admin socket does not answer.
    #[error("the admin socket {path} does not answer: {source}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// There is no perf.
    #[error("perf can't be started ({0}): apt-get install linux-perf")]
    PerfMissing(io::Error),
    /// It may not, or can't.
    #[error("perf can't record here: {output}")]
    PerfRefused {
        /// Its words.
        output: String,
    },
    /// It does not end.
    #[error("perf did not end within {seconds} s")]
    PerfLate {
        /// The bound.
        seconds: u64,
    },
    /// The kernel's events are not to be seen.
    #[error("block device requests cannot be traced: {why}")]
    Events {
        /// Why, and what to do.
        why: String,
    },
    /// A file of the kernel's events can't be used.
    #[error("the kernel's events can't be used, {path}: {source}")]
    EventFile {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// A daemon's answer is no JSON.
    #[error("the perf counters of {daemon} can't be read: {why}")]
    Counters {
        daemon: String,
        /// What is wrong.
        why: String,
    },
}
