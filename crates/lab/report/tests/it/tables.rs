//! Judgements, comparisons of runs, history, and their tables for a terminal.

use crate::made_up;

use crate::made_up::{Size, Study, criteria, run_info, series};
use labstats::change_points::Options;
use report::compare;
use report::config_diff::{ConfigDiff, Difference};
use report::history::{self, Run};
use report::input::{Colour, JudgedVariant, percent};
use report::text;
use results::{Record, Status};

const SMALL: Size = Size { systems: 2, variants: 24, workloads: 1, blocks: 5 };

fn find(study: &Study, system: &str, variant: &str) -> JudgedVariant {
    let judged = study.input(&series).judged;
    let cell = judged.cells.into_iter().find(|c| c.system == system && c.phase == "write").unwrap();
    cell.variants.into_iter().find(|v| v.name == variant).unwrap()
}

#[test]
fn each_cell_says_what_became_of_it() {
    let study = Study::new(SMALL, 1);
    let colour = |system, variant| find(&study, system, variant).colour;
    assert_eq!(colour("ceph-16.2-xfs", "flush_true"), Colour::Red);
    assert_eq!(colour("ceph-16.2-xfs", "osd_op_threads_8"), Colour::Green);
    assert!(matches!(colour("ceph-16.2-xfs", "big_ops"), Colour::Grey | Colour::White));
    let failed = find(&study, "ceph-16.2-ext4", "small_ops");
    assert_eq!((failed.colour, failed.failed), (Colour::Failed, 5));
    assert!(failed.details().contains("did not come up"), "{}", failed.details());
    let unsteady = find(&study, "ceph-16.2-xfs", "filestore_op_threads_4");
    assert_eq!((unsteady.unsteady, unsteady.samples), (1, 5));
}

#[test]
fn a_cell_that_is_not_run_has_no_number() {
    let study = Study::new(Size { systems: 4, variants: 8, workloads: 3, blocks: 2 }, 1);
    let nothing = find(&study, "loligo", "flush_false");
    assert_eq!((nothing.colour, nothing.label().as_str()), (Colour::NothingToTune, "nothing to tune"));
    let judged = study.input(&series).judged;
    let not_yet = judged.cells.iter().find(|c| c.system == "loligo" && c.workload == "bench-4M-16").unwrap();
    let v = not_yet.variants.iter().find(|v| v.name == "big_ops").unwrap();
    assert_eq!((v.colour, v.label().as_str()), (Colour::NotYet, "not yet"));
    assert!(v.details().contains("objects above 1 MiB"));
}

#[test]
fn a_variant_without_trials_is_not_called_equal() {
    let mut study = Study::new(SMALL, 1);
    study.records.retain(|r| r.parameters.variant != "big_ops");
    for (_, cell) in &mut study.cells {
        cell.entries.retain(|e| e.variant != 2);
    }
    let v = find(&study, "ceph-16.2-xfs", "big_ops");
    assert_eq!((v.colour, v.label().as_str()), (Colour::TooFew, "too few trials"));
}

#[test]
fn a_colour_that_was_run_once_more_says_so() {
    let mut study = Study::new(SMALL, 1);
    let mut again: Vec<Record> =
        study.records.iter().filter(|r| r.parameters.variant == "flush_true").cloned().collect();
    again.iter_mut().for_each(|r| {
        r.confirms = true;
        r.id += ".again";
    });
    study.records.extend(again);
    let v = find(&study, "ceph-16.2-xfs", "flush_true");
    assert_eq!(v.samples, 5, "trials that confirm are no samples of the first judgement");
    assert!(v.details().contains("confirmed by 5 more trials"), "{}", v.details());
}

#[test]
fn under_the_one_sigma_rule_the_colours_are_that_rules() {
    let mut study = Study::new(Size { variants: 24, ..SMALL }, 3);
    let count = |study: &Study| {
        let judged = study.input(&series).judged;
        let all = judged.cells.iter().flat_map(|c| &c.variants);
        all.filter(|v| matches!(v.colour, Colour::Green | Colour::Red)).count()
    };
    let adjusted = count(&study);
    study.design.rule = study::Rule::OneSigma;
    assert!(count(&study) >= adjusted);
    assert!(study.input(&series).judged.rule_label.contains("ONE SIGMA"));
}

#[test]
fn differences_are_written_with_their_sign() {
    let cases = [
        (1.1234, "+12.3%"),
        (0.5, "−50.0%"),
        (1.0001, "±0.0%"),
        (12.0, "+1100%"),
        (f64::INFINITY, "unbounded"),
    ];
    for (ratio, text) in cases {
        assert_eq!(percent(ratio), text);
    }
}

#[test]
fn an_interval_that_leaves_a_factor_of_ten_open_has_no_digits() {
    let study = Study::new(made_up::Size::FEW, 1);
    let cells = study.input(&series).judged;
    let compared = cells.cells.iter().flat_map(|c| &c.variants).find(|v| v.colour.compared());
    let mut judged = compared.unwrap().clone();
    (judged.ratio, judged.low, judged.high) = (1.2, 0.9, 1.6);
    assert_eq!(judged.interval(), "−10.0% to +60.0%");
    judged.low = 0.01;
    assert_eq!(judged.interval(), "too few trials to say");
    assert!(judged.details().contains("(too few trials to say)"));
    // What tells a direction says something, however far it reaches.
    (judged.low, judged.high) = (1.5, 12.0);
    assert_eq!(judged.interval(), "+50.0% to +1100%");
}

/// The same run with every number of one variant changed.
fn changed(records: &[Record], factor: f64) -> Vec<Record> {
    let mut records = records.to_vec();
    for m in records.iter_mut().flat_map(|r| &mut r.measurements) {
        m.ops_per_s *= factor;
    }
    records
}

#[test]
fn two_runs_are_compared_and_what_differs_is_said() {
    let study = Study::new(Size { systems: 1, variants: 1, workloads: 1, blocks: 5 }, 1);
    let b = changed(&Study::new(Size { systems: 1, variants: 1, workloads: 1, blocks: 5 }, 2).records, 0.7);
    let mut info = run_info();
    info.machine.kernel = "another".into();
    let c = compare::runs(
        ("before", &run_info(), &study.records),
        ("after", &info, &b),
        &ConfigDiff::default(),
        &criteria(),
    );
    assert_eq!(c.rows.len(), 4);
    assert!(c.rows.iter().all(|r| r.judged.colour == Colour::Red), "{c:?}");
    assert!(c.notes.iter().any(|n| n == "the machines differ: kernel"));
    let text = text::comparison(&c, false);
    assert!(text.contains("A: before") && text.contains("▼ −3") && !text.contains('\u{1b}'), "{text}");
    assert!(text::comparison(&c, true).contains("\u{1b}[1;31m▼"));
}

#[test]
fn rows_of_two_runs_with_other_setups_are_marked_and_told_before_the_table() {
    let size = Size { systems: 2, variants: 0, workloads: 1, blocks: 3 };
    let (a, b) = (Study::new(size, 1).records, Study::new(size, 2).records);
    let osds = Difference { what: "osds".into(), a: "1".into(), b: "3".into() };
    let mut config_diff = ConfigDiff::default();
    config_diff.systems.insert("ceph-16.2-ext4".into(), vec![osds.clone()]);
    // What no row is about is not told.
    config_diff.systems.insert("gone".into(), vec![osds]);
    let c = compare::runs(("a", &run_info(), &a), ("b", &run_info(), &b), &config_diff, &criteria());
    assert_eq!(c.config_diff, ["system ceph-16.2-ext4: osds: 1 in A, 3 in B"]);
    assert!(c.rows.iter().all(|r| r.other_setup == r.what.starts_with("ceph-16.2-ext4:")), "{c:?}");
    let text = text::comparison(&c, false);
    let place = |words: &str| text.find(words).unwrap();
    assert!(place("osds: 1 in A, 3 in B") < place("B against A"), "{text}");
    assert!(text.contains("\n≠ ceph-16.2-ext4: ") && text.contains("\nceph-16.2-xfs: "), "{text}");
}

/// What a cell and a row read where a system, a variant did nothing.
#[test]
fn a_trial_of_0_operations_is_no_lack_of_trials() {
    let mut study = Study::new(SMALL, 1);
    let stop = |records: &mut Vec<Record>, variant: &str, blocks: std::ops::Range<u32>| {
        let of = |r: &&mut Record| r.parameters.variant == variant && blocks.contains(&r.block);
        let all = records.iter_mut().filter(of).flat_map(|r| &mut r.measurements);
        all.for_each(|m| m.ops_per_s = 0.0);
    };
    stop(&mut study.records, "big_ops", 0..5);
    stop(&mut study.records, "flush_true", 0..1);
    study.judge_again();
    let v = find(&study, "ceph-16.2-xfs", "big_ops");
    assert_eq!((v.colour, v.label().as_str()), (Colour::Zero, "0, no ratio"));
    assert!(v.details().contains("every trial of this variant did 0 operations a second"), "{}", v.details());
    let v = find(&study, "ceph-16.2-xfs", "flush_true");
    assert!(v.colour.compared() && v.details().contains("1 trial with 0 operations"), "{}", v.details());
    stop(&mut study.records, "default", 0..5);
    study.judge_again();
    let v = find(&study, "ceph-16.2-xfs", "osd_op_threads_8");
    assert!(
        v.colour == Colour::Zero && v.details().contains("every trial of the default"),
        "{}",
        v.details()
    );
    study.design.rule = study::Rule::OneSigma;
    let v = find(&study, "ceph-16.2-xfs", "osd_op_threads_8");
    assert!(v.colour == Colour::Zero, "{}", v.details());

    let b = Study::new(SMALL, 2).records;
    let (a, info) = (&study.records, run_info());
    let c = compare::runs(("a", &info, a), ("b", &info, &b), &ConfigDiff::default(), &criteria());
    let row = c.rows.iter().find(|r| r.what.contains("default")).unwrap();
    assert_eq!(
        (row.judged.label(), row.judged.interval().as_str()),
        ("0, no ratio".into(), "A did 0 operations a second")
    );
    assert!(text::comparison(&c, false).lines().any(|l| l.contains("default  ") && l.contains("  0  ")));
    assert!(c.notes.iter().any(|n| n.contains("trials with 0 operations a second are in no ratio")));
}

#[test]
fn a_row_that_one_run_has_says_which() {
    let size = Size { systems: 2, variants: 0, workloads: 1, blocks: 3 };
    let all = Study::new(size, 1).records;
    let of = |system: &str| all.iter().filter(|r| r.parameters.system == system).cloned().collect::<Vec<_>>();
    let (a, b) = (of("ceph-16.2-xfs"), of("ceph-16.2-ext4"));
    let mut config_diff = ConfigDiff::default();
    config_diff
        .systems
        .insert("ceph-16.2-xfs".into(), vec![Difference { what: "x".into(), a: "1".into(), b: "2".into() }]);
    let c = compare::runs(("a", &run_info(), &a), ("b", &run_info(), &b), &config_diff, &criteria());
    for row in &c.rows {
        let side = if row.what.starts_with("ceph-16.2-xfs") { "only in A" } else { "only in B" };
        assert_eq!((row.judged.label().as_str(), row.judged.interval().as_str()), ("not compared", side));
        assert!(!row.other_setup);
    }
    assert!(c.rows.len() == 4 && c.config_diff.is_empty(), "{c:?}");
}

#[test]
fn modelled_devices_are_not_compared_with_real_ones() {
    let study = Study::new(Size { systems: 1, variants: 0, workloads: 1, blocks: 3 }, 1);
    let mut b = study.records.clone();
    b.iter_mut().for_each(|r| r.parameters.modelled = true);
    let c = compare::runs(
        ("a", &run_info(), &study.records),
        ("b", &run_info(), &b),
        &ConfigDiff::default(),
        &criteria(),
    );
    assert!(c.rows.is_empty());
    assert!(c.notes.iter().any(|n| n.contains("modelled devices in one run only")));
    let both: Vec<Record> = study.records.iter().chain(&b).cloned().collect();
    let info = run_info();
    let runs: Vec<Run> = (0..8)
        .map(|i| Run {
            name: format!("r{i}"),
            info: &info,
            records: if i % 2 == 0 { &study.records } else { &both[study.records.len()..] },
        })
        .collect();
    let all = history::history(&runs, &Options::default());
    assert_eq!(all.len(), 4, "two phases, each on real and on modelled devices");
    assert!(all.iter().all(|h| h.runs.len() == 4));
}

#[test]
fn history_finds_the_run_from_which_on_it_was_slower() {
    let size = Size { systems: 1, variants: 0, workloads: 1, blocks: 3 };
    let records: Vec<Vec<Record>> =
        (0..16).map(|i| changed(&Study::new(size, 100 + i).records, if i < 9 { 1.0 } else { 0.8 })).collect();
    let infos: Vec<_> = (0..16)
        .map(|i| {
            let mut info = run_info();
            info.started = format!("2026-01-{:02}T00:00:00Z", i + 1);
            info
        })
        .collect();
    // Given backwards: the order is that of their starts.
    let runs: Vec<Run> = records
        .iter()
        .zip(&infos)
        .enumerate()
        .map(|(i, (records, info))| Run { name: format!("run-{i}"), info, records })
        .rev()
        .collect();
    let all = history::history(&runs, &Options::default());
    assert_eq!(all.len(), 2);
    for h in &all {
        assert_eq!(h.changes.iter().map(|c| h.runs[c.at].name.as_str()).collect::<Vec<_>>(), ["run-9"]);
    }
    let text = text::history(&all, false);
    assert!(text.contains("run-9") && text.contains("▼ −"), "{text}");
    let figures = report::figures::history_figures(&all);
    assert_eq!(figures.len(), 2);
    for figure in &figures {
        let svg = roxmltree::Document::parse(&figure.svg).unwrap();
        let of = |class: &str| svg.descendants().filter(|n| n.attribute("class") == Some(class)).count();
        assert_eq!((of("point"), of("change dashed")), (16, 1), "{}", figure.name);
        assert!(figure.svg.contains("Changes found: 1."), "{}", figure.name);
    }
}

#[test]
fn the_terminal_gets_colours_only_if_asked_and_never_control_characters() {
    let mut study = Study::new(SMALL, 1);
    let evil = "\u{1b}[2Jx\u{7}";
    study.outline.systems[0] += evil;
    for r in &mut study.records {
        if r.parameters.system == "ceph-16.2-xfs" {
            r.parameters.system += evil;
        }
    }
    study.cells.iter_mut().filter(|c| c.0.0 == "ceph-16.2-xfs").for_each(|c| c.0.0 += evil);
    let plain = text::percentages(&study.input(&series), false);
    assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{plain:?}");
    assert!(plain.contains("▼ −3") && plain.contains("✗ failed"));
    let coloured = text::percentages(&study.input(&series), true);
    assert!(coloured.contains("\u{1b}[1;31m▼") && !coloured.contains("\u{1b}[2J"));
    let width = |line: &str| line.chars().count();
    let rows: Vec<&str> = plain.lines().filter(|l| l.contains('%')).collect();
    assert!(rows.iter().skip(1).all(|r| width(r) == width(rows[1])), "columns stand below one another");
}

#[test]
fn failed_trials_count_in_no_mean() {
    let mut study = Study::new(SMALL, 1);
    let r = study.records.iter_mut().find(|r| r.parameters.variant == "big_ops").unwrap();
    r.outcome.status = Status::Failed;
    let v = find(&study, "ceph-16.2-xfs", "big_ops");
    assert_eq!((v.samples, v.failed), (4, 1));
}

#[test]
fn systems_stand_side_by_side_for_a_readme() {
    let study = Study::new(SMALL, 1);
    let table = report::markdown::side_by_side(&study.input(&series));
    let lines: Vec<&str> = table.lines().collect();
    let columns = |line: &str| line.matches('|').count() - 1;
    let pair = "ceph-16.2-ext4 against ceph-16.2-xfs";
    let header = format!("| load | ceph-16.2-xfs | ceph-16.2-ext4 | {pair}: rate | {pair}: CPU |");
    assert_eq!(lines[0], header);
    // Fewer operations for more CPU: worse by both, though one went down and the other up.
    assert!(lines[2].contains("▼ −") && lines[2].contains("▼ +"), "{table}");
    assert!(lines[1].starts_with("|---|---:|"), "{table}");
    assert!(lines[2..4].iter().all(|l| columns(l) == columns(lines[0])), "{table}");
    assert!(lines[2].contains("/s, ") && lines[2].contains("µs") && lines[2].contains("% to "), "{table}");
    assert!(table.contains("95%") && table.contains("fresh cluster"), "{table}");
}

#[test]
fn nothing_measured_is_no_table() {
    let mut study = Study::new(SMALL, 1);
    study.records.clear();
    assert_eq!(report::markdown::side_by_side(&study.input(&series)), "");
}

#[test]
fn a_coloured_variant_that_spreads_more_than_the_others_says_so() {
    let mut study = Study::new(made_up::Size::FEW, 1);
    let name = study.outline.variants[1].name.clone();
    let why = |study: &Study| -> Vec<String> {
        let cells = study.input(&series).judged.cells;
        let of_it = cells.into_iter().flat_map(|c| c.variants).filter(|v| v.name == name);
        of_it.filter(|v| matches!(v.colour, Colour::Green | Colour::Red)).map(|v| v.why).collect()
    };
    let spreads = |why: &[String]| why.iter().filter(|w| w.contains("times as much as the others'")).count();
    for record in study.records.iter_mut().filter(|r| r.parameters.variant == name) {
        record.measurements.iter_mut().for_each(|m| m.ops_per_s *= 20.0);
    }
    study.judge_again();
    let alike = why(&study);
    assert!(!alike.is_empty() && spreads(&alike) == 0, "{alike:?}");
    for record in study.records.iter_mut().filter(|r| r.parameters.variant == name) {
        let swing = if record.block % 2 == 0 { 2.0 } else { 0.5 };
        record.measurements.iter_mut().for_each(|m| m.ops_per_s *= swing);
    }
    study.judge_again();
    let swung = why(&study);
    assert!(!swung.is_empty() && spreads(&swung) == swung.len(), "{swung:?}");
}
