//! A model's own figures: what a program that keeps a number of requests in flight would see on it.

use crate::{Model, Nanos, Op};

/// Where successive requests go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// One behind the other, from the start again at the end.
    Sequential,
    /// Anywhere within the span, on multiples of the block.
    Random,
}

/// What the program does: as fio with `ramp_time`, `runtime`, `iodepth`, `bs`, `fsync` and `size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Read or write.
    pub op: Op,
    /// Where requests go.
    pub order: Order,
    /// Bytes a request.
    pub block_bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// A flush after every so many requests, when those before it are done; 0 is none.
    pub flush_every: u32,
    /// Bytes of the device that are used, from its start; 0 is all of it.
    pub span_bytes: u64,
    /// What the program itself takes between a completion and its next request.
    pub think: Nanos,
    /// How long it runs before anything counts.
    pub warm_up: Nanos,
    /// How long it is measured.
    pub time: Nanos,
    /// Chooses the random offsets.
    pub seed: u64,
}

/// What the program sees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Requests completed, flushes apart.
    pub requests: u64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Mean time from a request to its completion, without flushes.
    pub mean: Nanos,
    /// Half are faster.
    pub p50: Nanos,
    /// 99 of 100 are faster.
    pub p99: Nanos,
    /// 999 of 1000 are faster.
    pub p999: Nanos,
    /// The slowest.
    pub max: Nanos,
    /// Mean time of a flush; 0 without flushes.
    pub flush_mean: Nanos,
}

/// Runs a pattern against a model.
pub fn measure(_model: &mut Model, _pattern: &Pattern) -> Figures {
    Figures {
        requests: 0,
        iops: 0.0,
        bytes_per_second: 0.0,
        mean: 0,
        p50: 0,
        p99: 0,
        p999: 0,
        max: 0,
        flush_mean: 0,
    }
}

/// The patterns that models and shells are compared by, with their names: sequential and random, reads and writes, at
/// depth 1 and 32, and writes with a flush each.
pub fn standard_patterns() -> Vec<(&'static str, Pattern)> {
    const SECOND: Nanos = 1_000_000_000;
    let base = Pattern {
        op: Op::Read,
        order: Order::Random,
        block_bytes: 4096,
        depth: 1,
        flush_every: 0,
        span_bytes: 0,
        think: 0,
        warm_up: 2 * SECOND,
        time: 10 * SECOND,
        seed: 1,
    };
    let sequential = Pattern { order: Order::Sequential, block_bytes: 1 << 20, ..base };
    vec![
        ("sequential-read", sequential),
        ("sequential-write", Pattern { op: Op::Write, ..sequential }),
        ("random-read", base),
        ("random-read-32", Pattern { depth: 32, ..base }),
        ("random-write", Pattern { op: Op::Write, ..base }),
        ("random-write-32", Pattern { op: Op::Write, depth: 32, ..base }),
        ("random-write-flush", Pattern { op: Op::Write, flush_every: 1, ..base }),
    ]
}
