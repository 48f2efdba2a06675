//! MLog: entries for the cluster log.

use types::{EntityAddrVec, EntityId, EntityName, Fsid, Name, UTime};

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

fields!(LogEntry "LogEntry" version 5, compat 5, [name, rank, addrs, stamp, seq, level, message, channel]);
payload!(Log = LOG, version 1, compat 1, [paxos, fsid, entries]);
