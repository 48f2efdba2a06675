//! Runs studies: the order of trials, resuming, progress, and the command line. Starts programs and reads files; never
//! speaks to a server itself.
//!
//! ```text
//! args --> prepare   the study checked, what can't run found, the plan, what it can show
//!      --> run       trials in order, resumed, stopped, confirmed
//!          trial     one trial: testbed + workload + observe -> a record
//!      --> judging   records -> labstats -> judgements
//! ```

mod args;
mod clock;
mod counting;
mod device;
mod dry_run;
mod error;
mod flags;
mod interrupt;
mod judging;
mod machine;
mod observe;
pub mod output;
mod preflight;
mod prepare;
mod profiling;
mod progress;
mod report;
mod resume;
mod run;
mod run_lock;
mod trial;

use std::process::ExitCode;

pub use args::LabArgs;
use args::LabCommand;
pub use error::LabError;

/// Runs a command of `loligo lab`. 0: done; 1: could not be done, or trials failed, the sentence is printed; 130: stopped
/// by the user.
pub fn main(args: &LabArgs) -> ExitCode {
    let result = match &args.command {
        LabCommand::Run(args) => run_and_report(args),
        LabCommand::Report(args) => report::report(args).map(drop),
        LabCommand::Compare(args) => report::compare(args),
        LabCommand::History(args) => report::history(args),
        LabCommand::Export(args) => report::export(args),
        LabCommand::Device(args) => device::device(args),
    };
    match result.and_then(|()| output::ended().map_err(LabError::file("standard output"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loligo lab: {error}");
            ExitCode::from(if matches!(error, LabError::Interrupted) { interrupt::STOPPED } else { 1 })
        }
    }
}

/// Runs a study, and reports it when it has ended.
fn run_and_report(args: &args::RunArgs) -> Result<(), LabError> {
    let result = run::run(args);
    let out = match &result {
        Ok(out) => out.clone(),
        Err(LabError::Interrupted | LabError::TrialFailed { .. }) => None,
        Err(_) => return result.map(drop),
    };
    if let Some(results) = out {
        let (failed, of) = report::report(&args::ReportArgs { results, out: None, one_sigma: false })?;
        if failed > 0 {
            return Err(LabError::TrialsFailed { failed, of });
        }
    }
    result.map(drop)
}
