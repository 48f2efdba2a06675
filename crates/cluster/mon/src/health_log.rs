//! Changes of health in the cluster log, in Ceph's words, since operators and their programs search for them.
//!
//! What was last logged of each check is kept in the state, in the batch of the line itself: a restart neither repeats a
//! line nor misses that a check cleared meanwhile.

use core::time::Duration;
use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use options::opt;
use types::UTime;

use crate::health::{Check, Severity};
use crate::mon::Mon;
use crate::service::log::LogLevel;
use crate::state::StateKey;

const SERVICE: &str = "health_logged";

/// After a start nothing is logged for this long: OSDs boot and report meanwhile.
const START_QUIET: Duration = Duration::from_secs(2);

/// What was logged of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Logged {
    is_error: bool,
    summary: String,
}

impl Encode for Logged {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.is_error).put(self.summary.as_str());
        });
    }
}
impl Decode for Logged {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "logged check", |d, _| Ok(Self { is_error: d.get()?, summary: d.get()? }))
    }
}

impl Logged {
    fn of(check: &Check) -> Self {
        Self { is_error: check.severity == Severity::Error, summary: check.summary.clone() }
    }

    fn level(&self) -> LogLevel {
        if self.is_error { LogLevel::Error } else { LogLevel::Warn }
    }
}

impl Mon {
    /// Logs what changed in the health since it was logged. A summary that goes on changing is logged every
    /// `mon_health_log_update_period` seconds.
    pub(crate) fn log_health(&mut self, now: UTime) {
        if now < self.started.after(START_QUIET) {
            return;
        }
        let health = self.health(now);
        let read = |value: &[u8]| Logged::from_bytes(value).ok();
        // A record that does not decode counts as missing: its check is logged again.
        let logged: BTreeMap<String, Logged> = self
            .stored_names(SERVICE)
            .filter_map(|(code, value)| Some((code.to_owned(), read(value)?)))
            .collect();
        for (code, check) in health.shown() {
            let found = Logged::of(check);
            let word = match logged.get(code) {
                Some(before) if *before == found => continue,
                Some(before) if before.is_error == found.is_error && self.logged_lately(now, code) => {
                    continue;
                }
                Some(_) => "update",
                None => "failed",
            };
            self.say(now, found.level(), format!("Health check {word}: {} ({code})", found.summary));
            self.batch().put(StateKey::name(SERVICE, code), found.to_bytes(0));
            self.health_logged.insert(code.to_owned(), now);
        }
        for (code, before) in logged.iter().filter(|(code, _)| health.get(code).is_none()) {
            let line = match code.as_str() {
                "OSD_FLAGS" => "OSD flags cleared".to_owned(),
                _ => format!("Health check cleared: {code} (was: {})", before.summary),
            };
            self.say(now, LogLevel::Info, line);
            self.batch().delete(StateKey::name(SERVICE, code));
            self.health_logged.remove(code);
        }
        if !logged.is_empty() && health.codes().next().is_none() {
            self.say(now, LogLevel::Info, "Cluster is now healthy".into());
        }
    }

    fn logged_lately(&self, now: UTime, code: &str) -> bool {
        let period = Duration::from_secs(self.options.get(opt::MON_HEALTH_LOG_UPDATE_PERIOD));
        self.health_logged.get(code).is_some_and(|at| now < at.after(period))
    }
}
