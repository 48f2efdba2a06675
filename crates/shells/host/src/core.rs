//! A core: one thread's daemons, sockets and clock, and the performing of their effects.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use auth::{ClientNone, ServerNone, Service, SessionId, SessionInfo};
use messages::Message;
use mon::MonEvent;
use monclient::{Attempt, MonClientIo};
use msgr::{Accept, Connect, Connection, Effect, Local, PeerInfo, RawMessage};
use node::{Daemon, Node, NodeEffect, NodeEvent};
use osd::{LogLevel, OsdEvent};
use tokio::net::{TcpListener, TcpStream};
use types::{BrokenInvariant, EntityAddr, EntityId, EntityName, EntityType, OsdId, UTime, broken};

use crate::CoreReport;
use crate::clock::Clock;
use crate::delay::DispatchDelay;
use crate::link::{Link, Owner, PEER_CLOSED};
use crate::monstore::MonStore;

/// Bytes that one read of small things may bring.
const SCRATCH_BYTES: usize = 64 << 10;

/// A connection that holds this little of an unfinished message never waits and is never dropped for it.
const HELD_SMALL: usize = 4 << 10;

/// A peer that sent nothing for this long has stalled.
const STALLED: Duration = Duration::from_millis(250);

/// Limits and counters of the whole process.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) delay: DispatchDelay,
    pub(crate) sessions: AtomicU64,
    pub(crate) connections: AtomicUsize,
    pub(crate) connections_max: usize,
    /// Bytes of unfinished messages, over all cores.
    pub(crate) held: AtomicUsize,
    pub(crate) held_max: usize,
    pub(crate) ready_timeout: Duration,
    pub(crate) reports: std::sync::mpsc::Sender<CoreReport>,
}

/// A core's state. Nothing in it is shared with another thread.
pub(crate) struct Core {
    me: Weak<Core>,
    pub(crate) shared: Arc<Shared>,
    node: RefCell<Node>,
    locals: RefCell<BTreeMap<Daemon, Arc<Local>>>,
    links: RefCell<BTreeMap<SessionId, Rc<Link>>>,
    dials: RefCell<BTreeMap<(OsdId, Attempt), SessionId>>,
    dirty: RefCell<VecDeque<Rc<Link>>>,
    effects: RefCell<Vec<NodeEffect>>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    monstore: RefCell<Option<MonStore>>,
    settling: Cell<bool>,
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            shared,
            node: RefCell::default(),
            locals: RefCell::default(),
            links: RefCell::default(),
            dials: RefCell::default(),
            dirty: RefCell::default(),
            effects: RefCell::default(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
            monstore: RefCell::default(),
            settling: Cell::new(false),
        })
    }

    pub(crate) fn node(&self) -> std::cell::RefMut<'_, Node> {
        self.node.borrow_mut()
    }

    pub(crate) fn set_monstore(&self, store: MonStore) {
        *self.monstore.borrow_mut() = Some(store);
    }

    pub(crate) fn set_local(&self, daemon: Daemon, local: Local) {
        self.locals.borrow_mut().insert(daemon, Arc::new(local));
    }

    fn local(&self, daemon: Daemon) -> Option<Arc<Local>> {
        self.locals.borrow().get(&daemon).cloned()
    }

    /// Tells the node of an event, performs what follows, and writes what that gave.
    pub(crate) fn dispatch(&self, event: NodeEvent) {
        self.handle(event);
        self.settle();
    }

    /// Tells the node of an event and performs its effects; what it wants of stores, and bytes to write, are left for
    /// [`Core::settle`].
    fn handle(&self, event: NodeEvent) {
        self.drive(|node, now, effects| node.handle(now, event, effects));
    }

    /// Lets the stores begin what the events since the last turn asked for.
    fn turn(&self) {
        self.drive(Node::turn);
    }

    fn drive(&self, step: impl FnOnce(&mut Node, UTime, &mut Vec<NodeEffect>)) {
        let mut effects = self.effects.take();
        step(&mut self.node.borrow_mut(), self.shared.clock.now(), &mut effects);
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        // Given back with its capacity, unless an effect's own event already did.
        self.effects.replace(effects);
    }

    /// Lets time pass for the OSDs.
    pub(crate) fn tick_osds(&self) {
        let ids = self.node.borrow().osd_ids();
        ids.into_iter().for_each(|id| self.dispatch(NodeEvent::Osd(id, OsdEvent::Tick)));
    }

    fn perform(&self, effect: NodeEffect) {
        match effect {
            NodeEffect::Send(daemon, session, message) => self.send(daemon, session, &message),
            NodeEffect::Close(_, session, reason) => {
                if let Some(link) = self.link(session) {
                    link.end(reason);
                }
            }
            NodeEffect::Pause(_, session) => self.set_paused(session, true),
            NodeEffect::Resume(_, session) => self.set_paused(session, false),
            NodeEffect::Commit(token, batch) => {
                if let Some(store) = &*self.monstore.borrow() {
                    store.commit(token, batch);
                }
            }
            NodeEffect::GlobalId(session, id) => {
                if let Some(link) = self.link(session) {
                    link.connection.borrow_mut().global_id(id);
                    self.mark_dirty(&link);
                }
            }
            NodeEffect::Dial(osd, io) => self.perform_dial(osd, io),
            NodeEffect::Log(daemon, level, text) => log(daemon, level, &text),
            NodeEffect::Active(osd) => self.report(CoreReport::Active(osd)),
            NodeEffect::Stopped(osd) => self.report(CoreReport::Stopped(osd)),
            NodeEffect::Failed(daemon, reason) => {
                self.report(CoreReport::Failed(format!("{daemon}: {reason}")))
            }
        }
    }

    /// A defect of this program: the process ends with it.
    fn fail(&self, broken: &BrokenInvariant) {
        self.report(CoreReport::Failed(broken.to_string()));
    }

    pub(crate) fn report(&self, report: CoreReport) {
        // Nobody listens only when the process is ending.
        let _ = self.shared.reports.send(report);
    }

    fn link(&self, session: SessionId) -> Option<Rc<Link>> {
        self.links.borrow().get(&session).cloned()
    }

    fn set_paused(&self, session: SessionId, paused: bool) {
        if let Some(link) = self.link(session) {
            link.paused.set(paused);
            link.wake.notify_one();
        }
    }

    fn send(&self, daemon: Daemon, session: SessionId, message: &Message) {
        // The socket ended before the daemon learns of it: a session loses what is sent after its end.
        let Some(link) = self.link(session) else { return };
        let kind = match daemon {
            Daemon::Mon => EntityType::Mon,
            Daemon::Osd(_) => EntityType::Osd,
        };
        link.connection.borrow_mut().send(message.encode_from(kind, link.features.get()));
        self.mark_dirty(&link);
    }

    // --- sockets ---

    fn next_session(&self) -> SessionId {
        SessionId(self.shared.sessions.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Serves a listener for good.
    pub(crate) async fn listen(self: Rc<Self>, daemon: Daemon, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.accept(daemon, stream, peer),
                Err(error) => {
                    // Out of files, as a rule: others must end first.
                    tracing::warn!("{daemon}: accept: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn accept(self: &Rc<Self>, daemon: Daemon, stream: TcpStream, peer: SocketAddr) {
        let Some(local) = self.local(daemon) else {
            return self.fail(&broken!("a listener of {daemon}, which this core does not have"));
        };
        if self.shared.connections.load(Ordering::Relaxed) >= self.shared.connections_max {
            tracing::warn!(
                "{daemon}: {peer} refused: ms_connections_max ({}) reached",
                self.shared.connections_max
            );
            return;
        }
        let (owner, service) = match daemon {
            Daemon::Mon => (Owner::Mon, Service::Monitor),
            Daemon::Osd(id) => (Owner::Osd(id), Service::Daemon),
        };
        let id = self.next_session();
        let method = Box::new(ServerNone::new(service));
        let accept =
            Accept { peer: EntityAddr { nonce: 0, ..EntityAddr::v2(peer, 0) }, method, global_seq: id.0 };
        self.start_link(id, owner, peer, stream, Connection::accept(local, accept));
    }

    fn start_link(
        self: &Rc<Self>,
        id: SessionId,
        owner: Owner,
        peer: SocketAddr,
        stream: TcpStream,
        connection: Connection,
    ) {
        // A socket that does not take it works all the same, only later.
        let _ = stream.set_nodelay(true);
        self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let link = Link::new(id, owner, peer, stream, connection);
        self.links.borrow_mut().insert(id, link.clone());
        tokio::task::spawn_local(link.drive(self.clone(), self.shared.ready_timeout));
    }

    fn perform_dial(&self, osd: OsdId, io: MonClientIo) {
        match io {
            MonClientIo::Connect(attempt, addrs) => match addrs.v2().copied() {
                Some(target) => self.spawn_dial(osd, attempt, target),
                None => self.dial_failed(osd, attempt, format!("{addrs} has no messenger 2 address")),
            },
            MonClientIo::Disconnect(attempt) => {
                if let Some(link) = self.dialled(osd, attempt) {
                    link.end("left by the OSD");
                }
            }
            MonClientIo::Send(attempt, message) => {
                if let Some(link) = self.dialled(osd, attempt) {
                    self.send(Daemon::Osd(osd), link.id, &message);
                }
            }
            MonClientIo::Keepalive(attempt) => {
                if let Some(link) = self.dialled(osd, attempt) {
                    link.connection.borrow_mut().keepalive(self.shared.clock.now());
                    self.mark_dirty(&link);
                }
            }
        }
    }

    fn dialled(&self, osd: OsdId, attempt: Attempt) -> Option<Rc<Link>> {
        let session = self.dials.borrow().get(&(osd, attempt)).copied()?;
        self.link(session)
    }

    fn spawn_dial(&self, osd: OsdId, attempt: Attempt, target: EntityAddr) {
        // The core ends: no OSD waits for the connection any more.
        let Some(core) = self.me.upgrade() else { return };
        tokio::task::spawn_local(async move {
            let Some(socket) = target.socket else {
                return core.dial_failed(osd, attempt, format!("{target} is no address to connect to"));
            };
            match tokio::time::timeout(core.shared.ready_timeout, TcpStream::connect(socket)).await {
                Ok(Ok(stream)) => core.dialled_now(osd, attempt, target, socket, stream),
                Ok(Err(error)) => core.dial_failed(osd, attempt, error.to_string()),
                Err(_) => core.dial_failed(osd, attempt, format!("no answer from {socket}")),
            }
        });
    }

    fn dialled_now(
        self: &Rc<Self>,
        osd: OsdId,
        attempt: Attempt,
        target: EntityAddr,
        peer: SocketAddr,
        stream: TcpStream,
    ) {
        let Some(local) = self.local(Daemon::Osd(osd)) else {
            return self.fail(&broken!("osd.{osd}, which this core does not have, connects to the monitor"));
        };
        let entity = EntityId { kind: EntityType::Osd, id: osd.to_string() };
        let id = self.next_session();
        let method = Box::new(ClientNone::new(Service::Monitor, entity, 0));
        let connect = Connect { target, peer_kind: EntityType::Mon, method, global_seq: id.0, session: None };
        self.dials.borrow_mut().insert((osd, attempt), id);
        self.start_link(id, Owner::Dial(osd, attempt), peer, stream, Connection::connect(local, connect));
    }

    fn dial_failed(&self, osd: OsdId, attempt: Attempt, reason: String) {
        let event = OsdEvent::Mon(monclient::MonClientEvent::Disconnected(attempt, reason));
        self.dispatch(NodeEvent::Osd(osd, event));
    }

    /// Takes an ended link off the core and tells its daemon.
    pub(crate) fn detach(&self, link: &Rc<Link>) {
        let reason = link.ended.borrow().clone().unwrap_or_default();
        self.links.borrow_mut().remove(&link.id);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.held.fetch_sub(link.held.take(), Ordering::Relaxed);
        log_end(link, &reason);
        let event = match link.owner {
            Owner::Dial(osd, attempt) => {
                self.dials.borrow_mut().remove(&(osd, attempt));
                NodeEvent::Osd(osd, OsdEvent::Mon(monclient::MonClientEvent::Disconnected(attempt, reason)))
            }
            _ if !link.open.get() => return,
            Owner::Mon => NodeEvent::Mon(MonEvent::SessionClosed(link.id)),
            Owner::Osd(osd) => NodeEvent::Osd(osd, OsdEvent::SessionClosed(link.id)),
        };
        self.dispatch(event);
    }

    // --- connections' effects ---

    pub(crate) fn mark_dirty(&self, link: &Rc<Link>) {
        if !link.dirty.replace(true) {
            self.dirty.borrow_mut().push_back(link.clone());
        }
    }

    /// Handles what a link has just read, and all that follows.
    pub(crate) fn settle_one(&self, link: &Rc<Link>) {
        self.mark_dirty(link);
        self.count_held(link);
        self.settle();
    }

    /// Runs every connection's effects until none is left and ends the burst at the stores, until nothing follows; then
    /// writes once per connection.
    pub(crate) fn settle(&self) {
        // An effect's own event must not start a second round within the first.
        if self.settling.replace(true) {
            return;
        }
        let mut touched = Vec::new();
        loop {
            let next = self.dirty.borrow_mut().pop_front();
            let Some(link) = next else {
                self.turn();
                if self.dirty.borrow().is_empty() {
                    break;
                }
                continue;
            };
            link.dirty.set(false);
            self.run_effects(&link);
            touched.push(link);
        }
        touched.iter().for_each(|link| link.flush());
        self.settling.set(false);
    }

    fn run_effects(&self, link: &Rc<Link>) {
        loop {
            let effect = link.connection.borrow_mut().poll();
            match effect {
                None => return,
                Some(Effect::Write(bytes)) => link.out.borrow_mut().push(&bytes),
                Some(Effect::GlobalIdWanted { asked, .. }) => {
                    self.handle(NodeEvent::Mon(MonEvent::GlobalIdWanted { session: link.id, asked }));
                }
                Some(Effect::Established(info)) => self.established(link, *info),
                Some(Effect::Message(raw)) => self.received(link, &raw),
                Some(Effect::KeepaliveAcked(_)) => {
                    if let Owner::Dial(osd, attempt) = link.owner {
                        let event = OsdEvent::Mon(monclient::MonClientEvent::KeepaliveAcked(attempt));
                        self.handle(NodeEvent::Osd(osd, event));
                    }
                }
                // No kind of peer has lossless sessions here yet.
                Some(Effect::SessionWanted(_) | Effect::SessionReset) => {
                    link.end("lossless sessions are not served")
                }
                Some(Effect::Close(reason)) => link.end(reason.to_string()),
            }
        }
    }

    fn established(&self, link: &Rc<Link>, info: PeerInfo) {
        link.features.set(info.features);
        link.open.set(true);
        let event = match link.owner {
            Owner::Dial(osd, attempt) => {
                NodeEvent::Osd(osd, OsdEvent::Mon(monclient::MonClientEvent::Connected(attempt)))
            }
            Owner::Mon => match self.session_info(link, Daemon::Mon, info) {
                Some(info) => NodeEvent::Mon(MonEvent::SessionOpened(info)),
                None => return,
            },
            Owner::Osd(osd) => match self.session_info(link, Daemon::Osd(osd), info) {
                Some(info) => NodeEvent::Osd(osd, OsdEvent::SessionOpened(info)),
                None => return,
            },
        };
        self.handle(event);
    }

    fn session_info(&self, link: &Rc<Link>, daemon: Daemon, info: PeerInfo) -> Option<SessionInfo> {
        let identity = info.identity?;
        // A client does not know its id yet when it identifies itself to a monitor.
        let num = match info.name.kind {
            EntityType::Client => i64::try_from(info.global_id).ok()?,
            _ => info.name.num,
        };
        let local = self.local(daemon)?;
        Some(SessionInfo {
            id: link.id,
            entity: identity.entity,
            name: EntityName::new(info.name.kind, num),
            global_id: info.global_id,
            caps: identity.caps,
            features: info.features,
            peer_addrs: info.addrs,
            local_nonce: local.addrs.v2().map_or(0, |a| a.nonce),
        })
    }

    fn received(&self, link: &Rc<Link>, raw: &RawMessage) {
        let message = match Message::decode(raw) {
            Ok(message) => message,
            Err(error) => return link.end(format!("message of type {}: {error}", raw.header.kind)),
        };
        // A monitor of a later release may well say more than we know; whoever connects to us may not.
        if let (Message::Unknown { kind, .. }, Owner::Mon | Owner::Osd(_)) = (&message, link.owner) {
            return link.end(format!("message of the unknown type {kind}"));
        }
        if let (Message::OsdOp(_), Owner::Osd(_)) = (&message, link.owner) {
            self.shared.delay.inject();
        }
        let bytes = (raw.front.len() + raw.middle.len() + raw.data.len()) as u64;
        let session = link.id;
        self.handle(match link.owner {
            Owner::Mon => NodeEvent::Mon(MonEvent::Message { session, message }),
            Owner::Osd(osd) => NodeEvent::Osd(osd, OsdEvent::Message { session, message, bytes }),
            Owner::Dial(osd, attempt) => {
                NodeEvent::Osd(osd, OsdEvent::Mon(monclient::MonClientEvent::Message(attempt, message)))
            }
        });
    }

    // --- memory of unfinished messages ---

    fn count_held(&self, link: &Rc<Link>) {
        let (before, now) = (link.held.get(), link.connection.borrow().held_bytes());
        link.held.set(now);
        if now >= before {
            self.shared.held.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.shared.held.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// How much one read of small things may bring: less when memory for unfinished messages runs short, so that
    /// many peers together cannot run far over the limit.
    pub(crate) fn scratch_len(&self) -> usize {
        let tight = self.shared.held.load(Ordering::Relaxed) > self.shared.held_max / 2;
        if tight { HELD_SMALL } else { SCRATCH_BYTES }
    }

    /// Whether this link must wait before it reads more of an unfinished message. Makes room by ending those of this
    /// core's links that hold most of it and have stalled longest.
    pub(crate) fn short_of_memory(&self, asking: &Rc<Link>) -> bool {
        asking.waiting.set(false);
        if asking.held.get() <= HELD_SMALL || asking.has_ended() {
            return false;
        }
        let links = self.links.borrow();
        let now = Instant::now();
        while self.shared.held.load(Ordering::Relaxed) > self.shared.held_max {
            let holders = || links.values().filter(|l| l.held.get() > HELD_SMALL && !l.has_ended());
            let stalled =
                holders().filter(|l| !l.waiting.get() && now.duration_since(l.progress.get()) > STALLED);
            let Some(oldest) = stalled.min_by_key(|l| l.progress.get()) else {
                // Everybody is busy. The eldest goes on, so that there is always one who gets done; the rest waits.
                let eldest = holders().map(|l| l.id).min();
                asking.waiting.set(eldest != Some(asking.id));
                return asking.waiting.get();
            };
            self.shared.held.fetch_sub(oldest.held.take(), Ordering::Relaxed);
            // Now, and not when its task has a turn: what is counted as free is taken by others at once.
            oldest.connection.borrow_mut().abandon();
            oldest.end(format!(
                "stalled in the middle of a message while memory for unfinished messages is short \
                 (ms_receive_unfinished_bytes_max {})",
                self.shared.held_max
            ));
        }
        asking.has_ended()
    }

    /// Ends every link, as the process goes.
    pub(crate) fn close_all(&self) {
        self.links.borrow().values().for_each(|link| link.end("shutting down"));
    }

    /// Closes the monitor's state: what was handed over is written first.
    pub(crate) fn close_monstore(&self) {
        self.monstore.borrow_mut().take();
    }
}

fn log(daemon: Daemon, level: LogLevel, text: &str) {
    match level {
        LogLevel::Error => tracing::error!("{daemon}: {text}"),
        LogLevel::Warn => tracing::warn!("{daemon}: {text}"),
        LogLevel::Info => tracing::info!("{daemon}: {text}"),
        LogLevel::Debug => tracing::debug!("{daemon}: {text}"),
    }
}

/// A session's end is everyday; a connection that never became one, or broke the protocol, is worth a line.
fn log_end(link: &Link, reason: &str) {
    let who = match link.owner {
        Owner::Mon => "mon".to_owned(),
        Owner::Osd(id) => format!("osd.{id}"),
        Owner::Dial(id, _) => format!("osd.{id} to its monitor"),
    };
    let ordinary = link.open.get() && reason == PEER_CLOSED;
    if ordinary {
        tracing::debug!("{who}: {}: {reason}", link.peer);
    } else {
        tracing::info!("{who}: {}: connection ended: {reason}", link.peer);
    }
}
