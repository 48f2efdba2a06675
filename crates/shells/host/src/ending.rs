//! Whether a process that was killed is still on its way out.
//!
//! What it had open stays open until its memory is given back and its requests of disks are through: a moment in which the
//! directory that it served is locked, though no one serves it any more.

use std::fs;

/// Of `/proc/PID/stat`: `PF_EXITING`.
const EXITING: u64 = 4;

/// Of the signals that are pending there: SIGKILL.
const KILL: u64 = 1 << 8;

/// What is asked of `/proc/PID/stat`.
struct Stat {
    state: char,
    flags: u64,
    threads: u64,
    pending: u64,
}

/// Parses `/proc/PID/stat`. The program's name is in parentheses and may hold both.
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |n: usize| fields.get(n)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        flags: number(6)?,
        threads: number(17)?,
        pending: number(28)?,
    })
}

fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether a process has ended or will without doing anything more.
pub(crate) fn is_ending(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| {
        matches!(stat.state, 'Z' | 'X') || stat.flags & EXITING != 0 || stat.pending & KILL != 0
    })
}

/// Whether nothing of a process is open any more, its ports among it: it may be left for its parent to take note of.
pub(crate) fn is_gone(pid: u32) -> bool {
    stat(pid).is_none_or(|stat| matches!(stat.state, 'Z' | 'X') && stat.threads <= 1)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, id};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_process_ends_when_it_was_killed_and_is_gone_after_that() {
        assert_eq!((is_ending(id()), is_gone(id())), (false, false));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        assert_eq!((is_ending(pid), is_gone(pid)), (false, false));
        child.kill().unwrap();
        let began = Instant::now();
        while !is_gone(pid) {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
        assert!(is_ending(pid), "its parent has not waited for it");
        child.wait().unwrap();
        assert_eq!((is_ending(pid), is_gone(pid)), (false, true));
    }

    #[test]
    fn a_name_with_parentheses_is_no_field() {
        let rest =
            "S 1 2 3 0 -1 4194560 9 9 9 9 1 2 0 0 20 0 7 0 100 4096 50 18446744073709551615 1 1 0 0 0 256 0";
        let stat = parse(&format!("12 (a) (b) {rest}")).unwrap();
        assert_eq!((stat.state, stat.flags, stat.threads, stat.pending), ('S', 4_194_560, 7, 256));
        assert!(parse("12 (a) S 1").is_none());
    }
}
