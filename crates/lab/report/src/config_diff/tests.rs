#![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

use super::*;

const STUDY: &str = "\
name: n
title: t
systems:
- {name: loligo, loligo: {store: simple}, osds: 1, place: {image: {size: 4G}}}
- {name: other, loligo: {store: mem}}
workloads:
- {name: w, rados_bench: {object_size: 4K, in_flight: 16, seconds: 1, phases: [write]}}
- {name: c, command: {run: 'true', timeout: 10}}
default: {osd: {osd_op_threads: 2}}
parametric:
  group: {osd: {osd client message cap: 255}}
";

fn study(text: &str) -> Study {
    study::parse(text, "f").unwrap()
}

fn words(found: &BTreeMap<String, Vec<Difference>>) -> Vec<String> {
    let of = |(name, all): (&String, &Vec<Difference>)| {
        all.iter().map(|d| format!("{name} {}: {} {}", d.what, d.a, d.b)).collect::<Vec<_>>()
    };
    found.iter().flat_map(of).collect()
}

#[test]
fn a_study_does_not_differ_from_itself() {
    assert_eq!(ConfigDiff::of(&study(STUDY), &study(STUDY)), ConfigDiff::default());
    // Neither by its words, nor by how an option's name is spelled.
    let same = STUDY
        .replace("title: t", "title: another")
        .replace("osd client message cap", "osd_client_message_cap");
    assert_eq!(ConfigDiff::of(&study(STUDY), &study(&same)), ConfigDiff::default());
}

#[test]
fn what_a_name_stands_for_is_told_with_both_values() {
    let b = STUDY
        .replace("osds: 1, place: {image: {size: 4G}}", "osds: 3, place: {image: {size: 8G}}")
        .replace("in_flight: 16", "in_flight: 16, pg_num: 8")
        .replace("run: 'true'", "run: 'false'")
        .replace("cap: 255}", "cap: 256, osd_op_queue: wpq}");
    let found = ConfigDiff::of(&study(STUDY), &study(&b));
    assert_eq!(words(&found.systems), ["loligo osds: 1 3", "loligo place: image 4 GiB image 8 GiB"]);
    assert_eq!(words(&found.workloads), ["c run: true false", "w pg_num: 32 8"]);
    let variants = ["group osd/osd_client_message_cap: 255 256", "group osd/osd_op_queue: not set wpq"];
    assert_eq!(words(&found.variants), variants);
}

#[test]
fn the_studys_default_is_a_part_of_each_system_and_only_shared_names_count() {
    let b = STUDY.replace("name: other", "name: another").replace("osd_op_threads: 2", "osd_op_threads: 4");
    let found = ConfigDiff::of(&study(STUDY), &study(&b));
    assert_eq!(words(&found.systems), ["loligo osd/osd_op_threads: 2 4"]);
}
