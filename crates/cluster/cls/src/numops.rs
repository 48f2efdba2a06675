//! Class `numops`: arithmetic on numbers that are kept as decimal text in an omap.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder};
use ops::{ClassContext, Method, ObjectClass, StepError, decode_input};
use types::{Errno, Name};

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "numops",
    methods: &[
        Method::read_write("add", |ctx, input| change(ctx, input, |a, b| a + b)),
        Method::read_write("mul", |ctx, input| change(ctx, input, |a, b| a * b)),
    ],
};

/// Significant digits that are kept.
const PRECISION: usize = 10;

struct NumOp {
    key: Name,
    operand: Name,
}

impl Decode for NumOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { key: d.get()?, operand: d.get()? })
    }
}

/// The value of a decimal text as C's strtod reads it; nothing at all is 0. Hexadecimal numbers are not read.
fn parse(text: &[u8]) -> Option<f64> {
    let text = text.split(|b| *b == 0).next()?;
    if text.is_empty() {
        return Some(0.0);
    }
    std::str::from_utf8(text).ok()?.trim_ascii_start().parse().ok()
}

/// As printf's `%.10g`.
fn format(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let scientific = format!("{value:.*e}", PRECISION - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..PRECISION as i32).contains(&exponent) {
        trimmed(&format!("{value:.*}", (PRECISION as i32 - 1 - exponent) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
    }
}

fn change(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
    apply: fn(f64, f64) -> f64,
) -> Result<i32, StepError> {
    let op: NumOp = decode_input(input)?;
    let operand = parse(&op.operand).ok_or(Errno::EINVAL)?;
    let stored = ctx.omap_value(op.key.clone())?.unwrap_or_default().to_piece();
    let value = parse(&stored).ok_or(Errno::EBADMSG)?;
    ctx.omap_set(op.key, format(apply(value, operand)).into_bytes())?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right sides are what C's printf("%.10g") gives.
    #[test]
    fn numbers_are_written_as_printf_writes_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (42.5, "42.5"),
            (100.0, "100"),
            (1e9, "1000000000"),
            (9_999_999_999.0, "9999999999"),
            (1e10, "1e+10"),
            (9_999_999_999.9, "1e+10"),
            (123_456_789.987_654_3, "123456790"),
            (1.0 / 3.0, "0.3333333333"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (-1.5e300, "-1.5e+300"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(format(value), text);
        }
    }

    #[test]
    fn numbers_are_read_as_strtod_reads_them() {
        let cases: [(&[u8], Option<f64>); 8] = [
            (b"", Some(0.0)),
            (b" 12", Some(12.0)),
            (b"-1.5e2", Some(-150.0)),
            (b".5", Some(0.5)),
            (b"5.", Some(5.0)),
            (b"12 ", None),
            (b"twelve", None),
            (b"1\0x", Some(1.0)),
        ];
        for (text, value) in cases {
            assert_eq!(parse(text), value, "{}", text.escape_ascii());
        }
    }
}
