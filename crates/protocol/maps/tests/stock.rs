//! Held against the stock `osdmaptool`: it reads our maps, and places every PG where we do.

#![allow(clippy::unwrap_used, clippy::expect_used)] // test code

use std::path::Path;
use std::process::Command;

use crush::CrushMap;
use encoding::Decode;
use maps::{Incremental, NewCluster, OsdMap, OsdState, OsdXInfo, PgPool, PoolFlags, publish};
use types::{EntityAddr, Epoch, Fsid, OsdId, PgId, PoolId, Release, SplitMix64, UTime};

fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--help").output().is_ok();
    if !found {
        println!("skipped: no {program} here");
    }
    found
}

fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{program} {args:?}\n{text}\n{}", String::from_utf8_lossy(&out.stderr));
    text
}

fn path(p: &Path) -> &str {
    p.to_str().unwrap()
}

/// What a random map is drawn from.
struct Random(SplitMix64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    fn osd(&mut self, max: i32) -> OsdId {
        OsdId(self.below(max as u64) as i32)
    }
}

/// OSDs and their primary, as osdmaptool prints them.
type Set = (Vec<i32>, i32);

/// `PG raw ([..], pN) up ([..], pN) acting ([..], pN)`: the PG, and the lists in parentheses.
fn parse_dump(text: &str) -> Vec<(PgId, Vec<Set>)> {
    let parse = |line: &str| {
        let (pg, rest) = line.split_once(" raw ")?;
        let sets = rest.split('(').skip(1).map(|set| {
            let (osds, primary) = set.split_once("], p").unwrap();
            let osds = osds.trim_start_matches('[').split(',').filter(|s| !s.is_empty());
            let primary = primary.split(')').next().unwrap().parse().unwrap();
            (osds.map(|s| s.parse().unwrap()).collect(), primary)
        });
        Some((pg.parse().ok()?, sets.collect()))
    };
    text.lines().filter_map(parse).collect()
}

/// A cluster after a few epochs of everything that can happen to placement.
fn random_map(r: &mut Random) -> OsdMap {
    let fsid = Fsid::from_random([r.below(256) as u8; 16]);
    let release = if r.chance(50) { Release::PACIFIC } else { Release::REEF };
    let cluster = NewCluster {
        fsid,
        created: UTime { sec: 1_700_000_000, nsec: 5 },
        release: Release::PACIFIC.min(release),
        failure_domain: "host".into(),
    };
    let mut map = publish(&OsdMap::default(), cluster.first_increment().unwrap()).unwrap().map;
    let max = 3 + r.below(20) as i32;
    let mut crush = map.crush.clone();
    for osd in 0..max {
        let host = format!("host{}", r.below(6));
        crush
            .add_osd(osd, 1 + r.below(0x4_0000) as u32, &host, Some(["ssd", "hdd"][r.below(2) as usize]))
            .unwrap();
    }
    crush.add_erasure_rule("ec", "default", "osd", None, 5).unwrap();
    step(&mut map, |inc| {
        inc.set_crush(&crush);
        inc.new_max_osd = Some(max);
        for osd in (0..max).map(OsdId) {
            let addr = EntityAddr::v2(([127, 0, 0, 1], 6800 + osd.0 as u16).into(), 77);
            inc.new_up_client.insert(osd, addr.into());
            inc.new_up_cluster.insert(osd, addr.into());
            inc.new_hb_back_up.insert(osd, addr.into());
            inc.new_hb_front_up.insert(osd, addr.into());
            inc.new_weight.insert(osd, if r.chance(80) { 0x1_0000 } else { r.below(0x1_0000) as u32 });
            inc.new_xinfo.insert(osd, OsdXInfo { features: 0x3f01_cfbd_fffd_ffff, ..OsdXInfo::default() });
        }
        for id in 1..5 {
            let mut pool = PgPool::replicated(1 + r.below(5) as u8, 1, 1 + r.below(90) as u32, 0);
            if r.chance(40) {
                (pool.kind, pool.crush_rule) = (PgPool::ERASURE, 1);
            }
            if r.chance(20) {
                pool.flags &= !PoolFlags::HASHPSPOOL;
            }
            if r.chance(30) {
                pool.pgp_num = 1 + r.below(pool.pg_num.into()) as u32;
            }
            inc.new_pool_names.insert(PoolId(id), format!("pool{id}"));
            inc.new_pools.insert(PoolId(id), pool);
        }
        inc.new_pool_max = Some(4);
    });
    let pgs: Vec<PgId> =
        map.pools.iter().flat_map(|(&pool, p)| (0..p.pg_num).map(move |seed| PgId { pool, seed })).collect();
    step(&mut map, |inc| exceptions(r, inc, max, &pgs));
    map
}

fn exceptions(r: &mut Random, inc: &mut Incremental, max: i32, pgs: &[PgId]) {
    for osd in (0..max).map(OsdId) {
        match r.below(10) {
            0 => drop(inc.new_state.insert(osd, OsdState::UP)),
            1 => drop(inc.new_state.insert(osd, OsdState::UP | OsdState::EXISTS)),
            2 => drop(inc.new_weight.insert(osd, 0)),
            _ => {}
        }
        if r.chance(20) {
            inc.new_primary_affinity.insert(osd, r.below(0x1_0001) as u32);
        }
    }
    for &pg in pgs {
        if r.chance(5) {
            let osds = (0..1 + r.below(4)).map(|_| r.osd(max)).collect();
            inc.new_pg_temp.insert(pg, osds);
        }
        if r.chance(5) {
            inc.new_primary_temp.insert(pg, r.osd(max));
        }
        if r.chance(5) {
            inc.new_pg_upmap.insert(pg, (0..1 + r.below(4)).map(|_| r.osd(max)).collect());
        }
        if r.chance(15) {
            inc.new_pg_upmap_items
                .insert(pg, (0..1 + r.below(3)).map(|_| (r.osd(max), r.osd(max))).collect());
        }
    }
    let addr = |port| EntityAddr::v2(([10, 0, (port % 7) as u8, 1], port).into(), u32::from(port) * 1000);
    inc.new_blocklist = (1..6).map(|port| (addr(port), UTime { sec: 2_000_000_000, nsec: 0 })).collect();
}

/// One epoch on; what is published must decode to what was made.
fn step(map: &mut OsdMap, change: impl FnOnce(&mut Incremental)) {
    let mut inc = Incremental::new(map.fsid, map.epoch.next(), UTime { sec: 1_700_000_100, nsec: 0 });
    change(&mut inc);
    let published = publish(map, inc).unwrap();
    assert_eq!(OsdMap::from_bytes_exact(&published.full).as_ref(), Ok(&published.map));
    let mut follower = map.clone();
    follower.apply(&Incremental::from_bytes_exact(&published.incremental).unwrap()).unwrap();
    assert_eq!(follower.encode_full(), published.full);
    *map = published.map;
}

fn rounds(default: u64) -> u64 {
    std::env::var("LOLIGO_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn primary(osd: Option<OsdId>) -> i32 {
    osd.map_or(-1, |osd| osd.0)
}

fn numbers(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

/// Compares every PG that osdmaptool prints; how many.
fn compare(map: &OsdMap, dump: &str, what: &str) -> usize {
    let dump = parse_dump(dump);
    for (pg, sets) in &dump {
        let got = map.pg_to_up_acting(*pg);
        let expected = (&sets[1], &sets[2]);
        let up = (numbers(&got.up), primary(got.up_primary));
        let acting = (numbers(&got.acting), primary(got.acting_primary));
        assert_eq!((&up, &acting), expected, "{what}: {pg}");
    }
    assert_eq!(dump.len(), map.pools.values().map(|p| p.pg_num as usize).sum::<usize>(), "{what}");
    dump.len()
}

#[test]
fn osdmaptool_reads_our_maps_and_places_every_pg_as_we_do() {
    if !have("osdmaptool") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (file, crush) = (dir.path().join("map"), dir.path().join("crush"));
    let mut compared = 0;
    for seed in 1..=rounds(25) {
        let map = random_map(&mut Random::new(seed));
        std::fs::write(&file, map.encode_full()).unwrap();
        let printed = run("osdmaptool", &[path(&file), "--print"]);
        assert!(printed.contains(&format!("fsid {}", map.fsid)), "seed {seed}\n{printed}");
        assert!(printed.contains(&format!("epoch {}", map.epoch)), "seed {seed}\n{printed}");
        compared += compare(
            &map,
            &run("osdmaptool", &[path(&file), "--test-map-pgs-dump-all"]),
            &format!("seed {seed}"),
        );
        run("osdmaptool", &[path(&file), "--export-crush", path(&crush)]);
        run("crushtool", &["-d", path(&crush)]);
        assert_eq!(
            CrushMap::from_bytes(&std::fs::read(&crush).unwrap()).as_ref(),
            Ok(&map.crush),
            "seed {seed}"
        );
    }
    println!("{compared} placement groups compared");
}

#[test]
fn osdmaptool_s_own_maps_come_out_as_they_went_in() {
    if !have("osdmaptool") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("map");
    for osds in [1, 2, 3, 7, 16, 60] {
        let args =
            ["--createsimple", &osds.to_string(), "--with-default-pool", "--pg-bits", "4", "--clobber"];
        run("osdmaptool", &[&args[..], &[path(&file)]].concat());
        let bytes = std::fs::read(&file).unwrap();
        let mut map = OsdMap::from_bytes_exact(&bytes).unwrap();
        assert!(map.encode_for(Release::PACIFIC, Release::PACIFIC.map_features()) == bytes, "{osds} OSDs");
        map.osds.iter_mut().for_each(|osd| osd.state |= OsdState::EXISTS | OsdState::UP);
        map.weights.fill(OsdMap::WEIGHT_IN);
        let dump = run("osdmaptool", &[path(&file), "--mark-up-in", "--test-map-pgs-dump-all"]);
        compare(&map, &dump, &format!("{osds} OSDs"));
    }
}

#[test]
fn osdmaptool_finds_our_objects() {
    if !have("osdmaptool") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("map");
    let map = random_map(&mut Random::new(4));
    std::fs::write(&file, map.encode_full()).unwrap();
    for name in ["a", "rbd_data.10226b8b4567.0000000000000001", "benchmark_data_host_1_object17"] {
        for &pool in map.pools.keys() {
            let args = [path(&file), "--test-map-object", name, "--pool", &pool.to_string()];
            let locator =
                types::ObjectLocator { pool, key: types::Name::new(), nspace: types::Name::new(), hash: -1 };
            let pg = map.raw_pg_to_pg(map.object_to_pg(&locator, name.as_bytes()).unwrap()).unwrap();
            let said = run("osdmaptool", &args);
            assert!(said.contains(&format!("'{name}' -> {pg} ->")), "{pg} in {said}");
        }
    }
}

#[test]
fn an_increment_that_does_not_follow_is_refused() {
    let mut map = random_map(&mut Random::new(1));
    let inc = Incremental::new(map.fsid, Epoch(map.epoch.0 + 2), UTime::default());
    assert!(matches!(map.apply(&inc), Err(maps::ApplyError::NotNext { .. })));
    let inc = Incremental::new(Fsid([9; 16]), map.epoch.next(), UTime::default());
    assert!(matches!(map.apply(&inc), Err(maps::ApplyError::OtherCluster { .. })));
    let mut inc = Incremental::new(map.fsid, map.epoch.next(), UTime::default());
    inc.new_weight.insert(OsdId(999), 1);
    assert!(matches!(map.apply(&inc), Err(maps::ApplyError::BadOsd(_))));
}
