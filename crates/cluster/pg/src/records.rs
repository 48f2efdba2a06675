//! A PG's records in the store. The pgmeta object has the info and the past intervals as attributes and the duplicates
//! in its omap, each under a key that sorts by version; the collection's log has the entries. A trim takes entries out
//! of the log and puts the smaller duplicates into the omap in the same transaction.

use encoding::{Decode, DecodeError, Encode};
use messages::PastIntervals;
use store::{Attrs, LogPage, OmapPage, ReadRequest, Transaction, TxOp};
use types::{EVersion, Name};

use crate::info::{FastInfo, InfoAttr};
use crate::{LogDup, LogEntry, Pg, PgInfo, PgLog};

/// Records read at once.
const PAGE_ENTRIES: usize = 4096;
/// Bytes of records read at once.
const PAGE_BYTES: usize = 4 << 20;

/// What a duplicate's key in the pgmeta object's omap begins with.
const DUP_PREFIX: &str = "dup_";

fn dup_key(version: EVersion) -> Name {
    format!("{DUP_PREFIX}{:010}.{:020}", version.epoch.0, version.version).into()
}

impl Pg {
    /// Appends `entry`, the newest, to the log, and trims the log if that is due.
    pub(crate) fn write_entry(&mut self, entry: LogEntry, txn: &mut Transaction) {
        txn.log_append(self.collection, entry.version, entry.to_bytes(0));
        self.log.append(entry);
        if let Some(to) = self.log.trim_target(&self.config.log, self.durable) {
            self.write_trim(to, txn);
        }
        let log_size = self.log.entries().len() as i64;
        self.info.stats.log_size = log_size;
        self.info.stats.ondisk_log_size = log_size;
    }

    fn write_trim(&mut self, to: EVersion, txn: &mut Transaction) {
        let trimmed = self.log.trim(to, &self.config.log);
        self.info.log_tail = self.log.tail();
        self.info_dirty = true;
        txn.log_trim(self.collection, self.log.tail());
        let (collection, object) = (self.collection, || self.meta.clone());
        if let Some((first, last)) = trimmed.forgotten {
            let after = EVersion { version: last.version + 1, ..last };
            let (first, last) = (dup_key(first), dup_key(after));
            txn.push(TxOp::OmapRemoveRange { collection, object: object(), first, last });
        }
        if trimmed.dups_added > 0 {
            let new = self.log.dups().iter().rev().take(trimmed.dups_added);
            let entries: Attrs = new.map(|dup| (dup_key(dup.version), dup.to_bytes(0).into())).collect();
            txn.omap_set(collection, object(), entries);
        }
    }

    /// Adds the pgmeta object's attributes to `txn`: the small one if nothing else has changed.
    pub(crate) fn write_info(&mut self, txn: &mut Transaction) {
        let whole = std::mem::take(&mut self.info_dirty);
        let attrs: Attrs = match whole {
            false => [(InfoAttr::FAST_INFO.into(), FastInfo::of(&self.info).to_bytes(0).into())].into(),
            true => [
                (InfoAttr::INFO.into(), self.info.to_bytes(0).into()),
                (InfoAttr::PAST_INTERVALS.into(), self.past.to_bytes(0).into()),
            ]
            .into(),
        };
        txn.set_attrs(self.collection, self.meta.clone(), attrs);
    }

    /// Takes the pgmeta object's attributes; the duplicates are read next.
    pub(crate) fn take_attrs(&mut self, attrs: &Attrs) -> Result<Option<ReadRequest>, String> {
        let get = |name: &'static str| attrs.get(&name.into());
        let bad = |name: &'static str| move |e: DecodeError| format!("{name}: {e}");
        let info = get(InfoAttr::INFO).ok_or_else(|| format!("no {}", InfoAttr::INFO))?;
        self.info = PgInfo::from_bytes(info).map_err(bad(InfoAttr::INFO))?;
        if let Some(fast) = get(InfoAttr::FAST_INFO) {
            FastInfo::from_bytes(fast).map_err(bad(InfoAttr::FAST_INFO))?.apply_to(&mut self.info);
        }
        if let Some(past) = get(InfoAttr::PAST_INTERVALS) {
            self.past = PastIntervals::from_bytes(past).map_err(bad(InfoAttr::PAST_INTERVALS))?;
        }
        self.log = PgLog::new(self.info.log_tail);
        Ok(Some(self.dups_after(None)))
    }

    fn dups_after(&self, after: Option<Name>) -> ReadRequest {
        ReadRequest::OmapRange {
            collection: self.collection,
            object: self.meta.clone(),
            after,
            prefix: DUP_PREFIX.into(),
            entries_max: PAGE_ENTRIES,
            bytes_max: PAGE_BYTES,
            values: true,
        }
    }

    /// Takes a page of duplicates; the log is read after the last.
    pub(crate) fn take_dups(&mut self, page: &OmapPage) -> Result<Option<ReadRequest>, String> {
        for (key, bytes) in &page.entries {
            let dup = LogDup::from_bytes(bytes).map_err(|e| format!("{key}: {e}"))?;
            if dup_key(dup.version) != *key || dup.version > self.log.tail() {
                return Err(format!("{key} is of {}, the log's tail is {}", dup.version, self.log.tail()));
            }
            self.log.append_dup(dup);
        }
        Ok(Some(match page.entries.last() {
            Some((last, _)) if page.more => self.dups_after(Some(last.clone())),
            _ => self.entries_after(EVersion::default()),
        }))
    }

    fn entries_after(&self, after: EVersion) -> ReadRequest {
        ReadRequest::Log {
            collection: self.collection,
            after,
            entries_max: PAGE_ENTRIES,
            bytes_max: PAGE_BYTES,
        }
    }

    /// Takes a page of the log. What is to be read next, if anything.
    pub(crate) fn take_entries(&mut self, page: &LogPage) -> Result<Option<ReadRequest>, String> {
        for (version, bytes) in &page.entries {
            let entry = LogEntry::from_bytes(bytes).map_err(|e| format!("log entry {version}: {e}"))?;
            if entry.version != *version {
                return Err(format!("log entry {version} is of {}", entry.version));
            }
            if entry.version <= self.log.head() {
                return Err(format!("log entry {version} follows {}", self.log.head()));
            }
            self.log.append(entry);
        }
        let more = page.more && !page.entries.is_empty();
        Ok(more.then(|| self.entries_after(self.log.head())))
    }
}
