//! A modelled device below real files: I/O is done for real, and completes when the model says so.
//!
//! Several files may lie on one modelled device, each on a [`ModelledRange`] of it. Whoever waits for a completion moves the
//! model's time on: one of the waiting threads sleeps until the model's next event, the others until that one wakes
//! them. While no thread waits nothing runs: the model catches up at its next use.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use devmodel::{Model, ModelError, Nanos, Request};

/// Most writes in flight: the length of a disk's queue in Linux.
const WRITES_MAX: usize = 128;

/// The last stretch before an event is waited for awake. A sleep ends late by what an idle core takes to wake up: with
/// 30 microseconds here the SSD's reads at depth 1 were a tenth slower.
const SPIN: Nanos = 120_000;

/// No sleep is longer, whatever the model says.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A modelled device with a clock. Clones are the same device.
#[derive(Clone)]
pub struct Modelled(Arc<Shared>);

struct Shared {
    origin: Instant,
    state: Mutex<State>,
    /// The thread that sleeps until the next event waits here.
    timer: Condvar,
}

struct State {
    model: Model,
    next_id: u64,
    /// Requests in flight, and who waits for each.
    open: BTreeMap<u64, Option<Thread>>,
    /// When the sleeping thread wakes up; `None` if there is none.
    sleeps_until: Option<Nanos>,
}

/// A request in flight.
#[derive(Debug)]
#[must_use = "a request that nobody waits for takes no time"]
pub struct InFlightRequest(u64);

impl std::fmt::Debug for Modelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Modelled({})", self.0.state().model.name())
    }
}

impl Modelled {
    /// A device of a model's name, with `parameters` as `a=b,c=d` over the model's own.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn named(name: &str, parameters: &str, size_bytes: u64) -> Result<Self, ModelError> {
        let model = Model::named(name, &devmodel::pairs(parameters)?, size_bytes)?;
        let state = State { model, next_id: 0, open: BTreeMap::new(), sleeps_until: None };
        let (origin, timer) = (Instant::now(), Condvar::new());
        Ok(Self(Arc::new(Shared { origin, state: Mutex::new(state), timer })))
    }

    /// A request goes to the device.
    pub fn begin(&self, request: Request) -> InFlightRequest {
        let mut state = self.0.state();
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, None);
        let now = self.0.now();
        state.model.arrive(now, id, request);
        state.collect(now);
        // The sleeping thread may have to wake up earlier now.
        if state.sleeps_until.is_some_and(|until| state.model.next_event().is_some_and(|next| next < until)) {
            self.0.timer.notify_one();
        }
        InFlightRequest(id)
    }

    /// Whether the device has done all of these.
    fn all_done<'a>(&self, mut tickets: impl Iterator<Item = &'a InFlightRequest>) -> bool {
        let mut state = self.0.state();
        state.collect(self.0.now());
        tickets.all(|ticket| !state.open.contains_key(&ticket.0))
    }

    /// Returns when the device has done the request.
    pub fn wait(&self, ticket: InFlightRequest) {
        let mut state = self.0.state();
        loop {
            state.collect(self.0.now());
            if !state.open.contains_key(&ticket.0) {
                break;
            }
            if state.sleeps_until.is_some() {
                state.open.insert(ticket.0, Some(std::thread::current()));
                drop(state);
                std::thread::park_timeout(SLEEP_MAX);
                state = self.0.state();
                continue;
            }
            state = self.0.sleep(state);
        }
        // Another waiting thread has to watch the time now.
        if state.sleeps_until.is_none() {
            if let Some(thread) = state.open.values().flatten().next() {
                thread.unpark();
            }
        }
    }
}

impl Shared {
    fn now(&self) -> Nanos {
        self.origin.elapsed().as_nanos() as Nanos
    }

    /// A panic elsewhere doesn't make the state wrong.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the model's next event, or until a request makes that earlier.
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let until = state.model.next_event().unwrap_or(Nanos::MAX);
        state.sleeps_until = Some(until);
        let left = until.saturating_sub(self.now());
        if left > SPIN {
            exact_timers();
            let left = Duration::from_nanos(left - SPIN).min(SLEEP_MAX);
            let slept = self.timer.wait_timeout(state, left);
            state = slept.unwrap_or_else(PoisonError::into_inner).0;
        } else {
            drop(state);
            while self.now() < until {
                std::thread::yield_now();
            }
            state = self.state();
        }
        state.sleeps_until = None;
        state
    }
}

impl State {
    /// Closes what is done, and wakes those who wait for it.
    fn collect(&mut self, now: Nanos) {
        for done in self.model.complete(now) {
            if let Some(thread) = self.open.remove(&done.id).flatten() {
                thread.unpark();
            }
        }
    }
}

/// Linux lets a thread's timers be 50 microseconds late so that they go off together; ours must not.
fn exact_timers() {
    thread_local!(static DONE: () = {
        // Without it sleeps are less exact, no more.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    });
    DONE.with(|()| ());
}

/// A range of a modelled device that a file lies on.
#[derive(Clone, Debug)]
pub struct ModelledRange {
    device: Modelled,
    base: u64,
    span: u64,
    /// Writes that were begun and not waited for.
    writes: Arc<Mutex<VecDeque<InFlightRequest>>>,
}

impl ModelledRange {
    /// Bytes `base..base + span` of a device. A file that is longer begins at the range's start again.
    pub fn new(device: &Modelled, base: u64, span: u64) -> Self {
        Self { device: device.clone(), base, span: span.max(1), writes: Arc::default() }
    }

    /// Where a byte of the file lies.
    fn at(&self, offset: u64) -> u64 {
        self.base + offset % self.span
    }

    /// A read begins.
    pub(crate) fn read(&self, offset: u64, length: u64) -> InFlightRequest {
        self.device.begin(Request::read(self.at(offset), length))
    }

    /// A write begins.
    pub(crate) fn write(&self, offset: u64, length: u64) -> InFlightRequest {
        self.device.begin(Request::write(self.at(offset), length))
    }

    /// Waits for a request.
    pub(crate) fn wait(&self, ticket: InFlightRequest) {
        self.device.wait(ticket);
    }

    /// Leaves a write in flight until the next flush; waits for the oldest if there are too many.
    pub(crate) fn leave(&self, write: InFlightRequest) {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.push_back(write);
        let oldest = (writes.len() > WRITES_MAX).then(|| writes.pop_front()).flatten();
        drop(writes);
        if let Some(oldest) = oldest {
            self.device.wait(oldest);
        }
    }

    /// Waits for the writes in flight, then for the device's flush. `sync` is the real one: it runs beside what takes
    /// the model long, which is the writes without a cache, and the flush with one.
    pub(crate) fn flush<T>(&self, sync: impl FnOnce() -> T) -> T {
        let writes = std::mem::take(&mut *self.writes.lock().unwrap_or_else(PoisonError::into_inner));
        if self.device.all_done(writes.iter()) {
            let flush = self.device.begin(Request::flush());
            let synced = sync();
            self.device.wait(flush);
            return synced;
        }
        let synced = sync();
        for write in writes {
            self.device.wait(write);
        }
        self.device.wait(self.device.begin(Request::flush()));
        synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose every request takes 20 ms or, being alone in its queue, so much longer.
    fn device() -> Modelled {
        Modelled::named("ssd", "read_us=20000, write_us=20000, channels=64, flush_us=20000", 1 << 30).unwrap()
    }

    fn took(work: impl FnOnce()) -> u128 {
        let start = Instant::now();
        work();
        start.elapsed().as_millis()
    }

    #[test]
    fn requests_of_many_threads_are_in_flight_together() {
        let device = device();
        let ms = took(|| {
            std::thread::scope(|scope| {
                for n in 0..32 {
                    let part = ModelledRange::new(&device, 0, 1 << 30);
                    scope.spawn(move || part.wait(part.read(n * 4096, 4096)));
                }
            });
        });
        // One after the other they would take 640 ms. The machine may be busy with other things.
        assert!((20..300).contains(&ms), "{ms}");
    }

    #[test]
    fn writes_are_waited_for_by_the_flush() {
        let part = ModelledRange::new(&device(), 1 << 20, 1 << 20);
        let write = || (0..8).for_each(|n| part.leave(part.write(n * 4096, 4096)));
        // Waiting for each would take 160 ms. The machine may be busy.
        assert!(took(write) < 100, "a write returns when it is queued");
        assert!((20..300).contains(&took(|| part.flush(|| ()))), "the writes, then the flush");
        assert!(part.device.0.state().open.is_empty());
    }

    #[test]
    fn writes_in_flight_are_bounded() {
        let part = ModelledRange::new(&device(), 0, 1 << 30);
        for n in 0..3 * WRITES_MAX as u64 {
            part.leave(part.write(n * 4096, 4096));
            assert!(part.writes.lock().unwrap().len() <= WRITES_MAX);
        }
        assert!(took(|| part.flush(|| ())) < 1000);
    }

    #[test]
    fn parameters_are_checked() {
        let named = |parameters| Modelled::named("disk-7200", parameters, 1 << 30);
        assert!(named("").is_ok() && named(" rpm = 5400 ,seek_full_ms=20").is_ok());
        assert!(matches!(named("rmp=1"), Err(ModelError::UnknownParameter { .. })));
        assert!(matches!(named("rpm"), Err(ModelError::NoPair { .. })));
    }
}
