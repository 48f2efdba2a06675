//! Objects that Ceph's own programs of several releases encoded (Ceph's object corpus), for tests of codecs; never
//! part of a daemon.
//!
//! The corpus is not part of the project: LOLIGO_CORPUS names its directory (release/type/hash). Without it every
//! function finds nothing and prints that, so that the tests pass.

use std::path::PathBuf;

use encoding::Decode;

/// A file of the corpus: its path and its bytes.
pub type File = (PathBuf, Vec<u8>);

/// The files of the type `kind` of all releases.
///
/// # Panics
/// Where the corpus has no such type.
pub fn files(kind: &str) -> Vec<File> {
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

/// The files of the type `kind`, each read whole.
///
/// # Panics
/// Where a file does not decode, or holds bytes that `T` does not know.
pub fn read<T: Decode>(kind: &str) -> Vec<(File, T)> {
    let decode = |(path, bytes): File| {
        let value = T::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        ((path, bytes), value)
    };
    files(kind).into_iter().map(decode).collect()
}
