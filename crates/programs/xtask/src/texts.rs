//! Contents of files: no paths of a developer's machine, a first doc line in every crate, files of a size to read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Finding;

/// Lines past which a file is refused; past 600 it should already have been split.
const LINES_MAX: usize = 1000;

fn tracked_files(root: &Path) -> Vec<PathBuf> {
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let Ok(listed) = listed else { return Vec::new() };
    let names = listed.stdout.split(|&b| b == 0).filter(|n| !n.is_empty());
    names.map(|n| root.join(String::from_utf8_lossy(n).as_ref())).collect()
}

/// A file that git tracks.
pub(crate) struct Source {
    /// Its path from the root of the repository.
    pub name: String,
    pub text: String,
}

/// The files that git tracks and that are text.
pub(crate) fn sources(root: &Path) -> Vec<Source> {
    let source = |file: PathBuf| {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        Some(Source { name, text: fs::read_to_string(&file).ok()? })
    };
    tracked_files(root).into_iter().filter_map(source).collect()
}

/// The crate whose examples in the documentation `make unit` runs; of every other there is none to look for.
const WITH_DOCTESTS: &str = "crates/base/options/";

/// Whether a doc comment has a block of code that rustdoc would run.
fn has_doctest(text: &str) -> bool {
    let doc = |line: &'_ str| {
        let line = line.trim_start();
        line.strip_prefix("//!").or(line.strip_prefix("///")).map(|l| l.trim_start().to_owned())
    };
    let fences = text.lines().filter_map(doc).filter(|line| line.starts_with("```"));
    // Every second one ends a block.
    fences.step_by(2).any(|fence| !fence.starts_with("```text") && !fence.starts_with("```ignore"))
}

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Written in two parts so that this file passes its own rule.
    let machine_path = concat!("/wo", "rk/");
    for Source { name, text } in sources {
        if text.contains(machine_path) {
            findings.push(format!("{name}: contains a path of a developer's machine"));
        }
        if !name.ends_with(".rs") {
            continue;
        }
        if (name.ends_with("/lib.rs") || name.ends_with("/main.rs")) && !text.starts_with("//!") {
            findings.push(format!("{name}: must begin with a //! line on the purpose of the crate"));
        }
        if !name.starts_with(WITH_DOCTESTS) && has_doctest(text) {
            findings.push(format!(
                "{name}: has an example that no test runs: mark it ```text, or make it a test"
            ));
        }
        if text.lines().count() > LINES_MAX {
            findings.push(format!("{name}: has more than {LINES_MAX} lines: split it"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_that_rustdoc_would_run_are_found() {
        assert!(has_doctest("/// ```\n/// run();\n/// ```\n"));
        assert!(has_doctest("//! ```text\n//! a\n//! ```\n    /// ```no_run\n    /// ```\n"));
        assert!(!has_doctest("//! ```text\n//! ```\n//! ```text\n//! ```\nlet s = \"```\";\n"));
    }
}
