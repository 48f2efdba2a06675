//! The client: what happens goes to the objecter, and what it wants done is done.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use auth::{AuthError, CephxLogin, ClientMethod, ClientNone, Login, METHOD_CEPHX, Service, Tickets};
use buffer::Rope;
use messages::{Message, MonCommandAck, PoolOpReply};
use monclient::{Attempt, MonClientEvent, MonClientIo};
use msgr::{CloseReason, Connect, Connection, Effect, Local, PeerInfo, ReceiveBuffer};
use objecter::{
    Busy, CommandId, MapWaitId, NotifyId, NotifyOutcome, Objecter, ObjecterEffect, ObjecterEvent, OsdSession,
    Outcome, Request, RequestId, WatchEvent, WatchId,
};
use runtime::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};
use types::{EntityAddr, EntityAddrVec, EntityType, Name, UTime};

use crate::link::{Link, Read};
use crate::{ClientConfig, ClientError, Credentials};

/// Reads of one socket before the others have their turn.
const READS_MAX: usize = 16;

/// The part of the tickets' time after which they are renewed (Ceph's clients: three quarters).
const RENEW_AFTER: f64 = 0.75;

fn random() -> Result<u64, ClientError> {
    let mut bytes = [0_u8; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|error| ClientError::Random(error.into()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// What the user of a client learns.
#[derive(Debug)]
pub enum ClientEvent {
    /// A request has ended, each exactly once. `at` is when its answer was read: others may have been read after it in
    /// the same turn.
    Done {
        id: RequestId,
        outcome: Outcome,
        at: UTime,
    },
    Watch(WatchId, WatchEvent),
    NotifyDone(NotifyId, NotifyOutcome),
    /// A command was answered, or given up: then the result is ETIMEDOUT.
    CommandDone(CommandId, MonCommandAck),
    /// A pool operation was answered, or given up: then the reply code is that of ETIMEDOUT.
    PoolOpDone(CommandId, PoolOpReply),
    /// See [`Objecter::wait_for_latest_map`].
    MapReached(MapWaitId),
    /// A monitor refuses this client, which goes on asking: its key is not accepted, or it has none and needs one.
    Denied(String),
    /// Something that an operator should know: a connection was lost, a map could not be read.
    Warning(String),
}

/// A connection's other end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Peer {
    Monitor(Attempt),
    Osd(OsdSession),
}

/// See the crate's documentation.
pub struct Client {
    config: ClientConfig,
    clock: Clock,
    objecter: Objecter,
    links: BTreeMap<Peer, Link>,
    receive: ReceiveBuffer,
    effects: Vec<ObjecterEffect>,
    /// Requests that have ended, for the next turn's events.
    done: Vec<ClientEvent>,
    /// Links with bytes to write.
    to_flush: Vec<Peer>,
    /// Tells this client from others at its address.
    nonce: u32,
    /// The cluster's number for this client, from the monitor; 0 before there is one.
    global_id: u64,
    /// Of the latest monitor session with cephx, and when they are to be renewed.
    tickets: Option<(Tickets, UTime)>,
    global_seq: u64,
    /// Of the latest call of [`Client::wait`].
    ready: Vec<(Peer, PollFlags)>,
}

impl Client {
    /// Begins to seek a monitor; [`Client::turn`] goes on with it.
    ///
    /// # Errors
    /// The system gives no random number.
    pub fn start(config: ClientConfig, clock: Clock) -> Result<Self, ClientError> {
        let nonce = random()? as u32;
        let mut client = Self {
            objecter: Objecter::new(config.objecter.clone()),
            config,
            clock,
            links: BTreeMap::new(),
            receive: ReceiveBuffer::default(),
            effects: Vec::new(),
            done: Vec::new(),
            to_flush: Vec::new(),
            nonce: nonce.max(1),
            global_id: 0,
            tickets: None,
            global_seq: 0,
            ready: Vec::new(),
        };
        client.objecter.start(client.now(), &mut client.effects);
        Ok(client)
    }

    pub fn now(&self) -> UTime {
        self.clock.now()
    }

    /// The map, the requests under way.
    pub fn objecter(&self) -> &Objecter {
        &self.objecter
    }

    /// Begins a request; [`Client::turn`] sends it.
    ///
    /// # Errors
    /// [`Busy`], with the request.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Busy> {
        self.objecter.submit(self.clock.now(), request, &mut self.effects)
    }

    /// Begins a command to the monitor (JSON, `{"prefix": "status"}`).
    pub fn command(&mut self, command: impl Into<Name>, data: Rope) -> CommandId {
        self.objecter.command(self.clock.now(), command, data, &mut self.effects)
    }

    /// See [`Objecter::wait_for_latest_map`].
    pub fn wait_for_latest_map(&mut self) -> MapWaitId {
        self.objecter.wait_for_latest_map(&mut self.effects)
    }

    /// Sends what was submitted, waits until something happens or `until`, and appends what has happened. Does not wait
    /// where something has happened already; may return with nothing before `until`.
    ///
    /// # Errors
    /// The system refuses to wait for sockets.
    pub fn turn(&mut self, until: Option<UTime>, events: &mut Vec<ClientEvent>) -> Result<(), ClientError> {
        self.settle(events);
        self.flush(events);
        let until = if events.is_empty() { until } else { Some(UTime::default()) };
        self.wait(until)?;
        for (peer, flags) in std::mem::take(&mut self.ready) {
            self.serve(peer, flags);
        }
        self.pass_time();
        self.settle(events);
        Ok(())
    }

    /// Waits for the sockets.
    fn wait(&mut self, until: Option<UTime>) -> Result<(), ClientError> {
        let ready_by = self.links.values().filter_map(|link| link.ready_by).min();
        let renew_at = self.tickets.as_ref().map(|(_, renew_at)| *renew_at).filter(|at| *at > self.now());
        let until = [until, self.objecter.deadline(), ready_by, renew_at].into_iter().flatten().min();
        let left = until.map(|at| at.as_nanos().saturating_sub(self.now().as_nanos()));
        let timeout = left.map(|nanos| Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        });
        let mut fds: Vec<PollFd<'_>> =
            self.links.values().map(|link| PollFd::from_borrowed_fd(link.fd(), link.interest())).collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            // A signal: its receiver looks for itself.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(ClientError::Wait(error.into())),
        }
        let found = self.links.keys().zip(&fds).map(|(peer, fd)| (*peer, fd.revents()));
        self.ready.extend(found.filter(|(_, flags)| !flags.is_empty()));
        Ok(())
    }

    /// Lets time pass for connections and the objecter.
    fn pass_time(&mut self) {
        let now = self.now();
        let is_late = |link: &Link| link.ready_by.is_some_and(|at| at <= now);
        let late: Vec<Peer> =
            self.links.iter().filter(|(_, link)| is_late(link)).map(|(peer, _)| *peer).collect();
        for peer in late {
            self.fail(peer, format!("no session within {} s", self.config.ready_timeout.as_secs_f64()));
        }
        self.renew_tickets(now);
        if self.objecter.deadline().is_some_and(|at| at <= now) {
            self.objecter.handle(now, ObjecterEvent::Tick, &mut self.effects);
        }
    }

    /// Ends a monitor session whose tickets are about to end: the next one brings new ones. Sessions with OSDs go on.
    fn renew_tickets(&mut self, now: UTime) {
        let is_due = self.tickets.as_ref().is_some_and(|(_, renew_at)| *renew_at <= now);
        let is_open = |link: &Link| link.ready_by.is_none();
        let monitor =
            self.links.iter().find(|(peer, link)| matches!(peer, Peer::Monitor(_)) && is_open(link));
        if let (true, Some((peer, _))) = (is_due, monitor) {
            self.fail(*peer, "this client's tickets are to be renewed".into());
        }
    }

    // --- what the objecter wants ---

    /// Performs effects until there are none.
    fn settle(&mut self, events: &mut Vec<ClientEvent>) {
        events.append(&mut self.done);
        while !self.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.effects);
            effects.drain(..).for_each(|effect| self.perform(effect, events));
            // Given back with its capacity, unless more came.
            if self.effects.is_empty() {
                self.effects = effects;
            }
            events.append(&mut self.done);
        }
    }

    fn perform(&mut self, effect: ObjecterEffect, events: &mut Vec<ClientEvent>) {
        match effect {
            ObjecterEffect::Mon(MonClientIo::Connect(attempt, addrs)) => {
                self.dial(Peer::Monitor(attempt), &addrs);
            }
            ObjecterEffect::Mon(MonClientIo::Disconnect(attempt)) => {
                self.links.remove(&Peer::Monitor(attempt));
            }
            ObjecterEffect::Mon(MonClientIo::Send(attempt, message)) => {
                self.send(Peer::Monitor(attempt), &message);
            }
            ObjecterEffect::Mon(MonClientIo::Keepalive(attempt)) => self.keepalive(Peer::Monitor(attempt)),
            ObjecterEffect::Connect(session, _, addrs) => self.dial(Peer::Osd(session), &addrs),
            ObjecterEffect::Send(session, message) => self.send(Peer::Osd(session), &message),
            ObjecterEffect::Disconnect(session) => {
                self.links.remove(&Peer::Osd(session));
            }
            ObjecterEffect::Done(id, outcome) => {
                events.push(ClientEvent::Done { id, outcome, at: self.clock.now() });
            }
            ObjecterEffect::Watch(id, event) => events.push(ClientEvent::Watch(id, event)),
            ObjecterEffect::NotifyDone(id, outcome) => events.push(ClientEvent::NotifyDone(id, outcome)),
            ObjecterEffect::CommandDone(id, ack) => events.push(ClientEvent::CommandDone(id, ack)),
            ObjecterEffect::PoolOpDone(id, reply) => events.push(ClientEvent::PoolOpDone(id, reply)),
            ObjecterEffect::MapReached(id) => events.push(ClientEvent::MapReached(id)),
            ObjecterEffect::Warning(text) => events.push(ClientEvent::Warning(text)),
        }
    }

    fn dial(&mut self, peer: Peer, addrs: &EntityAddrVec) {
        let target = addrs.v2().copied();
        let Some((target, socket)) = target.and_then(|target| Some((target, target.socket?))) else {
            return self.fail(peer, format!("{addrs} has no messenger 2 address"));
        };
        match Link::dial(target, socket, self.now().after(self.config.ready_timeout)) {
            Ok(link) => drop(self.links.insert(peer, link)),
            Err(error) => self.fail(peer, format!("connecting to {socket}: {error}")),
        }
    }

    /// Sends a message on a session. One that has ended drops it: the objecter gets the event that says so.
    fn send(&mut self, peer: Peer, message: &Message) {
        let Some(link) = self.links.get_mut(&peer) else { return };
        let raw = message.encode_from(EntityType::Client, link.features);
        if let Some(connection) = &mut link.connection {
            connection.send(raw);
        }
        self.run(peer);
    }

    fn keepalive(&mut self, peer: Peer) {
        let now = self.now();
        if let Some(connection) = self.links.get_mut(&peer).and_then(|link| link.connection.as_mut()) {
            connection.keepalive(now);
            self.run(peer);
        }
    }

    // --- what happens at a socket ---

    fn serve(&mut self, peer: Peer, flags: PollFlags) {
        let Some(link) = self.links.get_mut(&peer) else {
            // What came from another socket ended it.
            return;
        };
        if link.connection.is_none() {
            return match link.connected() {
                Ok(Some(own)) => self.begin(peer, own),
                Ok(None) => {}
                Err(error) => self.fail(peer, format!("connecting: {error}")),
            };
        }
        if flags.contains(PollFlags::OUT) {
            if let Err(error) = link.flush() {
                return self.fail(peer, format!("write: {error}"));
            }
        }
        if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.read(peer);
        }
    }

    fn read(&mut self, peer: Peer) {
        for _ in 0..READS_MAX {
            let Some(link) = self.links.get_mut(&peer) else {
                // What it sent has ended it.
                return;
            };
            match link.read(&mut self.receive) {
                Ok(Read::Full) => self.run(peer),
                Ok(Read::Short) => return self.run(peer),
                Ok(Read::Nothing) => return,
                Ok(Read::End) => return self.fail(peer, "the peer closed the connection".into()),
                Err(error) => return self.fail(peer, format!("read: {error}")),
            }
        }
    }

    /// The socket is connected: the handshake begins.
    fn begin(&mut self, peer: Peer, own: SocketAddr) {
        let (peer_kind, num) = match peer {
            Peer::Monitor(_) => (EntityType::Mon, -1),
            Peer::Osd(_) => (EntityType::Osd, self.global_id as i64),
        };
        let method = match self.method(peer) {
            Ok(method) => method,
            Err(error) => return self.fail(peer, error.to_string()),
        };
        let Some(link) = self.links.get_mut(&peer) else { return };
        self.global_seq += 1;
        let local = Local {
            kind: EntityType::Client,
            num,
            // This side does not listen.
            addrs: EntityAddr::v2(SocketAddr::new(own.ip(), 0), self.nonce).into(),
            features_supported: self.config.objecter.profile.features_supported,
            features_required: 0,
            lossless_peers: Vec::new(),
            limits: self.config.limits,
        };
        let connect =
            Connect { target: link.target, peer_kind, method, global_seq: self.global_seq, session: None };
        link.connection = Some(Connection::connect(Arc::new(local), connect));
        self.run(peer);
    }

    /// How this client authenticates there.
    fn method(&self, peer: Peer) -> Result<Box<dyn ClientMethod>, ClientError> {
        // A monitor gives the id that this client had before again.
        let (entity, global_id) = (self.config.entity.clone(), self.global_id);
        let tickets = self.tickets.as_ref().map(|(tickets, _)| tickets);
        let service = match (peer, &self.config.credentials) {
            (Peer::Monitor(_), Credentials::Cephx { key, or_none }) => {
                return Ok(Box::new(CephxLogin::new(Login {
                    entity,
                    key: key.clone(),
                    global_id,
                    tickets: tickets.cloned(),
                    services: vec![EntityType::Osd],
                    or_none: *or_none,
                    challenge: random()?,
                })));
            }
            (Peer::Monitor(_), Credentials::None) => Service::Monitor,
            (Peer::Osd(_), _) => match tickets {
                Some(tickets) => {
                    let authorizer = tickets.authorizer(EntityType::Osd, random()?);
                    return authorizer.map_or(Err(ClientError::NoTicket), |method| Ok(Box::new(method) as _));
                }
                None => Service::Daemon,
            },
        };
        Ok(Box::new(ClientNone::new(service, entity, global_id)))
    }

    /// Performs what a connection wants.
    fn run(&mut self, peer: Peer) {
        while let Some(link) = self.links.get_mut(&peer) {
            let Some(effect) = link.connection.as_mut().and_then(Connection::poll) else { break };
            match effect {
                Effect::Write(bytes) => {
                    link.out.push(&bytes);
                    if !std::mem::replace(&mut link.to_flush, true) {
                        self.to_flush.push(peer);
                    }
                }
                Effect::Message(raw) => match Message::decode(&raw) {
                    Ok(message) => self.on_message(peer, message),
                    Err(error) => {
                        self.fail(peer, format!("message of type {}: {error}", raw.header.kind));
                    }
                },
                Effect::Established(info) => self.on_established(peer, &info),
                Effect::KeepaliveAcked(_) => {
                    if let Peer::Monitor(attempt) = peer {
                        self.tell(ObjecterEvent::Mon(MonClientEvent::KeepaliveAcked(attempt)));
                    }
                }
                Effect::Close(CloseReason::Auth(error)) => self.on_denied(peer, &error),
                Effect::Close(reason) => self.fail(peer, reason.to_string()),
                // Of the side that is dialled, and of lossless sessions.
                Effect::GlobalIdWanted { .. } | Effect::SessionWanted(_) | Effect::SessionReset => {
                    debug_assert!(false, "a dialled lossy connection does not ask for this");
                }
            }
        }
    }

    fn on_established(&mut self, peer: Peer, info: &PeerInfo) {
        let Some(link) = self.links.get_mut(&peer) else { return };
        (link.ready_by, link.features) = (None, info.features);
        let tickets = link.connection.as_mut().and_then(Connection::take_tickets);
        match peer {
            Peer::Monitor(attempt) => {
                self.global_id = info.global_id;
                let now = self.clock.now();
                self.tickets = tickets.map(|tickets| {
                    let renew_at = now.after(tickets.validity().mul_f64(RENEW_AFTER));
                    (tickets, renew_at)
                });
                self.tell(ObjecterEvent::Mon(MonClientEvent::Connected(attempt)));
            }
            Peer::Osd(session) => self.tell(ObjecterEvent::Connected(session)),
        }
    }

    /// Authentication has failed.
    fn on_denied(&mut self, peer: Peer, error: &AuthError) {
        let entity = &self.config.entity;
        let text = match (error, &self.config.credentials) {
            (AuthError::Refused { methods, .. }, Credentials::None) if methods.contains(&METHOD_CEPHX) => {
                format!("it requires cephx, and this client has no key for {entity}")
            }
            (AuthError::Refused { methods, .. }, _) if methods.contains(&METHOD_CEPHX) => {
                format!(
                    "it requires sealed connections (mode secure), which this client does not have: {error}"
                )
            }
            (AuthError::Refused { .. }, _) => {
                format!("it has no cephx, which auth_client_required asks for: {error}")
            }
            _ => error.to_string(),
        };
        if let Peer::Monitor(_) = peer {
            self.done.push(ClientEvent::Denied(text.clone()));
        }
        self.fail(peer, text);
    }

    fn on_message(&mut self, peer: Peer, message: Message) {
        self.tell(match peer {
            Peer::Monitor(attempt) => ObjecterEvent::Mon(MonClientEvent::Message(attempt, message)),
            Peer::Osd(session) => ObjecterEvent::Message(session, message),
        });
    }

    /// A connection has ended by itself.
    fn fail(&mut self, peer: Peer, reason: String) {
        self.links.remove(&peer);
        self.tell(match peer {
            Peer::Monitor(attempt) => ObjecterEvent::Mon(MonClientEvent::Disconnected(attempt, reason)),
            Peer::Osd(session) => ObjecterEvent::Reset(session, reason),
        });
    }

    fn tell(&mut self, event: ObjecterEvent) {
        let at = self.clock.now();
        self.objecter.handle(at, event, &mut self.effects);
        // What most events are: an answer. The others wait for `settle`.
        if let Some(ObjecterEffect::Done(..)) = self.effects.last() {
            if let Some(ObjecterEffect::Done(id, outcome)) = self.effects.pop() {
                self.done.push(ClientEvent::Done { id, outcome, at });
            }
        }
    }

    /// Writes what each socket takes.
    fn flush(&mut self, events: &mut Vec<ClientEvent>) {
        while !self.to_flush.is_empty() {
            for peer in std::mem::take(&mut self.to_flush) {
                // It has ended since.
                let Some(link) = self.links.get_mut(&peer) else { continue };
                link.to_flush = false;
                let result: io::Result<()> = link.flush();
                if let Err(error) = result {
                    self.fail(peer, format!("write: {error}"));
                }
            }
            self.settle(events);
        }
    }
}
