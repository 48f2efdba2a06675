//! The published studies in `studies/`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use study::{
    NotRun, Place, Plan, Study, System, Target, ceph_conf_text, parse, plan_seconds, raised_limits,
    settings_of,
};

const STUDIES: [&str; 5] =
    ["2009-untar", "2012-argonaut-bobtail", "2012-controllers", "2013-sweep", "2017-bluestore"];

/// Files of our own, whatever they stand on.
const OURS: [&str; 7] =
    ["a-against-a", "first-look", "grid", "ladder-short", "modelled-short", "open-loop-short", "slowdown"];

fn read(name: &str) -> Study {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../../studies/{name}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text, name).unwrap_or_else(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

fn short(name: &str) -> Study {
    read(&format!("{name}-short"))
}

/// A guess at what isn't load, seconds: Ceph 16.2 on two cores took some 20 s to HEALTH_OK.
fn overhead(system: &System) -> f64 {
    match system.target {
        Target::Ceph { .. } => 30.0,
        _ => 5.0,
    }
}

#[test]
fn every_file_has_its_own_name_and_says_what_differs() {
    for name in STUDIES {
        for (name, study) in [(name.to_owned(), read(name)), (format!("{name}-short"), short(name))] {
            assert_eq!(study.name, name);
            assert!(study.changes.len() >= 5, "{name}");
            assert!(study.source.is_some(), "{name}");
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
    let files = std::fs::read_dir(path).unwrap().count();
    assert_eq!(files, 2 * STUDIES.len() + OURS.len(), "a file that no test here knows");
    OURS.iter().for_each(|name| assert_eq!(read(name).name, *name));
}

#[test]
fn the_short_ladder_ends_within_ten_minutes_a_system() {
    let study = read("ladder-short");
    let plan = Plan::new(&study, &NotRun::of(&study), 1);
    for (at, system) in study.systems.iter().enumerate() {
        let of_system: Vec<_> = plan.trials.iter().filter(|t| t.cell.system == at).cloned().collect();
        let seconds = plan_seconds(&study, &of_system, &overhead);
        assert!((120.0..=600.0).contains(&seconds), "{}: {seconds} s", system.name);
    }
}

#[test]
fn short_forms_are_short() {
    for name in STUDIES {
        let study = short(name);
        assert!(study.variants.len() <= 3, "{name}");
        assert!(!study.design.confirm, "{name}: confirming takes the time again");
        let plan = Plan::new(&study, &NotRun::of(&study), 1);
        for (at, system) in study.systems.iter().enumerate() {
            let of_stack: Vec<_> = plan.trials.iter().filter(|t| t.cell.system == at).cloned().collect();
            let seconds = plan_seconds(&study, &of_stack, &overhead);
            assert!(seconds <= 600.0, "{name} on {}: {seconds} s", system.name);
            let (Place::Loop { size, .. } | Place::Image { size }) = &system.place else { panic!("{name}") };
            assert!((2 << 30..=4 << 30).contains(size), "{name} on {}", system.name);
        }
        for clients in study.workloads.iter().filter_map(|w| w.clients()) {
            assert_eq!(clients.pg_num, 128, "{name}");
        }
        assert!(raised_limits(&study).is_empty(), "{name}: more PGs than a small machine likes");
    }
}

#[test]
fn the_sweep_has_exactly_the_articles_variants() {
    let study = read("2013-sweep");
    let names: BTreeSet<&str> = study.variants.iter().map(|v| v.name.as_str()).collect();
    // The charts of the article's summary, and what they are compared with.
    let charts = BTreeSet::from([
        "default",
        "big_bytes",
        "big_ops",
        "debugging_off",
        "filestore_op_threads_1",
        "filestore_op_threads_4",
        "filestore_op_threads_8",
        "filestore_xattr_use_omap_false",
        "flush_false",
        "flush_true",
        "journal_aio_true",
        "ms_nocrc_true",
        "osd_disk_threads_2",
        "osd_disk_threads_4",
        "osd_disk_threads_8",
        "osd_op_threads_1",
        "osd_op_threads_4",
        "osd_op_threads_8",
        "small_bytes",
        "small_ops",
    ]);
    assert_eq!(names, charts);
    assert_eq!(study.variants.len(), charts.len());
    assert_eq!(study.variants[0].name, "default");
    let sizes = |name: &str| study.variants.iter().find(|v| v.name == name).unwrap().settings.len();
    assert_eq!(
        ["debugging_off", "big_bytes", "small_bytes", "big_ops", "small_ops", "flush_true"].map(sizes),
        [36, 6, 6, 5, 5, 2]
    );
    assert_eq!(study.as_published[0], "objecter_infilght_op_bytes");
}

#[test]
fn the_sweep_runs_the_articles_grid() {
    let study = read("2013-sweep");
    let names: Vec<&str> = study.workloads.iter().map(|w| w.name.as_str()).collect();
    let grid =
        ["bench-4K-16", "bench-4K-256", "bench-128K-16", "bench-128K-256", "bench-4M-16", "bench-4M-256"];
    assert_eq!(names, grid);
    let kinds: Vec<&str> = study.systems.iter().map(|s| s.name.as_str()).collect();
    let systems = [
        "ceph-16.2-filestore-btrfs",
        "ceph-16.2-filestore-xfs",
        "ceph-16.2-filestore-ext4",
        "ceph-20.2-bluestore",
        "loligo",
    ];
    assert_eq!(kinds, systems);
    // 8 pools of 2048 PGs and the manager's on 8 OSDs.
    let raised = raised_limits(&study);
    assert_eq!((raised[0].name.as_str(), raised[0].value.as_str()), ("mon_max_pg_per_osd", "2049"));
}

#[test]
fn the_sweeps_values_are_the_articles() {
    let study = read("2013-sweep");
    let xfs = &study.systems[1];
    let Place::Modelled { fs: Some(fs), .. } = &xfs.place else { panic!() };
    assert_eq!((fs.mkfs.as_str(), fs.mount.as_str()), ("-f -i size=2048", "inode64,noatime"));
    let of = |name: &str| {
        let variant = study.variants.iter().find(|v| v.name == name).unwrap();
        ceph_conf_text(&settings_of(&study, xfs, variant))
    };
    assert!(of("default").contains("filestore_xattr_use_omap = true\n"));
    assert!(of("filestore_xattr_use_omap_false").contains("filestore_xattr_use_omap = false\n"));
    assert!(of("debugging_off").contains("debug_throttle = 0/0\n"));
    assert!(of("small_bytes").contains("objecter_infilght_op_bytes = 10485760\n"));
    assert!(of("default").ends_with("[osd]\nosd_journal_size = 10240\n"));
}

#[test]
fn the_comparison_of_versions_has_every_arrangement() {
    let study = read("2012-argonaut-bobtail");
    // Six arrangements, each for three file systems, BlueStore and Loligo.
    assert_eq!(study.systems.len(), 6 * 5);
    assert_eq!(study.workloads.len(), 6 + 2);
    let striped = study.systems.iter().find(|s| s.name == "raid0-6-ssd-ceph-16.2-ext4").unwrap();
    let Place::Modelled { fs: Some(fs), model, .. } = &striped.place else { panic!() };
    assert_eq!(fs.mkfs, "-b 4096 -E stride=16,stripe-width=128");
    assert_eq!((model.name.as_str(), striped.osds), ("raid0-of-6-write-back", 1));
    assert!(
        striped.settings.iter().any(|s| s.value == "81920"),
        "the file system's options add to the system's"
    );
    assert!(striped.settings.iter().any(|s| s.name == "osd_max_object_name_len"));
}
