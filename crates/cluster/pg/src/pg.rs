//! The PG: its state and the way of events into it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use auth::SessionId;
use messages::{OsdOpReply, PastIntervals};
use ops::StatsDelta;
use store::{CollectionId, Peek, ReadOutcome, ReadRequest, StoreError, Token, Transaction};
use types::{EVersion, GHObject, HObject, OsdId, SpgId, UTime, broken};

use crate::backend::{Backend, LocalBackend, Submission};
use crate::cache::ReadCache;
use crate::objects::{ObjectSlot, Objects};
use crate::out::Out;
use crate::refused::Before;
use crate::request::Request;
use crate::{ClientOp, MapView, Notice, PgConfig, PgEffect, PgEvent, PgFailure, PgInfo, PgLog};

/// Where the PG stands in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its records are being read.
    Loading,
    /// It serves nothing: another acts, or the acting set can't be served.
    Inactive,
    /// It serves requests.
    Active,
    /// What it stored is being removed.
    Removing,
    /// It can't go on.
    Failed,
}

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
    Remove,
}

/// A change that is not durable yet.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub token: Token,
    pub version: EVersion,
    pub of: ChangeOf,
    /// What the PG goes back to when the store refuses the change.
    pub before: Before,
}

/// What a change is of.
#[derive(Debug)]
pub(crate) enum ChangeOf {
    /// The PG's own records.
    Pg,
    Client(Box<ClientChange>),
}

/// A client's change: what its end needs, and what running it again would.
#[derive(Debug)]
pub(crate) struct ClientChange {
    pub slot: ObjectSlot,
    pub reply: Box<OsdOpReply>,
    /// `None` when the interval ended in which the request came: its reply is not sent.
    pub request: Option<Request>,
    pub delta: StatsDelta,
}

/// A reply that is sent when the change named is durable.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub version: EVersion,
    pub session: SessionId,
    pub reply: Box<OsdOpReply>,
    /// Whether it answers a resend (and not a listing), which is kept in case that the change is refused.
    pub was_resend: bool,
    pub resend: Option<Request>,
}

/// A placement group on this OSD.
///
/// Invariants, asserted by [`Pg::check`]: `info.last_update == log.head()`; `info.log_tail == log.tail()`;
/// the log's tail never passes `durable`, nor `durable` the head; what `in_flight`
/// holds is in the order of tokens and of versions; an object counts its changes in flight; a parked request is counted
/// by its object; what was undone is older than what is in flight; only an active PG holds requests that began. Every queued transaction leaves the stored info equal to `info` as it was then.
#[derive(Debug)]
pub struct Pg {
    pub(crate) id: SpgId,
    pub(crate) collection: CollectionId,
    pub(crate) meta: GHObject,
    pub(crate) whoami: OsdId,
    pub(crate) config: Arc<PgConfig>,
    pub(crate) map: Option<MapView>,
    pub(crate) phase: Phase,
    /// Maps that came while it was loading.
    pub(crate) deferred_maps: Vec<MapView>,
    pub(crate) info: PgInfo,
    /// Whether the stored info must be written whole the next time.
    pub(crate) info_dirty: bool,
    pub(crate) past: PastIntervals,
    pub(crate) log: PgLog,
    /// Whether the store durably has the PG: it was loaded, or the transaction that makes it is durable.
    pub(crate) stored: bool,
    /// Every change up to here is durable.
    pub(crate) durable: EVersion,
    pub(crate) objects: Objects,
    pub(crate) parked: BTreeMap<u64, Parked>,
    pub(crate) reads: BTreeMap<Token, ReadFor>,
    pub(crate) in_flight: VecDeque<InFlight>,
    /// Requests that came while nothing was served.
    pub(crate) waiting: VecDeque<ClientOp>,
    /// Replies of listings, and to resends.
    pub(crate) delayed: VecDeque<Delayed>,
    /// Changes that were undone with an earlier one that the store refused, and whose own refusals are still to come.
    pub(crate) undone: BTreeSet<Token>,
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
            collection: id.into(),
            meta: GHObject::pgmeta(id.pg.pool, id.pg.seed, id.shard),
            whoami,
            config,
            map: None,
            phase,
            deferred_maps: Vec::new(),
            info: PgInfo::new(id),
            info_dirty: true,
            past: PastIntervals::default(),
            log: PgLog::default(),
            stored: true,
            durable: EVersion::default(),
            objects: Objects::default(),
            parked: BTreeMap::new(),
            reads: BTreeMap::new(),
            in_flight: VecDeque::new(),
            waiting: VecDeque::new(),
            delayed: VecDeque::new(),
            undone: BTreeSet::new(),
            backend: Box::new(LocalBackend),
            said_unsupported: BTreeSet::new(),
            said_bad: BTreeSet::new(),
            now: UTime::default(),
            next_token: 1,
            next_park: 1,
        }
    }

    /// Which PG this is.
    pub fn id(&self) -> SpgId {
        self.id
    }

    /// What it knows of itself.
    pub fn info(&self) -> &PgInfo {
        &self.info
    }

    pub fn log(&self) -> &PgLog {
        &self.log
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether it serves requests.
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active)
    }

    /// Whether a PG that was made would still be there after a loss of power.
    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// Object contexts held, requests parked and waiting: for limits and `dump`s.
    pub fn load_counts(&self) -> (usize, usize, usize) {
        (self.objects.len(), self.parked.len(), self.waiting.len())
    }

    /// Evicts idle object contexts, those not used lately first, until at most `max` are held or a bounded number was
    /// looked at. Returns how many are left.
    pub fn evict_contexts(&mut self, max: usize) -> usize {
        self.objects.evict(max);
        self.objects.len()
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
            (PgEvent::ClientOp(op), _) => self.on_client_op(op, out),
            (_, Phase::Failed) => {}
            (PgEvent::AdvanceMap(map), _) => self.on_advance_map(*map, out),
            (PgEvent::ReadDone { token, result }, _) => self.on_read_done(token, result, out),
            (PgEvent::Committed { token }, _) => self.on_local_commit(token, out),
            (PgEvent::Refused { token, error }, _) => self.on_refused(token, error, out),
            (PgEvent::SessionReset { session }, _) => self.on_session_reset(session),
            (PgEvent::Remove, _) => self.on_remove(out),
        }
    }

    /// An invariant does not hold: the PG ends, and says why.
    pub(crate) fn broken(&mut self, what: &'static str, out: &mut Out<'_>) {
        let broken = broken!("pg {}: {what}", self.id);
        self.fail(PgFailure::Broken(broken), out);
    }

    pub(crate) fn token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    pub(crate) fn park_id(&mut self) -> u64 {
        self.next_park += 1;
        self.next_park
    }

    pub(crate) fn read(&mut self, request: ReadRequest, purpose: ReadFor, out: &mut Out<'_>) {
        let token = self.token();
        self.reads.insert(token, purpose);
        out.push(PgEffect::Read { token, request });
    }

    /// What a change about to be made replaces.
    pub(crate) fn before(&self) -> Before {
        let PgInfo { last_update, last_complete, last_user_version, .. } = self.info;
        Before { last_update, last_complete, last_user_version }
    }

    pub(crate) fn submit(&mut self, txn: Transaction, of: ChangeOf, before: Before, out: &mut Out<'_>) {
        let (token, version) = (self.token(), self.info.last_update);
        self.in_flight.push_back(InFlight { token, version, of, before });
        self.backend.submit(Submission { token, txn }, out);
    }

    /// Makes the PG's own records durable.
    pub(crate) fn submit_own(&mut self, txn: Transaction, out: &mut Out<'_>) {
        let before = self.before();
        self.submit(txn, ChangeOf::Pg, before, out);
    }

    pub(crate) fn submit_info(&mut self, out: &mut Out<'_>) {
        let mut txn = Transaction::new();
        self.write_info(&mut txn);
        self.submit_own(txn, out);
    }

    fn on_read_done(&mut self, token: Token, result: Result<ReadOutcome, StoreError>, out: &mut Out<'_>) {
        match self.reads.remove(&token) {
            // A read of an interval that has ended.
            None => {}
            Some(ReadFor::Load) => self.on_load_read(result, out),
            Some(ReadFor::Object(slot)) => self.on_object_read(slot, result, out),
            Some(ReadFor::Step { park, index }) => self.on_step_read(park, index, result, out),
            Some(ReadFor::List(request)) => self.on_list_read(*request, result, out),
            Some(ReadFor::Remove) => self.on_remove_read(result, out),
        }
    }

    fn on_local_commit(&mut self, token: Token, out: &mut Out<'_>) {
        if self.undone.contains(&token) {
            return self.broken("the store made durable what followed a refusal", out);
        }
        // With more copies a change may become durable here before it is durable everywhere.
        let Some(token) = self.backend.on_local_commit(token) else { return };
        let at = self.in_flight.binary_search_by_key(&token, |f| f.token);
        let Some(done) = at.ok().and_then(|at| self.in_flight.remove(at)) else {
            return self.broken("a change became durable that is not in flight", out);
        };
        self.durable = self.durable.max(done.version);
        self.stored = true;
        if let ChangeOf::Client(client) = done.of {
            self.on_client_commit(*client, out);
        }
        self.release_delayed(out);
        if matches!(self.phase, Phase::Removing) {
            self.continue_removal(out);
        }
    }

    fn on_client_commit(&mut self, change: ClientChange, out: &mut Out<'_>) {
        let ClientChange { slot, reply, request, .. } = change;
        if let Some(request) = request {
            out.push(PgEffect::Reply { session: request.session, reply });
        }
        match self.objects.get_mut(slot) {
            Some(object) if object.uncommitted > 0 => object.uncommitted -= 1,
            _ => return self.broken("a change became durable of an object that knows none", out),
        }
        self.pump(slot, out);
    }

    fn on_session_reset(&mut self, session: SessionId) {
        self.waiting.retain(|op| op.session != session);
        self.objects.iter_mut().for_each(|o| o.queue.retain(|r| r.session != session));
        // What has begun goes on; its reply finds nobody. A resend is then answered from the log.
    }

    pub(crate) fn fail(&mut self, failure: PgFailure, out: &mut Out<'_>) {
        self.phase = Phase::Failed;
        self.drop_requests(out);
        out.push(PgEffect::Failed(failure));
    }

    /// Forgets every request, begun or not, and every reply that is due.
    pub(crate) fn drop_requests(&mut self, out: &mut Out<'_>) {
        self.waiting.clear();
        self.parked.clear();
        self.reads.clear();
        self.delayed.clear();
        for change in &mut self.in_flight {
            if let ChangeOf::Client(client) = &mut change.of {
                client.request = None;
            }
        }
        self.objects.reset();
        out.push(PgEffect::RequestsDropped);
    }

    pub(crate) fn dropped(session: SessionId, tid: u64, reason: &'static str, out: &mut Out<'_>) {
        out.push(PgEffect::Notice(Notice::Dropped { session, tid, reason }));
    }
}
