//! The PG: its state and the way of events into it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use auth::SessionId;
use messages::{OsdOp, OsdOpReply};
use ops::StatsDelta;
use store::{Peek, ReadRequest, Token, Transaction};
use telemetry::Stage;
use types::{EVersion, HObject, OsdId, SnapId, SpgId, UTime, broken};

use crate::attrs::CommonAttrs;
use crate::backend::{BACKEND_TOKEN_BIT, Backend, Context, LocalBackend, Progress, ReadResult, TOKEN_BITS};
use crate::backoff::Backoff;
use crate::cache::ReadCache;
use crate::objects::{ObjectSlot, Objects};
use crate::others::Others;
use crate::out::Out;
use crate::phase::{Peering, Phase};
use crate::records::{Before, Records};
use crate::remove::Removal;
use crate::request::Request;
use crate::scrub::{Scrub, Scrubbed};
use crate::split::{RefusedSplit, Split};
use crate::trim::Trimmer;
use crate::watch::Effects;
use crate::watches::{WatchView, Watches};
use crate::{
    Bug, ClientOp, MapView, Notice, PgConfig, PgEffect, PgEvent, PgFailure, PgInfo, PgLog, SetAside,
};

/// A request that waits for reads.
#[derive(Debug)]
pub(crate) struct Parked {
    pub slot: ObjectSlot,
    pub request: Request,
    pub cache: ReadCache,
    /// Reads that are not done.
    pub missing: usize,
}

/// What a read is for.
#[derive(Debug)]
pub(crate) enum ReadFor {
    Load,
    Object(ObjectSlot),
    Step { park: u64, index: usize },
    List(Box<Request>),
    SnapIndex,
    Split,
    Trim { slot: ObjectSlot, clone: SnapId },
    Scrub,
    Remove,
}

/// A client's change that is not durable yet.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub token: Token,
    pub version: EVersion,
    /// What the PG goes back to when the change is undone.
    pub before: Before,
    /// Reads that it counted besides its own.
    pub reads: StatsDelta,
    pub client: Box<ClientChange>,
}

/// What a change's end needs, and what running its request again would.
#[derive(Debug)]
pub(crate) struct ClientChange {
    pub slot: ObjectSlot,
    /// `None` if no client has asked for the change.
    pub reply: Option<Box<OsdOpReply>>,
    /// `None` when the interval ended in which the request came: its reply is not sent.
    pub request: Option<Request>,
    pub effects: Option<Box<Effects>>,
    /// The clone that it trims.
    pub trimmed: Option<SnapId>,
    pub stats: StatsDelta,
}

/// A transaction of the PG's own records, or of its removal: no other copy has to do with it.
#[derive(Debug)]
pub(crate) struct OwnRecords {
    pub token: Token,
    /// Whether it follows a change that the store refused, so that it will be refused too.
    pub undone: bool,
    /// Whether the interval has started when it is durable.
    pub activates: bool,
}

/// A reply that is sent when the change named is durable.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub version: EVersion,
    pub session: SessionId,
    pub reply: Box<OsdOpReply>,
    pub of: DelayedOf,
}

#[derive(Debug)]
pub(crate) enum DelayedOf {
    Listing(Box<Request>),
    /// A resend, or a write that the log does not have: it runs again when the change that it repeats, or saw, is undone.
    Write(Box<Request>),
}

/// A placement group on this OSD.
///
/// Invariants, asserted by [`Pg::check`]: `info.last_update == log.head()`; `info.log_tail == log.tail()`; the log's
/// tail never passes `durable`, nor `durable` the head; what is in flight is in the order of tokens and of versions; an
/// object counts its changes in flight; a parked request is counted by its object; only an active PG holds requests
/// that began, and changes in flight whose request it has; it knows of a split exactly while it splits; records that wait to be written again follow a change in flight.
#[derive(Debug)]
pub struct Pg {
    pub(crate) id: SpgId,
    pub(crate) whoami: OsdId,
    pub(crate) config: Arc<PgConfig>,
    pub(crate) map: Option<MapView>,
    pub(crate) phase: Phase,
    /// Maps that came while it was loading, or was being split.
    pub(crate) deferred_maps: Vec<MapView>,
    pub(crate) records: Records,
    /// Whether the store durably has the PG: it was loaded, or the transaction that makes it is durable.
    pub(crate) stored: bool,
    pub(crate) objects: Objects,
    pub(crate) common_attrs: CommonAttrs,
    pub(crate) parked: BTreeMap<u64, Parked>,
    pub(crate) reads: BTreeMap<Token, ReadFor>,
    /// Copies that are under way: the parked request, and the place of the need in its cache.
    pub(crate) copies: BTreeMap<Token, (u64, usize)>,
    pub(crate) in_flight: VecDeque<InFlight>,
    pub(crate) own: VecDeque<OwnRecords>,
    /// Own records were refused after a change whose end the backend has not reported yet: they are written again then.
    pub(crate) own_lost: bool,
    /// Reads that no change has counted yet.
    pub(crate) reads_to_count: StatsDelta,
    /// Requests that came while nothing was served.
    pub(crate) waiting: VecDeque<(ClientOp, SetAside)>,
    /// The sessions that are to hold their requests back.
    pub(crate) backoffs: BTreeMap<SessionId, Backoff>,
    /// Replies of listings, to resends, and to writes that the log does not have.
    pub(crate) delayed: VecDeque<Delayed>,
    /// While other OSDs have to be asked.
    pub(crate) others: Others,
    pub(crate) watches: Watches,
    pub(crate) trim: Trimmer,
    pub(crate) scrub: Option<Box<Scrub>>,
    pub(crate) scrubbed: Scrubbed,
    /// While the phase is [`Phase::Splitting`].
    pub(crate) split: Option<Box<Split>>,
    /// The split that the store refused last, until it is made.
    pub(crate) refused_split: Option<RefusedSplit>,
    /// While the phase is [`Phase::Removing`], from its first step on.
    pub(crate) removal: Option<Box<Removal>>,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) said_unsupported: BTreeSet<u16>,
    /// Objects whose metadata could not be read when they last were asked for, as far as that was said.
    pub(crate) said_bad: BTreeSet<HObject>,
    pub(crate) now: UTime,
    next_token: u64,
    next_park: u64,
}

impl Pg {
    pub(crate) fn empty(id: SpgId, whoami: OsdId, config: Arc<PgConfig>, phase: Phase) -> Self {
        Self {
            id,
            whoami,
            config,
            map: None,
            phase,
            deferred_maps: Vec::new(),
            records: Records::new(id),
            stored: true,
            objects: Objects::default(),
            common_attrs: CommonAttrs::default(),
            parked: BTreeMap::new(),
            reads: BTreeMap::new(),
            copies: BTreeMap::new(),
            in_flight: VecDeque::new(),
            own: VecDeque::new(),
            own_lost: false,
            reads_to_count: StatsDelta::default(),
            waiting: VecDeque::new(),
            backoffs: BTreeMap::new(),
            delayed: VecDeque::new(),
            others: Others::default(),
            watches: Watches::default(),
            trim: Trimmer::default(),
            scrub: None,
            scrubbed: Scrubbed::default(),
            split: None,
            refused_split: None,
            removal: None,
            backend: Box::new(LocalBackend::default()),
            said_unsupported: BTreeSet::new(),
            said_bad: BTreeSet::new(),
            now: UTime::default(),
            next_token: 1,
            next_park: 1,
        }
    }

    /// Makes its changes, from the first on, through another backend than that of a single copy.
    #[must_use]
    pub fn with_backend(self, backend: Box<dyn Backend>) -> Self {
        Self { backend, ..self }
    }

    /// Which PG this is.
    pub fn id(&self) -> SpgId {
        self.id
    }

    /// What it knows of itself.
    pub fn info(&self) -> &PgInfo {
        &self.records.info
    }

    pub fn log(&self) -> &PgLog {
        &self.records.log
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether it serves requests.
    pub fn is_active(&self) -> bool {
        self.phase.serves_requests()
    }

    /// Whether a PG that was made would still be there after a loss of power.
    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// Object contexts held, requests parked and waiting: for limits and `dump`s.
    pub fn load_counts(&self) -> (usize, usize, usize) {
        (self.objects.len(), self.parked.len(), self.waiting.len())
    }

    /// Every request that is here, answered or not, in no order.
    pub fn requests(&self) -> impl Iterator<Item = (SessionId, &OsdOp)> {
        let waiting = self.waiting.iter().map(|(client, _)| (client.session, &*client.op));
        let queued = self.objects.iter().flat_map(|(_, object)| &object.queue);
        let parked = self.parked.values().map(|parked| &parked.request);
        let listings = self.reads.values().filter_map(|purpose| match purpose {
            ReadFor::List(request) => Some(&**request),
            ReadFor::Load
            | ReadFor::Object(_)
            | ReadFor::Step { .. }
            | ReadFor::SnapIndex
            | ReadFor::Split
            | ReadFor::Trim { .. }
            | ReadFor::Scrub
            | ReadFor::Remove => None,
        });
        let changes = self.in_flight.iter().filter_map(|change| change.client.request.as_ref());
        let delayed = self.delayed.iter().map(|delayed| match &delayed.of {
            DelayedOf::Listing(request) | DelayedOf::Write(request) => &**request,
        });
        let begun = queued.chain(parked).chain(listings).chain(changes).chain(delayed);
        waiting.chain(begun.map(|request| (request.session, &*request.op)))
    }

    /// The watches of its objects that this interval knows.
    pub fn watches(&self) -> impl Iterator<Item = WatchView<'_>> {
        self.watches.all()
    }

    /// Evicts idle object contexts, those not used lately first, until at most `max` are held or a bounded number was
    /// looked at. Returns how many are left.
    pub fn evict_contexts(&mut self, max: usize) -> usize {
        self.objects.evict(max);
        self.objects.len()
    }

    /// The same, however many are to be looked at.
    pub fn evict_all_contexts(&mut self, max: usize) -> usize {
        self.objects.evict_all(max);
        self.objects.len()
    }

    /// Evicts idle object contexts until at most `max` of those that were used only once are held. Returns how many contexts
    /// are left.
    pub fn evict_contexts_once(&mut self, max: usize) -> usize {
        self.objects.evict_once(max);
        self.objects.len()
    }

    /// When [`PgEvent::Tick`] is due.
    pub fn deadline(&self) -> Option<UTime> {
        let retry = self.refused_split.as_ref().and_then(RefusedSplit::deadline);
        [self.watches.deadline(), self.trim.deadline(), self.scrub_deadline(), self.others_deadline(), retry]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes an event at time `now` and appends what is to be done to `out`, in order. `store` is the memory of the PG's
    /// store, which must have got every transaction of this PG that earlier events gave.
    pub fn handle(&mut self, now: UTime, event: PgEvent, store: &mut dyn Peek, out: &mut Vec<PgEffect>) {
        self.now = now;
        self.on_event(event, &mut Out::new(out, store));
        debug_assert_eq!(self.check(), Ok(()), "pg {}", self.id);
    }

    fn on_event(&mut self, event: PgEvent, out: &mut Out<'_>) {
        match (event, &self.phase) {
            (PgEvent::ClientOp(op, set_aside), _) => self.on_client_op(op, set_aside, out),
            (PgEvent::SessionReset { session }, _) => self.on_session_reset(session, out),
            (PgEvent::BackoffEnded { session }, _) => self.on_backoff_ended(session),
            (PgEvent::Scrub(order), _) => self.on_scrub_order(order, out),
            (PgEvent::Tick, Phase::Failed) => self.retry_split(out),
            (_, Phase::Failed) => {}
            (PgEvent::Tick, _) => {
                self.on_watch_tick(out);
                self.on_trim_tick(out);
                self.on_scrub_tick();
                self.on_others_tick(out);
            }
            (PgEvent::Purged(snaps), _) => self.on_purged(&snaps, out),
            (PgEvent::AbortScrub, _) => self.on_scrub_abort(out),
            (PgEvent::AdvanceMap(map), _) => self.on_advance_map(*map, out),
            (PgEvent::ReadDone { token, result }, _) => self.on_read_done(token, result, out),
            (PgEvent::Copied { token, result, set_aside }, _) => {
                self.on_copied(token, result, set_aside, out);
            }
            (PgEvent::Committed { token }, _) => self.on_committed(token, out),
            (PgEvent::Refused { token, error }, _) => self.on_refused(token, error, out),
            (PgEvent::PeerInfo { osd, reply }, _) => self.on_peer_info(osd, &reply, out),
            (PgEvent::Remove, _) => self.on_remove(out),
        }
        if self.scrub.is_some() {
            self.scrub_on(out);
        }
    }

    /// An invariant does not hold: the PG ends, and says why.
    pub(crate) fn broken(&mut self, what: &'static str, out: &mut Out<'_>) {
        let broken = broken!("pg {}: {what}", self.id);
        self.fail(PgFailure::Broken(broken), out);
    }

    pub(crate) fn token(&mut self) -> Token {
        // Those with the bit are the backend's. The OSD takes no token of more bits: it ends, and a restart counts again.
        if self.next_token == BACKEND_TOKEN_BIT {
            self.next_token = 1 << TOKEN_BITS;
        }
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    pub(crate) fn park_id(&mut self) -> u64 {
        self.next_park += 1;
        self.next_park
    }

    /// Reads from this OSD's own store.
    pub(crate) fn read_own(&mut self, request: ReadRequest, purpose: ReadFor, out: &mut Out<'_>) {
        let token = self.token();
        self.reads.insert(token, purpose);
        out.push(PgEffect::Read { token, request });
    }

    /// Reads of an object, or lists the PG's objects, from wherever the backend has them.
    pub(crate) fn read(&mut self, request: ReadRequest, purpose: ReadFor, out: &mut Out<'_>) {
        let token = self.token();
        self.reads.insert(token, purpose);
        self.call_backend(out, |backend, ctx| backend.read(token, request, ctx));
    }

    pub(crate) fn call_backend<R>(
        &mut self,
        out: &mut Out<'_>,
        call: impl FnOnce(&mut dyn Backend, &mut Context<'_, '_>) -> R,
    ) -> R {
        call(&mut *self.backend, &mut Context { records: &mut self.records, limits: &self.config.log, out })
    }

    /// Makes the PG's own records durable.
    pub(crate) fn submit_own(&mut self, txn: Transaction, out: &mut Out<'_>) {
        let token = self.token();
        let activates = self.phase == Phase::Peering(Peering::Activating);
        self.own.push_back(OwnRecords { token, undone: false, activates });
        out.push(PgEffect::Queue { token, txn });
    }

    pub(crate) fn submit_info(&mut self, out: &mut Out<'_>) {
        let mut txn = Transaction::new();
        self.records.write_info(&mut txn);
        self.submit_own(txn, out);
    }

    fn on_read_done(&mut self, token: Token, result: ReadResult, out: &mut Out<'_>) {
        let answered = self.call_backend(out, |backend, ctx| backend.on_read_done(token, result, ctx));
        // The backend reads on.
        let Some((token, result)) = answered else { return };
        match self.reads.remove(&token) {
            // A read of an interval that has ended.
            None => {}
            Some(ReadFor::Load) => self.on_load_read(result, out),
            Some(ReadFor::Object(slot)) => self.on_object_read(slot, result, out),
            Some(ReadFor::Step { park, index }) => self.on_step_read(park, index, result, out),
            Some(ReadFor::List(request)) => self.on_list_read(*request, result, out),
            Some(ReadFor::SnapIndex) => self.on_index_read(result, out),
            Some(ReadFor::Split) => self.on_split_read(result, out),
            Some(ReadFor::Trim { slot, clone }) => self.on_trim_read(slot, clone, result, out),
            Some(ReadFor::Scrub) => self.on_scrub_read(result, out),
            Some(ReadFor::Remove) => self.on_remove_read(result, out),
        }
    }

    fn on_committed(&mut self, token: Token, out: &mut Out<'_>) {
        match self.own.front() {
            Some(&OwnRecords { token: own, undone, activates }) if own == token => {
                if undone {
                    return self.broken("the store made durable what followed a refusal", out);
                }
                self.own.pop_front();
                self.stored = true;
                if activates {
                    self.on_activated(out);
                }
                self.on_purge_recorded(out);
            }
            _ => {
                let progress = self.call_backend(out, |backend, ctx| backend.on_committed(token, ctx));
                self.on_progress(progress, out);
            }
        }
        self.on_store_answered(out);
    }

    /// The store has answered a transaction: what waits for the last one goes on.
    pub(crate) fn on_store_answered(&mut self, out: &mut Out<'_>) {
        match self.phase {
            Phase::Removing => self.continue_removal(out),
            Phase::Splitting => self.continue_split(out),
            Phase::Loading
            | Phase::Nonprimary
            | Phase::Peering(_)
            | Phase::Peered
            | Phase::Active(_)
            | Phase::Failed => {}
        }
    }

    pub(crate) fn on_progress(&mut self, progress: Progress, out: &mut Out<'_>) {
        match progress {
            Progress::Nothing => {}
            Progress::Durable { through } => self.on_durable(through, out),
            Progress::Undone { from, error } => self.on_undone(from, error, out),
            Progress::Failed(error) => self.fail(PgFailure::Refused(error), out),
            Progress::Broken(what) => self.broken(what, out),
        }
    }

    /// Every change up to `through` is durable everywhere.
    fn on_durable(&mut self, through: Token, out: &mut Out<'_>) {
        if self.in_flight.front().is_none_or(|f| f.token > through) {
            return self.broken("a change became durable that is not in flight", out);
        }
        while self.in_flight.front().is_some_and(|f| f.token <= through) {
            let Some(InFlight { version, client, .. }) = self.in_flight.pop_front() else { break };
            self.records.durable = self.records.durable.max(version);
            self.on_client_commit(*client, out);
        }
        self.release_delayed(out);
    }

    fn on_client_commit(&mut self, change: ClientChange, out: &mut Out<'_>) {
        let ClientChange { slot, reply, request, effects, trimmed, .. } = change;
        if let (Some(request), Some(reply)) = (request, reply) {
            out.reached(&request, Stage::DurableEverywhere);
            out.push(PgEffect::Reply { session: request.session, reply });
        }
        if let Some(effects) = effects {
            self.perform_of_change(slot, *effects, out);
        }
        match self.objects.get_mut(slot) {
            Some(object) if object.uncommitted > 0 => object.uncommitted -= 1,
            _ => return self.broken("a change became durable of an object that knows none", out),
        }
        self.pump(slot, out);
        if let Some(clone) = trimmed {
            self.on_trimmed(slot, clone, out);
        }
    }

    fn on_session_reset(&mut self, session: SessionId, out: &mut Out<'_>) {
        self.backoffs.remove(&session);
        self.waiting.retain(|(op, _)| op.session != session);
        self.objects.iter_mut().for_each(|o| o.queue.retain(|r| r.session != session));
        if self.config.planted.is(Bug::ResetDropsAnswers) {
            self.in_flight.iter_mut().for_each(|change| change.client.request = None);
        }
        // What has begun goes on; its reply is not sent. A resend is then answered from the log.
        for change in &mut self.in_flight {
            let client = &mut *change.client;
            client.request.iter_mut().for_each(|request| request.on_session_reset(session));
            if let Some(effects) = client.effects.as_mut().filter(|e| e.by.session == Some(session)) {
                effects.by.session = None;
            }
        }
        self.parked.values_mut().for_each(|parked| parked.request.on_session_reset(session));
        for delayed in &mut self.delayed {
            match &mut delayed.of {
                DelayedOf::Listing(request) | DelayedOf::Write(request) => request.on_session_reset(session),
            }
        }
        self.watches.on_session_reset(session, self.now);
        self.cancel_copies_of(session, out);
    }

    pub(crate) fn fail(&mut self, failure: PgFailure, out: &mut Out<'_>) {
        self.phase = Phase::Failed;
        self.requeue_requests(out);
        self.hold_back_waiting(out);
        self.drop_requests("the PG has failed", out);
        out.push(PgEffect::Failed(failure));
    }

    /// Ends the interval for what has begun: takes every request, in an order that keeps that of each object's. Changes in flight go on: a
    /// request that is run again is answered from the log.
    fn take_begun(&mut self, out: &mut Out<'_>) -> Vec<Request> {
        self.abort_scrub(out);
        self.watches.discard(out);
        self.in_flight.iter_mut().for_each(|change| change.client.effects = None);
        let changes = self.in_flight.iter_mut();
        let mut changed: Vec<(EVersion, Request)> =
            changes.filter_map(|f| Some((f.version, f.client.request.take()?))).collect();
        let mut listings = Vec::new();
        for delayed in self.delayed.drain(..) {
            match delayed.of {
                DelayedOf::Write(request) => changed.push((delayed.version, *request)),
                DelayedOf::Listing(request) => listings.push(*request),
            }
        }
        changed.sort_by_key(|(version, _)| *version);
        self.cancel_copies(|_| true, out);
        let mut requests: Vec<Request> = changed.into_iter().map(|(_, request)| request).collect();
        requests.extend(std::mem::take(&mut self.parked).into_values().map(|parked| parked.request));
        self.objects.iter_mut().for_each(|object| requests.extend(object.queue.drain(..)));
        for purpose in std::mem::take(&mut self.reads).into_values() {
            match purpose {
                ReadFor::List(request) => listings.push(*request),
                ReadFor::Load
                | ReadFor::Object(_)
                | ReadFor::Step { .. }
                | ReadFor::SnapIndex
                | ReadFor::Split
                | ReadFor::Trim { .. }
                | ReadFor::Scrub
                | ReadFor::Remove => {}
            }
        }
        requests.append(&mut listings);
        requests.retain(|request| !request.session_ended);
        self.objects.reset();
        self.trim.reset();
        // A client that lists inconsistent objects sees the new interval in the answer, and begins again.
        self.scrubbed.inconsistent = None;
        self.backend.on_interval();
        requests
    }

    /// Makes every request that has begun one that waits, before those that do already.
    pub(crate) fn requeue_requests(&mut self, out: &mut Out<'_>) {
        for mut request in self.take_begun(out).into_iter().rev() {
            // Its change may be refused yet: then it is made by this run.
            request.set_aside.restore();
            self.waiting.push_front(request.into_client());
        }
    }

    /// Drops every request that has begun, and every reply that is due.
    pub(crate) fn drop_begun(&mut self, reason: &'static str, out: &mut Out<'_>) {
        for request in self.take_begun(out) {
            Self::dropped(request.session, request.op.tid, reason, out);
        }
    }

    /// Drops every request, begun or not.
    pub(crate) fn drop_requests(&mut self, reason: &'static str, out: &mut Out<'_>) {
        self.drop_begun(reason, out);
        for (op, _) in std::mem::take(&mut self.waiting) {
            Self::dropped(op.session, op.op.tid, reason, out);
        }
    }

    pub(crate) fn dropped(session: SessionId, tid: u64, reason: &'static str, out: &mut Out<'_>) {
        out.push(PgEffect::Notice(Notice::Dropped { session, tid, reason }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pgs_tokens_end_where_its_backends_begin() {
        let id = SpgId::from("1.0".parse::<types::PgId>().unwrap());
        let mut pg = Pg::load(id, OsdId(0), Default::default(), &mut Vec::new());
        pg.next_token = BACKEND_TOKEN_BIT - 1;
        assert_eq!(pg.token(), Token(BACKEND_TOKEN_BIT - 1));
        let past = pg.token();
        assert!(past.0 >> TOKEN_BITS > 0, "{past:?} is one that the OSD takes");
    }
}
