//! The wall clock as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, RFC 3339, UTC, to the second.
pub(crate) fn now_text() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day, hour, minute, second) =
        types::UTime { sec: u32::try_from(seconds).unwrap_or(u32::MAX), nsec: 0 }.civil();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
