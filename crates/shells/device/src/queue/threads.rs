//! A queue whose requests are performed by the devices' threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blockdev::{Completion, DeviceError, DeviceId, DeviceQueue, Done, Geometry, Op, Request, Token, Waker};
use types::UTime;

use super::Files;

/// One core's queue to the devices. Completions come from threads: it has a waker and no deadline.
pub struct FileQueue {
    files: Files,
    ready: Arc<Ready>,
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

    /// Completes a request and wakes the queue's owner.
    pub fn complete(&self, token: Token, result: Result<Done, DeviceError>) {
        if let Some(wake) = self.push(token, result) {
            wake();
        }
    }
}

impl FileQueue {
    pub(super) fn new(files: Files) -> Self {
        Self { files, ready: Arc::default() }
    }
}

impl DeviceQueue for FileQueue {
    fn geometry(&self, device: DeviceId) -> Option<Geometry> {
        self.files.geometry(device)
    }

    fn submit(&mut self, _now: UTime, requests: &mut Vec<Request>) {
        for request in requests.drain(..) {
            let device = request.device;
            let checked = match self.files.0.pools.get(&device) {
                Some(pool) => pool.geometry().check(&request).map(|()| pool),
                None => Err(DeviceError::NoSuchDevice { device }),
            };
            let Request { token, op, .. } = request;
            match checked {
                Ok(pool) => pool.push(Job { token, op, ready: Arc::clone(&self.ready) }),
                // No wake-up: the caller collects after `submit`.
                Err(error) => drop(self.ready.push(token, Err(error))),
            }
        }
    }

    fn turn(&mut self, _now: UTime) {}

    fn deadline(&self) -> Option<UTime> {
        None
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
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
