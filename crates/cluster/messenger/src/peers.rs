//! Sessions with other OSDs: lossless ones at cluster addresses, which outlive their connections, and lossy ones at
//! heartbeat addresses.
//!
//! A session is found by this side's endpoint and the peer's address. At most one socket has it, dialled or accepted. When
//! that socket ends, a lossless session with messages that the peer has not acknowledged is dialled again, at once or
//! after a pause that doubles (ms_initial_backoff to ms_max_backoff); one without waits for the next message or for the
//! peer (Ceph calls that standby). [`msgr::Session::judge`] decides what becomes of a peer that dials.

use core::time::Duration;
use std::collections::VecDeque;

use auth::{ClientNone, Service, SessionId};
use messages::{Message, kind};
use msgr::{AcceptDecision, Connect, Connection, Control, PeerInfo, Session, SessionRequest};
use types::{EntityAddr, EntityAddrVec, EntityId, EntityType, LogLevel, UTime, broken};

use crate::in_memory::{MemoryWindow, Route};
use crate::messenger::Timer;
use crate::slots::peer_session;
use crate::socket::{Owner, Socket};
use crate::{Effect, Endpoint, Messenger, SessionEvent, SocketEffect, SocketId};

/// How often an open lossless session is checked for a silent peer.
const CHECK: Duration = Duration::from_secs(10);

/// How long a peer that owes an acknowledgement may be silent before its connection is ended.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Messages that may wait for a lossy session to open.
const WAITING_MAX: usize = 1000;

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// The session has it, or is gone.
    Taken,
    /// The session is lossy and not open yet.
    Waits,
}

/// A session with a peer.
pub(crate) struct Peer {
    pub(crate) endpoint: Endpoint,
    pub(crate) addr: EntityAddr,
    /// The lossless session, while no socket has it.
    session: Option<Session>,
    /// Messages of a lossy session that is not open yet.
    waiting: Vec<Message>,
    /// The socket that has the session.
    socket: Option<SocketId>,
    /// When this side dials again.
    redial_at: Option<UTime>,
    /// The last pause before a dial; zero after a connection that held.
    backoff: Duration,
    /// When its connection opened last.
    opened_at: UTime,
    /// Whether the daemon knows the session.
    pub(crate) announced: bool,
    /// Whether the daemon asked not to read.
    pub(crate) paused: bool,
    /// Messages in memory that came while it was paused.
    pub(crate) held: VecDeque<(Message, usize)>,
    /// Whether the daemon has sent messages to the peer.
    has_messages: bool,
    /// Whether a message was refused for lack of room.
    is_full: bool,
    is_lossless: bool,
    /// The other side, where that is in this process.
    pub(crate) route: Option<Route>,
    /// What is under way in memory.
    pub(crate) window: MemoryWindow,
}

/// The peer owes the acknowledgement of as many bytes as it may: the message was not sent. [`SessionEvent::PeerRoom`]
/// follows. Answers on a session ([`Messenger::send`]) are never refused: the peer's own window bounds them.
#[derive(Debug)]
pub struct PeerFull(pub Box<Message>);

impl Messenger {
    // What daemons ask for.

    /// Sends a message to the OSD at this address, which is of the endpoint's role; opens a session if there is none. A
    /// lossless session delivers once and in order, however often its connection breaks, until one side forgets it; a
    /// lossy one drops what its connection loses. An OSD of this process is reached in memory.
    ///
    /// # Errors
    /// Where the peer owes the acknowledgement of too much: the message comes back.
    pub fn send_peer(
        &mut self,
        now: UTime,
        from: Endpoint,
        to: &EntityAddrVec,
        message: Message,
    ) -> Result<(), PeerFull> {
        self.now = now;
        let Some(addr) = to.v2().copied() else {
            let text = format!("{to} has no messenger 2 address to send to");
            self.log(from.daemon, LogLevel::Error, text);
            return Ok(());
        };
        let session = match self.peer_ids.get(&(from, addr)) {
            Some(session) => *session,
            None => {
                let is_lossless = !from.role.lossless_peers().is_empty();
                self.add_peer(from, addr, is_lossless, self.route(addr))
            }
        };
        if self.unacked_bytes(session) >= self.config.peer_bytes_max {
            if let Some(peer) = self.peers.get_mut(&session) {
                peer.is_full = true;
            }
            return Err(PeerFull(Box::new(message)));
        }
        if let Some(peer) = self.peers.get_mut(&session) {
            peer.has_messages = true;
        }
        if self.peers.get(&session).is_some_and(|peer| peer.route.is_some()) {
            self.open_in_memory(session);
            self.send_in_memory(session, message);
            return Ok(());
        }
        if self.send_on_peer(session, &message) == Sent::Waits {
            self.wait_for_open(session, message);
        }
        Ok(())
    }

    /// Keeps a message of a lossy session until that is open.
    fn wait_for_open(&mut self, session: SessionId, message: Message) {
        let Some(peer) = self.peers.get_mut(&session) else {
            debug_assert!(false, "{session} is not open and does not exist");
            return;
        };
        if peer.waiting.len() >= WAITING_MAX {
            return self.forget_peer(session, "too many messages wait for a lossy session to open");
        }
        peer.waiting.push(message);
        self.dial_peer_if_idle(session);
    }

    /// Forgets the session with the OSD at this address, with its undelivered messages.
    pub fn close_peer(&mut self, now: UTime, from: Endpoint, to: &EntityAddrVec, reason: &str) {
        self.now = now;
        let session = to.v2().and_then(|addr| self.peer_ids.get(&(from, *addr)).copied());
        if let Some(session) = session {
            self.forget_peer(session, reason);
        }
    }

    /// Sends on a peer's session.
    pub(crate) fn send_on_peer(&mut self, session: SessionId, message: &Message) -> Sent {
        // The session was forgotten: its daemon asked for that, or gets the event that says so.
        let Some(peer) = self.peers.get(&session) else { return Sent::Taken };
        if peer.route.is_some() {
            self.send_in_memory(session, message.clone());
            return Sent::Taken;
        }
        let socket = peer.socket.and_then(|id| Some((id, self.sockets.get(id)?)));
        let (is_lossless, is_open) = (peer.is_lossless, socket.is_some_and(|(_, socket)| socket.is_open()));
        match socket {
            // Of a session that is not open it is not known what its peer takes.
            Some((id, socket)) if (is_lossless || is_open) && !socket.takes(message) => {
                self.not_sent(id, message);
            }
            Some((id, socket)) if is_lossless || is_open => {
                let features = if is_open { socket.features } else { self.features_towards(session) };
                let raw = message.encode_from(EntityType::Osd, features);
                if let Some(socket) = self.sockets.get_mut(id) {
                    socket.connection.send(raw);
                    self.run(id);
                }
            }
            None if is_lossless && kind::is_ours(message.kind()) => {
                debug_assert!(false, "{} waits for a session of a peer that may not take it", message.name());
            }
            None if is_lossless => {
                self.queue(session, message);
                self.dial_peer_if_idle(session);
            }
            Some(_) | None => return Sent::Waits,
        }
        Sent::Taken
    }

    /// Features to encode by when the peer's are not known: those of the endpoint, which every OSD of the cluster has.
    pub(crate) fn features_towards(&self, session: SessionId) -> u64 {
        let endpoint = self.peers.get(&session).map(|peer| peer.endpoint);
        endpoint.and_then(|e| self.endpoints.get(&e)).map_or(0, |local| local.features_supported)
    }

    fn queue(&mut self, session: SessionId, message: &Message) {
        let raw = message.encode_from(EntityType::Osd, self.features_towards(session));
        let Some(peer) = self.peers.get_mut(&session) else {
            debug_assert!(false, "a message is queued for {session}, which does not exist");
            return;
        };
        let Some(waiting) = &mut peer.session else {
            let (daemon, broken) =
                (peer.endpoint.daemon, broken!("{session} has no socket, and its state is lost"));
            return self.log(daemon, LogLevel::Error, broken.to_string());
        };
        if let Err(error) = waiting.send(raw) {
            self.forget_peer(session, &format!("can't send: {error}"));
        }
    }

    fn dial_peer_if_idle(&mut self, session: SessionId) {
        let idle = |peer: &&Peer| peer.socket.is_none() && peer.redial_at.is_none();
        if self.peers.get(&session).filter(idle).is_some() {
            self.dial_peer(session);
        }
    }

    // The table of sessions.

    pub(crate) fn add_peer(
        &mut self,
        endpoint: Endpoint,
        addr: EntityAddr,
        is_lossless: bool,
        route: Option<Route>,
    ) -> SessionId {
        self.peers_made += 1;
        let id = peer_session(self.config.core, self.peers_made);
        let peer = Peer {
            endpoint,
            addr,
            session: is_lossless.then(Session::lossless),
            waiting: Vec::new(),
            socket: None,
            redial_at: None,
            backoff: Duration::ZERO,
            opened_at: self.now,
            announced: false,
            paused: false,
            held: VecDeque::new(),
            has_messages: false,
            is_full: false,
            is_lossless,
            route,
            window: MemoryWindow::default(),
        };
        self.peers.insert(id, peer);
        self.peer_ids.insert((endpoint, addr), id);
        id
    }

    /// Drops a session with its undelivered messages, and ends its socket.
    pub(crate) fn forget_peer(&mut self, session: SessionId, reason: &str) {
        let Some(peer) = self.peers.remove(&session) else {
            // Forgotten before.
            return;
        };
        self.peer_ids.remove(&(peer.endpoint, peer.addr));
        if let Some(at) = peer.redial_at {
            self.timers.remove(&(at, Timer::Redial(session)));
        }
        if let Some(socket) = peer.socket {
            self.end(socket, reason.into());
        }
        if let Some(route) = peer.route {
            self.post_closed(peer.endpoint, route, peer.addr);
        }
        if peer.is_full {
            let room = SessionEvent::PeerRoom(peer.addr);
            self.effects.push_back(Effect::Daemon(peer.endpoint.daemon, room));
        }
        let end = match (peer.announced, peer.has_messages) {
            (true, _) => SessionEvent::Closed(session),
            (false, true) => SessionEvent::PeerLost(peer.addr),
            // The peer dialled, and the daemon never knew of it.
            (false, false) => return,
        };
        self.effects.push_back(Effect::Daemon(peer.endpoint.daemon, end));
    }

    pub(crate) fn peer_socket(&self, session: SessionId) -> Option<SocketId> {
        self.peers.get(&session)?.socket
    }

    pub(crate) fn pause_peer(&mut self, session: SessionId, paused: bool) {
        if let Some(peer) = self.peers.get_mut(&session) {
            peer.paused = paused;
        }
        if !paused {
            self.deliver_held(session);
        }
    }

    /// Reports [`SessionEvent::PeerRoom`] once the peer has acknowledged half of its window, if a message was refused.
    pub(crate) fn note_room(&mut self, id: SocketId) {
        if let Some(Owner::Peer { session, .. }) = self.sockets.get(id).map(|socket| socket.owner) {
            self.note_room_of(session);
        }
    }

    pub(crate) fn note_room_of(&mut self, session: SessionId) {
        if self.peers.get(&session).is_none_or(|peer| !peer.is_full)
            || self.unacked_bytes(session) > self.config.peer_bytes_max / 2
        {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&session) {
            peer.is_full = false;
            let room = SessionEvent::PeerRoom(peer.addr);
            self.effects.push_back(Effect::Daemon(peer.endpoint.daemon, room));
        }
    }

    fn next_cookie(&mut self) -> u64 {
        self.cookies.next_u64().max(1)
    }

    // The side that dials.

    fn dial_peer(&mut self, session: SessionId) {
        let Some(peer) = self.peers.get_mut(&session) else {
            debug_assert!(false, "{session} is dialled and does not exist");
            return;
        };
        if let Some(at) = peer.redial_at.take() {
            self.timers.remove(&(at, Timer::Redial(session)));
        }
        let (endpoint, target, paused) = (peer.endpoint, peer.addr, peer.paused);
        let state = peer.session.take();
        if peer.is_lossless && state.is_none() {
            return self
                .forget_peer(session, &broken!("{session} is dialled, and its state is lost").to_string());
        }
        let (Some(to), Some(local)) = (target.socket, self.endpoints.get(&endpoint).cloned()) else {
            return self.forget_peer(session, "no address to connect to, or from");
        };
        let entity = EntityId { kind: EntityType::Osd, id: local.num.to_string() };
        let connect = Connect {
            target,
            peer_kind: EntityType::Osd,
            method: Box::new(ClientNone::new(Service::Daemon, entity, 0)),
            global_seq: self.next_global_seq(),
            session: state.map(|state| (state, self.next_cookie())),
        };
        let owner = Owner::Peer { endpoint, session };
        let Some(id) = self.insert(owner, to, Connection::connect(local, connect)) else {
            return self.forget_peer(session, "too many connections");
        };
        if let (Some(peer), Some(socket)) = (self.peers.get_mut(&session), self.sockets.get_mut(id)) {
            peer.socket = Some(id);
            socket.session = session;
            socket.paused = paused;
        }
        self.effects.push_back(Effect::Socket(SocketEffect::Dial(id, to)));
    }

    /// A session's pause before its next dial is over.
    pub(crate) fn on_redial(&mut self, session: SessionId) {
        if let Some(peer) = self.peers.get_mut(&session) {
            peer.redial_at = None;
            self.dial_peer(session);
        }
    }

    // The side that is dialled.

    /// A peer that dialled wants a lossless session: the existing one, or a new one.
    pub(crate) fn on_session_wanted(&mut self, id: SocketId, request: &SessionRequest) {
        let Some(Owner::Accepted(endpoint)) = self.sockets.get(id).map(|socket| socket.owner) else {
            return self.end(id, broken!("a lossless session is asked of {id}, which has one").to_string());
        };
        let (Some(local), Some(addr)) = (self.endpoints.get(&endpoint), request.addrs().v2().copied()) else {
            return self.end(id, "the peer has no messenger 2 address, or the daemon has ended".into());
        };
        let known = self.peer_ids.get(&(endpoint, addr)).copied();
        let existing = known.and_then(|session| self.session_state(session));
        let decision = Session::judge(existing, request, &local.addrs);
        match decision {
            AcceptDecision::Fresh if self.peers.len() >= self.config.connections_max => {
                self.end(id, "refused: too many sessions with peers".into());
            }
            AcceptDecision::Fresh => {
                if let Some(lossy) = known {
                    self.forget_peer(lossy, "the peer wants a lossless session");
                }
                let session = self.add_peer(endpoint, addr, true, None);
                self.give_session(id, session);
            }
            AcceptDecision::TakeOver => {
                let Some(session) = known else {
                    let broken = broken!("{id} takes over a session that does not exist");
                    return self.end(id, broken.to_string());
                };
                self.take_from_socket(session);
                self.give_session(id, session);
            }
            AcceptDecision::Reply(answer) => {
                if let Some(socket) = self.sockets.get_mut(id) {
                    socket.connection.refuse_session(&answer);
                }
                if let (Control::Wait, Some(session)) = (&answer, known) {
                    // The peer waits for the connection that this side dials.
                    if self.peers.get(&session).is_some_and(|peer| peer.redial_at.is_some()) {
                        self.dial_peer(session);
                    }
                }
            }
            AcceptDecision::Close(reason) => {
                if let Some(socket) = self.sockets.get_mut(id) {
                    socket.connection.close(reason);
                }
            }
        }
    }

    /// The state of a lossless session: its socket's connection has it, or, between connections, the session itself.
    fn session_state(&self, session: SessionId) -> Option<&Session> {
        let peer = self.peers.get(&session)?;
        match peer.socket {
            Some(id) => Some(self.sockets.get(id)?.connection.session()).filter(|state| state.is_lossless()),
            None => peer.session.as_ref(),
        }
    }

    /// Ends the socket that has a session, for another that takes the session over.
    fn take_from_socket(&mut self, session: SessionId) {
        let Some(peer) = self.peers.get_mut(&session) else {
            debug_assert!(false, "{session} is taken over and does not exist");
            return;
        };
        if let Some(at) = peer.redial_at.take() {
            self.timers.remove(&(at, Timer::Redial(session)));
        }
        // Between two connections: the session's state is in `peer`.
        let Some(id) = peer.socket.take() else { return };
        if let Some(socket) = self.sockets.get_mut(id) {
            peer.session = socket.connection.take_session();
            self.global_seq = self.global_seq.max(socket.connection.global_seq());
        }
        self.end(id, "a newer connection of the peer takes the session over".into());
    }

    /// Gives a session to a socket that a peer dialled.
    fn give_session(&mut self, id: SocketId, session: SessionId) {
        let (cookie, global_seq) = (self.next_cookie(), self.next_global_seq());
        let Some(peer) = self.peers.get_mut(&session) else {
            return self.end(id, broken!("{id} gets {session}, which does not exist").to_string());
        };
        let Some(state) = peer.session.take() else {
            return self.end(id, broken!("{session} has no socket, and its state is lost").to_string());
        };
        peer.socket = Some(id);
        let (endpoint, paused) = (peer.endpoint, peer.paused);
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.owner = Owner::Peer { endpoint, session };
            socket.session = session;
            socket.paused = paused;
            socket.connection.open_session(state, cookie, global_seq);
        }
    }

    // What becomes of its connection.

    /// A session's connection is open. Answers whether the daemon does not know the session yet.
    pub(crate) fn on_peer_open(&mut self, session: SessionId, info: &PeerInfo) -> bool {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&session) else {
            debug_assert!(false, "the connection of {session} is open, and the session does not exist");
            return false;
        };
        peer.opened_at = now;
        if peer.is_lossless && info.lossy {
            // The server keeps no state of a session that it calls lossy, so that this side needs none either.
            peer.is_lossless = false;
        }
        if let (true, Some(id)) = (peer.is_lossless, peer.socket) {
            self.check_later(id);
        }
        self.peers.get_mut(&session).is_some_and(|peer| !std::mem::replace(&mut peer.announced, true))
    }

    /// The messages that waited for a lossy session to open.
    pub(crate) fn take_waiting(&mut self, session: SessionId) -> Vec<Message> {
        self.peers.get_mut(&session).map(|peer| std::mem::take(&mut peer.waiting)).unwrap_or_default()
    }

    /// A socket that had a session has ended.
    pub(crate) fn on_peer_end(
        &mut self,
        session: SessionId,
        id: SocketId,
        mut socket: Socket,
        lost_race: bool,
    ) {
        let Some(peer) = self.peers.get_mut(&session).filter(|peer| peer.socket == Some(id)) else {
            // The session was forgotten, or another socket has it.
            return;
        };
        peer.socket = None;
        self.global_seq = self.global_seq.max(socket.connection.global_seq());
        let Some(mut state) = socket.connection.take_session() else {
            return self.forget_peer(session, "the connection of a lossy session has ended");
        };
        if state.is_drained() && !lost_race {
            peer.session = Some(state);
            return;
        }
        let held = socket.is_open() && peer.opened_at.after(self.config.initial_backoff) <= self.now;
        peer.backoff = match (lost_race, held) {
            (true, _) => self.config.max_backoff,
            (_, true) => Duration::ZERO,
            _ if peer.backoff.is_zero() => self.config.initial_backoff,
            _ => (peer.backoff * 2).min(self.config.max_backoff),
        };
        // If the peer dials meanwhile, `Session::judge` finds a session that this side is about to dial.
        state.await_dial();
        peer.session = Some(state);
        let at = self.now.after(peer.backoff);
        peer.redial_at = Some(at);
        self.timers.insert((at, Timer::Redial(session)));
    }

    /// The peer has forgotten a session: what it had not acknowledged is lost.
    pub(crate) fn on_session_reset(&mut self, session: SessionId) {
        let Some(peer) = self.peers.get(&session) else {
            debug_assert!(false, "{session} is reset and does not exist");
            return;
        };
        let (daemon, addr, announced) = (peer.endpoint.daemon, peer.addr, peer.announced);
        self.log(
            daemon,
            LogLevel::Warn,
            format!("{addr} has forgotten its session: what was under way is lost"),
        );
        if announced {
            self.effects.push_back(Effect::Daemon(daemon, SessionEvent::Reset(session)));
        }
    }

    /// Sends a keepalive to a peer that owes an acknowledgement, and ends the connection of one that does not answer.
    pub(crate) fn check_peer_socket(&mut self, id: SocketId) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(id) else {
            debug_assert!(false, "{id} is checked and has ended");
            return;
        };
        if !socket.connection.session().is_drained() {
            if socket.progress.after(SILENCE_MAX) <= now {
                return self.end(id, format!("no answer for {} s", SILENCE_MAX.as_secs()));
            }
            if socket.progress.after(CHECK) <= now {
                socket.connection.keepalive(now);
                self.run(id);
            }
        }
        self.check_later(id);
    }

    fn check_later(&mut self, id: SocketId) {
        let at = self.now.after(CHECK);
        if let Some(socket) = self.sockets.get_mut(id) {
            if let Some(before) = socket.check_at.replace(at) {
                self.timers.remove(&(before, Timer::Socket(id)));
            }
            self.timers.insert((at, Timer::Socket(id)));
        }
    }

    /// Bytes that the peer of a session has not acknowledged, or its daemon has not taken where it is of this process.
    pub fn unacked_bytes(&self, session: SessionId) -> usize {
        let in_memory = self.peers.get(&session).map_or(0, |peer| peer.window.owed);
        in_memory + self.session_state(session).map_or(0, Session::unacked_bytes)
    }

    /// Sessions with peers that this core knows.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }
}
