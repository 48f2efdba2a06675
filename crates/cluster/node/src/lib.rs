//! Pure wiring of a core's daemons: a monitor perhaps, OSDs with their stores, and their effects to each other.
//!
//! The host's cores, a test and the simulator drive the same [`Node`]; [`ConnectedNode`] is a node with its messenger. It
//! never decides anything itself, and never does I/O: what leaves the process is a [`NodeEffect`].

mod connected;

use std::collections::BTreeMap;

use auth::SessionId;
use messages::Message;
use mon::state::Batch;
use mon::{Mon, MonEffect, MonEvent};
use monclient::MonClientIo;
use osd::{LogLevel, Osd, OsdEffect, OsdEvent};
use store::{Completion, ObjectStore, StoreShard};
use types::{OsdId, UTime, broken};

pub use connected::{ConnectedNode, CoreEffect};
pub use messenger::Daemon;

/// Something happened to one of the node's daemons.
#[derive(Debug)]
pub enum NodeEvent {
    /// To the monitor.
    Mon(MonEvent),
    Osd(OsdId, OsdEvent),
    /// An OSD's store says that completions wait.
    StoreReady(OsdId),
    /// Time passed.
    Tick,
}

/// What the shell has to do.
#[derive(Debug)]
pub enum NodeEffect {
    /// Send a message on a daemon's session.
    Send(Daemon, SessionId, Message),
    /// End a daemon's session, with the reason for the log.
    Close(Daemon, SessionId, String),
    /// Stop reading from a session.
    Pause(OsdId, SessionId),
    /// Read from it again.
    Resume(OsdId, SessionId),
    /// Make a batch of the monitor's state durable.
    Commit(u64, Batch),
    /// A connection to the monitor has its global id.
    GlobalId(SessionId, u64),
    /// Hand in [`OsdEvent::Continue`] for this OSD when other events have had their turn.
    Continue(OsdId),
    /// For an OSD's connection to its monitor.
    Dial(OsdId, MonClientIo),
    /// A line for the log.
    Log(Daemon, LogLevel, String),
    /// An OSD takes part.
    Active(OsdId),
    /// An OSD stopped, as asked.
    Stopped(OsdId),
    /// A daemon cannot go on.
    Failed(Daemon, String),
}

struct OsdSlot {
    osd: Osd,
    store: Box<dyn ObjectStore>,
    /// Whether something happened to it since its last turn.
    touched: bool,
}

/// The daemons of one core.
#[derive(Default)]
pub struct Node {
    mon: Option<Mon>,
    osds: BTreeMap<OsdId, OsdSlot>,
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

    /// Adds the monitor.
    pub fn add_mon(&mut self, mon: Mon) {
        self.mon = Some(mon);
    }

    /// Adds an OSD and its open store.
    pub fn add_osd(&mut self, id: OsdId, osd: Osd, store: Box<dyn ObjectStore>) {
        self.osds.insert(id, OsdSlot { osd, store, touched: true });
    }

    /// The monitor, to look at.
    pub fn mon(&self) -> Option<&Mon> {
        self.mon.as_ref()
    }

    /// The OSDs' numbers.
    pub fn osd_ids(&self) -> Vec<OsdId> {
        self.osds.keys().copied().collect()
    }

    /// When the next [`NodeEvent::Tick`] is due, if an OSD or its store waits for one. (The monitor's come once a
    /// second.)
    pub fn deadline(&self) -> Option<UTime> {
        let of_slot = |slot: &OsdSlot| [slot.osd.deadline(), slot.store.deadline()];
        self.osds.values().flat_map(of_slot).flatten().min()
    }

    /// Takes one event. What it wants of a store is begun by the next [`Node::turn`].
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
        // Of a node's daemons all get the tick, and not every node has the monitor.
        let Some(mon) = &mut self.mon else { return };
        mon.handle(now, event, &mut self.mon_effects);
        out.extend(self.mon_effects.drain(..).map(|effect| match effect {
            MonEffect::Send { session, message } => NodeEffect::Send(Daemon::Mon, session, message),
            MonEffect::Close { session, reason } => NodeEffect::Close(Daemon::Mon, session, reason),
            MonEffect::Commit { token, batch } => NodeEffect::Commit(token, batch),
            MonEffect::GlobalId { session, id } => NodeEffect::GlobalId(session, id),
            MonEffect::Log(text) => NodeEffect::Log(Daemon::Mon, LogLevel::Info, text),
            MonEffect::Failed(broken) => NodeEffect::Failed(Daemon::Mon, broken.to_string()),
        }));
    }

    /// Ends a burst of events: each OSD that they reached hands its store what they asked for, as one submission, and
    /// gets what is complete.
    pub fn turn(&mut self, now: UTime, out: &mut Vec<NodeEffect>) {
        for (id, slot) in self.osds.iter_mut().filter(|(_, slot)| slot.touched) {
            slot.touched = false;
            loop {
                slot.store.turn(now);
                slot.store.completions(&mut self.completions);
                if self.completions.is_empty() {
                    break;
                }
                for completion in self.completions.drain(..) {
                    slot.handle(
                        *id,
                        now,
                        OsdEvent::Store(StoreShard(0), completion),
                        &mut self.osd_effects,
                        out,
                    );
                }
            }
        }
    }

    fn handle_osd(&mut self, now: UTime, id: OsdId, event: Option<OsdEvent>, out: &mut Vec<NodeEffect>) {
        let Some(slot) = self.osds.get_mut(&id) else {
            let broken = broken!("an event came for osd.{id}, which this node does not have");
            return out.push(NodeEffect::Failed(Daemon::Osd(id), broken.to_string()));
        };
        slot.touched = true;
        if let Some(event) = event {
            slot.handle(id, now, event, &mut self.osd_effects, out);
        }
    }
}

impl OsdSlot {
    /// Runs the OSD on an event and does what it wants. `effects` is empty, and is left so.
    fn handle(
        &mut self,
        id: OsdId,
        now: UTime,
        event: OsdEvent,
        effects: &mut Vec<OsdEffect>,
        out: &mut Vec<NodeEffect>,
    ) {
        self.osd.handle(now, event, &mut self.store, effects);
        for effect in effects.drain(..) {
            out.extend(perform(id, &mut *self.store, effect));
        }
    }
}

/// An OSD's effect: the store's part is done here, the rest is the shell's.
fn perform(id: OsdId, store: &mut dyn ObjectStore, effect: OsdEffect) -> Option<NodeEffect> {
    let daemon = Daemon::Osd(id);
    Some(match effect {
        OsdEffect::Queue { token, txn, .. } => {
            store.queue(txn, token);
            return None;
        }
        OsdEffect::Read { token, request, .. } => {
            store.read(request, token);
            return None;
        }
        OsdEffect::Acknowledge { token, .. } => {
            store.acknowledge(token);
            return None;
        }
        OsdEffect::ToCore { core, .. } => {
            let broken = broken!("a message for core {}, and the OSD is whole on this one", core.0);
            NodeEffect::Failed(daemon, broken.to_string())
        }
        OsdEffect::Send { session, message } => NodeEffect::Send(daemon, session, message),
        OsdEffect::Close { session, reason } => NodeEffect::Close(daemon, session, reason),
        OsdEffect::Pause(session) => NodeEffect::Pause(id, session),
        OsdEffect::Resume(session) => NodeEffect::Resume(id, session),
        OsdEffect::Continue => NodeEffect::Continue(id),
        OsdEffect::Mon(io) => NodeEffect::Dial(id, io),
        OsdEffect::Log(level, text) => NodeEffect::Log(daemon, level, text),
        OsdEffect::Active => NodeEffect::Active(id),
        OsdEffect::Stopped => NodeEffect::Stopped(id),
        OsdEffect::Failed(reason) => NodeEffect::Failed(daemon, reason),
    })
}
