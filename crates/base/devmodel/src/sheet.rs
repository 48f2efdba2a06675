//! The models' names and parameters, their defaults, and the data sheets that these come from.

use std::collections::BTreeMap;

use text::{nearest, parse_size};

use crate::{ModelError, Nanos};

/// What a model is without a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    Disk,
    Ssd,
    /// Of so many disks.
    Raid0(u32),
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A number, fractions too.
    Number,
    /// A whole number.
    Count,
    /// Bytes, with K, M, G or T (of 1024) or without.
    Size,
    /// `yes` or `no`: 1 or 0.
    Flag,
}

/// A parameter.
struct Entry {
    name: &'static str,
    kind: Kind,
    default: f64,
    range: (f64, f64),
    about: &'static str,
    source: &'static str,
}

const fn entry(
    name: &'static str,
    kind: Kind,
    default: f64,
    range: (f64, f64),
    about: &'static str,
    source: &'static str,
) -> Entry {
    Entry { name, kind, default, range, about, source }
}

/// The articles' disk is a Constellation ES of 1 TB with SATA.
const MANUAL: &str = "Seagate, Constellation ES Serial ATA product manual 100516232 (2010)";
const SEAGATE: &str = "Seagate's figure for the Constellation ES family";
const ES3: &str = "Seagate's manual of the ES.3 (83 to 175 MB/s), in proportion";
const INTEL: &str = "Intel, SSD 320 Series product specification 325152-001US (2011), 300 GB";
const INTEL_CHANNELS: &str = "reviews of the Intel SSD 320's controller";
const ASSUMED: &str = "assumed: no data sheet has it";
const MI: f64 = 1_048_576.0;

use Kind::{Count, Flag, Number, Size};

static DISK: &[Entry] = &[
    entry("rpm", Number, 7200.0, (60.0, 1e6), "Rotations a minute.", MANUAL),
    entry(
        "seek_track_ms",
        Number,
        1.0,
        (0.0, 1e3),
        "The arm's time to the next track, settling included.",
        ASSUMED,
    ),
    entry(
        "seek_read_ms",
        Number,
        8.5,
        (0.0, 1e3),
        "The arm's mean time between two random tracks, reading.",
        SEAGATE,
    ),
    entry(
        "seek_write_ms",
        Number,
        9.5,
        (0.0, 1e3),
        "The same before a write, which must settle better.",
        SEAGATE,
    ),
    entry("seek_full_ms", Number, 18.0, (0.0, 1e3), "The arm's time from edge to edge, reading.", ASSUMED),
    entry(
        "outer_mb_s",
        Number,
        140.0,
        (0.1, 1e5),
        "Sustained megabytes (of 10^6 bytes) a second at the outer edge.",
        MANUAL,
    ),
    entry("inner_mb_s", Number, 66.0, (0.1, 1e5), "The same at the inner edge.", ES3),
    entry("queue_depth", Count, 32.0, (1.0, 1024.0), "Commands that the drive chooses from (NCQ).", MANUAL),
    entry("command_us", Number, 50.0, (0.0, 1e5), "The drive's own time for a command.", ASSUMED),
    entry("bus_mb_s", Number, 300.0, (1.0, 1e5), "Megabytes a second between drive and host.", MANUAL),
    entry(
        "read_ahead",
        Size,
        2.0 * MI,
        (0.0, 1e12),
        "Bytes that the drive reads ahead of a sequential reader, and keeps.",
        ASSUMED,
    ),
];

static RAID: &[Entry] = &[entry(
    "stripe",
    Size,
    65_536.0,
    (512.0, 1e9),
    "Bytes on one disk before the next has its turn.",
    "the articles' su=64k",
)];

static SSD: &[Entry] = &[
    entry("read_us", Number, 75.0, (0.0, 1e6), "A read of 4 KiB alone.", INTEL),
    entry("write_us", Number, 90.0, (0.0, 1e6), "A write of 4 KiB alone.", INTEL),
    entry("read_iops", Number, 39_500.0, (1.0, 1e7), "Random reads of 4 KiB a second at depth 32.", INTEL),
    entry("write_iops", Number, 23_000.0, (1.0, 1e7), "Random writes of 4 KiB a second at depth 32.", INTEL),
    entry("read_mb_s", Number, 270.0, (0.1, 1e5), "Sequential megabytes a second, reading.", INTEL),
    entry("write_mb_s", Number, 220.0, (0.1, 1e5), "Sequential megabytes a second, writing.", INTEL),
    entry("channels", Count, 10.0, (1.0, 1024.0), "Flash channels, each a read at a time.", INTEL_CHANNELS),
    entry("flush_us", Number, 100.0, (0.0, 1e7), "A flush: capacitors hold what it covers.", ASSUMED),
];

/// A disk's own cache.
static DISK_CACHE: &[Entry] = &[
    entry("cache_size", Size, 32.0 * MI, (4096.0, 1e12), "Bytes that the cache holds.", MANUAL),
    entry("cache_mb_s", Number, 300.0, (1.0, 1e6), "Megabytes a second into and out of the cache.", MANUAL),
    entry("cache_us", Number, 50.0, (0.0, 1e5), "The cache's own time for a command.", ASSUMED),
];

/// A controller's cache.
static CONTROLLER_CACHE: &[Entry] = &[
    entry(
        "cache_size",
        Size,
        512.0 * MI,
        (4096.0, 1e12),
        "Bytes that the cache holds.",
        "the articles' Areca ARC-1880",
    ),
    entry("cache_mb_s", Number, 2000.0, (1.0, 1e6), "Megabytes a second into and out of the cache.", ASSUMED),
    entry("cache_us", Number, 20.0, (0.0, 1e5), "The cache's own time for a command.", ASSUMED),
];

static ANY_CACHE: &[Entry] = &[
    entry(
        "battery",
        Flag,
        0.0,
        (0.0, 1.0),
        "Whether the cache survives a loss of power: flushes then wait for nothing.",
        "none: a choice",
    ),
    entry(
        "destage_depth",
        Count,
        4.0,
        (1.0, 1024.0),
        "Writes from the cache in flight, for each disk.",
        ASSUMED,
    ),
    entry("destage_size", Size, MI, (4096.0, 1e9), "Bytes of the largest write from the cache.", ASSUMED),
];

const BASES: [&str; 3] = ["disk-7200", "ssd", "raid0-of-N"];
const WRITE_BACK: &str = "-write-back";

/// A parameter of a model: for listings and messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterDoc {
    /// The name, with the unit in it where it has one.
    pub name: &'static str,
    /// The value where none is given.
    pub default: String,
    pub about: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

/// Checks a model's name and parameters without making one, as a study file gives them.
///
/// # Errors
/// See [`ModelError`].
pub fn check(name: &str, parameters: &[(String, String)]) -> Result<(), ModelError> {
    Sheet::read(name, parameters).map(|_| ())
}

/// Parameters written as `a=b,c=d`, as an option or a command line has them.
///
/// # Errors
/// [`ModelError::NoPair`].
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, ModelError> {
    let pair = |part: &str| match part.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(ModelError::NoPair { text: part.to_owned() }),
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(pair).collect()
}

/// The parameters of a model.
///
/// # Errors
/// The name is unknown.
pub fn parameters(name: &str) -> Result<Vec<ParameterDoc>, ModelError> {
    let (base, write_back) = parse_name(name)?;
    let doc = |e: &'static Entry| ParameterDoc {
        name: e.name,
        default: show(e.kind, e.default),
        about: e.about,
        source: e.source,
    };
    Ok(entries(base, write_back).map(doc).collect())
}

/// A value as one would write it.
fn show(kind: Kind, value: f64) -> String {
    match kind {
        Kind::Flag => if value == 0.0 { "no" } else { "yes" }.to_owned(),
        Kind::Size if value >= MI && value % MI == 0.0 => format!("{}M", value / MI),
        Kind::Size if value >= 1024.0 && value % 1024.0 == 0.0 => format!("{}K", value / 1024.0),
        _ => value.to_string(),
    }
}

/// A model's name taken apart.
fn parse_name(name: &str) -> Result<(Base, bool), ModelError> {
    let stem = name.strip_suffix(WRITE_BACK).unwrap_or(name);
    let disks =
        || stem.strip_prefix("raid0-of-").and_then(|n| n.parse().ok()).filter(|n| (2..=64).contains(n));
    let base = match stem {
        "disk-7200" => Some(Base::Disk),
        "ssd" => Some(Base::Ssd),
        _ => disks().map(Base::Raid0),
    };
    match base {
        Some(base) => Ok((base, stem.len() < name.len())),
        None => Err(ModelError::UnknownModel { name: name.to_owned(), nearest: nearest(stem, BASES) }),
    }
}

/// Every parameter of a model.
fn entries(base: Base, write_back: bool) -> impl Iterator<Item = &'static Entry> {
    let (own, raid): (&[Entry], &[Entry]) = match base {
        Base::Disk => (DISK, &[]),
        Base::Ssd => (SSD, &[]),
        Base::Raid0(_) => (DISK, RAID),
    };
    let (cache, any): (&[Entry], &[Entry]) = match (write_back, base) {
        (false, _) => (&[], &[]),
        (true, Base::Disk) => (DISK_CACHE, ANY_CACHE),
        (true, _) => (CONTROLLER_CACHE, ANY_CACHE),
    };
    own.iter().chain(raid).chain(cache).chain(any)
}

/// A model's values.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    base: Base,
    write_back: bool,
    values: BTreeMap<&'static str, f64>,
}

impl Sheet {
    pub(crate) fn read(name: &str, parameters: &[(String, String)]) -> Result<Self, ModelError> {
        let (base, write_back) = parse_name(name)?;
        let mut values: BTreeMap<&str, f64> =
            entries(base, write_back).map(|e| (e.name, e.default)).collect();
        for (n, (key, text)) in parameters.iter().enumerate() {
            let Some(entry) = entries(base, write_back).find(|e| e.name == key) else {
                let nearest = nearest(key, entries(base, write_back).map(|e| e.name));
                let (model, name) = (name.to_owned(), key.clone());
                return Err(ModelError::UnknownParameter { model, name, nearest });
            };
            if parameters[..n].iter().any(|(earlier, _)| earlier == key) {
                return Err(ModelError::Twice { name: key.clone() });
            }
            values.insert(entry.name, parse(entry, text)?);
        }
        let sheet = Self { base, write_back, values };
        sheet.check_together()?;
        Ok(sheet)
    }

    /// Values that must fit each other.
    fn check_together(&self) -> Result<(), ModelError> {
        let pairs = [
            ("inner_mb_s", "outer_mb_s"),
            ("seek_track_ms", "seek_read_ms"),
            ("seek_read_ms", "seek_write_ms"),
            ("seek_read_ms", "seek_full_ms"),
        ];
        for (less, more) in pairs {
            let (Some(low), Some(high)) = (self.values.get(less), self.values.get(more)) else { continue };
            if low > high {
                let want = format!("at most the value of {more}, {high}");
                return Err(ModelError::Value { name: less.to_owned(), text: low.to_string(), want });
            }
        }
        Ok(())
    }

    pub(crate) fn base(&self) -> Base {
        self.base
    }

    pub(crate) fn write_back(&self) -> bool {
        self.write_back
    }

    /// A parameter of this model.
    pub(crate) fn number(&self, name: &str) -> f64 {
        debug_assert!(self.values.contains_key(name), "{name}");
        self.values.get(name).copied().unwrap_or(1.0)
    }

    /// One of those in microseconds.
    pub(crate) fn nanos(&self, name: &str) -> Nanos {
        (self.number(name) * 1e3) as Nanos
    }
}

/// Reads a value.
fn parse(entry: &Entry, text: &str) -> Result<f64, ModelError> {
    let (low, high) = entry.range;
    let number = |text: &str| text.parse::<f64>().ok().filter(|v| v.is_finite());
    let value = match entry.kind {
        Kind::Number => number(text),
        Kind::Count => text.parse::<u32>().ok().map(f64::from),
        Kind::Size => parse_size(text).map(|bytes| bytes as f64),
        Kind::Flag => match text {
            "yes" | "true" | "on" | "1" => Some(1.0),
            "no" | "false" | "off" | "0" => Some(0.0),
            _ => None,
        },
    };
    value.filter(|v| (low..=high).contains(v)).ok_or_else(|| {
        let span = format!("from {} to {}", show(entry.kind, low), show(entry.kind, high));
        let want = match entry.kind {
            Kind::Number => format!("a number {span}"),
            Kind::Count => format!("a whole number {span}"),
            Kind::Size => format!("bytes {span}, with K, M or G or without"),
            Kind::Flag => "yes or no".to_owned(),
        };
        ModelError::Value { name: entry.name.to_owned(), text: text.to_owned(), want }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(pairs("a=1, b = 2ms,").unwrap(), [pair("a", "1"), pair("b", "2ms")]);
        assert_eq!(pairs(" ").unwrap(), []);
        assert_eq!(pairs("a=1,rpm"), Err(ModelError::NoPair { text: "rpm".to_owned() }));
    }

    #[test]
    fn names_are_those_of_the_study_files() {
        for stem in ["disk-7200", "ssd", "raid0-of-2", "raid0-of-64"] {
            assert_eq!(check(stem, &[]), Ok(()));
            assert_eq!(check(&format!("{stem}-write-back"), &[]), Ok(()));
        }
        for wrong in [
            "raid0-of-1",
            "raid0-of-65",
            "raid0-of-N",
            "raid0-of-",
            "",
            "-write-back",
            "ssd-write-back-write-back",
        ] {
            assert!(matches!(check(wrong, &[]), Err(ModelError::UnknownModel { .. })), "{wrong}");
        }
        let error = check("disk-720", &[]).unwrap_err().to_string();
        assert_eq!(error, "no device model is called 'disk-720'; is 'disk-7200' meant?");
        let error = check("floppy", &[]).unwrap_err().to_string();
        assert!(
            error.ends_with("the models are disk-7200, ssd and raid0-of-N, each also with -write-back"),
            "{error}"
        );
        let error = check("raid0-of-N", &[]).unwrap_err().to_string();
        assert!(error.ends_with("'raid0-of-N' meant, with a number of disks from 2 to 64 as N?"), "{error}");
    }

    #[test]
    fn parameters_are_the_models_own_and_checked() {
        assert_eq!(check("disk-7200", &one("rpm", "5400")), Ok(()));
        let error = check("disk-7200", &one("rmp", "5400")).unwrap_err().to_string();
        assert_eq!(error, "the device model 'disk-7200' has no parameter 'rmp'; is 'rpm' meant?");
        assert!(matches!(check("ssd", &one("rpm", "1")), Err(ModelError::UnknownParameter { .. })));
        assert!(matches!(check("ssd", &one("battery", "yes")), Err(ModelError::UnknownParameter { .. })));
        assert_eq!(check("ssd-write-back", &one("battery", "yes")), Ok(()));
        for (key, value) in
            [("rpm", "0"), ("rpm", "fast"), ("rpm", "NaN"), ("queue_depth", "1.5"), ("read_ahead", "2Q")]
        {
            assert!(matches!(check("disk-7200", &one(key, value)), Err(ModelError::Value { .. })), "{value}");
        }
        let twice = [one("rpm", "5400"), one("rpm", "5400")].concat();
        assert!(matches!(check("disk-7200", &twice), Err(ModelError::Twice { .. })));
        let error = check("disk-7200", &one("inner_mb_s", "150")).unwrap_err().to_string();
        assert_eq!(
            error,
            "'150' is not a value for the parameter 'inner_mb_s': expected at most the value of outer_mb_s, 140"
        );
    }

    #[test]
    fn every_default_can_be_written_down_and_has_a_source() {
        for model in ["disk-7200-write-back", "ssd-write-back", "raid0-of-4-write-back"] {
            for p in parameters(model).unwrap() {
                assert_eq!(check(model, &one(p.name, &p.default)), Ok(()), "{}", p.name);
                assert!(!p.source.is_empty() && p.about.ends_with('.'));
            }
        }
    }
}
