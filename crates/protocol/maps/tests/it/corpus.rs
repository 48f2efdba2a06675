//! Ceph's object corpus: everything decodes with nothing left over and comes out again byte for byte
//! (the crate `corpus` says where it comes from).

use crush::CrushMap;
use encoding::{Decode, Encode, Encoder};
use maps::{Incremental, MgrMap, MonInfo, MonMap, OsdInfo, OsdMap, OsdXInfo, PgMergeMeta, PgPool};
use types::{EntityAddr, EntityAddrVec, FeatureBits, Release};

/// The release that a corpus directory's name begins with.
fn release(path: &std::path::Path) -> Release {
    let text = path.to_string_lossy();
    match () {
        () if text.contains("/20.") => Release::TENTACLE,
        () if text.contains("/19.") => Release::SQUID,
        () if text.contains("/18.") => Release::REEF,
        () => Release::PACIFIC,
    }
}

/// What a CRUSH map is written with by tools of a release: all the features that it knows.
fn features(path: &std::path::Path) -> u64 {
    if release(path) >= Release::SQUID { !0 } else { !FeatureBits::CRUSH_MSR }
}

fn round_trip<T: Decode>(kind: &str, encode: impl Fn(&T, &std::path::Path) -> Vec<u8>) {
    round_trip_of_length::<T>(kind, |value, path, _| encode(value, path));
}

/// The closure also gets the length of what was read, for kinds that the corpus has in two forms.
fn round_trip_of_length<T: Decode>(kind: &str, encode: impl Fn(&T, &std::path::Path, usize) -> Vec<u8>) {
    for ((path, bytes), value) in corpus::read::<T>(kind) {
        let again = encode(&value, &path, bytes.len());
        let first = again.iter().zip(&bytes).position(|(a, b)| a != b);
        let lengths = (again.len(), bytes.len());
        assert!(again == bytes, "{}: first difference at {first:?}, lengths {lengths:?}", path.display());
    }
}

#[test]
fn osdmaps_come_out_as_they_went_in() {
    // Those of daemons are canonical; those that `ceph-dencoder` made are written with all features.
    round_trip_of_length::<OsdMap>("OSDMap", |map, path, len| {
        let canonical = map.encode_for(release(path), release(path).map_features());
        if canonical.len() == len { canonical } else { map.encode_for(release(path), features(path)) }
    });
}

#[test]
fn increments_come_out_as_they_went_in() {
    round_trip::<Incremental>("OSDMap::Incremental", |inc, path| inc.encode_for(release(path)));
}

#[test]
fn pools_come_out_as_they_went_in() {
    round_trip::<PgPool>("pg_pool_t", |pool, path| {
        let mut e = Encoder::new(!0);
        pool.encode_as(&mut e, release(path));
        e.into_bytes()
    });
}

#[test]
fn crush_maps_come_out_as_they_went_in() {
    round_trip::<CrushMap>("CrushWrapper", |map, path| map.to_bytes(features(path)));
}

#[test]
fn mgrmaps_come_out_as_they_went_in() {
    for (path, bytes) in corpus::files("MgrMap") {
        let map = MgrMap::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut e = Encoder::new(!0);
        map.encode_version(&mut e, bytes[0]);
        assert!(e.into_bytes() == bytes, "{}", path.display());
    }
}

#[test]
fn small_types_come_out_as_they_went_in() {
    round_trip::<MonMap>("MonMap", |map, _| map.to_bytes(!0));
    round_trip::<MonInfo>("mon_info_t", |info, _| info.to_bytes(!0));
    round_trip::<OsdInfo>("osd_info_t", |info, _| info.to_bytes(!0));
    round_trip::<OsdXInfo>("osd_xinfo_t", |info, _| info.to_bytes(!0));
    round_trip::<PgMergeMeta>("pg_merge_meta_t", |meta, _| meta.to_bytes(!0));
    round_trip::<EntityAddr>("entity_addr_t", |addr, _| addr.to_bytes(!0));
    round_trip::<EntityAddrVec>("entity_addrvec_t", |addrs, _| addrs.to_bytes(!0));
}
