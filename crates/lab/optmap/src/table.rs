//! The options of each Ceph release, as its programs describe them (`make-tables.py`).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use study::Target;

use crate::parts::Part;

/// A Ceph release whose options are known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Release {
    /// 16.2
    Pacific,
    /// 18.2
    Reef,
    /// 20.2
    Tentacle,
}

impl Release {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::Pacific, Self::Reef, Self::Tentacle];

    /// As studies name it: `16.2`, `18.2`, `20.2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pacific => "16.2",
            Self::Reef => "18.2",
            Self::Tentacle => "20.2",
        }
    }

    /// The release that a study names; `None` if nothing is known of it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == name)
    }

    /// The release whose programs read a system's options: a cluster of Loligo has clients of 16.2. `None` where nothing
    /// is known of it, or where the lab configures nothing.
    pub(crate) fn on(target: &Target) -> Option<Self> {
        match target {
            Target::Ceph { release, .. } => Self::named(release),
            Target::Loligo { .. } => Some(Self::Pacific),
            Target::Running { .. } | Target::Nfs { .. } => None,
        }
    }

    pub(crate) fn table(self) -> &'static Table {
        static TABLES: [OnceLock<Table>; 3] = [const { OnceLock::new() }; 3];
        let (text, table) = match self {
            Self::Pacific => (include_str!("../tables/ceph-16.2.txt"), &TABLES[0]),
            Self::Reef => (include_str!("../tables/ceph-18.2.txt"), &TABLES[1]),
            Self::Tentacle => (include_str!("../tables/ceph-20.2.txt"), &TABLES[2]),
        };
        table.get_or_init(|| Table { options: rows(text).map(|o| (o.name, o)).collect() })
    }
}

/// Types of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Bool,
    Int,
    Uint,
    Size,
    Float,
    Secs,
    Millisecs,
    Level,
    /// Texts, addresses, UUIDs: any text is taken.
    Text,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "size" => Self::Size,
            "float" => Self::Float,
            "secs" => Self::Secs,
            "millisecs" => Self::Millisecs,
            "level" => Self::Level,
            "str" | "addr" | "addrvec" | "uuid" => Self::Text,
            _ => return None,
        })
    }
}

/// What a value must be beyond its type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Limits {
    None,
    /// From, to.
    Range(Option<f64>, Option<f64>),
    /// One of these, separated by `|`.
    OneOf(&'static str),
}

/// An option of a release.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The parts of Ceph whose code names it; empty: no part's does.
    pub(crate) readers: Vec<Part>,
    pub(crate) limits: Limits,
    pub(crate) default: &'static str,
}

/// The options of a release.
pub(crate) struct Table {
    options: BTreeMap<&'static str, Entry>,
}

impl Table {
    /// By normalized name.
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.options.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.options.keys().copied()
    }
}

/// The rows of a table that can be read; a test sees to it that all can.
fn rows(text: &'static str) -> impl Iterator<Item = Entry> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row)
}

fn row(line: &'static str) -> Option<Entry> {
    let mut fields = line.split('\t');
    let (name, kind, readers) = (fields.next()?, Kind::named(fields.next()?)?, fields.next()?);
    let (limits, default) = (limits(fields.next()?)?, fields.next()?);
    let words = readers.split(',').filter(|word| *word != "-");
    Some(Entry { name, kind, readers: words.map(Part::named).collect::<Option<_>>()?, limits, default })
}

fn limits(text: &'static str) -> Option<Limits> {
    if text == "-" {
        return Some(Limits::None);
    }
    let Some((low, high)) = text.split_once("..") else { return Some(Limits::OneOf(text)) };
    let end = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    Some(Limits::Range(end(low)?, end(high)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::values;

    const TEXTS: [&str; 3] = [
        include_str!("../tables/ceph-16.2.txt"),
        include_str!("../tables/ceph-18.2.txt"),
        include_str!("../tables/ceph-20.2.txt"),
    ];

    #[test]
    fn every_line_of_every_table_is_read_and_they_are_sorted() {
        for text in TEXTS {
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            let unread: Vec<&&str> = lines.iter().filter(|line| row(line).is_none()).collect();
            assert!(unread.is_empty(), "{unread:?}");
            assert!(lines.len() > 1700);
            let names: Vec<&str> = lines.iter().filter_map(|line| line.split('\t').next()).collect();
            assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn names_are_normalized_and_defaults_are_values() {
        // Ceph's own slip: a smallest value of -10 where there are no negative ones.
        let slips = ["rgw_rados_pool_recovery_priority"];
        for release in Release::ALL {
            for entry in release.table().options.values() {
                assert_eq!(options::normalize(entry.name), entry.name);
                let good = entry.default.is_empty() || values::check(entry, entry.default).is_ok();
                let told = format!("{} {}: '{}'", release.name(), entry.name, entry.default);
                assert!(good || slips.contains(&entry.name), "{told}");
            }
        }
    }

    /// The crate `options` has its own list of Ceph's names, with the limits of all releases together: servers don't link the lab's
    /// tables.
    #[test]
    fn the_names_that_loligo_knows_and_those_of_the_releases_are_the_same() {
        let of_releases: BTreeSet<&str> = Release::ALL.into_iter().flat_map(|r| r.table().names()).collect();
        let unknown = |name: &&&str| options::status(name) == options::OptionStatus::Unknown;
        let unknown: Vec<&&str> = of_releases.iter().filter(unknown).collect();
        assert!(unknown.is_empty(), "options does not know {unknown:?}: add them to ceph_names.txt");
        // `cluster` and `name` say which program reads the file; Ceph lists them among its options nevertheless.
        let own = |name: &str| options::status(name) == options::OptionStatus::Own;
        let others = options::names().filter(|name| !own(name) && !["cluster", "name"].contains(name));
        let gone: Vec<&str> = others.filter(|name| !of_releases.contains(name)).collect();
        assert!(gone.is_empty(), "no release has {gone:?}");
    }

    #[test]
    fn loligo_takes_every_text_of_every_releases_enumerations_and_no_other() {
        for entry in Release::ALL.into_iter().flat_map(|r| r.table().options.values()) {
            let Limits::OneOf(texts) = entry.limits else { continue };
            let has_own = options::lookup(entry.name).is_some();
            let refused = texts.split('|').find(|text| options::canonical(entry.name, text).is_err());
            assert!(has_own || refused.is_none(), "{} = {refused:?}: limits of ceph_names.txt", entry.name);
            assert!(options::canonical(entry.name, "rubbish").is_err(), "{}", entry.name);
        }
    }

    #[test]
    #[ignore = "needs Ceph 16.2's ceph-osd"]
    fn the_installed_ceph_has_the_options_of_its_table() {
        let command = ["--no-mon-config", "-c", "/dev/null", "--show-config"];
        let shown = std::process::Command::new("ceph-osd").args(command).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let names = shown.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
        // These two say who the program is.
        let names: Vec<&str> = names.filter(|name| !["name", "cluster"].contains(name)).collect();
        let table: Vec<&str> = Release::Pacific.table().names().collect();
        let missing: Vec<&&str> = names.iter().filter(|name| !table.contains(name)).collect();
        let gone: Vec<&&str> = table.iter().filter(|name| !names.contains(name)).collect();
        assert!(
            missing.is_empty() && gone.is_empty(),
            "not in the table: {missing:?}; not in ceph-osd: {gone:?}"
        );
    }

    #[test]
    fn the_tables_are_those_of_the_programs() {
        // From `config help` of 16.2.15, 18.2.7 and 20.2: FileStore's options outlived FileStore.
        let readers = |release: Release| &release.table().get("filestore_queue_max_ops").unwrap().readers;
        assert_eq!(readers(Release::Pacific), &[Part::FileStore]);
        assert!(readers(Release::Reef).is_empty() && readers(Release::Tentacle).is_empty());
        let depth = Release::Tentacle.table().get("objecter_inflight_ops").unwrap();
        assert_eq!((depth.kind, depth.default), (Kind::Uint, "1024"));
        let target = Release::Reef.table().get("osd_memory_target").unwrap();
        assert_eq!(target.limits, Limits::Range(Some(939_524_096.0), None));
    }
}
