//! Licences and sources of everything that is linked in.

use cargo_metadata::Metadata;

use crate::Finding;

/// Licences that may be linked in.
const ALLOWED: [&str; 12] = [
    "Apache-2.0",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unlicense",
    "CC0-1.0",
    "BSL-1.0",
    "Unicode-3.0",
    "NCSA",
];

/// Whether an SPDX expression can be satisfied by allowed licences alone.
fn is_allowed(expression: &str) -> bool {
    let text = expression.replace('/', " OR ").replace(['(', ')'], " ");
    // Every AND part needs one allowed alternative; parentheses in the wild only group alternatives.
    text.split(" AND ").all(|part| {
        part.split(" OR ").any(|licence| {
            let licence = licence.trim().split(" WITH ").next().unwrap_or_default().trim();
            ALLOWED.contains(&licence)
        })
    })
}

/// Checks every package that the lock file resolves to.
pub(crate) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let name = format!("{} {}", package.name, package.version);
        match &package.license {
            Some(licence) if is_allowed(licence) => {}
            Some(licence) => findings.push(format!("{name}: licence '{licence}' is not allowed")),
            None => findings.push(format!("{name}: names no licence")),
        }
        if package.source.as_ref().is_some_and(|s| !s.is_crates_io()) {
            findings.push(format!("{name}: does not come from the crate registry"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn copyleft_alone_is_refused_and_a_choice_is_taken() {
        assert!(is_allowed("MIT OR Apache-2.0"));
        assert!(is_allowed("MIT/Apache-2.0"));
        assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only"));
        assert!(!is_allowed("LGPL-2.1-or-later"));
        assert!(!is_allowed("MIT AND GPL-3.0-only"));
    }
}
