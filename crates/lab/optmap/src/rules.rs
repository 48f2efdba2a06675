//! `rules.txt`: options that a program reads and that still do nothing on a system.

use std::sync::OnceLock;

use study::{CephStore, FileSystem, FsKind, Place, Setting, System};

use crate::table::Release;

/// A line of `rules.txt`.
#[derive(Debug)]
struct Rule {
    names: Vec<&'static str>,
    /// Empty: all.
    releases: Vec<&'static str>,
    /// Any of these must hold; empty: always.
    places: Vec<&'static str>,
    when: When,
    why: &'static str,
}

/// On what other options of the study a rule depends.
#[derive(Debug)]
enum When {
    Always,
    /// If any of these is set so.
    If(Vec<(&'static str, &'static str)>),
    /// If none of these is set so.
    Unless(Vec<(&'static str, &'static str)>),
}

/// Why an option (normalized name) does nothing on a system, if a rule says so.
pub(crate) fn why(
    name: &str,
    release: Release,
    store: CephStore,
    system: &System,
    in_force: &[Setting],
) -> Option<&'static str> {
    let hit = rules().iter().find(|rule| {
        rule.names.iter().any(|pattern| matches(pattern, name))
            && (rule.releases.is_empty() || rule.releases.contains(&release.name()))
            && (rule.places.is_empty() || rule.places.iter().any(|place| holds(place, store, system)))
            && rule.when.holds(in_force)
    });
    hit.map(|rule| rule.why)
}

fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| lines().filter_map(rule).collect())
}

fn lines() -> impl Iterator<Item = &'static str> {
    include_str!("rules.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn rule(line: &'static str) -> Option<Rule> {
    let mut columns = line.split('|').map(str::trim);
    let mut words = || {
        let column = columns.next()?;
        Some(if column == "-" { Vec::new() } else { column.split_whitespace().collect::<Vec<_>>() })
    };
    let (names, releases, places, when) = (words()?, words()?, words()?, when(&words()?)?);
    Some(Rule { names, releases, places, when, why: columns.next()? })
}

fn when(words: &[&'static str]) -> Option<When> {
    let Some((word, settings)) = words.split_first() else { return Some(When::Always) };
    let settings = settings.iter().map(|s| s.split_once('=')).collect::<Option<_>>()?;
    match *word {
        "if" => Some(When::If(settings)),
        "unless" => Some(When::Unless(settings)),
        _ => None,
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

impl When {
    fn holds(&self, in_force: &[Setting]) -> bool {
        let any = |wanted: &[(&str, &str)]| wanted.iter().any(|(name, value)| is_set(in_force, name, value));
        match self {
            Self::Always => true,
            Self::If(wanted) => any(wanted),
            Self::Unless(wanted) => !any(wanted),
        }
    }
}

/// Whether the study sets an option to a value; `*` is any but 0 and false.
fn is_set(in_force: &[Setting], name: &str, value: &str) -> bool {
    let off = |text: &str| ["0", "false"].contains(&text.to_ascii_lowercase().as_str());
    let like = |text: &str| match value {
        "*" => !off(text),
        "true" => text == "1" || text.eq_ignore_ascii_case("true"),
        "false" => off(text),
        _ => text == value,
    };
    in_force.iter().any(|s| options::normalize(&s.name) == name && like(s.value.trim()))
}

/// Whether what a rule says of a system is so. What can't be known (the file system below a directory) is not so.
fn holds(place: &str, store: CephStore, system: &System) -> bool {
    let kind = file_system(&system.place).map(|fs| fs.kind);
    let on_files = store == CephStore::FileStore;
    match place {
        "bluestore" => store == CephStore::BlueStore,
        "memstore" => store == CephStore::MemStore,
        "filestore" => on_files,
        "btrfs" => on_files && kind == Some(FsKind::Btrfs),
        "xfs" => on_files && kind == Some(FsKind::Xfs),
        "not-btrfs" => on_files && kind.is_some_and(|k| k != FsKind::Btrfs),
        "not-xfs" => on_files && kind.is_some_and(|k| k != FsKind::Xfs),
        "file-journal" => on_files && journal_is_file(system),
        "device-journal" => on_files && !journal_is_file(system),
        _ => false,
    }
}

/// FileStore's journal is a file beside the data unless it has a place of its own; an image is a file too.
fn journal_is_file(system: &System) -> bool {
    matches!(system.journal, None | Some(Place::Directory | Place::Image { .. }))
}

fn file_system(place: &Place) -> Option<&FileSystem> {
    match place {
        Place::Directory | Place::Image { .. } => None,
        Place::Devices { fs, .. } | Place::Loop { fs, .. } | Place::Modelled { fs, .. } => fs.as_ref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_rule_whose_words_mean_something() {
        let places = [
            "bluestore",
            "memstore",
            "filestore",
            "btrfs",
            "xfs",
            "not-btrfs",
            "not-xfs",
            "file-journal",
            "device-journal",
        ];
        for line in lines() {
            let rule = rule(line).unwrap_or_else(|| panic!("{line}"));
            assert!(line.matches('|').count() == 4 && !rule.why.is_empty(), "{line}");
            assert!(rule.releases.iter().all(|r| Release::named(r).is_some()), "{line}");
            assert!(rule.places.iter().all(|p| places.contains(p)), "{line}");
        }
    }

    #[test]
    fn every_rule_is_about_options_that_there_are() {
        for rule in rules() {
            let releases = Release::ALL.into_iter();
            let meant = releases.filter(|r| rule.releases.is_empty() || rule.releases.contains(&r.name()));
            let names: Vec<&str> = meant.flat_map(|r| r.table().names()).collect();
            for pattern in &rule.names {
                assert!(names.iter().any(|name| matches(pattern, name)), "{pattern}");
            }
            if let When::If(wanted) | When::Unless(wanted) = &rule.when {
                assert!(wanted.iter().all(|(name, _)| names.contains(name)), "{wanted:?}");
            }
        }
    }
}
