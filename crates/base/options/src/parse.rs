//! The types of values and how their texts are read.

use text::parse_size;

/// What an option's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// true/false, yes/no, on/off, 1/0.
    Bool,
    /// A whole number, with an optional SI suffix.
    Int,
    /// A number with a fraction.
    Float,
    /// Bytes: a whole number with an optional binary suffix (4K, 10GiB).
    Size,
    /// Seconds, fractions allowed.
    Secs,
    /// Any text.
    Text,
}

impl Kind {
    /// The name that help shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Size => "size",
            Self::Secs => "secs",
            Self::Text => "str",
        }
    }
}

/// A text that is not a value of the option's kind, or is out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// Not of the kind.
    #[error("'{text}' is not a {kind} ({example})")]
    NotOfKind {
        /// What was given.
        text: String,
        /// The kind's name.
        kind: &'static str,
        /// What would do.
        example: &'static str,
    },
    /// None of those that there are.
    #[error("'{text}' is not one of {}", choices.join(", "))]
    NotAChoice {
        /// What was given.
        text: String,
        /// What there is.
        choices: Vec<&'static str>,
    },
    /// There is one value so far.
    #[error("'{text}' can't be served: so far only '{only}' can")]
    NotServed {
        /// What was given.
        text: String,
        /// What there is.
        only: &'static str,
    },
    /// No value is taken.
    #[error("{0}")]
    Refused(&'static str),
    /// Outside the range.
    #[error("{text} is outside {}", range_words(*.min, *.max))]
    OutOfRange {
        /// What was given.
        text: String,
        /// Smallest allowed; infinite where there is none.
        min: f64,
        /// Largest allowed; infinite where there is none.
        max: f64,
    },
}

fn range_words(min: f64, max: f64) -> String {
    match (min.is_finite(), max.is_finite()) {
        (true, false) => format!("{min} and more"),
        (false, true) => format!("{max} and less"),
        _ => format!("{min} to {max}"),
    }
}

/// Reads a boolean as Ceph does.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Reads a whole number with an optional decimal suffix (`4K` is 4000), as Ceph does for counts.
pub fn parse_int(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(n) = text.parse() {
        return Some(n);
    }
    let (number, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1_000),
        (at, 'M') => (&text[..at], 1_000_000),
        (at, 'G') => (&text[..at], 1_000_000_000),
        (at, 'T') => (&text[..at], 1_000_000_000_000),
        (at, 'P') => (&text[..at], 1_000_000_000_000_000),
        (at, 'E') => (&text[..at], 1_000_000_000_000_000_000),
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(factor)
}

/// A value that was read.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Bool(bool),
    Int(i64),
    /// Bytes.
    Size(u64),
    /// A number, or seconds.
    Float(f64),
    /// Without white space around it.
    Text(String),
}

impl Value {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Int(n) => Some(*n as f64),
            Self::Size(n) => Some(*n as f64),
            Self::Float(n) => Some(*n),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// The one text of all its spellings: no suffix, no fraction that is 0, `true` or `false`.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Bool(on) => on.to_string(),
            Self::Int(n) => n.to_string(),
            Self::Size(n) => n.to_string(),
            Self::Float(n) => n.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Reads a value of a kind, within a range.
pub(crate) fn read(kind: Kind, range: Option<(f64, f64)>, text: &str) -> Result<Value, ValueError> {
    let float = || text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    let (parsed, example) = match kind {
        Kind::Text => return Ok(Value::Text(text.trim().to_owned())),
        Kind::Bool => (parse_bool(text).map(Value::Bool), "true or false"),
        Kind::Int => (parse_int(text).map(Value::Int), "a whole number, as 16 or 4K"),
        Kind::Size => (parse_size(text).map(Value::Size), "bytes, as 4096, 64K or 10GiB"),
        Kind::Float => (float().map(Value::Float), "a number, as 0.85"),
        Kind::Secs => (float().filter(|n| *n >= 0.0).map(Value::Float), "seconds, as 5 or 0.5"),
    };
    let Some(parsed) = parsed else {
        return Err(ValueError::NotOfKind { text: text.into(), kind: kind.name(), example });
    };
    check_range(text, range, parsed.number()).map(|()| parsed)
}

/// Refuses a number, written as `text`, that is out of its range.
pub(crate) fn check_range(
    text: &str,
    range: Option<(f64, f64)>,
    number: Option<f64>,
) -> Result<(), ValueError> {
    match (range, number) {
        (Some((min, max)), Some(number)) if number < min || number > max => {
            Err(ValueError::OutOfRange { text: text.into(), min, max })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_value_is_kept_as_one() {
        for (kind, text, want) in [
            (Kind::Int, "1K", "1000"),
            (Kind::Int, " -3 ", "-3"),
            (Kind::Int, "9007199254740993", "9007199254740993"),
            (Kind::Size, "64K", "65536"),
            (Kind::Size, "10GiB", "10737418240"),
            (Kind::Secs, "900.0", "900"),
            (Kind::Secs, "0.50", "0.5"),
            (Kind::Float, "9e-1", "0.9"),
            (Kind::Bool, "True", "true"),
            (Kind::Bool, "ON", "true"),
            (Kind::Bool, "0", "false"),
            (Kind::Text, " a b ", "a b"),
        ] {
            assert_eq!(read(kind, None, text).map(|v| v.text()).as_deref(), Ok(want), "{text}");
        }
        for (kind, text) in [(Kind::Secs, "-1"), (Kind::Secs, "NaN"), (Kind::Int, "4.0"), (Kind::Int, "99E")]
        {
            assert!(read(kind, None, text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_take_decimal_suffixes() {
        for (text, want) in [("1K", 1000), ("2M", 2_000_000), ("3T", 3_000_000_000_000), ("-5", -5)] {
            assert_eq!(parse_int(text), Some(want), "{text}");
        }
        for text in ["", "K", "1Ki", "1.5K", "10E"] {
            assert_eq!(parse_int(text), None, "{text}");
        }
    }

    #[test]
    fn a_bad_value_says_what_would_do() {
        let error = read(Kind::Bool, None, "maybe").unwrap_err();
        assert_eq!(error.to_string(), "'maybe' is not a bool (true or false)");
        assert!(read(Kind::Float, Some((0.0, 1.0)), "1.5").is_err());
        assert_eq!(read(Kind::Int, None, "4K"), Ok(Value::Int(4000)));
    }
}
