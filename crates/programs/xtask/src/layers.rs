//! Layers: a crate depends on its own layer or those above it in the list, never below.

use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::Finding;

/// The layers from the top of the list down.
const LAYERS: [&str; 7] = ["base", "protocol", "storage", "cluster", "shells", "lab", "programs"];

/// The lab reaches a cluster only as a client and an operator do: it sees `base` and itself, no server crate.
const LAB: usize = 5;

/// Layers that do no I/O, read no clock and draw no random number.
const PURE: usize = 4;

/// Crates that a pure layer must not use (outside dev-dependencies and optional ones of a test feature).
const IMPURE: [&str; 9] =
    ["tokio", "rand", "redb", "rustix", "libc", "socket2", "crossbeam-channel", "io-uring", "tempfile"];

/// Pairs in one layer that must not see each other: (who, whom).
const FORBIDDEN_EDGES: [(&str, &str); 12] = [
    ("store", "pg"),
    ("mon", "osd"),
    ("osd", "mon"),
    ("mon", "pg"),
    ("pg", "osd"),
    ("monclient", "mon"),
    ("ops", "pg"),
    ("messenger", "mon"),
    ("messenger", "osd"),
    ("messenger", "pg"),
    ("objecter", "mon"),
    ("objecter", "osd"),
];

/// The layer of a workspace crate, by its directory `crates/LAYER/NAME`.
fn layer(package: &Package) -> Option<usize> {
    let name = package.manifest_path.parent()?.parent()?.file_name()?;
    LAYERS.iter().position(|l| *l == name)
}

/// What clippy refuses in the pure layers. It takes the first `clippy.toml` that it finds from a crate's directory
/// upwards, so each of these layers has a link to this one.
const PURE_LINTS: &str = "lint/pure/clippy.toml";

/// Layers whose crates clippy does not hold against [`PURE_LINTS`].
fn without_pure_lints(root: &Path) -> Vec<Finding> {
    let lints = fs::read(root.join(PURE_LINTS)).unwrap_or_default();
    let is_bare = |layer: &&&str| {
        lints.is_empty()
            || fs::read(root.join("crates").join(layer).join("clippy.toml")).ok().as_ref() != Some(&lints)
    };
    let bare = LAYERS[..PURE].iter().filter(is_bare);
    bare.map(|layer| format!("crates/{layer}/clippy.toml must be a link to {PURE_LINTS}")).collect()
}

/// Crates whose tests are several programs, for a reason.
const SEVERAL_TEST_PROGRAMS: [&str; 1] = [
    // One counts the threads of its process.
    "device",
];

/// Crates with more than one program of tests: each is linked, and seen by clippy, for itself.
fn test_programs(packages: &[&Package]) -> Vec<Finding> {
    let programs = |p: &Package| p.targets.iter().filter(|target| target.is_test()).count();
    let several =
        packages.iter().filter(|p| programs(p) > 1 && !SEVERAL_TEST_PROGRAMS.contains(&p.name.as_str()));
    several
        .map(|p| {
            format!(
                "{}: its tests are {} programs; make them modules of tests/it/main.rs",
                p.name,
                programs(p)
            )
        })
        .collect()
}

/// Checks every dependency edge of the workspace, and how its crates are linted and tested.
pub(crate) fn check(metadata: &Metadata) -> Vec<Finding> {
    let packages = metadata.workspace_packages();
    let mut findings = without_pure_lints(metadata.workspace_root.as_std_path());
    findings.extend(test_programs(&packages));
    for package in &packages {
        let Some(own) = layer(package) else {
            findings.push(format!(
                "{}: must be in crates/LAYER/, where LAYER is one of {LAYERS:?}",
                package.name
            ));
            continue;
        };
        for dep in &package.dependencies {
            if dep.kind == DependencyKind::Development {
                continue;
            }
            let (who, whom) = (package.name.as_str(), dep.name.as_str());
            if own < PURE && !dep.optional && IMPURE.contains(&whom) {
                findings
                    .push(format!("{who} is in the pure layer '{}' and must not use {whom}", LAYERS[own]));
            }
            if FORBIDDEN_EDGES.contains(&(who, whom)) {
                findings.push(format!("{who} must not depend on {whom}"));
            }
            let other = packages.iter().find(|p| p.name.as_str() == whom).and_then(|p| layer(p));
            if own == LAB && other.is_some_and(|other| other != LAB && other != 0) {
                findings.push(format!(
                    "lab crate {who} must not depend on {whom}: only base and lab crates are allowed"
                ));
            }
            if other.is_some_and(|other| other > own) {
                findings.push(format!(
                    "{who} (layer {}) must not depend on {whom}: its layer is lower",
                    LAYERS[own]
                ));
            }
        }
    }
    findings
}
