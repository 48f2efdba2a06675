//! Counts the instructions that an OSD on MemStore spends on a client's operation, from the request's bytes to the
//! reply's bytes, without sockets. Valgrind's callgrind counts them, so a busy machine changes nothing.
//!
//! The program runs itself under valgrind, once for each case. What it leaves out is the kernel and the shell around
//! the node: system calls and the event loop.

mod cases;
mod client;
mod cluster;
#[cfg(test)]
mod copies;
mod count;
mod maps;
mod server;

use std::process::ExitCode;

use cases::Case;

// The allocator of the `loligo` program.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// Why a count could not be taken, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HotpathError {
    #[error("the cluster under test: {0}")]
    Cluster(String),
    #[error("{0}; valgrind must be installed (Debian: apt-get install valgrind)")]
    Valgrind(String),
    #[error("{file}: {reason}")]
    File { file: String, reason: String },
    #[error("{0}")]
    Changed(String),
}

const USAGE: &str = "\
usage: hotpath print              count and print instructions per operation
       hotpath check FILE         count, and fail if a case is more than 5% off its number in FILE
       hotpath renew FILE         count, and write the numbers to FILE
       hotpath maps [PGS EPOCHS]  let an OSD of 16384 PGs go through 40 maps; the longest turns, by the clock
       hotpath run CASE           serve a case's operations without counting (what runs under valgrind)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["print"] => count::print(),
        ["check", file] => count::check(file),
        ["renew", file] => count::renew(file),
        ["maps"] => maps::run(maps::PGS, maps::EPOCHS),
        ["maps", pgs, epochs] => match (pgs.parse(), epochs.parse()) {
            (Ok(pgs), Ok(epochs)) => maps::run(pgs, epochs),
            _ => return usage(),
        },
        ["run", name] => match Case::by_name(name) {
            Some(case) => cases::run(case),
            None => return usage(),
        },
        _ => return usage(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotpath: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    let names: Vec<&str> = Case::ALL.iter().map(|case| case.name).collect();
    eprintln!("{USAGE}\ncases: {}", names.join(", "));
    ExitCode::from(2)
}
