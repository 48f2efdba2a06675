//! `lab run`: the trials of a plan, one after the other; resumed, stopped by precision or budget, confirmed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use labstats::stop::{Decision, Limits, Widths, decide};
use results::{Directory, FORMAT, Record, RunInfo, Status};
use study::{Plan, Trial};
use testbed::{Site, Stop};

use crate::args::RunArgs;
use crate::clock;
use crate::error::LabError;
use crate::interrupt::Interrupt;
use crate::judging;
use crate::machine;
use crate::output;
use crate::prepare::{Prepared, StudyFile, duration, overhead_seconds, prepare};
use crate::progress::Progress;
use crate::resume::remaining;
use crate::run_lock;
use crate::trial::Bench;

/// Runs a study, or goes on with it. Gives the results' directory; nothing for a dry run.
pub(crate) fn run(args: &RunArgs) -> Result<Option<PathBuf>, LabError> {
    let interrupt = Interrupt::install();
    let mut site = Site::new(PathBuf::new());
    site.allowed_devices.clone_from(&args.devices);
    site.stop = Stop::new(interrupt.flag());
    let file = StudyFile::read(&args.study)?;
    let out = args.out.clone().unwrap_or_else(|| file.out());
    site.work_dir = args.work.clone().unwrap_or_else(|| out.join("work"));
    let prepared = prepare(file, args, &site)?;
    interrupt.starting();
    prepared.summary().iter().for_each(output::line);
    if args.dry_run {
        output::line(so_far(&prepared, &out)?);
        crate::dry_run::print(&prepared, &site);
        return Ok(None);
    }
    // What refuses the run comes before anything of it is written.
    begun(&prepared, &out)?;
    std::fs::create_dir_all(&out).map_err(LabError::file(&out))?;
    let _run_lock = run_lock::acquire(&out)?;
    let mut say = |words: &str| eprintln!("{words}");
    for note in testbed::clean_up(&site.work_dir, &mut say)? {
        eprintln!("{note}");
    }
    let directory = open(&prepared, &out, &site)?;
    let bench =
        Bench { prepared: &prepared, site: &site, directory: &directory, interrupt: &interrupt, args };
    let earlier_s = directory.records()?.records.iter().map(|r| r.took_s).sum();
    let began = Instant::now();
    Run { prepared: &prepared, bench, directory: &directory, interrupt: &interrupt, began, earlier_s }
        .all()?;
    Ok(Some(out))
}

fn hash(prepared: &Prepared) -> String {
    format!("{:08x}", buffer::crc32c(u32::MAX, &prepared.text))
}

/// The results of this very study that there are.
fn begun(prepared: &Prepared, out: &Path) -> Result<Option<Directory>, LabError> {
    if !out.join("run.json").exists() {
        return Ok(None);
    }
    let directory = Directory::open(out)?;
    let info = directory.info()?;
    match info.study_hash == hash(prepared) && info.seed == prepared.plan.seed {
        true => Ok(Some(directory)),
        false => Err(LabError::OtherStudy { path: out.to_owned() }),
    }
}

/// What a run would find done, in words.
fn so_far(prepared: &Prepared, out: &Path) -> Result<String, LabError> {
    let done = match begun(prepared, out) {
        Ok(None) => 0,
        Ok(Some(directory)) => {
            let trials = &prepared.plan.trials;
            trials.len() - remaining(trials, &directory.records()?.records, false).len()
        }
        Err(error @ LabError::OtherStudy { .. }) => return Ok(format!("not possible here: {error}")),
        Err(error) => return Err(error),
    };
    Ok(format!("{}: {done} of {} trials are done", out.display(), prepared.plan.trials.len()))
}

/// Opens a results directory of this very study, or makes one.
fn open(prepared: &Prepared, out: &Path, site: &Site) -> Result<Directory, LabError> {
    let earlier = begun(prepared, out)?;
    let plan = crate::dry_run::plan_json(prepared, site, earlier.as_ref())?;
    if let Some(directory) = earlier {
        directory.set_plan(&plan)?;
        return Ok(directory);
    }
    let mut notes = prepared.notes.clone();
    notes.extend(
        prepared.cells.iter().map(|((system, what), why)| format!("{system}, {}: {why}", what.name())),
    );
    let info = RunInfo {
        format: FORMAT,
        study: prepared.study.name.clone(),
        title: prepared.study.title.clone(),
        study_hash: hash(prepared),
        started: clock::now_text(),
        seed: prepared.plan.seed,
        machine: machine::look(out),
        notes,
    };
    Ok(Directory::create(out, &info, &prepared.text, &plan)?)
}

struct Run<'a> {
    prepared: &'a Prepared,
    bench: Bench<'a>,
    directory: &'a Directory,
    interrupt: &'a Interrupt,
    began: Instant,
    /// Seconds that the trials of earlier starts took: they count for the budget.
    earlier_s: f64,
}

/// Why there are no more trials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// All have been run.
    Done,
    /// Those that were run are enough.
    Precise,
    /// The budget allows no more.
    BudgetSpent,
}

impl Run<'_> {
    /// The samples, then what is profiled.
    fn all(&self) -> Result<(), LabError> {
        self.samples_all()?;
        self.trials(&self.prepared.profiles).map(drop)
    }

    /// The plan's trials, then those that confirm what they showed.
    fn samples_all(&self) -> Result<(), LabError> {
        let plan: &Plan = &self.prepared.plan;
        let end = self.trials(&plan.trials)?;
        let design = &self.prepared.study.design;
        let is_judged = matches!(design.rule, study::Rule::Adjusted(_));
        if end == End::BudgetSpent || !design.confirm || !is_judged {
            return Ok(());
        }
        let judged = judging::judge_first(&self.samples()?, design);
        let flagged = judging::flagged(&self.prepared.study, &judged);
        if flagged.is_empty() {
            return Ok(());
        }
        eprintln!("{} cells differ from their default: they are run once more to confirm", flagged.len());
        // Once more is as many blocks as were run.
        let records = self.records()?;
        let blocks = plan.trials.iter().filter(|t| records.iter().any(|r| r.id == t.id)).map(|t| t.block + 1);
        let blocks = blocks.max().unwrap_or(1);
        let confirming = plan.confirm(&self.prepared.study, &flagged).into_iter();
        let confirming: Vec<Trial> =
            confirming.filter(|t| t.block.saturating_sub(design.blocks) < blocks).collect();
        self.trials(&confirming).map(drop)
    }

    fn records(&self) -> Result<Vec<Record>, LabError> {
        let found = self.directory.records()?;
        if let Some(words) = found.torn {
            eprintln!("{words}");
        }
        Ok(found.records)
    }

    fn samples(&self) -> Result<judging::Samples, LabError> {
        let variants: Vec<String> = self.prepared.study.variants.iter().map(|v| v.name.clone()).collect();
        Ok(judging::samples(&self.records()?, &variants))
    }

    /// Runs what is left of some trials. What limits there are is looked at before each block.
    fn trials(&self, trials: &[Trial]) -> Result<End, LabError> {
        let records = self.records()?;
        let left = remaining(trials, &records, self.bench.args.retry_failed);
        if left.len() < trials.len() {
            eprintln!("{} of {} trials are done already", trials.len() - left.len(), trials.len());
        }
        let mut progress = Progress::new(&self.prepared.study, &left, &overhead_seconds);
        let mut appender = self.directory.appender()?;
        // A block that was begun is ended; the first one is always run.
        let begun =
            |trial: &Trial| records.iter().any(|r| r.block == trial.block && r.confirms == trial.confirms);
        let mut block = left.first().filter(|t| records.is_empty() || begun(t)).map(|t| t.block);
        for trial in &left {
            if block != Some(trial.block) {
                block = Some(trial.block);
                let end = self.end(trial, &progress)?;
                if end != End::Done {
                    return Ok(end);
                }
            }
            progress.begin(trial);
            let record = self.bench.run(trial, &mut progress);
            appender.append(&record)?;
            progress.end(&record);
            self.after(&record)?;
        }
        Ok(End::Done)
    }

    /// What a trial's end means for the run.
    fn after(&self, record: &Record) -> Result<(), LabError> {
        if self.interrupt.is_set() || record.outcome.status == Status::Interrupted {
            return Err(LabError::Interrupted);
        }
        let stops = self.prepared.study.design.on_failure == study::OnFailure::Stop;
        if record.outcome.status == Status::Failed && stops {
            return Err(LabError::TrialFailed { id: record.id.clone(), words: record.outcome.error.clone() });
        }
        Ok(())
    }

    /// Whether the run ends before the block of this trial: never decided by significance. What confirms is as many
    /// blocks as what it confirms, however precise that was; what is profiled is no sample.
    fn end(&self, next: &Trial, progress: &Progress) -> Result<End, LabError> {
        let design = &self.prepared.study.design;
        let limits = Limits {
            precision: design.stop.precision.filter(|_| !next.confirms && !next.profiled),
            budget_s: design.stop.budget.map(|seconds| seconds as f64),
        };
        if limits == Limits::default() {
            return Ok(End::Done);
        }
        let cells = judging::planned(&self.prepared.study, &self.prepared.plan, self.samples()?);
        let spent = self.earlier_s + self.began.elapsed().as_secs_f64();
        let block_s = progress.block_seconds(next.block);
        match decide(&limits, &Widths::of(&cells, design.confidence), spent, block_s) {
            Decision::GoOn => Ok(End::Done),
            Decision::Precise => {
                eprintln!("every interval is as narrow as asked: the run ends here");
                Ok(End::Precise)
            }
            Decision::BudgetSpent => {
                eprintln!("the next block would take {}: more than is left of the budget", duration(block_s));
                Ok(End::BudgetSpent)
            }
        }
    }
}
