//! `loligo status`: whether a directory's cluster runs, and how it is.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use lab::output;

use crate::{DEFAULT_DIR, ask, fail, no_cluster};

/// Exit code for a cluster that does not run (as service managers have it).
const NOT_RUNNING: u8 = 3;

#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 when the cluster runs, 3 when it does not, 1 when DIR holds no cluster."
)]
pub struct Args {
    /// The cluster's directory.
    #[arg(default_value = DEFAULT_DIR, value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// `plain` or `json`.
    #[arg(short, long, default_value = "plain", value_parser = ["plain", "json"])]
    format: String,
}

pub fn run(args: &Args) -> ExitCode {
    let description = match host::inspect(&args.dir) {
        Ok(host::DirState::Cluster(description)) => description,
        Ok(host::DirState::Empty | host::DirState::Unfinished) => {
            return no_cluster(&args.dir);
        }
        Err(error) => return fail(&error),
    };
    let pid = host::holder(&args.dir);
    let answer = if pid.is_some() { ask::status(&args.dir) } else { Value::Null };
    // While a process runs, how the one before it ended does not matter any more.
    let failure = if pid.is_none() { host::last_failure(&args.dir) } else { None };
    let report = json!({
        "dir": args.dir.to_string_lossy(), "running": pid.is_some(), "pid": pid, "fsid": description.fsid,
        "store": description.store.as_str(), "osds": description.osds, "mon_addr": description.mon_addr,
        "cluster": answer, "last_failure": failure,
    });
    if args.format == "json" {
        output::line(format_args!("{report:#}"));
    } else {
        match pid {
            None => {
                output::line(format_args!("{}: not running", args.dir.display()));
                failure.iter().for_each(|why| output::line(format_args!("last failure: {why}")));
            }
            Some(pid) => output::line(format_args!(
                "{}: running (process {pid}), monitor {}, {} of {} OSDs up, {}",
                args.dir.display(),
                description.mon_addr,
                answer["osds_up"].as_u64().map_or("?".into(), |n| n.to_string()),
                description.osds,
                answer["health"].as_str().unwrap_or("health unknown"),
            )),
        }
        for check in answer["checks"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            output::line(format_args!("health: {check}"));
        }
        for (osd, state) in answer["osds"].as_object().into_iter().flatten() {
            match (state["state"].as_str(), state["reason"].as_str()) {
                (Some("active"), _) => {}
                (Some("failed"), reason) => output::line(format_args!(
                    "osd.{osd} failed: {}",
                    reason.unwrap_or("the reason is unknown")
                )),
                (state, _) => output::line(format_args!("osd.{osd}: {}", state.unwrap_or("unknown"))),
            }
        }
    }
    if pid.is_some() { ExitCode::SUCCESS } else { ExitCode::from(NOT_RUNNING) }
}
