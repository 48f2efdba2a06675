//! The main thread: starts the instances, prints their progress, adds up what they measured.

use core::time::Duration;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;

use lab::output;
use runtime::Clock;
use types::UTime;

use crate::args::{BenchArgs, Format, Wanted};
use crate::cleanup;
use crate::error::BenchError;
use crate::instance::{Ended, Given};
use crate::report::{Results, json_second, progress_head, progress_line};
use crate::session::{Access, Session};
use crate::spec::Spec;
use crate::tally::Interval;
use crate::unfinished;

/// The command line is wrong.
const USAGE: u8 = 2;
/// Only a part of the run was measured, or objects are left.
const PARTIAL: u8 = 3;

/// Between the word that all are ready and the start, so that all begin together.
const START_DELAY: Duration = Duration::from_millis(20);

/// Lines of progress before the table's head is printed again.
const HEAD_EVERY: u64 = 20;

/// What all instances look at.
#[derive(Default, Debug)]
pub(crate) struct Stage {
    /// By a signal.
    interrupted: Arc<AtomicBool>,
    /// By a failure.
    stopped: AtomicBool,
    /// When the measurement begins, in nanoseconds since 1970; 0 before that is known.
    start: AtomicU64,
    /// All have measured.
    cleanup: AtomicBool,
}

impl Stage {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// No more operations are to be begun.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.is_interrupted()
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn start(&self) -> Option<UTime> {
        let nanos = self.start.load(Ordering::Acquire);
        (nanos > 0).then(|| UTime::from_nanos(nanos))
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.start().is_some()
    }

    fn begin(&self, at: UTime) {
        self.start.store(at.as_nanos(), Ordering::Release);
    }

    pub(crate) fn may_clean_up(&self) -> bool {
        self.cleanup.load(Ordering::Relaxed)
    }

    fn clean_up(&self) {
        self.cleanup.store(true, Ordering::Relaxed);
    }
}

/// What an instance says while it runs.
#[derive(Debug)]
pub(crate) enum Note {
    /// So many objects of so many bytes in all are written first.
    Filling(u64, u64),
    Ready,
    Interval(usize, Interval),
    Measured,
    /// Its thread ends.
    Ended,
}

/// Runs `loligo bench`.
pub fn main(args: &BenchArgs) -> ExitCode {
    let usage = |error: String| {
        eprintln!("loligo bench: {error}");
        ExitCode::from(USAGE)
    };
    let wanted = match args.wanted() {
        Ok(wanted) => wanted,
        Err(error) => return usage(error),
    };
    let access = match args.access() {
        Ok(access) => access,
        Err(error) => return fail(&error),
    };
    match wanted {
        Wanted::Bench(spec) => bench(args, spec, access),
        Wanted::Cleanup { pools, run_name, prefix } => {
            match remove(&access, &pools, run_name.as_deref(), prefix.as_deref()) {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => ExitCode::FAILURE,
                Err(error) => fail(&error),
            }
        }
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("loligo bench: {error}");
    ExitCode::FAILURE
}

/// Removes what runs have left. Whether there was anything to remove in every pool.
fn remove(
    access: &Access,
    pools: &[String],
    run_name: Option<&str>,
    prefix: Option<&str>,
) -> Result<bool, BenchError> {
    let mut session = Session::open(access, 64, Clock::start(), Arc::default(), 0)?;
    let mut found = true;
    for pool in pools {
        match prefix {
            Some(prefix) => {
                let removed = cleanup::by_prefix(&mut session, pool, prefix)?;
                output::line(format_args!("{pool}: removed {removed} objects"));
            }
            None => found &= remove_runs(&mut session, pool, run_name)?,
        }
    }
    Ok(found)
}

/// Removes the objects of a run that has kept them, and of runs that were killed. Whether there were any.
fn remove_runs(session: &mut Session, pool: &str, run_name: Option<&str>) -> Result<bool, BenchError> {
    let by_record = cleanup::by_record(session, pool, run_name)?;
    if let Some(removed) = by_record {
        output::line(format_args!("{pool}: removed {removed} objects"));
    }
    let unfinished = unfinished::remove_unfinished(session, pool, run_name)?;
    for (prefix, removed) in &unfinished.removed {
        output::line(format_args!("{pool}: removed {removed} objects of a run that did not end ({prefix})"));
    }
    for prefix in &unfinished.perhaps_running {
        eprintln!(
            "loligo bench: {pool}: a run with objects {prefix} may be going on; --prefix {prefix} removes them"
        );
    }
    let found = by_record.is_some() || !unfinished.removed.is_empty();
    if !found {
        let record = crate::names::record(run_name, 0);
        eprintln!("loligo bench: {pool}: no run's record '{record}'; --prefix removes objects by name");
    }
    Ok(found)
}

fn bench(args: &BenchArgs, spec: Spec, access: Access) -> ExitCode {
    let stage = Arc::new(Stage::default());
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends the process at once.
        let flag = &stage.interrupted;
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone());
        let _ = signal_hook::flag::register(signal, flag.clone());
    }
    let run = Run { spec: Arc::new(spec), stage, format: args.format() };
    let results = match run.all(&access) {
        Ok(results) => results,
        Err(error) => return fail(&error),
    };
    let text = results.text(args.format());
    match args.output() {
        None => output::write(text),
        Some(path) => {
            if let Err(error) = std::fs::write(path, text) {
                return fail(&BenchError::Output(path.display().to_string(), error));
            }
        }
    }
    for warning in results.warnings() {
        eprintln!("loligo bench: {warning}");
    }
    if results.is_well() { ExitCode::SUCCESS } else { ExitCode::from(PARTIAL) }
}

struct Run {
    spec: Arc<Spec>,
    stage: Arc<Stage>,
    format: Format,
}

type Handle = JoinHandle<Result<Ended, BenchError>>;

impl Run {
    fn all(self, access: &Access) -> Result<Results, BenchError> {
        let (sender, notes) = channel();
        let clock = Clock::start();
        let mut handles: Vec<Handle> = Vec::new();
        for number in 0..self.spec.instances {
            let given = Given {
                spec: self.spec.clone(),
                access: access.clone(),
                number,
                clock,
                stage: self.stage.clone(),
                notes: sender.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("bench-{number}"));
            let main = move || {
                let result = given.run();
                if result.is_err() {
                    given.stage.stop();
                }
                // The main thread waits for it.
                let _ = given.notes.send(Note::Ended);
                result
            };
            handles.push(thread.spawn(main).map_err(BenchError::Thread)?);
        }
        drop(sender);
        let intervals = self.follow(&notes, clock);
        let ended: Vec<_> = handles.into_iter().enumerate().map(|(n, handle)| joined(n, handle)).collect();
        // Of several errors, one that is not that another instance failed.
        let mut results = Results::new(self.spec.clone(), self.stage.is_interrupted(), intervals);
        let mut first = None;
        for result in ended {
            match result {
                Ok(ended) => results.add(ended),
                Err(error) => {
                    let later = match &first {
                        Some(first) if !is_of_another(first) => error,
                        _ => match first.replace(error) {
                            Some(earlier) => earlier,
                            None => continue,
                        },
                    };
                    // What it has left.
                    if matches!(later, BenchError::InterruptedFill { .. }) {
                        eprintln!("loligo bench: {later}");
                    }
                }
            }
        }
        match first {
            Some(error) if !results.has_any() => Err(error),
            Some(error) => {
                results.failed(error.to_string());
                Ok(results)
            }
            None => Ok(results),
        }
    }

    /// Follows the instances until all have ended. What they did in each second.
    fn follow(&self, notes: &Receiver<Note>, clock: Clock) -> Vec<Interval> {
        let count = self.spec.instances;
        let (mut ready, mut measured, mut ended) = (0, 0, 0);
        let mut seconds = Seconds::new(count);
        let mut fill = (0, 0, 0);
        while ended < count {
            let note = match notes.recv_timeout(Duration::from_secs(1)) {
                Ok(note) => note,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match note {
                Note::Filling(objects, bytes) => {
                    fill = (fill.0 + 1, fill.1 + objects, fill.2 + bytes);
                    if fill.0 == count {
                        let size = text::format_bytes(fill.2);
                        self.say(&format!("Preparing {} objects of {size} in all", fill.1));
                    }
                }
                Note::Ready => {
                    ready += 1;
                    if ready == count {
                        self.say(&self.spec.heading());
                        self.say(&progress_head());
                        self.stage.begin(clock.now().after(START_DELAY));
                    }
                }
                Note::Interval(instance, interval) => {
                    for second in seconds.add(instance, interval) {
                        self.say_second(second);
                    }
                }
                Note::Measured => measured += 1,
                Note::Ended => ended += 1,
            }
            if measured > 0 && measured + ended >= count {
                self.stage.clean_up();
            }
        }
        seconds.rest().iter().for_each(|second| self.say_second(second));
        seconds.all
    }

    fn say_second(&self, second: &Interval) {
        if self.format == Format::JsonLines {
            return output::line(json_second(second));
        }
        if u64::from(second.second) % HEAD_EVERY == 0 {
            self.say(&progress_head());
        }
        self.say(&progress_line(second));
    }

    /// Says something that is no result.
    fn say(&self, text: &str) {
        match self.format {
            Format::Plain => output::line(text),
            Format::Json { .. } | Format::JsonLines => eprintln!("{text}"),
        }
    }
}

/// Whether an instance ended because another one did, or all were to.
fn is_of_another(error: &BenchError) -> bool {
    matches!(error, BenchError::Interrupted | BenchError::InterruptedFill { .. })
}

fn joined(number: usize, handle: Handle) -> Result<Ended, BenchError> {
    handle.join().unwrap_or(Err(BenchError::Panicked(number)))
}

/// The seconds of all instances, put together.
struct Seconds {
    /// The last second that each instance has sent.
    sent: Vec<u32>,
    by_second: BTreeMap<u32, Interval>,
    /// Those that are whole.
    all: Vec<Interval>,
}

impl Seconds {
    fn new(instances: usize) -> Self {
        Self { sent: vec![0; instances], by_second: BTreeMap::new(), all: Vec::new() }
    }

    /// Takes an instance's second. The seconds that are whole by that.
    fn add(&mut self, instance: usize, interval: Interval) -> &[Interval] {
        if let Some(sent) = self.sent.get_mut(instance) {
            *sent = interval.second;
        }
        self.by_second.entry(interval.second).or_insert_with(|| first(&interval)).merge(&interval);
        let whole = self.sent.iter().min().copied().unwrap_or(0);
        let later = self.by_second.split_off(&(whole + 1));
        let before = self.all.len();
        self.all.extend(std::mem::replace(&mut self.by_second, later).into_values());
        &self.all[before..]
    }

    /// The seconds that not all instances have reached.
    fn rest(&mut self) -> &[Interval] {
        let before = self.all.len();
        self.all.extend(std::mem::take(&mut self.by_second).into_values());
        &self.all[before..]
    }
}

/// A second in which nothing has happened yet.
fn first(interval: &Interval) -> Interval {
    Interval { second: interval.second, ..Interval::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u32, operations: u64) -> Interval {
        Interval { second, seconds: 1.0, operations, ..Interval::default() }
    }

    #[test]
    fn a_second_is_whole_when_every_instance_has_sent_it() {
        let mut seconds = Seconds::new(2);
        assert!(seconds.add(0, second(1, 10)).is_empty());
        assert!(seconds.add(0, second(2, 20)).is_empty());
        let whole: Vec<u64> = seconds.add(1, second(1, 5)).iter().map(|s| s.operations).collect();
        assert_eq!(whole, [15]);
        assert_eq!(seconds.rest().iter().map(|s| s.operations).collect::<Vec<_>>(), [20]);
        assert_eq!(seconds.all.len(), 2);
    }
}
