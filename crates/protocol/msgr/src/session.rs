//! A session: sequence numbers, acknowledgements, replay, and who wins when both sides connect.
//!
//! A lossy session ends with its connection. A lossless one outlives it: what was not acknowledged is kept encoded
//! and written again on the next connection, so that every message arrives once and in order. The owner takes the
//! session out of a connection that ended ([`crate::Connection::take_session`]) and gives it to the next.

use std::collections::VecDeque;

use buffer::Rope;
use types::{EntityAddr, EntityAddrVec};

use crate::{ClientIdent, CloseReason, Control, MessageTooLong, RawMessage, Reconnect, encode_message};

/// What a session's connection is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// There is none.
    Idle,
    /// There is none, and this side will dial after a pause.
    AwaitingDial,
    /// This side is dialling.
    Dialling,
    /// Messages flow.
    Open,
}

#[derive(Clone, Debug)]
struct Unacked {
    seq: u64,
    frame: Rope,
}

/// One side's state of a session.
#[derive(Clone, Debug)]
pub struct Session {
    lossless: bool,
    link: LinkState,
    client_cookie: u64,
    server_cookie: u64,
    connect_seq: u64,
    peer_global_seq: u64,
    in_seq: u64,
    in_seq_acked: u64,
    out_seq: u64,
    unacked: VecDeque<Unacked>,
    unacked_bytes: usize,
    peer: Peer,
}

/// Who the peer said it is when the session was opened; a reconnection doesn't say it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    pub(crate) num: i64,
    pub(crate) addrs: EntityAddrVec,
    pub(crate) features: u64,
}

/// What a dialling peer asks of a lossless server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionRequest {
    /// A new session.
    Ident(ClientIdent),
    /// The one it had.
    Reconnect(Reconnect),
}

impl SessionRequest {
    /// The peer's addresses: what a session is found by.
    pub fn addrs(&self) -> &EntityAddrVec {
        match self {
            Self::Ident(ident) => &ident.addrs,
            Self::Reconnect(reconnect) => &reconnect.addrs,
        }
    }
}

/// What a server does with a [`SessionRequest`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AcceptDecision {
    /// Open a session that did not exist before.
    Fresh,
    /// End the connection that the existing session has, if any, and give the session to this one.
    TakeOver,
    /// Answer this; the existing session stays where it is.
    Reply(Control),
    /// End this connection.
    Close(CloseReason),
}

impl Session {
    pub(crate) fn lossy() -> Self {
        Self {
            lossless: false,
            link: LinkState::Idle,
            client_cookie: 0,
            server_cookie: 0,
            connect_seq: 0,
            peer_global_seq: 0,
            in_seq: 0,
            in_seq_acked: 0,
            out_seq: 0,
            unacked: VecDeque::new(),
            unacked_bytes: 0,
            peer: Peer::default(),
        }
    }

    /// A lossless session that has never been connected. Messages can be queued at once.
    pub fn lossless() -> Self {
        Self { lossless: true, ..Self::lossy() }
    }

    /// Whether the session outlives its connection.
    pub fn is_lossless(&self) -> bool {
        self.lossless
    }

    /// What its connection is doing.
    pub fn link(&self) -> LinkState {
        self.link
    }

    /// Bytes of encoded messages that the peer has not acknowledged.
    pub fn unacked_bytes(&self) -> usize {
        self.unacked_bytes
    }

    /// Whether every message that was sent is known to have arrived.
    pub fn is_drained(&self) -> bool {
        self.unacked.is_empty()
    }

    /// Queues a message. Returns its frame if it can be written now; otherwise a lossless session keeps it for its
    /// next connection and a lossy one drops it.
    ///
    /// # Errors
    /// Where the message fits no frame; it is not sent and takes no sequence number.
    pub fn send(&mut self, mut message: RawMessage) -> Result<Option<Rope>, MessageTooLong> {
        if !self.lossless && self.link != LinkState::Open {
            return Ok(None);
        }
        message.header.seq = self.out_seq + 1;
        message.header.ack_seq = self.in_seq;
        let frame = encode_message(&message)?;
        self.out_seq += 1;
        if self.lossless {
            self.unacked_bytes += frame.len();
            self.unacked.push_back(Unacked { seq: self.out_seq, frame: frame.clone() });
        }
        if self.link != LinkState::Open {
            return Ok(None);
        }
        self.in_seq_acked = self.in_seq;
        Ok(Some(frame))
    }

    /// A message came: whether it is new. One that skips ahead is taken, as Ceph does.
    pub(crate) fn receive(&mut self, seq: u64, ack_seq: u64) -> bool {
        self.acked(ack_seq);
        let new = seq > self.in_seq;
        if new {
            self.in_seq = seq;
        }
        new
    }

    /// The peer has everything up to `seq`.
    pub(crate) fn acked(&mut self, seq: u64) {
        while let Some(first) = self.unacked.front().filter(|first| first.seq <= seq) {
            self.unacked_bytes -= first.frame.len();
            self.unacked.pop_front();
        }
    }

    /// The acknowledgement that is due, if any.
    pub(crate) fn take_ack(&mut self) -> Option<u64> {
        if !self.lossless || self.link != LinkState::Open || self.in_seq_acked == self.in_seq {
            return None;
        }
        self.in_seq_acked = self.in_seq;
        Some(self.in_seq)
    }

    /// Everything that is to be written (again) on a connection that just opened.
    pub(crate) fn replay(&self) -> impl Iterator<Item = Rope> + '_ {
        self.unacked.iter().map(|unacked| unacked.frame.clone())
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn set_peer(&mut self, peer: Peer) {
        self.peer = peer;
    }

    pub(crate) fn disconnected(&mut self) {
        self.link = LinkState::Idle;
    }

    fn opened(&mut self) {
        self.link = LinkState::Open;
        // Whatever was acknowledged before may have been lost on the way.
        self.in_seq_acked = 0;
    }

    // The side that dials.

    /// The connection ended, and this side will dial again after a pause. For a peer that dials meanwhile, it counts as
    /// dialling, as with Ceph: an old attempt of the peer's that arrives now must not win.
    pub fn await_dial(&mut self) {
        self.start_dialling();
        self.link = LinkState::AwaitingDial;
    }

    pub(crate) fn start_dialling(&mut self) {
        if self.link != LinkState::AwaitingDial && self.server_cookie != 0 {
            self.connect_seq += 1;
        }
        self.link = LinkState::Dialling;
    }

    fn is_dialling(&self) -> bool {
        match self.link {
            LinkState::AwaitingDial | LinkState::Dialling => true,
            LinkState::Idle | LinkState::Open => false,
        }
    }

    /// What to say first: take the session up again, or open it under `cookie`.
    pub(crate) fn introduction(
        &mut self,
        addrs: EntityAddrVec,
        global_seq: u64,
        cookie: u64,
    ) -> SessionStart {
        if self.server_cookie != 0 {
            return SessionStart::Reconnect(Reconnect {
                addrs,
                client_cookie: self.client_cookie,
                server_cookie: self.server_cookie,
                global_seq,
                connect_seq: self.connect_seq,
                msg_seq: self.in_seq,
            });
        }
        if self.lossless && self.client_cookie == 0 {
            self.client_cookie = cookie;
        }
        SessionStart::Ident { addrs, cookie: self.client_cookie }
    }

    /// SERVER_IDENT came.
    pub(crate) fn accepted(&mut self, server_cookie: u64, global_seq: u64, lossless: bool) {
        (self.server_cookie, self.peer_global_seq) = (server_cookie, global_seq);
        if self.lossless && !lossless {
            // The server will not keep what we send, so neither do we.
            self.lossless = false;
        }
        self.opened();
    }

    /// SESSION_RECONNECT_OK came: the server has everything up to `msg_seq`.
    pub(crate) fn reconnected(&mut self, msg_seq: u64) {
        self.acked(msg_seq);
        self.opened();
    }

    /// SESSION_RESET came. `full`: the server knows nothing of the session; what was queued is gone.
    pub(crate) fn reset(&mut self, full: bool) {
        if full {
            *self = Self { link: self.link, lossless: self.lossless, ..Self::lossy() };
        } else {
            (self.server_cookie, self.connect_seq, self.in_seq) = (0, 0, 0);
        }
    }

    /// SESSION_RETRY came.
    pub(crate) fn retry_above(&mut self, connect_seq: u64) {
        self.connect_seq = connect_seq.saturating_add(1);
    }

    // The side that is dialled.

    /// What to do with a peer's request when this side has `existing` with it. `own` and the peer's addresses decide
    /// when both dialled: the connection that the lower address dialled wins.
    pub fn judge(
        existing: Option<&Session>,
        request: &SessionRequest,
        own: &EntityAddrVec,
    ) -> AcceptDecision {
        let peer_is_lower = address(request.addrs()) < address(own);
        match (existing, request) {
            (None, SessionRequest::Ident(_)) => AcceptDecision::Fresh,
            (None, SessionRequest::Reconnect(_)) => AcceptDecision::Reply(Control::Reset { full: true }),
            (Some(session), SessionRequest::Ident(ident)) => session.judge_ident(ident, peer_is_lower),
            (Some(session), SessionRequest::Reconnect(r)) => session.judge_reconnect(r, peer_is_lower),
        }
    }

    fn judge_ident(&self, ident: &ClientIdent, peer_is_lower: bool) -> AcceptDecision {
        if self.peer_global_seq > ident.global_seq {
            return AcceptDecision::Close(CloseReason::Stale);
        }
        let never_established = self.server_cookie == 0;
        let race = never_established && self.is_dialling() && self.client_cookie != ident.cookie;
        match race && !peer_is_lower {
            true => AcceptDecision::Reply(Control::Wait),
            false => AcceptDecision::TakeOver,
        }
    }

    fn judge_reconnect(&self, reconnect: &Reconnect, peer_is_lower: bool) -> AcceptDecision {
        if self.client_cookie != reconnect.client_cookie {
            return AcceptDecision::Reply(Control::Reset { full: true });
        }
        if self.server_cookie == 0 {
            return AcceptDecision::Reply(Control::Reset { full: false });
        }
        if self.peer_global_seq > reconnect.global_seq {
            return AcceptDecision::Reply(Control::RetryGlobal(self.peer_global_seq));
        }
        if self.connect_seq > reconnect.connect_seq {
            return AcceptDecision::Reply(Control::Retry(self.connect_seq));
        }
        let race = self.connect_seq == reconnect.connect_seq && self.is_dialling();
        match race && !peer_is_lower {
            true => AcceptDecision::Reply(Control::Wait),
            false => AcceptDecision::TakeOver,
        }
    }

    /// Opens the session for a CLIENT_IDENT under a new server cookie. Returns whether an older session of the same
    /// peer ended by this: the peer has forgotten it, and what was queued for it is gone.
    pub(crate) fn open_for_ident(&mut self, ident: &ClientIdent, server_cookie: u64) -> bool {
        let had_one = self.server_cookie != 0 && self.client_cookie != 0;
        let forgotten = had_one && self.client_cookie != ident.cookie;
        if forgotten {
            self.reset(true);
        }
        (self.client_cookie, self.server_cookie) = (ident.cookie, server_cookie);
        (self.peer_global_seq, self.in_seq) = (ident.global_seq, 0);
        self.opened();
        forgotten
    }

    /// Opens the session for a SESSION_RECONNECT; returns the sequence number of the newest message received, for the answer.
    pub(crate) fn open_for_reconnect(&mut self, reconnect: &Reconnect) -> u64 {
        (self.connect_seq, self.peer_global_seq) = (reconnect.connect_seq, reconnect.global_seq);
        self.acked(reconnect.msg_seq);
        self.opened();
        self.in_seq
    }
}

/// What the dialling side says first.
pub(crate) enum SessionStart {
    Ident { addrs: EntityAddrVec, cookie: u64 },
    Reconnect(Reconnect),
}

fn address(addrs: &EntityAddrVec) -> Option<EntityAddr> {
    addrs.v2().or(addrs.0.first()).copied()
}

#[cfg(test)]
mod tests;
