//! Loads on a cluster, by programs that are clients of it; what they say of themselves as numbers. Never starts a
//! server, makes no pool and judges nothing.
//!
//! [`run`] takes a load of a study and a [`Cluster`], and gives a [`PhaseResult`] for each phase. On the way it tells
//! an [`Observer`] where phases begin and end (to watch the machine, to drop caches) and every second's sample.
//!
//! ```text
//! run --> rados   one `rados bench` an instance   --+
//!     --> fio     one `fio` an instance             +--> together   starts, reads, bounds and ends programs
//!     --> command the user's shell text           --+
//! hosts                       where an instance runs: here, or on a host over ssh
//! rados::live, fio::document  a program's text -> Progress     (pure)
//! timeline                    Progress of all instances -> one Sample a second (pure)
//! ladder                      results so far -> next depth or rate (pure)
//! climb                       a phase whose steps the ladder decides
//! ```
//!
//! **A phase ends for all instances together.** Its operations are those of all instances, its `seconds` those of the
//! instance that took longest. Instances begin and end some tens of milliseconds apart, later ones alone on the
//! cluster for that long: throughput reads too low by about that share of the phase (0.1 s of 10 s: 1%), and too high
//! never. A `seq` phase ends when every object was read once: it may be much shorter than asked, and with instances of
//! unequal speed the skew is larger. [`PhaseResult::instances`] keeps each one's own figures.

mod bench;
mod climb;
mod cluster;
mod command;
mod error;
pub mod fio;
mod hosts;
pub mod ladder;
mod phase;
pub mod rados;
mod run;
mod supervisor;
pub mod timeline;

pub use cluster::Cluster;
pub use error::Error;
pub use hosts::{Ssh, in_the_way};
pub use phase::{Clients, Instance, Observer, PhaseResult, Ran};
pub use run::{client_version, run};
