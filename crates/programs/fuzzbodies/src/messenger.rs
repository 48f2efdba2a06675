//! A messenger whose sockets bring arbitrary bytes in an arbitrary order of events.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::SessionId;
use messages::{Message, MonGetVersion};
use messenger::{
    Daemon, Effect, Endpoint, Event, Messenger, MessengerConfig, OutQueue, ProcessUsage, Role, SessionEvent,
    SocketEffect, SocketId,
};
use msgr::Local;
use types::{EntityAddr, EntityType, OsdId, Profile, UTime};

use crate::connection::{LIMITS, next_chunk, repaired};

const CONNECTIONS_MAX: usize = 20;
const UNFINISHED_BYTES_MAX: usize = 1 << 20;
const PEER_BYTES_MAX: usize = 10_000;

/// What a step of [`messenger`] does: its first byte modulo 8. The second byte chooses the socket, session, role or time.
/// After [`Step::Bytes`] comes a [`crate::chunk`].
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Accept = 0,
    SendPeer = 1,
    Connected = 2,
    Bytes = 3,
    EndOfStream = 4,
    Failed = 5,
    Pass = 6,
    /// By the session's number: a message to it, its end, a pause, its end.
    Session = 7,
}

const ROLES: [Role; 4] = [Role::Public, Role::Cluster, Role::HeartbeatBack, Role::HeartbeatFront];

/// The peer that is dialled.
pub const PEER: u16 = 6900;

/// An address that the target has (6800 and the role's number) or dials ([`PEER`]).
pub fn address(port: u16) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), 1)
}

/// What an OSD at such an address says of itself.
pub fn local(num: i64, port: u16, role: Role) -> Local {
    Local {
        kind: EntityType::Osd,
        num,
        addrs: address(port).into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: role.lossless_peers(),
        limits: LIMITS,
    }
}

struct World {
    messenger: Messenger,
    usage: Arc<ProcessUsage>,
    now: u64,
    sockets: Vec<SocketId>,
    sessions: Vec<SessionId>,
}

/// A messenger of one OSD with its four endpoints. See [`Step`] for the bytes.
pub fn messenger(mut data: &[u8]) {
    let mut world = World::new();
    while let Some((&[step, which], rest)) = data.split_first_chunk() {
        data = rest;
        world.step(step, usize::from(which), &mut data);
        world.settle();
        assert_eq!(world.usage.connections(), world.messenger.sockets());
        assert!(world.usage.connections() <= CONNECTIONS_MAX + world.messenger.peers());
    }
    world.messenger.close_all();
    world.settle();
    let left = (world.usage.connections(), world.usage.unfinished_bytes(), world.messenger.peers());
    assert_eq!((left, world.messenger.deadline()), ((0, 0, 0), None));
}

impl World {
    fn new() -> Self {
        let usage = Arc::<ProcessUsage>::default();
        let mut messenger = Messenger::new(MessengerConfig {
            core: 3,
            connections_max: CONNECTIONS_MAX,
            unfinished_bytes_max: UNFINISHED_BYTES_MAX,
            ready_timeout: Duration::from_secs(10),
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(15),
            peer_bytes_max: PEER_BYTES_MAX,
            check_in_memory: true,
            cookie_seed: 1,
            usage: usage.clone(),
        });
        for (role, port) in ROLES.into_iter().zip(6800..) {
            messenger.set_endpoint(endpoint(role), local(0, port, role));
        }
        Self { messenger, usage, now: 1 << 60, sockets: Vec::new(), sessions: Vec::new() }
    }

    fn step(&mut self, step: u8, which: usize, data: &mut &[u8]) {
        let now = UTime::from_nanos(self.now);
        let socket = self.sockets.get(which % self.sockets.len().max(1)).copied();
        let session = self.sessions.get(which % self.sessions.len().max(1)).copied();
        let role = ROLES[which % ROLES.len()];
        let message: Message = MonGetVersion { handle: 1, what: "x".repeat(which) }.into();
        match step % 8 {
            0 => {
                let peer = SocketAddr::from(([127, 0, 0, 9], 40_000));
                self.sockets.extend(self.messenger.accept(now, endpoint(role), peer));
            }
            1 => {
                // A full window is an answer like any other.
                let _ = self.messenger.send_peer(now, endpoint(role), &address(PEER).into(), message);
            }
            3 => {
                let Some((repair, chunk)) = next_chunk(data) else { return };
                let bytes = if repair { repaired(chunk) } else { chunk.to_vec() };
                socket.into_iter().for_each(|id| self.read(id, &bytes));
            }
            6 => {
                self.now += which as u64 * 100_000_000;
                self.messenger.handle(UTime::from_nanos(self.now), Event::Tick);
            }
            7 => {
                let Some(session) = session else { return };
                match which >> 6 {
                    0 => self.messenger.send(now, session, &message),
                    2 => self.messenger.pause(session, which & 1 == 0),
                    _ => self.messenger.close(session, "enough"),
                }
            }
            event => {
                let Some(id) = socket else { return };
                self.messenger.handle(
                    now,
                    match event {
                        2 => Event::Connected(id),
                        4 => Event::EndOfStream(id),
                        _ => Event::Failed(id, "reset".into()),
                    },
                );
            }
        }
    }

    /// Reads as a host does, as long as the messenger wants to.
    fn read(&mut self, id: SocketId, mut bytes: &[u8]) {
        let now = UTime::from_nanos(self.now);
        while !bytes.is_empty() {
            // Reading takes off what was read.
            let read = self.messenger.read_slices(now, id).map(|mut to| bytes.read_vectored(&mut to));
            let Some(Ok(n)) = read else { return };
            self.messenger.handle(now, Event::Read(id, n));
        }
    }

    fn settle(&mut self) {
        loop {
            while let Some(effect) = self.messenger.poll() {
                self.perform(effect);
            }
            self.messenger.flush();
            if !self.messenger.has_effects() {
                return;
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Socket(SocketEffect::Dial(id, _)) => self.sockets.push(id),
            Effect::Socket(SocketEffect::Flush(id)) => drain(self.messenger.out_queue(id)),
            Effect::Socket(SocketEffect::Close(id, _)) => self.sockets.retain(|has| *has != id),
            Effect::Daemon(_, SessionEvent::Opened(info)) => self.sessions.push(info.id),
            Effect::Daemon(_, SessionEvent::Closed(session)) => {
                assert!(self.sessions.contains(&session), "{session} closed, which was not open");
                self.sessions.retain(|has| *has != session);
            }
            Effect::Daemon(_, SessionEvent::Message { session, .. }) => {
                assert!(self.sessions.contains(&session), "a message of {session}, which is not open");
            }
            Effect::Daemon(..)
            | Effect::Socket(_)
            | Effect::Log(..)
            | Effect::ToCore(_)
            | Effect::ToAllCores(_) => {}
        }
    }
}

fn endpoint(role: Role) -> Endpoint {
    Endpoint::new(Daemon::Osd(OsdId(0)), role)
}

fn drain(queue: Option<&mut OutQueue>) {
    let taken = queue.map(|queue| queue.write_to(|slices| Ok(slices.iter().map(|s| s.len()).sum())));
    assert!(taken.is_none_or(|result| result.is_ok()));
}
