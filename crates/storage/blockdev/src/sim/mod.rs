//! Simulated devices: bytes in memory, the time of a [`devmodel::Model`], a volatile cache that a power loss empties in
//! parts, and the faults of disks.
//!
//! Everything is decided by the seed and by the calls: no thread, no clock. The same calls give the same trace. Completions
//! become ready in a queue's `submit` or `turn`; the wakers of other queues are called.
//!
//! A device has two images: what reads see, and what is durable. Between them are the volatile changes in order. A flush
//! covers the changes that had taken effect when it was submitted. A power loss keeps any subset of the sectors of the
//! volatile changes, those in flight included.

mod contents;
mod queue;
mod unit;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use buffer::PieceMut;
use devmodel::{Model, Nanos};
use types::{SplitMix64, UTime};

use crate::{Completion, DeviceError, DeviceId, Done, Durability, Geometry, Op, Request, Token, Waker};
use contents::{Change, Record};
use unit::Unit;

pub use queue::SimQueue;
pub use unit::{Counts, WriteFault};

/// One device of [`SimOptions`].
#[derive(Clone, Debug)]
pub struct SimDevice {
    pub id: DeviceId,
    pub geometry: Geometry,
    /// Gives the time that requests take. Its size should be the geometry's.
    pub model: Model,
}

/// The properties of simulated devices.
#[derive(Clone, Debug)]
pub struct SimOptions {
    pub seed: u64,
    /// Random delay of completions beyond the model, nanoseconds: with it requests overtake one another.
    pub jitter_ns: Range<u64>,
    /// At most one of an id.
    pub devices: Vec<SimDevice>,
}

/// The devices of one simulated store, seen from outside: opens queues on them, cuts their power, damages them. Clones
/// are the same devices.
#[derive(Clone)]
pub struct SimDisks(Arc<Mutex<State>>);

struct State {
    random: SplitMix64,
    jitter_ns: Range<u64>,
    /// The time of the first event; the models' clocks begin there.
    origin: Option<Nanos>,
    now: Nanos,
    units: BTreeMap<DeviceId, Unit>,
    in_flight: BTreeMap<u64, InFlight>,
    /// Requests that the model has done, by the time at which they complete.
    late: BTreeSet<(Nanos, u64)>,
    next_id: u64,
    queues: BTreeMap<u64, Ready>,
    next_queue: u64,
}

struct InFlight {
    queue: u64,
    token: Token,
    device: DeviceId,
    op: Op,
    /// For a flush, and a durable write that is one: see [`Unit::floor`].
    floor: u64,
}

/// A queue's side of the disks.
struct Ready {
    /// Whether the disks were not closed since it was opened.
    open: bool,
    completions: Vec<Completion>,
    waker: Option<Waker>,
}

impl SimDisks {
    pub fn new(options: SimOptions) -> Self {
        let mut random = SplitMix64::new(options.seed);
        let units = options.devices.into_iter().map(|d| (d.id, Unit::new(d, random.next_u64()))).collect();
        Self(Arc::new(Mutex::new(State {
            random,
            jitter_ns: options.jitter_ns,
            origin: None,
            now: 0,
            units,
            in_flight: BTreeMap::new(),
            late: BTreeSet::new(),
            next_id: 0,
            queues: BTreeMap::new(),
            next_queue: 0,
        })))
    }

    /// Opens one more queue.
    pub fn open(&self) -> SimQueue {
        let mut state = self.state();
        let number = state.next_queue;
        state.next_queue += 1;
        state.queues.insert(number, Ready { open: true, completions: Vec::new(), waker: None });
        SimQueue::new(self.clone(), number)
    }

    /// Closes every queue, as the end of a process does: the power stays on, so what is volatile stays visible. Of
    /// requests in flight any part is done. A poisoned device loses what a power loss would have taken.
    pub fn close(&self) {
        self.state().close(false);
    }

    /// Cuts the power: closes every queue and drops, by the seed, sectors that are not durable.
    pub fn power_loss(&self) {
        self.state().close(true);
    }

    /// Changes the seed that everything from now on depends on.
    pub fn reseed(&self, seed: u64) {
        self.state().random = SplitMix64::new(seed);
    }

    /// Makes reads that touch a range fail with EIO, each of its bytes until it is written or the device is healed.
    pub fn fail_reads(&self, device: DeviceId, range: Range<u64>) {
        self.with(device, |unit| unit.bad_reads.push(range));
    }

    /// Makes writes that touch a range fail with EIO until the device is healed; any of their sectors may be written.
    pub fn fail_writes(&self, device: DeviceId, range: Range<u64>) {
        self.with(device, |unit| unit.bad_writes.push(range));
    }

    /// Makes flushes and durable writes fail with EIO until the device is healed. The first that does poisons it.
    pub fn fail_flushes(&self, device: DeviceId) {
        self.with(device, |unit| unit.flushes_fail = true);
    }

    /// Ends what `fail_reads`, `fail_writes` and `fail_flushes` began. A poisoned device stays so until it is closed.
    pub fn heal(&self, device: DeviceId) {
        self.with(device, |unit| {
            unit.bad_reads.clear();
            unit.bad_writes.clear();
            unit.flushes_fail = false;
        });
    }

    /// Plants a fault in the next write that completes well (after those with a fault planted before).
    pub fn fault_next_write(&self, device: DeviceId, fault: WriteFault) {
        self.fault_next_write_in(device, 0..u64::MAX, fault);
    }

    /// The same in the next write that lies in a range.
    pub fn fault_next_write_in(&self, device: DeviceId, range: Range<u64>, fault: WriteFault) {
        self.with(device, |unit| unit.faults.push((range, fault)));
    }

    /// How many faults of writes no write has met.
    pub fn write_faults_left(&self, device: DeviceId) -> usize {
        self.with(device, |unit| unit.faults.len())
    }

    /// Flips a bit of a stored byte.
    pub fn flip_bit(&self, device: DeviceId, offset: u64, bit: u32) {
        self.with(device, |unit| unit.flip(offset, bit));
    }

    /// The bytes that are certain to survive a power loss.
    pub fn durable(&self, device: DeviceId, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.with(device, |unit| unit.durable.read(offset, &mut out));
        out
    }

    /// The bytes that a read would return now, if it did not fail.
    pub fn visible(&self, device: DeviceId, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.with(device, |unit| unit.visible.read(offset, &mut out));
        out
    }

    /// Bytes of changes that no flush has covered.
    pub fn unflushed_bytes(&self, device: DeviceId) -> u64 {
        self.with(device, |unit| unit.unflushed_bytes())
    }

    pub fn counts(&self, device: DeviceId) -> Counts {
        self.with(device, |unit| unit.counts)
    }

    /// # Panics
    /// If there is no such device: a defect of the simulation.
    fn with<R>(&self, device: DeviceId, act: impl FnOnce(&mut Unit) -> R) -> R {
        let mut state = self.state();
        act(state.units.get_mut(&device).expect("the simulated disks have this device"))
    }

    /// A panic elsewhere doesn't make the state wrong.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set_time(&mut self, now: UTime) -> Nanos {
        let origin = *self.origin.get_or_insert(now.as_nanos());
        now.as_nanos().saturating_sub(origin)
    }

    fn submit(&mut self, queue: u64, now: UTime, requests: &mut Vec<Request>) {
        let now = self.set_time(now);
        self.advance(now);
        for request in requests.drain(..) {
            if let Err(error) = self.begin(queue, &request) {
                self.complete(queue, request.token, Err(error));
                continue;
            }
            let id = self.next_id;
            self.next_id += 1;
            let Request { token, device, op } = request;
            let Some(unit) = self.units.get_mut(&device) else { continue };
            let floor = unit.floor();
            self.in_flight.insert(id, InFlight { queue, token, device, op, floor });
            unit.waiting.push_back(id);
            self.start(device);
        }
    }

    /// Checks a request and counts it.
    fn begin(&mut self, queue: u64, request: &Request) -> Result<(), DeviceError> {
        let device = request.device;
        let Some(unit) = self.units.get_mut(&device) else {
            return Err(DeviceError::NoSuchDevice { device });
        };
        unit.geometry.check(request)?;
        if !self.queues.get(&queue).is_some_and(|q| q.open) {
            return Err(DeviceError::Closed { device });
        }
        if unit.poisoned && !matches!(request.op, Op::Read { .. }) {
            return Err(DeviceError::Poisoned { device });
        }
        let counts = &mut unit.counts;
        match &request.op {
            Op::Read { buffer, .. } => {
                counts.reads += 1;
                counts.read_bytes += buffer.len() as u64;
            }
            Op::Write { data, durability, .. } => {
                counts.writes += 1;
                counts.durable_writes += u64::from(*durability == Durability::Durable);
                counts.written_bytes += data.len() as u64;
            }
            Op::Flush => counts.flushes += 1,
            Op::Discard { .. } => counts.discards += 1,
        }
        Ok(())
    }

    /// Gives a device as many requests as it performs concurrently.
    fn start(&mut self, device: DeviceId) {
        let Some(unit) = self.units.get_mut(&device) else { return };
        while unit.active < unit.geometry.queue_depth {
            let Some(id) = unit.waiting.pop_front() else { return };
            let Some(request) = self.in_flight.get(&id) else { continue };
            unit.active += 1;
            unit.model.arrive(self.now, id, modelled(&request.op));
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let late = self.late.first().map(|l| l.0);
        self.units.values().filter_map(|u| u.model.next_event()).chain(late).min()
    }

    /// Handles everything that is due up to a time, in the order of time.
    fn advance(&mut self, to: Nanos) {
        while let Some(at) = self.next_event().filter(|at| *at <= to) {
            self.now = self.now.max(at);
            for unit in self.units.values_mut() {
                for done in unit.model.complete(self.now) {
                    let span = self.jitter_ns.end.saturating_sub(self.jitter_ns.start).max(1);
                    let more = self.jitter_ns.start + self.random.below(span);
                    self.late.insert((done.at + more, done.id));
                }
            }
            while let Some((_, id)) = pop_due(&mut self.late, self.now) {
                self.finish(id);
            }
        }
        self.now = self.now.max(to);
    }

    fn finish(&mut self, id: u64) {
        // A request from before a power loss.
        let Some(InFlight { queue, token, device, op, floor }) = self.in_flight.remove(&id) else { return };
        let Some(unit) = self.units.get_mut(&device) else { return };
        unit.active -= 1;
        let result = match op {
            Op::Read { offset, mut buffer } => unit.read(offset, buffer.as_mut_slice()).map(|()| {
                overlay(&self.in_flight, device, offset, &mut buffer, &mut self.random);
                Done::Read(buffer)
            }),
            Op::Write { offset, data, durability } => {
                unit.write(offset, data, (durability, floor), &mut self.random).map(|()| Done::Written)
            }
            Op::Flush => unit.flush(floor).map(|()| Done::Flushed),
            Op::Discard { offset, len } => {
                unit.discard(offset, len, &mut self.random).map(|()| Done::Discarded)
            }
        };
        self.complete(queue, token, result);
        self.start(device);
    }

    fn complete(&mut self, queue: u64, token: Token, result: Result<Done, DeviceError>) {
        // A queue that was dropped takes its completions along.
        if let Some(ready) = self.queues.get_mut(&queue) {
            ready.completions.push(Completion { token, result });
        }
    }

    fn close(&mut self, power_loss: bool) {
        for queue in self.queues.values_mut() {
            queue.open = false;
            queue.completions.clear();
        }
        self.late.clear();
        let mut flying: Vec<InFlight> = std::mem::take(&mut self.in_flight).into_values().collect();
        for i in (1..flying.len()).rev() {
            flying.swap(i, self.random.below(i as u64 + 1) as usize);
        }
        for InFlight { device, op, .. } in flying {
            let Some(unit) = self.units.get_mut(&device) else { continue };
            let (offset, change) = match op {
                Op::Write { offset, data, .. } => (offset, Change::Bytes(data)),
                Op::Discard { offset, len } if unit.geometry.discards => {
                    (offset, Change::Discard { len, seed: self.random.next_u64() })
                }
                Op::Read { .. } | Op::Flush | Op::Discard { .. } => continue,
            };
            unit.in_flight(offset, change, &mut self.random);
        }
        for unit in self.units.values_mut() {
            if power_loss {
                unit.lose_power(&mut self.random);
            }
            unit.reopen(&mut self.random);
        }
    }
}

/// The request as the model takes it.
fn modelled(op: &Op) -> devmodel::Request {
    match op {
        Op::Read { offset, buffer } => devmodel::Request::read(*offset, buffer.len() as u64),
        Op::Write { offset, data, durability } => devmodel::Request {
            fua: *durability == Durability::Durable,
            ..devmodel::Request::write(*offset, data.len() as u64)
        },
        Op::Flush => devmodel::Request::flush(),
        Op::Discard { offset, len } => devmodel::Request::discard(*offset, *len),
    }
}

/// Shows a read some sectors of the writes that are in flight.
fn overlay(
    in_flight: &BTreeMap<u64, InFlight>,
    device: DeviceId,
    offset: u64,
    buffer: &mut PieceMut,
    random: &mut SplitMix64,
) {
    let wanted = offset..offset + buffer.len() as u64;
    for other in in_flight.values().filter(|other| other.device == device) {
        let Op::Write { offset: at, data, .. } = &other.op else { continue };
        let whole = Record { number: 0, offset: *at, change: Change::Bytes(data.clone()) };
        let Some(seen) = whole.within(wanted.clone()) else { continue };
        for sector in seen.sectors().filter(|_| random.one_in(2)) {
            if let Change::Bytes(data) = &sector.change {
                let from = (sector.offset - offset) as usize;
                buffer.as_mut_slice()[from..from + data.len()].copy_from_slice(&data.to_piece());
            }
        }
    }
}

/// Takes the first of a set ordered by time, if it is due.
fn pop_due(set: &mut BTreeSet<(Nanos, u64)>, now: Nanos) -> Option<(Nanos, u64)> {
    if set.first()?.0 <= now { set.pop_first() } else { None }
}
