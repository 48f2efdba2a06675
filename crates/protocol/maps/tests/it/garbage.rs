//! Bytes that no honest peer sends: an error or a value, never a panic.

use encoding::{Decode, Encode};
use maps::{Incremental, MgrMap, MonMap, NewCluster, OsdInfo, OsdMap, OsdXInfo, PgPool, StandbyInfo};
use proptest::prelude::*;
use types::{EntityAddr, Epoch, Fsid, OsdId, PgId, PoolId, Release, UTime};

fn map() -> OsdMap {
    let cluster = NewCluster {
        fsid: Fsid([7; 16]),
        created: UTime { sec: 1, nsec: 2 },
        release: Release::REEF,
        failure_domain: "osd".into(),
    };
    let mut map = cluster.map().unwrap();
    for osd in 0..3 {
        map.crush.add_osd(osd, 0x1_0000, "host", Some("ssd")).unwrap();
    }
    map.set_max_osd(3);
    map.osds.iter_mut().for_each(|osd| osd.state = 3);
    map.weights.fill(OsdMap::WEIGHT_IN);
    map.set_primary_affinity(OsdId(1), 5).unwrap();
    map.pools.insert(PoolId(1), PgPool::replicated(2, 1, 8, 0));
    map.pool_names.insert(PoolId(1), "p".into());
    map.blocklist.insert(EntityAddr::default(), UTime::default());
    map
}

fn increment() -> Incremental {
    let mut inc = Incremental::new(Fsid([7; 16]), Epoch(2), UTime { sec: 3, nsec: 4 });
    inc.new_pools.insert(PoolId(2), PgPool::replicated(2, 1, 8, 0));
    inc.new_weight.insert(OsdId(1), 0);
    inc.new_state.insert(OsdId(2), 2);
    inc.new_pg_temp.insert(PgId { pool: PoolId(1), seed: 3 }, vec![OsdId(1)]);
    inc.new_max_osd = Some(5);
    inc.set_crush(&map().crush);
    inc
}

/// Makes the checksum right again, so that what is behind it is reached.
fn reseal(bytes: &mut [u8], tail: usize) {
    let Some(hole) = bytes.len().checked_sub(4 + tail) else { return };
    let crc = buffer::crc32c(buffer::crc32c(!0, &bytes[..hole]), &bytes[hole + 4..]);
    bytes[hole..hole + 4].copy_from_slice(&crc.to_le_bytes());
}

fn use_map(bytes: &[u8]) {
    let Ok(mut map) = OsdMap::from_bytes(bytes) else { return };
    let _ = map.encode_full();
    for pool in map.pools.keys().copied().take(3) {
        for seed in 0..3 {
            map.pg_to_up_acting(PgId { pool, seed });
        }
    }
    let _ = map.apply(&increment());
}

fn use_increment(bytes: &[u8]) {
    let Ok(inc) = Incremental::from_bytes(bytes) else { return };
    let _ = inc.to_bytes(!0);
    let _ = map().apply(&inc);
}

fn mutate(bytes: &mut [u8], changes: &[(prop::sample::Index, u8)]) {
    for (at, value) in changes {
        bytes[at.index(bytes.len())] = *value;
    }
}

proptest! {
    // A failing input is printed; nothing is kept in files.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        use_map(&bytes);
        use_increment(&bytes);
        let _ = (MonMap::from_bytes(&bytes), MgrMap::from_bytes(&bytes), PgPool::from_bytes(&bytes));
        let _ = (OsdInfo::from_bytes(&bytes), OsdXInfo::from_bytes(&bytes), StandbyInfo::from_bytes(&bytes));
    }

    #[test]
    fn mutated_maps_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)
    ) {
        let mut full = map().encode_full();
        mutate(&mut full, &changes);
        reseal(&mut full, 0);
        use_map(&full);
        let mut inc = increment().to_bytes(!0);
        mutate(&mut inc, &changes);
        reseal(&mut inc, 4);
        use_increment(&inc);
        let mut pool = PgPool::replicated(3, 2, 8, 0).to_bytes(!0);
        mutate(&mut pool, &changes);
        let _ = PgPool::from_bytes(&pool).map(|pool| pool.to_bytes(!0));
        let mut mon = MonMap::new(Fsid([1; 16]), UTime::default(), [("a".into(), EntityAddr::default().into())]).to_bytes(!0);
        mutate(&mut mon, &changes);
        let _ = MonMap::from_bytes(&mon);
        let mut mgr = MgrMap { active_name: "x".into(), modules: ["m".to_owned()].into(), ..MgrMap::default() }.to_bytes(!0);
        mutate(&mut mgr, &changes);
        let _ = MgrMap::from_bytes(&mgr);
    }

    #[test]
    fn cut_maps_never_panic(at in any::<prop::sample::Index>()) {
        let full = map().encode_full();
        use_map(&full[..at.index(full.len())]);
        let inc = increment().to_bytes(!0);
        use_increment(&inc[..at.index(inc.len())]);
    }
}

#[test]
fn a_flipped_bit_is_found_by_the_checksum() {
    let mut full = map().encode_full();
    full[40] ^= 1;
    assert!(matches!(OsdMap::from_bytes(&full), Err(encoding::DecodeError::Checksum { .. })));
    let mut inc = increment().to_bytes(!0);
    let last = inc.len() - 1;
    inc[last] ^= 1;
    assert!(matches!(Incremental::from_bytes(&inc), Err(encoding::DecodeError::Checksum { .. })));
}
