//! The shell texts that run on client hosts, and how words reach them. Pure.
//!
//! Each text watches its standard input, which is the ssh connection: when that ends (the lab wants to stop, was
//! killed, or the network is gone), it ends what it started and removes what it made. Nothing of the host's is needed
//! but a POSIX shell, coreutils and `setsid` of util-linux.

use std::time::Duration;

/// OutputEvent by a text when it is ready.
pub(crate) const READY: &str = "loligo-lab-ready";

/// OutputEvent when the program has been started.
pub(crate) const STARTED: &str = "loligo-lab-started";

/// OutputEvent at the end, with the CPU of the program: `0m1.25s 0m0.5s`.
const CPU: &str = "loligo-lab-cpu";

/// Ends the ceph.conf that is sent to [`KEEP`].
pub(crate) const END: &str = "loligo-lab-end";

/// Keeps a directory with the ceph.conf for as long as the connection lasts. `$1` ends the file.
pub(crate) const KEEP: &str = r#"umask 077; d=$(mktemp -d "${TMPDIR:-/tmp}/loligo-lab.XXXXXX") || exit 1; trap 'rm -rf "$d" || { sleep 3; rm -rf "$d"; }' EXIT; trap 'exit 1' HUP INT TERM PIPE; while IFS= read -r line; do [ "$line" = "$1" ] && break; printf '%s\n' "$line"; done >"$d/ceph.conf"; echo "loligo-lab-ready $d"; while read -r line; do :; done"#;

/// Runs a program once a line comes in. `$1` is the directory, `$2` the seconds that it may take, the rest the program.
/// The program has a process group of its own; whatever is left of that is killed in the end.
pub(crate) const RUN: &str = r#"LC_ALL=C; export LC_ALL; exec 3<&0; cd "$1" || exit 1; bound=$2; shift 2; echo loligo-lab-ready; read -r go <&3 || exit 1; setsid timeout -k 5 "$bound" "$@" </dev/null 3<&- & p=$!; echo loligo-lab-started; { while read -r go; do :; done; kill -TERM -$p; sleep 2; kill -KILL -$p; } <&3 >/dev/null 2>&1 & w=$!; wait $p; code=$?; times >times.$$; kill $w; kill -KILL -$p 2>/dev/null; { read -r own; read -r used; } <times.$$; echo "loligo-lab-cpu $used"; exit $code"#;

/// Tells which of the programs `$@` are there, and their versions.
pub(crate) const LOOK: &str = r#"for p; do if command -v "$p" >/dev/null; then echo "has $p $("$p" --version 2>&1 </dev/null | head -n 1)"; else echo "lacks $p"; fi; done"#;

/// A shell text with its words as the one line that ssh hands to the host's login shell.
pub(crate) fn line(text: &str, words: &[String]) -> String {
    let words = words.iter().map(|word| format!(" {}", quoted(word)));
    format!("exec sh -c {} loligo-lab{}", quoted(text), words.collect::<String>())
}

/// In single quotes, which every shell takes as they are.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The CPU that a line of [`RUN`] tells: user and system seconds.
pub(crate) fn cpu(line: &str) -> Option<(f64, f64)> {
    let (user, system) = line.strip_prefix(CPU)?.trim().split_once(' ')?;
    Some((seconds(user)?, seconds(system)?))
}

/// `1m2.5s`, as `times` writes it.
fn seconds(text: &str) -> Option<f64> {
    let (minutes, rest) = text.trim().strip_suffix('s')?.split_once('m')?;
    Some(minutes.parse::<f64>().ok()? * 60.0 + rest.parse::<f64>().ok()?)
}

/// The words of [`RUN`] before the program's own.
pub(crate) fn run_words(dir: &str, bound: Duration) -> Vec<String> {
    vec![dir.to_owned(), bound.as_secs().max(1).to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    /// A text as a host's login shell would run it.
    fn begin(text: &str, words: &[&str]) -> Child {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let mut shell = Command::new("sh");
        shell.args(["-c", &line(text, &words)]).stdin(Stdio::piped()).stdout(Stdio::piped());
        shell.spawn().unwrap()
    }

    fn gone(pid: &str) -> bool {
        let began = Instant::now();
        let gone = || !process::is_running(pid.trim().parse().unwrap());
        while !gone() && began.elapsed() < Duration::from_secs(8) {
            std::thread::sleep(Duration::from_millis(10));
        }
        gone()
    }

    #[test]
    fn words_reach_the_host_as_they_are() {
        let words = ["a b", "it's", "$HOME", "", "\\n", "*"];
        let output = begin(r#"for w; do printf '[%s]' "$w"; done"#, &words).wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "[a b][it's][$HOME][][\\n][*]");
    }

    #[test]
    fn a_program_waits_for_the_word_and_tells_its_cpu_and_its_code() {
        let dir = tempfile::tempdir().unwrap();
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; exit 3";
        let mut child = begin(RUN, &[dir.path().to_str().unwrap(), "20", "sh", "-c", work]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), READY);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"go\n").unwrap();
        let output: Vec<String> = lines.collect();
        assert!(output.contains(&STARTED.to_owned()) && output.contains(&"done".to_owned()), "{output:?}");
        let (user, system) = cpu(output.last().unwrap()).unwrap();
        assert!(user + system > 0.01, "{output:?}");
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }

    #[test]
    fn nothing_runs_on_when_the_connection_ends() {
        let dir = tempfile::tempdir().unwrap();
        // One that does not hear SIGTERM, with a child.
        let work = "trap '' TERM; sleep 60 & echo $$ $!; wait; wait";
        let mut child = begin(RUN, &[dir.path().to_str().unwrap(), "50", "sh", "-c", work]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), READY);
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let pids = lines.find(|l| l != STARTED).unwrap();
        drop(child.stdin.take());
        assert!(pids.split(' ').all(gone), "{pids}");
        child.wait().unwrap();
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = begin(RUN, &[dir.path().to_str().unwrap(), "1", "sleep", "60"]);
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let stdin = child.stdin.take();
        let began = Instant::now();
        assert_eq!(child.wait().unwrap().code(), Some(124));
        assert!(began.elapsed() < Duration::from_secs(20));
        drop(stdin);
    }

    #[test]
    fn the_directory_lasts_as_long_as_the_connection() {
        let mut child = begin(KEEP, &[END]);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(format!("[global]\n  mon_host = \\x $y\n\n{END}\n").as_bytes()).unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        out.read_line(&mut output).unwrap();
        let dir = output.trim().strip_prefix(READY).unwrap().trim().to_owned();
        let conf = std::fs::read_to_string(format!("{dir}/ceph.conf")).unwrap();
        assert_eq!(conf, "[global]\n  mon_host = \\x $y\n\n");
        drop(stdin);
        out.read_to_string(&mut output).unwrap();
        child.wait().unwrap();
        assert!(!std::path::Path::new(&dir).exists());
    }

    #[test]
    fn times_are_read_as_every_shell_writes_them() {
        assert_eq!(cpu("loligo-lab-cpu 0m1.250000s 2m0.5s"), Some((1.25, 120.5)));
        assert_eq!(cpu("loligo-lab-cpu 0m1.25s"), None);
        assert_eq!(cpu("some line"), None);
    }
}
