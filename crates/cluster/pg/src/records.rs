//! A PG's records in the store: its info and past intervals as attributes of the pgmeta object, the part of the info
//! that every write changes as the collection's small info, and the log.
//!
//! The stored log reaches further back than the PG's: records up to the PG's log tail are what resends are answered
//! from. An entry stays as it was written until no resend is answered from it any more, since to write it again as a
//! duplicate would cost each write a second record. A record of the kind `Duplicate` is one that came without its entry.

use buffer::Piece;
use encoding::{Decode, DecodeError, Encode};
use messages::PastIntervals;
use store::{Attrs, LogPage, LogRecord, LogRecordKind, ReadRequest, Transaction};
use types::{EVersion, ReqId};

use crate::info::{FastInfo, InfoAttr};
use crate::log::dup_of;
use crate::{LogDup, LogEntry, Pg, PgInfo, PgLog};

/// Records read at once.
const PAGE_RECORDS: usize = 4096;
/// Bytes of records read at once.
const PAGE_BYTES: usize = 4 << 20;

impl Pg {
    /// Appends `entry`, the newest, to the log, and trims the log if that is due.
    pub(crate) fn write_entry(&mut self, entry: LogEntry, txn: &mut Transaction) {
        txn.log_append(self.collection, entry.version, LogRecordKind::Entry, entry.to_bytes(0));
        self.log.append(entry);
        if let Some(to) = self.log.trim_target(&self.config.log, self.durable) {
            self.log.trim(to, &self.config.log);
            self.info.log_tail = self.log.tail();
            self.info_dirty = true;
            txn.log_trim(self.collection, self.log.stored_tail());
        }
        self.note_log_size();
    }

    pub(crate) fn note_log_size(&mut self) {
        let log_size = self.log.entries().len() as i64;
        self.info.stats.log_size = log_size;
        self.info.stats.ondisk_log_size = log_size;
    }

    /// Adds the info to `txn`: the small one if nothing else has changed. The whole info takes the small one's place: a
    /// small one that stays would undo what went back in the whole, such as `last_update`.
    pub(crate) fn write_info(&mut self, txn: &mut Transaction) {
        if !std::mem::take(&mut self.info_dirty) {
            txn.set_info(self.collection, FastInfo::of(&self.info).to_bytes(0));
            return;
        }
        let whole = [
            (InfoAttr::INFO.into(), self.info.to_bytes(0).into()),
            (InfoAttr::PAST_INTERVALS.into(), self.past.to_bytes(0).into()),
        ];
        txn.set_attrs(self.collection, &self.meta, whole.into());
        txn.set_info(self.collection, Piece::empty());
    }

    /// Takes the pgmeta object's attributes; the collection's small info is read next.
    pub(crate) fn take_attrs(&mut self, attrs: &Attrs) -> Result<Option<ReadRequest>, String> {
        let get = |name: &'static str| attrs.get(name.as_bytes());
        let bad = |name: &'static str| move |e: DecodeError| format!("{name}: {e}");
        let info = get(InfoAttr::INFO).ok_or_else(|| format!("no {}", InfoAttr::INFO))?;
        self.info = PgInfo::from_bytes(info).map_err(bad(InfoAttr::INFO))?;
        if let Some(past) = get(InfoAttr::PAST_INTERVALS) {
            self.past = PastIntervals::from_bytes(past).map_err(bad(InfoAttr::PAST_INTERVALS))?;
        }
        Ok(Some(ReadRequest::Collection { collection: self.collection }))
    }

    /// Takes the collection's small info, empty where the whole info was written last; the log is read next.
    pub(crate) fn take_small_info(&mut self, small: &[u8]) -> Result<Option<ReadRequest>, String> {
        if !small.is_empty() {
            let small = FastInfo::from_bytes(small).map_err(|e| format!("the small info: {e}"))?;
            small.apply_to(&mut self.info);
        }
        self.log = PgLog::new(self.info.log_tail);
        Ok(Some(self.records_after(EVersion::default())))
    }

    fn records_after(&self, after: EVersion) -> ReadRequest {
        ReadRequest::Log {
            collection: self.collection,
            after,
            records_max: PAGE_RECORDS,
            bytes_max: PAGE_BYTES,
        }
    }

    /// Takes a page of the log. What is to be read next, if anything.
    pub(crate) fn take_log(&mut self, page: &LogPage) -> Result<Option<ReadRequest>, String> {
        for record in &page.records {
            self.take_record(record).map_err(|e| format!("log record {}: {e}", record.version))?;
        }
        let last = page.records.last().filter(|_| page.more);
        Ok(last.map(|record| self.records_after(record.version)))
    }

    fn take_record(&mut self, record: &LogRecord) -> Result<(), String> {
        let damaged = |e: DecodeError| e.to_string();
        let tail = self.log.tail();
        let dup = match record.kind {
            LogRecordKind::Entry => {
                let entry = LogEntry::from_bytes(&record.bytes).map_err(damaged)?;
                check_version(record.version, entry.version)?;
                if entry.version > tail {
                    if entry.version <= self.log.head() {
                        return Err(format!("it follows {}", self.log.head()));
                    }
                    self.log.append(entry);
                    return Ok(());
                }
                dup_of(entry)
            }
            LogRecordKind::Duplicate => {
                let dup = LogDup::from_bytes(&record.bytes).map_err(damaged)?;
                check_version(record.version, dup.version)?;
                if dup.version > tail {
                    return Err(format!("a duplicate behind the log's tail {tail}"));
                }
                dup
            }
        };
        if dup.reqid != ReqId::default() {
            self.log.append_dup(dup);
        }
        Ok(())
    }
}

fn check_version(stored_as: EVersion, says: EVersion) -> Result<(), String> {
    if stored_as == says { Ok(()) } else { Err(format!("it says that it is {says}")) }
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
            store.turn(UTime::default());
            store.completions(&mut completions);
            for completion in completions {
                let event = match completion {
                    Completion::Committed { token } => PgEvent::Committed { token },
                    Completion::Read { token, result } => PgEvent::ReadDone { token, result },
                    refused => panic!("{refused:?}"),
                };
                pg.handle(UTime::default(), event, store, &mut effects);
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
        store.turn(UTime::default());
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
            txn.log_rewind(pg.collection, kept);
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
