//! Asking a cluster by its `ceph` program, and waiting for what it says. Every wait is bounded.

use std::ffi::OsString;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::release::command;
use crate::run::{Runner, Stop, last_lines};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);

/// How often a wait asks.
const ASK: Duration = Duration::from_millis(250);

/// A cluster's `ceph` program.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    /// The prefix of a client program.
    pub(crate) prefix: Vec<OsString>,
    pub(crate) runner: Runner,
}

impl Admin {
    /// Runs `ceph` with these arguments.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String> {
        let mut all = vec!["--connect-timeout", "20"];
        all.extend(arguments);
        let what = format!("ceph {}", arguments.join(" "));
        self.runner.run(&what, command(&self.prefix, "ceph", &all), ANSWER)
    }

    /// Runs `ceph` with these arguments and reads its answer.
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value> {
        let mut all = arguments.to_vec();
        all.extend(["-f", "json"]);
        let text = self.ask(&all)?;
        serde_json::from_str(text.trim())
            .map_err(|e| Error::Answer { command: format!("ceph {}", all.join(" ")), why: e.to_string() })
    }
}

/// A wait for a part of a cluster.
pub(crate) struct Wait<'a> {
    /// As `all of the 3 OSDs`.
    pub(crate) what: String,
    /// The bound.
    pub(crate) limit: Duration,
    /// Where its last words are, the best first.
    pub(crate) logs: &'a [&'a Path],
    pub(crate) stop: &'a Stop,
}

impl Wait<'_> {
    /// Asks until the answer is yes. An answer that does not come, or not well, counts as no; any other error ends
    /// the wait.
    pub(crate) fn until(&self, mut yes: impl FnMut() -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        loop {
            self.stop.check()?;
            match yes() {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Error::Failed { .. } | Error::Late { .. } | Error::Answer { .. }) => {}
                Err(other) => return Err(other),
            }
            if begin.elapsed() > self.limit {
                let output = last_lines(self.logs);
                return Err(Error::NotUp { what: self.what.clone(), seconds: self.limit.as_secs(), output });
            }
            sleep(ASK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_and_names_what_did_not_come_up_with_its_last_words() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "one\ntwo\nthe reason\n").unwrap();
        let stop = Stop::default();
        let logs = [Path::new("/no/such/log"), log.path()];
        let wait = Wait { what: "osd.3".into(), limit: Duration::ZERO, logs: &logs, stop: &stop };
        let error = wait.until(|| Ok(false)).unwrap_err().to_string();
        assert!(error.contains("osd.3") && error.contains("the reason"), "{error}");
    }

    #[test]
    fn a_failed_answer_is_asked_again_and_a_dead_server_is_not_waited_for() {
        let stop = Stop::default();
        let wait = Wait { what: "x".into(), limit: Duration::from_secs(20), logs: &[], stop: &stop };
        let mut asked = 0;
        let answer = wait.until(|| {
            asked += 1;
            let failed = Error::Failed { what: "x".into(), status: "1".into(), output: String::new() };
            if asked < 3 { Err(failed) } else { Ok(true) }
        });
        assert!(answer.is_ok() && asked == 3);
        let ended = || Err(Error::Ended { name: "osd.0".into(), status: "1".into(), output: String::new() });
        assert!(matches!(wait.until(ended), Err(Error::Ended { .. })));
    }
}
