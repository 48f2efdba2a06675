//! Plans of trials.

use std::collections::BTreeSet;

use study::{Cell, NotRun, Plan, Study, parse, pgs_per_osd, plan_seconds, raised_limits, trial_seconds};

/// Three systems, two workloads, a default and three variants.
fn study(design: &str) -> Study {
    let text = format!(
        "\
name: n
title: t
systems:
- {{name: a, loligo: {{store: mem}}}}
- {{name: b, ceph: {{release: 16.2, store: bluestore}}, osds: 4, pool_size: 2}}
- {{name: c, running: {{conf: /etc/ceph/ceph.conf}}}}
workloads:
- {{name: w, rados_bench: {{instances: 4, pg_num: 128, object_size: 4K, in_flight: 8, seconds: 5, phases: [write, read]}}}}
- {{name: x, fio: {{engine: rbd, block_size: 4K, size: 500MB, in_flight: 1, seconds: 7, phases: [rand_read]}}}}
parametric: {{p: [1, 2], g: {{q: 1}}}}
design: {{{design}}}
"
    );
    parse(&text, "f").unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn cell(system: usize, workload: usize, variant: usize) -> Cell {
    Cell { system, workload, variant }
}

#[test]
fn the_same_arguments_give_the_same_plan() {
    let study = study("blocks: 4");
    let not_run = NotRun::of(&study);
    let plan = Plan::new(&study, &not_run, 42);
    assert_eq!(plan, Plan::new(&study, &not_run, 42));
    assert_ne!(plan.trials, Plan::new(&study, &not_run, 43).trials);
}

#[test]
fn a_plan_never_changes_between_versions() {
    let study = study("blocks: 1, defaults_per_block: 1");
    let plan = Plan::new(&study, &NotRun::of(&study), 7);
    let ids: Vec<&str> = plan.trials.iter().take(4).map(|t| t.id.as_str()).collect();
    assert_eq!(
        ids,
        ["b0.a.w.g.0", "b0.a.x.default.0", "b0.b.x.g.0", "b0.b.w.default.0"],
        "if this fails, runs begun with an earlier version can't be resumed"
    );
}

#[test]
fn more_blocks_begin_like_fewer() {
    let (few, many) = (study("blocks: 2"), study("blocks: 5"));
    let of = |s: &Study| Plan::new(s, &NotRun::of(s), 9).trials;
    let (few, many) = (of(&few), of(&many));
    assert_eq!(few[..], many[..few.len()]);
}

#[test]
fn blocks_are_shuffled_over_all_systems_and_workloads() {
    let study = study("blocks: 3");
    let plan = Plan::new(&study, &NotRun::of(&study), 1);
    let blocks: Vec<u32> = plan.trials.iter().map(|t| t.block).collect();
    assert!(blocks.is_sorted(), "a block ends before the next begins");
    let of = |block: u32| -> Vec<(Cell, u32)> {
        plan.trials.iter().filter(|t| t.block == block).map(|t| (t.cell, t.repeat)).collect()
    };
    assert_ne!(of(0), of(1), "each block has an order of its own");
    let systems: Vec<usize> = of(0).iter().map(|(c, _)| c.system).collect();
    assert!(!systems.is_sorted());
}

#[test]
fn what_can_not_run_is_left_out_but_never_the_default() {
    let study = study("blocks: 2");
    let mut not_run = NotRun::of(&study);
    assert_eq!(
        not_run.variants,
        BTreeSet::from([(2, 1), (2, 2), (2, 3)]),
        "a running cluster isn't configured"
    );
    not_run.variants.extend([(0, 0), (0, 3)]);
    not_run.workloads.insert((1, 1));
    let counts = Plan::new(&study, &not_run, 1).counts();
    let want = [
        (cell(0, 0, 0), 4),
        (cell(0, 0, 1), 2),
        (cell(0, 0, 2), 2),
        (cell(0, 1, 0), 4),
        (cell(0, 1, 1), 2),
        (cell(0, 1, 2), 2),
        (cell(1, 0, 0), 4),
        (cell(1, 0, 1), 2),
        (cell(1, 0, 2), 2),
        (cell(1, 0, 3), 2),
        (cell(2, 0, 0), 4),
        (cell(2, 1, 0), 4),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), want);
}

#[test]
fn flagged_cells_are_confirmed_against_their_own_defaults() {
    let study = study("blocks: 3, defaults_per_block: 2");
    let plan = Plan::new(&study, &NotRun::of(&study), 5);
    let flagged = [cell(0, 1, 3), cell(1, 0, 1), cell(1, 0, 2), cell(9, 9, 9)];
    let extra = plan.confirm(&study, &flagged);
    // Three blocks of: a flagged variant and two defaults; two flagged variants and two defaults.
    assert_eq!(extra.len(), 3 * (3 + 4));
    assert!(extra.iter().all(|t| t.confirms && (3..6).contains(&t.block)));
    let orders: Vec<u32> = extra.iter().map(|t| t.order).collect();
    let first = u32::try_from(plan.trials.len()).unwrap();
    assert_eq!(orders, (first..first + 21).collect::<Vec<_>>());
    let ids: BTreeSet<&str> = plan.trials.iter().chain(&extra).map(|t| t.id.as_str()).collect();
    assert_eq!(ids.len(), plan.trials.len() + extra.len());
    let backwards: Vec<Cell> = flagged.iter().rev().copied().collect();
    assert_eq!(extra, plan.confirm(&study, &backwards), "the order of flags means nothing");
    assert!(plan.confirm(&study, &[]).is_empty());
}

#[test]
fn time_is_overhead_and_phases_and_filling() {
    let study = study("blocks: 1");
    let plan = Plan::new(&study, &NotRun::of(&study), 1);
    let overhead = |system: &study::System| if system.name == "b" { 30.0 } else { 1.0 };
    let of = |wanted: Cell| {
        let trial = plan.trials.iter().find(|t| t.cell == wanted).unwrap();
        trial_seconds(&study, trial, &overhead)
    };
    assert!((of(cell(1, 0, 0)) - 40.0).abs() < 1e-9);
    let filling = 500.0 * 1048576.0 / 100e6;
    assert!((of(cell(0, 1, 1)) - (1.0 + 7.0 + filling)).abs() < 1e-9);
    let sum: f64 = plan.trials.iter().map(|t| trial_seconds(&study, t, &overhead)).sum();
    assert!((plan_seconds(&study, &plan.trials, &overhead) - sum).abs() < 1e-6);
}

#[test]
fn limits_are_raised_for_the_system_with_the_most() {
    let study = study("blocks: 1");
    // 4 pools of 128 and the manager's: on 3 OSDs once, on 4 OSDs twice.
    assert_eq!(pgs_per_osd(&study, &study.systems[0]), 171);
    assert_eq!(pgs_per_osd(&study, &study.systems[1]), 257);
    let raised = raised_limits(&study);
    assert_eq!((raised.len(), raised[0].value.as_str()), (1, "257"));
}

#[test]
fn what_is_profiled_comes_last_and_is_told_apart() {
    let of = |profile: &str| {
        let study = study(&format!("blocks: 2, profile: {profile}"));
        let plan = Plan::new(&study, &NotRun::of(&study), 7);
        (plan.profiles(&study), plan)
    };
    assert!(of("no").0.is_empty());
    let (one, plan) = of("default");
    assert_eq!(one.len(), 6, "three systems, two workloads");
    assert!(one.iter().all(|t| t.profiled && t.cell.variant == 0 && t.block == 4));
    let (all, _) = of("all");
    assert_eq!(all.len(), 2 * (4 + 4 + 1), "a running cluster has the default alone");
    let last = plan.trials.iter().map(|t| t.order).max().unwrap();
    assert!(all.iter().all(|t| t.order > last && t.id.starts_with("p4.")));
}

#[test]
fn what_is_left_out_of_a_study_changes_no_name() {
    let text = "name: n\ntitle: t\nsystems:\n- {name: a/b, loligo: {store: mem}}\n- {name: a b, loligo: {store: mem}}\n\
                workloads:\n- {name: w, command: {run: 'true', timeout: 10}}\ndesign: {blocks: 1, defaults_per_block: 1}\n";
    let whole = parse(text, "f").unwrap_or_else(|problems| panic!("{problems:#?}"));
    let mut second = whole.clone();
    second.systems.remove(0);
    let ids = |study: &Study| -> BTreeSet<String> {
        Plan::new(study, &NotRun::of(study), 1).trials.into_iter().map(|t| t.id).collect()
    };
    assert_eq!(
        ids(&whole),
        BTreeSet::from(["b0.a-b.w.default.0".to_owned(), "b0.a-b-2.w.default.0".to_owned()])
    );
    assert_eq!(ids(&second), BTreeSet::from(["b0.a-b-2.w.default.0".to_owned()]));
}
