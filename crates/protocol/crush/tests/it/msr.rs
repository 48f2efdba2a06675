//! Multi-step retry rules place as the crushtool of Ceph 20.2 does: recordings in tests/msr, made by its record.py.
//! LOLIGO_MSR names a directory of further ones.

use std::path::{Path, PathBuf};

use crate::common::parse_mappings;
use crush::CrushMap;
use encoding::{Decode, Encode};

/// Checks every mapping of a recording; how many there were, and how many had a hole.
fn check(map: &Path) -> (usize, usize) {
    let bytes = std::fs::read(map).unwrap();
    let (text, name) = (std::fs::read_to_string(map.with_extension("txt")).unwrap(), map.display());
    let map = CrushMap::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(map.to_bytes(!0) == bytes, "{name}: re-encoding differs");
    let (mut compared, mut with_holes) = (0, 0);
    for run in text.split("# ").skip(1) {
        let (options, mappings) = run.split_once('\n').unwrap();
        let options: Vec<&str> = options.split(' ').collect();
        let replicas: usize = options[1].parse().unwrap();
        let mut weights = vec![0x1_0000; map.max_devices as usize];
        for option in options.windows(3).filter(|o| o[0] == "--weight") {
            let weight: f64 = option[2].parse().unwrap();
            weights[option[1].parse::<usize>().unwrap()] = (weight * 65536.0) as u32;
        }
        for (rule, x, expected) in parse_mappings(mappings) {
            let got = map.do_rule(rule, x, replicas, &weights, 0);
            assert_eq!(got, expected, "{name}: rule {rule} x {x}, {options:?}");
            with_holes += usize::from(expected.contains(&crush::ITEM_NONE) || expected.len() < replicas);
            compared += 1;
        }
    }
    (compared, with_holes)
}

fn recordings(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|e| e == "map")).collect()
}

#[test]
fn multi_step_retry_rules_place_as_crushtool_does() {
    let mut maps = recordings(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/msr"));
    if let Some(dir) = std::env::var_os("LOLIGO_MSR") {
        maps.extend(recordings(Path::new(&dir)));
    }
    let counts: Vec<_> = maps.iter().map(|map| check(map)).collect();
    let compared: usize = counts.iter().map(|c| c.0).sum();
    let with_holes: usize = counts.iter().map(|c| c.1).sum();
    println!("{} maps, {compared} mappings compared, {with_holes} of them not full", maps.len());
    assert!(compared > 1500 && with_holes > 100 && with_holes < compared);
}
