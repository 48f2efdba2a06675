//! What garbage, damage and absurd announcements get: a typed reason, and no memory.

use std::io::Read;
use std::sync::Arc;

use auth::{ClientMethod, ClientNone, ServerNone, Service};
use buffer::{Piece, Rope, copied_bytes, crc32c};
use msgr::{
    Accept, ClientIdent, CloseReason, Connection, Control, Effect, Fault, FrameBody, FrameError, FrameReader,
    Limits, Local, MessageHeader, MessageTooLong, Phase, RawMessage, ReceiveBuffer, Tag, encode_message,
};
use types::{EntityAddr, EntityType, Profile, UTime};

const BANNER: &[u8] = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

fn ours() -> EntityAddr {
    EntityAddr::v2("127.0.0.1:3300".parse().unwrap(), 7)
}

fn theirs() -> EntityAddr {
    EntityAddr::v2("127.0.0.1:0".parse().unwrap(), 99)
}

fn server(service: Service) -> Connection {
    let local = Local {
        kind: EntityType::Mon,
        num: 0,
        addrs: ours().into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: Vec::new(),
        limits: Limits::default(),
    };
    let method = Box::new(ServerNone::new(service));
    Connection::accept(Arc::new(local), Accept { peer: theirs(), method, global_seq: 1 })
}

fn bytes(control: &Control) -> Vec<u8> {
    control.encode_frame()
}

fn hello() -> Vec<u8> {
    bytes(&Control::Hello { kind: EntityType::Client, peer_addr: ours() })
}

fn auth_request() -> Vec<u8> {
    let request = ClientNone::new(Service::Daemon, "client.admin".parse().unwrap(), 4100).start();
    bytes(&Control::AuthRequest { method: request.method, modes: request.modes, payload: request.payload })
}

fn ident() -> ClientIdent {
    ClientIdent {
        addrs: theirs().into(),
        target: ours(),
        gid: -1,
        global_seq: 1,
        supported: Profile::PACIFIC.features_supported,
        required: 0,
        flags: 1,
        cookie: 0,
    }
}

#[test]
fn a_closed_connection_stays_closed_and_keeps_the_session_it_is_given() {
    let mut connection = server(Service::Daemon);
    connection.close(CloseReason::Replaced);
    // The answer to Effect::SessionWanted may come after the end.
    connection.open_session(msgr::Session::lossless(), 1, 1);
    assert!(connection.is_closed());
    assert!(connection.take_session().is_some(), "the session outlives its connections");
}

/// What a client says up to its signature.
fn authenticated() -> Vec<u8> {
    [BANNER.to_vec(), hello(), auth_request(), bytes(&Control::AuthSignature([0; 32]))].concat()
}

fn opened() -> Vec<u8> {
    [authenticated(), bytes(&Control::ClientIdent(ident()))].concat()
}

/// Why the server ended after these bytes; `None` if it didn't. Bytes come one at a time, so that a reason is given
/// at the first byte that allows it, and never more is held than came.
fn reason(sent: &[u8]) -> Option<CloseReason> {
    let mut connection = server(Service::Daemon);
    let mut out = None;
    for byte in sent.chunks(1) {
        assert!(out.is_none() || connection.is_closed());
        connection.feed(byte);
        assert!(connection.held_bytes() <= sent.len());
        if connection.is_closed() {
            assert_eq!(connection.announced_bytes().min(1 << 20), connection.announced_bytes());
        }
        while let Some(effect) = connection.poll() {
            if let Effect::Close(reason) = effect {
                out = Some(reason);
            }
        }
    }
    out
}

fn frame_reason(sent: &[u8]) -> FrameError {
    match reason(sent) {
        Some(CloseReason::Frame(error)) => error,
        other => panic!("not a frame error: {other:?}"),
    }
}

/// A preamble with a correct checksum.
fn preamble(tag: u8, count: u8, lengths: [u32; 4], flags: u8) -> Vec<u8> {
    let mut out = vec![tag, count];
    for length in lengths {
        out.extend(length.to_le_bytes());
        out.extend(8u16.to_le_bytes());
    }
    out.extend([flags, 0]);
    out.extend(crc32c(0, &out).to_le_bytes());
    out
}

fn message() -> Vec<u8> {
    let header = MessageHeader { seq: 1, kind: 15, ..MessageHeader::default() };
    let message = RawMessage {
        header,
        front: vec![1; 40].into(),
        middle: vec![2; 9].into(),
        data: vec![3; 5000].into(),
    };
    encode_message(&message).unwrap().to_vec()
}

#[test]
fn a_segment_of_4_gib_is_refused_instead_of_wrapping_its_length() {
    // Shared pieces: no memory is taken for it.
    let (piece, mut data) = (Rope::zeros(1 << 30), Rope::new());
    (0..4).for_each(|_| data.append(piece.clone()));
    let header = MessageHeader { seq: 1, kind: 43, ..MessageHeader::default() };
    let message = RawMessage { header, front: Piece::empty(), middle: Piece::empty(), data };
    assert_eq!(encode_message(&message), Err(MessageTooLong { kind: 43, bytes: 1 << 32 }));
}

#[test]
fn honest_bytes_open_a_session() {
    assert_eq!(reason(&opened()), None);
    assert_eq!(reason(&[opened(), message(), bytes(&Control::Keepalive(UTime::default()))].concat()), None);
}

#[test]
fn what_is_no_messenger_is_known_by_its_first_bytes() {
    assert_eq!(reason(b"GET"), Some(CloseReason::NotMessenger(b"G".to_vec())));
    assert_eq!(reason(b"ceph v3\n"), Some(CloseReason::NotMessenger(b"ceph v3".to_vec())));
    assert_eq!(reason(&[0xff]), Some(CloseReason::NotMessenger(vec![0xff])));
    assert_eq!(reason(b"ceph v027"), Some(CloseReason::MessengerV1));
    assert_eq!(reason(b"ceph v2\n\xff\xff"), Some(CloseReason::Banner("absurdly long")));
    assert_eq!(reason(b"ceph v2\n\x02\0"), Some(CloseReason::Banner("too short")));
}

#[test]
fn a_banner_without_revision_1_or_with_foreign_requirements_is_refused() {
    let banner = |supported: u64, required: u64| {
        [b"ceph v2\n\x10\0".to_vec(), supported.to_le_bytes().to_vec(), required.to_le_bytes().to_vec()]
            .concat()
    };
    assert_eq!(reason(&banner(2, 0)), Some(CloseReason::Revision { supported: 2 }));
    assert_eq!(reason(&banner(3, 2)), Some(CloseReason::RequiredByPeer { required: 2 }));
    assert_eq!(reason(&banner(3, 1)), None);
}

#[test]
fn a_longer_banner_of_a_later_release_is_read() {
    let mut sent = BANNER.to_vec();
    sent[8] = 24;
    sent.extend([0; 8]);
    assert_eq!(reason(&[sent, hello()].concat()), None);
}

#[test]
fn four_times_four_gib_are_refused_before_and_after_authentication() {
    let absurd = [u32::MAX; 4];
    for start in [BANNER.to_vec(), [BANNER.to_vec(), hello()].concat(), authenticated()] {
        let error = frame_reason(&[start, preamble(17, 4, absurd, 0)].concat());
        assert_eq!(error, FrameError::OutOfTurn { tag: Tag::Message });
    }
    for tag in [1, 2, 7] {
        let error = frame_reason(&[BANNER.to_vec(), preamble(tag, 1, absurd, 0)].concat());
        assert!(matches!(error, FrameError::TooLong { .. }), "{error}");
    }
    let error = frame_reason(&[opened(), preamble(17, 4, absurd, 0)].concat());
    assert_eq!(error, FrameError::HeaderLength(u32::MAX));
    let error = frame_reason(&[opened(), preamble(17, 4, [41, u32::MAX, u32::MAX, u32::MAX], 0)].concat());
    assert!(matches!(error, FrameError::TooLong { what: "front", announced: 0xffff_ffff, .. }), "{error}");
    let error = frame_reason(&[opened(), preamble(17, 4, [41, 0, 0, u32::MAX], 0)].concat());
    assert!(matches!(error, FrameError::TooLong { what: "data", .. }), "{error}");
    let error = frame_reason(&[opened(), preamble(18, 1, absurd, 0)].concat());
    assert!(matches!(error, FrameError::TooLong { what: "control frame", .. }), "{error}");
}

#[test]
fn each_segment_may_be_allowed_and_their_sum_not() {
    let limits = Limits::default();
    let lengths = [41, limits.front_bytes_max as u32, 0, limits.data_bytes_max as u32];
    let error = frame_reason(&[opened(), preamble(17, 4, lengths, 0)].concat());
    assert!(matches!(error, FrameError::TooLong { what: "message", .. }), "{error}");
}

#[test]
fn a_handshake_that_never_ends_is_ended() {
    let request = bytes(&Control::AuthRequest { method: 2, modes: vec![1], payload: vec![0; 1000] });
    let sent = [[BANNER.to_vec(), hello()].concat(), request.repeat(100)].concat();
    let error = frame_reason(&sent);
    assert!(matches!(error, FrameError::TooLong { what: "handshake", limit: 65536, .. }), "{error}");
}

#[test]
fn malformed_preambles_are_told_apart() {
    let at = |start: &[u8], preamble: Vec<u8>| frame_reason(&[start, &preamble].concat());
    let (fresh, open) = (BANNER.to_vec(), opened());
    assert_eq!(at(&fresh, preamble(0, 1, [0; 4], 0)), FrameError::UnknownTag(0));
    assert_eq!(at(&fresh, preamble(99, 1, [0; 4], 0)), FrameError::UnknownTag(99));
    assert_eq!(
        at(&fresh, preamble(21, 1, [5, 0, 0, 0], 0)),
        FrameError::OutOfTurn { tag: Tag::CompressionRequest }
    );
    assert_eq!(at(&open, preamble(1, 1, [8, 0, 0, 0], 0)), FrameError::OutOfTurn { tag: Tag::Hello });
    assert_eq!(
        at(&fresh, preamble(1, 2, [8, 8, 0, 0], 0)),
        FrameError::SegmentCount { tag: Tag::Hello, count: 2 }
    );
    assert_eq!(at(&fresh, preamble(1, 0, [0; 4], 0)), FrameError::SegmentCount { tag: Tag::Hello, count: 0 });
    assert_eq!(
        at(&open, preamble(17, 5, [41, 1, 1, 1], 0)),
        FrameError::SegmentCount { tag: Tag::Message, count: 5 }
    );
    assert_eq!(at(&open, preamble(17, 3, [41, 1, 0, 0], 0)), FrameError::EmptyLastSegment);
    assert_eq!(at(&open, preamble(17, 2, [41, 1, 0, 0], 1)), FrameError::Flags(1));
    assert_eq!(at(&open, preamble(17, 2, [40, 1, 0, 0], 0)), FrameError::HeaderLength(40));
    assert_eq!(at(&open, preamble(17, 1, [0; 4], 0)), FrameError::HeaderLength(0));
}

#[test]
fn one_flipped_bit_anywhere_is_found() {
    let (open, good) = (opened(), message());
    for at in 0..good.len() {
        // All of the small parts, and samples of the payload.
        if (140..good.len() - 30).contains(&at) && at % 611 != 0 {
            continue;
        }
        let mut bad = good.clone();
        // The upper half of an epilogue's status is reserved and unused; all other bits count.
        let last = good.len() - 13;
        bad[at] ^= 1 << (at % if at == last { 4 } else { 8 });
        let error = frame_reason(&[open.as_slice(), &bad].concat());
        match at {
            0..32 => assert!(matches!(error, FrameError::PreambleCrc { .. }), "{at}: {error}"),
            32..77 => assert!(matches!(error, FrameError::SegmentCrc { segment: 0, .. }), "{at}: {error}"),
            77..117 => assert!(matches!(error, FrameError::SegmentCrc { segment: 1, .. }), "{at}: {error}"),
            117..126 => assert!(matches!(error, FrameError::SegmentCrc { segment: 2, .. }), "{at}: {error}"),
            n if n < last => {
                assert!(matches!(error, FrameError::SegmentCrc { segment: 3, .. }), "{at}: {error}")
            }
            n if n == last => assert!(matches!(error, FrameError::LateStatus(_)), "{at}: {error}"),
            _ => assert!(matches!(error, FrameError::SegmentCrc { .. }), "{at}: {error}"),
        }
    }
}

#[test]
fn an_aborted_message_is_dropped_and_the_next_one_taken() {
    let mut aborted = message();
    let at = aborted.len() - 13;
    aborted[at] = 0x1;
    let mut connection = server(Service::Daemon);
    connection.feed(&[opened(), aborted, message()].concat());
    let mut messages = 0;
    while let Some(effect) = connection.poll() {
        messages += usize::from(matches!(effect, Effect::Message(_)));
        assert!(!matches!(effect, Effect::Close(_)), "{effect:?}");
    }
    assert_eq!(messages, 1);
}

#[test]
fn frames_out_of_order_and_unreadable_payloads_end_the_connection() {
    let base = [BANNER.to_vec(), hello()].concat();
    let unexpected = |sent: Vec<u8>| match reason(&sent) {
        Some(CloseReason::Unexpected { tag, .. }) => tag,
        other => panic!("{other:?}"),
    };
    assert_eq!(unexpected([BANNER.to_vec(), auth_request()].concat()), Tag::AuthRequest);
    assert_eq!(unexpected([base.clone(), hello()].concat()), Tag::Hello);
    assert_eq!(
        unexpected([base.clone(), bytes(&Control::AuthSignature([0; 32]))].concat()),
        Tag::AuthSignature
    );
    assert_eq!(unexpected([authenticated(), bytes(&Control::Wait)].concat()), Tag::Wait);
    let cut = msgr::encode_control(Tag::AuthRequest, &[1, 0, 0, 0, 9]);
    assert!(matches!(
        reason(&[base.clone(), cut].concat()),
        Some(CloseReason::Payload { tag: Tag::AuthRequest, .. })
    ));
    let payload = bytes(&Control::AuthRequest { method: 1, modes: vec![1], payload: vec![77] });
    assert!(matches!(reason(&[base.clone(), payload].concat()), Some(CloseReason::Auth(_))));
    let signature = bytes(&Control::AuthSignature([1; 32]));
    assert_eq!(reason(&[base, auth_request(), signature].concat()), Some(CloseReason::Signature));
}

#[test]
fn an_identification_must_fit() {
    let with = |change: fn(&mut ClientIdent)| {
        let mut ident = ident();
        change(&mut ident);
        reason(&[authenticated(), bytes(&Control::ClientIdent(ident))].concat())
    };
    assert_eq!(with(|i| i.addrs.0.clear()), Some(CloseReason::NoAddress));
    assert!(matches!(with(|i| i.target.nonce = 8), Some(CloseReason::WrongTarget { .. })));
    assert_eq!(with(|i| i.target.nonce = 8).map(|r| r.fault()), Some(Fault::Nobody));
}

#[test]
fn a_client_without_required_features_is_told_which_and_a_lossy_reconnect_is_reset() {
    let mut connection = server(Service::Daemon);
    let mut poor = ident();
    poor.supported = 1;
    connection.feed(&[authenticated(), bytes(&Control::ClientIdent(poor))].concat());
    let last = |connection: &mut Connection| {
        let mut out = Vec::new();
        while let Some(effect) = connection.poll() {
            match effect {
                Effect::Write(rope) => out = rope.to_vec(),
                effect => panic!("{effect:?}"),
            }
        }
        out
    };
    assert_eq!(last(&mut connection), bytes(&Control::IdentMissingFeatures(1 << 59)));
    let reconnect = msgr::Reconnect {
        addrs: theirs().into(),
        client_cookie: 1,
        server_cookie: 2,
        global_seq: 3,
        connect_seq: 4,
        msg_seq: 5,
    };
    connection.feed(&bytes(&Control::Reconnect(reconnect)));
    assert_eq!(last(&mut connection), bytes(&Control::Reset { full: true }));
    connection.feed(&bytes(&Control::ClientIdent(ident())));
    assert!(connection.is_open());
}

#[test]
fn a_monitors_peer_that_goes_on_while_its_global_id_is_chosen_is_refused() {
    let mut connection = server(Service::Monitor);
    let request = ClientNone::new(Service::Monitor, "client.admin".parse().unwrap(), 0).start();
    let request = bytes(&Control::AuthRequest {
        method: request.method,
        modes: request.modes,
        payload: request.payload,
    });
    connection.feed(&[BANNER.to_vec(), hello(), request.clone(), request].concat());
    let mut closed = None;
    while let Some(effect) = connection.poll() {
        if let Effect::Close(reason) = effect {
            closed = Some(reason);
        }
    }
    assert!(matches!(closed, Some(CloseReason::Unexpected { tag: Tag::AuthRequest, .. })), "{closed:?}");
    connection.global_id(5);
    assert!(connection.poll().is_none(), "nothing follows the end");
}

#[test]
fn a_segments_memory_grows_with_what_arrives() {
    let mut connection = server(Service::Daemon);
    let mut big = RawMessage::new(MessageHeader { seq: 1, ..MessageHeader::default() }, Piece::empty());
    big.data = vec![5; 4 << 20].into();
    let sent = encode_message(&big).unwrap().to_vec();
    connection.feed(&[opened(), sent[..1_000].to_vec()].concat());
    assert!(connection.held_bytes() <= 9 << 10, "{}", connection.held_bytes());
    connection.feed(&sent[1_000..100_000]);
    assert!(connection.held_bytes() <= 129 << 10 && connection.announced_bytes() > 4 << 20);
    let mut at = 100_000;
    let copied = copied_bytes();
    let mut buffer = ReceiveBuffer::default();
    while at < sent.len() {
        let n = (&sent[at..]).read_vectored(&mut connection.read_slices(&mut buffer, false)).unwrap();
        connection.received(&mut buffer, n);
        at += n;
    }
    assert_eq!(copied_bytes(), copied, "the rest of a large segment is read straight into place");
    let mut got = None;
    while let Some(effect) = connection.poll() {
        match effect {
            Effect::Message(message) => got = Some(message.data),
            Effect::Close(reason) => panic!("{reason}"),
            _ => {}
        }
    }
    assert_eq!(got, Some(big.data));

    connection.feed(&sent[..200_000]);
    assert!(connection.held_bytes() >= 100_000);
    connection.abandon();
    assert!(connection.is_closed() && connection.held_bytes() == 0);
    connection.feed(&sent[200_000..]);
    assert!(connection.poll().is_none() && connection.held_bytes() == 0, "nothing follows the end");
    assert_eq!((connection.held_bytes(), connection.announced_bytes()), (0, 0));
}

/// Without an answer the client would resend it for ever.
#[test]
fn too_much_data_of_a_request_is_read_and_not_kept() {
    const REQUEST: u16 = 42;
    let limits = Limits { data_bytes_max: 1 << 20, refused_with_answer: Some(REQUEST), ..Limits::default() };
    let message = |kind| {
        let header = MessageHeader { seq: 1, kind, ..MessageHeader::default() };
        let mut message = RawMessage::new(header, Piece::copy_from(b"front"));
        message.data = vec![5; (1 << 20) + 12_345].into();
        message
    };
    for piece in [1000, 70_000, 5 << 20] {
        let mut reader = FrameReader::new(limits, Phase::Open);
        let small =
            RawMessage::new(MessageHeader { seq: 2, ..MessageHeader::default() }, Piece::copy_from(b"x"));
        let sent =
            [encode_message(&message(REQUEST)).unwrap().to_vec(), encode_message(&small).unwrap().to_vec()]
                .concat();
        let mut frames = Vec::new();
        for mut bytes in sent.chunks(piece) {
            while !bytes.is_empty() {
                assert!(reader.segment_tail().is_none() && reader.held_bytes() < 100);
                let (taken, frame) = reader.feed(bytes).unwrap();
                bytes = &bytes[taken..];
                frames.extend(frame);
            }
        }
        let [refused, next] = &frames[..] else { panic!("{} frames", frames.len()) };
        assert_eq!(refused.preamble.segment_lengths()[3], (1 << 20) + 12_345);
        let (FrameBody::Message(refused), FrameBody::Message(next)) = (&refused.body, &next.body) else {
            panic!("not messages: {frames:?}")
        };
        assert!(refused.data.is_empty() && &refused.front[..] == b"front" && &next.front[..] == b"x");
        let mut damaged = sent.clone();
        damaged[500_000] ^= 1;
        let error = FrameReader::new(limits, Phase::Open).feed(&damaged).unwrap_err();
        assert!(matches!(error, FrameError::SegmentCrc { segment: 3, .. }), "{error}");
    }
    let sent = encode_message(&message(41)).unwrap().to_vec();
    let error = FrameReader::new(limits, Phase::Open).feed(&sent).unwrap_err();
    assert!(matches!(error, FrameError::TooLong { what: "data", limit: 1_048_576, .. }), "{error}");
}
