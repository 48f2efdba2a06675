//! Ceph's options: their names, the programs that read them, and what Ceph takes as a value of those that Loligo does not read.
//! Loligo refuses a value that Ceph refuses.

use text::{SizeGrammar, parse_seconds, parse_size, parse_size_as};

use crate::parse::{ValueError, check_range, parse_bool, parse_int};

/// A line each: name, space, the program that reads it (`-`: Ceph's daemons); then, with tabs between, type and default in the newest
/// release that has it, and its limits, where it has some: `LOW..HIGH`, or the texts of an enumeration with `|` between. What any
/// release of 16.2, 18.2 and 20.2 takes is within the limits.
static NAMES: &str = include_str!("ceph_names.txt");

/// One of Ceph's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CephOption {
    pub(crate) name: &'static str,
    /// The client program that reads it; `None`: Ceph's daemons.
    pub(crate) program: Option<&'static str>,
    /// Type and default, where they are known.
    known: Option<(&'static str, &'static str)>,
    limits: &'static str,
}

fn option(line: &'static str) -> Option<CephOption> {
    let mut fields = line.split('\t');
    let (name, program) = fields.next()?.split_once(' ')?;
    let (kind, default) = (fields.next(), fields.next());
    Some(CephOption {
        name,
        program: Some(program).filter(|program| *program != "-"),
        known: kind.zip(default),
        limits: fields.next().unwrap_or_default(),
    })
}

pub(crate) fn all() -> impl Iterator<Item = CephOption> {
    NAMES.lines().filter_map(option)
}

/// The option of a normalized name.
pub(crate) fn find(name: &str) -> Option<CephOption> {
    let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '));
    option(NAMES.lines().find(of_name)?)
}

/// Type and default of an option (normalized name) in the newest release of Ceph that has it, where they are known.
pub fn ceph_default(name: &str) -> Option<(&'static str, &'static str)> {
    find(name)?.known
}

/// The texts that Ceph takes for an option (normalized name) that is an enumeration.
pub fn ceph_choices(name: &str) -> Option<Vec<&'static str>> {
    find(name)?.choices()
}

impl CephOption {
    fn choices(&self) -> Option<Vec<&'static str>> {
        let is_range = self.limits.is_empty() || self.limits.contains("..");
        (!is_range).then(|| self.limits.split('|').collect())
    }

    /// The smallest and the largest value; infinite where there is none.
    fn range(&self) -> Option<(f64, f64)> {
        let (low, high) = self.limits.split_once("..")?;
        let end = |text: &str, none: f64| text.parse().unwrap_or(none);
        Some((end(low, f64::NEG_INFINITY), end(high, f64::INFINITY)))
    }
}

/// Holds a text without white space around it against what Ceph takes for an option (normalized name). The spellings that Loligo
/// takes for its own options are taken, too (`on`, `4k`); addresses are not looked at.
///
/// # Errors
/// Ceph would refuse it.
pub(crate) fn check(name: &str, text: &str) -> Result<(), ValueError> {
    let Some(option) = find(name) else { return Ok(()) };
    let Some((kind, default)) = option.known else { return Ok(()) };
    if text == default {
        return Ok(());
    }
    if let Some(choices) = option.choices() {
        return match choices.contains(&text) {
            true => Ok(()),
            false => Err(ValueError::NotAChoice { text: text.to_owned(), choices }),
        };
    }
    match read(kind, text) {
        Ok(number) => check_range(text, option.range(), number),
        Err(example) => Err(ValueError::NotOfKind { text: text.to_owned(), kind, example }),
    }
}

/// The number that a text is as a value of one of Ceph's types, for those that are numbers; what would do, if it is none.
fn read(kind: &str, text: &str) -> Result<Option<f64>, &'static str> {
    let count = || parse_int(text).map(|n| n as f64);
    let size = || parse_size(text).or_else(|| parse_size_as(text, SizeGrammar::Ceph)).map(|n| n as f64);
    let float = || text.parse::<f64>().ok().filter(|n| !n.is_nan());
    let (read, example) = match kind {
        "bool" => (parse_bool(text).map(f64::from).or_else(count), "true or false"),
        "int" => (count(), "a whole number, as 16, -1 or 4K"),
        "uint" => {
            (count().or_else(|| whole(text)).filter(|n| *n >= 0.0), "a whole number from 0, as 16 or 4K")
        }
        "size" => (size(), "bytes, as 4096, 64K or 10GiB"),
        "float" => (float(), "a number, as 0.85"),
        "secs" => (parse_seconds(text).or_else(|| float().filter(|n| *n >= 0.0)), "seconds, as 5 or 1h 30m"),
        "millisecs" => (whole(text), "whole milliseconds, as 500"),
        "uuid" => return if is_uuid(text) { Ok(None) } else { Err("32 hexadecimal digits, as 8-4-4-4-12") },
        _ => return Ok(None),
    };
    read.map(Some).ok_or(example)
}

fn whole(text: &str) -> Option<f64> {
    text.parse::<u64>().ok().map(|n| n as f64)
}

fn is_uuid(text: &str) -> bool {
    let digits = |part: &str, len| part.len() == len && part.chars().all(|c| c.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() == 5 && parts.iter().zip([8, 4, 4, 4, 12]).all(|(part, len)| digits(part, len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup;

    #[test]
    fn every_option_has_limits_that_can_be_read_and_a_default_within_them() {
        for option in all() {
            if let Some((low, high)) = option.limits.split_once("..") {
                assert!(
                    [low, high].iter().all(|end| end.is_empty() || end.parse::<f64>().is_ok()),
                    "{option:?}"
                );
            }
            if let Some((_, default)) = option.known {
                assert_eq!(check(option.name, default), Ok(()), "{}", option.name);
            }
        }
        assert!(all().filter(|option| option.choices().is_some()).count() > 40);
    }

    #[test]
    fn a_value_that_is_none_of_an_enumeration_is_refused_with_those_that_are() {
        let error = check("bluestore_csum_type", "rubbish").unwrap_err().to_string();
        assert_eq!(error, "'rubbish' is not one of none, crc32c, crc32c_16, crc32c_8, xxhash32, xxhash64");
        for (name, text) in [
            ("bluestore_csum_type", "xxhash64"),
            ("bluestore_allocator", "zoned"),
            ("osd_op_queue", "wpq"),
            ("bdev_type", ""),
        ] {
            assert_eq!(check(name, text), Ok(()), "{name} = {text}");
        }
        for name in ["osd_op_queue", "rbd_cache_policy", "osd_mclock_profile", "rgw_crypt_sse_s3_backend"] {
            assert!(
                check(name, "rubbish").is_err_and(|e| e.to_string().contains("is not one of ")),
                "{name}"
            );
        }
    }

    #[test]
    fn a_value_of_another_form_or_out_of_range_is_refused_with_what_would_do() {
        for (name, text, why) in [
            ("bluestore_cache_size", "much", "'much' is not a size (bytes, as 4096, 64K or 10GiB)"),
            ("osd_recovery_max_active", "-1x", "'-1x' is not a uint (a whole number from 0, as 16 or 4K)"),
            ("rbd_cache", "maybe", "'maybe' is not a bool (true or false)"),
            ("ms_async_op_threads", "99", "99 is outside 1 to 24"),
            ("rados_osd_op_timeout", "5x", "'5x' is not a secs (seconds, as 5 or 1h 30m)"),
        ] {
            assert_eq!(check(name, text).map_err(|error| error.to_string()), Err(why.to_owned()), "{name}");
        }
        let fsid = "00000000-1111-2222-3333-444444444444";
        for (name, text) in [
            ("bluestore_cache_size", "1Gi"),
            ("rbd_cache", "on"),
            ("rbd_cache", "2"),
            ("rados_osd_op_timeout", "1h30m"),
            ("rados_osd_op_timeout", "0.5"),
            ("fsid", fsid),
            ("keyring", "/any/text"),
        ] {
            assert_eq!(check(name, text), Ok(()), "{name} = {text}");
        }
        assert!(check("fsid", "x").is_err());
    }

    #[test]
    fn what_loligo_takes_for_an_enumeration_is_what_ceph_takes() {
        for option in all() {
            let (Some(spec), Some(choices)) = (lookup(option.name), option.choices()) else { continue };
            let ours = spec.choices;
            assert!(!ours.is_empty() && ours.iter().all(|one| choices.contains(one)), "{}", option.name);
        }
    }
}
