//! Going to the background: the command starts itself again in a session of its own, with its output in DIR/log
//! once it is ready, and waits for its word.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use lab::output;

use crate::fail;

/// Set for the started process: its parent waits for a line on standard output.
const DETACHED: &str = "LOLIGO_DETACHED";

/// The lines that end what the waiting process passes on: OSDs serve, or the monitor alone does.
const READY: &str = "-- ready --";
const ALONE: &str = "-- ready without OSDs --";

/// Exit code where the monitor serves and no OSD does. (1 is that of a start that failed, 2 that of wrong arguments, and 3 means to `loligo
/// status` that nothing runs.)
pub const NO_OSD: u8 = 4;

/// Starts the same command without `--detach`, passes on what it says until it is ready, and leaves it.
pub fn run() -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return fail(&error),
    };
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1).filter(|a| a != "--detach")).env(DETACHED, "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A process group of its own, so that Ctrl-C in this terminal does not reach it.
    command.process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return fail(&error),
    };
    let words = child.stderr.take().map(|stderr| std::thread::spawn(move || pass_on(stderr)));
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match line.as_str() {
                READY => return ExitCode::SUCCESS,
                ALONE => return ExitCode::from(NO_OSD),
                // Where standard output is closed the line is lost, and the cluster starts all the same.
                _ => drop(writeln!(std::io::stdout(), "{line}")),
            }
        }
    }
    // It ended before it was ready: its last words and its code are ours.
    if let Some(words) = words {
        let _ = words.join();
    }
    match child.wait() {
        Ok(status) => ExitCode::from(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1)),
        Err(error) => fail(&error),
    }
}

/// Passes on what it says on standard error, when it says it.
fn pass_on(mut stderr: impl Read) {
    let mut words = [0; 4096];
    while let Ok(n @ 1..) = stderr.read(&mut words) {
        let _ = std::io::stderr().write_all(&words[..n]);
    }
}

/// In the process that goes on: ends the wait, and from here on writes nowhere but to the log. `has_osds`: whether any OSD
/// serves.
pub fn say_ready(has_osds: bool) {
    if std::env::var_os(DETACHED).is_none() {
        return;
    }
    output::line(if has_osds { READY } else { ALONE });
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
