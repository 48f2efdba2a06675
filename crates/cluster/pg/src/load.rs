//! A PG's beginning: made new, or read from the store.

use std::sync::Arc;

use messages::{PastIntervals, PgHistory};
use ops::StatsDelta;
use store::{NoPeek, ReadOutcome, ReadRequest, StoreError, Transaction};
use types::{OsdId, SpgId, UTime};

use crate::hash_range::split_bits;
use crate::out::Out;
use crate::pg::ReadFor;
use crate::phase::Phase;
use crate::records::Records;
use crate::{MapView, Pg, PgConfig, PgEffect, PgFailure, PgInfo};

/// Where a new PG begins.
#[derive(Clone, PartialEq, Debug)]
pub struct Origin {
    /// What became of the PG up to `first`.
    pub history: PgHistory,
    /// The intervals since it was made that ended before `first`.
    pub past: PastIntervals,
    /// The map of the order to make the PG.
    pub first: MapView,
    /// The maps after it up to the OSD's. One that differs from the one before in the epoch alone may be left out.
    pub later: Vec<MapView>,
}

impl Origin {
    /// A PG that is made in `map`'s epoch.
    pub fn at(map: MapView, stamp: UTime) -> Self {
        let history = PgHistory::created(map.epoch, stamp);
        Self { history, past: PastIntervals::default(), first: map, later: Vec::new() }
    }
}

impl Pg {
    /// A PG that does not exist yet; queues the transaction that makes it. If it is to serve, it does when that is durable
    /// and a map shows this OSD alive.
    pub fn create(
        id: SpgId,
        whoami: OsdId,
        config: Arc<PgConfig>,
        origin: Origin,
        now: UTime,
        out: &mut Vec<PgEffect>,
    ) -> Self {
        let Origin { history, past, first, later } = origin;
        let mut pg = Self::empty(id, whoami, config, Phase::Nonprimary);
        pg.now = now;
        pg.stored = false;
        pg.records.info.stats.created = history.epoch_created;
        (pg.records.info.history, pg.records.past) = (history, past);
        pg.note_mapping(&first);
        pg.records.info.stats.mapping_epoch = pg.records.info.history.same_interval_since;
        pg.records.bits = split_bits(id.pg.seed, first.pool.pg_num);
        pg.map = Some(first);
        for map in later {
            // There are no requests that a new interval could drop.
            pg.take_map(map, &mut Out::new(&mut Vec::new(), &mut NoPeek));
        }
        let mut txn = Transaction::new();
        txn.create_collection(pg.records.collection, pg.records.bits);
        txn.touch(pg.records.collection, &pg.records.meta);
        pg.records.write_info(&mut txn);
        let mut no_memory = NoPeek;
        let out = &mut Out::new(out, &mut no_memory);
        pg.submit_own(txn, out);
        pg.decide_role(out);
        pg
    }

    /// A PG that the store has. Emits reads; requests wait until they are done and the first map has come. The maps
    /// given from then on continue from [`PgInfo::stats`]' `reported_epoch`, which is the last one it saw.
    pub fn load(id: SpgId, whoami: OsdId, config: Arc<PgConfig>, out: &mut Vec<PgEffect>) -> Self {
        let mut pg = Self::empty(id, whoami, config, Phase::Loading);
        pg.begin_load(&mut Out::new(out, &mut NoPeek));
        pg
    }

    /// A PG that has failed begins again with what is stored. Nothing of it is at the store. The sessions that hold back do so
    /// until it serves.
    pub(crate) fn load_again(&mut self, out: &mut Out<'_>) {
        debug_assert!(self.in_flight.is_empty() && self.own.is_empty(), "changes of pg {} are lost", self.id);
        self.phase = Phase::Loading;
        self.map = None;
        self.records = Records::new(self.id);
        self.reads_to_count = StatsDelta::default();
        self.begin_load(out);
    }

    fn begin_load(&mut self, out: &mut Out<'_>) {
        let (collection, object) = (self.records.collection, self.records.meta.clone());
        self.read_own(ReadRequest::Attrs { collection, object }, ReadFor::Load, out);
    }

    /// Keeps a map for later while the PG is being loaded or split; gives it back otherwise.
    pub(crate) fn defer_map(&mut self, map: MapView) -> Option<MapView> {
        if !matches!(self.phase, Phase::Loading | Phase::Splitting) {
            return Some(map);
        }
        self.deferred_maps.push(map);
        None
    }

    pub(crate) fn on_load_read(&mut self, result: Result<ReadOutcome, StoreError>, out: &mut Out<'_>) {
        let next = match result {
            Ok(ReadOutcome::Attrs(attrs)) => self.records.take_attrs(&attrs),
            Ok(ReadOutcome::Collection(Some(stat))) => self.records.take_stat(&stat),
            Ok(ReadOutcome::Log(page)) => self.records.take_log(&page),
            Ok(_) => Err("the store answered another question".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match next {
            Err(reason) => self.fail(PgFailure::Load(reason), out),
            Ok(Some(request)) => self.read_own(request, ReadFor::Load, out),
            Ok(None) => self.finish_load(out),
        }
    }

    fn finish_load(&mut self, out: &mut Out<'_>) {
        if self.records.log.head() != self.records.info.last_update {
            let (log, info) = (self.records.log.head(), self.records.info.last_update);
            return self.fail(PgFailure::Load(format!("the log ends at {log}, the info says {info}")), out);
        }
        if let Some(missing) = self.what_is_missing() {
            return self.fail(PgFailure::Incomplete(missing), out);
        }
        // Other copies may lack what is newer: activation finds out.
        self.records.durable = self.records.log.tail();
        self.records.dirty = true;
        self.phase = Phase::Nonprimary;
        for map in std::mem::take(&mut self.deferred_maps) {
            self.on_advance_map(map, out);
        }
    }

    /// What recovery, which does not exist yet, would have to bring before this copy can be served.
    fn what_is_missing(&self) -> Option<String> {
        let PgInfo { last_complete, last_update, last_backfill, .. } = &self.records.info;
        if last_complete < last_update {
            return Some(format!("changes after {last_complete}, up to {last_update}"));
        }
        (!last_backfill.is_max()).then(|| format!("the objects from {last_backfill} on"))
    }
}
