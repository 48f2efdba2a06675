//! The threads of one device.
//!
//! A thread is started when a request waits and none is idle, up to the device's queue depth. Flushes that wait together
//! are one: while one runs the others gather, and the next covers all of them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use blockdev::{DeviceError, DeviceId, Done, Geometry, Op};

use super::threads::Job;
use super::unit::Unit;

/// One device and its threads. Its drop waits for what is in flight.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    unit: Unit,
    state: Mutex<State>,
    /// Idle threads wait here.
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    flushes: Vec<Job>,
    flushing: bool,
    idle: usize,
    threads: usize,
    closing: bool,
}

/// What a thread does next.
enum Work {
    One(Job),
    Flush(Vec<Job>),
}

impl Pool {
    /// Begins with one thread, so that there is always one.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(unit: Unit) -> io::Result<Self> {
        let shared = Arc::new(Shared { unit, state: Mutex::default(), work: Condvar::new() });
        let pool = Self { shared, threads: Mutex::default() };
        pool.add_thread(&mut pool.shared.state())?;
        Ok(pool)
    }

    pub fn geometry(&self) -> Geometry {
        self.shared.unit.geometry
    }

    pub fn unit(&self) -> &Unit {
        &self.shared.unit
    }

    /// Takes a request that was checked.
    pub fn push(&self, job: Job) {
        let mut state = self.shared.state();
        match &job.op {
            Op::Flush => state.flushes.push(job),
            Op::Read { .. } | Op::Write { .. } | Op::Discard { .. } => state.jobs.push_back(job),
        }
        let waiting = state.jobs.len() + usize::from(!state.flushing && !state.flushes.is_empty());
        if waiting > state.idle && state.threads < self.geometry().queue_depth {
            // Without one more the request waits for those that there are.
            let _ = self.add_thread(&mut state);
        }
        self.shared.work.notify_one();
    }

    fn add_thread(&self, state: &mut State) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let name = match shared.unit.id {
            DeviceId::Data => "data",
            DeviceId::Wal => "wal",
            DeviceId::Db => "db",
        };
        let name = format!("bdev-{name}-{}", state.threads);
        let thread = std::thread::Builder::new().name(name).spawn(move || shared.work())?;
        state.threads += 1;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closing = true;
        state.jobs.clear();
        state.flushes.clear();
        drop(state);
        self.shared.work.notify_all();
        for thread in std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)) {
            // A panic of its own has been shown already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// A panic elsewhere doesn't make the state wrong.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(work) = self.next() {
            match work {
                Work::One(job) => {
                    if !job.ready.is_dropped() {
                        job.ready.complete(job.token, self.unit.perform(job.op));
                    }
                }
                Work::Flush(jobs) => {
                    let flushed: Result<(), DeviceError> = self.unit.flush();
                    self.flush_has_ended();
                    for job in jobs {
                        job.ready.complete(job.token, flushed.clone().map(|()| Done::Flushed));
                    }
                }
            }
        }
    }

    /// Waits for something to do; `None` when the device is closed.
    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        loop {
            if state.closing {
                return None;
            }
            if !state.flushing && !state.flushes.is_empty() {
                state.flushing = true;
                return Some(Work::Flush(std::mem::take(&mut state.flushes)));
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(Work::One(job));
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Lets the flushes that gathered meanwhile go next.
    fn flush_has_ended(&self) {
        let mut state = self.state();
        state.flushing = false;
        if !state.flushes.is_empty() {
            self.work.notify_one();
        }
    }
}
