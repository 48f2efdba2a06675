//! A core: one thread's daemons, sockets and clock, and the performing of their effects.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use messages::Message;
use messenger::{
    CoreMessage, Daemon, Endpoint, EndpointNews, Event, Messenger, MessengerConfig, SocketEffect, SocketId,
};
use mon::MonEvent;
use msgr::Local;
use node::{ConnectedNode, CoreEffect, Node, NodeEvent};
use osd::{CoreId, LogLevel, OsdEvent, PartMessage};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use types::{EntityAddr, OsdId, UTime, broken};

use crate::CoreReport;
use crate::admin_socket::AdminSockets;
use crate::core_main::CoreCommand;
use crate::delay::DispatchDelay;
use crate::link::{Link, Wake};
use crate::mon_command::{MonAnswer, MonCommand, MonReply};
use crate::monstore::MonStore;
use crate::osds::{OsdState, OsdStates};
use crate::spare::{self, ACCEPT_RETRY, ACCEPT_WARNED_EVERY, SpareFile};
use crate::store_events::StoreEvents;
use runtime::Clock;

/// A burst of events that takes as long is worth a line in the log.
const TURN_NANOS_LOGGED: u64 = 20_000_000;

/// What the cores of a process share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) delay: DispatchDelay,
    /// Connections that may wait to be accepted (ms_tcp_listen_backlog).
    pub(crate) listen_backlog: i32,
    pub(crate) reports: std::sync::mpsc::Sender<CoreReport>,
    /// The OSDs as the process's main thread knows them, for who asks for the status.
    pub(crate) osds: OsdStates,
}

impl Shared {
    pub(crate) fn osds(&self) -> MutexGuard<'_, BTreeMap<OsdId, OsdState>> {
        self.osds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What goes from one core to another.
pub(crate) enum CrossCore {
    /// From an OSD's parts to its parts there.
    Part(OsdId, PartMessage),
    /// From an OSD to another one.
    Peer(Box<CoreMessage>),
    /// Where an OSD takes messages of others.
    Endpoint(EndpointNews),
}

/// A core's state. Nothing in it but [`Shared`] is shared with another thread.
pub(crate) struct Core {
    me: Weak<Core>,
    here: CoreId,
    pub(crate) shared: Arc<Shared>,
    node: RefCell<ConnectedNode>,
    /// By [`SocketId::index`].
    links: RefCell<Vec<Option<Rc<Link>>>>,
    effects: RefCell<Vec<CoreEffect>>,
    monstore: RefCell<Option<MonStore>>,
    /// The queues of all cores, by their numbers; this one's too. What waits in them of an OSD is bounded by the budgets of
    /// its gates and by its peers' windows.
    cores: Vec<UnboundedSender<CoreCommand>>,
    /// What goes to each core when the burst of events ends: it is woken once.
    to_cores: RefCell<Vec<Vec<CrossCore>>>,
    /// The longest burst of events that was logged, in nanoseconds.
    longest_turn: Cell<u64>,
    /// Commands to the monitor that it has not answered, by their transaction ids.
    mon_commands: RefCell<BTreeMap<u64, MonReply>>,
    last_tid: Cell<u64>,
    /// The tasks that accept connections.
    listeners: RefCell<BTreeMap<Endpoint, JoinHandle<()>>>,
    spare_file: RefCell<SpareFile>,
    /// The core that is asked next to make room for a connection.
    room_from: Cell<usize>,
    /// The admin sockets of the OSDs here.
    pub(crate) admin: AdminSockets,
    pub(crate) store_events: StoreEvents,
    /// When the task of the messenger's timers wakes next, and what wakes it earlier.
    timer_at: Cell<Option<UTime>>,
    timer_wake: Wake,
}

impl Core {
    pub(crate) fn new(
        shared: Arc<Shared>,
        config: MessengerConfig,
        cores: Vec<UnboundedSender<CoreCommand>>,
    ) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            here: CoreId(config.core),
            shared,
            node: RefCell::new(ConnectedNode::new(Messenger::new(config))),
            links: RefCell::default(),
            effects: RefCell::default(),
            monstore: RefCell::default(),
            to_cores: RefCell::new(cores.iter().map(|_| Vec::new()).collect()),
            cores,
            longest_turn: Cell::new(TURN_NANOS_LOGGED / 2),
            mon_commands: RefCell::default(),
            last_tid: Cell::new(0),
            listeners: RefCell::default(),
            spare_file: RefCell::new(SpareFile::open()),
            room_from: Cell::new(0),
            admin: AdminSockets::default(),
            store_events: StoreEvents::default(),
            timer_at: Cell::new(None),
            timer_wake: Wake::default(),
        })
    }

    /// This core's number.
    pub(crate) fn here(&self) -> CoreId {
        self.here
    }

    pub(crate) fn node(&self) -> std::cell::RefMut<'_, Node> {
        std::cell::RefMut::map(self.node.borrow_mut(), |connected| &mut connected.node)
    }

    pub(crate) fn messenger(&self) -> std::cell::RefMut<'_, Messenger> {
        std::cell::RefMut::map(self.node.borrow_mut(), |connected| &mut connected.messenger)
    }

    pub(crate) fn now(&self) -> UTime {
        self.shared.clock.now()
    }

    pub(crate) fn set_monstore(&self, store: MonStore) {
        *self.monstore.borrow_mut() = Some(store);
    }

    pub(crate) fn set_endpoint(&self, endpoint: Endpoint, local: Local) {
        self.messenger().set_endpoint(endpoint, local);
    }

    /// Gives the node an event, performs what follows, and writes what that gave.
    pub(crate) fn dispatch(&self, event: NodeEvent) {
        let now = self.now();
        let mut effects = self.effects.take();
        self.node.borrow_mut().handle(now, event, &mut effects);
        self.effects.replace(effects);
        self.settle();
        self.note_turn(now);
    }

    /// Takes what another core has for this one.
    pub(crate) fn take_from_core(&self, messages: Vec<CrossCore>) {
        let now = self.now();
        let mut effects = self.effects.take();
        let mut node = self.node.borrow_mut();
        node.touch_parts(messages.iter().filter_map(|message| match message {
            CrossCore::Part(osd, message) => Some((*osd, message)),
            CrossCore::Peer(_) | CrossCore::Endpoint(_) => None,
        }));
        for message in messages {
            match message {
                CrossCore::Part(osd, message) => {
                    node.handle(now, NodeEvent::Osd(osd, OsdEvent::FromCore(message)), &mut effects);
                }
                CrossCore::Peer(message) => node.peer_message(now, *message),
                CrossCore::Endpoint(news) => node.endpoint_news(news),
            }
        }
        drop(node);
        self.effects.replace(effects);
        self.settle();
        self.note_turn(now);
    }

    /// Logs a burst of events that held the core up for long, if it is twice as long as any before.
    fn note_turn(&self, begun: UTime) {
        let nanos = self.now().as_nanos().saturating_sub(begun.as_nanos());
        if nanos >= 2 * self.longest_turn.get() {
            self.longest_turn.set(nanos);
            tracing::debug!("a burst of events took {:.1} ms, the longest so far", nanos as f64 / 1e6);
        }
    }

    /// Gives the node an event of a socket; [`Core::settle`] must follow.
    pub(crate) fn handle_socket(&self, now: UTime, event: Event<'_>) {
        let mut node = self.node.borrow_mut();
        let before = node.messenger.client_ops();
        node.handle_socket(now, event);
        (before..node.messenger.client_ops()).for_each(|_| self.shared.delay.inject());
    }

    /// Performs what follows from the events since the last time, with one write for each socket.
    pub(crate) fn settle(&self) {
        let mut effects = self.effects.take();
        loop {
            self.node.borrow_mut().settle(self.now(), &mut effects);
            if effects.is_empty() {
                break;
            }
            effects.drain(..).for_each(|effect| self.perform(effect));
        }
        // Given back with its capacity.
        self.effects.replace(effects);
        self.send_to_cores();
        self.arm_timer();
    }

    fn send_to_cores(&self) {
        let mut to_cores = self.to_cores.borrow_mut();
        for (messages, core) in to_cores.iter_mut().zip(&self.cores).filter(|(m, _)| !m.is_empty()) {
            // The receiver is gone only when the process is ending.
            let _ = core.send(CoreCommand::FromCore(std::mem::take(messages)));
        }
    }

    /// Lets time pass for the OSDs.
    pub(crate) fn tick_osds(&self) {
        let ids = self.node().osd_ids();
        ids.into_iter().for_each(|id| self.dispatch(NodeEvent::Osd(id, OsdEvent::Tick)));
    }

    /// Lets an OSD go on with its work when the core's other tasks have had their turn.
    fn continue_later(&self, osd: OsdId) {
        // The core ends: nothing goes on.
        let Some(core) = self.me.upgrade() else { return };
        tokio::task::spawn_local(async move {
            tokio::task::yield_now().await;
            core.dispatch(NodeEvent::Osd(osd, OsdEvent::Continue));
        });
    }

    /// Performs an effect. What it leads to is left for [`Core::settle`], which calls this.
    fn perform(&self, effect: CoreEffect) {
        match effect {
            CoreEffect::Socket(effect) => self.perform_socket(effect),
            CoreEffect::PeerMessage(message) => {
                self.to_core(CoreId(message.to.core), CrossCore::Peer(Box::new(message)));
            }
            CoreEffect::ToAllCores(news) => {
                let others = (0..self.cores.len() as u16).map(CoreId).filter(|core| *core != self.here);
                others.for_each(|core| self.to_core(core, CrossCore::Endpoint(news)));
            }
            CoreEffect::Commit(token, batch) => {
                if let Some(store) = &*self.monstore.borrow() {
                    store.commit(token, batch);
                }
            }
            CoreEffect::ToCore(core, osd, message) => self.to_core(core, CrossCore::Part(osd, message)),
            CoreEffect::Continue(osd) => self.continue_later(osd),
            CoreEffect::Log(daemon, level, text) => log(daemon, level, &text),
            CoreEffect::Rebind(osd) => {
                if let Some(core) = self.me.upgrade() {
                    tokio::task::spawn_local(async move { core.rebind(osd) });
                }
            }
            CoreEffect::LogLevel(osd, level) => crate::log::note_level(osd, level),
            CoreEffect::StoreMemory(_) => crate::memory::note_other_bound(),
            CoreEffect::AdminAnswer(osd, id, answer) => self.admin_answer(osd, id, answer),
            CoreEffect::Active(osd) => self.report(CoreReport::Active(osd)),
            CoreEffect::Stopped(osd) => self.report(CoreReport::Stopped(osd)),
            CoreEffect::Failed(daemon @ (Daemon::Mon | Daemon::Mgr), reason) => {
                self.report(CoreReport::Failed(format!("{daemon}: {reason}")))
            }
            CoreEffect::Failed(Daemon::Osd(osd), reason) => self.report(CoreReport::OsdFailed(osd, reason)),
            CoreEffect::MonBehind { osd, has, newest } => {
                self.report(CoreReport::MonBehind { osd, has, newest });
            }
            CoreEffect::Ended(osd) => self.osd_ended(osd),
            CoreEffect::ToHost(message) => self.on_mon_answer(*message),
        }
    }

    /// Puts a message with those that a core gets when the burst of events ends.
    fn to_core(&self, core: CoreId, message: CrossCore) {
        match self.to_cores.borrow_mut().get_mut(usize::from(core.0)) {
            Some(messages) => messages.push(message),
            None => {
                let broken = broken!("a message for core {}, which does not exist", core.0);
                self.report(CoreReport::Failed(broken.to_string()));
            }
        }
    }

    /// An OSD's parts here are gone: nothing is accepted for it any more. That is reported once its ports are free and
    /// its last messages are on their way to other cores.
    fn osd_ended(&self, osd: OsdId) {
        self.admin.end(osd);
        self.store_events.end(osd);
        let mut listeners = self.listeners.borrow_mut();
        let of_osd = |endpoint: &&Endpoint| endpoint.daemon == Daemon::Osd(osd);
        let endpoints: Vec<Endpoint> = listeners.keys().filter(of_osd).copied().collect();
        let tasks: Vec<_> = endpoints.iter().filter_map(|endpoint| listeners.remove(endpoint)).collect();
        tasks.iter().for_each(JoinHandle::abort);
        let reports = self.shared.reports.clone();
        tokio::task::spawn_local(async move {
            for task in tasks {
                // An aborted task answers with an error: it has dropped its listener.
                let _ = task.await;
            }
            // The receiver is gone only when the process is ending.
            let _ = reports.send(CoreReport::Ended(osd));
        });
    }

    /// Gives the monitor a command of this process's own; the monitor is on this core.
    pub(crate) fn command_mon(&self, command: MonCommand, reply: MonReply) {
        let tid = self.last_tid.get() + 1;
        self.last_tid.set(tid);
        self.mon_commands.borrow_mut().insert(tid, reply);
        let message = command.into_message(tid);
        self.dispatch(NodeEvent::Mon(MonEvent::Message { session: node::HOST_SESSION, message }));
    }

    fn on_mon_answer(&self, message: Message) {
        let (tid, answer) = match message {
            Message::MonCommandAck(m) => (m.tid, MonAnswer::new(m.result, m.status, &m.data)),
            Message::CommandReply(m) => (m.tid, MonAnswer::new(m.result, m.status, &m.data)),
            // It subscribes to nothing, and asks for nothing else.
            _ => return,
        };
        if let Some(reply) = self.mon_commands.borrow_mut().remove(&tid) {
            reply(answer);
        }
    }

    pub(crate) fn report(&self, report: CoreReport) {
        // The receiver is gone only when the process is ending.
        let _ = self.shared.reports.send(report);
    }

    // --- sockets ---

    fn perform_socket(&self, effect: SocketEffect) {
        match effect {
            SocketEffect::Dial(id, addr) => {
                // The core ends: no daemon waits for the connection any more.
                let Some(core) = self.me.upgrade() else { return };
                let link = self.add_link(id);
                tokio::task::spawn_local(link.dial(core, addr));
            }
            SocketEffect::Flush(id) => {
                if let Some(link) = self.link(id) {
                    link.flush(self);
                }
            }
            SocketEffect::Interest(id) => {
                if let Some(link) = self.link(id) {
                    link.wake.wake();
                }
            }
            SocketEffect::Close(id, rest) => {
                if let Some(link) = self.links.borrow_mut().get_mut(id.index()).and_then(Option::take) {
                    link.close(rest);
                }
            }
        }
    }

    /// The link of a socket that the messenger has; `None` once it has closed it.
    fn link(&self, id: SocketId) -> Option<Rc<Link>> {
        self.links.borrow().get(id.index())?.clone()
    }

    fn add_link(&self, id: SocketId) -> Rc<Link> {
        let link = Rc::new(Link::new(id));
        let mut links = self.links.borrow_mut();
        if links.len() <= id.index() {
            links.resize(id.index() + 1, None);
        }
        links[id.index()] = Some(link.clone());
        link
    }

    /// Keeps the task that accepts an endpoint's connections; one that it had before ends, with its listener.
    pub(crate) fn keep_listener(&self, endpoint: Endpoint, task: JoinHandle<()>) {
        if let Some(before) = self.listeners.borrow_mut().insert(endpoint, task) {
            before.abort();
        }
    }

    /// An OSD has another cluster address.
    pub(crate) fn rebound(&self, osd: OsdId, addr: EntityAddr) {
        let mut effects = self.effects.take();
        self.node.borrow_mut().rebound(self.now(), osd, addr, &mut effects);
        self.effects.replace(effects);
        self.settle();
    }

    /// Serves a listener until its daemon ends. The connections go to the cores of `gates` in turn.
    pub(crate) async fn listen(
        self: Rc<Self>,
        endpoint: Endpoint,
        listener: TcpListener,
        gates: Vec<CoreId>,
    ) {
        let mut gates = gates.into_iter().cycle();
        let mut warned: Option<Instant> = None;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.distribute(endpoint, stream, peer, &mut gates),
                Err(error) => {
                    if warned.is_none_or(|at| at.elapsed() >= ACCEPT_WARNED_EVERY) {
                        warned = Some(Instant::now());
                        tracing::warn!("{}: accept: {error}; new connections wait", endpoint.daemon);
                    }
                    if spare::is_out_of_files(&error) {
                        if let Some((stream, peer)) = self.accept_with_room(&listener).await {
                            self.distribute(endpoint, stream, peer, &mut gates);
                        }
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    self.spare_file.borrow_mut().restore();
                }
            }
        }
    }

    /// Gives a connection to the next of its gates.
    fn distribute(
        self: &Rc<Self>,
        endpoint: Endpoint,
        stream: TcpStream,
        peer: SocketAddr,
        gates: &mut impl Iterator<Item = CoreId>,
    ) {
        let gate = gates.next().filter(|gate| *gate != self.here);
        match gate.and_then(|gate| self.cores.get(usize::from(gate.0))) {
            Some(gate) => hand_over(gate, endpoint, stream, peer),
            None => self.accept(endpoint, stream, peer),
        }
    }

    /// Where no more files may be opened, takes a connection that waits, and ends another for it. `None` if none waits, or the spare file
    /// has gone for an earlier one: what ends now gives that back.
    async fn accept_with_room(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
        let has_spare = self.spare_file.borrow().is_open();
        let accepted = match has_spare {
            true => Some(poll_fn(|cx| Poll::Ready(self.spare_file.borrow_mut().accept(listener, cx))).await?),
            false => None,
        };
        if !self.make_room() {
            // The next core may have one that can be spared.
            let others = (0..self.cores.len()).cycle().skip(self.room_from.get()).take(self.cores.len());
            if let Some(core) = others.into_iter().find(|core| *core != usize::from(self.here.0)) {
                self.room_from.set(core + 1);
                // The receiver is gone only when the process is ending.
                let _ = self.cores[core].send(CoreCommand::MakeRoom);
            }
        }
        accepted
    }

    /// Ends a connection of this core that can be spared, if there is one.
    pub(crate) fn make_room(&self) -> bool {
        let made = self.messenger().make_room(self.now());
        self.settle();
        made
    }

    /// Takes a connection that another core has accepted.
    pub(crate) fn take_accepted(
        self: &Rc<Self>,
        endpoint: Endpoint,
        stream: std::net::TcpStream,
        peer: SocketAddr,
    ) {
        match TcpStream::from_std(stream) {
            Ok(stream) => self.accept(endpoint, stream, peer),
            Err(error) => tracing::warn!("{}: the connection of {peer} is lost: {error}", endpoint.daemon),
        }
    }

    fn accept(self: &Rc<Self>, endpoint: Endpoint, stream: TcpStream, peer: SocketAddr) {
        let accepted = self.node.borrow_mut().accept(self.now(), endpoint, peer);
        if let Some(id) = accepted {
            let link = self.add_link(id);
            let read = link.connected(stream);
            tokio::task::spawn_local(link.serve(self.clone(), read));
        }
        self.settle();
    }

    /// Ends every connection, as the process goes.
    pub(crate) fn close_all(&self) {
        self.messenger().close_all();
        self.settle();
    }

    /// Closes the monitor's state: what was handed over is written first.
    pub(crate) fn close_monstore(&self) {
        self.monstore.borrow_mut().take();
    }

    // --- the messenger's time ---

    /// Wakes the timers' task if something is due before it would wake.
    fn arm_timer(&self) {
        let due = self.messenger().deadline();
        if due.is_some_and(|due| self.timer_at.get().is_none_or(|at| due < at)) {
            self.timer_wake.wake();
        }
    }

    /// Lets time pass for the messenger, for good.
    pub(crate) async fn run_timers(self: Rc<Self>) {
        loop {
            let due = self.messenger().deadline();
            self.timer_at.set(due);
            let left = due.map(|due| due.as_nanos().saturating_sub(self.now().as_nanos()));
            match left {
                Some(0) => {
                    self.handle_socket(self.now(), Event::Tick);
                    self.settle();
                    tokio::task::yield_now().await;
                }
                Some(nanos) => {
                    let sleep = tokio::time::sleep(Duration::from_nanos(nanos));
                    tokio::select! {
                        () = sleep => {}
                        () = self.timer_wake.wait() => {}
                    }
                }
                None => self.timer_wake.wait().await,
            }
        }
    }
}

/// Hands a connection to another core.
fn hand_over(gate: &UnboundedSender<CoreCommand>, endpoint: Endpoint, stream: TcpStream, peer: SocketAddr) {
    match stream.into_std() {
        // The receiver is gone only when the process is ending.
        Ok(stream) => drop(gate.send(CoreCommand::Accepted(endpoint, stream, peer))),
        Err(error) => tracing::warn!("{}: the connection of {peer} is lost: {error}", endpoint.daemon),
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
