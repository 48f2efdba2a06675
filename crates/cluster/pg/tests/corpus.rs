//! Records of PGs that Ceph's own programs encoded are read whole and written again byte for byte. The corpus is not
//! part of the project: LOLIGO_CORPUS names its directory (release/type/hash); without it these tests say so and pass.

use std::path::PathBuf;

use encoding::{Decode, Encode};
use pg::{LogDup, LogEntry, PgInfo};

fn corpus_files(kind: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(root) = std::env::var("LOLIGO_CORPUS") else {
        eprintln!("skipped: LOLIGO_CORPUS is not set");
        return Vec::new();
    };
    let mut files = Vec::new();
    for release in std::fs::read_dir(&root).expect("the corpus directory").flatten() {
        let Ok(objects) = std::fs::read_dir(release.path().join(kind)) else { continue };
        files.extend(objects.flatten().map(|o| (o.path(), std::fs::read(o.path()).expect("a corpus file"))));
    }
    assert!(!files.is_empty(), "no {kind} in the corpus");
    files
}

/// Files of 16.2 come back as they were when `exact`; those of every release are read.
fn round_trip<T: Encode + Decode + std::fmt::Debug>(kind: &str, exact: fn(&[u8]) -> bool) {
    for (path, bytes) in corpus_files(kind) {
        if kind == "pg_log_entry_t" && bytes[6..10] == [0; 4] {
            // A default object, which no log holds: an entry must say what it is.
            assert!(T::from_bytes(&bytes).is_err(), "{path:?}");
            continue;
        }
        if !exact(&bytes) {
            T::from_bytes(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            continue;
        }
        let value = T::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        assert_eq!(value.to_bytes(u64::MAX), bytes, "{path:?}: {value:?}");
    }
}

#[test]
fn infos_come_back() {
    round_trip::<PgInfo>("pg_info_t", |b| b[0] == 32);
}

#[test]
fn log_entries_come_back() {
    round_trip::<LogEntry>("pg_log_entry_t", |b| b[0] == 14);
}

#[test]
fn log_dups_come_back() {
    round_trip::<LogDup>("pg_log_dup_t", |b| b[0] == 2);
}
