//! What the user sees while trials run: which one, what it is doing, how long it will take.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use results::{Record, Status};
use study::{Study, System, Trial};

use crate::prepare::duration;

/// Progress of some trials.
pub(crate) struct Progress {
    /// Estimated seconds by trial, until a trial of the same kind was measured.
    expected: Vec<(u32, usize, f64)>,
    /// Measured seconds over estimated ones, by system.
    pace: BTreeMap<usize, f64>,
    done: usize,
    began: Instant,
    tty: bool,
    line: String,
}

impl Progress {
    pub fn new(study: &Study, trials: &[Trial], overhead: &dyn Fn(&System) -> f64) -> Self {
        let seconds = |trial: &Trial| study::trial_seconds(study, trial, overhead);
        Self {
            expected: trials.iter().map(|t| (t.block, t.cell.system, seconds(t))).collect(),
            pace: BTreeMap::new(),
            done: 0,
            began: Instant::now(),
            tty: std::io::stderr().is_terminal(),
            line: String::new(),
        }
    }

    /// Seconds of what is left, by what was measured so far.
    pub fn left_seconds(&self) -> f64 {
        self.expected.iter().skip(self.done).map(|e| self.scaled(e)).sum()
    }

    /// Seconds that a block will take.
    pub fn block_seconds(&self, block: u32) -> f64 {
        self.expected.iter().filter(|e| e.0 == block).map(|e| self.scaled(e)).sum()
    }

    fn scaled(&self, (_, system, seconds): &(u32, usize, f64)) -> f64 {
        seconds * self.pace.get(system).copied().unwrap_or(1.0)
    }

    /// A trial begins.
    pub fn begin(&mut self, trial: &Trial) {
        self.began = Instant::now();
        let left = duration(self.left_seconds());
        self.line = format!("[{}/{}, {left} left] {}", self.done + 1, self.expected.len(), trial.id);
        self.step("");
    }

    /// What the trial is doing; rewritten on a terminal, silent elsewhere.
    pub fn step(&mut self, words: &str) {
        if self.tty {
            eprint!("\r\x1b[K{} {words}", self.line);
            // A terminal that is gone is no reason to stop.
            let _ = std::io::stderr().flush();
        }
    }

    /// A trial has ended: a line that stays.
    pub fn end(&mut self, record: &Record) {
        let took = self.began.elapsed().as_secs_f64();
        if let Some((_, system, seconds)) = self.expected.get(self.done) {
            if record.outcome.status == Status::Ok && *seconds > 0.0 {
                self.pace.insert(*system, took / seconds);
            }
        }
        self.done += 1;
        let clear = if self.tty { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{}: {}", self.line, result_words(record));
    }
}

/// A trial's result in a line.
fn result_words(record: &Record) -> String {
    match record.outcome.status {
        Status::Ok => {
            let phases = record.measurements.iter().filter_map(|m| {
                let unsteady = if m.steady == Some(false) { " (unsteady)" } else { "" };
                let name = m.sample_of()?;
                // A rate means nothing for a command that ran once.
                Some(match m.operations {
                    1 => format!("{name} {:.1} s{unsteady}", m.seconds),
                    _ => format!("{name} {:.0}/s{unsteady}", m.ops_per_s),
                })
            });
            phases.collect::<Vec<_>>().join(", ")
        }
        Status::Failed => format!("FAILED: {}", record.outcome.error.lines().collect::<Vec<_>>().join(" / ")),
        Status::Interrupted => "interrupted; it will be run again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use results::{Measurement, Outcome};

    use super::*;
    use crate::resume::tests::record;

    #[test]
    fn a_command_is_told_in_seconds_and_a_load_by_its_rate() {
        let measured = |phase: &str, operations, seconds| Measurement {
            phase: phase.to_owned(),
            operations,
            seconds,
            ops_per_s: operations as f64 / seconds,
            ..Measurement::default()
        };
        let mut record = record(0, Status::Ok);
        record.measurements = vec![measured("run", 1, 11.84), measured("write", 5000, 2.0)];
        assert_eq!(result_words(&record), "run 11.8 s, write 2500/s");
        record.outcome = Outcome { status: Status::Failed, error: "a\nb".into(), logs: String::new() };
        assert_eq!(result_words(&record), "FAILED: a / b");
    }
}
