//! Random histories beside a plain model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use types::SplitMix64;

use super::{fresh, open};
use crate::conformance::factory::Factory;
use crate::conformance::harness::{Harness, Outcome, read, write};
use crate::conformance::shadow::{REGION_BYTES, Shadow, read_region};
use crate::{DeviceId, DeviceQueue, Durability, Op, Token};

enum Pending {
    Read(Range<u64>),
    Write(u64, Range<u64>, Durability),
    Discard(u64, Range<u64>),
    Flush(BTreeSet<u64>),
}

/// Requests on some queues of one device, of which none in flight overlap unless both are reads.
struct History {
    device: DeviceId,
    shadow: Shadow,
    random: SplitMix64,
    /// By queue.
    pending: Vec<BTreeMap<Token, Pending>>,
    /// What is about to be submitted.
    batch: Vec<Pending>,
}

impl History {
    fn free(&self, range: &Range<u64>, only_reads: bool) -> bool {
        let clash = |p: &Pending| match p {
            Pending::Flush(_) => false,
            Pending::Read(r) => !only_reads && r.start < range.end && range.start < r.end,
            Pending::Write(_, r, _) | Pending::Discard(_, r) => r.start < range.end && range.start < r.end,
        };
        !self.pending.iter().flat_map(BTreeMap::values).chain(&self.batch).any(clash)
    }

    /// One more request, on a queue; `None` if the one that was drawn would meet another.
    fn draw(&mut self, block: u64, most: u64) -> Option<(Op, Pending)> {
        let longest = if self.random.one_in(4) { most / block } else { 4.min(most / block) };
        let len = block * (1 + self.random.below(longest));
        let offset = block * self.random.below((REGION_BYTES - len) / block + 1);
        let range = offset..offset + len;
        let kind = self.random.below(20);
        if kind < 2 {
            return Some((Op::Flush, Pending::Flush(self.shadow.covered())));
        }
        if !self.free(&range, kind < 8) {
            return None;
        }
        Some(match kind {
            2..8 => (read(offset, len as usize), Pending::Read(range)),
            8..18 => {
                let durable = self.random.one_in(4);
                let durability = if durable { Durability::Durable } else { Durability::Volatile };
                let (number, bytes) = self.shadow.begin_write(range.clone());
                (write(offset, &bytes, durability), Pending::Write(number, range, durability))
            }
            _ => {
                let number = self.shadow.begin_discard(range.clone());
                (Op::Discard { offset, len }, Pending::Discard(number, range))
            }
        })
    }

    fn completed(&mut self, queue: usize, token: Token, outcome: Outcome) {
        let bytes = outcome.unwrap_or_else(|e| panic!("no fault was injected: {e}"));
        match self.pending[queue].remove(&token).expect("a request of this history") {
            Pending::Read(range) => self.shadow.check(range.start, &bytes),
            Pending::Write(number, range, durability) => self.shadow.end(number, range, durability),
            Pending::Discard(number, range) => self.shadow.end(number, range, Durability::Volatile),
            Pending::Flush(covered) => self.shadow.flushed(&covered),
        }
    }

    /// Some bursts on all the queues; `drain`: until nothing is in flight.
    fn run<Q: DeviceQueue>(&mut self, queues: &mut [Harness<Q>], bursts: u64, drain: bool) {
        let geometry = queues[0].geometry(self.device);
        let (block, most) = (u64::from(geometry.block_bytes), (64 << 10).min(geometry.request_bytes_max));
        self.pending.resize_with(queues.len(), BTreeMap::new);
        for _ in 0..bursts {
            let queue = self.random.below(queues.len() as u64) as usize;
            let h = &mut queues[queue];
            let mut batch = Vec::new();
            for _ in 0..1 + self.random.below(12) {
                let Some((op, pending)) = self.draw(block, most) else { continue };
                self.batch.push(pending);
                batch.push((self.device, op));
            }
            let tokens = h.submit(batch);
            self.pending[queue].extend(tokens.into_iter().zip(self.batch.drain(..)));
            if self.random.one_in(2) && h.in_flight() > 0 {
                h.wait_for_some();
            }
            self.take_done(queues);
        }
        while drain && queues.iter().any(|h| h.in_flight() > 0) {
            queues.iter_mut().filter(|h| h.in_flight() > 0).for_each(Harness::wait_for_some);
            self.take_done(queues);
        }
    }

    fn take_done<Q: DeviceQueue>(&mut self, queues: &mut [Harness<Q>]) {
        for (queue, h) in queues.iter_mut().enumerate() {
            for (token, outcome) in h.take_done() {
                self.completed(queue, token, outcome);
            }
        }
    }
}

pub fn random_histories_equal_the_model<F: Factory>(factory: &mut F) {
    for seed in 0..6 {
        let (mut h, _) = fresh(factory, 6000 + seed);
        let devices = factory.devices();
        let device = devices[seed as usize % devices.len()];
        let shadow = Shadow::new(&mut h, device);
        let mut history =
            History { device, shadow, random: SplitMix64::new(seed), pending: Vec::new(), batch: Vec::new() };
        let mut queues = vec![h, open(factory)];
        history.run(&mut queues, 120, true);
        let seen = read_region(&mut queues[0], device);
        history.shadow.check(0, &seen);
        queues.into_iter().for_each(Harness::finish);
    }
}

pub fn random_histories_survive_power_losses<F: Factory>(factory: &mut F) {
    for seed in 0..4 {
        let (mut h, _) = fresh(factory, 6100 + seed);
        let devices = factory.devices();
        let device = devices[seed as usize % devices.len()];
        let shadow = Shadow::new(&mut h, device);
        let mut history = History {
            device,
            shadow,
            random: SplitMix64::new(100 + seed),
            pending: Vec::new(),
            batch: Vec::new(),
        };
        for loss in 0..8 {
            let mut queues = vec![h, open(factory)];
            let bursts = 5 + history.random.below(40);
            history.run(&mut queues, bursts, loss % 3 == 0);
            factory.power_loss(10 * seed + loss);
            drop(queues);
            history.pending.clear();
            h = open(factory);
            history.shadow.check_after_power_loss(&mut h);
        }
        h.finish();
    }
}
