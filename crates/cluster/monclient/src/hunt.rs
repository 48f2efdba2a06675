//! Which monitor to try next, and when.

use core::time::Duration;

use types::EntityAddrVec;

/// How long to wait for a monitor and between them.
#[derive(Clone, Debug)]
pub struct HuntConfig {
    /// Time after which a monitor without an open session is given up for the next one (mon_client_hunt_interval).
    pub attempt_timeout: Duration,
    /// Pause after every monitor failed once; grows by `backoff` with every such round.
    pub retry_delay_min: Duration,
    /// The longest pause.
    pub retry_delay_max: Duration,
    /// Growth of the pause (mon_client_hunt_interval_backoff).
    pub backoff: f64,
}

impl Default for HuntConfig {
    fn default() -> Self {
        Self {
            attempt_timeout: Duration::from_secs(3),
            retry_delay_min: Duration::from_millis(100),
            retry_delay_max: Duration::from_secs(3),
            backoff: 1.5,
        }
    }
}

/// The order of trying: round and round from a given start, with a growing pause after each round without success.
#[derive(Debug)]
pub(crate) struct Hunt {
    config: HuntConfig,
    monitors: Vec<EntityAddrVec>,
    next: usize,
    tried: usize,
    delay: Duration,
}

impl Hunt {
    pub(crate) fn new(config: HuntConfig, monitors: Vec<EntityAddrVec>, start: usize) -> Self {
        let next = start.checked_rem(monitors.len()).unwrap_or(0);
        Self { delay: config.retry_delay_min, config, monitors, next, tried: 0 }
    }

    /// Sets the monitors of a new map. Hunting goes on at the same place.
    pub(crate) fn set_monitors(&mut self, monitors: Vec<EntityAddrVec>) {
        if monitors != self.monitors && !monitors.is_empty() {
            self.next = 0;
            self.tried = 0;
            self.monitors = monitors;
        }
    }

    /// The next monitor to try, and how long to wait before that (mostly zero).
    pub(crate) fn pick(&mut self) -> Option<(EntityAddrVec, Duration)> {
        let mut wait = Duration::ZERO;
        if self.tried >= self.monitors.len() {
            self.tried = 0;
            wait = self.delay;
            self.delay = self.delay.mul_f64(self.config.backoff.max(1.0)).min(self.config.retry_delay_max);
        }
        let monitor = self.monitors.get(self.next)?.clone();
        self.next = (self.next + 1) % self.monitors.len();
        self.tried += 1;
        Some((monitor, wait))
    }

    /// A session is open: the next hunt begins without a pause.
    pub(crate) fn succeeded(&mut self) {
        self.tried = 0;
        self.delay = self.config.retry_delay_min;
    }

    pub(crate) fn attempt_timeout(&self) -> Duration {
        self.config.attempt_timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::EntityAddr;

    fn monitors(n: u16) -> Vec<EntityAddrVec> {
        (0..n).map(|i| EntityAddr::v2(([127, 0, 0, 1], 3300 + i).into(), 0).into()).collect()
    }

    #[test]
    fn every_monitor_is_tried_before_any_is_tried_again_and_the_pause_grows_up_to_its_limit() {
        let config = HuntConfig { backoff: 10.0, ..HuntConfig::default() };
        let (all, mut hunt) = (monitors(3), Hunt::new(config, monitors(3), 7));
        let mut waits = Vec::new();
        for i in 0..12 {
            let (monitor, wait) = hunt.pick().unwrap();
            assert_eq!(monitor, all[(7 + i) % 3]);
            waits.push(wait.as_millis());
        }
        assert_eq!(waits, [0, 0, 0, 100, 0, 0, 1000, 0, 0, 3000, 0, 0]);
        hunt.succeeded();
        assert_eq!(hunt.pick().unwrap().1, Duration::ZERO);
    }

    #[test]
    fn without_monitors_there_is_nothing_to_try() {
        assert!(Hunt::new(HuntConfig::default(), vec![], 5).pick().is_none());
    }
}
