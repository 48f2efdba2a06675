//! What decides a verdict beside the name: the store, the loads, the section, other options, the release.

use std::path::PathBuf;

use optmap::{Process, Resolved, Verdict, Why, check, nothing_effective, resolve};
use study::{CephStore, LoligoStore, Place, Setting, Study, System, Target, parse};

fn system(target: Target) -> System {
    let (name, place) = ("it".to_owned(), Place::Directory);
    System {
        name,
        target,
        osds: 3,
        pool_size: 1,
        cores: None,
        listen: std::net::Ipv4Addr::LOCALHOST,
        place,
        journal: None,
        settings: Vec::new(),
        line: 1,
    }
}

fn ceph(release: &str, store: CephStore) -> System {
    system(Target::Ceph { release: release.to_owned(), store })
}

fn loligo() -> System {
    system(Target::Loligo { store: LoligoStore::Simple })
}

/// `SECTION/NAME=VALUE`, the default section is `global`.
fn setting(text: &str) -> Setting {
    let Some((address, value)) = text.split_once('=') else { panic!("{text}") };
    let (section, name) = address.split_once('/').unwrap_or(("global", address));
    Setting { section: section.into(), name: name.into(), value: value.into(), line: 7 }
}

fn resolved(system: &System, settings: &[&str]) -> Vec<Resolved> {
    let settings: Vec<Setting> = settings.iter().map(|text| setting(text)).collect();
    resolve(system, &settings)
}

/// The last of some settings.
fn last(system: &System, settings: &[&str]) -> Resolved {
    resolved(system, settings).pop().unwrap_or_else(|| panic!("no settings"))
}

fn verdict(system: &System, settings: &[&str]) -> Verdict {
    last(system, settings).verdict
}

fn acts_in(system: &System, text: &str) -> Vec<Process> {
    last(system, &[text]).acts_in
}

fn without_effect(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::AcceptedWithoutEffect { .. })
}

fn study(systems: &str, options: &str) -> Study {
    let text = format!(
        "name: s\ntitle: t\nsystems:\n{systems}\nworkloads:\n  - name: w\n    rados_bench: {{object_size: 4K, \
         in_flight: 1, seconds: 1, phases: [write]}}\n{options}\n"
    );
    parse(&text, "s.yaml").unwrap_or_else(|problems| panic!("{problems:#?}"))
}

#[test]
fn a_store_takes_its_own_options_alone() {
    let cases = [
        ("bluestore_cache_trim_interval=1", [true, false, false]),
        ("bluestore_compression_mode=force", [true, false, false]),
        ("bdev_aio_max_queue_depth=64", [true, false, false]),
        ("filestore_max_sync_interval=1", [false, true, false]),
        ("osd_journal_size=100", [false, true, false]),
        ("osd_memory_target=2G", [true, false, false]),
        ("memstore_page_size=4K", [false, false, true]),
        ("osd_op_num_shards=4", [true, true, true]),
        ("ms_crc_data=false", [true, true, true]),
    ];
    for (text, wanted) in cases {
        let stores = [CephStore::BlueStore, CephStore::FileStore, CephStore::MemStore];
        let found = stores.map(|store| verdict(&ceph("16.2", store), &[text]) == Verdict::Effective);
        assert_eq!(found, wanted, "{text}");
    }
}

#[test]
fn filestores_options_outlived_it() {
    for (release, store) in [("18.2", CephStore::BlueStore), ("20.2", CephStore::MemStore)] {
        let found = verdict(&ceph(release, store), &["filestore_max_sync_interval=1"]);
        assert!(matches!(found, Verdict::AcceptedWithoutEffect { why: Why::NobodyReads { .. } }), "{found}");
    }
}

#[test]
fn an_option_acts_where_its_section_is_read() {
    let ceph = ceph("20.2", CephStore::BlueStore);
    assert_eq!(acts_in(&ceph, "osd_op_num_shards=4"), [Process::Osd]);
    assert_eq!(acts_in(&ceph, "osd/osd_op_num_shards=4"), [Process::Osd]);
    assert_eq!(acts_in(&ceph, "osd.1/osd_op_num_shards=4"), [Process::Osd]);
    assert_eq!(acts_in(&ceph, "client/ms_crc_data=false"), [Process::Client]);
    let wrong = verdict(&ceph, &["mon/osd_op_num_shards=4"]);
    let why = Why::OtherSection { section: "mon".into(), readers: vec![Process::Osd] };
    assert_eq!(wrong, Verdict::AcceptedWithoutEffect { why });
    assert!(without_effect(&verdict(&ceph, &["osd/objecter_inflight_ops=8"])));
}

#[test]
fn a_narrower_section_wins() {
    let ceph = ceph("20.2", CephStore::BlueStore);
    let both = ["osd/osd_op_num_shards=4", "osd_op_num_shards=8"];
    assert!(matches!(verdict(&ceph, &both), Verdict::AcceptedWithoutEffect { why: Why::Overridden { .. } }));
    // It still acts in the other processes that read it.
    let some = last(&ceph, &["osd/debug_ms=1", "debug_ms=5"]);
    assert_eq!((&some.verdict, some.acts_in.contains(&Process::Osd)), (&Verdict::Effective, false));
}

#[test]
fn loligos_servers_get_one_value_of_all_sections() {
    let settings = ["osd/osd_max_write_size=10", "mon/osd_max_write_size=20", "osd_max_write_size=30"];
    let found = resolved(&loligo(), &settings);
    assert_eq!(found[0].verdict, Verdict::Effective);
    for overridden in &found[1..] {
        let why = Why::Overridden { section: "osd".into() };
        assert_eq!(overridden.verdict, Verdict::AcceptedWithoutEffect { why });
    }
}

#[test]
fn other_options_decide() {
    let (old, new) = (ceph("16.2", CephStore::BlueStore), ceph("20.2", CephStore::BlueStore));
    assert!(without_effect(&verdict(&old, &["osd_mclock_profile=custom"])));
    let mclock = ["osd_op_queue=mclock_scheduler", "osd_mclock_profile=custom"];
    assert_eq!(verdict(&old, &mclock), Verdict::Effective);
    assert_eq!(verdict(&new, &["osd_mclock_profile=custom"]), Verdict::Effective);
    assert!(without_effect(&verdict(&new, &["osd op queue=wpq", "osd_mclock_profile=custom"])));
    assert!(without_effect(&verdict(&new, &["osd_max_backfills=4"])));
    let allowed = ["osd_mclock_override_recovery_settings=1", "osd_max_backfills=4"];
    assert_eq!(verdict(&new, &allowed), Verdict::Effective);
    assert!(without_effect(&verdict(&new, &["bluestore_cache_size=1G"])));
    assert_eq!(
        verdict(&new, &["bluestore_cache_autotune=false", "bluestore_cache_size=1G"]),
        Verdict::Effective
    );
    assert!(without_effect(&verdict(&new, &["ms_async_rdma_send_buffers=64"])));
    assert_eq!(verdict(&new, &["ms_type=async+rdma", "ms_async_rdma_send_buffers=64"]), Verdict::Effective);
}

#[test]
fn the_file_system_below_decides() {
    let on = |fs: &str| {
        let place = format!("{{kind: {fs}}}");
        let systems = format!(
            "  - {{name: a, ceph: {{release: 16.2, store: filestore}}, place: {{loop: {{size: 4G, fs: {place}}}}}}}"
        );
        study(&systems, "").systems.remove(0)
    };
    let effective = |fs: &str, text: &str| verdict(&on(fs), &[text]) == Verdict::Effective;
    for (text, wanted) in [
        ("filestore_btrfs_snap=false", [true, false, false]),
        ("filestore_wbthrottle_btrfs_ios_start_flusher=1", [true, false, false]),
        ("filestore_wbthrottle_xfs_ios_start_flusher=1", [false, true, true]),
        ("filestore_xfs_extsize=true", [false, true, false]),
        ("filestore_zfs_snap=true", [false, false, false]),
    ] {
        assert_eq!(["btrfs", "xfs", "ext4"].map(|fs| effective(fs, text)), wanted, "{text}");
    }
}

#[test]
fn options_of_daemons_that_do_not_run_have_no_effect() {
    let ceph = ceph("18.2", CephStore::BlueStore);
    for text in ["rgw_thread_pool_size=9", "rbd_mirror_sync_point_update_age=3", "cephx_sign_messages=false"]
    {
        assert!(without_effect(&verdict(&ceph, &[text])), "{text}");
    }
    // For a load that the lab can have they count; in a study without it they don't.
    assert_eq!(verdict(&ceph, &["rbd_cache=false"]), Verdict::Effective);
    assert_eq!(verdict(&ceph, &["mds_cache_memory_limit=1G"]), Verdict::Effective);
    let systems = "  - {name: a, ceph: {release: 18.2, store: bluestore}}";
    let bench = study(systems, "parametric: {rbd_cache: [false], mds_cache_memory_limit: [1G]}");
    let options = &check(&bench).systems[0];
    assert!(nothing_effective(&options.variants[1]) && nothing_effective(&options.variants[2]));
}

#[test]
fn loligo_has_its_own_options_and_cephs_clients() {
    let loligo = loligo();
    assert_eq!(acts_in(&loligo, "osd_max_write_size=10"), [Process::Loligo]);
    assert_eq!(acts_in(&loligo, "ms_crc_data=false"), [Process::Loligo, Process::Client]);
    assert_eq!(acts_in(&loligo, "ms_connections_max=100"), [Process::Loligo]);
    assert_eq!(acts_in(&loligo, "objecter_inflight_ops=8"), [Process::Client]);
    for text in ["bluestore_cache_size=1G", "osd_op_num_shards=4", "mds_cache_memory_limit=1G"] {
        let nothing = Verdict::AcceptedWithoutEffect { why: Why::NothingToTune };
        assert_eq!(verdict(&loligo, &[text]), nothing, "{text}");
    }
    let single = verdict(&loligo, &["osd.0/osd_max_write_size=10"]);
    assert!(matches!(single, Verdict::AcceptedWithoutEffect { why: Why::NotPassed { .. } }), "{single}");
    assert!(matches!(
        verdict(&loligo, &["osd/objecter_inflight_ops=8"]),
        Verdict::AcceptedWithoutEffect { .. }
    ));
}

#[test]
fn spellings_of_a_name_are_one_and_stay_as_written() {
    let found = last(&ceph("16.2", CephStore::FileStore), &["Journal max-write entries=10"]);
    assert_eq!(
        (found.setting.name.as_str(), &found.verdict),
        ("Journal max-write entries", &Verdict::Effective)
    );
}

#[test]
fn a_typo_is_unknown_with_the_name_that_was_meant() {
    let nearest = |system: &System, text| match verdict(system, &[text]) {
        Verdict::Unknown { nearest } => nearest,
        other => panic!("{text}: {other}"),
    };
    let ceph = ceph("16.2", CephStore::FileStore);
    assert_eq!(nearest(&ceph, "osd_op_num_shard=1"), Some("osd_op_num_shards"));
    assert_eq!(nearest(&ceph, "debug_osdd=1"), Some("debug_osd"));
    assert_eq!(nearest(&loligo(), "ms_connection_max=1"), Some("ms_connections_max"));
    assert_eq!(nearest(&ceph, "entirely_of_my_own=1"), None);
}

#[test]
fn an_option_of_another_system_is_no_typo_unless_set_for_this_one() {
    let only_new = verdict(&ceph("16.2", CephStore::BlueStore), &["bluestore_elastic_shared_blobs=true"]);
    assert!(matches!(only_new, Verdict::AcceptedWithoutEffect { why: Why::OnlyIn { .. } }), "{only_new}");
    let old = "name: old, ceph: {release: 16.2, store: bluestore}";
    let new = "name: new, ceph: {release: 20.2, store: bluestore}";
    let everywhere = "default: {bluestore_elastic_shared_blobs: true}";
    let systems = format!("  - {{{old}}}\n  - {{{new}}}");
    assert_eq!(check(&study(&systems, everywhere)).problems, []);
    let own = "settings: {bluestore_elastic_shared_blobs: true}";
    let problems = check(&study(&format!("  - {{{old}, {own}}}"), "")).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn a_wrong_value_is_a_problem_of_the_systems_that_would_ignore_it() {
    let systems = "  - {name: old, ceph: {release: 16.2, store: filestore}, place: {loop: {size: 4G, fs: xfs}}}\n  \
                   - {name: new, ceph: {release: 20.2, store: bluestore}}\n  - {name: ours, loligo: {store: mem}}";
    let options = "default: {osd_max_write_size: 1.5}\nparametric:\n  journal_aio: ['on']\n  debug_osd: [0/0, 100]\n  \
                   osd_op_queue: [wpq, fifo]\n  osd_mclock_profile: [balanced]";
    let resolution = check(&study(systems, options));
    let told: Vec<String> = resolution.problems.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|t| t.contains("journal_aio: 'on' is not a bool")), "{told:#?}");
    assert!(told.iter().any(|t| t.contains("debug_osd: '100' is")), "{told:#?}");
    let of = |text: &str| resolution.problems.iter().find(|p| p.to_string().contains(text)).unwrap();
    assert_eq!(of("osd_max_write_size: '1.5' is not a size").systems, ["old", "new"]);
    assert_eq!(of("osd_max_write_size: '1.5' is not a int").systems, ["ours"]);
    assert_eq!(of("'fifo' is not one of").option, "osd_op_queue");
    assert!(!told.iter().any(|t| t.contains("wpq'") || t.contains("0/0'")), "{told:#?}");
    assert!(resolution.problems.windows(2).all(|pair| pair[0].line <= pair[1].line));
}

#[test]
fn values_of_a_list_that_are_the_same_are_told_where_that_is_sure() {
    let systems =
        "  - {name: old, ceph: {release: 16.2, store: bluestore}}\n  - {name: ours, loligo: {store: mem}}";
    let told = |options: &str| -> Vec<String> {
        let problems = check(&study(systems, &format!("parametric:\n  {options}"))).problems;
        problems.iter().map(ToString::to_string).collect()
    };
    let same = [
        ("osd/osd_client_message_cap: [1, 01]", "'osd/osd_client_message_cap_01' sets the same as"),
        ("osd/osd_max_object_size: [4K, 4096]", "_4096' sets the same as 'osd/osd_max_object_size_4K'"),
        ("debug_osd: [1/5, 01/05]", "debug_osd_01/05"),
        ("osd/osd_op_queue: wpq\n  osd/osd op queue: wpq", "osd/osd op queue_wpq"),
    ];
    for (options, words) in same {
        let told = told(options);
        assert!(told.len() == 1 && told[0].contains(words), "{options}: {told:?}");
    }
    let differ = [
        // Other values, other sections, a text that only looks like a number, groups.
        "osd/osd_client_message_cap: [1, 10]",
        "osd/debug_ms: 1\n  mon/debug_ms: 1",
        "log_file: ['1', '01']",
        // As floating-point numbers they are one.
        "osd/osd_max_object_size: [9007199254740993, 9007199254740992]",
        "a: {osd: {osd_client_message_cap: 256}}\n  b: {osd: {osd_client_message_cap: 256}}",
    ];
    for options in differ {
        assert_eq!(told(options), [""; 0], "{options}");
    }
}

#[test]
fn a_running_cluster_and_an_nfs_server_get_nothing() {
    let running = system(Target::Running { conf: PathBuf::from("/etc/ceph/ceph.conf") });
    let why = Why::Running;
    assert_eq!(verdict(&running, &["ms_crc_data=false"]), Verdict::AcceptedWithoutEffect { why });
    assert!(matches!(verdict(&running, &["ms_crc_date=false"]), Verdict::Unknown { .. }));
    let nfs = system(Target::Nfs { sync: true });
    assert_eq!(verdict(&nfs, &["ms_nocrc=1"]), Verdict::AcceptedWithoutEffect { why: Why::NoCluster });
    let study =
        study("  - {name: r, running: {conf: /etc/ceph/ceph.conf}}", "parametric: {ms_crc_data: [false]}");
    assert!(check(&study).not_run.variants.contains(&(0, 1)));
}

#[test]
fn a_variant_that_sets_nothing_is_run() {
    assert!(!nothing_effective(&[]));
    let loligo = loligo();
    assert!(nothing_effective(&resolved(&loligo, &["ms_nocrc=true", "bluestore_cache_size=1"])));
    assert!(!nothing_effective(&resolved(&loligo, &["ms_nocrc=true", "ms_crc_data=false"])));
}

#[test]
fn a_daemon_that_is_not_there_reads_nothing() {
    let ceph = ceph("20.2", CephStore::BlueStore);
    for absent in
        ["osd.99/osd_op_num_shards=4", "client.nobody/ms_crc_data=false", "mon.zzz/ms_crc_data=false"]
    {
        let found = verdict(&ceph, &[absent]);
        assert!(
            matches!(found, Verdict::AcceptedWithoutEffect { why: Why::NoSuchDaemon { .. } }),
            "{absent}: {found}"
        );
    }
    for there in ["mon.a/ms_crc_data=false", "mgr.x/ms_crc_data=false", "client.admin/ms_crc_data=false"] {
        assert_eq!(verdict(&ceph, &[there]), Verdict::Effective, "{there}");
    }
}

#[test]
fn defaults_of_pools_do_nothing_to_pools_that_the_lab_makes() {
    let study = |load: &str| {
        parse(
            &format!(
                "name: n\ntitle: t\nsystems:\n- {{name: l, loligo: {{store: mem}}}}\n\
                 - {{name: c, ceph: {{release: 16.2, store: memstore}}}}\nworkloads:\n- {{name: w, {load}}}\n\
                 parametric: {{osd_pool_default_size: [1, 2], osd_pool_default_pg_num: [8]}}\n"
            ),
            "f",
        )
        .unwrap_or_else(|problems| panic!("{problems:?}"))
    };
    let left_out = |load: &str| check(&study(load)).not_run.variants.len();
    let bench = "rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: [write]}";
    assert_eq!(left_out(bench), 6, "three variants on two systems");
    // A user's command may make pools without telling their size.
    assert_eq!(left_out("command: {run: 'ceph osd pool create p', timeout: 9}"), 0);
}
