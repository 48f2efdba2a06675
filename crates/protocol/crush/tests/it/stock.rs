//! Held against the stock `crushtool`: random maps come out byte for byte and every number is placed where it says.

use crate::common::{
    Random, crushtool_features, first_seed, have, parse_mappings, path, random_map, rounds, run,
};
use crush::CrushMap;
use encoding::{Decode, Encode};

#[test]
fn random_maps_are_read_written_and_placed_on_as_crushtool_does() {
    if !have("crushtool") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, binary) = (dir.path().join("map.txt"), dir.path().join("map"));
    let again = dir.path().join("again");
    let features = crushtool_features();
    let mut compared = 0;
    for seed in first_seed()..first_seed() + rounds(60) {
        let mut r = Random::new(seed);
        let text = random_map(&mut r);
        std::fs::write(&source, &text).unwrap();
        run("crushtool", &["-c", path(&source), "-o", path(&binary), "--enable-unsafe-tunables"]);
        let bytes = std::fs::read(&binary).unwrap();
        let map = CrushMap::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        assert!(map.to_bytes(features) == bytes, "seed {seed}: re-encoding differs\n{text}");
        // Not with weight sets: crushtool drops those of older algorithms as soon as it reads them, and reads beyond a
        // child's when it has fewer positions than its parent.
        let straw2 = map.buckets.iter().flatten().all(|b| matches!(b.alg, crush::Alg::Straw2 { .. }));
        if straw2 && map.choose_args.is_empty() {
            let mut rebuilt = map.clone();
            rebuilt.rebuild_shadow_trees().unwrap();
            run("crushtool", &["-i", path(&binary), "--rebuild-class-roots", "-o", path(&again)]);
            assert!(
                rebuilt.to_bytes(features) == std::fs::read(&again).unwrap(),
                "seed {seed}: shadow trees differ\n{text}"
            );
        }
        compared += compare_mappings(seed, &mut r, &map, path(&binary), &text);
    }
    println!("{compared} mappings compared");
    assert!(compared > 1000 || rounds(60) < 10);
}

fn compare_mappings(seed: u64, r: &mut Random, map: &CrushMap, binary: &str, text: &str) -> usize {
    let mut weights: Vec<u32> =
        (0..map.max_devices).map(|osd| if map.parent_of(osd).is_some() { 0x1_0000 } else { 0 }).collect();
    let replicas = 1 + r.below(7);
    let mut args: Vec<String> =
        ["-i", binary, "--enable-unsafe-tunables", "--test", "--show-mappings"].map(String::from).into();
    args.extend(["--num-rep".into(), replicas.to_string(), "--min-x".into(), "0".into()]);
    args.extend(["--max-x".into(), "400".into()]);
    for (osd, slot) in weights.iter_mut().enumerate() {
        if r.chance(20) {
            let (text, weight) = *r.pick(&[("0", 0), ("0.5", 0x8000), ("0.25", 0x4000), ("1", 0x1_0000)]);
            args.extend(["--weight".into(), osd.to_string(), text.to_owned()]);
            *slot = weight;
        }
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mappings = parse_mappings(&run("crushtool", &args));
    for (rule, x, expected) in &mappings {
        let got = map.do_rule(*rule, *x, replicas as usize, &weights, 0);
        assert_eq!(&got, expected, "seed {seed} rule {rule} x {x} replicas {replicas} {args:?}\n{text}");
    }
    mappings.len()
}

#[test]
fn a_built_map_is_the_one_that_crushtool_builds() {
    if !have("crushtool") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("map");
    let file = path(&file);
    let features = crushtool_features();
    for seed in first_seed()..first_seed() + rounds(5) {
        let mut r = Random::new(seed);
        let mut ours = CrushMap::new_cluster("host").unwrap();
        std::fs::write(file, ours.to_bytes(features)).unwrap();
        for osd in 0..1 + r.below(12) as i32 {
            let host = format!("host{}", r.below(3));
            let weight = 1 + r.below(16) as u32;
            ours.add_osd(osd, weight * CrushMap::WEIGHT_ONE / 4, &host, None).unwrap();
            let (id, weight, name) =
                (osd.to_string(), format!("{}", f64::from(weight) / 4.0), format!("osd.{osd}"));
            let at = ["--loc", "host", &host, "--loc", "root", "default", "-o", file];
            run("crushtool", &[&["-i", file, "--add-item", &id, &weight, &name][..], &at[..]].concat());
            assert!(std::fs::read(file).unwrap() == ours.to_bytes(features), "seed {seed}: after osd.{osd}");
        }
        let Some(host) = ours.item_by_name("host0") else { continue };
        run("crushtool", &["-i", file, "--reclassify", "--set-subtree-class", "host0", "ssd", "-o", file]);
        run("crushtool", &["-i", file, "--rebuild-class-roots", "-o", file]);
        let members = ours.bucket(host).unwrap().items.clone();
        for osd in members {
            ours.set_device_class(osd, Some("ssd")).unwrap();
        }
        assert!(std::fs::read(file).unwrap() == ours.to_bytes(features), "seed {seed}: with a device class");
        ours.add_replicated_rule("fast", "default", "osd", Some("ssd")).unwrap();
        let rule =
            ["--create-replicated-rule", "fast", "default", "osd", "--device-class", "ssd", "-o", file];
        run("crushtool", &[&["-i", file][..], &rule[..]].concat());
        assert!(
            std::fs::read(file).unwrap() == ours.to_bytes(features),
            "seed {seed}: with a rule on the class"
        );
    }
}

#[test]
fn a_new_cluster_s_map_is_fit_to_read_for_crushtool() {
    if !have("crushtool") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("map");
    let mut map = CrushMap::new_cluster("osd").unwrap();
    for osd in 0..3 {
        map.add_osd(osd, CrushMap::WEIGHT_ONE, "node", Some("ssd")).unwrap();
    }
    std::fs::write(&file, map.to_bytes(!0)).unwrap();
    let text = run("crushtool", &["-d", path(&file)]);
    for line in
        ["device 2 osd.2 class ssd", "host node {", "\tid -3 class ssd", "\tstep choose firstn 0 type osd"]
    {
        assert!(text.contains(line), "no '{line}' in\n{text}");
    }
}
