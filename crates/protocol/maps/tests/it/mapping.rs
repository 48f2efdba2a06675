//! Placements carried from epoch to epoch are those that the whole computation gives, and few are computed again.

use crate::common::{Random, random_map, rounds, step};
use crush::CrushMap;
use maps::{
    Incremental, MapDelta, MapFlags, Mapping, OsdMap, OsdState, PgPool, Placement, PoolChange, PoolFlags,
    Stale,
};
use types::{EntityAddr, Epoch, IntervalSet, OsdId, PgId, PoolId, Release, UTime};

/// The next epoch, and what it changed.
fn next(map: &OsdMap, change: impl FnOnce(&mut Incremental)) -> (OsdMap, MapDelta) {
    try_next(map, change).unwrap()
}

fn try_next(
    map: &OsdMap,
    change: impl FnOnce(&mut Incremental),
) -> Result<(OsdMap, MapDelta), maps::ApplyError> {
    let mut inc = Incremental::new(map.fsid, map.epoch.next(), UTime { sec: 1_700_000_200, nsec: 0 });
    change(&mut inc);
    let mut new = map.clone();
    new.apply(&inc)?;
    let delta = MapDelta::between(map, &new, Some(&inc));
    Ok((new, delta))
}

/// Moves a mapping on and holds it against the whole computation.
fn check(mapping: &mut Mapping, map: &OsdMap, delta: &MapDelta, what: &str) {
    let before = mapping.clone();
    let moved = mapping.advance(map, delta);
    for (pg, placement) in mapping.iter() {
        let whole = map.pg_to_up_acting(pg);
        assert_eq!(placement.up_acting(), whole, "{what}: {pg}");
        // Also what it keeps for the epochs to come.
        assert_eq!(placement, &Placement::of(map, pg), "{what}: {pg}");
        let differs = before.get(pg).unwrap().up_acting() != whole;
        assert_eq!(moved.contains(&pg), differs, "{what}: {pg}");
    }
}

fn change_osds(r: &mut Random, map: &OsdMap, inc: &mut Incremental) {
    let max = map.max_osd();
    let osd = r.osd(max);
    match r.below(9) {
        0 => {
            inc.new_state.insert(osd, OsdState::UP);
        }
        1 => {
            inc.new_state.insert(osd, OsdState::EXISTS | OsdState::UP);
        }
        2 => {
            inc.new_weight.insert(osd, r.below(3) as u32 * 0x8000);
        }
        3 => {
            inc.new_weight.insert(osd, r.below(0x1_0001) as u32);
        }
        4 => {
            inc.new_primary_affinity.insert(osd, r.below(0x1_0001) as u32);
        }
        5 => inc.new_max_osd = Some(max + 1 + r.below(3) as i32),
        6 if max > 4 => inc.new_max_osd = Some(max - 1),
        7 => {
            inc.new_up_thru.insert(osd, map.epoch);
        }
        _ => {
            let addr = EntityAddr::v2(([127, 0, 0, 1], 7000).into(), 78);
            inc.new_up_client.insert(osd, addr.into());
            inc.new_hb_back_up.insert(osd, addr.into());
            inc.new_hb_front_up.insert(osd, addr.into());
            inc.new_weight.insert(osd, 0x1_0000);
        }
    }
}

fn change_pool(r: &mut Random, map: &OsdMap, inc: &mut Incremental) {
    let id = PoolId(1 + r.below(5) as i64);
    let Some(pool) = map.pools.get(&id) else {
        inc.new_pools.insert(id, PgPool::replicated(1 + r.below(4) as u8, 1, 1 + r.below(40) as u32, 0));
        inc.new_pool_names.insert(id, "again".into());
        return;
    };
    let mut pool = pool.clone();
    match r.below(9) {
        0 => pool.flags ^= PoolFlags::FULL,
        1 => pool.flags ^= PoolFlags::HASHPSPOOL,
        2 => pool.size = 1 + r.below(5) as u8,
        3 => (pool.pg_num, pool.pgp_num) = (pool.pg_num + 9, pool.pgp_num),
        4 => pool.pgp_num = pool.pg_num,
        5 => pool.pg_num = pool.pg_num.div_ceil(2),
        6 => pool.crush_rule = r.below(3) as u8,
        7 => (pool.flags, pool.nonprimary_shards) = (pool.flags ^ PoolFlags::EC_OPTIMIZATIONS, (2, 0)),
        _ => {
            inc.old_pools.insert(id);
            return;
        }
    }
    inc.new_pools.insert(id, pool);
}

fn change_exceptions(r: &mut Random, map: &OsdMap, inc: &mut Incremental) {
    let pgs: Vec<PgId> =
        map.pools.iter().flat_map(|(&pool, p)| (0..p.pg_num).map(move |seed| PgId { pool, seed })).collect();
    let max = map.max_osd();
    for _ in 0..1 + r.below(4) {
        let pg = pgs[r.below(pgs.len() as u64) as usize];
        let osds = (0..r.below(4)).map(|_| r.osd(max)).collect();
        match r.below(8) {
            0 => {
                inc.new_pg_temp.insert(pg, osds);
            }
            1 => {
                inc.new_primary_temp.insert(pg, OsdId(r.below(4) as i32 - 1));
            }
            2 => {
                inc.new_pg_upmap.insert(pg, osds);
            }
            3 => {
                inc.old_pg_upmap.insert(pg);
            }
            4 => {
                inc.new_pg_upmap_items.insert(pg, vec![(r.osd(max), r.osd(max))]);
            }
            5 => {
                inc.old_pg_upmap_items.insert(pg);
            }
            6 => {
                inc.new_pg_upmap_primary.insert(pg, r.osd(max));
            }
            _ => {
                inc.old_pg_upmap_primary.insert(pg);
            }
        }
    }
}

fn change_crush(r: &mut Random, map: &OsdMap, inc: &mut Incremental) {
    let mut crush = map.crush.clone();
    match r.below(3) {
        0 => {
            let (osd, host) = (map.max_osd() + r.below(3) as i32, format!("host{}", r.below(8)));
            // It may be there from before.
            let _ = crush.add_osd(osd, 0x1_0000, &host, Some("ssd"));
            inc.new_max_osd = Some(osd + 1);
            inc.new_weight.insert(OsdId(osd), 0x1_0000);
        }
        1 => crush.tunables.choose_total_tries = 1 + r.below(60) as u32,
        _ => {
            crush.rule_names.insert(77, "a name places nothing".into());
        }
    }
    inc.set_crush(&crush);
}

fn any_change(r: &mut Random, map: &OsdMap, inc: &mut Incremental) {
    let cluster = map.flags ^ [MapFlags::PAUSERD, MapFlags::FULL][r.below(2) as usize];
    match r.below(12) {
        0..4 => change_osds(r, map, inc),
        4..6 => change_pool(r, map, inc),
        6..9 => change_exceptions(r, map, inc),
        9 => change_crush(r, map, inc),
        10 => inc.new_flags = Some(cluster),
        _ => {
            let releases = [Release::PACIFIC, Release(17), Release::REEF];
            inc.new_require_osd_release = releases[r.below(3) as usize];
        }
    }
}

#[test]
fn a_mapping_carried_over_random_epochs_is_the_whole_computation() {
    let (mut untouched, mut all) = (0, 0);
    for seed in 1..=rounds(25) {
        let r = &mut Random::new(seed);
        let mut map = random_map(r);
        let mut mapping = Mapping::of_all(&map);
        for epoch in 0..30 {
            let changed = try_next(&map, |inc| {
                (0..1 + r.below(2)).for_each(|_| any_change(r, &map, inc));
            });
            // Two changes of one increment may not fit each other.
            let Ok((new, delta)) = changed else { continue };
            let stale = mapping.iter().filter(|(pg, at)| at.stale(*pg, &new, &delta) != Stale::No).count();
            all += mapping.iter().count();
            untouched += mapping.iter().count() - stale;
            check(&mut mapping, &new, &delta, &format!("seed {seed} epoch {epoch} {delta:?}"));
            new.pools.keys().for_each(|&pool| mapping.add_pool(&new, pool));
            map = new;
        }
    }
    // Most of these epochs change something everywhere, in maps of few OSDs.
    assert!(untouched > all / 4, "{untouched} of {all} were left alone");
}

#[test]
fn a_full_map_in_place_of_an_increment_places_everything_again() {
    let old = random_map(&mut Random::new(3));
    let mut mapping = Mapping::of_all(&old);
    let (mut new, _) = next(&old, |inc| {
        inc.new_weight.insert(OsdId(1), 0);
    });
    new.pg_upmap.clear();
    let delta = MapDelta::between(&old, &new, None);
    assert!(delta.osds().iter().any(|osd| osd.id == OsdId(1) && osd.weight));
    check(&mut mapping, &new, &delta, "a full map");
}

/// 100 OSDs on 20 hosts, one pool of three copies.
fn large(pg_num: u32) -> OsdMap {
    let mut map = random_map(&mut Random::new(1));
    let mut crush = CrushMap::new_cluster("host").unwrap();
    for osd in 0..100 {
        crush.add_osd(osd, 0x1_0000, &format!("host{}", osd / 5), None).unwrap();
    }
    step(&mut map, |inc| {
        inc.set_crush(&crush);
        inc.new_max_osd = Some(100);
    });
    map.osds.iter_mut().for_each(|osd| osd.state = OsdState::EXISTS | OsdState::UP);
    map.weights.fill(OsdMap::WEIGHT_IN);
    map.primary_affinity = None;
    map.pg_temp.clear();
    map.primary_temp.clear();
    map.pg_upmap.clear();
    map.pg_upmap_items.clear();
    map.pg_upmap_primaries.clear();
    map.pools = [(PoolId(1), PgPool::replicated(3, 2, pg_num, 0))].into();
    map
}

/// How many placements a delta makes stale: sets, walks.
fn stale(mapping: &Mapping, map: &OsdMap, delta: &MapDelta) -> (usize, usize) {
    let count = |kind| mapping.iter().filter(|(pg, at)| at.stale(*pg, map, delta) == kind).count();
    (count(Stale::Sets), count(Stale::Walk))
}

#[test]
fn an_epoch_computes_only_the_pgs_that_it_can_move() {
    const PGS: u32 = 4096;
    let (osd, pg) = (OsdId(42), PgId { pool: PoolId(1), seed: 7 });
    let map = large(PGS);
    let mut mapping = Mapping::of_all(&map);
    let holders = mapping.iter().filter(|(_, at)| at.up().contains(&osd)).count();
    assert!((80..170).contains(&holders), "{holders}");
    let mut go = |map: &OsdMap, what: &str, change: &dyn Fn(&mut Incremental)| {
        let (new, delta) = next(map, change);
        let stale = stale(&mapping, &new, &delta);
        check(&mut mapping, &new, &delta, what);
        (new, delta, stale)
    };
    let flip: &dyn Fn(&mut Incremental) = &|inc| {
        inc.new_state.insert(osd, OsdState::UP);
    };
    let (map, delta, found) = go(&map, "an OSD goes down", flip);
    assert_eq!(found, (holders, 0));
    assert!(delta.osds().iter().map(|osd| osd.id).eq([osd]) && delta.pool(PoolId(1)).is_none());
    let (map, _, found) = go(&map, "it comes back", flip);
    assert_eq!(found, (holders, 0));

    let (map, delta, found) = go(&map, "a pool's flags change", &|inc| {
        let pool =
            PgPool { flags: PoolFlags::HASHPSPOOL | PoolFlags::NODELETE, ..map.pools[&PoolId(1)].clone() };
        inc.new_pools.insert(PoolId(1), pool);
    });
    assert_eq!((found, delta.pool(PoolId(1))), ((0, 0), Some(PoolChange::Facts)));
    let snap = IntervalSet::range(3, 1);
    let (map, delta, found) = go(&map, "the removal of a snapshot begins", &|inc| {
        inc.new_pools.insert(PoolId(1), PgPool { snap_epoch: Epoch(9), ..map.pools[&PoolId(1)].clone() });
        inc.new_removed_snaps.insert(PoolId(1), snap.clone());
    });
    assert_eq!((found, delta.pool(PoolId(1))), ((0, 0), Some(PoolChange::Facts)));
    let (map, delta, found) = go(&map, "it ends, and the pool's entry stays as it is", &|inc| {
        inc.new_purged_snaps.insert(PoolId(1), snap.clone());
    });
    assert_eq!((found, delta.pool(PoolId(1))), ((0, 0), Some(PoolChange::Facts)));
    let (map, delta, found) = go(&map, "a client is blocked, an OSD is alive", &|inc| {
        let addr = EntityAddr::v2(([10, 0, 0, 1], 1).into(), 1);
        inc.new_blocklist.insert(addr, UTime::default());
        inc.new_up_thru.insert(osd, Epoch(5));
    });
    assert!(delta.changes_blocklist() && delta.osds()[0].life && !delta.osds()[0].state);
    assert_eq!(found, (0, 0));
    let (map, _, found) = go(&map, "a PG gets an exception", &|inc| {
        inc.new_pg_temp.insert(pg, vec![OsdId(1), osd]);
    });
    assert_eq!(found, (1, 0));

    // The PGs that have it, and those that the 64-bit filter can't tell from them.
    let (map, _, found) = go(&map, "an OSD goes out", &|inc| {
        inc.new_weight.insert(osd, 0);
    });
    assert!((holders..holders * 4).contains(&found.1), "{found:?} of {holders}");
    let (map, _, found) = go(&map, "it comes back in", &|inc| {
        inc.new_weight.insert(osd, 0x1_0000);
    });
    assert!((holders..holders * 4).contains(&found.1), "{found:?} of {holders}");
    let (map, _, found) = go(&map, "a CRUSH map with another name", &|inc| {
        let mut crush = map.crush.clone();
        crush.rule_names.insert(0, "renamed".into());
        inc.set_crush(&crush);
    });
    assert_eq!(found, (0, 0));
    let (_, _, found) = go(&map, "another CRUSH map", &|inc| {
        let mut crush = map.crush.clone();
        crush.add_osd(100, 0x1_0000, "host0", None).unwrap();
        inc.set_crush(&crush);
    });
    assert_eq!(found, (0, PGS as usize));
}

#[test]
fn a_placement_is_small() {
    assert!(size_of::<Placement>() <= 48);
}
