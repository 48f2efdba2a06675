//! Every message of the captures decodes with nothing left over and encodes again byte for byte.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Stream, streams};
use encoding::{Decode, Encode};
use messages::osd_op::{ListCursor, PgNlsResponse};
use messages::{Message, Op, OpArgs, OpCode, kind};
use types::{EntityType, Profile};

/// What messages of this direction are encoded for: what both sides have. OSDs that reconnect send no ident; they have
/// what their release has.
fn features(stream: &Stream, peer: &Stream) -> u64 {
    let fallback = if stream.server == "16.2" { Profile::PACIFIC } else { Profile::REEF };
    match (stream.features, peer.features) {
        (Some(a), Some(b)) => a & b,
        _ => fallback.features_supported,
    }
}

fn sender(stream: &Stream) -> EntityType {
    if stream.is_from_server() && stream.role() == "mon" { EntityType::Mon } else { EntityType::Osd }
}

fn check(stream: &Stream, peer: &Stream, counts: &mut BTreeMap<(String, &'static str), usize>) {
    for raw in &stream.messages {
        let kind = raw.header.kind;
        let name = kind::name(kind).unwrap_or_else(|| panic!("{:?}: no name for type {kind}", stream.path));
        let at = || format!("{:?}: {name} seq {}", stream.path, raw.header.seq);
        let message = Message::decode_exact(raw).unwrap_or_else(|e| panic!("{}: {e}", at()));
        assert_eq!(message.kind(), kind);
        assert_eq!(message.name(), name);
        let mut again = message.encode_from(sender(stream), features(stream, peer));
        // The session's part of the header.
        again.header.seq = raw.header.seq;
        again.header.ack_seq = raw.header.ack_seq;
        assert_eq!(again.header, raw.header, "{}", at());
        assert!(
            again.front == raw.front,
            "{}: front\n{message:?}\n{:02x?}\n{:02x?}",
            at(),
            &raw.front[..],
            &again.front[..]
        );
        assert_eq!(again.middle, raw.middle, "{}: middle", at());
        assert_eq!(again.data, raw.data, "{}: data", at());
        assert_eq!(again.header.to_array()[..], raw.header.to_array()[..]);
        *counts.entry((stream.server.clone(), name)).or_default() += 1;
    }
}

#[test]
fn every_message_of_every_capture_comes_back_byte_for_byte() {
    let mut counts = BTreeMap::new();
    for (a, b) in &streams() {
        check(a, b, &mut counts);
        check(b, a, &mut counts);
    }
    for server in ["16.2", "18.2", "20.2"] {
        for &kind in IN_CAPTURES {
            let name = kind::name(kind).unwrap();
            let count = counts.get(&(server.to_owned(), name)).copied().unwrap_or(0);
            assert!(count > 0, "no {name} in the captures of {server}");
            assert!(Message::KNOWN.contains(&kind), "{name} is not decoded");
        }
    }
    for &kind in IN_SOME_CAPTURES {
        let name = kind::name(kind).unwrap();
        assert!(counts.keys().any(|(_, counted)| *counted == name), "no {name} in the captures");
    }
}

/// Types that the captures of each release hold and that we decode.
const IN_CAPTURES: &[u16] = &[
    kind::MON_MAP,
    kind::MON_GET_MAP,
    kind::STATFS,
    kind::STATFS_REPLY,
    kind::MON_SUBSCRIBE,
    kind::MON_GET_VERSION,
    kind::MON_GET_VERSION_REPLY,
    kind::OSD_MAP,
    kind::OSD_OP,
    kind::OSD_OP_REPLY,
    kind::WATCH_NOTIFY,
    kind::POOL_OP,
    kind::POOL_OP_REPLY,
    kind::MON_COMMAND,
    kind::MON_COMMAND_ACK,
    kind::LOG,
    kind::LOG_ACK,
    kind::GET_POOL_STATS,
    kind::GET_POOL_STATS_REPLY,
    kind::CONFIG,
    kind::COMMAND,
    kind::COMMAND_REPLY,
    kind::MGR_MAP,
    kind::MGR_CONFIGURE,
    kind::MGR_REPORT,
    kind::MGR_COMMAND,
    kind::MGR_COMMAND_REPLY,
    kind::KV_DATA,
    kind::OSD_PING,
    kind::OSD_BOOT,
    kind::OSD_FAILURE,
    kind::OSD_ALIVE,
    kind::OSD_BEACON,
    kind::OSD_PG_CREATED,
    kind::OSD_PG_CREATE2,
    kind::OSD_MARK_ME_DEAD,
];

/// Types that only some release's captures hold.
const IN_SOME_CAPTURES: &[u16] = &[kind::FS_MAP, kind::PG_STATS];

/// Types that no capture holds; layout.rs has them.
const LAYOUT_ONLY: &[u16] = &[
    kind::PING,
    kind::SERVICE_MAP,
    kind::FS_MAP_USER,
    kind::MGR_OPEN,
    kind::MGR_UPDATE,
    kind::MGR_CLOSE,
    kind::MON_GET_OSD_MAP,
    kind::MON_SUBSCRIBE_ACK,
    kind::OSD_BACKOFF,
    kind::GET_CONFIG,
    kind::OSD_MARK_ME_DOWN,
    kind::OSD_FULL,
    kind::MON_GET_PURGED_SNAPS,
    kind::MON_GET_PURGED_SNAPS_REPLY,
    kind::REMOVE_SNAPS,
    kind::OSD_PG_TEMP,
    kind::PG_STATS_ACK,
    kind::OSD_PG_READY_TO_MERGE,
    kind::OSD_SCRUB2,
    kind::PG_INFO_QUERY,
    kind::PG_INFO_REPLY,
];

#[test]
fn every_known_type_is_held_to_a_capture_or_a_layout() {
    let mut tested = [IN_CAPTURES, IN_SOME_CAPTURES, LAYOUT_ONLY].concat();
    let mut known = Message::KNOWN.to_vec();
    tested.sort();
    known.sort();
    assert_eq!(tested, known);
}

/// Operations that the captures hold at least once.
const OPS: &[OpCode] = &[
    OpCode::READ,
    OpCode::STAT,
    OpCode::NOTIFY,
    OpCode::NOTIFY_ACK,
    OpCode::OMAPGETVALS,
    OpCode::WRITE,
    OpCode::WRITEFULL,
    OpCode::DELETE,
    OpCode::APPEND,
    OpCode::CREATE,
    OpCode::WATCH,
    OpCode::OMAPSETVALS,
    OpCode::SETALLOCHINT,
    OpCode::GETXATTR,
    OpCode::GETXATTRS,
    OpCode::SETXATTR,
    OpCode::RMXATTR,
    OpCode::CALL,
    OpCode::PGNLS,
];

fn check_op(op: &Op, seen: &mut BTreeSet<OpCode>) {
    assert!(op.code.name().is_some() && !matches!(op.args, OpArgs::Raw(_)), "{op:?}");
    // Nothing that clients of today send lies outside the arguments.
    let plain = Op::new(op.code, op.args.clone()).with_flags(op.flags).with_indata(op.indata.clone());
    assert_eq!(*op, plain);
    if op.code.is_pg() && !op.indata.is_empty() {
        let cursor = ListCursor::<()>::decode(op, |_, _| panic!("no capture has a filter")).unwrap();
        assert_eq!(ListCursor::plain(&cursor.cursor), op.indata);
    }
    seen.insert(op.code);
}

#[test]
fn captured_operations_have_typed_arguments_and_listings_come_back() {
    let (mut seen, mut listed) = (BTreeSet::new(), 0);
    for (a, b) in streams() {
        for raw in a.messages.iter().chain(&b.messages) {
            match Message::decode_exact(raw).unwrap() {
                Message::OsdOp(m) => {
                    assert_eq!(m.hobject().pool, m.locator.pool);
                    m.ops.iter().for_each(|op| check_op(op, &mut seen));
                }
                Message::OsdOpReply(m) => {
                    for result in &m.ops {
                        check_op(&result.op, &mut seen);
                        if result.op.code == OpCode::PGNLS && !result.outdata.is_empty() {
                            let bytes = result.outdata.to_vec();
                            let response = PgNlsResponse::from_bytes_exact(&bytes).unwrap();
                            assert_eq!(response.to_bytes(0), bytes);
                            listed += response.entries.len();
                        }
                    }
                }
                _ => {}
            }
        }
    }
    assert!(OPS.iter().all(|op| seen.contains(op)), "only {seen:?}");
    assert!(listed > 0);
}
