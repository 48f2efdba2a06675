//! Units: what a number is, how it is scaled and written.

/// What a number is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quantity {
    /// Operations a second.
    Ops,
    /// Bytes a second.
    Bytes,
    /// Microseconds of latency.
    Latency,
    /// Microseconds of the servers' CPU for an operation.
    CpuPerOp,
    /// Milliseconds that requests wait at a device.
    Wait,
    Cores,
    /// A share of the time, 0 to 1.
    Share,
    Seconds,
    /// Bytes a second that a device moves.
    DeviceBytes,
    /// Bytes of a request to a device.
    Request,
    /// Bytes a second that an interface moves.
    Network,
    /// Bytes of memory.
    Memory,
    /// Context switches a second.
    Switches,
    /// A share of the time in which something waited, 0 to 1.
    Pressure,
}

/// A quantity's scale in one chart: every number in it has the same unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// What numbers are divided by.
    pub divisor: f64,
    pub name: &'static str,
}

impl Quantity {
    /// What a reader calls it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ops => "operations a second",
            Self::Bytes => "throughput",
            Self::Latency => "mean latency",
            Self::CpuPerOp => "servers' CPU for an operation",
            Self::Wait => "wait at the device",
            Self::Cores => "CPU",
            Self::Share => "device busy",
            Self::Seconds => "time",
            Self::DeviceBytes => "device throughput",
            Self::Request => "mean request to the device",
            Self::Network => "network",
            Self::Memory => "memory",
            Self::Switches => "context switches",
            Self::Pressure => "time in which something waited",
        }
    }

    /// The unit for numbers up to `largest`. MB are 10^6 bytes.
    pub fn unit(self, largest: f64) -> Unit {
        // From where on a unit is used, what it divides by, its name.
        let pick = |steps: &[(f64, f64, &'static str)]| {
            let found = steps.iter().rev().find(|(from, ..)| largest >= *from).or(steps.first());
            found.map_or(Unit { divisor: 1.0, name: "" }, |&(_, divisor, name)| Unit { divisor, name })
        };
        match self {
            Self::Ops => {
                pick(&[(1.0, 1.0, "ops/s"), (1e5, 1e3, "thousand ops/s"), (1e8, 1e6, "million ops/s")])
            }
            Self::Bytes | Self::DeviceBytes | Self::Network => {
                pick(&[(1e3, 1e3, "kB/s"), (1e6, 1e6, "MB/s"), (1e10, 1e9, "GB/s")])
            }
            Self::Latency | Self::CpuPerOp => pick(&[(1.0, 1.0, "µs"), (1e3, 1e3, "ms"), (1e6, 1e6, "s")]),
            Self::Wait => pick(&[(1.0, 1.0, "ms"), (1e4, 1e3, "s")]),
            Self::Cores => pick(&[(1.0, 1.0, "cores")]),
            Self::Share | Self::Pressure => pick(&[(0.01, 0.01, "%")]),
            Self::Request => pick(&[(1.0, 1024.0, "KiB"), (1e7, 1_048_576.0, "MiB")]),
            Self::Memory => pick(&[(1.0, 1e6, "MB"), (1e10, 1e9, "GB")]),
            Self::Switches => pick(&[(1.0, 1.0, "a second"), (1e5, 1e3, "thousand a second")]),
            Self::Seconds => pick(&[(1.0, 1.0, "s")]),
        }
    }

    /// The value with its own unit: `1,234 ops/s`.
    pub fn show(self, value: f64) -> String {
        let unit = self.unit(value.abs());
        format!("{} {}", number(value / unit.divisor), unit.name)
    }
}

/// A number to three significant digits or to the whole, with commas between thousands.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let size = value.abs();
    let digits = match size {
        s if s == 0.0 || s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        _ => 3,
    };
    fixed(value, digits)
}

/// A number with so many digits after the point, with commas between thousands.
pub fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(w, r)| (w, r));
    let mut grouped = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(c);
    }
    let zero = text.chars().all(|c| c == '0' || c == '.');
    let sign = if value < 0.0 && !zero { "−" } else { "" };
    if rest.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.5, "1.50"),
            (12.34, "12.3"),
            (123.4, "123"),
            (999_999.6, "1,000,000"),
            (-1234.0, "−1,234"),
            (f64::NAN, "–"),
            (-0.0001, "0.000"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_value_is_shown_in_the_unit_that_fits_it() {
        assert_eq!(Quantity::Latency.show(250_000.0), "250 ms");
        assert_eq!(Quantity::Bytes.show(12_340_000.0), "12.3 MB/s");
        assert_eq!(Quantity::Bytes.show(10.0), "0.010 kB/s");
        assert_eq!(Quantity::Share.show(0.5), "50.0 %");
        assert_eq!(Quantity::Ops.show(1234.0), "1,234 ops/s");
        assert_eq!(Quantity::Ops.show(123_456.0), "123 thousand ops/s");
        assert_eq!(Quantity::Bytes.show(2.5e10), "25.0 GB/s");
        assert_eq!(Quantity::Wait.show(20_000.0), "20.0 s");
    }
}
