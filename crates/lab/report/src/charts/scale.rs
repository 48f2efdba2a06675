//! Axes: from values to places, and the places of ticks.

/// An axis from values to pixels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    /// The value at `from`.
    pub low: f64,
    /// The value at `to`.
    pub high: f64,
    /// Pixels.
    pub from: f64,
    /// Pixels; may be below `from`.
    pub to: f64,
    /// Whether steps are ratios.
    pub log: bool,
}

impl Scale {
    /// From 0 to a round number at or above `largest`.
    pub fn linear(largest: f64, from: f64, to: f64, ticks: usize) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let step = step(largest, ticks);
        let high = (largest / step - 1e-9).ceil() * step;
        Self { low: 0.0, high, from, to, log: false }
    }

    /// Between round numbers around two values; the axis then doesn't begin at 0, which must be said.
    pub fn between(smallest: f64, largest: f64, from: f64, to: f64, ticks: usize) -> Self {
        let room = ((largest - smallest) * 0.05).max(largest.abs() * 0.01);
        let (low, high) = ((smallest - room).max(0.0), largest + room);
        if !(low.is_finite() && high > low) {
            return Self::linear(largest, from, to, ticks);
        }
        let step = step(high - low, ticks);
        let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        Self { low, high, from, to, log: false }
    }

    /// From 1, 2 or 5 times a power of ten at or below `smallest` to one at or above `largest`.
    pub fn logarithmic(smallest: f64, largest: f64, from: f64, to: f64) -> Self {
        let usable = |v: f64| v.is_finite() && v > 0.0;
        let (smallest, largest) = match (usable(smallest), usable(largest)) {
            (true, true) => (smallest, largest.max(smallest)),
            _ => (1.0, 10.0),
        };
        let low = round_log(smallest, false);
        let high = round_log(largest, true);
        Self { low, high: if high > low { high } else { low * 10.0 }, from, to, log: true }
    }

    /// The place of a value; values outside are put at the edge.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from + share * (self.to - self.from)
    }

    /// The places of ticks, `low` and `high` among them on a linear axis.
    pub fn ticks(&self, about: usize) -> Vec<f64> {
        if self.log {
            return self.log_ticks(about);
        }
        let step = step(self.high - self.low, about);
        let count = ((self.high - self.low) / step + 1e-9).floor() as usize;
        (0..=count.min(100)).map(|i| self.low + i as f64 * step).collect()
    }

    fn log_ticks(&self, about: usize) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let within = |v: &f64| *v >= self.low * 0.999 && *v <= self.high * 1.001;
        let decades = || (first..=last).map(|e| 10_f64.powi(e));
        let fine: Vec<f64> = decades().flat_map(|d| [d, 2.0 * d, 5.0 * d]).filter(within).collect();
        if fine.len() <= about { fine } else { decades().filter(within).collect() }
    }
}

/// Digits after the point that ticks need so that no two read alike.
pub fn digits(ticks: &[f64]) -> usize {
    let gap = ticks.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
    if gap.is_finite() && gap > 0.0 && gap < 1.0 {
        ((-gap.log10()) - 1e-9).ceil().clamp(0.0, 9.0) as usize
    } else {
        0
    }
}

/// The distance of about so many ticks: 1, 2 or 5 times a power of ten.
fn step(range: f64, ticks: usize) -> f64 {
    let rough = range / ticks.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough * (1.0 - 1e-9));
    step.unwrap_or(rough)
}

fn round_log(value: f64, up: bool) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
    let found = if up {
        steps.into_iter().find(|s| *s >= value * (1.0 - 1e-9))
    } else {
        steps.into_iter().rev().find(|s| *s <= value * (1.0 + 1e-9))
    };
    found.unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_on_a_round_number() {
        for (largest, high, count) in [(97.0, 100.0, 6), (0.0123, 0.015, 4), (3.0, 3.0, 7), (5e9, 5e9, 6)] {
            let scale = Scale::linear(largest, 0.0, 100.0, 6);
            assert!((scale.high / high - 1.0).abs() < 1e-9, "{largest}: {}", scale.high);
            assert_eq!(scale.ticks(6).len(), count, "{largest}");
            assert_eq!((scale.at(0.0), scale.at(scale.high)), (0.0, 100.0));
        }
    }

    #[test]
    fn what_is_no_number_leaves_a_usable_axis() {
        for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let scale = Scale::linear(bad, 0.0, 100.0, 6);
            assert_eq!((scale.low, scale.high), (0.0, 1.0));
            assert!(Scale::logarithmic(bad, bad, 0.0, 1.0).high.is_finite());
            assert!(scale.at(bad).is_finite());
        }
    }

    #[test]
    fn a_log_axis_has_round_ticks_and_equal_ratios_take_equal_room() {
        let scale = Scale::logarithmic(130.0, 4200.0, 0.0, 100.0);
        assert_eq!((scale.low, scale.high), (100.0, 5000.0));
        assert_eq!(scale.ticks(10), [100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]);
        assert_eq!(scale.ticks(3), [100.0, 1000.0]);
        assert!((scale.at(400.0) - scale.at(200.0) - (scale.at(800.0) - scale.at(400.0))).abs() < 1e-9);
    }

    #[test]
    fn ticks_have_as_many_digits_as_tell_them_apart() {
        assert_eq!(digits(&[0.0, 0.2, 0.4]), 1);
        assert_eq!(digits(&[0.0, 0.05, 0.1]), 2);
        assert_eq!(digits(&[0.0, 10.0]), 0);
    }
}
