//! A PG's beginning: made new, or read from the store.

use std::sync::Arc;

use store::{ReadOutcome, ReadRequest, StoreError, Transaction};
use types::{EVersion, OsdId, SpgId, UTime};

use crate::hash_range::split_bits;
use crate::pg::{Phase, ReadFor};
use crate::{MapView, Pg, PgConfig, PgEffect, PgFailure};

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
        let mut pg = Self::empty(id, whoami, config, Phase::Loading);
        let request = ReadRequest::Attrs { collection: pg.collection, object: pg.meta.clone() };
        pg.read(request, ReadFor::Load, out);
        pg
    }

    /// Keeps a map for later while the PG is being loaded; gives it back otherwise.
    pub(crate) fn defer_map(&mut self, map: MapView) -> Option<MapView> {
        if self.phase != Phase::Loading {
            return Some(map);
        }
        self.deferred_maps.push(map);
        None
    }

    pub(crate) fn on_load_read(&mut self, result: Result<ReadOutcome, StoreError>, out: &mut Vec<PgEffect>) {
        let next = match result {
            Ok(ReadOutcome::Attrs(attrs)) => self.take_attrs(&attrs),
            Ok(ReadOutcome::Omap(page)) => self.take_dups(&page),
            Ok(ReadOutcome::Log(page)) => self.take_entries(&page),
            Ok(_) => Err("the store answered another question".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match next {
            Err(reason) => self.fail(PgFailure::Load(reason), out),
            Ok(Some(request)) => self.read(request, ReadFor::Load, out),
            Ok(None) => self.finish_load(out),
        }
    }

    fn finish_load(&mut self, out: &mut Vec<PgEffect>) {
        if self.log.head() != self.info.last_update {
            let (log, info) = (self.log.head(), self.info.last_update);
            return self.fail(PgFailure::Load(format!("the log ends at {log}, the info says {info}")), out);
        }
        self.durable = self.info.last_update;
        self.info_dirty = true;
        self.phase = Phase::Inactive;
        for map in std::mem::take(&mut self.deferred_maps) {
            self.on_advance_map(map, out);
        }
    }
}
