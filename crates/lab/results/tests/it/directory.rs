//! What is written is read back, whatever moment a crash chose.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::common::{measurement, record, run_info};
use proptest::prelude::*;
use results::*;

fn directory(at: &Path) -> Directory {
    Directory::create(&at.join("r"), &run_info(), b"name: x\n", b"[]").unwrap()
}

fn ids(records: &Records) -> Vec<&str> {
    records.records.iter().map(|r| r.id.as_str()).collect()
}

#[test]
fn a_directory_holds_what_it_was_made_with() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    let again = Directory::open(d.path()).unwrap();
    assert_eq!(again.info().unwrap(), run_info());
    assert_eq!(again.study().unwrap(), b"name: x\n");
    assert_eq!(again.plan().unwrap(), b"[]");
    assert_eq!(again.records().unwrap(), Records::default());
    assert!(d.logs("t1").unwrap().is_dir());
}

#[test]
fn results_are_never_written_over() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    let again = Directory::create(d.path(), &run_info(), b"", b"");
    assert!(matches!(again, Err(Error::Exists { .. })));
    assert_eq!(d.study().unwrap(), b"name: x\n");
}

#[test]
fn another_directory_is_no_results() {
    let at = tempfile::tempdir().unwrap();
    assert!(matches!(Directory::open(at.path()), Err(Error::NotResults { .. })));
}

#[test]
fn the_last_record_of_an_id_counts_and_the_order_is_the_plans() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    let mut appender = d.appender().unwrap();
    let mut first = record("b", 1);
    first.outcome.status = Status::Interrupted;
    for r in [&first, &record("a", 0), &record("b", 1)] {
        appender.append(r).unwrap();
    }
    let all = d.records().unwrap();
    assert_eq!((ids(&all), all.torn.is_none()), (vec!["a", "b"], true));
    assert_eq!(all.records[1], record("b", 1));
}

#[test]
fn a_torn_last_line_is_ignored_said_and_cut_off_by_the_next_appender() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    d.appender().unwrap().append(&record("a", 0)).unwrap();
    let trials = d.path().join("trials.jsonl");
    let whole = fs::read(&trials).unwrap();
    // Whole but for its end, half of it, one byte of it, and the zeros that some file systems leave.
    let tails = [&whole[..whole.len() - 1], &whole[..whole.len() / 2], b"{", &[0; 5000]];
    for tail in tails {
        OpenOptions::new().append(true).open(&trials).unwrap().write_all(tail).unwrap();
        let all = d.records().unwrap();
        assert_eq!(ids(&all), ["a"]);
        assert!(all.torn.unwrap().contains("torn by a crash"));
        d.appender().unwrap();
        assert_eq!(fs::read(&trials).unwrap(), whole);
    }
    d.appender().unwrap().append(&record("b", 1)).unwrap();
    assert_eq!(ids(&d.records().unwrap()), ["a", "b"]);
}

#[test]
fn damage_before_the_end_is_told_with_its_line() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    let line = serde_json::to_string(&record("a", 0)).unwrap();
    fs::write(d.path().join("trials.jsonl"), format!("{line}\n{}\n{line}\n", &line[..40])).unwrap();
    let error = d.records().unwrap_err();
    assert!(matches!(error, Error::Damaged { line: 2, .. }), "{error}");
}

#[test]
fn a_newer_format_is_refused_with_a_sentence_even_where_it_has_other_fields() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    let newer = "{\"format\": 2, \"something\": \"else\"}\n";
    fs::write(d.path().join("trials.jsonl"), newer).unwrap();
    let error = d.records().unwrap_err();
    assert!(matches!(error, Error::Newer { format: 2, .. }));
    assert!(error.to_string().contains("newer version of the lab (format 2, this one reads up to 1)"));
    fs::write(d.path().join("run.json"), newer).unwrap();
    assert!(matches!(Directory::open(d.path()), Err(Error::Newer { .. })));
}

#[test]
fn a_value_that_json_lacks_is_refused_with_its_place_and_nothing_is_written() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    let mut appender = d.appender().unwrap();
    let mut bad = record("a", 0);
    bad.measurements[1].latency.mean_us = f64::NAN;
    let error = appender.append(&bad).unwrap_err();
    assert!(error.to_string().contains("measurements.1.latency.mean_us"), "{error}");
    assert!(d.records().unwrap().records.is_empty());
    // A counter alone is no reason to lose a trial.
    let mut odd = record("a", 0);
    odd.measurements[0].counters.insert("osd.0.bad".into(), f64::INFINITY);
    appender.append(&odd).unwrap();
    assert_eq!(d.records().unwrap().records, [record("a", 0)]);
}

#[test]
fn ids_that_leave_the_directory_are_refused() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    for bad in ["", ".", "..", "../x", "a/b", "a b", "a\0", &"x".repeat(201)] {
        assert!(matches!(d.series(bad), Err(Error::BadId { .. })), "{bad}");
        assert!(matches!(d.logs(bad), Err(Error::BadId { .. })), "{bad}");
        assert!(d.appender().unwrap().append(&record(bad, 0)).is_err(), "{bad}");
    }
    d.logs("b0.ceph-16.2.bench-4K.big_ops+flush_true.0").unwrap();
}

#[test]
fn series_are_replaced_when_a_trial_runs_again_and_a_torn_line_is_left_out() {
    let at = tempfile::tempdir().unwrap();
    let d = directory(at.path());
    let sample =
        |t: f64, v: f64| Sample { t, phase: "write".into(), values: [("ops_per_s".into(), v)].into() };
    for _ in 0..2 {
        let mut writer = d.series_writer("a").unwrap();
        writer.push(&sample(1.0, 5.0)).unwrap();
        writer.push(&sample(2.0, f64::NAN)).unwrap();
        writer.finish().unwrap();
    }
    let path = d.path().join("series/a.jsonl");
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"t\": 3").unwrap();
    let series = d.series("a").unwrap().collect_series().unwrap();
    let nothing = Sample { t: 2.0, phase: "write".into(), ..Sample::default() };
    assert_eq!(series.samples, [sample(1.0, 5.0), nothing]);
}

fn any_record() -> impl Strategy<Value = Record> {
    let number = any::<f64>().prop_filter("finite", |v| v.is_finite());
    let texts = proptest::collection::btree_map(any::<String>(), any::<String>(), 0..3);
    let buckets = proptest::option::of(proptest::collection::vec((number.clone(), any::<u64>()), 0..4));
    let steady = proptest::option::of(any::<bool>());
    let numbers = proptest::collection::vec(number, 4);
    (any::<u32>(), any::<String>(), texts, numbers, buckets, steady, any::<u64>()).prop_map(
        |(order, text, settings, n, buckets, steady, count)| {
            let mut r = record(&format!("t{order}"), order);
            r.took_s = n[0];
            r.parameters.settings = settings;
            r.outcome.error = text.clone();
            let mut m = measurement("run");
            m.operations = count;
            m.ops_per_s = n[1];
            m.joules = steady.map(|_| n[2]);
            m.steady = steady;
            m.unsteady = text.clone();
            m.counters.insert(text, n[3]);
            m.latency.histogram = buckets.map(|buckets| Histogram { buckets });
            r.measurements.push(m);
            r
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_come_back_bit_for_bit(mut all in proptest::collection::vec(any_record(), 1..5)) {
        let at = tempfile::tempdir().unwrap();
        let d = directory(at.path());
        let mut appender = d.appender().unwrap();
        all.iter().for_each(|r| appender.append(r).unwrap());
        let mut expected = Vec::new();
        while let Some(r) = all.pop() {
            if !expected.iter().any(|e: &Record| e.id == r.id) {
                expected.push(r);
            }
        }
        expected.sort_by_key(|r| r.order);
        prop_assert_eq!(d.records().unwrap().records, expected);
    }

    #[test]
    fn whatever_byte_a_crash_stopped_at_the_whole_lines_before_are_read(cut in any::<prop::sample::Index>()) {
        let at = tempfile::tempdir().unwrap();
        let d = directory(at.path());
        let mut appender = d.appender().unwrap();
        (0..3).for_each(|i| appender.append(&record(&format!("t{i}"), i)).unwrap());
        let trials = d.path().join("trials.jsonl");
        let whole = fs::read(&trials).unwrap();
        let cut = cut.index(whole.len() + 1);
        fs::write(&trials, &whole[..cut]).unwrap();
        let lines = whole[..cut].iter().filter(|b| **b == b'\n').count();
        let all = d.records().unwrap();
        prop_assert_eq!(all.records.len(), lines);
        prop_assert_eq!(all.torn.is_some(), cut > 0 && whole[cut - 1] != b'\n');
    }
}

#[test]
fn a_step_of_a_closed_loop_has_neither_rate_nor_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    let mut wanted = record("a", 0);
    wanted.measurements[0].step = Some(Step { in_flight: 4, ..Step::default() });
    directory.appender().unwrap().append(&wanted).unwrap();
    assert_eq!(directory.records().unwrap().records, [wanted]);
}

#[test]
fn profiles_and_counters_read_back_and_a_step_is_not_its_phase() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Directory::create(dir.path(), &run_info(), b"s", b"{}").unwrap();
    let stacks = Stacks { hertz: 99, counts: [("osd.0;tp;main".to_owned(), 3)].into(), ..Stacks::default() };
    let requests = Requests { device: "sda".into(), one_of: 1, ..Requests::default() };
    for phase in ["write", "write.01-d2"] {
        let profile = PhaseProfile {
            phase: phase.into(),
            stacks: Some(stacks.clone()),
            requests: vec![requests.clone()],
        };
        directory.write_profile("p1", &profile).unwrap();
        assert_eq!(directory.profile("p1", phase).unwrap(), profile);
    }
    assert_eq!(directory.profile("p1", "write").unwrap().requests.len(), 1);
    assert_eq!(directory.profile("other", "write").unwrap().stacks, None);
    let counters: PhaseCounters = [("write".to_owned(), [("osd.0.osd.op".to_owned(), 7.0)].into())].into();
    directory.write_counters("b0", &counters).unwrap();
    assert_eq!(directory.counters("b0").unwrap(), counters);
    directory.write_counters("b1", &[("write".to_owned(), Default::default())].into()).unwrap();
    assert!(directory.counters("b1").unwrap().is_empty() && !dir.path().join("counters/b1.json").exists());
}
