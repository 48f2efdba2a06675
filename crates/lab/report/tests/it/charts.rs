//! Charts: small ones as committed pictures, all of them as XML, with room for every text.
//!
//! After a change that is wanted: `UPDATE_SNAPSHOTS=1 cargo test -p report --test it charts`, and look at the difference.

use crate::made_up;

use std::path::Path;

use report::charts::bars::{self, Bar, Bars, Dot, Group};
use report::charts::over_time::{self, OverTime, Panel};
use report::charts::percentages::{self, Percentages};
use report::charts::percentiles::{self, Percentiles};
use report::charts::scatter::{self, Row, Scatter};
use report::charts::words;
use report::figures::figures;
use report::input::{Colour, JudgedVariant};
use report::quantity::Quantity;

fn compare(name: &str, svg: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, svg).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == svg, "{name} differs from the committed picture: see the head of this file");
}

fn dot(value: f64, unsteady: bool) -> Dot {
    Dot { value, unsteady, hover: format!("trial <{value}>") }
}

fn judged(colour: Colour, ratio: f64) -> JudgedVariant {
    JudgedVariant {
        name: "v".into(),
        ratio,
        low: ratio - 0.05,
        high: ratio + 0.05,
        colour,
        samples: 3,
        ..JudgedVariant::default()
    }
}

fn small_bars() -> Bars {
    let bar = |series, value, interval, trials| Bar {
        series,
        value,
        interval,
        trials,
        note: "not yet: no reads".into(),
    };
    Bars {
        title: "bench-4K, write: operations a second".into(),
        below: "rados bench, closed loop.".into(),
        quantity: Quantity::Ops,
        groups: vec![
            Group {
                name: "ceph & co".into(),
                bars: vec![
                    bar(0, Some(950.0), Some((900.0, 1003.0)), vec![dot(930.0, false), dot(970.0, true)]),
                    bar(1, Some(1200.0), None, vec![dot(1200.0, false)]),
                ],
            },
            Group { name: "loligo (modelled devices)".into(), bars: vec![bar(0, None, None, Vec::new())] },
        ],
        series: vec!["default".into(), "big_ops".into()],
    }
}

fn small_scatter() -> Scatter {
    let row = |name: &str, parameter: &str, colour, ratio: f64| Row {
        name: name.into(),
        parameter: parameter.into(),
        trials: vec![dot(1000.0 * ratio, false), dot(1010.0 * ratio, true)],
        colour,
        label: judged(colour, ratio).label(),
        details: judged(colour, ratio).details(),
        ratio: colour.compared().then_some((ratio - 0.05, ratio + 0.05)),
    };
    Scatter {
        title: "bench-4K on ceph, write".into(),
        below: "closed loop".into(),
        quantity: Quantity::Ops,
        default: vec![dot(990.0, false), dot(1012.0, false)],
        default_mean: Some(1000.0),
        rows: vec![
            row("threads_1", "threads", Colour::Green, 1.2),
            row("threads_4", "threads", Colour::Red, 0.8),
            row("aio", "aio", Colour::White, 1.001),
            row("crc", "crc", Colour::NothingToTune, 1.0),
        ],
    }
}

#[test]
fn small_charts_are_as_committed() {
    compare("bars.svg", &bars::chart(&small_bars()));
    compare("scatter.svg", &scatter::chart(&small_scatter()));
    let colours = [
        Colour::Green,
        Colour::Red,
        Colour::White,
        Colour::Grey,
        Colour::NothingToTune,
        Colour::NotYet,
        Colour::Failed,
        Colour::TooFew,
    ];
    let fields = colours.into_iter().zip([1.123, 0.8, 1.0, 1.03, 1.0, 1.0, 1.0, 1.0]);
    let table = Percentages {
        title: "big_ops: against the default".into(),
        below: "Rule: Holm.".into(),
        columns: vec!["ceph".into(), "loligo".into()],
        rows: fields.map(|(c, r)| (format!("{c:?}"), vec![Some(judged(c, r)), None])).collect(),
    };
    compare("percentages.svg", &percentages::chart(&table));
    let points: Vec<(f64, f64)> =
        (0..10).map(|i| (f64::from(i), if i == 4 { f64::NAN } else { f64::from(i * i) })).collect();
    let chart = OverTime {
        title: "b0: bench-4K on ceph, default".into(),
        below: "closed loop".into(),
        end: 10.0,
        phases: vec![("write".into(), 1.0, 5.0), ("read".into(), 6.0, 9.0)],
        panels: vec![
            Panel { quantity: Quantity::Ops, lines: vec![("clients".into(), points.clone())] },
            Panel {
                quantity: Quantity::Cores,
                lines: vec![("osd.0".into(), points.clone()), ("client".into(), points)],
            },
        ],
    };
    compare("over-time.svg", &over_time::chart(&chart));
    let chart = Percentiles {
        title: "bench-4K, write: latency".into(),
        below: "closed loop".into(),
        lines: vec![
            ("ceph".into(), vec![(50.0, 900.0), (99.0, 4000.0)]),
            ("loligo".into(), vec![(50.0, 300.0)]),
        ],
    };
    compare("percentiles.svg", &percentiles::chart(&chart));
}

/// What a picture shows: text, its x, its anchor, its size.
fn texts(svg: &str) -> Vec<(String, f64, f64, f64, f64)> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let number = |n: &roxmltree::Node, name: &str| n.attribute(name).unwrap().parse::<f64>().unwrap();
    let nodes = document.descendants().filter(|n| n.has_tag_name("text"));
    nodes
        .map(|n| {
            let text: String = n.children().filter(|c| c.is_text()).filter_map(|c| c.text()).collect();
            let bold = if n.attribute("font-weight").is_some() { 1.12 } else { 1.0 };
            let size = number(&n, "font-size");
            let width = words::width(&text, size * bold);
            let x = number(&n, "x");
            let from = match n.attribute("text-anchor").unwrap() {
                "start" => x,
                "middle" => x - width / 2.0,
                _ => x - width,
            };
            (text, from, from + width, number(&n, "y"), size)
        })
        .collect()
}

#[test]
fn no_text_of_a_large_study_lies_over_another_or_leaves_the_picture() {
    let study = made_up::Study::new(made_up::Size { workloads: 1, ..made_up::Size::LARGE }, 1);
    for figure in figures(&study.input(&made_up::series)) {
        let document = roxmltree::Document::parse(&figure.svg).unwrap();
        let width: f64 = document.root_element().attribute("width").unwrap().parse().unwrap();
        let all = texts(&figure.svg);
        for (i, a) in all.iter().enumerate() {
            assert!(
                a.1 >= 0.0 && a.2 <= width + 0.5,
                "{}: '{}' from {} to {} of {width}",
                figure.name,
                a.0,
                a.1,
                a.2
            );
            for b in &all[i + 1..] {
                let apart = a.2 <= b.1 + 0.5 || b.2 <= a.1 + 0.5 || (a.3 - b.3).abs() >= 0.8 * a.4.min(b.4);
                assert!(apart, "{}: '{}' and '{}' lie over one another", figure.name, a.0, b.0);
            }
        }
    }
}

#[test]
fn bars_begin_at_zero_and_the_longest_fits() {
    let svg = bars::chart(&small_bars());
    let document = roxmltree::Document::parse(&svg).unwrap();
    let bars: Vec<(f64, f64)> = document
        .descendants()
        .filter(|n| n.attribute("class") == Some("bar"))
        .map(|n| (n.attribute("x").unwrap().parse().unwrap(), n.attribute("width").unwrap().parse().unwrap()))
        .collect();
    assert_eq!(bars.len(), 2);
    assert_eq!(bars[0].0, bars[1].0);
    assert!((bars[0].1 / bars[1].1 - 950.0 / 1200.0).abs() < 0.001);
}

#[test]
fn an_axis_that_does_not_begin_at_zero_says_so() {
    let mut near = small_scatter();
    assert!(scatter::chart(&near).contains("not at 0"));
    near.default.push(dot(5.0, false));
    assert!(!scatter::chart(&near).contains("not at 0"));
}

#[test]
fn green_and_red_differ_without_colours() {
    let svg = scatter::chart(&small_scatter());
    assert!(svg.contains("▲ +20.0%") && svg.contains("▼ −20.0%"));
    let table = |colour| {
        let rows = vec![("r".to_string(), vec![Some(judged(colour, 1.1))])];
        percentages::chart(&Percentages {
            title: "t".into(),
            below: String::new(),
            columns: vec!["c".into()],
            rows,
        })
    };
    let hatches = |colour| table(colour).matches("class=\"hatch\"").count();
    // One in the key.
    assert_eq!((hatches(Colour::Red), hatches(Colour::Green)), (2, 1));
}

#[test]
fn nothing_measured_and_absurd_numbers_still_make_a_picture() {
    let mut odd = small_bars();
    odd.groups[0].bars[0].value = Some(f64::INFINITY);
    odd.groups[0].bars[1].trials.push(dot(f64::NAN, false));
    let mut nothing = small_bars();
    nothing.groups.clear();
    for chart in [odd, nothing] {
        let svg = bars::chart(&chart);
        roxmltree::Document::parse(&svg).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
    let mut few = small_scatter();
    few.default.clear();
    few.rows.clear();
    few.default_mean = None;
    roxmltree::Document::parse(&scatter::chart(&few)).unwrap();
}

#[test]
fn a_profiled_step_of_a_ladder_has_its_flame_graph() {
    let study = made_up::Study::new(made_up::Size::FEW, 1);
    let none = |_: &str| None;
    let mut input = study.input(&none);
    let mut record = study.records[0].clone();
    let phase = record.measurements[0].phase.clone();
    let name = format!("{phase}.01-d8");
    record.measurements[0].step =
        Some(results::Step { name: name.clone(), in_flight: 8, ..Default::default() });
    input.profiled = vec![record];
    let kept = |_: &str, criteria: &str| {
        let stacks = results::Stacks::parse("# hertz 99\nosd.0;main;write 7\n");
        (criteria == name).then(|| results::PhaseProfile {
            phase: name.clone(),
            stacks: Some(stacks),
            requests: vec![],
        })
    };
    input.profile = &kept;
    let all = figures(&input);
    let flame = all.iter().find(|f| f.svg.contains("with 8 in flight")).unwrap();
    assert!(flame.svg.contains("write"), "the stack is drawn");
}
