//! `old-names.txt`: what became of options that no release of today knows.

/// An option of earlier releases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OldName {
    pub(crate) name: &'static str,
    /// Options that do its work today; empty: nothing does.
    pub(crate) to: Vec<&'static str>,
    pub(crate) sentence: &'static str,
}

/// By normalized name.
pub(crate) fn old_name(name: &str) -> Option<OldName> {
    all().find(|old| old.name == name)
}

fn all() -> impl Iterator<Item = OldName> {
    let lines = include_str!("old-names.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).filter_map(read)
}

fn read(line: &'static str) -> Option<OldName> {
    let mut columns = line.splitn(3, '|').map(str::trim);
    let (name, to, sentence) = (columns.next()?, columns.next()?, columns.next()?);
    Some(OldName { name, to: to.split_whitespace().filter(|word| *word != "-").collect(), sentence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Release;

    #[test]
    fn old_names_are_sorted_and_no_release_has_them_and_what_they_became_is_there() {
        let names: Vec<&str> = all().map(|old| old.name).collect();
        assert!(names.len() > 15 && names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        for old in all() {
            let known = |name: &str| Release::ALL.iter().any(|r| r.table().get(name).is_some());
            assert!(!known(old.name), "{}", old.name);
            assert!(old.to.iter().all(|name| known(name)), "{old:?}");
        }
    }
}
