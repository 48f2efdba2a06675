//! One connection of either role: bytes and answers in, effects out.

use std::collections::VecDeque;
use std::sync::Arc;

use auth::{ClientMethod, Identity, ServerMethod, SessionKey};
use buffer::Rope;
use types::{EntityAddr, EntityAddrVec, EntityId, EntityName, EntityType, UTime};

use crate::banner::{self, BannerReader};
use crate::frame::DATA;
use crate::receive::{Filled, ReadSlices, ReceiveBuffer};
use crate::{
    CloseReason, Control, Frame, FrameBody, FrameReader, Limits, Phase, RawMessage, Session, SessionRequest,
};

/// What a daemon says of itself on all of its connections.
#[derive(Clone, Debug)]
pub struct Local {
    pub kind: EntityType,
    /// Its number: rank, OSD number, global id; -1 where it has none.
    pub num: i64,
    /// Its addresses, nonces included. A client of a blank address takes the one that the server sees.
    pub addrs: EntityAddrVec,
    /// Features it has (a profile's word).
    pub features_supported: u64,
    /// Features it requires of its peers.
    pub features_required: u64,
    /// Kinds of peers whose sessions are lossless when they dial us; all others' end with their connection.
    pub lossless_peers: Vec<EntityType>,
    /// What a peer may ask of its memory.
    pub limits: Limits,
}

/// A connection that a peer opened to us.
pub struct Accept {
    /// The address that the peer's socket has.
    pub peer: EntityAddr,
    /// How it authenticates.
    pub method: Box<dyn ServerMethod>,
    /// Rises with every connection of this process.
    pub global_seq: u64,
}

/// A connection that we open.
pub struct Connect {
    /// Whom we dial.
    pub target: EntityAddr,
    /// What it must be.
    pub peer_kind: EntityType,
    /// How we authenticate.
    pub method: Box<dyn ClientMethod>,
    /// Rises with every connection of this process.
    pub global_seq: u64,
    /// The lossless session to open or take up again, and a random cookie other than 0, which it uses when it is new.
    /// `None`: a lossy session.
    pub session: Option<(Session, u64)>,
}

/// Who is at the other end of an open session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerInfo {
    /// What it is, and its number from the identification (clients of monitors say -1).
    pub name: EntityName,
    /// Whom authentication found it to be; `None` at the end that dialled.
    pub identity: Option<Identity>,
    /// The global id that authentication agreed on (at the end that dialled: our own).
    pub global_id: u64,
    /// The addresses that it says it has.
    pub addrs: EntityAddrVec,
    /// Features of both sides.
    pub features: u64,
    /// Whether the session ends with its connection.
    pub lossy: bool,
    /// The address that the peer sees us at.
    pub seen_as: EntityAddr,
}

/// What the shell has to do, in this order.
#[derive(Debug)]
pub enum Effect {
    /// Write these bytes. Consecutive ones may be joined into one write.
    Write(Rope),
    /// Give a global id by [`Connection::global_id`]: a new one, or the one asked for if it is this entity's.
    GlobalIdWanted {
        /// Who wants it.
        entity: EntityId,
        /// The id that it says it has, 0 for none.
        asked: u64,
    },
    /// The session is open.
    Established(Box<PeerInfo>),
    /// A peer wants a lossless session: find the one that this side has with its addresses, ask [`Session::judge`],
    /// and answer by [`Connection::open_session`], [`Connection::refuse_session`] or [`Connection::close`].
    SessionWanted(Box<SessionRequest>),
    /// The peer has forgotten the lossless session: what was queued for it is gone, what follows is a new one.
    SessionReset,
    /// A message came.
    Message(RawMessage),
    /// The peer answered the keepalive that we sent at this time.
    KeepaliveAcked(UTime),
    /// Close the socket once what was written has gone out; nothing follows.
    Close(CloseReason),
}

pub(crate) enum Role {
    Server { peer: EntityAddr, method: Box<dyn ServerMethod> },
    Client { target: EntityAddr, peer_kind: EntityType, method: Box<dyn ClientMethod>, cookie: u64 },
}

#[derive(Debug)]
pub(crate) enum State {
    Banner(BannerReader),
    Hello,
    Auth,
    AuthMore,
    GlobalId,
    Sign,
    Ident,
    Judging(Box<SessionRequest>),
    Open,
    Closed,
}

impl State {
    /// For messages: what we are waiting for.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Banner(_) => "waiting for a banner",
            Self::Hello => "waiting for HELLO",
            Self::Auth => "authenticating",
            Self::AuthMore => "authenticating further",
            Self::GlobalId => "choosing a global id",
            Self::Sign => "waiting for a signature",
            Self::Ident => "opening a session",
            Self::Judging(_) => "choosing a session",
            Self::Open => "the session is open",
            Self::Closed => "closed",
        }
    }
}

/// What both sides sign, kept until they have.
#[derive(Default)]
pub(crate) struct Transcript {
    pub(crate) received: Option<Vec<u8>>,
    pub(crate) sent: Option<Vec<u8>>,
}

/// A connection. Read into [`Connection::read_slices`] and say [`Connection::received`], or give it bytes by
/// [`Connection::feed`]; then perform what [`Connection::poll`] yields.
pub struct Connection {
    pub(crate) local: Arc<Local>,
    pub(crate) role: Role,
    pub(crate) state: State,
    pub(crate) reader: FrameReader,
    /// Pages to offer to the next read: more while reads fill them.
    pages: usize,
    pub(crate) transcript: Transcript,
    pub(crate) session_key: Option<SessionKey>,
    pub(crate) identity: Option<Identity>,
    pub(crate) global_id: u64,
    pub(crate) global_seq: u64,
    pub(crate) peer_kind: EntityType,
    takes_peer_messages: bool,
    pub(crate) seen_as: EntityAddr,
    pub(crate) session: Session,
    pub(crate) reconnecting: bool,
    effects: VecDeque<Effect>,
}

impl Connection {
    /// The server's end. Its banner is the first effect.
    pub fn accept(local: Arc<Local>, accept: Accept) -> Self {
        let Accept { peer, method, global_seq } = accept;
        Self::new(local, Role::Server { peer, method }, global_seq, Session::lossy())
    }

    /// The client's end. Its banner is the first effect.
    pub fn connect(local: Arc<Local>, connect: Connect) -> Self {
        let Connect { target, peer_kind, method, global_seq, session } = connect;
        let (mut session, cookie) = session.unwrap_or_else(|| (Session::lossy(), 0));
        session.start_dialling();
        Self::new(local, Role::Client { target, peer_kind, method, cookie }, global_seq, session)
    }

    fn new(local: Arc<Local>, role: Role, global_seq: u64, session: Session) -> Self {
        let banner = banner::encode(local.kind == EntityType::Osd);
        Self {
            reader: FrameReader::new(local.limits, Phase::Authenticating),
            pages: 1,
            local,
            role,
            state: State::Banner(BannerReader::default()),
            transcript: Transcript { received: Some(Vec::new()), sent: Some(banner.clone()) },
            session_key: None,
            identity: None,
            global_id: 0,
            global_seq,
            peer_kind: EntityType::Other(0),
            takes_peer_messages: false,
            seen_as: EntityAddr::default(),
            session,
            reconnecting: false,
            effects: VecDeque::from([Effect::Write(banner.into())]),
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Whether messages can be sent.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whether the peer has said that it takes messages of Loligo's own (`messages::kind::is_ours`).
    pub fn takes_peer_messages(&self) -> bool {
        self.takes_peer_messages
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Bytes of memory held for a frame that is not whole yet.
    pub fn held_bytes(&self) -> usize {
        self.reader.held_bytes()
    }

    /// Ends it at once, without a word to the peer, and frees what it holds of an unfinished message.
    pub fn abandon(&mut self) {
        self.state = State::Closed;
        self.session.disconnected();
        self.reader = FrameReader::new(self.local.limits, Phase::Authenticating);
    }

    /// Bytes that the unfinished frame announced.
    pub fn announced_bytes(&self) -> usize {
        self.reader.announced_bytes()
    }

    /// What to read into now, in the order of the stream; [`Connection::received`] must follow with the same buffer.
    /// `tight`: memory is short, so little at once.
    pub fn read_slices<'a>(&'a mut self, buffer: &'a mut ReceiveBuffer, tight: bool) -> ReadSlices<'a> {
        match self.state {
            State::Open => {
                buffer.plan(&mut self.reader, self.pages, tight);
                buffer.slices(self.reader.segment_tail())
            }
            // A handshake's frames are small.
            _ => {
                buffer.plan_scratch(tight);
                buffer.slices(None)
            }
        }
    }

    /// The first `n` bytes of [`Connection::read_slices`] have been read. Takes all, unless the connection ends midway.
    pub fn received(&mut self, buffer: &mut ReceiveBuffer, n: usize) {
        let (bytes_offered, pages_offered) = buffer.offered();
        let mut pages_filled = 0;
        for filled in buffer.filled(n) {
            if self.is_closed() {
                break;
            }
            match filled {
                Filled::Tail(n) => self.reader.advance(n),
                Filled::Bytes(bytes) => self.feed_all(bytes),
                Filled::Page(page, n) => {
                    pages_filled += 1;
                    if self.reader.adopt(page) {
                        self.reader.advance(n);
                    } else if let Some(page) = page {
                        self.feed_all(&page.as_mut_slice()[..n]);
                    }
                }
            }
        }
        self.pages = if n == bytes_offered { pages_offered * 2 } else { pages_filled };
        self.acknowledge();
    }

    /// Takes what was read; everything, unless the connection ends midway. Copies payload.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.feed_all(bytes);
        self.acknowledge();
    }

    fn feed_all(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_closed() {
            match self.feed_once(rest) {
                Ok(taken) => rest = rest.get(taken..).unwrap_or(&[]),
                Err(reason) => self.close(reason),
            }
        }
    }

    fn acknowledge(&mut self) {
        if let Some(seq) = self.session.take_ack() {
            self.write(&Control::Ack(seq));
        }
    }

    fn feed_once(&mut self, bytes: &[u8]) -> Result<usize, CloseReason> {
        if let State::Banner(banner) = &mut self.state {
            let (taken, whole) = banner.feed(bytes)?;
            if whole {
                let banner = std::mem::take(banner);
                self.on_banner(banner);
            }
            return Ok(taken);
        }
        let (taken, frame) = self.reader.feed(bytes)?;
        if let Some(received) = &mut self.transcript.received {
            received.extend(bytes.iter().take(taken));
        }
        if let Some(frame) = frame {
            self.on_frame(frame)?;
        }
        Ok(taken)
    }

    fn on_frame(&mut self, frame: Frame) -> Result<(), CloseReason> {
        let tag = frame.preamble.tag;
        let payload = match frame.body {
            FrameBody::Message(message) => {
                self.on_message(message, frame.preamble.segment_lengths()[DATA] as usize);
                return Ok(());
            }
            FrameBody::Control(payload) => payload,
            FrameBody::Aborted => return Ok(()),
        };
        let control = Control::decode(tag, &payload).map_err(|error| CloseReason::Payload { tag, error })?;
        match (&self.state, control) {
            (State::Open, Control::Keepalive(time)) => self.write(&Control::KeepaliveAck(time)),
            (State::Open, Control::KeepaliveAck(time)) => {
                self.effects.push_back(Effect::KeepaliveAcked(time))
            }
            (State::Open, Control::Ack(seq)) => self.session.acked(seq),
            (_, control) => self.on_handshake(control)?,
        }
        Ok(())
    }

    /// An old message is dropped in silence.
    fn on_message(&mut self, mut message: RawMessage, announced: usize) {
        if message.data.len() != announced {
            // Refused data was not kept; how much it was is what the answer depends on.
            message.data = Rope::zeros(announced);
        }
        if self.session.receive(message.header.seq, message.header.ack_seq) {
            self.effects.push_back(Effect::Message(message));
        }
    }

    /// Sends a message; its sequence numbers are set here. While the session is not open a lossless one keeps it, a
    /// lossy one drops it. One that fits no frame ends the connection: its peer would wait for it for ever.
    pub fn send(&mut self, message: RawMessage) {
        match self.session.send(message) {
            Ok(Some(frame)) => self.effects.push_back(Effect::Write(frame)),
            Ok(None) => {}
            Err(error) => self.close(CloseReason::TooLong(error)),
        }
    }

    /// Ends the connection if it hasn't ended, and hands out its session if that is lossless.
    pub fn take_session(&mut self) -> Option<Session> {
        self.close(CloseReason::Replaced);
        let mut session = std::mem::replace(&mut self.session, Session::lossy());
        session.disconnected();
        session.is_lossless().then_some(session)
    }

    /// The session, for [`Session::judge`].
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The highest global sequence number this connection used: the process's next must be above it.
    pub fn global_seq(&self) -> u64 {
        self.global_seq
    }

    /// Asks the peer for a sign of life; `now` comes back in [`Effect::KeepaliveAcked`].
    pub fn keepalive(&mut self, now: UTime) {
        if self.is_open() {
            self.write(&Control::Keepalive(now));
        }
    }

    /// Ends the connection from this side.
    pub fn close(&mut self, reason: CloseReason) {
        if !self.is_closed() {
            self.state = State::Closed;
            self.session.disconnected();
            self.effects.push_back(Effect::Close(reason));
        }
    }

    pub(crate) fn write(&mut self, control: &Control) {
        let bytes = control.encode_frame();
        if let Some(sent) = &mut self.transcript.sent {
            sent.extend_from_slice(&bytes);
        }
        self.effects.push_back(Effect::Write(bytes.into()));
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    fn on_banner(&mut self, banner: BannerReader) {
        self.state = State::Hello;
        self.takes_peer_messages = banner.takes_peer_messages();
        if let Some(received) = &mut self.transcript.received {
            received.extend(banner.into_bytes());
        }
        let peer_addr = match &self.role {
            Role::Server { peer, .. } => *peer,
            Role::Client { target, .. } => *target,
        };
        self.write(&Control::Hello { kind: self.local.kind, peer_addr });
    }
}
