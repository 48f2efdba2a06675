//! `loligo mon rebuild`: makes the state of a lost or damaged monitor again.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::output;

use crate::fail;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make the monitor's state again from what the OSDs keep.
    #[command(after_help = "\
The cluster must be stopped. Every OSD keeps the maps of the last time; from the newest of them come the pools, the OSDs \
and where everything is. Objects are not touched. Lost are the stored options (`ceph config set`), entities and their keys \
(`ceph auth`), config keys and the cluster log: only the monitor had them.

The former state is moved to DIR/mon.lost-1 (2, 3, ...). A state that can be used is left alone, unless --force.")]
    Rebuild {
        /// The cluster's directory.
        #[arg(value_hint = clap::ValueHint::DirPath)]
        dir: PathBuf,
        /// Also if the present state can be used.
        #[arg(long)]
        force: bool,
    },
}

pub fn run(args: &Args) -> ExitCode {
    let Command::Rebuild { dir, force } = &args.command;
    let done = match host::rebuild_monitor(dir, *force) {
        Ok(done) => done,
        Err(error) => return fail(&error),
    };
    let pools = match done.pools.as_slice() {
        [] => "no pools".to_owned(),
        pools => format!("the pools {}", pools.join(", ")),
    };
    output::line(format!(
        "The monitor's state was made again from map {} of osd.{}, with {pools}. It begins with map {}.",
        done.found_epoch, done.source, done.epoch
    ));
    output::line(
        "Stored options, entities and their keys, config keys and the cluster log are lost: set them again.",
    );
    for (osd, why) in &done.unread {
        output::line(format!("Note: osd.{osd} was not asked: {why}"));
    }
    if let Some(former) = &done.former {
        output::line(format!("The former state is in {}.", former.display()));
    }
    output::line(format!("Start the cluster:  loligo up --dir {}", dir.display()));
    ExitCode::SUCCESS
}
