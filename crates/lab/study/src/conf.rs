//! What reaches ceph.conf: which setting wins, and how it is written.

use std::collections::BTreeMap;

use crate::model::{Setting, Study, System, Variant};
use crate::settings::{SECTIONS, same_option};

/// The options of a variant on a system: the study's default, then the system's, then the variant's; the later one
/// wins where section and name (in whatever spelling) are the same, and takes the earlier one's place.
pub fn settings_of(study: &Study, system: &System, variant: &Variant) -> Vec<Setting> {
    merged(study.default.iter().chain(&system.settings).chain(&variant.settings))
}

/// Settings in order, a later one of the same option in the place of the earlier.
pub fn merged<'a>(settings: impl IntoIterator<Item = &'a Setting>) -> Vec<Setting> {
    let mut merged: Vec<Setting> = Vec::new();
    for setting in settings {
        match merged.iter_mut().find(|s| same_option(s, setting)) {
            Some(earlier) => earlier.clone_from(setting),
            None => merged.push(setting.clone()),
        }
    }
    merged
}

/// The lines of each section, `name = value`, in order of settings. Sections go from the widest to the narrowest:
/// `global`, then each kind of daemon followed by single daemons of that kind.
pub fn ceph_conf_sections(settings: &[Setting]) -> Vec<(String, Vec<String>)> {
    let mut sections: BTreeMap<(usize, &str), Vec<String>> = BTreeMap::new();
    for setting in settings {
        let kind = setting.section.split('.').next().unwrap_or_default();
        let rank = SECTIONS.iter().position(|s| *s == kind).unwrap_or(SECTIONS.len());
        let line = format!("{} = {}", setting.name, escaped(&setting.value));
        sections.entry((rank, setting.section.as_str())).or_default().push(line);
    }
    sections.into_iter().map(|((_, name), lines)| (name.to_owned(), lines)).collect()
}

/// The settings as the text of a ceph.conf.
pub fn ceph_conf_text(settings: &[Setting]) -> String {
    let mut text = String::new();
    for (section, lines) in ceph_conf_sections(settings) {
        text.push_str(&format!("[{section}]\n"));
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// The value so that Ceph's reader gives it back as written: comment signs, quotes at either end and backslashes need a
/// backslash; all else stands for itself.
#[must_use]
pub fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for (at, c) in value.char_indices() {
        let first = at == 0;
        if matches!(c, '\\' | '#' | ';') || (first && matches!(c, '"' | '\'')) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
