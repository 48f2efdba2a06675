//! A shard: the placement groups in one store shard, its operation queue, its space.

mod advance;
mod begin;
mod compression;
mod effects;
mod op_queue;
mod pg_set;
pub(crate) mod pg_view;
mod purged;
mod space;
mod stats;
mod timers;
mod tracker;

use std::collections::VecDeque;
use std::sync::Arc;

use auth::SessionId;
use maps::OsdMap;
use messages::{PgInfoReply, PgQuestion};
use pg::{CopyResult, Origin, Pg, PgConfig, PgEffect, PgEvent, Phase};
use store::{
    CollectionId, Completion, Compression, ReadOutcome, ReadRequest, StoreError, StoreShard, Token, Tuning,
};
use telemetry::{OpTimes, Stage};
use types::{Epoch, OsdId, SpgId, UTime};

use advance::Advance;
pub(crate) use advance::MAP_WORK_PER_EVENT;
pub use compression::compression_of_pool;
use op_queue::{OpQueue, QueuedOp};
use pg_set::PgSet;
pub(crate) use pg_set::{PgSlot, PgStatus};
use pg_view::{Mapping, ancestors};
use purged::Telling;
use space::SpaceBudget;
pub(crate) use space::full_state;
use stats::Collecting;
use timers::Timers;
use tracker::Tracker;
pub(crate) use tracker::TrackerConfig;

use crate::OsdEffect;
use crate::parts::{Out, PgPlace, ShardSpace, ToControl, ToGate, ToShard};

/// PGs that one event looks at for object contexts to evict.
const EVICT_PGS_MAX: usize = 16;

/// The options that a shard heeds.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ShardConfig {
    pub pg: Arc<PgConfig>,
    /// osd_failsafe_full_ratio.
    pub failsafe_full_ratio: f64,
    /// No write begins while the store has this many bytes to write; 0 is no limit.
    pub queued_bytes_max: u64,
    /// Object contexts that all PGs keep together when nothing uses them.
    pub object_contexts_max: usize,
    /// Those of them that may have been used only once. Where a context is made of what lies in memory, few of these take
    /// turns in the processor's caches.
    pub object_contexts_once_max: usize,
    /// What the shard's store may take of memory.
    pub store_memory_bytes: u64,
    pub store_tuning: Tuning,
    pub compression: Compression,
    pub tracker: TrackerConfig,
}

/// The reads of the shard itself, as tokens of [`PgSlot::SHARD`].
const STATFS: Token = Token(1);
const FIND_PGS: Token = Token(2);

/// One store shard's part of an OSD.
pub(crate) struct Shard {
    id: StoreShard,
    whoami: OsdId,
    config: ShardConfig,
    /// `None` before the first.
    map: Option<Arc<OsdMap>>,
    /// The epoch that was published as reached by all PGs.
    reached: Epoch,
    pgs: PgSet,
    queue: OpQueue,
    space: SpaceBudget,
    statfs_asked: bool,
    /// What PGs copy, on its way to them: it waits for space as a write does.
    copied: VecDeque<(PgSlot, Token, CopyResult)>,
    /// The bytes of a copy that its PG is being told there is no room for, otherwise 0. Meanwhile the writes that the PG drops count as
    /// sent back to their clients.
    lacking: u64,
    /// Bytes of transactions that the store has not answered: they are there also when their sessions are gone.
    queued_bytes: u64,
    /// PGs that read what they keep.
    loading: usize,
    /// Transactions towards a map that are not durable.
    advances: usize,
    /// PGs that are being split.
    splitting: usize,
    /// The map that PGs are being taken to.
    advance: Option<Advance>,
    /// It is not gone on with until a PG has been split, or has loaded.
    advance_waits: bool,
    /// A PG is being given a map: what it queues belongs to reaching it.
    advancing: bool,
    timers: Timers,
    /// Object contexts of all PGs, and the place of the PG that is looked at next for some to evict.
    contexts: usize,
    evict_hand: usize,
    /// Kept between events so that nothing is allocated for them.
    effects: Vec<PgEffect>,
    /// A report on all PGs that is under way.
    collecting: Option<Collecting>,
    /// What PGs are being told of purged snapshots.
    telling: Option<Telling>,
    tracker: Tracker,
    compression: compression::Told,
}

impl Shard {
    pub(crate) fn new(id: StoreShard, whoami: OsdId) -> Self {
        Self {
            id,
            whoami,
            config: ShardConfig::default(),
            map: None,
            reached: Epoch(0),
            pgs: PgSet::default(),
            queue: OpQueue::default(),
            space: SpaceBudget::default(),
            statfs_asked: false,
            copied: VecDeque::new(),
            lacking: 0,
            queued_bytes: 0,
            loading: 0,
            advances: 0,
            splitting: 0,
            advance: None,
            advance_waits: false,
            advancing: false,
            timers: Timers::default(),
            contexts: 0,
            evict_hand: 0,
            effects: Vec::new(),
            collecting: None,
            telling: None,
            tracker: Tracker::default(),
            compression: compression::Told::default(),
        }
    }

    pub(crate) fn id(&self) -> StoreShard {
        self.id
    }

    /// Whether a token of shard 0's store is the control part's.
    pub(crate) fn is_controls(token: Token) -> bool {
        PgSlot::of(token).0 == PgSlot::CONTROL
    }

    pub(crate) fn pg_ids(&self) -> impl Iterator<Item = SpgId> {
        self.pgs.ids()
    }

    /// Object contexts that its PGs hold.
    pub(crate) fn object_contexts(&self) -> usize {
        self.contexts
    }

    /// The PGs with what was published of them.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (SpgId, Option<PgStatus>)> {
        self.pgs.iter().map(|entry| (entry.pg.id(), entry.published))
    }

    /// The requests that are here, and where.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (SessionId, u64, PgPlace)> {
        let place = |slot| PgPlace { shard: self.id, slot };
        let at_pgs = self.pgs.iter().flat_map(move |entry| {
            entry.requests.iter().map(move |request| (request.session, request.tid, place(entry.slot)))
        });
        let queued = self.queue.iter().map(move |q| (q.op.session, q.op.op.tid, place(q.slot)));
        at_pgs.chain(queued)
    }

    pub(crate) fn handle(&mut self, now: UTime, message: ToShard, out: &mut Out) {
        match message {
            ToShard::Request { slot, op, received } => {
                let mut times = OpTimes::received_at(received);
                times.reach(Stage::Queued, now);
                self.queue.push(QueuedOp { slot, op, times });
                self.run_queue(now, out);
            }
            ToShard::Copied { slot, token, result } => {
                self.copied.push_back((slot, token, result));
                self.hand_out_copied(now, out);
            }
            ToShard::PeerInfo { osd, reply } => {
                // It was removed since it asked.
                let Some(slot) = self.pgs.slot_of(&reply.question.pgid) else { return };
                self.pg_handle(now, slot, PgEvent::PeerInfo { osd, reply }, out);
            }
            ToShard::PgInfoAsked { session, question } => self.say_what_it_has(session, question, out),
            ToShard::SessionReset { session, pgs } => self.session_reset(now, session, pgs, out),
            ToShard::BackoffEnded { slot, session } => self.backoff_ended(now, slot, session, out),
            ToShard::Map(step) => self.take_map(now, step, out),
            ToShard::Config(config) => self.configure(now, *config, out),
            ToShard::FindPgs => self.read_own(FIND_PGS, ReadRequest::Collections, out),
            ToShard::Load(pgid) => self.load_pg(now, pgid, out),
            ToShard::Make { pgid, origin } => self.make(now, pgid, *origin, out),
            ToShard::RemoveLeftover(pgid) => {
                let make = |config, out: &mut _| Pg::remove_leftover(pgid, self.whoami, config, out);
                let (pg, effects) = self.new_pg(make);
                self.insert(now, pg, None, Epoch(0), effects, out);
            }
            ToShard::AskSpace => self.ask_statfs(out),
            ToShard::CollectStats { epoch } => {
                self.collecting = Some(Collecting { epoch, next: 0 });
                self.collect_stats(now, out);
            }
            ToShard::Purged(snaps) => {
                self.telling = Some(Telling { snaps, next: 0 });
                self.tell_purged(now, out);
            }
            ToShard::Report { id, what } => {
                let report = Box::new(self.report(now, what, out));
                out.send_control(ToControl::Report { id, report });
            }
            ToShard::Scrub { pgid, order } => {
                // It was removed meanwhile, and the control part learns of that.
                let Some(slot) = self.pgs.slot_of(&pgid) else { return };
                self.pg_handle(now, slot, PgEvent::Scrub(order), out);
            }
            ToShard::AbortScrub { pgid } => {
                // It was removed meanwhile, and its scrub with it.
                let Some(slot) = self.pgs.slot_of(&pgid) else { return };
                self.pg_handle(now, slot, PgEvent::AbortScrub, out);
            }
            ToShard::Query { pgid, asked } => {
                out.send_control(ToControl::QueryAnswer { asked, answer: self.query(&pgid) });
            }
        }
        self.ask_if_wanted(out);
    }

    /// Answers another OSD what a PG has. A PG that is being loaded, split or removed gives no answer: the other OSD asks again.
    fn say_what_it_has(&self, session: SessionId, question: PgQuestion, out: &mut Out) {
        let at = |pgid: SpgId| self.pgs.slot_of(&pgid).and_then(|slot| self.pgs.get(slot));
        // It was asked by a map.
        let Some(map) = &self.map else { return };
        let (epoch, has) = match at(question.pgid) {
            // A PG that has failed takes no maps, and no requests either.
            Some(entry) if entry.pg.phase() == Phase::Failed => (map.epoch, entry.pg.holding()),
            Some(entry) => (entry.epoch, entry.pg.holding()),
            None => {
                let of = ancestors(&question.pgid).find_map(at);
                let pool = map.pools.get(&question.pgid.pg.pool);
                (map.epoch, of.zip(pool).map(|(of, pool)| of.holding_of_part(pool.pg_num)))
            }
        };
        if let Some(has) = has.filter(|_| epoch >= question.epoch) {
            out.send_session(session, PgInfoReply { fsid: map.fsid, question, epoch, has });
        }
    }

    fn configure(&mut self, now: UTime, config: ShardConfig, out: &mut Out) {
        self.space.set_failsafe_ratio(config.failsafe_full_ratio);
        if config.pg != self.config.pg {
            self.pgs.iter_mut().for_each(|entry| entry.pg.configure(config.pg.clone()));
        }
        self.tracker.configure(now, config.tracker);
        if config.store_memory_bytes != self.config.store_memory_bytes {
            out.push(OsdEffect::StoreMemory { shard: self.id, bytes: config.store_memory_bytes });
        }
        // It was opened with what was known at the start: not with what the monitor says.
        if config.store_tuning != self.config.store_tuning {
            out.push(OsdEffect::StoreTuning { shard: self.id, tuning: config.store_tuning });
        }
        let fewer = config.object_contexts_max < self.config.object_contexts_max;
        self.config = config;
        if fewer {
            self.evict_all_contexts();
        }
        self.tell_compression(out);
        self.retry(now, out);
    }

    /// The options or the pools may say something else of compression now.
    fn tell_compression(&mut self, out: &mut Out) {
        self.compression.tell(self.id, self.config.compression, self.map.as_deref(), out);
    }

    fn new_pg(&self, make: impl FnOnce(Arc<PgConfig>, &mut Vec<PgEffect>) -> Pg) -> (Pg, Vec<PgEffect>) {
        let mut effects = Vec::new();
        (make(self.config.pg.clone(), &mut effects), effects)
    }

    fn load_pg(&mut self, now: UTime, pgid: SpgId, out: &mut Out) {
        let (pg, effects) = self.new_pg(|config, out| Pg::load(pgid, self.whoami, config, out));
        self.insert(now, pg, None, Epoch(0), effects, out);
    }

    fn insert(
        &mut self,
        now: UTime,
        pg: Pg,
        mapping: Option<Mapping>,
        epoch: Epoch,
        effects: Vec<PgEffect>,
        out: &mut Out,
    ) {
        if self.pgs.slot_of(&pg.id()).is_some() {
            return out.broken(format!("pg {} is to be made, and is there", pg.id()));
        }
        self.loading += usize::from(pg.phase() == Phase::Loading);
        let slot = self.pgs.insert(now, pg, mapping, epoch);
        self.effects.extend(effects);
        self.perform(now, slot, out);
    }

    /// Makes a PG. Clients may have asked for it since the first map of its primary: what they sent then counts,
    /// because they send nothing again as long as this OSD stays its primary.
    fn make(&mut self, now: UTime, pgid: SpgId, origin: Origin, out: &mut Out) {
        let newest = origin.later.last().unwrap_or(&origin.first);
        let (map, epoch) = (&newest.osdmap, newest.epoch);
        let pool = map.pools.get(&pgid.pg.pool);
        let mapping = pool.map(|pool| Mapping::of(map, pool, pgid.pg, self.whoami));
        let (pg, effects) =
            self.new_pg(|config, out| Pg::create(pgid, self.whoami, config, origin, now, out));
        self.insert(now, pg, mapping, epoch, effects, out);
    }

    fn read_own(&mut self, inner: Token, request: ReadRequest, out: &mut Out) {
        match PgSlot::SHARD.token(inner) {
            Some(token) => out.read(self.id, token, request),
            None => out.broken("a shard's own token does not fit"),
        }
    }

    pub(crate) fn on_completion(&mut self, now: UTime, completion: Completion, out: &mut Out) {
        let (slot, inner) = PgSlot::of(completion.token());
        if slot == PgSlot::SHARD {
            return self.on_own_read(now, inner, completion, out);
        }
        // A PG that is removed has left reads behind that nothing waits for.
        let Some(entry) = self.pgs.get_mut(slot) else { return };
        let mut room = false;
        let event = match completion {
            Completion::Committed { .. } => {
                room = self.dequeue(now, slot, inner, out);
                PgEvent::Committed { token: inner }
            }
            Completion::Refused { error, .. } => {
                room = self.dequeue(now, slot, inner, out);
                PgEvent::Refused { token: inner, error }
            }
            // The OSD moves no collection between shards.
            Completion::Rehomed { .. } => {
                let id = entry.pg.id();
                return out.broken(format!("pg {id} was moved to another store shard unasked"));
            }
            Completion::Read { result, .. } => PgEvent::ReadDone { token: inner, result },
        };
        // A refusal undoes records behind it that belong to reaching a map: the PG writes them again.
        self.advancing = matches!(event, PgEvent::Refused { .. });
        self.pg_handle(now, slot, event, out);
        self.advancing = false;
        self.note_loaded(now, slot, out);
        self.note_reached(out);
        if room {
            self.retry(now, out);
        }
        self.ask_if_wanted(out);
    }

    /// When [`Shard::tick`] is due.
    pub(crate) fn deadline(&self) -> Option<UTime> {
        self.timers.first()
    }

    /// Gives those PGs the time that asked for it.
    pub(crate) fn tick(&mut self, now: UTime, out: &mut Out) {
        for slot in self.timers.due(now) {
            self.pg_handle(now, slot, PgEvent::Tick, out);
        }
    }

    /// The store has answered a transaction. Whether what waited for [`Shard::store_is_behind`] may go on.
    fn dequeue(&mut self, now: UTime, slot: PgSlot, token: Token, out: &mut Out) -> bool {
        let was_behind = self.store_is_behind();
        let queued = self.pgs.get_mut(slot).map(|entry| &mut entry.queued);
        // Usually the first one: a collection's transactions complete in their order.
        let done =
            queued.and_then(|q| q.iter().position(|txn| txn.token == token).and_then(|at| q.remove(at)));
        let Some(done) = done else {
            out.broken(format!("the store completes {token:?}, which was not queued"));
            return false;
        };
        let took = now.as_nanos().saturating_sub(done.since.as_nanos());
        self.tracker.counters.commit_latency.add(took);
        self.queued_bytes -= done.bytes;
        self.advances -= usize::from(done.is_advance);
        was_behind && !self.store_is_behind()
    }

    /// Whether the store has so much to do that no write may begin: sessions that come and go free their own budget,
    /// not the memory of what they began.
    fn store_is_behind(&self) -> bool {
        self.config.queued_bytes_max > 0 && self.queued_bytes >= self.config.queued_bytes_max
    }

    fn on_own_read(&mut self, now: UTime, which: Token, completion: Completion, out: &mut Out) {
        let Completion::Read { result, .. } = completion else {
            return out.broken("the store did not read what the shard asked for");
        };
        match (which, result) {
            (STATFS, result) => self.on_statfs(now, result, out),
            (FIND_PGS, result) => {
                let found = match result {
                    Ok(ReadOutcome::Collections(all)) => Ok(all.into_iter().filter_map(pg_of).collect()),
                    Ok(_) => Err("the store answered another question".to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                out.send_control(ToControl::PgsFound { shard: self.id, found });
            }
            _ => out.broken("the store answers a read that the shard did not ask for"),
        }
    }

    fn ask_statfs(&mut self, out: &mut Out) {
        if !self.statfs_asked {
            self.statfs_asked = true;
            self.space.statfs_sent();
            self.read_own(STATFS, ReadRequest::StatFs, out);
        }
    }

    fn on_statfs(&mut self, now: UTime, result: Result<ReadOutcome, StoreError>, out: &mut Out) {
        self.statfs_asked = false;
        // A store that can't say it now is asked again with the next report.
        let Ok(ReadOutcome::StatFs(statfs)) = result else { return };
        self.space.statfs_received(statfs.clone());
        let space = Box::new(ShardSpace { statfs, is_full: self.space.is_full() });
        out.send_control(ToControl::Space { shard: self.id, space });
        self.retry(now, out);
        self.space.answer_heeded();
    }

    /// What held requests up may be gone.
    pub(crate) fn retry(&mut self, now: UTime, out: &mut Out) {
        self.space.try_anew();
        self.queue.retry();
        self.hand_out_copied(now, out);
        self.run_queue(now, out);
        self.ask_if_wanted(out);
    }

    /// Asks the store for its space if that matters now. It must not be asked amid a retry, when what waits still is not known.
    fn ask_if_wanted(&mut self, out: &mut Out) {
        if self.space.wants_answer() {
            self.ask_statfs(out);
        }
    }

    /// See [`Pg::touch`].
    pub(crate) fn touch(&self, slot: PgSlot, hash: u32) {
        if let Some(entry) = self.pgs.get(slot) {
            entry.pg.touch(hash);
        }
    }

    /// A session ended: the PGs that have requests of it forget those that did not begin.
    fn session_reset(&mut self, now: UTime, session: SessionId, pgs: Vec<PgSlot>, out: &mut Out) {
        self.queue.take_held(|held| held.op.session == session);
        self.space.forget_session(session);
        for slot in pgs {
            // Removed in the meantime, with its requests.
            let Some(entry) = self.pgs.get_mut(slot) else { continue };
            entry.requests.retain(|request| request.session != session);
            self.pg_handle(now, slot, PgEvent::SessionReset { session }, out);
        }
        self.note_fewer_wait(now, out);
    }

    /// A session's backoff has ended. What is still held of it here, it sends again.
    fn backoff_ended(&mut self, now: UTime, slot: PgSlot, session: SessionId, out: &mut Out) {
        let place = PgPlace { shard: self.id, slot };
        for held in self.queue.take_held(|held| held.slot == slot && held.op.session == session) {
            out.send_gate_of(session, ToGate::Dropped { session, place, tid: held.op.op.tid });
        }
        // A PG that was removed in the meantime held nothing back.
        if self.pgs.get(slot).is_some() {
            self.pg_handle(now, slot, PgEvent::BackoffEnded { session }, out);
        }
        self.note_fewer_wait(now, out);
    }

    /// The first of the shard's invariants that does not hold.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let holds = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(what) };
        self.pgs.check()?;
        self.queue.check()?;
        let queued = || self.pgs.iter().flat_map(|entry| &entry.queued);
        let bytes: u64 = queued().map(|txn| txn.bytes).sum();
        holds(self.queued_bytes == bytes, "the bytes queued are not those of the transactions queued")?;
        let advances = queued().filter(|txn| txn.is_advance).count();
        holds(self.advances == advances, "the transactions towards a map are miscounted")?;
        let loading = self.pgs.iter().filter(|entry| entry.loads).count();
        holds(self.loading == loading, "the PGs that load are miscounted")?;
        let splitting = self.pgs.iter().filter(|entry| entry.splits).count();
        let phases = self.pgs.iter().filter(|entry| entry.pg.phase() == Phase::Splitting).count();
        holds((splitting, phases) == (self.splitting, splitting), "the PGs that split are miscounted")?;
        let contexts: usize = self.pgs.iter().map(|entry| entry.contexts).sum();
        holds(self.contexts == contexts, "the object contexts are miscounted")?;
        self.check_advance()?;
        let timed = |entry: &pg_set::PgEntry| entry.timer == entry.pg.deadline();
        holds(self.pgs.iter().all(timed), "a PG's deadline is not in the timers")?;
        holds(
            self.timers.len() == self.pgs.iter().filter(|e| e.timer.is_some()).count(),
            "timers are miscounted",
        )?;
        holds(!self.advancing, "an event has ended while PGs are given a map")?;
        holds(self.lacking == 0, "an event has ended while a PG is told of too little room")?;
        let is_there = |slot| self.pgs.get(slot).is_some_and(pg_set::PgEntry::may_get_again);
        holds(self.space.awaiting_pgs().all(is_there), "room is kept for what comes to no PG here")?;
        let published = |entry: &pg_set::PgEntry| entry.published == Some(entry.status());
        holds(self.pgs.iter().all(published), "a PG's state was not published")
    }
}

fn pg_of(collection: CollectionId) -> Option<SpgId> {
    match collection {
        CollectionId::Pg(pgid) => Some(pgid),
        CollectionId::Meta => None,
    }
}

#[cfg(test)]
pub(crate) fn test_op(tid: u64) -> messages::OsdOp {
    use types::{ObjectLocator, PgId, PoolId, ReqId, SnapId};
    messages::OsdOp {
        tid,
        pgid: PgId { pool: PoolId(1), seed: 0 }.into(),
        hash: 0,
        epoch: Epoch(1),
        flags: 0,
        reqid: ReqId::default(),
        trace: Default::default(),
        otel_trace: None,
        client_inc: 0,
        mtime: UTime::default(),
        locator: ObjectLocator { pool: PoolId(1), key: "".into(), nspace: "".into(), hash: -1 },
        oid: "a".into(),
        ops: Vec::new(),
        snapid: SnapId::HEAD,
        snap_seq: 0,
        snaps: Vec::new(),
        retry_attempt: 0,
        features: 0,
        data_offset: 0,
    }
}
