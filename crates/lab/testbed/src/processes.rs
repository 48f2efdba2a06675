//! Processes: who they are (pid and start time, or a token in their environment), and ending them. Only our own.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use process::ProcessStat;
use rustix::process::{Pid, Signal, kill_process};

/// The environment variable that every process of a cluster carries, with the cluster's token as value.
pub const TOKEN: &str = "LOLIGO_LAB_TOKEN";

/// How long a process has to end after SIGTERM, then after SIGKILL.
const GRACE: Duration = Duration::from_secs(8);

/// A process that can't be mistaken for another one with the same pid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
}

/// The process that has a pid now; none if there is none, or only its remains.
#[must_use]
pub fn find(pid: u32) -> Option<Process> {
    let stat = process::stat(pid).filter(ProcessStat::is_running)?;
    Some(Process { pid, start: stat.start })
}

/// Whether it still runs.
#[must_use]
pub fn runs(process: Process) -> bool {
    find(process.pid) == Some(process)
}

/// Every process that carries the token, but this one.
#[must_use]
pub fn with_token(token: &str) -> Vec<Process> {
    let wanted = format!("{TOKEN}={token}");
    let own = std::process::id();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if pid != own && environment.split(|b| *b == 0).any(|v| v == wanted.as_bytes()) {
            found.extend(find(pid));
        }
    }
    found.sort();
    found
}

/// Ends processes: SIGTERM to all, SIGKILL to those that stay. Gives those that are there even then.
/// Reaps nothing: a caller that is the parent calls `wait` itself.
pub fn end(processes: &[Process]) -> Vec<Process> {
    let mut left = processes.to_vec();
    for signal in [Signal::TERM, Signal::KILL] {
        left.retain(|p| runs(*p));
        for process in &left {
            if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) {
                // Gone meanwhile is as good as ended.
                let _ = kill_process(pid, signal);
            }
        }
        let end = Instant::now() + GRACE;
        while !left.is_empty() && Instant::now() < end {
            sleep(Duration::from_millis(20));
            left.retain(|p| runs(*p));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_with_the_token_is_found_and_ended_and_one_without_is_not() {
        let token = format!("test-{}", std::process::id());
        let run = |name: &str| {
            Command::new("sleep").arg("60").env(name, &token).stdin(Stdio::null()).spawn().unwrap()
        };
        let (mut ours, mut other) = (run(TOKEN), run("SOMETHING_ELSE"));
        // Until its exec is through, a child still has this process's environment.
        let begin = Instant::now();
        while with_token(&token).is_empty() && begin.elapsed() < GRACE {
            sleep(Duration::from_millis(10));
        }
        let found = with_token(&token);
        assert_eq!(found.iter().map(|p| p.pid).collect::<Vec<_>>(), [ours.id()]);
        assert!(end(&found).is_empty());
        assert!(ours.try_wait().unwrap().is_some());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_pid_with_another_start_time_is_left_alone() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let known = find(child.id()).unwrap();
        assert!(end(&[Process { start: known.start + 1, ..known }]).is_empty());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
