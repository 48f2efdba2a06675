//! Bytes that no honest peer sends: an error or a map, never a panic, and a map places or fails to in bounded time.

use crush::{BuildError, CrushMap};
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

/// A shadow bucket's number beyond all buckets once made the table of buckets grow up to it: 2^32 entries.
#[test]
fn a_forged_shadow_bucket_does_not_grow_the_map() {
    let mut map = CrushMap::from_bytes(&seed_map()).unwrap();
    let before = map.buckets.len();
    for by_class in map.class_buckets.values_mut() {
        for shadow in by_class.values_mut() {
            *shadow = i32::MIN;
        }
    }
    map.add_osd(9, 1, "host1", Some("ssd")).unwrap();
    assert!(map.buckets.len() <= 4 * before, "{} buckets of {before}", map.buckets.len());
    assert_eq!(CrushMap::from_bytes(&map.to_bytes(!0)).as_ref(), Ok(&map));
}

/// Twice itself on each level: without a bound, 2 to the power of the number of buckets.
#[test]
fn a_bucket_below_itself_has_no_shadow_tree() {
    let mut map = CrushMap::from_bytes(&seed_map()).unwrap();
    let host = map.item_by_name("host0").unwrap();
    let bucket = map.buckets[(-1 - host) as usize].as_mut().unwrap();
    bucket.items = vec![host, host];
    assert_eq!(map.rebuild_shadow_trees(), Err(BuildError::HoldsItself(host)));
}

/// Empty buckets cost draws too, or billions of tries would be tried.
#[test]
fn an_empty_root_with_billions_of_tries_ends() {
    let mut map = CrushMap::new_cluster("host").unwrap();
    map.tunables.choose_total_tries = u32::MAX - 1;
    assert_eq!(map.do_rule(0, 1, 3, &[0x1_0000], 0), []);
    map.add_erasure_rule("ec", "default", "host", None, 4).unwrap();
    map.rules[1].as_mut().unwrap().steps[1].arg1 = i32::MAX;
    assert_eq!(map.do_rule(1, 1, 3, &[0x1_0000], 0), [crush::ITEM_NONE; 3]);
}

/// A flat bucket of 10,000 with one OSD in 200 in, and an erasure-coded rule with crushtool's usual 100 tries: nearly all
/// of them are needed. The expected places are those of crushtool 16.2.
#[test]
fn a_wide_rule_over_a_large_flat_bucket_gets_all_its_tries() {
    const NONE: i32 = crush::ITEM_NONE;
    let items: Vec<i32> = (0..10_000).collect();
    let mut map = CrushMap::new_cluster("osd").unwrap();
    map.max_devices = 10_000;
    let alg = crush::Alg::Straw2 { weights: vec![0x1_0000; items.len()] };
    map.buckets[0] = Some(crush::Bucket { id: -1, kind: 1, hash: 0, weight: 10_000 << 16, items, alg });
    let step = |op, arg1, arg2| crush::RuleStep { op, arg1, arg2 };
    let steps = vec![
        step(crush::op::SET_CHOOSE_TRIES, 100, 0),
        step(crush::op::TAKE, -1, 0),
        step(crush::op::CHOOSE_INDEP, 0, 0),
        step(crush::op::EMIT, 0, 0),
    ];
    map.rules[0].as_mut().unwrap().steps = steps;
    let weights: Vec<u32> = (0..10_000).map(|osd| if osd % 200 == 0 { 0x1_0000 } else { 0 }).collect();
    let expected = [
        [800, NONE, 5800, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 3400, 5200, NONE, 3200],
        [NONE, 8600, NONE, 9800, 1200, NONE, 3600, NONE, NONE, 400, 8400, NONE, NONE, 8000],
    ];
    for (x, expected) in (0..).zip(expected) {
        assert_eq!(map.do_rule(0, x, 14, &weights, 0), expected, "x {x}");
    }
}
