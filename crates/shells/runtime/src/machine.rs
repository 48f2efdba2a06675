//! The machine's time zone and load.

use chrono::{Local, Offset, TimeZone};
use types::UTime;

/// Seconds that local time is ahead of UTC at `at`, by `TZ` or `/etc/localtime`; daylight saving time counts as it comes. 0
/// where no zone can be told.
pub fn utc_offset(at: UTime) -> i32 {
    let local = Local.timestamp_opt(i64::from(at.sec), 0);
    local.earliest().map_or(0, |local| local.offset().fix().local_minus_utc())
}

/// The machine's load of the last minute, divided by its processors.
pub fn load() -> f64 {
    /// The kernel counts in such parts (`SI_LOAD_SHIFT`).
    const ONE: f64 = 65536.0;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    rustix::system::sysinfo().loads[0] as f64 / ONE / processors as f64
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What this test's program says in a process with another zone.
    fn offset_in(zone: &str, at: u32) -> i32 {
        let me = std::env::current_exe().unwrap();
        let asked = Command::new(me)
            .args(["--exact", "machine::tests::says_the_offset", "--nocapture"])
            .env("TZ", zone)
            .env("ASKED_AT", at.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8(asked.stdout).unwrap();
        let (_, offset) = said.split_once("offset=").unwrap_or_else(|| panic!("{said}"));
        offset.lines().next().unwrap().parse().unwrap()
    }

    #[test]
    fn says_the_offset() {
        if let Ok(at) = std::env::var("ASKED_AT") {
            println!("offset={}", utc_offset(UTime { sec: at.parse().unwrap(), nsec: 0 }));
        }
    }

    #[test]
    fn the_offset_is_the_zones_and_changes_with_daylight_saving_time() {
        // The rule in POSIX's form needs no files of zones.
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        assert_eq!(offset_in(berlin, 1_711_846_799), 3600);
        assert_eq!(offset_in(berlin, 1_711_846_800), 7200);
        assert_eq!(offset_in("UTC0", 1_711_846_800), 0);
        assert_eq!(offset_in("NPT-5:45", 1_711_846_800), 20_700);
        assert_eq!(offset_in("EST5", 1_711_846_800), -18_000);
    }

    #[test]
    fn the_load_is_a_number() {
        assert!(load().is_finite() && load() >= 0.0);
    }
}
