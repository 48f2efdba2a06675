//! The checks of the network's runs find peers that keep the rules of lossless sessions wrongly.

use crate::network::{Plan, Tamper, World};
use messenger::Role;
use msgr::{Control, Frame, FrameBody, FrameReader, Limits, Phase, Tag};
use types::SplitMix64;

const BANNER: &[u8] = b"ceph v2\n";
const BANNER_LEN: usize = 26;

/// Runs each frame of a flush through `change`, which gives the frames to send in its place.
fn each(bytes: Vec<u8>, mut change: impl FnMut(Frame, &[u8]) -> Vec<Vec<u8>>) -> Vec<u8> {
    let start = if bytes.starts_with(BANNER) { BANNER_LEN } else { 0 };
    let (mut out, mut rest) = (bytes[..start].to_vec(), &bytes[start..]);
    let mut reader = FrameReader::new(Limits::default(), Phase::Any);
    while !rest.is_empty() {
        let mut end = 0;
        let frame = loop {
            let (taken, frame) = reader.feed(&rest[end..]).unwrap();
            end += taken;
            match frame {
                Some(frame) => break frame,
                None => assert!(end < rest.len(), "a flush is whole frames"),
            }
        };
        let (raw, others) = rest.split_at(end);
        out.extend(change(frame, raw).concat());
        rest = others;
    }
    out
}

/// Changes control frames of one kind.
fn control(bytes: Vec<u8>, tag: Tag, change: impl Fn(Control) -> Control) -> Vec<u8> {
    each(bytes, |frame, raw| match frame.body {
        FrameBody::Control(payload) if frame.preamble.tag == tag => {
            vec![change(Control::decode(tag, &payload).unwrap()).encode_frame()]
        }
        _ => vec![raw.to_vec()],
    })
}

/// Whether a run with this flaw is found wrong with some of the seeds.
fn is_found(tamper: Tamper) -> bool {
    (1..=40).any(|seed| {
        let plan = Plan { seed, nodes: 2, role: Role::Cluster, steps: 600, fault_every: 20 };
        World::run(plan, Some(tamper)).and_then(|world| world.check_lossless()).is_err()
    })
}

#[test]
fn frames_that_are_passed_on_unchanged_change_nothing() {
    let unchanged: Tamper = |_, bytes| each(bytes, |_, raw| vec![raw.to_vec()]);
    assert!(!is_found(unchanged));
}

#[test]
fn acknowledging_what_did_not_come_is_found() {
    let acknowledges: Tamper = |_, bytes| {
        control(bytes, Tag::Ack, |control| match control {
            Control::Ack(seq) => Control::Ack(seq + 1000),
            other => other,
        })
    };
    assert!(is_found(acknowledges));
}

#[test]
fn claiming_at_a_reconnection_what_did_not_come_is_found() {
    let claims: Tamper = |_, bytes| {
        control(bytes, Tag::SessionReconnectOk, |control| match control {
            Control::ReconnectOk(seq) => Control::ReconnectOk(seq + 1000),
            other => other,
        })
    };
    assert!(is_found(claims));
}

#[test]
fn forgetting_a_session_at_a_reconnection_is_found() {
    let forgets: Tamper =
        |_, bytes| control(bytes, Tag::SessionReconnectOk, |_| Control::Reset { full: true });
    assert!(is_found(forgets));
}

#[test]
fn a_client_cookie_that_changes_with_each_dial_is_found() {
    let changes: Tamper = |random, bytes| {
        let cookie = random.next_u64();
        control(bytes, Tag::ClientIdent, |control| match control {
            Control::ClientIdent(ident) => Control::ClientIdent(msgr::ClientIdent { cookie, ..ident }),
            other => other,
        })
    };
    assert!(is_found(changes));
}

#[test]
fn losing_a_message_without_breaking_the_connection_is_found() {
    let loses: Tamper = |random: &mut SplitMix64, bytes| {
        each(bytes, |frame, raw| match frame.preamble.tag == Tag::Message && random.below(100) == 0 {
            true => Vec::new(),
            false => vec![raw.to_vec()],
        })
    };
    assert!(is_found(loses));
}

#[test]
fn messages_out_of_order_are_found() {
    let swaps: Tamper = |_, bytes| {
        let mut held = Vec::new();
        let mut out = each(bytes, |frame, raw| {
            if frame.preamble.tag == Tag::Message && held.is_empty() {
                held = raw.to_vec();
                return Vec::new();
            }
            vec![raw.to_vec(), std::mem::take(&mut held)]
        });
        out.extend(held);
        out
    };
    assert!(is_found(swaps));
}
