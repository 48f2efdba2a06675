//! The handshake of both roles: HELLO, authentication, signatures, identification.

use auth::{AuthError, AuthRequest, AuthStep, ServerMethod, SessionKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, FeatureBits};

use crate::connection::{Role, State};
use crate::control::LOSSY;
use crate::session::{Peer, SessionStart};
use crate::{
    ClientIdent, CloseReason, Connection, Control, Effect, PeerInfo, Phase, Reconnect, ServerIdent, Session,
    SessionRequest,
};

/// What every messenger 2 peer must have.
const REQUIRED: u64 = FeatureBits::MSG_ADDR2;

impl Connection {
    /// A control frame of the handshake.
    pub(crate) fn on_handshake(&mut self, control: Control) -> Result<(), CloseReason> {
        let server = matches!(self.role, Role::Server { .. });
        match (&self.state, control) {
            (State::Hello, Control::Hello { kind, peer_addr }) => self.on_hello(kind, peer_addr),
            (State::Auth, Control::AuthRequest { method, modes, payload }) if server => {
                self.server_step(method, |server| server.start(method, &modes, &payload))
            }
            (State::AuthMore, Control::AuthRequestMore(payload)) if server => {
                self.server_step(0, |server| server.more(&payload))
            }
            (State::Auth, Control::AuthBadMethod { result, methods, modes, .. }) if !server => {
                self.on_bad_method(result, &methods, &modes)
            }
            (State::Auth, Control::AuthReplyMore(payload)) if !server => self.on_reply_more(&payload),
            (State::Auth, Control::AuthDone { global_id, mode, payload }) if !server => {
                self.on_auth_done(global_id, mode, &payload)
            }
            (State::Sign, Control::AuthSignature(signature)) => self.on_signature(&signature),
            (State::Ident, Control::ClientIdent(ident)) if server => self.on_client_ident(ident),
            (State::Ident, Control::Reconnect(reconnect)) if server => {
                self.on_reconnect(reconnect);
                Ok(())
            }
            (State::Ident, Control::ServerIdent(ident)) if !server => self.on_server_ident(ident),
            (State::Ident, Control::IdentMissingFeatures(features)) if !server => {
                Err(CloseReason::MissingFeatures(features))
            }
            (State::Ident, Control::Wait) if !server => Err(CloseReason::LostRace),
            (State::Ident, answer) if !server && self.reconnecting => self.on_reconnect_answer(answer),
            (state, control) => Err(CloseReason::Unexpected { tag: control.tag(), state: state.name() }),
        }
    }

    fn on_hello(&mut self, kind: EntityType, seen_as: EntityAddr) -> Result<(), CloseReason> {
        (self.peer_kind, self.seen_as, self.state) = (kind, seen_as, State::Auth);
        let request = match &mut self.role {
            Role::Server { .. } => return Ok(()),
            Role::Client { peer_kind, .. } if *peer_kind != kind => {
                return Err(CloseReason::WrongPeerType { wanted: *peer_kind, found: kind });
            }
            Role::Client { method, .. } => method.start(),
        };
        self.write_auth_request(request);
        Ok(())
    }

    // The server's half of authentication.

    /// Answers [`Effect::GlobalIdWanted`].
    pub fn global_id(&mut self, id: u64) {
        // Otherwise the connection ended while its owner drew the id.
        if matches!(self.state, State::GlobalId) {
            if let Err(reason) = self.server_step(0, |server| server.global_id(id)) {
                self.close(reason);
            }
        }
    }

    fn server_step(
        &mut self,
        asked_method: u32,
        run: impl FnOnce(&mut dyn ServerMethod) -> Result<AuthStep, AuthError>,
    ) -> Result<(), CloseReason> {
        let Role::Server { method, .. } = &mut self.role else { return Err(internal(OTHER_ROLE)) };
        match run(method.as_mut())? {
            AuthStep::Bad { result, methods, modes } => {
                self.state = State::Auth;
                self.write(&Control::AuthBadMethod { method: asked_method, result, methods, modes });
            }
            AuthStep::More(payload) => {
                self.state = State::AuthMore;
                self.write(&Control::AuthReplyMore(payload));
            }
            AuthStep::GlobalIdWanted { entity, asked } => {
                self.state = State::GlobalId;
                self.effect(Effect::GlobalIdWanted { entity, asked });
            }
            AuthStep::Done(identity) => {
                self.global_id = identity.global_id;
                self.session_key = identity.session_key.clone();
                let (global_id, mode, payload) =
                    (identity.global_id, identity.mode, identity.payload.clone());
                self.identity = Some(identity);
                self.write(&Control::AuthDone { global_id, mode, payload });
                self.sign()?;
            }
        }
        Ok(())
    }

    // The client's half.

    fn write_auth_request(&mut self, request: AuthRequest) {
        let AuthRequest { method, modes, payload } = request;
        self.write(&Control::AuthRequest { method, modes, payload });
    }

    fn on_bad_method(&mut self, result: i32, methods: &[u32], modes: &[u32]) -> Result<(), CloseReason> {
        let Role::Client { method, .. } = &mut self.role else { return Err(internal(OTHER_ROLE)) };
        let request = method.bad_method(result, methods, modes)?;
        self.write_auth_request(request);
        Ok(())
    }

    fn on_reply_more(&mut self, payload: &[u8]) -> Result<(), CloseReason> {
        let Role::Client { method, .. } = &mut self.role else { return Err(internal(OTHER_ROLE)) };
        let answer = method.more(payload)?;
        self.write(&Control::AuthRequestMore(answer));
        Ok(())
    }

    fn on_auth_done(&mut self, global_id: u64, mode: u32, payload: &[u8]) -> Result<(), CloseReason> {
        let Role::Client { method, .. } = &mut self.role else { return Err(internal(OTHER_ROLE)) };
        self.session_key = method.done(global_id, mode, payload)?;
        self.global_id = global_id;
        self.sign()
    }

    /// What the monitor gave for connections to other daemons, once; see [`auth::ClientMethod::take_tickets`].
    pub fn take_tickets(&mut self) -> Option<auth::Tickets> {
        match &mut self.role {
            Role::Client { method, .. } => method.take_tickets(),
            Role::Server { .. } => None,
        }
    }

    // Signatures.

    /// Signs what was received up to here; what was sent up to here, the peer signs.
    fn sign(&mut self) -> Result<(), CloseReason> {
        let received = self.transcript.received.take().ok_or_else(|| internal(NO_TRANSCRIPT))?;
        let sent = self.transcript.sent.take();
        self.write(&Control::AuthSignature(signature(self.session_key.as_ref(), &received)));
        self.transcript.sent = sent;
        self.state = State::Sign;
        Ok(())
    }

    fn on_signature(&mut self, theirs: &[u8; 32]) -> Result<(), CloseReason> {
        let sent = self.transcript.sent.take().ok_or_else(|| internal(NO_TRANSCRIPT))?;
        if !is_signed(self.session_key.as_ref(), &sent, theirs) {
            return Err(CloseReason::Signature);
        }
        self.reader.set_phase(Phase::Opening);
        self.state = State::Ident;
        self.introduce();
        Ok(())
    }

    // Identification.

    /// The client's first word on its session.
    fn introduce(&mut self) {
        let Role::Client { target, cookie, .. } = self.role else {
            // A server waits for the client to introduce itself.
            return;
        };
        match self.session.introduction(self.own_addrs(), self.global_seq, cookie) {
            SessionStart::Reconnect(reconnect) => {
                self.reconnecting = true;
                self.write(&Control::Reconnect(reconnect));
            }
            SessionStart::Ident { addrs, cookie } => {
                self.reconnecting = false;
                let ident = ClientIdent {
                    addrs,
                    target,
                    gid: self.local.num,
                    global_seq: self.global_seq,
                    supported: self.local.features_supported,
                    required: self.local.features_required | REQUIRED,
                    flags: if self.session.is_lossless() { 0 } else { LOSSY },
                    cookie,
                };
                self.write(&Control::ClientIdent(ident));
            }
        }
    }

    /// Our addresses, or where we have none the one that the server sees, without the port, on which this side does not listen.
    fn own_addrs(&self) -> EntityAddrVec {
        if !self.local.addrs.0.is_empty() {
            return self.local.addrs.clone();
        }
        let mut addr = self.seen_as;
        if let Some(socket) = &mut addr.socket {
            socket.set_port(0);
        }
        addr.into()
    }

    fn on_client_ident(&mut self, ident: ClientIdent) -> Result<(), CloseReason> {
        if ident.addrs.0.first().is_none_or(|a| *a == EntityAddr::default()) {
            return Err(CloseReason::NoAddress);
        }
        if !self.local.addrs.0.contains(&ident.target) {
            return Err(CloseReason::WrongTarget { target: ident.target, ours: self.local.addrs.clone() });
        }
        let missing = (self.local.features_required | REQUIRED) & !ident.supported;
        if missing != 0 {
            self.write(&Control::IdentMissingFeatures(missing));
            return Ok(());
        }
        if self.local.lossless_peers.contains(&self.peer_kind) {
            self.want_session(SessionRequest::Ident(ident));
            return Ok(());
        }
        self.session = Session::lossy();
        self.session.open_for_ident(&ident, 0);
        self.write_server_ident(0);
        self.open(ident.gid, ident.addrs, ident.supported);
        Ok(())
    }

    fn write_server_ident(&mut self, cookie: u64) {
        self.write(&Control::ServerIdent(ServerIdent {
            addrs: self.local.addrs.clone(),
            gid: self.local.num,
            global_seq: self.global_seq,
            supported: self.local.features_supported,
            required: self.local.features_required | REQUIRED,
            flags: if self.session.is_lossless() { 0 } else { LOSSY },
            cookie,
        }));
    }

    fn on_server_ident(&mut self, ident: ServerIdent) -> Result<(), CloseReason> {
        let Role::Client { target, .. } = &self.role else { return Err(internal(OTHER_ROLE)) };
        if !ident.addrs.0.contains(target) {
            return Err(CloseReason::WrongPeer { target: *target, theirs: ident.addrs });
        }
        self.session.accepted(ident.cookie, ident.global_seq, ident.flags & LOSSY == 0);
        self.open(ident.gid, ident.addrs, ident.supported);
        Ok(())
    }

    // Lossless sessions.

    /// A lossy session can't be resumed: the peer gets a reset and continues with CLIENT_IDENT.
    fn on_reconnect(&mut self, reconnect: Reconnect) {
        match self.local.lossless_peers.contains(&self.peer_kind) {
            true => self.want_session(SessionRequest::Reconnect(reconnect)),
            false => self.write(&Control::Reset { full: true }),
        }
    }

    fn want_session(&mut self, request: SessionRequest) {
        self.state = State::Judging(Box::new(request.clone()));
        self.effect(Effect::SessionWanted(Box::new(request)));
    }

    /// Answers [`Effect::SessionWanted`] by a session: the one there was ([`crate::AcceptDecision::TakeOver`]) or a new one
    /// ([`crate::AcceptDecision::Fresh`]). `cookie` is random and not 0; `global_seq` is drawn now, not when the connection
    /// was accepted: by it the peer knows a connection attempt of ours that is still on its way as stale.
    pub fn open_session(&mut self, mut session: Session, cookie: u64, global_seq: u64) {
        let State::Judging(request) = &mut self.state else {
            // The connection ended while its owner decided: [`Connection::take_session`] hands the session out again.
            debug_assert!(self.is_closed(), "a session for a connection that did not want one");
            session.disconnected();
            self.session = session;
            return;
        };
        let request = request.clone();
        self.global_seq = self.global_seq.max(global_seq);
        match *request {
            SessionRequest::Ident(ident) => {
                if session.open_for_ident(&ident, cookie) {
                    self.effect(Effect::SessionReset);
                }
                self.session = session;
                self.write_server_ident(cookie);
                self.open(ident.gid, ident.addrs, ident.supported);
            }
            SessionRequest::Reconnect(reconnect) => {
                let newest = session.open_for_reconnect(&reconnect);
                self.session = session;
                self.write(&Control::ReconnectOk(newest));
                self.reopen();
            }
        }
    }

    /// Answers [`Effect::SessionWanted`] by [`crate::AcceptDecision::Reply`]'s frame; the peer may come again.
    pub fn refuse_session(&mut self, answer: &Control) {
        // Otherwise the connection ended while its owner decided.
        if matches!(self.state, State::Judging(_)) {
            self.state = State::Ident;
            self.write(answer);
        }
    }

    /// What a server says to SESSION_RECONNECT.
    fn on_reconnect_answer(&mut self, answer: Control) -> Result<(), CloseReason> {
        match answer {
            Control::ReconnectOk(msg_seq) => {
                self.session.reconnected(msg_seq);
                self.reopen();
                return Ok(());
            }
            Control::Reset { full } => {
                self.session.reset(full);
                if full {
                    self.effect(Effect::SessionReset);
                }
            }
            Control::Retry(connect_seq) => self.session.retry_above(connect_seq),
            Control::RetryGlobal(theirs) => self.global_seq = self.global_seq.max(theirs).saturating_add(1),
            answer => {
                return Err(CloseReason::Unexpected {
                    tag: answer.tag(),
                    state: "taking a session up again",
                });
            }
        }
        self.introduce();
        Ok(())
    }

    /// Opens a session whose peer has just said who it is.
    fn open(&mut self, num: i64, addrs: EntityAddrVec, supported: u64) {
        let features = supported & self.local.features_supported;
        self.session.set_peer(Peer { num, addrs, features });
        self.reopen();
    }

    /// Opens a session with the peer that it has; what it did not acknowledge is written again.
    fn reopen(&mut self) {
        self.state = State::Open;
        self.reader.set_phase(Phase::Open);
        let Peer { num, addrs, features } = self.session.peer().clone();
        let peer = PeerInfo {
            name: EntityName::new(self.peer_kind, num),
            identity: self.identity.take(),
            global_id: self.global_id,
            addrs,
            features,
            lossy: !self.session.is_lossless(),
            seen_as: self.seen_as,
        };
        self.effect(Effect::Established(Box::new(peer)));
        let again: Vec<_> = self.session.replay().collect();
        again.into_iter().for_each(|frame| self.effect(Effect::Write(frame)));
    }
}

/// [`Connection::on_handshake`] gives each role its own frames only.
const OTHER_ROLE: &str = "a frame of the other role in the handshake";
/// Each transcript is taken once, in the one state that signs or checks it.
const NO_TRANSCRIPT: &str = "the handshake's transcript was taken before";

/// An invariant that does not hold: our own mistake ends the connection, and a debug build.
fn internal(what: &'static str) -> CloseReason {
    debug_assert!(false, "{what}");
    CloseReason::Internal(what)
}

/// HMAC-SHA256 over the handshake, if the method made a key. HMAC takes keys of any length.
fn mac(key: Option<&SessionKey>, transcript: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key?.0).ok()?;
    mac.update(transcript);
    Some(mac)
}

/// What AUTH_SIGNATURE carries: zeros where there is no key.
fn signature(key: Option<&SessionKey>, transcript: &[u8]) -> [u8; 32] {
    mac(key, transcript).map_or([0; 32], |mac| mac.finalize().into_bytes().into())
}

/// Whether a peer's signature is right. With a key it takes the same time for every wrong one, so that a forger does not
/// learn how many bytes were right.
fn is_signed(key: Option<&SessionKey>, transcript: &[u8], theirs: &[u8; 32]) -> bool {
    match mac(key, transcript) {
        Some(mac) => mac.verify_slice(theirs).is_ok(),
        None => key.is_none() && *theirs == [0; 32],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_key_and_transcript_only() {
        // The second example of RFC 4231.
        let key = SessionKey(b"Jefe".to_vec());
        let transcript = b"what do ya want for nothing?";
        let signed = signature(Some(&key), transcript);
        assert_eq!(signed[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
        assert!(is_signed(Some(&key), transcript, &signed));
        for at in [0, 31] {
            let mut forged = signed;
            forged[at] ^= 1;
            assert!(!is_signed(Some(&key), transcript, &forged), "byte {at}");
        }
        assert!(!is_signed(Some(&key), b"another", &signed));
        assert!(!is_signed(Some(&SessionKey(b"another".to_vec())), transcript, &signed));
        assert!(!is_signed(None, transcript, &signed));
        assert!(is_signed(None, transcript, &[0; 32]), "no key, no signature: authentication `none`");
    }
}
