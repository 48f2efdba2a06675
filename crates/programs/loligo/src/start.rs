//! `loligo start`: starts one OSD of a running cluster again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lab::output;
use serde_json::json;

use crate::{DEFAULT_DIR, ask, fail, no_cluster};

#[derive(clap::Args)]
#[command(after_help = "\
To start a whole cluster that does not run: loligo up --dir DIR

An OSD that was stopped, or that failed, is opened again from its store and joins its cluster:
  loligo start /tmp/cluster --osd 1

Where its disk is lost, --replace gives it an empty store under the same number. What the OSD held is \
given up. Where the OSD has the only copy of anything, the command refuses and says what to add. PGs whose \
only copy it had stay stale or unknown until `ceph osd force-create-pg PGID --yes-i-really-mean-it` makes \
them again, empty. Where no new store can be made, the OSD keeps the one that it has.")]
pub struct Args {
    /// The cluster's directory.
    #[arg(default_value = DEFAULT_DIR, value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// The OSD's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    osd: i32,
    /// Give it an empty store; the present one is moved into DIR/osd.N/replaced-1 (2, 3, ...).
    #[arg(long)]
    replace: bool,
    /// With --replace: also if objects are lost for ever by it.
    #[arg(long, requires = "replace")]
    yes_i_really_mean_it: bool,
    /// Seconds to wait until it is up.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
}

pub fn run(args: &Args) -> ExitCode {
    let found = match host::inspect(&args.dir) {
        Ok(found) => found,
        Err(error) => return fail(&error),
    };
    if host::holder(&args.dir).is_none() {
        if !matches!(found, host::DirState::Cluster(_)) {
            return no_cluster(&args.dir);
        }
        let dir = args.dir.display();
        return fail(&format!("{dir}: not running; `loligo up --dir {dir}` starts it with all its OSDs"));
    }
    let request = json!({
        "request": "start-osd", "osd": args.osd, "replace": args.replace, "confirmed": args.yes_i_really_mean_it,
    });
    match ask::osd(&args.dir, request, Duration::from_secs(args.timeout.max(1))) {
        Ok(text) => {
            output::line(format_args!("{text}"));
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}
