//! Repository rules as code: `cargo run -p xtask -- tidy` checks layers, licences, structures and texts.
//!
//! Never builds or runs anything of the project.

mod doc_paths;
mod layers;
mod licences;
mod structures;
mod texts;

use std::process::ExitCode;

use cargo_metadata::{Metadata, MetadataCommand};

/// One broken rule, as a sentence.
pub(crate) type Finding = String;

fn tidy(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = layers::check(metadata);
    findings.extend(licences::check(metadata));
    let sources = texts::sources(metadata.workspace_root.as_std_path());
    findings.extend(texts::check(&sources));
    findings.extend(structures::check(&sources));
    findings.extend(doc_paths::check(metadata.workspace_root.as_std_path(), &sources));
    findings
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => {}
        _ => {
            eprintln!("usage: xtask tidy\n  tidy: check layers, licences, structures and texts");
            return ExitCode::from(2);
        }
    }
    let metadata = match MetadataCommand::new().exec() {
        Ok(metadata) => metadata,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let findings = tidy(&metadata);
    findings.iter().for_each(|f| eprintln!("tidy: {f}"));
    match findings.len() {
        0 => {
            println!("tidy: layers, licences, structures and texts are in order");
            ExitCode::SUCCESS
        }
        n => {
            eprintln!("tidy: {n} findings");
            ExitCode::FAILURE
        }
    }
}
