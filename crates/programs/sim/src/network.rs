//! Connections: ordered, with delays, partitions, and ends that the two sides learn of at different times.

use std::collections::{BTreeMap, VecDeque};

use auth::SessionId;
use messages::RawMessage;
use monclient::Attempt;
use objecter::OsdSession;

use crate::Place;
use crate::world::{Happening, World};

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Way {
    /// From the side that dialled.
    Up,
    Down,
}

impl Way {
    fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

#[derive(Debug)]
pub enum Packet {
    /// Up: connect. Down: the connection is there.
    Open,
    Message(RawMessage),
    Keepalive,
    Close(String),
}

/// The connection's number at the side that dialled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dialled {
    Mon(Attempt),
    Osd(OsdSession),
    /// Another OSD's process, to which this OSD is a client.
    Peer(i32, u32),
}

/// A side of a connection.
#[derive(Debug)]
struct Side {
    place: Place,
    life: u32,
    open: bool,
    /// When the last packet that it was sent arrives.
    last: u64,
    /// Packets for it that a partition holds up, or that it does not read.
    held: VecDeque<Packet>,
    /// Whether it reads.
    reads: bool,
}

#[derive(Debug)]
pub struct Connection {
    pub id: SessionId,
    /// In the order in which connections are made.
    number: u64,
    pub dialled: Dialled,
    from: Side,
    to: Side,
    /// Whether it will break because nothing comes through.
    doomed: bool,
    /// The session's number at an OSD that dialled another, once it is open.
    own: Option<SessionId>,
}

impl Connection {
    fn side(&mut self, way: Way) -> &mut Side {
        match way {
            Way::Up => &mut self.to,
            Way::Down => &mut self.from,
        }
    }

    /// The place and life of the side that connected.
    pub fn initiator(&self) -> (Place, u32) {
        (self.from.place, self.from.life)
    }
}

/// All connections, and who can reach whom.
#[derive(Default)]
pub struct Network {
    pub connections: BTreeMap<SessionId, Connection>,
    ids: u64,
    /// Places of the smaller side of a partition.
    pub cut_off: Vec<Place>,
    /// Places that don't reach each other.
    pub cut_links: Vec<(Place, Place)>,
}

impl Network {
    /// Whether nothing comes through a connection now.
    fn is_blocked(&self, id: SessionId) -> bool {
        let cut_off = |side: &Side| self.cut_off.contains(&side.place);
        let is_cut = |c: &Connection| {
            let (from, to) = (c.from.place, c.to.place);
            self.cut_links.iter().any(|link| *link == (from, to) || *link == (to, from))
        };
        self.connections.get(&id).is_some_and(|c| cut_off(&c.from) != cut_off(&c.to) || is_cut(c))
    }

    /// The connections of clients to a place.
    pub fn of_clients(&self, place: Place) -> Vec<SessionId> {
        let is = |c: &&Connection| c.to.place == place && matches!(c.from.place, Place::Client(_));
        self.connections.values().filter(is).map(|c| c.id).collect()
    }

    /// Gives an OSD that dialled another a number for the session, if it has none yet.
    pub fn number_own(&mut self, id: SessionId, core: u16) -> Option<(SessionId, Dialled)> {
        let connection = self.connections.get_mut(&id).filter(|c| c.own.is_none())?;
        self.ids += 1;
        let own = SessionId::on_core(core, self.ids);
        connection.own = Some(own);
        Some((own, connection.dialled))
    }

    pub fn own_number(&self, id: SessionId) -> Option<SessionId> {
        self.connections.get(&id)?.own
    }

    /// The connection of a daemon's session, and the way to its other end.
    pub fn towards(&self, session: SessionId) -> (SessionId, Way) {
        let dialled = self.connections.values().find(|c| c.own == Some(session));
        dialled.map_or((session, Way::Down), |c| (c.id, Way::Up))
    }

    /// The connection that a process calls so, as long as the process has it open.
    pub fn dialled(&self, place: Place, life: u32, name: Dialled) -> Option<SessionId> {
        let is = |c: &&Connection| c.initiator() == (place, life) && c.dialled == name && c.from.open;
        self.connections.values().find(is).map(|c| c.id)
    }
}

impl World {
    pub(crate) fn connect(&mut self, from: Place, dialled: Dialled, to: Place, to_life: u32) {
        self.net.ids += 1;
        // The kernel gives a connection to one of the cores that listen.
        let core = match to {
            Place::Osd(_) => {
                let at = self.random(self.plan.gates.len() as u64);
                self.plan.gates[at as usize]
            }
            Place::Mon | Place::Client(_) => 0,
        };
        let id = SessionId::on_core(core, self.net.ids);
        let side = |place, life, open| {
            let held = VecDeque::new();
            Side { place, life, open, last: 0, held, reads: true }
        };
        let from = side(from, self.life(from), true);
        let to = side(to, to_life, false);
        self.net
            .connections
            .insert(id, Connection { id, number: self.net.ids, dialled, from, to, doomed: false, own: None });
        self.send_packet(id, Way::Up, Packet::Open);
    }

    /// Sends from the side that is open.
    pub(crate) fn send_packet(&mut self, id: SessionId, way: Way, packet: Packet) {
        let delay = self.delay();
        let now = self.now;
        // A side that ended sends no more.
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let side = connection.side(way);
        side.last = (now + delay).max(side.last + 1);
        let at = side.last;
        self.at(at, Happening::Arrive(id, way, packet));
    }

    /// One side closes; the other learns so from a packet.
    pub(crate) fn close_side(&mut self, id: SessionId, way_to_other: Way, reason: &str) {
        // It has ended at both ends.
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let own = connection.side(way_to_other.back());
        own.open = false;
        own.held.clear();
        self.send_packet(id, way_to_other, Packet::Close(reason.into()));
    }

    pub(crate) fn arrive(&mut self, id: SessionId, way: Way, packet: Packet) {
        let blocked = self.net.is_blocked(id);
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let side = connection.side(way);
        if blocked || !side.reads || !side.held.is_empty() {
            side.held.push_back(packet);
            if blocked && !connection.doomed {
                // The side that waits for an answer finds out after some time.
                connection.doomed = true;
                let patience = 2_000_000_000 + self.random(30_000_000_000);
                self.after(patience, Happening::Break(id));
            }
            return;
        }
        self.deliver(id, way, packet);
    }

    fn deliver(&mut self, id: SessionId, way: Way, packet: Packet) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let side = connection.side(way);
        let (place, life, open) = (side.place, side.life, side.open);
        if self.life_if_alive(place) != Some(life) {
            // The machine answers for a process that has ended; packets for the process are lost.
            if !matches!(packet, Packet::Close(_)) {
                self.break_side(id, way.back(), "connection refused");
            }
            return self.forget(id);
        }
        match (way, packet) {
            (Way::Up, Packet::Open) => self.accept(id, place),
            (Way::Down, Packet::Open) if open => self.dialled_opened(id),
            (_, Packet::Message(raw)) if open => self.deliver_message(id, way, place, raw),
            (_, Packet::Keepalive) if open => match way {
                Way::Up => self.send_packet(id, Way::Down, Packet::Keepalive),
                Way::Down => self.keepalive_acked(id),
            },
            (_, Packet::Close(reason)) => self.break_side(id, way, &reason),
            // For a side that has closed.
            (_, Packet::Open | Packet::Message(_) | Packet::Keepalive) => {}
        }
    }

    pub(crate) fn mark_open(&mut self, id: SessionId) {
        if let Some(connection) = self.net.connections.get_mut(&id) {
            connection.to.open = true;
        }
    }

    /// The side that `way` leads to learns that the connection has ended.
    pub(crate) fn break_side(&mut self, id: SessionId, way: Way, reason: &str) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let side = connection.side(way);
        let was_open = std::mem::take(&mut side.open);
        side.held.clear();
        let (place, life) = (side.place, side.life);
        if was_open && self.life_if_alive(place) == Some(life) {
            match way {
                Way::Up => self.session_closed(id, place),
                Way::Down => self.dialled_ended(id, reason),
            }
        }
        self.forget(id);
    }

    fn forget(&mut self, id: SessionId) {
        let over = |c: &Connection| !c.from.open && !c.to.open;
        if self.net.connections.get(&id).is_some_and(over) {
            self.net.connections.remove(&id);
        }
    }

    /// Breaks a connection: each side learns of it in its own time, and gets until then what was on its way.
    pub(crate) fn break_connection(&mut self, id: SessionId) {
        for way in [Way::Up, Way::Down] {
            let most = [100_000, 5_000_000, 400_000_000][self.random(3) as usize];
            let delay = self.random(most);
            self.after(delay, Happening::BreakSide(id, way));
        }
    }

    /// Ends the connections of a process that has ended. Peers find out: usually at once, later if the machine is down too.
    pub(crate) fn break_connections_of(&mut self, place: Place, silent: bool) {
        let of = |c: &&mut Connection| c.from.place == place || c.to.place == place;
        let mut others = Vec::new();
        for connection in self.net.connections.values_mut().filter(of) {
            let way = if connection.from.place == place { Way::Up } else { Way::Down };
            let own = connection.side(way.back());
            own.open = false;
            own.held.clear();
            others.push((connection.id, way));
        }
        for (id, way) in others {
            let delay = self.random(if silent { 15_000_000_000 } else { 2_000_000 });
            self.after(delay, Happening::BreakSide(id, way));
        }
    }

    /// Ends a client's older sessions at a server when a newer one comes.
    pub(crate) fn replace_older(&mut self, id: SessionId) {
        let Some(connection) = self.net.connections.get(&id) else { return };
        let (from, life, to) = (connection.from.place, connection.from.life, connection.to.place);
        let number = connection.number;
        let older = |c: &&Connection| {
            c.number < number && c.initiator() == (from, life) && c.to.place == to && c.to.open
        };
        let older: Vec<SessionId> = self.net.connections.values().filter(older).map(|c| c.id).collect();
        older.into_iter().for_each(|old| self.break_side(old, Way::Up, "replaced"));
    }

    /// A server stops reading a session, or reads it again.
    pub(crate) fn set_reads(&mut self, id: SessionId, reads: bool) {
        if let Some(connection) = self.net.connections.get_mut(&id) {
            connection.to.reads = reads;
            self.after(1_000, Happening::Release(id, Way::Up));
        }
    }

    /// Lets packets through that were held up, unless they still are.
    pub(crate) fn release(&mut self, id: SessionId, way: Way) {
        loop {
            let blocked = self.net.is_blocked(id);
            let Some(connection) = self.net.connections.get_mut(&id) else { return };
            let side = connection.side(way);
            if blocked || !side.reads {
                return;
            }
            let Some(packet) = side.held.pop_front() else { return };
            self.deliver(id, way, packet);
        }
    }

    /// Ends a partition.
    pub(crate) fn heal_network(&mut self) {
        self.net.cut_off.clear();
        self.net.cut_links.clear();
        let ids: Vec<SessionId> = self.net.connections.keys().copied().collect();
        for id in ids {
            for way in [Way::Up, Way::Down] {
                let delay = self.delay();
                self.after(delay, Happening::Release(id, way));
            }
        }
    }
}
