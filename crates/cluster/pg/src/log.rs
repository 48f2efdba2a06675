//! A PG's log in memory: the entries that recovery would need, and behind them what a resend is answered from.
//!
//! Invariants: versions ascend strictly; `tail < entries <= head`, and the newest entry is the head's but after a split, which
//! may give it to another PG; duplicates are not newer than the tail; each request
//! is indexed once, at its newest entry. The store keeps the same entries and the same duplicates (see `records`), so
//! that a restart knows every resend that a running PG knows.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use ops::OpReturn;
use types::{EVersion, ReqId};

use crate::{LogDup, LogEntry};

/// How much is kept, by the names of Ceph's options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLimits {
    /// Entries that a trim leaves: see [`LogLimits::share`].
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

impl LogLimits {
    /// A PG's share of the log entries of an OSD of `pgs` PGs: `per_osd` (osd_target_pg_log_entries_per_osd) shared out
    /// evenly, at most `max` (osd_max_pg_log_entries), at least `min` (osd_min_pg_log_entries).
    pub fn share(per_osd: usize, pgs: usize, min: usize, max: usize) -> usize {
        per_osd.checked_div(pgs).map_or(min, |share| share.min(max).max(min))
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
    /// Boxed: the list grows to thousands, and would copy them all each time.
    entries: VecDeque<Box<LogEntry>>,
    dups: VecDeque<LogDup>,
    tail: EVersion,
    head: EVersion,
    index: BTreeMap<ByTid, EVersion>,
}

/// A request's id, ordered by its number first: of the ids in a log hardly two have the same, so that one comparison
/// decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ByTid(ReqId);

impl Ord for ByTid {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.tid.cmp(&other.0.tid).then_with(|| self.0.cmp(&other.0))
    }
}
impl PartialOrd for ByTid {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
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

    /// The version that the log reaches up to: the newest entry's, but after a split.
    pub fn head(&self) -> EVersion {
        self.head
    }

    /// Entries, oldest first.
    pub fn entries(&self) -> &VecDeque<Box<LogEntry>> {
        &self.entries
    }

    /// Requests remembered from entries that were trimmed.
    pub fn dups(&self) -> &VecDeque<LogDup> {
        &self.dups
    }

    /// Entries newer than `version`, oldest first.
    pub fn entries_after(&self, version: EVersion) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.entries.range(self.entries.partition_point(|e| e.version <= version)..).map(|entry| &**entry)
    }

    /// The entry of this version.
    pub fn entry(&self, version: EVersion) -> Option<&LogEntry> {
        let at = self.entries.binary_search_by_key(&version, |e| e.version).ok()?;
        self.entries.get(at).map(|entry| &**entry)
    }

    /// Adds an entry, which must be newer than the head.
    #[inline]
    pub fn append(&mut self, entry: Box<LogEntry>) {
        debug_assert!(entry.version > self.head, "{} after {}", entry.version, self.head);
        if entry.reqid != ReqId::default() {
            self.index.insert(ByTid(entry.reqid), entry.version);
        }
        self.head = entry.version;
        self.entries.push_back(entry);
    }

    /// Adds a duplicate whose entry is not in the log. It must be newer than the other duplicates, not newer than the
    /// tail, and added before any entry.
    pub fn append_dup(&mut self, dup: LogDup) {
        debug_assert!(
            dup.version <= self.tail && self.entries.is_empty(),
            "{} in a log from {}",
            dup.version,
            self.tail
        );
        debug_assert!(
            self.dups.back().is_none_or(|last| last.version < dup.version),
            "{} is out of order",
            dup.version
        );
        self.index.insert(ByTid(dup.reqid), dup.version);
        self.dups.push_back(dup);
    }

    /// The log reaches up to `head` without an entry of that version: another PG has it since a split.
    pub fn skip_to(&mut self, head: EVersion) {
        self.head = self.head.max(head);
    }

    /// The part of the log that is of certain objects, by their hashes, and duplicates of which the object is not known. It
    /// begins and ends where this one does.
    pub fn part(&self, is_theirs: impl Fn(u32) -> bool) -> Self {
        let entries = self.entries.iter().filter(|entry| is_theirs(entry.oid.hash)).cloned();
        let dups = self.dups.iter().filter(|dup| dup.hash.is_none_or(&is_theirs)).cloned();
        let (entries, dups) = (entries.collect(), dups.collect());
        let mut part = Self { entries, dups, tail: self.tail, head: self.head, index: BTreeMap::new() };
        part.index_again();
        part
    }

    /// Forgets the entries and duplicates of objects that are another PG's. A duplicate of which the object is not known
    /// stays.
    pub fn keep(&mut self, is_ours: impl Fn(u32) -> bool) {
        self.entries.retain(|entry| is_ours(entry.oid.hash));
        self.dups.retain(|dup| dup.hash.is_none_or(&is_ours));
        self.index_again();
    }

    /// Undoes everything newer than `to`, which becomes the head, and returns the entries undone, oldest first. Before
    /// the tail this empties the log, which then begins at `to`.
    pub fn rewind(&mut self, to: EVersion) -> Vec<Box<LogEntry>> {
        let undone = self.entries.split_off(self.entries.partition_point(|e| e.version <= to));
        self.dups.truncate(self.dups.partition_point(|d| d.version <= to));
        self.head = self.head.min(to);
        self.tail = self.tail.min(to);
        // An older entry of the same request may have been hidden by a newer one.
        self.index_again();
        undone.into()
    }

    fn index_again(&mut self) {
        self.index = self.dups.iter().map(|d| (ByTid(d.reqid), d.version)).collect();
        let with_request = self.entries.iter().filter(|e| e.reqid != ReqId::default());
        self.index.extend(with_request.map(|e| (ByTid(e.reqid), e.version)));
    }

    /// The request's result, if it is remembered.
    pub fn find(&self, reqid: &ReqId) -> Option<LoggedRequest<'_>> {
        let version = *self.index.get(&ByTid(*reqid))?;
        if let Some(entry) = self.entry(version) {
            let LogEntry { user_version, return_code, extras, .. } = entry;
            return Some(LoggedRequest {
                version,
                user_version: *user_version,
                return_code: *return_code,
                op_returns: &extras.op_returns,
            });
        }
        let at = self.dups.binary_search_by_key(&version, |d| d.version).ok()?;
        let LogDup { user_version, return_code, op_returns, .. } = self.dups.get(at)?;
        Some(LoggedRequest { version, user_version: *user_version, return_code: *return_code, op_returns })
    }

    /// Where the log should be trimmed to when it gets `added` entries more, if it is worth it; never past `durable`.
    pub fn trim_target(&self, limits: &LogLimits, durable: EVersion, added: usize) -> Option<EVersion> {
        let excess = (self.entries.len() + added).saturating_sub(limits.entries_target).min(limits.trim_max);
        if excess == 0 || (excess < limits.trim_min && limits.trim_max >= limits.trim_min) {
            return None;
        }
        let durable_count = self.entries.partition_point(|e| e.version <= durable);
        let count = excess.min(durable_count);
        self.entries.get(count.checked_sub(1)?).map(|e| e.version)
    }

    /// Makes duplicates of the entries up to `to`, which becomes the tail, and forgets duplicates that are out of range.
    pub fn trim(&mut self, to: EVersion, limits: &LogLimits) {
        while self.entries.front().is_some_and(|e| e.version <= to) {
            let Some(entry) = self.entries.pop_front() else { break };
            self.tail = entry.version;
            if entry.reqid != ReqId::default() {
                self.dups.push_back(dup_of(*entry));
            }
        }
        let oldest = (self.head.version + 1).saturating_sub(limits.dups_tracked);
        while self.dups.front().is_some_and(|d| d.version.version < oldest) {
            let Some(LogDup { reqid, version, .. }) = self.dups.pop_front() else { break };
            let reqid = ByTid(reqid);
            if self.index.get(&reqid) == Some(&version) {
                self.index.remove(&reqid);
            }
        }
    }

    /// Up to where the stored log is needed no more: the version before the oldest duplicate, or the tail.
    pub fn stored_tail(&self) -> EVersion {
        let oldest = self.dups.front().map(|d| d.version);
        // Versions count on across epochs, so every older record sorts before or at this one.
        oldest.map_or(self.tail, |v| EVersion { version: v.version.saturating_sub(1), ..v }.min(self.tail))
    }
}

pub(crate) fn dup_of(entry: LogEntry) -> LogDup {
    let LogEntry { reqid, version, user_version, return_code, extras, oid, .. } = entry;
    let op_returns = extras.into_op_returns();
    LogDup { reqid, version, user_version, return_code, op_returns, hash: Some(oid.hash) }
}

#[cfg(test)]
mod tests {
    use types::{EntityName, EntityType, Epoch, HObject};

    use super::*;
    use crate::EntryKind;

    fn v(version: u64) -> EVersion {
        EVersion::new(Epoch(1), version)
    }

    fn request(tid: u64) -> ReqId {
        ReqId { name: EntityName::new(EntityType::Client, 1), tid, inc: 0 }
    }

    fn entry(version: u64, tid: u64) -> Box<LogEntry> {
        Box::new(LogEntry::new(EntryKind::Modify, HObject::min(), v(version), request(tid)))
    }

    /// Entries 1 to 20 of requests 1 to 20, trimmed to 10.
    fn log() -> PgLog {
        let mut log = PgLog::new(EVersion::default());
        (1..=20).for_each(|n| log.append(entry(n, n)));
        log.trim(v(10), &LogLimits { dups_tracked: 15, ..LogLimits::default() });
        log
    }

    fn versions<'a>(entries: impl Iterator<Item = &'a LogEntry>) -> Vec<u64> {
        entries.map(|e| e.version.version).collect()
    }

    #[test]
    fn a_trim_keeps_duplicates_of_the_versions_tracked() {
        let mut log = log();
        assert_eq!((log.tail(), log.head(), log.entries().len(), log.dups().len()), (v(10), v(20), 10, 5));
        assert_eq!(log.find(&request(5)), None, "15 versions back from 20 is 6");
        assert_eq!(log.find(&request(6)).map(|f| f.version), Some(v(6)));
        (21..=24).for_each(|n| log.append(entry(n, n)));
        log.trim(v(12), &LogLimits { dups_tracked: 15, ..LogLimits::default() });
        let dups: Vec<u64> = log.dups().iter().map(|d| d.version.version).collect();
        assert_eq!((dups, log.stored_tail(), log.tail()), (vec![10, 11, 12], v(9), v(12)));
        log.trim(v(12), &LogLimits { dups_tracked: 0, ..LogLimits::default() });
        assert_eq!((log.dups().len(), log.stored_tail()), (0, v(12)), "nothing behind the tail is kept");
    }

    #[test]
    fn an_osds_entries_are_shared_out_within_bounds() {
        assert_eq!(LogLimits::share(300_000, 100, 250, 10_000), 3000);
        assert_eq!(LogLimits::share(300_000, 1, 250, 10_000), 10_000);
        assert_eq!(LogLimits::share(300_000, 5000, 250, 10_000), 250);
        assert_eq!(LogLimits::share(300_000, 0, 250, 10_000), 250);
        assert_eq!(LogLimits::share(0, 7, 250, 10_000), 250);
        assert_eq!(LogLimits::share(300_000, 1, 250, 100), 250, "the minimum wins over the maximum");
    }

    #[test]
    fn entries_after_a_version_begin_with_the_next_that_is_there() {
        let log = log();
        assert_eq!(versions(log.entries_after(v(17))), [18, 19, 20]);
        assert_eq!(versions(log.entries_after(EVersion::new(Epoch(2), 0))), [0; 0]);
        assert_eq!(versions(log.entries_after(v(3))).len(), 10);
    }

    #[test]
    fn a_rewind_undoes_entries_and_forgets_their_requests() {
        let mut log = log();
        log.append(entry(21, 12));
        assert_eq!(log.rewind(v(18)).iter().map(|e| e.version.version).collect::<Vec<_>>(), [19, 20, 21]);
        assert_eq!((log.tail(), log.head()), (v(10), v(18)));
        assert_eq!(log.find(&request(19)), None);
        assert_eq!(log.find(&request(12)).map(|f| f.version), Some(v(12)), "the older entry of that request");
        log.append(entry(19, 30));
        assert_eq!(log.head(), v(19));
    }

    #[test]
    fn a_rewind_before_the_tail_empties_the_log_and_keeps_older_duplicates() {
        let mut log = log();
        assert_eq!(log.rewind(v(7)).len(), 10);
        assert_eq!((log.tail(), log.head(), log.entries().len()), (v(7), v(7), 0));
        assert_eq!(log.dups().iter().map(|d| d.version.version).collect::<Vec<_>>(), [6, 7]);
        assert_eq!((log.find(&request(8)), log.find(&request(15))), (None, None));
    }
}
