//! The `loligo` command: a thin main for each subcommand. Decides nothing about storage.

mod ask;
mod detach;
mod export_file;
mod huge_pages;
mod log;
mod memory;
mod mon;
mod options_list;
mod panics;
mod plain;
mod start;
mod status;
mod stdout;
mod stop;
mod store;
mod store_bench;
mod store_convert;
mod store_expand;
mod store_log;
mod store_pgs;
mod up;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser, Subcommand};
use lab::output;
use signal_hook::consts::SIGXFSZ;

/// The cluster's directory where none is named, below the directory that the program is called in.
const DEFAULT_DIR: &str = "loligo-cluster";

/// A storage cluster for unmodified Ceph clients, in one small program.
#[derive(Parser)]
#[command(
    name = "loligo",
    version,
    after_help = "\
First steps:
  loligo up --dir /tmp/cluster --detach      start a cluster of three OSDs
  export CEPH_CONF=/tmp/cluster/ceph.conf    point Ceph's programs at it
  ceph -s                                    look at it
  ceph osd pool create mypool                make a pool
  rados -p mypool bench 5 write              put load on it
  loligo stop /tmp/cluster                   stop it; `up` brings it back"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster: a monitor and OSDs in this process.
    Up(up::Args),
    /// Show whether a directory's cluster runs, and its health.
    Status(status::Args),
    /// Stop a directory's cluster, or one OSD of it.
    Stop(stop::Args),
    /// Start an OSD of a running cluster again, with an empty store if asked.
    Start(start::Args),
    /// Check, convert, export and enlarge the stores of OSDs that do not run.
    Store(store::Args),
    /// Put load on a pool of any Ceph cluster and measure it.
    Bench(Box<bench::BenchArgs>),
    /// Mend the monitor of a directory's cluster.
    Mon(mon::Args),
    /// Run performance studies on Loligo and on real Ceph, and report them.
    Lab(lab::LabArgs),
    /// List the options, or explain one.
    Options(options_list::Args),
    /// Print a completion script for a shell.
    #[command(after_help = "\
To have the completions in every new shell:
  bash: put `source <(loligo completions bash)` into ~/.bashrc
  zsh:  put `source <(loligo completions zsh)` into ~/.zshrc, after compinit
  fish: loligo completions fish > ~/.config/fish/completions/loligo.fish")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Says that a directory has no cluster, and fails.
fn no_cluster(dir: &std::path::Path) -> ExitCode {
    let dir = dir.display();
    fail(&format!("{dir}: no cluster here; `loligo up --dir {dir}` makes one"))
}

/// Prints one clear sentence and fails.
fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("loligo: {error}");
    ExitCode::FAILURE
}

fn main() -> ExitCode {
    memory::keep_what_is_freed();
    memory::set_payload_apart();
    outlive_file_limit();
    if let Some(why) = stdout::why_unusable() {
        output::set_unusable(why);
    }
    let code = run(Cli::parse().command);
    match output::ended() {
        Ok(()) => code,
        Err(error) => fail(&format_args!("standard output: {error}")),
    }
}

/// A write behind the limit of a file's size (`ulimit -f`) is an error of that file, which says what failed, and not the process's end
/// by a signal, which says nothing. SIGXFSZ is handled in place of ignored, so that programs that are started have their own way.
fn outlive_file_limit() {
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, Arc::default()) {
        tracing::warn!("SIGXFSZ can't be handled: {error}");
    }
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Up(args) => up::run(args),
        Command::Status(args) => status::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Start(args) => start::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Mon(args) => mon::run(&args),
        Command::Lab(args) => lab::main(&args),
        Command::Options(args) => options_list::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "loligo", &mut script);
            output::write(String::from_utf8_lossy(&script));
            ExitCode::SUCCESS
        }
    }
}
