//! Health: named checks with a severity, and how they are shown.

use std::collections::BTreeMap;

use types::UTime;

use crate::command::status::span;
use crate::fmt::Json;
pub use crate::mutes::Mute;

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing to report.
    #[default]
    Ok,
    /// Something wants attention.
    Warn,
    /// Something is broken.
    Error,
}

impl Severity {
    /// `HEALTH_OK`, `HEALTH_WARN` or `HEALTH_ERR`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "HEALTH_OK",
            Self::Warn => "HEALTH_WARN",
            Self::Error => "HEALTH_ERR",
        }
    }

    fn short(self) -> &'static str {
        match self {
            Self::Ok => "[INF]",
            Self::Warn => "[WRN]",
            Self::Error => "[ERR]",
        }
    }
}

/// One check that found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// How bad.
    pub severity: Severity,
    /// One line.
    pub summary: String,
    /// How many things it is about.
    pub count: i64,
    /// A line a thing.
    pub detail: Vec<String>,
}

/// All checks that found something, by code, and which of them are muted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    checks: BTreeMap<&'static str, Check>,
    muted: BTreeMap<String, Mute>,
    now: UTime,
}

impl Health {
    /// Adds a check's finding about `detail.len()` things.
    pub fn add(&mut self, code: &'static str, severity: Severity, summary: String, detail: Vec<String>) {
        let count = detail.len() as i64;
        self.add_counted(code, severity, summary, count, detail);
    }

    /// As [`Health::add`], where the details are not as many as what is wrong.
    pub fn add_counted(
        &mut self,
        code: &'static str,
        severity: Severity,
        summary: String,
        count: i64,
        detail: Vec<String>,
    ) {
        self.checks.insert(code, Check { severity, summary, count, detail });
    }

    /// Marks codes as muted, as it is `now`.
    pub fn mute(&mut self, now: UTime, muted: BTreeMap<String, Mute>) {
        (self.now, self.muted) = (now, muted);
    }

    /// How long a mute lasts on, where it ends by itself.
    fn left(&self, mute: &Mute) -> Option<String> {
        mute.until.map(|until| span(u64::from(until.sec.saturating_sub(self.now.sec))))
    }

    /// What a code found.
    pub fn get(&self, code: &str) -> Option<&Check> {
        self.checks.get(code)
    }

    /// The codes that found something.
    pub fn codes(&self) -> impl Iterator<Item = &'static str> {
        self.checks.keys().copied()
    }

    /// The worst severity that is not muted.
    pub fn status(&self) -> Severity {
        self.shown().map(|(_, check)| check.severity).max().unwrap_or_default()
    }

    /// The checks that are not muted.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static str, &Check)> {
        self.checks.iter().filter(|(code, _)| !self.muted.contains_key(**code)).map(|(code, c)| (*code, c))
    }

    /// A line for each check that is not muted: its summary and its code.
    pub fn summaries(&self) -> Vec<String> {
        self.shown().map(|(code, check)| format!("{} ({code})", check.summary)).collect()
    }

    /// The prefix of a muted check in the detail.
    fn mark(&self, mute: &Mute) -> String {
        let left = self.left(mute).map(|left| format!(" ttl {left}")).unwrap_or_default();
        format!("(MUTED{left}{}) ", if mute.sticky { ", STICKY" } else { "" })
    }

    fn muted_codes(&self) -> String {
        let of = |code: &str| {
            let left = self.left(self.muted.get(code)?).map(|left| format!("({left})")).unwrap_or_default();
            Some(format!("{code}{left}"))
        };
        let codes: Vec<String> = self.checks.keys().filter_map(|code| of(code)).collect();
        if codes.is_empty() { String::new() } else { format!("(muted: {})", codes.join(" ")) }
    }

    /// The `health` member of `status`, and what `health -f json` gives.
    pub fn json(&self, detail: bool) -> Json {
        let mut checks = Json::object();
        for (code, check) in &self.checks {
            let summary = Json::object().with("message", check.summary.as_str()).with("count", check.count);
            let mut json = Json::object().with("severity", check.severity.name()).with("summary", summary);
            if detail {
                let lines = check.detail.iter().map(|line| Json::object().with("message", line.as_str()));
                json.put("detail", Json::array(lines));
            }
            json.put("muted", self.muted.contains_key(*code));
            checks.put(code, json);
        }
        let mutes = self.muted.iter().map(|(code, mute)| {
            let mut json = Json::object().with("code", code.as_str());
            if let Some(until) = mute.until {
                json.put("ttl", until.to_string());
            }
            json.with("sticky", mute.sticky).with("summary", mute.summary.as_str()).with("count", mute.count)
        });
        Json::object()
            .with("status", self.status().name())
            .with("checks", checks)
            .with("mutes", Json::array(mutes))
    }

    /// What `health` prints: one line, and with `detail` a paragraph a check.
    pub fn text(&self, detail: bool) -> String {
        let mut line = self.status().name().to_string();
        let summaries: Vec<&str> = self.shown().map(|(_, check)| check.summary.as_str()).collect();
        if !summaries.is_empty() {
            line.push(' ');
            line.push_str(&summaries.join("; "));
        }
        let muted = self.muted_codes();
        if !muted.is_empty() {
            line.push(' ');
            line.push_str(&muted);
        }
        if detail {
            for (code, check) in &self.checks {
                let mark = self.muted.get(*code).map(|mute| self.mark(mute)).unwrap_or_default();
                line.push_str(&format!("\n{mark}{} {code}: {}", check.severity.short(), check.summary));
                check.detail.iter().for_each(|l| line.push_str(&format!("\n    {l}")));
            }
        }
        line
    }

    /// The lines under `health:` of `status`, each continued line indented by `indent`.
    pub fn status_lines(&self, indent: &str) -> String {
        let mut out = self.status().name().to_string();
        for (_, check) in self.shown() {
            out.push_str(&format!("\n{indent}{}", check.summary));
        }
        let muted = self.muted_codes();
        if !muted.is_empty() {
            out.push_str(&format!("\n{indent}{muted}"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_check_that_is_not_muted_decides() {
        let mut health = Health::default();
        assert_eq!((health.text(false).as_str(), health.text(true).as_str()), ("HEALTH_OK", "HEALTH_OK"));
        health.add("OSD_DOWN", Severity::Warn, "1 osds down".into(), vec!["osd.2 is down".into()]);
        health.add("OSD_FULL", Severity::Error, "1 full osd(s)".into(), vec![]);
        assert_eq!(health.text(false), "HEALTH_ERR 1 osds down; 1 full osd(s)");
        health.mute(UTime::default(), BTreeMap::from([("OSD_FULL".to_string(), Mute::default())]));
        assert_eq!(health.status(), Severity::Warn);
        assert_eq!(health.summaries(), ["1 osds down (OSD_DOWN)"]);
        assert_eq!(
            health.text(true),
            "HEALTH_WARN 1 osds down (muted: OSD_FULL)\n[WRN] OSD_DOWN: 1 osds down\n    osd.2 is down\n(MUTED) [ERR] OSD_FULL: 1 full osd(s)"
        );
    }

    #[test]
    fn a_mute_shows_how_long_it_lasts_and_that_it_is_sticky() {
        let mut health = Health::default();
        health.add("OSD_DOWN", Severity::Warn, "1 osds down".into(), vec!["osd.2 is down".into()]);
        let now = UTime { sec: 1000, nsec: 0 };
        let until = Some(UTime { sec: 1299, nsec: 0 });
        let mute = Mute { until, sticky: true, ..Mute::default() };
        health.mute(now, BTreeMap::from([("OSD_DOWN".to_string(), mute)]));
        assert_eq!(
            health.text(true),
            "HEALTH_OK (muted: OSD_DOWN(4m))\n(MUTED ttl 4m, STICKY) [WRN] OSD_DOWN: 1 osds down\n    osd.2 is down"
        );
        let json = health.json(false).compact();
        assert!(json.contains(
            r#""mutes":[{"code":"OSD_DOWN","ttl":"1970-01-01T00:21:39.000000+0000","sticky":true"#
        ));
    }
}
