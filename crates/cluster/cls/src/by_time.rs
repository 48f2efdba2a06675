//! What the classes `log` and `timeindex` share: keys of an omap that are ordered by time, and the listing of them.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Name, UTime};

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

/// The key where a range begins or ends: `marker`, or that of `time` where there is no marker.
pub(crate) fn key(marker: Name, time: UTime) -> Name {
    if marker.is_empty() { of_time(time).into() } else { marker }
}

/// Input of `list` (cls_log_list_op, cls_timeindex_list_op: the same bytes).
pub(crate) struct ListOp {
    pub(crate) from_time: UTime,
    /// Where it is not empty: the key to begin after, instead of a time.
    marker: Name,
    /// Exclusive; no limit where it is before `from_time`.
    pub(crate) to_time: UTime,
    pub(crate) max_entries: i32,
}

impl ListOp {
    pub(crate) fn first_key(&self) -> Name {
        key(self.marker.clone(), self.from_time)
    }
}

impl Decode for ListOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "list_op of a class", |d, _| {
            Ok(Self { from_time: d.get()?, marker: d.get()?, to_time: d.get()?, max_entries: d.get()? })
        })
    }
}

/// Output of `list` (cls_log_list_ret, cls_timeindex_list_ret: the same bytes around the entries).
pub(crate) struct ListReply<E> {
    pub(crate) entries: Vec<E>,
    /// The last key that was looked at.
    pub(crate) marker: Name,
    pub(crate) truncated: bool,
}

impl<E: Encode> Encode for ListReply<E> {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.entries).put(&self.marker).put(&self.truncated);
        });
    }
}
#[cfg(test)]
impl<E: Decode> Decode for ListReply<E> {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "list_ret of a class", |d, _| {
            Ok(Self { entries: d.get()?, marker: d.get()?, truncated: d.get()? })
        })
    }
}
