//! A monitor and one OSD on MemStore, on one core or several, booted without sockets: what one sends, the other gets in
//! order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use auth::{Caps, SessionId, SessionInfo};
use buffer::Rope;
use messages::{Message, MonCommand};
use mon::state::State;
use mon::{InitialOsd, Mon, MonConfig, MonEvent};
use monclient::{Attempt, MonClientConfig, MonClientEvent, MonClientIo};
use node::{Daemon, Node, NodeEffect, NodeEvent};
use osd::{CoreId, Osd, OsdAddrs, OsdConfig, OsdEvent, Placement};
use store::{MemStore, StoreShard};
use types::{EntityAddr, EntityName, EntityType, Fsid, Name, OsdId, Profile, UTime};

use crate::HotpathError;
use crate::maps::{Turn, Turns};

pub(crate) const OSD: OsdId = OsdId(0);
const STORE_BYTES: u64 = 64 << 30;
/// Ticks that a step of the boot may take.
const TICKS_MAX: u32 = 1000;
/// Simulated time between two ticks.
const TICK_NANOS: u64 = 100_000_000;
const ADMIN: SessionId = SessionId(1);

/// The cores' nodes, and what is on the way between their daemons.
pub(crate) struct Cluster {
    /// By the core's number. The monitor and the OSD's control part are on the first one, a gate and a shard on each.
    pub(crate) nodes: Vec<Node>,
    now: u64,
    /// Events with the core that gets them.
    queue: VecDeque<(usize, NodeEvent)>,
    /// The OSD's connections to the monitor.
    dials: BTreeMap<Attempt, SessionId>,
    sessions: u64,
    /// What the OSD sent to the client outside of [`crate::server::Server`]: replies to what waited.
    pub(crate) to_client: Vec<Message>,
    /// The answer to the command under way.
    answer: Option<(i32, String)>,
    /// How long events take, where that is measured.
    pub(crate) turns: Option<Turns>,
}

fn addr(port: u16) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), 7)
}

pub(crate) fn osd_addr() -> EntityAddr {
    addr(6800)
}

fn failed(what: impl ToString) -> HotpathError {
    HotpathError::Cluster(what.to_string())
}

fn mon(fsid: Fsid, uuid: Fsid, options: &options::Values, now: UTime) -> Result<Mon, HotpathError> {
    let config = MonConfig {
        fsid,
        name: "a".into(),
        addr: addr(3300),
        manager: None,
        hostname: "host".into(),
        profile: Profile::PACIFIC,
        version: "hotpath".into(),
        options: options.clone(),
        key_seed: [0; 32],
        machine: Default::default(),
        osds: vec![InitialOsd { id: OSD.0, uuid, size_bytes: STORE_BYTES, class: None }],
    };
    let mut state = State::new();
    Mon::create(&config, now).map_err(failed)?.apply_to(&mut state);
    Mon::open(config, state, now).map_err(failed)
}

impl Cluster {
    /// Boots until the OSD is up, on so many cores.
    pub(crate) fn boot(cores: u16) -> Result<Self, HotpathError> {
        Self::boot_with(cores, options::Values::new())
    }

    /// The same with options.
    pub(crate) fn boot_with(cores: u16, options: options::Values) -> Result<Self, HotpathError> {
        let (fsid, uuid) = (Fsid::from_random([1; 16]), Fsid::from_random([2; 16]));
        let now = 1_800_000_000_000_000_000;
        let config = OsdConfig {
            whoami: OSD,
            cluster_fsid: fsid,
            osd_fsid: uuid,
            addrs: OsdAddrs::same(osd_addr()),
            metadata: BTreeMap::new(),
            profile: Profile::PACIFIC,
            monitors: MonClientConfig::new(vec![addr(3300).into()], Some(fsid)),
            options: options.clone(),
        };
        let all: Vec<CoreId> = (0..cores).map(CoreId).collect();
        let placement = Placement::new(all.clone(), all.clone()).ok_or_else(|| failed("no core"))?;
        let placement = Arc::new(placement);
        let mut nodes: Vec<Node> = Vec::new();
        for (core, store) in all.into_iter().zip(MemStore::handles(STORE_BYTES, cores.into())) {
            let osd = Osd::on_core(config.clone(), core, placement.clone());
            let mut node = Node::new();
            node.add_osd_parts(OSD, osd, vec![(StoreShard(core.0.into()), Box::new(store))]);
            nodes.push(node);
        }
        nodes[0].add_mon(mon(fsid, uuid, &options, UTime::from_nanos(now))?);
        let (queue, dials, to_client) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        let mut cluster =
            Self { nodes, now, queue, dials, sessions: 10, to_client, answer: None, turns: None };
        cluster.tell(0, NodeEvent::Osd(OSD, OsdEvent::Start))?;
        cluster.tick_until("the OSD is up", |c| {
            let map = c.mon().map(|mon| mon.osdmap().existing_osds().any(|(_, osd)| osd.is_up()));
            map == Some(true)
        })?;
        Ok(cluster)
    }

    pub(crate) fn mon(&self) -> Option<&Mon> {
        self.nodes[0].mon()
    }

    /// Makes a pool of one copy.
    pub(crate) fn create_pool(&mut self, pool: &str, pg_num: u32) -> Result<(), HotpathError> {
        let info = self.session_info(ADMIN, EntityType::Client, 4100);
        self.tell(0, NodeEvent::Mon(MonEvent::SessionOpened(info)))?;
        self.command(&format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":{pg_num}}}"#))
    }

    /// Gives the monitor a command, and waits for its answer. The session is opened by [`Cluster::create_pool`].
    pub(crate) fn command(&mut self, json: &str) -> Result<(), HotpathError> {
        self.answer = None;
        let command = MonCommand {
            tid: 1,
            paxos: Default::default(),
            fsid: Fsid::default(),
            cmd: vec![Name::from(json.to_owned())],
            data: Rope::new(),
        };
        self.tell(0, NodeEvent::Mon(MonEvent::Message { session: ADMIN, message: command.into() }))?;
        self.tick_until("the command is answered", |c| c.answer.is_some())?;
        match self.answer.take() {
            Some((0, _)) | None => Ok(()),
            Some((code, text)) => Err(failed(format!("{json}: {code} {text}"))),
        }
    }

    /// Lets time pass until `done`.
    pub(crate) fn tick_until(
        &mut self,
        what: &str,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), HotpathError> {
        for _ in 0..TICKS_MAX {
            if done(self) {
                return Ok(());
            }
            self.tick()?;
        }
        Err(failed(format!("not within {TICKS_MAX} ticks: {what}")))
    }

    pub(crate) fn tick(&mut self) -> Result<(), HotpathError> {
        self.now += TICK_NANOS;
        (0..self.nodes.len()).try_for_each(|core| self.tell(core, NodeEvent::Tick))
    }

    /// The time; each call is some microseconds later.
    pub(crate) fn now(&mut self) -> UTime {
        self.now += 20_000;
        UTime::from_nanos(self.now)
    }

    /// A number for a session of a core, never used twice.
    pub(crate) fn next_session(&mut self, core: u16) -> SessionId {
        self.sessions += 1;
        SessionId::on_core(core, self.sessions)
    }

    /// An event for a core, and all that follows from it.
    pub(crate) fn tell(&mut self, core: usize, event: NodeEvent) -> Result<(), HotpathError> {
        self.queue.push_back((core, event));
        let mut effects = Vec::new();
        while let Some((core, event)) = self.queue.pop_front() {
            let now = self.now();
            let turn = self.turns.as_ref().map(|_| Turn::begin(&event));
            self.nodes[core].handle(now, event, &mut effects);
            self.nodes[core].turn(now, &mut effects);
            self.turns.iter_mut().zip(turn).for_each(|(turns, turn)| turns.end(turn));
            for effect in std::mem::take(&mut effects) {
                self.perform(core, effect)?;
            }
        }
        Ok(())
    }

    fn perform(&mut self, core: usize, effect: NodeEffect) -> Result<(), HotpathError> {
        match effect {
            NodeEffect::Send(Daemon::Mon, ADMIN, message) => {
                if let Message::MonCommandAck(ack) = message {
                    self.answer = Some((ack.result, ack.status.to_string()));
                }
            }
            NodeEffect::Send(Daemon::Mon | Daemon::Mgr, session, message) => {
                if let Some(attempt) = self.attempt(session) {
                    self.osd_hears(MonClientEvent::Message(attempt, message));
                }
            }
            NodeEffect::Commit(token, _) => {
                self.queue.push_back((0, NodeEvent::Mon(MonEvent::Committed { token })));
            }
            NodeEffect::GlobalId(session, id) => {
                let info = self.session_info(session, EntityType::Osd, id);
                self.queue.push_back((0, NodeEvent::Mon(MonEvent::SessionOpened(info))));
                if let Some(attempt) = self.attempt(session) {
                    self.osd_hears(MonClientEvent::Connected(attempt));
                }
            }
            NodeEffect::Dial(_, io) => self.dial(io),
            NodeEffect::Continue(osd) => {
                self.queue.push_back((core, NodeEvent::Osd(osd, OsdEvent::Continue)))
            }
            NodeEffect::ToCore(to, osd, message) => {
                self.queue.push_back((to.0.into(), NodeEvent::Osd(osd, OsdEvent::FromCore(message))));
            }
            NodeEffect::Rebind(osd) => return Err(failed(format!("osd.{osd} is down in the map"))),
            NodeEffect::Close(daemon, _, reason) | NodeEffect::Failed(daemon, reason) => {
                return Err(failed(format!("{daemon}: {reason}")));
            }
            NodeEffect::MonBehind { osd, .. } => {
                return Err(failed(format!("osd.{osd} is ahead of the monitor")));
            }
            NodeEffect::Send(Daemon::Osd(_), _, message) => self.to_client.push(message),
            NodeEffect::SendPeer(osd, ..) | NodeEffect::ClosePeer(osd, ..) => {
                return Err(failed(format!("osd.{osd} is sent to by the only OSD")));
            }
            NodeEffect::Pause(..) | NodeEffect::Resume(..) | NodeEffect::Log(..) => {}
            NodeEffect::Active(_)
            | NodeEffect::Stopped(_)
            | NodeEffect::Ended(_)
            | NodeEffect::LogLevel(..)
            | NodeEffect::StoreMemory(_)
            | NodeEffect::AdminAnswer(..) => {}
        }
        Ok(())
    }

    fn attempt(&self, session: SessionId) -> Option<Attempt> {
        self.dials.iter().find(|(_, s)| **s == session).map(|(attempt, _)| *attempt)
    }

    fn osd_hears(&mut self, event: MonClientEvent) {
        self.queue.push_back((0, NodeEvent::Osd(OSD, OsdEvent::Mon(event))));
    }

    fn dial(&mut self, io: MonClientIo) {
        match io {
            MonClientIo::Connect(attempt, _) => {
                let session = self.next_session(0);
                self.dials.insert(attempt, session);
                self.queue.push_back((0, NodeEvent::Mon(MonEvent::GlobalIdWanted { session, asked: 0 })));
            }
            MonClientIo::Send(attempt, message) => {
                if let Some(&session) = self.dials.get(&attempt) {
                    self.queue.push_back((0, NodeEvent::Mon(MonEvent::Message { session, message })));
                }
            }
            MonClientIo::Keepalive(attempt) => self.osd_hears(MonClientEvent::KeepaliveAcked(attempt)),
            MonClientIo::Disconnect(attempt) => {
                if let Some(session) = self.dials.remove(&attempt) {
                    self.queue.push_back((0, NodeEvent::Mon(MonEvent::SessionClosed(session))));
                }
            }
        }
    }

    fn session_info(&self, id: SessionId, kind: EntityType, global_id: u64) -> SessionInfo {
        let num = if kind == EntityType::Osd { i64::from(OSD.0) } else { global_id as i64 };
        SessionInfo {
            id,
            entity: types::EntityId { kind, id: num.to_string() },
            name: EntityName::new(kind, num),
            global_id,
            caps: Caps::all(),
            features: Profile::PACIFIC.features_supported,
            // A daemon dials from the messenger that it serves clients with.
            peer_addrs: if kind == EntityType::Osd { osd_addr() } else { addr(0) }.into(),
            local_nonce: 0,
        }
    }
}
