//! Makes the first corpus of every fuzz target out of tests/captures and of values of our own:
//! `cargo run -p fuzzbodies --example corpus`. Files that a fuzzer found stay where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::{ClientNone, ServerNone, Service};
use buffer::{Piece, Rope, crc32c};
use encoding::{Decode, Encode};
use fuzzbodies::{PEER, Step, address, chunk, flatten, local};
use messages::{Message, MonGetVersion, RawMessage};
use messenger::Role;
use msgr::{Accept, Connect, Connection, Effect, Frame, FrameBody, FrameReader, Limits, Phase, Session};
use storetool::{Header, Record, StreamWriter};
use types::{
    EVersion, EntityName, EntityType, Epoch, Fsid, GHObject, HObject, Name, OsdId, PgId, PoolId, Profile,
    ReqId, SpgId, UTime,
};

const FEATURES: u64 = Profile::PACIFIC.features_supported;
const BANNER_LEN: usize = 26;
/// A file of the corpus at most: long ones make a fuzzer slow and the repository big.
const FILE_BYTES_MAX: usize = 12_000;

/// What was chosen so far: a few of each shape.
#[derive(Default)]
struct Corpus {
    files: BTreeMap<&'static str, BTreeMap<String, BTreeSet<Vec<u8>>>>,
}

impl Corpus {
    fn add(&mut self, target: &'static str, shape: String, keep: usize, bytes: Vec<u8>) {
        let files = self.files.entry(target).or_default().entry(shape).or_default();
        if bytes.len() <= FILE_BYTES_MAX && files.len() < keep {
            files.insert(bytes);
        }
    }

    fn write(&self, root: &Path) {
        for (target, shapes) in &self.files {
            let dir = root.join(target);
            std::fs::create_dir_all(&dir).expect("a directory for the corpus");
            for bytes in shapes.values().flatten() {
                let name = format!("{:08x}-{}", crc32c(!0, bytes), bytes.len());
                std::fs::write(dir.join(name), bytes).expect("a corpus file");
            }
            println!("{target}: {}", shapes.values().map(BTreeSet::len).sum::<usize>());
        }
    }
}

/// A peer that dials the target, or that the target dials: its bytes as the target sees them.
fn add_messenger(corpus: &mut Corpus) {
    for (number, role) in [(0u8, Role::Public), (1, Role::Cluster), (2, Role::HeartbeatBack)] {
        let port = 6800 + u16::from(number);
        for peer_dials in [true, false] {
            let (dials, accepts) = if peer_dials { (PEER, port) } else { (port, PEER) };
            let bytes = conversation(role, dials, accepts, peer_dials);
            let mut out = match peer_dials {
                true => vec![Step::Accept as u8, number],
                false => vec![Step::SendPeer as u8, number, Step::Connected as u8, 0],
            };
            for bytes in bytes {
                out.extend([vec![Step::Bytes as u8, 0], chunk(false, &bytes)].concat());
            }
            out.extend([Step::Session as u8, 1, Step::EndOfStream as u8, 0, Step::SendPeer as u8, number]);
            out.extend([Step::Pass as u8, 10, Step::Session as u8, 64]);
            corpus.add("messenger", format!("{role:?} {peer_dials}"), 1, out);
        }
    }
}

/// What the peer writes, in pieces, while a session opens and brings two messages.
fn conversation(role: Role, dials: u16, accepts: u16, peer_dials: bool) -> Vec<Vec<u8>> {
    let lossless = !role.lossless_peers().is_empty();
    let method = Box::new(ClientNone::new(Service::Daemon, "osd.1".parse().expect("an entity"), 0));
    let connect = Connect {
        target: address(accepts),
        peer_kind: EntityType::Osd,
        method,
        global_seq: 5,
        session: lossless.then(|| (Session::lossless(), 77)),
    };
    let method = Box::new(ServerNone::new(Service::Daemon));
    let accept = Accept { peer: address(dials), method, global_seq: 5 };
    let mut ends = [
        Connection::connect(Arc::new(local(1, dials, role)), connect),
        Connection::accept(Arc::new(local(1, accepts, role)), accept),
    ];
    let mut out = Vec::new();
    for _ in 0..10 {
        for end in 0..2 {
            let mut bytes = Vec::new();
            while let Some(effect) = ends[end].poll() {
                match effect {
                    Effect::Write(rope) => bytes.extend(rope.to_vec()),
                    Effect::SessionWanted(_) => ends[end].open_session(Session::lossless(), 9, 6),
                    Effect::Established(_) if (end == 0) == peer_dials => {
                        for handle in 1..=2 {
                            let message = MonGetVersion { handle, what: "osdmap".into() };
                            ends[end].send(Message::from(message).encode(FEATURES));
                        }
                    }
                    _ => {}
                }
            }
            ends[1 - end].feed(&bytes);
            if (end == 0) == peer_dials && !bytes.is_empty() {
                out.push(bytes);
            }
        }
    }
    out
}

fn streams(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("captures") {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            streams(&path, out);
        } else if path.extension().is_some_and(|e| e == "c2s" || e == "s2c") {
            out.push(path);
        }
    }
    out.sort();
}

/// The frames of a stream, with their bytes.
fn frames_of(mut body: &[u8]) -> Vec<(Frame, Vec<u8>)> {
    let (mut reader, mut out) = (FrameReader::new(Limits::default(), Phase::Any), Vec::new());
    while !body.is_empty() {
        let (taken, frame) = reader.feed(body).expect("a captured frame");
        let (bytes, rest) = body.split_at(taken);
        body = rest;
        out.extend(frame.map(|frame| (frame, bytes.to_vec())));
    }
    out
}

fn add_stream(corpus: &mut Corpus, path: &Path) {
    let bytes = std::fs::read(path).expect("a capture");
    let client = path.extension().is_some_and(|e| e == "c2s");
    let role: String = path.file_stem().map(|s| s.to_string_lossy()[3..].into()).unwrap_or_default();
    let frames = frames_of(&bytes[BANNER_LEN..]);
    let mut conversation = vec![if client { if role == "mon" { 2 } else { 10 } } else { 6 }];
    conversation.extend(chunk(false, &bytes[..BANNER_LEN]));
    let mut tags = String::new();
    for (frame, encoded) in &frames {
        if encoded.len() < 2000 && conversation.len() < 4000 {
            conversation.extend(chunk(true, encoded));
            tags.push((b'a' + frame.preamble.tag.number()) as char);
        }
        let small = [vec![1], chunk(true, encoded)].concat();
        corpus.add("frames", format!("{:?} {:?}", frame.preamble.tag, frame.preamble.count), 3, small);
        if let FrameBody::Message(message) = &frame.body {
            add_message(corpus, message);
        }
    }
    tags.truncate(12);
    corpus.add("connection", format!("{client} {role} {tags}"), 1, conversation);
}

fn add_message(corpus: &mut Corpus, raw: &RawMessage) {
    let Ok(message) = Message::decode(raw) else { return };
    let shape = format!("{} {}", raw.header.kind, raw.header.version);
    match &message {
        Message::OsdOp(op) => {
            let codes: Vec<_> = op.ops.iter().map(|op| std::mem::discriminant(&op.args)).collect();
            corpus.add("osd_op", format!("{shape} {codes:?}"), 1, flatten(raw));
        }
        Message::OsdOpReply(_) => {
            corpus.add("osd_op", format!("{shape} {}", raw.front.len() / 64), 1, flatten(raw))
        }
        Message::Unknown { .. } => {}
        Message::OsdMap(m) => {
            for blob in m.maps.values() {
                if let Ok(map) = maps::OsdMap::from_bytes(&blob.0) {
                    corpus.add("crushmap", "captured".into(), 3, map.crush.to_bytes(FEATURES));
                }
                corpus.add(
                    "osdmap",
                    blob.0.get(..2).map(|v| format!("{v:?}")).unwrap_or_default(),
                    3,
                    blob.0.to_vec(),
                );
            }
            for blob in m.incremental_maps.values() {
                let shape = format!("{:?} {}", blob.0.get(8..9), blob.0.len() / 32);
                corpus.add("osdmap_incremental", shape, 1, blob.0.to_vec());
            }
            corpus.add("message", shape, 2, flatten(raw));
        }
        Message::MonMap(m) => {
            corpus.add("monmap", "captured".into(), 4, m.map.0.to_vec());
            corpus.add("message", shape, 1, flatten(raw));
        }
        Message::MgrMap(m) => {
            corpus.add("mgrmap", format!("{:?}", m.map.0.first()), 3, m.map.0.to_vec());
            corpus.add("message", shape, 1, flatten(raw));
        }
        Message::MonCommand(m) => {
            if let Some(json) = m.cmd.first() {
                let prefix: String = String::from_utf8_lossy(json).chars().take(30).collect();
                corpus.add("command", prefix, 1, json.as_bytes().to_vec());
            }
            corpus.add("message", shape, 1, flatten(raw));
        }
        _ => corpus.add("message", shape, 2, flatten(raw)),
    }
}

fn add_own(corpus: &mut Corpus) {
    let pg = PgId { pool: PoolId(3), seed: 7 };
    let object =
        HObject::head(PoolId(3), Name::from("space"), Name::from("key"), Name::from("object"), 0x1234_5678);
    let version = |n| EVersion { epoch: Epoch(9), version: n };
    let entry = pg::LogEntry {
        kind: pg::EntryKind::Modify,
        oid: object.clone(),
        version: version(5),
        prior_version: version(4),
        user_version: 5,
        reqid: ReqId { name: EntityName::new(EntityType::Client, 4123), tid: 8, inc: 0 },
        mtime: UTime { sec: 1, nsec: 2 },
        clean_regions: ops::CleanRegions::default(),
        return_code: 0,
        extras: pg::EntryExtras {
            extra_reqids: vec![(ReqId { name: EntityName::new(EntityType::Client, 5), tid: 6, inc: 7 }, 3)],
            extra_return_codes: [(0, -2)].into(),
            op_returns: vec![ops::OpReturn { rval: -17, data: Rope::copy_from(b"data") }],
            ..pg::EntryExtras::default()
        }
        .into(),
    };
    let mut add = |target, which: u8, bytes: Vec<u8>| {
        corpus.add(target, format!("own {which}"), 9, [vec![which], bytes].concat());
    };
    for kind in [pg::EntryKind::Modify, pg::EntryKind::Error, pg::EntryKind::LostRevert, pg::EntryKind::Clone]
    {
        add("pg_log", 0, pg::LogEntry { kind, ..entry.clone() }.to_bytes(FEATURES));
    }
    add("pg_log", 1, pg::PgInfo::new(SpgId::from(pg)).to_bytes(FEATURES));
    add("pg_log", 2, messages::PgHistory::default().to_bytes(FEATURES));
    add("pg_log", 3, messages::PastIntervals::default().to_bytes(FEATURES));
    add("pg_log", 3, messages::PastIntervals(Some(messages::CompactIntervals::default())).to_bytes(FEATURES));
    add("object_info", 0, ops::ObjectInfo::new(object.clone()).to_bytes(FEATURES));
    add("object_info", 1, ops::SnapSet::default().to_bytes(FEATURES));
    let (cluster, osd_uuid, osd) = (types::Fsid([1; 16]), types::Fsid([2; 16]), types::OsdId(3));
    let label = simplestore::Label { cluster, osd, osd_uuid, size_bytes: 10 << 30 };
    add("disk", 0, label.to_bytes(FEATURES));
    add("disk", 1, messages::OsdSuperblock::new(cluster, osd, osd_uuid).to_bytes(FEATURES));
    for (which, bytes) in blockstore::samples() {
        add("block", which, bytes);
    }
    let layout = wal::Layout { offset: 0, bytes: 4096, unit_bytes: 512, id: 7 };
    let mut log = wal::Log::new(layout, 1, wal::Position::START, wal::Position::START);
    let mut ring = Vec::new();
    for payload in [vec![1; 700], vec![]] {
        let beside = [wal::Beside { offset: 4096, checksums: vec![1, 2] }];
        let begun = log.begin(Rope::from(payload), &beside).expect("an empty log has room");
        begun.writes.iter().for_each(|write| ring.extend(write.data.to_vec()));
        log.on_durable();
    }
    corpus.add("wal", "own".into(), 9, ring);
    let (collection, object) = (store::CollectionId::Pg(SpgId::from(pg)), GHObject::from(object));
    corpus.add("export", "own".into(), 9, export(cluster, osd, pg, &object));
    let mut steps = store::Transaction::default();
    steps.create_collection(collection, 3).touch(collection, &object);
    steps.write(collection, &object, 4096, Piece::copy_from(b"payload").into());
    steps.zero(collection, &object, 1, 2).truncate(collection, &object, 3);
    steps.omap_set(collection, &object, vec![(Name::from("k"), b"v".to_vec().into())]);
    steps.log_trim(collection, version(4)).remove(collection, &object);
    corpus.add("transaction", "own".into(), 9, steps.to_bytes(FEATURES));
}

/// An exported PG with a record of each kind.
fn export(cluster: Fsid, osd: OsdId, pg: PgId, object: &GHObject) -> Vec<u8> {
    let header = Header { cluster, osd, epoch: Epoch(9), pool: "p".into(), pg_num: 8, pg };
    let mut file = Vec::new();
    let mut stream = StreamWriter::new(&mut file, &header).expect("memory takes all");
    let collection = store::CollectionId::Pg(SpgId::from(pg));
    let value = || Piece::copy_from(b"value");
    let stat = store::ObjectStat { size: 5000, hint: Some(store::AllocHint::default()) };
    let version = |version| EVersion { epoch: Epoch(9), version };
    let entry = |kind| store::LogRecord { version: version(3), kind, bytes: value() };
    for record in [
        Record::Collection { collection, bits: 3, log_tail: version(1) },
        Record::Object {
            object: object.clone(),
            stat,
            attrs: [(Name::from("_"), value())].into_iter().collect(),
        },
        Record::Data { offset: 4096, data: value().into() },
        Record::OmapHeader(value()),
        Record::Omap(vec![(Name::from("a"), value()), (Name::from("b"), Piece::default())]),
        Record::Log(vec![entry(store::LogRecordKind::Entry), entry(store::LogRecordKind::Duplicate)]),
        Record::End { log_head: version(4), info: value() },
    ] {
        stream.put(&record).expect("memory takes all");
    }
    file
}

/// Every method of each class, called with inputs of a few shapes, on an image's header.
fn add_class_calls(corpus: &mut Corpus) {
    let (number, name, features) = (3_u64.to_bytes(0), "ab".to_bytes(0), 0x63_u64.to_bytes(0));
    let envelope = |inner: Vec<u8>| [vec![1, 1], (inner.len() as u32).to_le_bytes().into(), inner].concat();
    let shapes = [
        [number.clone(), number.clone(), name.clone()].concat(),
        [name.clone(), number.clone(), number.clone()].concat(),
        [name.clone(), name.clone(), envelope([name.clone(), vec![1, 1]].concat())].concat(),
        [number.clone(), envelope([number.clone(), name.clone(), name.clone(), number.clone()].concat())]
            .concat(),
        envelope([name.clone(), vec![1], name.clone(), name.clone(), number.clone(), vec![0; 40]].concat()),
        envelope([number.clone(), vec![0; 60]].concat()),
    ];
    let create = [&number[..], &[22], &features, &name].concat();
    let at = |class: &str, method: &str| {
        let class_at = cls::CLASSES.iter().position(|c| c.name == class).expect("a class");
        let method_at = cls::CLASSES[class_at].methods.iter().position(|m| m.name == method);
        [class_at as u8, method_at.expect("a method") as u8]
    };
    let call = |at: [u8; 2], input: &[u8]| [&at[..], &(input.len() as u16).to_le_bytes(), input].concat();
    for class in cls::CLASSES {
        for (number, shape) in shapes.iter().enumerate() {
            let mut calls = call(at("rbd", "create"), &create);
            calls.extend(class.methods.iter().flat_map(|m| call(at(class.name, m.name), shape)));
            corpus.add("class_calls", format!("{} {number}", class.name), 1, calls);
        }
    }
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut paths = Vec::new();
    streams(&root.join("tests/captures"), &mut paths);
    let mut corpus = Corpus::default();
    paths.iter().for_each(|path| add_stream(&mut corpus, path));
    add_messenger(&mut corpus);
    add_own(&mut corpus);
    add_class_calls(&mut corpus);
    corpus.write(&root.join("fuzz/corpus"));
}
