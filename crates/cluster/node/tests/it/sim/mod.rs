//! A simulated network and clock under the [`Node`]s of one process: messages take seeded random times, in order on each
//! session and from each core to each other.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use auth::{Caps, SessionId, SessionInfo};
use buffer::Rope;
use messages::osd_op::{Op, OpArgs, OpCode};
use messages::{Message, MonCommandAck};
use mon::state::State;
use mon::{InitialOsd, Mon, MonConfig, MonEvent};
use monclient::{Attempt, MonClientConfig, MonClientIo};
use node::{Daemon, Node, NodeEffect, NodeEvent, StoreHandle};
use objecter::{
    CommandId, NotifyOutcome, Objecter, ObjecterConfig, ObjecterEffect, ObjecterEvent, OsdSession, Outcome,
    Request, RequestId, WatchEvent,
};
use osd::{CoreId, Osd, OsdAddrs, OsdConfig, OsdEvent, Placement};
use store::{MemStore, ObjectStore, StoreShard};
use types::{EntityAddr, EntityName, EntityType, Fsid, Name, OsdId, Profile, SplitMix64, UTime};

const FEATURES: u64 = Profile::PACIFIC.features_supported;
/// Steps that a wait may take: with a tick every 50 ms, hours of simulated time.
const STEPS_MAX: usize = 200_000;

fn addr(port: u16, nonce: u32) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), nonce)
}

fn osd_addr(osd: OsdId) -> EntityAddr {
    addr(6800 + osd.0 as u16, 7)
}

/// What happens at a moment.
enum Happening {
    /// On the core where its daemon takes it.
    Node(NodeEvent),
    OnCore(u16, NodeEvent),
    Client(usize, ObjecterEvent),
    Tick,
}

/// Who is at the other end of a session.
#[derive(Clone, Copy)]
enum Peer {
    Osd(OsdId, Attempt),
    ClientOfMon(usize, Attempt),
    ClientOfOsd(usize, OsdSession, OsdId),
}

/// An operation under way.
struct Pending {
    object: Name,
    effect: Effect,
}

enum Effect {
    /// Nothing else is under way for the object: what it is if the operation takes effect; `None` for a read.
    Alone(Option<Vec<u8>>),
    /// Others may be: its place in the history of the log.
    OfLog(usize),
}

/// An operation on the object that clients append to at the same time.
#[derive(Clone, Debug)]
pub struct LogOp {
    /// What it appends; `None`: it reads.
    pub appends: Option<u32>,
    pub begun: u64,
    /// When it was answered, and what it read.
    pub ended: Option<(u64, Vec<u8>)>,
}

/// The object of [`Sim::log_operation`].
const LOG: &str = "log";

struct Client {
    core: Objecter,
    acks: BTreeMap<CommandId, MonCommandAck>,
    pending: BTreeMap<RequestId, Pending>,
    watch_events: Vec<WatchEvent>,
    notified: Vec<NotifyOutcome>,
}

/// How a process is divided. Every OSD has a gate on each core.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub cores: u16,
    /// Store shards of each OSD: those of osd.N are on the cores from N on, in turn.
    pub shards: u32,
}

impl Shape {
    pub const ONE: Self = Self { cores: 1, shards: 1 };

    fn placement(self, osd: i32) -> Placement {
        let shard = |shard| CoreId((osd as u16 + shard as u16) % self.cores);
        Placement::new((0..self.cores).map(CoreId).collect(), (0..self.shards).map(shard).collect()).unwrap()
    }

    fn control(self, osd: OsdId) -> u16 {
        self.placement(osd.0).shards()[0].0
    }
}

/// The simulation.
pub struct Sim {
    nodes: Vec<Node>,
    osds: BTreeMap<OsdId, OsdConfig>,
    stopped: BTreeSet<OsdId>,
    shape: Shape,
    rng: SplitMix64,
    now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    queued: u64,
    /// The time of the last message of each direction of a session: order is kept.
    last: BTreeMap<(SessionId, bool), u64>,
    /// The same from one core to another.
    last_of_cores: BTreeMap<(u16, u16), u64>,
    peers: BTreeMap<SessionId, Peer>,
    sessions: u64,
    /// Connections of clients to OSDs so far.
    accepted: u64,
    clients: Vec<Client>,
    /// What every object is, as acknowledged.
    model: BTreeMap<Name, Vec<u8>>,
    busy: BTreeSet<Name>,
    acknowledged: usize,
    log: Vec<LogOp>,
    trace: Vec<String>,
}

impl Sim {
    pub fn new(seed: u64, osds: i32) -> Self {
        Self::on_cores(seed, osds, Shape::ONE)
    }

    pub fn on_cores(seed: u64, osds: i32, shape: Shape) -> Self {
        let now = 1_800_000_000_000_000_000;
        let fsid = Fsid::from_random([seed as u8; 16]);
        let uuid = |i: i32| Fsid::from_random([i as u8 + 100; 16]);
        let config = MonConfig {
            fsid,
            name: "a".into(),
            addr: addr(3300, 0),
            manager: None,
            hostname: "host".into(),
            profile: Profile::PACIFIC,
            version: "test".into(),
            options: options::Values::new(),
            key_seed: [0; 32],
            machine: Default::default(),
            osds: (0..osds)
                .map(|i| InitialOsd { id: i, uuid: uuid(i), size_bytes: 1 << 30, class: None })
                .collect(),
        };
        let mut state = State::new();
        Mon::create(&config, UTime::from_nanos(now)).unwrap().apply_to(&mut state);
        let mut nodes: Vec<Node> = (0..shape.cores).map(|_| Node::new()).collect();
        nodes[0].add_mon(Mon::open(config, state, UTime::from_nanos(now)).unwrap());
        let mut sim = Self {
            nodes,
            osds: BTreeMap::new(),
            stopped: BTreeSet::new(),
            shape,
            rng: SplitMix64::new(seed),
            now,
            queue: BTreeMap::new(),
            queued: 0,
            last: BTreeMap::new(),
            last_of_cores: BTreeMap::new(),
            peers: BTreeMap::new(),
            sessions: 0,
            accepted: 0,
            clients: Vec::new(),
            model: BTreeMap::new(),
            busy: BTreeSet::new(),
            acknowledged: 0,
            log: Vec::new(),
            trace: Vec::new(),
        };
        for i in 0..osds {
            let config = OsdConfig {
                whoami: OsdId(i),
                cluster_fsid: fsid,
                osd_fsid: uuid(i),
                addrs: OsdAddrs::same(osd_addr(OsdId(i))),
                metadata: BTreeMap::new(),
                profile: Profile::PACIFIC,
                monitors: MonClientConfig::new(vec![addr(3300, 0).into()], Some(fsid)),
                options: options::Values::new(),
            };
            sim.add_osd(config, MemStore::handles(1 << 30, shape.shards));
            sim.after(1000, Happening::Node(NodeEvent::Osd(OsdId(i), OsdEvent::Start)));
        }
        sim.after(0, Happening::Tick);
        sim
    }

    /// Adds an OSD's parts to all cores.
    fn add_osd(&mut self, config: OsdConfig, handles: impl IntoIterator<Item: ObjectStore + 'static>) {
        let placement = Arc::new(self.shape.placement(config.whoami.0));
        let mut stores: Vec<Vec<StoreHandle>> = self.nodes.iter().map(|_| Vec::new()).collect();
        for (shard, store) in handles.into_iter().enumerate() {
            let core = placement.shards()[shard].0;
            stores[usize::from(core)].push((StoreShard(shard as u32), Box::new(store)));
        }
        for (core, (node, stores)) in self.nodes.iter_mut().zip(stores).enumerate() {
            let osd = Osd::on_core(config.clone(), CoreId(core as u16), placement.clone());
            node.add_osd_parts(config.whoami, osd, stores);
        }
        self.osds.insert(config.whoami, config);
    }

    /// Stops an OSD cleanly, takes it out of all nodes, and starts it again on the same stores.
    pub fn restart_osd(&mut self, osd: OsdId) {
        self.after(0, Happening::Node(NodeEvent::Osd(osd, OsdEvent::Shutdown)));
        self.run_until("the OSD has stopped", |s| s.stopped.contains(&osd));
        let up = self.osds_up();
        let crossing = |s: &Self| s.queue.values().any(|what| matches!(what, Happening::OnCore(..)));
        self.run_until("nothing is on its way between cores", |s| !crossing(s));
        let taken = self.nodes.iter_mut().flat_map(|node| node.take_osd(osd).unwrap());
        let handles: BTreeMap<StoreShard, Box<dyn ObjectStore>> = taken.collect();
        assert_eq!(handles.len(), self.shape.shards as usize);
        assert!(self.nodes.iter_mut().all(|node| node.take_osd(osd).is_none()));
        self.peers.retain(|_, peer| !matches!(peer, Peer::Osd(of, _) if *of == osd));
        self.add_osd(self.osds[&osd].clone(), handles.into_values());
        self.after(0, Happening::Node(NodeEvent::Osd(osd, OsdEvent::Start)));
        self.run_until("the OSD is up again", |s| s.osds_up() > up);
    }

    /// The core where a daemon takes an event.
    fn core_of(&self, event: &NodeEvent) -> u16 {
        match event {
            NodeEvent::Mon(_) => 0,
            NodeEvent::Osd(_, OsdEvent::SessionOpened(info)) => info.id.core(),
            NodeEvent::Osd(
                _,
                OsdEvent::SessionClosed(session)
                | OsdEvent::SessionBehind { session, is_behind: _ }
                | OsdEvent::Message { session, message: _, bytes: _ },
            ) => session.core(),
            NodeEvent::Osd(
                osd,
                OsdEvent::Start
                | OsdEvent::Mon(_)
                | OsdEvent::PeerLost(_)
                | OsdEvent::Rebound(_)
                | OsdEvent::Surroundings(_)
                | OsdEvent::AdminCommand { .. }
                | OsdEvent::Shutdown,
            ) => self.shape.control(*osd),
            NodeEvent::Osd(
                _,
                OsdEvent::Store(..)
                | OsdEvent::FromCore(_)
                | OsdEvent::Broken(_)
                | OsdEvent::Continue
                | OsdEvent::Tick,
            )
            | NodeEvent::StoreReady(_)
            | NodeEvent::Tick => panic!("no one core takes {event:?}"),
        }
    }

    /// Queues the arrival of a message from one core to another.
    fn cross(&mut self, from: u16, to: u16, event: NodeEvent) {
        let delay = self.random(20_000);
        let last = self.last_of_cores.entry((from, to)).or_default();
        let at = (self.now + delay).max(*last + 1);
        *last = at;
        self.queued += 1;
        self.queue.insert((at, self.queued), Happening::OnCore(to, event));
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn random(&mut self, n: u64) -> u64 {
        self.rng.below(n.max(1))
    }

    fn after(&mut self, nanos: u64, what: Happening) {
        self.queued += 1;
        self.queue.insert((self.now + nanos, self.queued), what);
    }

    /// Queues a message's arrival behind those of the same session and direction.
    fn carry(&mut self, session: SessionId, to_daemon: bool, what: Happening) {
        let delay = 5_000 + self.random(200_000);
        let last = self.last.entry((session, to_daemon)).or_default();
        let at = (self.now + delay).max(*last + 1);
        *last = at;
        self.queued += 1;
        self.queue.insert((at, self.queued), what);
    }

    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    pub fn outstanding(&self) -> usize {
        self.clients.iter().map(|c| c.pending.len()).sum()
    }

    pub fn osds_up(&self) -> usize {
        let map = self.nodes[0].mon().unwrap().osdmap();
        map.existing_osds().filter(|(_, osd)| osd.is_up()).count()
    }

    /// Lets time pass until `done`.
    pub fn run_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..STEPS_MAX {
            if done(self) {
                return;
            }
            self.step();
        }
        let last = &self.trace[self.trace.len().saturating_sub(20)..];
        let last: Vec<String> = last.iter().map(|line| format!("{line:.300}")).collect();
        panic!("not within {STEPS_MAX} steps: {what}; the trace ends with\n{}", last.join("\n"));
    }

    fn step(&mut self) {
        let ((at, _), what) = self.queue.pop_first().expect("the tick never ends");
        self.now = at;
        match what {
            Happening::Node(event) => self.tell(self.core_of(&event), event),
            Happening::OnCore(core, event) => self.tell(core, event),
            Happening::Client(client, event) => self.client_handles(client, event),
            Happening::Tick => {
                (0..self.shape.cores).for_each(|core| self.tell(core, NodeEvent::Tick));
                (0..self.clients.len()).for_each(|c| self.client_handles(c, ObjecterEvent::Tick));
                self.after(50_000_000, Happening::Tick);
            }
        }
    }

    fn tell(&mut self, core: u16, event: NodeEvent) {
        let mut effects = Vec::new();
        let now = UTime::from_nanos(self.now);
        let node = &mut self.nodes[usize::from(core)];
        node.handle(now, event, &mut effects);
        node.turn(now, &mut effects);
        for effect in effects {
            self.trace.push(format!("{} {core} {effect:?}", self.now));
            self.perform(core, effect);
        }
    }

    fn perform(&mut self, core: u16, effect: NodeEffect) {
        match effect {
            NodeEffect::Send(daemon, session, message) => self.daemon_sends(daemon, session, &message),
            NodeEffect::Commit(token, _) => {
                let delay = self.random(3_000_000);
                self.after(delay, Happening::Node(NodeEvent::Mon(MonEvent::Committed { token })));
            }
            NodeEffect::GlobalId(session, id) => self.authenticated(session, id),
            NodeEffect::ToCore(to, osd, message) => {
                self.cross(core, to.0, NodeEvent::Osd(osd, OsdEvent::FromCore(message)));
            }
            NodeEffect::Continue(osd) => {
                self.after(0, Happening::OnCore(core, NodeEvent::Osd(osd, OsdEvent::Continue)));
            }
            NodeEffect::SendPeer(osd, ..) | NodeEffect::ClosePeer(osd, ..) => {
                panic!("osd.{osd} is a client of another OSD, and no client copies objects");
            }
            NodeEffect::Dial(osd, io) => self.dial(osd, io),
            NodeEffect::Close(daemon, session, reason) => panic!("{daemon} closed {session}: {reason}"),
            NodeEffect::Failed(daemon, reason) => panic!("{daemon}: {reason}"),
            NodeEffect::MonBehind { osd, .. } => panic!("osd.{osd} is ahead of the monitor"),
            NodeEffect::Stopped(osd) => drop(self.stopped.insert(osd)),
            NodeEffect::LogLevel(..) | NodeEffect::StoreMemory(_) => {}
            NodeEffect::AdminAnswer(osd, ..) => panic!("osd.{osd} answers what was not asked"),
            NodeEffect::Log(..) | NodeEffect::Active(_) | NodeEffect::Ended(_) => {}
            NodeEffect::Rebind(osd) => {
                let addr = EntityAddr::v2(([127, 0, 0, 1], 7100 + osd.0 as u16).into(), 99);
                self.after(1000, Happening::Node(NodeEvent::Osd(osd, OsdEvent::Rebound(addr.into()))));
            }
            NodeEffect::Pause(..) | NodeEffect::Resume(..) => {}
        }
    }

    /// Over the wire and back: what a daemon sends is what a peer decodes.
    fn wire(message: &Message) -> Message {
        Message::decode_exact(&message.encode(FEATURES)).unwrap_or_else(|e| panic!("{}: {e}", message.name()))
    }

    fn daemon_sends(&mut self, _: Daemon, session: SessionId, message: &Message) {
        let message = Self::wire(message);
        match self.peers[&session] {
            Peer::Osd(osd, attempt) => {
                let event = OsdEvent::Mon(monclient::MonClientEvent::Message(attempt, message));
                self.carry(session, false, Happening::Node(NodeEvent::Osd(osd, event)));
            }
            Peer::ClientOfMon(client, attempt) => {
                let event = ObjecterEvent::Mon(monclient::MonClientEvent::Message(attempt, message));
                self.carry(session, false, Happening::Client(client, event));
            }
            Peer::ClientOfOsd(client, of, _) => {
                let event = ObjecterEvent::Message(of, message);
                self.carry(session, false, Happening::Client(client, event));
            }
        }
    }

    fn session(&mut self, peer: Peer) -> SessionId {
        self.sessions += 1;
        let core = match peer {
            // A listener gives its connections to the cores in turn.
            Peer::ClientOfOsd(..) => {
                self.accepted += 1;
                (self.accepted % u64::from(self.shape.cores)) as u16
            }
            Peer::Osd(..) | Peer::ClientOfMon(..) => 0,
        };
        let session = SessionId::on_core(core, self.sessions);
        self.peers.insert(session, peer);
        session
    }

    fn dial(&mut self, osd: OsdId, io: MonClientIo) {
        let mon_session = |s: &Self, attempt| {
            let wanted = |p: &Peer| matches!(p, Peer::Osd(o, a) if *o == osd && *a == attempt);
            s.peers.iter().find(|(_, p)| wanted(p)).map(|(s, _)| *s)
        };
        match io {
            MonClientIo::Connect(attempt, _) => {
                let session = self.session(Peer::Osd(osd, attempt));
                let event = NodeEvent::Mon(MonEvent::GlobalIdWanted { session, asked: 0 });
                self.carry(session, true, Happening::Node(event));
            }
            MonClientIo::Send(attempt, message) => {
                let message = Self::wire(&message);
                let session = mon_session(self, attempt).unwrap();
                let event = NodeEvent::Mon(MonEvent::Message { session, message });
                self.carry(session, true, Happening::Node(event));
            }
            MonClientIo::Keepalive(attempt) => {
                let event = OsdEvent::Mon(monclient::MonClientEvent::KeepaliveAcked(attempt));
                self.after(10_000, Happening::Node(NodeEvent::Osd(osd, event)));
            }
            MonClientIo::Disconnect(attempt) => {
                let session = mon_session(self, attempt).unwrap();
                self.after(0, Happening::Node(NodeEvent::Mon(MonEvent::SessionClosed(session))));
            }
        }
    }

    fn info(&self, id: SessionId, kind: EntityType, num: i64, global_id: u64) -> SessionInfo {
        let entity = format!("{}.{}", kind.as_str(), if num < 0 { "admin".into() } else { num.to_string() });
        SessionInfo {
            id,
            entity: entity.parse().unwrap(),
            name: EntityName::new(kind, if num < 0 { global_id as i64 } else { num }),
            global_id,
            caps: Caps::all(),
            features: FEATURES,
            // A daemon dials from the messenger that it serves clients with: the monitor enters that address in the map.
            peer_addrs: if num < 0 { addr(0, global_id as u32) } else { osd_addr(OsdId(num as i32)) }.into(),
            local_nonce: 0,
        }
    }

    /// The monitor gave an id: the session opens at both ends.
    fn authenticated(&mut self, session: SessionId, global_id: u64) {
        let info = match self.peers[&session] {
            Peer::Osd(osd, attempt) => {
                let event = OsdEvent::Mon(monclient::MonClientEvent::Connected(attempt));
                self.carry(session, false, Happening::Node(NodeEvent::Osd(osd, event)));
                self.info(session, EntityType::Osd, osd.0.into(), global_id)
            }
            Peer::ClientOfMon(client, attempt) => {
                let event = ObjecterEvent::Mon(monclient::MonClientEvent::Connected(attempt));
                self.carry(session, false, Happening::Client(client, event));
                self.info(session, EntityType::Client, -1, global_id)
            }
            Peer::ClientOfOsd(..) => panic!("{session} is not the monitor's"),
        };
        self.carry(session, true, Happening::Node(NodeEvent::Mon(MonEvent::SessionOpened(info))));
    }

    // --- clients ---

    pub fn connect_client(&mut self) -> usize {
        let client = self.clients.len();
        let monitors = MonClientConfig::new(vec![addr(3300, 0).into()], None);
        let core = Objecter::new(ObjecterConfig::new(monitors, Profile::PACIFIC));
        self.clients.push(Client {
            core,
            acks: BTreeMap::new(),
            pending: BTreeMap::new(),
            watch_events: Vec::new(),
            notified: Vec::new(),
        });
        self.with_client(client, |core, now, out| core.start(now, out));
        client
    }

    fn with_client<T>(
        &mut self,
        client: usize,
        act: impl FnOnce(&mut Objecter, UTime, &mut Vec<ObjecterEffect>) -> T,
    ) -> T {
        let mut effects = Vec::new();
        let result = act(&mut self.clients[client].core, UTime::from_nanos(self.now), &mut effects);
        effects.into_iter().for_each(|effect| self.client_wants(client, effect));
        result
    }

    fn client_handles(&mut self, client: usize, event: ObjecterEvent) {
        self.with_client(client, |core, now, out| core.handle(now, event, out));
    }

    fn session_of(&self, is: impl Fn(&Peer) -> bool) -> SessionId {
        *self.peers.iter().find(|(_, peer)| is(peer)).map(|(session, _)| session).unwrap()
    }

    fn client_wants(&mut self, client: usize, effect: ObjecterEffect) {
        match effect {
            ObjecterEffect::Mon(MonClientIo::Connect(attempt, _)) => {
                let session = self.session(Peer::ClientOfMon(client, attempt));
                let event = NodeEvent::Mon(MonEvent::GlobalIdWanted { session, asked: 0 });
                self.carry(session, true, Happening::Node(event));
            }
            ObjecterEffect::Mon(MonClientIo::Send(of, message)) => {
                let message = Self::wire(&message);
                let is = |p: &Peer| matches!(p, Peer::ClientOfMon(c, a) if (*c, *a) == (client, of));
                let session = self.session_of(is);
                let event = NodeEvent::Mon(MonEvent::Message { session, message });
                self.carry(session, true, Happening::Node(event));
            }
            ObjecterEffect::Connect(of, osd, _) => {
                let session = self.session(Peer::ClientOfOsd(client, of, osd));
                let info = self.info(session, EntityType::Client, -1, 5000 + client as u64);
                self.carry(
                    session,
                    true,
                    Happening::Node(NodeEvent::Osd(osd, OsdEvent::SessionOpened(info))),
                );
                self.carry(session, false, Happening::Client(client, ObjecterEvent::Connected(of)));
            }
            ObjecterEffect::Send(of, message) => {
                let message = Self::wire(&message);
                let is = |p: &Peer| matches!(p, Peer::ClientOfOsd(c, s, _) if (*c, *s) == (client, of));
                let session = self.session_of(is);
                let Peer::ClientOfOsd(_, _, osd) = self.peers[&session] else { unreachable!() };
                let event = OsdEvent::Message { session, message, bytes: 4096 };
                self.carry(session, true, Happening::Node(NodeEvent::Osd(osd, event)));
            }
            ObjecterEffect::Done(id, outcome) => self.operation_done(client, id, &outcome),
            ObjecterEffect::Watch(watch, event) => {
                if let WatchEvent::Notify { notify, payload, .. } = &event {
                    let (notify, reply) = (*notify, payload.clone());
                    self.with_client(client, |core, now, out| core.ack(now, watch, notify, &reply, out));
                }
                self.clients[client].watch_events.push(event);
            }
            ObjecterEffect::NotifyDone(_, outcome) => self.clients[client].notified.push(outcome),
            ObjecterEffect::CommandDone(id, ack) => drop(self.clients[client].acks.insert(id, ack)),
            ObjecterEffect::PoolOpDone(..) => panic!("client {client} gives no pool operation"),
            ObjecterEffect::MapReached(_) => {}
            // No PG moves and no session breaks here: what an OSD drops, which a resend would hide, is a fault.
            ObjecterEffect::Mon(io) => panic!("client {client}: {io:?}"),
            ObjecterEffect::Disconnect(session) => panic!("client {client} closes {session:?}"),
            ObjecterEffect::Warning(text) => panic!("client {client}: {text}"),
        }
    }

    /// Sends a command and waits for its answer, and for the map that it led to.
    pub fn command(&mut self, client: usize, json: &str) -> MonCommandAck {
        let id = self.with_client(client, |core, now, out| core.command(now, json, Rope::new(), out));
        self.run_until(json, |s| s.clients[client].acks.contains_key(&id));
        for other in 0..self.clients.len() {
            self.with_client(other, |core, _, out| core.wait_for_latest_map(out));
        }
        let newest = self.nodes[0].mon().unwrap().osdmap().epoch;
        self.run_until("clients have the map", |s| s.clients.iter().all(|c| c.core.epoch() >= newest));
        self.clients[client].acks.remove(&id).unwrap()
    }

    /// Writes an object and waits until that is done.
    pub fn create(&mut self, client: usize, pool: &str, object: &str) {
        let args = OpArgs::extent(0, 1);
        let op = Op::new(OpCode::WRITEFULL, args).with_indata(b"x".to_vec());
        self.send_op(client, pool, object.into(), op, Some(b"x".to_vec()));
        self.run_until("an object is made", |s| s.outstanding() == 0);
    }

    /// A client watches an object; waits until it does.
    pub fn watch(&mut self, client: usize, pool: &str, object: &str) {
        let pool = self.clients[client].core.map().unwrap().pool_by_name(pool).unwrap();
        let before = self.clients[client].watch_events.len();
        let timeout = Duration::from_secs(30);
        self.with_client(client, |core, now, out| core.watch(now, pool, object, timeout, out));
        self.run_until("a watch", |s| s.clients[client].watch_events.len() > before);
        assert_eq!(self.clients[client].watch_events.last(), Some(&WatchEvent::Connected));
    }

    /// A client notifies an object's watchers; its outcome.
    pub fn notify(&mut self, client: usize, pool: &str, object: &str, payload: &[u8]) -> NotifyOutcome {
        let pool = self.clients[client].core.map().unwrap().pool_by_name(pool).unwrap();
        let timeout = Duration::from_secs(30);
        self.with_client(client, |core, now, out| {
            core.notify(now, pool, object, payload.into(), timeout, out)
        });
        self.run_until("the end of a notify", |s| !s.clients[client].notified.is_empty());
        self.clients[client].notified.remove(0)
    }

    /// What the watches of a client have got.
    pub fn watch_events(&self, client: usize) -> &[WatchEvent] {
        &self.clients[client].watch_events
    }

    /// A write, append, removal or read of a random object that nothing is under way for.
    pub fn random_operation(&mut self, client: usize, pool: &str) {
        let object = Name::from(format!("object-{}", self.random(40)));
        if self.busy.contains(&object) {
            return self.run_until("an operation ends", |s| !s.busy.contains(&object));
        }
        let old = self.model.get(&object).cloned();
        let data = vec![self.random(256) as u8; 1 + self.random(20_000) as usize];
        let extent = |offset: u64, length: usize| OpArgs::Extent {
            offset,
            length: length as u64,
            truncate_size: 0,
            truncate_seq: 0,
        };
        let (op, becomes) = match self.random(5) {
            0 => (Op::new(OpCode::READ, extent(0, 0)), None),
            1 if old.is_some() => (Op::new(OpCode::DELETE, extent(0, 0)), Some(Vec::new())),
            2 => {
                let op = Op::new(OpCode::APPEND, extent(0, data.len())).with_indata(data.clone());
                (op, Some([old.unwrap_or_default(), data].concat()))
            }
            3 => {
                let offset = self.random(30_000) as usize;
                let mut new = old.unwrap_or_default();
                new.resize(new.len().max(offset + data.len()), 0);
                new[offset..offset + data.len()].copy_from_slice(&data);
                (Op::new(OpCode::WRITE, extent(offset as u64, data.len())).with_indata(data), Some(new))
            }
            _ => {
                let op = Op::new(OpCode::WRITEFULL, extent(0, data.len())).with_indata(data.clone());
                (op, Some(data))
            }
        };
        self.send_op(client, pool, object, op, becomes);
    }

    /// Appends four bytes to the log, or reads it, whatever else is under way for it.
    pub fn log_operation(&mut self, client: usize, pool: &str, appends: Option<u32>) {
        let length = if appends.is_some() { 4 } else { 0 };
        let args = OpArgs::Extent { offset: 0, length, truncate_size: 0, truncate_seq: 0 };
        let op = match appends {
            Some(tag) => Op::new(OpCode::APPEND, args).with_indata(tag.to_le_bytes().to_vec()),
            None => Op::new(OpCode::READ, args),
        };
        let effect = Effect::OfLog(self.log.len());
        self.log.push(LogOp { appends, begun: self.now, ended: None });
        self.send(client, pool, Pending { object: LOG.into(), effect }, op);
    }

    pub fn log(&self) -> &[LogOp] {
        &self.log
    }

    /// The cores at which clients are connected to OSDs.
    pub fn gates(&self) -> BTreeSet<u16> {
        let of_clients = self.peers.iter().filter(|(_, peer)| matches!(peer, Peer::ClientOfOsd(..)));
        of_clients.map(|(session, _)| session.core()).collect()
    }

    /// Lets a random time pass.
    pub fn pause(&mut self) {
        let until = self.now + self.random(100_000);
        self.run_until("time passes", |s| s.now >= until);
    }

    fn send_op(&mut self, client: usize, pool: &str, object: Name, op: Op, becomes: Option<Vec<u8>>) {
        self.busy.insert(object.clone());
        self.send(client, pool, Pending { object, effect: Effect::Alone(becomes) }, op);
    }

    fn send(&mut self, client: usize, pool: &str, pending: Pending, op: Op) {
        self.run_until("the client has the pool", |s| {
            s.clients[client].core.map().is_some_and(|map| map.pool_by_name(pool).is_some())
        });
        let pool = self.clients[client].core.map().unwrap().pool_by_name(pool).unwrap();
        let request = Request::on(pool, pending.object.clone(), vec![op]);
        let id = self.with_client(client, |core, now, out| core.submit(now, request, out)).unwrap();
        self.clients[client].pending.insert(id, pending);
    }

    fn operation_done(&mut self, client: usize, id: RequestId, outcome: &Outcome) {
        let pending = self.clients[client].pending.remove(&id).expect("answered once");
        let becomes = match pending.effect {
            Effect::Alone(becomes) => becomes,
            Effect::OfLog(place) => {
                self.log[place].ended = Some((self.now, outcome.data().to_vec()));
                // A read may come before the first append.
                let is_missing = self.log[place].appends.is_none() && outcome.result() == -2;
                return assert!(outcome.result() >= 0 || is_missing, "{:?}: {outcome:?}", self.log[place]);
            }
        };
        self.busy.remove(&pending.object);
        let is = self.model.get(&pending.object);
        match becomes {
            None => {
                let (want_code, want) = is.map_or((-2, Vec::new()), |data| (0, data.clone()));
                assert_eq!(outcome.result(), want_code, "read of {}", pending.object);
                let got = outcome.data().to_vec();
                assert!(got == want, "{} holds {} bytes, expected {}", pending.object, got.len(), want.len());
            }
            Some(new) => {
                assert_eq!(outcome.result(), 0, "write of {}", pending.object);
                self.acknowledged += 1;
                match new.is_empty() {
                    true => drop(self.model.remove(&pending.object)),
                    false => drop(self.model.insert(pending.object, new)),
                }
            }
        }
    }

    /// Reads every object back.
    pub fn check_all(&mut self, pool: &str) {
        let client = self.connect_client();
        let objects: Vec<Name> = (0..40).map(|i| Name::from(format!("object-{i}"))).collect();
        for object in objects {
            let read = OpArgs::Extent { offset: 0, length: 0, truncate_size: 0, truncate_seq: 0 };
            self.send_op(client, pool, object, Op::new(OpCode::READ, read), None);
        }
        self.run_until("every read is answered", |s| s.outstanding() == 0);
    }
}
