//! The sessions of an OSD to another one, as a client of it: it reads there what it copies.

use auth::{SessionId, SessionInfo};
use messages::{Message, RawMessage};
use osd::OsdEvent;
use types::{EntityAddr, EntityAddrVec};

use crate::Place;
use crate::daemons::{FEATURES, osd_addr};
use crate::network::{Dialled, Packet, Way};
use crate::world::World;

/// The OSD's process at an address.
fn process_at(addrs: &EntityAddrVec) -> Option<(i32, u32)> {
    let addr: &EntityAddr = addrs.v2()?;
    let (osd, life) = ((0..100).find(|id| osd_addr(*id, addr.nonce).socket == addr.socket)?, addr.nonce);
    Some((osd, life))
}

impl World {
    /// An OSD sends to another, or to itself, on a session that is made if need be.
    pub(crate) fn send_to_peer(&mut self, id: i32, to: &EntityAddrVec, message: &Message) {
        let Some((osd, life)) = process_at(to) else {
            return self.fail(format!("osd.{id} sends to {to}, where no OSD is"));
        };
        let (place, name) = (Place::Osd(id), Dialled::Peer(osd, life));
        if self.net.dialled(place, self.life(place), name).is_none() {
            self.connect(place, name, Place::Osd(osd), life);
        }
        if let Some(connection) = self.net.dialled(place, self.life(place), name) {
            self.send_packet(connection, Way::Up, Packet::Message(message.encode(FEATURES)));
        }
    }

    /// An OSD ends its session to another.
    pub(crate) fn close_peer(&mut self, id: i32, to: &EntityAddrVec) {
        let place = Place::Osd(id);
        let name = process_at(to).map(|(osd, life)| Dialled::Peer(osd, life));
        let connection = name.and_then(|name| self.net.dialled(place, self.life(place), name));
        if let Some(connection) = connection {
            self.close_side(connection, Way::Up, "the map has it elsewhere");
            self.peer_ended(connection, id);
        }
    }

    /// The other OSD has accepted: the session has a number at this one, too.
    pub(crate) fn peer_opened(&mut self, connection: SessionId, id: i32) {
        let at = self.random(self.plan.gates.len() as u64) as usize;
        let core = self.plan.gates[at];
        let Some((session, Dialled::Peer(osd, life))) = self.net.number_own(connection, core) else { return };
        let info = SessionInfo { peer_addrs: osd_addr(osd, life).into(), ..self.osd_info(session, osd) };
        self.osd_event(id, OsdEvent::SessionOpened(info));
    }

    pub(crate) fn peer_message(
        &mut self,
        connection: SessionId,
        id: i32,
        message: Message,
        raw: &RawMessage,
    ) {
        if let Some(session) = self.net.own_number(connection) {
            self.osd_event(id, OsdEvent::Message { session, message, bytes: raw.len() as u64 });
        }
    }

    /// The session has ended at the OSD that dialled.
    pub(crate) fn peer_ended(&mut self, connection: SessionId, id: i32) {
        match (self.net.own_number(connection), self.net.connections.get(&connection).map(|c| c.dialled)) {
            (Some(session), _) => self.osd_event(id, OsdEvent::SessionClosed(session)),
            (None, Some(Dialled::Peer(osd, life))) => {
                self.osd_event(id, OsdEvent::PeerLost(osd_addr(osd, life)));
            }
            (None, _) => {}
        }
    }
}
