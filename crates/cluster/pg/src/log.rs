//! A PG's log in memory: the entries that recovery would need, and behind them what a resend is answered from.
//!
//! Invariants: versions ascend strictly; `tail < entries <= head`; duplicates are older than the tail or equal to it;
//! each request is indexed once, at its newest entry. The store's log holds the same records as whole entries: it is
//! trimmed only as duplicates are forgotten, so that a restart knows every resend that a running PG knows.

use std::collections::{BTreeMap, VecDeque};

use ops::OpReturn;
use types::{EVersion, ReqId};

use crate::{LogDup, LogEntry};

/// How much is kept, by the names of Ceph's options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLimits {
    /// Entries wanted: osd_target_pg_log_entries_per_osd shared out, between osd_min_pg_log_entries and
    /// osd_max_pg_log_entries.
    pub entries_target: usize,
    /// osd_pg_log_trim_min: fewer are not worth a trim.
    pub trim_min: usize,
    /// osd_pg_log_trim_max: at most so many in one trim.
    pub trim_max: usize,
    /// osd_pg_log_dups_tracked: versions behind the head for which resends are recognised.
    pub dups_tracked: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { entries_target: 250, trim_min: 100, trim_max: 10_000, dups_tracked: 3000 }
    }
}

/// What the log knows of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedRequest<'a> {
    /// Its entry.
    pub version: EVersion,
    pub user_version: u64,
    /// Its result.
    pub return_code: i32,
    /// Its operations' results, if kept.
    pub op_returns: &'a [OpReturn],
}

#[derive(Clone, Default, Debug)]
pub struct PgLog {
    entries: VecDeque<LogEntry>,
    dups: VecDeque<LogDup>,
    tail: EVersion,
    head: EVersion,
    index: BTreeMap<ReqId, EVersion>,
}

impl PgLog {
    /// An empty log that begins at `tail`.
    pub fn new(tail: EVersion) -> Self {
        Self { tail, head: tail, ..Self::default() }
    }

    /// The version before the first entry.
    pub fn tail(&self) -> EVersion {
        self.tail
    }

    /// The newest entry's version.
    pub fn head(&self) -> EVersion {
        self.head
    }

    /// Entries, oldest first.
    pub fn entries(&self) -> &VecDeque<LogEntry> {
        &self.entries
    }

    /// Requests remembered from entries that were trimmed.
    pub fn dups(&self) -> &VecDeque<LogDup> {
        &self.dups
    }

    /// Adds an entry newer than the head, or, when `entry` is not newer than the tail (while a log is loaded), what a
    /// resend needs of it.
    pub fn append(&mut self, entry: LogEntry) {
        if entry.reqid != ReqId::default() {
            self.index.insert(entry.reqid, entry.version);
        }
        if entry.version <= self.tail {
            self.dups.push_back(dup_of(entry));
            return;
        }
        debug_assert!(entry.version > self.head, "{} after {}", entry.version, self.head);
        self.head = entry.version;
        self.entries.push_back(entry);
    }

    /// The request's result, if it is remembered.
    pub fn find(&self, reqid: &ReqId) -> Option<LoggedRequest<'_>> {
        let version = *self.index.get(reqid)?;
        if let Ok(at) = self.entries.binary_search_by_key(&version, |e| e.version) {
            let LogEntry { user_version, return_code, op_returns, .. } = self.entries.get(at)?;
            return Some(LoggedRequest {
                version,
                user_version: *user_version,
                return_code: *return_code,
                op_returns,
            });
        }
        let at = self.dups.binary_search_by_key(&version, |d| d.version).ok()?;
        let LogDup { user_version, return_code, op_returns, .. } = self.dups.get(at)?;
        Some(LoggedRequest { version, user_version: *user_version, return_code: *return_code, op_returns })
    }

    /// Where the log should be trimmed to, if it is worth it; never past `durable`.
    pub fn trim_target(&self, limits: &LogLimits, durable: EVersion) -> Option<EVersion> {
        let excess = self.entries.len().saturating_sub(limits.entries_target).min(limits.trim_max);
        if excess == 0 || (excess < limits.trim_min && limits.trim_max >= limits.trim_min) {
            return None;
        }
        let durable_count = self.entries.partition_point(|e| e.version <= durable);
        let count = excess.min(durable_count);
        self.entries.get(count.checked_sub(1)?).map(|e| e.version)
    }

    /// Makes duplicates of the entries up to `to` and forgets those out of range. What the store's log may then be
    /// trimmed to, if anything was forgotten.
    pub fn trim(&mut self, to: EVersion, limits: &LogLimits) -> Option<EVersion> {
        while self.entries.front().is_some_and(|e| e.version <= to) {
            if let Some(entry) = self.entries.pop_front() {
                self.tail = entry.version;
                self.dups.push_back(dup_of(entry));
            }
        }
        let oldest = (self.head.version + 1).saturating_sub(limits.dups_tracked);
        let mut forgotten = None;
        while self.dups.front().is_some_and(|d| d.version.version < oldest) {
            let Some(dup) = self.dups.pop_front() else { break };
            if self.index.get(&dup.reqid) == Some(&dup.version) {
                self.index.remove(&dup.reqid);
            }
            forgotten = Some(dup.version);
        }
        forgotten
    }
}

fn dup_of(entry: LogEntry) -> LogDup {
    let LogEntry { reqid, version, user_version, return_code, op_returns, .. } = entry;
    LogDup { reqid, version, user_version, return_code, op_returns }
}
