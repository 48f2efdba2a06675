//! The slowest operations of the recent past.

use core::time::Duration;

use types::UTime;

/// How many finished operations are kept, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryConfig {
    /// The slowest ones that are kept (osd_op_history_size), each for so long after it was received
    /// (osd_op_history_duration).
    pub size: usize,
    pub duration: Duration,
    /// The latest ones that are kept of those that took `slow_threshold` or longer, however long ago
    /// (osd_op_history_slow_op_size, osd_op_history_slow_op_threshold).
    pub slow_size: usize,
    pub slow_threshold: Duration,
}

impl Default for HistoryConfig {
    /// Nothing is kept.
    fn default() -> Self {
        Self { size: 0, duration: Duration::ZERO, slow_size: 0, slow_threshold: Duration::ZERO }
    }
}

/// A finished operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished<T> {
    pub received: UTime,
    /// Nanoseconds until its reply.
    pub took: u64,
    pub op: T,
}

/// The slowest operations that finished lately. An operation that is not among them costs two comparisons.
#[derive(Debug)]
pub struct History<T> {
    config: HistoryConfig,
    longest: Vec<Finished<T>>,
    slow: Vec<Finished<T>>,
    /// What an operation must have taken longer than to be kept, until `expires`.
    floor: Option<u64>,
    expires: UTime,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        let (longest, slow, expires) = (Vec::new(), Vec::new(), UTime::default());
        Self { config: HistoryConfig::default(), longest, slow, floor: None, expires }
    }
}

impl<T: Clone> History<T> {
    /// Puts other limits in force.
    pub fn configure(&mut self, now: UTime, config: HistoryConfig) {
        self.config = config;
        self.trim(now);
    }

    /// Whether an operation that took so many nanoseconds is to be kept.
    #[inline]
    pub fn wants(&self, now: UTime, took: u64) -> bool {
        let is_longer = self.floor.is_none_or(|floor| took > floor);
        let is_long = self.config.size > 0 && (is_longer || now >= self.expires);
        is_long || self.is_slow(took)
    }

    fn is_slow(&self, took: u64) -> bool {
        self.config.slow_size > 0 && u128::from(took) >= self.config.slow_threshold.as_nanos()
    }

    /// Keeps an operation that is wanted.
    pub fn keep(&mut self, now: UTime, finished: Finished<T>) {
        if self.is_slow(finished.took) {
            self.slow.push(finished.clone());
        }
        self.longest.push(finished);
        self.trim(now);
    }

    fn trim(&mut self, now: UTime) {
        let HistoryConfig { size, duration, slow_size, .. } = self.config;
        self.longest.retain(|op| op.received.after(duration) > now);
        self.longest.sort_by_key(|op| core::cmp::Reverse(op.took));
        self.longest.truncate(size);
        self.floor = self.longest.last().filter(|_| self.longest.len() == size).map(|op| op.took);
        self.expires = self.longest.iter().map(|op| op.received.after(duration)).min().unwrap_or_default();
        let excess = self.slow.len().saturating_sub(slow_size);
        self.slow.drain(..excess);
    }

    /// The slowest ones, the slowest first.
    pub fn longest(&mut self, now: UTime) -> &[Finished<T>] {
        self.trim(now);
        &self.longest
    }

    /// The latest ones past the threshold, the oldest first.
    pub fn slow(&self) -> &[Finished<T>] {
        &self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> UTime {
        UTime::from_nanos((1_800_000_000 + secs) * 1_000_000_000)
    }

    fn history() -> History<u32> {
        let mut history = History::default();
        let config = HistoryConfig {
            size: 3,
            duration: Duration::from_secs(600),
            slow_size: 2,
            slow_threshold: Duration::from_nanos(1000),
        };
        history.configure(at(0), config);
        history
    }

    fn finish(history: &mut History<u32>, now: UTime, took: u64, op: u32) -> bool {
        let wanted = history.wants(now, took);
        if wanted {
            history.keep(now, Finished { received: now, took, op });
        }
        wanted
    }

    fn ops(finished: &[Finished<u32>]) -> Vec<u32> {
        finished.iter().map(|f| f.op).collect()
    }

    #[test]
    fn the_slowest_are_kept_until_they_are_old() {
        let mut history = history();
        for (op, took) in [(1, 50), (2, 70), (3, 60)] {
            assert!(finish(&mut history, at(0), took, op));
        }
        assert!(!finish(&mut history, at(1), 50, 4), "three were slower or as slow");
        assert!(finish(&mut history, at(1), 65, 5));
        assert_eq!(ops(history.longest(at(1))), [2, 5, 3]);
        assert!(finish(&mut history, at(600), 1, 6), "the first ones have expired");
        assert_eq!(ops(history.longest(at(600))), [5, 6]);
        assert!(history.longest(at(1201)).is_empty());
    }

    #[test]
    fn the_latest_slow_ones_are_kept_for_good() {
        let mut history = history();
        for (op, took) in [(1, 1000), (2, 5000), (3, 999), (4, 1001)] {
            finish(&mut history, at(op.into()), took, op);
        }
        assert_eq!(ops(history.slow()), [2, 4]);
        assert_eq!(ops(history.longest(at(5))), [2, 4, 1]);
        history.longest(at(10_000));
        assert_eq!(ops(history.slow()), [2, 4]);
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_to_be() {
        let mut history = history();
        finish(&mut history, at(0), 5000, 1);
        history.configure(at(0), HistoryConfig::default());
        assert!(!finish(&mut history, at(0), u64::MAX, 2));
        assert!(history.longest(at(0)).is_empty() && history.slow().is_empty());
    }
}
