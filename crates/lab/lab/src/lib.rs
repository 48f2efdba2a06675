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
mod dry_run;
mod error;
mod interrupt;
mod judging;
mod machine;
mod needs;
mod observe;
mod prepare;
mod progress;
mod resume;
mod run;
mod trial;

use std::process::ExitCode;

pub use args::LabArgs;
use args::LabCommand;
pub use error::LabError;

/// Runs a command of `loligo lab`. 0: done; 1: could not be done, the sentence is printed; 130: stopped by the user.
pub fn main(args: &LabArgs) -> ExitCode {
    let result = match &args.command {
        LabCommand::Run(args) => run::run(args).map(drop),
        LabCommand::Report(_) | LabCommand::Compare(_) | LabCommand::History(_) | LabCommand::Export(_) => {
            Err(LabError::Nothing("not yet".to_owned()))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loligo lab: {error}");
            ExitCode::from(if matches!(error, LabError::Interrupted) { 130 } else { 1 })
        }
    }
}
