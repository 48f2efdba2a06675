//! A queue whose requests are performed by a ring, or by the devices' threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blockdev::{Completion, DeviceError, DeviceId, DeviceQueue, Done, Geometry, Op, Request, Token, Waker};
use types::UTime;

use super::Files;
use super::ring::{Ring, RingEvent};

/// One core's queue to the devices. It has a waker, and a deadline only if the kernel did not take what a ring submitted.
/// With a ring ([`FileQueue::engine`]) it must be used by one thread.
pub struct FileQueue {
    /// Dropped first: it waits until the kernel has no memory of it.
    ring: Option<Ring>,
    note: Option<String>,
    files: Files,
    ready: Arc<Ready>,
}

/// What performs reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    Threads,
    /// A ring for devices with direct I/O, threads for others.
    IoUring,
}

/// Where threads put what is ready.
#[derive(Default)]
pub struct Ready(Mutex<State>);

#[derive(Default)]
struct State {
    completions: Vec<Completion>,
    waker: Option<Waker>,
    /// The queue was dropped: what was not begun need not be.
    dropped: bool,
}

/// A request on its way.
pub struct Job {
    pub token: Token,
    pub op: Op,
    pub ready: Arc<Ready>,
}

impl Ready {
    /// A panic elsewhere doesn't make the state wrong.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_dropped(&self) -> bool {
        self.state().dropped
    }

    fn push(&self, token: Token, result: Result<Done, DeviceError>) -> Option<Waker> {
        let mut state = self.state();
        state.completions.push(Completion { token, result });
        state.waker.clone()
    }

    /// Wakes the queue's owner.
    pub fn wake(&self) {
        let waker = self.state().waker.clone();
        if let Some(wake) = waker {
            wake();
        }
    }

    /// Completes a request and wakes the queue's owner.
    pub fn complete(&self, token: Token, result: Result<Done, DeviceError>) {
        if let Some(wake) = self.push(token, result) {
            wake();
        }
    }
}

impl FileQueue {
    pub(super) fn new(files: Files) -> Self {
        let ready = Arc::default();
        let (ring, note) = match files.0.engine {
            Engine::IoUring => match Ring::new(&files.0, &ready) {
                Ok(ring) => (Some(ring), None),
                Err(error) => {
                    (None, Some(format!("a queue has no io_uring, so threads perform its requests: {error}")))
                }
            },
            Engine::Threads => (None, None),
        };
        Self { ring, note, files, ready }
    }

    /// The event of this queue's ring, if it has one. Threads (flushes, discards) call the waker all the same.
    pub fn event(&self) -> Option<RingEvent> {
        self.ring.as_ref().map(Ring::event)
    }

    pub fn engine(&self) -> Engine {
        if self.ring.is_some() { Engine::IoUring } else { Engine::Threads }
    }

    /// What an operator should know of this queue beside [`Files::notes`]: a sentence for a log.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Hands a checked request to what performs it.
    fn begin(&mut self, device: DeviceId, token: Token, op: Op) {
        // The caller has looked it up.
        let Some(pool) = self.files.0.pools.get(&device) else { return };
        let ring = self.ring.as_mut().filter(|ring| ring.serves(device));
        let left = match (ring, pool.unit().direct()) {
            (Some(ring), Some(file)) => ring.take(file, device, token, op),
            (None, _) | (_, None) => Some(op),
        };
        if let Some(op) = left {
            pool.push(Job { token, op, ready: Arc::clone(&self.ready) });
        }
    }
}

impl DeviceQueue for FileQueue {
    fn geometry(&self, device: DeviceId) -> Option<Geometry> {
        self.files.geometry(device)
    }

    fn submit(&mut self, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.drain(..) {
            let device = request.device;
            let checked = match self.files.geometry(device) {
                Some(geometry) => geometry.check(&request),
                None => Err(DeviceError::NoSuchDevice { device }),
            };
            let Request { token, op, .. } = request;
            match checked {
                Ok(()) => self.begin(device, token, op),
                // No wake-up: the caller collects after `submit`.
                Err(error) => drop(self.ready.push(token, Err(error))),
            }
        }
        self.turn(now);
    }

    fn turn(&mut self, now: UTime) {
        if let Some(ring) = &mut self.ring {
            ring.begin(&self.files.0, Some(now));
        }
    }

    fn deadline(&self) -> Option<UTime> {
        self.ring.as_ref().and_then(Ring::deadline)
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        if let Some(ring) = &mut self.ring {
            ring.completions(&self.files.0, out);
        }
        out.append(&mut self.ready.state().completions);
    }

    fn set_waker(&mut self, waker: Waker) {
        self.ready.state().waker = Some(waker);
    }
}

impl Drop for FileQueue {
    fn drop(&mut self) {
        let mut state = self.ready.state();
        state.dropped = true;
        state.waker = None;
    }
}
