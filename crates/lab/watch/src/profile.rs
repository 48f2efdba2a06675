//! Where servers spend their time: `perf record` on them while a phase runs, then its stacks.
//!
//! Stacks are unwound by the programs' own tables (`--call-graph dwarf`): neither Loligo nor Debian's Ceph keep frame
//! pointers. A copy of the top of the stack comes with each sample, so nothing here is cheap: a profiled trial is no
//! sample of anything.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use process::End;
use results::Stacks;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::stacks::Folding;

/// Samples a second on each core; not in step with what happens every 10 ms.
const HERTZ: u32 = 99;

/// Bytes of a stack that come with a sample.
const STACK: &str = "dwarf,32768";

/// Bytes on the disk at most: half an hour of a busy core.
const FILE_MAX: &str = "4G";

/// How long `perf` has to begin.
const BEGIN: Duration = Duration::from_secs(5);

/// How long `perf` has to write its end, and to read all of it back.
const END: Duration = Duration::from_secs(30);
const READ: Duration = Duration::from_secs(300);

/// Bytes of what it says at most.
const TEXT_MAX: u64 = 2 << 30;

/// Tries it on a program that does nothing.
///
/// # Errors
/// There is no perf, or it may not: what it says.
pub fn available() -> Result<(), Error> {
    let dir = std::env::temp_dir().join(format!("lab-perf-{}", std::process::id()));
    let mut command = record(&dir);
    command.arg("true").stderr(Stdio::piped());
    let result = command.spawn().map_err(Error::PerfMissing).and_then(|child| {
        let (status, output) = ended(child, END)?;
        if status { Ok(()) } else { Err(refused(&output)) }
    });
    // It may have left none.
    let _ = std::fs::remove_file(&dir);
    result
}

/// A profile that goes on.
#[derive(Debug)]
pub struct Profiling {
    child: Child,
    data: PathBuf,
    names: BTreeMap<u32, String>,
}

impl Profiling {
    /// Begins, on processes by name with all that they start from now on. `data` is a file that it may write and
    /// remove. It ends by itself when the processes do.
    ///
    /// # Errors
    /// There is no perf.
    pub fn start(processes: &BTreeMap<String, u32>, data: &Path) -> Result<Self, Error> {
        let list: Vec<String> = processes.values().map(u32::to_string).collect();
        let mut command = record(data);
        command.args(["--pid", &list.join(",")]).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::PerfMissing)?;
        let begin = Instant::now();
        // It writes what runs already just before it begins. One that has ended says why in the end.
        while begin.elapsed() < BEGIN
            && !data.metadata().is_ok_and(|m| m.len() > 0)
            && matches!(child.try_wait(), Ok(None))
        {
            thread::sleep(Duration::from_millis(5));
        }
        let names = processes.iter().map(|(name, pid)| (*pid, name.clone())).collect();
        Ok(Self { child, data: data.to_owned(), names })
    }

    /// Ends it and gives the stacks. The processes should still run: programs in a root of their own are looked up
    /// through them.
    ///
    /// # Errors
    /// What perf says.
    pub fn end(self) -> Result<Stacks, Error> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Not waited for yet, so the id is still its own.
            let _ = kill_process(pid, Signal::INT);
        }
        let stacks = ended(self.child, END).and_then(|(_, output)| match self.data.is_file() {
            true => folded(&self.data, self.names),
            false => Err(refused(&output)),
        });
        let _ = std::fs::remove_file(&self.data);
        stacks
    }
}

fn record(data: &Path) -> Command {
    let mut command = Command::new("perf");
    let hertz = HERTZ.to_string();
    // Build ids are for other machines, and take a second to gather.
    command.args([
        "record",
        "-q",
        "-B",
        "-N",
        "-F",
        &hertz,
        "--call-graph",
        STACK,
        "--max-size",
        FILE_MAX,
        "-o",
    ]);
    command.arg(data).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn refused(output: &str) -> Error {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|l| !l.is_empty()).take(2).collect();
    Error::PerfRefused {
        output: if lines.is_empty() { "it printed nothing".to_owned() } else { lines.join(" ") },
    }
}

/// Waits for the end; whether it was well, and its errors.
fn ended(child: Child, limit: Duration) -> Result<(bool, String), Error> {
    match process::end_and_errors(child, limit) {
        Ok((End::Exited(status), errors)) => Ok((status.success(), errors)),
        Ok((End::Late | End::Stopped, _)) | Err(_) => Err(Error::PerfLate { seconds: limit.as_secs() }),
    }
}

/// Reads the samples back, on a thread so that it can be ended when it takes too long.
fn folded(data: &Path, names: BTreeMap<u32, String>) -> Result<Stacks, Error> {
    let mut command = Command::new("perf");
    command.args(["script", "--no-inline", "-F", "comm,pid,ip,sym,dso", "-i"]).arg(data).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(Error::PerfMissing)?;
    let out = child.stdout.take();
    let (send, received) = channel();
    let reader = thread::spawn(move || {
        let mut folding = Folding::new(names, HERTZ);
        // It is a pipe, as asked for above.
        let Some(out) = out else { return };
        let mut lines = BufReader::new(out.take(TEXT_MAX));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            folding.line(String::from_utf8_lossy(&line).trim_end_matches('\n'));
            line.clear();
        }
        // Nobody listens any more if it took too long.
        let _ = send.send(folding.finish());
    });
    let stacks = received.recv_timeout(READ).map_err(|_| Error::PerfLate { seconds: READ.as_secs() });
    // It has said all that is read of it.
    let _ = child.kill();
    let _ = child.wait();
    let _ = reader.join();
    stacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_program_is_seen_and_nothing_stays() {
        if let Err(why) = available() {
            println!("not here: {why}");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("perf.data");
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let profiling = Profiling::start(&[("osd.0".to_owned(), busy.id())].into(), &data);
        // Other work may leave it little.
        let busy_ticks = || process::stat(busy.id()).map_or(0, |s| s.user + s.system);
        let (before, begin) = (busy_ticks(), Instant::now());
        while busy_ticks() < before + 100 && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(50));
        }
        let stacks = profiling.and_then(Profiling::end);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let stacks = stacks.unwrap();
        assert!(stacks.samples() >= 10, "{stacks:?}");
        assert!(stacks.counts.keys().all(|s| s.starts_with("osd.0;sh")), "{stacks:?}");
        assert!(!data.exists());
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error_in_perfs_words() {
        if available().is_err() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("perf.data");
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let profiling = Profiling::start(&[("gone".to_owned(), child.id())].into(), &data).unwrap();
        thread::sleep(Duration::from_millis(300));
        assert!(profiling.end().is_err() && !data.exists());
    }
}
