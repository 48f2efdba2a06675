//! Simulated disks that a thread drives: completions come from there, with a wake-up.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use blockdev::conformance::{Factory, Properties};
use blockdev::{Completion, DeviceId, DeviceQueue, Geometry, Request, Waker};
use types::UTime;

use crate::common::Sim;

/// What is wrong with the wake-ups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WakeFlaw {
    None,
    /// One of so many completions comes without one.
    Sometimes(u32),
    /// It comes before the completion can be collected, which follows some time later.
    Early,
}

#[derive(Default)]
struct Shared {
    completions: Mutex<Vec<Completion>>,
    waker: Mutex<Option<Waker>>,
}

pub struct ThreadedQueue {
    geometries: Vec<(DeviceId, Geometry)>,
    shared: Arc<Shared>,
    /// `None`: dropped.
    jobs: Option<Sender<Vec<Request>>>,
    thread: Option<JoinHandle<()>>,
}

pub struct ThreadedFactory {
    pub sim: Sim,
    pub flaw: WakeFlaw,
}

impl Factory for ThreadedFactory {
    type Queue = ThreadedQueue;

    fn properties(&self) -> Properties {
        Properties {
            threads: Some(Duration::from_millis(500)),
            power_loss: false,
            failing_flushes: false,
            failing_ranges: false,
        }
    }

    fn devices(&self) -> Vec<DeviceId> {
        self.sim.devices()
    }

    fn make(&mut self, seed: u64) {
        self.sim.make(seed);
    }

    fn open(&mut self) -> ThreadedQueue {
        let mut queue = self.sim.open();
        let geometries = self.sim.devices.iter().filter_map(|d| Some((*d, queue.geometry(*d)?))).collect();
        let shared = Arc::new(Shared::default());
        let (jobs, inbox) = channel::<Vec<Request>>();
        let (ours, flaw) = (Arc::clone(&shared), self.flaw);
        let thread = std::thread::spawn(move || {
            let mut woken = 0;
            while let Ok(mut batch) = inbox.recv() {
                let mut left = batch.len();
                let mut now = UTime { sec: 1, nsec: 0 };
                queue.submit(now, &mut batch);
                while left > 0 {
                    let mut out = Vec::new();
                    queue.completions(&mut out);
                    left -= out.len();
                    out.into_iter().for_each(|completion| ours.complete(completion, flaw, &mut woken));
                    if let Some(deadline) = queue.deadline() {
                        now = now.max(deadline);
                        queue.turn(now);
                    }
                }
            }
        });
        ThreadedQueue { geometries, shared, jobs: Some(jobs), thread: Some(thread) }
    }

    fn close(&mut self) {
        self.sim.close();
    }
}

impl Shared {
    fn complete(&self, completion: Completion, flaw: WakeFlaw, woken: &mut u32) {
        let wake = || {
            let waker = self.waker.lock().unwrap().clone();
            waker.expect("the suite sets a waker")();
        };
        *woken += 1;
        match flaw {
            WakeFlaw::None => {}
            WakeFlaw::Sometimes(n) if *woken % n == 0 => {
                return self.completions.lock().unwrap().push(completion);
            }
            WakeFlaw::Sometimes(_) => {}
            WakeFlaw::Early => {
                wake();
                std::thread::sleep(Duration::from_millis(30));
                return self.completions.lock().unwrap().push(completion);
            }
        }
        self.completions.lock().unwrap().push(completion);
        wake();
    }
}

impl DeviceQueue for ThreadedQueue {
    fn geometry(&self, device: DeviceId) -> Option<Geometry> {
        self.geometries.iter().find(|g| g.0 == device).map(|g| g.1)
    }

    fn submit(&mut self, _: UTime, requests: &mut Vec<Request>) {
        let jobs = self.jobs.as_ref().expect("only `drop` takes it");
        jobs.send(std::mem::take(requests)).expect("the thread waits for jobs");
    }

    fn turn(&mut self, _: UTime) {}

    fn deadline(&self) -> Option<UTime> {
        None
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.shared.completions.lock().unwrap());
    }

    fn set_waker(&mut self, waker: Waker) {
        *self.shared.waker.lock().unwrap() = Some(waker);
    }
}

impl Drop for ThreadedQueue {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // Its own panic has been shown already.
            let _ = thread.join();
        }
    }
}
