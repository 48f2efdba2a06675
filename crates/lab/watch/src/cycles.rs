//! Cycles that processes take, by `perf stat`, where the host counts them. Virtual machines often don't.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use process::End;
use rustix::process::{Pid, Signal, kill_process};

/// How long `perf` has to print its count.
const GRACE: Duration = Duration::from_secs(5);

/// Whether the host counts cycles: tried once on a program that does nothing.
#[must_use]
pub fn counted() -> bool {
    let mut command = perf();
    command.arg("true");
    command.spawn().is_ok_and(|child| output(child).is_some_and(|text| parse(&text).is_some()))
}

/// A count that goes on.
#[derive(Debug)]
pub(crate) struct Counting(Child);

impl Counting {
    /// Counts these processes and the threads and children they start. None if `perf` can't be started.
    pub fn start(pids: &[u32]) -> Option<Self> {
        if pids.is_empty() {
            return None;
        }
        let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut command = perf();
        command.args(["--pid", &list]);
        command.spawn().ok().map(Self)
    }

    /// The cycles so far. None: not counted.
    pub fn end(self) -> Option<u64> {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)?;
        // Asked to end so, it prints. Not waited for yet, so the id is still its own.
        let _ = kill_process(pid, Signal::INT);
        parse(&output(self.0)?)
    }
}

/// User and kernel mode, values parted by commas.
fn perf() -> Command {
    let mut command = Command::new("perf");
    command.args(["stat", "-x,", "-e", "cycles"]).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Its output up to its end, which is waited for.
fn output(child: Child) -> Option<String> {
    match process::end_and_errors(child, GRACE).ok()? {
        (End::Exited(_), text) => Some(text),
        (End::Late | End::Stopped, _) => None,
    }
}

/// `COUNT,UNIT,cycles,...`; where it isn't counted, words are in place of the count.
fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut fields = line.split(',');
        let count = fields.next()?.trim().parse::<u64>().ok()?;
        fields.nth(1)?.starts_with("cycles").then_some(count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_told_from_words() {
        assert_eq!(parse("4711,,cycles,1000,100.00,,\n"), Some(4711));
        assert_eq!(parse("a warning\n12,,cycles:u,1,50.00,,\n"), Some(12));
        assert_eq!(parse("<not supported>,,cycles,0,100.00,,\n"), None);
        assert_eq!(parse("<not counted>,,cycles,0,100.00,,\n"), None);
        assert_eq!(parse(""), None);
    }
}
