//! The simulator: a monitor, OSDs on simulated stores and clients in one process, on virtual time and a simulated
//! network, with faults, all decided by one seed.
//!
//! A run has a safety phase, in which faults of every kind meet a load, and a liveness phase, in which everything is
//! healed and every request has to end. What clients saw is then checked ([`checks`], [`linear`]): acknowledged changes
//! last, nothing takes effect twice or half, each object is linearizable, fenced clients stay fenced. The same seed
//! gives the same trace.
//!
//! Everything that a real cluster's processes exchange crosses as bytes. The daemons are driven through
//! [`node::Node`], in `daemons` alone.
#![allow(clippy::unwrap_used)] // The world is the simulator's own: what it lacks is a defect of the simulator.

mod block_store;
pub mod checks;
mod client;
mod copies;
mod daemons;
mod describe;
mod faults;
mod fences;
pub mod history;
mod images;
pub mod linear;
mod listings;
pub mod model;
mod network;
mod notes;
mod peers;
pub mod plan;
mod snaps;
mod store_handle;
mod trace;
mod workload;
mod world;

pub use plan::Plan;
pub use trace::Trace;
pub use world::{Counts, Failure, Report, run};

/// A process of the simulated cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    Mon,
    Osd(i32),
    Client(usize),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mon => f.write_str("mon"),
            Self::Osd(id) => write!(f, "osd.{id}"),
            Self::Client(index) => write!(f, "client{index}"),
        }
    }
}
