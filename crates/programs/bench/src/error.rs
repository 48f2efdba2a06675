//! Why there is nothing to measure.

use client::ClientError;
use types::Errno;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the monitor refuses this client: {0} (--id and --keyring say as whom and with which key)")]
    Denied(String),
    #[error("no monitor answered within {seconds} s{why}")]
    NoMonitor { seconds: u64, why: String },
    #[error("pool '{name}' does not exist; {pools}")]
    NoPool { name: String, pools: String },
    #[error("{what} of pool '{pool}': {why}")]
    Request { what: String, pool: String, why: String },
    #[error(
        "pool '{pool}' has no objects of a bench to read ({record} does not exist); write some first: loligo bench -p {pool} 10 write --no-cleanup{run_name}"
    )]
    NoRecord { pool: String, record: String, run_name: String },
    #[error("'{record}' of pool '{pool}' is not the record of a bench: {why}")]
    BadRecord { pool: String, record: String, why: String },
    #[error("interrupted before the measurement began")]
    Interrupted,
    #[error(
        "interrupted while the objects were prepared; loligo bench cleanup -p {pool} --prefix {prefix} removes them"
    )]
    InterruptedFill { pool: String, prefix: String },
    #[error("{error}; objects are left: loligo bench cleanup -p {pool} --prefix {prefix} removes them")]
    FillLeft { error: Box<Self>, pool: String, prefix: String },
    #[error("a thread can't be started: {0}")]
    Thread(std::io::Error),
    #[error("the thread of instance {0} has panicked")]
    Panicked(usize),
    #[error("{0}: {1}")]
    Output(String, std::io::Error),
}

/// An error number in words: what it is in the error table, and what it means here.
pub(crate) fn errno_text(code: i32) -> String {
    let errno = Errno(code.saturating_neg());
    let meaning = match errno {
        Errno::ENOENT => "the object or its pool does not exist",
        Errno::ENOSPC => "the cluster or the pool is full",
        Errno::EDQUOT => "the pool's quota is reached",
        Errno::ETIMEDOUT => "no answer within the time limit (--timeout)",
        Errno::EIO => "the OSD could not read or write",
        Errno::EPERM => "this client may not do that",
        _ => return errno.to_string(),
    };
    format!("{errno} ({meaning})")
}
