//! A simulated network and clock under one [`Node`]: messages take seeded random times, in order on each session.
#![allow(clippy::unwrap_used)] // a test that gets nothing fails here

use std::collections::BTreeMap;

use auth::{Caps, SessionId, SessionInfo};
use buffer::Rope;
use messages::osd_op::{Op, OpArgs, OpCode, OsdFlags};
use messages::{Message, MonCommand, MonCommandAck, OsdOp, OsdOpReply};
use mon::state::State;
use mon::{InitialOsd, Mon, MonConfig, MonEvent};
use monclient::{Attempt, MonClientConfig, MonClientIo};
use node::{Daemon, Node, NodeEffect, NodeEvent};
use osd::{Osd, OsdAddrs, OsdConfig, OsdEvent};
use store::MemStore;
use types::{
    EntityAddr, EntityName, EntityType, Epoch, Fsid, Name, ObjectLocator, OsdId, Profile, ReqId, SnapId,
    SpgId, SplitMix64, UTime,
};

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
    Node(NodeEvent),
    ToClient(SessionId, Message),
    Tick,
}

/// Who is at the other end of a session.
#[derive(Clone, Copy)]
enum Peer {
    Osd(OsdId, Attempt),
    Client(usize),
}

/// An operation under way.
struct Pending {
    object: Name,
    /// What the object is if the operation takes effect; `None` for a read.
    becomes: Option<Vec<u8>>,
}

/// A client. It never sends an operation again: no PG moves and no session breaks here, so one that is dropped, which a
/// client's resend would hide, is a fault.
struct Client {
    mon: SessionId,
    osds: BTreeMap<OsdId, SessionId>,
    tid: u64,
    acks: BTreeMap<u64, MonCommandAck>,
    pending: BTreeMap<u64, Pending>,
}

/// The simulation.
pub struct Sim {
    node: Node,
    rng: SplitMix64,
    now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    queued: u64,
    /// The time of the last message of each direction of a session: order is kept.
    last: BTreeMap<(SessionId, bool), u64>,
    peers: BTreeMap<SessionId, Peer>,
    sessions: u64,
    clients: Vec<Client>,
    /// What every object is, as acknowledged.
    model: BTreeMap<Name, Vec<u8>>,
    busy: BTreeMap<Name, u64>,
    acknowledged: usize,
    trace: Vec<String>,
}

impl Sim {
    pub fn new(seed: u64, osds: i32) -> Self {
        let now = 1_800_000_000_000_000_000;
        let fsid = Fsid::from_random([seed as u8; 16]);
        let uuid = |i: i32| Fsid::from_random([i as u8 + 100; 16]);
        let config = MonConfig {
            fsid,
            name: "a".into(),
            addr: addr(3300, 0),
            hostname: "host".into(),
            profile: Profile::PACIFIC,
            version: "test".into(),
            options: options::Values::new(),
            osds: (0..osds)
                .map(|i| InitialOsd { id: i, uuid: uuid(i), size_bytes: 1 << 30, class: None })
                .collect(),
        };
        let mut state = State::new();
        Mon::create(&config, UTime::from_nanos(now)).unwrap().apply_to(&mut state);
        let mut node = Node::new();
        node.add_mon(Mon::open(config, state, UTime::from_nanos(now)).unwrap());
        let mut sim = Self {
            node,
            rng: SplitMix64::new(seed),
            now,
            queue: BTreeMap::new(),
            queued: 0,
            last: BTreeMap::new(),
            peers: BTreeMap::new(),
            sessions: 0,
            clients: Vec::new(),
            model: BTreeMap::new(),
            busy: BTreeMap::new(),
            acknowledged: 0,
            trace: Vec::new(),
        };
        for i in 0..osds {
            let osd = Osd::new(OsdConfig {
                whoami: OsdId(i),
                cluster_fsid: fsid,
                osd_fsid: uuid(i),
                addrs: OsdAddrs::same(osd_addr(OsdId(i))),
                metadata: BTreeMap::new(),
                profile: Profile::PACIFIC,
                monitors: MonClientConfig::new(vec![addr(3300, 0).into()], Some(fsid)),
                options: options::Values::new(),
            });
            sim.node.add_osd(OsdId(i), osd, Box::new(MemStore::new(1 << 30)));
            sim.after(1000, Happening::Node(NodeEvent::Osd(OsdId(i), OsdEvent::Start)));
        }
        sim.after(0, Happening::Tick);
        sim
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
        let map = self.node.mon().unwrap().osdmap();
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
            Happening::Node(event) => self.tell(event),
            Happening::ToClient(session, message) => self.client_hears(session, message),
            Happening::Tick => {
                self.tell(NodeEvent::Tick);
                self.after(50_000_000, Happening::Tick);
            }
        }
    }

    fn tell(&mut self, event: NodeEvent) {
        let mut effects = Vec::new();
        let now = UTime::from_nanos(self.now);
        self.node.handle(now, event, &mut effects);
        self.node.turn(now, &mut effects);
        for effect in effects {
            self.trace.push(format!("{} {effect:?}", self.now));
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: NodeEffect) {
        match effect {
            NodeEffect::Send(daemon, session, message) => self.daemon_sends(daemon, session, &message),
            NodeEffect::Commit(token, _) => {
                let delay = self.random(3_000_000);
                self.after(delay, Happening::Node(NodeEvent::Mon(MonEvent::Committed { token })));
            }
            NodeEffect::GlobalId(session, id) => self.authenticated(session, id),
            NodeEffect::Dial(osd, io) => self.dial(osd, io),
            NodeEffect::Close(daemon, session, reason) => panic!("{daemon} closed {session}: {reason}"),
            NodeEffect::Failed(daemon, reason) => panic!("{daemon}: {reason}"),
            NodeEffect::Log(..) | NodeEffect::Active(_) | NodeEffect::Stopped(_) => {}
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
            Peer::Client(_) => self.carry(session, false, Happening::ToClient(session, message)),
        }
    }

    fn session(&mut self, peer: Peer) -> SessionId {
        self.sessions += 1;
        let session = SessionId(self.sessions);
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
            Peer::Client(_) => self.info(session, EntityType::Client, -1, global_id),
        };
        self.carry(session, true, Happening::Node(NodeEvent::Mon(MonEvent::SessionOpened(info))));
    }

    // --- clients ---

    pub fn connect_client(&mut self) -> usize {
        let client = self.clients.len();
        let mon = self.session(Peer::Client(client));
        let (osds, acks, pending) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        self.clients.push(Client { mon, osds, tid: 0, acks, pending });
        self.tell(NodeEvent::Mon(MonEvent::GlobalIdWanted { session: mon, asked: 0 }));
        client
    }

    fn next_tid(&mut self, client: usize) -> u64 {
        self.clients[client].tid += 1;
        self.clients[client].tid
    }

    /// Sends a command and waits for its answer.
    pub fn command(&mut self, client: usize, json: &str) -> MonCommandAck {
        let (tid, session) = (self.next_tid(client), self.clients[client].mon);
        let command = MonCommand {
            tid,
            paxos: Default::default(),
            fsid: Fsid::default(),
            cmd: vec![Name::from(json)],
            data: Rope::new(),
        };
        let message = Self::wire(&command.into());
        self.carry(session, true, Happening::Node(NodeEvent::Mon(MonEvent::Message { session, message })));
        self.run_until(json, |s| s.clients[client].acks.contains_key(&tid));
        self.clients[client].acks.remove(&tid).unwrap()
    }

    fn client_hears(&mut self, session: SessionId, message: Message) {
        let Peer::Client(client) = self.peers[&session] else { return };
        match message {
            Message::MonCommandAck(ack) => drop(self.clients[client].acks.insert(ack.tid, ack)),
            Message::OsdOpReply(reply) => self.operation_done(client, &reply),
            // Maps: placement is taken from the monitor itself.
            _ => {}
        }
    }

    /// A write, append, removal or read of a random object that nothing is under way for.
    pub fn random_operation(&mut self, client: usize, pool: &str) {
        let object = Name::from(format!("object-{}", self.random(40)));
        if self.busy.contains_key(&object) {
            return self.run_until("an operation ends", |s| !s.busy.contains_key(&object));
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

    fn send_op(&mut self, client: usize, pool: &str, object: Name, op: Op, becomes: Option<Vec<u8>>) {
        let map = self.node.mon().unwrap().osdmap();
        let pool_id = map.pool_by_name(pool).unwrap();
        let locator = ObjectLocator { pool: pool_id, key: Name::new(), nspace: Name::new(), hash: -1 };
        let raw = map.object_to_pg(&locator, &object).unwrap();
        let pg = map.raw_pg_to_pg(raw).unwrap();
        let (primary, epoch) = (map.pg_to_up_acting(pg).acting_primary.unwrap(), map.epoch);
        let session = self.osd_session(client, primary);
        let tid = self.next_tid(client);
        let flags = if becomes.is_some() { OsdFlags::WRITE | OsdFlags::ONDISK } else { OsdFlags::READ };
        let message = osd_op(tid, SpgId::from(pg), raw.seed, epoch, flags, locator, object.clone(), op);
        let message = Self::wire(&message.into());
        self.busy.insert(object.clone(), tid);
        self.clients[client].pending.insert(tid, Pending { object, becomes });
        let event = OsdEvent::Message { session, message, bytes: 4096 };
        self.carry(session, true, Happening::Node(NodeEvent::Osd(primary, event)));
    }

    fn osd_session(&mut self, client: usize, osd: OsdId) -> SessionId {
        if let Some(session) = self.clients[client].osds.get(&osd) {
            return *session;
        }
        let session = self.session(Peer::Client(client));
        self.clients[client].osds.insert(osd, session);
        let info = self.info(session, EntityType::Client, -1, 5000 + client as u64);
        self.carry(session, true, Happening::Node(NodeEvent::Osd(osd, OsdEvent::SessionOpened(info))));
        session
    }

    fn operation_done(&mut self, client: usize, reply: &OsdOpReply) {
        let pending = self.clients[client].pending.remove(&reply.tid).expect("answered once");
        self.busy.remove(&pending.object);
        let is = self.model.get(&pending.object);
        match pending.becomes {
            None => {
                let (want_code, want) = is.map_or((-2, Vec::new()), |data| (0, data.clone()));
                assert_eq!(reply.result, want_code, "read of {}", pending.object);
                let got: Vec<u8> = reply.ops.iter().flat_map(|o| o.outdata.to_vec()).collect();
                assert!(got == want, "{} holds {} bytes, expected {}", pending.object, got.len(), want.len());
            }
            Some(new) => {
                assert_eq!(reply.result, 0, "write of {}", pending.object);
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

#[allow(clippy::too_many_arguments, reason = "a message's fields, one each")]
fn osd_op(
    tid: u64,
    pgid: SpgId,
    hash: u32,
    epoch: Epoch,
    flags: u32,
    locator: ObjectLocator,
    oid: Name,
    op: Op,
) -> OsdOp {
    OsdOp {
        tid,
        pgid,
        hash,
        epoch,
        flags,
        reqid: ReqId::default(),
        trace: Default::default(),
        otel_trace: None,
        client_inc: 0,
        mtime: UTime { sec: 1, nsec: 0 },
        locator,
        oid,
        ops: vec![op],
        snapid: SnapId::HEAD,
        snap_seq: 0,
        snaps: Vec::new(),
        retry_attempt: 0,
        features: FEATURES,
        data_offset: 0,
    }
}
