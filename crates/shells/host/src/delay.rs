//! `osd_debug_inject_dispatch_delay_*`: now and then an OSD's thread sleeps before it takes a client's operation, as
//! Ceph's does under the same names. It makes a slowdown of a known size, which the lab's statistics must then find.
//!
//! Differs from Ceph: it has three such places on the way of an operation, here is one; and all daemons of a core wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use options::{Values, opt};
use types::SplitMix64;

/// How often to sleep, and how long.
pub(crate) struct DispatchDelay {
    /// Of 2^32 operations.
    often: u64,
    duration: Duration,
    operations: AtomicU64,
}

impl DispatchDelay {
    pub(crate) fn of(values: &Values) -> Self {
        let probability = values.get(opt::OSD_DEBUG_INJECT_DISPATCH_DELAY_PROBABILITY).clamp(0.0, 1.0);
        Self {
            often: (probability * f64::from(u32::MAX) + 0.5) as u64,
            duration: Duration::from_secs_f64(values.get(opt::OSD_DEBUG_INJECT_DISPATCH_DELAY_DURATION)),
            operations: AtomicU64::new(0),
        }
    }

    /// Sleeps if it is this operation's turn.
    pub(crate) fn inject(&self) {
        if self.often > 0 && self.is_due(self.operations.fetch_add(1, Ordering::Relaxed)) {
            std::thread::sleep(self.duration);
        }
    }

    /// Whether the n-th operation is delayed: scattered like random numbers, the same in every process.
    fn is_due(&self, n: u64) -> bool {
        SplitMix64::at(0, n) >> 32 < self.often
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn delay(probability: &str, duration: &str) -> DispatchDelay {
        let mut values = Values::new();
        values.set("osd_debug_inject_dispatch_delay_probability", probability).unwrap();
        values.set("osd_debug_inject_dispatch_delay_duration", duration).unwrap();
        DispatchDelay::of(&values)
    }

    #[test]
    fn as_many_operations_are_delayed_as_asked() {
        for (probability, expected) in [("0", 0..1), ("0.25", 24_500..25_500), ("1", 100_000..100_001)] {
            let delay = delay(probability, "0.1");
            let due = (0..100_000).filter(|&n| delay.is_due(n)).count();
            assert!(expected.contains(&due), "{probability}: {due}");
        }
    }

    #[test]
    fn a_delayed_operation_waits_as_long_as_asked_and_others_do_not() {
        let took = |delay: DispatchDelay| {
            let before = Instant::now();
            delay.inject();
            before.elapsed()
        };
        assert!(took(delay("1", "0.02")) >= Duration::from_millis(20));
        assert!(took(delay("0", "20")) < Duration::from_secs(10), "a sleep of 20 s that nobody asked for");
    }
}
