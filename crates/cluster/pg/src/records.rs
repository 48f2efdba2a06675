//! A copy's records of its PG in the store: its info and past intervals as attributes of the pgmeta object, the part of the info
//! that every write changes as the collection's small info, and the log.
//!
//! The stored log reaches further back than the PG's: records up to the PG's log tail are what resends are answered
//! from. An entry stays as it was written until no resend is answered from it any more, since to write it again as a
//! duplicate would cost each write a second record. A record of the kind `Duplicate` is one that came without its entry; one of
//! no request keeps the version at the log's end, whose entry another PG has since a split (`split`).

use buffer::Piece;
use encoding::{Decode, DecodeError, Encode};
use messages::PastIntervals;
use ops::StatsDelta;
use store::{
    Attrs, CollectionId, CollectionStat, LogPage, LogRecord, LogRecordKind, ReadRequest, Transaction,
    split_takes,
};
use types::{EVersion, GHObject, ReqId, SpgId};

use crate::info::{FastInfo, InfoAttr};
use crate::log::dup_of;
use crate::{Change, LogDup, LogEntry, LogLimits, PgInfo, PgLog};

/// Records in one read of the log. When a page is not in memory, the block store fetches it and then repeats the whole read, so long
/// reads repeat more work.
const PAGE_RECORDS: usize = 512;
/// Bytes of records read at once.
const PAGE_BYTES: usize = 4 << 20;

/// What a copy of a PG keeps of it besides its objects: in memory, and by each transaction in the store.
///
/// Invariant: `log.tail() <= durable <= log.head()`; every transaction leaves the stored records equal to these.
#[derive(Clone, Debug)]
pub struct Records {
    pub(crate) collection: CollectionId,
    pub(crate) meta: GHObject,
    /// How many low bits of their hash the PG's objects have in common, as the store has it: what says up to which number
    /// of PGs the PG has been split.
    pub(crate) bits: u32,
    pub(crate) info: PgInfo,
    /// Whether the stored info must be written whole the next time.
    pub(crate) dirty: bool,
    pub(crate) past: PastIntervals,
    pub(crate) log: PgLog,
    /// Every change up to here is durable on every copy that counts, as far as this copy knows.
    pub(crate) durable: EVersion,
}

/// What a change replaces of a copy's info.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Before {
    last_update: EVersion,
    last_complete: EVersion,
    last_user_version: u64,
}

impl Records {
    pub(crate) fn new(id: SpgId) -> Self {
        Self {
            collection: id.into(),
            meta: GHObject::pgmeta(id.pg.pool, id.pg.seed, id.shard),
            bits: 0,
            info: PgInfo::new(id),
            dirty: true,
            past: PastIntervals::default(),
            log: PgLog::default(),
            durable: EVersion::default(),
        }
    }

    pub fn info(&self) -> &PgInfo {
        &self.info
    }

    pub fn log(&self) -> &PgLog {
        &self.log
    }

    /// See [`Change::durable`].
    pub fn durable(&self) -> EVersion {
        self.durable
    }

    /// What the next change replaces.
    pub fn before(&self) -> Before {
        let PgInfo { last_update, last_complete, last_user_version, .. } = self.info;
        Before { last_update, last_complete, last_user_version }
    }

    /// Makes a change of this copy: the transaction that does it, with the copy's log and info.
    #[inline]
    pub fn apply(&mut self, change: Change, limits: &LogLimits) -> Transaction {
        let Change { earlier, newest, steps, stats, trim_to, durable } = change;
        debug_assert!(trim_to.is_none_or(|to| to <= durable), "a trim to {trim_to:?} past {durable}");
        let mut txn = steps.into_transaction(&self.meta);
        for entry in earlier {
            self.append(Box::new(entry), &mut txn);
        }
        self.append(newest, &mut txn);
        self.durable = self.durable.max(durable);
        if let Some(to) = trim_to {
            self.log.trim(to, limits);
            self.info.log_tail = self.log.tail();
            self.dirty = true;
            txn.log_trim(self.collection, self.log.stored_tail());
        }
        self.note_log_size();
        self.add_stats(&stats);
        self.write_info(&mut txn);
        txn
    }

    #[inline]
    fn append(&mut self, entry: Box<LogEntry>, txn: &mut Transaction) {
        let info = &mut self.info;
        if info.last_complete == info.last_update {
            info.last_complete = entry.version;
        }
        info.last_update = entry.version;
        info.last_user_version = info.last_user_version.max(entry.user_version);
        info.stats.version = entry.version;
        txn.log_append(self.collection, entry.version, LogRecordKind::Entry, entry.to_shared(0));
        self.log.append(entry);
    }

    /// Makes the records what they were before a change that is undone, with all after it. `stats` are the sum of what
    /// they counted. The store does not have these changes; the next transaction writes the info whole.
    pub fn go_back(&mut self, before: &Before, stats: StatsDelta) {
        self.info.last_update = before.last_update;
        self.info.last_complete = before.last_complete;
        self.info.last_user_version = before.last_user_version;
        self.info.stats.version = before.last_update;
        self.log.rewind(before.last_update);
        self.note_log_size();
        self.add_stats(&-stats);
        self.dirty = true;
    }

    pub(crate) fn note_log_size(&mut self) {
        let log_size = self.log.entries().len() as i64;
        self.info.stats.log_size = log_size;
        self.info.stats.ondisk_log_size = log_size;
    }

    pub(crate) fn add_stats(&mut self, delta: &StatsDelta) {
        let sum = &mut self.info.stats.stats.sum;
        sum.num_bytes += delta.num_bytes;
        sum.num_objects += delta.num_objects;
        sum.num_rd += delta.num_rd;
        sum.num_rd_kb += delta.num_rd_kb;
        sum.num_wr += delta.num_wr;
        sum.num_wr_kb += delta.num_wr_kb;
        sum.num_objects_dirty += delta.num_objects_dirty;
        if (delta.num_object_clones, delta.num_whiteouts, delta.num_objects_omap) != (0, 0, 0) {
            // The small info does not hold these.
            sum.num_object_clones += delta.num_object_clones;
            sum.num_whiteouts += delta.num_whiteouts;
            sum.num_objects_omap += delta.num_objects_omap;
            self.dirty = true;
        }
    }

    /// Adds the info to `txn`: the small one if nothing else has changed. The whole info takes the small one's place: a
    /// small one that stays would undo what went back in the whole, such as `last_update`.
    pub(crate) fn write_info(&mut self, txn: &mut Transaction) {
        match std::mem::take(&mut self.dirty) {
            true => self.write_whole_info(txn),
            false => {
                txn.set_info(self.collection, FastInfo::of(&self.info).to_shared(0));
            }
        }
    }

    /// Adds the whole info to `txn`.
    pub fn write_whole_info(&self, txn: &mut Transaction) {
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

    /// Takes the collection's bits and its small info, empty where the whole info was written last; the log is read next.
    pub(crate) fn take_stat(&mut self, stat: &CollectionStat) -> Result<Option<ReadRequest>, String> {
        if !stat.is_whole() {
            return Err("it is an import or a removal that did not get to its end: stop the OSD, and import it again (`loligo store import`) or remove it (`loligo store remove`)".into());
        }
        self.bits = stat.bits;
        let small = &stat.info;
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

    /// Adds to `txn` what makes the stored log of a PG that has none.
    pub(crate) fn write_whole_log(&self, txn: &mut Transaction) {
        let mut last = EVersion::default();
        for dup in self.log.dups() {
            last = dup.version;
            txn.log_append(self.collection, last, LogRecordKind::Duplicate, dup.to_bytes(0));
        }
        for entry in self.log.entries() {
            last = entry.version;
            txn.log_append(self.collection, last, LogRecordKind::Entry, entry.to_shared(0));
        }
        let head = self.log.head();
        if last < head && head > self.log.tail() {
            let mark = LogDup::mark(head);
            txn.log_append(self.collection, head, LogRecordKind::Duplicate, mark.to_bytes(0));
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
                // The stored log stays whole in a split: the others' part of it is theirs since.
                let is_ours = split_takes(self.bits, self.info.pgid.pg.seed, entry.oid.hash);
                if entry.version > tail {
                    if entry.version <= self.log.head() {
                        return Err(format!("it follows {}", self.log.head()));
                    }
                    match is_ours {
                        true => self.log.append(Box::new(entry)),
                        false => self.log.skip_to(entry.version),
                    }
                    return Ok(());
                }
                if !is_ours {
                    return Ok(());
                }
                dup_of(entry)
            }
            LogRecordKind::Duplicate => {
                let dup = LogDup::from_bytes(&record.bytes).map_err(damaged)?;
                check_version(record.version, dup.version)?;
                if dup.version > tail {
                    // What a split leaves in place of a head that another PG has: see `Split`.
                    if dup.reqid == ReqId::default() && dup.version > self.log.head() {
                        self.log.skip_to(dup.version);
                        return Ok(());
                    }
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
    use crate::{EntryKind, MapView, ObjectSteps, Origin, Pg, PgConfig, PgEffect, PgEvent, PoolView};

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

    fn map(epoch: u32) -> MapView {
        let pool = PoolView { size: 1, min_size: 1, pg_num: 1, ..PoolView::default() };
        let info = maps::OsdInfo { up_thru: Epoch(epoch), ..maps::OsdInfo::default() };
        let osd = maps::Osd { state: maps::OsdState::EXISTS, info, ..maps::Osd::default() };
        MapView {
            epoch: Epoch(epoch),
            osdmap: Arc::new(maps::OsdMap { osds: vec![osd], ..maps::OsdMap::default() }),
            up: vec![ME],
            up_primary: ME,
            acting: vec![ME],
            acting_primary: ME,
            pool,
        }
    }

    fn created(store: &mut MemStore) -> Pg {
        let id = PgId { pool: PoolId(1), seed: 0 }.into();
        let mut out = Vec::new();
        let mut pg = Pg::create(
            id,
            ME,
            Arc::new(PgConfig::default()),
            Origin::at(map(5), UTime::default()),
            UTime::default(),
            &mut out,
        );
        settle(&mut pg, store, out);
        pg
    }

    fn commit(store: &mut MemStore, txn: Transaction) {
        store.queue(txn, Token(0));
        let mut out = Vec::new();
        store.turn(UTime::default());
        store.completions(&mut out);
        assert!(matches!(out[..], [Completion::Committed { .. }]), "{out:?}");
    }

    fn append(pg: &mut Pg, store: &mut MemStore) {
        let records = &mut pg.records;
        let version = EVersion::new(Epoch(5), records.info.last_update.version + 1);
        let change = Change {
            earlier: Vec::new(),
            newest: Box::new(LogEntry::new(EntryKind::Modify, HObject::min(), version, ReqId::default())),
            steps: ObjectSteps::of(records.collection),
            stats: StatsDelta { num_wr: 1, ..StatsDelta::default() },
            trim_to: None,
            durable: EVersion::default(),
        };
        commit(store, records.apply(change, &pg.config.log));
    }

    fn loaded(pg: &Pg, store: &mut MemStore) -> Pg {
        let mut out = Vec::new();
        let mut loaded = Pg::load(pg.id, ME, pg.config.clone(), &mut out);
        settle(&mut loaded, store, out);
        loaded
    }

    #[test]
    fn a_copy_that_a_tool_has_not_finished_is_told() {
        let mut store = MemStore::new(1 << 30);
        let mut pg = created(&mut store);
        let stat = CollectionStat { info: store::UNFINISHED.to_vec().into(), ..CollectionStat::default() };
        let told = pg.records.take_stat(&stat).expect_err("it is no info");
        assert!(told.contains("import it again"), "{told}");
    }

    #[test]
    fn a_change_of_two_entries_is_one_transaction() {
        let mut store = MemStore::new(1 << 30);
        let mut pg = created(&mut store);
        let records = &mut pg.records;
        let [first, second] = [1, 2].map(|n| EVersion::new(Epoch(5), n));
        let clone = LogEntry::new(EntryKind::Clone, HObject::min(), first, ReqId::default());
        let write = LogEntry::new(EntryKind::Modify, HObject::min(), second, ReqId::default());
        let txn = records.apply(
            Change {
                earlier: vec![clone.clone()],
                newest: Box::new(write.clone()),
                steps: ObjectSteps::of(records.collection),
                stats: StatsDelta::default(),
                trim_to: None,
                durable: EVersion::default(),
            },
            &pg.config.log,
        );
        commit(&mut store, txn);
        let again = loaded(&pg, &mut store).records;
        assert_eq!(again.info.last_update, second);
        assert!(again.log.entries_after(EVersion::default()).eq(&[clone, write]));
    }

    #[test]
    fn a_last_update_that_went_back_stays_back_after_a_restart() {
        let mut store = MemStore::new(1 << 30);
        let mut pg = created(&mut store);
        (0..4).for_each(|_| append(&mut pg, &mut store));
        let (before, kept) = (pg.records.before(), pg.records.info.clone());
        (0..3).for_each(|_| append(&mut pg, &mut store));
        // What peering does with entries that no other copy has.
        pg.records.go_back(&before, StatsDelta { num_wr: 3, ..StatsDelta::default() });
        let mut txn = Transaction::new();
        txn.log_rewind(pg.records.collection, kept.last_update);
        pg.records.write_info(&mut txn);
        commit(&mut store, txn);
        let again = loaded(&pg, &mut store).records;
        assert_eq!((&again.info, again.log.head()), (&kept, kept.last_update));
        assert_eq!(again.log.entries(), pg.records.log.entries());
    }

    #[test]
    fn after_a_restart_the_log_is_durable_everywhere_when_the_pg_is_active() {
        let mut store = MemStore::new(1 << 30);
        let mut pg = created(&mut store);
        (0..4).for_each(|_| append(&mut pg, &mut store));
        let mut again = loaded(&pg, &mut store);
        let (tail, head) = (again.log().tail(), again.log().head());
        assert!(tail < head);
        assert_eq!(again.records.durable(), tail, "another copy may lack the entries");
        let mut effects = Vec::new();
        let event = PgEvent::AdvanceMap(Box::new(map(6)));
        again.handle(UTime::default(), event, &mut store, &mut effects);
        assert_eq!(again.records.durable(), tail, "the start of the interval is not durable");
        settle(&mut again, &mut store, effects);
        assert!(again.is_active());
        assert_eq!(again.records.durable(), head);
    }

    #[test]
    fn a_restart_finds_the_small_info_that_was_written_last() {
        let mut store = MemStore::new(1 << 30);
        let mut pg = created(&mut store);
        for n in 1..=5 {
            pg.records.dirty = n == 3;
            append(&mut pg, &mut store);
            assert_eq!(loaded(&pg, &mut store).records.info, pg.records.info, "after change {n}");
        }
    }
}
