//! A messenger without sockets, and peers that dial it.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::{ClientNone, Service, SessionId, SessionInfo};
use messages::{Message, MonGetVersion};
use messenger::{
    CoreMessage, Daemon, Effect, Endpoint, EndpointNews, Event, Messenger, MessengerConfig, OutQueue,
    ProcessUsage, SessionEvent, SocketEffect, SocketId,
};
use msgr::{Connect, Connection, Limits, Local};
use types::{EntityAddr, EntityId, EntityType, LogLevel, OsdId, Profile, UTime};

pub const START: u64 = 1_800_000_000_000_000_000;
pub const FEATURES: u64 = Profile::PACIFIC.features_supported;

pub fn addr(port: u16, nonce: u32) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), nonce)
}

pub fn local(kind: EntityType, num: i64, addr: EntityAddr) -> Local {
    Local {
        kind,
        num,
        addrs: addr.into(),
        features_supported: FEATURES,
        features_required: 0,
        lossless_peers: Vec::new(),
        limits: Limits::default(),
    }
}

/// A small message with a number in it.
pub fn message(n: u64) -> Message {
    MonGetVersion { handle: n, what: "osdmap".into() }.into()
}

pub fn number(message: &Message) -> u64 {
    match message {
        Message::MonGetVersion(m) => m.handle,
        other => panic!("{} came", other.name()),
    }
}

/// A messenger and what it has asked for.
pub struct Harness {
    pub messenger: Messenger,
    pub usage: Arc<ProcessUsage>,
    pub now: u64,
    pub opened: Vec<SessionInfo>,
    pub closed: Vec<SessionId>,
    pub received: Vec<(SessionId, Message)>,
    pub events: Vec<String>,
    pub flushes: Vec<SocketId>,
    pub interests: Vec<SocketId>,
    pub dials: Vec<(SocketId, SocketAddr)>,
    /// Sockets that were closed, with the bytes that were left to write.
    pub ended: Vec<(SocketId, Vec<u8>)>,
    pub log: Vec<(LogLevel, String)>,
    pub to_core: Vec<CoreMessage>,
    pub news: Vec<EndpointNews>,
}

pub fn osd() -> Endpoint {
    Endpoint::public(Daemon::Osd(OsdId(0)))
}

pub fn mon() -> Endpoint {
    Endpoint::public(Daemon::Mon)
}

pub fn mgr() -> Endpoint {
    Endpoint::public(Daemon::Mgr)
}

impl Harness {
    pub fn new() -> Self {
        Self::with(1 << 20, 100)
    }

    pub fn with(unfinished_bytes_max: usize, connections_max: usize) -> Self {
        Self::on_core(0, unfinished_bytes_max, connections_max)
    }

    pub fn on_core(core: u16, unfinished_bytes_max: usize, connections_max: usize) -> Self {
        let usage = Arc::<ProcessUsage>::default();
        let mut messenger = Messenger::new(MessengerConfig {
            core,
            connections_max,
            unfinished_bytes_max,
            ready_timeout: Duration::from_secs(10),
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(15),
            peer_bytes_max: 1 << 20,
            check_in_memory: true,
            cookie_seed: 1,
            usage: usage.clone(),
        });
        messenger.set_endpoint(osd(), local(EntityType::Osd, 0, addr(6800, 5)));
        messenger.set_endpoint(mon(), local(EntityType::Mon, 0, addr(3300, 0)));
        messenger.set_endpoint(mgr(), local(EntityType::Mgr, 1, addr(6801, 5)));
        Self {
            messenger,
            usage,
            now: START,
            opened: Vec::new(),
            closed: Vec::new(),
            received: Vec::new(),
            events: Vec::new(),
            flushes: Vec::new(),
            interests: Vec::new(),
            dials: Vec::new(),
            ended: Vec::new(),
            log: Vec::new(),
            to_core: Vec::new(),
            news: Vec::new(),
        }
    }

    pub fn now(&self) -> UTime {
        UTime::from_nanos(self.now)
    }

    pub fn send(&mut self, session: SessionId, message: &Message) {
        self.messenger.send(UTime::from_nanos(self.now), session, message);
    }

    pub fn accept(&mut self, endpoint: Endpoint) -> Option<SocketId> {
        let id = self.messenger.accept(self.now(), endpoint, ([127, 0, 0, 9], 40_000).into());
        self.settle();
        id
    }

    pub fn handle(&mut self, event: Event<'_>) {
        self.messenger.handle(self.now(), event);
        self.settle();
    }

    /// Lets time pass.
    pub fn pass(&mut self, by: Duration) {
        self.now += by.as_nanos() as u64;
        self.handle(Event::Tick);
    }

    /// Takes what the messenger asks for; global ids are given at once.
    pub fn settle(&mut self) {
        loop {
            while let Some(effect) = self.messenger.poll() {
                self.perform(effect);
            }
            self.messenger.flush();
            if !self.messenger.has_effects() {
                break;
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Socket(SocketEffect::Dial(id, to)) => self.dials.push((id, to)),
            Effect::Socket(SocketEffect::Flush(id)) => self.flushes.push(id),
            Effect::Socket(SocketEffect::Interest(id)) => self.interests.push(id),
            Effect::Socket(SocketEffect::Close(id, mut rest)) => self.ended.push((id, take(&mut rest))),
            Effect::ToCore(message) => self.to_core.push(message),
            Effect::ToAllCores(news) => self.news.push(news),
            Effect::Log(_, level, text) => self.log.push((level, text)),
            Effect::Daemon(daemon, event) => match event {
                SessionEvent::Opened(info) => self.opened.push(info),
                SessionEvent::Closed(session) => self.closed.push(session),
                SessionEvent::Reset(session) => self.events.push(format!("{daemon}: {session} reset")),
                SessionEvent::PeerLost(addr) => self.events.push(format!("{daemon}: {addr} lost")),
                SessionEvent::PeerRoom(addr) => self.events.push(format!("{daemon}: room at {addr}")),
                SessionEvent::Behind { session, is_behind } => {
                    self.events.push(format!(
                        "{daemon}: {session} {}",
                        if is_behind { "behind" } else { "not behind" }
                    ));
                }
                SessionEvent::Message { session, message, .. } => self.received.push((session, message)),
                SessionEvent::GlobalIdWanted { session, .. } => self.messenger.global_id(session, 4100),
                SessionEvent::Monitor(event) => self.events.push(format!("{daemon}: {event:?}")),
            },
        }
    }

    /// The bytes that wait for a socket, as if it took them all.
    pub fn take_out(&mut self, id: SocketId) -> Vec<u8> {
        self.messenger.out_queue(id).map(take).unwrap_or_default()
    }

    /// Reads as a host does, at most what the messenger wants at once. How many bytes it took.
    pub fn read(&mut self, id: SocketId, bytes: &[u8]) -> usize {
        let now = self.now();
        let n = self.messenger.read_slices(now, id).map(|mut to| { bytes }.read_vectored(&mut to).unwrap());
        if let Some(n) = n {
            self.messenger.handle(now, Event::Read(id, n));
        }
        self.settle();
        n.unwrap_or(0)
    }

    /// Reads until nothing is left or wanted; how many bytes it took.
    pub fn read_all(&mut self, id: SocketId, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            match self.read(id, &bytes[taken..]) {
                0 => break,
                n => taken += n,
            }
        }
        taken
    }

    /// A client with an open session of this endpoint.
    pub fn client(&mut self, endpoint: Endpoint) -> Client {
        self.peer(EntityType::Client, endpoint)
    }

    /// The same of any kind of peer.
    pub fn peer(&mut self, kind: EntityType, endpoint: Endpoint) -> Client {
        let socket = self.accept(endpoint).unwrap();
        let mut client = Client::of_kind(kind, socket, endpoint, 4100);
        let before = self.opened.len();
        client.exchange(self);
        assert_eq!(self.opened.len(), before + 1, "{:?}", self.log);
        client
    }

    pub fn last_log(&self) -> &str {
        self.log.last().map_or("", |(_, text)| text)
    }
}

/// Everything in a queue.
pub fn take(queue: &mut OutQueue) -> Vec<u8> {
    let mut out = Vec::new();
    queue
        .write_to(|slices| {
            slices.iter().for_each(|slice| out.extend_from_slice(slice));
            Ok(slices.iter().map(|slice| slice.len()).sum())
        })
        .unwrap();
    out
}

/// A peer that dials.
pub struct Client {
    pub socket: SocketId,
    pub connection: Connection,
    pub received: Vec<Message>,
    pub to_send: Vec<u8>,
}

impl Client {
    pub fn new(socket: SocketId, endpoint: Endpoint, global_id: u64) -> Self {
        Self::of_kind(EntityType::Client, socket, endpoint, global_id)
    }

    fn of_kind(kind: EntityType, socket: SocketId, endpoint: Endpoint, global_id: u64) -> Self {
        let (target, peer_kind, service) = match endpoint.daemon {
            Daemon::Mon => (addr(3300, 0), EntityType::Mon, Service::Monitor),
            Daemon::Mgr => (addr(6801, 5), EntityType::Mgr, Service::Daemon),
            Daemon::Osd(_) => (addr(6800, 5), EntityType::Osd, Service::Daemon),
        };
        let entity = EntityId { kind: EntityType::Client, id: "admin".into() };
        let connection = Connection::connect(
            Arc::new(local(kind, -1, addr(0, socket.index() as u32 + 1))),
            Connect {
                target,
                peer_kind,
                method: Box::new(ClientNone::new(service, entity, global_id)),
                global_seq: 1,
                session: None,
            },
        );
        Self { socket, connection, received: Vec::new(), to_send: Vec::new() }
    }

    /// What the connection wants; whether something came of it.
    fn run(&mut self) -> bool {
        let mut any = false;
        while let Some(effect) = self.connection.poll() {
            any = true;
            match effect {
                msgr::Effect::Write(bytes) => self.to_send.extend(bytes.to_vec()),
                msgr::Effect::Message(raw) => self.received.push(Message::decode(&raw).unwrap()),
                _ => {}
            }
        }
        any
    }

    /// Bytes both ways until nothing more comes of them, or the messenger takes no more.
    pub fn exchange(&mut self, harness: &mut Harness) {
        loop {
            let mut any = self.run();
            let taken = harness.read_all(self.socket, &self.to_send);
            self.to_send.drain(..taken);
            let bytes = harness.take_out(self.socket);
            any |= taken > 0 || !bytes.is_empty();
            self.connection.feed(&bytes);
            if !any {
                break;
            }
        }
    }

    pub fn send(&mut self, message: &Message) {
        self.connection.send(message.encode(FEATURES));
        self.run();
    }

    pub fn session(&self, harness: &Harness) -> SessionId {
        harness.opened.iter().map(|info| info.id).rfind(|id| id.0 == self.socket_number()).unwrap()
    }

    fn socket_number(&self) -> u64 {
        self.socket.to_string().trim_start_matches("socket ").parse().unwrap()
    }
}
