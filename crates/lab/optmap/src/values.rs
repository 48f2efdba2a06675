//! What Ceph takes as a value of each type. A value that it does not take in a ceph.conf it ignores without a word, and
//! keeps its default: seen with `ceph-conf --show-config-value` of each release.

use text::{SizeGrammar, parse_seconds, parse_size_as};

use crate::table::{Entry, Kind, Limits};

/// A value that Ceph would ignore.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum BadValue {
    /// Not of the option's type.
    #[error("'{text}' is not a {kind} ({example})")]
    NotOfKind {
        /// As written.
        text: String,
        /// What it must be.
        kind: &'static str,
        /// What would do.
        example: &'static str,
    },
    /// Below the smallest value or above the largest.
    #[error("'{text}' is outside {}", range(*.low, *.high))]
    OutOfRange {
        /// As written.
        text: String,
        /// Smallest allowed.
        low: Option<f64>,
        /// Largest allowed.
        high: Option<f64>,
    },
    /// None of an enumeration.
    #[error("'{text}' is not one of {}", .allowed.replace('|', ", "))]
    NotOneOf {
        /// As written.
        text: String,
        /// What is allowed, separated by `|`.
        allowed: &'static str,
    },
    /// Refused by Loligo, in its words.
    #[error(transparent)]
    Loligo(#[from] options::ValueError),
}

fn range(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("{low} and more"),
        (None, Some(high)) => format!("{high} and less"),
        (None, None) => "its range".to_owned(),
    }
}

/// Checks a value as the release would read it.
pub(crate) fn check(entry: &Entry, text: &str) -> Result<(), BadValue> {
    let Some(value) = read(entry.kind, text) else {
        let (kind, example) = wanted(entry.kind);
        return Err(BadValue::NotOfKind { text: text.to_owned(), kind, example });
    };
    match (entry.limits, value) {
        (Limits::Range(low, high), Value::Number(n))
            if low.is_some_and(|low| n < low) || high.is_some_and(|high| n > high) =>
        {
            Err(BadValue::OutOfRange { text: text.to_owned(), low, high })
        }
        (Limits::OneOf(allowed), Value::Text(_)) if !allowed.split('|').any(|a| a == text) => {
            Err(BadValue::NotOneOf { text: text.to_owned(), allowed })
        }
        _ => Ok(()),
    }
}

/// Whether two texts are the same value of an option.
pub(crate) fn same(entry: &Entry, a: &str, b: &str) -> bool {
    match (read(entry.kind, a), read(entry.kind, b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// Above it whole numbers are not told apart here.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// One spelling of a value: texts that have it in common are surely the same. None if it can't be read.
pub(crate) fn canonical(entry: &Entry, text: &str) -> Option<String> {
    Some(match read(entry.kind, text)? {
        Value::Number(number) if number.abs() >= EXACT => text.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Level(log, memory) => format!("{log}/{memory}"),
        Value::Text(text) => text,
    })
}

#[derive(Clone, PartialEq, Debug)]
enum Value {
    Number(f64),
    Level(u8, u8),
    Text(String),
}

/// What an option must be, and what would do.
fn wanted(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Bool => ("bool", "Ceph takes true, false, 1 and 0; it ignores on, off, yes and no"),
        Kind::Int => ("whole number", "as 16, -1 or 4K for 4000"),
        Kind::Uint => ("whole number from 0", "as 16 or 4K for 4000"),
        Kind::Size => ("size", "bytes, as 4096, 64K or 10Gi"),
        Kind::Float => ("number", "as 0.85"),
        Kind::Secs => ("time", "whole seconds as 5, or with units as 1h 30m"),
        Kind::Millisecs => ("time", "whole milliseconds, as 500"),
        Kind::Level => ("log level", "N or N/M, each 0 to 99, as 1 or 0/0"),
        Kind::Text => ("text", ""),
    }
}

fn read(kind: Kind, text: &str) -> Option<Value> {
    let number = match kind {
        Kind::Text => return Some(Value::Text(text.to_owned())),
        Kind::Level => return options::parse_log_level(text).map(|(log, memory)| Value::Level(log, memory)),
        Kind::Bool => boolean(text)?,
        Kind::Int => count(text)?,
        Kind::Uint => count(text).filter(|n| *n >= 0.0)?,
        Kind::Size => parse_size_as(text, SizeGrammar::Ceph)? as f64,
        Kind::Float => text.parse().ok()?,
        Kind::Secs => parse_seconds(text)?,
        Kind::Millisecs => text.parse::<u64>().ok()? as f64,
    };
    Some(Value::Number(number))
}

fn boolean(text: &str) -> Option<f64> {
    if text.eq_ignore_ascii_case("true") {
        return Some(1.0);
    }
    if text.eq_ignore_ascii_case("false") {
        return Some(0.0);
    }
    text.parse::<i64>().ok().map(|n| f64::from(u8::from(n != 0)))
}

/// A count: decimal suffixes, capital.
fn count(text: &str) -> Option<f64> {
    let powers = [("K", 1), ("M", 2), ("G", 3), ("T", 4), ("P", 5), ("E", 6)];
    let suffix = powers.iter().find_map(|(s, power)| Some((text.strip_suffix(s)?, *power)));
    let (digits, power) = suffix.unwrap_or((text, 0));
    Some(digits.parse::<i64>().ok()?.checked_mul(1000_i64.checked_pow(power)?)? as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Release;

    fn of(name: &str, text: &str) -> Result<(), BadValue> {
        check(Release::Pacific.table().get(name).unwrap(), text)
    }

    /// What `ceph-conf --show-config-value` of 16.2 and 20.2 took and what it ignored.
    #[test]
    fn ceph_takes_these_and_ignores_those() {
        let taken = [
            ("journal_aio", "true FALSE 1 0 2 -1"),
            ("osd_op_num_shards", "010 4K -1"),
            ("objecter_inflight_ops", "010 4K"),
            ("objecter_inflight_op_bytes", "010 4K 4Ki 4KB 4KiB 4B"),
            ("mon_osd_full_ratio", "1.5 1e3 inf"),
            ("rados_osd_op_timeout", "5 1h 1h30m"),
            ("debug_osd", "0/0 5"),
            ("osd_op_queue", "wpq mclock_scheduler"),
        ];
        let ignored = [
            ("journal_aio", "on yes off no f enabled"),
            ("osd_op_num_shards", "4k 4Ki 4KB 0x10 1.5"),
            ("objecter_inflight_ops", "-1 4k"),
            ("objecter_inflight_op_bytes", "-1 4k 0x10 1.5"),
            ("mon_osd_full_ratio", "x 5s 1K"),
            ("rados_osd_op_timeout", "0.5 -1 5x"),
            ("debug_osd", "a 200 -1 100/100"),
            ("osd_op_queue", "xyz WPQ"),
            ("mon_max_pg_per_osd", "-5 0 $id"),
        ];
        for (name, texts) in taken {
            for text in texts.split(' ') {
                assert_eq!(of(name, text), Ok(()), "{name} = {text}");
            }
        }
        for (name, texts) in ignored {
            for text in texts.split(' ').chain([""]) {
                assert!(of(name, text).is_err(), "{name} = {text}");
            }
        }
    }

    #[test]
    fn a_sentence_says_what_would_do() {
        let sentence = |name, text| of(name, text).unwrap_err().to_string();
        assert!(sentence("journal_aio", "on").contains("true, false"));
        assert_eq!(
            sentence("osd_op_queue", "fifo"),
            "'fifo' is not one of wpq, mclock_scheduler, debug_random"
        );
        assert_eq!(sentence("ms_async_op_threads", "99"), "'99' is outside 1 to 24");
    }

    #[test]
    fn spellings_of_one_value_are_the_same() {
        let table = Release::Pacific.table();
        let same = |name, a, b| same(table.get(name).unwrap(), a, b);
        assert!(same("objecter_inflight_op_bytes", "104857600", "100M"));
        assert!(same("journal_aio", "True", "1") && !same("journal_aio", "0", "true"));
        assert!(same("debug_osd", "5", "5/5") && !same("debug_osd", "5", "0/5"));
    }
}
