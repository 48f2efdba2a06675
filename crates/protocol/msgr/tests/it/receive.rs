//! Reading into what a connection offers: nothing is lost however the bytes arrive, and foreseen payload is not copied.

use std::io::Read;
use std::sync::Arc;

use auth::{ClientNone, ServerNone, Service};
use buffer::{ALIGN, Piece, copied_bytes};
use msgr::{Accept, Connect, Connection, Effect, Limits, Local, MessageHeader, RawMessage, ReceiveBuffer};
use types::{EntityAddr, EntityId, EntityType, Profile, SplitMix64, UTime};

fn local(kind: EntityType, port: u16) -> Arc<Local> {
    Arc::new(Local {
        kind,
        num: 1,
        addrs: EntityAddr::v2(([127, 0, 0, 1], port).into(), 1).into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: Vec::new(),
        limits: Limits::default(),
    })
}

/// A client and what it has sent, a server that reads it.
struct Pair {
    client: Connection,
    server: Connection,
    buffer: ReceiveBuffer,
    /// Sent and not read.
    socket: Vec<u8>,
    received: Vec<RawMessage>,
    reads: usize,
}

impl Pair {
    fn open() -> Self {
        let target = EntityAddr::v2(([127, 0, 0, 1], 6800).into(), 1);
        let entity = EntityId { kind: EntityType::Client, id: "admin".into() };
        let connect = Connect {
            target,
            peer_kind: EntityType::Osd,
            method: Box::new(ClientNone::new(Service::Daemon, entity, 4100)),
            global_seq: 1,
            session: None,
        };
        let method = Box::new(ServerNone::new(Service::Daemon));
        let accept = Accept { peer: EntityAddr::default(), method, global_seq: 1 };
        let mut pair = Self {
            client: Connection::connect(local(EntityType::Client, 0), connect),
            server: Connection::accept(local(EntityType::Osd, 6800), accept),
            buffer: ReceiveBuffer::default(),
            socket: Vec::new(),
            received: Vec::new(),
            reads: 0,
        };
        while !(pair.client.is_open() && pair.server.is_open()) {
            pair.settle();
            pair.read(usize::MAX, false);
        }
        pair.reads = 0;
        pair
    }

    /// Carries the server's bytes to the client, and the client's into the socket.
    fn settle(&mut self) {
        while let Some(effect) = self.server.poll() {
            match effect {
                Effect::Write(bytes) => self.client.feed(&bytes.to_vec()),
                Effect::Message(message) => self.received.push(message),
                Effect::Established(_) => {}
                other => panic!("{other:?}"),
            }
        }
        while let Some(effect) = self.client.poll() {
            match effect {
                Effect::Write(bytes) => bytes.pieces().iter().for_each(|p| self.socket.extend_from_slice(p)),
                Effect::Established(_) | Effect::KeepaliveAcked(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// One read, of at most so many bytes.
    fn read(&mut self, bytes_max: usize, tight: bool) {
        let mut bytes = &self.socket[..self.socket.len().min(bytes_max)];
        let n = bytes.read_vectored(&mut self.server.read_slices(&mut self.buffer, tight)).unwrap();
        self.server.received(&mut self.buffer, n);
        self.socket.drain(..n);
        self.reads += 1;
        self.settle();
    }

    fn send(&mut self, front: usize, data: usize) {
        let front = Piece::from(vec![front as u8; front]);
        let mut message = RawMessage::new(MessageHeader::default(), front);
        message.data = (0..data).map(|at| (at / 16 + data) as u8).collect::<Vec<_>>().into();
        self.client.send(message);
        self.settle();
    }

    /// Sends a message and has it read at once: the bytes that were copied, and the reads that it took.
    fn exchange(&mut self, front: usize, data: usize) -> (u64, usize) {
        self.send(front, data);
        let (before, reads) = (copied_bytes(), self.reads);
        while !self.socket.is_empty() {
            self.read(usize::MAX, false);
        }
        let message = self.received.pop().unwrap();
        assert_eq!((message.front.len(), message.data.len()), (front, data));
        assert!(data < ALIGN || message.data.pieces().iter().all(|p| p.as_ptr().align_offset(ALIGN) == 0));
        (copied_bytes() - before, self.reads - reads)
    }
}

#[test]
fn whatever_arrives_in_whatever_parts_is_received_as_it_was_sent() {
    let mut random = SplitMix64::new(7);
    for _ in 0..12 {
        let mut pair = Pair::open();
        let mut sent = Vec::new();
        for _ in 0..random.below(60) {
            let fronts = [0, 1, 200, 200, 200, 4095, 4096, 9000];
            let sizes = [0, 0, 1, 512, 4095, 4096, 4096, 4096, 4097, 8191, 8192, 70_000, 300_000];
            let front = fronts[random.below(fronts.len() as u64) as usize];
            let data = sizes[random.below(sizes.len() as u64) as usize];
            for _ in 0..1 + random.below(20) {
                pair.send(front, data);
                sent.push((front, data));
            }
            if random.below(3) == 0 {
                pair.client.keepalive(UTime::from_nanos(5));
                pair.settle();
            }
            for _ in 0..random.below(30) {
                let most = [1, 13, 100, 5000, 100_000, usize::MAX][random.below(6) as usize];
                pair.read(most, random.below(4) == 0);
            }
        }
        while !pair.socket.is_empty() {
            pair.read(1 + random.below(50_000) as usize, false);
        }
        let received: Vec<_> = pair.received.iter().map(|m| (m.front.len(), m.data.len())).collect();
        assert_eq!(received, sent);
        for message in &pair.received {
            let (front, data) = (message.front.len(), message.data.len());
            assert!(message.front.iter().all(|&b| b == front as u8));
            assert!(message.data.to_vec().iter().enumerate().all(|(at, &b)| b == (at / 16 + data) as u8));
        }
        assert_eq!((pair.server.held_bytes(), pair.server.announced_bytes()), (0, 0));
    }
}

#[test]
fn payload_of_messages_like_the_last_one_is_read_into_place_by_one_read() {
    let mut pair = Pair::open();
    assert_eq!(pair.exchange(200, 4096), (0, 2), "the first has nothing to go by: its head is read apart");
    (0..10).for_each(|_| assert_eq!(pair.exchange(200, 4096), (0, 1)));
    // Requests without data between writes change nothing.
    (0..3).for_each(|_| assert_eq!(pair.exchange(200, 0), (0, 1)));
    assert_eq!(pair.exchange(200, 4096), (0, 1));

    // The memory of a large one comes in three pieces.
    let mut pair = Pair::open();
    assert_eq!(pair.exchange(200, 4 << 20), (0, 4));
    (0..3).for_each(|_| assert_eq!(pair.exchange(200, 4 << 20), (0, 3)));
    assert_eq!(pair.exchange(200, 0), (0, 1));
    assert_eq!(pair.exchange(200, 4096), (0, 2));
}

#[test]
fn a_wrong_guess_copies_little_and_the_next_is_right() {
    let mut pair = Pair::open();
    pair.exchange(200, 4096);
    assert_eq!(pair.exchange(207, 4096), (4096, 1), "the payload begins elsewhere");
    assert_eq!(pair.exchange(207, 4096), (0, 1));
    // What follows a payload of a page is foretold to be the next head.
    let (copied, _) = pair.exchange(207, 4 << 20);
    assert!(copied <= 13 + 77 + 207, "{copied}");
    assert_eq!(pair.exchange(207, 4 << 20), (0, 3));
}

#[test]
fn one_read_brings_many_waiting_messages() {
    for (data, reads_max) in [(0, 8), (4096, 20)] {
        let mut pair = Pair::open();
        pair.exchange(200, data);
        (0..100).for_each(|_| pair.send(200, data));
        let (before, reads) = (copied_bytes(), pair.reads);
        while !pair.socket.is_empty() {
            pair.read(usize::MAX, false);
        }
        assert_eq!((pair.received.len(), copied_bytes() - before), (100, 0));
        assert!(pair.reads - reads <= reads_max, "{} reads for messages of {data}", pair.reads - reads);
    }
}
