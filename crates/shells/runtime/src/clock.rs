//! Wall-clock time that never goes back while the process runs.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use types::UTime;

/// The time of day at the start, and what has passed since.
#[derive(Clone, Copy)]
pub struct Clock {
    start_nanos: u64,
    start: Instant,
}

impl Clock {
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start_nanos: since_epoch.as_nanos() as u64, start: Instant::now() }
    }

    pub fn now(&self) -> UTime {
        UTime::from_nanos(self.start_nanos + self.start.elapsed().as_nanos() as u64)
    }
}
