//! Bringing a machine to its end on the caller's thread, which sleeps while the device works.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use blockdev::Waker;
use types::UTime;

/// The longest sleep: a device that forgets to wake its owner costs time and no more.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Rung by a device's queue.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    called: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.called.notify_one();
    }

    fn wait(&self, longest: Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.called.wait_timeout_while(rung, longest, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// The time and the bell of a thread that waits for a device.
pub struct Driver {
    start: UTime,
    since: Instant,
    bell: Arc<Bell>,
}

impl Driver {
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = UTime::from_nanos(since_epoch.as_nanos() as u64);
        Self { start, since: Instant::now(), bell: Arc::default() }
    }

    /// The time of day at the start and what has passed since.
    pub fn now(&self) -> UTime {
        self.start.after(self.since.elapsed())
    }

    /// What the queue is to call.
    pub fn waker(&self) -> Waker {
        let bell = Arc::clone(&self.bell);
        Arc::new(move || bell.ring())
    }

    /// Gives turns until one has an outcome.
    pub fn run<M, T>(
        &self,
        machine: &mut M,
        mut turn: impl FnMut(&mut M, UTime) -> Option<T>,
        deadline: impl Fn(&M) -> Option<UTime>,
    ) -> T {
        loop {
            let now = self.now();
            if let Some(outcome) = turn(machine, now) {
                return outcome;
            }
            let left = deadline(machine).map(|at| at.as_nanos().saturating_sub(now.as_nanos()));
            self.bell.wait(left.map_or(SLEEP_MAX, Duration::from_nanos).min(SLEEP_MAX));
        }
    }
}
