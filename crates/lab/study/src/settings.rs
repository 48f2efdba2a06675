//! Options of ceph.conf in a study file: sections, `section/option`, and plain names that go to `global`.

use crate::fields::{duplicate, map, text, unknown};
use crate::model::Setting;
use crate::node::{Entry, Node, Value};
use crate::problem::{At, ProblemKind, Problems};

/// The sections for all daemons of a kind; `osd.0`, `mon.a`, `client.admin` are one daemon's.
pub(crate) const SECTIONS: [&str; 6] = ["global", "mon", "mgr", "osd", "mds", "client"];

/// Whether a name is one of ceph.conf's sections.
pub(crate) fn is_section(name: &str) -> bool {
    match name.split_once('.') {
        None => SECTIONS.contains(&name),
        Some((kind, id)) => kind != "global" && SECTIONS.contains(&kind) && is_id(kind, id),
    }
}

/// Whether a daemon of a kind can be called so. OSDs are numbered; a slash would be that of `section/option`.
fn is_id(kind: &str, id: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match kind {
        "osd" => {
            id == "0" || (id.chars().all(|c| c.is_ascii_digit()) && !id.is_empty() && !id.starts_with('0'))
        }
        _ => !id.is_empty() && id.chars().all(good),
    }
}

/// Reads a map of options and sections.
pub(crate) fn read(node: &Node, place: &str, p: &mut Problems) -> Vec<Setting> {
    let mut found: Vec<(At, Setting)> = Vec::new();
    for entry in map(node, place, p).unwrap_or_default() {
        if is_section(&entry.key) {
            for inner in map(&entry.node, &format!("section {}", entry.key), p).unwrap_or_default() {
                push(&mut found, &entry.key, &inner.key, inner, p);
            }
        } else if matches!(entry.node.value, Value::Map(_)) {
            unknown("section of ceph.conf", &entry.key, &SECTIONS, entry.at, p);
        } else if let Some((section, name)) = address(&entry.key, entry.at, p) {
            push(&mut found, section, name, entry, p);
        }
    }
    found.into_iter().map(|(_, setting)| setting).collect()
}

/// Section and option of `option` or `section/option`.
pub(crate) fn address<'a>(key: &'a str, at: At, p: &mut Problems) -> Option<(&'a str, &'a str)> {
    let (section, name) = key.split_once('/').unwrap_or(("global", key));
    if !is_section(section) {
        unknown("section of ceph.conf", section, &SECTIONS, at, p);
        return None;
    }
    Some((section, name))
}

fn push(found: &mut Vec<(At, Setting)>, section: &str, name: &str, entry: &Entry, p: &mut Problems) {
    let Some(setting) = setting(section, name, entry.at, &entry.node, p) else { return };
    if let Some((first, _)) = found.iter().find(|(_, s)| same_option(s, &setting)) {
        if !p.any_at(entry.at) {
            duplicate("option", &format!("{section}/{name}"), *first, entry.at, p);
        }
    }
    found.push((entry.at, setting));
}

/// A setting, if a ceph.conf can hold its name and value.
pub(crate) fn setting(section: &str, name: &str, at: At, value: &Node, p: &mut Problems) -> Option<Setting> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | '.');
    if name.trim().is_empty() || !name.chars().all(good) {
        let want = "an option's name (letters, digits, '_', '-', blanks)".to_owned();
        p.add(at, ProblemKind::Value { place: "option".to_owned(), text: name.to_owned(), want });
        return None;
    }
    let text = text(value, name, p)?;
    if let Some(what) = not_for_conf(text) {
        p.add(value.at, ProblemKind::NotForConf { option: name.to_owned(), what });
        return None;
    }
    let (section, name, value) = (section.to_owned(), name.to_owned(), text.to_owned());
    Some(Setting { section, name, value, line: at.line })
}

/// What Ceph's reader of ceph.conf would not give back as written, even escaped.
fn not_for_conf(value: &str) -> Option<&'static str> {
    match value.chars().find(|c| !c.is_ascii() || c.is_ascii_control()) {
        Some(c) if c.is_ascii() => Some("a control character or more than one line"),
        // Ceph 16.2's reader ends the process on these.
        Some(_) => Some("characters other than ASCII"),
        None if value.trim() != value => Some("blanks at an end"),
        None => None,
    }
}

/// Whether two settings set the same option of the same section, in whatever spelling.
pub(crate) fn same_option(a: &Setting, b: &Setting) -> bool {
    a.section == b.section && options::normalize(&a.name) == options::normalize(&b.name)
}
