//! The messenger's state, and where events go.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use auth::{ServerNone, Service, SessionId};
use messages::{Message, OsdOp};
use monclient::Attempt;
use msgr::{Accept, Connection, Local, ReceiveBuffer};
use types::{EntityAddr, LogLevel, OsdId, SplitMix64, UTime, broken};

use crate::in_memory::Route;
use crate::peers::Peer;
use crate::slots::{Slots, is_peer};
use crate::socket::{OUT_BYTES_BEHIND, OUT_BYTES_MAX, Owner, Socket};
use crate::{
    Daemon, Effect, Endpoint, Event, Interest, MessengerConfig, OutQueue, SessionEvent, SocketEffect,
    SocketId,
};

/// The end of a session that is ordinary: its peer is done.
const PEER_CLOSED: &str = "the peer closed the connection";

/// What is due at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A socket is to be looked at.
    Socket(SocketId),
    /// The pause of a peer's session before its next dial is over.
    Redial(SessionId),
}

/// All connections of a core's daemons.
pub struct Messenger {
    pub(crate) config: MessengerConfig,
    pub(crate) endpoints: BTreeMap<Endpoint, Arc<Local>>,
    pub(crate) sockets: Slots<Socket>,
    pub(crate) receive: ReceiveBuffer,
    pub(crate) monitors: BTreeMap<(OsdId, Attempt), SocketId>,
    /// Sessions with peers, and their numbers by this side's endpoint and the peer's address.
    pub(crate) peers: BTreeMap<SessionId, Peer>,
    pub(crate) peer_ids: BTreeMap<(Endpoint, EntityAddr), SessionId>,
    pub(crate) peers_made: u64,
    /// Addresses of other cores' endpoints.
    pub(crate) elsewhere: BTreeMap<EntityAddr, Route>,
    pub(crate) cookies: SplitMix64,
    pub(crate) timers: BTreeSet<(UTime, Timer)>,
    /// The time of the last event.
    pub(crate) now: UTime,
    sockets_made: u64,
    /// Sockets with bytes that the host was not asked to write yet.
    to_flush: Vec<SocketId>,
    /// The highest global_seq used. Peers compare those of one address only, so that it needs nothing of the core's number.
    pub(crate) global_seq: u64,
    /// Clients' operations received.
    pub(crate) client_ops: u64,
    pub(crate) effects: VecDeque<Effect>,
}

impl Messenger {
    pub fn new(config: MessengerConfig) -> Self {
        Self {
            sockets: Slots::new(config.core),
            cookies: SplitMix64::new(config.cookie_seed),
            config,
            receive: ReceiveBuffer::default(),
            endpoints: BTreeMap::new(),
            monitors: BTreeMap::new(),
            peers: BTreeMap::new(),
            peer_ids: BTreeMap::new(),
            peers_made: 0,
            elsewhere: BTreeMap::new(),
            timers: BTreeSet::new(),
            now: UTime::default(),
            sockets_made: 0,
            to_flush: Vec::new(),
            global_seq: 0,
            client_ops: 0,
            effects: VecDeque::new(),
        }
    }

    /// Sets how an endpoint introduces itself on connections that begin from now on. An endpoint with lossless peers
    /// belongs to one core: only that core finds its sessions.
    pub fn set_endpoint(&mut self, endpoint: Endpoint, local: Local) {
        self.endpoints.insert(endpoint, Arc::new(local));
        self.announce(endpoint);
    }

    /// Ends all connections and sessions of an endpoint. The daemon learns of each session's end.
    pub fn end_sessions(&mut self, now: UTime, endpoint: Endpoint, reason: &str) {
        self.now = now;
        let of_it = self.peers.iter().filter(|(_, peer)| peer.endpoint == endpoint);
        let peers: Vec<SessionId> = of_it.map(|(session, _)| *session).collect();
        peers.into_iter().for_each(|session| self.forget_peer(session, reason));
        let of_it = self.sockets.iter().filter(|(_, socket)| socket.owner == Owner::Accepted(endpoint));
        let sockets: Vec<SocketId> = of_it.map(|(id, _)| id).collect();
        sockets.into_iter().for_each(|id| self.end(id, reason.into()));
    }

    /// Gives an endpoint another address. Its connections and sessions end, and the old address reaches it no more.
    pub fn rebind(&mut self, now: UTime, endpoint: Endpoint, addr: EntityAddr) {
        self.end_sessions(now, endpoint, "the daemon takes another address");
        match self.endpoints.get_mut(&endpoint) {
            Some(local) => {
                Arc::make_mut(local).addrs = addr.into();
                self.announce(endpoint);
            }
            None => {
                let broken = broken!("{} has no {:?} address to change", endpoint.daemon, endpoint.role);
                self.log(endpoint.daemon, LogLevel::Error, broken.to_string());
            }
        }
    }

    /// The address of an endpoint.
    pub fn address(&self, endpoint: Endpoint) -> Option<EntityAddr> {
        self.endpoints.get(&endpoint)?.addrs.v2().copied()
    }

    /// The next effect for the host, in order.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Clients' requests that OSDs are about to be given by [`Messenger::poll`].
    pub fn coming_ops(&self) -> impl Iterator<Item = (OsdId, &OsdOp)> {
        self.effects.iter().filter_map(|effect| match effect {
            Effect::Daemon(Daemon::Osd(osd), SessionEvent::Message { message: Message::OsdOp(op), .. }) => {
                Some((*osd, &**op))
            }
            _ => None,
        })
    }

    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// When [`Event::Tick`] is due next, if ever.
    pub fn deadline(&self) -> Option<UTime> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Clients' operations received so far.
    pub fn client_ops(&self) -> u64 {
        self.client_ops
    }

    /// Sockets that this core has.
    pub fn sockets(&self) -> usize {
        self.sockets.iter().count()
    }

    /// A listener of an endpoint accepted a socket. `None`: the host closes it at once.
    pub fn accept(&mut self, now: UTime, endpoint: Endpoint, peer: SocketAddr) -> Option<SocketId> {
        self.now = now;
        let Some(local) = self.endpoints.get(&endpoint).cloned() else {
            // It ended while the connection was on its way here.
            self.log(endpoint.daemon, LogLevel::Info, format!("{peer} refused: the daemon has ended"));
            return None;
        };
        if self.config.usage.connections() >= self.config.connections_max {
            let max = self.config.connections_max;
            self.log(
                endpoint.daemon,
                LogLevel::Warn,
                format!("{peer} refused: ms_connections_max ({max}) reached"),
            );
            return None;
        }
        let service = match endpoint.daemon {
            Daemon::Mon => Service::Monitor,
            Daemon::Mgr | Daemon::Osd(_) => Service::Daemon,
        };
        let accept = Accept {
            peer: EntityAddr::v2(peer, 0),
            method: Box::new(ServerNone::new(service)),
            global_seq: self.next_global_seq(),
        };
        let id = self.insert(Owner::Accepted(endpoint), peer, Connection::accept(local, accept))?;
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.connected = true;
        }
        self.run(id);
        Some(id)
    }

    /// Adds a socket to the table. `None`: the table is full, and the log has a line about it.
    pub(crate) fn insert(
        &mut self,
        owner: Owner,
        peer: SocketAddr,
        connection: Connection,
    ) -> Option<SocketId> {
        let ready_by = self.now.after(self.config.ready_timeout);
        self.sockets_made += 1;
        let inserted = self.sockets.insert(Socket {
            ordinal: self.sockets_made,
            session: SessionId(0),
            owner,
            peer,
            connection,
            out: OutQueue::default(),
            connected: false,
            ready_by: Some(ready_by),
            features: 0,
            is_client: false,
            paused: false,
            held: 0,
            waiting: false,
            wait_until: None,
            check_at: None,
            progress: self.now,
            is_behind: false,
            to_flush: false,
        });
        let Some(id) = inserted else {
            self.log(
                owner.daemon(),
                LogLevel::Warn,
                format!("{peer} refused: this core has too many connections"),
            );
            return None;
        };
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.session = SessionId(id.0);
        }
        self.config.usage.add_connection();
        self.timers.insert((ready_by, Timer::Socket(id)));
        Some(id)
    }

    /// Takes an event of a socket, or lets time pass.
    pub fn handle(&mut self, now: UTime, event: Event<'_>) {
        self.now = now;
        match event {
            Event::Connected(id) => self.on_connected(id),
            Event::Failed(id, reason) => self.end(id, reason),
            Event::Read(id, n) => self.on_bytes(id, |connection, from| connection.received(from, n)),
            Event::Bytes(id, bytes) => self.on_bytes(id, |connection, _| connection.feed(bytes)),
            Event::EndOfStream(id) => self.on_end_of_stream(id),
            Event::Tick => self.on_tick(),
        }
    }

    fn on_bytes(&mut self, id: SocketId, take: impl FnOnce(&mut Connection, &mut ReceiveBuffer)) {
        let Some(socket) = self.sockets.get_mut(id) else {
            // The messenger closed it while the host was reading.
            return;
        };
        socket.progress = self.now;
        take(&mut socket.connection, &mut self.receive);
        let before = std::mem::replace(&mut socket.held, socket.connection.held_bytes());
        let (usage, held) = (&self.config.usage, socket.held);
        match held.cmp(&before) {
            Ordering::Greater => usage.add_unfinished(held - before),
            Ordering::Less => usage.remove_unfinished(before - held),
            // The count is shared by all cores: most reads leave it alone.
            Ordering::Equal => {}
        }
        self.run(id);
        self.note_room(id);
    }

    fn on_end_of_stream(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.get(id) else {
            // The messenger closed it first.
            return;
        };
        let midway = (socket.connection.held_bytes(), socket.connection.announced_bytes()) != (0, 0);
        let reason =
            if midway { format!("{PEER_CLOSED} in the middle of a frame") } else { PEER_CLOSED.into() };
        self.end(id, reason);
    }

    /// What the host is to wait for at a socket; `None` once the messenger has closed it.
    pub fn interest(&self, id: SocketId) -> Option<Interest> {
        let socket = self.sockets.get(id)?;
        let waiting = socket.out.bytes();
        let read = !socket.paused && socket.wait_until.is_none() && waiting < OUT_BYTES_MAX;
        Some(Interest { read: socket.connected && read, write: socket.connected && waiting > 0 })
    }

    /// The bytes that wait to be written to a socket; the host takes off what it has written.
    pub fn out_queue(&mut self, id: SocketId) -> Option<&mut OutQueue> {
        self.sockets.get_mut(id).filter(|socket| socket.connected).map(|socket| &mut socket.out)
    }

    /// The host wrote what a socket took.
    pub fn wrote(&mut self, id: SocketId) {
        // The messenger closed it while the host was writing.
        let Some(socket) = self.sockets.get_mut(id) else { return };
        let is_behind = socket.out.bytes() >= OUT_BYTES_BEHIND;
        if is_behind == socket.is_behind || !socket.is_open() {
            return;
        }
        // A monitor's answers are short, and peers have windows.
        if let Owner::Accepted(Endpoint { daemon: daemon @ Daemon::Osd(_), .. }) = socket.owner {
            socket.is_behind = is_behind;
            let event = SessionEvent::Behind { session: socket.session, is_behind };
            self.effects.push_back(Effect::Daemon(daemon, event));
        }
    }

    /// Ends a burst of events: asks for one write of each socket that has got bytes to write.
    pub fn flush(&mut self) {
        for id in std::mem::take(&mut self.to_flush) {
            if let Some(socket) = self.sockets.get_mut(id) {
                socket.to_flush = false;
                if socket.connected {
                    self.effects.push_back(Effect::Socket(SocketEffect::Flush(id)));
                }
            }
        }
    }

    pub(crate) fn mark_to_flush(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            if !std::mem::replace(&mut socket.to_flush, true) {
                self.to_flush.push(id);
            }
        }
    }

    // What daemons ask for.

    /// Sends a message on a session.
    pub fn send(&mut self, now: UTime, session: SessionId, message: &Message) {
        self.now = now;
        if is_peer(session) {
            // The daemon does not know a lossy session before it is open, so that no message waits here.
            let _ = self.send_on_peer(session, message);
            return;
        }
        let id = SocketId(session.0);
        // The session has ended: the daemon ended it, or gets the event that says so.
        let Some(socket) = self.sockets.get_mut(id) else { return };
        if !socket.takes(message) {
            return self.not_sent(id, message);
        }
        let kind = socket.owner.daemon().kind();
        socket.connection.send(message.encode_from(kind, socket.features));
        self.run(id);
    }

    /// A message of Loligo's own goes to no peer that does not know such.
    pub(crate) fn not_sent(&mut self, id: SocketId, message: &Message) {
        // It was there a moment ago.
        let Some(socket) = self.sockets.get(id) else { return };
        let text = format!("{} does not take {}: it is not sent", socket.peer, message.name());
        self.log(socket.owner.daemon(), LogLevel::Debug, text);
    }

    /// Ends a session, if it has not ended.
    pub fn close(&mut self, session: SessionId, reason: impl Into<String>) {
        match is_peer(session) {
            true => self.forget_peer(session, &reason.into()),
            false => self.end(SocketId(session.0), reason.into()),
        }
    }

    /// Stops reading a session's socket, or reads it again.
    pub fn pause(&mut self, session: SessionId, paused: bool) {
        let id = if is_peer(session) { self.peer_socket(session) } else { Some(SocketId(session.0)) };
        if is_peer(session) {
            self.pause_peer(session, paused);
        }
        // A peer's session without a connection: `dial_peer` and `give_session` set `paused` on the next one.
        let Some(id) = id else { return };
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.paused = paused;
            self.effects.push_back(Effect::Socket(SocketEffect::Interest(id)));
        }
    }

    /// Answers [`SessionEvent::GlobalIdWanted`].
    pub fn global_id(&mut self, session: SessionId, global_id: u64) {
        let id = SocketId(session.0);
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.connection.global_id(global_id);
            self.run(id);
        }
    }

    /// Ends every connection, because the process stops.
    pub fn close_all(&mut self) {
        let peers: Vec<SessionId> = self.peers.keys().copied().collect();
        peers.into_iter().for_each(|session| self.forget_peer(session, "shutting down"));
        let all: Vec<SocketId> = self.sockets.iter().map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.end(id, "shutting down".into()));
    }

    /// Ends every connection of a daemon and forgets its endpoints: nothing is accepted for it until they are set again.
    pub fn remove_daemon(&mut self, daemon: Daemon, reason: &str) {
        let of_daemon =
            |(session, peer): (&SessionId, &Peer)| (peer.endpoint.daemon == daemon).then_some(*session);
        let peers: Vec<SessionId> = self.peers.iter().filter_map(of_daemon).collect();
        peers.into_iter().for_each(|session| self.forget_peer(session, reason));
        let sockets = self.sockets.iter().filter(|(_, socket)| socket.owner.daemon() == daemon);
        let sockets: Vec<SocketId> = sockets.map(|(id, _)| id).collect();
        sockets.into_iter().for_each(|id| self.end(id, reason.into()));
        let of_daemon = self.endpoints.keys().filter(|endpoint| endpoint.daemon == daemon);
        let endpoints: Vec<Endpoint> = of_daemon.copied().collect();
        for endpoint in endpoints {
            self.endpoints.remove(&endpoint);
            self.announce(endpoint);
        }
    }

    // The end of a socket.

    /// Ends a socket. Later events of it are ignored.
    pub(crate) fn end(&mut self, id: SocketId, reason: String) {
        self.end_as(id, reason, false);
    }

    /// Ends a socket. `lost_race`: both sides dialled, and the connection that the peer dials gets the session.
    pub(crate) fn end_as(&mut self, id: SocketId, reason: String, lost_race: bool) {
        let Some(mut socket) = self.sockets.remove(id) else {
            // It has ended before: the first reason counts.
            return;
        };
        self.config.usage.remove_connection();
        self.config.usage.remove_unfinished(socket.held);
        for at in [socket.ready_by, socket.wait_until, socket.check_at].into_iter().flatten() {
            self.timers.remove(&(at, Timer::Socket(id)));
        }
        self.log_end(&socket, &reason);
        let (is_open, owner, session) = (socket.is_open(), socket.owner, socket.session);
        self.effects.push_back(Effect::Socket(SocketEffect::Close(id, std::mem::take(&mut socket.out))));
        match owner {
            Owner::Monitor(osd, attempt) => {
                self.monitors.remove(&(osd, attempt));
                self.monitor_event(osd, monclient::MonClientEvent::Disconnected(attempt, reason));
            }
            Owner::Accepted(endpoint) if is_open => {
                self.effects.push_back(Effect::Daemon(endpoint.daemon, SessionEvent::Closed(session)));
            }
            // The daemon does not know a session that never opened.
            Owner::Accepted(_) => {}
            Owner::Peer { session, .. } => self.on_peer_end(session, id, socket, lost_race),
        }
    }

    /// A session's end is ordinary; a connection that never became one, or broke the protocol, is worth a line.
    fn log_end(&mut self, socket: &Socket, reason: &str) {
        let level = match socket.is_open() && reason == PEER_CLOSED {
            true => LogLevel::Debug,
            false => LogLevel::Info,
        };
        let peer = match socket.owner {
            Owner::Accepted(_) => socket.peer.to_string(),
            Owner::Monitor(..) => format!("the monitor at {}", socket.peer),
            Owner::Peer { .. } => format!("the peer at {}", socket.peer),
        };
        self.log(socket.owner.daemon(), level, format!("{peer}: connection ended: {reason}"));
    }

    pub(crate) fn log(&mut self, daemon: Daemon, level: LogLevel, text: String) {
        self.effects.push_back(Effect::Log(daemon, level, text));
    }

    pub(crate) fn next_global_seq(&mut self) -> u64 {
        self.global_seq += 1;
        self.global_seq
    }
}
