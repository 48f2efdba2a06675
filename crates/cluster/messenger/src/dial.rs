//! Connections that a daemon opens.

use auth::{ClientNone, Service, SessionId};
use monclient::{Attempt, MonClientEvent, MonClientIo};
use msgr::{Connect, Connection};
use types::{EntityAddr, EntityId, EntityType, LogLevel, OsdId, UTime, broken};

use crate::messenger::Timer;
use crate::socket::Owner;
use crate::{Daemon, Effect, Endpoint, Messenger, SessionEvent, SocketEffect, SocketId};

impl Messenger {
    /// Does what an OSD's session to its monitor asks for.
    pub fn monitor_io(&mut self, now: UTime, osd: OsdId, io: MonClientIo) {
        self.now = now;
        match io {
            MonClientIo::Connect(attempt, addrs) => match addrs.v2().copied() {
                Some(target) => self.dial_monitor(osd, attempt, target),
                None => self.monitor_failed(osd, attempt, format!("{addrs} has no messenger 2 address")),
            },
            MonClientIo::Disconnect(attempt) => {
                if let Some(id) = self.monitor_socket(osd, attempt) {
                    self.end(id, "the OSD ends its session".into());
                }
            }
            MonClientIo::Send(attempt, message) => {
                if let Some(id) = self.monitor_socket(osd, attempt) {
                    self.send(now, SessionId(id.0), &message);
                }
            }
            MonClientIo::Keepalive(attempt) => {
                let id = self.monitor_socket(osd, attempt);
                if let Some((id, socket)) = id.and_then(|id| Some((id, self.sockets.get_mut(id)?))) {
                    socket.connection.keepalive(now);
                    self.run(id);
                }
            }
        }
    }

    /// The socket of an attempt. `None`: it ended; the OSD asked for that, or gets the event that says so.
    fn monitor_socket(&self, osd: OsdId, attempt: Attempt) -> Option<SocketId> {
        self.monitors.get(&(osd, attempt)).copied()
    }

    fn dial_monitor(&mut self, osd: OsdId, attempt: Attempt, target: EntityAddr) {
        let Some(peer) = target.socket else {
            return self.monitor_failed(osd, attempt, format!("{target} has no IP address and port"));
        };
        let Some(local) = self.endpoints.get(&Endpoint::public(Daemon::Osd(osd))).cloned() else {
            let broken = broken!("osd.{osd}, which this core does not have, connects to the monitor");
            return self.log(Daemon::Osd(osd), LogLevel::Error, broken.to_string());
        };
        let entity = EntityId { kind: EntityType::Osd, id: osd.to_string() };
        let connect = Connect {
            target,
            peer_kind: EntityType::Mon,
            method: Box::new(ClientNone::new(Service::Monitor, entity, 0)),
            global_seq: self.next_global_seq(),
            session: None,
        };
        let owner = Owner::Monitor(osd, attempt);
        let Some(id) = self.insert(owner, peer, Connection::connect(local, connect)) else {
            return self.monitor_failed(osd, attempt, "too many connections".into());
        };
        self.monitors.insert((osd, attempt), id);
        self.effects.push_back(Effect::Socket(SocketEffect::Dial(id, peer)));
    }

    /// A dialled socket is connected. The handshake gets `ready_timeout` from now on.
    pub(crate) fn on_connected(&mut self, id: SocketId) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(id) else {
            // It took too long, or its daemon ended it.
            return;
        };
        socket.connected = true;
        socket.progress = now;
        let ready_by = now.after(self.config.ready_timeout);
        if let Some(before) = socket.ready_by.replace(ready_by) {
            self.timers.remove(&(before, Timer::Socket(id)));
        }
        self.timers.insert((ready_by, Timer::Socket(id)));
        self.run(id);
    }

    fn monitor_failed(&mut self, osd: OsdId, attempt: Attempt, reason: String) {
        self.monitor_event(osd, MonClientEvent::Disconnected(attempt, reason));
    }

    pub(crate) fn monitor_event(&mut self, osd: OsdId, event: MonClientEvent) {
        self.effects.push_back(Effect::Daemon(Daemon::Osd(osd), SessionEvent::Monitor(event)));
    }
}
