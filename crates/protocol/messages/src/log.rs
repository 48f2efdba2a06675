//! MLog: entries for the cluster log.

use std::fmt;

use types::{EntityAddrVec, EntityId, EntityName, Fsid, Name, PgId, SpgId, UTime};

use crate::Paxos;
use crate::codec::{fields, payload};

/// Ceph's MLog: from a daemon or client to a monitor, and from a monitor to those who watch the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log {
    /// The common prefix.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    /// Oldest first.
    pub entries: Vec<LogEntry>,
}

/// Ceph's LogEntry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// Who said it, `mon.a`.
    pub name: EntityId,
    /// Who said it, by rank or global id.
    pub rank: EntityName,
    /// Where from.
    pub addrs: EntityAddrVec,
    /// When.
    pub stamp: UTime,
    /// The sayer's count of entries; acknowledged by [`crate::LogAck`].
    pub seq: u64,
    /// [`LogEntry::INFO`] and its like.
    pub level: u16,
    pub message: Name,
    /// `cluster`, `audit`.
    pub channel: String,
}

impl LogEntry {
    /// CLOG_DEBUG.
    pub const DEBUG: u16 = 0;
    /// CLOG_INFO.
    pub const INFO: u16 = 1;
    /// CLOG_SEC.
    pub const SECURITY: u16 = 2;
    /// CLOG_WARN.
    pub const WARN: u16 = 3;
    /// CLOG_ERROR.
    pub const ERROR: u16 = 4;
}

/// What an OSD's line about a PG tells: `pg ID WORDS: REASON`. No other message has the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PgTrouble {
    /// It failed.
    Stopped,
    /// Its pool was removed, and what the store has of it can't be, or not all of it.
    Remains,
}

impl PgTrouble {
    fn middle(self) -> &'static str {
        match self {
            Self::Stopped => " has stopped: ",
            Self::Remains => " can't be removed: ",
        }
    }

    /// The line of a PG.
    pub fn line(self, pg: &SpgId, reason: impl fmt::Display) -> String {
        format!("pg {pg}{}{reason}", self.middle())
    }

    /// The PG and the reason of such a line; `None` if it is about something else.
    pub fn parse(self, line: &str) -> Option<(PgId, &str)> {
        let (pg, reason) = line.strip_prefix("pg ")?.split_once(self.middle())?;
        Some((pg.parse().ok()?, reason))
    }
}

fields!(LogEntry "LogEntry" version 5, compat 5, [name, rank, addrs, stamp, seq, level, message, channel]);
payload!(Log = LOG, version 1, compat 1, [paxos, fsid, entries]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_pg_is_read_as_it_is_written() {
        let pg: PgId = "7.1f".parse().unwrap();
        let lines = [
            (PgTrouble::Stopped, "its info is damaged: crc", "pg 7.1f has stopped: its info is damaged: crc"),
            (PgTrouble::Remains, "a page is damaged", "pg 7.1f can't be removed: a page is damaged"),
        ];
        for (what, reason, line) in lines {
            assert_eq!(what.line(&SpgId::from(pg), reason), line);
            assert_eq!(what.parse(line), Some((pg, reason)));
        }
        assert_eq!(PgTrouble::Stopped.parse(lines[1].2), None);
        for other in ["", "pg 7.1f scrub ok", "pg x has stopped: y", "osd.1 has stopped: y"] {
            assert_eq!(PgTrouble::Stopped.parse(other), None, "{other}");
        }
    }
}
