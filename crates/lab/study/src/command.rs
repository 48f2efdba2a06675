//! A `command` of a study file.

use crate::fields::{Fields, map, text};
use crate::model::CommandLoad;
use crate::node::Node;
use crate::problem::{ProblemKind, Problems};

const KEYS: [&str; 7] = ["prepare", "run", "cleanup", "needs", "file_system", "timeout", "expected"];
/// The longest command: a week.
const WEEK: u32 = 604_800;

pub(crate) fn read(node: &Node, place: &str, p: &mut Problems) -> Option<CommandLoad> {
    let fields = Fields::of(node, place, &KEYS, p)?;
    fields.need(&["run", "timeout"], p);
    let shell = |key: &str, p: &mut Problems| {
        let text = fields.text(key, p)?;
        if let Some(node) = fields.get(key).filter(|_| text.trim().is_empty()) {
            p.add(node.at, ProblemKind::Empty(key.to_owned()));
        }
        Some(text.to_owned())
    };
    let (prepare, run, cleanup) = (shell("prepare", p), shell("run", p), shell("cleanup", p));
    let file_system = fields.yes("file_system", p).unwrap_or(false);
    let needs = needs(&fields, p);
    let timeout = fields.count("timeout", 1..=WEEK, p);
    let expected = fields.count("expected", 1..=timeout.unwrap_or(WEEK), p);
    let (run, timeout) = (run?, timeout?);
    let expected = expected.unwrap_or_else(|| timeout.div_ceil(3));
    Some(CommandLoad { prepare, run, cleanup, needs, file_system, timeout, expected })
}

/// Programs, each with the package that has it.
fn needs(fields: &Fields<'_>, p: &mut Problems) -> Vec<(String, String)> {
    let Some(node) = fields.get("needs") else { return Vec::new() };
    let entries = map(node, "needs", p).unwrap_or_default();
    let package = |e: &crate::node::Entry, p: &mut Problems| text(&e.node, &e.key, p).map(str::to_owned);
    entries.iter().filter_map(|e| Some((e.key.clone(), package(e, p)?))).collect()
}
