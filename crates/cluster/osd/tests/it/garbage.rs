//! Whatever a peer or the monitor sends: no panic, and the OSD still serves.

use crate::world::*;
use auth::SessionId;
use messages::{Message, MessageHeader, RawMessage};
use osd::{OsdEvent, OsdPhase};
use proptest::prelude::*;
use types::{Epoch, Profile};

fn world() -> World {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.open_client(CLIENT);
    w
}

/// What a real peer might say, to be damaged.
fn samples(w: &mut World) -> Vec<RawMessage> {
    let newest = w.mon.epoch();
    let mut all: Vec<Message> = vec![w.mon.maps_from(2).into(), w.mon.maps_from(0).into()];
    for i in 0..4 {
        all.push(w.op("x", newest + i, vec![write(b"data")]).into());
    }
    all.push(w.read("x").into());
    all.extend(w.mon.received.clone());
    let mut create = messages::OsdPgCreate2 { epoch: Epoch(newest), ..Default::default() };
    create.pgs.insert(pg(1, 77), (Epoch(newest), w.now));
    all.push(create.into());
    all.iter().map(|m| m.encode(Profile::PACIFIC.features_supported)).collect()
}

fn damaged(mut raw: RawMessage, at: usize, with: u8) -> RawMessage {
    let mut front = raw.front.to_vec();
    if let Some(byte) = front.len().checked_sub(1).and_then(|last| front.get_mut(at % (last + 1))) {
        *byte = with;
    }
    raw.front = front.into();
    raw
}

fn still_serves(w: &mut World) -> Result<(), TestCaseError> {
    if w.failed.is_some() || w.osd.state() != OsdPhase::Active {
        // It was told to stop, or a forged map of the right cluster and checksum took it out.
        return Ok(());
    }
    w.push_maps();
    let op = w.write("still here", b"yes");
    let epoch = w.osd.epoch();
    let op = messages::OsdOp { epoch, ..op };
    let tid = op.tid;
    // Another session than the one that misbehaved: that may wait for a map which never comes.
    let other = SessionId(55);
    w.open_client(other);
    w.send_op(other, op);
    prop_assert!(w.reply_to(other, tid).is_some(), "{:#?}", w.log);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_messages_do_no_harm(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<usize>(), any::<u8>(), any::<bool>()), 1..20)
    ) {
        let mut w = world();
        let samples = samples(&mut w);
        for (pick, at, with, from_mon) in picks {
            let raw = damaged(pick.get(&samples).clone(), at, with);
            let Ok(message) = Message::decode(&raw) else { continue };
            match (from_mon, w.mon.session) {
                (true, Some(attempt)) => {
                    w.event(OsdEvent::Mon(osd::MonClientEvent::Message(attempt, message)));
                }
                _ => w.event(OsdEvent::Message { session: CLIENT, message, bytes: raw.len() as u64 }),
            }
        }
        w.pass_ms(6000);
        still_serves(&mut w)?;
    }

    #[test]
    fn random_messages_of_every_known_type_do_no_harm(
        picks in prop::collection::vec(
            (any::<prop::sample::Index>(), 0u16..12, prop::collection::vec(any::<u8>(), 0..200)), 1..40)
    ) {
        let mut w = world();
        for (kind, version, front) in picks {
            let header = MessageHeader { kind: *kind.get(Message::KNOWN), version, ..MessageHeader::default() };
            let raw = RawMessage::new(header, front.into());
            let Ok(message) = Message::decode(&raw) else { continue };
            w.event(OsdEvent::Message { session: CLIENT, message, bytes: raw.len() as u64 });
        }
        still_serves(&mut w)?;
    }
}
