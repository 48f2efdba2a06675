//! The monitor's process and the OSDs': the only place that knows how a [`Node`] is driven.

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::{Caps, SessionId, SessionInfo};
use messages::Message;
use mon::state::{Batch, State};
use mon::{InitialOsd, Mon, MonConfig, MonEvent};
use monclient::{MonClientConfig, MonClientEvent, MonClientIo};
use node::{Daemon, Node, NodeEffect, NodeEvent};
use options::Values;
use osd::{CoreId, LogLevel, Osd, OsdAddrs, OsdConfig, OsdEvent, PartMessage, Placement};
use store::sim::SimOptions;
use store::{ObjectStore, StoreShard};
use types::{EntityAddr, EntityName, EntityType, Fsid, OsdId, Profile, UTime};

use crate::block_store::BlockStoreOnDisks;
use crate::describe::describe;
use crate::network::{Dialled, Packet, Way};
use crate::plan::{Defect, Fault};
use crate::store_handle::StoreHandle;
use crate::world::{BASE, Happening, World};
use crate::{Place, Plan};

pub const FEATURES: u64 = Profile::PACIFIC.features_supported;

/// How a process is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Everything that it handed to its store becomes durable.
    Killed,
    /// A part of its writes that were not durable is lost.
    PowerLoss,
}

pub struct MonProcess {
    pub node: Option<Node>,
    pub life: u32,
    config: MonConfig,
    state: State,
    committing: Option<(u64, Batch)>,
}

pub struct OsdProcess {
    id: i32,
    /// Empty while the process does not run.
    cores: Vec<Core>,
    pub life: u32,
    placement: Arc<Placement>,
    /// A handle for each store shard.
    pub stores: Vec<StoreHandle>,
    /// When the last message from one core to another arrives, by sender and receiver.
    last: BTreeMap<(CoreId, CoreId), u64>,
    uuid: Fsid,
    /// Whether its store was made to fail.
    pub may_fail: bool,
}

/// A core of an OSD's process.
struct Core {
    node: Node,
    wake: Option<u64>,
}

fn addr(host: u8, port: u16, nonce: u32) -> EntityAddr {
    EntityAddr::v2(([10, 0, 0, host], port).into(), nonce)
}

pub fn mon_addr() -> EntityAddr {
    addr(1, 3300, 0)
}

pub fn osd_addr(osd: i32, life: u32) -> EntityAddr {
    addr(10 + osd as u8, 6800, life)
}

/// A client's address, `10.0.0.H:0/NONCE`.
pub fn client_addr(index: usize, life: u32) -> EntityAddr {
    addr(100 + index as u8, 0, life)
}

fn fsid(seed: u64) -> Fsid {
    Fsid::from_random([seed as u8 | 1; 16])
}

/// How clients and OSDs find the monitor. The simulated transport can hang, so they send keepalives.
pub fn monitors(fsid: Option<Fsid>) -> MonClientConfig {
    let ping_interval = std::time::Duration::from_secs(10);
    MonClientConfig { ping_interval, ..MonClientConfig::new(vec![mon_addr().into()], fsid) }
}

impl MonProcess {
    pub fn new(plan: &Plan) -> Self {
        let uuid = |id: i32| Fsid::from_random([id as u8 + 100; 16]);
        let osds =
            (0..plan.osds).map(|id| InitialOsd { id, uuid: uuid(id), size_bytes: 1 << 30, class: None });
        let config = MonConfig {
            fsid: fsid(plan.seed),
            name: "a".into(),
            addr: mon_addr(),
            manager: None,
            hostname: "host".into(),
            profile: Profile::PACIFIC,
            version: "sim".into(),
            options: Values::new(),
            key_seed: [0; 32],
            machine: Default::default(),
            osds: osds.collect(),
        };
        let mut state = State::new();
        Mon::create(&config, UTime::from_nanos(BASE)).unwrap().apply_to(&mut state);
        Self { node: None, life: 0, config, state, committing: None }
    }
}

/// Block stores are made so long before the run, nanoseconds.
const MAKING_TIME: u64 = 1_000_000_000_000;

/// An OSD that stopped as asked is started again within this time, nanoseconds.
const STOPPED_TIME: u64 = 20_000_000_000;

/// One in so many requests comes from a client that does not take its answers for a while, and a multiple of so many nanoseconds.
const BEHIND_EACH: u64 = 11;
const BEHIND_NANOS: u64 = 30_000_000;

impl OsdProcess {
    pub fn new(plan: &Plan, id: i32) -> Self {
        let shards = plan.shards.len() as u64;
        let store = |shard: u64| {
            let seed = plan.seed.wrapping_mul(31).wrapping_add(id as u64 + (shard << 32));
            let bytes_total = plan.store_bytes / shards;
            match &plan.disks {
                Some(disks) => {
                    let made = UTime::from_nanos(BASE - MAKING_TIME);
                    StoreHandle::on_disks(BlockStoreOnDisks::new(disks, bytes_total, seed, made))
                }
                None => StoreHandle::in_memory(SimOptions {
                    bytes_total,
                    shards: 1,
                    seed,
                    commit_us: plan.commit_us.clone(),
                    read_us: plan.read_us.clone(),
                }),
            }
        };
        let cores = |cores: &[u16]| cores.iter().copied().map(CoreId).collect();
        Self {
            id,
            cores: Vec::new(),
            life: 0,
            placement: Arc::new(Placement::new(cores(&plan.gates), cores(&plan.shards)).unwrap()),
            stores: (0..shards).map(store).collect(),
            last: BTreeMap::new(),
            uuid: Fsid::from_random([id as u8 + 100; 16]),
            may_fail: false,
        }
    }

    pub fn is_running(&self) -> bool {
        !self.cores.is_empty()
    }

    /// Gives its store another size, from the next opening on.
    pub fn resize(&mut self, bytes: u64) {
        let share = bytes / self.stores.len() as u64;
        self.stores.iter().for_each(|store| store.resize(share));
    }

    /// The core that takes an event.
    fn core_of(&self, event: &OsdEvent) -> CoreId {
        match event {
            OsdEvent::SessionOpened(info) => CoreId::of(info.id),
            OsdEvent::SessionClosed(session)
            | OsdEvent::SessionBehind { session, .. }
            | OsdEvent::Message { session, .. } => CoreId::of(*session),
            _ => self.placement.control(),
        }
    }
}

fn session_info(
    id: SessionId,
    (entity, name, addr): (String, EntityName, EntityAddr),
    global_id: u64,
) -> SessionInfo {
    SessionInfo {
        id,
        entity: entity.parse().unwrap(),
        global_id: if global_id > 0 { global_id } else { name.num as u64 },
        name,
        caps: Caps::all(),
        features: FEATURES,
        peer_addrs: addr.into(),
        local_nonce: 0,
    }
}

impl World {
    pub(crate) fn osd(&mut self, id: i32) -> &mut OsdProcess {
        &mut self.osds[id as usize]
    }

    pub(crate) fn start_mon(&mut self) {
        let now = self.time();
        let mon = &mut self.mon;
        mon.life += 1;
        let mut node = Node::new();
        node.add_mon(Mon::open(mon.config.clone(), mon.state.clone(), now).unwrap());
        mon.node = Some(node);
        let life = mon.life;
        self.say(Place::Mon, "starts");
        self.after(0, Happening::MonTick(life));
    }

    pub(crate) fn end_mon(&mut self, silent: bool) {
        let committing = self.mon.committing.take();
        if let Some((_, batch)) = committing.filter(|_| self.one_in(2)) {
            batch.apply_to(&mut self.mon.state);
        }
        self.mon.node = None;
        self.say(Place::Mon, "ends");
        self.break_connections_of(Place::Mon, silent);
    }

    pub(crate) fn mon_tick(&mut self, life: u32) {
        if self.mon.life == life && self.mon.node.is_some() {
            self.mon_event(MonEvent::Tick);
            self.after(1_000_000_000, Happening::MonTick(life));
        }
    }

    pub(crate) fn mon_committed(&mut self, life: u32, token: u64) {
        // The commit of a process that has ended since.
        let committing = self.mon.committing.take_if(|(t, _)| self.mon.life == life && *t == token);
        let Some((token, batch)) = committing else { return };
        batch.apply_to(&mut self.mon.state);
        self.mon_event(MonEvent::Committed { token });
    }

    fn mon_event(&mut self, event: MonEvent) {
        self.drive(Place::Mon, CoreId(0), NodeEvent::Mon(event));
    }

    pub(crate) fn start_osd(&mut self, id: i32) {
        let (fsid, defect, now) = (fsid(self.plan.seed), self.plan.defect, self.time());
        let mut options = Values::new();
        for (name, value) in &self.plan.options {
            options.set(name, value).unwrap();
        }
        let process = self.osd(id);
        if process.is_running() {
            return;
        }
        let opened = process.stores.iter().try_for_each(|store| store.open(now, defect));
        if let Err(error) = opened {
            return self.fail(format!("osd.{id}: {error}"));
        }
        process.life += 1;
        process.last.clear();
        process.may_fail = false;
        let config = OsdConfig {
            whoami: OsdId(id),
            cluster_fsid: fsid,
            osd_fsid: process.uuid,
            addrs: OsdAddrs::same(osd_addr(id, process.life)),
            metadata: BTreeMap::new(),
            profile: Profile::PACIFIC,
            monitors: monitors(Some(fsid)),
            options,
        };
        let all = process.placement.all_cores().last().map_or(0, |core| core.0 + 1);
        for core in (0..all).map(CoreId) {
            let mut osd = Osd::on_core(config.clone(), core, process.placement.clone());
            if let Some(Defect::Pg(bug)) = defect {
                osd.plant(pg::Planted::new(Some(bug)));
            }
            let mut stores: Vec<(StoreShard, Box<dyn ObjectStore>)> = Vec::new();
            for (shard, store) in process.stores.iter().enumerate() {
                if process.placement.shards()[shard] == core {
                    stores.push((StoreShard(shard as u32), Box::new(store.clone())));
                }
            }
            let mut node = Node::new();
            node.add_osd_parts(OsdId(id), osd, stores);
            process.cores.push(Core { node, wake: None });
        }
        self.say(Place::Osd(id), "starts");
        self.osd_event(id, OsdEvent::Start);
    }

    /// Ends an OSD's process at once.
    pub(crate) fn end_osd(&mut self, id: i32, ending: Ending) {
        let now = self.time();
        let process = self.osd(id);
        process.cores.clear();
        process.stores.iter().for_each(|store| store.end(now, ending));
        self.say(Place::Osd(id), &format!("ends: {ending:?}"));
        self.break_connections_of(Place::Osd(id), ending == Ending::PowerLoss);
    }

    pub(crate) fn stop_osd(&mut self, id: i32) {
        self.say(Place::Osd(id), "is asked to stop");
        self.osd_event(id, OsdEvent::Shutdown);
    }

    pub(crate) fn osd_event(&mut self, id: i32, event: OsdEvent) {
        let core = self.osd(id).core_of(&event);
        self.core_event(id, core, event);
    }

    fn core_event(&mut self, id: i32, core: CoreId, event: OsdEvent) {
        self.drive(Place::Osd(id), core, NodeEvent::Osd(OsdId(id), event));
    }

    pub(crate) fn osd_continue(&mut self, id: i32, core: CoreId, life: u32) {
        if self.osd(id).life == life {
            self.core_event(id, core, OsdEvent::Continue);
        }
    }

    pub(crate) fn core_message(&mut self, id: i32, core: CoreId, life: u32, message: PartMessage) {
        if self.osd(id).life == life {
            self.core_event(id, core, OsdEvent::FromCore(message));
        }
    }

    /// Sends from one core of an OSD to another. Messages of two cores keep their order; others overtake each other.
    fn send_to_core(&mut self, id: i32, from: CoreId, to: CoreId, message: PartMessage) {
        let delay = self.core_delay();
        let (now, ordered) = (self.now, self.plan.defect != Some(Defect::CoresLoseOrder));
        let process = self.osd(id);
        let life = process.life;
        let last = process.last.entry((from, to)).or_default();
        *last = (now + delay).max(if ordered { *last + 1 } else { 0 });
        let at = *last;
        self.at(at, Happening::CoreMessage(id, to, life, message));
    }

    /// The OSD's cluster address is another one now. (Nothing in the simulation connects there yet.)
    pub(crate) fn osd_rebound(&mut self, id: i32, life: u32) {
        if self.osd(id).life == life {
            let nonce = life + 1_000_000;
            self.osd_event(id, OsdEvent::Rebound(addr(10 + id as u8, 6801, nonce).into()));
        }
    }

    pub(crate) fn osd_wake(&mut self, id: i32, core: CoreId, at: u64) {
        // The OSD was started on fewer cores since.
        let Some(slot) = self.osd(id).cores.get_mut(usize::from(core.0)) else { return };
        if slot.wake == Some(at) {
            slot.wake = None;
            self.drive(Place::Osd(id), core, NodeEvent::Tick);
        }
    }

    fn drive(&mut self, place: Place, core: CoreId, event: NodeEvent) {
        let now = self.time();
        let node = match place {
            Place::Mon => self.mon.node.as_mut(),
            Place::Osd(id) => {
                self.osds[id as usize].cores.get_mut(usize::from(core.0)).map(|core| &mut core.node)
            }
            Place::Client(_) => None,
        };
        // A process that has ended.
        let Some(node) = node else { return };
        let mut effects = Vec::new();
        node.handle(now, event, &mut effects);
        node.turn(now, &mut effects);
        let deadline = node.deadline();
        if let (Place::Osd(id), Some(deadline)) = (place, deadline) {
            let at = (deadline.as_nanos().saturating_sub(BASE)).max(self.now + 1_000);
            let slot = &mut self.osd(id).cores[usize::from(core.0)];
            if slot.wake.is_none_or(|wake| at < wake) {
                slot.wake = Some(at);
                self.at(at, Happening::OsdWake(id, core, at));
            }
        }
        if let Place::Osd(id) = place {
            self.note_served(id, &effects);
        }
        effects.into_iter().for_each(|effect| self.perform(place, core, effect));
    }

    /// Notes the changes that an OSD began and the requests that it answered in an event.
    fn note_served(&mut self, id: i32, effects: &[NodeEffect]) {
        let logged: Vec<_> = self.osd(id).stores.iter().flat_map(StoreHandle::take_logged).collect();
        let mut begun = Vec::new();
        for (reqid, epoch, version) in logged {
            // The PG's own, and those of clients' own requests.
            let Some(&place) = self.requests.get(&(reqid.name.num, reqid.tid)) else { continue };
            // A PG that is split writes its log again.
            let before = std::mem::replace(&mut self.history.operations[place].logged, (epoch.0, version));
            if before != (epoch.0, version) {
                begun.push(self.history.operations[place].mark);
            }
        }
        self.served.event(begun);
        for effect in effects {
            if let NodeEffect::Send(_, _, Message::OsdOpReply(reply)) = effect
                && reply.result >= 0
            {
                self.served.answer(&String::from_utf8_lossy(&reply.oid), reply.epoch.0);
            }
        }
    }

    fn perform(&mut self, place: Place, core: CoreId, effect: NodeEffect) {
        match effect {
            NodeEffect::Send(_, session, message) => {
                self.lose_refusal(session, &message);
                let raw = message.encode(FEATURES);
                let (connection, way) = self.net.towards(session);
                self.send_packet(connection, way, Packet::Message(raw));
            }
            NodeEffect::Close(_, session, reason) => {
                self.say(place, &format!("closes {session}: {reason}"));
                let (connection, way) = self.net.towards(session);
                self.close_side(connection, way, &reason);
            }
            NodeEffect::Pause(_, session) => self.set_reads(session, false),
            NodeEffect::Resume(_, session) => self.set_reads(session, true),
            NodeEffect::Commit(token, batch) => {
                self.mon.committing = Some((token, batch));
                let delay = self.random(3_000_000);
                self.after(delay, Happening::MonCommitted(self.mon.life, token));
            }
            NodeEffect::GlobalId(session, id) => self.authenticated(session, id),
            NodeEffect::Continue(osd) => {
                let (life, delay) = (self.osd(osd.0).life, self.random(20_000));
                self.after(delay, Happening::OsdContinue(osd.0, core, life));
            }
            NodeEffect::Rebind(osd) => {
                let (life, delay) = (self.osd(osd.0).life, self.random(20_000));
                self.after(delay, Happening::OsdRebound(osd.0, life));
            }
            NodeEffect::ToCore(to, osd, message) => self.send_to_core(osd.0, core, to, message),
            NodeEffect::SendPeer(osd, to, message) => self.send_to_peer(osd.0, &to, &message),
            NodeEffect::ClosePeer(osd, to) => self.close_peer(osd.0, &to),
            NodeEffect::Dial(osd, io) => self.osd_dials(osd.0, io),
            NodeEffect::Log(_, level, text) => {
                if level <= LogLevel::Info {
                    self.say(place, &text);
                }
            }
            NodeEffect::Active(_) => self.say(place, "is active"),
            NodeEffect::Stopped(osd) => {
                self.end_osd(osd.0, Ending::Killed);
                // The event that starts it may have come while it still waited for the monitor, and had no effect.
                self.after(STOPPED_TIME, Happening::StartOsd(osd.0));
            }
            NodeEffect::MonBehind { osd, has, newest } => {
                self.fail(format!("osd.{osd} has map {has}, and the monitor's newest is {newest}"));
            }
            NodeEffect::Failed(daemon, reason) => self.daemon_failed(daemon, &reason),
            // The trace has everything anyway.
            NodeEffect::LogLevel(..) | NodeEffect::StoreMemory(_) => {}
            NodeEffect::AdminAnswer(osd, ..) => {
                self.fail(format!("osd.{osd} answers a command that it was not given"));
            }
            // It is removed once it has stopped or failed.
            NodeEffect::Ended(_) => {}
        }
    }

    /// Sometimes the answer that says a change was refused gets lost: rare by chance, and what a PG has to remember.
    fn lose_refusal(&mut self, session: SessionId, message: &Message) {
        let refused =
            matches!(message, Message::OsdOpReply(reply) if reply.result == types::Errno::ENOSPC.code());
        let may = self.plan.faults.contains(&Fault::Reset) || self.plan.faults.contains(&Fault::RefuseSpace);
        if refused && may && self.one_in(3) {
            self.after(0, Happening::BreakSide(session, Way::Down));
            self.break_connection(session);
        }
    }

    fn daemon_failed(&mut self, daemon: Daemon, reason: &str) {
        match daemon {
            Daemon::Osd(id) if self.osd(id.0).may_fail => {
                self.say(Place::Osd(id.0), &format!("fails: {reason}"));
                self.end_osd(id.0, Ending::PowerLoss);
                let delay = self.random(3_000_000_000);
                self.after(delay, Happening::StartOsd(id.0));
            }
            daemon => self.fail(format!("{daemon} failed: {reason}")),
        }
    }

    // --- sessions ---

    pub(crate) fn accept(&mut self, session: SessionId, place: Place) {
        match place {
            Place::Mon => {
                self.mark_open(session);
                let asked = match self.net.connections[&session].initiator() {
                    (Place::Client(index), _) => self.clients[index].global_id,
                    _ => 0,
                };
                self.mon_event(MonEvent::GlobalIdWanted { session, asked });
            }
            Place::Osd(id) => {
                if self.plan.replaces_sessions {
                    self.replace_older(session);
                }
                self.mark_open(session);
                let info = self.info(session, 0);
                self.send_packet(session, Way::Down, Packet::Open);
                self.osd_event(id, OsdEvent::SessionOpened(info));
            }
            Place::Client(_) => {}
        }
    }

    /// The monitor gave an id: the session opens at both ends.
    fn authenticated(&mut self, session: SessionId, global_id: u64) {
        // The connection has ended at both ends meanwhile.
        let Some(connection) = self.net.connections.get(&session) else { return };
        if let (Place::Client(index), life) = connection.initiator() {
            if self.clients[index].life == life {
                self.clients[index].global_id = global_id;
            }
        }
        let info = self.info(session, global_id);
        self.send_packet(session, Way::Down, Packet::Open);
        self.mon_event(MonEvent::SessionOpened(info));
    }

    /// Of a session with an OSD, but its address.
    pub(crate) fn osd_info(&self, id: SessionId, osd: i32) -> SessionInfo {
        let name = EntityName::new(EntityType::Osd, osd.into());
        session_info(id, (format!("osd.{osd}"), name, osd_addr(osd, 0)), 0)
    }

    fn info(&self, id: SessionId, global_id: u64) -> SessionInfo {
        let (place, life) = self.net.connections[&id].initiator();
        let (entity, name, addr) = match place {
            Place::Osd(osd) => {
                let name = EntityName::new(EntityType::Osd, osd.into());
                (format!("osd.{osd}"), name, osd_addr(osd, life))
            }
            Place::Client(index) => {
                let global_id = self.clients[index].global_id;
                let name = EntityName::new(EntityType::Client, global_id as i64);
                ("client.admin".into(), name, client_addr(index, life))
            }
            Place::Mon => unreachable!("the monitor connects to no daemon"),
        };
        session_info(id, (entity, name, addr), global_id)
    }

    pub(crate) fn session_closed(&mut self, session: SessionId, place: Place) {
        match place {
            Place::Mon => self.mon_event(MonEvent::SessionClosed(session)),
            Place::Osd(id) => self.osd_event(id, OsdEvent::SessionClosed(session)),
            Place::Client(_) => {}
        }
    }

    pub(crate) fn deliver_to_daemon(
        &mut self,
        session: SessionId,
        place: Place,
        message: Message,
        bytes: u64,
    ) {
        match place {
            Place::Mon => self.mon_event(MonEvent::Message { session, message }),
            Place::Osd(id) => {
                if let Message::OsdOp(op) = &message
                    && op.tid % BEHIND_EACH == 0
                {
                    self.osd_event(id, OsdEvent::SessionBehind { session, is_behind: true });
                    self.after(op.tid % 7 * BEHIND_NANOS, Happening::CaughtUp(session, id));
                }
                self.osd_event(id, OsdEvent::Message { session, message, bytes });
            }
            Place::Client(_) => {}
        }
    }

    /// A peer has taken what an OSD sent it.
    pub(crate) fn caught_up(&mut self, session: SessionId, osd: i32) {
        if self.net.connections.contains_key(&session) {
            self.osd_event(osd, OsdEvent::SessionBehind { session, is_behind: false });
        }
    }

    fn osd_dials(&mut self, id: i32, io: MonClientIo) {
        let place = Place::Osd(id);
        let life = self.osd(id).life;
        let of = |world: &Self, attempt| world.net.dialled(place, life, Dialled::Mon(attempt));
        match io {
            MonClientIo::Connect(attempt, _) => {
                self.connect(place, Dialled::Mon(attempt), Place::Mon, self.mon.life);
            }
            MonClientIo::Send(attempt, message) => {
                if let Some(session) = of(self, attempt) {
                    self.send_packet(session, Way::Up, Packet::Message(message.encode(FEATURES)));
                }
            }
            MonClientIo::Keepalive(attempt) => {
                if let Some(session) = of(self, attempt) {
                    self.send_packet(session, Way::Up, Packet::Keepalive);
                }
            }
            MonClientIo::Disconnect(attempt) => {
                if let Some(session) = of(self, attempt) {
                    self.close_side(session, Way::Up, "closed by the OSD");
                }
            }
        }
    }

    /// An event of a connection to the monitor, for the OSD that dialled it.
    pub(crate) fn osd_mon_event(&mut self, id: i32, event: MonClientEvent) {
        self.osd_event(id, OsdEvent::Mon(event));
    }

    pub(crate) fn deliver_message(&mut self, id: SessionId, way: Way, to: Place, raw: messages::RawMessage) {
        let bytes = raw.len() as u64;
        let message = match Message::decode_exact(&raw) {
            Ok(message) => message,
            Err(error) => return self.fail(format!("a message to {to} does not decode: {error}")),
        };
        let connection = &self.net.connections[&id];
        let (initiator, dialled) = (connection.initiator().0, connection.dialled);
        let now = self.now;
        self.trace.note(now, (id, way, crate::trace::digest(&raw)), || {
            format!("{to} gets on {id} ({initiator}'s): {}", describe(&message))
        });
        match way {
            Way::Up => self.deliver_to_daemon(id, to, message, bytes),
            Way::Down => match (initiator, dialled) {
                (Place::Osd(osd), Dialled::Peer(..)) => self.peer_message(id, osd, message, &raw),
                _ => self.deliver_to_initiator(initiator, dialled, message),
            },
        }
    }
}

impl OsdProcess {
    /// The requests that the OSD still counts as under way, if any.
    pub fn budget_held(&self) -> Option<String> {
        let of = |core: &Core| core.node.osd(OsdId(self.id)).map_or((0, 0), |osd| osd.held());
        let sum = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
        let (messages, bytes) = self.cores.iter().map(of).fold((0, 0), sum);
        let held = messages > 0 || bytes > 0;
        held.then(|| format!("osd.{} holds {messages} messages of {bytes} bytes", self.id))
    }
}
