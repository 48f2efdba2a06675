//! What is to be done, checked.

use core::time::Duration;

/// A kind of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// New objects, one after the other.
    Write,
    /// The objects of an earlier run, in order, once.
    Seq,
    /// Blocks of an earlier run's objects, at random.
    Rand,
    /// Blocks within large objects, at random, of which so many of a hundred operations are reads.
    Mixed { reads_percent: u32 },
}

impl Mode {
    pub(crate) const NAMES: [&'static str; 6] = ["write", "seq", "rand", "randwrite", "mixed", "cleanup"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Seq => "seq",
            Self::Rand => "rand",
            Self::Mixed { reads_percent: 0 } => "randwrite",
            Self::Mixed { .. } => "mixed",
        }
    }

    /// Whether it reads what an earlier run has written.
    pub(crate) fn needs_record(self) -> bool {
        matches!(self, Self::Seq | Self::Rand)
    }
}

/// When operations are planned.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Arrivals {
    /// As many as are to be in flight, and the next as soon as one has ended (a closed loop).
    AsOneEnds,
    /// So many a second, evenly, however long each takes (an open loop). The time of an operation counts from its
    /// planned start.
    Even { per_second: f64 },
    /// The same on average, with gaps that are exponentially distributed.
    Poisson { per_second: f64 },
}

impl Arrivals {
    pub(crate) fn rate(self) -> Option<f64> {
        match self {
            Self::AsOneEnds => None,
            Self::Even { per_second } | Self::Poisson { per_second } => Some(per_second),
        }
    }
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub mode: Mode,
    pub duration: Duration,
    /// One or more; instance i has the pool i modulo their count.
    pub pools: Vec<String>,
    pub instances: usize,
    /// `None` in a mode that reads: what was written.
    pub block_size: Option<u64>,
    /// A multiple of the block's. `None` likewise.
    pub object_size: Option<u64>,
    /// At most so many of an instance at once.
    pub in_flight: usize,
    pub arrivals: Arrivals,
    /// Objects of an instance: at most so many (write), exactly so many (mixed).
    pub objects: Option<u64>,
    /// Of a hundred bytes written, so many are zeros.
    pub compressible_percent: u32,
    pub run_name: Option<String>,
    pub cleans_up: bool,
    pub verifies: bool,
    /// Whether writes carry the hints about sizes that `rados bench` gives.
    pub hints: bool,
    pub seed: u64,
}
