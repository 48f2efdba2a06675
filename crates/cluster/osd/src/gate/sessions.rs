//! A core's sessions and their budget: how many requests and other messages, and how many of their bytes, are held until
//! their replies. What OSDs send each other as peers is outside it. Their requests as clients have a budget of their own:
//! the clients' may be spent by copies that wait for just these requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use auth::{SessionId, SessionInfo};
use maps::OsdMap;
use messages::{OsdOp, OsdOpReply};
use types::{EntityAddrVec, EntityType, Epoch, FeatureBits, SpgId, UTime};

use super::backoffs::Backoffs;
use super::reading::Reading;
use crate::parts::PgPlace;

/// What one gate admits. A limit of 0 does not apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThrottleLimits {
    /// The gate's share of osd_client_message_cap.
    pub messages_max: u64,
    /// The gate's share of osd_client_message_size_cap.
    pub bytes_max: u64,
    /// Each session's (osd_client_reads_bytes_max).
    pub reads_max: u64,
}

/// What becomes of an operation whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpDecision {
    /// Its PG gets it.
    Run(PgPlace),
    /// It waits, and those behind it of the same PG with it.
    Wait,
    /// It is dropped, and its session is to hold back those of its PG: that may not come to be for long.
    HoldBack,
    /// It is dropped: a map makes its client send it again.
    Drop,
    /// It is a read for any copy, and this one is not served: its client is sent to the primary.
    AskPrimary,
}

/// A request that holds budget.
#[derive(Debug)]
struct Held {
    tid: u64,
    bytes: u64,
    /// What it counts for in [`Session::reading`]; 0 while it waits here.
    reads: u64,
    received: UTime,
    /// It waits for its peer, and holds no budget meanwhile.
    aside: bool,
    /// The PG that has it; `None` while it waits here.
    at: Option<PgPlace>,
}

/// A peer's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub info: Arc<SessionInfo>,
    /// The addresses of `info`, shared with the requests that wait in PGs.
    pub addrs: Arc<EntityAddrVec>,
    /// The newest map that the peer is known to have, or to have been sent (Ceph's projected_epoch).
    pub known_epoch: Epoch,
    /// Operations that wait for a map, for their PG to come into being, or for the peer to take answers, in the order they
    /// came. Those behind one that waits for a map or the peer wait too: an object's operations keep their order. Bounded by
    /// the budget of messages.
    pub waiting: VecDeque<Box<OsdOp>>,
    /// The one of those that waits for the peer, if one does.
    waits_for_peer: Option<usize>,
    /// How many of the requests hold no budget meanwhile.
    aside: usize,
    pub reading: Reading,
    /// The requests that are not answered, oldest first. A client may send a request again before it is answered; each
    /// gets its own answer.
    held: Vec<Held>,
    pub backoffs: Backoffs,
    /// The PGs that have its watches.
    watched: BTreeSet<PgPlace>,
    /// The PGs that have sent back writes of it for want of room.
    sent_back: BTreeSet<PgPlace>,
    /// Messages at the control part, and their bytes.
    forwarded: (u64, u64),
    /// Whether a map shuts the peer out, and which map was asked.
    fenced: (Epoch, bool),
}

impl Session {
    fn new(info: SessionInfo) -> Self {
        Self {
            addrs: Arc::new(info.peer_addrs.clone()),
            info: Arc::new(info),
            known_epoch: Epoch(0),
            waiting: VecDeque::new(),
            waits_for_peer: None,
            aside: 0,
            reading: Reading::default(),
            held: Vec::new(),
            backoffs: Backoffs::default(),
            watched: BTreeSet::new(),
            sent_back: BTreeSet::new(),
            forwarded: (0, 0),
            fenced: (Epoch(0), false),
        }
    }

    /// Notes a map that the peer says it has. Answers from where on it lacks maps up to `ours`, if it does, and
    /// reckons it has been sent them.
    pub(crate) fn lacks(&mut self, theirs: Epoch, ours: Epoch) -> Option<Epoch> {
        self.known_epoch = self.known_epoch.max(theirs);
        let known = self.known_epoch;
        self.known_epoch = known.max(ours);
        (known < ours).then_some(known)
    }

    /// Whether the peer can be asked to hold requests back.
    pub(crate) fn knows_backoffs(&self) -> bool {
        self.info.features & FeatureBits::RADOS_BACKOFF == FeatureBits::RADOS_BACKOFF
    }

    /// Whether the map shuts the peer out.
    pub(crate) fn is_fenced(&mut self, map: &OsdMap) -> bool {
        if self.fenced.0 != map.epoch {
            let shut_out = self.addrs.0.iter().any(|addr| map.is_blocklisted(addr));
            self.fenced = (map.epoch, shut_out);
        }
        self.fenced.1
    }

    /// Takes out the operations that need not wait at map `epoch`, and counts what they read. `turn` is asked in order for each
    /// that is not held up by one before it.
    pub(crate) fn take_ready(
        &mut self,
        epoch: Epoch,
        reads_max: u64,
        mut turn: impl FnMut(&OsdOp) -> OpDecision,
    ) -> Vec<(Box<OsdOp>, OpDecision)> {
        let (mut ready, mut held) = (Vec::new(), VecDeque::new());
        let (mut map_missing, mut blocked) = (false, BTreeSet::<SpgId>::new());
        self.waits_for_peer = None;
        while let Some(op) = self.waiting.pop_front() {
            map_missing |= op.epoch > epoch;
            let turn = match map_missing || blocked.contains(&op.pgid) {
                true => OpDecision::Wait,
                false => turn(&op),
            };
            match turn {
                OpDecision::Run(place) => match self.begins(&op, place, reads_max) {
                    true => ready.push((op, turn)),
                    false => {
                        self.waits_for_peer = Some(held.len());
                        self.waiting.push_front(op);
                        break;
                    }
                },
                OpDecision::Wait => {
                    blocked.insert(op.pgid);
                    held.push_back(op);
                }
                turn => ready.push((op, turn)),
            }
        }
        while let Some(op) = held.pop_back() {
            self.waiting.push_front(op);
        }
        ready
    }

    /// Lets a request that waits here go on to a PG, unless its peer has to take answers first. Answers whether it goes on.
    pub(crate) fn begins(&mut self, op: &OsdOp, place: PgPlace, reads_max: u64) -> bool {
        let reads = self.reading.expected(op.bytes_asked());
        if !self.reading.has_room(reads, reads_max) {
            return false;
        }
        // The newest ones are at the end, and a request usually goes on when it comes.
        let waits = |held: &&mut Held| held.tid == op.tid && held.at.is_none();
        if let Some(held) = self.held.iter_mut().rev().find(waits) {
            held.at = Some(place);
            held.reads = reads;
            self.reading.begin(reads);
        }
        true
    }

    /// When a request came that a PG has; `None` if it is not held.
    pub(crate) fn received(&self, tid: u64, place: PgPlace) -> Option<UTime> {
        let is = |held: &&Held| held.tid == tid && held.at == Some(place);
        self.held.iter().rev().find(is).map(|held| held.received)
    }

    /// Takes out all operations that wait.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<Box<OsdOp>> {
        self.waits_for_peer = None;
        std::mem::take(&mut self.waiting)
    }

    /// Whether a request waits for the peer to take answers.
    pub(crate) fn waits_for_peer(&self) -> bool {
        self.waits_for_peer.is_some()
    }

    /// The requests that wait here, when they came, and whether they wait for the peer.
    pub(crate) fn waiting_since(&self) -> impl Iterator<Item = (&OsdOp, UTime, bool)> {
        let of_peer = self.waits_for_peer.unwrap_or(usize::MAX);
        self.waiting.iter().enumerate().filter_map(move |(at, op)| {
            let held = self.held.iter().find(|held| held.tid == op.tid && held.at.is_none())?;
            Some((&**op, held.received, at >= of_peer))
        })
    }

    /// Whether a request of this transaction id is not answered.
    pub(crate) fn holds(&self, tid: u64) -> bool {
        self.held.iter().any(|held| held.tid == tid)
    }

    pub(crate) fn set_watching(&mut self, place: PgPlace, watching: bool) {
        match watching {
            true => self.watched.insert(place),
            false => self.watched.remove(&place),
        };
    }

    pub(crate) fn note_sent_back(&mut self, place: PgPlace) {
        self.sent_back.insert(place);
    }

    /// The PGs that have requests of the session which are not answered, or its watches, or want none of it, or have sent
    /// requests back.
    pub(crate) fn places(&self) -> impl Iterator<Item = PgPlace> {
        let requests = self.held.iter().filter_map(|held| held.at);
        let others = self.watched.iter().chain(&self.sent_back).copied();
        requests.chain(others).chain(self.backoffs.places())
    }

    /// The one of the two budgets that its requests count in.
    fn budget<'a>(&self, clients: &'a mut Budget, osds: &'a mut Budget) -> &'a mut Budget {
        if self.is_of_osd() { osds } else { clients }
    }

    fn is_of_osd(&self) -> bool {
        self.info.entity.kind == EntityType::Osd
    }

    /// Whether messages that are no requests count in the budget, and pause it while that is spent. Another OSD's are
    /// not: one may be an acknowledgement that clients' requests wait for, or a heartbeat. An OSD that is a client too sends
    /// its requests on a connection of their own, as Ceph's do.
    fn counts_messages(&self) -> bool {
        !self.is_of_osd()
    }

    /// Messages and bytes of the budget that it holds, those at the control part among them.
    fn sums(&self) -> (u64, u64) {
        let counted = self.held.iter().filter(|held| !held.aside);
        let (messages, bytes) = counted.fold((0, 0), |sum, held| (sum.0 + 1, sum.1 + held.bytes));
        let forwarded = if self.counts_messages() { self.forwarded } else { (0, 0) };
        (messages + forwarded.0, bytes + forwarded.1)
    }
}

/// The budget of a gate, and what is held of it.
#[derive(Debug)]
struct Budget {
    limits: ThrottleLimits,
    messages: u64,
    bytes: u64,
}

impl Budget {
    fn is_spent(&self) -> bool {
        let spent = |held: u64, max: u64| max > 0 && held >= max;
        spent(self.messages, self.limits.messages_max) || spent(self.bytes, self.limits.bytes_max)
    }

    /// A session has one message more. Answers whether the session has to wait.
    fn take(&mut self, bytes: u64) -> bool {
        self.messages += 1;
        self.bytes += bytes;
        self.is_spent()
    }

    /// A session has one message less.
    fn free_message(&mut self, bytes: u64) {
        self.messages -= 1;
        self.bytes -= bytes;
    }

    /// A session has one request less.
    fn free(&mut self, held: &Held) {
        if !held.aside {
            self.free_message(held.bytes);
        }
    }
}

/// All sessions of a core, with the budget that they share. A message that has already come is always let in, so the
/// budget is overdrawn by at most one message a session; a session that brings one while it is spent is paused until
/// there is room again.
#[derive(Debug)]
pub(crate) struct Sessions {
    all: BTreeMap<SessionId, Session>,
    budget: Budget,
    /// Of requests of OSDs. They read for copies and wait for none, so that it is never spent for long.
    osds: Budget,
    paused: BTreeSet<SessionId>,
}

impl Sessions {
    pub(crate) fn new(limits: ThrottleLimits) -> Self {
        let budget = || Budget { limits, messages: 0, bytes: 0 };
        Self { all: BTreeMap::new(), budget: budget(), osds: budget(), paused: BTreeSet::new() }
    }

    /// Puts other limits in force. Answers which sessions may go on.
    pub(crate) fn set_limits(&mut self, limits: ThrottleLimits) -> Vec<SessionId> {
        (self.budget.limits, self.osds.limits) = (limits, limits);
        self.resumable()
    }

    pub(crate) fn open(&mut self, info: SessionInfo) {
        self.all.insert(info.id, Session::new(info));
    }

    pub(crate) fn get_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        self.all.get_mut(&session)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.all.values()
    }

    /// How many bytes the large reads of one session may have under way; 0 sets no limit.
    pub(crate) fn reads_max(&self) -> u64 {
        self.budget.limits.reads_max
    }

    /// The sessions in which operations wait.
    pub(crate) fn with_waiting(&self) -> Vec<SessionId> {
        self.all.iter().filter(|(_, s)| !s.waiting.is_empty()).map(|(&id, _)| id).collect()
    }

    /// The sessions that hold requests back for PGs that are not here.
    pub(crate) fn with_backoffs(&mut self) -> impl Iterator<Item = (SessionId, &mut Session)> {
        let all = self.all.iter_mut().map(|(id, session)| (*id, session));
        all.filter(|(_, session)| session.backoffs.absent().next().is_some())
    }

    /// Messages and bytes held of the budget.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.budget.messages + self.osds.messages, self.budget.bytes + self.osds.bytes)
    }

    /// Takes a request in, if the session exists. Answers the session, and whether it has to be paused now.
    pub(crate) fn admit(
        &mut self,
        now: UTime,
        id: SessionId,
        tid: u64,
        bytes: u64,
    ) -> Option<(&mut Session, bool)> {
        let session = self.all.get_mut(&id)?;
        session.held.push(Held { tid, bytes, reads: 0, received: now, aside: false, at: None });
        let budget = session.budget(&mut self.budget, &mut self.osds);
        let pause = budget.take(bytes) && self.paused.insert(id);
        Some((session, pause))
    }

    /// Requests of a session that wait for its peer hold no budget, so that others are served, and those that no longer do hold some
    /// again. Answers whether the session has to be paused now: it brings no more while some wait.
    pub(crate) fn set_aside(&mut self, id: SessionId) -> bool {
        // The session has ended meanwhile: it holds nothing.
        let Some(session) = self.all.get_mut(&id) else { return false };
        let waits = session.waits_for_peer();
        if !waits && session.aside == 0 {
            return false;
        }
        let budget = session.budget(&mut self.budget, &mut self.osds);
        for held in &mut session.held {
            match (held.aside, waits && held.at.is_none()) {
                (false, true) => budget.free_message(held.bytes),
                (true, false) => drop(budget.take(held.bytes)),
                _ => continue,
            }
            held.aside = !held.aside;
        }
        session.aside = session.held.iter().filter(|held| held.aside).count();
        waits && self.paused.insert(id)
    }

    /// A message goes to the control part. Answers whether its session has to be paused now.
    pub(crate) fn forward(&mut self, id: SessionId, bytes: u64) -> bool {
        // Nothing is counted of a session that has ended.
        let Some(session) = self.all.get_mut(&id) else { return false };
        session.forwarded = (session.forwarded.0 + 1, session.forwarded.1 + bytes);
        session.counts_messages() && self.budget.take(bytes) && self.paused.insert(id)
    }

    /// The control part is done with a message. Answers which sessions may go on.
    pub(crate) fn handled(&mut self, id: SessionId, bytes: u64) -> Vec<SessionId> {
        if let Some(session) = self.all.get_mut(&id) {
            session.forwarded = (session.forwarded.0 - 1, session.forwarded.1 - bytes);
            if session.counts_messages() {
                self.budget.free_message(bytes);
            }
        }
        self.resumable()
    }

    /// A request was answered or dropped: one that the PG at `place` had, or one that waited here. A client may have
    /// sent others of the same transaction id, which keep what they hold. Answers whether its session exists.
    pub(crate) fn release(
        &mut self,
        id: SessionId,
        tid: u64,
        place: Option<PgPlace>,
        reply: Option<&OsdOpReply>,
    ) -> bool {
        let Some(session) = self.all.get_mut(&id) else { return false };
        // An answer that no request waits for frees nothing.
        if let Some(index) = session.held.iter().position(|held| held.tid == tid && held.at == place) {
            let held = session.held.remove(index);
            if held.reads > 0 {
                let brought = reply.filter(|reply| reply.result >= 0).map(OsdOpReply::bytes_brought);
                session.reading.end(held.reads, brought);
            }
            session.budget(&mut self.budget, &mut self.osds).free(&held);
        }
        true
    }

    /// Gives up the request that was admitted last, which is dropped at once.
    pub(crate) fn give_up_newest(&mut self, id: SessionId) {
        if let Some(session) = self.all.get_mut(&id)
            && let Some(held) = session.held.pop()
        {
            session.budget(&mut self.budget, &mut self.osds).free(&held);
        }
    }

    /// Drops a session's requests for a PG that wait here: their client sends them again.
    pub(crate) fn drop_waiting(&mut self, id: SessionId, pgid: &SpgId) {
        // A session that has ended has none.
        let Some(session) = self.all.get_mut(&id) else { return };
        let waiting = std::mem::take(&mut session.waiting);
        let (dropped, kept): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|op| op.pgid == *pgid);
        session.waiting = kept;
        // Another may be there now: `take_ready` finds it again.
        session.waits_for_peer = session.waits_for_peer.filter(|_| !session.waiting.is_empty()).map(|_| 0);
        for op in dropped {
            let waits = |held: &Held| held.tid == op.tid && held.at.is_none();
            if let Some(at) = session.held.iter().position(waits) {
                let held = session.held.remove(at);
                session.budget(&mut self.budget, &mut self.osds).free(&held);
            }
        }
    }

    /// A PG is gone.
    pub(crate) fn forget_backoffs(&mut self, pgid: &SpgId) {
        self.all.values_mut().for_each(|session| session.backoffs.forget(pgid));
    }

    /// Ends a session: what it held is free.
    pub(crate) fn close(&mut self, id: SessionId) -> Option<Session> {
        let session = self.all.remove(&id)?;
        self.paused.remove(&id);
        let (messages, bytes) = session.sums();
        let budget = session.budget(&mut self.budget, &mut self.osds);
        budget.messages -= messages;
        budget.bytes -= bytes;
        Some(session)
    }

    /// Takes the paused sessions that may go on.
    pub(crate) fn resumable(&mut self) -> Vec<SessionId> {
        if self.paused.is_empty() {
            return Vec::new();
        }
        let (clients, osds) = (!self.budget.is_spent(), !self.osds.is_spent());
        let of_osd = |id: &SessionId| self.all.get(id).is_some_and(Session::is_of_osd);
        let waits = |id: &SessionId| self.all.get(id).is_some_and(Session::waits_for_peer);
        let goes_on = |id: &SessionId| !waits(id) && if of_osd(id) { osds } else { clients };
        let (resumed, paused) = std::mem::take(&mut self.paused).into_iter().partition(goes_on);
        self.paused = paused;
        BTreeSet::into_iter(resumed).collect()
    }

    /// The first invariant that does not hold: the sums are those of what the sessions hold, what waits is held, and what
    /// is paused exists.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let sums = self.all.values().map(Session::sums);
        if sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)) != self.held() {
            return Err("the budget's sums are not those of the messages held");
        }
        if !self.all.values().all(|s| s.waiting.iter().all(|op| s.holds(op.tid))) {
            return Err("an operation waits in a session without budget");
        }
        let reads = |s: &Session| s.held.iter().map(|held| held.reads).sum::<u64>();
        if !self.all.values().all(|s| s.reading.under_way() == reads(s)) {
            return Err("a session's reads are miscounted");
        }
        match self.paused.iter().all(|session| self.all.contains_key(session)) {
            true => Ok(()),
            false => Err("a session is paused that does not exist"),
        }
    }

    /// Whether a session that exists holds a request for a PG.
    pub(crate) fn holds_at(&self, session: SessionId, tid: u64, place: PgPlace) -> Option<bool> {
        let held = &self.all.get(&session)?.held;
        Some(held.iter().any(|h| h.tid == tid && h.at == Some(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::Caps;
    use store::StoreShard;
    use types::{EntityAddr, EntityName, EntityType};

    use crate::shard::PgSlot;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const OSD: SessionId = SessionId(3);
    const PLACE: PgPlace = PgPlace { shard: StoreShard(0), slot: PgSlot(2) };

    fn sessions(messages_max: u64, bytes_max: u64) -> Sessions {
        let mut sessions = Sessions::new(ThrottleLimits { messages_max, bytes_max, reads_max: 0 });
        for id in [A, B] {
            sessions.open(SessionInfo {
                id,
                entity: "client.admin".parse().unwrap(),
                name: EntityName::new(EntityType::Client, 4000),
                global_id: 4000,
                caps: Caps::all(),
                features: 0,
                peer_addrs: EntityAddr::v2(([127, 0, 0, 1], 0).into(), 1).into(),
                local_nonce: 1,
            });
        }
        sessions
    }

    fn open_osd(s: &mut Sessions, id: SessionId) {
        s.open(SessionInfo {
            id,
            entity: "osd.1".parse().unwrap(),
            name: EntityName::new(EntityType::Osd, 1),
            global_id: 0,
            caps: Caps::all(),
            features: 0,
            peer_addrs: EntityAddr::v2(([127, 0, 0, 2], 6800).into(), 1).into(),
            local_nonce: 1,
        });
    }

    fn admit(s: &mut Sessions, session: SessionId, tid: u64, bytes: u64) -> bool {
        s.admit(UTime::default(), session, tid, bytes).unwrap().1
    }

    fn release(s: &mut Sessions, session: SessionId, tid: u64) -> Vec<SessionId> {
        release_at(s, session, tid, None)
    }

    fn release_at(s: &mut Sessions, session: SessionId, tid: u64, place: Option<PgPlace>) -> Vec<SessionId> {
        s.release(session, tid, place, None);
        s.check().unwrap();
        s.resumable()
    }

    #[test]
    fn a_session_is_paused_when_the_budget_is_spent_and_goes_on_when_there_is_room() {
        let mut t = sessions(2, 0);
        assert!(!admit(&mut t, A, 1, 10));
        assert!(admit(&mut t, A, 2, 10));
        assert!(admit(&mut t, B, 1, 10), "what has come is let in, but no more");
        assert!(release(&mut t, A, 1).is_empty(), "still two held");
        assert_eq!(release(&mut t, A, 2), [A, B]);
        assert_eq!(t.held(), (1, 10));
    }

    #[test]
    fn bytes_count_too_and_each_answer_frees_one_message() {
        let mut t = sessions(0, 100);
        assert!(!admit(&mut t, A, 1, 99));
        assert!(admit(&mut t, A, 1, 1));
        assert_eq!(release(&mut t, A, 1), [A]);
        assert_eq!(t.held(), (1, 1), "a message that bears the same number is still there");
        release(&mut t, A, 1);
        assert_eq!(t.held(), (0, 0));
        assert!(release(&mut t, A, 1).is_empty(), "a third answer frees nothing");
    }

    #[test]
    fn a_session_knows_the_pgs_that_have_its_requests() {
        let mut t = sessions(0, 0);
        admit(&mut t, A, 1, 10);
        let (session, _) = t.admit(UTime::default(), A, 2, 20).unwrap();
        assert!(session.begins(&crate::shard::test_op(2), PLACE, 0));
        assert_eq!(session.places().collect::<Vec<_>>(), [PLACE]);
        assert_eq!((t.holds_at(A, 2, PLACE), t.holds_at(A, 1, PLACE)), (Some(true), Some(false)));
        release(&mut t, A, 2);
        assert_eq!(t.held(), (2, 30), "the PG has it");
        release_at(&mut t, A, 2, Some(PLACE));
        assert_eq!(t.held(), (1, 10));
        assert_eq!(t.get_mut(A).unwrap().places().count(), 0);
    }

    #[test]
    fn a_closed_session_frees_what_it_held() {
        let mut t = sessions(2, 0);
        admit(&mut t, A, 1, 10);
        assert!(t.forward(A, 10));
        admit(&mut t, B, 7, 10);
        t.close(A);
        t.check().unwrap();
        assert_eq!(t.resumable(), [B]);
        assert_eq!(t.held(), (1, 10));
        assert!(t.handled(A, 10).is_empty(), "its messages at the control part come back later");
        assert_eq!(t.held(), (1, 10));
    }

    #[test]
    fn a_message_at_the_control_part_holds_budget_until_it_is_handled() {
        let mut t = sessions(1, 0);
        assert!(t.forward(A, 10));
        assert_eq!(t.handled(A, 10), [A]);
        assert_eq!(t.held(), (0, 0));
    }

    #[test]
    fn messages_of_osds_neither_count_nor_are_paused() {
        let mut t = sessions(1, 10);
        open_osd(&mut t, OSD);
        assert!(!t.forward(OSD, 10), "no client holds budget");
        assert_eq!(t.held(), (0, 0));
        assert!(admit(&mut t, A, 1, 10));
        assert!(!t.forward(OSD, 20), "the clients' budget is spent");
        t.check().unwrap();
        assert!(t.handled(OSD, 20).is_empty());
        t.forward(OSD, 30);
        t.close(OSD);
        t.check().unwrap();
        assert_eq!(t.held(), (1, 10), "what the client holds");
        assert_eq!(release(&mut t, A, 1), [A]);
    }

    #[test]
    fn requests_of_osds_have_a_budget_of_their_own() {
        let mut t = sessions(1, 0);
        open_osd(&mut t, OSD);
        assert!(admit(&mut t, A, 1, 10), "copies of clients may hold all of theirs");
        assert!(admit(&mut t, OSD, 2, 10));
        assert_eq!(release(&mut t, OSD, 2), [OSD], "the clients' is still spent");
        assert!(admit(&mut t, OSD, 2, 10));
        assert!(!t.forward(OSD, 30));
        assert_eq!(t.held(), (2, 20));
        t.give_up_newest(OSD);
        t.check().unwrap();
        assert_eq!(t.held(), (1, 10));
        admit(&mut t, OSD, 3, 10);
        t.close(OSD);
        t.check().unwrap();
        assert_eq!(t.held(), (1, 10));
    }

    #[test]
    fn higher_limits_let_paused_sessions_go_on() {
        let mut t = sessions(1, 0);
        assert!(admit(&mut t, A, 1, 10));
        assert_eq!(t.set_limits(ThrottleLimits { messages_max: 2, bytes_max: 0, reads_max: 0 }), [A]);
    }
}
