//! The options of the 2013 article, against what the real programs do with them.
//!
//! Seen on Ceph 16.2.15 with FileStore, all set at once: `perf dump` shows throttle-filestore_ops at
//! filestore_queue_max_ops and the dispatch throttles at ms_dispatch_throttle_bytes; there are filestore_op_threads
//! threads tp_fstore_op, and osd_op_num_shards times osd_op_num_threads_per_shard threads tp_osd_tp whatever
//! osd_op_threads says; the log says that aio is disabled where the journal is a file.

use optmap::{Resolution, Verdict, Why, check, nothing_effective};
use study::{Study, parse};

fn article() -> (Study, Resolution) {
    let text = include_str!("../../../../../studies/2013-sweep.yaml");
    let study = parse(text, "2013-sweep.yaml").unwrap_or_else(|problems| panic!("{problems:#?}"));
    let resolution = check(&study);
    (study, resolution)
}

/// E effective, R renamed, A accepted without effect, U unknown.
fn letter(verdict: &Verdict) -> char {
    match verdict {
        Verdict::Effective => 'E',
        Verdict::Renamed { .. } => 'R',
        Verdict::AcceptedWithoutEffect { .. } => 'A',
        Verdict::Unknown { .. } => 'U',
    }
}

fn place_of(study: &Study, system: &str) -> usize {
    study.systems.iter().position(|s| s.name == system).unwrap_or_else(|| panic!("no {system}"))
}

/// Every option of the article's default and variants: 16.2 on xfs, 20.2 with BlueStore, Loligo (E where its clients
/// read it).
const VERDICTS: &[(&str, &str)] = &[
    ("log_to_syslog", "EEE"),
    ("auth_cluster_required", "EEE"),
    ("auth_service_required", "EEE"),
    ("auth_client_required", "EEE"),
    ("filestore_xattr_use_omap", "AAA"),
    ("debug_lockdep", "EEE"),
    ("debug_context", "EEE"),
    ("debug_crush", "EEE"),
    ("debug_mds", "AAE"),
    ("debug_mds_balancer", "AAE"),
    ("debug_mds_locker", "AAE"),
    ("debug_mds_log", "AAE"),
    ("debug_mds_log_expire", "AAE"),
    ("debug_mds_migrator", "AAE"),
    ("debug_buffer", "AAE"),
    ("debug_timer", "EEE"),
    ("debug_filer", "AAE"),
    ("debug_objecter", "EEE"),
    ("debug_rados", "EEE"),
    ("debug_rbd", "AAE"),
    ("debug_journaler", "AAE"),
    ("debug_objectcacher", "AAE"),
    ("debug_client", "AAE"),
    ("debug_osd", "EEE"),
    ("debug_optracker", "EEE"),
    ("debug_objclass", "EEE"),
    ("debug_filestore", "EAE"),
    ("debug_journal", "EAE"),
    ("debug_ms", "EEE"),
    ("debug_mon", "EEE"),
    ("debug_monc", "EEE"),
    ("debug_paxos", "EEE"),
    ("debug_tp", "EEE"),
    ("debug_auth", "EEE"),
    ("debug_finisher", "EEE"),
    ("debug_heartbeatmap", "EEE"),
    ("debug_perfcounter", "AAE"),
    ("debug_rgw", "AAE"),
    ("debug_hadoop", "AAA"),
    ("debug_asok", "EEE"),
    ("debug_throttle", "EEE"),
    ("osd_op_threads", "RRA"),
    ("osd_disk_threads", "AAA"),
    ("filestore_op_threads", "EAA"),
    ("filestore_flush_min", "RAA"),
    ("filestore_flusher", "RAA"),
    ("journal_aio", "AAA"),
    ("ms_nocrc", "RRR"),
    ("filestore_queue_max_bytes", "EAA"),
    ("filestore_queue_committing_max_bytes", "AAA"),
    ("journal_max_write_bytes", "EAA"),
    ("journal_queue_max_bytes", "RAA"),
    ("ms_dispatch_throttle_bytes", "EEE"),
    ("objecter_infilght_op_bytes", "UUU"),
    ("filestore_queue_max_ops", "EAA"),
    ("filestore_queue_committing_max_ops", "AAA"),
    ("journal_max_write_entries", "EAA"),
    ("journal_queue_max_ops", "RAA"),
    ("objecter_inflight_ops", "EEE"),
];

#[test]
fn every_option_gets_the_verdict_that_the_programs_give() {
    let (study, resolution) = article();
    let mut seen = std::collections::BTreeSet::new();
    for (column, system) in ["ceph-16.2-filestore-xfs", "ceph-20.2-bluestore", "loligo"].iter().enumerate() {
        let options = &resolution.systems[place_of(&study, system)];
        let own = &study.systems[place_of(&study, system)].settings;
        for resolved in options.default.iter().chain(options.variants.iter().flatten()) {
            let name = resolved.setting.name.as_str();
            if own.contains(&resolved.setting) {
                continue;
            }
            let wanted = VERDICTS.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name}"));
            let verdict = &resolved.verdict;
            assert_eq!(wanted.1.chars().nth(column), Some(letter(verdict)), "{system} {name}: {verdict}");
            seen.insert(name);
        }
    }
    assert_eq!(seen.len(), VERDICTS.len());
}

#[test]
fn the_misspelled_option_is_unknown_and_what_was_meant_is_found() {
    let (study, resolution) = article();
    let misspelled = |r: &&optmap::Resolved| r.setting.name == "objecter_infilght_op_bytes";
    let nearest = Verdict::Unknown { nearest: Some("objecter_inflight_op_bytes") };
    for (system, options) in study.systems.iter().zip(&resolution.systems) {
        let found: Vec<_> = options.variants.iter().flatten().filter(misspelled).collect();
        assert_eq!(found.len(), 2, "{}", system.name);
        assert!(found.iter().all(|r| r.verdict == nearest), "{}", system.name);
    }
    // The study says that it was published so.
    assert_eq!(resolution.problems, []);
    let mut unlisted = study.clone();
    unlisted.as_published.retain(|name| name != "objecter_infilght_op_bytes");
    let problems = check(&unlisted).problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!(problems[0].systems.len(), study.systems.len());
    let line =
        study.variants.iter().flat_map(|v| &v.settings).find(|s| s.name.contains("infilght")).unwrap().line;
    let sentence = problems[0].to_string();
    let start = format!(
        "line {line}: objecter_infilght_op_bytes: unknown option (did you mean 'objecter_inflight_op_bytes'?)"
    );
    assert!(sentence.starts_with(&start), "{sentence}");
}

#[test]
fn variants_with_nothing_effective_are_not_run() {
    let (study, resolution) = article();
    let not_run = |system: &str| -> Vec<&str> {
        let at = place_of(&study, system);
        let pairs = resolution.not_run.variants.iter().filter(|(s, _)| *s == at);
        pairs.map(|(_, v)| study.variants[*v].parameter.as_str()).collect()
    };
    let threads = ["osd_op_threads", "osd_disk_threads"].map(|name| [name; 3]).concat();
    let rest = ["flush_true", "flush_false", "journal_aio", "ms_nocrc", "filestore_xattr_use_omap"];
    let on_files: Vec<&str> = threads.iter().chain(&rest).copied().collect();
    assert_eq!(not_run("ceph-16.2-filestore-ext4"), on_files);
    let elsewhere: Vec<&str> =
        threads.iter().chain(&["filestore_op_threads"; 3]).chain(&rest).copied().collect();
    assert_eq!(not_run("ceph-20.2-bluestore"), elsewhere);
    assert_eq!(not_run("loligo"), elsewhere);
    assert!(resolution.not_run.workloads.is_empty());
}

#[test]
fn the_journals_aio_counts_where_the_journal_is_a_device() {
    let (mut study, _) = article();
    let at = place_of(&study, "ceph-16.2-filestore-xfs");
    let variant = study.variants.iter().position(|v| v.name == "journal_aio_true").unwrap();
    let verdict = |study: &Study| check(study).systems[at].variants[variant][0].clone();
    assert!(matches!(verdict(&study).verdict, Verdict::AcceptedWithoutEffect { why: Why::Rule(_) }));
    study.systems[at].journal = Some(study::Place::Loop { size: 1 << 30, fs: None });
    let on_device = verdict(&study);
    assert_eq!(on_device.verdict, Verdict::Effective);
    // 16.2 has it on by default: the article's change is today's default.
    assert!(on_device.at_default && !nothing_effective(&[on_device]));
}

#[test]
fn an_old_name_is_told_its_successors_that_act_there() {
    let (study, resolution) = article();
    let of = |system: &str, name: &str| {
        let variants = &resolution.systems[place_of(&study, system)].variants;
        variants.iter().flatten().find(|r| r.setting.name == name).unwrap().verdict.clone()
    };
    let to = |verdict: Verdict| match verdict {
        Verdict::Renamed { to, .. } => to,
        other => panic!("{other}"),
    };
    let shards = ["osd_op_num_shards", "osd_op_num_threads_per_shard"];
    assert_eq!(to(of("ceph-20.2-bluestore", "osd_op_threads")), shards);
    assert_eq!(to(of("loligo", "ms_nocrc")), ["ms_crc_data"]);
    let flusher = to(of("ceph-16.2-filestore-btrfs", "filestore_flusher"));
    assert_eq!(flusher, ["filestore_wbthrottle_enable", "filestore_wbthrottle_btrfs_bytes_start_flusher"]);
    let flusher = of("ceph-20.2-bluestore", "filestore_flusher");
    assert!(
        matches!(flusher, Verdict::AcceptedWithoutEffect { why: Why::SoIsItsSuccessor { .. } }),
        "{flusher}"
    );
}
