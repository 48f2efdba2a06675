//! What came of an instance's operations. Pure.

use std::collections::BTreeMap;

use telemetry::Histogram;

use crate::plan::Kind;

/// Operations of a kind that succeeded.
#[derive(Clone, Default, Debug)]
pub(crate) struct Done {
    pub latency: Histogram,
    pub bytes: u64,
}

/// All of a run.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tally {
    pub reads: Done,
    pub writes: Done,
    /// By result.
    pub errors: BTreeMap<i32, u64>,
    /// Reads that brought other bytes than were written.
    pub mismatches: u64,
    /// Operations of an open loop that were planned and never begun.
    pub never_begun: u64,
}

/// What ended within a second, or less at the run's end.
#[derive(Clone, Default, Debug)]
pub(crate) struct Interval {
    pub second: u32,
    /// Its length.
    pub seconds: f64,
    pub operations: u64,
    pub bytes: u64,
    /// At its end.
    pub in_flight: u64,
    pub latency: Histogram,
}

impl Done {
    fn add(&mut self, nanos: u64, bytes: u64) {
        self.latency.add(nanos);
        self.bytes += bytes;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.latency += &other.latency;
        self.bytes += other.bytes;
    }
}

impl Tally {
    pub(crate) fn add(&mut self, kind: Kind, nanos: u64, bytes: u64) {
        match kind {
            Kind::Read => self.reads.add(nanos, bytes),
            Kind::Write => self.writes.add(nanos, bytes),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        other.errors.iter().for_each(|(code, count)| *self.errors.entry(*code).or_default() += count);
        self.mismatches += other.mismatches;
        self.never_begun += other.never_begun;
    }

    /// Both kinds together.
    pub(crate) fn all(&self) -> Done {
        let mut all = self.reads.clone();
        all.merge(&self.writes);
        all
    }
}

impl Interval {
    pub(crate) fn add(&mut self, nanos: u64, bytes: u64) {
        self.operations += 1;
        self.bytes += bytes;
        self.latency.add(nanos);
    }

    /// Adds the same second of another instance.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.in_flight += other.in_flight;
        self.latency += &other.latency;
    }
}
