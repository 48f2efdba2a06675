//! Devices that hide a failure, or make too much of it.

use std::collections::BTreeMap;

use blockdev::sim::SimQueue;
use blockdev::{Completion, DeviceError, DeviceId, DeviceQueue, Done, Durability, Op, Request, Token};
use types::{Errno, UTime};

use super::Flaw;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Volatile,
    Durable,
    Flush,
    Discard,
}

/// What a flaw makes of a result: knows the queue, the kind of request and its device, and whether a flush, a durable
/// or a volatile write has failed before on each queue.
pub struct Results {
    kinds: BTreeMap<(usize, Token), (Kind, DeviceId)>,
    pub failed: Vec<(usize, Kind)>,
    change: fn(&Self, usize, Kind, DeviceId, &mut Result<Done, DeviceError>),
}

impl Results {
    pub fn new(change: fn(&Self, usize, Kind, DeviceId, &mut Result<Done, DeviceError>)) -> Self {
        Self { kinds: BTreeMap::new(), failed: Vec::new(), change }
    }
}

impl Flaw for Results {
    fn submit(&mut self, queue: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter() {
            let kind = match &request.op {
                Op::Read { .. } => Kind::Read,
                Op::Write { durability: Durability::Volatile, .. } => Kind::Volatile,
                Op::Write { durability: Durability::Durable, .. } => Kind::Durable,
                Op::Flush => Kind::Flush,
                Op::Discard { .. } => Kind::Discard,
            };
            self.kinds.insert((queue, request.token), (kind, request.device));
        }
        inner.submit(now, requests);
    }

    fn completed(&mut self, queue: usize, done: &mut Vec<Completion>) {
        for completion in done {
            let Some((kind, device)) = self.kinds.remove(&(queue, completion.token)) else { continue };
            let failed = matches!(completion.result, Err(DeviceError::Io { .. }));
            (self.change)(self, queue, kind, device, &mut completion.result);
            if failed {
                self.failed.push((queue, kind));
            }
        }
    }
}

fn good(kind: Kind) -> Result<Done, DeviceError> {
    Ok(match kind {
        Kind::Read => panic!("reads are not poisoned"),
        Kind::Volatile | Kind::Durable => Done::Written,
        Kind::Flush => Done::Flushed,
        Kind::Discard => Done::Discarded,
    })
}

fn is_poisoned(result: &Result<Done, DeviceError>) -> bool {
    matches!(result, Err(DeviceError::Poisoned { .. }))
}

/// As fsync was: the second one succeeds.
pub fn flushes_again(_: &Results, _: usize, kind: Kind, _: DeviceId, result: &mut Result<Done, DeviceError>) {
    if kind == Kind::Flush && is_poisoned(result) {
        *result = good(kind);
    }
}

pub fn writes_on(_: &Results, _: usize, kind: Kind, _: DeviceId, result: &mut Result<Done, DeviceError>) {
    if kind == Kind::Volatile && is_poisoned(result) {
        *result = good(kind);
    }
}

pub fn poisons_one_queue(
    all: &Results,
    queue: usize,
    kind: Kind,
    _: DeviceId,
    result: &mut Result<Done, DeviceError>,
) {
    if is_poisoned(result) && !all.failed.iter().any(|f| f.0 == queue) {
        *result = good(kind);
    }
}

pub fn forgives_a_durable_write(
    all: &Results,
    _: usize,
    kind: Kind,
    _: DeviceId,
    result: &mut Result<Done, DeviceError>,
) {
    if is_poisoned(result) && all.failed.iter().any(|f| f.1 == Kind::Durable) {
        *result = good(kind);
    }
}

pub fn swallows_the_failure(
    _: &Results,
    _: usize,
    kind: Kind,
    _: DeviceId,
    result: &mut Result<Done, DeviceError>,
) {
    if kind == Kind::Flush && matches!(result, Err(DeviceError::Io { .. })) {
        *result = good(kind);
    }
}

pub fn stops_reading(
    all: &Results,
    _: usize,
    kind: Kind,
    device: DeviceId,
    result: &mut Result<Done, DeviceError>,
) {
    if kind == Kind::Read && all.failed.iter().any(|f| f.1 == Kind::Flush) {
        *result = Err(DeviceError::Poisoned { device });
    }
}

pub fn poisons_every_device(
    all: &Results,
    _: usize,
    kind: Kind,
    device: DeviceId,
    result: &mut Result<Done, DeviceError>,
) {
    if kind != Kind::Read && !all.failed.is_empty() {
        *result = Err(DeviceError::Poisoned { device });
    }
}

pub fn poisons_for_a_volatile_write(
    all: &Results,
    _: usize,
    kind: Kind,
    device: DeviceId,
    result: &mut Result<Done, DeviceError>,
) {
    if kind != Kind::Read && all.failed.iter().any(|f| f.1 == Kind::Volatile) {
        *result = Err(DeviceError::Poisoned { device });
    }
}

pub fn fails_all_reads_after_one(
    all: &Results,
    _: usize,
    kind: Kind,
    device: DeviceId,
    result: &mut Result<Done, DeviceError>,
) {
    if kind == Kind::Read && all.failed.iter().any(|f| f.1 == Kind::Read) && result.is_ok() {
        *result = Err(DeviceError::Io { device, offset: 20 * 4096, errno: Errno::EIO });
    }
}
