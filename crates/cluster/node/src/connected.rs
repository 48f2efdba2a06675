//! A core's pure part: its daemons and the messenger that connects them.

use std::net::SocketAddr;

use messages::Message;
use messenger::{
    CoreMessage, Daemon, Effect, Endpoint, EndpointNews, Event, Messenger, Role, SessionEvent, SocketEffect,
    SocketId,
};
use mon::MonEvent;
use mon::state::Batch;
use osd::{CoreId, LogLevel, OsdEvent, PartMessage};
use types::{EntityAddr, Epoch, OsdId, UTime, broken};

use crate::{AdminAnswer, HOST_SESSION, Node, NodeEffect, NodeEvent};

/// Effects that the host of a core performs.
#[derive(Debug)]
pub enum CoreEffect {
    /// For the messenger of another core: [`ConnectedNode::peer_message`] there. Those from one core to another keep their
    /// order.
    PeerMessage(CoreMessage),
    /// For [`ConnectedNode::endpoint_news`] on all other cores, before any [`CoreEffect::PeerMessage`] that follows it.
    ToAllCores(EndpointNews),
    Socket(SocketEffect),
    /// Make a batch of the monitor's state durable.
    Commit(u64, Batch),
    /// Hand in [`OsdEvent::Continue`] for this OSD after other events.
    Continue(OsdId),
    /// Hand a message to the OSD's parts on another core, as [`OsdEvent::FromCore`]. Messages from one core to another
    /// keep their order.
    ToCore(CoreId, OsdId, PartMessage),
    /// A line for the log.
    Log(Daemon, LogLevel, String),
    /// Listen at another port for an OSD's cluster address, then [`ConnectedNode::rebound`]. Its sessions there and at the
    /// heartbeat addresses have ended.
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
    MonBehind {
        osd: OsdId,
        has: Epoch,
        newest: Epoch,
    },
    /// A daemon cannot go on.
    Failed(Daemon, String),
    /// An OSD has stopped or failed: its parts on this core, their sessions and the handles of its stores were removed.
    Ended(OsdId),
    /// A message of the monitor on the host's own session ([`HOST_SESSION`]).
    ToHost(Box<Message>),
}

/// A node with its messenger. Events are taken by [`ConnectedNode::handle`], [`ConnectedNode::accept`] and
/// [`ConnectedNode::handle_socket`]; what follows from them happens in [`ConnectedNode::settle`].
pub struct ConnectedNode {
    pub node: Node,
    pub messenger: Messenger,
    // Kept between events so that the hot path allocates nothing for it.
    node_effects: Vec<NodeEffect>,
}

impl ConnectedNode {
    pub fn new(messenger: Messenger) -> Self {
        Self { node: Node::new(), messenger, node_effects: Vec::new() }
    }

    /// Takes an event of a daemon.
    pub fn handle(&mut self, now: UTime, event: NodeEvent, out: &mut Vec<CoreEffect>) {
        self.drive(now, out, |node, effects| node.handle(now, event, effects));
    }

    /// Takes a socket that a listener accepted; `None`: the host closes it.
    pub fn accept(&mut self, now: UTime, endpoint: Endpoint, peer: SocketAddr) -> Option<SocketId> {
        self.messenger.accept(now, endpoint, peer)
    }

    /// An OSD has another cluster address.
    pub fn rebound(&mut self, now: UTime, osd: OsdId, addr: EntityAddr, out: &mut Vec<CoreEffect>) {
        self.messenger.rebind(now, Endpoint::new(Daemon::Osd(osd), Role::Cluster), addr);
        self.handle(now, NodeEvent::Osd(osd, OsdEvent::Rebound(addr.into())), out);
    }

    /// Takes a message of an OSD on another core.
    pub fn peer_message(&mut self, now: UTime, message: CoreMessage) {
        self.messenger.from_core(now, message);
    }

    /// Takes what another core announces of its endpoints.
    pub fn endpoint_news(&mut self, news: EndpointNews) {
        self.messenger.endpoint_news(news);
    }

    /// Takes an event of a socket.
    pub fn handle_socket(&mut self, now: UTime, event: Event<'_>) {
        self.messenger.handle(now, event);
    }

    /// Brings the memory that requests will need closer to the processor, that of all together: one after the other they would wait for
    /// it again and again. One alone would wait as long here.
    fn touch_what_comes(&mut self) {
        if self.messenger.coming_ops().nth(1).is_some() {
            self.messenger.coming_ops().for_each(|(osd, op)| self.node.touch(osd, |of| of.touch(op)));
        }
    }

    /// The same for what another core is about to hand in.
    pub fn touch_parts<'a>(&mut self, messages: impl Iterator<Item = (OsdId, &'a PartMessage)> + Clone) {
        if messages.clone().nth(1).is_some() {
            messages.for_each(|(osd, message)| self.node.touch(osd, |of| of.touch_for(message)));
        }
    }

    /// Ends a burst of events: passes effects between daemons and messenger and begins the stores' work until no effect is
    /// left; then asks for one write for each socket.
    pub fn settle(&mut self, now: UTime, out: &mut Vec<CoreEffect>) {
        self.touch_what_comes();
        loop {
            while let Some(effect) = self.messenger.poll() {
                self.perform(now, effect, out);
            }
            self.drive(now, out, |node, effects| node.turn(now, effects));
            match self.messenger.poll() {
                Some(effect) => self.perform(now, effect, out),
                None => break,
            }
        }
        self.messenger.flush();
        while let Some(effect) = self.messenger.poll() {
            self.perform(now, effect, out);
        }
    }

    fn drive(
        &mut self,
        now: UTime,
        out: &mut Vec<CoreEffect>,
        step: impl FnOnce(&mut Node, &mut Vec<NodeEffect>),
    ) {
        step(&mut self.node, &mut self.node_effects);
        let mut effects = std::mem::take(&mut self.node_effects);
        effects.drain(..).for_each(|effect| self.perform_node(now, effect, out));
        self.node_effects = effects;
    }

    fn perform_node(&mut self, now: UTime, effect: NodeEffect, out: &mut Vec<CoreEffect>) {
        let messenger = &mut self.messenger;
        match effect {
            NodeEffect::Send(_, HOST_SESSION, message) => out.push(CoreEffect::ToHost(Box::new(message))),
            // It has no connection, and the monitor ends sessions only for their peers' faults.
            NodeEffect::Close(_, HOST_SESSION, reason) => {
                let broken = broken!("the monitor ends the host's session: {reason}");
                out.push(CoreEffect::Log(Daemon::Mon, LogLevel::Error, broken.to_string()));
            }
            NodeEffect::Send(_, session, message) => messenger.send(now, session, &message),
            NodeEffect::Close(_, session, reason) => messenger.close(session, reason),
            NodeEffect::SendPeer(osd, to, message) => {
                let from = Endpoint::public(Daemon::Osd(osd));
                let lost = messenger.send_peer(now, from, &to, message).is_err();
                if let (true, Some(addr)) = (lost, to.v2().copied()) {
                    self.handle(now, NodeEvent::Osd(osd, OsdEvent::PeerLost(addr)), out);
                }
            }
            NodeEffect::ClosePeer(osd, to) => {
                messenger.close_peer(
                    now,
                    Endpoint::public(Daemon::Osd(osd)),
                    &to,
                    "the map has it elsewhere",
                );
            }
            NodeEffect::Pause(_, session) => messenger.pause(session, true),
            NodeEffect::Resume(_, session) => messenger.pause(session, false),
            NodeEffect::GlobalId(session, id) => messenger.global_id(session, id),
            NodeEffect::Dial(osd, io) => messenger.monitor_io(now, osd, io),
            NodeEffect::Commit(token, batch) => out.push(CoreEffect::Commit(token, batch)),
            NodeEffect::ToCore(core, osd, message) => out.push(CoreEffect::ToCore(core, osd, message)),
            NodeEffect::Continue(osd) => out.push(CoreEffect::Continue(osd)),
            NodeEffect::Log(daemon, level, text) => out.push(CoreEffect::Log(daemon, level, text)),
            NodeEffect::Rebind(osd) => {
                for role in [Role::Cluster, Role::HeartbeatBack, Role::HeartbeatFront] {
                    let endpoint = Endpoint::new(Daemon::Osd(osd), role);
                    messenger.end_sessions(now, endpoint, "the map shows the OSD down");
                }
                out.push(CoreEffect::Rebind(osd));
            }
            NodeEffect::Active(osd) => out.push(CoreEffect::Active(osd)),
            NodeEffect::AdminAnswer(osd, id, answer) => out.push(CoreEffect::AdminAnswer(osd, id, answer)),
            NodeEffect::LogLevel(osd, level) => out.push(CoreEffect::LogLevel(osd, level)),
            NodeEffect::StoreMemory(osd) => out.push(CoreEffect::StoreMemory(osd)),
            NodeEffect::Stopped(osd) => out.push(CoreEffect::Stopped(osd)),
            NodeEffect::MonBehind { osd, has, newest } => {
                out.push(CoreEffect::MonBehind { osd, has, newest })
            }
            NodeEffect::Failed(daemon, reason) => out.push(CoreEffect::Failed(daemon, reason)),
            NodeEffect::Ended(osd) => {
                messenger.remove_daemon(Daemon::Osd(osd), "the OSD ended");
                self.node.take_osd(osd);
                out.push(CoreEffect::Ended(osd));
            }
        }
    }

    fn perform(&mut self, now: UTime, effect: Effect, out: &mut Vec<CoreEffect>) {
        match effect {
            Effect::Socket(effect) => out.push(CoreEffect::Socket(effect)),
            Effect::Log(daemon, level, text) => out.push(CoreEffect::Log(daemon, level, text)),
            Effect::ToCore(message) => out.push(CoreEffect::PeerMessage(message)),
            Effect::ToAllCores(news) => out.push(CoreEffect::ToAllCores(news)),
            Effect::Daemon(daemon @ (Daemon::Mon | Daemon::Mgr), event) => match mon_event(daemon, event) {
                Ok(event) => self.handle(now, NodeEvent::Mon(event), out),
                Err(reason) => out.push(CoreEffect::Failed(Daemon::Mon, reason)),
            },
            Effect::Daemon(Daemon::Osd(id), event) => match osd_event(event) {
                Ok(Some(event)) => self.handle(now, NodeEvent::Osd(id, event), out),
                Ok(None) => {}
                Err(reason) => self.handle(now, NodeEvent::Osd(id, OsdEvent::Broken(reason)), out),
            },
        }
    }
}

/// What becomes of an event of the monitor's sessions; those of the manager are its, too.
fn mon_event(daemon: Daemon, event: SessionEvent) -> Result<MonEvent, String> {
    Ok(match event {
        SessionEvent::GlobalIdWanted { session, .. } if daemon == Daemon::Mgr => {
            return Err(broken!("{session} asks the manager for a global id").to_string());
        }
        SessionEvent::GlobalIdWanted { session, asked } => MonEvent::GlobalIdWanted { session, asked },
        event @ (SessionEvent::Reset(_) | SessionEvent::PeerLost(_) | SessionEvent::PeerRoom(_)) => {
            return Err(broken!("the monitor has lossless sessions: {event:?}").to_string());
        }
        SessionEvent::Opened(info) if daemon == Daemon::Mgr => MonEvent::ManagerSessionOpened(info),
        SessionEvent::Opened(info) => MonEvent::SessionOpened(info),
        SessionEvent::Closed(session) => MonEvent::SessionClosed(session),
        SessionEvent::Behind { session, .. } => {
            return Err(broken!("the monitor is told that {session} is behind").to_string());
        }
        SessionEvent::Message { session, message, .. } => MonEvent::Message { session, message },
        SessionEvent::Monitor(event) => {
            return Err(broken!("the monitor has a session to a monitor: {event:?}").to_string());
        }
    })
}

fn osd_event(event: SessionEvent) -> Result<Option<OsdEvent>, String> {
    Ok(Some(match event {
        SessionEvent::Opened(info) => OsdEvent::SessionOpened(info),
        SessionEvent::Closed(session) => OsdEvent::SessionClosed(session),
        SessionEvent::Behind { session, is_behind } => OsdEvent::SessionBehind { session, is_behind },
        SessionEvent::Message { session, message, bytes } => OsdEvent::Message { session, message, bytes },
        SessionEvent::Monitor(event) => OsdEvent::Mon(event),
        SessionEvent::PeerLost(addr) => OsdEvent::PeerLost(addr),
        // No OSD sends to peers on lossless sessions of its own accord yet; the messenger has logged the loss. What had no
        // room was reported as lost.
        SessionEvent::Reset(_) | SessionEvent::PeerRoom(_) => return Ok(None),
        SessionEvent::GlobalIdWanted { session, .. } => {
            return Err(broken!("{session} asks an OSD for a global id").to_string());
        }
    }))
}
