//! Sessions between OSDs of one process: messages by value, without sockets.
//!
//! Each side has a session, found like any other by its endpoint and the other's address. The sides may be on different
//! cores: then a [`CoreMessage`] goes through the host, which keeps the order of those from one core to another. Nothing is
//! lost. What a daemon has taken of a peer's messages is reported back, so that the window of bytes of the sender counts
//! messages in memory as it counts those on a wire.
//!
//! Every core announces the addresses at which its OSDs take messages of other OSDs, by [`Effect::ToAllCores`].

use auth::{Caps, SessionId, SessionInfo};
use messages::Message;
use types::{EntityAddr, EntityId, EntityName, EntityType, LogLevel, UTime, broken};

use crate::{Daemon, Effect, Endpoint, Messenger, SessionEvent};

/// Where an address of this process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    core: u16,
    endpoint: Endpoint,
}

/// One end of a session in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreAddr {
    pub core: u16,
    pub endpoint: Endpoint,
    pub addr: EntityAddr,
}

/// What goes from one OSD of the process to another.
#[derive(Debug)]
pub struct CoreMessage {
    pub from: CoreAddr,
    pub to: CoreAddr,
    pub content: CoreContent,
}

#[derive(Debug)]
pub enum CoreContent {
    Message {
        /// The sender's session, and the bytes that its window counts.
        session: SessionId,
        bytes: usize,
        message: Box<Message>,
    },
    /// The receiver's daemon has taken messages of so many bytes of the sender's session.
    Taken { session: SessionId, bytes: usize },
    /// The session has ended at the other side.
    Closed,
}

/// Where an endpoint is: what a core's messenger announces to those of all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointNews {
    pub core: u16,
    pub endpoint: Endpoint,
    /// `None`: it has ended.
    pub addr: Option<EntityAddr>,
}

/// The bytes of a session in memory that are under way.
#[derive(Default, Debug)]
pub(crate) struct MemoryWindow {
    /// Sent, and not reported as taken.
    pub(crate) owed: usize,
    /// Taken by the daemon here, and not reported to the sender; the sender's session.
    taken: usize,
    sender: Option<SessionId>,
}

/// What the window counts for a message beside its payload.
const MESSAGE_BYTES: usize = 512;

/// A daemon that has taken this share (1 / this) of a window reports it. The sender is given room when half of its window is
/// free, so what is not reported yet must be less than half.
const REPORT_SHARE: usize = 4;

impl Messenger {
    /// Announces where an endpoint for other OSDs is, or that it is no more.
    pub(crate) fn announce(&mut self, endpoint: Endpoint) {
        if endpoint.role.is_for_peers() {
            let addr = self.address(endpoint);
            let news = EndpointNews { core: self.config.core, endpoint, addr };
            self.effects.push_back(Effect::ToAllCores(news));
        }
    }

    /// Takes what another core's messenger announces: the endpoint is reached without a socket from here on. Sessions that
    /// there are stay as they are; their other side ends those of an address that it gives up.
    pub fn endpoint_news(&mut self, EndpointNews { core, endpoint, addr }: EndpointNews) {
        self.elsewhere.retain(|_, route| route.endpoint != endpoint);
        if let Some(addr) = addr {
            self.elsewhere.insert(addr, Route { core, endpoint });
        }
    }

    /// Takes a message from another core of the process.
    pub fn from_core(&mut self, now: UTime, message: CoreMessage) {
        self.now = now;
        self.take_core_message(message);
    }

    /// The way to an address within the process, if it is there.
    pub(crate) fn route(&self, addr: EntityAddr) -> Option<Route> {
        let here = |(endpoint, local): (&Endpoint, &std::sync::Arc<msgr::Local>)| {
            let is_osd = matches!(endpoint.daemon, Daemon::Osd(_));
            let is_it = is_osd && local.addrs.v2() == Some(&addr);
            is_it.then_some(Route { core: self.config.core, endpoint: *endpoint })
        };
        self.endpoints.iter().find_map(here).or_else(|| self.elsewhere.get(&addr).copied())
    }

    /// Sends on a session whose other side is in this process.
    pub(crate) fn send_in_memory(&mut self, session: SessionId, message: Message) {
        let checked = match self.config.check_in_memory {
            false => Ok(message),
            true => Message::decode(&message.encode_from(EntityType::Osd, self.features_towards(session))),
        };
        match checked {
            Ok(message) => self.post_message(session, message),
            Err(error) => {
                let broken = broken!("a message that this process encoded cannot be decoded: {error}");
                self.forget_peer(session, &broken.to_string());
            }
        }
    }

    fn post_message(&mut self, session: SessionId, message: Message) {
        let bytes = message.payload_bytes() + MESSAGE_BYTES;
        // The session was there a moment ago.
        let Some(peer) = self.peers.get_mut(&session) else { return };
        peer.window.owed += bytes;
        self.post(session, CoreContent::Message { session, bytes, message: Box::new(message) });
    }

    fn post(&mut self, session: SessionId, content: CoreContent) {
        // The session was forgotten while the message was checked, or its other side has closed it.
        let Some(peer) = self.peers.get(&session) else { return };
        let (Some(route), endpoint, addr) = (peer.route, peer.endpoint, peer.addr) else { return };
        self.post_to(endpoint, route, addr, content);
    }

    /// The daemon has taken a message: when it has taken a good part of the window, the sender learns of it.
    fn note_taken(&mut self, session: SessionId, bytes: usize) {
        let report_from = self.config.peer_bytes_max / REPORT_SHARE;
        // The session was there a moment ago.
        let Some(window) = self.peers.get_mut(&session).map(|peer| &mut peer.window) else { return };
        window.taken += bytes;
        if window.taken < report_from {
            return;
        }
        let bytes = std::mem::take(&mut window.taken);
        if let Some(sender) = window.sender {
            self.post(session, CoreContent::Taken { session: sender, bytes });
        }
    }

    /// Tells the other side of a session that it has ended here.
    pub(crate) fn post_closed(&mut self, endpoint: Endpoint, route: Route, addr: EntityAddr) {
        self.post_to(endpoint, route, addr, CoreContent::Closed);
    }

    fn post_to(&mut self, from: Endpoint, route: Route, to: EntityAddr, content: CoreContent) {
        let Some(own) = self.endpoints.get(&from).and_then(|local| local.addrs.v2().copied()) else {
            let broken = broken!("{} has no address to send from", from.daemon);
            return self.log(from.daemon, LogLevel::Error, broken.to_string());
        };
        let message = CoreMessage {
            from: CoreAddr { core: self.config.core, endpoint: from, addr: own },
            to: CoreAddr { core: route.core, endpoint: route.endpoint, addr: to },
            content,
        };
        self.carry(message);
    }

    fn carry(&mut self, message: CoreMessage) {
        match message.to.core == self.config.core {
            true => self.take_core_message(message),
            false => self.effects.push_back(Effect::ToCore(message)),
        }
    }

    fn take_core_message(&mut self, CoreMessage { from, to, content }: CoreMessage) {
        let back = Route { core: from.core, endpoint: from.endpoint };
        let own = self.endpoints.get(&to.endpoint).and_then(|local| local.addrs.v2().copied());
        let known = self.peer_ids.get(&(to.endpoint, from.addr)).copied();
        match content {
            CoreContent::Message { .. } if own != Some(to.addr) => {
                // The OSD has another address now: the session went with the old one, and its sender is to know.
                let text = format!("a message to {}, which it no longer has, is dropped", to.addr);
                self.log(to.endpoint.daemon, LogLevel::Info, text);
                self.carry(CoreMessage { from: to, to: from, content: CoreContent::Closed });
            }
            CoreContent::Message { session: sender, bytes, message } => {
                let session = match known {
                    Some(session) if self.peers.get(&session).is_some_and(|p| p.route.is_some()) => session,
                    known => {
                        if let Some(session) = known {
                            self.forget_peer(session, "the peer is of this process");
                        }
                        let is_lossless = !to.endpoint.role.lossless_peers().is_empty();
                        self.add_peer(to.endpoint, from.addr, is_lossless, Some(back))
                    }
                };
                self.open_in_memory(session);
                if let Some(peer) = self.peers.get_mut(&session) {
                    peer.window.sender = Some(sender);
                }
                self.deliver(session, *message, bytes);
            }
            CoreContent::Taken { session, bytes } => {
                // Of a session that was forgotten meanwhile nothing is owed.
                if let Some(peer) = self.peers.get_mut(&session) {
                    peer.window.owed = peer.window.owed.saturating_sub(bytes);
                    self.note_room_of(session);
                }
            }
            CoreContent::Closed => {
                if let Some(peer) = known.and_then(|session| self.peers.get_mut(&session)) {
                    // `forget_peer` sends `Closed` to a session with a route; this one's other side has closed already.
                    peer.route = None;
                }
                if let Some(session) = known {
                    self.forget_peer(session, "closed by the peer");
                }
            }
        }
    }

    fn deliver(&mut self, session: SessionId, message: Message, bytes: usize) {
        // The session ended while its held messages were delivered.
        let Some(peer) = self.peers.get_mut(&session) else { return };
        if peer.paused {
            peer.held.push_back((message, bytes));
            return;
        }
        // A message by value has no segments to count.
        let event = SessionEvent::Message { session, message, bytes: 0 };
        self.effects.push_back(Effect::Daemon(peer.endpoint.daemon, event));
        self.note_taken(session, bytes);
    }

    /// Delivers what came while the daemon took nothing.
    pub(crate) fn deliver_held(&mut self, session: SessionId) {
        let held = self.peers.get_mut(&session).map(|peer| std::mem::take(&mut peer.held));
        for (message, bytes) in held.into_iter().flatten() {
            self.deliver(session, message, bytes);
        }
    }

    /// Announces a session in memory to its daemon, once.
    pub(crate) fn open_in_memory(&mut self, session: SessionId) {
        let Some(peer) = self.peers.get_mut(&session) else {
            debug_assert!(false, "{session} is opened and does not exist");
            return;
        };
        let (Some(route), addr, endpoint) = (peer.route, peer.addr, peer.endpoint) else {
            debug_assert!(false, "{session} is opened in memory and has a socket");
            return;
        };
        // `route` gives no address of the monitor's, and only OSDs' are set by `set_elsewhere`.
        let Daemon::Osd(osd) = route.endpoint.daemon else { return };
        if std::mem::replace(&mut peer.announced, true) {
            return;
        }
        // The daemon has ended (`remove_daemon`): it learns of no session.
        let Some(local) = self.endpoints.get(&endpoint) else { return };
        let info = SessionInfo {
            id: session,
            entity: EntityId { kind: EntityType::Osd, id: osd.to_string() },
            name: EntityName::new(EntityType::Osd, osd.0.into()),
            global_id: 0,
            caps: Caps::all(),
            features: local.features_supported,
            peer_addrs: addr.into(),
            local_nonce: local.addrs.v2().map_or(0, |own| own.nonce),
        };
        self.effects.push_back(Effect::Daemon(endpoint.daemon, SessionEvent::Opened(info)));
    }
}
