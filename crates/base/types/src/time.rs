//! Wall-clock time as Ceph writes it.

use core::time::Duration;
use std::fmt;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Seconds and nanoseconds since 1970, UTC (Ceph's utime_t).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UTime {
    /// Seconds since 1970.
    pub sec: u32,
    /// Nanoseconds, below 1e9 when well-formed.
    pub nsec: u32,
}

impl UTime {
    /// From nanoseconds since 1970 (good until 2106).
    pub fn from_nanos(nanos: u64) -> Self {
        Self { sec: (nanos / 1_000_000_000) as u32, nsec: (nanos % 1_000_000_000) as u32 }
    }

    /// Nanoseconds since 1970.
    pub fn as_nanos(self) -> u64 {
        u64::from(self.sec) * 1_000_000_000 + u64::from(self.nsec)
    }

    /// The moment `by` later; the last one there is where that is too far.
    pub fn after(self, by: Duration) -> Self {
        let nanos = self.as_nanos().saturating_add(by.as_nanos().min(u64::MAX.into()) as u64);
        Self::from_nanos(nanos.min(u64::from(u32::MAX) * 1_000_000_000))
    }

    /// Year, month, day, hour, minute, second of this moment in UTC.
    pub fn civil(self) -> (i64, u32, u32, u32, u32, u32) {
        // Days to a date in the proleptic Gregorian calendar, with years that start in March so that a leap day is
        // a year's last.
        let days = i64::from(self.sec / 86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let second = self.sec % 86_400;
        (year, month, day, second / 3600, second / 60 % 60, second % 60)
    }
}

impl fmt::Display for UTime {
    /// Ceph's form: `2026-11-21T06:29:00.123456+0000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day, hour, minute, second) = self.civil();
        let micros = self.nsec / 1000;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
    }
}

impl Encode for UTime {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.sec).put(&self.nsec);
    }
}
impl Decode for UTime {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { sec: d.get()?, nsec: d.get()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_prints_as_a_date() {
        assert_eq!(UTime { sec: 0, nsec: 0 }.to_string(), "1970-01-01T00:00:00.000000+0000");
        assert_eq!(UTime { sec: 951_782_400, nsec: 1_500 }.to_string(), "2000-02-29T00:00:00.000001+0000");
        assert_eq!(UTime::from_nanos(1_795_242_541 * 1_000_000_000 + 5).as_nanos() % 10, 5);
    }
}
