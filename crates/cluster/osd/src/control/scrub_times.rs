//! When scrubs of the schedule may begin: in which hours of local time, on which days of the week, under which load. One
//! that runs goes on, and what operators ask for begins at any time.

use options::opt;
use types::UTime;

use super::Control;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// The day of the week of 1970-01-01, a Thursday. Sunday is 0.
const FIRST_WEEK_DAY: i64 = 4;

/// The day of the week and the hour, where clocks are so many seconds ahead of UTC.
fn day_and_hour(now: UTime, utc_offset: i32) -> (u64, u64) {
    let local = i64::from(now.sec) + i64::from(utc_offset);
    let day = (local.div_euclid(DAY) + FIRST_WEEK_DAY).rem_euclid(7);
    (day as u64, (local.rem_euclid(DAY) / HOUR) as u64)
}

/// Whether `at` is in the window, which has its begin and not its end, and may go past the highest number to the lowest.
/// Where both are equal it is always open.
fn is_in_window(begin: u64, end: u64, at: u64) -> bool {
    if begin <= end { begin == end || (begin..end).contains(&at) } else { at >= begin || at < end }
}

impl Control {
    pub(super) fn schedule_may_scrub(&self, now: UTime) -> bool {
        let (day, hour) = day_and_hour(now, self.surroundings.utc_offset);
        let o = &self.options;
        is_in_window(o.get(opt::OSD_SCRUB_BEGIN_WEEK_DAY), o.get(opt::OSD_SCRUB_END_WEEK_DAY), day)
            && is_in_window(o.get(opt::OSD_SCRUB_BEGIN_HOUR), o.get(opt::OSD_SCRUB_END_HOUR), hour)
            && self.surroundings.load < o.get(opt::OSD_SCRUB_LOAD_THRESHOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(begin: u64, end: u64, of: u64) -> Vec<u64> {
        (0..of).filter(|at| is_in_window(begin, end, *at)).collect()
    }

    #[test]
    fn a_window_has_its_begin_and_not_its_end() {
        assert_eq!(open(1, 4, 24), [1, 2, 3]);
        assert_eq!(open(0, 1, 24), [0]);
        assert_eq!(open(1, 6, 7), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_window_may_go_past_midnight_and_past_saturday() {
        assert_eq!(open(22, 2, 24), [0, 1, 22, 23]);
        assert_eq!(open(23, 0, 24), [23]);
        assert_eq!(open(6, 1, 7), [0, 6]);
    }

    #[test]
    fn a_window_that_begins_where_it_ends_is_always_open() {
        for at in [0, 7, 23] {
            assert_eq!(open(at, at, 24).len(), 24);
        }
    }

    #[test]
    fn days_and_hours_are_those_of_the_zone() {
        let at = |sec: u32, utc_offset| day_and_hour(UTime { sec, nsec: 999_999_999 }, utc_offset);
        assert_eq!(at(0, 0), (4, 0));
        assert_eq!(at(0, -1), (3, 23), "before 1970 in the zone");
        assert_eq!(at(3599, 0), (4, 0));
        assert_eq!(at(3600, 0), (4, 1));
        // Sunday, 2024-03-31 00:59:59 and 01:00:00 UTC: in Berlin the clocks go from 2 to 3 between them.
        assert_eq!(at(1_711_846_799, 3600), (0, 1));
        assert_eq!(at(1_711_846_800, 7200), (0, 3));
        // Saturday, 2024-03-30 20:00 UTC is Sunday in Kathmandu (+5:45) and Saturday in New York.
        assert_eq!(at(1_711_828_800, 20_700), (0, 1));
        assert_eq!(at(1_711_828_800, -14_400), (6, 16));
    }
}
