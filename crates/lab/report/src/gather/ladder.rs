//! Ladders of the default: what each depth and each fixed rate gave, and what was found.
//!
//! A depth is the same in every trial: its histograms are added up. Fixed rates follow from what a trial found before,
//! so each run of one stands for itself.

use std::collections::{BTreeMap, BTreeSet};

use labstats::histogram::Merged;
use results::LadderPoint;

use super::trials::{Trial, Trials, load_words};
use super::{Spread, spread};
use crate::charts::ladder::{Ladder, Line, Point};
use crate::input::{DEFAULT, Outline};
use crate::quantity::{Quantity, number};

/// Percentiles that have a chart; a target's is one more.
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// A depth over all trials.
pub struct DepthSummary {
    /// In flight over all instances.
    pub depth: u32,
    /// Operations a second.
    pub ops: Option<Spread>,
    /// Added up.
    pub latency: Merged,
    /// Mean latency over all operations, microseconds.
    pub mean_us: f64,
}

/// What of a latency is shown.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Percentile(f64),
    /// Where the load gives no histogram.
    Mean,
}

impl Shown {
    fn name(self) -> String {
        match self {
            Self::Percentile(p) => format!("p{p}"),
            Self::Mean => "mean".to_string(),
        }
    }

    fn of(self, latency: &Merged, mean_us: f64) -> Option<f64> {
        match self {
            Self::Percentile(p) => latency.percentile(p).ok(),
            Self::Mean => Some(mean_us),
        }
    }
}

/// What the ladders of a system found.
pub struct Summary {
    pub system: String,
    /// The workload and the phase that climbs.
    pub load: (String, String),
    /// The best throughput of the closed loop, over the trials.
    pub saturation: Option<Spread>,
    /// Smallest and largest depth at which it was.
    pub depths: Option<(u32, u32)>,
    /// The highest rate that held, over the trials in which one did.
    pub held: Option<Spread>,
    /// Trials in which a rate held, of all.
    pub trials: (usize, usize),
    /// Depths, ascending.
    pub by_depth: Vec<DepthSummary>,
}

/// The depths of a system, ascending.
pub fn by_depth(trials: &Trials, cell: (&str, &str, &str)) -> Vec<DepthSummary> {
    let mut trials_of: BTreeMap<u32, Vec<Trial>> = BTreeMap::new();
    for trial in trials.steps(cell) {
        if let Some(step) = trial.1.step.as_ref().filter(|s| s.rate.is_none()) {
            trials_of.entry(step.in_flight).or_default().push(trial);
        }
    }
    let summary = |(depth, found): (u32, Vec<Trial>)| {
        let mut latency = Merged::default();
        for histogram in found.iter().filter_map(|t| t.1.latency.histogram.as_ref()) {
            // Refused whole where a bound is no number: no percentile is made from it.
            let _ = latency.add(&histogram.buckets);
        }
        let operations: f64 = found.iter().map(|t| t.1.operations as f64).sum();
        let time: f64 = found.iter().map(|t| t.1.operations as f64 * t.1.latency.mean_us).sum();
        let ops = spread(found.iter().map(|t| t.1.ops_per_s));
        DepthSummary { depth, ops, latency, mean_us: time / operations.max(1.0) }
    };
    trials_of.into_iter().map(summary).collect()
}

/// What was found, for every system that climbed.
pub fn summaries(outline: &Outline, trials: &Trials) -> Vec<Summary> {
    let mut all = Vec::new();
    for (workload, phase) in trials.ladders() {
        for system in &outline.systems {
            let by_depth = by_depth(trials, (system, workload, phase));
            if by_depth.is_empty() {
                continue;
            }
            let of = |point: LadderPoint| -> Vec<Trial> {
                let name = format!("{phase}.{}", point.name());
                trials.planned((system, workload, &name), DEFAULT).collect()
            };
            let (best, held) = (of(LadderPoint::Saturation), of(LadderPoint::HeldRate));
            let mean = |found: &[Trial]| spread(found.iter().map(|t| t.1.ops_per_s));
            let depths: BTreeSet<u32> =
                best.iter().filter_map(|t| Some(t.1.step.as_ref()?.in_flight)).collect();
            all.push(Summary {
                system: system.clone(),
                load: (workload.to_string(), phase.to_string()),
                saturation: mean(&best),
                depths: depths.first().copied().zip(depths.last().copied()),
                held: mean(&held),
                trials: (held.len(), best.len()),
                by_depth,
            });
        }
    }
    all
}

/// The charts of a phase that climbs, one for each percentile that its histograms tell.
pub fn charts(outline: &Outline, trials: &Trials, (workload, phase): (&str, &str)) -> Vec<Ladder> {
    let target = outline.targets.get(workload).copied();
    let mut percentiles = PERCENTILES.to_vec();
    percentiles.extend(target.map(|t| t.0).filter(|p| !PERCENTILES.contains(p)));
    percentiles.sort_by(f64::total_cmp);
    let chart = |shown: Shown| {
        let line = |system: &String| line(trials, (system, workload, phase), shown);
        let lines: Vec<Line> = outline.systems.iter().filter_map(line).collect();
        let (record, _) = outline.systems.iter().find_map(|s| trials.steps((s, workload, phase)).next())?;
        (!lines.is_empty()).then(|| Ladder {
            title: format!("{workload}, {phase}: {} latency over throughput, the default", shown.name()),
            below: format!(
                "{}. Dots and line: CLOSED LOOP, a depth each, histograms of the trials added up, throughput their geometric \
                 mean. Diamonds and crosses: OPEN LOOP (fixed rate), a run each; crosses: not held. An open loop of fio comes \
                 in batches near saturation.",
                load_words(record, "a ladder")
            ),
            percentile: shown.name(),
            target_us: target.filter(|t| shown == Shown::Percentile(t.0)).map(|t| t.1),
            lines,
        })
    };
    let found: Vec<Ladder> = percentiles.into_iter().map(Shown::Percentile).filter_map(chart).collect();
    if found.is_empty() { chart(Shown::Mean).into_iter().collect() } else { found }
}

fn line(trials: &Trials, cell: (&str, &str, &str), shown: Shown) -> Option<Line> {
    let closed = by_depth(trials, cell).into_iter().filter_map(|summary| {
        let (ops, latency_us) = (summary.ops?.mean, shown.of(&summary.latency, summary.mean_us)?);
        let hover = format!(
            "{}, closed loop, {} in flight: {}, {} {}",
            cell.0,
            summary.depth,
            Quantity::Ops.show(ops),
            shown.name(),
            Quantity::Latency.show(latency_us)
        );
        Some(Point { ops, latency_us, held: true, hover })
    });
    let open = trials.steps(cell).filter_map(|trial| open_point(&trial, shown));
    let modelled = trials.steps(cell).any(|(r, _)| r.parameters.modelled);
    let name = if modelled { format!("{} (modelled devices)", cell.0) } else { cell.0.to_string() };
    let line = Line { name, closed: closed.collect(), open: open.collect() };
    (!line.closed.is_empty() || !line.open.is_empty()).then_some(line)
}

fn open_point((record, m): &Trial, shown: Shown) -> Option<Point> {
    let step = m.step.as_ref()?;
    let rate = step.rate?;
    let mut latency = Merged::default();
    latency.add(&m.latency.histogram.as_ref()?.buckets).ok()?;
    let latency_us = shown.of(&latency, m.latency.mean_us)?;
    let held = step.held == Some(true);
    let hover = format!(
        "{}: open loop, {} ops/s asked for, {} achieved, {} {}{}",
        record.id,
        number(f64::from(rate)),
        number(m.ops_per_s),
        shown.name(),
        Quantity::Latency.show(latency_us),
        if held { "" } else { ": not held" }
    );
    Some(Point { ops: m.ops_per_s, latency_us, held, hover })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Workload;
    use results::{
        Build, FORMAT, Histogram, Latency, Measurement, Outcome, Parameters, Record, Status, Step,
    };

    /// A step with 10,000 operations in a second, of which so many took 900 µs and the others 100.
    fn step(step: Step, ops_per_s: f64, slow: u64) -> Measurement {
        let buckets = vec![(100.0, 10_000 - slow), (900.0, slow)];
        let latency = Latency { mean_us: 120.0, max_us: 900.0, histogram: Some(Histogram { buckets }) };
        Measurement {
            phase: "rand_write".into(),
            step: Some(step),
            operations: 10_000,
            ops_per_s,
            latency,
            ..Measurement::default()
        }
    }

    fn depth(in_flight: u32, found: Option<LadderPoint>) -> Step {
        Step { in_flight, found, ..Step::default() }
    }

    fn rate(rate: u32, held: bool, found: Option<LadderPoint>) -> Step {
        Step { in_flight: 1024, rate: Some(rate), held: Some(held), found, ..Step::default() }
    }

    fn record(block: u32, measurements: Vec<Measurement>) -> Record {
        Record {
            format: FORMAT,
            id: format!("b{block}"),
            order: block,
            block,
            confirms: false,
            profiled: false,
            started: String::new(),
            took_s: 1.0,
            parameters: Parameters {
                system: "s".into(),
                workload: "w".into(),
                variant: DEFAULT.into(),
                load: "fio rados".into(),
                ..Parameters::default()
            },
            build: Build::default(),
            outcome: Outcome { status: Status::Ok, error: String::new(), logs: String::new() },
            measurements,
        }
    }

    fn two_trials() -> Vec<Record> {
        let (best, top) = (Some(LadderPoint::Saturation), Some(LadderPoint::HeldRate));
        vec![
            record(
                0,
                vec![
                    step(depth(1, None), 100.0, 0),
                    step(depth(2, best), 200.0, 0),
                    step(rate(200, false, None), 190.0, 500),
                    step(rate(150, true, top), 150.0, 0),
                ],
            ),
            record(
                1,
                vec![
                    step(depth(1, None), 100.0, 200),
                    step(depth(2, best), 242.0, 0),
                    step(rate(121, false, None), 121.0, 500),
                ],
            ),
        ]
    }

    fn outline() -> Outline {
        Outline {
            systems: vec!["s".into()],
            workloads: vec![Workload { name: "w".into(), phases: vec!["rand_write.saturation".into()] }],
            targets: [("w".to_string(), (99.0, 500.0))].into(),
            ..Outline::default()
        }
    }

    #[test]
    fn a_depths_percentile_is_that_of_all_trials_operations() {
        let records = two_trials();
        let depths = by_depth(&Trials::of(&records), ("s", "w", "rand_write"));
        // 200 of 10,000 slow ones put one trial's p99 at 900 µs; of 20,000 they are just 1%.
        assert_eq!((depths[0].depth, depths[0].latency.percentile(99.0).unwrap()), (1, 100.0));
        assert_eq!((depths[0].latency.total(), depths.len()), (20_000, 2));
    }

    #[test]
    fn a_trial_in_which_no_rate_held_is_counted_not_hidden() {
        let records = two_trials();
        let all = summaries(&outline(), &Trials::of(&records));
        assert_eq!((all.len(), all[0].trials, all[0].depths), (1, (1, 2), Some((2, 2))));
        assert!((all[0].saturation.unwrap().mean - 220.0).abs() < 0.1);
        assert!((all[0].held.unwrap().mean - 150.0).abs() < 1e-6);
    }

    #[test]
    fn the_chart_says_which_loop_is_which_and_shows_the_target_with_its_percentile() {
        let records = two_trials();
        let found = charts(&outline(), &Trials::of(&records), ("w", "rand_write"));
        let names: Vec<_> = found.iter().map(|c| (c.percentile.as_str(), c.target_us)).collect();
        assert_eq!(names, [("p50", None), ("p99", Some(500.0)), ("p99.9", None)]);
        assert_eq!((found[1].lines[0].closed.len(), found[1].lines[0].open.len()), (2, 3));
        let svg = crate::charts::ladder::chart(&found[1]);
        assert!(
            svg.contains("CLOSED LOOP") && svg.contains("OPEN LOOP") && svg.contains("target: p99 500 µs")
        );
        assert_eq!(svg.matches("open missed").count(), 2);
        assert!(roxmltree::Document::parse(&svg).is_ok());
    }

    #[test]
    fn steps_on_the_way_are_no_samples() {
        let records = two_trials();
        let trials = Trials::of(&records);
        assert_eq!(trials.all(("s", "w", "rand_write.saturation"), DEFAULT).len(), 2);
        assert!(trials.all(("s", "w", "rand_write"), DEFAULT).is_empty());
    }
}
