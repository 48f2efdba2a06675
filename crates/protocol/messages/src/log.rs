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

/// An OSD's line about a PG that failed: `pg ID has stopped: REASON`. No other message has the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgStopped {
    pub pg: PgId,
    pub reason: String,
}

/// An OSD's line about a PG whose pool was removed, and whose objects it can't remove: `pg ID can't be removed: REASON`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgRemains {
    pub pg: PgId,
    pub reason: String,
}

impl PgStopped {
    const MIDDLE: &str = " has stopped: ";

    /// The line of a PG.
    pub fn line(pg: &SpgId, reason: impl fmt::Display) -> String {
        format!("pg {pg}{}{reason}", Self::MIDDLE)
    }

    /// What a line says; `None` if it is about something else.
    pub fn parse(line: &str) -> Option<Self> {
        parse(line, Self::MIDDLE).map(|(pg, reason)| Self { pg, reason })
    }
}

impl PgRemains {
    const MIDDLE: &str = " can't be removed: ";

    /// The line of a PG.
    pub fn line(pg: &SpgId, reason: impl fmt::Display) -> String {
        format!("pg {pg}{}{reason}", Self::MIDDLE)
    }

    /// What a line says; `None` if it is about something else.
    pub fn parse(line: &str) -> Option<Self> {
        parse(line, Self::MIDDLE).map(|(pg, reason)| Self { pg, reason })
    }
}

/// The PG that a line is about, and the reason behind `middle`.
fn parse(line: &str, middle: &str) -> Option<(PgId, String)> {
    let (pg, reason) = line.strip_prefix("pg ")?.split_once(middle)?;
    Some((pg.parse().ok()?, reason.to_owned()))
}

fields!(LogEntry "LogEntry" version 5, compat 5, [name, rank, addrs, stamp, seq, level, message, channel]);
payload!(Log = LOG, version 1, compat 1, [paxos, fsid, entries]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_failed_pg_is_read_as_it_is_written() {
        let pg: PgId = "7.1f".parse().unwrap();
        let line = PgStopped::line(&SpgId::from(pg), "its info is damaged: crc");
        assert_eq!(line, "pg 7.1f has stopped: its info is damaged: crc");
        let reason = "its info is damaged: crc".to_owned();
        assert_eq!(PgStopped::parse(&line), Some(PgStopped { pg, reason }));
        let line = PgRemains::line(&SpgId::from(pg), "a page is damaged");
        assert_eq!(line, "pg 7.1f can't be removed: a page is damaged");
        let reason = "a page is damaged".to_owned();
        assert_eq!(PgRemains::parse(&line), Some(PgRemains { pg, reason }));
        assert_eq!(PgStopped::parse(&line), None);
        for other in ["", "pg 7.1f scrub ok", "pg x has stopped: y", "osd.1 has stopped: y"] {
            assert_eq!(PgStopped::parse(other), None, "{other}");
        }
    }
}
