//! Children with a time limit.

use std::io::{self, Read};
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes that are kept of a child's standard error.
const ERRORS_MAX: u64 = 64 << 10;

/// How a wait for a child ended. After all of them the child has been waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It ended by itself.
    Exited(ExitStatus),
    /// The time was up: it was killed.
    Late,
    /// The caller wanted to stop: it was killed.
    Stopped,
}

/// Waits until `child` ends, for at most `limit` and only while `stop` gives false; past either it is killed. Its own
/// children are not.
///
/// # Errors
/// It can't be waited for.
pub fn wait(child: &mut Child, limit: Duration, stop: &dyn Fn() -> bool) -> io::Result<End> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Exited(status));
        }
        let stopped = stop();
        if stopped || begin.elapsed() > limit {
            // It may have ended this instant: then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(if stopped { End::Stopped } else { End::Late });
        }
        // Most are done at once; the others' time is not worth the wakeups.
        sleep(Duration::from_millis(if begin.elapsed().as_millis() < 200 { 2 } else { 20 }));
    }
}

/// [`wait`] without a wish to stop, then what the child wrote to its standard error (a pipe of which the caller has
/// read nothing), at most 64 KiB. For programs that write less than a pipe holds: a child that fills it is late.
///
/// # Errors
/// It can't be waited for.
pub fn end_and_errors(mut child: Child, limit: Duration) -> io::Result<(End, String)> {
    let end = wait(&mut child, limit, &|| false)?;
    let mut text = Vec::new();
    if let (End::Exited(_), Some(errors)) = (end, child.stderr.take()) {
        // What can't be read is only missing from a message.
        let _ = errors.take(ERRORS_MAX).read_to_end(&mut text);
    }
    Ok((end, String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

    use std::process::{Command, Stdio};

    use super::*;

    fn shell(text: &str) -> Child {
        Command::new("sh").args(["-c", text]).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_child_that_ends_gives_its_status_and_errors() {
        let (end, errors) = end_and_errors(shell("echo why >&2; exit 3"), Duration::from_secs(60)).unwrap();
        assert!(matches!(end, End::Exited(status) if status.code() == Some(3)), "{end:?}");
        assert_eq!(errors, "why\n");
    }

    #[test]
    fn a_late_child_and_an_unwanted_one_are_killed_and_reaped() {
        let (late, unwanted) = (Duration::from_millis(50), Duration::from_secs(60));
        for (limit, stop, want) in [(late, false, End::Late), (unwanted, true, End::Stopped)] {
            let mut child = shell("exec sleep 50");
            let begin = Instant::now();
            assert_eq!(wait(&mut child, limit, &|| stop).unwrap(), want);
            assert!(begin.elapsed() < Duration::from_secs(20));
            assert!(crate::stat(child.id()).is_none(), "nothing of it is left");
        }
    }
}
