//! Paths that documents name exist: links to files, and words in backticks that begin with a directory of this repository.

use std::path::Path;

use crate::Finding;
use crate::texts::Source;

/// Directories whose files documents name in backticks.
const ROOTS: [&str; 6] = ["crates/", "docs/", "tests/", "studies/", "lint/", "fuzz/"];

pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Finding> {
    // The change log and design notes name files of their time.
    let dated = |name: &str| name == "CHANGELOG.md" || name.starts_with("docs/design/");
    let documents = sources.iter().filter(|s| s.name.ends_with(".md") && !dated(&s.name));
    let missing = |document: &Source| {
        let directory = Path::new(&document.name).parent().unwrap_or(Path::new(""));
        let links = links(&document.text).map(|to| (to, root.join(directory).join(to)));
        let named = named(&document.text).map(|path| (path, root.join(path)));
        let name = document.name.clone();
        let gone = links.chain(named).filter(|(_, at)| !at.exists());
        gone.map(move |(path, _)| format!("{name}: names {path}, which does not exist")).collect::<Vec<_>>()
    };
    documents.flat_map(missing).collect()
}

/// Targets of links to files, without their fragments.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0.split('#').next()?;
        let is_file = !target.is_empty() && !target.contains("://") && !target.contains(' ');
        is_file.then_some(target)
    })
}

/// Words in backticks that are paths of the repository; patterns and commands are not.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|word| {
        ROOTS.iter().any(|root| word.starts_with(root)) && !word.contains([' ', '*', '<', '{', ':', '…'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_paths_in_backticks_are_found() {
        let text = "[a](docs/a.md#x), [b](https://b), `crates/x/src/y.rs`, `make test`, `tests/*.py`";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md"]);
        assert_eq!(named(text).collect::<Vec<_>>(), ["crates/x/src/y.rs"]);
    }

    #[test]
    fn a_path_that_is_gone_is_a_finding() {
        let text = "`crates/gone.rs`".to_owned();
        let found = check(Path::new("/nowhere"), &[Source { name: "docs/a.md".into(), text }]);
        assert_eq!(found, ["docs/a.md: names crates/gone.rs, which does not exist"]);
    }
}
