//! Sums of durations.

use core::ops::{AddAssign, Sub};
use core::time::Duration;

/// How many durations there were, and their sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Average {
    pub count: u64,
    pub nanos: u64,
}

impl Average {
    #[inline]
    pub fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.nanos = self.nanos.saturating_add(nanos);
    }

    /// The mean; zero of none.
    pub fn mean(self) -> Duration {
        Duration::from_nanos(self.nanos.checked_div(self.count).unwrap_or(0))
    }
}

impl AddAssign for Average {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.nanos = self.nanos.saturating_add(other.nanos);
    }
}

impl Sub for Average {
    type Output = Self;

    /// What came since `before`, an earlier state of the same sum.
    fn sub(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            nanos: self.nanos.saturating_sub(before.nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_what_came_since() {
        let mut sum = Average::default();
        assert_eq!(sum.mean(), Duration::ZERO);
        sum.add(100);
        let before = sum;
        [10, 20].into_iter().for_each(|nanos| sum.add(nanos));
        assert_eq!((sum - before).mean(), Duration::from_nanos(15));
        let mut both = before;
        both += sum - before;
        assert_eq!(both, sum);
    }
}
