//! What to measure next on the way to saturation and to the highest rate that holds a latency target. Pure.
//!
//! 1. Closed loop: the depth doubles until two doublings in a row bring less than [`Rules::gain`] (one alone may be
//!    noise), or the last depth is reached. The best throughput seen is the saturation.
//! 2. Open loop: fixed shares of the saturation, for the chart of latency over rate.
//! 3. With a target: halving between the highest rate that holds it and the lowest that doesn't.
//!
//! A rate *holds* if it was achieved and its latency is within the target. One that doesn't is run again before it is
//! believed, and with one result of each kind a third run decides: a single hiccup of a machine would otherwise throw
//! the search far off. The answer is conservative: a rate above one that failed for good never counts.
//!
//! Limits: a saturation and a rate found so are one trial's; how sure they are is told by running whole ladders again.

/// How to go on the ladder.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// The first depth; all others are this one doubled. The number of instances, or a multiple.
    pub first_depth: u32,
    /// No depth is above.
    pub last_depth: u32,
    /// The share by which throughput must grow for a doubling to have brought something: 0.05.
    pub gain: f64,
    /// Shares of the saturation to measure at a fixed rate, ascending.
    pub shares: Vec<f64>,
    /// Latency that is to be held in microseconds, at whatever percentile the caller puts into [`Step::latency_us`].
    pub target_us: Option<f64>,
    /// The share of a rate that must be achieved to hold: 0.98.
    pub achieved: f64,
    /// The search ends when the interval is this share of its upper end: 0.05.
    pub precision: f64,
}

impl Default for Rules {
    /// Depths from 1 to 1024, a quarter, a half, three quarters and nine tenths of saturation, no target.
    fn default() -> Self {
        Self {
            first_depth: 1,
            last_depth: 1024,
            gain: 0.05,
            shares: vec![0.25, 0.5, 0.75, 0.9],
            target_us: None,
            achieved: 0.98,
            precision: 0.05,
        }
    }
}

/// A load to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// A closed loop with this many in flight.
    Depth(u32),
    /// An open loop with this many operations a second.
    Rate(u32),
}

/// A load that was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    pub load: Load,
    /// Achieved.
    pub ops_per_s: f64,
    /// Microseconds, at the percentile of the target.
    pub latency_us: f64,
}

/// What now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Decision {
    /// Measure this.
    Run(Load),
    /// All is known.
    Done(LadderResult),
}

/// What a ladder found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LadderResult {
    /// The best throughput of the closed loop.
    pub saturation: f64,
    /// The smallest depth that comes within the gain of it.
    pub depth: u32,
    /// Whether throughput had stopped growing; otherwise the last depth came first.
    pub saturated: bool,
    /// The highest rate that holds the target. None without a target, or if not even a hundredth of the saturation
    /// holds it.
    pub rate: Option<u32>,
}

/// Below this share of the saturation no rate is tried.
const LOWEST: f64 = 0.01;

/// The next step, given all so far in their order.
#[must_use]
pub fn next(rules: &Rules, steps: &[Step]) -> Decision {
    let climbed = match climb(rules, steps) {
        Ok(climbed) => climbed,
        Err(depth) => return Decision::Run(Load::Depth(depth)),
    };
    let share = rules.shares.iter().map(|share| to_rate(share * climbed.saturation));
    if let Some(rate) = share.into_iter().find(|&rate| verdict(rules, steps, rate).open()) {
        return Decision::Run(Load::Rate(rate));
    }
    match rules.target_us.map(|_| search(rules, steps, climbed.saturation)) {
        Some(Err(rate)) => Decision::Run(Load::Rate(rate)),
        Some(Ok(rate)) => Decision::Done(LadderResult { rate, ..climbed }),
        None => Decision::Done(climbed),
    }
}

/// The saturation, or the next depth.
fn climb(rules: &Rules, steps: &[Step]) -> Result<LadderResult, u32> {
    let first = rules.first_depth.max(1);
    let rungs: Vec<(u32, f64)> = steps
        .iter()
        .filter_map(|s| match s.load {
            Load::Depth(depth) => Some((depth, s.ops_per_s)),
            Load::Rate(_) => None,
        })
        .collect();
    let Some(&(last, _)) = rungs.last() else { return Err(first) };
    let (mut best, mut in_vain) = (0.0_f64, 0);
    for &(_, throughput) in &rungs {
        in_vain = if throughput > best * (1.0 + rules.gain) { 0 } else { in_vain + 1 };
        best = best.max(throughput);
    }
    let following = last.checked_mul(2).filter(|&depth| depth <= rules.last_depth);
    match following {
        Some(depth) if in_vain < 2 => Err(depth),
        _ => {
            let near = rungs.iter().find(|(_, throughput)| *throughput >= best / (1.0 + rules.gain));
            let depth = near.map_or(last, |(depth, _)| *depth);
            Ok(LadderResult { saturation: best, depth, saturated: in_vain >= 2, rate: None })
        }
    }
}

/// The highest rate that holds the target, or the next rate to try.
fn search(rules: &Rules, steps: &[Step], saturation: f64) -> Result<Option<u32>, u32> {
    let mut rates: Vec<u32> = steps
        .iter()
        .filter_map(|s| match s.load {
            Load::Rate(rate) => Some(rate),
            Load::Depth(_) => None,
        })
        .collect();
    rates.sort_unstable();
    rates.dedup();
    let judged = |rate: &u32| verdict(rules, steps, *rate);
    if let Some(&open) = rates.iter().find(|r| judged(r).open()) {
        return Err(open);
    }
    let failed = rates.iter().copied().find(|r| judged(r) == Verdict::Failed);
    let below = |rate: &&u32| failed.is_none_or(|f| **rate < f);
    let held = rates.iter().filter(below).rfind(|r| judged(r) == Verdict::Held).copied();
    let top = to_rate(saturation);
    match (held, failed) {
        (None, None) => Err(top),
        (Some(held), None) if held >= top => Ok(Some(held)),
        (Some(_), None) => Err(top),
        (None, Some(failed)) if f64::from(failed) / 2.0 < (saturation * LOWEST).max(1.0) => Ok(None),
        (None, Some(failed)) => Err(failed / 2),
        (Some(held), Some(failed)) => {
            let wide = f64::from(failed - held) > rules.precision * f64::from(failed);
            if wide && failed - held > 1 { Err(held + (failed - held) / 2) } else { Ok(Some(held)) }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Untried,
    Again,
    Held,
    Failed,
}

impl Verdict {
    /// Whether it must be run (again).
    fn open(self) -> bool {
        matches!(self, Self::Untried | Self::Again)
    }
}

fn verdict(rules: &Rules, steps: &[Step], rate: u32) -> Verdict {
    let of_rate = || steps.iter().filter(|s| s.load == Load::Rate(rate));
    let Some(target) = rules.target_us else {
        // Only measured, not judged.
        return if of_rate().next().is_some() { Verdict::Held } else { Verdict::Untried };
    };
    let holds = |s: &&Step| s.ops_per_s >= rules.achieved * f64::from(rate) && s.latency_us <= target;
    let (held, all) = (of_rate().filter(holds).count(), of_rate().count());
    match (held, all - held) {
        (0, 0) => Verdict::Untried,
        (_, 0) | (2.., _) => Verdict::Held,
        (_, 2..) => Verdict::Failed,
        _ => Verdict::Again,
    }
}

fn to_rate(rate: f64) -> u32 {
    // A float becomes the nearest integer that fits.
    rate.round().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Exp};
    use rand_pcg::Pcg64;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// Workers that serve one queue, first come first served; times in nanoseconds.
    struct Server {
        workers: usize,
        mean_us: f64,
        random: Pcg64,
    }

    impl Server {
        fn new(workers: usize, mean_us: f64) -> Self {
            Self { workers, mean_us, random: Pcg64::seed_from_u64(7) }
        }

        fn measure(&mut self, load: Load) -> Step {
            const OPERATIONS: u64 = 20_000;
            let service = Exp::new(1.0 / (self.mean_us * 1e3)).unwrap();
            let mut free: BinaryHeap<_> = (0..self.workers).map(|_| Reverse(0_u64)).collect();
            let mut arrivals: BinaryHeap<Reverse<u64>> = match load {
                Load::Depth(depth) => (0..depth).map(|_| Reverse(0)).collect(),
                Load::Rate(rate) => {
                    (0..OPERATIONS).map(|n| Reverse(n * 1_000_000_000 / u64::from(rate))).collect()
                }
            };
            let (mut latencies, mut end) = (Vec::new(), 0);
            for _ in 0..OPERATIONS {
                let Reverse(arrival) = arrivals.pop().unwrap();
                let Reverse(worker) = free.pop().unwrap();
                let done = arrival.max(worker) + service.sample(&mut self.random) as u64;
                free.push(Reverse(done));
                latencies.push(done - arrival);
                end = end.max(done);
                if matches!(load, Load::Depth(_)) {
                    arrivals.push(Reverse(done));
                }
            }
            latencies.sort_unstable();
            let p99 = latencies[latencies.len() * 99 / 100];
            Step { load, ops_per_s: OPERATIONS as f64 / end as f64 * 1e9, latency_us: p99 as f64 / 1e3 }
        }
    }

    fn climb_all(rules: &Rules, mut measure: impl FnMut(Load) -> Step) -> (LadderResult, Vec<Step>) {
        let mut steps = Vec::new();
        loop {
            match next(rules, &steps) {
                Decision::Run(load) => steps.push(measure(load)),
                Decision::Done(found) => return (found, steps),
            }
            assert!(steps.len() < 80, "no end: {steps:?}");
        }
    }

    #[test]
    fn the_saturation_of_a_server_is_found() {
        let mut server = Server::new(8, 1000.0);
        let (found, steps) = climb_all(&Rules { shares: vec![], ..Rules::default() }, |l| server.measure(l));
        assert!((found.saturation / 8000.0 - 1.0).abs() < 0.03, "{found:?}");
        assert!(found.saturated && found.depth == 8 && found.rate.is_none(), "{found:?}");
        let depths: Vec<_> = steps.iter().map(|s| s.load).collect();
        assert_eq!(depths, [1, 2, 4, 8, 16, 32].map(Load::Depth));
    }

    #[test]
    fn the_rate_that_holds_the_target_is_the_highest() {
        for (workers, target_us) in [(1, 30_000.0), (4, 8_000.0), (8, 6_000.0), (16, 7_000.0)] {
            let mut server = Server::new(workers, 1000.0);
            let rules = Rules { target_us: Some(target_us), ..Rules::default() };
            let (found, _) = climb_all(&rules, |l| server.measure(l));
            let rate = found.rate.unwrap();
            let at = |share: f64| {
                Server::new(workers, 1000.0).measure(Load::Rate(to_rate(f64::from(rate) * share)))
            };
            assert!(at(0.93).latency_us <= target_us, "{workers} workers: {rate}/s, {:?}", at(0.93));
            let above = at(1.1);
            let held = above.ops_per_s >= 0.98 * f64::from(rate) * 1.1 && above.latency_us <= target_us;
            assert!(
                !held || f64::from(rate) * 1.1 > found.saturation,
                "{workers} workers: {rate}/s, {above:?}"
            );
        }
    }

    #[test]
    fn a_target_below_the_service_time_is_held_by_no_rate() {
        let mut server = Server::new(4, 1000.0);
        let rules = Rules { target_us: Some(500.0), ..Rules::default() };
        assert_eq!(climb_all(&rules, |l| server.measure(l)).0.rate, None);
    }

    #[test]
    fn without_a_target_fixed_rates_are_measured_once_each() {
        let mut server = Server::new(4, 1000.0);
        let (found, steps) = climb_all(&Rules::default(), |l| server.measure(l));
        let rates: Vec<_> = steps.iter().filter(|s| matches!(s.load, Load::Rate(_))).collect();
        assert_eq!(rates.len(), 4);
        assert!((rates[1].ops_per_s / found.saturation - 0.5).abs() < 0.02);
    }

    #[test]
    fn the_last_depth_ends_the_climb_and_is_said() {
        let rules = Rules { first_depth: 3, last_depth: 20, shares: vec![], ..Rules::default() };
        let growing = |load| match load {
            Load::Depth(d) => Step { load, ops_per_s: f64::from(d), latency_us: 1.0 },
            Load::Rate(_) => unreachable!(),
        };
        let (found, steps) = climb_all(&rules, growing);
        assert_eq!(steps.iter().map(|s| s.load).collect::<Vec<_>>(), [3, 6, 12].map(Load::Depth));
        assert!(!found.saturated && found.depth == 12);
    }

    #[test]
    fn one_hiccup_ends_neither_the_climb_nor_the_search() {
        let mut calls = 0;
        let rules = Rules { target_us: Some(100.0), shares: vec![0.5], ..Rules::default() };
        let (found, _) = climb_all(&rules, |load| {
            calls += 1;
            match load {
                // Depth 4 is a hiccup; saturation is 1000/s from depth 16 on.
                Load::Depth(4) => Step { load, ops_per_s: 60.0, latency_us: 50.0 },
                Load::Depth(d) => {
                    Step { load, ops_per_s: (f64::from(d) * 62.5).min(1000.0), latency_us: 50.0 }
                }
                // So is the first try of half the saturation; 800/s is what holds.
                Load::Rate(r) => {
                    let bad = calls == 8 || r > 800;
                    Step { load, ops_per_s: f64::from(r), latency_us: if bad { 900.0 } else { 50.0 } }
                }
            }
        });
        assert_eq!((found.saturation, found.depth), (1000.0, 16));
        assert!((760..=800).contains(&found.rate.unwrap()), "{found:?}");
    }

    #[test]
    fn a_server_that_does_nothing_ends_the_ladder() {
        let rules = Rules { target_us: Some(100.0), ..Rules::default() };
        let (found, _) = climb_all(&rules, |load| Step { load, ops_per_s: 0.0, latency_us: 0.0 });
        assert_eq!((found.saturation, found.rate), (0.0, None));
    }
}
