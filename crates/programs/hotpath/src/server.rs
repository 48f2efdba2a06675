//! The way of bytes through the node, as a core of the host goes it: read, feed, decode, handle, turn, encode. Where a PG is on
//! another core, that one's node is on the way too; the queue between the cores is not counted.

use std::collections::VecDeque;
use std::io::{IoSliceMut, Read};
use std::ops::Range;
use std::sync::Arc;

use auth::{ServerNone, Service, SessionId, SessionInfo};
use buffer::Rope;
use messages::Message;
use msgr::{Accept, Connection, Effect, Limits, Local, PeerInfo, ReceiveBuffer};
use node::{Node, NodeEffect, NodeEvent};
use osd::{CoreId, OsdEvent, PartMessage};
use types::{EntityAddr, EntityName, EntityType, OsdId, Profile, UTime};

use crate::HotpathError;

/// What the peer sent and the server has not read.
pub(crate) struct Socket<'a> {
    bytes: &'a [u8],
    /// The addresses that it was read to, where they are recorded.
    pub(crate) read_to: Option<Vec<Range<usize>>>,
}

impl<'a> Socket<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, read_to: None }
    }

    /// A read, in place of the system call.
    fn read(&mut self, to: &mut [IoSliceMut<'_>]) -> std::io::Result<usize> {
        if let Some(read_to) = &mut self.read_to {
            let slices = to.iter().map(|slice| slice.as_ptr_range());
            read_to.extend(slices.map(|range| range.start as usize..range.end as usize));
        }
        self.bytes.read_vectored(to)
    }

    /// A read within [`Server::hotpath_counted`]: it is not counted. (Outside of it, it alone would be.)
    #[inline(never)]
    fn hotpath_socket(&mut self, to: &mut [IoSliceMut<'_>]) -> std::io::Result<usize> {
        self.read(to)
    }
}

/// An OSD's end of a client's connection.
pub(crate) struct Server {
    osd: OsdId,
    session: SessionId,
    /// What the OSD's parts have for those on other cores.
    between: VecDeque<(CoreId, PartMessage)>,
    connection: Connection,
    features: u64,
    buffer: ReceiveBuffer,
    effects: Vec<NodeEffect>,
    /// Ropes to write to the socket.
    pub(crate) out: Vec<Rope>,
}

/// What a daemon says of itself in the handshake.
pub(crate) fn local(kind: EntityType, num: i64, addr: EntityAddr) -> Arc<Local> {
    Arc::new(Local {
        kind,
        num,
        addrs: addr.into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: Vec::new(),
        limits: Limits { refused_with_answer: Some(messages::kind::OSD_OP), ..Limits::default() },
    })
}

impl Server {
    pub(crate) fn accept(osd: OsdId, addr: EntityAddr, peer: EntityAddr, session: SessionId) -> Self {
        let method = Box::new(ServerNone::new(Service::Daemon));
        let accept = Accept { peer, method, global_seq: session.0 };
        Self {
            osd,
            session,
            between: VecDeque::new(),
            connection: Connection::accept(local(EntityType::Osd, osd.0.into(), addr), accept),
            features: 0,
            buffer: ReceiveBuffer::default(),
            effects: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Serves what the socket holds: the counted part.
    #[inline(never)]
    pub(crate) fn hotpath_counted(
        &mut self,
        nodes: &mut [Node],
        now: UTime,
        socket: &mut Socket<'_>,
    ) -> Result<(), HotpathError> {
        self.serve_by(Socket::hotpath_socket, nodes, now, socket)
    }

    /// The same, not counted.
    pub(crate) fn serve(
        &mut self,
        nodes: &mut [Node],
        now: UTime,
        socket: &mut Socket<'_>,
    ) -> Result<(), HotpathError> {
        self.serve_by(Socket::read, nodes, now, socket)
    }

    fn serve_by<'a>(
        &mut self,
        read: impl Fn(&mut Socket<'a>, &mut [IoSliceMut<'_>]) -> std::io::Result<usize>,
        nodes: &mut [Node],
        now: UTime,
        socket: &mut Socket<'a>,
    ) -> Result<(), HotpathError> {
        loop {
            let read = read(socket, &mut self.connection.read_slices(&mut self.buffer, false));
            let n = read.map_err(|e| HotpathError::Cluster(e.to_string()))?;
            self.connection.received(&mut self.buffer, n);
            self.settle(nodes, now)?;
            if socket.bytes.is_empty() {
                return Ok(());
            }
        }
    }

    fn run_effects(&mut self, nodes: &mut [Node], now: UTime) -> Result<(), HotpathError> {
        while let Some(effect) = self.connection.poll() {
            match effect {
                Effect::Write(rope) => self.out.push(rope),
                Effect::Message(raw) => {
                    let message = Message::decode(&raw).map_err(|e| HotpathError::Cluster(e.to_string()))?;
                    let bytes = (raw.front.len() + raw.middle.len() + raw.data.len()) as u64;
                    let event = OsdEvent::Message { session: self.session, message, bytes };
                    nodes[usize::from(self.session.core())].handle(
                        now,
                        NodeEvent::Osd(self.osd, event),
                        &mut self.effects,
                    );
                    self.perform()?;
                }
                Effect::Established(info) => {
                    let event = OsdEvent::SessionOpened(self.session_info(*info)?);
                    nodes[usize::from(self.session.core())].handle(
                        now,
                        NodeEvent::Osd(self.osd, event),
                        &mut self.effects,
                    );
                    self.perform()?;
                }
                other => return Err(HotpathError::Cluster(format!("the server's connection: {other:?}"))),
            }
        }
        Ok(())
    }

    fn session_info(&mut self, info: PeerInfo) -> Result<SessionInfo, HotpathError> {
        let identity =
            info.identity.ok_or_else(|| HotpathError::Cluster("a session without identity".into()))?;
        self.features = info.features;
        Ok(SessionInfo {
            id: self.session,
            entity: identity.entity,
            name: EntityName::new(EntityType::Client, info.global_id as i64),
            global_id: info.global_id,
            caps: identity.caps,
            features: info.features,
            peer_addrs: info.addrs,
            local_nonce: 0,
        })
    }

    /// Runs the connection's effects, ends the burst at the store, and encodes what that sends.
    pub(crate) fn settle(&mut self, nodes: &mut [Node], now: UTime) -> Result<(), HotpathError> {
        self.run_effects(nodes, now)?;
        nodes[usize::from(self.session.core())].turn(now, &mut self.effects);
        self.perform()?;
        // As a core takes what another has sent it: a burst of messages, then a turn.
        while let Some((core, _)) = self.between.front() {
            let core = *core;
            let node = &mut nodes[usize::from(core.0)];
            while self.between.front().is_some_and(|(to, _)| *to == core) {
                let Some((_, message)) = self.between.pop_front() else { break };
                let event = NodeEvent::Osd(self.osd, OsdEvent::FromCore(message));
                node.handle(now, event, &mut self.effects);
            }
            node.turn(now, &mut self.effects);
            self.perform()?;
        }
        self.run_effects(nodes, now)
    }

    fn perform(&mut self) -> Result<(), HotpathError> {
        for effect in self.effects.drain(..) {
            match effect {
                NodeEffect::Send(_, session, message) if session == self.session => {
                    self.connection.send(message.encode_from(EntityType::Osd, self.features));
                }
                NodeEffect::ToCore(core, _, message) => self.between.push_back((core, message)),
                NodeEffect::Log(..) | NodeEffect::Pause(..) | NodeEffect::Resume(..) => {}
                other => return Err(HotpathError::Cluster(format!("the OSD: {other:?}"))),
            }
        }
        Ok(())
    }
}
