//! A PG's beginning: made new, or read from the store.

use std::sync::Arc;

use encoding::{Decode, DecodeError, Encode};
use store::{Attrs, LogPage, ReadOutcome, ReadRequest, StoreError, Transaction};
use types::{EVersion, OsdId, SpgId, UTime};

use crate::hash_range::split_bits;
use crate::info::{FastInfo, InfoAttr};
use crate::pg::{Phase, ReadFor};
use crate::{LogEntry, MapView, PastIntervals, Pg, PgConfig, PgEffect, PgFailure, PgInfo, PgLog};

/// Log entries read at once.
const PAGE_ENTRIES: usize = 4096;
/// Bytes of log read at once.
const PAGE_BYTES: usize = 4 << 20;

/// What a PG being loaded waits for.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    /// Maps that came in the meantime.
    maps: Vec<MapView>,
}

impl Pg {
    /// A PG that does not exist yet, as of `map`; queues the transaction that makes it. It serves at once if it is to:
    /// what it does then takes effect after that.
    pub fn create(
        id: SpgId,
        whoami: OsdId,
        config: Arc<PgConfig>,
        map: MapView,
        now: UTime,
        out: &mut Vec<PgEffect>,
    ) -> Self {
        let mut pg = Self::empty(id, whoami, config, Phase::Inactive);
        pg.now = now;
        pg.stored = false;
        let history = &mut pg.info.history;
        history.epoch_created = map.epoch;
        history.epoch_pool_created = map.pool.create_epoch;
        history.same_interval_since = map.epoch;
        history.same_up_since = map.epoch;
        // Where the mapping's own past is not known, older is safer: a request of before is then run, and its resend
        // recognised; one dropped by mistake would never come again.
        history.same_primary_since = map.pool.create_epoch.min(map.epoch);
        history.last_epoch_clean = map.epoch;
        history.last_interval_clean = map.epoch;
        history.last_scrub_stamp = now;
        history.last_deep_scrub_stamp = now;
        history.last_clean_scrub_stamp = now;
        pg.info.stats.created = map.epoch;
        let mut txn = Transaction::new();
        txn.create_collection(pg.collection, split_bits(id.pg.seed, map.pool.pg_num));
        txn.touch(pg.collection, pg.meta.clone());
        pg.note_mapping(&map);
        pg.write_info(&mut txn);
        pg.submit(EVersion::default(), txn, None, None, out);
        pg.map = Some(map);
        pg.decide_role(out);
        pg
    }

    /// A PG that the store has. Emits reads; requests wait until they are done and the first map has come. The maps
    /// given from then on continue from [`PgInfo::stats`]' `reported_epoch`, which is the last one it saw.
    pub fn load(id: SpgId, whoami: OsdId, config: Arc<PgConfig>, out: &mut Vec<PgEffect>) -> Self {
        let mut pg = Self::empty(id, whoami, config, Phase::Loading(Box::default()));
        let request = ReadRequest::Attrs { collection: pg.collection, object: pg.meta.clone() };
        pg.read(request, ReadFor::Load, out);
        pg
    }

    /// Keeps a map for later while the PG is being loaded; gives it back otherwise.
    pub(crate) fn defer_map(&mut self, map: MapView) -> Option<MapView> {
        match &mut self.phase {
            Phase::Loading(loading) => {
                loading.maps.push(map);
                None
            }
            _ => Some(map),
        }
    }

    pub(crate) fn on_load_read(&mut self, result: Result<ReadOutcome, StoreError>, out: &mut Vec<PgEffect>) {
        let loaded = match result {
            Ok(ReadOutcome::Attrs(attrs)) => self.take_attrs(&attrs).map(|()| true),
            Ok(ReadOutcome::Log(page)) => self.take_log(page),
            Ok(_) => Err("the store answered another question".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match loaded {
            Err(reason) => self.fail(PgFailure::Load(reason), out),
            Ok(true) => {
                let after = self.log_read_to();
                let request = ReadRequest::Log {
                    collection: self.collection,
                    after,
                    entries_max: PAGE_ENTRIES,
                    bytes_max: PAGE_BYTES,
                };
                self.read(request, ReadFor::Load, out);
            }
            Ok(false) => self.finish_load(out),
        }
    }

    fn take_attrs(&mut self, attrs: &Attrs) -> Result<(), String> {
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
        Ok(())
    }

    /// The newest entry read so far.
    fn log_read_to(&self) -> EVersion {
        match self.log.entries().back() {
            Some(entry) => entry.version,
            None => self.log.dups().back().map_or(EVersion::default(), |d| d.version),
        }
    }

    /// Whether more is to be read.
    fn take_log(&mut self, page: LogPage) -> Result<bool, String> {
        for (version, bytes) in &page.entries {
            let entry = LogEntry::from_bytes(bytes).map_err(|e| format!("log entry {version}: {e}"))?;
            if entry.version != *version {
                return Err(format!("log entry {version} says it is {}", entry.version));
            }
            self.log.append(entry);
        }
        Ok(page.more && !page.entries.is_empty())
    }

    fn finish_load(&mut self, out: &mut Vec<PgEffect>) {
        if self.log.head() != self.info.last_update {
            let (log, info) = (self.log.head(), self.info.last_update);
            return self.fail(PgFailure::Load(format!("the log ends at {log}, the info says {info}")), out);
        }
        self.durable = self.info.last_update;
        self.info_dirty = true;
        let Phase::Loading(loading) = std::mem::replace(&mut self.phase, Phase::Inactive) else { return };
        for map in loading.maps {
            self.on_advance_map(map, out);
        }
    }

    /// Adds the pgmeta object's records to `txn`: the small one if nothing else has changed.
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
}
