//! The language as docs/studies.md describes it.

use study::{Phase, Place, Study, Target, WorkloadKind, ceph_conf_text, parse, settings_of};

/// The example of the document.
fn example() -> Study {
    let document = include_str!("../../../../../docs/studies.md");
    let example = document.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```"));
    let Some((text, _)) = example else { panic!("the document has no example") };
    parse(text, "example.yaml").unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn names<T>(items: &[T], name: impl Fn(&T) -> &str) -> Vec<String> {
    items.iter().map(|item| name(item).to_owned()).collect()
}

#[test]
fn the_documents_example_gives_what_it_says() {
    let study = example();
    let systems = names(&study.systems, |s| &s.name);
    assert_eq!(systems, ["loligo", "ceph-20.2", "ceph-16.2-xfs", "ceph-16.2-ext4"]);
    assert_eq!(names(&study.workloads, |w| &w.name), ["bench-4K", "bench-4M"]);
    let variants = [
        "default",
        "ms_crc_data_true",
        "ms_crc_data_false",
        "client/objecter_inflight_ops_128",
        "quiet",
        "ms_crc_data_true+quiet",
        "ms_crc_data_false+quiet",
        "client/objecter_inflight_ops_128+quiet",
    ];
    assert_eq!(names(&study.variants, |v| &v.name), variants);
    assert_eq!(study.variants[5].parameter, "ms_crc_data+quiet");
    assert_eq!((study.design.blocks, study.design.defaults_per_block), (5, 2));
    let WorkloadKind::RadosBench(bench) = &study.workloads[1].kind else { panic!() };
    assert_eq!((bench.object_size, bench.clients.pg_num), (4 << 20, 128));
    assert_eq!(bench.phases, [Phase::Write, Phase::Read]);
    assert!(bench.drop_caches);
    assert_eq!(study.systems[0].place, Place::Image { size: 4 << 30 });
    assert_eq!(study.systems[0].osds, 3);
    assert!(matches!(&study.systems[1].target, Target::Ceph { release, .. } if release == "20.2"));
}

#[test]
fn a_file_system_brings_its_own_options() {
    let study = example();
    let of = |system: usize| ceph_conf_text(&settings_of(&study, &study.systems[system], &study.variants[0]));
    assert_eq!(of(2), "[global]\nlog_file = /var/log/ceph/$name.log\n");
    let ext4 = "[osd]\nosd_max_object_name_len = 256\nosd_max_object_namespace_len = 64\n";
    assert_eq!(of(3), format!("{}{ext4}", of(2)));
}

const FRAME: &str = "\
name: n
title: t
systems: [{name: s, loligo: {store: mem}, settings: {osd: {b b: system, c: system}}}]
workloads: [{name: w, command: {run: 'true', timeout: 10}}]
";

#[test]
fn the_variants_option_wins_over_the_systems_and_that_over_the_default() {
    let sections = "default: {osd: {a: 1, b_b: 1, c: 1}, c: 9, osd.1: {a: 5}}\nparametric: {osd/c: [on]}\n";
    let study = parse(&format!("{FRAME}{sections}"), "f").unwrap();
    let settings = settings_of(&study, &study.systems[0], &study.variants[1]);
    let want = "[global]\nc = 9\n[osd]\na = 1\nb b = system\nc = on\n[osd.1]\na = 5\n";
    assert_eq!(ceph_conf_text(&settings), want);
    let lines: Vec<u32> = settings.iter().map(|s| s.line).collect();
    assert_eq!(lines, [5, 3, 6, 5, 5], "each setting knows where it came from");
}

#[test]
fn values_reach_ceph_conf_as_written() {
    let written = "default: {a: 0/0, b: on, c: 010, d: 1G, e: \"true\", f: 0x1F, g: ~, h: null, i: 1e3, j: '', \
                   k: .5, l: 2013-02-04, m: -1, n: '0700', o: $cluster-$id, p: 'a b', q: 1_000}\n";
    let study = parse(&format!("{FRAME}{written}"), "f").unwrap();
    let values: Vec<&str> = study.default.iter().map(|s| s.value.as_str()).collect();
    let want = [
        "0/0",
        "on",
        "010",
        "1G",
        "true",
        "0x1F",
        "~",
        "null",
        "1e3",
        "",
        ".5",
        "2013-02-04",
        "-1",
        "0700",
        "$cluster-$id",
        "a b",
        "1_000",
    ];
    assert_eq!(values, want);
}

#[test]
fn what_cephs_reader_would_take_for_itself_is_escaped() {
    // Ceph 16.2's `ceph-conf --lookup` gives each of these back as the study has it.
    let written = r##"default: {a: 'x#y;z', b: 'c:\d', c: '"q" r', d: "'q'", e: 'a"b'}"##;
    let study = parse(&format!("{FRAME}{written}\n"), "f").unwrap();
    let want = "[global]\na = x\\#y\\;z\nb = c:\\\\d\nc = \\\"q\" r\nd = \\'q'\ne = a\"b\n";
    assert_eq!(ceph_conf_text(&study.default), want);
}

#[test]
fn an_alias_stands_for_what_its_anchor_names() {
    let sections = "default: {osd: &o {a: 1}, mon: *o}\nparametric: {g: {osd: *o}, x: &l [1, 2], y: *l}\n";
    let study = parse(&format!("{FRAME}{sections}"), "f").unwrap();
    assert_eq!(ceph_conf_text(&study.default), "[mon]\na = 1\n[osd]\na = 1\n");
    assert_eq!(names(&study.variants, |v| &v.name), ["default", "g", "x_1", "x_2", "y_1", "y_2"]);
}

#[test]
fn a_command_has_its_expected_time_from_its_limit() {
    let study = parse(FRAME, "f").unwrap();
    let WorkloadKind::Command(command) = &study.workloads[0].kind else { panic!() };
    assert_eq!((command.timeout, command.expected), (10, 4));
    assert_eq!(study.workloads[0].phases(), [Phase::Run]);
}

#[test]
fn a_ladder_stands_for_depth_and_rate() {
    let ladder = "fio: {engine: rados, instances: 2, block_size: 4K, size: 64M, seconds: 3, phases: [rand_write], \
                  ladder: {depths: {from: 2, to: 64}, rates: [0.5, 0.9], target: {percentile: 99.9, latency: 5ms}}}";
    let text = FRAME.replace("command: {run: 'true', timeout: 10}", ladder);
    let study = parse(&text, "s").unwrap_or_else(|problems| panic!("{problems:#?}"));
    let WorkloadKind::Fio(fio) = &study.workloads[0].kind else { panic!() };
    let ladder = fio.ladder.as_ref().unwrap();
    assert_eq!((ladder.first_depth, ladder.last_depth, ladder.gain, fio.in_flight), (2, 64, 0.05, 64));
    assert_eq!(ladder.rates, [0.5, 0.9]);
    assert_eq!(ladder.target.map(|t| (t.percentile, t.latency_us)), Some((99.9, 5000.0)));
    // Six depths, two rates and the search, with the 128 MiB written before.
    let plan = study::Plan::new(&study, &study::NotRun::default(), 1);
    let seconds = study::trial_seconds(&study, &plan.trials[0], &|_| 0.0);
    assert!((seconds - 15.0 * 3.0 - 1.34).abs() < 0.01, "{seconds}");
}

#[test]
fn loligo_bench_has_rates_and_ladders_as_fio_has_and_always_fills() {
    let load = "loligo_bench: {instances: 2, block_size: [4K, 64K], size: 64M, in_flight: 32, seconds: 3, rate: [500, 1000], \
                phases: [rand_write, read, mixed], reads: 70}";
    let text = FRAME.replace("command: {run: 'true', timeout: 10}", load);
    let study = parse(&text, "s").unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(study.workloads.len(), 4);
    let WorkloadKind::LoligoBench(bench) = &study.workloads[1].kind else { panic!() };
    assert_eq!((bench.block_size, bench.size, bench.in_flight, bench.rate), (4096, 64 << 20, 32, Some(1000)));
    assert_eq!(bench.reads_percent, Some(70));
    assert_eq!((study.workloads[1].load(), bench.clients.total()), ("loligo bench", 2));
    assert_eq!(
        study.workloads[1].phases(),
        [Phase::RandWrite, Phase::Read, Phase::Mixed],
        "it was written before the first phase"
    );
    let plan = study::Plan::new(&study, &study::NotRun::default(), 1);
    let seconds = study::trial_seconds(&study, &plan.trials[0], &|_| 0.0);
    assert!((seconds - 3.0 * 3.0 - 1.34).abs() < 0.01, "{seconds}");
    for (wrong, says) in [
        (load.replace("[500, 1000]", "1"), "RateBelowInstances"),
        (load.replace("[4K, 64K]", "65M"), "BlockAboveSize"),
        (load.replace("in_flight: 32", "in_flight: 33"), "NotAMultiple"),
        (load.replace("seconds: 3", "seconds: 3, prefill: no"), "prefill"),
        (load.replace(", mixed]", "]"), "ReadsWithoutMixed"),
        (load.replace("reads: 70", "reads: 100"), "reads"),
    ] {
        let text = FRAME.replace("command: {run: 'true', timeout: 10}", &wrong);
        let problems = parse(&text, "s").expect_err(&wrong);
        assert!(format!("{problems:?}").contains(says), "{wrong}: {problems:?}");
    }
}

#[test]
fn one_daemons_option_stands_in_its_section_whichever_way_it_is_written() {
    let both = "default: {osd.0/a: 1, mon.a: {b: 2}}\nparametric: {osd.10/c: [3, 4]}\n";
    let study = parse(&format!("{FRAME}{both}"), "f").unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(ceph_conf_text(&study.default), "[mon.a]\nb = 2\n[osd.0]\na = 1\n");
    assert_eq!(ceph_conf_text(&study.variants[2].settings), "[osd.10]\nc = 4\n");
    for wrong in ["osd.foo/a: 1", "osd.01/a: 1", "'osd.0 /a': 1", "'mon.': {a: 1}", "osd.-1: {a: 1}"] {
        assert!(parse(&format!("{FRAME}default: {{{wrong}}}\n"), "f").is_err(), "{wrong}");
    }
}
