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

    /// Adds the pgmeta object's attributes to `txn`: the small one if nothing else has changed. The whole info takes the
    /// small one's place: a small one that stays would undo what went back in the whole, such as `last_update`.
    pub(crate) fn write_info(&mut self, txn: &mut Transaction) {
        let (collection, object) = (self.collection, self.meta.clone());
        if !std::mem::take(&mut self.info_dirty) {
            let small = FastInfo::of(&self.info).to_bytes(0);
            txn.set_attr(collection, object, InfoAttr::FAST_INFO, small);
            return;
        }
        let name = InfoAttr::FAST_INFO.into();
        txn.push(TxOp::RemoveAttr { collection, object: object.clone(), name });
        let whole = [
            (InfoAttr::INFO.into(), self.info.to_bytes(0).into()),
            (InfoAttr::PAST_INTERVALS.into(), self.past.to_bytes(0).into()),
        ];
        txn.set_attrs(collection, object, whole.into());
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Completion, MemStore, ObjectStore, Token};
    use types::{Epoch, HObject, OsdId, PgId, PoolId, ReqId, UTime};

    use super::*;
    use crate::{EntryKind, MapView, Origin, PgConfig, PgEffect, PgEvent, PoolView};

    const ME: OsdId = OsdId(0);

    /// Performs what a PG wants of the store, and what follows from that.
    fn settle(pg: &mut Pg, store: &mut MemStore, mut effects: Vec<PgEffect>) {
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    PgEffect::Queue { token, txn } => store.queue(txn, token),
                    PgEffect::Read { token, request } => store.read(request, token),
                    other => panic!("{other:?}"),
                }
            }
            let mut completions = Vec::new();
            store.completions(&mut completions);
            for completion in completions {
                let event = match completion {
                    Completion::Committed { token } => PgEvent::Committed { token },
                    Completion::Read { token, result } => PgEvent::ReadDone { token, result },
                    refused => panic!("{refused:?}"),
                };
                pg.handle(UTime::default(), event, &mut effects);
            }
        }
    }

    fn created(store: &mut MemStore) -> Pg {
        let id = PgId { pool: PoolId(1), seed: 0 }.into();
        let pool = PoolView { size: 1, min_size: 1, pg_num: 1, ..PoolView::default() };
        let map = MapView {
            epoch: Epoch(5),
            osdmap: Arc::default(),
            up: vec![ME],
            up_primary: ME,
            acting: vec![ME],
            acting_primary: ME,
            pool,
        };
        let mut out = Vec::new();
        let mut pg = Pg::create(
            id,
            ME,
            Arc::new(PgConfig::default()),
            Origin::at(map, UTime::default()),
            UTime::default(),
            &mut out,
        );
        settle(&mut pg, store, out);
        pg
    }

    /// As the PG's own code changes it: `change` works on the PG and its transaction, the info goes with it.
    fn change(pg: &mut Pg, store: &mut MemStore, change: impl FnOnce(&mut Pg, &mut Transaction)) {
        let mut txn = Transaction::new();
        change(pg, &mut txn);
        pg.write_info(&mut txn);
        store.queue(txn, Token(0));
        let mut out = Vec::new();
        store.completions(&mut out);
        assert!(matches!(out[..], [Completion::Committed { .. }]), "{out:?}");
    }

    fn append(pg: &mut Pg, txn: &mut Transaction) {
        let version = EVersion::new(Epoch(5), pg.info.last_update.version + 1);
        (pg.info.last_update, pg.info.last_complete) = (version, version);
        let entry = LogEntry::new(EntryKind::Modify, HObject::min(), version, ReqId::default());
        pg.write_entry(entry, txn);
    }

    fn loaded(pg: &Pg, store: &mut MemStore) -> Pg {
        let mut out = Vec::new();
        let mut loaded = Pg::load(pg.id, ME, pg.config.clone(), &mut out);
        settle(&mut loaded, store, out);
        loaded
    }

    #[test]
    fn a_last_update_that_went_back_stays_back_after_a_restart() {
        let mut store = MemStore::new(1 << 30);
        let mut pg = created(&mut store);
        (0..7).for_each(|_| change(&mut pg, &mut store, append));
        let before = pg.info.clone();
        // What peering does with entries that no other copy has.
        let kept = EVersion::new(Epoch(5), 4);
        change(&mut pg, &mut store, |pg, txn| {
            assert_eq!(pg.log.rewind(kept).len(), 3);
            txn.push(TxOp::LogRewind { collection: pg.collection, to: kept });
            (pg.info.last_update, pg.info.last_complete) = (kept, kept);
            pg.info_dirty = true;
        });
        let again = loaded(&pg, &mut store);
        assert_eq!(again.info.last_update, kept);
        assert_eq!((&again.info, again.log.head()), (&pg.info, kept));
        assert_ne!(again.info, before);
    }

    #[test]
    fn a_restart_finds_the_small_info_that_was_written_last() {
        let mut store = MemStore::new(1 << 30);
        let mut pg = created(&mut store);
        for n in 1..=5 {
            change(&mut pg, &mut store, |pg, txn| {
                append(pg, txn);
                pg.info_dirty = n == 3;
            });
            assert_eq!(loaded(&pg, &mut store).info, pg.info, "after change {n}");
        }
    }
}
