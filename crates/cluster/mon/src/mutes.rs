//! Muted health checks: until when, and what they had found when they were muted. A mute ends when its time is over,
//! and, unless it is sticky, when its check clears or gets worse.

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::UTime;

use crate::health::Health;
use crate::mon::Mon;
use crate::service::log::LogLevel;
use crate::state::StateKey;

const SERVICE: &str = "health_mute";

/// A mute of a health check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mute {
    /// When it ends by itself.
    pub until: Option<UTime>,
    /// Whether it stays when the check clears or gets worse.
    pub sticky: bool,
    /// What the check had found; empty for a sticky one.
    pub summary: String,
    /// How many things it had found; 0 for a check that does not count, and for a sticky mute.
    pub count: i64,
}

impl Encode for Mute {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.until.unwrap_or_default()).put(&self.sticky);
            e.put(self.summary.as_str()).put(&self.count);
        });
    }
}
impl Decode for Mute {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "mute", |d, _| {
            let until = Some(d.get::<UTime>()?).filter(|until| *until != UTime::default());
            Ok(Self { until, sticky: d.get()?, summary: d.get()?, count: d.get()? })
        })
    }
}

/// What becomes of a mute.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MuteUpdate {
    Stays,
    /// Its check has found less: from now on more than that ends it.
    Lowered(i64),
    /// It ends, for this reason.
    Ends(String),
}

impl Mute {
    fn update(&self, now: UTime, code: &str, health: &Health) -> MuteUpdate {
        if let Some(until) = self.until.filter(|until| *until <= now) {
            return MuteUpdate::Ends(format!("passed TTL {until}"));
        }
        if self.sticky {
            return MuteUpdate::Stays;
        }
        match health.get(code) {
            None => MuteUpdate::Ends("health alert cleared".into()),
            Some(check) if self.count > 0 && check.count > self.count => {
                MuteUpdate::Ends(format!("count increased from {} to {}", self.count, check.count))
            }
            Some(check) if self.count > 0 && check.count < self.count => MuteUpdate::Lowered(check.count),
            Some(check) if self.count == 0 && check.summary != self.summary => {
                MuteUpdate::Ends("summary changed".into())
            }
            Some(_) => MuteUpdate::Stays,
        }
    }
}

impl Mon {
    /// The mutes, by the code of their check.
    pub(crate) fn mutes(&self) -> BTreeMap<String, Mute> {
        // A mute that does not decode is of a format without an end: it ends now.
        let read = |value: &[u8]| Mute::from_bytes(value).unwrap_or_default();
        self.stored_names(SERVICE).map(|(code, value)| (code.to_string(), read(value))).collect()
    }

    /// Mutes a code, or counts it again.
    pub(crate) fn set_mute(&mut self, code: &str, mute: Option<&Mute>) {
        let key = StateKey::name(SERVICE, code);
        match mute {
            Some(mute) => self.batch().put(key, mute.to_bytes(0)),
            None => self.batch().delete(key),
        }
    }

    /// Ends the mutes whose time is over, with a line each in the cluster log.
    pub(crate) fn end_mutes(&mut self, now: UTime) {
        let mutes = self.mutes();
        if mutes.is_empty() {
            return;
        }
        let health = self.health(now);
        for (code, mute) in mutes {
            match mute.update(now, &code, &health) {
                MuteUpdate::Stays => {}
                MuteUpdate::Lowered(count) => self.set_mute(&code, Some(&Mute { count, ..mute })),
                MuteUpdate::Ends(why) => {
                    self.set_mute(&code, None);
                    self.say(now, LogLevel::Info, format!("Health alert mute {code} cleared ({why})"));
                }
            }
        }
    }
}

/// A span of time as `health mute` takes it, in seconds: `90`, `5m`, `1h30m`, `2 days`. Nothing, or 0, is none.
pub(crate) fn parse_span(text: &str) -> Option<u32> {
    const UNITS: [(u64, &[&str]); 7] = [
        (1, &["", "s", "sec", "second", "seconds"]),
        (60, &["m", "min", "minute", "minutes"]),
        (3600, &["h", "hr", "hour", "hours"]),
        (86_400, &["d", "day", "days"]),
        (7 * 86_400, &["w", "wk", "week", "weeks"]),
        (30 * 86_400, &["mo", "month", "months"]),
        (365 * 86_400, &["y", "yr", "year", "years"]),
    ];
    let (mut rest, mut sum) = (text.trim(), 0u64);
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let after = after.trim_start();
        let (unit, left) =
            after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        // A number without a unit is seconds, and the last.
        if unit.is_empty() && !left.is_empty() {
            return None;
        }
        let (seconds, _) = UNITS.iter().find(|(_, names)| names.contains(&unit))?;
        sum = sum.checked_add(digits.parse::<u64>().ok()?.checked_mul(*seconds)?)?;
        rest = left.trim_start();
    }
    u32::try_from(sum).ok().filter(|sum| *sum > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Severity;

    fn found(n: usize) -> Health {
        let mut health = Health::default();
        health.add("OSD_DOWN", Severity::Warn, format!("{n} osds down"), vec![String::new(); n]);
        health
    }

    #[test]
    fn a_mute_ends_when_its_check_clears_or_gets_worse_or_its_time_is_over() {
        let now = UTime { sec: 100, nsec: 0 };
        let mute = Mute { count: 2, summary: "2 osds down".into(), ..Mute::default() };
        let ends = |mute: &Mute, health: &Health| {
            matches!(mute.update(now, "OSD_DOWN", health), MuteUpdate::Ends(_))
        };
        assert_eq!(mute.update(now, "OSD_DOWN", &found(2)), MuteUpdate::Stays);
        assert_eq!(mute.update(now, "OSD_DOWN", &found(1)), MuteUpdate::Lowered(1));
        assert!(ends(&mute, &found(3)) && ends(&mute, &Health::default()));
        let sticky = Mute { sticky: true, ..Mute::default() };
        assert!(!ends(&sticky, &found(3)) && !ends(&sticky, &Health::default()));
        let timed = |sec| Mute { until: Some(UTime { sec, nsec: 0 }), sticky: true, ..Mute::default() };
        assert!(ends(&timed(100), &found(1)) && !ends(&timed(101), &found(1)));
        let worded = |summary: &str| Mute { summary: summary.into(), ..Mute::default() };
        assert!(ends(&worded("other"), &found(1)) && !ends(&worded("1 osds down"), &found(1)));
    }

    #[test]
    fn a_mute_is_stored_and_read_as_it_was() {
        let full =
            Mute { until: Some(UTime { sec: 7, nsec: 8 }), sticky: true, summary: "x".into(), count: 3 };
        for mute in [Mute::default(), full] {
            assert_eq!(Mute::from_bytes(&mute.to_bytes(0)), Ok(mute));
        }
    }

    #[test]
    fn spans_have_units() {
        for (text, want) in [
            ("90", Some(90)),
            ("5m", Some(300)),
            ("1h30m", Some(5400)),
            (" 2 days ", Some(172_800)),
            ("1w 10s", Some(604_810)),
            ("", None),
            ("0", None),
            ("x", None),
            ("5q", None),
            ("10 5m", None),
            ("-5m", None),
            ("99999999999y", None),
        ] {
            assert_eq!(parse_span(text), want, "{text}");
        }
    }
}
