//! What profiled trials showed: flame graphs of the servers, seek plots of their devices.

use results::{Measurement, PhaseProfile, Record, Status};

use super::trials::{load_words, loop_words};
use crate::charts::flame::{Flame, leaves};
use crate::charts::seeks::Seeks;
use crate::input::Input;
use crate::quantity::{fixed, number};

/// A profiled phase of a trial.
pub struct Profiled<'a> {
    /// The trial.
    pub record: &'a Record,
    /// The phase, or the step of a ladder.
    pub measurement: &'a Measurement,
    /// What was seen.
    pub profile: PhaseProfile,
}

/// Every profiled phase, in the order of the trials.
pub fn profiled<'a>(input: &'a Input) -> Vec<Profiled<'a>> {
    let phases = input.profiled.iter().flat_map(|r| r.measurements.iter().map(move |m| (r, m)));
    let of = |(record, measurement): (&'a Record, &'a Measurement)| {
        let profile = (input.profile)(&record.id, measurement.name())?;
        Some(Profiled { record, measurement, profile })
    };
    phases.filter_map(of).collect()
}

impl Profiled<'_> {
    /// `write of bench on ceph-16.2, default`.
    pub fn name(&self) -> String {
        let p = &self.record.parameters;
        format!("{} of {} on {}, {}", self.measurement.words(), p.workload, p.system, p.variant)
    }

    /// The flame graph's data; `None` where stacks were not looked at.
    pub fn flame(&self) -> Option<Flame> {
        let stacks = self.profile.stacks.as_ref()?;
        let most = leaves(&stacks.counts, 3).into_iter();
        let most: Vec<String> =
            most.map(|(name, share)| format!("{name} {}%", number(share * 100.0))).collect();
        let mut below = format!(
            "{} samples of the servers, {} a second on each core; {}. Most ended in: {}. [cut]: the stack was deeper than is kept.",
            fixed(stacks.samples() as f64, 0),
            stacks.hertz,
            load_words(self.record, loop_words(self.record)),
            most.join("; ")
        );
        if stacks.left_out > 0 {
            below += &format!(" Samples left out: {}.", stacks.left_out);
        }
        let title = format!("Where the servers' time went: {}", self.name());
        Some(Flame { title, below, stacks: stacks.counts.clone() })
    }

    /// The seek plots' data, one for each device.
    pub fn seeks(&self) -> Vec<Seeks> {
        let of = |requests: &results::Requests| {
            let sum = |of: fn(&results::RequestSecond) -> u64| requests.seconds.iter().map(of).sum::<u64>();
            let (seeks, moves) = (sum(|s| s.seeks), sum(|s| s.reads) + sum(|s| s.writes));
            let mut below = format!(
                "{}. Requests: {}; of them not where the last one ended: {}",
                load_words(self.record, loop_words(self.record)),
                fixed(moves as f64, 0),
                fixed(seeks as f64, 0)
            );
            if seeks > 0 {
                let far = sum(|s| s.distance) as f64 / seeks as f64 / 2048.0;
                below += &format!(", {} MiB away on average", number(far));
            }
            if requests.one_of > 1 {
                below += &format!(". One of {} is drawn", requests.one_of);
            }
            if requests.lost > 0 {
                below += &format!(". The kernel lost {}", requests.lost);
            }
            let title = format!("Requests to {}: {}", requests.device, self.name());
            Seeks { title, below, requests: requests.clone() }
        };
        self.profile.requests.iter().map(of).collect()
    }

    /// Sentences on what could not be had.
    pub fn notes(&self) -> Vec<String> {
        let of_stacks = self.profile.stacks.iter().map(|s| (&s.note, "no flame graph".to_owned()));
        let of_requests =
            self.profile.requests.iter().map(|r| (&r.note, format!("no seek plot of {}", r.device)));
        let said = of_stacks.chain(of_requests).filter(|(note, _)| !note.is_empty());
        said.map(|(note, what)| format!("{}: {what}: {note}", self.name())).collect()
    }
}

/// Sentences on profiled trials that failed.
pub fn failures(input: &Input) -> Vec<String> {
    let failed = input.profiled.iter().filter(|r| r.outcome.status == Status::Failed);
    failed.map(|r| format!("{} failed: {}", r.id, r.outcome.error)).collect()
}
