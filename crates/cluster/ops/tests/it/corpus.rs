//! Objects that Ceph's own programs encoded are read whole and written again byte for byte (the crate `corpus`
//! says where they come from).

use encoding::{Decode, Encode};
use ops::{CleanRegions, ObjectInfo, SnapSet};

/// A writer that declares every feature.
const ALL_FEATURES: u64 = u64::MAX;

/// Files whose version byte is `version` come back as they were; newer ones are read.
fn round_trip<T: Encode + Decode + std::fmt::Debug>(kind: &str, version: u8) {
    for (path, bytes) in corpus::files(kind) {
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
