//! Running a program for a bounded time, with its last words when it fails.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use process::{End, last_words, wait};

use crate::error::{Doing, Error, Result};
use crate::processes::TOKEN;

/// Whether the caller wants to stop: looked at in every wait.
#[derive(Clone, Default, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that the caller sets, say on SIGINT.
    #[must_use]
    pub fn new(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error if the caller wants to stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// Runs programs for as long as the caller doesn't want to stop.
#[derive(Clone, Default, Debug)]
pub(crate) struct Runner {
    pub(crate) stop: Stop,
    /// Carried by every program, so that those still running when the lab is killed are found and ended.
    pub(crate) token: Option<String>,
}

impl Runner {
    /// Runs to the end and gives standard output. `what` names the step in errors.
    pub(crate) fn run(&self, what: &str, mut command: Command, limit: Duration) -> Result<String> {
        let program = command.get_program().to_string_lossy().into_owned();
        // Files, not pipes: a daemon that keeps its parent's output must not keep us waiting.
        let files = || Ok((tempfile::tempfile()?, tempfile::tempfile()?));
        let (mut out, mut err) = files().map_err(|e: std::io::Error| Error::Io {
            doing: "making a temporary file in",
            path: std::env::temp_dir(),
            source: e,
        })?;
        let handle = |f: &fs::File| f.try_clone().doing("copying a file handle for", &program);
        if let Some(token) = &self.token {
            command.env(TOKEN, token);
        }
        command.stdin(Stdio::null()).stdout(handle(&out)?).stderr(handle(&err)?);
        let mut child = command.spawn().doing("starting", &program)?;
        let status = match wait(&mut child, limit, &|| self.stop.is_set()).doing("waiting for", &program)? {
            End::Exited(status) => status,
            End::Stopped => return Err(Error::Stopped),
            End::Late => {
                let output = last_words(&text_of(&mut err), &text_of(&mut out));
                return Err(Error::Late { what: what.to_owned(), seconds: limit.as_secs(), output });
            }
        };
        let text = text_of(&mut out);
        if !status.success() {
            let output = last_words(&text_of(&mut err), &text);
            return Err(Error::Failed { what: what.to_owned(), status: status.to_string(), output });
        }
        Ok(text)
    }
}

fn text_of(file: &mut fs::File) -> String {
    let mut bytes = Vec::new();
    // What can't be read back is only missing from a message.
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last lines of the first of these log files that has any.
pub(crate) fn last_lines(files: &[&Path]) -> String {
    /// What a crash writes, and some lines before it.
    const TAIL: u64 = 4 << 20;
    for path in files {
        let Ok(mut file) = fs::File::open(path) else { continue };
        let length = file.metadata().map_or(0, |m| m.len());
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(length.saturating_sub(TAIL)))
            .and_then(|_| file.read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        if read.is_ok() && !text.trim().is_empty() {
            return last_words(&text, "");
        }
    }
    "it wrote none".to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_failure_has_the_programs_last_words() {
        let error = Runner::default().run(
            "the step",
            shell("echo out; echo why >&2; exit 3"),
            Duration::from_secs(9),
        );
        let text = error.unwrap_err().to_string();
        assert!(text.contains("the step failed") && text.contains("why") && text.contains('3'), "{text}");
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let begin = Instant::now();
        let error = Runner::default().run("hanging", shell("sleep 50"), Duration::from_millis(100));
        assert!(matches!(error, Err(Error::Late { .. })));
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_child_in_the_background_does_not_keep_us_waiting() {
        let begin = Instant::now();
        let output =
            Runner::default().run("detaching", shell("sleep 60 & echo ready"), Duration::from_secs(50));
        assert_eq!(output.unwrap(), "ready\n");
        assert!(begin.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn the_callers_wish_ends_a_wait() {
        let stop = Stop::new(Arc::new(AtomicBool::new(true)));
        assert!(matches!(
            Runner { stop, token: None }.run("x", shell("sleep 50"), Duration::from_secs(9)),
            Err(Error::Stopped)
        ));
    }
}
