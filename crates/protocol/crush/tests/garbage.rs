//! Bytes that no honest peer sends: an error or a map, never a panic, and a map places or fails to in bounded time.

#![allow(clippy::unwrap_used, clippy::expect_used)] // test code

use crush::CrushMap;
use encoding::{Decode, Encode};
use proptest::prelude::*;

fn seed_map() -> Vec<u8> {
    let mut map = CrushMap::new_cluster("host").unwrap();
    for osd in 0..6 {
        map.add_osd(osd, CrushMap::WEIGHT_ONE, &format!("host{}", osd % 3), Some("ssd")).unwrap();
    }
    map.add_erasure_rule("ec", "default", "host", Some("ssd"), 4).unwrap();
    map.to_bytes(!0)
}

fn place(bytes: &[u8]) {
    let Ok(map) = CrushMap::from_bytes(bytes) else { return };
    // A map that can be read can be written and read again.
    assert_eq!(CrushMap::from_bytes(&map.to_bytes(!0)).as_ref(), Ok(&map));
    for rule in 0..map.rules.len().min(4) as u32 {
        let found = map.do_rule(rule, 7, 5, &[0x1_0000; 8], 1);
        assert!(found.len() <= 5);
    }
    let mut changed = map;
    let _ = changed.add_osd(9, 1, "host1", Some("hdd"));
}

proptest! {
    // A failing input is printed; nothing is kept in files. Few cases: one may spend its whole budget of draws.
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        place(&bytes);
        place(&[&[0, 0, 1, 0][..], &bytes].concat());
    }

    #[test]
    fn a_mutated_map_never_panics(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = seed_map();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        place(&bytes);
    }

    #[test]
    fn a_cut_map_never_panics(at in any::<prop::sample::Index>()) {
        let bytes = seed_map();
        place(&bytes[..at.index(bytes.len())]);
    }
}

#[test]
fn a_bucket_that_holds_itself_ends() {
    let mut map = CrushMap::new_cluster("host").unwrap();
    map.add_osd(0, 1, "host0", None).unwrap();
    let root = map.buckets[0].as_mut().unwrap();
    root.items = vec![root.id];
    assert_eq!(map.do_rule(0, 1, 3, &[0x1_0000], 0), []);
}
