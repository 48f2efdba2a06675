//! A model's own figures: what a program that keeps a number of requests in flight would see on it.

use std::collections::{BTreeMap, BTreeSet};

use types::SplitMix64;

use crate::{Model, Nanos, Op, Request};

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
    /// A flush after every so many requests, as one of those in flight; 0 is none.
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
    pub bytes_per_second: f64,
    /// Mean time from a request to its completion, without flushes.
    pub mean: Nanos,
    /// Half are as fast or faster.
    pub p50: Nanos,
    /// 99 of 100 are.
    pub p99: Nanos,
    /// 999 of 1000 are.
    pub p999: Nanos,
    /// The slowest.
    pub max: Nanos,
    /// Mean time of a flush; 0 without flushes.
    pub flush_mean: Nanos,
}

/// Runs a pattern against a model. The model should be new: its time starts at 0.
pub fn measure(model: &mut Model, pattern: &Pattern) -> Figures {
    let mut program = Program::new(*pattern, model.size_bytes());
    let end = pattern.warm_up + pattern.time;
    let (mut latencies, mut flushes) = (Vec::new(), Vec::new());
    loop {
        // What the model finishes at a time comes before what the program asks at it.
        let next = [model.next_event(), program.wakes.first().map(|wake| wake.0)];
        let Some(now) = next.into_iter().flatten().min().filter(|now| *now <= end) else { break };
        for done in model.complete(now) {
            program.wakes.insert((done.at + pattern.think, done.id));
            let Some((asked, flush)) = program.asked.remove(&done.id) else { continue };
            if done.at > pattern.warm_up {
                if flush { &mut flushes } else { &mut latencies }.push(done.at - asked);
            }
        }
        while let Some((_, slot)) = program.wakes.first().copied().filter(|wake| wake.0 <= now) {
            program.wakes.pop_first();
            let request = program.next();
            program.asked.insert(slot, (now, request.op == Op::Flush));
            model.arrive(now, slot, request);
        }
    }
    summary(latencies, &flushes, pattern)
}

/// The program's side.
struct Program {
    pattern: Pattern,
    blocks: u64,
    sent: u64,
    since_flush: u32,
    random: SplitMix64,
    /// When each idle slot asks next.
    wakes: BTreeSet<(Nanos, u64)>,
    /// When each busy slot asked, and whether for a flush.
    asked: BTreeMap<u64, (Nanos, bool)>,
}

impl Program {
    fn new(pattern: Pattern, size_bytes: u64) -> Self {
        let span = if pattern.span_bytes == 0 { size_bytes } else { pattern.span_bytes.min(size_bytes) };
        Self {
            pattern,
            blocks: (span / pattern.block_bytes.max(1)).max(1),
            sent: 0,
            since_flush: 0,
            random: SplitMix64::new(pattern.seed),
            wakes: (0..u64::from(pattern.depth.max(1))).map(|slot| (0, slot)).collect(),
            asked: BTreeMap::new(),
        }
    }

    fn next(&mut self) -> Request {
        if self.pattern.flush_every > 0 && self.since_flush == self.pattern.flush_every {
            self.since_flush = 0;
            return Request::flush();
        }
        self.since_flush += 1;
        let block = match self.pattern.order {
            Order::Sequential => self.sent % self.blocks,
            Order::Random => self.random.below(self.blocks),
        };
        self.sent += 1;
        let (offset, length) = (block * self.pattern.block_bytes, self.pattern.block_bytes);
        Request { op: self.pattern.op, offset, length, fua: false }
    }
}

fn summary(mut latencies: Vec<Nanos>, flushes: &[Nanos], pattern: &Pattern) -> Figures {
    latencies.sort_unstable();
    let n = latencies.len();
    let mean = |all: &[Nanos]| all.iter().sum::<u64>() / all.len().max(1) as u64;
    // The smallest that so many of a thousand don't exceed.
    let quantile =
        |of_1000: usize| latencies.get((n * of_1000).div_ceil(1000).max(1) - 1).copied().unwrap_or(0);
    let iops = n as f64 * 1e9 / pattern.time.max(1) as f64;
    Figures {
        requests: n as u64,
        iops,
        bytes_per_second: iops * pattern.block_bytes as f64,
        mean: mean(&latencies),
        p50: quantile(500),
        p99: quantile(990),
        p999: quantile(999),
        max: latencies.last().copied().unwrap_or(0),
        flush_mean: mean(flushes),
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
        warm_up: 5 * SECOND,
        time: 20 * SECOND,
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
