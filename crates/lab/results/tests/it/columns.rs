//! The CSV and its documentation say everything that records hold.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::record;
use results::*;
use serde_json::Value;

fn csv(records: &[Record]) -> (u64, Vec<BTreeMap<String, String>>) {
    let mut out = Vec::new();
    let rows = export_csv(records, &mut out).unwrap();
    let mut reader = csv::Reader::from_reader(&out[..]);
    (rows, reader.deserialize().map(|row| row.unwrap()).collect())
}

#[test]
fn a_measurement_is_a_row_with_every_column() {
    let (count, rows) = csv(&[record("a", 0), record("b", 1)]);
    assert_eq!((count, rows.len()), (4, 4));
    let row = &rows[1];
    let expect = [
        ("id", "a"),
        ("phase", "read"),
        ("status", "ok"),
        ("system", "ceph, \"16.2\"\nxfs"),
        ("settings", "global/x=a b; osd/debug_osd=0/0"),
        ("ops_per_s", "200"),
        ("steady", "yes"),
        ("latency_p50_us", "100"),
        ("latency_p99_us", "300"),
        ("latency_p99_99_us", ""),
        ("cpu_servers_s", "4"),
        ("cpu_clients_s", "8.5"),
        ("servers_rss_max", "2000"),
        ("devices_written", "30"),
        ("devices_wait_ms", "3"),
        ("cycles", "5"),
        ("step_rate", "250"),
        ("step_found", "held_rate"),
    ];
    for (name, value) in expect {
        assert_eq!(row[name], value, "{name}");
    }
}

#[test]
fn cpu_of_no_process_is_0() {
    let mut alone = record("a", 0);
    alone.measurements[0].cpu.by_process.clear();
    let (_, rows) = csv(&[alone]);
    assert_eq!((rows[0]["cpu_clients_s"].as_str(), rows[0]["cpu_servers_s"].as_str()), ("0", "0"));
}

#[test]
fn a_trial_that_failed_before_its_first_phase_is_in_the_csv() {
    let mut failed = record("a", 0);
    failed.measurements.clear();
    failed.outcome =
        Outcome { status: Status::Failed, error: "osd.0 did not come up".into(), logs: "logs/a".into() };
    let (count, rows) = csv(&[failed]);
    assert_eq!(count, 1);
    assert_eq!((rows[0]["status"].as_str(), rows[0]["error"].as_str()), ("failed", "osd.0 did not come up"));
    assert_eq!((rows[0]["phase"].as_str(), rows[0]["ops_per_s"].as_str()), ("", ""));
}

/// The places of numbers, texts and flags; maps that are named by what was measured count as one.
fn leaves(value: &Value, place: &str, all: &mut BTreeSet<String>) {
    let maps = ["settings", "by_process", "devices", "counters", "histogram"];
    match value {
        Value::Object(fields) if !maps.iter().any(|m| place.ends_with(m)) => {
            for (name, v) in fields {
                leaves(v, &format!("{place}.{name}"), all);
            }
        }
        Value::Array(items) if place.ends_with("measurements") => {
            leaves(&items[0], &format!("{place}.N"), all);
        }
        _ => {
            all.insert(place.trim_start_matches('.').to_string());
        }
    }
}

#[test]
fn every_value_of_a_record_has_a_column_and_every_column_a_value() {
    let mut held = BTreeSet::new();
    leaves(&serde_json::to_value(record("a", 0)).unwrap(), "", &mut held);
    let told: BTreeSet<String> =
        columns().iter().map(|c| c.path.trim_start_matches("made from ").to_string()).collect();
    let only_in_records = ["format", "measurements.N.counters"].map(String::from);
    let left: Vec<_> = held.difference(&told).filter(|p| !only_in_records.contains(p)).collect();
    assert!(left.is_empty(), "without a column: {left:?}");
    let unknown: Vec<_> = told.difference(&held).collect();
    assert!(unknown.is_empty(), "columns without a value: {unknown:?}");
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<_> = columns().iter().map(|c| c.name).collect();
    assert_eq!(names.len(), columns().len());
}

#[test]
fn the_documentation_is_that_of_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/results.md");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(
        committed == markdown(),
        "docs/results.md differs: cargo run -p results --example columns > docs/results.md"
    );
}
