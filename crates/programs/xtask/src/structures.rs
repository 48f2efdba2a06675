//! Each of Ceph's structures has one type and one codec: two would drift apart.
//!
//! A type says which structure it is by `Ceph's NAME` in its documentation, where NAME is an identifier with a capital
//! or an underscore, or anything in backticks; a codec by the name in its errors, a string like `"pg_stat_t"`. Types
//! and codecs of tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::texts::Source;

/// What a type's documentation puts before the name of the structure that the type is.
const CLAIM: &str = "Ceph's ";

/// The structures that types of a source claim to be, with the lines of the types.
fn types(text: &str) -> Vec<(String, usize)> {
    let (mut claims, mut doc) = (Vec::new(), String::new());
    for (number, line) in (1..).zip(code(text)) {
        let line = line.trim_start();
        if let Some(more) = line.strip_prefix("///") {
            doc.push_str(more);
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        if declares_type(line) {
            let named: BTreeSet<String> = doc.split(CLAIM).skip(1).filter_map(structure).collect();
            claims.extend(named.into_iter().map(|name| (name, number)));
        }
        doc.clear();
    }
    claims
}

/// The lines before the source's tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| line.trim() != "#[cfg(test)]")
}

fn declares_type(line: &str) -> bool {
    let line = line.strip_prefix("pub").unwrap_or(line);
    let line = line.strip_prefix("(crate)").unwrap_or(line).trim_start();
    ["struct ", "enum ", "union ", "type "].iter().any(|keyword| line.starts_with(keyword))
}

/// The structure that a text begins with.
fn structure(text: &str) -> Option<String> {
    if let Some(quoted) = text.strip_prefix('`') {
        return quoted.split_once('`').map(|(name, _)| name.to_string());
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let name = text[..end].trim_end_matches(':');
    name.contains(|c: char| c == '_' || c.is_ascii_uppercase()).then(|| name.to_string())
}

/// The structures that codecs of a source name in their errors.
fn codecs(text: &str) -> BTreeSet<String> {
    let is_name = |s: &str| s.ends_with("_t") && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let statements = code(text).filter(|line| !line.trim_start().starts_with("//"));
    let strings = statements.flat_map(|line| line.split('"').skip(1).step_by(2));
    strings.filter(|s| is_name(s)).map(str::to_string).collect()
}

fn counts(name: &str) -> bool {
    let of_tests = ["/tests/", "/examples/", "/benches/"].iter().any(|part| name.contains(part));
    name.starts_with("crates/") && name.ends_with(".rs") && !of_tests
}

/// Finds structures with more than one type, or with codecs in more than one file.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut found: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for Source { name, text } in sources.iter().filter(|source| counts(&source.name)) {
        for (structure, line) in types(text) {
            found.entry(("types", structure)).or_default().push(format!("{name}:{line}"));
        }
        for structure in codecs(text) {
            found.entry(("codecs", structure)).or_default().push(name.clone());
        }
    }
    let twice = found.into_iter().filter(|(_, places)| places.len() > 1);
    let finding = |((what, structure), places): ((&str, String), Vec<String>)| {
        let places = places.join(", ");
        format!(
            "{structure} has several {what}: {places}; keep one, in messages or types, and use it everywhere"
        )
    };
    twice.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> Source {
        Source { name: name.into(), text: text.into() }
    }

    const ONE: &str = "/// An OSD's part (Ceph's pg_shard_t).\n#[derive(Clone)]\npub struct PgShard {}\n";

    #[test]
    fn two_types_for_one_structure_are_found_with_their_places() {
        let alias = "//! Text.\n\n/// A share; Ceph's `pg_shard_t`.\npub(crate) type Share = (i32, i8);\n";
        let sources = [source("crates/a/src/x.rs", ONE), source("crates/b/src/y.rs", alias)];
        let findings = check(&sources);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("crates/a/src/x.rs:3, crates/b/src/y.rs:4"), "{findings:?}");
        assert!(findings[0].starts_with("pg_shard_t has several types"), "{findings:?}");
    }

    #[test]
    fn two_types_in_one_file_are_found_too() {
        assert_eq!(check(&[source("crates/a/src/x.rs", &ONE.repeat(2))]).len(), 1);
    }

    #[test]
    fn a_name_over_two_doc_lines_and_a_nested_name_count_as_they_are() {
        let text = "/// Times (Ceph's\n/// osd_stat_t::Interfaces) of a peer.\nstruct Times;\n";
        assert_eq!(types(text), [("osd_stat_t::Interfaces".to_string(), 3)]);
        assert_eq!(
            types("/// Ceph's PastIntervals: who wrote.\nenum Past {}\n"),
            [("PastIntervals".into(), 2)]
        );
    }

    #[test]
    fn what_is_no_claim_is_no_finding() {
        let word = "/// In Ceph's own order.\npub struct Order;\n";
        let other = "/// A field of pg_shard_t, as in Ceph's.\npub struct Field;\n";
        let of_a_function = "/// Reads Ceph's pg_shard_t.\nfn read() {}\n";
        let of_a_test = format!("#[cfg(test)]\n{ONE}");
        let sources = [
            source("crates/a/src/x.rs", ONE),
            source("crates/a/src/word.rs", &word.repeat(2)),
            source("crates/a/src/other.rs", other),
            source("crates/a/src/function.rs", of_a_function),
            source("crates/a/src/with_tests.rs", &of_a_test),
            source("crates/a/tests/x.rs", ONE),
            source("fuzz/x.rs", ONE),
        ];
        assert_eq!(check(&sources), Vec::<Finding>::new());
    }

    #[test]
    fn a_second_codec_is_found_where_its_errors_name_the_structure() {
        let one = "d.versioned(1, \"pg_shard_t\", |d, _| d.get());\nErr(TooOld { what: \"pg_shard_t\" })\n";
        let comment = "//! A codec names itself, as in \"pg_shard_t\".\n";
        let field = "Err(BadValue { what: \"pg_shard_t shard\" })\n";
        let sources = |second| [source("crates/a/src/x.rs", one), source("crates/b/src/y.rs", second)];
        assert_eq!(check(&sources(field)), Vec::<Finding>::new());
        assert_eq!(check(&sources(comment)), Vec::<Finding>::new());
        let findings = check(&sources(one));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("pg_shard_t has several codecs"), "{findings:?}");
    }
}
