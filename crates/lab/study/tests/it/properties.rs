//! What holds for every study.

use std::collections::BTreeSet;

use proptest::prelude::*;
use study::{Cell, NotRun, Plan, Study, ceph_conf_text, parse};

const HEAD: &str = "\
name: n
title: t
systems: [{name: a, loligo: {store: mem}}, {name: b, loligo: {store: simple}}]
workloads:
- {name: w, rados_bench: {object_size: [4K, 4M], in_flight: 1, seconds: 1, phases: [write]}}
";

fn study(rest: &str) -> Study {
    parse(&format!("{HEAD}{rest}"), "f").unwrap_or_else(|problems| panic!("{problems:#?}\n{rest}"))
}

/// Parameters with as many values each; every third with one value is a group.
fn parametric(counts: &[usize]) -> String {
    let mut text = "parametric:\n".to_owned();
    for (i, count) in counts.iter().enumerate() {
        let values: Vec<String> = (0..*count).map(|v| v.to_string()).collect();
        if *count == 1 && i % 3 == 0 {
            text.push_str(&format!("  p{i}: {{o{i}: 0, osd: {{o{i}: 1}}}}\n"));
        } else {
            text.push_str(&format!("  p{i}: [{}]\n", values.join(", ")));
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_full_cross_has_the_product_of_its_parameters(counts in prop::collection::vec(1usize..5, 2..5)) {
        let names: Vec<String> = (0..counts.len()).map(|i| format!("p{i}")).collect();
        let study = study(&format!("{}cross: [full: [{}]]\n", parametric(&counts), names.join(", ")));
        let alone: usize = counts.iter().sum();
        let product: usize = counts.iter().product();
        prop_assert_eq!(study.variants.len(), 1 + alone + product);
        let different: BTreeSet<&str> = study.variants.iter().map(|v| v.name.as_str()).collect();
        prop_assert_eq!(different.len(), study.variants.len());
        let crossed = &study.variants[1 + alone..];
        let settings: BTreeSet<String> = crossed.iter().map(|v| ceph_conf_text(&v.settings)).collect();
        prop_assert_eq!(settings.len(), product, "every combination is another one");
        for variant in crossed {
            prop_assert_eq!(variant.name.split('+').count(), counts.len());
        }
    }

    #[test]
    fn a_chosen_cross_has_what_is_listed(
        counts in prop::collection::vec(2usize..5, 3),
        picks in prop::collection::btree_set((0usize..100, 0usize..100), 1..8),
    ) {
        let picks: BTreeSet<(usize, usize)> =
            picks.iter().map(|(a, b)| (a % counts[0], b % counts[2])).collect();
        let listed: Vec<String> = picks.iter().map(|(a, b)| format!("{{p0: {a}, p2: {b}}}")).collect();
        let study = study(&format!("{}cross: [chosen: [{}]]\n", parametric(&counts), listed.join(", ")));
        let crossed = &study.variants[1 + counts.iter().sum::<usize>()..];
        let names: Vec<String> = picks.iter().map(|(a, b)| format!("p0_{a}+p2_{b}")).collect();
        prop_assert_eq!(crossed.iter().map(|v| v.name.clone()).collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_value_equals_its_text(value in "[!-~]([ -~]{0,20}[!-~])?") {
        let quoted = format!("'{}'", value.replace('\'', "''"));
        let study = study(&format!("default: {{a: {quoted}}}\nparametric: {{b: [{quoted}], c: {quoted}}}\n"));
        prop_assert_eq!(&study.default[0].value, &value);
        prop_assert_eq!(&study.variants[1].settings[0].value, &value);
        prop_assert_eq!(&study.variants[2].settings[0].value, &value);
        prop_assert_eq!(&study.variants[1].name, &format!("b_{value}"));
    }

    #[test]
    fn a_plain_value_equals_its_text(value in "[0-9a-zA-Z$/.+_-]*[0-9a-zA-Z/]") {
        // What YAML would read as a number, a truth or nothing is a text like any other.
        prop_assume!(!value.starts_with('-'));
        let study = study(&format!("default:\n  a: {value}\n"));
        prop_assert_eq!(&study.default[0].value, &value);
    }

    #[test]
    fn a_value_survives_a_reader_of_ceph_conf(value in "[!-~]([ -~]{0,20}[!-~])?") {
        let quoted = format!("'{}'", value.replace('\'', "''"));
        let study = study(&format!("default: {{a: {quoted}}}\n"));
        let text = ceph_conf_text(&study.default);
        let line = text.lines().nth(1).unwrap();
        prop_assert_eq!(as_ceph_reads(line.strip_prefix("a = ").unwrap()), value);
    }

    #[test]
    fn a_plan_holds_each_variant_the_right_number_of_times(
        blocks in 1u32..6,
        defaults in 1u32..4,
        counts in prop::collection::vec(1usize..4, 1..4),
        left_out in prop::collection::btree_set((0usize..2, 1usize..10), 0..6),
        seeds in (any::<u64>(), any::<u64>()),
    ) {
        let design = format!("design: {{blocks: {blocks}, defaults_per_block: {defaults}}}\n");
        let study = study(&format!("{}{design}", parametric(&counts)));
        let not_run = NotRun { variants: left_out.clone(), ..NotRun::default() };
        let plan = Plan::new(&study, &not_run, seeds.0);
        let counts = plan.counts();
        for system in 0..2 {
            for workload in 0..2 {
                for variant in 0..study.variants.len() {
                    let each = match variant {
                        0 => defaults,
                        v if left_out.contains(&(system, v)) => 0,
                        _ => 1,
                    };
                    let found = counts.get(&Cell { system, workload, variant }).copied().unwrap_or(0);
                    prop_assert_eq!(found, each * blocks);
                }
            }
        }
        let ids: BTreeSet<&str> = plan.trials.iter().map(|t| t.id.as_str()).collect();
        prop_assert_eq!(ids.len(), plan.trials.len());
        for (at, trial) in plan.trials.iter().enumerate() {
            prop_assert_eq!(trial.order as usize, at);
            let safe = |c: char| c.is_ascii_alphanumeric() || "_+-.".contains(c);
            prop_assert!(trial.id.chars().all(safe) && trial.id.len() < 200, "{}", trial.id);
        }
        let other = Plan::new(&study, &not_run, seeds.1);
        let sorted = |plan: &Plan| {
            let mut ids: Vec<_> = plan.trials.iter().map(|t| (t.id.clone(), t.block, t.cell, t.repeat)).collect();
            ids.sort();
            ids
        };
        prop_assert_eq!(sorted(&plan), sorted(&other), "another seed is another order of the same trials");
    }

    #[test]
    fn nothing_makes_the_parser_panic(text in "[ -~\n]{0,200}") {
        let _ = parse(&text, "f");
        let _ = parse(&format!("{HEAD}{text}"), "f");
    }

    #[test]
    fn damaged_studies_give_problems_in_order_of_lines(at in 0usize..2000, with in "[ -~\n]{0,3}") {
        let whole = include_str!("../../../../../studies/2013-sweep.yaml");
        let at = whole.char_indices().map(|(i, _)| i).nth(at).unwrap();
        let damaged = format!("{}{with}{}", &whole[..at], &whole[at + 1..]);
        if let Err(problems) = parse(&damaged, "f") {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.is_sorted_by_key(|p| (p.line, p.column)));
            prop_assert!(problems.iter().all(|p| p.line > 0 && p.column > 0));
        }
    }
}

/// As Ceph 16.2 reads a value: a backslash takes the next character as it is, comment signs end it.
fn as_ceph_reads(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    assert!(!text.starts_with(['"', '\'']), "a quoted text");
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '#' | ';' => break,
            _ => out.push(c),
        }
    }
    out
}
