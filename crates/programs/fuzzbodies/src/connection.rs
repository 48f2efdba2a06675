//! Frames and whole connections from arbitrary bytes.

use std::sync::Arc;

use auth::{ClientNone, ServerNone, Service};
use buffer::crc32c;
use msgr::{
    Accept, AcceptDecision, Connect, Connection, Effect, FrameBody, FrameReader, Limits, Local, Phase,
    Session, encode_control, encode_message,
};
use types::{EntityAddr, EntityId, EntityType, Profile, UTime};

/// Small, so that a fuzzer does not spend its time on zeroing memory.
pub(crate) const LIMITS: Limits = Limits {
    handshake_bytes_max: 64 << 10,
    control_bytes_max: 64 << 10,
    front_bytes_max: 1 << 20,
    middle_bytes_max: 1 << 20,
    data_bytes_max: 1 << 20,
    message_bytes_max: 2 << 20,
    refused_with_answer: Some(42),
    check_data_crc: true,
};

const PREAMBLE_BODY: usize = 28;

/// Bytes for [`connection`]: the length (u16, below 0x8000) with the top bit set when the chunk begins with a preamble
/// whose checksum is to be put right, then the chunk.
pub fn chunk(repair: bool, bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len().min(0x7fff);
    let head = len as u16 | if repair { 0x8000 } else { 0 };
    [&head.to_le_bytes(), &bytes[..len]].concat()
}

pub(crate) fn next_chunk<'a>(data: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    let (head, rest) = data.split_at_checked(2)?;
    let head = u16::from_le_bytes([head[0], head[1]]);
    let (chunk, rest) = rest.split_at(usize::from(head & 0x7fff).min(rest.len()));
    *data = rest;
    Some((head & 0x8000 != 0, chunk))
}

pub(crate) fn repaired(chunk: &[u8]) -> Vec<u8> {
    let mut out = chunk.to_vec();
    if let Some((preamble, rest)) = out.split_at_mut_checked(PREAMBLE_BODY) {
        if let Some(stated) = rest.get_mut(..4) {
            stated.copy_from_slice(&crc32c(0, preamble).to_le_bytes());
        }
    }
    out
}

/// Frames of any phase. The first byte: bit 0 leaves segment checksums unchecked, bit 1 repairs each chunk.
pub fn frames(data: &[u8]) {
    let Some((mode, mut data)) = data.split_first() else { return };
    let limits = Limits { check_data_crc: mode & 1 == 0, ..LIMITS };
    let mut reader = FrameReader::new(limits, Phase::Any);
    while let Some((repair, chunk)) = next_chunk(&mut data) {
        let bytes = if repair { repaired(chunk) } else { chunk.to_vec() };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let Ok((taken, frame)) = reader.feed(rest) else { return };
            rest = &rest[taken..];
            if let Some(frame) = frame {
                let len = frame.preamble.frame_len();
                match frame.body {
                    FrameBody::Message(message) => {
                        // Refused data is left out.
                        let left_out = frame.preamble.segment_lengths()[3] as usize - message.data.len();
                        assert!(left_out == 0 || message.header.kind == 42);
                        if left_out == 0 {
                            assert_eq!(encode_message(&message).map(|f| f.len()), Ok(len));
                        }
                    }
                    FrameBody::Control(payload) => {
                        assert_eq!(encode_control(frame.preamble.tag, &payload).len(), len);
                    }
                    FrameBody::Aborted => {}
                }
            }
        }
        assert!(reader.held_bytes() <= reader.announced_bytes().max(32));
    }
}

fn addr(port: u16) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), 0)
}

fn start(mode: u8) -> Connection {
    let local = Arc::new(Local {
        kind: EntityType::Mon,
        num: 0,
        addrs: addr(3300).into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: if mode & 1 == 0 { Vec::new() } else { vec![EntityType::Client, EntityType::Osd] },
        limits: Limits { check_data_crc: mode & 2 == 0, ..LIMITS },
    });
    if mode & 4 != 0 {
        let entity = EntityId { kind: EntityType::Osd, id: "0".into() };
        return Connection::connect(
            local,
            Connect {
                target: addr(3300),
                peer_kind: EntityType::Mon,
                method: Box::new(ClientNone::new(Service::Monitor, entity, 0)),
                global_seq: 1,
                session: (mode & 1 != 0).then(|| (Session::lossless(), 5)),
            },
        );
    }
    let service = if mode & 8 == 0 { Service::Monitor } else { Service::Daemon };
    Connection::accept(
        local,
        Accept { peer: addr(0), method: Box::new(ServerNone::new(service)), global_seq: 1 },
    )
}

/// A connection of either role. The first byte: bit 0 lossless, bit 1 segment checksums unchecked, bit 2 the client's
/// role, bit 3 a daemon's service instead of a monitor's.
pub fn connection(data: &[u8]) {
    let Some((mode, mut data)) = data.split_first() else { return };
    let mut connection = start(*mode);
    while let Some((repair, chunk)) = next_chunk(&mut data) {
        connection.feed(&if repair { repaired(chunk) } else { chunk.to_vec() });
        while let Some(effect) = connection.poll() {
            perform(&mut connection, effect);
        }
        connection.keepalive(UTime::default());
        assert!(connection.held_bytes() <= connection.announced_bytes().max(32));
    }
}

fn perform(connection: &mut Connection, effect: Effect) {
    match effect {
        Effect::GlobalIdWanted { asked, .. } => connection.global_id(asked.max(1)),
        Effect::Message(message) => {
            let _ = encode_message(&message);
            connection.send(message);
        }
        Effect::SessionWanted(request) => match Session::judge(None, &request, &addr(3300).into()) {
            AcceptDecision::Reply(control) => connection.refuse_session(&control),
            AcceptDecision::Close(reason) => connection.close(reason),
            _ => connection.open_session(Session::lossless(), 9, 2),
        },
        Effect::Close(_) => assert!(connection.is_closed()),
        _ => {}
    }
}
