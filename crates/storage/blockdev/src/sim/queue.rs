//! A queue of requests to simulated devices.

use types::UTime;

use super::SimDisks;
use crate::{Completion, DeviceId, DeviceQueue, Geometry, Request, Waker};

/// See the module's documentation. After a power loss, or when the disks were closed, every request fails
/// with [`DeviceError::Closed`](crate::DeviceError::Closed), and requests in flight never complete.
pub struct SimQueue {
    disks: SimDisks,
    number: u64,
}

impl SimQueue {
    pub(super) fn new(disks: SimDisks, number: u64) -> Self {
        Self { disks, number }
    }

    /// Calls the wakers of other queues that have completions; this queue's caller collects its own anyway.
    fn wake_others(&self) {
        let wakers: Vec<Waker> = {
            let state = self.disks.state();
            let others = state
                .queues
                .iter()
                .filter(|(number, r)| **number != self.number && !r.completions.is_empty());
            others.filter_map(|(_, ready)| ready.waker.clone()).collect()
        };
        wakers.iter().for_each(|wake| wake());
    }
}

impl DeviceQueue for SimQueue {
    fn geometry(&self, device: DeviceId) -> Option<Geometry> {
        self.disks.state().units.get(&device).map(|unit| unit.geometry)
    }

    fn submit(&mut self, now: UTime, requests: &mut Vec<Request>) {
        self.disks.state().submit(self.number, now, requests);
        self.wake_others();
    }

    fn turn(&mut self, now: UTime) {
        let mut state = self.disks.state();
        let now = state.set_time(now);
        state.advance(now);
        drop(state);
        self.wake_others();
    }

    fn deadline(&self) -> Option<UTime> {
        let state = self.disks.state();
        state.next_event().map(|at| UTime::from_nanos(at + state.origin.unwrap_or(0)))
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        if let Some(ready) = self.disks.state().queues.get_mut(&self.number) {
            out.append(&mut ready.completions);
        }
    }

    fn set_waker(&mut self, waker: Waker) {
        if let Some(ready) = self.disks.state().queues.get_mut(&self.number) {
            ready.waker = Some(waker);
        }
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        self.disks.state().queues.remove(&self.number);
    }
}
