//! Whatever a peer sends, decoding ends in a message or an error; and what was decoded can be encoded.

use crate::common;

use buffer::{Piece, Rope};
use encoding::DecodeError;
use messages::{Message, MessageHeader, RawMessage, kind};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use types::Profile;

const FEATURES: u64 = Profile::PACIFIC.features_supported;

/// A runner with a seed from LOLIGO_SEED, or from the clock; it is printed and so shown where a test fails.
fn runner(cases: u32) -> TestRunner {
    let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = std::env::var("LOLIGO_SEED").map_or_else(|_| clock(), |s| s.parse().unwrap());
    eprintln!("LOLIGO_SEED={seed}");
    let bytes: Vec<u8> = seed.to_le_bytes().repeat(4);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Decodes; where that works, what is encoded must decode and encode to the same bytes.
fn try_message(raw: &RawMessage) {
    if let Ok(message) = Message::decode(raw) {
        let once = message.encode(FEATURES);
        let again = Message::decode_exact(&once).unwrap_or_else(|e| panic!("{e}: {message:?}"));
        assert_eq!(again.encode(FEATURES), once, "{message:?}");
    }
}

fn known_kind() -> impl Strategy<Value = u16> {
    proptest::sample::select(Message::KNOWN)
}

#[test]
fn arbitrary_bytes_never_panic() {
    let bytes = || proptest::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..600);
    let strategy = (known_kind(), 0u16..12, 0u16..12, bytes(), bytes());
    let run = |(kind, version, compat_version, front, data): (u16, u16, u16, Vec<u8>, Vec<u8>)| {
        let header = MessageHeader { kind, version, compat_version, ..MessageHeader::default() };
        let raw = RawMessage { data: data.into(), ..RawMessage::new(header, front.into()) };
        try_message(&raw);
        Ok(())
    };
    runner(20_000).run(&strategy, run).unwrap();
}

/// What is done to a message's front.
#[derive(Clone, Debug)]
enum Damage {
    Set(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Remove(usize),
    Data(usize),
    Kind(u16),
    Version(u16),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        8 => (any::<usize>(), any::<u8>()).prop_map(|(at, b)| Damage::Set(at, b)),
        2 => (any::<usize>(), Just(255)).prop_map(|(at, b)| Damage::Set(at, b)),
        1 => any::<usize>().prop_map(Damage::Cut),
        1 => (any::<usize>(), proptest::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, b)| Damage::Insert(at, b)),
        1 => any::<usize>().prop_map(Damage::Remove),
        1 => any::<usize>().prop_map(Damage::Data),
        1 => known_kind().prop_map(Damage::Kind),
        1 => (0u16..12).prop_map(Damage::Version),
    ]
}

fn apply(raw: &mut RawMessage, damage: &Damage) {
    let mut front = raw.front.to_vec();
    let len = front.len();
    match damage {
        Damage::Set(at, byte) if len > 0 => front[at % len] = *byte,
        Damage::Cut(at) => front.truncate(at % (len + 1)),
        Damage::Insert(at, bytes) => {
            let at = at % (len + 1);
            front.splice(at..at, bytes.iter().copied());
        }
        Damage::Remove(at) if len > 0 => {
            front.remove(at % len);
        }
        Damage::Data(at) => {
            let keep = at % (raw.data.len() + 1);
            raw.data = raw.data.slice(0..keep);
        }
        Damage::Kind(kind) => raw.header.kind = *kind,
        Damage::Version(version) => raw.header.version = *version,
        Damage::Set(..) | Damage::Remove(_) => {}
    }
    raw.front = front.into();
}

/// One captured message of each type, version and size class.
fn samples() -> Vec<RawMessage> {
    let mut by_shape = std::collections::BTreeMap::new();
    for (a, b) in common::streams() {
        for raw in a.messages.into_iter().chain(b.messages) {
            let shape = (raw.header.kind, raw.header.version, raw.len().checked_ilog2());
            if Message::KNOWN.contains(&raw.header.kind) && raw.len() < 20_000 {
                by_shape.entry(shape).or_insert(raw);
            }
        }
    }
    by_shape.into_values().collect()
}

#[test]
fn damaged_captures_never_panic() {
    let samples = samples();
    assert!(samples.len() > 60, "only {} samples", samples.len());
    let strategy = (proptest::sample::select(samples), proptest::collection::vec(damage(), 1..5));
    let run = |(mut raw, damages): (RawMessage, Vec<Damage>)| {
        damages.iter().for_each(|d| apply(&mut raw, d));
        try_message(&raw);
        Ok(())
    };
    runner(20_000).run(&strategy, run).unwrap();
}

#[test]
fn every_cut_of_a_captured_message_is_an_error_or_a_message() {
    for raw in samples() {
        for len in 0..raw.front.len().min(300) {
            let cut = RawMessage { front: raw.front.slice(0..len), ..raw.clone() };
            // A manager map is opaque here, so any length will do.
            let ok = Message::decode(&cut).is_ok();
            assert!(!ok || raw.header.kind == kind::MGR_MAP, "{:?} cut to {len}", raw.header);
        }
    }
}

fn ping(version: u16, compat_version: u16, front: &[u8], data: &[u8]) -> Result<Message, DecodeError> {
    let header = MessageHeader { kind: kind::STATFS, version, compat_version, ..MessageHeader::default() };
    Message::decode(&RawMessage {
        data: Rope::copy_from(data),
        ..RawMessage::new(header, Piece::copy_from(front))
    })
}

#[test]
fn versions_and_leftovers_are_judged_as_ceph_does() {
    let Message::Statfs(_) = ping(2, 1, &[0; 35], b"").unwrap() else { panic!("not a statfs") };
    assert!(matches!(ping(1, 1, &[0; 35], b""), Err(DecodeError::TooOld { .. })));
    assert!(matches!(ping(3, 3, &[0; 35], b""), Err(DecodeError::TooNew { .. })));
    assert_eq!(ping(2, 1, &[0; 36], b""), Err(DecodeError::LeftOver(1)));
    // What a newer version appended is skipped.
    assert!(ping(3, 1, &[0; 36], b"").is_ok());
    assert_eq!(ping(2, 1, &[0; 35], b"x"), Err(DecodeError::LeftOver(1)));
}

#[test]
fn an_unknown_type_goes_out_as_it_came() {
    let header = MessageHeader { kind: 0xfff0, tid: 7, version: 3, ..MessageHeader::default() };
    let raw = RawMessage::new(header, Piece::copy_from(b"abc"));
    let message = Message::decode(&raw).unwrap();
    assert!(matches!(message, Message::Unknown { kind: 0xfff0, .. }));
    assert_eq!((message.name(), message.encode(0)), ("unknown message", raw));
}
