//! `loligo stop`: ends a directory's cluster, or one OSD of it, and waits until that is gone.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use lab::output;
use serde_json::json;

use crate::{DEFAULT_DIR, ask, fail, no_cluster};

#[derive(clap::Args)]
#[command(after_help = "\
`loligo up --dir DIR` starts a stopped cluster again, with its data.

With --osd the process, its monitor and its other OSDs go on; `loligo start DIR --osd N` starts the OSD \
again, as does the next `loligo up`. Pools have one copy: while the OSD is down, requests for its objects \
wait.

Exit code: 0 when the cluster (or the OSD) does not run any more, 1 when it does, or DIR holds no cluster.")]
pub struct Args {
    /// The cluster's directory.
    #[arg(default_value = DEFAULT_DIR, value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Stop only this OSD.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    osd: Option<i32>,
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
            return no_cluster(&args.dir);
        }
        Err(error) => return fail(&error),
    }
    let Some(pid) = host::holder(&args.dir) else {
        output::line(format_args!("{dir}: not running"));
        return ExitCode::SUCCESS;
    };
    if let Some(osd) = args.osd {
        return stop_osd(args, osd);
    }
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

fn stop_osd(args: &Args, osd: i32) -> ExitCode {
    let request = json!({ "request": "stop-osd", "osd": osd });
    match ask::osd(&args.dir, request, Duration::from_secs(args.timeout.max(1))) {
        Ok(text) => {
            output::line(format_args!("{text}"));
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}
