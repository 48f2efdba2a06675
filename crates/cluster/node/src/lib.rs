//! Pure wiring of a core's daemons: the monitor if it is on this core, OSDs with their stores, and their effects on each
//! other.
//!
//! The host's cores, a test and the simulator drive the same [`Node`]; [`ConnectedNode`] is a node with its messenger. It
//! never decides anything itself, and never does I/O: what leaves the process is a [`NodeEffect`].

mod connected;

use std::collections::{BTreeMap, BTreeSet};

use auth::SessionId;
use messages::Message;
use mon::state::Batch;
use mon::{Mon, MonEffect, MonEvent};
use monclient::MonClientIo;
use osd::{CoreId, LogLevel, Osd, OsdEffect, OsdEvent, PartMessage, Stores, Touched};
use store::{
    Completion, FreeSpace, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreMemory, StoreShard,
};
use types::{EntityAddrVec, Epoch, Errno, OsdId, UTime, broken};

pub use connected::{ConnectedNode, CoreEffect};
pub use messenger::Daemon;

/// An event of one of the node's daemons.
#[derive(Debug)]
pub enum NodeEvent {
    /// To the monitor.
    Mon(MonEvent),
    Osd(OsdId, OsdEvent),
    /// A store of an OSD has completions.
    StoreReady(OsdId),
    /// Time passed.
    Tick,
}

/// A command's output, or its error number and a sentence.
pub type AdminAnswer = Result<Vec<u8>, (Errno, String)>;

/// What the shell has to do.
#[derive(Debug)]
pub enum NodeEffect {
    /// Send a message on a daemon's session.
    Send(Daemon, SessionId, Message),
    /// End a daemon's session, with the reason for the log.
    Close(Daemon, SessionId, String),
    /// Send a message to another OSD's public address, as a client of it: see [`OsdEffect::SendPeer`].
    SendPeer(OsdId, EntityAddrVec, Message),
    /// End that session.
    ClosePeer(OsdId, EntityAddrVec),
    /// Stop reading from a session.
    Pause(OsdId, SessionId),
    /// Read from it again.
    Resume(OsdId, SessionId),
    /// Make a batch of the monitor's state durable.
    Commit(u64, Batch),
    /// A connection to the monitor has its global id.
    GlobalId(SessionId, u64),
    /// Hand a message to the OSD's parts on another core, as [`OsdEvent::FromCore`]. Messages from one core to another
    /// keep their order.
    ToCore(CoreId, OsdId, PartMessage),
    /// Hand in [`OsdEvent::Continue`] for this OSD after other events.
    Continue(OsdId),
    /// For an OSD's connection to its monitor.
    Dial(OsdId, MonClientIo),
    /// A line for the log.
    Log(Daemon, LogLevel, String),
    /// Give an OSD another cluster address: see [`OsdEffect::Rebind`].
    Rebind(OsdId),
    /// An OSD is up in the map and serves.
    Active(OsdId),
    /// Answers an OSD's [`OsdEvent::AdminCommand`] of this number.
    AdminAnswer(OsdId, u64, AdminAnswer),
    /// The log level that an OSD's options ask for; `None`: none.
    LogLevel(OsdId, Option<u8>),
    /// A store of an OSD has another bound of its memory; it heeds it with its next turn.
    StoreMemory(OsdId),
    /// An OSD stopped, as asked.
    Stopped(OsdId),
    /// An OSD that wants to boot has a newer map than the monitor: see [`mon::MonEffect::Behind`].
    MonBehind { osd: OsdId, has: Epoch, newest: Epoch },
    /// A daemon cannot go on.
    Failed(Daemon, String),
    /// An OSD has stopped or failed, and its parts here do nothing more: they can be taken out ([`Node::take_osd`]).
    Ended(OsdId),
}

/// A session of the host's own with its monitor, of no connection and of no core. The host opens it by
/// [`MonEvent::SessionOpened`]; what the monitor sends on it is [`CoreEffect::ToHost`].
pub const HOST_SESSION: SessionId = SessionId(u64::MAX);

/// Completions of its stores after which an OSD lets other events go first. A turn may exceed it, because completions that
/// are there at one moment are taken together.
pub const COMPLETIONS_PER_TURN: usize = 256;

/// A store shard's handle. Opening a store gives one for each of its shards.
pub type StoreHandle = (StoreShard, Box<dyn ObjectStore>);

/// An OSD's store shards on this core.
struct Handles(Vec<StoreHandle>);

impl Handles {
    fn get(&mut self, shard: StoreShard) -> Option<&mut dyn ObjectStore> {
        let (_, store) = self.0.iter_mut().find(|(of, _)| *of == shard)?;
        Some(&mut **store)
    }
}

impl Stores for Handles {
    fn peek(&mut self, shard: StoreShard, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.get(shard)?.peek(request)
    }

    fn memory_pools(&mut self, shard: StoreShard) -> StoreMemory {
        self.get(shard).map(|store| ObjectStore::memory_pools(store)).unwrap_or_default()
    }

    fn free_space_of(&mut self, shard: StoreShard) -> Option<FreeSpace> {
        self.get(shard)?.free_space()
    }

    fn drop_caches_of(&mut self, shard: StoreShard) -> bool {
        self.get(shard).is_some_and(|store| store.drop_caches())
    }
}

/// The parts of an OSD that are on this core.
struct OsdSlot {
    osd: Osd,
    stores: Handles,
    /// Whether something happened to it since its last turn.
    touched: bool,
    /// [`NodeEffect::Ended`] was given.
    ended: bool,
}

/// The daemons of one core.
#[derive(Default)]
pub struct Node {
    mon: Option<Mon>,
    osds: BTreeMap<OsdId, OsdSlot>,
    /// OSDs that were removed: events for them are dropped.
    taken: BTreeSet<OsdId>,
    // Kept between events so that the hot path allocates nothing for them.
    mon_effects: Vec<MonEffect>,
    osd_effects: Vec<OsdEffect>,
    completions: Vec<Completion>,
}

impl Node {
    /// A node without daemons.
    pub fn new() -> Self {
        Self::default()
    }

    /// Brings closer to the processor what a request will need of an OSD's memory here. `touch` does it for the OSD, and says what
    /// follows of its stores.
    fn touch(&mut self, osd: OsdId, touch: impl FnOnce(&Osd) -> Option<Touched>) {
        // It was removed: it is given nothing.
        let Some(slot) = self.osds.get_mut(&osd) else { return };
        let Some(Touched { shard, hash }) = touch(&slot.osd) else { return };
        if let Some(store) = slot.stores.get(shard) {
            store.touch(hash);
        }
    }

    /// Adds the monitor.
    pub fn add_mon(&mut self, mon: Mon) {
        self.mon = Some(mon);
    }

    /// Adds an OSD that is whole on this core, and its open store of one shard.
    pub fn add_osd(&mut self, id: OsdId, osd: Osd, store: Box<dyn ObjectStore>) {
        self.add_osd_parts(id, osd, vec![(StoreShard(0), store)]);
    }

    /// Adds the parts of an OSD that are on this core, and the handles of its shards.
    pub fn add_osd_parts(&mut self, id: OsdId, osd: Osd, stores: Vec<StoreHandle>) {
        self.taken.remove(&id);
        self.osds.insert(id, OsdSlot { osd, stores: Handles(stores), touched: true, ended: false });
    }

    /// Takes an OSD's parts out, and gives the handles of its stores, with all that was queued on them. Events that come
    /// for it afterwards are dropped, until it is added again: by then none may be on its way that was meant for these
    /// parts. `None`: it is not here.
    pub fn take_osd(&mut self, id: OsdId) -> Option<Vec<StoreHandle>> {
        let slot = self.osds.remove(&id)?;
        self.taken.insert(id);
        Some(slot.stores.0)
    }

    /// The monitor, to look at.
    pub fn mon(&self) -> Option<&Mon> {
        self.mon.as_ref()
    }

    /// An OSD, to look at.
    pub fn osd(&self, id: OsdId) -> Option<&Osd> {
        self.osds.get(&id).map(|slot| &slot.osd)
    }

    /// The OSDs' numbers.
    pub fn osd_ids(&self) -> Vec<OsdId> {
        self.osds.keys().copied().collect()
    }

    /// When the next [`NodeEvent::Tick`] is due, if an OSD or its store waits for one. (The monitor's come once a
    /// second.)
    pub fn deadline(&self) -> Option<UTime> {
        let of_stores = self.osds.values().flat_map(|slot| &slot.stores.0).map(|(_, store)| store.deadline());
        let of_osds = self.osds.values().map(|slot| slot.osd.deadline());
        of_osds.chain(of_stores).flatten().min()
    }

    /// Takes one event. Work that it queues on a store begins in the next [`Node::turn`].
    pub fn handle(&mut self, now: UTime, event: NodeEvent, out: &mut Vec<NodeEffect>) {
        match event {
            NodeEvent::Mon(event) => self.handle_mon(now, event, out),
            NodeEvent::Osd(id, event) => self.handle_osd(now, id, Some(event), out),
            NodeEvent::StoreReady(id) => self.handle_osd(now, id, None, out),
            NodeEvent::Tick => {
                self.handle_mon(now, MonEvent::Tick, out);
                for id in self.osd_ids() {
                    self.handle_osd(now, id, Some(OsdEvent::Tick), out);
                }
            }
        }
    }

    fn handle_mon(&mut self, now: UTime, event: MonEvent, out: &mut Vec<NodeEffect>) {
        // A tick goes to every daemon of the node, and only one node has the monitor.
        let Some(mon) = &mut self.mon else { return };
        mon.handle(now, event, &mut self.mon_effects);
        out.extend(self.mon_effects.drain(..).map(|effect| match effect {
            MonEffect::Send { session, message } => NodeEffect::Send(Daemon::Mon, session, message),
            MonEffect::Close { session, reason } => NodeEffect::Close(Daemon::Mon, session, reason),
            MonEffect::Commit { token, batch } => NodeEffect::Commit(token, batch),
            MonEffect::GlobalId { session, id } => NodeEffect::GlobalId(session, id),
            MonEffect::Log(text) => NodeEffect::Log(Daemon::Mon, LogLevel::Info, text),
            MonEffect::LogError(text) => NodeEffect::Log(Daemon::Mon, LogLevel::Error, text),
            MonEffect::Behind { osd, has, newest } => NodeEffect::MonBehind { osd, has, newest },
            MonEffect::Failed(broken) => NodeEffect::Failed(Daemon::Mon, broken.to_string()),
        }));
    }

    /// Ends a burst of events: each OSD that they reached hands its store what they asked for, as one submission, and
    /// gets what is complete. An OSD whose store completes what it asks for at once could go on for ever: after
    /// [`COMPLETIONS_PER_TURN`] it asks for another turn by [`NodeEffect::Continue`].
    pub fn turn(&mut self, now: UTime, out: &mut Vec<NodeEffect>) {
        for (id, slot) in self.osds.iter_mut().filter(|(_, slot)| slot.touched) {
            slot.touched = false;
            let mut left = COMPLETIONS_PER_TURN;
            // The completion of one shard may be work for another.
            let mut is_quiet = false;
            while !is_quiet {
                if left == 0 {
                    out.push(NodeEffect::Continue(*id));
                    break;
                }
                is_quiet = true;
                for index in 0..slot.stores.0.len() {
                    let (shard, store) = &mut slot.stores.0[index];
                    let shard = *shard;
                    store.turn(now);
                    store.completions(&mut self.completions);
                    is_quiet &= self.completions.is_empty();
                    left = left.saturating_sub(self.completions.len());
                    for completion in self.completions.drain(..) {
                        let event = OsdEvent::Store(shard, completion);
                        slot.handle(*id, now, event, &mut self.osd_effects, out);
                    }
                }
            }
        }
    }

    fn handle_osd(&mut self, now: UTime, id: OsdId, event: Option<OsdEvent>, out: &mut Vec<NodeEffect>) {
        let Some(slot) = self.osds.get_mut(&id) else {
            // A store that is open already may have done something before its OSD is here: the OSD's first turn finds it.
            if event.is_none() || self.taken.contains(&id) {
                return;
            }
            // The sender of the event is wrong: the OSD may be on another core.
            let broken = broken!("an event came for osd.{id}, which this node does not have");
            return out.push(NodeEffect::Log(Daemon::Osd(id), LogLevel::Error, broken.to_string()));
        };
        slot.touched = true;
        if let Some(event) = event {
            slot.handle(id, now, event, &mut self.osd_effects, out);
        }
    }
}

impl OsdSlot {
    /// Hands the OSD an event and performs its effects. `effects` is empty before and after.
    fn handle(
        &mut self,
        id: OsdId,
        now: UTime,
        event: OsdEvent,
        effects: &mut Vec<OsdEffect>,
        out: &mut Vec<NodeEffect>,
    ) {
        self.osd.handle(now, event, &mut self.stores, effects);
        let mut broken = None;
        for effect in effects.drain(..) {
            match perform(id, &mut self.stores, effect) {
                Ok(effect) => out.extend(effect),
                Err(lacks) => broken = Some(lacks),
            }
        }
        if let Some(broken) = broken.filter(|_| !self.osd.has_stopped()) {
            // Not through this function again: requests of a broken OSD to its stores no longer matter.
            self.osd.handle(now, OsdEvent::Broken(broken), &mut self.stores, effects);
            let performed = effects.drain(..).filter_map(|effect| perform(id, &mut self.stores, effect).ok());
            out.extend(performed.flatten());
        }
        if self.osd.has_stopped() && !self.ended {
            self.ended = true;
            out.push(NodeEffect::Ended(id));
        }
    }
}

/// Performs an OSD's effect on its stores, or passes it to the shell. Fails if it names a store of another core.
fn perform(id: OsdId, stores: &mut Handles, effect: OsdEffect) -> Result<Option<NodeEffect>, String> {
    let daemon = Daemon::Osd(id);
    Ok(Some(match effect {
        OsdEffect::Queue { shard, token, txn } => {
            stores.get(shard).ok_or_else(|| lacks(id, shard))?.queue(txn, token);
            return Ok(None);
        }
        OsdEffect::Read { shard, token, request } => {
            stores.get(shard).ok_or_else(|| lacks(id, shard))?.read(request, token);
            return Ok(None);
        }
        OsdEffect::Acknowledge { shard, token } => {
            stores.get(shard).ok_or_else(|| lacks(id, shard))?.acknowledge(token);
            return Ok(None);
        }
        OsdEffect::StoreMemory { shard, bytes } => {
            stores.get(shard).ok_or_else(|| lacks(id, shard))?.set_memory(bytes);
            NodeEffect::StoreMemory(id)
        }
        OsdEffect::StoreCompression { shard, pool, how } => {
            stores.get(shard).ok_or_else(|| lacks(id, shard))?.set_compression(pool, how);
            return Ok(None);
        }
        OsdEffect::StoreTuning { shard, tuning } => {
            stores.get(shard).ok_or_else(|| lacks(id, shard))?.set_tuning(tuning);
            return Ok(None);
        }
        OsdEffect::ToCore { core, message } => NodeEffect::ToCore(core, id, message),
        OsdEffect::Send { session, message } => NodeEffect::Send(daemon, session, message),
        OsdEffect::Close { session, reason } => NodeEffect::Close(daemon, session, reason),
        OsdEffect::SendPeer { to, message } => NodeEffect::SendPeer(id, to, message),
        OsdEffect::ClosePeer { to } => NodeEffect::ClosePeer(id, to),
        OsdEffect::Pause(session) => NodeEffect::Pause(id, session),
        OsdEffect::Resume(session) => NodeEffect::Resume(id, session),
        OsdEffect::Continue => NodeEffect::Continue(id),
        OsdEffect::Mon(io) => NodeEffect::Dial(id, io),
        OsdEffect::Log(level, text) => NodeEffect::Log(daemon, level, text),
        OsdEffect::Rebind => NodeEffect::Rebind(id),
        OsdEffect::Active => NodeEffect::Active(id),
        OsdEffect::AdminAnswer { id: command, answer } => NodeEffect::AdminAnswer(id, command, answer),
        OsdEffect::LogLevel(level) => NodeEffect::LogLevel(id, level),
        OsdEffect::Stopped => NodeEffect::Stopped(id),
        OsdEffect::Failed(reason) => NodeEffect::Failed(daemon, reason),
    }))
}

fn lacks(id: OsdId, shard: StoreShard) -> String {
    broken!("osd.{id} wants something of its store shard {}, which is not on this core", shard.0).to_string()
}
