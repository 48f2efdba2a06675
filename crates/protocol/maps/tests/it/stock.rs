//! Held against the stock `osdmaptool`: it reads our maps, and places every PG where we do.

use std::path::Path;
use std::process::Command;

use crate::common::{Random, random_map, rounds};

use crush::CrushMap;
use encoding::Decode;
use maps::{Incremental, OsdMap, OsdState};
use types::{Epoch, Fsid, OsdId, PgId, Release, UTime};

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
