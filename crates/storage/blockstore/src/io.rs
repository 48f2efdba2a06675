//! Requests to the device, and what each is for.

use std::collections::BTreeMap;

use blockdev::{Completion, DeviceError, DeviceId, DeviceQueue, Done, Durability, Op, Request, Token};
use buffer::{PieceMut, Rope};
use types::UTime;

use crate::layout::BLOCK;
use crate::planted::{Barrier, Planted};

/// A shard's side of its devices.
pub struct Io<Q, P> {
    queue: Q,
    out: Vec<Request>,
    next: u64,
    open: BTreeMap<u64, P>,
    request_bytes_max: u64,
    discards: bool,
    rotational: bool,
    durable_flushes: bool,
    /// The device that has the log.
    log: DeviceId,
    pub planted: Planted,
}

impl<Q: DeviceQueue, P: Clone> Io<Q, P> {
    /// `None`: the queue has no data device.
    pub fn new(queue: Q) -> Option<Self> {
        let geometry = queue.geometry(DeviceId::Data)?;
        let of_log = queue.geometry(DeviceId::Wal).unwrap_or(geometry);
        Some(Self {
            queue,
            out: Vec::new(),
            next: 0,
            open: BTreeMap::new(),
            request_bytes_max: geometry.request_bytes_max.min(of_log.request_bytes_max),
            discards: geometry.discards,
            rotational: geometry.rotational,
            durable_flushes: geometry.durable_flushes,
            log: DeviceId::Data,
            planted: Planted::default(),
        })
    }

    /// Has the log on this device.
    pub fn set_log(&mut self, device: DeviceId) {
        self.log = device;
    }

    pub fn queue(&mut self) -> &mut Q {
        &mut self.queue
    }

    pub fn deadline(&self) -> Option<UTime> {
        self.queue.deadline()
    }

    /// Bytes of the data device.
    pub fn device_bytes(&self) -> u64 {
        self.queue.geometry(DeviceId::Data).map_or(0, |geometry| geometry.size_bytes)
    }

    /// Whether the data device has to seek.
    pub fn is_rotational(&self) -> bool {
        self.rotational
    }

    /// Whether a durable write to the log's device makes durable what had completed on the data device, too.
    pub fn durable_write_covers_data(&self) -> bool {
        self.durable_flushes && self.log == DeviceId::Data
    }

    /// The longest request that every device takes, bytes.
    pub fn request_bytes_max(&self) -> u64 {
        self.request_bytes_max
    }

    /// Gives the queue to another user. Nothing may be under way.
    pub fn into_queue(self) -> Q {
        debug_assert!(self.open.is_empty() && self.out.is_empty());
        self.queue
    }

    fn add(&mut self, purpose: P, device: DeviceId, op: Op) {
        let len = match &op {
            Op::Read { buffer, .. } => buffer.len(),
            Op::Write { data, .. } => data.len(),
            Op::Flush | Op::Discard { .. } => 0,
        };
        debug_assert!(len as u64 <= self.request_bytes_max, "the device refuses a request of {len} bytes");
        self.next += 1;
        self.open.insert(self.next, purpose);
        self.out.push(Request::new(Token(self.next), device, op));
    }

    /// The parts of so many bytes that the devices take in one request each: from where on, and how many.
    pub fn parts(&self, bytes: u64) -> impl Iterator<Item = (u64, usize)> + use<Q, P> {
        let step = self.request_bytes_max;
        (0..bytes).step_by(step as usize).map(move |from| (from, (bytes - from).min(step) as usize))
    }

    /// Reads at most [`Io::request_bytes_max`] bytes of the data device.
    pub fn read(&mut self, purpose: P, offset: u64, len: usize) {
        self.read_into(purpose, offset, PieceMut::to_fill(len));
    }

    /// The same into this memory.
    pub fn read_into(&mut self, purpose: P, offset: u64, buffer: PieceMut) {
        self.add(purpose, DeviceId::Data, Op::Read { offset, buffer });
    }

    /// The same of the log's device.
    pub fn read_log(&mut self, purpose: P, offset: u64, len: usize) {
        self.add(purpose, self.log, Op::Read { offset, buffer: PieceMut::to_fill(len) });
    }

    /// Writes any number of bytes to the data device; returns how many requests that takes.
    pub fn write(&mut self, purpose: P, offset: u64, data: &Rope, durability: Durability) -> usize {
        self.write_to(DeviceId::Data, purpose, offset, data, durability)
    }

    /// The same to the log's device.
    pub fn write_log(&mut self, purpose: P, offset: u64, data: &Rope, durability: Durability) -> usize {
        self.write_to(self.log, purpose, offset, data, durability)
    }

    fn write_to(
        &mut self,
        device: DeviceId,
        purpose: P,
        offset: u64,
        data: &Rope,
        durability: Durability,
    ) -> usize {
        let mut requests = 0;
        for (from, len) in self.parts(data.len() as u64) {
            let part = data.slice(from as usize..from as usize + len);
            let op = Op::Write { offset: offset + from, data: part, durability };
            self.add(purpose.clone(), device, op);
            requests += 1;
        }
        requests
    }

    /// Whether the data device takes discards.
    pub fn discards(&self) -> bool {
        self.discards
    }

    pub fn discard(&mut self, purpose: P, offset: u64, len: u64) {
        self.add(purpose, DeviceId::Data, Op::Discard { offset, len });
    }

    /// How a write is written that is a barrier.
    pub fn durability(&self, barrier: Barrier) -> Durability {
        if self.planted.leaves_out(barrier) { Durability::Volatile } else { Durability::Durable }
    }

    /// Flushes the data device.
    pub fn flush(&mut self, purpose: P, barrier: Barrier) {
        self.flush_of(DeviceId::Data, purpose, barrier);
    }

    /// Flushes the log's device: one request.
    pub fn flush_log(&mut self, purpose: P, barrier: Barrier) -> usize {
        self.flush_of(self.log, purpose, barrier);
        1
    }

    fn flush_of(&mut self, device: DeviceId, purpose: P, barrier: Barrier) {
        let op = match self.planted.leaves_out(barrier) {
            // What waits for the flush is to go on.
            true => Op::Read { offset: 0, buffer: PieceMut::zeroed(BLOCK as usize) },
            false => Op::Flush,
        };
        self.add(purpose, device, op);
    }

    /// Flushes every device that the log or data beside it may be on; returns how many that are.
    pub fn flush_all(&mut self, purpose: P, data: Barrier, log: Barrier) -> usize {
        self.flush(purpose.clone(), data);
        if self.queue.geometry(DeviceId::Wal).is_none() {
            return 1;
        }
        self.flush_of(DeviceId::Wal, purpose, log);
        2
    }

    /// Begins what was asked since the last call.
    pub fn submit(&mut self, now: UTime) {
        if !self.out.is_empty() {
            self.queue.submit(now, &mut self.out);
        }
    }

    /// What completed, with its purpose.
    pub fn completions(&mut self) -> Vec<(P, Result<Done, DeviceError>)> {
        let mut out = Vec::new();
        self.queue.completions(&mut out);
        let known = |c: Completion| Some((self.open.remove(&c.token.0)?, c.result));
        out.into_iter().filter_map(known).collect()
    }
}
