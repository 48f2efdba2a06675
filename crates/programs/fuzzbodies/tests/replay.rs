//! The committed corpus, and simple damage to each of its files, through every fuzz target's body.

use std::path::Path;

use fuzzbodies::TARGETS;

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut out: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("a directory entry").path();
            (path.display().to_string(), std::fs::read(&path).expect("a corpus file"))
        })
        .collect();
    out.sort();
    out
}

#[test]
fn every_target_has_a_corpus_and_survives_it() {
    for (target, body) in TARGETS {
        let files = corpus(target);
        assert!(!files.is_empty(), "{target} has no corpus");
        for (name, bytes) in files {
            println!("{name}");
            body(&bytes);
        }
    }
}

#[test]
fn cut_and_damaged_corpus_files_are_survived() {
    for (target, body) in TARGETS {
        let start = std::time::Instant::now();
        for (name, bytes) in corpus(target) {
            println!("{name}");
            // Files are sampled: this test is about what a decoder does with damage at all, the fuzzer tries the rest.
            let step = (bytes.len() / 12).max(1);
            for at in (0..bytes.len()).step_by(step) {
                body(&bytes[..at]);
                let mut bad = bytes.clone();
                bad[at] ^= if at & 1 == 0 { 0xff } else { 0x80 };
                body(&bad);
            }
        }
        println!("{target}: {:?}", start.elapsed());
    }
}

#[test]
fn every_target_is_among_cargo_fuzzs() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/fuzz_targets");
    for (target, _) in TARGETS {
        assert!(dir.join(format!("{target}.rs")).exists(), "fuzz/fuzz_targets/{target}.rs is missing");
    }
}
