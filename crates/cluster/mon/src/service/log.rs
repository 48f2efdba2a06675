//! The cluster log: what daemons and the monitor itself reported, the last lines kept.

use std::collections::VecDeque;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::UTime;

use crate::fmt::Json;
use crate::state::{Batch, State, StateKey, versions};

/// Where lines are kept in the state, by their version.
pub const SERVICE: &str = "logm";

/// The channel of what happens in the cluster.
pub const CLUSTER: &str = "cluster";
/// The channel of commands that changed something, with their senders.
pub const AUDIT: &str = "audit";

/// Lines kept, in memory and durably.
pub const KEPT: usize = 500;
/// The longest line kept, in bytes; a longer one is cut.
pub const LINE_BYTES_MAX: usize = 4096;

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For developers.
    Debug,
    /// Something happened.
    Info,
    Security,
    Warn,
    Error,
}

impl LogLevel {
    /// The level of a wire value; unknown ones count as information.
    pub fn from_number(n: u16) -> Self {
        match n {
            0 => Self::Debug,
            2 => Self::Security,
            3 => Self::Warn,
            4 => Self::Error,
            _ => Self::Info,
        }
    }

    /// The level of a command's argument.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "sec" => Self::Security,
            "warn" => Self::Warn,
            "error" => Self::Error,
            _ => return None,
        })
    }

    fn number(self) -> u16 {
        self as u16
    }

    fn tag(self) -> &'static str {
        match self {
            Self::Debug => "[DBG]",
            Self::Info => "[INF]",
            Self::Security => "[SEC]",
            Self::Warn => "[WRN]",
            Self::Error => "[ERR]",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Who reports, as authenticated (`mon.a`).
    pub name: String,
    /// Who reports, as numbered (`mon.0`).
    pub rank: String,
    /// Its addresses, printed.
    pub addrs: String,
    /// When.
    pub stamp: UTime,
    /// The reporter's own number of the line.
    pub seq: u64,
    /// How important.
    pub level: LogLevel,
    /// `cluster` or `audit`.
    pub channel: String,
    pub text: String,
}

impl LogLine {
    /// For a log that has the time already.
    pub fn short(&self) -> String {
        format!("{} {} {}", self.channel, self.level.tag(), self.text)
    }

    /// As `log last` prints it.
    pub fn text_line(&self) -> String {
        format!(
            "{} {} ({}) {} : {} {} {}",
            self.stamp,
            self.name,
            self.rank,
            self.seq,
            self.channel,
            self.level.tag(),
            self.text
        )
    }

    /// As `log last -f json` gives it.
    pub fn json(&self, addrs: Json) -> Json {
        Json::object()
            .with("name", self.name.as_str())
            .with("rank", self.rank.as_str())
            .with("addrs", addrs)
            .with("stamp", self.stamp.to_string())
            .with("seq", self.seq)
            .with("channel", self.channel.as_str())
            .with("priority", self.level.tag())
            .with("message", self.text.as_str())
    }
}

impl Encode for LogLine {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(self.name.as_str()).put(self.rank.as_str()).put(self.addrs.as_str());
            e.put(&self.stamp).put(&self.seq).put(&self.level.number());
            e.put(self.channel.as_str()).put(self.text.as_str());
        });
    }
}
impl Decode for LogLine {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "log line", |d, _| {
            Ok(Self {
                name: d.get()?,
                rank: d.get()?,
                addrs: d.get()?,
                stamp: d.get()?,
                seq: d.get()?,
                level: LogLevel::from_number(d.get()?),
                channel: d.get()?,
                text: d.get()?,
            })
        })
    }
}

/// The committed lines.
#[derive(Clone, Debug, Default)]
pub struct ClusterLog {
    lines: VecDeque<(u64, LogLine)>,
    next: u64,
}

impl ClusterLog {
    /// Reads the lines kept.
    pub fn open(state: &State) -> Result<Self, DecodeError> {
        let mut log = Self { lines: VecDeque::new(), next: 1 };
        for (version, bytes) in versions(state, SERVICE, 0) {
            log.lines.push_back((version, LogLine::from_bytes(bytes)?));
            log.next = version + 1;
        }
        Ok(log)
    }

    /// Adds a line to a batch; [`ClusterLog::committed`] shows it.
    pub fn add(&mut self, mut line: LogLine, batch: &mut Batch) {
        if line.text.len() > LINE_BYTES_MAX {
            let end = (0..=LINE_BYTES_MAX).rev().find(|at| line.text.is_char_boundary(*at)).unwrap_or(0);
            line.text.truncate(end);
        }
        batch.put(StateKey::version(SERVICE, self.next), line.to_bytes(0));
        if let Some(old) = self.next.checked_sub(KEPT as u64).filter(|old| *old > 0) {
            batch.delete(StateKey::version(SERVICE, old));
        }
        self.next += 1;
    }

    /// A batch is durable: its lines may be shown. Returns the first new version.
    pub fn committed(&mut self, state: &State) -> Result<u64, DecodeError> {
        let from = self.lines.back().map_or(0, |(version, _)| version + 1);
        for (version, bytes) in versions(state, SERVICE, from) {
            self.lines.push_back((version, LogLine::from_bytes(bytes)?));
        }
        while self.lines.len() > KEPT {
            self.lines.pop_front();
        }
        Ok(from)
    }

    /// The version of the last line; 0 before the first.
    pub fn version(&self) -> u64 {
        self.lines.back().map_or(0, |(version, _)| *version)
    }

    /// The version of the last line of at least `level` in `channel`; of the next line where there is none.
    pub fn last_version(&self, level: LogLevel, channel: &str) -> u64 {
        let found = self.lines.iter().rev().find(|(_, line)| line.level >= level && line.channel == channel);
        found.map_or(self.next, |(version, _)| *version)
    }

    /// The lines kept from version `from` on, of at least `level`, oldest first.
    pub fn since(&self, from: u64, level: LogLevel) -> impl Iterator<Item = &LogLine> {
        self.lines.iter().filter(move |(version, l)| *version >= from && l.level >= level).map(|(_, l)| l)
    }

    /// The last `count` lines of at least `level` in `channel` (all of them: `*`), oldest first.
    pub fn last(&self, count: usize, level: LogLevel, channel: &str) -> Vec<&LogLine> {
        let wanted = |line: &&LogLine| line.level >= level && (channel == "*" || line.channel == channel);
        let mut lines: Vec<&LogLine> =
            self.lines.iter().rev().map(|(_, l)| l).filter(wanted).take(count).collect();
        lines.reverse();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> LogLine {
        LogLine {
            name: "mon.a".into(),
            rank: "mon.0".into(),
            addrs: String::new(),
            stamp: UTime { sec: 1, nsec: 0 },
            seq,
            level: LogLevel::Info,
            channel: "cluster".into(),
            text: format!("line {seq}"),
        }
    }

    #[test]
    fn a_line_is_shown_once_it_is_durable_and_the_oldest_go() {
        let (mut state, mut log) = (State::new(), ClusterLog::open(&State::new()).unwrap());
        for seq in 0..KEPT as u64 + 10 {
            let mut batch = Batch::default();
            log.add(line(seq), &mut batch);
            assert_eq!(log.last(1, LogLevel::Debug, "*").first().map(|l| l.seq), seq.checked_sub(1));
            batch.apply_to(&mut state);
            log.committed(&state).unwrap();
        }
        assert_eq!(log.last(10_000, LogLevel::Debug, "*").len(), KEPT);
        assert_eq!(state.len(), KEPT);
        let again = ClusterLog::open(&state).unwrap();
        assert_eq!(again.last(2, LogLevel::Info, "cluster"), log.last(2, LogLevel::Info, "cluster"));
        assert!(log.last(5, LogLevel::Warn, "*").is_empty());
        assert_eq!(
            log.last(1, LogLevel::Info, "*").first().map(|l| l.text_line()).unwrap(),
            "1970-01-01T00:00:01.000000+0000 mon.a (mon.0) 509 : cluster [INF] line 509"
        );
    }
}
