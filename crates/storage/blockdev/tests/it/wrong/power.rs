//! Bytes that a power loss takes, or brings back.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use blockdev::sim::{SimDisks, SimQueue};
use blockdev::{Completion, DeviceId, DeviceQueue, Done, Durability, Geometry, Op, Request, Token};
use buffer::{PieceMut, Rope};
use types::UTime;

use super::bytes::BLOCK;
use super::{Flaw, OWN, poke};

/// Says that it has flushed.
#[derive(Default)]
pub struct FlushesNothing(Vec<(usize, Token)>);

impl Flaw for FlushesNothing {
    fn submit(&mut self, queue: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter_mut().filter(|r| matches!(r.op, Op::Flush)) {
            self.0.push((queue, request.token));
            request.op = Op::Read { offset: 0, buffer: PieceMut::zeroed(BLOCK as usize) };
        }
        inner.submit(now, requests);
    }

    fn completed(&mut self, queue: usize, done: &mut Vec<Completion>) {
        for completion in done {
            if let Some(at) = self.0.iter().position(|known| *known == (queue, completion.token)) {
                self.0.swap_remove(at);
                completion.result = Ok(Done::Flushed);
            }
        }
    }
}

/// Takes a durable write for any other.
pub fn writes_volatile(request: &mut Request) {
    if let Op::Write { durability, .. } = &mut request.op {
        *durability = Durability::Volatile;
    }
}

/// Says that its durable writes flush.
pub struct ClaimsToFlush;

impl Flaw for ClaimsToFlush {
    fn geometry(&self, geometry: Geometry) -> Geometry {
        Geometry { durable_flushes: true, ..geometry }
    }
}

/// A flush covers the writes of its own queue only.
#[derive(Default)]
pub struct FlushesItsQueue {
    disks: Option<SimDisks>,
    /// What was there before writes that their own queue has not flushed.
    before: Vec<(usize, DeviceId, u64, Vec<u8>)>,
}

impl Flaw for FlushesItsQueue {
    fn made(&mut self, disks: &SimDisks) {
        self.disks = Some(disks.clone());
    }

    fn submit(&mut self, queue: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        let disks = self.disks.as_ref().expect("the disks are made");
        for request in requests.iter() {
            match &request.op {
                Op::Write { offset, data, durability: Durability::Volatile } => {
                    let old = disks.durable(request.device, *offset, data.len());
                    self.before.push((queue, request.device, *offset, old));
                }
                Op::Flush => self.before.retain(|b| b.0 != queue),
                Op::Write { .. } | Op::Read { .. } | Op::Discard { .. } => {}
            }
        }
        inner.submit(now, requests);
    }

    fn after_power_loss(&mut self, disks: &SimDisks) {
        for (_, device, offset, old) in self.before.drain(..) {
            poke(disks, device, offset, &old);
        }
    }
}

/// Writes that are volatile come back over durable ones when the power is lost.
#[derive(Default)]
pub struct BringsBackTheOld {
    volatile: Vec<(DeviceId, u64, Rope)>,
    durable: Vec<(DeviceId, Range<u64>)>,
}

impl Flaw for BringsBackTheOld {
    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter() {
            match &request.op {
                Op::Write { offset, data, durability: Durability::Volatile } => {
                    self.volatile.push((request.device, *offset, data.clone()));
                }
                Op::Write { offset, data, durability: Durability::Durable } => {
                    self.durable.push((request.device, *offset..*offset + data.len() as u64));
                }
                Op::Flush => self.volatile.clear(),
                Op::Read { .. } | Op::Discard { .. } => {}
            }
        }
        inner.submit(now, requests);
    }

    fn after_power_loss(&mut self, disks: &SimDisks) {
        for (device, offset, data) in self.volatile.drain(..) {
            let end = offset + data.len() as u64;
            if self.durable.iter().any(|(d, r)| *d == device && r.start < end && offset < r.end) {
                poke(disks, device, offset, &data.to_vec());
            }
        }
    }
}

/// Tears a sector of the last volatile write: its first half is new, its second old.
#[derive(Default)]
pub struct TearsSectors {
    disks: Option<SimDisks>,
    last: Option<(DeviceId, u64, Vec<u8>)>,
}

impl Flaw for TearsSectors {
    fn made(&mut self, disks: &SimDisks) {
        self.disks = Some(disks.clone());
    }

    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        let disks = self.disks.as_ref().expect("the disks are made");
        for request in requests.iter() {
            if let Op::Write { offset, data, durability: Durability::Volatile } = &request.op {
                let mut torn = disks.durable(request.device, *offset, BLOCK as usize);
                torn[..256].copy_from_slice(&data.slice(0..256).to_vec());
                self.last = Some((request.device, *offset, torn));
            }
        }
        inner.submit(now, requests);
    }

    fn after_power_loss(&mut self, disks: &SimDisks) {
        if let Some((device, offset, torn)) = self.last.take() {
            poke(disks, device, offset, &torn);
        }
    }
}

/// Changes a sector that was never written since the last flush.
pub struct SpoilsANeighbour;

impl Flaw for SpoilsANeighbour {
    fn after_power_loss(&mut self, disks: &SimDisks) {
        disks.flip_bit(DeviceId::Data, (1 << 20) - 100, 3);
    }
}

/// A write that was lost with the power is done after the next loss.
#[derive(Default)]
pub struct DoesItLater {
    last: Option<(DeviceId, u64, Rope)>,
    losses: u32,
}

impl Flaw for DoesItLater {
    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter() {
            if let Op::Write { offset, data, durability: Durability::Volatile } = &request.op {
                self.last = Some((request.device, *offset, data.clone()));
            }
        }
        inner.submit(now, requests);
    }

    fn after_power_loss(&mut self, disks: &SimDisks) {
        self.losses += 1;
        if self.losses % 2 == 0 {
            if let Some((device, offset, data)) = self.last.take() {
                poke(disks, device, offset, &data.to_vec());
            }
        }
    }
}

/// A flush makes discards durable after the writes that followed them.
#[derive(Default)]
pub struct DiscardsAfterWrites(Vec<(DeviceId, u64)>);

impl Flaw for DiscardsAfterWrites {
    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter() {
            if let Op::Discard { offset, .. } = &request.op {
                self.0.push((request.device, *offset));
            }
        }
        inner.submit(now, requests);
    }

    fn after_power_loss(&mut self, disks: &SimDisks) {
        for (device, offset) in self.0.drain(..) {
            poke(disks, device, offset, &vec![0; BLOCK as usize]);
        }
    }
}

/// Opens with the first block zeroed.
pub struct ForgetsAtClosing;

impl Flaw for ForgetsAtClosing {
    fn after_close(&mut self, disks: &SimDisks) {
        poke(disks, DeviceId::Data, 0, &[0; BLOCK as usize]);
    }
}

/// Gives back, after a failed flush and a reopening, what it had before the last good flush.
#[derive(Default)]
pub struct ForgetsWhatWasFlushed {
    disks: Option<SimDisks>,
    old: BTreeMap<u64, Vec<u8>>,
}

impl Flaw for ForgetsWhatWasFlushed {
    fn made(&mut self, disks: &SimDisks) {
        self.disks = Some(disks.clone());
    }

    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        let disks = self.disks.as_ref().expect("the disks are made");
        for request in requests.iter() {
            if let Op::Write { offset, data, .. } = &request.op {
                if self.old.len() < 6 && data.len() as u64 <= 4 * BLOCK {
                    self.old.insert(*offset, disks.durable(request.device, *offset, data.len()));
                }
            }
        }
        inner.submit(now, requests);
    }

    fn after_close(&mut self, disks: &SimDisks) {
        for (offset, bytes) in std::mem::take(&mut self.old) {
            poke(disks, DeviceId::Data, offset, &bytes);
        }
    }
}

/// Does a write a second time when twenty others have followed.
#[derive(Default)]
pub struct WritesAgainLater(VecDeque<(DeviceId, u64, Rope)>);

impl Flaw for WritesAgainLater {
    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter() {
            if let Op::Write { offset, data, .. } = &request.op {
                self.0.push_back((request.device, *offset, data.clone()));
            }
        }
        while self.0.len() > 20 {
            let Some((device, offset, data)) = self.0.pop_front() else { break };
            let op = Op::Write { offset, data, durability: Durability::Volatile };
            inner.submit(now, &mut vec![Request::new(OWN, device, op)]);
        }
        inner.submit(now, requests);
    }
}
