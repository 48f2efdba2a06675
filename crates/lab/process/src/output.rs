//! What of a program's output goes into a message.

use std::collections::BTreeSet;

/// Lines of a program's output in a message.
const LINES: usize = 4;

/// Bytes of each.
const LINE_MAX: usize = 400;

/// What Ceph writes when it crashes.
const SIGNAL: &str = "*** Caught signal";

/// The last lines of the standard error, or of the standard output if there was no error text: for a message, so not
/// endless and without what a terminal would obey.
pub fn last_words(err: &str, out: &str) -> String {
    let text = [err, out].into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default();
    let lines = of_the_cause(text);
    let last: Vec<String> = lines.iter().rev().take(LINES).rev().map(|line| shown(line)).collect();
    if last.is_empty() { "it printed nothing".to_owned() } else { last.join("\n") }
}

/// The lines that may name the cause. After a crash Ceph repeats its stack and its last thousands of lines: of such a
/// text, only the lines at level -1 (errors) and the assertion that failed.
fn of_the_cause(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    if !lines.iter().any(|l| l.contains(SIGNAL)) {
        return lines;
    }
    let is_error = |l: &str| l.starts_with("20") && l.split(' ').nth(2) == Some("-1") && !l.contains(SIGNAL);
    lines.retain(|l| is_error(l) || l.contains("FAILED ceph_assert"));
    let mut seen = BTreeSet::new();
    lines.retain(|l| seen.insert(*l));
    lines
}

fn shown(line: &str) -> String {
    let begin = beginning(line, LINE_MAX);
    let cut = if begin.len() < line.len() { "..." } else { "" };
    format!("{}{cut}", text::visible(begin))
}

/// At most `bytes_max` bytes of a text, whole characters.
pub fn beginning(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_before_output_and_only_their_end() {
        assert_eq!(last_words("a\n\nb\nc\nd\ne\n", "out\n"), "b\nc\nd\ne");
        assert_eq!(last_words(" \n", "out\n"), "out");
        assert_eq!(last_words("", ""), "it printed nothing");
    }

    #[test]
    fn a_line_is_cut_and_can_not_command_a_terminal() {
        let text = last_words(&format!("\u{1b}[31m{}", "é".repeat(300)), "");
        assert!(text.starts_with("\\u{1b}[31m") && text.ends_with("é..."), "{text}");
        assert!(text.len() < 420, "{}", text.len());
        assert_eq!(beginning("éé", 3), "é");
    }

    #[test]
    fn of_a_crash_only_the_cause_is_shown() {
        let text = "2026-11-21T11:01:41.352+0000 7f19 -1 bdev too small\n\
                    /src/os/BlueStore.cc: 77: FAILED ceph_assert(r >= 0)\n\
                    *** Caught signal (Aborted) **\n 1: /lib/libc.so.6\n 16: _start()\n\
                    -12> 2026-11-21T11:01:41.352+0000 7f19  5 asok\n--- end dump of recent events ---\n";
        let shown = last_words(text, "");
        assert!(shown.contains("too small") && shown.contains("r >= 0"), "{shown}");
        assert!(!shown.contains("_start") && !shown.contains("dump"), "{shown}");
    }
}
