//! Clients' processes: an objecter each, and its effects on the network.

use std::collections::{BTreeMap, BTreeSet};

use auth::SessionId;
use messages::{Message, MonCommandAck, PoolOp, PoolOpReply};
use monclient::{MonClientEvent, MonClientIo};
use objecter::{CommandId, MapWaitId, Objecter, ObjecterConfig, ObjecterEffect, ObjecterEvent, RequestId};
use types::{Profile, UTime};

use crate::Place;
use crate::daemons::{FEATURES, monitors};
use crate::images::{Call, Locker, User};
use crate::listings::{Listing, Part};
use crate::network::{Dialled, Packet, Way};
use crate::world::{BASE, Happening, World};

/// What the monitor is asked to do.
#[derive(Clone, Debug)]
pub enum Command {
    Text(String),
    PoolOp(PoolOp),
}

/// The purpose of a command or of a wait for a map.
#[derive(Clone, Debug)]
pub enum Purpose {
    Nothing,
    MakePool,
    /// The pool of some of what is copied.
    MakePoolElsewhere,
    /// A snapshot was made or removed.
    Snapshots,
    /// A client's process that was fenced.
    Fence {
        client: usize,
        life: u32,
    },
    /// The same, to break its lock of an image.
    TakeLock {
        image: usize,
        locker: Locker,
        client: usize,
        life: u32,
    },
}

pub struct Client {
    pub core: Objecter,
    pub life: u32,
    /// Whether the process runs.
    pub alive: bool,
    /// Whether an OSD reported it as fenced: it sends no more requests.
    pub is_fenced: bool,
    pub global_id: u64,
    wake: Option<u64>,
    /// Operations under way, by their place in the history.
    pub requests: BTreeMap<RequestId, usize>,
    /// Calls under way, with their image.
    pub calls: BTreeMap<RequestId, (usize, Call)>,
    /// Requests of listings, and of what is listed.
    pub parts: BTreeMap<RequestId, Part>,
    pub listing: Option<Listing>,
    /// Requests that end watches.
    pub unwatches: BTreeSet<RequestId>,
    /// What it is at with each image.
    pub users: BTreeMap<usize, User>,
    pub commands: BTreeMap<CommandId, Purpose>,
    pub waits: BTreeMap<MapWaitId, Purpose>,
}

fn new_core(seed: u64, request_timeout: u64) -> Objecter {
    let mut config = ObjecterConfig::new(monitors(None), Profile::PACIFIC);
    config.seed = seed;
    config.request_timeout = std::time::Duration::from_secs(request_timeout);
    Objecter::new(config)
}

impl Client {
    pub fn new() -> Self {
        Self {
            core: new_core(0, 0),
            life: 0,
            alive: false,
            is_fenced: false,
            global_id: 0,
            wake: None,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            parts: BTreeMap::new(),
            listing: None,
            unwatches: BTreeSet::new(),
            users: BTreeMap::new(),
            commands: BTreeMap::new(),
            waits: BTreeMap::new(),
        }
    }
}

impl World {
    pub(crate) fn start_client(&mut self, index: usize) {
        let seed = self.random(u64::MAX);
        // The client that gives commands never gives a request up.
        let timeout = if index == self.admin() { 0 } else { self.plan.request_timeout };
        let client = &mut self.clients[index];
        let life = client.life + 1;
        *client = Client { core: new_core(seed, timeout), life, alive: true, ..Client::new() };
        self.say(Place::Client(index), "starts");
        self.with_client(index, |core, now, out| core.start(now, out));
        self.after(0, Happening::Think(index, life));
        if index != self.admin() {
            if self.plan.listings {
                self.after(0, Happening::ListTurn(index, life));
            }
            (0..self.plan.images).for_each(|image| self.after(0, Happening::ImageTurn(index, life, image)));
            (0..self.plan.notes).for_each(|note| self.after(0, Happening::NoteTurn(index, life, note)));
        }
    }

    pub(crate) fn end_client(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.alive = false;
        // Their operations stay without an answer.
        client.requests.clear();
        client.calls.clear();
        client.parts.clear();
        client.listing = None;
        client.unwatches.clear();
        client.commands.clear();
        client.waits.clear();
        self.say(Place::Client(index), "ends");
        self.break_connections_of(Place::Client(index), false);
    }

    pub(crate) fn with_client<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Objecter, UTime, &mut Vec<ObjecterEffect>) -> T,
    ) -> T {
        let now = self.time();
        let mut effects = Vec::new();
        let client = &mut self.clients[index];
        let result = act(&mut client.core, now, &mut effects);
        let deadline = client.core.deadline();
        if let Some(deadline) = deadline {
            let at = (deadline.as_nanos().saturating_sub(BASE)).max(self.now + 1_000);
            let client = &mut self.clients[index];
            if client.wake.is_none_or(|wake| at < wake) {
                client.wake = Some(at);
                let life = client.life;
                self.at(at, Happening::ClientWake(index, life, at));
            }
        }
        effects.into_iter().for_each(|effect| self.client_wants(index, effect));
        result
    }

    pub(crate) fn client_wake(&mut self, index: usize, life: u32, at: u64) {
        let client = &mut self.clients[index];
        if client.alive && client.life == life && client.wake == Some(at) {
            client.wake = None;
            self.client_event(index, ObjecterEvent::Tick);
        }
    }

    pub(crate) fn client_event(&mut self, index: usize, event: ObjecterEvent) {
        if self.clients[index].alive {
            self.with_client(index, |core, now, out| core.handle(now, event, out));
        }
    }

    fn client_wants(&mut self, index: usize, effect: ObjecterEffect) {
        let place = Place::Client(index);
        let life = self.clients[index].life;
        let of = |world: &Self, name| world.net.dialled(place, life, name);
        let send = |world: &mut Self, name, message: Message| {
            if let Some(session) = of(world, name) {
                world.send_packet(session, Way::Up, Packet::Message(message.encode(FEATURES)));
            }
        };
        let close = |world: &mut Self, name| {
            if let Some(session) = of(world, name) {
                world.close_side(session, Way::Up, "closed by the client");
            }
        };
        match effect {
            ObjecterEffect::Mon(MonClientIo::Connect(attempt, _)) => {
                self.connect(place, Dialled::Mon(attempt), Place::Mon, self.mon.life);
            }
            ObjecterEffect::Mon(MonClientIo::Send(attempt, message)) => {
                send(self, Dialled::Mon(attempt), message);
            }
            ObjecterEffect::Mon(MonClientIo::Keepalive(attempt)) => {
                if let Some(session) = of(self, Dialled::Mon(attempt)) {
                    self.send_packet(session, Way::Up, Packet::Keepalive);
                }
            }
            ObjecterEffect::Mon(MonClientIo::Disconnect(attempt)) => close(self, Dialled::Mon(attempt)),
            ObjecterEffect::Connect(session, osd, addrs) => {
                // The nonce identifies the process: a later process at the same address refuses the connection.
                let life = addrs.v2().map_or(0, |addr| addr.nonce);
                self.connect(place, Dialled::Osd(session), Place::Osd(osd.0), life);
            }
            ObjecterEffect::Send(session, message) => send(self, Dialled::Osd(session), message),
            ObjecterEffect::Disconnect(session) => close(self, Dialled::Osd(session)),
            ObjecterEffect::Done(id, outcome) => self.operation_done(index, id, &outcome),
            ObjecterEffect::CommandDone(id, ack) => self.command_done(index, id, &ack),
            ObjecterEffect::PoolOpDone(id, reply) => self.pool_op_done(index, id, &reply),
            ObjecterEffect::MapReached(id) => self.map_reached(index, id),
            ObjecterEffect::Watch(id, event) => self.watch_event(index, id, event),
            ObjecterEffect::NotifyDone(id, outcome) => self.notify_done(index, id, outcome),
            ObjecterEffect::Warning(text) => self.say(place, &text),
        }
    }

    /// Sends a command to the monitor once those before it are answered, because the monitor may run concurrent ones in another
    /// order.
    pub(crate) fn command(&mut self, json: &str, purpose: Purpose) {
        self.give(Command::Text(json.into()), purpose);
    }

    pub(crate) fn give(&mut self, command: Command, purpose: Purpose) {
        self.commands.push_back((command, purpose));
        self.next_command();
    }

    fn next_command(&mut self) {
        let admin = self.admin();
        if !self.clients[admin].commands.is_empty() {
            return;
        }
        // Nothing waits.
        let Some((command, purpose)) = self.commands.pop_front() else { return };
        self.say(Place::Client(admin), &format!("commands {command:?}"));
        let id = self.with_client(admin, |core, now, out| match command {
            Command::Text(json) => core.command(now, json, Default::default(), out),
            Command::PoolOp(op) => core.pool_op(now, op, out),
        });
        self.clients[admin].commands.insert(id, purpose);
    }

    fn command_done(&mut self, index: usize, id: CommandId, ack: &MonCommandAck) {
        let purpose = self.clients[index].commands.remove(&id).unwrap_or(Purpose::Nothing);
        if ack.result != 0 {
            return self.fail(format!("the command {:?} failed: {} {}", ack.cmd, ack.result, ack.status));
        }
        self.next_command();
        match purpose {
            Purpose::Nothing => {}
            Purpose::MakePool
            | Purpose::MakePoolElsewhere
            | Purpose::Snapshots
            | Purpose::Fence { .. }
            | Purpose::TakeLock { .. } => {
                let id = self.with_client(index, |core, _, out| core.wait_for_latest_map(out));
                self.clients[index].waits.insert(id, purpose);
            }
        }
    }

    fn pool_op_done(&mut self, index: usize, id: CommandId, reply: &PoolOpReply) {
        self.clients[index].commands.remove(&id);
        if reply.result != 0 {
            return self.fail(format!("a pool operation failed: {}", reply.result));
        }
        self.next_command();
        self.snap_given(reply);
    }

    fn map_reached(&mut self, index: usize, id: MapWaitId) {
        let epoch = self.clients[index].core.epoch().0;
        match self.clients[index].waits.remove(&id) {
            None | Some(Purpose::Nothing) => {}
            Some(Purpose::MakePool) => {
                let pool = self.clients[index].core.map().and_then(|map| map.pool_by_name("data"));
                self.pool = pool;
                match pool {
                    Some(_) => {
                        self.make_notes();
                        self.make_listed();
                    }
                    None => self.fail("the pool that was made is not in the map".into()),
                }
            }
            Some(Purpose::MakePoolElsewhere) => {
                let map = self.clients[index].core.map();
                self.pool_elsewhere = map.and_then(|map| map.pool_by_name("elsewhere"));
            }
            Some(Purpose::Snapshots) => self.note_pool_snaps(index),
            Some(Purpose::Fence { client, life }) => {
                self.say(Place::Client(client), &format!("process {life} is fenced by epoch {epoch}"));
                self.history.fences.push(crate::history::Fence { client, life, epoch });
            }
            Some(Purpose::TakeLock { image, locker, client, life }) => {
                self.say(Place::Client(client), &format!("process {life} is fenced by epoch {epoch}"));
                self.history.fences.push(crate::history::Fence { client, life, epoch });
                self.break_lock(index, image, &locker);
            }
        }
    }

    fn dialled_name(&self, id: SessionId) -> Option<(Place, Dialled)> {
        let connection = self.net.connections.get(&id)?;
        Some((connection.initiator().0, connection.dialled))
    }

    pub(crate) fn dialled_opened(&mut self, id: SessionId) {
        match self.dialled_name(id) {
            Some((place, Dialled::Mon(attempt))) => {
                self.mon_news(place, MonClientEvent::Connected(attempt));
            }
            Some((Place::Client(index), Dialled::Osd(session))) => {
                self.client_event(index, ObjecterEvent::Connected(session));
            }
            Some((Place::Osd(osd), Dialled::Peer(..))) => self.peer_opened(id, osd),
            _ => {}
        }
    }

    pub(crate) fn dialled_ended(&mut self, id: SessionId, reason: &str) {
        match self.dialled_name(id) {
            Some((place, Dialled::Mon(attempt))) => {
                self.mon_news(place, MonClientEvent::Disconnected(attempt, reason.into()));
            }
            Some((Place::Client(index), Dialled::Osd(session))) => {
                self.client_event(index, ObjecterEvent::Reset(session, reason.into()));
            }
            Some((Place::Osd(osd), Dialled::Peer(..))) => self.peer_ended(id, osd),
            _ => {}
        }
    }

    pub(crate) fn keepalive_acked(&mut self, id: SessionId) {
        if let Some((place, Dialled::Mon(attempt))) = self.dialled_name(id) {
            self.mon_news(place, MonClientEvent::KeepaliveAcked(attempt));
        }
    }

    fn mon_news(&mut self, place: Place, event: MonClientEvent) {
        match place {
            Place::Osd(id) => self.osd_mon_event(id, event),
            Place::Client(index) => self.client_event(index, ObjecterEvent::Mon(event)),
            Place::Mon => {}
        }
    }

    pub(crate) fn deliver_to_initiator(&mut self, place: Place, dialled: Dialled, message: Message) {
        match (place, dialled) {
            (place, Dialled::Mon(attempt)) => self.mon_news(place, MonClientEvent::Message(attempt, message)),
            (Place::Client(index), Dialled::Osd(session)) => {
                self.client_event(index, ObjecterEvent::Message(session, message));
            }
            (Place::Mon | Place::Osd(_), Dialled::Osd(_)) | (_, Dialled::Peer(..)) => {}
        }
    }
}
