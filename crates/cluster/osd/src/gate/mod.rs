//! A gate: the sessions of one core's connections, and the way of their requests to PGs.

mod backoffs;
mod reading;
mod sessions;

use core::time::Duration;
use std::collections::BTreeMap;

use auth::{SessionId, SessionInfo};
use maps::OsdMap;
use messages::{Message, OsdBackoff, OsdOp, OsdOpReply};
use pg::{BackoffRange, ClientOp, may_read_replica};
use smallvec::SmallVec;
use store::StoreShard;
use telemetry::OpTimes;
use types::{EntityType, Epoch, Errno, OsdId, SpgId, UTime};

pub(crate) use sessions::ThrottleLimits;
use sessions::{OpDecision, Session, Sessions};

use crate::parts::{
    Block, GateMap, OpLoad, Out, PartReport, PgPlace, ReportKind, Route, ToControl, ToGate, ToShard,
};
use crate::report::{OpView, described};
use crate::shard::pg_view::ancestors;
use crate::shard::{PgSlot, Shard};
use crate::{CoreId, OsdEffect};

/// The sessions of one core.
pub(crate) struct Gate {
    core: CoreId,
    sessions: Sessions,
    routes: Routes,
    /// A newer map was asked for than this one.
    wanted_beyond: Epoch,
}

/// What decides where a request goes.
struct Routes {
    whoami: OsdId,
    /// `None` before the first map: requests wait.
    map: Option<GateMap>,
    pgs: BTreeMap<SpgId, Route>,
}

impl Gate {
    pub(crate) fn new(core: CoreId, whoami: OsdId, limits: ThrottleLimits) -> Self {
        let routes = Routes { whoami, map: None, pgs: BTreeMap::new() };
        Self { core, sessions: Sessions::new(limits), routes, wanted_beyond: Epoch(0) }
    }

    pub(crate) fn place_of(&self, pgid: &SpgId) -> Option<PgPlace> {
        self.routes.pgs.get(pgid).map(|route| route.place)
    }

    /// Messages and bytes held.
    pub(crate) fn held(&self) -> (u64, u64) {
        self.sessions.held()
    }

    pub(crate) fn open(&mut self, info: SessionInfo, out: &mut Out) {
        if CoreId::of(info.id) != self.core {
            return out.broken(format!("session {} is not of core {}", info.id, self.core.0));
        }
        self.sessions.open(info);
    }

    pub(crate) fn close(&mut self, id: SessionId, out: &mut Out) {
        // A session that was never opened here has nothing to forget.
        let Some(session) = self.sessions.close(id) else { return };
        if session.info.entity.kind == EntityType::Osd {
            out.send_control(ToControl::PeerClosed(Box::new(session.info.peer_addrs.clone())));
        }
        let mut of_shards: SmallVec<[(StoreShard, Vec<PgSlot>); 4]> = SmallVec::new();
        for place in session.places() {
            let at = of_shards.iter().position(|(shard, _)| *shard == place.shard);
            let at = at.unwrap_or_else(|| {
                of_shards.push((place.shard, Vec::new()));
                of_shards.len() - 1
            });
            if !of_shards[at].1.contains(&place.slot) {
                of_shards[at].1.push(place.slot);
            }
        }
        for (shard, pgs) in of_shards {
            out.send_shard(shard, ToShard::SessionReset { session: id, pgs });
        }
        self.resume(out);
    }

    fn resume(&mut self, out: &mut Out) {
        self.sessions.resumable().into_iter().for_each(|id| out.push(OsdEffect::Resume(id)));
    }

    pub(crate) fn on_message(&mut self, id: SessionId, message: Message, bytes: u64, out: &mut Out) {
        match message {
            Message::OsdOp(op) => self.on_request(id, op, bytes, out),
            // A ping asks for nothing.
            Message::Ping(_) => {}
            Message::OsdBackoff(backoff) if backoff.op == OsdBackoff::ACK_BLOCK => {
                self.on_backoff_ack(id, &backoff, out);
            }
            message => {
                // A message of a session that has just ended: no peer waits for an answer.
                let Some(session) = self.sessions.get_mut(id) else { return };
                let peer = session.info.clone();
                if self.sessions.forward(id, bytes) {
                    out.push(OsdEffect::Pause(id));
                }
                out.send_control(ToControl::Message { peer, message: Box::new(message), bytes });
            }
        }
    }

    fn on_request(&mut self, id: SessionId, op: Box<OsdOp>, bytes: u64, out: &mut Out) {
        let reads_max = self.sessions.reads_max();
        // A request of a session that has just ended: it holds no budget, and no peer waits for an answer.
        let Some((session, pause)) = self.sessions.admit(out.now(), id, op.tid, bytes) else { return };
        if pause {
            out.push(OsdEffect::Pause(id));
        }
        let ours = self.routes.epoch();
        if op.epoch > ours && self.wanted_beyond <= ours {
            self.wanted_beyond = ours.next();
            out.send_control(ToControl::WantMap);
        }
        if let Some(have) = session.lacks(op.epoch, ours) {
            out.send_control(ToControl::ShareMaps { session: id, have });
        }
        if session.backoffs.holds_back(&op.pgid) {
            // Its client sends it again when it learns that it may.
            self.sessions.give_up_newest(id);
            return self.resume(out);
        }
        // Most requests go straight on.
        if session.waiting.is_empty()
            && op.epoch <= ours
            && let Some(map) = &self.routes.map
            && !session.is_fenced(&map.map)
            && let OpDecision::Run(place) = self.routes.decide(map, &op)
            && session.begins(&op, place, reads_max)
        {
            return hand_on(id, session, place, op, out);
        }
        session.waiting.push_back(op);
        self.run_ready(id, out);
    }

    /// Hands a session's operations on that need not wait (any more). Those of a client that the map shuts out are
    /// refused, whatever they wait for: it must learn that it is fenced.
    fn run_ready(&mut self, id: SessionId, out: &mut Out) {
        let reads_max = self.sessions.reads_max();
        // Before the first map, requests wait in their session. A session that has ended has none left.
        let Some(map) = &self.routes.map else { return };
        let Some(session) = self.sessions.get_mut(id) else { return };
        let epoch = map.map.epoch;
        let (mut answers, mut held_back) = (Vec::new(), Vec::new());
        if session.is_fenced(&map.map) {
            let refused = |op: Box<OsdOp>| OsdOpReply::error(&op, Errno::ESHUTDOWN.code(), epoch);
            answers.extend(session.take_waiting().into_iter().map(|op| (op.tid, Some(refused(op)))));
        } else {
            let knows = session.knows_backoffs();
            let decide = |op: &OsdOp| match self.routes.decide(map, op) {
                OpDecision::HoldBack if !knows => OpDecision::Wait,
                turn => turn,
            };
            for (op, turn) in session.take_ready(epoch, reads_max, decide) {
                match turn {
                    OpDecision::Run(place) => hand_on(id, session, place, op, out),
                    OpDecision::HoldBack => {
                        let pg_num = map.map.pools.get(&op.pgid.pg.pool).map_or(1, |pool| pool.pg_num);
                        let range = BackoffRange::of(op.pgid.pg, pg_num, epoch);
                        // Of several requests the first one begins it.
                        if let Some(message) = session.backoffs.begin(op.pgid, None, range) {
                            out.push(OsdEffect::Send { session: id, message });
                        }
                        answers.push((op.tid, None));
                        held_back.push(op.pgid);
                    }
                    OpDecision::AskPrimary => {
                        answers.push((op.tid, Some(OsdOpReply::error(&op, Errno::EAGAIN.code(), epoch))));
                    }
                    OpDecision::Drop | OpDecision::Wait => answers.push((op.tid, None)),
                }
            }
        }
        for (tid, reply) in answers {
            self.answer(id, tid, None, reply.map(Box::new), out);
        }
        // What came behind them, too: its client sends all of them again, in their order.
        held_back.iter().for_each(|pgid| self.sessions.drop_waiting(id, pgid));
        if self.sessions.set_aside(id) {
            out.push(OsdEffect::Pause(id));
        }
        self.resume(out);
    }

    /// Maps came or PGs were made: what waited for them may run, here or at its client.
    fn run_waiting(&mut self, out: &mut Out) {
        self.release_absent(out);
        for session in self.sessions.with_waiting() {
            self.run_ready(session, out);
        }
    }

    /// Ends the backoffs of PGs that were not here, where these are now, or are not to come out of one that has failed.
    fn release_absent(&mut self, out: &mut Out) {
        // Backoffs begin after the first map.
        let Some(map) = &self.routes.map else { return };
        let routes = &self.routes;
        for (id, session) in self.sessions.with_backoffs() {
            let over: Vec<SpgId> =
                session.backoffs.absent().filter(|pgid| !routes.is_held_up(map, pgid)).collect();
            for pgid in over {
                if let Some((message, _)) = session.backoffs.end(pgid, map.map.epoch) {
                    out.push(OsdEffect::Send { session: id, message });
                }
            }
        }
    }

    /// Answers an operation, unless it is dropped, and frees what it held. `place` is that of the PG that had it; `None`
    /// if it waited here.
    fn answer(
        &mut self,
        session: SessionId,
        tid: u64,
        place: Option<PgPlace>,
        reply: Option<Box<OsdOpReply>>,
        out: &mut Out,
    ) {
        let exists = self.sessions.release(session, tid, place, reply.as_deref());
        match (exists, reply) {
            (true, Some(reply)) => {
                out.push(OsdEffect::Send { session, message: Message::OsdOpReply(reply) });
            }
            (true, None) => self.share_maps_after_drop(session, out),
            // The session has ended: no peer waits for an answer.
            (false, _) => {}
        }
    }

    /// A session's peer has taken answers, or is behind with it.
    pub(crate) fn on_behind(&mut self, id: SessionId, is_behind: bool, out: &mut Out) {
        // The session has ended meanwhile.
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.reading.is_behind = is_behind;
        self.go_on(id, out);
    }

    /// A session has room for requests: what waits for its peer may run, and paused sessions may go on.
    fn go_on(&mut self, id: SessionId, out: &mut Out) {
        match self.sessions.get_mut(id).is_some_and(|session| session.waits_for_peer()) {
            true => self.run_ready(id, out),
            false => self.resume(out),
        }
    }

    /// A request was dropped, most often for a map that came after it: its client sends it again when it has that map,
    /// which nothing else may bring it for long.
    fn share_maps_after_drop(&mut self, id: SessionId, out: &mut Out) {
        let ours = self.routes.epoch();
        // The session has ended meanwhile.
        let Some(session) = self.sessions.get_mut(id) else { return };
        // The map may not have reached this gate yet: the control part has it.
        let have = session.lacks(Epoch(0), ours).unwrap_or(session.known_epoch);
        out.send_control(ToControl::ShareMaps { session: id, have });
    }

    /// A PG has dropped a request, and its session is to hold back.
    fn block(&mut self, block: Block, out: &mut Out) {
        let Block { session: id, tid, pgid, place, range } = block;
        self.answer(id, tid, Some(place), None, out);
        // The session has ended, which the PG learns by its own message.
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(message) = session.backoffs.begin(pgid, Some(place), range) else {
            return out.broken(format!("pg {pgid} asks for a second backoff of {id}"));
        };
        out.push(OsdEffect::Send { session: id, message });
        self.sessions.drop_waiting(id, &pgid);
        self.go_on(id, out);
    }

    fn unblock(&mut self, id: SessionId, pgid: SpgId, epoch: Epoch, out: &mut Out) {
        // The session has ended, and its backoffs with it.
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some((message, over)) = session.backoffs.end(pgid, epoch) else {
            return out.broken(format!("pg {pgid} ends a backoff of {id} that does not exist"));
        };
        out.push(OsdEffect::Send { session: id, message });
        backoff_ended(id, over, out);
    }

    fn on_backoff_ack(&mut self, id: SessionId, message: &OsdBackoff, out: &mut Out) {
        // A message of a session that has just ended.
        let Some(session) = self.sessions.get_mut(id) else { return };
        backoff_ended(id, session.backoffs.acknowledge(message), out);
    }

    pub(crate) fn handle(&mut self, message: ToGate, out: &mut Out) {
        match message {
            ToGate::Reply { session, place, reply } => {
                self.answer(session, reply.tid, Some(place), Some(reply), out);
                self.go_on(session, out);
            }
            ToGate::Dropped { session, place, tid } => {
                self.answer(session, tid, Some(place), None, out);
                self.go_on(session, out);
            }
            ToGate::Block(block) => self.block(*block, out),
            ToGate::Unblock { session, pgid, epoch } => self.unblock(session, pgid, epoch, out),
            ToGate::Watching { session: id, place, watching } => match self.sessions.get_mut(id) {
                Some(session) => session.set_watching(place, watching),
                None if watching => say_ended(id, place, out),
                None => {}
            },
            ToGate::SentBack { session: id, place } => match self.sessions.get_mut(id) {
                Some(session) => session.note_sent_back(place),
                None => say_ended(id, place, out),
            },
            ToGate::Send { session, message } => {
                if self.sessions.get_mut(session).is_some() {
                    out.push(OsdEffect::Send { session, message: *message });
                }
            }
            ToGate::Handled { session, bytes } => {
                let resumed = self.sessions.handled(session, bytes);
                resumed.into_iter().for_each(|id| out.push(OsdEffect::Resume(id)));
            }
            ToGate::CollectStats { complaint_time } => {
                let load = Some(self.slow_load(out.now(), complaint_time));
                out.send_control(ToControl::Stats { stats: BTreeMap::new(), load });
            }
            ToGate::Report { id, what, complaint_time } => {
                let report = Box::new(self.report(out.now(), what, complaint_time));
                out.send_control(ToControl::Report { id, report });
            }
            ToGate::Limits(limits) => {
                let resumed = self.sessions.set_limits(limits);
                resumed.into_iter().for_each(|id| out.push(OsdEffect::Resume(id)));
                self.run_waiting(out);
            }
            ToGate::Map(map) => {
                self.routes.map = Some(map);
                self.run_waiting(out);
            }
            ToGate::Pg { pgid, route } => {
                match route {
                    Some(route) => self.routes.pgs.insert(pgid, route),
                    None => {
                        self.sessions.forget_backoffs(&pgid);
                        self.routes.pgs.remove(&pgid)
                    }
                };
                self.run_waiting(out);
            }
        }
    }

    /// The requests that wait here, since when, and whether it is their peer that they wait for.
    fn waiting(&self) -> impl Iterator<Item = (&Session, &OsdOp, UTime, bool)> {
        let of = |session| {
            Session::waiting_since(session).map(move |(op, since, of_peer)| (session, op, since, of_peer))
        };
        self.sessions.iter().flat_map(of)
    }

    fn slow_load(&self, now: UTime, complaint_time: Option<Duration>) -> OpLoad {
        let mut load = OpLoad::default();
        // Without the tracker nothing is reported.
        let Some(time) = complaint_time else { return load };
        // The OSD does not report a request as slow that waits until its client takes answers.
        let slow = |(_, _, since, of_peer): &(_, _, UTime, bool)| since.after(time) <= now && !of_peer;
        for (_, _, since, _) in self.waiting().filter(slow) {
            load.note_slow(now.as_nanos().saturating_sub(since.as_nanos()));
        }
        load
    }

    fn report(&self, now: UTime, what: ReportKind, complaint_time: Option<Duration>) -> PartReport {
        let mut report = PartReport { held: self.held(), ..PartReport::default() };
        if let ReportKind::InFlight { slow_only } = what {
            let is_slow = |since: UTime| complaint_time.is_some_and(|time| since.after(time) <= now);
            let wanted = self.waiting().filter(|(_, _, since, _)| !slow_only || is_slow(*since));
            report.ops.extend(wanted.map(|(session, op, since, of_peer)| {
                let times = OpTimes::received_at(since);
                let reqid = op.request_id(session.info.name);
                let description = described(reqid, op.pgid, &op.oid, op.ops.iter(), op.flags);
                let waits_for = Some(match of_peer {
                    true => "delayed: waiting for the client to take answers",
                    false => "delayed: waiting for a map or its PG",
                });
                OpView { description, times, took_nanos: times.age_nanos(now), waits_for }
            }));
        }
        report
    }

    /// The first of the gate's invariants that does not hold.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.sessions.check()
    }

    /// What shards have of this gate's sessions, when no message is on its way.
    pub(crate) fn check_shards(&self, shards: &[Shard]) -> Result<(), &'static str> {
        let mut requests = shards.iter().flat_map(Shard::requests);
        match requests.all(|(session, tid, place)| self.sessions.holds_at(session, tid, place) != Some(false))
        {
            true => Ok(()),
            false => Err("a shard has a request that holds no budget"),
        }
    }
}

impl Routes {
    fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.map.epoch)
    }

    fn decide(&self, map: &GateMap, op: &OsdOp) -> OpDecision {
        let is_up = map.up_from > Epoch(0);
        if let Some(route) = self.pgs.get(&op.pgid) {
            // Before a map shows us up nothing is ours to answer.
            return if is_up { OpDecision::Run(route.place) } else { OpDecision::Drop };
        }
        match role(&map.map, self.whoami, &op.pgid) {
            Role::Primary if self.comes_of_failed(&op.pgid) => OpDecision::HoldBack,
            // A PG that the map gives us but that is not there yet is about to be made, alone or out of another.
            Role::Primary => OpDecision::Wait,
            Role::Replica if is_up && may_read_replica(op) => OpDecision::AskPrimary,
            // Nothing is ours to answer that was sent to the wrong OSD, or to a pool that is gone.
            Role::Replica | Role::None => OpDecision::Drop,
        }
    }

    /// Whether a PG that is not here is to be split off one that has failed: off the nearest one here that had its objects.
    fn comes_of_failed(&self, pgid: &SpgId) -> bool {
        ancestors(pgid).find_map(|of| self.pgs.get(&of)).is_some_and(|route| route.has_failed)
    }

    /// Whether requests for a PG that is not here are still to be held back.
    fn is_held_up(&self, map: &GateMap, pgid: &SpgId) -> bool {
        let is_ours = || matches!(role(&map.map, self.whoami, pgid), Role::Primary);
        !self.pgs.contains_key(pgid) && self.comes_of_failed(pgid) && is_ours()
    }
}

/// A PG or its shard spoke of a session that had ended before: it does not know that yet.
fn say_ended(session: SessionId, place: PgPlace, out: &mut Out) {
    out.send_shard(place.shard, ToShard::SessionReset { session, pgs: vec![place.slot] });
}

/// A backoff is over, if it is: from here on its PG gets what the session sends.
fn backoff_ended(session: SessionId, over: Option<PgPlace>, out: &mut Out) {
    if let Some(PgPlace { shard, slot }) = over {
        out.send_shard(shard, ToShard::BackoffEnded { slot, session });
    }
}

fn hand_on(id: SessionId, session: &mut Session, place: PgPlace, op: Box<OsdOp>, out: &mut Out) {
    let received = session.received(op.tid, place).unwrap_or(out.now());
    let info = &session.info;
    let (source, features, addrs) = (info.name, info.features, session.addrs.clone());
    let op = ClientOp { session: id, source, addrs, features, caps: info.caps, op };
    out.send_shard(place.shard, ToShard::Request { slot: place.slot, op, received });
}

/// What a map makes of this OSD in a PG.
enum Role {
    Primary,
    Replica,
    None,
}

fn role(map: &OsdMap, whoami: OsdId, pgid: &SpgId) -> Role {
    if map.pools.get(&pgid.pg.pool).is_none_or(|pool| pgid.pg.seed >= pool.pg_num) {
        return Role::None;
    }
    let at = map.pg_to_up_acting(pgid.pg);
    if at.acting_primary == Some(whoami) {
        Role::Primary
    } else if at.acting.contains(&whoami) {
        Role::Replica
    } else {
        Role::None
    }
}
