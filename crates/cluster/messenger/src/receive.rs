//! What connections want done, and what their peers say.

use auth::{SessionId, SessionInfo};
use messages::Message;
use monclient::MonClientEvent;
use msgr::{Effect as ConnectionEffect, PeerInfo, RawMessage};
use types::{EntityName, EntityType};

use crate::socket::Owner;
use crate::{Daemon, Effect, Endpoint, Messenger, SessionEvent, SocketId};

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
                // No kind of peer has lossless sessions here yet.
                ConnectionEffect::SessionWanted(_) | ConnectionEffect::SessionReset => {
                    self.end(id, "lossless sessions are not served".into());
                }
                ConnectionEffect::Close(reason) => self.end(id, reason.to_string()),
            }
        }
        if wrote {
            self.mark_to_flush(id);
        }
    }

    fn on_established(&mut self, id: SocketId, info: PeerInfo) {
        let Some(socket) = self.sockets.get(id) else {
            // Only `run` calls this, for a socket that it has.
            return;
        };
        let features = info.features;
        let (daemon, event) = match socket.owner {
            Owner::Monitor(osd, attempt) => {
                (Daemon::Osd(osd), SessionEvent::Monitor(MonClientEvent::Connected(attempt)))
            }
            Owner::Accepted(endpoint) => match self.session_info(socket.session, endpoint, info) {
                Ok(info) => (endpoint.daemon, SessionEvent::Opened(info)),
                Err(reason) => return self.end(id, reason.into()),
            },
        };
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.features = features;
            if let Some(at) = socket.ready_by.take() {
                self.timers.remove(&(at, id));
            }
        }
        self.effects.push_back(Effect::Daemon(daemon, event));
    }

    fn session_info(
        &self,
        id: SessionId,
        endpoint: Endpoint,
        info: PeerInfo,
    ) -> Result<SessionInfo, &'static str> {
        let identity = info.identity.ok_or("internal error: an accepted session without an identity")?;
        // A client does not know its id yet when it identifies itself to a monitor.
        let num = match info.name.kind {
            EntityType::Client => i64::try_from(info.global_id).map_err(|_| "a global id above 2^63")?,
            _ => info.name.num,
        };
        let local = self.endpoints.get(&endpoint).ok_or("the daemon has ended")?;
        Ok(SessionInfo {
            id,
            entity: identity.entity,
            name: EntityName::new(info.name.kind, num),
            global_id: info.global_id,
            caps: identity.caps,
            features: info.features,
            peer_addrs: info.addrs,
            local_nonce: local.addrs.v2().map_or(0, |a| a.nonce),
        })
    }

    fn on_message(&mut self, id: SocketId, raw: &RawMessage) {
        let Some(socket) = self.sockets.get(id) else { return };
        let (owner, session) = (socket.owner, socket.session);
        let message = match Message::decode(raw) {
            Ok(message) => message,
            Err(error) => return self.end(id, format!("message of type {}: {error}", raw.header.kind)),
        };
        let bytes = (raw.front.len() + raw.middle.len() + raw.data.len()) as u64;
        match owner {
            // A monitor of a later release may well say more than we know.
            Owner::Monitor(osd, attempt) => {
                self.monitor_event(osd, MonClientEvent::Message(attempt, message))
            }
            Owner::Accepted(endpoint) => {
                if let Message::Unknown { kind, .. } = &message {
                    return self.end(id, format!("message of the unknown type {kind}"));
                }
                self.client_ops += u64::from(matches!(message, Message::OsdOp(_)));
                let event = SessionEvent::Message { session, message, bytes };
                self.effects.push_back(Effect::Daemon(endpoint.daemon, event));
            }
        }
    }
}
