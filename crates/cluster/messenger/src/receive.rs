//! What connections want done, and what their peers say.

use auth::{Caps, SessionId, SessionInfo};
use messages::Message;
use monclient::MonClientEvent;
use msgr::{CloseReason, Effect as ConnectionEffect, PeerInfo, RawMessage};
use types::{EntityId, EntityName, EntityType};

use crate::messenger::Timer;
use crate::socket::Owner;
use crate::{Effect, Endpoint, Messenger, SessionEvent, SocketId};

impl Messenger {
    /// Performs what a socket's connection wants, until it wants nothing more or has ended.
    pub(crate) fn run(&mut self, id: SocketId) {
        let mut wrote = false;
        while let Some(socket) = self.sockets.get_mut(id) {
            let Some(effect) = socket.connection.poll() else { break };
            match effect {
                ConnectionEffect::Write(bytes) => {
                    socket.out.push(&bytes);
                    wrote = true;
                }
                ConnectionEffect::Message(raw) => self.on_message(id, &raw),
                ConnectionEffect::GlobalIdWanted { asked, .. } => {
                    let (daemon, session) = (socket.owner.daemon(), socket.session);
                    let event = SessionEvent::GlobalIdWanted { session, asked };
                    self.effects.push_back(Effect::Daemon(daemon, event));
                }
                ConnectionEffect::Established(info) => self.on_established(id, *info),
                ConnectionEffect::KeepaliveAcked(_) => {
                    if let Owner::Monitor(osd, attempt) = socket.owner {
                        self.monitor_event(osd, MonClientEvent::KeepaliveAcked(attempt));
                    }
                }
                ConnectionEffect::SessionWanted(request) => self.on_session_wanted(id, &request),
                ConnectionEffect::SessionReset => {
                    let session = socket.session;
                    self.on_session_reset(session);
                }
                ConnectionEffect::Close(reason) => {
                    let lost_race = matches!(reason, CloseReason::LostRace);
                    self.end_as(id, reason.to_string(), lost_race);
                }
            }
        }
        if wrote {
            self.mark_to_flush(id);
        }
    }

    fn on_established(&mut self, id: SocketId, info: PeerInfo) {
        let Some(socket) = self.sockets.get(id) else {
            debug_assert!(false, "a handshake of {id}, which has ended");
            return;
        };
        let (features, owner, session) = (info.features, socket.owner, socket.session);
        let opened = match owner {
            Owner::Monitor(..) => None,
            Owner::Peer { endpoint, .. } | Owner::Accepted(endpoint) => {
                match self.session_info(session, endpoint, &info) {
                    Ok(info) => Some(info),
                    Err(reason) => return self.end(id, reason.into()),
                }
            }
        };
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.features = features;
            socket.is_client = opened.as_ref().is_some_and(|info| info.name.kind == EntityType::Client);
            if let Some(at) = socket.ready_by.take() {
                self.timers.remove(&(at, Timer::Socket(id)));
            }
        }
        // A session that outlives its connections opens once.
        let is_news = !matches!(owner, Owner::Peer { .. }) || self.on_peer_open(session, &info);
        let event = match (owner, opened) {
            (Owner::Monitor(_, attempt), _) => {
                Some(SessionEvent::Monitor(MonClientEvent::Connected(attempt)))
            }
            (Owner::Peer { .. } | Owner::Accepted(_), opened) => opened.map(SessionEvent::Opened),
        };
        if let Some(event) = event.filter(|_| is_news) {
            self.effects.push_back(Effect::Daemon(owner.daemon(), event));
        }
        for message in self.take_waiting(session) {
            self.send_on_peer(session, &message);
        }
    }

    fn session_info(
        &self,
        id: SessionId,
        endpoint: Endpoint,
        info: &PeerInfo,
    ) -> Result<SessionInfo, &'static str> {
        // A client does not know its id yet when it identifies itself to a monitor.
        let num = match info.name.kind {
            EntityType::Client => i64::try_from(info.global_id).map_err(|_| "a global id above 2^63")?,
            _ => info.name.num,
        };
        let (entity, caps) = match &info.identity {
            Some(identity) => (identity.entity.clone(), identity.caps),
            // This side dialled an address of the map: the peer there needs no proof of its identity.
            None => (EntityId { kind: info.name.kind, id: num.to_string() }, Caps::all()),
        };
        let local = self.endpoints.get(&endpoint).ok_or("the daemon has ended")?;
        Ok(SessionInfo {
            id,
            entity,
            name: EntityName::new(info.name.kind, num),
            global_id: info.global_id,
            caps,
            features: info.features,
            peer_addrs: info.addrs.clone(),
            local_nonce: local.addrs.v2().map_or(0, |a| a.nonce),
        })
    }

    fn on_message(&mut self, id: SocketId, raw: &RawMessage) {
        let Some(socket) = self.sockets.get(id) else {
            debug_assert!(false, "a message of {id}, which has ended");
            return;
        };
        let (owner, session) = (socket.owner, socket.session);
        let message = match Message::decode(raw) {
            Ok(message) => message,
            Err(error) => {
                return self.refuse_message(id, &format!("message of type {}: {error}", raw.header.kind));
            }
        };
        let bytes = (raw.front.len() + raw.middle.len() + raw.data.len()) as u64;
        match owner {
            // A monitor of a later release may send messages that this one does not know: the OSD ignores them.
            Owner::Monitor(osd, attempt) => {
                self.monitor_event(osd, MonClientEvent::Message(attempt, message))
            }
            Owner::Accepted(endpoint) | Owner::Peer { endpoint, .. } => {
                if let Message::Unknown { kind, .. } = &message {
                    return self.refuse_message(id, &format!("message of the unknown type {kind}"));
                }
                self.client_ops += u64::from(matches!(message, Message::OsdOp(_)));
                let event = SessionEvent::Message { session, message, bytes };
                self.effects.push_back(Effect::Daemon(endpoint.daemon, event));
            }
        }
    }

    /// Ends the session of a message that cannot be read. A peer's is forgotten with its connection: it would bring the
    /// messages after this one, and no side would learn that one is missing.
    fn refuse_message(&mut self, id: SocketId, reason: &str) {
        match self.sockets.get(id).map(|socket| socket.owner) {
            Some(Owner::Peer { session, .. }) => self.forget_peer(session, reason),
            Some(Owner::Accepted(_) | Owner::Monitor(..)) | None => self.end(id, reason.into()),
        }
    }
}
