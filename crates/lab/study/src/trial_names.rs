//! Names of trials that are safe as file names and never the same for two trials.

use std::collections::{BTreeMap, BTreeSet};

/// As long as a part of a name may get.
const LONGEST: usize = 48;

/// The file-name parts of a study's systems, workloads and variants. They are made once, of the whole file: what a command
/// line leaves out must not change what the rest is called, or a run that goes on would take one system for another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrialNames {
    systems: BTreeMap<String, String>,
    workloads: BTreeMap<String, String>,
    variants: BTreeMap<String, String>,
}

impl TrialNames {
    pub(crate) fn new<'a>(
        systems: impl Iterator<Item = &'a str>,
        workloads: impl Iterator<Item = &'a str>,
        variants: impl Iterator<Item = &'a str>,
    ) -> Self {
        Self { systems: by_name(systems), workloads: by_name(workloads), variants: by_name(variants) }
    }

    pub(crate) fn system(&self, name: &str) -> String {
        of(&self.systems, name)
    }

    pub(crate) fn workload(&self, name: &str) -> String {
        of(&self.workloads, name)
    }

    pub(crate) fn variant(&self, name: &str) -> String {
        of(&self.variants, name)
    }
}

fn by_name<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let names: Vec<&str> = names.collect();
    names.iter().map(|name| (*name).to_owned()).zip(parts(names.iter().copied())).collect()
}

fn of(parts: &BTreeMap<String, String>, name: &str) -> String {
    parts.get(name).cloned().unwrap_or_else(|| part(name))
}

/// The file-name part of each name: letters, digits, `_`, `-` and `+`; two that would be the same are distinguished by a
/// number at the end.
fn parts<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    names.map(|name| free(part(name), &mut taken)).collect()
}

fn part(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '+') { c } else { '-' };
    let part: String = name.chars().take(LONGEST).map(safe).collect();
    // A dash first looks like an option to programs.
    let part = part.trim_start_matches('-');
    if part.is_empty() { "x".to_owned() } else { part.to_owned() }
}

fn free(part: String, taken: &mut BTreeSet<String>) -> String {
    let mut name = part.clone();
    let mut number = 2u64;
    while !taken.insert(name.clone()) {
        name = format!("{part}-{number}");
        number += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_apart_when_signs_are_replaced() {
        let names = ["osd/x_1", "osd x_1", "osd-x_1-2", "16.2", "../..", "--help", ""];
        let want = ["osd-x_1", "osd-x_1-2", "osd-x_1-2-2", "16-2", "x", "help", "x-2"];
        assert_eq!(parts(names.into_iter()), want);
    }
}
