//! The machine's time zone and load, from the C library: no other part knows the rules of `TZ` and `/etc/localtime`.

use types::UTime;

/// Seconds that local time is ahead of UTC at `at`. The zone is that of the process's start; its daylight saving time
/// counts as it comes. 0 where no zone can be told.
#[allow(unsafe_code, reason = "the C library has the rules of time zones")]
pub fn utc_offset(at: UTime) -> i32 {
    let seconds = libc::time_t::from(at.sec);
    // SAFETY: all of `tm` are numbers but one pointer, which may be null; zero is a value of each.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to values of this function, for the time of the call.
    let done = unsafe { libc::localtime_r(&seconds, &mut local) };
    if done.is_null() { 0 } else { i32::try_from(local.tm_gmtoff).unwrap_or(0) }
}

/// The machine's load of the last minute, divided by its processors. 0 where it can't be told.
#[allow(unsafe_code, reason = "the C library has the load")]
pub fn load() -> f64 {
    let mut load = 0.0;
    // SAFETY: there is a place for the one number that is asked for.
    let given = unsafe { libc::getloadavg(&mut load, 1) };
    // SAFETY: it takes a number and gives one.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    if given == 1 { load / processors.max(1) as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What this test's program says in a process with another zone: the C library reads the zone once.
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
