//! What names and texts may hold: they reach terminals, tables, charts and file names.

use text::turns_text;

use crate::problem::{At, ProblemKind, Problems};

/// Longer names break every table.
const NAME_MAX: usize = 100;

/// Notes what is wrong with a name that the user gives.
pub(crate) fn check_name(what: &'static str, name: &str, at: At, p: &mut Problems) {
    let is_bad = |c: &char| c.is_control() || turns_text(*c);
    let why = if name.trim().is_empty() {
        "it is empty".to_owned()
    } else if let Some(c) = name.chars().find(is_bad) {
        has(c)
    } else if name.chars().count() > NAME_MAX {
        format!("it has more than {NAME_MAX} characters")
    } else {
        return;
    };
    let shown: String = name.chars().take(NAME_MAX).collect();
    p.add(at, ProblemKind::Name { what, name: shown, why });
}

/// Notes control characters of a text for readers; lines and tabs are none.
pub(crate) fn check_text(place: &str, text: &str, at: At, p: &mut Problems) {
    if let Some(c) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        p.add(at, ProblemKind::Control { place: place.to_owned(), what: has(c) });
    }
}

fn has(c: char) -> String {
    let kind =
        if turns_text(c) { "a character that turns the direction of text" } else { "a control character" };
    format!("it has {kind}, U+{:04X}", u32::from(c))
}
