//! `loligo bench`: puts load on a pool of any Ceph cluster and measures it.
//!
//! The pure parts are `content` (what an object's bytes are), `plan` (which operation is next), `pace` (when it is due)
//! and `tally` (what came of it). An instance (`instance`) is a thread with a `client::Client` that runs a plan; the main
//! thread (`run`) starts the instances together, prints their progress and adds their tallies up (`report`).
//!
//! Objects have the names that `rados bench` gives them, and its record of a run (`record`), so that each program reads
//! and removes what the other wrote; a run under way has a mark of its own besides (`unfinished`).

mod args;
mod cleanup;
mod content;
mod error;
mod instance;
mod load;
mod names;
mod pace;
mod plan;
mod record;
mod report;
mod run;
mod session;
mod spec;
mod tally;
mod unfinished;

pub use args::BenchArgs;
pub use run::main;
