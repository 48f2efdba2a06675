//! What the fuzz targets run: one function a decoder, each from arbitrary bytes, which must return.
//!
//! `fuzz/fuzz_targets` gives them cargo-fuzz's bytes; the test `replay` gives them the committed corpus, so that what
//! was found once stays found without cargo-fuzz. Never asserts what a decoder returns, only what must hold for all
//! bytes: no panic, and what was decoded can be encoded.

mod connection;
mod export;
mod messenger;

use buffer::{Piece, Rope};
use encoding::{Decode, DecodeError, Encode};
use messages::{Message, MessageHeader, RawMessage};
use types::Profile;

pub use connection::{chunk, connection, frames};
pub use export::export;
pub use messenger::{PEER, Step, address, local, messenger};

/// A fuzz target's body.
pub type Body = fn(&[u8]);

/// All targets by their names.
pub const TARGETS: &[(&str, Body)] = &[
    ("frames", frames),
    ("connection", connection),
    ("messenger", messenger),
    ("message", message),
    ("osd_op", osd_op),
    ("osdmap", osdmap),
    ("osdmap_incremental", osdmap_incremental),
    ("monmap", monmap),
    ("mgrmap", mgrmap),
    ("crushmap", crushmap),
    ("transaction", transaction),
    ("pg_log", pg_log),
    ("object_info", object_info),
    ("command", command),
    ("conf", conf),
    ("disk", disk),
    ("block", block),
    ("wal", wal),
    ("export", export),
    ("study", study),
    ("class_calls", class_calls),
];

/// The feature word that everything is encoded again with.
const FEATURES: u64 = Profile::PACIFIC.features_supported;

fn round_trip<T: Decode + Encode>(data: &[u8]) {
    if let Ok(value) = T::from_bytes(data) {
        let _ = value.to_bytes(FEATURES);
    }
}

/// Decodes with checksums put right, so that mutations get past them.
fn decode_repaired<T: Decode>(data: &[u8]) -> Option<T> {
    let mut bytes = data.to_vec();
    for _ in 0..4 {
        match T::from_bytes(&bytes) {
            Ok(value) => return Some(value),
            Err(DecodeError::Checksum { expected, actual, .. }) => {
                let stated = expected.to_le_bytes();
                let at = bytes.windows(4).rposition(|window| window == stated)?;
                bytes.get_mut(at..at + 4)?.copy_from_slice(&actual.to_le_bytes());
            }
            Err(_) => return None,
        }
    }
    None
}

/// A message as bytes for [`message`] and [`osd_op`]: type, version and compat version (u16), length of the front
/// (u32), front, data.
pub fn flatten(raw: &RawMessage) -> Vec<u8> {
    let header = &raw.header;
    let mut out = Vec::new();
    for word in [header.kind, header.version, header.compat_version] {
        out.extend(word.to_le_bytes());
    }
    out.extend((raw.front.len() as u32).to_le_bytes());
    out.extend_from_slice(&raw.front);
    out.extend(raw.data.to_vec());
    out
}

fn unflatten(data: &[u8]) -> Option<RawMessage> {
    let (head, rest) = data.split_at_checked(10)?;
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let len = u32::from_le_bytes([head[6], head[7], head[8], head[9]]) as usize;
    let (front, data) = rest.split_at(len.min(rest.len()));
    let header =
        MessageHeader { kind: word(0), version: word(2), compat_version: word(4), ..Default::default() };
    let mut raw = RawMessage::new(header, Piece::copy_from(front));
    raw.data = Rope::copy_from(data);
    Some(raw)
}

fn run_message(raw: &RawMessage) {
    if let Ok(message) = Message::decode(raw) {
        let again = message.encode(FEATURES);
        assert!(Message::decode(&again).is_ok(), "{} is not read again", message.name());
        let _ = message.encode(0);
    }
}

/// Every message; a type that we don't know is one that we know, by its number.
pub fn message(data: &[u8]) {
    if let Some(mut raw) = unflatten(data) {
        if !Message::KNOWN.contains(&raw.header.kind) {
            raw.header.kind = Message::KNOWN[usize::from(raw.header.kind) % Message::KNOWN.len()];
        }
        run_message(&raw);
    }
}

/// MOSDOp and MOSDOpReply, with the operations inside.
pub fn osd_op(data: &[u8]) {
    if let Some(mut raw) = unflatten(data) {
        raw.header.kind =
            if raw.header.kind & 1 == 0 { messages::kind::OSD_OP } else { messages::kind::OSD_OP_REPLY };
        run_message(&raw);
    }
}

/// A full OSDMap, and placement on it.
pub fn osdmap(data: &[u8]) {
    if let Some(map) = decode_repaired::<maps::OsdMap>(data) {
        for pool in map.pools.keys().take(4) {
            for seed in [0, 7, u32::MAX] {
                let raw = types::PgId { pool: *pool, seed };
                let _ = map.raw_pg_to_pg(raw).map(|pg| map.pg_to_up_acting(pg));
            }
        }
        let _ = map.to_bytes(FEATURES);
    }
}

pub fn osdmap_incremental(data: &[u8]) {
    if let Some(inc) = decode_repaired::<maps::Incremental>(data) {
        let _ = inc.to_bytes(FEATURES);
    }
}

/// A MonMap.
pub fn monmap(data: &[u8]) {
    round_trip::<maps::MonMap>(data);
}

/// A MgrMap.
pub fn mgrmap(data: &[u8]) {
    round_trip::<maps::MgrMap>(data);
}

/// A CRUSH map, and its first rule.
pub fn crushmap(data: &[u8]) {
    if let Ok(mut map) = crush::CrushMap::from_bytes(data) {
        // One draw only: a damaged map can use up its budget of draws, which takes tens of milliseconds.
        let _ = map.do_rule(0, 1, 2, &[0x1_0000; 16], 1);
        let _ = map.to_bytes(FEATURES);
        let _ = map.add_osd(9, 1, "host1", Some("hdd"));
    }
}

/// A store's transaction.
pub fn transaction(data: &[u8]) {
    round_trip::<store::Transaction>(data);
}

/// A PG's log entry, info, history and statistics: the first byte chooses.
pub fn pg_log(data: &[u8]) {
    let Some((which, data)) = data.split_first() else { return };
    match which % 6 {
        0 => round_trip::<pg::LogEntry>(data),
        1 => round_trip::<pg::PgInfo>(data),
        2 => round_trip::<messages::PgHistory>(data),
        3 => round_trip::<messages::PastIntervals>(data),
        4 => round_trip::<pg::FastInfo>(data),
        _ => round_trip::<messages::PgStat>(data),
    }
}

/// An object's info and snap set: the first byte chooses.
pub fn object_info(data: &[u8]) {
    let Some((which, data)) = data.split_first() else { return };
    match which % 2 {
        0 => round_trip::<ops::ObjectInfo>(data),
        _ => round_trip::<ops::SnapSet>(data),
    }
}

/// A command's JSON.
pub fn command(data: &[u8]) {
    if let Ok(args) = mon::command::args::Args::parse(&[data]) {
        let _ = (args.prefix().map(str::len), args.format());
        for name in ["pool", "pg_num", "id", "ids", "weight", "prefix"] {
            let _ = (args.text(name), args.int(name), args.float(name), args.flag(name), args.list(name));
            let _ = args.osd(name);
        }
    }
}

/// A ceph.conf, its options set.
pub fn conf(data: &[u8]) {
    let Ok(file) = options::ConfFile::parse(&String::from_utf8_lossy(data)) else { return };
    let mut values = options::Values::new();
    for (name, value) in file.for_sections(&["global", "osd", "osd.0"]) {
        if values.set(name, value).is_ok() && options::lookup(name).is_some() {
            let _ = values.text(name);
        }
    }
}

/// What a store's directory says of itself, and an OSD's superblock: the first byte chooses.
pub fn disk(data: &[u8]) {
    let Some((which, data)) = data.split_first() else { return };
    match which % 2 {
        0 => round_trip::<simplestore::Label>(data),
        _ => round_trip::<messages::OsdSuperblock>(data),
    }
}

/// What is on a block store's device: the first byte chooses the decoder. Checksums of labels and superblocks are put
/// right.
pub fn block(data: &[u8]) {
    let Some((which, data)) = data.split_first() else { return };
    let mut bytes = data.to_vec();
    if let Err(DecodeError::Checksum { actual, .. }) = blockstore::decode_any(*which, &bytes) {
        bytes[..4].copy_from_slice(&actual.to_le_bytes());
        let _ = blockstore::decode_any(*which, &bytes);
    }
}

/// A write-ahead log: one record's header and body, and the bytes as a ring of records.
pub fn wal(data: &[u8]) {
    if let Ok(header) = wal::Header::decode(data) {
        assert_eq!(wal::Header::decode(&header.encode()), Ok(header));
    }
    let _ = wal::decode_body(data.len() as u32 % 5, data);
    let bytes = (data.len() as u64).next_multiple_of(512).max(512);
    let mut ring = data.to_vec();
    ring.resize(bytes as usize, 0);
    let layout = wal::Layout { offset: 0, bytes, unit_bytes: 512, id: 7 };
    let mut replay = wal::Replay::new(layout, wal::Opening::FIRST, 4096);
    while let Some((offset, len)) = replay.wanted() {
        replay.on_read(&ring[offset as usize..][..len]);
    }
    if let Ok(mut replayed) = replay.finish() {
        assert_eq!(replayed.end.sequence, 1 + replayed.records.len() as u64);
        let mut from = 0;
        while let Some((sequence, runs)) = replayed.unread(from) {
            from = sequence + 1;
            // What lies beside the log is zeros, and may be cut short.
            let bytes: usize = runs.iter().map(wal::Beside::bytes).sum();
            let _ = replayed.on_beside(sequence, &layout, &vec![0; bytes.min(64 << 10)].into());
        }
    }
}

/// A study file.
pub fn study(data: &[u8]) {
    if let Ok(study) = study::parse(&String::from_utf8_lossy(data), "study.yaml") {
        assert_eq!(study.variants.first().map(|v| v.name.as_str()), Some("default"));
    }
}

/// Calls of object classes on one object, each as class and method (their numbers, a byte each), the input's length (u16)
/// and the input.
pub fn class_calls(mut data: &[u8]) {
    let mut object = cls::testing::Object::empty();
    // So that no call costs much memory; many pages.
    object.limits.object_size_max = 1 << 16;
    object.limits.omap_entries_max = 3;
    for _ in 0..256 {
        let Some((head, rest)) = data.split_at_checked(4) else { return };
        let class = cls::CLASSES[usize::from(head[0]) % cls::CLASSES.len()];
        let method = &class.methods[usize::from(head[1]) % class.methods.len()];
        let len = usize::from(u16::from_le_bytes([head[2], head[3]])).min(rest.len());
        let (input, rest) = rest.split_at(len);
        object.call(class.name, method.name, input);
        data = rest;
    }
}
