//! A phase as a ladder: runs the steps that [`crate::ladder`] decides on, and marks what they found.

use labstats::histogram::Merged;
use results::{LadderPoint, Step};
use study::{Ladder, Phase};

use crate::error::{Error, Result};
use crate::ladder::{Decision, LadderResult, Load, Rules, next};
use crate::phase::PhaseResult;

/// Steps of a ladder at most: it decides for fewer by far; a fault in its rules must not measure for ever.
const STEPS: usize = 100;

/// In flight at most with a fixed rate: arrivals must not wait for answers while the memory of the requests is bounded.
const OPEN_DEPTH: u64 = 1024;

/// Bytes of those requests.
const OPEN_BYTES: u64 = 256 << 20;

/// What a step puts on.
pub(crate) struct Wanted {
    /// Unlike any other step's.
    pub label: String,
    /// In flight over all instances, with a rate at most.
    pub in_flight: u32,
    /// Operations a second over all instances.
    pub rate: Option<u32>,
}

/// Runs each phase of a load, as a ladder where there is one. What ended well is in `results`, also after an error.
/// `measure` runs a phase once: as the load says, or at a ladder's step.
pub(crate) fn run_phases(
    phases: &[Phase],
    ladder: Option<&Ladder>,
    (instances, block_size): (u32, u64),
    results: &mut Vec<PhaseResult>,
    mut measure: impl FnMut(Phase, Option<&Wanted>) -> Result<PhaseResult>,
) -> Result<()> {
    for &phase in phases {
        match ladder {
            None => results.push(measure(phase, None)?),
            Some(ladder) => {
                let climber = Climber { ladder, phase, instances, block_size };
                climber.climb(results, &mut |wanted| measure(phase, Some(wanted)))?;
            }
        }
    }
    Ok(())
}

/// Who climbs.
#[derive(Clone, Copy)]
pub(crate) struct Climber<'a> {
    pub ladder: &'a Ladder,
    pub phase: Phase,
    pub instances: u32,
    /// Bytes of a request.
    pub block_size: u64,
}

impl Climber<'_> {
    /// Measures until all is known. Steps that ended well are in `phases`, also after an error.
    pub fn climb(
        self,
        phases: &mut Vec<PhaseResult>,
        measure: &mut dyn FnMut(&Wanted) -> Result<PhaseResult>,
    ) -> Result<()> {
        let rules = rules(self.ladder);
        let first = phases.len();
        let mut steps = Vec::new();
        for number in 1..=STEPS {
            let load = match next(&rules, &steps) {
                Decision::Run(load) => load,
                Decision::Done(found) => {
                    mark(&found, &steps, phases.get_mut(first..).unwrap_or_default());
                    return Ok(());
                }
            };
            let wanted = self.wanted(number, load);
            let mut result = measure(&wanted)?;
            let step = self.judged(&rules, load, &result);
            let held = wanted.rate.map(|_| holds(&rules, &step));
            let (name, in_flight, rate) = (wanted.label, wanted.in_flight, wanted.rate);
            result.step = Some(Step { name, in_flight, rate, held, found: None });
            steps.push(step);
            phases.push(result);
        }
        Err(Error::Impossible { what: format!("a ladder of {STEPS} steps came to no end") })
    }

    fn wanted(&self, number: usize, load: Load) -> Wanted {
        let phase = self.phase.name();
        match load {
            Load::Depth(depth) => {
                Wanted { label: format!("{phase}.{number:02}-d{depth}"), in_flight: depth, rate: None }
            }
            Load::Rate(rate) => Wanted {
                label: format!("{phase}.{number:02}-r{rate}"),
                in_flight: self.open_depth(),
                rate: Some(rate),
            },
        }
    }

    /// A multiple of the instances, and no less than the deepest closed loop.
    fn open_depth(&self) -> u32 {
        let bounded = OPEN_DEPTH.min(OPEN_BYTES / self.block_size.max(1));
        let depth = u32::try_from(bounded).unwrap_or(u32::MAX).max(self.ladder.last_depth);
        depth.div_ceil(self.instances.max(1)).saturating_mul(self.instances.max(1))
    }

    fn judged(&self, rules: &Rules, load: Load, result: &PhaseResult) -> crate::ladder::Step {
        let latency_us = match (self.ladder.target, rules.target_us) {
            (Some(target), Some(_)) => percentile(result, target.percentile),
            _ => result.latency.mean_us,
        };
        crate::ladder::Step { load, ops_per_s: result.ops_per_s(), latency_us }
    }
}

fn rules(ladder: &Ladder) -> Rules {
    Rules {
        first_depth: ladder.first_depth,
        last_depth: ladder.last_depth,
        gain: ladder.gain,
        shares: ladder.rates.clone(),
        target_us: ladder.target.map(|t| t.latency_us),
        ..Rules::default()
    }
}

/// Where too few operations lie beyond the percentile, or there is no histogram, the largest latency: never too good.
fn percentile(result: &PhaseResult, percentile: f64) -> f64 {
    let mut all = Merged::default();
    let whole = result.latency.histogram.as_ref().is_some_and(|h| all.add(&h.buckets).is_ok());
    let found = if whole { all.percentile(percentile).ok() } else { None };
    found.unwrap_or(result.latency.max_us)
}

/// One run of a rate on its own: whether it is believed is the ladder's.
fn holds(rules: &Rules, step: &crate::ladder::Step) -> bool {
    let Load::Rate(rate) = step.load else { return false };
    let achieved = step.ops_per_s >= rules.achieved * f64::from(rate);
    achieved && rules.target_us.is_none_or(|target| step.latency_us <= target)
}

/// Marks the best depth, and the last run of the highest rate that held.
fn mark(found: &LadderResult, steps: &[crate::ladder::Step], phases: &mut [PhaseResult]) {
    let depths = steps.iter().enumerate().filter(|(_, s)| matches!(s.load, Load::Depth(_)));
    let best = depths.max_by(|a, b| a.1.ops_per_s.total_cmp(&b.1.ops_per_s)).map(|(at, _)| at);
    let rate = |p: &PhaseResult| p.step.as_ref().and_then(|s| s.rate.filter(|_| s.held == Some(true)));
    let held = found.rate.and_then(|wanted| phases.iter().rposition(|p| rate(p) == Some(wanted)));
    for (at, point) in [(best, LadderPoint::Saturation), (held, LadderPoint::HeldRate)] {
        let step = at.and_then(|at| phases.get_mut(at)).and_then(|p| p.step.as_mut());
        if let Some(step) = step {
            step.found = Some(point);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Instance;
    use results::{Histogram, Latency};
    use study::LatencyTarget;

    static LADDER: Ladder = Ladder {
        first_depth: 2,
        last_depth: 64,
        gain: 0.05,
        rates: Vec::new(),
        target: Some(LatencyTarget { percentile: 99.0, latency_us: 1000.0 }),
    };

    /// A server that does 1000/s from depth 16 on, and answers within 0.8 ms up to 700/s.
    fn measured(wanted: &Wanted) -> PhaseResult {
        let rate = f64::from(wanted.rate.unwrap_or_else(|| (wanted.in_flight * 63).min(1000))).min(1000.0);
        let slow = wanted.rate.is_some_and(|r| r > 700);
        let operations = (rate * 10.0) as u64;
        let bound = if slow { 5000.0 } else { 800.0 };
        let latency = Latency {
            mean_us: 300.0,
            max_us: 9000.0,
            histogram: Some(Histogram { buckets: vec![(bound, operations)] }),
        };
        let instance = Instance { seconds: 10.0, operations, latency, ..Instance::default() };
        PhaseResult::of(Phase::RandWrite, vec![instance]).unwrap()
    }

    fn climber(ladder: &Ladder) -> Climber<'_> {
        Climber { ladder, phase: Phase::RandWrite, instances: 2, block_size: 4096 }
    }

    #[test]
    fn a_trial_has_one_saturation_and_one_highest_rate() {
        let (mut phases, mut labels) = (Vec::new(), Vec::new());
        let mut measure = |wanted: &Wanted| {
            labels.push(wanted.label.clone());
            Ok(measured(wanted))
        };
        climber(&LADDER).climb(&mut phases, &mut measure).unwrap();
        let samples: Vec<_> =
            phases.iter().map(PhaseResult::measurement).filter_map(|m| Some((m.sample_of()?, m))).collect();
        let names: Vec<_> = samples.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["rand_write.saturation", "rand_write.held_rate"]);
        assert_eq!(samples[0].1.ops_per_s, 1000.0);
        assert!((660.0..=700.0).contains(&samples[1].1.ops_per_s), "{}", samples[1].1.ops_per_s);
        assert_eq!(labels[..2], ["rand_write.01-d2", "rand_write.02-d4"]);
        let missed = phases.iter().filter_map(|p| p.step.as_ref()).find(|s| s.rate == Some(1000)).unwrap();
        assert_eq!((missed.held, missed.in_flight), (Some(false), 1024));
    }

    #[test]
    fn too_few_operations_for_a_percentile_are_judged_by_the_largest() {
        let few = Histogram { buckets: vec![(10.0, 99)] };
        let latency = Latency { mean_us: 5.0, max_us: 77.0, histogram: Some(few) };
        let instance = Instance { seconds: 1.0, operations: 99, latency, ..Instance::default() };
        let result = PhaseResult::of(Phase::Read, vec![instance]).unwrap();
        assert_eq!((percentile(&result, 50.0), percentile(&result, 99.0)), (10.0, 77.0));
    }

    #[test]
    fn steps_before_a_failure_are_kept() {
        let mut phases = Vec::new();
        let mut measure = |wanted: &Wanted| match wanted.in_flight {
            8 => Err(Error::Stopped),
            _ => Ok(measured(wanted)),
        };
        assert!(climber(&LADDER).climb(&mut phases, &mut measure).is_err());
        assert_eq!(phases.len(), 2);
    }

    #[test]
    fn requests_of_a_fixed_rate_fit_in_memory_and_are_shared_evenly() {
        let big = Climber { instances: 3, block_size: 4 << 20, ..climber(&LADDER) };
        assert_eq!((big.open_depth(), climber(&LADDER).open_depth()), (66, 1024));
    }
}
