//! The line a second that `rados bench` prints. Pure.
//!
//! 16.2, 18.2 and 20.2 print the same: a table of second, operations in flight, started, finished, mean MB/s so far,
//! MB/s now, last latency, mean latency so far (MB: 2^20 bytes; latency in seconds). Every 20 lines come a line with
//! extremes and the table's head again. Numbers have six digits.
//!
//! The second's number is only counted, not measured: on a busy machine the lines come later than that. So the time is
//! got back from `mean MB/s so far`, which is operations finished times their size over the time that really passed.

use crate::timeline::Progress;

/// Turns an instance's lines into what was done in each second.
#[derive(Clone, Debug)]
pub struct Live {
    object_size: u64,
    /// At the line before.
    before: State,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct State {
    elapsed: f64,
    finished: u64,
    /// Mean latency so far, seconds.
    latency: f64,
}

impl Live {
    /// Of objects of this many bytes.
    #[must_use]
    pub fn new(object_size: u64) -> Self {
        Self { object_size, before: State::default() }
    }

    /// Bytes of an object.
    #[must_use]
    pub fn object_size(&self) -> u64 {
        self.object_size
    }

    /// What was done in the second that this line ends; none if the line is about no second.
    pub fn line(&mut self, line: &str) -> Option<Progress> {
        let columns = columns(line)?;
        let now = State {
            elapsed: columns.elapsed(self.object_size),
            finished: columns.finished,
            latency: columns.latency,
        };
        let before = std::mem::replace(&mut self.before, now);
        if columns.second == 0 {
            return None;
        }
        let operations = now.finished.checked_sub(before.finished)?;
        let sum = now.latency * now.finished as f64 - before.latency * before.finished as f64;
        Some(Progress {
            elapsed: now.elapsed,
            seconds: now.elapsed - before.elapsed,
            operations,
            bytes: operations * self.object_size,
            // Rounded means may leave less than nothing.
            latency_us: (operations > 0 && sum > 0.0).then(|| sum / operations as f64 * 1e6),
        })
    }
}

struct Columns {
    second: u32,
    finished: u64,
    /// MB/s so far.
    mean: f64,
    /// Mean latency so far, seconds.
    latency: f64,
}

impl Columns {
    /// Seconds since the start. Where nothing was finished yet, or what comes out is nothing a second's number can be,
    /// the number itself.
    fn elapsed(&self, object_size: u64) -> f64 {
        let counted = f64::from(self.second);
        let measured = self.finished as f64 * object_size as f64 / (self.mean * f64::from(1 << 20));
        let likely = counted * 0.999..=counted * 1.5 + 10.0;
        if self.mean > 0.0 && likely.contains(&measured) { measured } else { counted }
    }
}

/// A line of the table.
fn columns(line: &str) -> Option<Columns> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [second, _in_flight, _started, finished, mean, _now, _last, latency] = fields.try_into().ok()?;
    let columns = Columns {
        second: second.parse().ok()?,
        finished: finished.parse().ok()?,
        mean: mean.parse().ok()?,
        latency: latency.parse().ok()?,
    };
    (columns.mean.is_finite() && columns.latency.is_finite()).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, object_size: u64) -> Vec<Progress> {
        let mut live = Live::new(object_size);
        text.lines().filter_map(|l| live.line(l)).collect()
    }

    #[test]
    fn every_release_tells_its_seconds() {
        for (text, operations) in [
            (include_str!("../../tests/data/rados-16.2-write.txt"), vec![3079, 2780, 1840]),
            (include_str!("../../tests/data/rados-16.2-rand.txt"), vec![9172, 9832, 6432]),
            (include_str!("../../tests/data/rados-18.2-write.txt"), vec![2088, 2806, 2955]),
        ] {
            let seconds = all(text, 65536);
            assert_eq!(seconds.iter().map(|s| s.operations).collect::<Vec<_>>(), operations);
            for (number, second) in seconds.iter().enumerate() {
                assert!((second.elapsed - (number + 1) as f64).abs() < 0.01, "{second:?}");
                assert!((second.seconds - 1.0).abs() < 0.01, "{second:?}");
                assert_eq!(second.bytes, second.operations * 65536);
            }
        }
        assert!(all(include_str!("../../tests/data/rados-20.2-write.txt"), 65536).len() >= 2);
        assert!(!all(include_str!("../../tests/data/rados-20.2-rand.txt"), 65536).is_empty());
    }

    #[test]
    fn a_seconds_own_latency_comes_from_two_means() {
        let seconds = all(include_str!("../../tests/data/rados-16.2-write.txt"), 65536);
        let first = seconds[0].latency_us.unwrap();
        let last = seconds[2].latency_us.unwrap();
        assert!((first - 1296.51).abs() < 0.01, "{first}");
        // (0.00155643 x 7699 - 0.0013639 x 5859) / 1840
        assert!((last - 2169.5).abs() < 1.0, "{last}");
    }

    #[test]
    fn the_head_and_the_extremes_in_between_are_no_seconds() {
        let text = include_str!("../../tests/data/rados-20.2-write-22s.txt");
        let seconds = all(text, 4096);
        assert_eq!(seconds.len(), 21);
        assert_eq!(seconds.iter().map(|s| s.operations).sum::<u64>(), 71635);
    }

    #[test]
    fn a_second_that_nothing_ended_in_has_no_latency() {
        let text = "    0  2  2  0  0  0  -  0\n    1  2  2  0  0  0  -  0\n    2  2  12  10  20  40  0.5  0.5\n\
                    \u{20}   3  2  12  10  13.3333  0  -  0.5\n";
        let seconds = all(text, 4 << 20);
        assert_eq!(seconds.iter().map(|s| s.operations).collect::<Vec<_>>(), [0, 10, 0]);
        assert_eq!(seconds.iter().map(|s| s.latency_us).collect::<Vec<_>>(), [None, Some(500_000.0), None]);
        assert!((seconds[2].elapsed - 3.0).abs() < 1e-3);
    }

    #[test]
    fn a_line_that_comes_late_is_a_longer_second() {
        let text = "0 2 2 0 0 0 - 0\n1 2 102 100 66.6667 100 0.5 0.5\n";
        let seconds = all(text, 1 << 20);
        assert!((seconds[0].seconds - 1.5).abs() < 1e-4, "{seconds:?}");
    }
}
