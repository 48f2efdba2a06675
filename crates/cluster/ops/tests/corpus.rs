//! Objects that Ceph's own programs encoded are read whole and written again byte for byte. The corpus is not part
//! of the project: LOLIGO_CORPUS names its directory (release/type/hash); without it these tests say so and pass.

use std::path::PathBuf;

use encoding::{Decode, Encode};
use ops::{CleanRegions, ObjectInfo, SnapSet};

/// A writer that declares every feature.
const ALL_FEATURES: u64 = u64::MAX;

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

/// Files whose version byte is `version` come back as they were; newer ones are read.
fn round_trip<T: Encode + Decode + std::fmt::Debug>(kind: &str, version: u8) {
    for (path, bytes) in corpus_files(kind) {
        if bytes[0] > version {
            T::from_bytes(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            continue;
        }
        let value = T::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        assert_eq!(value.to_bytes(ALL_FEATURES), bytes, "{path:?}: {value:?}");
    }
}

#[test]
fn object_infos_come_back() {
    round_trip::<ObjectInfo>("object_info_t", 17);
}

#[test]
fn snapsets_come_back() {
    round_trip::<SnapSet>("SnapSet", 3);
}

#[test]
fn clean_regions_come_back() {
    round_trip::<CleanRegions>("ObjectCleanRegions", 1);
}
