//! `loligo stop`: ends a directory's cluster and waits until it is gone.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use lab::output;

use crate::fail;

#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 when the cluster does not run any more, 1 when it does, or DIR holds no cluster."
)]
pub struct Args {
    /// The cluster's directory.
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Seconds to wait for a clean end.
    #[arg(long, default_value_t = 30)]
    timeout: u64,
}

pub fn run(args: &Args) -> ExitCode {
    let dir = args.dir.display();
    match host::inspect(&args.dir) {
        Ok(host::DirState::Cluster(_)) => {}
        // A process that makes a cluster holds the directory before it is one.
        Ok(host::DirState::Empty | host::DirState::Unfinished) if host::holder(&args.dir).is_some() => {}
        Ok(host::DirState::Empty | host::DirState::Unfinished) => {
            return fail(&format!("{dir}: no cluster here; `loligo up --dir` makes one"));
        }
        Err(error) => return fail(&error),
    }
    let Some(pid) = host::holder(&args.dir) else {
        output::line(format_args!("{dir}: not running"));
        return ExitCode::SUCCESS;
    };
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return fail(&format!("{dir}/lock names no process"));
    };
    if let Err(error) = kill_process(process, Signal::TERM) {
        return fail(&format!("process {pid} can't be stopped: {error}"));
    }
    let end = Instant::now() + Duration::from_secs(args.timeout);
    let mut next_word = Instant::now() + Duration::from_secs(2);
    // The lock is free a moment before the process is gone, which still has its ports then.
    while host::holder(&args.dir) == Some(pid) || process::is_running(pid) {
        if Instant::now() > end {
            return fail(&format!("process {pid} still runs after {} s; its log is {dir}/log", args.timeout));
        }
        if Instant::now() > next_word {
            eprintln!("waiting for process {pid} to finish its writes");
            next_word += Duration::from_secs(5);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    output::line(format_args!("{dir}: stopped"));
    ExitCode::SUCCESS
}
