//! Keys of an omap that are ordered by time, as the classes `log` and `timeindex` have them.

use types::UTime;

/// What all of these keys begin with.
pub(crate) const PREFIX: &str = "1_";

/// What the keys of a time begin with: seconds and microseconds, in decimal digits.
pub(crate) fn of_time(time: UTime) -> Vec<u8> {
    format!("{PREFIX}{:010}.{:06}_", time.sec, time.nsec / 1000).into_bytes()
}

/// Compares `key` with a bound of which it may be a continuation: then they are equal.
pub(crate) fn compare_start(key: &[u8], bound: &[u8]) -> std::cmp::Ordering {
    key[..key.len().min(bound.len())].cmp(bound)
}
