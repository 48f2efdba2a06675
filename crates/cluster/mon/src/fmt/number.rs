//! Numbers as text: sizes with binary units, counts with decimal ones, C's `%g`.

/// A value divided into its unit with at most three significant places, as Ceph's tables show sizes and counts.
fn in_unit(value: u64, base: u64, units: &[&str]) -> String {
    let mut index = 0;
    let mut scale = 1u64;
    while index + 1 < units.len() && value / scale >= base {
        scale = scale.saturating_mul(base);
        index += 1;
    }
    let unit = units.get(index).copied().unwrap_or("");
    if value % scale == 0 {
        return format!("{}{unit}", value / scale);
    }
    let exact = value as f64 / scale as f64;
    (0..=2usize)
        .rev()
        .map(|places| format!("{exact:.places$}{unit}"))
        .find(|text| text.len() <= 7)
        .unwrap_or_else(|| format!("{exact:.0}{unit}"))
}

/// Bytes with a binary unit: `5.1 GiB`, `872 MiB`, `0 B`.
pub fn bytes(value: u64) -> String {
    in_unit(value, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// A count with a decimal unit: `512`, `1.02k`.
pub fn count(value: u64) -> String {
    in_unit(value, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

/// C's `%.<digits>g`: the shortest of fixed and exponent form with `digits` significant digits.
pub fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_finite() { "0".into() } else { format!("{value}").to_lowercase() };
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs());
    }
    trim_zeros(&format!("{value:.*}", (digits as i32 - 1 - exponent).max(0) as usize)).to_string()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A CRUSH weight or a reweight in tables: five places, `0` below what is visible, `-` for none.
pub fn weight(value: f64) -> String {
    match value {
        v if v < -0.01 => "-".into(),
        v if v < 0.000_001 => "0".into(),
        v => format!("{v:.5}"),
    }
}

/// A ratio (0..1) as a percentage of two places; a plain 0 for none.
pub fn percent(ratio: f64) -> String {
    if ratio == 0.0 { "0".into() } else { format!("{:.2}", ratio * 100.0) }
}

/// A moment; one in the first ten years after 1970 is a span or not set and shown as seconds.
pub fn stamp(time: types::UTime) -> String {
    if time.sec < 10 * 365 * 86_400 {
        format!("{}.{:06}", time.sec, time.nsec / 1000)
    } else {
        time.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_at_most_three_significant_places() {
        let shown = |v| bytes(v);
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(6 << 30), "6 GiB");
        assert_eq!(shown(5_528_281_088), "5.1 GiB");
        assert_eq!(shown(914_169_856), "872 MiB");
        assert_eq!(shown(500_000), "488 KiB");
        assert_eq!(shown(1_024_000), "1000 KiB");
        assert_eq!(shown(1456 * 1024), "1.4 MiB");
        assert_eq!(count(1021), "1.02k");
    }

    #[test]
    fn floats_print_like_percent_g() {
        assert_eq!(general(f64::from(0.95f32), 17), "0.94999998807907104");
        assert_eq!(general(0.001_998_901_367_187_5, 17), "0.0019989013671875");
        assert_eq!(general(14.178_657_531_738_281, 17), "14.178657531738281");
        assert_eq!(general(1.0, 17), "1");
        assert_eq!(general(0.95, 6), "0.95");
        assert_eq!(general(0.000_01, 6), "1e-05");
        assert_eq!(general(9.876_543, 4), "9.877");
    }
}
